"""Is a learner's own answer right, and if not, which mistake is it?

Each check takes the answer (a class or a function) and returns a
`CheckResult`; `hint(name)` gives the exercise's next hint. One file for each
outcome; `python -m gptlib.checks PATH…` checks a folder of notebooks.
"""

from gptlib.checks.attention import multi_head_attention
from gptlib.checks.block import drop_rates, post_norm, transformer_block
from gptlib.checks.feed_forward import feed_forward, gelu, swiglu
from gptlib.checks.generation import batch_prompts, generate, stop_at_end
from gptlib.checks.guard import hint
from gptlib.checks.layer_norm import layer_norm, rms_norm
from gptlib.checks.model import broken_models, gpt_model
from gptlib.checks.parameters import fit_xl, parameter_count
from gptlib.checks.result import CheckResult
from gptlib.checks.shortcut import shortcut, vanishing_depth
from gptlib.checks.skeleton import predict_shapes, round_trip, skeleton

__all__ = [
    "CheckResult",
    "batch_prompts",
    "broken_models",
    "drop_rates",
    "feed_forward",
    "fit_xl",
    "gelu",
    "generate",
    "gpt_model",
    "hint",
    "layer_norm",
    "multi_head_attention",
    "parameter_count",
    "post_norm",
    "predict_shapes",
    "rms_norm",
    "round_trip",
    "shortcut",
    "skeleton",
    "stop_at_end",
    "swiglu",
    "transformer_block",
    "vanishing_depth",
]
