"""Explorer 04: how much gradient reaches each layer."""

import math
from functools import lru_cache

import numpy as np
import torch

from classroom.explore.explorer import Explorer, number, slider, switch
from classroom.picture import (
    BEFORE,
    COLORS,
    GREY,
    Picture,
    array,
    card,
    digits,
    label_axes,
    note,
    pin_labels,
    sentence,
    styled,
)
from gptlib.shortcut import ExampleDeepNeuralNetwork, gradient_means


def explore_gradients():
    """Mean gradient of each layer, with and without shortcuts."""
    return Explorer(
        _draw,
        {
            "depth": slider("depth (layers)", 5, 1, 30),
            "width": slider("width (features)", 3, 1, 32),
            "seed": number("seed", 123, 0, 9999),
            "shortcut": switch("shortcuts"),
        },
    )


@lru_cache(maxsize=512)
def gradients(depth, width, seed, shortcut):
    """Mean absolute gradient of each layer's weights, the first one first.

    The network has `depth` layers, all `width` wide but for the last one's
    single output; its input goes from 1 down to −1 in equal steps.
    """
    sizes = [width] * depth + [1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ExampleDeepNeuralNetwork(sizes, shortcut)
    x = torch.linspace(1, -1, width).unsqueeze(0)  # (1, width)
    return tuple(gradient_means(model, x).values())


@styled
def gradient_levels(means, other, shortcut, summary):
    """Mean absolute gradient of each layer of one network, log scale.

    `means` and `other` are lists, the first layer first; `other` is the
    network with the opposite setting of `shortcut` and is marked by lines, so
    that both share an axis. A gradient of 0 or beyond all numbers has no
    height on it and is named instead.
    """
    means, other = array(means), array(other)
    names = ["with shortcuts", "without shortcuts"]
    name, marked = names if shortcut else names[::-1]
    description = (
        f"{summary}, {name}: mean |gradient| {digits(means[0])} in the "
        f"first layer, {digits(means[-1])} in the last. {sentence(marked)}:"
        f" {digits(other[0])} and {digits(other[-1])}."
    )
    values = np.concatenate([means, other])
    values = values[np.isfinite(values) & (values > 0)]
    bottom, top = (pick(values, default=1) for pick in (min, max))
    upright = len(means) > 6  # then the numbers take more room
    room = (top / bottom * 100) ** (0.45 if upright else 0.15)
    below = max(10, (top / bottom) ** 0.15)  # room for a number without bar
    bottom, top = bottom / below, top * max(3, room)
    picture = Picture(7, 4.2, description, (0.95, 0.1, 0.65, 0.4))
    axes = picture.subplots()
    look = COLORS["shortcut"] if shortcut else GREY, "" if shortcut else BEFORE
    places = np.arange(1, len(means) + 1)
    heights = np.clip(np.nan_to_num(means, nan=bottom), bottom, top)
    axes.bar(
        places,
        heights,
        0.6,
        color=look[0],
        hatch=look[1],
        ec="black",
        label=name,
    )
    marks = np.where(np.isfinite(other) & (other > 0), other, np.nan)
    axes.hlines(marks, places - 0.4, places + 0.4, "black", lw=3, label=marked)
    step = math.ceil(len(means) / 6)
    length = (top / bottom) ** 0.3  # from an upright number's foot to its end
    for n, mean in enumerate(means):
        without_bar = mean == 0 or not np.isfinite(mean)
        if n % step and not without_bar:
            continue
        foot, inside = min(heights[n], top / 2), False
        if upright and not without_bar:
            # Above its bar, else in it: wherever it hides no mark.
            near = marks[max(0, n - 1) : n + 2]
            inside = ((near > foot / 1.5) & (near < foot * length)).any()
            hidden = ((near > foot / length) & (near < foot)).any()
            if inside and (hidden or foot < bottom * length):
                continue
        note(
            axes,
            digits(mean),
            (n + 1, foot),
            (0, -6 if inside else 6),
            ha="center",
            va="top" if inside else "bottom",
            rotation=90 if upright else 0,
            fontsize=12,
            bbox=card("white"),
        )
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_yticks(*_powers_of_ten(bottom, top))
    axes.set_ylim(bottom, top)
    axes.set_xlim(0.4, len(means) + 0.6)
    axes.set_xticks(places[::step])
    label_axes(axes, "layer (1 reads the input)", "mean |gradient|, log scale")
    pin_labels(axes, -0.1, -0.1)
    picture.legend(loc="upper center", ncols=2, frameon=False)
    return picture


def _draw(depth, width, seed, shortcut):
    means, other = (
        gradients(depth, width, seed, flag)
        for flag in (shortcut, not shortcut)
    )
    layers = "1 layer" if depth == 1 else f"{depth} layers"
    summary = f"{layers} of width {width}, seed {seed}"
    return gradient_levels(means, other, shortcut, summary)


def _powers_of_ten(bottom, top):
    """About six ticks and their labels, as plain text, which draws fast."""
    first, last = math.ceil(math.log10(bottom)), math.floor(math.log10(top))
    powers = range(first, last + 1, math.ceil((last - first + 1) / 6))
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    labels = ["10" + str(power).translate(raised) for power in powers]
    return [10.0**power for power in powers], labels
