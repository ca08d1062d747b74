"""The figures of the series: numbers in, a Picture out.

Each function is pure: the same numbers give the same picture, and tensors,
arrays and lists are all welcome. A component has one colour and one hatch in
every picture, so that colour never carries a meaning alone.
"""

import base64
import functools
import io
import itertools
import math
import re
import threading
from numbers import Integral

import matplotlib.style
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

COLORS = {
    "embedding": "#56B4E9",
    "norm": "#009E73",
    "attention": "#E69F00",
    "feed_forward": "#CC79A7",
    "shortcut": "#0072B2",
    "head": "#D55E00",
    "dropout": "#999999",
}
HATCHES = {
    "embedding": "+",
    "norm": "..",
    "attention": "//",
    "feed_forward": "\\\\",
    "shortcut": "",
    "head": "--",
    "dropout": "xx",
}
GREY, BEFORE = "#D9D9D9", "//"  # what a component is compared with
LINES = [  # one look for each series of a plot, then from the start again
    {"color": "#000000", "ls": "-", "marker": "o"},
    {"color": "#D55E00", "ls": "--", "marker": "s"},
    {"color": "#0072B2", "ls": "-.", "marker": "^"},
    {"color": "#009E73", "ls": ":", "marker": "D"},
]
MEMORY = (("#F0E442", ""), ("#FFFFFF", "//"), (GREY, ".."))

LOCK = threading.RLock()
SPACE = "(␣ is a space)"
PNG = {"compress_level": 1}  # a third of the time, a tenth more bytes
SIZE = 13  # points; no text in a picture is smaller than 12
STYLE = {
    "font.size": SIZE,
    "axes.titlesize": SIZE,
    "axes.labelsize": SIZE,
    "legend.fontsize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "hatch.linewidth": 0.7,
    "lines.linewidth": 2.5,
    "lines.markersize": 7,
    "text.hinting": "none",  # a fifth of the time, no worse at these sizes
}


def _styled(draw):
    """Let `draw` work in the series' style and leave the reader's alone.

    One thread at a time: the style is a global thing.
    """

    @functools.wraps(draw)
    def styled(*args, **kwargs):
        with LOCK, matplotlib.style.context(["default", STYLE]):
            return draw(*args, **kwargs)

    return styled


class Picture(Figure):
    """A white figure that shows and describes itself, without pyplot.

    Args:
        width, height: inches, at 100 dots an inch.
        description: what is to be seen, in a sentence with the key numbers.
        margins: inches left, right, below and above the axes. Without them
            they are measured from the texts, which takes as long as drawing:
            an explorer draws anew at each key press, so it gives them.
    """

    def __init__(self, width, height, description, margins=None):
        super().__init__(
            figsize=(width, height),
            dpi=100,
            facecolor="white",
            layout=None if margins else "constrained",
        )
        if margins:
            self.set_margins(*margins)
        else:
            self.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
        self.description = description

    def set_margins(self, left, right, bottom, top):
        """Fix the margins, in inches, in place of measuring them."""
        width, height = self.get_size_inches()
        self.set_layout_engine(None)
        self.subplots_adjust(
            left=left / width,
            right=1 - right / width,
            bottom=bottom / height,
            top=1 - top / height,
        )

    @_styled
    def png(self):
        """The picture as the bytes of a PNG file."""
        file = io.BytesIO()  # savefig would draw everything twice
        _Canvas(self).print_png(file, pil_kwargs=PNG)
        return file.getvalue()

    def _repr_mimebundle_(self, **kwargs):
        image = base64.b64encode(self.png()).decode("ascii")
        data = {"image/png": image, "text/plain": self.description}
        return data, {"image/png": {"alt": self.description}}


class _Canvas(FigureCanvasAgg):
    """Draws on the last picture's sheet if that has the same size: then
    matplotlib need not measure the same words again."""

    sheet = staticmethod(functools.lru_cache(maxsize=8)(RendererAgg))

    def get_renderer(self):
        return self.sheet(*self.figure.bbox.size, self.figure.dpi)


def ink(fill):
    """Black or white: the text colour that is easier to read on `fill`.

    `fill` is any matplotlib colour. The contrast is at least 4.58 to 1.
    """
    rgb = np.array(to_rgb(fill))
    steep = ((rgb + 0.055) / 1.055) ** 2.4
    linear = np.where(rgb <= 0.04045, rgb / 12.92, steep)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    return "black" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "white"


