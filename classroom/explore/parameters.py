"""Explorer 07: how many parameters, and which memory holds them."""

import functools
from contextlib import ExitStack
from numbers import Real

import ipywidgets as widgets

from classroom.explore.explorer import Explorer, choice, slider, steps, switch
from classroom.explore.own import MARK, attempt
from classroom.picture import (
    Picture,
    digits,
    label_axes,
    legend_patch,
    memory_looks,
    names_down,
    note,
    styled,
)
from gptlib.config import PUBLISHED, SMALLEST
from gptlib.memory import parameter_formula

BYTES = {"float32": 4, "bfloat16": 2}
CAPACITIES = {f"{gb} GB": gb * 10**9 for gb in (1, 2, 8, 16, 80)}
HEAD = 64  # features of a head, in all four sizes of GPT-2
TRAINING = [("off", 0), ("1 text at a time", 1)]
TRAINING += [(f"{n} texts at a time", n) for n in (2, 4, 8, 16, 32)]


def explore_parameters(count=None):
    """Set up a model: how many parameters, how many bytes, does it fit?

    Args:
        count: your own function, such as `my_count_parameters`, which is
            called as `count(cfg, tied)`. What it counts is held against the
            number, and its memory is marked.
    """
    sizes = _size_sliders()
    explorer = Explorer(
        functools.partial(_draw, count),
        {
            "Configuration": sizes,
            "Memory": {
                "dtype": choice("number type", list(BYTES)),
                "tied": switch("embedding and head share one table (tied)"),
                "texts": steps("training with AdamW", TRAINING, 0),
            },
        },
    )
    explorer.children = [_presets(sizes), *explorer.children]
    return explorer


def memory_need(cfg, dtype="float32", tied=False, training=False, texts=0):
    """Number of parameters, and kind of memory → bytes.

    Training adds a gradient and AdamW's two averages for each parameter,
    each in the model's own dtype, as PyTorch makes them, and what the forward
    pass keeps for a batch of `texts`, each as long as the context.

    Raises:
        ValueError: the configuration is impossible.
    """
    count = parameter_formula(cfg, tied)
    weights = count * BYTES[dtype]
    need = {"weights": weights}
    if training:
        need |= {"gradients": weights, "AdamW states": 2 * weights}
    if training and texts:
        need["activations"] = texts * activation_bytes(cfg, dtype)
    return count, need


def activation_bytes(cfg, dtype="float32"):
    """Bytes that a forward pass in training keeps for one text, as long as
    the context, up to the cross-entropy loss.

    As gptlib's modules keep them if attention is computed step by step; its
    weights, a table of positions × positions for each head, dominate in long
    texts. torch's faster kernels, which not every machine has, keep less.
    Dropout keeps its masks, so `drop_rate` must not be 0.
    """
    size, tokens, d = BYTES[dtype], cfg["context_length"], cfg["emb_dim"]
    a_token = (72 if size == 4 else 42) * d + 16
    a_pair = 12 * cfg["n_heads"]
    a_block = tokens * a_token + tokens**2 * a_pair
    ends = (3 * size * d + size * cfg["vocab_size"] + 24) * tokens + size
    return cfg["n_layers"] * a_block + ends


def own_count(count, cfg, tied, right):
    """What a learner's function counts, or None; and words on it."""
    own, words = attempt(count, lambda part, *args: part(*args), cfg, tied)
    if own is None:
        return None, words
    if not isinstance(own, Real):
        kind = type(own).__name__
        return None, f" Yours is of type {kind}, not a whole number."
    if own == right:
        return own, " Yours counts the same."
    side = "many" if own > right else "few"
    return own, f" Yours counts {own:,}: {abs(own - right):,} too {side}."


