"""The figures show the numbers they are given, and say them in words."""

import base64
import io
import itertools
import pkgutil
import subprocess
import sys
from importlib import import_module

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.text import Text
from PIL import Image

from classroom import explore, plots
from classroom.explore.attention import head_map
from classroom.explore.configuration import shape_bars
from classroom.explore.gelu import activation_curve
from classroom.explore.generation import generation_round
from classroom.explore.gradients import gradient_levels
from classroom.explore.layer_norm import norm_histograms
from classroom.explore.model import model_step
from classroom.explore.parameters import memory_fit
from classroom.picture import COLORS, GREY, HATCHES, ink, styled

BEFORE = [[0.0, 1.0, 2.0], [4.0, 4.0, 7.0]]
AFTER = [[-1.2, 0.0, 1.2], [-0.7, -0.7, 1.4]]
PLAIN = [0.0002017, 0.0001201, 0.0007152, 0.001399, 0.005050]
SHORTCUT = [0.2217, 0.2069, 0.3290, 0.2666, 1.326]
ATTENTION = [[1, 0, 0], [0.25, 0.75, 0], [0.125, 0.5, 0.375]]
TABLE = [[0.5, -1.25], [1.0, 2.0], [-0.5, 0.75]]
TOKENS = ["Hello", ",", " $x$"]
PARTS = {
    "embedding": 39_383_808,
    "attention": 28_320_768,
    "feed_forward": 56_669_184,
    "norm": 38_400,
    "head": 38_597_376,
}
MEMORY = {
    "inference": {"weights": 652_038_144},
    "training": {
        "weights": 652_038_144,
        "gradients": 652_038_144,
        "AdamW states": 1_304_076_288,
    },
}


def by_layer(values):
    return {f"layers.{n}.0.weight": value for n, value in enumerate(values)}


def deep(n):
    return plots.gradient_bars(
        by_layer([10.0 ** (k - n) for k in range(n)]), by_layer([0.25] * n)
    )


DRAW = {
    "before_and_after": lambda: plots.before_and_after(BEFORE, AFTER),
    "histograms": lambda: plots.histograms(BEFORE, AFTER),
    "gradients_through_depth": lambda: plots.gradients_through_depth(
        {
            "norm": [0.01, 0.02, 0.01],
            "without": [1e-9, 1e-6, 1e-3],
            "× 4": [1e9] * 3,
        }
    ),
    "activation_curves": lambda: plots.activation_curves(
        [-1, 0, 1],
        {"GELU": [-0.1588, 0, 0.8412], "ReLU": [0, 0, 1]},
        {"GELU": [-0.08, 0.5, 1.08], "ReLU": [0, 0, 1]},
    ),
    "gradient_bars": lambda: plots.gradient_bars(
        by_layer(PLAIN), by_layer(SHORTCUT)
    ),
    "gradient_bars, 30 layers": lambda: deep(30),
    "gradient_lines": lambda: plots.gradient_lines(
        {
            "without shortcuts": PLAIN,
            "with shortcuts": SHORTCUT,
            "other": [3, 0, 2, 4, 3],
        }
    ),
    "loss_curves": lambda: plots.loss_curves(
        {"without shortcuts": [2, 0.37, 0.36], "with shortcuts": [9, 1, 0.1]},
        ("a fixed answer", 0.36),
    ),
    "shape_bars": lambda: shape_bars(
        [("IDs", None, (2, 4)), ("logits", "head", (2, 4, 50257))], "Words."
    ),
    "shape_bars, large": lambda: shape_bars(
        [("position embedding", "embedding", (16, 2048, 100257))], "Words."
    ),
    "shape_bars, changed": lambda: shape_bars(
        [("output head: logits", "head", (16, 2048, 100257))], "Words.", [0]
    ),
    "norm_histograms": lambda: norm_histograms(
        np.array(BEFORE), np.array(AFTER), (150, 4), "Words."
    ),
    "norm_histograms, nan": lambda: norm_histograms(
        np.array(BEFORE), np.full((2, 3), np.nan), (150, 4), "Words."
    ),
    "activation_curve": lambda: activation_curve(
        "GELU", [-1, 0, 1], [-0.1588, 0, 0.8412], [-0.08, 0.5, 1.08]
    ),
    "gradient_levels": lambda: gradient_levels(
        PLAIN, SHORTCUT, False, "Words"
    ),
    "gradient_levels, 30 layers": lambda: gradient_levels(
        [10.0 ** (k - 25) for k in range(30)], [0.25] * 30, True, "Words"
    ),
    "attention_map": lambda: plots.attention_map(ATTENTION, TOKENS),
    "loss_and_gradients": lambda: plots.loss_and_gradients(
        {"pre-norm": [3, 2, 1], "post-norm": [3, 2.9, 3]},
        {"pre-norm": [1e-3, 1e-4], "post-norm": [1e-8, 1e-4]},
        guessing=2.77,
    ),
    "part_sizes": lambda: plots.part_sizes(
        [("tokens", "embedding"), ("block 1", None), ("head", "head")],
        [38_597_376, 7_085_568, 38_597_376],
        "parameters",
    ),
    "learning_curves": lambda: plots.learning_curves(
        {"skeleton": [4.5, 0.5, 0.25], "real blocks": [4.25, 0.5, 0.0625]},
        {"knows nothing": 4.625},
    ),
    "parameter_bars": lambda: plots.parameter_bars(
        {"untied": PARTS, "tied": PARTS | {"head": 0}}
    ),
    "memory_bars": lambda: plots.memory_bars(
        MEMORY, {"1 GB": 1e9, "2 GB": 2e9}
    ),
    "token_times": lambda: plots.token_times(
        [16, 64, 256], {"plain": [0.01, 0.03, 0.1], "cache": [0.01] * 3}
    ),
    "candidates": lambda: plots.candidates(
        [" a", "\n", "日"], [0.5, 0.25, 0.125], chosen=1
    ),
    "lookup_as_product": lambda: plots.lookup_as_product([2, 0], TABLE),
    "head_map": lambda: head_map(ATTENTION, TOKENS, 2, 3),
    "head_map, long": lambda: head_map(
        np.tril(np.full((16, 16), 0.5)), [" W" * 20] * 16, 1, 1
    ),
    "model_step": lambda: model_step(
        [("tokens", "embedding"), ("block 1", None), ("head", "head")],
        [(1, 4, 64), (1, 4, 64), (1, 4, 50257)],
        [1.0, 1.25, 0.5],
        2,
    ),
    "memory_fit": lambda: memory_fit(
        163_009_536, MEMORY["training"], {"1 GB": 1e9, "80 GB": 8e10}
    ),
    "generation_round": lambda: generation_round(
        2, "a$_$ " * 20, [" W" * 20, "\n", "日"], [0.5, 0.25, 0.125]
    ),
}

