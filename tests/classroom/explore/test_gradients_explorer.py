import math

import pytest
import torch

from classroom.explore import explore_gradients
from classroom.explore.gradients import (
    _draw,
    _why_zero,
    gradient_levels,
    gradients,
)
from gptlib.layer_norm import LayerNorm
from gptlib.shortcut import ExampleDeepNeuralNetwork

# Lecture notes, "Measuring the gradients": five layers, seed 123.
PLAIN = [0.0002017, 0.0001201, 0.0007152, 0.001399, 0.005050]
SHORTCUT = [0.2217, 0.2069, 0.3290, 0.2666, 1.326]


@pytest.mark.parametrize("flag, notes", [(False, PLAIN), (True, SHORTCUT)])
def test_the_notes_figures(flag, notes):
    assert gradients(5, 3, 123, flag) == pytest.approx(notes, rel=5e-4)


def test_the_notebooks_thirty_layers():
    assert gradients(30, 3, 123, False)[0] == pytest.approx(
        1.051e-21, rel=1e-3
    )
    assert len(gradients(30, 3, 123, True)) == 30


def test_the_learners_random_numbers_are_left_alone():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    gradients(2, 2, 7, True)
    assert torch.equal(torch.rand(3), wanted)


def test_the_default_shows_the_notes_figures(control):
    explorer = explore_gradients()
    for number in ("0.0002017", "0.005050", "0.2217", "1.326"):
        assert number in explorer.description
    assert "without shortcuts: mean |gradient| 0.0002" in explorer.description
    control(explorer, "shortcuts").value = True
    assert "with shortcuts: mean |gradient| 0.2217" in explorer.description


# Why nothing comes back, as the network itself says.
REASONS = [
    ((30, 32, 123, True, False), "All are 0: −41.24 enters the last GELU"),
    ((30, 32, 123, True, True), None),
    ((30, 32, 123, False, False), None),
    ((30, 3, 123, True, False), "Exactly 0 in layer 27: all that enters"),
    ((5, 1, 123, True, True), "All are 0: a norm over a single feature"),
]


@pytest.mark.parametrize("setting, reason", REASONS)
def test_the_words_say_why_a_layer_gets_nothing(control, setting, reason):
    explorer = explore_gradients()
    labels = "depth (layers)", "width (features)", "seed", "shortcuts", "norms"
    for label, value in zip(labels, setting, strict=True):
        control(explorer, label).value = value
    assert (0 in gradients(*setting)) == bool(reason)
    if reason:
        assert reason in explorer.description
    else:
        assert "All are 0" not in explorer.description


@pytest.mark.parametrize(
    "dead, words",
    [
        ([26], "0 in layer 27:"),
        ([2, 5], "0 in layers 3 and 6:"),
        ([18, 19, 27, 28], "0 in layers 19, 20, 28 and 29:"),
    ],
)
def test_layers_that_get_nothing_are_listed(monkeypatch, dead, words):
    means = [0.0 if n in dead else 1.0 for n in range(30)]
    values = [-9.0 if n in dead else 1.0 for n in range(30)]
    module = "classroom.explore.gradients."
    monkeypatch.setattr(f"{module}gradients", lambda *_: means)
    monkeypatch.setattr(f"{module}largest_before_gelu", lambda *_: values)
    assert words in _why_zero(30, 3, 7, True, False)


def test_large_numbers_have_one_form():
    words = _draw(30, 3, 123, True, False).description
    assert "4,249 in the first layer, 15,300 in the last" in words


@pytest.mark.parametrize(
    "setting, words",
    [
        ((30, 32, 123, False, False), "Turn the shortcuts over"),
        ((30, 32, 123, True, True), "keeps a gradient, too"),
        ((30, 32, 123, False, True), "keeps a gradient, too"),
        ((30, 3, 123, True, True), "Try other widths"),
        ((30, 3, 123, False, False), None),
        ((5, 3, 123, True, True), None),
    ],
)
def test_the_words_compare_with_the_other_network(setting, words):
    last = _draw(*setting).description.split(". ")[-1]
    assert words in last if words else last.startswith("With")


