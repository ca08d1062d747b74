"""The figures of the series: numbers in, a Picture out.

Each function is pure: the same numbers give the same picture, and tensors,
arrays and lists are all welcome. What only an explorer draws stands in its
file, in `explore`.
"""

import itertools
import math
import re

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

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

DEPTH_LINES = [  # the first is a norm's
    {**LINES[3], "ls": "-", "lw": 3.5},
    {**LINES[0], "ls": "-."},
    LINES[1],
]
ORDER_LINES = [LINES[0], {**LINES[1], "color": "#737373"}]


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
def gradients_through_depth(series):
    """Lines of name → mean |gradient| of each layer, named at their ends.

    The y axis is logarithmic: all values are above 0.
    """
    series = {name: array(values) for name, values in series.items()}
    depth = max(len(values) for values in series.values())
    ends = "; ".join(
        f"{name} {y[0]:.1e} and {y[-1]:.1e}" for name, y in series.items()
    )
    description = f"Mean gradient in layer 1 and in layer {depth}: {ends}."
    picture = Picture(8.5, 4.8, description)
    axes = picture.subplots()
    for (name, y), look in zip(series.items(), DEPTH_LINES, strict=False):
        axes.plot(range(1, depth + 1), y, markevery=4, **look)
        color = look["color"]
        note(axes, name, (depth, y[-1]), (10, 0), va="center", color=color)
        note(axes, f"{y[0]:.1e}", (1, y[0]), (-4, 9), color=color)
    axes.set_yscale("log")
    axes.set_xlim(0, depth + 1)
    axes.set_xticks([1, *range(5, depth + 1, 5)])
    axes.yaxis.set_major_locator(LogLocator(1e4, numticks=20))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", color="#DDDDDD")
    label_axes(axes, "layer (1 reads the input)", "mean |gradient|, log scale")
    return picture


@styled
def activation_curves(x, curves, slopes=None):
    """All curves (name → y at each x) in one panel, lowest points marked.

    With `slopes`, of the same names, a second panel below shows them over
    the same x: a slope that jumps is drawn as pieces with open ends, and the
    first one is shaded where it is negative.
    """
    x = array(x)
    curves = {name: array(y) for name, y in curves.items()}
    slopes = {name: array(y) for name, y in (slopes or {}).items()}
    names = list(curves)
    lows = {name: _lowest(x, y) for name, y in curves.items()}
    told = [f"{name} {digits(low)}" for name, (_, low) in lows.items()]
    description = (
        f"{' against '.join(names)} for x from {x[0]:g} to {x[-1]:g}; lowest "
        f"values: {', '.join(told)}."
    )
    for name in slopes:
        least, most = digits(slopes[name].min()), digits(slopes[name].max())
        description += f" The slope of {name} goes from {least} to {most}."
    picture = Picture(8, 6.8 if slopes else 4.2, description)
    ratios = [1.25, 1] if slopes else [1]
    panels = picture.subplots(
        len(ratios), sharex=True, squeeze=False, height_ratios=ratios
    )[:, 0]
    looks = dict(zip(names, _activation_looks(), strict=False))
    for axes, series in zip(panels, (curves, slopes), strict=False):
        axes.axhline(0, color="black", lw=0.8)
        axes.axvline(0, color="black", lw=0.8)
        _in_pieces(axes, x, series, looks)
        _name_curves(axes, x, series, 1 / 7 if series is curves else 6 / 7)
    for name, (place, low) in lows.items():
        if low < 0:
            _mark_lowest(panels, name, place, low)
    for name in names[:1] if slopes else ():
        falls = slopes[name] < 0
        panels[1].fill_between(
            x, 0, slopes[name], where=falls, hatch="//", ec="black",
            fc=COLORS["feed_forward"], lw=0, alpha=0.5,
        )  # fmt: skip
        panels[1].set_ylim(min(slopes[name]) - 0.3)
        if falls.any():
            least = slopes[name].argmin()
            place = x[least], slopes[name][least]
            words = f"negative: {name} falls"
            note(panels[1], words, place, (-16, -8), va="top", ha="center")
    label_axes(panels[0], "" if slopes else "input x", "output")
    if slopes:
        label_axes(panels[1], "input x", "slope")
    panels[0].set_ylim(min(low for _, low in lows.values()) - 0.6)
    return picture


