import gc
import weakref

import pytest
import torch

from classroom.explore import explore_generation
from classroom.explore.generation import ROUNDS, Continued, prompt_ids
from gptlib import GPTModel, generate_text_simple, gpt2_tokenizer


@pytest.fixture
def wide_model(tiny):
    """Small, but with the tokenizer's vocabulary."""
    torch.manual_seed(3)
    return GPTModel(tiny | {"vocab_size": 50257}).eval()


def texts_of(model, prompt):
    return Continued(weakref.ref(model), prompt)


def test_it_is_the_loop(wide_model):
    """From each candidate of round 1, greedily."""
    prompt = gpt2_tokenizer().encode("Hello, I am")
    texts = texts_of(wide_model, "Hello, I am")
    ids, candidates, _ = texts.at(1, 1)
    assert ids == prompt and texts.at(1, 5)[0] == prompt
    for first, candidate in enumerate(candidates, 1):
        wanted = generate_text_simple(
            wide_model, torch.tensor([[*prompt, candidate]]), ROUNDS - 1, 16
        )[0].tolist()
        for step in range(ROUNDS, 1, -1):
            ids, found, _ = texts.at(step, first)
            assert ids == wanted[: 3 + step]
            assert found[0] == wanted[3 + step]


def test_probabilities_are_the_models(wide_model):
    ids, candidates, shares = texts_of(wide_model, "Hi").at(3, 2)
    with torch.no_grad():
        logits = wide_model(torch.tensor([ids]))[0, -1].double()
    wanted = logits.exp() / logits.exp().sum()
    assert shares == sorted(shares, reverse=True)
    assert shares == pytest.approx(wanted[candidates].tolist(), rel=1e-4)
    assert len(candidates) == 10
    assert shares[-1] >= wanted.sort().values[-11]


def test_past_the_context_it_crops_as_the_loop_does(tiny_model):
    texts = texts_of(tiny_model, "(),-./012345!;")  # 14; it reads 16
    prompt, candidates, _ = texts.at(1, 1)
    assert len(prompt) == 14
    for first in (1, 4):
        start = torch.tensor([[*prompt, candidates[first - 1]]])
        wanted = generate_text_simple(tiny_model, start, ROUNDS - 1, 16)
        last, found, _ = texts.at(ROUNDS, first)
        assert [*last, found[0]] == wanted[0].tolist()


def test_a_prompt_that_takes_too_long_is_refused(wide_model, control):
    explorer = explore_generation(wide_model)
    control(explorer, "prompt").value = "one two " * 200
    assert "takes up to 256: shorten it." in explorer.description
    explorer.reset.click()
    assert "gpt-shown" in explorer.words.value


def test_an_empty_prompt_is_refused(wide_model, control):
    with pytest.raises(ValueError, match="prompt is empty"):
        explore_generation(wide_model, "")
    explorer = explore_generation(wide_model)
    control(explorer, "prompt").value = ""
    assert "prompt is empty: type one" in explorer.description
    assert "gpt-impossible" in explorer.words.value
    explorer.reset.click()
    assert "gpt-shown" in explorer.words.value


def test_the_candidate_of_round_1_is_chosen_and_appended(wide_model, control):
    explorer = explore_generation(wide_model)
    control(explorer, "candidate").value = 3
    taken = texts_of(wide_model, "Hello, I am").at(1, 1)[1][2]
    assert f"appended: {taken}. " in explorer.description
    control(explorer, "round").value = 2
    assert f"15496, 11, 314, 716, {taken}; " in explorer.description


def test_a_prompt_is_read_once_it_is_complete(wide_model, control):
    explorer = explore_generation(wide_model)
    prompt = control(explorer, "prompt")
    assert prompt.continuous_update is False
    prompt.value = "Good morning"
    assert "after 'Good morning'" in explorer.description


def test_a_model_that_is_gone_is_said_to_be(tiny, control):
    model = GPTModel(tiny).eval()
    explorer = explore_generation(model)
    del model
    gc.collect()
    control(explorer, "round").value = 2
    assert "run the explorer's cell again" in explorer.description
    assert "gpt-impossible" in explorer.words.value


def test_a_small_vocabulary_gets_the_letters_it_knows(tiny_model):
    ids = prompt_ids(tiny_model, "Hello, I am")
    assert gpt2_tokenizer().decode(ids) == "Hello,Iam"
    explorer = explore_generation(tiny_model)
    assert "after 'Hello,Iam'" in explorer.description


@pytest.mark.parametrize("vocab_size", [1, 3, 12])
def test_the_smallest_vocabularies(tiny, sweep, vocab_size):
    model = GPTModel(tiny | {"vocab_size": vocab_size}).eval()
    explorer = explore_generation(model)
    assert "gpt-shown" in explorer.words.value
    assert not sweep(explorer)


def test_ids_beyond_the_tokenizer_are_shown_as_numbers(tiny, control):
    model = GPTModel(tiny | {"vocab_size": 50304}).eval()
    with torch.no_grad():  # a constant last column decides
        model.final_norm.scale.zero_()
        model.final_norm.shift.fill_(1)
        model.out_head.weight[50300] = 10
    explorer = explore_generation(model)
    assert "'[50300]' with probability 1.000" in explorer.description
    control(explorer, "round").value = 3
    assert "am[50300][50300][50300]'" in explorer.description


def test_training_mode_is_refused(tiny):
    model = GPTModel(tiny)
    with pytest.raises(ValueError, match=r"training mode.*model\.eval\(\)"):
        explore_generation(model)
    model.eval().drop_emb.train()
    with pytest.raises(ValueError, match="training mode"):
        explore_generation(model)


@pytest.mark.parametrize("prompt", ["日本 $x$", "a\nb", "x" * 300, " ", "Hi"])
def test_any_prompt(wide_model, sweep, prompt):
    explorer = explore_generation(wide_model, prompt)
    assert "gpt-shown" in explorer.words.value
    assert not sweep(explorer)


def test_each_control_over_its_range(tiny_model, wide_model, sweep):
    assert not sweep(explore_generation(tiny_model))
    assert not sweep(explore_generation(wide_model))


def test_the_words_hold_ids_and_text(wide_model, control):
    explorer = explore_generation(wide_model)
    assert "IDs so far: 15496, 11, 314, 716; " in explorer.description
    control(explorer, "round").value = 6
    prompt = torch.tensor([[15496, 11, 314, 716]])
    wanted = generate_text_simple(wide_model, prompt, 6, 16)[0].tolist()
    *before, last = wanted
    told = f"{', '.join(map(str, before))}; appended: {last}. "
    assert told in explorer.description
    text = gpt2_tokenizer().decode(wanted)
    assert explorer.description.endswith(f"The text becomes {text!r}.")


def test_no_model_is_kept(tiny):
    model = GPTModel(tiny).eval()
    explorer, alive = explore_generation(model), weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None
    explorer.reset.click()
    assert "gpt-shown" in explorer.words.value


def test_without_a_kernel_the_default_shows(tiny_model):
    data, metadata = explore_generation(tiny_model)._repr_mimebundle_()
    assert data["text/plain"].startswith("Round 1: after 'Hello,Iam'.")
    assert metadata["image/png"]["alt"] == data["text/plain"]