DRAW["bent_lines"] = lambda: plots.bent_lines(
    [0, 1, 2],
    {"wave": [0, 1, 0]},
    {"with a bend": ([[0, 0], [1, 1], [2, 2]], [0, 2, 4])},
)

# What stands along the x axes and the y axes; an axis of names needs no more.
LABELS = {
    "before_and_after": ({"feature"}, {"value"}),
    "histograms": ({"value"}, {"number of values"}),
    "gradients_through_depth": (
        {"layer (1 reads the input)"},
        {"mean |gradient|, log scale"},
    ),
    "activation_curves": ({"input x"}, {"output", "slope"}),
    "bent_lines": ({"input x"}, {"output"}),
    "gradient_bars": (
        {"layer (1 reads the input)"},
        {"mean |gradient|, log scale"},
    ),
    "gradient_lines": (
        {"layer (1 reads the input)"},
        {"mean |gradient|, log scale"},
    ),
    "loss_curves": ({"step"}, {"loss"}),
    "shape_bars": ({"number of values, log scale"}, set()),
    "norm_histograms": ({"value; dashed: −1 and 1"}, {"% of values"}),
    "activation_curve": ({"input x"}, {"output, slope"}),
    "gradient_levels": (
        {"layer (1 reads the input)"},
        {"mean |gradient|, log scale"},
    ),
    "attention_map": (
        {"token looked at (␣ is a space)"},
        {"token that looks (␣ is a space)", "attention weight"},
    ),
    "loss_and_gradients": (
        {"training step", "block"},
        {"loss", "mean |gradient|, log scale"},
    ),
    "part_sizes": ({"parameters"}, set()),
    "learning_curves": ({"step of training"}, {"loss, log scale"}),
    "parameter_bars": (set(), {"share of the parameters (%)"}),
    "memory_bars": ({"memory (GB of 1,000,000,000 bytes)"}, set()),
    "token_times": (
        {"context length (tokens)"},
        {"time per token (milliseconds)"},
    ),
    "candidates": ({"probability"}, {"next token (␣ is a space)"}),
    "lookup_as_product": (set(), set()),
    "head_map": (
        {"token looked at (␣ is a space)"},
        {"token that looks (␣ is a space)"},
    ),
    "model_step": ({"standard deviation of the output"}, set()),
    "memory_fit": ({"share of the memory (%)"}, set()),
    "generation_round": ({"probability"}, {"next token (␣ is a space)"}),
}


_DRAWS = styled(lambda: None).__code__  # all that it decorates


@pytest.fixture(params=DRAW)
def picture(request):
    return DRAW[request.param]()


def heights(axes):
    return [[bar.get_height() for bar in bars] for bars in axes.containers]


def widths(axes):
    return [[bar.get_width() for bar in bars] for bars in axes.containers]