@styled
def bent_lines(x, target, panels):
    """Hidden units' shares of a network's output, and their sum.

    Args:
        x: the inputs, sorted.
        target: name → what the sum should be at each x.
        panels: title → (pieces, sum), where pieces is (len(x), units), and
            the sum holds the bias, too.
    """
    ((wanted, aim),) = target.items()
    x, aim = array(x), array(aim)
    description = f"Pieces and their sum beside {wanted}: " + "; ".join(panels)
    picture = Picture(9, 4.6, f"{description}.")
    axes_of = picture.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (title, (pieces, total)) in zip(
        axes_of, panels.items(), strict=True
    ):
        axes.axhline(0, color="black", lw=0.8)
        for n, piece in enumerate(array(pieces).T):
            label = "_" if n else "one hidden number's part"
            axes.plot(x, piece, color="#777777", lw=1.8, label=label)
        color = COLORS["feed_forward"]
        label = "sum of the parts and the bias"
        axes.plot(x, array(total), color=color, lw=6, label=label)
        axes.plot(x, aim, color="black", ls="--", label=wanted)
        label_axes(axes, "input x", "", title)
    room = 4 * np.abs(aim).max()
    axes_of[0].set(ylabel="output", ylim=(-room, room))
    _legend(picture, axes_of[0], ncols=3)
    return picture


@styled
def gradient_bars(without, with_shortcut):
    """Mean absolute gradient of each layer, without and with shortcuts.

    Both are layer name → value, as `gradient_means` gives them; the y axis
    is logarithmic and starts at a power of ten that it names. An arrow says
    how many times as much the first layer gets. Beyond ten layers only some
    are named and numbered, though a zero, which has no bar there, always is.
    """
    plain = array(without.values())
    short = array(with_shortcut[name] for name in without)
    rise = short[0] / plain[0] if plain[0] else np.nan
    description = (
        f"Mean absolute gradients of {len(plain)} layers: in the first "
        f"{digits(plain[0])} without shortcuts and {digits(short[0])} with "
        f"them, {_times(rise)} as much; in the last {digits(plain[-1])} and "
        f"{digits(short[-1])}."
    )
    picture = Picture(9, 5.6, description)
    axes = picture.subplots()
    bottom, top = _decades(plain, short)
    width = 0.34 if len(plain) <= 10 else 0.25  # room for the numbers
    _pairs(axes, plain, short, "shortcut", ("", ""), width)
    step, upright = math.ceil(len(plain) / 10), len(plain) > 5
    shown = range(0, len(plain), step)
    look = {"rotation": 90 if upright else 0, "va": "bottom", "fontsize": 12}
    sides = (plain, 0 if upright else -2, "right"), (short, 2, "left")
    for bars, dx, side in sides:
        for n in range(len(bars)):
            if n in shown or bars[n] == 0:
                place = n, max(bars[n], bottom)
                note(axes, digits(bars[n]), place, (dx, 3), ha=side, **look)
    axes.set_yscale("log")
    room = 0.35 if upright else 0.02
    axes.set_ylim(bottom, top * (top / bottom) ** room)
    axes.set_xlim(-0.8, len(plain) - 0.4)
    if not upright:
        _name_pairs(axes, plain, short, bottom, width)
        _mark_rise(axes, plain[0], short[0], width)
    else:
        looks = (GREY, BEFORE), (COLORS["shortcut"], HATCHES["shortcut"])
        names = "without shortcuts", "with shortcuts"
        keys = [legend_patch(n, *k) for n, k in zip(names, looks, strict=True)]
        picture.legend(handles=keys, loc="outside upper center", ncols=2)
    names = [_layer(name) for name in without]
    axes.set_xticks(shown, [names[n] for n in shown])
    label_axes(axes, "layer (1 reads the input)", "mean |gradient|, log scale")
    says = f"{_log_grid(axes, bottom)}; bars start at {_power(bottom)}"
    axes.set_title(says, fontsize=12, loc="left")
    return picture


