"""Explorer 04: how much gradient reaches each layer."""

import math
from functools import lru_cache, partial

import numpy as np
import torch
from torch.nn import functional

from classroom.explore.explorer import Explorer, number, slider, switch
from classroom.explore.own import MARK, compared
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


def explore_gradients(network=None):
    """Mean gradient of each layer, with and without shortcuts.

    Args:
        network: your own class, such as `MyShortcutNetwork`, made by
            `network(layer_sizes, use_shortcut)` from the same seed. Its
            gradients are marked beside the bars.
    """
    return Explorer(
        partial(_draw, network=network),
        {
            "depth": slider("depth (layers)", 5, 1, 30),
            "width": slider("width (features)", 3, 1, 32),
            "seed": number("seed", 123, 0, 9999),
            "shortcut": switch("shortcuts"),
            "norm": switch("norms"),
        },
    )


FLAT = -5  # below, GELU's slope is about 0, and soon exactly so


@lru_cache(maxsize=512)
def gradients(depth, width, seed, shortcut, norm=False):
    """Mean absolute gradient of each layer's weights, the first one first.

    The network has `depth` layers, all `width` wide but for the last one's
    single output; its input goes from 1 down to −1 in equal steps. `norm`
    puts a LayerNorm in front of every layer, inside the shortcut.
    """
    model, x = _network(depth, width, seed, shortcut, norm)
    return tuple(gradient_means(model, x).values())


@lru_cache(maxsize=512)
def largest_before_gelu(depth, width, seed, shortcut, norm=False):
    """The largest value that enters each layer's GELU."""
    model, x = _network(depth, width, seed, shortcut, norm)
    found = []
    for layer in model.layers:
        layer[-1].register_forward_pre_hook(
            lambda gelu, args: found.append(args[0].max().item())
        )
    with torch.no_grad():
        model(x)
    return tuple(found)


def _normalize(linear, inputs):
    """What a new LayerNorm in front of this Linear gives it to read."""
    return functional.layer_norm(inputs[0], inputs[0].shape[-1:])


