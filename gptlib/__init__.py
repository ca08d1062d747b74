"""The parts of a GPT, one concept a file, as the notebooks build them.

A name is fetched from its file when it is first asked for. So this can be
imported where torch can't, as the classroom's doctor needs it.
"""

from importlib import import_module

_FILES = {
    "attention": ["MultiHeadAttention"],
    "block": ["TransformerBlock"],
    "cache": ["generate_text_cached"],
    "config": ["GPT2_CONFIGS", "GPT_CONFIG_124M", "check_config"],
    "feed_forward": ["GELU", "FeedForward"],
    "generation": ["generate_text_simple"],
    "layer_norm": ["LayerNorm"],
    "layout": ["to_input_major"],
    "memory": [
        "count_parameters",
        "model_size_mb",
        "parameter_formula",
        "parameters_by_part",
    ],
    "model": ["GPTModel"],
    "pretrained": ["load_gpt2"],
    "shortcut": [
        "ExampleDeepNeuralNetwork",
        "gradient_means",
        "print_gradients",
    ],
    "skeleton": ["DummyGPTModel", "DummyLayerNorm", "DummyTransformerBlock"],
    "tokenizer": ["gpt2_tokenizer"],
}
_FILE_OF = {name: file for file, names in _FILES.items() for name in names}

__all__ = sorted(_FILE_OF)


def __getattr__(name):
    if name not in _FILE_OF:
        raise AttributeError(f"module 'gptlib' has no attribute {name!r}")
    return getattr(import_module(f"gptlib.{_FILE_OF[name]}"), name)


def __dir__():
    return [*globals(), *__all__]
