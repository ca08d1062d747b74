import warnings

import pytest
import torch
from common import NOTES_IDS, message
from torch import nn

from gptlib import (
    GPT_CONFIG_124M,
    GPTModel,
    generate_text_simple,
    gpt2_tokenizer,
)


def test_the_notes_ids_and_text():
    torch.manual_seed(123)
    model = GPTModel(GPT_CONFIG_124M).eval()
    out = generate_text_simple(
        model=model,
        idx=torch.tensor([NOTES_IDS[:4]]),
        max_new_tokens=6,
        context_size=1024,
    )
    assert out.tolist() == [NOTES_IDS]
    assert gpt2_tokenizer().decode(out[0].tolist()) == (
        "Hello, I am Featureiman Byeswickattribute argue"
    )


class NextNumber(nn.Module):
    """A model whose best next token is known: the last one plus one."""

    def __init__(self):
        super().__init__()
        self.lengths = []

    def forward(self, ids):
        self.lengths.append(ids.shape[1])
        return nn.functional.one_hot((ids + 1) % 50, 50).float()


def test_the_last_position_decides_for_each_row():
    out = generate_text_simple(
        NextNumber().eval(), torch.tensor([[3, 9], [7, 48]]), 3, 10
    )
    assert out.tolist() == [[3, 9, 10, 11, 12], [7, 48, 49, 0, 1]]


def test_the_context_is_cropped_to_its_last_tokens():
    model = NextNumber().eval()
    out = generate_text_simple(model, torch.arange(6)[None], 4, 5)
    assert out.tolist() == [list(range(10))]
    assert model.lengths == [5, 5, 5, 5]


def test_it_goes_on_past_the_models_context(tiny_model, ids):
    out = generate_text_simple(tiny_model, ids, 20, 16)
    assert out.shape == (3, 29)
    assert torch.equal(out[:, :9], ids)
    for end in range(9, 29):  # each step again, by hand
        with torch.no_grad():
            logits = tiny_model(out[:, max(0, end - 16) : end])
        assert torch.equal(logits[:, -1].argmax(-1), out[:, end])


def test_a_batch_equals_its_rows_alone(tiny_model, ids):
    together = generate_text_simple(tiny_model, ids, 12, 16)
    alone = [
        generate_text_simple(tiny_model, row[None], 12, 16) for row in ids
    ]
    assert torch.equal(together, torch.cat(alone))


def test_a_prompt_longer_than_the_context_is_kept_whole(tiny_model):
    prompt = torch.arange(40)[None]
    out = generate_text_simple(tiny_model, prompt, 2, 16)
    assert torch.equal(out[:, :40], prompt) and out.shape == (1, 42)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_nothing_of_the_callers_is_changed(tiny_model, ids, count):
    before, state = ids.clone(), torch.get_rng_state()
    weights = {n: p.clone() for n, p in tiny_model.named_parameters()}
    out = generate_text_simple(tiny_model, ids, count, 16)
    assert out.shape == (3, 9 + count)
    out.zero_()
    assert torch.equal(ids, before)
    assert torch.equal(torch.get_rng_state(), state)
    assert not tiny_model.training and torch.is_grad_enabled()
    for name, parameter in tiny_model.named_parameters():
        assert torch.equal(parameter, weights[name])
        assert parameter.grad is None


def test_the_model_runs_without_gradients(tiny_model, ids):
    seen = []
    tiny_model.out_head.register_forward_hook(
        lambda *_: seen.append(torch.is_grad_enabled())
    )
    generate_text_simple(tiny_model, ids, 2, 16)
    assert seen == [False, False] and torch.is_grad_enabled()


def test_training_mode_is_kept_and_warned_about(tiny_model, ids):
    tiny_model.train()
    with pytest.warns(UserWarning, match="training mode.*run to run.*eval"):
        generate_text_simple(tiny_model, ids, 1, 16)
    assert tiny_model.training


def test_one_block_left_in_training_mode_is_warned_about(tiny_model, ids):
    tiny_model.trf_blocks[1].train()
    with pytest.warns(UserWarning, match="training mode"):
        generate_text_simple(tiny_model, ids, 1, 16)


def test_evaluation_mode_is_quiet(tiny_model, ids):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        generate_text_simple(tiny_model, ids, 1, 16)


@pytest.mark.parametrize(
    "count, size, error, words",
    [
        (-1, 16, ValueError, ["max_new_tokens", "-1"]),
        (2.5, 16, TypeError, ["max_new_tokens", "2.5"]),
        (2.0, 16, TypeError, ["max_new_tokens", "2.0"]),
        (None, 16, TypeError, ["max_new_tokens"]),
        (True, 16, TypeError, ["max_new_tokens"]),
        (1, 0, ValueError, ["context_size", "0"]),
        (1, -4, ValueError, ["context_size", "-4"]),
        (1, 16.0, TypeError, ["context_size"]),
        (1, 17, ValueError, ["context_size=17", "16"]),
    ],
)
def test_numbers_that_make_no_loop(tiny_model, ids, count, size, error, words):
    with pytest.raises(error) as raised:
        generate_text_simple(tiny_model, ids, count, size)
    for word in words:
        assert word in message(raised)


@pytest.mark.parametrize("count", [0, 2])
def test_a_text_is_not_ids(tiny_model, count):
    with pytest.raises(TypeError, match="encode"):
        generate_text_simple(tiny_model, "Hello, I am", count, 16)