@_styled
def before_and_after(before, after):
    """Bars of each row's features before and after layer norm.

    Both are (rows, features). Each row has a panel of its own, with a line
    at both means; the variances divide by the number of features.
    """
    before, after = _array(before), _array(after)
    titles = [
        f"row {n} before: {_mean_and_variance(old)}\n"
        f"row {n} after: {_mean_and_variance(new)}"
        for n, (old, new) in enumerate(zip(before, after, strict=True), 1)
    ]
    description = f"Layer norm, {'; '.join(titles)}.".replace("\n", ", ")
    picture = Picture(7.5, 0.9 + 2.9 * len(titles), description)
    panels = picture.subplots(
        len(titles), sharex=True, sharey=True, squeeze=False
    )[:, 0]
    for axes, old, new, title in zip(
        panels, before, after, titles, strict=True
    ):
        _pairs(axes, old, new, "norm", ("before", "after"))
        axes.axhline(old.mean(), color="black", ls="--", label="mean before")
        axes.axhline(new.mean(), color=COLORS["norm"], label="mean after")
        _label(axes, "", "value", title)
    features = range(before.shape[1])
    panels[-1].set_xticks(features, [n + 1 for n in features])
    panels[-1].set_xlabel("feature")
    _legend(picture, panels[0], ncols=4)
    return picture


@_styled
def histograms(before, after):
    """How the values are spread before and after layer norm, any shape.

    Mean and standard deviation (dividing by the number of values) are marked.
    """
    both = {"before": _array(before).ravel(), "after": _array(after).ravel()}
    words = {
        name: f"mean {_number(values.mean(), residue=1e-6)}"
        f"\nstandard deviation {_number(values.std())}"
        for name, values in both.items()
    }
    description = "; ".join(f"{name} {words[name]}" for name in both)
    description = f"Layer norm, {description}.".replace("\n", ", ")
    picture = Picture(8, 4.2, description)
    panels = picture.subplots(1, 2, sharey=True)
    fills = (GREY, BEFORE), (COLORS["norm"], HATCHES["norm"])
    for axes, name, fill in zip(panels, both, fills, strict=True):
        mean, spread = both[name].mean(), both[name].std()
        color, hatch = fill
        axes.hist(both[name], bins=20, color=color, hatch=hatch, ec="black")
        axes.axvline(mean, color="black", label="mean")
        ends = {"mean ± standard deviation": 1, "_": -1}
        for label, sign in ends.items():
            edge = mean + sign * spread
            axes.axvline(edge, color="black", ls="--", label=label)
        _label(axes, "value", "", f"{name}: {words[name]}")
    panels[0].set_ylabel("number of values")
    _legend(picture, panels[0], ncols=2)
    return picture


@_styled
def activation_curves(x, curves, derivatives=None):
    """One panel a curve (name → y at each x), all with the same y axis.

    `derivatives`, of the same names, are drawn dashed.
    """
    x = _array(x)
    lowest = ", ".join(
        f"{name} {_number(_array(y).min())}" for name, y in curves.items()
    )
    description = (
        f"{' beside '.join(curves)} for x from {x[0]:g} to "
        f"{x[-1]:g}; lowest values: {lowest}."
        f"{' The derivatives are dashed.' * bool(derivatives)}"
    )
    picture = Picture(min(9, 1 + 3.6 * len(curves)), 4.2, description)
    panels = picture.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for axes, (name, y) in zip(panels, curves.items(), strict=True):
        axes.axhline(0, color="black", lw=0.8)
        axes.axvline(0, color="black", lw=0.8)
        color = COLORS["feed_forward"]
        axes.plot(x, _array(y), color=color, lw=4, label="value")
        if derivatives:
            slope = _array(derivatives[name])
            axes.plot(x, slope, color="black", ls="--", label="derivative")
        _label(axes, "input x", "", name)
    panels[0].set_ylabel("output" + ", slope" * bool(derivatives))
    if derivatives:
        _legend(picture, panels[0], ncols=2)
    return picture


