"""The figures of the series: numbers in, a Picture out.

Each function is pure: the same numbers give the same picture, and tensors,
arrays and lists are all welcome. What only an explorer draws stands in its
file, in `explore`.
"""

import itertools
import math
import re

import numpy as np
from matplotlib.ticker import MaxNLocator

from classroom.picture import (
    BEFORE,
    COLORS,
    GREY,
    HATCHES,
    LINES,
    SPACE,
    Picture,
    array,
    card,
    centre,
    component_bars,
    digits,
    ink,
    label_axes,
    legend_patch,
    memory_looks,
    names_down,
    note,
    sentence,
    styled,
    visible,
)


@styled
def before_and_after(before, after):
    """Bars of each row's features before and after layer norm.

    Both are (rows, features). Each row has a panel of its own, with a line
    at both means; the variances divide by the number of features.
    """
    before, after = array(before), array(after)
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
        label_axes(axes, "", "value", title)
    features = range(before.shape[1])
    panels[-1].set_xticks(features, [n + 1 for n in features])
    panels[-1].set_xlabel("feature")
    _legend(picture, panels[0], ncols=4)
    return picture


@styled
def histograms(before, after):
    """How the values are spread before and after layer norm, any shape.

    Mean and standard deviation (dividing by the number of values) are marked.
    """
    both = {"before": array(before).ravel(), "after": array(after).ravel()}
    words = {
        name: f"mean {digits(values.mean(), residue=1e-6)}"
        f"\nstandard deviation {digits(values.std())}"
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
        label_axes(axes, "value", "", f"{name}: {words[name]}")
    panels[0].set_ylabel("number of values")
    _legend(picture, panels[0], ncols=2)
    return picture


@styled
def activation_curves(x, curves, derivatives=None):
    """One panel a curve (name → y at each x), all with the same y axis.

    `derivatives`, of the same names, are drawn dashed.
    """
    x = array(x)
    lowest = ", ".join(
        f"{name} {digits(array(y).min())}" for name, y in curves.items()
    )
    description = (
        f"{' beside '.join(curves)} for x from {x[0]:g} to "
        f"{x[-1]:g}; lowest values: {lowest}."
    )
    if derivatives:
        description += " The derivatives are dashed."
    picture = Picture(min(9, 1 + 3.6 * len(curves)), 4.2, description)
    panels = picture.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for axes, (name, y) in zip(panels, curves.items(), strict=True):
        axes.axhline(0, color="black", lw=0.8)
        axes.axvline(0, color="black", lw=0.8)
        color = COLORS["feed_forward"]
        axes.plot(x, array(y), color=color, lw=4, label="value")
        if derivatives:
            slope = array(derivatives[name])
            axes.plot(x, slope, color="black", ls="--", label="derivative")
        label_axes(axes, "input x", "", name)
    panels[0].set_ylabel("output, slope" if derivatives else "output")
    if derivatives:
        _legend(picture, panels[0], ncols=2)
    return picture


@styled
def gradient_bars(without, with_shortcut):
    """Mean absolute gradient of each layer, without and with shortcuts.

    Both are layer name → value, as `gradient_means` gives them; the y axis
    is logarithmic. Beyond ten layers only some are named and numbered,
    though a zero, which has no bar there, always is.
    """
    plain = array(without.values())
    short = array(with_shortcut[name] for name in without)
    description = (
        f"Mean absolute gradients of {len(plain)} layers: in the first "
        f"{digits(plain[0])} without shortcuts and {digits(short[0])} with "
        f"them, in the last {digits(plain[-1])} and {digits(short[-1])}."
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
    look = {"rotation": 90 if upright else 0, "va": "bottom", "fontsize": 12}
    sides = (plain, 0 if upright else -2, "right"), (short, 2, "left")
    for bars, dx, side in sides:
        for n in range(len(bars)):
            if n in shown or bars[n] == 0:
                place = n, max(bars[n], bottom)
                note(axes, digits(bars[n]), place, (dx, 3), ha=side, **look)
    top = max(*values, bottom)
    axes.set_yscale("log")
    axes.set_ylim(bottom, top * (top / bottom) ** (0.35 if upright else 0.1))
    axes.set_xlim(-0.7, len(plain) - 0.4)
    names = [_layer(name) for name in without]
    axes.set_xticks(shown, [names[n] for n in shown])
    label_axes(axes, "layer (1 reads the input)", "mean |gradient|, log scale")
    _legend(picture, axes, ncols=2)
    return picture


@styled
def attention_map(weights, tokens):
    """What each token looks at: one head's (tokens, tokens) weights.

    Rows look, columns are looked at. Zero weights above the diagonal are
    masked: grey, hatched and outside the colour scale. A weight there that
    is not zero keeps its colour, so a forgotten mask is seen.
    """
    picture = Picture(7.5, 6.4, "")
    image = draw_attention(picture, weights, tokens)
    bar = picture.colorbar(image, label="attention weight", shrink=0.8)
    bar.ax.tick_params(labelsize=12)
    return picture


@styled
def spread_through_depth(
    series, xlabel="after block", ylabel="variance", log=False
):
    """Lines of name → [value at depth 1, at depth 2, …], equally long.

    `ylabel` names the value and its unit; `log` makes its axis logarithmic.
    """
    series = {name: array(values) for name, values in series.items()}
    depth = max(len(values) for values in series.values())
    ends = "; ".join(
        f"{name} {digits(y[0])} and {digits(y[-1])}"
        for name, y in series.items()
    )
    description = (
        f"{sentence(ylabel)}, {xlabel} 1 and {xlabel} {depth}: {ends}."
    )
    picture = Picture(7.5, 4.4, description)
    axes = picture.subplots()
    _lines(axes, range(1, depth + 1), series)
    if log:
        axes.set_yscale("log")
    every = 1 if depth <= 12 else 5 * math.ceil(depth / 50)
    axes.set_xticks(sorted({1, *range(every, depth + 1, every)}))
    label_axes(axes, xlabel, f"{ylabel}, log scale" if log else ylabel)
    return picture


@styled
def part_sizes(parts, sizes, unit):
    """Horizontal bars of a model's parts, the first on top.

    `parts` are (label, component) in the order of the data path; component
    is a key of COLORS, or None for a part that has several, like a block.
    `sizes` are in `unit`, which labels the axis.
    """
    labels = [label for label, _ in parts]
    largest = max(range(len(sizes)), key=lambda n: sizes[n])
    description = (
        f"{sentence(unit)}, {len(parts)} parts in the order of the data "
        f"path: the largest is {digits(sizes[largest])}, "
        f"{labels[largest]}."
    )
    picture = Picture(8, 1.3 + 0.36 * len(parts), description)
    axes = picture.subplots()
    draw_parts(axes, parts, sizes, unit, room=1.22 * max(array(sizes)))
    used = dict.fromkeys(component for _, component in parts)
    keys = [
        legend_patch(c or "block", COLORS.get(c, GREY), HATCHES.get(c, ""))
        for c in used
    ]
    picture.legend(handles=keys, loc="outside lower center", ncols=4)
    return picture


@styled
def learning_curves(losses, levels):
    """Loss before each step, of name → list, equally long; log axis.

    `levels` (words → loss) are level lines to compare with, such as the loss
    of a model that knows nothing.
    """
    losses = {name: array(values) for name, values in losses.items()}
    steps = max(map(len, losses.values()))
    ends = "; ".join(
        f"{name} {digits(y[0])} and {digits(y[-1])}"
        for name, y in losses.items()
    )
    lines = "; ".join(f"{words} {digits(y)}" for words, y in levels.items())
    description = (
        f"Loss before the first and the last of {steps} steps: {ends}. "
        f"Level lines: {lines}."
    )
    picture = Picture(8, 4.8, description)
    axes = picture.subplots()
    for (name, y), look in zip(losses.items(), LINES, strict=False):
        every = max(1, steps // 10)
        axes.plot(range(1, steps + 1), y, markevery=every, **look)
        place, color = (steps, y[-1]), look["color"]
        note(axes, name, place, (7, 0), va="center", color=color)
    for words, level in levels.items():
        axes.hlines(level, 1, steps, color="#555555", ls=":", zorder=0)
        look = {"ha": "right", "va": "top", "color": "#333333"}
        told = f"{words}: {digits(level)}"
        note(axes, told, (steps, level), (0, -5), **look)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda loss, _: f"{loss:g}")
    axes.grid(axis="y", color=GREY, lw=1)
    axes.set_xlim(right=1.3 * steps)
    axes.set_xticks(range(0, steps + 1, max(1, steps // 5)))
    label_axes(axes, "step of training", "loss, log scale")
    return picture


@styled
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
                centre(
                    axes,
                    x,
                    bottom + count / 2e6,
                    _millions(count),
                    color=ink(fill),
                    bbox=card(fill),
                )
            bottom += count / 1e6
        total = f"{_millions(totals[model])} M"
        note(axes, total, (x, bottom), (0, 4), ha="center", weight="bold")
    axes.set_xticks(range(len(totals)), totals)
    axes.margins(y=0.1)
    label_axes(axes, "", "parameters (millions, M)")
    parts = dict.fromkeys(itertools.chain(*parts_by_model.values()))
    keys = [legend_patch(p, COLORS[p], HATCHES[p]) for p in reversed(parts)]
    picture.legend(handles=keys, loc="outside right upper")
    return picture


@styled
def memory_bars(bytes_by_kind, capacities):
    """Stacked horizontal bars of set-up → {kind of memory: bytes}.

    Kinds are, for example, weights, gradients and AdamW states. Each capacity
    (name → bytes) is a dashed line: what crosses it does not fit.
    """
    totals = {s: sum(kinds.values()) for s, kinds in bytes_by_kind.items()}
    sizes = "; ".join(f"{s} {digits(n / 1e9)}" for s, n in totals.items())
    picture = Picture(9, 2.4 + 0.55 * len(totals), f"Memory in GB: {sizes}.")
    axes = picture.subplots()
    kinds = dict.fromkeys(itertools.chain(*bytes_by_kind.values()))
    fills = memory_looks(kinds)
    for y, parts in enumerate(bytes_by_kind.values()):
        left = 0
        for kind, size in parts.items():
            color, hatch = fills[kind]
            axes.barh(
                y, size / 1e9, left=left, color=color, hatch=hatch, ec="black"
            )
            left += size / 1e9
        note(
            axes,
            digits(left),
            (left, y),
            (5, 0),
            va="center",
            bbox=card("white"),
        )
    keys = [legend_patch(kind, *fill) for kind, fill in fills.items()]
    for n, (name, size) in enumerate(capacities.items()):
        line = axes.axvline(size / 1e9, color="black", ls="--", lw=2)
        if n == 0:
            line.set_label("capacity")
            keys.append(line)
        note(
            axes,
            name,
            (size / 1e9, 1),
            (0, 4 + 18 * (n % 2)),
            ha="center",
            xycoords=("data", "axes fraction"),
        )
    ends = [*totals.values(), *capacities.values()]
    names_down(axes, totals, room=1.12 * max(ends) / 1e9)
    label_axes(axes, "memory (GB of 1,000,000,000 bytes)", "")
    picture.legend(handles=keys, loc="outside lower center", ncols=4)
    return picture


@styled
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
    _lines(axes, lengths, {n: 1000 * array(s) for n, s in seconds.items()})
    axes.set_ylim(bottom=0)
    label_axes(
        axes, "context length (tokens)", "time per token (milliseconds)"
    )
    return picture


@styled
def candidates(tokens, probabilities, chosen=0):
    """Bars of the likeliest next tokens, in the order given.

    `chosen` is the position of the token that is appended.
    """
    names, values = [visible(t) for t in tokens], array(probabilities)
    description = (
        f"{len(names)} candidates for the next token; chosen: "
        f"'{names[chosen]}' with probability {digits(values[chosen])}."
    )
    picture = Picture(7.5, max(3.4, 1.2 + 0.4 * len(names)), description)
    axes = picture.subplots()
    bars = axes.barh(range(len(names)), values, color=GREY, ec="black")
    bars[chosen].set(facecolor=COLORS["head"], hatch=HATCHES["head"])
    words = [digits(value) for value in values]
    words[chosen] += "  chosen"
    axes.bar_label(bars, words, padding=4)
    names_down(axes, names, room=1.45 * values.max())
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    label_axes(axes, "probability", f"next token {SPACE}")
    return picture


def draw_attention(picture, weights, tokens):
    """What `attention_map` draws, without the scale of colours."""
    weights, names = array(weights), [visible(token) for token in tokens]
    n = len(names)
    last = weights[-1].argmax()
    count = f"{n} token{'s' if n > 1 else ''}"
    picture.description = (
        f"Attention weights of {count}; the last, "
        f"'{names[-1]}', looks most at '{names[last]}' with weight "
        f"{digits(weights[-1, last])}."
    )
    axes = picture.subplots()
    later = np.triu(np.ones((n, n), bool), k=1)
    shown = np.ma.array(weights, mask=later & (weights == 0))
    axes.patch.set(facecolor=GREY, hatch="//", edgecolor="#777777")
    image = axes.imshow(shown, cmap="cividis", vmin=0, vmax=1)
    for row, column in np.argwhere(~shown.mask) if n <= 8 else ():
        weight = weights[row, column]
        color = ink(image.to_rgba(weight))
        centre(axes, column, row, f"{weight:.2f}", color=color)
    crowded = n * max(len(name) for name in names) > 45
    axes.set_xticks(
        range(n), names, rotation=90 if crowded else 0, parse_math=False
    )
    axes.set_yticks(range(n), names, parse_math=False)
    masked = shown.mask.any()
    title = "hatched: masked, a later token" if masked else ""
    columns, rows = f"token looked at {SPACE}", f"token that looks {SPACE}"
    label_axes(axes, columns, rows, title)
    return image


def draw_parts(axes, parts, sizes, unit, room):
    """The bars and numbers of `part_sizes`, on an x axis that ends at `room`.

    Fewer sizes than parts draw the first ones; each part keeps its place.
    Returns bars and numbers.
    """
    components = [component for _, component in parts[: len(sizes)]]
    bars = component_bars(axes, array(sizes), components)
    numbers = axes.bar_label(bars, [digits(size) for size in sizes], padding=4)
    names_down(axes, [label for label, _ in parts], room)
    edge = 0.4 + 0.05 * (len(parts) - 0.2)  # half a bar, and matplotlib's 5 %
    axes.set_ylim(len(parts) - 1 + edge, -edge)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(lambda size, _: f"{size:,.10g}")
    label_axes(axes, unit, "")
    return bars, numbers


def _mean_and_variance(row):
    mean = digits(row.mean(), residue=1e-6)
    return f"mean {mean}, variance {digits(row.var())}"


def _millions(count):
    return f"{count / 1e6:#,.4g}".rstrip(".")


def _layer(name):
    """'layers.0.0.weight' → '1'; other names stay as they are."""
    match = re.match(r"layers\.(\d+)\.", name)
    return str(int(match[1]) + 1) if match else name


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
