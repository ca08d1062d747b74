"""Explorer 02: layer norm undoes the scale and the offset of its input."""

import functools
import math

import numpy as np
import torch
from matplotlib.ticker import MaxNLocator

from classroom.explore.explorer import Explorer, slider, steps, switch
from classroom.explore.own import LINE, compared, made
from classroom.picture import (
    BEFORE,
    COLORS,
    GREY,
    HATCHES,
    Picture,
    array,
    card,
    centre,
    digits,
    label_axes,
    pin_labels,
    sentence,
    styled,
)

EPS = 1e-5
# Of the noise |z|, z from a bell: its mean, and its standard deviation.
HALF_BELL = (2 / math.pi) ** 0.5, (1 - 2 / math.pi) ** 0.5
SIZES = [0, 0.001, 0.003, 0.01, 0.1, 1, 3, 10, 30]
WIDTHS = [2, 3, 6, 24, 768]
ROOM = 150, 4  # what the axes show: the noise is below 4, mostly


def explore_layer_norm(norm=None):
    """Histograms before and after the norm, for any scale and offset.

    Args:
        norm: your own class, such as `MyLayerNorm`, made by `norm(emb_dim)`.
            Its output is drawn beside what the switches choose.
    """
    return Explorer(
        functools.partial(_draw, norm=norm),
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

    The rows are offset + scale × noise from seed 123, and the noise, with
    mean 0 and standard deviation 1, has a steep left side. `unbiased` divides
    the squared distances by features − 1; `without_eps` leaves eps out.
    """
    generator = torch.Generator().manual_seed(123)
    noise = torch.randn(2, 4, features, generator=generator).abs()
    noise = (noise - HALF_BELL[0]) / HALF_BELL[1]
    before = offset + scale * noise
    mean = before.mean(dim=-1, keepdim=True)
    var = before.var(dim=-1, keepdim=True, correction=int(unbiased))
    eps = 0 if without_eps else EPS
    return before, (before - mean) / torch.sqrt(var + eps)


@styled
def norm_histograms(before, after, limits, summary, own=None):
    """Values before layer norm over values after it, on axes that stay.

    `limits` are the two largest sizes that have room on the x axes;
    `summary` begins the description. `own` is the output of the learner's
    norm, outlined.
    """
    rows = {"before": array(before).ravel(), "after": array(after).ravel()}
    words = {
        name: f"mean {digits(values.mean(), residue=1e-5)}, "
        f"standard deviation {digits(values.std())}"
        for name, values in rows.items()
    }
    ends = "; ".join(f"{name}: {words[name]}" for name in rows)
    description = f"{summary} {sentence(ends)}."
    picture = Picture(6.6, 4.4, description, (0.8, 0.3, 0.6, 0.4))
    picture.subplots_adjust(hspace=0.75)
    panels = picture.subplots(2, 1)
    fills = (GREY, BEFORE), (COLORS["norm"], HATCHES["norm"])
    for axes, name, fill, end in zip(panels, rows, fills, limits, strict=True):
        edges = np.linspace(-end, end, 61)
        if not _histogram(axes, rows[name], edges, fill):
            nan = "every value is nan: 0 divided by 0"
            centre(axes, 0, 0.5, nan, bbox=card("white"))
            picture.description += f" Here {nan}."
        label_axes(axes, "", "% of values", f"{name}: {words[name]}")
        pin_labels(axes, -0.07, -0.26)
    look = {"color": "black", "ls": "--", "lw": 1.5}
    upright = panels[1].get_xaxis_transform()
    panels[1].vlines([-1, 1], 0, 1, transform=upright, **look)
    panels[1].set_xlabel("value; dashed: −1 and 1")
    if own is not None:
        _outline(panels[1], array(own).ravel(), edges)
    return picture


def _histogram(axes, values, edges, fill):
    """Shares of the values between edges; how many have a place there."""
    color, hatch = fill
    finite = values[np.isfinite(values)]
    counts, _ = np.histogram(finite, edges)
    shares = 100 * counts / values.size
    look = {"fill": True, "color": color, "hatch": hatch, "ec": "black"}
    axes.stairs(shares, edges, **look)
    axes.axvline(0, color="black", lw=0.8)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(2))
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    if not finite.size:
        axes.set_ylim(0, 1)
    return finite.size


def _outline(axes, values, edges):
    """The learner's histogram, over the other one."""
    counts, _ = np.histogram(values[np.isfinite(values)], edges)
    shares = 100 * counts / values.size
    axes.stairs(shares, edges, **LINE)
    top = axes.get_ylim()[1]
    axes.set_ylim(top=min(max(top, 1.05 * shares.max()), 3 * top))
    axes.legend(loc="upper right")


def _draw(features, unbiased, without_eps, norm=None, **values):
    before, after = normalized(
        features=features, unbiased=unbiased, without_eps=without_eps, **values
    )
    summary = (
        f"8 rows of {features} features; the variance is divided by "
        f"{features - unbiased}, {'without' if without_eps else 'with'} eps."
    )
    own, words = compared(
        norm,
        lambda part, x: made(part, features)(x),
        before,
        reference=after,
        place=lambda at: (
            f"in row {4 * at[0] + at[1] + 1}, feature {at[2] + 1}"
        ),
    )
    picture = norm_histograms(before, after, ROOM, summary, own)
    picture.description += "".join(
        _reasons(before, after, unbiased, without_eps)
    )
    picture.description += words
    return picture


def _reasons(before, after, unbiased, without_eps):
    """Sentences on what is not as the notebook says, each with its cause."""
    features = before.shape[-1]
    variance = before.var(dim=-1, correction=int(unbiased)).mean().item()
    if not without_eps and variance < 1000 * EPS:
        yield (
            f" eps = 1e-5 acts: beside it, the variance before, "
            f"{digits(variance)}, is not large any more, so the standard "
            "deviation after stays below 1, the dashed lines."
        )
    if unbiased and variance:
        yield (
            " Divided by n − 1, every row comes out too small, by √((n − 1)/n)"
            f" = {digits(((features - 1) / features) ** 0.5)}."
        )
    if features == 2 and variance > 1000 * EPS and not unbiased:
        yield (
            " Of two features, one is as far above the mean as the other is "
            "below: every row becomes −1 and 1."
        )
    if after.mean().abs() > 1e-5:
        yield (
            " The mean after is a rounding rest: a float32 number has some "
            "seven digits, and the offset takes the first of them."
        )