@_styled
def gradient_bars(without, with_shortcut):
    """Mean absolute gradient of each layer, without and with shortcuts.

    Both are layer name → value, as `gradient_means` gives them; the y axis
    is logarithmic. Beyond ten layers only some are named and numbered,
    though a zero, which has no bar there, always is.
    """
    plain = _array(without.values())
    short = _array(with_shortcut[name] for name in without)
    description = (
        f"Mean absolute gradients of {len(plain)} layers: in the first "
        f"{_number(plain[0])} without shortcuts and {_number(short[0])} with "
        f"them, in the last {_number(plain[-1])} and {_number(short[-1])}."
    )
    picture = Picture(9, 4.8, description)
    axes = picture.subplots()
    values = np.concatenate([plain, short])
    values = values[np.isfinite(values) & (values > 0)]
    bottom = min(values, default=0.1) / 3
    labels = "without shortcuts", "with shortcuts"
    width = 0.34 if len(plain) <= 10 else 0.25  # room for the numbers
    _pairs(axes, plain, short, "shortcut", labels, width)
    step, upright = math.ceil(len(plain) / 10), len(plain) > 5
    shown = range(0, len(plain), step)
    look = {"rotation": 90 * upright, "va": "bottom", "fontsize": 12}
    sides = (plain, 0 if upright else -2, "right"), (short, 2, "left")
    for bars, dx, side in sides:
        for n in range(len(bars)):
            if n in shown or bars[n] == 0:
                place = n, max(bars[n], bottom)
                _note(axes, _number(bars[n]), place, (dx, 3), ha=side, **look)
    top = max(*values, bottom)
    axes.set_yscale("log")
    axes.set_ylim(bottom, top * (top / bottom) ** (0.35 if upright else 0.1))
    axes.set_xlim(-0.7, len(plain) - 0.4)
    names = [_layer(name) for name in without]
    axes.set_xticks(shown, [names[n] for n in shown])
    _label(axes, "layer (1 reads the input)", "mean |gradient|, log scale")
    _legend(picture, axes, ncols=2)
    return picture


@_styled
def attention_map(weights, tokens):
    """What each token looks at: one head's (tokens, tokens) weights.

    Rows look, columns are looked at. Zero weights above the diagonal are
    masked: grey, hatched and outside the colour scale. A weight there that
    is not zero keeps its colour, so a forgotten mask is seen.
    """
    picture = Picture(7.5, 6.4, "")
    image = _draw_map(picture, weights, tokens)
    bar = picture.colorbar(image, label="attention weight", shrink=0.8)
    bar.ax.tick_params(labelsize=12)
    return picture


def _draw_map(picture, weights, tokens):
    """`attention_map` without the scale of colours."""
    weights, names = _array(weights), [_visible(token) for token in tokens]
    n = len(names)
    last = weights[-1].argmax()
    picture.description = (
        f"Attention weights of {n} token{'s' * (n > 1)}; the last, "
        f"'{names[-1]}', looks most at '{names[last]}' with weight "
        f"{_number(weights[-1, last])}."
    )
    axes = picture.subplots()
    later = np.triu(np.ones((n, n), bool), k=1)
    shown = np.ma.array(weights, mask=later & (weights == 0))
    axes.patch.set(facecolor=GREY, hatch="//", edgecolor="#777777")
    image = axes.imshow(shown, cmap="cividis", vmin=0, vmax=1)
    for row, column in np.argwhere(~shown.mask) if n <= 8 else ():
        weight = weights[row, column]
        color = ink(image.to_rgba(weight))
        _centre(axes, column, row, f"{weight:.2f}", color=color)
    crowded = n * max(len(name) for name in names) > 45
    axes.set_xticks(range(n), names, rotation=90 * crowded, parse_math=False)
    axes.set_yticks(range(n), names, parse_math=False)
    title = "hatched: masked, a later token" * bool(shown.mask.any())
    columns, rows = f"token looked at {SPACE}", f"token that looks {SPACE}"
    _label(axes, columns, rows, title)
    return image


@_styled
def spread_through_depth(
    series, xlabel="after block", ylabel="variance", log=False
):
    """Lines of name → [value at depth 1, at depth 2, …], equally long.

    `ylabel` names the value and its unit; `log` makes its axis logarithmic.
    """
    series = {name: _array(values) for name, values in series.items()}
    depth = max(len(values) for values in series.values())
    ends = "; ".join(
        f"{name} {_number(y[0])} and {_number(y[-1])}"
        for name, y in series.items()
    )
    description = (
        f"{_sentence(ylabel)}, {xlabel} 1 and {xlabel} {depth}: {ends}."
    )
    picture = Picture(7.5, 4.4, description)
    axes = picture.subplots()
    _lines(axes, range(1, depth + 1), series)
    if log:
        axes.set_yscale("log")
    every = 1 if depth <= 12 else 5 * math.ceil(depth / 50)
    axes.set_xticks(sorted({1, *range(every, depth + 1, every)}))
    _label(axes, xlabel, ylabel + ", log scale" * log)
    return picture


