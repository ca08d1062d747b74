"""Explorer 03: activation functions and their derivatives."""

import torch
from torch.nn import functional

from classroom import plots
from classroom.explore.explorer import Explorer, choice, steps, switch
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


def _draw(activation, reach, derivative):
    x, y, slope = curve(activation, reach)
    return plots.activation_curve(
        activation, x, y, slope if derivative else None
    )
