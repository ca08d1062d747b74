"""Explorer 03: activation functions, and a unit in training on each."""

import functools

import numpy as np
import torch
from matplotlib.ticker import MaxNLocator
from torch.nn import functional

from classroom.explore.explorer import Explorer, choice, slider, steps, switch
from classroom.explore.own import LINE, compared, made
from classroom.picture import (
    COLORS,
    Picture,
    array,
    digits,
    label_axes,
    styled,
)
from gptlib.feed_forward import GELU

ACTIVATIONS = {
    "GELU, tanh form": GELU(),
    "GELU, exact form": functional.gelu,
    "ReLU": functional.relu,
    "SiLU": functional.silu,
}
REACHES = [n / 2 for n in range(1, 21)]
STARTS = [n / 4 for n in range(-24, 13)]
WANTED, RATE = 1, 0.1  # a unit's output, and the size of its steps


def explore_gelu(activation=None):
    """The curve of an activation function, and where a unit on it ends.

    Args:
        activation: your own, such as `MyGELU`: a module's class or a
            function. It is drawn beside the one that the buttons choose.
    """
    return Explorer(
        functools.partial(_draw, own=activation),
        {
            "activation": choice("activation", list(ACTIVATIONS)),
            "reach": steps("range of x: ±", REACHES, 3.0),
            "start": steps("unit starts at x =", STARTS, -0.5),
            "count": slider("training steps", 200, 0, 300, 10),
            "derivative": switch("derivative"),
        },
    )


def curve(activation, reach):
    """x, the function's values and its derivative at 401 points (float64).

    x goes from −reach to reach; `activation` is a key of ACTIVATIONS.
    """
    x = torch.linspace(-reach, reach, 401, dtype=torch.float64)
    return x, *_value_and_slope(activation, x)


def path(activation, start, count):
    """Inputs and outputs of a unit that is trained towards an output of 1.

    Each of `count` steps moves the input by −0.1 times the slope of the
    squared error.
    """
    at, inputs, outputs = torch.tensor([start], dtype=torch.float64), [], []
    for _ in range(count + 1):
        value, slope = _value_and_slope(activation, at)
        inputs.append(at.item())
        outputs.append(value.item())
        at = at - RATE * 2 * (value - WANTED) * slope
    return inputs, outputs


@styled
def activation_curve(name, x, y, slope=None, unit=None, own=None):
    """One activation function, its derivative dashed, a unit's path in dots.

    Args:
        own: the values of the learner's function, dotted.
        unit: its inputs and outputs, from the first step to the last.
    """
    x, y = array(x), array(y)
    slope = None if slope is None else array(slope)
    description = _described(name, x, y, slope, unit)
    picture = Picture(6, 4, description, (0.8, 0.2, 0.65, 0.4))
    axes = picture.subplots()
    axes.axhline(0, color="black", lw=0.8)
    axes.axvline(0, color="black", lw=0.8)
    color = COLORS["feed_forward"]
    axes.plot(x, y, color=color, lw=4, label="value")
    if name != "ReLU":  # what the others are compared with
        axes.plot(x, x.clip(0), color="#777777", lw=1, label="ReLU")
    if slope is not None:
        jumps = np.flatnonzero(np.abs(np.diff(slope)) > 0.5) + 1
        pieces = (np.insert(values, jumps, np.nan) for values in (x, slope))
        axes.plot(*pieces, color="black", ls="--", label="derivative")
    if unit is not None:
        _dots(axes, *unit)
    if own is not None:
        _dotted(axes, x, array(own))
    axes.set_xlim(x[0], x[-1])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ylabel = "output" if slope is None else "output, slope"
    label_axes(axes, "input x", ylabel, name)
    axes.legend(loc="upper left")
    return picture


def _described(name, x, y, slope, unit):
    """What the picture shows, in words."""
    lowest = y.argmin()
    description = (
        f"{name} for x from {x[0]:g} to {x[-1]:g}: lowest value "
        f"{digits(y[lowest])} at x = {x[lowest]:.2f}, "
        f"{digits(y[-1])} at the right end."
    )
    if slope is not None:
        description += (
            f" The derivative, dashed, lies between {digits(slope.min())} "
            f"and {digits(slope.max())}."
        )
    if unit is not None:
        description += f" {_told(*unit)}"
        seen = [x[0] <= at <= x[-1] for at in unit[0]]
        if not all(seen):
            share = "Part" if any(seen) else "All"
            description += f" {share} of its way lies outside this range of x."
    return description


def _value_and_slope(activation, x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = ACTIVATIONS[activation](x)
        (slope,) = torch.autograd.grad(y.sum(), x)
    return y.detach(), slope


def _dots(axes, inputs, outputs):
    """Where the unit starts (a ring), passes (dots) and ends (a square)."""
    look = {"ls": "", "mec": "black", "zorder": 5}
    axes.plot(inputs, outputs, "o", ms=4, mfc="black", **look)
    axes.plot(
        inputs[0], outputs[0], "o", ms=11, mfc="white", label="start", **look
    )
    axes.plot(
        inputs[-1], outputs[-1], "s", ms=9, mfc="black", label="end", **look
    )


def _dotted(axes, x, own):
    """The learner's line, on axes that still show the other one well."""
    low, high = axes.get_ylim()
    axes.plot(x, own, **LINE)
    new_low, new_high = axes.get_ylim()
    room = high - low
    axes.set_ylim(max(new_low, low - room), min(new_high, high + room))


def _told(inputs, outputs):
    """What became of the unit, in words."""
    count, start, end = len(inputs) - 1, inputs[0], inputs[-1]
    told = (
        f"After {count} steps the unit that started at x = {start:g} is at "
        f"x = {end:.2f} and gives {round(outputs[-1], 2) + 0.0:.2f}:"
    )
    if abs(outputs[-1] - WANTED) < 0.01:
        return f"{told} it has arrived at {WANTED}."
    if end == start:
        why = "the slope there is 0" if count else "no step was made"
        return f"{told} it has not moved, as {why}."
    if abs(end - start) < 0.005:
        return f"{told} it has hardly moved, as the slope there is tiny."
    if end < start and outputs[0] < WANTED:
        return f"{told} the slope is negative, so it was pushed left."
    side = "left" if end < start else "right"
    return f"{told} it is on its way to the {side}."


def _draw(activation, reach, start, count, derivative, own=None):
    x, y, slope = curve(activation, reach)
    unit = path(activation, start, count)
    shown = slope if derivative else None
    values, words = compared(
        own,
        lambda part, x: made(part)(x),
        x.float(),
        reference=y.round(decimals=12),
        place=lambda at: f"at x = {x[at]:.2f}",
    )
    picture = activation_curve(activation, x, y, shown, unit, values)
    picture.description += words
    return picture