@_styled
def part_sizes(parts, sizes, unit):
    """Horizontal bars of a model's parts, the first on top.

    `parts` are (label, component) in the order of the data path; component
    is a key of COLORS, or None for a part that has several, like a block.
    `sizes` are in `unit`, which labels the axis.
    """
    labels = [label for label, _ in parts]
    largest = max(range(len(sizes)), key=lambda n: sizes[n])
    description = (
        f"{_sentence(unit)}, {len(parts)} parts in the order of the data "
        f"path: the largest is {_number(sizes[largest])}, "
        f"{labels[largest]}."
    )
    picture = Picture(8, 1.3 + 0.36 * len(parts), description)
    axes = picture.subplots()
    bars = axes.barh(
        range(len(parts)),
        _array(sizes),
        ec="black",
        color=[COLORS.get(component, GREY) for _, component in parts],
        hatch=[HATCHES.get(component, "") for _, component in parts],
    )
    axes.bar_label(bars, [_number(size) for size in sizes], padding=4)
    _names_down(axes, labels, room=1.22 * max(_array(sizes)))
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(lambda size, _: f"{size:,.10g}")
    _label(axes, unit, "")
    used = dict.fromkeys(component for _, component in parts)
    keys = [
        _patch(c or "block", COLORS.get(c, GREY), HATCHES.get(c, ""))
        for c in used
    ]
    picture.legend(handles=keys, loc="outside lower center", ncols=4)
    return picture


@_styled
def parameter_bars(parts_by_model):
    """Stacked bars of model → {component: number of parameters}.

    The components are keys of COLORS, as `parameters_by_part` gives them.
    """
    totals = {m: sum(parts.values()) for m, parts in parts_by_model.items()}
    counts = "; ".join(f"{m} {_millions(n)}" for m, n in totals.items())
    picture = Picture(9, 5.6, f"Parameters in millions: {counts}.")
    axes = picture.subplots()
    for x, (model, parts) in enumerate(parts_by_model.items()):
        bottom = 0
        for part, count in parts.items():
            fill, look = COLORS[part], {"width": 0.72, "ec": "black"}
            axes.bar(
                x,
                count / 1e6,
                bottom=bottom,
                color=fill,
                hatch=HATCHES[part],
                **look,
            )
            if count > 0.05 * max(totals.values()):
                _centre(
                    axes,
                    x,
                    bottom + count / 2e6,
                    _millions(count),
                    color=ink(fill),
                    bbox=_card(fill),
                )
            bottom += count / 1e6
        total = f"{_millions(totals[model])} M"
        _note(axes, total, (x, bottom), (0, 4), ha="center", weight="bold")
    axes.set_xticks(range(len(totals)), totals)
    axes.margins(y=0.1)
    _label(axes, "", "parameters (millions, M)")
    parts = dict.fromkeys(itertools.chain(*parts_by_model.values()))
    keys = [_patch(p, COLORS[p], HATCHES[p]) for p in reversed(parts)]
    picture.legend(handles=keys, loc="outside right upper")
    return picture


@_styled
def memory_bars(bytes_by_kind, capacities):
    """Stacked horizontal bars of set-up → {kind of memory: bytes}.

    At most three kinds, such as weights, gradients and AdamW states. Each
    capacity (name → bytes) is a dashed line: what crosses it does not fit.
    """
    totals = {s: sum(kinds.values()) for s, kinds in bytes_by_kind.items()}
    sizes = "; ".join(f"{s} {_number(n / 1e9)}" for s, n in totals.items())
    picture = Picture(9, 2.4 + 0.55 * len(totals), f"Memory in GB: {sizes}.")
    axes = picture.subplots()
    kinds = dict.fromkeys(itertools.chain(*bytes_by_kind.values()))
    fills = dict(zip(kinds, MEMORY, strict=False))
    for y, parts in enumerate(bytes_by_kind.values()):
        left = 0
        for kind, size in parts.items():
            color, hatch = fills[kind]
            axes.barh(
                y, size / 1e9, left=left, color=color, hatch=hatch, ec="black"
            )
            left += size / 1e9
        _note(
            axes,
            _number(left),
            (left, y),
            (5, 0),
            va="center",
            bbox=_card("white"),
        )
    for n, (name, size) in enumerate(capacities.items()):
        line = axes.axvline(size / 1e9, color="black", ls="--", lw=2)
        _note(
            axes,
            name,
            (size / 1e9, 1),
            (0, 4 + 18 * (n % 2)),
            ha="center",
            xycoords=("data", "axes fraction"),
        )
    ends = [*totals.values(), *capacities.values()]
    _names_down(axes, totals, room=1.12 * max(ends) / 1e9)
    _label(axes, "memory (GB of 1,000,000,000 bytes)", "")
    line.set_label("capacity")
    keys = [_patch(kind, *fill) for kind, fill in fills.items()]
    picture.legend(handles=[*keys, line], loc="outside lower center", ncols=4)
    return picture


