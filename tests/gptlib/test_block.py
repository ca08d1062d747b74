import pytest
import torch
from torch import nn

from gptlib import GPT_CONFIG_124M, TransformerBlock


class Zero(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


@pytest.fixture
def block(tiny):
    torch.manual_seed(0)
    return TransformerBlock(tiny).eval()


@pytest.fixture
def x():
    return torch.randn(2, 7, 24, generator=torch.Generator().manual_seed(1))


def test_the_notes_shape():
    torch.manual_seed(123)
    x = torch.rand(2, 4, 768)
    assert TransformerBlock(GPT_CONFIG_124M)(x).shape == (2, 4, 768)


def test_with_both_sublayers_zeroed_the_input_passes_through(block, x):
    block.att, block.ff = Zero(), Zero()
    assert torch.equal(block(x), x)


def test_with_attention_zeroed_the_rest_is_the_feed_forward_branch(block, x):
    block.att = Zero()
    torch.testing.assert_close(block(x), x + block.ff(block.norm2(x)))


def test_with_feed_forward_zeroed_the_rest_is_the_attention_branch(block, x):
    block.ff = Zero()
    torch.testing.assert_close(block(x), x + block.att(block.norm1(x)))


def test_each_norm_serves_its_own_sublayer(block, x):
    before = block(x)
    with torch.no_grad():
        block.norm2.scale.mul_(0)
        block.norm2.shift.mul_(0)
    attended = x + block.att(block.norm1(x))
    bias_only = block.ff(torch.zeros_like(x))
    torch.testing.assert_close(block(x), attended + bias_only)
    assert (block(x) != before).any()


def test_the_block_is_pre_norm(block, x):
    # The sum is not normalized: a wide input keeps its spread.
    wide = 50 * x
    assert block(wide).std() > 40


def test_dropout_sits_on_the_branch_not_on_the_sum(tiny, x):
    block = TransformerBlock(tiny | {"drop_rate": 0.5}).train()
    block.ff = Zero()
    branch = block(x) - x
    zeros = (branch == 0).float().mean().item()
    assert zeros == pytest.approx(0.5, abs=0.15)
    everything = TransformerBlock(tiny | {"drop_rate": 1.0}).train()
    assert torch.equal(everything(x), x)


def test_one_batch_row_does_not_see_another(block, x):
    torch.testing.assert_close(block(x)[:1], block(x[:1]))


def test_no_position_sees_a_later_one(block, x):
    other = x.clone()
    other[:, -1] += 1
    assert torch.equal(block(other)[:, :-1], block(x)[:, :-1])


def test_names_in_the_notes_order(block):
    assert [name for name, _ in block.named_children()] == [
        "att", "ff", "norm1", "norm2", "drop_shortcut",
    ]  # fmt: skip
