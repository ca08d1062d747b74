import pytest
import torch

from classroom.explore import explore_model
from classroom.explore.model import PARTS, SMALL, stops
from gptlib import GPTModel, gpt2_tokenizer

SENTENCE = "Every effort moves you"


def outputs(sentence):
    """What hooks see in the same model, without the sum of embeddings."""
    torch.manual_seed(123)
    model, seen = GPTModel(SMALL).eval(), {}
    parts = {
        "token embedding": model.tok_emb,
        "dropout (off)": model.drop_emb,
        "final norm": model.final_norm,
        "output head": model.out_head,
    }
    for n, block in enumerate(model.trf_blocks, 1):
        parts[f"block {n}"] = block
    for name, part in parts.items():
        part.register_forward_hook(
            lambda part, given, out, name=name: seen.update({name: out})
        )
    with torch.no_grad():
        model(torch.tensor([gpt2_tokenizer().encode(sentence)]))
    return seen


def test_shapes_and_sizes_are_the_models():
    names = [name for name, _ in PARTS]
    shown = dict(zip(names, stops(SENTENCE), strict=True))
    seen = outputs(SENTENCE)
    assert shown.keys() - seen.keys() == {"+ position embedding"}
    assert shown["+ position embedding"] == shown["dropout (off)"]
    for name, out in seen.items():
        shape, size = shown[name]
        assert shape == tuple(out.shape)
        assert size == pytest.approx(out.std().item(), rel=1e-5)


def test_the_shape_changes_at_the_head_only():
    *earlier, (last, _) = stops(SENTENCE)
    assert {shape for shape, _ in earlier} == {(1, 4, 24)}
    assert last == (1, 4, 50257)


def test_the_final_norm_brings_the_size_back_to_1():
    sizes = [size for _, size in stops(SENTENCE)]
    assert sizes[1] == pytest.approx(2**0.5, rel=0.15)
    assert sizes[3:7] == sorted(sizes[3:7])  # each block adds
    assert sizes[-2] == pytest.approx(1, rel=0.01)


def test_without_the_norm_the_head_reads_larger_vectors():
    *_, norm, head = stops(SENTENCE)
    *earlier, off, larger = stops(SENTENCE, norm=False)
    assert earlier == stops(SENTENCE)[:-2] and off == earlier[-1]
    assert larger[1] / head[1] == pytest.approx(off[1] / norm[1], rel=0.01)
    sizes = [[f"{size:.1f}" for _, size in stops(w)] for w in ("a", SENTENCE)]
    assert sizes[0][-2:] == sizes[1][-2:] == ["1.0", "0.6"]
    assert sizes[0][0] != sizes[1][0]


def test_the_words_name_a_norm_that_is_off(control):
    explorer = explore_model()
    control(explorer, "final norm").value = False
    control(explorer, "step").value = len(PARTS) - 1
    assert "final norm (off)" in explorer.words.value


@pytest.mark.parametrize(
    "words", ["a", "a" + " b" * 15, "日", "<|endoftext|>"]
)
def test_what_fits_is_drawn(control, words):
    explorer = explore_model()
    control(explorer, "sentence").value = words
    assert "gpt-shown" in explorer.words.value


@pytest.mark.parametrize(
    ("words", "told"),
    [("", "The text is empty"), ("a" + " b" * 16, "17 tokens, but")],
)
def test_what_does_not_fit_is_explained(control, words, told):
    with pytest.raises(ValueError, match=told):
        stops(words)
    explorer = explore_model()
    control(explorer, "sentence").value = words
    assert told in explorer.words.value
    assert "gpt-stale" in explorer.picture._dom_classes


def test_each_control_over_its_range(sweep):
    assert not sweep(explore_model())


def test_every_step_says_what_it_shows(control):
    explorer, told = explore_model(), []
    step = control(explorer, "step")
    for number, (name, _) in enumerate(PARTS, 1):
        step.value = number
        assert (
            f"Part {number} of {len(PARTS)}, {name}:" in explorer.words.value
        )
        told.append(explorer.description)
    assert len(set(told)) == len(PARTS) == step.max
    assert "(1, 4, 50257)" in told[-1]
    explorer.reset.click()
    assert explorer.description == told[0]


def test_without_a_kernel_the_default_shows():
    data, metadata = explore_model()._repr_mimebundle_()
    assert data["text/plain"].startswith("Part 1 of 9, token embedding")
    assert metadata["image/png"]["alt"] == data["text/plain"]
