"""Is a learner's own answer right, and if not, which mistake is it?

Each check takes the answer (a class or a function) and returns a
`CheckResult`; `hint(name)` gives the exercise's next hint. One file for each
outcome; `python -m classroom.checks PATH…` checks a folder of notebooks.
"""
# ruff: noqa: F401 (the catalogue lists what is offered)

from classroom.checks.attention import multi_head_attention
from classroom.checks.block import drop_rates, post_norm, transformer_block
from classroom.checks.catalogue import EXERCISES
from classroom.checks.gelu_and_feed_forward import feed_forward, gelu, swiglu
from classroom.checks.generation import batch_prompts, generate, stop_at_end
from classroom.checks.gpt_skeleton import (
    predict_shapes,
    round_trip,
    skeleton,
)
from classroom.checks.guard import hint
from classroom.checks.kept_attention import cached_attention
from classroom.checks.layer_normalization import layer_norm, rms_norm
from classroom.checks.model import broken_models, gpt_model
from classroom.checks.parameters import fit_xl, parameter_count
from classroom.checks.result import CheckResult
from classroom.checks.shortcut_connections import shortcut, vanishing_depth

__all__ = ["CheckResult", "hint"]
__all__ += [name for checks in EXERCISES.values() for name in checks]
