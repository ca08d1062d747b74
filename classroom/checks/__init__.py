"""Is a learner's own answer right, and if not, which mistake is it?

Each check takes the answer (a class or a function) and returns a
`CheckResult`; `progress(notebook)` tells which exercises are done. One file
for each outcome; `python -m classroom.checks PATH…` checks a folder of
notebooks.
"""
# ruff: noqa: F401 (the catalogue lists what is offered)

from classroom.checks.attention import multi_head_attention
from classroom.checks.block import drop_rates, transformer_block
from classroom.checks.catalogue import EXERCISES
from classroom.checks.deep_stacks import signal_per_layer, thirty_layers
from classroom.checks.gelu_and_feed_forward import (
    feed_forward,
    gelu,
    gelu_slope,
    is_position_wise,
)
from classroom.checks.generation import batch_prompts, generate, stop_at_end
from classroom.checks.gpt_skeleton import (
    configuration,
    last_logits,
    skeleton,
)
from classroom.checks.kept_attention import cached_attention
from classroom.checks.layer_normalization import (
    faulty_norms,
    layer_norm,
    rms_norm,
)
from classroom.checks.model import broken_models, deepen, gpt_model
from classroom.checks.parameters import deepest, parameter_count
from classroom.checks.referee import torch_referee
from classroom.checks.result import CheckResult
from classroom.checks.shortcut_connections import shortcut
from classroom.checks.standing import progress
from classroom.checks.tying import tie_weights

__all__ = ["CheckResult", "progress"]
__all__ += [name for checks in EXERCISES.values() for name in checks]
