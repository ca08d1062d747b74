"""Explorer 02: layer norm undoes the scale and the offset of its input."""

import torch

from classroom import plots
from classroom.explore.explorer import Explorer, slider, steps, switch

EPS = 1e-5
SIZES = [0, 0.001, 0.003, 0.01, 0.1, 1, 3, 10, 30]
WIDTHS = [2, 3, 6, 24, 768]
ROOM = 150, 4  # what the axes show: the noise is below 4, mostly


def explore_layer_norm():
    """Histograms before and after the norm, for any scale and offset."""
    return Explorer(
        _draw,
        {
            "Input = offset + scale × noise": {
                "scale": steps("scale", SIZES, 10),
                "offset": slider("offset", 3, -50, 50),
                "features": steps("features of a row", WIDTHS, 768),
            },
            "Layer norm": {
                "unbiased": switch("unbiased variance: divide by n − 1"),
                "without_eps": switch("without eps"),
            },
        },
    )


def normalized(scale, offset, features, unbiased=False, without_eps=False):
    """Eight rows before and after layer norm, each (2, 4, features).

    The rows are offset + scale × noise from seed 123. `unbiased` divides
    the squared distances by features − 1; `without_eps` leaves eps out.
    """
    generator = torch.Generator().manual_seed(123)
    noise = torch.randn(2, 4, features, generator=generator)
    before = offset + scale * noise
    mean = before.mean(dim=-1, keepdim=True)
    var = before.var(dim=-1, keepdim=True, correction=int(unbiased))
    eps = 0 if without_eps else EPS
    return before, (before - mean) / torch.sqrt(var + eps)


def _draw(features, unbiased, without_eps, **values):
    rows = normalized(
        features=features, unbiased=unbiased, without_eps=without_eps, **values
    )
    summary = (
        f"8 rows of {features} features; the variance is divided by "
        f"{features - unbiased}, {'without' if without_eps else 'with'} eps."
    )
    return plots.norm_histograms(*rows, ROOM, summary)
