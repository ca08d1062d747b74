"""Explorer 01: what the configuration's entries do to the shapes."""

import functools
import math

import torch

from classroom.explore.explorer import Explorer, slider
from classroom.explore.own import attempt, mark_bars, walk
from classroom.picture import (
    Picture,
    component_bars,
    label_axes,
    names_down,
    pin_labels,
    sentence,
    styled,
)
from gptlib.config import SMALLEST, check_config
from gptlib.memory import shapes_only

STOPS = {  # of the data path → the skeleton's part that gives it
    "token embedding": "tok_emb",
    "position embedding": "pos_emb",
    "sum, after dropout": "drop_emb",
    "final norm": "final_norm",
    "output head: logits": "out_head",
}


def explore_configuration(skeleton=None):
    """The shape at each stop of the data path, for any configuration.

    Args:
        skeleton: your own class, such as `MySkeleton`, made by
            `skeleton(cfg)`. Its shapes are marked at the bars.
    """
    entries = {
        "vocab_size": slider("vocab_size (tokens)", 50257, 257, 100257, 1000),
        "context_length": slider("context_length (tokens)", 1024, 2, 2048, 2),
        "emb_dim": slider("emb_dim (features)", 768, 64, 2048, 64),
        "n_heads": slider("n_heads", 12, 1, 32),
        "n_layers": slider("n_layers (blocks)", 12, 1, 48),
    }
    data = {
        "batch": slider("batch (texts)", 2, 1, 16),
        "tokens": slider("tokens (in each text)", 4, 1, 2048),
    }
    draw = functools.partial(_draw, skeleton)
    return Explorer(draw, {"Configuration": entries, "Input": data})


def data_path(batch, tokens, **entries):
    """The stops of the data path as (label, component or None, shape).

    `entries` replace those of GPT-2's smallest size.

    Raises:
        ValueError: no such model can be built, or the texts are longer than
            its context.
    """
    cfg = SMALLEST | entries
    check_config(cfg)
    emb_dim, heads = cfg["emb_dim"], cfg["n_heads"]
    if tokens > cfg["context_length"]:
        raise ValueError(
            f"The texts have {tokens} tokens, but the position table has "
            f"only context_length={cfg['context_length']} rows: use fewer "
            "tokens or a longer context."
        )
    vectors = batch, tokens, emb_dim
    return [
        ("token IDs", None, (batch, tokens)),
        ("token embedding", "embedding", vectors),
        ("position embedding", "embedding", (tokens, emb_dim)),
        ("sum, after dropout", "dropout", vectors),
        (
            "in a block, attention",
            "attention",
            (batch, heads, tokens, emb_dim // heads),
        ),
        (
            "in a block, feed-forward",
            "feed_forward",
            (batch, tokens, 4 * emb_dim),
        ),
        (f"after {_count(cfg['n_layers'], 'block')}", None, vectors),
        ("final norm", "norm", vectors),
        ("output head: logits", "head", (batch, tokens, cfg["vocab_size"])),
    ]


def own_sizes(skeleton, stops, cfg):
    """How many values a learner's skeleton has at each stop.

    Nothing is computed: its tensors have shapes and no memory.

    Returns:
        numbers (nan where it has none), or None; and words on what differs.
    """
    ids = stops[0][-1]
    shapes, words = attempt(skeleton, _own_shapes, ids, cfg)
    if shapes is None:
        return None, words
    sizes = [math.nan] * len(stops)
    wrong = []
    for n, (label, _, shape) in enumerate(stops):
        if label not in STOPS:
            continue
        own = shapes.get(STOPS[label])
        if own is not None:
            sizes[n] = math.prod(own)
        if own is None:
            wrong.append(f" Yours does not call {STOPS[label]}.")
        elif own != shape:
            part = sentence(label.split(":")[0])
            wrong.append(f" {part}: yours has shape {own}, not {shape}.")
    return sizes, "".join(wrong) or " Yours has the same shapes."


@styled
def shape_bars(stops, summary, changed=(), own=None):
    """How many values stand at each stop of the data path, log scale.

    `stops` are (label, component or None, shape); `summary` begins the
    description. `changed` are the positions of stops to be marked, `own` the
    learner's numbers. The axis never moves, so settings can be compared.
    """
    sizes = [math.prod(shape) for _, _, shape in stops]
    largest, smallest = (
        pick(range(len(sizes)), key=sizes.__getitem__) for pick in (max, min)
    )
    description = (
        f"{summary} Most values: {sizes[largest]:,}, {stops[largest][0]}; "
        f"fewest: {sizes[smallest]:,}, {stops[smallest][0]}."
    )
    height = 0.95 + 0.32 * len(stops)
    picture = Picture(7, height, description, (2.2, 0.1, 0.65, 0.1))
    axes = picture.subplots()
    components = [component for _, component, _ in stops]
    bars = component_bars(axes, sizes, components)
    shapes = [str(tuple(shape)) for _, _, shape in stops]
    labels = axes.bar_label(bars, shapes, padding=4, fontsize=12)
    for n in changed:
        labels[n].set(text=f"{shapes[n]} ◆", weight="bold")
    axes.set_xscale("log")
    axes.minorticks_off()
    words = "1", "thousand", "million", "billion"
    axes.set_xticks([1, 1e3, 1e6, 1e9], words)
    names_down(axes, [label for label, _, _ in stops], 3e17, start=1)
    label_axes(axes, "number of values, log scale", "")
    if own is not None:
        mark_bars(axes, own, labels)
        axes.set_xlabel("number of values, log scale; triangle: yours")
    pin_labels(axes, 0, -0.105)
    return picture


def _own_shapes(skeleton, ids, cfg):
    with shapes_only():
        seen = walk(skeleton(cfg), torch.zeros(ids, dtype=torch.int64))
    return {name: tuple(x.shape) for name, x in seen.items()}


def _draw(skeleton, batch, tokens, **entries):
    stops, start = data_path(batch, tokens, **entries), data_path(2, 4)
    changed = [
        n
        for n, (now, then) in enumerate(zip(stops, start, strict=True))
        if now[-1] != then[-1]
    ]
    heads, emb_dim = entries["n_heads"], entries["emb_dim"]
    summary = (
        f"Token IDs {stops[0][-1]} become logits {stops[-1][-1]}. In "
        f"{_each(entries['n_layers'])}, attention works in "
        f"{_count(heads, 'head')} of {emb_dim // heads} features, and "
        f"feed-forward is 4 times as wide, {4 * emb_dim:,}. "
        f"{tokens:,} of {entries['context_length']:,} positions are in use. "
        f"{_compared(changed, len(stops))}"
    )
    own, words = own_sizes(skeleton, stops, SMALLEST | entries)
    picture = shape_bars(stops, summary, changed, own)
    picture.description += words
    return picture


def _compared(changed, count):
    if not changed:
        return f"All {count} shapes are those of the start."
    few = len(changed) == 1
    return (
        f"{len(changed)} of {count} shapes (◆) {'is' if few else 'are'} not "
        f"{'that' if few else 'those'} of the start."
    )


def _each(blocks):
    return "the only block" if blocks == 1 else f"each of {blocks} blocks"


def _count(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"
