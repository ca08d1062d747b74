"""The parts of a GPT, one concept a file, as the notebooks build them."""

from gptlib.attention import MultiHeadAttention
from gptlib.block import TransformerBlock
from gptlib.config import GPT2_CONFIGS, GPT_CONFIG_124M, check_config
from gptlib.feed_forward import GELU, FeedForward
from gptlib.generation import generate_text_simple
from gptlib.layer_norm import LayerNorm
from gptlib.memory import count_parameters, model_size_mb, parameters_by_part
from gptlib.model import GPTModel
from gptlib.shortcut import (
    ExampleDeepNeuralNetwork,
    gradient_means,
    print_gradients,
)
from gptlib.skeleton import (
    DummyGPTModel,
    DummyLayerNorm,
    DummyTransformerBlock,
)
from gptlib.tokenizer import gpt2_tokenizer

__all__ = [
    "GPT2_CONFIGS",
    "GPT_CONFIG_124M",
    "DummyGPTModel",
    "DummyLayerNorm",
    "DummyTransformerBlock",
    "ExampleDeepNeuralNetwork",
    "FeedForward",
    "GELU",
    "GPTModel",
    "LayerNorm",
    "MultiHeadAttention",
    "TransformerBlock",
    "check_config",
    "count_parameters",
    "generate_text_simple",
    "gpt2_tokenizer",
    "gradient_means",
    "model_size_mb",
    "parameters_by_part",
    "print_gradients",
]