def look(patch):
    return to_hex(patch.get_facecolor()).upper(), patch.get_hatch() or ""


def component(name):
    return COLORS[name], HATCHES[name]


def texts(picture):
    """All texts that are drawn, once the layout is done."""
    picture.draw_without_rendering()
    beyond = {
        label
        for axes in picture.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.majorTicks + axis.minorTicks
        if not within(tick.get_loc(), axis.get_view_interval())
        for label in (tick.label1, tick.label2)
    }
    return [
        text
        for text in picture.findobj(Text)
        if text.get_text().strip()
        and text.get_visible()
        and text not in beyond
    ]


def within(value, interval):
    return min(interval) <= value <= max(interval)


def names(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def contrast(one, two):
    """WCAG 2 contrast ratio, computed apart from `ink`."""

    def luminance(color):
        return sum(
            share
            * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)
            for share, c in zip(
                (0.2126, 0.7152, 0.0722), to_rgb(color), strict=True
            )
        )

    dark, light = sorted([luminance(one), luminance(two)])
    return (light + 0.05) / (dark + 0.05)


# What holds for every picture


def test_each_function_that_draws_is_tested():
    explorers = [
        import_module(f"classroom.explore.{found.name}")
        for found in pkgutil.iter_modules(explore.__path__)
    ]
    public = {
        name
        for module in [plots, *explorers]
        for name, value in vars(module).items()
        if getattr(value, "__code__", None) is _DRAWS
    }
    assert public == {name.split(",")[0] for name in DRAW}


def test_it_shows_itself_as_a_png_with_its_description_as_alt(picture):
    data, metadata = picture._repr_mimebundle_(include=None, exclude=None)
    assert set(data) == {"image/png", "text/plain"}
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG\r\n")
    assert data["text/plain"] == picture.description
    look = {"alt": picture.description, "width": round(picture.bbox.width)}
    assert metadata == {"image/png": look}


@pytest.mark.parametrize("name", DRAW)
def test_it_is_sharp_on_a_fine_screen_and_small_as_a_file(name):
    """Each dot of the page gets two by two, in colours that look the same."""
    picture, exact = DRAW[name](), DRAW[name]()
    data, metadata = picture._repr_mimebundle_()
    png = base64.b64decode(data["image/png"])
    assert len(png) < 100_000
    width = picture.get_figwidth()
    assert abs(metadata["image/png"]["width"] - 100 * width) <= 1
    exact.set_dpi(200)
    canvas = FigureCanvasAgg(exact)
    styled(canvas.draw)()
    exact = np.asarray(canvas.buffer_rgba(), int)[..., :3]
    sharp = Image.open(io.BytesIO(png)).convert("RGB")
    sharp = np.asarray(sharp, int)
    assert abs(sharp.shape[1] - 200 * width) <= 1
    assert (sharp[0, 0] == 255).all()
    gap = np.abs(sharp - exact).max(axis=-1)
    assert gap.mean() < 0.5 and (gap > 24).mean() < 0.001


def test_it_is_white_and_at_most_nine_inches_wide(picture):
    assert to_hex(picture.get_facecolor()) == "#ffffff"
    assert picture.get_figwidth() <= 9
    assert picture.dpi == 100


@pytest.mark.parametrize("name", LABELS)
def test_its_axes_are_labelled(name):
    axes = DRAW[name]().axes
    across = {label for a in axes if (label := a.get_xlabel())}
    up = {label for a in axes if (label := a.get_ylabel())}
    assert (across, up) == LABELS[name]


def test_no_text_is_smaller_than_12_points_or_outside(picture):
    shown = texts(picture)
    for text in shown:
        assert text.get_fontsize() >= 12, text.get_text()
    frame = picture.bbox
    for text in shown:
        box = text.get_window_extent()
        assert frame.x0 <= box.x0 and box.x1 <= frame.x1, text.get_text()
        assert frame.y0 <= box.y0 and box.y1 <= frame.y1, text.get_text()


def test_drawing_leaves_the_readers_settings_alone():
    with matplotlib.rc_context({"font.size": 7, "text.color": "red"}):
        before = dict(matplotlib.rcParams)
        drawn = plots.candidates(["a"], [1.0])
        assert dict(matplotlib.rcParams) == before
        assert {t.get_color() for t in texts(drawn)} == {"black"}


