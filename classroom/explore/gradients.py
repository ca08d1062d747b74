"""Explorer 04: how much gradient reaches each layer."""

from functools import lru_cache

import torch

from classroom import plots
from classroom.explore.explorer import Explorer, number, slider, switch
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


def _draw(depth, width, seed, shortcut):
    means, other = (
        gradients(depth, width, seed, flag)
        for flag in (shortcut, not shortcut)
    )
    layers = "1 layer" if depth == 1 else f"{depth} layers"
    summary = f"{layers} of width {width}, seed {seed}"
    return plots.gradient_levels(means, other, shortcut, summary)
