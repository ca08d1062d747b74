import pytest
import torch

from classroom.explore import explore_attention
from classroom.explore.attention import (
    SMALL,
    _small_model,
    attention_weights,
    head_map,
)
from gptlib import GPTModel

SENTENCE = "Every effort moves you"


def weights_of(sentence):
    return attention_weights(_small_model(), sentence)


def by_hand(block, x, head):
    """One head's weights, position by position."""
    x, size = block.norm1(x)[0], 16
    part = slice(head * size, (head + 1) * size)
    queries = x @ block.att.W_query.weight.T[:, part]
    keys = x @ block.att.W_key.weight.T[:, part]
    weights = torch.zeros(len(x), len(x))
    for row in range(len(x)):
        scores = (keys[: row + 1] * queries[row]).sum(dim=1) / size**0.5
        weights[row, : row + 1] = scores.exp() / scores.exp().sum()
    return weights


def test_block_1_by_hand():
    ids = torch.tensor([[6109, 3626, 6100, 345]])
    torch.manual_seed(123)
    model = GPTModel(SMALL).eval()
    tokens, weights = weights_of(SENTENCE)
    assert tokens == ["Every", " effort", " moves", " you"]
    with torch.no_grad():
        x = model.tok_emb(ids) + model.pos_emb(torch.arange(4))
        for head in range(3):
            wanted = by_hand(model.trf_blocks[0], x, head)
            torch.testing.assert_close(weights[0, head], wanted)


def test_a_model_of_the_learners(control):
    cfg = SMALL | {"n_layers": 2, "n_heads": 4, "context_length": 40}
    torch.manual_seed(5)
    model = GPTModel(cfg).eval()
    explorer = explore_attention(model)
    assert control(explorer, "block").max == 2
    assert control(explorer, "head").max == 4
    _, weights = attention_weights(model, SENTENCE)
    assert f"{weights[0, 0, -1].max().item():#.4g}" in explorer.description
    with pytest.raises(ValueError, match="at most 16"):
        attention_weights(model, "a" + " b" * 16)


def test_of_equal_words_no_row_is_even():
    """As the notebook says: a token vector comes with a position vector."""
    _, weights = weights_of("no" + " no" * 7)
    even = torch.ones(8, 8).tril() / torch.arange(1, 9)[:, None]
    gaps = (weights - even).abs().amax(dim=-1)  # (blocks, heads, tokens)
    assert gaps[..., 1:].amax(dim=-1).min() > 0.01


def test_every_map_is_causal_and_sums_to_1():
    _, weights = weights_of("one two three four five six")
    assert weights.shape == (SMALL["n_layers"], SMALL["n_heads"], 6, 6)
    assert weights.triu(diagonal=1).eq(0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(12, 3, 6))
    maps = weights.flatten(0, 1)
    assert len(maps.unique(dim=0)) == len(maps)  # no two heads are the same


def test_a_later_token_changes_no_earlier_row():
    _, short = weights_of("Every effort moves")
    _, long = weights_of(SENTENCE)
    torch.testing.assert_close(long[:, :, :3, :3], short)


def test_the_words_count_one_token_and_more(control):
    explorer = explore_attention()
    assert "weights of 4 tokens; the last, " in explorer.description
    control(explorer, "sentence").value = "Every"
    assert "weights of 1 token; the last, 'Every'" in explorer.description


@pytest.mark.parametrize(
    "words", ["a" + " b" * 15, "日", "🙂", "<|endoftext|>"]
)
def test_what_fits_is_drawn(control, words):
    explorer = explore_attention()
    control(explorer, "sentence").value = words
    assert "gpt-shown" in explorer.words.value
    assert "Block 1, head 1." in explorer.description


@pytest.mark.parametrize(
    ("words", "told"),
    [("", "The text is empty"), ("a" + " b" * 16, "17 tokens, but")],
)
def test_what_does_not_fit_is_explained(control, words, told):
    with pytest.raises(ValueError, match=told):
        weights_of(words)
    explorer = explore_attention()
    control(explorer, "sentence").value = words
    assert told in explorer.words.value
    assert "gpt-impossible" in explorer.words.value
    assert "gpt-stale" in explorer.picture._dom_classes
    explorer.reset.click()
    assert "gpt-stale" not in explorer.picture._dom_classes
    assert control(explorer, "sentence").value == SENTENCE


def test_each_control_over_its_range(sweep):
    assert not sweep(explore_attention())


def test_the_words_follow_the_controls(control):
    explorer = explore_attention()
    control(explorer, "block").value = 4
    control(explorer, "head").value = 2
    _, weights = weights_of(SENTENCE)
    largest = weights[3, 1, -1].max().item()
    assert "Block 4, head 2." in explorer.description
    assert f"{largest:#.4g}" in explorer.description


def test_the_learners_random_numbers_are_left_alone():
    from classroom.explore import attention

    attention._small_model.cache_clear()
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    weights_of(SENTENCE)
    assert torch.equal(torch.rand(3), wanted)


def test_without_a_kernel_the_default_shows():
    data, metadata = explore_attention()._repr_mimebundle_()
    assert data["text/plain"].startswith("Block 1, head 1. ")
    assert metadata["image/png"]["alt"] == data["text/plain"]


def test_a_picture_takes_one_thread_and_leaves_the_others():
    """Where others compute, a second thread waits: ten times as long."""
    model, before, seen = GPTModel(SMALL).eval(), torch.get_num_threads(), []
    model.tok_emb.register_forward_hook(
        lambda *_: seen.append(torch.get_num_threads())
    )
    torch.set_num_threads(2)
    try:
        attention_weights(model, SENTENCE)
        with pytest.raises(ValueError):
            attention_weights(model, "")
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


def test_the_scale_tells_small_weights_apart():
    """In a sentence of many tokens most weights are between 0 and 0.3."""
    tokens, weights = weights_of("The cat that I saw sat down on the mat")
    axes = head_map(weights[0, 0], tokens, 1, 1).axes[0]
    (image,) = axes.images
    assert image.norm([0.0, 1.0]).tolist() == [0, 1]
    assert image.norm(0.3) > 0.5 and image.norm(0.1) > 0.3
