import math

import pytest
import torch
from torch.nn import functional as F

from gptlib import GELU, GPT_CONFIG_124M, FeedForward


def test_gelu_is_the_tanh_form():
    x = torch.linspace(-8, 8, 1001, dtype=torch.double)
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    expected = 0.5 * x * (1 + torch.tanh(inner))
    torch.testing.assert_close(GELU()(x), expected, rtol=1e-12, atol=1e-12)


def test_gelu_is_not_the_exact_form_but_near_it():
    x = torch.linspace(-5, 5, 10_001, dtype=torch.double)
    gap = (GELU()(x) - F.gelu(x)).abs().max()
    assert 4e-4 < gap < 5e-4  # 4.7e-4


def test_gelus_minimum_is_where_the_notes_say():
    x = torch.linspace(-3, 3, 6001, dtype=torch.double)
    assert x[GELU()(x).argmin()].item() == pytest.approx(-0.75, abs=0.005)


def test_the_notes_shape():
    torch.manual_seed(123)
    x = torch.rand(2, 3, 768)
    ffn = FeedForward(GPT_CONFIG_124M)
    assert ffn(x).shape == torch.Size([2, 3, 768])
    assert ffn.layers[0].weight.shape == (3072, 768)
    assert ffn.layers[2].weight.shape == (768, 3072)


def test_it_is_linear_gelu_linear(tiny):
    torch.manual_seed(0)
    ffn, x = FeedForward(tiny), torch.randn(2, 5, 24)
    w1, b1, w2, b2 = ffn.state_dict().values()
    expected = F.gelu(x @ w1.T + b1, approximate="tanh") @ w2.T + b2
    torch.testing.assert_close(ffn(x), expected)


def test_each_position_is_on_its_own(tiny):
    torch.manual_seed(0)
    ffn, x = FeedForward(tiny), torch.randn(2, 5, 24)
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(ffn(x)[:, order], ffn(x[:, order]))
    torch.testing.assert_close(ffn(x)[1, 3], ffn(x[1, 3]))
