"""Explorer 07: how many parameters, and which memory holds them."""

from contextlib import ExitStack

import ipywidgets as widgets

from classroom import plots
from classroom.explore.explorer import Explorer, choice, slider, switch
from gptlib.config import GPT2_CONFIGS, GPT_CONFIG_124M, check_config

BYTES = {"float32": 4, "bfloat16": 2}
CAPACITIES = {f"{gb} GB": gb * 10**9 for gb in (1, 2, 8, 16, 80)}


def parameter_formula(cfg, tied=False):
    """Number of parameters of a model, without building it.

    The same number as `gptlib.count_parameters`, in a fraction of the time.

    Raises:
        ValueError: the configuration is impossible.
    """
    check_config(cfg)
    d, table = cfg["emb_dim"], cfg["vocab_size"] * cfg["emb_dim"]
    attention = 4 * d * d + d + 3 * d * cfg["qkv_bias"]
    feed_forward = 8 * d * d + 5 * d
    block = attention + feed_forward + 2 * 2 * d  # two norms of 2 d each
    positions = cfg["context_length"] * d
    return table * (2 - tied) + positions + cfg["n_layers"] * block + 2 * d


def memory_need(cfg, dtype="float32", tied=False, training=False):
    """Number of parameters, and kind of memory → bytes.

    Training adds a gradient and AdamW's two averages for each parameter,
    each in the model's own dtype, as PyTorch makes them.

    Raises:
        ValueError: the configuration is impossible.
    """
    count = parameter_formula(cfg, tied)
    weights = count * BYTES[dtype]
    need = {"weights": weights}
    if training:
        need |= {"gradients": weights, "AdamW states": 2 * weights}
    return count, need


def explore_parameters():
    """Set up a model: how many parameters, how many bytes, does it fit?"""
    sizes = _size_sliders()
    explorer = Explorer(
        _draw,
        {
            "Configuration": sizes,
            "Memory": {
                "dtype": choice("number type", list(BYTES)),
                "tied": switch("embedding and head share one table (tied)"),
                "training": switch("training with AdamW"),
            },
        },
    )
    explorer.children = [_presets(sizes), *explorer.children]
    return explorer


def _draw(dtype, tied, training, **sizes):
    cfg = GPT_CONFIG_124M | sizes
    count, need = memory_need(cfg, dtype, tied, training)
    return plots.memory_fit(count, need, CAPACITIES)


def _size_sliders():
    cfg = GPT_CONFIG_124M
    ranges = {  # least, most, step; the four sizes of GPT-2 lie on the steps
        "vocab_size": ("tokens", 257, 100257, 1000),
        "context_length": ("tokens", 128, 4096, 128),
        "emb_dim": ("features", 64, 4096, 64),
        "n_heads": ("in a block", 1, 64),
        "n_layers": ("blocks", 1, 96),
    }
    sliders = {
        key: slider(f"{key} ({unit})", cfg[key], *ends)
        for key, (unit, *ends) in ranges.items()
    }
    bias = switch("query, key and value biases (qkv_bias)", cfg["qkv_bias"])
    return sliders | {"qkv_bias": bias}


def _presets(sizes):
    """A button for each size of GPT-2, which moves the sliders."""

    def press(button):
        with ExitStack() as all_set:  # or settings on the way would be drawn
            for control in sizes.values():
                all_set.enter_context(control.hold_trait_notifications())
            for key, control in sizes.items():
                control.value = GPT2_CONFIGS[button.description][key]

    buttons = []
    for name in GPT2_CONFIGS:
        button = widgets.Button(description=name, layout={"width": "auto"})
        button.on_click(press)
        buttons.append(button)
    row = widgets.HBox(buttons, layout={"flex_flow": "row wrap"})
    return widgets.VBox([widgets.HTML("<b>Sizes of GPT-2</b>"), row])
