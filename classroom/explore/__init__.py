"""Explorers: move a control and see the idea. One line in a notebook.

Each takes the learner's own class or function and shows it beside its own.
"""

from classroom.explore.attention import explore_attention
from classroom.explore.configuration import explore_configuration
from classroom.explore.gelu import explore_gelu
from classroom.explore.generation import explore_generation
from classroom.explore.gradients import explore_gradients
from classroom.explore.layer_norm import explore_layer_norm
from classroom.explore.model import explore_model
from classroom.explore.parameters import explore_parameters

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