@pytest.mark.parametrize("width", [1, 3, 8])
@pytest.mark.parametrize("depth", [5, 12, 30])
def test_all_are_said_to_be_0_if_all_are(depth, width):
    for seed in range(6):
        for shortcut in (False, True):
            setting = depth, width, seed, shortcut, False
            words = _why_zero(*setting)
            none = not any(gradients(*setting))
            assert ("All are 0" in words) == none, setting


def test_a_norm_does_what_the_packages_layer_norm_does():
    """A hook in the explorer; here a module, and a loop of its own."""
    torch.manual_seed(7)
    model = ExampleDeepNeuralNetwork([4] * 6 + [1], True)
    weights = [layer[0].weight for layer in model.layers]
    x = torch.linspace(1, -1, 4).unsqueeze(0)
    for linear, gelu in model.layers:
        out = gelu(linear(LayerNorm(4)(x)))
        x = x + out if x.shape == out.shape else out
    grads = torch.autograd.grad(x.pow(2).mean(), weights)
    wanted = [grad.abs().mean().item() for grad in grads]
    assert gradients(6, 4, 7, True, True) == pytest.approx(wanted, rel=1e-4)


def test_each_control_over_its_range(sweep):
    assert not sweep(explore_gradients())


@pytest.mark.parametrize("depth", [1, 15, 30])
@pytest.mark.parametrize("width", [1, 3, 32])
def test_every_size_with_many_seeds(depth, width):
    for seed in range(8):
        means, other = (
            gradients(depth, width, seed, f) for f in (True, False)
        )
        drawn = gradient_levels(means, other, True, "Network")
        drawn.png()


@pytest.mark.parametrize("depth", [5, 6, 7, 12, 20, 30])
@pytest.mark.parametrize("shortcut", [False, True])
def test_no_number_hides_a_mark(depth, shortcut):
    for width, seed in [(3, 123), (1, 123), (32, 123), (3, 7)]:
        means, other = (
            gradients(depth, width, seed, f) for f in (shortcut, not shortcut)
        )
        drawn = gradient_levels(means, other, shortcut, "Network")
        drawn.png()
        (axes,) = drawn.axes
        (marks,) = axes.collections
        boxes = [text.get_window_extent() for text in axes.texts]
        for ends in filter(len, marks.get_segments()):  # not nan
            (left, y), (right, _) = axes.transData.transform(ends)
            assert not any(
                box.x0 < right and left < box.x1 and box.y0 < y < box.y1
                for box in boxes
            ), (width, seed)


@pytest.mark.parametrize(
    "means, other",
    [
        ([0.0, 0.0], [0.0, 0.0]),
        ([0.0, 1e-30], [1e3, 0.0]),
        ([math.inf, math.nan], [1.0, math.inf]),
        ([math.inf], [math.nan]),
        ([1e38, 1e-44], [1e-44, 1e38]),
    ],
)
@pytest.mark.parametrize("shortcut", [False, True])
def test_zero_and_overflow_are_named(means, other, shortcut):
    drawn = gradient_levels(means, other, shortcut, "Network")
    (axes,) = drawn.axes
    named = [text.get_text() for text in axes.texts]
    assert len(named) == len(means)
    for mean, text in zip(means, named, strict=True):
        assert float(text) == pytest.approx(mean, rel=1e-3, nan_ok=True)
    drawn.png()
    top, height = (
        drawn.axes[0].bbox.y1,
        [t.get_window_extent() for t in axes.texts],
    )
    assert all(box.y0 <= top for box in height)


def test_the_picture():
    drawn = gradient_levels(SHORTCUT, PLAIN, True, "Five layers")
    (axes,) = drawn.axes
    bars = axes.patches
    assert [bar.get_height() for bar in bars] == pytest.approx(SHORTCUT)
    (marks,) = axes.collections
    levels = [segment[0][1] for segment in marks.get_segments()]
    assert levels == pytest.approx(PLAIN)
    assert [t.get_text() for t in axes.texts] == [
        "0.2217",
        "0.2069",
        "0.3290",
        "0.2666",
        "1.326",
    ]
    assert axes.get_yscale() == "log"