def test_pyplot_is_never_imported():
    code = (
        "import sys; from classroom import plots; "
        "plots.candidates(['a'], [1.0]); "
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tensors_with_a_gradient_and_lists_give_the_same_picture():
    tensors = [torch.tensor(x, requires_grad=True) for x in (BEFORE, AFTER)]
    from_tensors = plots.before_and_after(*tensors)
    assert heights(from_tensors.axes[0])[1] == pytest.approx(AFTER[0])


# Colours


def test_every_component_has_a_hatch_of_its_own():
    assert HATCHES.keys() == COLORS.keys()
    assert len(set(HATCHES.values())) == len(HATCHES)


@pytest.mark.parametrize("fill", [*COLORS.values(), GREY, "white", "black"])
def test_ink_can_be_read_on_every_fill(fill):
    assert contrast(ink(fill), fill) >= 4.5


def test_ink_can_be_read_on_the_whole_map():
    for color in matplotlib.colormaps["cividis"](np.arange(256)):
        assert contrast(ink(color), color) >= 4.5


def test_numbers_on_segments_can_be_read():
    (axes,) = DRAW["parameter_bars"]().axes
    on_fills = [t for t in axes.texts if t.get_bbox_patch()]
    assert len(on_fills) == 7  # norm is too thin, the tied head is not there
    for text in on_fills:
        card = text.get_bbox_patch().get_facecolor()
        assert to_hex(card).upper() in COLORS.values()
        assert contrast(text.get_color(), card) >= 4.5


# One by one


def test_before_and_after():
    drawn = DRAW["before_and_after"]()
    for axes, before, after in zip(drawn.axes, BEFORE, AFTER, strict=True):
        assert heights(axes) == [before, after]
        grey, norm = (look(bars[0]) for bars in axes.containers)
        assert norm == component("norm")
        assert grey[0] == GREY and grey[1] != norm[1]
        lines = {line.get_label(): line for line in axes.lines}
        assert lines["mean before"].get_ydata() == pytest.approx(
            [np.mean(before)] * 2
        )
        assert len({line.get_linestyle() for line in axes.lines}) == 2
    title = drawn.axes[1].get_title()
    assert "before: mean 5.000, variance 2.000" in title
    assert "after: mean below 1e-6, variance 0.9800" in title
    assert "row 2 before: mean 5.000, variance 2.000" in drawn.description


def test_histograms():
    drawn = DRAW["histograms"]()
    for axes, values in zip(drawn.axes, (BEFORE, AFTER), strict=True):
        assert sum(heights(axes)[0]) == np.size(values)
        marks = sorted(line.get_xdata()[0] for line in axes.lines)
        mean, spread = np.mean(values), np.std(values)
        assert marks == pytest.approx([mean - spread, mean, mean + spread])
    first, second = (look(axes.patches[0]) for axes in drawn.axes)
    assert second == component("norm") and first[1] != second[1]
    assert "before mean 3.000, standard deviation 2.309" in drawn.description
    assert "after mean below 1e-6" in drawn.description


def test_gradients_through_depth():
    drawn = DRAW["gradients_through_depth"]()
    (axes,) = drawn.axes
    norm, without, large = axes.lines
    assert norm.get_color() == COLORS["norm"]
    assert without.get_xydata().tolist() == [[1, 1e-9], [2, 1e-6], [3, 1e-3]]
    for kind in (lambda x: x.get_linestyle(), lambda x: x.get_marker()):
        assert len({kind(line) for line in axes.lines}) == 3
    assert axes.get_yscale() == "log"
    named = {text.get_text(): text.get_color() for text in axes.texts}
    assert named["× 4"] == large.get_color() == named["1.0e+09"]
    assert drawn.description == (
        "Mean gradient in layer 1 and in layer 3: norm 1.0e-02 and 1.0e-02; "
        "without 1.0e-09 and 1.0e-03; × 4 1.0e+09 and 1.0e+09."
    )


def test_activation_curves():
    drawn = DRAW["activation_curves"]()
    above, below = drawn.axes
    gelu, relu = above.lines[2:4]
    assert list(gelu.get_ydata()) == [-0.1588, 0, 0.8412]
    assert gelu.get_color() == COLORS["feed_forward"]
    assert gelu.get_linewidth() > relu.get_linewidth()
    assert (gelu.get_linestyle(), relu.get_linestyle()) == ("-", "--")
    assert list(below.lines[2].get_ydata()) == [-0.08, 0.5, 1.08]
    for axes in drawn.axes:
        named = {text.get_text() for text in axes.texts}
        assert {"GELU", "ReLU"} <= named
    assert "GELU -0.1588, ReLU 0" in drawn.description
    assert "slope of GELU goes from -0.08000 to 1.080" in drawn.description
    plain = plots.activation_curves([0, 1], {"ReLU": [0, 1]})
    assert len(plain.axes) == 1 and "slope" not in plain.description


def test_a_slope_that_jumps_is_drawn_in_pieces():
    x = np.linspace(-3, 3, 100)
    curves = {"V": (x + 1) ** 2 - 1, "ReLU": np.maximum(x, 0)}
    slopes = {"V": 0.1 * (x + 1), "ReLU": (x > 0).astype(float)}
    drawn = plots.activation_curves(x, curves, slopes)
    rings = [line for line in drawn.axes[1].lines if line.get_mfc() == "white"]
    (ring,) = rings
    assert list(ring.get_ydata()) == [0, 1]
    assert list(ring.get_xdata()) == pytest.approx([0, 0])
    words = " ".join(text.get_text() for text in drawn.axes[0].texts)
    assert "lowest point of V: x = −1.00, output −1.00" in words


def test_bent_lines():
    drawn = DRAW["bent_lines"]()
    (axes,) = drawn.axes
    first, second, total, target = axes.lines[1:]
    assert list(first.get_ydata()) == [0, 1, 2]
    assert list(total.get_ydata()) == [0, 2, 4]
    assert total.get_linewidth() > first.get_linewidth()
    assert target.get_linestyle() == "--"
    assert axes.get_title() == "with a bend"
    labels = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert labels == [
        "one hidden number's part",
        "sum of the parts and the bias",
        "wave",
    ]


def test_gradient_bars():
    drawn = DRAW["gradient_bars"]()
    (axes,) = drawn.axes
    assert heights(axes) == [PLAIN, SHORTCUT]
    assert axes.get_yscale() == "log"
    plain, shortcut = (look(bars[0]) for bars in axes.containers)
    assert shortcut == component("shortcut")
    assert plain[0] != shortcut[0] and plain[1] != shortcut[1]
    printed = [text.get_text() for text in axes.texts]
    assert printed[:5] == (
        ["0.0002017", "0.0001201", "0.0007152", "0.001399", "0.005050"]
    )
    assert printed[5:10] == ["0.2217", "0.2069", "0.3290", "0.2666", "1.326"]
    named = [text for text in printed[10:] if text]
    assert named == ["without", "with shortcuts", "× 1,099"]
    title = "Each line is 10 times the one below; bars start at 0.00001"
    assert axes.get_title(loc="left") == title
    (many,) = deep(30).axes
    assert "Each line is 10⁶ times" in many.get_title(loc="left")
    assert axes.get_ylim()[0] == pytest.approx(1e-5)
    assert names(axes.yaxis)[:2] == ["0.00001", "0.0001"]
    assert names(axes.xaxis) == ["1", "2", "3", "4", "5"]
    for number in ("0.0002017", "0.2217", "1,099", "0.005050", "1.326"):
        assert number in drawn.description


def test_lines_are_named_at_their_ends_and_names_keep_apart():
    drawn = DRAW["gradient_lines"]()
    (axes,) = drawn.axes
    drawn.draw_without_rendering()
    texts = {text.get_text(): text for text in axes.texts}
    assert set(texts) == {"without shortcuts", "with shortcuts", "other", "0"}
    lines = {line.get_color(): line.get_ydata() for line in axes.lines}
    for name, values in (("without shortcuts", PLAIN), ("other", [3, 0])):
        drawn_values = lines[texts[name].get_color()]
        wanted = [value or np.nan for value in values]
        assert np.array_equal(drawn_values[: len(wanted)], wanted, True)
    assert texts["0"].xy == (2, axes.get_ylim()[0])
    boxes = [text.get_window_extent() for text in axes.texts]
    for n, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[n + 1 :])
    assert len({line.get_linestyle() for line in axes.lines}) == 3
    assert "without shortcuts 0.0002 and 0.005" in drawn.description