@_styled
def token_times(lengths, seconds):
    """Time for one more token at each context length (tokens).

    `seconds` is name → list of seconds, drawn in milliseconds. They are
    measured, so the description, which must not change, leaves them out.
    """
    description = (
        f"Time for one more token, {' and '.join(seconds)}, at context "
        f"lengths from {min(lengths)} to {max(lengths)} tokens."
    )
    picture = Picture(7.5, 4.4, description)
    axes = picture.subplots()
    _lines(axes, lengths, {n: 1000 * _array(s) for n, s in seconds.items()})
    axes.set_ylim(bottom=0)
    _label(axes, "context length (tokens)", "time per token (milliseconds)")
    return picture


@_styled
def candidates(tokens, probabilities, chosen=0):
    """Bars of the likeliest next tokens, in the order given.

    `chosen` is the position of the token that is appended.
    """
    names, values = [_visible(t) for t in tokens], _array(probabilities)
    description = (
        f"{len(names)} candidates for the next token; chosen: "
        f"'{names[chosen]}' with probability {_number(values[chosen])}."
    )
    picture = Picture(7.5, max(3.4, 1.2 + 0.4 * len(names)), description)
    axes = picture.subplots()
    bars = axes.barh(range(len(names)), values, color=GREY, ec="black")
    bars[chosen].set(facecolor=COLORS["head"], hatch=HATCHES["head"])
    words = [_number(value) for value in values]
    words[chosen] += "  chosen"
    axes.bar_label(bars, words, padding=4)
    _names_down(axes, names, room=1.45 * values.max())
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    _label(axes, "probability", f"next token {SPACE}")
    return picture


