"""Explorers: move a control and see the idea. One line in a notebook."""

from gptlib.explore.attention import explore_attention
from gptlib.explore.configuration import explore_configuration
from gptlib.explore.gelu import explore_gelu
from gptlib.explore.generation import explore_generation
from gptlib.explore.gradients import explore_gradients
from gptlib.explore.layer_norm import explore_layer_norm
from gptlib.explore.model import explore_model
from gptlib.explore.parameters import explore_parameters

__all__ = [
    "explore_attention",
    "explore_configuration",
    "explore_gelu",
    "explore_generation",
    "explore_gradients",
    "explore_layer_norm",
    "explore_model",
    "explore_parameters",
]