def test_loss_curves_end_with_their_losses():
    drawn = DRAW["loss_curves"]()
    (axes,) = drawn.axes
    assert axes.get_ylim() == (0, 0.72)
    texts = {text.get_text() for text in axes.texts}
    assert texts == {
        "without shortcuts: 0.36",
        "with shortcuts: 0.10",
        "a fixed answer: 0.36",
    }


@pytest.mark.parametrize("layers", [5, 6, 10, 11, 20, 30])
def test_gradient_labels_do_not_overlap(layers):
    drawn = deep(layers)
    (axes,) = drawn.axes
    drawn.draw_without_rendering()
    boxes = [t.get_window_extent() for t in axes.texts if t.get_text()]
    assert 2 * min(layers, 5) <= len(boxes) <= 20
    for n, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[n + 1 :])
        assert axes.bbox.y0 <= box.y0 and box.y1 <= axes.bbox.y1


def test_gradient_labels_stay_clear_of_the_next_bars():
    drawn = deep(30)
    (axes,) = drawn.axes
    drawn.draw_without_rendering()
    bars = [bar.get_window_extent() for bar in axes.patches]
    for box in (text.get_window_extent() for text in axes.texts):
        taller = [bar for bar in bars if bar.y1 > box.y0 + 6]
        gaps = [max(bar.x0 - box.x1, box.x0 - bar.x1) for bar in taller]
        assert all(gap > -0.5 for gap in gaps)  # its own bar may touch
        assert all(gap > 2 for gap in sorted(gaps)[1:])