@_styled
def shape_bars(stops, summary):
    """How many values stand at each stop of the data path, log scale.

    `stops` are (label, component or None, shape); `summary` begins the
    description. The axis never moves, so settings can be compared.
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
    picture = Picture(7, height, description, (2.55, 0.1, 0.65, 0.1))
    axes = picture.subplots()
    bars = axes.barh(
        range(len(stops)),
        sizes,
        ec="black",
        color=[COLORS.get(component, GREY) for _, component, _ in stops],
        hatch=[HATCHES.get(component, "") for _, component, _ in stops],
    )
    shapes = [str(tuple(shape)) for _, _, shape in stops]
    axes.bar_label(bars, shapes, padding=4, fontsize=12)
    axes.set_xscale("log")
    axes.minorticks_off()
    words = "1", "thousand", "million", "billion"
    axes.set_xticks([1, 1e3, 1e6, 1e9], words)
    _names_down(axes, [label for label, _, _ in stops], 1e16, start=1)
    _label(axes, "number of values, log scale", "")
    _pin_labels(axes, 0, -0.105)
    return picture


@_styled
def norm_histograms(before, after, limits, summary):
    """Values before layer norm over values after it, on axes that stay.

    `limits` are the two largest sizes that have room on the x axes;
    `summary` begins the description.
    """
    rows = {"before": _array(before).ravel(), "after": _array(after).ravel()}
    words = {
        name: f"mean {_number(values.mean(), residue=1e-5)}, "
        f"standard deviation {_number(values.std())}"
        for name, values in rows.items()
    }
    ends = "; ".join(f"{name}: {words[name]}" for name in rows)
    description = f"{summary} {_sentence(ends)}."
    picture = Picture(6.6, 4.4, description, (0.8, 0.3, 0.6, 0.4))
    picture.subplots_adjust(hspace=0.75)
    panels = picture.subplots(2, 1)
    fills = (GREY, BEFORE), (COLORS["norm"], HATCHES["norm"])
    for axes, name, fill, end in zip(panels, rows, fills, limits, strict=True):
        color, hatch = fill
        values = rows[name][np.isfinite(rows[name])]
        counts, edges = np.histogram(values, np.linspace(-end, end, 61))
        axes.stairs(
            100 * counts / rows[name].size,
            edges,
            fill=True,
            color=color,
            hatch=hatch,
            ec="black",
        )
        axes.axvline(0, color="black", lw=0.8)
        axes.set_xlim(-end, end)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(2))
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        if not values.size:
            axes.set_ylim(0, 1)
            nan = "every value is nan: 0 divided by 0"
            _centre(axes, 0, 0.5, nan, bbox=_card("white"))
            picture.description += f" Here {nan}."
        _label(axes, "", "% of values", f"{name}: {words[name]}")
        _pin_labels(axes, -0.07, -0.26)
    panels[1].set_xlabel("value")
    return picture


@_styled
def activation_curve(name, x, y, slope=None):
    """One activation function, and its derivative dashed if given."""
    x, y = _array(x), _array(y)
    lowest = y.argmin()
    description = (
        f"{name} for x from {x[0]:g} to {x[-1]:g}: lowest value "
        f"{_number(y[lowest])} at x = {x[lowest]:.2f}, "
        f"{_number(y[-1])} at the right end."
    )
    if slope is not None:
        slope = _array(slope)
        description += (
            f" The derivative, dashed, lies between {_number(slope.min())} "
            f"and {_number(slope.max())}."
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
    _label(axes, "input x", "output" + ", slope" * (slope is not None), name)
    axes.legend(loc="upper left")
    return picture


@_styled
def gradient_levels(means, other, shortcut, summary):
    """Mean absolute gradient of each layer of one network, log scale.

    `means` and `other` are lists, the first layer first; `other` is the
    network with the opposite setting of `shortcut` and is marked by lines, so
    that both share an axis. A gradient of 0 or beyond all numbers has no
    height on it and is named instead.
    """
    means, other = _array(means), _array(other)
    names = ["with shortcuts", "without shortcuts"]
    name, marked = names if shortcut else names[::-1]
    description = (
        f"{summary}, {name}: mean |gradient| {_number(means[0])} in the "
        f"first layer, {_number(means[-1])} in the last. {_sentence(marked)}:"
        f" {_number(other[0])} and {_number(other[-1])}."
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
        _note(
            axes,
            _number(mean),
            (n + 1, foot),
            (0, -6 if inside else 6),
            ha="center",
            va="top" if inside else "bottom",
            rotation=90 * upright,
            fontsize=12,
            bbox=_card("white"),
        )
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_yticks(*_powers_of_ten(bottom, top))
    axes.set_ylim(bottom, top)
    axes.set_xlim(0.4, len(means) + 0.6)
    axes.set_xticks(places[::step])
    _label(axes, "layer (1 reads the input)", "mean |gradient|, log scale")
    _pin_labels(axes, -0.1, -0.1)
    picture.legend(loc="upper center", ncols=2, frameon=False)
    return picture


def _array(values):
    """Float array of a tensor, an array, or an iterable of numbers."""
    if hasattr(values, "detach"):
        return values.detach().cpu().double().numpy()
    if not isinstance(values, np.ndarray | list | tuple | range):
        values = list(values)
    return np.asarray(values, dtype=float)


def _number(value, residue=0):
    """Integers in full, floats to 4 significant digits.

    Below `residue` the digits are rounding errors and differ from one
    machine to the next, so only the bound is told.
    """
    if abs(value) < residue:
        return f"below {residue:.0e}".replace("e-0", "e-")
    if value == 0 or isinstance(value, Integral):
        return f"{int(value):,}"
    return f"{value:#,.4g}".rstrip(".")


def _millions(count):
    return f"{count / 1e6:#,.4g}".rstrip(".")


def _mean_and_variance(row):
    mean = _number(row.mean(), residue=1e-6)
    return f"mean {mean}, variance {_number(row.var())}"


def _layer(name):
    """'layers.0.0.weight' → '1'; other names stay as they are."""
    match = re.match(r"layers\.(\d+)\.", name)
    return str(int(match[1]) + 1) if match else name


def _powers_of_ten(bottom, top):
    """About six ticks and their labels, as plain text, which draws fast."""
    first, last = math.ceil(math.log10(bottom)), math.floor(math.log10(top))
    powers = range(first, last + 1, math.ceil((last - first + 1) / 6))
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    labels = ["10" + str(power).translate(raised) for power in powers]
    return [10.0**power for power in powers], labels


def _sentence(words):
    """The words with their first letter large, the others as they are."""
    return words[:1].upper() + words[1:]


def _visible(token):
    """A token's text with each space as an open box, escapes spelt out."""
    text = "".join(
        c
        if c.isprintable() and (c < "\u0590" or c == "\ufffd")
        else ascii(c)[1:-1]
        for c in token
    )
    return text.replace(" ", "␣")


