import gc
import weakref

import pytest
import torch

from classroom.explore import explore_generation
from classroom.explore.generation import ROUNDS, generation_rounds, prompt_ids
from gptlib import GPTModel, generate_text_simple, gpt2_tokenizer


@pytest.fixture
def wide_model(tiny):
    """Small, but with the tokenizer's vocabulary."""
    torch.manual_seed(3)
    return GPTModel(tiny | {"vocab_size": 50257}).eval()


def test_it_is_the_loop(wide_model):
    prompt = gpt2_tokenizer().encode("Hello, I am")
    rounds = generation_rounds(wide_model, prompt)
    wanted = generate_text_simple(
        wide_model, torch.tensor([prompt]), ROUNDS, 16
    )[0].tolist()
    for number, (ids, candidates, _) in enumerate(rounds):
        assert ids == wanted[: 4 + number]
        assert candidates[0] == wanted[4 + number]


def test_probabilities_are_the_models(wide_model):
    ids, candidates, shares = generation_rounds(wide_model, [5, 7])[2]
    with torch.no_grad():
        logits = wide_model(torch.tensor([ids]))[0, -1].double()
    wanted = logits.exp() / logits.exp().sum()
    assert shares == sorted(shares, reverse=True)
    assert shares == pytest.approx(wanted[candidates].tolist(), rel=1e-4)
    assert len(candidates) == 10
    assert shares[-1] >= wanted.sort().values[-11]


def test_past_the_context_it_crops_as_the_loop_does(tiny_model):
    prompt = list(range(14))  # the model reads 16
    last, candidates, _ = generation_rounds(tiny_model, prompt)[-1]
    wanted = generate_text_simple(
        tiny_model, torch.tensor([prompt]), ROUNDS, 16
    )[0].tolist()
    assert [*last, candidates[0]] == wanted


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


@pytest.mark.parametrize("prompt", ["日本 $x$", "a\nb", "x" * 300, "", "Hi"])
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
