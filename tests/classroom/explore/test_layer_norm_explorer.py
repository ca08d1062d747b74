import math

import pytest
import torch

from classroom.explore import explore_layer_norm
from classroom.explore.layer_norm import (
    SIZES,
    WIDTHS,
    norm_histograms,
    normalized,
)


def test_the_default_is_the_notebooks_batch():
    torch.manual_seed(123)
    vectors = 3 + 10 * torch.randn(2, 4, 768)
    before, after = normalized(10, 3, 768)
    assert torch.equal(before, vectors)
    wanted = torch.nn.functional.layer_norm(vectors, (768,))
    torch.testing.assert_close(after, wanted)


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
        assert shares.sum() == pytest.approx(100, abs=0.1)
    assert drawn.description == (
        "Rows. Before: mean 2.972, standard deviation "
        "10.04; after: mean below 1e-5, standard deviation 1.000."
    )