def _label(axes, xlabel, ylabel, title=""):
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    axes.tick_params(labelsize=12)


def _pin_labels(axes, x, y):
    """Fix how far left and below of the axes, in their sizes, labels stand.

    To put them beside the ticks takes a tenth of the time of a drawing.
    """
    axes.yaxis.set_label_coords(x, 0.5)
    axes.xaxis.set_label_coords(0.5, y)


def _legend(picture, axes, ncols):
    handles, labels = axes.get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=ncols)


def _pairs(axes, first, second, component, labels, width=0.34):
    """Two bars a position: a grey one, then one in the component's look."""
    places = np.arange(len(first))
    axes.bar(
        places - width / 2,
        first,
        width,
        ec="black",
        label=labels[0],
        color=GREY,
        hatch=BEFORE,
    )
    axes.bar(
        places + width / 2,
        second,
        width,
        ec="black",
        label=labels[1],
        color=COLORS[component],
        hatch=HATCHES[component],
    )


def _lines(axes, x, series):
    """A line for each name → y, told apart by colour, style and marker."""
    for (name, y), look in zip(series.items(), itertools.cycle(LINES)):
        axes.plot(x, y, label=name, **look)
    axes.legend()


def _names_down(axes, names, room, start=0):
    """Name horizontal bars from the top down; the x axis ends at `room`."""
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(start, room)


def _patch(name, color, hatch):
    label = name.replace("_", "-")
    return Patch(facecolor=color, hatch=hatch, edgecolor="black", label=label)


def _card(color):
    """A patch of plain `color` behind a text, so no hatch crosses it."""
    return {"facecolor": color, "edgecolor": "none", "pad": 2}


def _centre(axes, x, y, text, **look):
    axes.text(x, y, text, ha="center", va="center", fontsize=12, **look)


def _note(axes, text, place, shift, **look):
    """Text `shift` points (right, up) away from a place in the plot."""
    axes.annotate(text, place, shift, textcoords="offset points", **look)


@_styled
def head_map(weights, tokens, layer, head):
    """`attention_map` of one head among others, numbered from 1."""
    names = [_short(token) for token in tokens]
    longest = max(map(_inches, names))
    crowded = len(names) * longest > 3.6
    side = 0.6 + longest
    foot = side if crowded else 0.75
    picture = Picture(side + 5.1, foot + 4.4, "", (side, 1.1, foot, 0.4))
    image = _draw_map(picture, weights, names)
    (axes,) = picture.axes
    if not axes.texts:  # no numbers, so a scale
        box = axes.get_position()
        place = box.x1 + 0.02, box.y0 + 0.1 * box.height
        scale = picture.add_axes([*place, 0.03, 0.8 * box.height])
        picture.colorbar(image, scale, label="attention weight")
        scale.tick_params(labelsize=12)
    image.set_interpolation("nearest")
    axes.tick_params("x", labelrotation=90 * crowded)
    axes.set_title(f"layer {layer}, head {head} (hatched: a later token)")
    _pin_labels(axes, (0.3 - side) / 4, (0.3 - foot) / 4)
    picture.description = (
        f"Layer {layer}, head {head}. {picture.description} "
        "Each row sums to 1; a later token always has weight 0."
    )
    return picture