def test_a_gradient_of_zero_is_named_on_the_log_axis_in_any_layer():
    means = [0.25] * 30
    means[1] = 0.0  # a layer between those that are numbered
    (axes,) = plots.gradient_bars(by_layer([0.5] * 30), by_layer(means)).axes
    (zero,) = (text for text in axes.texts if text.get_text() == "0")
    assert zero.xy == (1, axes.get_ylim()[0])


def test_attention_map():
    drawn = DRAW["attention_map"]()
    axes, _ = drawn.axes
    (image,) = axes.images
    assert (image.get_array().mask == np.triu(np.ones((3, 3)), 1)).all()
    assert image.get_array().data.tolist() == ATTENTION
    assert (image.get_cmap().name, image.get_clim()) == ("cividis", (0, 1))
    assert axes.patch.get_hatch() and look(axes.patch)[0] == GREY
    assert names(axes.xaxis) == names(axes.yaxis) == ["Hello", ",", "␣$x$"]
    labels = axes.get_xticklabels() + axes.get_yticklabels()
    assert not any(label.get_parse_math() for label in labels)  # $ is a $
    assert "'␣$x$', looks most at ',' with weight 0.5000" in drawn.description
    cells = {text.get_position(): text for text in axes.texts}
    assert len(cells) == 6 and cells[0, 2].get_text() == "0.12"
    for (column, row), text in cells.items():
        fill = image.to_rgba(ATTENTION[row][column])
        assert contrast(text.get_color(), fill) >= 4.5


def test_attention_map_tells_equal_tokens_apart():
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.1, 0.6, 0.3]])
    told = plots.attention_map(weights, [" no"] * 3).description
    assert "'␣no', looks most at '␣no' at position 1 with weight 0.6" in told


def test_attention_map_shows_a_forgotten_mask():
    axes = plots.attention_map(np.full((3, 3), 1 / 3), TOKENS).axes[0]
    assert not axes.images[0].get_array().mask.any()
    assert not axes.get_title()


def test_attention_map_of_many_tokens_has_no_numbers():
    weights = np.tril(np.ones((9, 9))) / np.arange(1, 10)[:, None]
    assert not plots.attention_map(weights, "abcdefghi").axes[0].texts


def test_loss_and_gradients():
    drawn = DRAW["loss_and_gradients"]()
    left, right = drawn.axes
    assert left.lines[0].get_xydata().tolist() == [[1, 3], [2, 2], [3, 1]]
    assert right.lines[1].get_xydata().tolist() == [[1, 1e-8], [2, 1e-4]]
    assert right.get_yscale() == "log"
    assert drawn.description == (
        "After 3 steps: pre-norm ends below the loss of guessing, and block "
        "1's gradient is above block 2's; post-norm ends no better than "
        "guessing, and block 1's gradient is below 1 % of block 2's."
    )
    half = plots.loss_and_gradients(
        {"a": [1, 1]}, {"a": [1e-4, 1e-3]}, guessing=2.77
    )
    assert "a ends below half the loss of guessing" in half.description
    assert "gradient is below block 2's" in half.description


def test_part_sizes():
    drawn = DRAW["part_sizes"]()
    (axes,) = drawn.axes
    assert widths(axes) == [[38_597_376, 7_085_568, 38_597_376]]
    tokens, block, head = map(look, axes.patches)
    assert (tokens, head) == (component("embedding"), component("head"))
    assert block == (GREY, "")
    assert names(axes.yaxis) == ["tokens", "block 1", "head"]
    assert axes.yaxis.get_inverted()  # the first part is on top
    assert axes.texts[1].get_text() == "7,085,568"
    keys = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert keys == ["embedding", "block", "head"]
    assert drawn.description == (
        "Parameters, 3 parts in the order of the data path: "
        "the largest is 38,597,376, tokens."
    )


def test_learning_curves():
    drawn = DRAW["learning_curves"]()
    assert drawn.description == (
        "Loss before the first and the last of 3 steps: skeleton 4.500 and "
        "0.2500; real blocks 4.250 and 0.06250. Level lines: knows nothing "
        "4.625."
    )
    (axes,) = drawn.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [
        [4.5, 0.5, 0.25],
        [4.25, 0.5, 0.0625],
    ]
    assert len({line.get_linestyle() for line in axes.lines}) == 2
    shown = {text.get_text() for text in texts(drawn)}
    assert {"skeleton", "real blocks", "knows nothing: 4.625"} <= shown


