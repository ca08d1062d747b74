import numpy as np
import pytest
import torch
from torch.nn import functional

from classroom.explore import explore_gelu
from classroom.explore.gelu import (
    ACTIVATIONS,
    activation_curve,
    curve,
    path,
)

TORCH = {
    "GELU, tanh form": lambda x: functional.gelu(x, approximate="tanh"),
    "GELU, exact form": lambda x: x * torch.special.ndtr(x),
    "ReLU": lambda x: x.clamp(min=0),
    "SiLU": lambda x: x / (1 + torch.exp(-x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("reach", [0.5, 3, 10])
def test_values_and_slopes(name, reach):
    x, y, slope = curve(name, reach)
    assert x[0] == -reach and x[-1] == reach
    torch.testing.assert_close(y, TORCH[name](x))
    step = 1e-6
    rise = (TORCH[name](x + step) - TORCH[name](x - step)) / (2 * step)
    away = x.abs() > 1e-3  # ReLU has a corner at 0
    torch.testing.assert_close(slope[away], rise[away], rtol=1e-4, atol=1e-6)


def test_the_notes_minimum_of_gelu():
    x, y, _ = curve("GELU, tanh form", 3)
    assert x[y.argmin()].item() == pytest.approx(-0.75, abs=0.01)
    assert y.min().item() == pytest.approx(-0.1700, abs=5e-5)


def test_gradients_may_be_off_around_it():
    with torch.no_grad():
        assert curve("SiLU", 3)[2].max() > 1


def test_each_control_over_its_range(sweep, control):
    explorer = explore_gelu()
    assert not sweep(explorer)
    control(explorer, "derivative").value = True
    assert "derivative, dashed, lies between" in explorer.description


@pytest.mark.parametrize("derivative", [False, True])
def test_the_picture(derivative):
    x, y, slope = curve("ReLU", 2)
    drawn = activation_curve("ReLU", x, y, slope if derivative else None)
    (axes,) = drawn.axes
    assert [line.get_linestyle() for line in axes.lines[2:]] == (
        ["-", "--"] if derivative else ["-"]
    )
    if derivative:  # two pieces, with no line from 0 up to 1
        dashed = axes.lines[-1].get_ydata()
        assert set(dashed[~np.isnan(dashed)]) == {0, 1}
        assert np.isnan(dashed).sum() == 1
    assert axes.get_ylabel() == ("output, slope" if derivative else "output")
    assert ("derivative" in drawn.description) == derivative
    assert drawn.description.startswith("ReLU for x from -2 to 2: lowest")


BORDERS = {
    "ReLU": 0,
    "GELU, tanh form": -0.7525,
    "GELU, exact form": -0.7518,
    "SiLU": -1.2785,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_unit_arrives_from_above_the_lowest_point_only(name):
    border = BORDERS[name]
    for start in (border + 0.02, border + 0.5, 3):
        inputs, outputs = path(name, start, 300)
        assert len(inputs) == 301 and inputs[0] == start
        assert outputs[-1] == pytest.approx(1, abs=0.01), start
    for start in (border - 0.02, border - 0.5, -6):
        inputs, outputs = path(name, start, 300)
        assert inputs[-1] <= start and outputs[-1] < 0.01, start


@pytest.mark.parametrize(
    "name, start, count, words",
    [
        ("ReLU", -0.5, 200, "has not moved, as the slope there is 0"),
        ("ReLU", 0.5, 200, "has arrived at 1"),
        ("GELU, tanh form", -0.5, 200, "x = 1.14 and gives 1.00: it has arr"),
        ("GELU, tanh form", -1.0, 200, "x = -2.99 and gives 0.00: the slope"),
        ("GELU, tanh form", -6.0, 200, "hardly moved, as the slope there is"),
        ("GELU, tanh form", -0.5, 0, "no step was made"),
        ("SiLU", -1.0, 10, "on its way to the right"),
        ("ReLU", 3.0, 10, "1.21: it is on its way to the left."),
        ("SiLU", -3.0, 200, "Part of its way lies outside this range of x."),
        ("ReLU", -6.0, 200, "All of its way lies outside this range of x."),
    ],
)
def test_the_words_on_the_unit(name, start, count, words):
    x, y, _ = curve(name, 3)
    drawn = activation_curve(name, x, y, unit=path(name, start, count))
    assert words in drawn.description
    assert "-0.00" not in drawn.description
    labels = [t.get_text() for t in drawn.axes[0].get_legend().get_texts()]
    reference = [] if name == "ReLU" else ["ReLU"]
    assert labels == ["value", *reference, "start", "end"]
