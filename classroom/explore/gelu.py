"""Explorer 03: activation functions and their derivatives."""

import torch
from matplotlib.ticker import MaxNLocator
from torch.nn import functional

from classroom.explore.explorer import Explorer, choice, steps, switch
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


def explore_gelu():
    """The curve of an activation function, with or without derivative."""
    return Explorer(
        _draw,
        {
            "activation": choice("activation", list(ACTIVATIONS)),
            "reach": steps("range of x: ±", REACHES, 3.0),
            "derivative": switch("derivative"),
        },
    )


def curve(activation, reach):
    """x, the function's values and its derivative at 401 points (float64).

    x goes from −reach to reach; `activation` is a key of ACTIVATIONS.
    """
    x = torch.linspace(-reach, reach, 401, dtype=torch.float64)
    with torch.enable_grad():
        y = ACTIVATIONS[activation](x.requires_grad_())
        (slope,) = torch.autograd.grad(y.sum(), x)
    return x.detach(), y.detach(), slope


@styled
def activation_curve(name, x, y, slope=None):
    """One activation function, and its derivative dashed if given."""
    x, y = array(x), array(y)
    lowest = y.argmin()
    description = (
        f"{name} for x from {x[0]:g} to {x[-1]:g}: lowest value "
        f"{digits(y[lowest])} at x = {x[lowest]:.2f}, "
        f"{digits(y[-1])} at the right end."
    )
    if slope is not None:
        slope = array(slope)
        description += (
            f" The derivative, dashed, lies between {digits(slope.min())} "
            f"and {digits(slope.max())}."
        )
    picture = Picture(6, 4, description, (0.8, 0.2, 0.65, 0.4))
    axes = picture.subplots()
    axes.axhline(0, color="black", lw=0.8)
    axes.axvline(0, color="black", lw=0.8)
    color = COLORS["feed_forward"]
    axes.plot(x, y, color=color, lw=4, label="value")
    if slope is not None:
        axes.plot(x, slope, color="black", ls="--", label="derivative")
    axes.set_xlim(x[0], x[-1])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    ylabel = "output" if slope is None else "output, slope"
    label_axes(axes, "input x", ylabel, name)
    axes.legend(loc="upper left")
    return picture


def _draw(activation, reach, derivative):
    x, y, slope = curve(activation, reach)
    return activation_curve(activation, x, y, slope if derivative else None)
