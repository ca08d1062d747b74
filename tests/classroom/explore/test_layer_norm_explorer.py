import math

import pytest
import torch

from classroom.explore import explore_layer_norm
from classroom.explore.layer_norm import (
    SIZES,
    WIDTHS,
    _draw,
    norm_histograms,
    normalized,
)


def test_the_noise_is_lopsided_with_mean_0_and_deviation_1():
    """So that nobody takes the norm for what makes a bell."""
    before, after = normalized(1, 0, 768)
    assert before.mean().abs() < 0.05 and (before.std() - 1).abs() < 0.05
    for values in (before, after):
        assert values.min() > -1.5 and values.max() > 3


@pytest.mark.parametrize("features", WIDTHS)
@pytest.mark.parametrize("scale", SIZES)
@pytest.mark.parametrize("offset", [-50, 0, 50])
def test_it_is_torchs_layer_norm_at_every_setting(scale, offset, features):
    before, after = normalized(scale, offset, features)
    wanted = torch.nn.functional.layer_norm(before.double(), (features,))
    limit = 1e-3 if scale else 0  # an offset of 50 eats small digits
    assert (after - wanted).abs().max() <= limit + 0.02 * (scale < 0.01)


def test_unbiased_variance_divides_by_n_minus_1():
    _, biased = normalized(10, 3, 6, without_eps=True)
    _, unbiased = normalized(10, 3, 6, unbiased=True, without_eps=True)
    ratio = torch.full_like(biased, math.sqrt(5 / 6))
    torch.testing.assert_close(unbiased / biased, ratio)


@pytest.mark.parametrize(
    "shown, words",
    [
        ({"scale": 0.003}, "eps = 1e-5 acts: beside it, the variance before"),
        ({"scale": 0}, "the variance before, 0, is not large"),
        ({"unbiased": True, "features": 6}, "too small, by √((n − 1)/n) = 0."),
        ({"features": 2}, "every row becomes −1 and 1"),
        ({"scale": 0.01, "offset": 50}, "The mean after is a rounding rest"),
        ({"scale": 0, "without_eps": True}, "every value is nan"),
    ],
)
def test_what_is_not_as_the_notebook_says_has_its_reason(shown, words):
    usual = {
        "scale": 10,
        "offset": 0,
        "features": 768,
        "unbiased": False,
        "without_eps": False,
    }
    assert _draw(**usual).description.endswith("standard deviation 1.000.")
    assert words in _draw(**usual | shown).description


def test_without_eps_a_silent_row_becomes_nan():
    assert normalized(0, 3, 6)[1].eq(0).all()
    assert normalized(0, 3, 6, without_eps=True)[1].isnan().all()


def test_eps_keeps_a_quiet_row_quiet():
    assert normalized(0.003, 0, 768)[1].std() < 0.75
    assert normalized(0.003, 0, 768, without_eps=True)[1].std() > 0.99


def test_the_learners_random_numbers_are_left_alone():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    normalized(10, 3, 768)
    assert torch.equal(torch.rand(3), wanted)


def test_each_control_over_its_range(sweep, control):
    explorer = explore_layer_norm()
    assert not sweep(explorer)
    start = explorer.description
    control(explorer, "features").value = 6
    told = explorer.description
    control(explorer, "unbiased").value = True
    assert explorer.description not in (told, start)
    control(explorer, "unbiased").value = False
    control(explorer, "scale").value = 0
    control(explorer, "without eps").value = True
    assert "standard deviation nan" in explorer.description
    assert "every value is nan" in explorer.description


def test_the_picture():
    before, after = normalized(10, 3, 768)
    drawn = norm_histograms(before, after, (150, 4), "Rows.")
    upper, lower = drawn.axes
    for axes, end in ((upper, 150), (lower, 4)):
        assert axes.get_xlim() == (-end, end)
        shares = axes.patches[0].get_data().values
        assert shares.sum() == pytest.approx(100, abs=0.2)
    assert drawn.description == (
        "Rows. Before: mean 2.968, standard deviation "
        "10.15; after: mean below 1e-5, standard deviation 1.000."
    )
