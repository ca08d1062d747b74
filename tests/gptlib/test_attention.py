import pytest
import torch
from common import message
from torch.nn import functional as F

from gptlib import MultiHeadAttention


@pytest.fixture
def attention():
    torch.manual_seed(0)
    return MultiHeadAttention(10, 6, 8, 0.5, num_heads=3, qkv_bias=True).eval()


@pytest.fixture
def x():
    return torch.randn(2, 5, 10, generator=torch.Generator().manual_seed(1))


def test_it_agrees_with_torchs_own_attention(attention, x):
    q, k, v = (
        layer(x).view(2, 5, 3, 2).transpose(1, 2)
        for layer in (attention.W_query, attention.W_key, attention.W_value)
    )
    context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    expected = attention.out_proj(context.transpose(1, 2).reshape(2, 5, 6))
    torch.testing.assert_close(attention(x), expected)


def test_the_kernel_agrees_with_the_formula(attention, x):
    # The returned weights are computed by the formula, the context is not.
    attention.double()
    context, weights = attention(x.double(), return_weights=True)
    values = attention.split_heads(attention.W_value(x.double()))
    expected = (weights @ values).transpose(1, 2).flatten(2)
    torch.testing.assert_close(context, attention.out_proj(expected))


def test_dropout_scales_the_weights_that_it_keeps(attention, x):
    # Identity matrices as values: the output is the dropped-out weights.
    attention.dropout.train()
    queries, keys = torch.randn(2, 2, 3, 5, 4, dtype=torch.double)
    values = torch.eye(5, dtype=torch.double).expand(2, 3, 5, 5)
    torch.manual_seed(0)
    found = attention.gather(queries, keys, values)
    found = found.unflatten(-1, (3, 5)).transpose(1, 2)
    weights = attention._weights(queries, keys)
    kept = found != 0
    assert kept.any() and (weights[~kept] > 0).any()
    torch.testing.assert_close(found[kept], 2 * weights[kept])


def test_weights_are_causal_shares(attention, x):
    context, weights = attention(x, return_weights=True)
    assert torch.equal(context, attention(x))
    assert weights.shape == (2, 3, 5, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5))
    assert weights.triu(1).abs().max() == 0
    assert (weights.tril() + torch.ones(5, 5).triu(1) > 0).all()


def test_no_position_sees_a_later_one(attention, x):
    for position in range(1, 5):
        other = x.clone()
        other[:, position] += 1
        same = attention(other)[:, :position] == attention(x)[:, :position]
        assert same.all()
        assert (attention(other) != attention(x))[:, position:].all()


def test_every_position_sees_all_earlier_ones(attention, x):
    other = x.clone()
    other[:, 0] += 1
    assert ((attention(other) - attention(x)).abs() > 1e-6).any(-1).all()


def test_the_mask_is_a_buffer_and_no_parameter(attention):
    assert dict(attention.named_buffers()).keys() == {"mask"}
    assert not any("mask" in name for name, _ in attention.named_parameters())
    assert attention.state_dict().keys() == {
        "W_query.weight", "W_query.bias", "W_key.weight", "W_key.bias",
        "W_value.weight", "W_value.bias", "out_proj.weight", "out_proj.bias",
    }  # fmt: skip


@pytest.mark.parametrize("start", ["cpu", "meta"])
def test_the_mask_is_right_after_to_empty(start, x):
    with torch.device(start):
        moved = MultiHeadAttention(10, 6, 8, 0.0, num_heads=3)
    moved = moved.to_empty(device="cpu")
    assert torch.equal(moved.mask, torch.ones(8, 8).triu(1).bool())
    fresh = MultiHeadAttention(10, 6, 8, 0.0, num_heads=3)
    moved.load_state_dict(fresh.state_dict())
    torch.testing.assert_close(moved(x), fresh(x))


def test_the_mask_follows_the_module():
    attention = MultiHeadAttention(10, 6, 8, 0.0, num_heads=3)
    assert attention.to("meta").mask.is_meta
    assert attention(torch.empty(2, 5, 10, device="meta")).shape == (2, 5, 6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_mask_stays_boolean_in_any_dtype(attention, x, dtype):
    expected = attention(x)
    attention = attention.to(dtype)
    assert attention.mask.dtype == torch.bool
    torch.testing.assert_close(
        attention(x.to(dtype)).float(), expected, rtol=0.1, atol=0.02
    )


def test_dropout_falls_on_the_attention_weights(attention, x):
    # All weights dropped: nothing but the output layer's bias is left.
    attention.dropout.p = 1.0
    torch.testing.assert_close(
        attention.train()(x), attention.out_proj.bias.expand(2, 5, 6)
    )
    assert (attention.eval()(x) != attention.out_proj.bias).any()


def test_query_key_value_biases_are_optional():
    names = dict(MultiHeadAttention(4, 6, 8, 0.0, 2).named_parameters())
    assert "W_query.bias" not in names and "out_proj.bias" in names


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"num_heads": 4}, ValueError, ["d_out=6", "num_heads=4"]),
        ({"num_heads": 0}, ValueError, ["num_heads"]),
        ({"dropout": 1.5}, ValueError, ["dropout", "1.5"]),
        ({"dropout": -0.1}, ValueError, ["dropout", "-0.1"]),
        ({"dropout": None}, TypeError, ["dropout"]),
        ({"context_length": 0}, ValueError, ["context_length"]),
        ({"d_in": 4.0}, TypeError, ["d_in"]),
    ],
)
def test_sizes_that_make_no_attention(change, error, words):
    arguments = {
        "d_in": 4, "d_out": 6, "context_length": 8, "dropout": 0.0,
        "num_heads": 3,
    }  # fmt: skip
    with pytest.raises(error) as raised:
        MultiHeadAttention(**(arguments | change))
    for word in words:
        assert word in message(raised)


@pytest.mark.parametrize(
    "shape, words",
    [
        ((2, 9, 10), ["9 tokens", "context_length=8"]),
        ((5, 10), ["(5, 10)", "batch"]),
        ((2, 0, 10), ["(2, 0, 10)"]),
        ((2, 5, 6), ["d_in=10", "(2, 5, 6)"]),
    ],
)
def test_an_input_that_does_not_fit(attention, shape, words):
    with pytest.raises(ValueError) as raised:
        attention(torch.zeros(shape))
    for word in words:
        assert word in message(raised)


def test_the_full_context_fits(attention):
    assert attention(torch.zeros(1, 8, 10)).shape == (1, 8, 6)
