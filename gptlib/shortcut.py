"""Shortcut connections, and a way to see what they do to gradients."""

from itertools import pairwise

import torch
from torch import nn

from gptlib.config import check_count
from gptlib.feed_forward import GELU
from gptlib.inputs import check_features


class ExampleDeepNeuralNetwork(nn.Module):
    """A stack of Linear + GELU layers, with or without shortcuts.

    A shortcut adds a layer's input to its output wherever both have the
    same shape. Maps (…, layer_sizes[0]) to (…, layer_sizes[-1]). Source:
    lecture notes, "Shortcut connections and gradient flow"; He et al. 2015,
    "Deep Residual Learning for Image Recognition".

    Args:
        layer_sizes: widths, from the input to the output: n + 1 numbers
            make n layers.
        use_shortcut: whether the shortcuts are added.

    Raises:
        TypeError, ValueError: fewer than two sizes, or one that is no whole
            number ≥ 1; in `forward`, an input of another width.
    """

    def __init__(self, layer_sizes, use_shortcut):
        super().__init__()
        if len(layer_sizes) < 2:
            raise ValueError(
                "layer_sizes needs an input and an output width, so at least "
                f"2 numbers; got {len(layer_sizes)}."
            )
        for position, size in enumerate(layer_sizes):
            check_count(size, f"layer_sizes[{position}]")
        self.use_shortcut = use_shortcut
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(d_in, d_out), GELU())
            for d_in, d_out in pairwise(layer_sizes)
        )

    def forward(self, x):
        check_features(x, self.layers[0][0].in_features, "layer_sizes[0]")
        for layer in self.layers:
            out = layer(x)
            x = x + out if self.use_shortcut and x.shape == out.shape else out
        return x


def gradient_means(model, x):
    """Mean absolute gradient of each weight matrix, as name → float.

    The loss is the mean squared distance of `model(x)` from zero. Gradients
    are computed afresh and nothing is stored on the model, so a second call
    gives the same numbers. Source: lecture notes, "Measuring the gradients".
    """
    weights = {n: p for n, p in model.named_parameters() if "weight" in n}
    with torch.enable_grad():
        output = model(x)
        loss = nn.functional.mse_loss(output, torch.zeros_like(output))
        gradients = torch.autograd.grad(loss, weights.values())
    means = (gradient.abs().mean().item() for gradient in gradients)
    return dict(zip(weights, means, strict=True))


def print_gradients(model, x):
    """Print `gradient_means(model, x)` to 4 significant digits."""
    for name, mean in gradient_means(model, x).items():
        print(f"{name} has gradient mean of {mean:#.4g}")