def _network(
    depth, width, seed, shortcut, norm, network=ExampleDeepNeuralNetwork
):
    sizes = [width] * depth + [1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = network(sizes, shortcut)
    for part in model.modules() if norm else ():
        if isinstance(part, torch.nn.Linear):
            part.register_forward_pre_hook(_normalize)
    return model, torch.linspace(1, -1, width).unsqueeze(0)  # (1, width)


def _own_means(network, *setting):
    """The mean gradients of the learner's network, as a tensor."""
    means = gradient_means(*_network(*setting, network))
    return torch.tensor(list(means.values()), dtype=torch.float64)


@styled
def gradient_levels(means, other, shortcut, summary, own=None):
    """Mean absolute gradient of each layer of one network, log scale.

    `means` and `other` are lists, the first layer first; `other` is the
    network with the opposite setting of `shortcut` and is marked by lines, so
    that both share an axis. `own` is the learner's network, set like that of
    `means`, and is marked by triangles. A gradient of 0 or beyond all numbers
    has no height on it and is named instead.
    """
    means, other = array(means), array(other)
    names = ["with shortcuts", "without shortcuts"]
    name, marked = names if shortcut else names[::-1]
    description = (
        f"{summary}, {name}: mean |gradient| {_told(means[0])} in the "
        f"first layer, {_told(means[-1])} in the last. {sentence(marked)}:"
        f" {_told(other[0])} and {_told(other[-1])}."
    )
    bottom, top = _limits(np.concatenate([means, other]), len(means))
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
    if own is not None:
        _triangles(axes, places, array(own), bottom, top)
    step = math.ceil(len(means) / 6)
    _numbers(axes, means, heights, marks, (bottom, top), step)
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_yticks(*_powers_of_ten(bottom, top))
    axes.set_ylim(bottom, top)
    axes.set_xlim(0.4, len(means) + 0.6)
    axes.set_xticks(places[::step])
    label_axes(axes, "layer (1 reads the input)", "mean |gradient|, log scale")
    pin_labels(axes, -0.1, -0.1)
    columns = 2 if own is None else 3
    picture.legend(loc="upper center", ncols=columns, frameon=False)
    return picture


def _upright(count):
    """Whether the bars' numbers stand upright, which takes more room."""
    return count > 6


def _limits(values, count):
    """Ends of the log axis, which leave room for the numbers."""
    values = values[np.isfinite(values) & (values > 0)]
    bottom, top = (pick(values, default=1) for pick in (min, max))
    room = (top / bottom * 100) ** (0.45 if _upright(count) else 0.15)
    below = max(10, (top / bottom) ** 0.15)  # room for a number without bar
    return bottom / below, top * max(3, room)


def _numbers(axes, means, heights, marks, limits, step):
    """The mean of every `step`th bar, and of each that has no bar.

    An upright number stands above its bar, else in it: wherever it hides no
    mark.
    """
    (bottom, top), upright = limits, _upright(len(means))
    length = (top / bottom) ** 0.3  # from an upright number's foot to its end
    for n, mean in enumerate(means):
        without_bar = mean == 0 or not np.isfinite(mean)
        if n % step and not without_bar:
            continue
        foot, inside = min(heights[n], top / 2), False
        if upright and not without_bar:
            near = marks[max(0, n - 1) : n + 2]
            inside = ((near > foot / 1.5) & (near < foot * length)).any()
            hidden = ((near > foot / length) & (near < foot)).any()
            if inside and (hidden or foot < bottom * length):
                continue
        note(
            axes,
            _told(mean),
            (n + 1, foot),
            (0, -6 if inside else 6),
            ha="center",
            va="top" if inside else "bottom",
            rotation=90 if upright and mean != 0 else 0,
            fontsize=12,
            bbox=card("white"),
        )


def _triangles(axes, places, own, bottom, top):
    """The learner's gradients, each beside its bar's middle; none for 0."""
    own = np.where(np.isfinite(own) & (own > 0), own, np.nan)
    axes.plot(places + 0.3, np.clip(own, bottom, top), **MARK)


def _told(value):
    """Four significant digits, up to millions without a power of ten."""
    if 1e4 <= value < 1e6:
        value = int(float(f"{value:.3e}"))
    return digits(value)


def _draw(depth, width, seed, shortcut, norm, network=None):
    means, other = (
        gradients(depth, width, seed, flag, norm)
        for flag in (shortcut, not shortcut)
    )
    layers = "1 layer" if depth == 1 else f"{depth} layers"
    norms = " with norms" if norm else ""
    summary = f"{layers} of width {width}{norms}, seed {seed}"
    setting = depth, width, seed, shortcut, norm
    own, words = compared(
        network,
        _own_means,
        *setting,
        reference=torch.tensor(means, dtype=torch.float64),
        place=lambda at: f"in layer {at[0] + 1}",
        atol=0,
    )
    picture = gradient_levels(means, other, shortcut, summary, own)
    picture.description += _why_zero(*setting) or _about_norms(*setting)
    picture.description += words
    return picture


def _about_norms(depth, width, seed, shortcut, norm):
    """What norms do to the network without shortcuts, if it is seen."""
    plain = gradients(depth, width, seed, False, norm)
    if not norm or depth < 10 or not plain[0]:
        return ""
    if plain[0] > 1e-3 * plain[-1]:
        return (
            " With norms, the network without shortcuts keeps a gradient, "
            "too: where a norm divides by a small spread, it makes the values "
            "larger, and the signal on its way back."
        )
    return (
        " Without shortcuts, the gradient fades here in spite of the norms. "
        "Try other widths."
    )


def _why_zero(depth, width, seed, shortcut, norm):
    """Why layers of the network that is drawn as bars get no gradient."""
    means = gradients(depth, width, seed, shortcut, norm)
    zeros = [n for n, mean in enumerate(means) if mean == 0]
    if not zeros:
        other = gradients(depth, width, seed, not shortcut, norm)
        return "" if any(other) else " Turn the shortcuts over to read why."
    if norm and width == 1:
        return (
            " All are 0: a norm over a single feature gives 0, so nothing "
            "enters a layer that a weight could be multiplied with."
        )
    values = largest_before_gelu(depth, width, seed, shortcut, norm)
    if len(zeros) == depth and values[-1] < FLAT:
        return (
            f" All are 0: −{digits(-values[-1])} enters the last GELU, which "
            "is flat there, and no shortcut leads past the last layer. No "
            "signal comes back from it."
        )
    dead = [str(n + 1) for n in zeros if values[n] < FLAT]
    if not dead:
        return ""
    *others, last = dead
    layers = f"layers {', '.join(others)} and" if others else "layer"
    return (
        f" Exactly 0 in {layers} {last}: all that enters a GELU there is "
        "below −5, where it is flat. The signal goes past by the shortcut."
    )


def _powers_of_ten(bottom, top):
    """About six ticks and their labels, as plain text, which draws fast."""
    first, last = math.ceil(math.log10(bottom)), math.floor(math.log10(top))
    powers = range(first, last + 1, math.ceil((last - first + 1) / 6))
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    labels = ["10" + str(power).translate(raised) for power in powers]
    return [10.0**power for power in powers], labels