@styled
def memory_fit(count, bytes_by_kind, capacities, own=None):
    """How much of each capacity (name → bytes) a model's memory takes.

    `count` is its number of parameters, `bytes_by_kind` as for one set-up of
    `plots.memory_bars`. `own` are the bytes in all by the learner's count.
    """
    total, looks = sum(bytes_by_kind.values()), memory_looks(bytes_by_kind)
    description = _in_words(count, bytes_by_kind, capacities)
    below = 0.3 * (len(looks) // 4)  # each further row of the legend
    margins = 0.75, 1.85, 1.05 + below, 0.4
    picture = Picture(7.2, 3.6 + below, description, margins)
    axes = picture.subplots()
    for y, size in enumerate(capacities.values()):
        left = 0
        for kind, part in bytes_by_kind.items():
            share = 100 * part / size
            color, hatch = looks[kind]
            look = {"color": color, "hatch": hatch, "ec": "black"}
            axes.barh(y, min(share, 120), left=min(left, 120), **look)
            left += share
        words = f"{left:.1f} %: " if left >= 0.05 else "below 0.1 %: "
        words = words if left < 1000 else f"{left / 100:,.0f} ×: "
        words += "fits" if total <= size else "too large"
        look = {"xycoords": ("axes fraction", "data"), "va": "center"}
        note(axes, words, (1, y), (6, 0), fontsize=12, **look)
    line = axes.axvline(100, color="black", ls="--", label="full")
    names_down(axes, capacities, room=115)
    axes.set_xticks([0, 25, 50, 75, 100])
    title = f"{count:,} parameters, {_size(total)}"
    label_axes(axes, "share of the memory (%)", "", title)
    keys = [legend_patch(kind, *look) for kind, look in looks.items()]
    keys.append(line)
    if own is not None:
        ends = [min(100 * own / size, 112) for size in capacities.values()]
        keys += axes.plot(ends, range(len(ends)), **MARK)
    picture.legend(handles=keys, loc="outside lower center", ncols=4)
    return picture


def _draw(count, dtype, tied, texts, **sizes):
    cfg = SMALLEST | sizes | {"n_heads": sizes["emb_dim"] // HEAD}
    right, need = memory_need(cfg, dtype, tied, texts > 0, texts)
    own, words = own_count(count, cfg, tied, right)
    if own is not None:  # bytes of what is kept for each parameter, and more
        each = BYTES[dtype] * (4 if texts else 1)
        own = max(0, sum(need.values()) + (own - right) * each)
    picture = memory_fit(right, need, CAPACITIES, own)
    picture.description += words
    return picture


def _size(n_bytes):
    """In GB, and in MB where that would be a row of zeros."""
    if n_bytes < 10**7:
        return f"{digits(n_bytes / 1e6)} MB"
    if n_bytes < 10**12:
        return f"{digits(n_bytes / 1e9)} GB"
    return f"{n_bytes / 1e9:,.0f} GB"


def _in_words(count, bytes_by_kind, capacities):
    total = sum(bytes_by_kind.values())
    weights = bytes_by_kind["weights"] / 1024**2
    fits = [name for name, size in capacities.items() if total <= size]
    where = ", ".join(fits) or f"none of {', '.join(capacities)}"
    kinds = ", ".join(
        f"{kind} {_size(n)}" for kind, n in bytes_by_kind.items()
    )
    told = (
        "" if "activations" in bytes_by_kind else "; activations not counted"
    )
    return (
        f"{count:,} parameters. In all {total:,} bytes: {kinds}{told}. "
        f"(Weights in MiB: {weights:,.2f}.)"
        f"{f' Fits in {where}.' if capacities else ''}"
    )


def _size_sliders():
    cfg = SMALLEST
    ranges = {  # least, most, step; the four sizes of GPT-2 lie on the steps
        "vocab_size": ("tokens", 257, 100257, 1000),
        "context_length": ("tokens", 128, 4096, 128),
        "emb_dim": ("features, in heads of 64", 64, 4096, 64),
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
                control.value = PUBLISHED[button.description][key]

    buttons = []
    for name in PUBLISHED:
        button = widgets.Button(description=name, layout={"width": "auto"})
        button.on_click(press)
        buttons.append(button)
    row = widgets.HBox(buttons, layout={"flex_flow": "row wrap"})
    return widgets.VBox([widgets.HTML("<b>Sizes of GPT-2</b>"), row])