@_styled
def model_step(parts, shapes, sizes, step):
    """`part_sizes` as far as part number `step`, from 1, which is marked.

    `shapes` are of each part's output, `sizes` its standard deviations.
    """
    unit = "standard deviation of the output"
    picture = part_sizes(parts, sizes, unit)
    (axes,) = picture.axes
    now, (name, _) = step - 1, parts[step - 1]
    shape = ", ".join(map(str, shapes[now]))
    for n, (bar, number) in enumerate(
        zip(axes.patches, axes.texts, strict=True)
    ):
        bar.set_visible(n <= now)
        number.set_visible(n <= now)
    axes.patches[now].set_linewidth(3)
    axes.texts[now].set(
        text=f"{_number(sizes[now])}  ← ({shape})", weight="bold"
    )
    axes.get_yticklabels()[now].set_weight("bold")
    axes.set_xlim(0, 1.75 * max(sizes))
    picture.legends[0].remove()  # the names say which part is which
    picture.set_size_inches(7, 0.9 + 0.3 * len(parts))
    picture.set_margins(2.5, 0.15, 0.75, 0.1)
    change = "" if now == 0 else f", before it {_number(sizes[now - 1])}"
    picture.description = (
        f"Part {step} of {len(parts)}, {name}: its output has shape "
        f"({shape}) and standard deviation {_number(sizes[now])}{change}."
    )
    return picture


@_styled
def memory_fit(count, bytes_by_kind, capacities):
    """How much of each capacity (name → bytes) a model's memory takes.

    `count` is its number of parameters, `bytes_by_kind` as for one set-up of
    `memory_bars`.
    """
    total = sum(bytes_by_kind.values())
    fits = [name for name, size in capacities.items() if total <= size]
    weights = bytes_by_kind["weights"] / 1024**2
    description = (
        f"{count:,} parameters. Weights: {weights:,.2f} MB (of 1024 × 1024 "
        f"bytes). In all {total:,} bytes or {_number(total / 1e9)} GB (of "
        f"1,000,000,000 bytes) for {', '.join(bytes_by_kind)}. Fits in "
        f"{', '.join(fits) or 'none of ' + ', '.join(capacities)}; "
        "activations come on top."
    )
    picture = Picture(7.2, 3.6, description, (0.75, 1.85, 1.05, 0.4))
    axes = picture.subplots()
    for y, size in enumerate(capacities.values()):
        left = 0
        for part, (color, hatch) in zip(
            bytes_by_kind.values(), MEMORY, strict=False
        ):
            share = 100 * part / size
            look = {"color": color, "hatch": hatch, "ec": "black"}
            axes.barh(y, min(share, 120), left=min(left, 120), **look)
            left += share
        words = f"{left:,.{int(left < 1000)}f} %"
        words = words if left >= 0.05 else "below 0.1 %"
        words += ": fits" if total <= size else ": too large"
        look = {"xycoords": ("axes fraction", "data"), "va": "center"}
        _note(axes, words, (1, y), (6, 0), fontsize=12, **look)
    line = axes.axvline(100, color="black", ls="--", label="full")
    _names_down(axes, capacities, room=115)
    axes.set_xticks([0, 25, 50, 75, 100])
    title = f"{count:,} parameters, {_number(total / 1e9)} GB"
    _label(axes, "share of the memory (%)", "", title)
    keys = [
        _patch(kind, *fill)
        for kind, fill in zip(bytes_by_kind, MEMORY, strict=False)
    ]
    picture.legend(handles=[*keys, line], loc="outside lower center", ncols=4)
    return picture


@_styled
def generation_round(number, text, tokens, probabilities):
    """`candidates` in one round of the loop; the first is chosen.

    `text` is what the model has read.
    """
    names = [_short(token) for token in tokens]
    picture = candidates(names, probabilities)
    (axes,) = picture.axes
    side = max(2.1, 0.7 + _inches(max(names, key=len)))
    picture.set_size_inches(side + 4.9, max(3.4, 1.2 + 0.32 * len(tokens)))
    picture.set_margins(side, 0.25, 0.7, 0.4)
    read = _visible(text)
    read = "…" * (len(read) > 32) + read[-32:]
    look = {"loc": "left", "x": -side / 4.65 + 0.02, "parse_math": False}
    axes.set_title(f"round {number}, after: {read}", **look)
    axes.set_xlim(0, 1.7 * max(probabilities))
    axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    picture.description = (
        f"Round {number}: after {text!r}. {picture.description}"
    )
    return picture


def _inches(text):
    """Width of a text of 12 points, for margins that fit."""
    font = FontProperties(size=12)
    text = _visible(text)
    width = text_to_path.get_text_width_height_descent(text, font, False)[0]
    return width / 72


def _short(token):
    """A token's beginning: margins have no room for the longest ones."""
    return token if len(token) <= 14 else token[:13] + "..."