def test_parameter_bars():
    drawn = DRAW["parameter_bars"]()
    (axes,) = drawn.axes
    bars = [container[0] for container in axes.containers]
    sizes = [bar.get_height() for bar in bars]
    whole = sum(PARTS.values())
    assert sizes[:5] == pytest.approx(
        [100 * n / whole for n in PARTS.values()]
    )
    assert sum(sizes[:5]) == pytest.approx(100) == sum(sizes[5:])
    assert [look(bar) for bar in bars[:5]] == [component(p) for p in PARTS]
    for lower, upper in zip(bars[:4], bars[1:5], strict=True):
        assert upper.get_y() == lower.get_y() + lower.get_height()
    printed = [text.get_text() for text in axes.texts]
    assert {"163.0 M", "124.4 M", "34.8 %", "45.5 %"} <= set(printed)
    (legend,) = drawn.legends
    top_down = [text.get_text() for text in legend.get_texts()]
    assert top_down == [p.replace("_", "-") for p in reversed(PARTS)]
    assert "untied 163.0 M (feed-forward 34.8%," in drawn.description
    assert "tied 124.4 M (feed-forward 45.5%, head 0.0%)" in drawn.description


def test_memory_bars():
    drawn = DRAW["memory_bars"]()
    (axes,) = drawn.axes
    weights, *training = (c[0] for c in axes.containers)
    assert weights.get_width() == pytest.approx(0.652038144)
    assert [bar.get_x() for bar in training] == pytest.approx(
        [0, 0.652038144, 1.304076288]
    )
    assert len({look(bar)[0] for bar in training}) == 3
    assert len({look(bar)[1] for bar in training}) == 3
    assert look(weights) == look(training[0])
    assert [line.get_xdata()[0] for line in axes.lines] == [1, 2]
    assert {line.get_linestyle() for line in axes.lines} == {"--"}
    assert names(axes.yaxis) == [
        "inference\n0.6520 GB",
        "training\n2.608 GB",
    ]
    assert "inference 0.6520 GB; training 2.608 GB" in drawn.description


def test_no_words_of_a_memory_chart_collide():
    sizes = {"small": 5, "medium": 8, "large": 16, "xl": 47}
    drawn = plots.memory_bars(
        {name: {"weights": n * 10**9} for name, n in sizes.items()},
        {f"{gb} GB": gb * 10**9 for gb in (8, 16, 24, 40)},
    )
    drawn.draw_without_rendering()
    (axes,) = drawn.axes
    words = [*axes.texts, *axes.get_yticklabels()]
    places = [text.get_window_extent() for text in words]
    for one, other in itertools.combinations(places, 2):
        assert not one.overlaps(other)


KINDS = [f"kind {n}" for n in range(1, 8)]


@pytest.mark.parametrize("count", [4, 7])
@pytest.mark.parametrize(
    "draw",
    [
        lambda sizes: plots.memory_bars({"all": sizes}, {"9 GB": 9e9}),
        lambda sizes: memory_fit(1, sizes, {"9 GB": 9e9}),
    ],
    ids=["memory_bars", "memory_fit"],
)
def test_each_kind_of_memory_is_drawn_and_named(draw, count):
    sizes = dict.fromkeys(["weights", *KINDS[1:count]], 10**9)
    drawn = draw(sizes)
    (axes,) = drawn.axes
    assert len(axes.patches) == len({*map(look, axes.patches)}) == count
    (legend,) = drawn.legends
    keys = [text.get_text() for text in legend.get_texts()]
    assert keys[:-1] == list(sizes)
    drawn.draw_without_rendering()
    below = axes.xaxis.label.get_window_extent()
    assert not legend.get_window_extent().overlaps(below)


def test_a_memory_chart_without_capacities():
    drawn = plots.memory_bars(MEMORY, {})
    assert not drawn.axes[0].lines
    keys = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert keys == ["weights", "gradients", "AdamW states"]
    fit = memory_fit(1, MEMORY["inference"], {})
    assert not fit.axes[0].patches
    assert "weights 0.6520 GB; activations" in fit.description


def test_token_times():
    drawn = DRAW["token_times"]()
    (axes,) = drawn.axes
    plain, cache = axes.lines
    assert plain.get_ydata().tolist() == pytest.approx([10, 30, 100])
    assert plain.get_linestyle() != cache.get_linestyle()
    assert plain.get_marker() != cache.get_marker()
    again = plots.token_times([16, 256], {"plain": [1, 2], "cache": [3, 4]})
    assert drawn.description == again.description
    assert "plain and cache" in drawn.description
    assert "16 to 256 tokens" in drawn.description


def test_candidates():
    drawn = DRAW["candidates"]()
    (axes,) = drawn.axes
    assert widths(axes) == [[0.5, 0.25, 0.125]]
    assert names(axes.yaxis) == ["␣a", r"\n", r"\u65e5"]
    labels = axes.get_yticklabels()
    assert not any(label.get_parse_math() for label in labels)
    first, chosen, last = map(look, axes.patches)
    assert chosen == component("head")
    assert first == last == (GREY, "")
    printed = [text.get_text() for text in axes.texts]
    assert printed == ["0.5000", "0.2500  chosen", "0.1250"]
    assert r"chosen: '\n' with probability 0.2500" in drawn.description