@styled
def gradient_lines(series, ylabel="mean |gradient|"):
    """Lines of name → [value at layer 1, at layer 2, …], on a log axis.

    Each is named at its right end. A zero has no height on that axis: it is
    a gap, and a 0 stands at the bottom.
    """
    series = {name: array(values) for name, values in series.items()}
    depth = max(map(len, series.values()))
    ends = "; ".join(
        f"{name} {_few(y[0])} and {_few(y[-1])}" for name, y in series.items()
    )
    description = (
        f"{sentence(ylabel)} in layer 1 and in layer {depth}: {ends}."
    )
    picture = Picture(9, 5.2, description)
    axes = picture.subplots()
    bottom, top = _decades(*series.values())
    axes.set_yscale("log")
    axes.set_ylim(bottom, top)
    labels = []
    for (name, y), other in zip(series.items(), itertools.cycle(LINES)):
        look = NETWORKS.get(name, other)
        layers = np.arange(1, len(y) + 1)
        axes.plot(layers, np.where(y > 0, y, np.nan), **look)
        for layer in layers[y == 0]:
            note(
                axes,
                "0",
                (layer, bottom),
                (0, 3),
                ha="center",
                color=look["color"],
                weight="bold",
            )
        labels.append((y[-1], name, look["color"]))
    _name_lines(axes, depth, labels)
    axes.set_xlim(0.4, depth + 0.6)
    every = 1 if depth <= 12 else 5 * math.ceil(depth / 50)
    axes.set_xticks(sorted({1, *range(every, depth + 1, every)}))
    axes.set_title(_log_grid(axes, bottom), fontsize=12, loc="left")
    label_axes(axes, "layer (1 reads the input)", f"{ylabel}, log scale")
    return picture


