import pytest
import torch
from torch import nn

from gptlib import LayerNorm


@pytest.fixture
def notes_output():
    torch.manual_seed(123)
    batch_example = torch.randn(2, 5)
    layer = nn.Sequential(nn.Linear(5, 6), nn.ReLU())
    return layer(batch_example)


def test_the_notes_means_and_variances(notes_output):
    norm = LayerNorm(emb_dim=6)(notes_output)
    assert norm.mean(dim=-1).abs().max() < 1e-6
    variances = norm.var(dim=-1, correction=0)
    assert [f"{v:.4f}" for v in variances.tolist()] == ["0.9995", "0.9997"]


@pytest.mark.parametrize(
    "shape",
    [(2, 5), (5, 5), (2, 768), (3, 4, 24), (7,), (2, 3, 4, 3), (4, 1)],
    ids=str,
)
@pytest.mark.parametrize("spread", [1e-4, 1.0, 100.0])
def test_it_agrees_with_torch(shape, spread):
    torch.manual_seed(0)
    x = spread * torch.randn(shape, dtype=torch.double) + 3
    ours = LayerNorm(shape[-1]).double()
    oracle = nn.LayerNorm(shape[-1]).double()
    with torch.no_grad():
        for target in (ours.scale, oracle.weight):
            target.copy_(torch.linspace(0.5, 2, shape[-1]))
        for target in (ours.shift, oracle.bias):
            target.copy_(torch.linspace(-1, 1, shape[-1]))
    torch.testing.assert_close(ours(x), oracle(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kernel_agrees_with_the_formula(dtype):
    torch.manual_seed(0)
    x, norm = 3 + 10 * torch.randn(2, 7, 24), LayerNorm(24)
    nn.init.normal_(norm.scale)
    nn.init.normal_(norm.shift)
    x, norm = x.to(dtype), norm.to(dtype)
    mean = x.mean(-1, keepdim=True)
    deviation = (x.var(-1, keepdim=True, correction=0) + norm.eps).sqrt()
    expected = norm.scale * (x - mean) / deviation + norm.shift
    torch.testing.assert_close(norm(x), expected)


def test_gradients_agree_with_torch():
    torch.manual_seed(0)
    x = torch.randn(3, 5, dtype=torch.double, requires_grad=True)
    ours, oracle = LayerNorm(5).double(), nn.LayerNorm(5).double()
    weight = torch.randn(3, 5, dtype=torch.double)
    found = torch.autograd.grad(
        (ours(x) * weight).sum(), [x, ours.scale, ours.shift]
    )
    expected = torch.autograd.grad(
        (oracle(x) * weight).sum(), [x, oracle.weight, oracle.bias]
    )
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_a_constant_row_becomes_the_shift():
    norm = LayerNorm(4)
    assert torch.equal(norm(torch.full((2, 4), 7.0)), torch.zeros(2, 4))


def test_names_and_start_values():
    norm = LayerNorm(4)
    assert norm.eps == 1e-5
    assert dict(norm.named_parameters()).keys() == {"scale", "shift"}
    assert torch.equal(norm.scale, torch.ones(4))
    assert torch.equal(norm.shift, torch.zeros(4))


@pytest.mark.parametrize(
    "emb_dim, error",
    [(0, ValueError), (-1, ValueError), (2.5, TypeError), ("6", TypeError)],
)
def test_a_width_that_is_no_count(emb_dim, error):
    with pytest.raises(error, match="emb_dim"):
        LayerNorm(emb_dim)