def test_candidates_of_which_none_is_chosen():
    drawn = plots.candidates([" a", " b"], [0.25, 0.5])
    (axes,) = drawn.axes
    assert set(map(look, axes.patches)) == {(GREY, "")}
    printed = [text.get_text() for text in axes.texts]
    assert printed == ["0.2500", "0.5000"]
    assert "likeliest: '␣b' with probability 0.5000" in drawn.description


def test_head_map():
    axes, *scale = DRAW["head_map"]().axes
    assert not scale  # the numbers are in the cells
    assert len(axes.texts) == 6
    assert axes.get_title() == "block 2, head 3 (hatched: a later token)"
    assert names(axes.yaxis) == ["Hello", ",", "␣$x$"]
    crowded, scale = DRAW["head_map, long"]().axes
    assert not crowded.texts and scale.get_ylabel() == "attention weight"


def test_model_step():
    drawn = DRAW["model_step"]()
    (axes,) = drawn.axes
    (bars,) = axes.containers
    assert [bar.get_width() for bar in bars] == [1.0, 1.25]  # and no third
    assert len(axes.texts) == 2
    assert names(axes.yaxis) == ["tokens", "block 1", "head"]
    assert axes.texts[1].get_text() == "1.250  ← (1, 4, 64)"
    assert bars[1].get_linewidth() > bars[0].get_linewidth()
    assert drawn.description == (
        "Part 2 of 3, block 1: its output has shape (1, 4, 64) and standard "
        "deviation 1.250, before it 1.000."
    )


def test_memory_fit():
    drawn = DRAW["memory_fit"]()
    (axes,) = drawn.axes
    printed = [text.get_text() for text in axes.texts]
    assert printed == ["260.8 %: too large", "3.3 %: fits"]
    second = [bars[0].get_width() for bars in axes.containers[3:]]
    assert second == pytest.approx([0.815, 0.815, 1.63], rel=1e-3)
    assert {line.get_xdata()[0] for line in axes.lines} == {100}
    assert drawn.description == (
        "163,009,536 parameters. In all 2,608,152,576 bytes: weights 0.6520 "
        "GB, gradients 0.6520 GB, AdamW states 1.304 GB; activations not "
        "counted. (Weights in MiB: 621.83.) Fits in 80 GB."
    )


@pytest.mark.parametrize(
    ("total", "printed"),
    [(10**9, "100.0 %: fits"), (10**9 + 1, "100.0 %: too large")],
)
def test_memory_that_fits_to_the_byte(total, printed):
    drawn = memory_fit(1, {"weights": total}, {"1 GB": 10**9})
    assert drawn.axes[0].texts[0].get_text() == printed
    assert ("Fits in none of 1 GB" in drawn.description) == (total > 10**9)


def test_the_words_beside_a_memory_end_within_the_picture():
    drawn = memory_fit(1, {"weights": 43_675 * 10**9}, {"1 GB": 10**9})
    drawn.draw_without_rendering()
    (words,) = drawn.axes[0].texts
    assert words.get_text() == "43,675 ×: too large"
    assert words.get_window_extent().x1 < drawn.bbox.x1
    assert drawn.axes[0].get_title() == "1 parameters, 43,675 GB"


def test_four_kinds_of_memory_have_four_colours():
    drawn = plots.memory_bars({"all": dict.fromkeys(KINDS[:4], 10**9)}, {})
    fills = {bar.get_facecolor() for bar in drawn.axes[0].patches}
    assert len(fills) == 4


def test_generation_round():
    drawn = DRAW["generation_round"]()
    (axes,) = drawn.axes
    (bars,) = axes.containers
    assert look(bars[0]) == component("head")
    assert [bar.get_width() for bar in bars] == [0.5, 0.25, 0.125]
    assert axes.get_title(loc="left").startswith("round 2, after: …")
    assert axes.get_title(loc="left").endswith("a$_$␣")
    assert f"after {'a$_$ ' * 20!r}" in drawn.description


def test_a_one_picks_the_row_of_its_id():
    drawn = plots.lookup_as_product(torch.tensor([2, 0]), TABLE)
    ones, table, product = drawn.axes
    assert names(ones.yaxis) == ["ID 2", "ID 0"]
    assert names(product.yaxis) == ["row 2", "row 0"]
    numbers = [[t.get_text() for t in a.texts] for a in (ones, product)]
    assert numbers[0] == ["0", "0", "1", "1", "0", "0"]
    assert numbers[1][:4] == ["−0.50", "0.75", "0.50", "−1.25"]
    lit = [look(p)[0] == COLORS["embedding"] for p in table.patches]
    assert lit == [True, True, False, False, True, True]
    assert "rows 2, 0 of the table" in drawn.description