@styled
def loss_curves(series, mark):
    """Lines of name → loss at each step, the last told to two digits.

    `mark` is (name, loss): a thin line. What is above twice that is cut off,
    as the first steps often are.
    """
    series = {name: array(values) for name, values in series.items()}
    steps = max(map(len, series.values()))
    ends = "; ".join(f"{name} {y[-1]:.2f}" for name, y in series.items())
    description = (
        f"Loss after {steps:,} steps: {ends}; {mark[0]} {mark[1]:.2f}."
    )
    picture = Picture(9, 4.6, description)
    axes = picture.subplots()
    axes.axhline(mark[1], color="black", lw=1)
    note(
        axes,
        f"{mark[0]}: {mark[1]:.2f}",
        (steps / 2, mark[1]),
        (0, 6),
        ha="center",
        va="bottom",
        fontsize=14,
    )
    axes.set_ylim(0, 2 * mark[1])
    labels = []
    for name, y in series.items():
        look = NETWORKS[name] | {"markevery": max(1, steps // 10), "lw": 3}
        axes.plot(range(1, len(y) + 1), y, **look)
        labels.append((y[-1], f"{name}: {y[-1]:.2f}", look["color"]))
    _name_lines(axes, steps, labels)
    axes.set_xlim(0, 1.02 * steps)
    axes.grid(axis="y", color=LIGHT)
    label_axes(axes, "step", "loss")
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
def loss_and_gradients(losses, gradients, guessing):
    """Left the loss at each step, right the gradient of each block at the end.

    `losses` are name → one value a step, `gradients` name → one mean absolute
    gradient a block; `guessing` is the loss of who knows nothing. The last
    digits of a training differ from one machine to the next, so the
    description, which must not change, says on which side a line ends.
    """
    steps, blocks = (
        len(next(iter(lines.values()))) for lines in (losses, gradients)
    )
    ends = "; ".join(
        f"{name} {_where(losses[name], guessing)}, and block 1's gradient is "
        f"{_share(gradients[name])} block {blocks}'s"
        for name in losses
    )
    description = f"After {steps} steps: {ends}."
    picture = Picture(9, 4.2, description)
    left, right = picture.subplots(1, 2)
    _lines(left, range(1, steps + 1), losses, every=8, looks=ORDER_LINES)
    left.axhline(guessing, color="black", ls=":", lw=1.5, zorder=0)
    note(left, "guessing", (steps, guessing), (0, -18), ha="right")
    left.set_ylim(0)
    label_axes(left, "training step", "loss", "loss in training")
    _lines(right, range(1, blocks + 1), gradients, looks=ORDER_LINES)
    right.set_yscale("log")
    right.set_xticks(range(1, blocks + 1))
    right.grid(axis="y", color="#DDDDDD")
    label_axes(
        right, "block", "mean |gradient|, log scale", "gradient at the end"
    )
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
    real = {"color": "#000000", "ls": "--", "marker": "s"}
    looks = LINES[0], real, *LINES[2:]
    for (name, y), look in zip(losses.items(), looks, strict=False):
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
    """Each model's whole as a bar of 100 %, divided among its components.

    `parts_by_model` is model → {component: number of parameters}; the
    components are keys of COLORS, as `parameters_by_part` gives them.
    """
    totals = {m: sum(parts.values()) for m, parts in parts_by_model.items()}
    components = dict.fromkeys(itertools.chain(*parts_by_model.values()))
    picture = Picture(9, 5.6, _shares_in_words(parts_by_model, totals))
    axes = picture.subplots()
    for x, (model, parts) in enumerate(parts_by_model.items()):
        bottom = 0
        for part, count in parts.items():
            share, fill = 100 * count / totals[model], COLORS[part]
            look = {"color": fill, "hatch": HATCHES[part], "ec": "black"}
            axes.bar(x, share, bottom=bottom, width=0.72, **look)
            if share >= 4:
                look = {"color": ink(fill), "bbox": card(fill)}
                place = x, bottom + share / 2
                centre(axes, *place, f"{share:.1f} %", **look)
            bottom += share
        total = f"{_millions(totals[model])} M"
        note(axes, total, (x, bottom), (0, 4), ha="center", weight="bold")
    axes.set_xticks(range(len(totals)), totals)
    axes.set_ylim(0, 108)
    axes.set_yticks([0, 25, 50, 75, 100])
    label_axes(axes, "", "share of the parameters (%)")
    keys = [legend_patch(p, COLORS[p], HATCHES[p]) for p in components]
    picture.legend(handles=keys[::-1], loc="outside right upper")
    return picture


def _shares_in_words(parts_by_model, totals):
    """Of each model: its parameters, and the shares that change most."""
    models = [
        f"{model} {_millions(totals[model])} M ("
        + ", ".join(
            f"{part.replace('_', '-')} {parts[part] / totals[model]:.1%}"
            for part in ("feed_forward", "head")
            if part in parts
        )
        + ")"
        for model, parts in parts_by_model.items()
    ]
    return f"Parameters in millions, and shares: {'; '.join(models)}."


@styled
def memory_bars(bytes_by_kind, capacities):
    """Stacked horizontal bars of set-up → {kind of memory: bytes}.

    Kinds are, for example, weights, gradients and AdamW states. Each capacity
    (name → bytes) is a dashed line: what crosses it does not fit.
    """
    totals = {s: sum(kinds.values()) for s, kinds in bytes_by_kind.items()}
    sizes = {s: f"{digits(n / 1e9)} GB" for s, n in totals.items()}
    words = "; ".join(f"{s} {size}" for s, size in sizes.items())
    picture = Picture(9, 2.4 + 0.7 * len(totals), f"Memory: {words}.")
    axes = picture.subplots()
    kinds = dict.fromkeys(itertools.chain(*bytes_by_kind.values()))
    fills = memory_looks(kinds)
    for y, parts in enumerate(bytes_by_kind.values()):
        left = 0
        for kind, size in parts.items():
            color, hatch = fills[kind]
            look = {"color": color, "hatch": hatch, "ec": "black"}
            axes.barh(y, size / 1e9, left=left, **look)
            left += size / 1e9
    keys = [legend_patch(kind, *fill) for kind, fill in fills.items()]
    for n, (name, size) in enumerate(capacities.items()):
        line = axes.axvline(size / 1e9, color="black", ls="--", lw=2)
        if n == 0:
            line.set_label("capacity")
            keys.append(line)
        look = {"ha": "center", "xycoords": ("data", "axes fraction")}
        note(axes, name, (size / 1e9, 1), (0, 4), weight="bold", **look)
    ends = [*totals.values(), *capacities.values()]
    rows = [f"{s}\n{size}" for s, size in sizes.items()]
    names_down(axes, rows, room=1.06 * max(ends) / 1e9)
    label_axes(axes, "memory (GB of 1,000,000,000 bytes)", "")
    picture.legend(handles=keys, loc="outside lower center", ncols=3)
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
def candidates(tokens, probabilities, chosen=None):
    """Bars of the likeliest next tokens, in the order given.

    `chosen` is the position of the token that is appended, if one is.
    """
    names, values = [visible(t) for t in tokens], array(probabilities)
    told = values.argmax() if chosen is None else chosen
    description = (
        f"{len(names)} candidates for the next token; "
        f"{'likeliest' if chosen is None else 'chosen'}: "
        f"'{names[told]}' with probability {digits(values[told])}."
    )
    picture = Picture(7.5, max(3.4, 1.2 + 0.4 * len(names)), description)
    axes = picture.subplots()
    bars = axes.barh(range(len(names)), values, color=GREY, ec="black")
    words = [digits(value) for value in values]
    if chosen is not None:
        bars[chosen].set(facecolor=COLORS["head"], hatch=HATCHES["head"])
        words[chosen] += "  chosen"
    axes.bar_label(bars, words, padding=4)
    names_down(axes, names, room=1.45 * values.max())
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    label_axes(axes, "probability", f"next token {SPACE}")
    return picture


@styled
def lookup_as_product(ids, table):
    """One-hot rows times a table: each 1 picks the table's row of its ID.

    `table` is (vocab, emb). The rows that are picked are coloured and named.
    """
    table, ids = array(table), [int(one) for one in ids]
    one_hot = np.eye(len(table))[ids]
    parts = [
        ("one-hot rows", one_hot, [f"ID {n}" for n in ids], one_hot > 0),
        ("token table", table, [f"row {n}" for n in range(len(table))], None),
        ("product", one_hot @ table, [f"row {n}" for n in ids], None),
    ]
    rows = ", ".join(map(str, ids))
    description = (
        f"One-hot rows for the IDs {rows}, times a table of {len(table)} "
        f"rows: the product holds the rows {rows} of the table."
    )
    wide, narrow = 0.42 * len(table), 0.66 * table.shape[1]
    size = 2.4 + wide + 2 * narrow, 1.2 + 0.4 * len(table)
    picture = Picture(*size, description)
    sizes = wide, narrow, narrow
    panels = picture.subplots(1, 3, width_ratios=sizes)
    for axes, (title, values, names, lit) in zip(panels, parts, strict=True):
        if lit is None:
            lit = np.isin(names, [f"row {n}" for n in ids])[:, None]
        lit = np.broadcast_to(lit, values.shape)
        _number_table(axes, values, lit, title, names, room=len(table))
    for axes, sign in zip(panels[1:], "×=", strict=True):
        axes.text(
            -0.3 if sign == "×" else -0.42,
            0.5,
            sign,
            transform=axes.transAxes,
            fontsize=22,
            ha="center",
            va="center",
        )
    return picture


def draw_attention(picture, weights, tokens):
    """What `attention_map` draws, without the scale of colours."""
    weights, names = array(weights), [visible(token) for token in tokens]
    n = len(names)
    last = weights[-1].argmax()
    place = f" at position {last}" if names.count(names[last]) > 1 else ""
    count = f"{n} token{'s' if n > 1 else ''}"
    picture.description = (
        f"Attention weights of {count}; the last, "
        f"'{names[-1]}', looks most at '{names[last]}'{place} with weight "
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
    key = f" {SPACE}" if any("␣" in name for name in names) else ""
    columns, rows = f"token looked at{key}", f"token that looks{key}"
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


def _activation_looks():
    """The first curve is thick and in the feed-forward's colour."""
    return [{"color": COLORS["feed_forward"], "lw": 5}, *(
        {"color": look["color"], "ls": look["ls"]}
        for look in ({"color": "black", "ls": "--"}, *LINES[2:])
    )]  # fmt: skip


def _in_pieces(axes, x, series, looks):
    """Lines that break where y jumps, with an open ring at each end.

    Ten points or more are close enough to tell a jump from a steep line.
    """
    for name, y in series.items():
        jumps = np.abs(np.diff(y)) > (0.5 if len(x) >= 10 else np.inf)
        cuts = np.flatnonzero(jumps) + 1
        parts = zip(np.split(x, cuts), np.split(y, cuts), strict=True)
        for at, part in parts:
            axes.plot(at, part, **looks[name])
        for cut in cuts:
            middle = (x[cut - 1] + x[cut]) / 2
            ring = {"mfc": "white", "mec": "black", "mew": 2, "ls": ""}
            ends = [y[cut - 1], y[cut]]
            axes.plot([middle] * 2, ends, "o", ms=9, zorder=4, **ring)


def _name_curves(axes, x, series, share):
    """A name beside each line, the highest one's above it."""
    at = round(share * (len(x) - 1))
    order = sorted(series, key=lambda name: -series[name][at])
    for n, name in enumerate(order):
        shift, va = ((0, 8), "bottom") if n == 0 else ((0, -9 * n), "top")
        place = x[at], series[name][at]
        note(axes, name, place, shift, va=va, ha="center", weight="bold")


def _lowest(x, y):
    """Where y is lowest, between the points of x, and how low."""
    n = y.argmin()
    if not 0 < n < len(x) - 1:
        return x[n], y[n]
    a, b, c = np.polyfit(x[n - 1 : n + 2] - x[n], y[n - 1 : n + 2], 2)
    shift = -b / (2 * a) if a > 1e-9 else 0
    return x[n] + shift, y[n] + b / 2 * shift


def _mark_lowest(panels, name, place, low):
    """A dot and its numbers, and a line down to the slope of 0."""
    for axes in panels:
        axes.axvline(place, color="black", ls=":", lw=1.2)
    panels[0].plot(place, low, "o", color="black", zorder=5)
    words = f"lowest point of {name}: x = {place:.2f}, output {low:.2f}"
    words = words.replace("-", "\N{MINUS SIGN}")
    note(
        panels[0], words, (place, low), (10, -12), va="top", fontsize=12,
        bbox=card("white"),
    )  # fmt: skip
    for axes in panels[1:]:
        axes.plot(place, 0, "o", color="black", zorder=5)
        note(axes, "slope 0 ", (place, 0), (-6, 6), ha="right", fontsize=12)


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


LIGHT = "#DDDDDD"  # grid lines, to read heights by
NETWORKS = {  # one look for each kind of network
    "without shortcuts": {"color": "black", "ls": ":", "marker": "s"},
    "with shortcuts": LINES[2] | {"ls": "-", "marker": "o"},
    "with norms too": LINES[3] | {"ls": "--"},
}


def _decades(*series):
    """Powers of ten below and above all finite positive values."""
    values = np.concatenate(series)
    values = values[np.isfinite(values) & (values > 0)]
    least, most = min(values, default=0.1), max(values, default=1)
    return (
        10.0 ** math.floor(math.log10(least / 2)),
        10.0 ** math.ceil(math.log10(most * 1.2)),
    )


def _power(value):
    """A power of ten as a learner reads it: 0.001, or 10⁻⁷."""
    exponent = round(math.log10(value))
    if -5 <= exponent <= 3:
        return f"{value:,.{max(0, -exponent)}f}"
    return "10" + str(exponent).translate(RAISED)


RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _log_grid(axes, bottom):
    """Some eight powers of ten, with light lines, and no ticks between;
    returns in words how many times as high each one is."""
    first = round(math.log10(bottom))
    last = math.floor(math.log10(axes.get_ylim()[1]) + 1e-9)
    step = math.ceil((last - first + 1) / 8)
    powers = range(first, last + 1, step)
    ticks = [10.0**power for power in powers]
    axes.set_yticks(ticks, [_power(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(axis="y", color=LIGHT)
    times = f"{10**step:,}" if step < 6 else _power(10.0**step)
    return f"Each line is {times} times the one below"


def _times(factor):
    return f"{factor:,.4g} times" if factor < 1e6 else f"{factor:.1e} times"


def _few(value):
    """Two significant digits, for what grows through many layers."""
    return f"{value:.2g}" if value < 100 else f"{float(f'{value:.2g}'):,.0f}"


def _name_pairs(axes, plain, short, bottom, width):
    """Says in the tallest bar of each kind which one it is."""
    look = {"rotation": 90, "fontsize": 14, "va": "center", "ha": "center"}
    kinds = (
        (plain, -width / 2, GREY, "without"),
        (
            short,
            width / 2,
            COLORS["shortcut"],
            "with shortcuts",
        ),
    )
    for bars, shift, color, name in kinds:
        n = len(bars) - 1
        if bars[n] > 30 * bottom:
            axes.text(
                n + shift,
                math.sqrt(bars[n] * bottom),
                name,
                color=ink(color),
                bbox=card(color),
                **look,
            )


def _mark_rise(axes, plain, short, width):
    """An arrow from the first layer's bar without to the one with."""
    if not 10 * plain < short < np.inf or not plain:
        return
    x, foot = -width / 2 - 0.02, plain * (short / plain) ** 0.13
    axes.annotate(
        "",
        (x, short),
        (x, foot),
        arrowprops={"arrowstyle": "-|>", "lw": 2.5, "color": "black"},
    )
    axes.text(
        -0.03,
        math.sqrt(foot * short),
        f"× {short / plain:,.0f}",
        ha="right",
        va="center",
        fontsize=17,
        weight="bold",
        bbox=card("white"),
    )


def _name_lines(axes, right, labels):
    """Names at the right ends of lines: (height, name, colour) each, pushed
    apart where they would touch."""
    shown = axes.transData.transform
    low, high = (shown((right, y))[1] for y in axes.get_ylim())
    gap, free = 0.055 * (high - low), -np.inf
    back = axes.transData.inverted().transform
    for value, name, color in sorted(labels, key=lambda label: label[0]):
        if value > 0:
            free = max(shown((right, value))[1], free + gap)
            note(
                axes,
                name,
                (right, back((0, free))[1]),
                (12, 0),
                va="center",
                fontsize=14,
                weight="bold",
                color=color,
                annotation_clip=False,
            )


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


def _where(losses, guessing):
    """On which side of guessing the last steps stand."""
    end = array(losses[-5:]).mean()
    if end < guessing / 2:
        return "ends below half the loss of guessing"
    if end < 0.95 * guessing:
        return "ends below the loss of guessing"
    return "ends no better than guessing"


def _share(gradients):
    """How the first compares with the last."""
    first, *_, last = gradients
    if first > last:
        return "above"
    return "below" if first > last / 100 else "below 1 % of"


def _lines(axes, x, series, every=1, looks=LINES):
    """A line for each name → y, told apart by colour, style and marker."""
    for (name, y), look in zip(series.items(), itertools.cycle(looks)):
        axes.plot(x, y, label=name, markevery=every, **look)
    axes.legend()


def _number_table(axes, values, lit, title, names, room):
    """Cells with their numbers, lit ones coloured; `room` rows are high."""
    rows, columns = values.shape
    top = (room - rows) / 2
    whole = np.array_equal(values, values.round())
    for row, column in np.ndindex(rows, columns):
        fill = COLORS["embedding"] if lit[row, column] else "white"
        axes.add_patch(
            Rectangle(
                (column, top + row), 1, 1, fc=fill, ec="black", clip_on=False
            )
        )
        number = f"{values[row, column]:{'.0f' if whole else '.2f'}}"
        number = number.replace("-", "\N{MINUS SIGN}")
        bold = "bold" if lit[row, column] else "normal"
        centre(axes, column + 0.5, top + row + 0.5, number, weight=bold)
    axes.set(xlim=(0, columns), ylim=(room, 0), xticks=[])
    axes.set_yticks([top + n + 0.5 for n in range(rows)], names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    label_axes(axes, "", "", title)
