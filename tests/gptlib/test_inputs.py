"""Every module that reads token IDs answers bad ones in one sentence."""

import pytest
import torch
from common import message

import gptlib


def forward(module):
    return lambda tiny, ids: module(tiny).eval()(ids)


def generate(tiny, ids):
    model = gptlib.GPTModel(tiny).eval()
    return gptlib.generate_text_simple(model, ids, 2, tiny["context_length"])


READERS = [forward(gptlib.DummyGPTModel), forward(gptlib.GPTModel), generate]
readers = pytest.mark.parametrize(
    "read", READERS, ids=["dummy", "model", "generate"]
)


def bad_values(value):
    return torch.tensor([[1, 2, 3], [4, value, 6]])


@readers
@pytest.mark.parametrize(
    "ids, error, words",
    [
        (torch.tensor([1, 2]), ValueError, ["(2,)", "1 axis", "unsqueeze(0)"]),
        (torch.ones(2, 3, 4).long(), ValueError, ["3 axes", "(2, 3, 4)"]),
        (torch.tensor(5), ValueError, ["0 axes"]),
        ([[1, 2]], TypeError, ["list", "torch.tensor"]),
        ("Hello, I am", TypeError, ["Hello, I am", "encode"]),
        (None, TypeError, ["NoneType"]),
        (torch.tensor([[1.0, 2.0]]), TypeError, ["float32", "long()"]),
        (torch.tensor([[True, False]]), TypeError, ["bool"]),
        (torch.tensor([[1, 2]]).byte(), TypeError, ["uint8", "long()"]),
        (torch.ones(1, 0).long(), ValueError, ["(1, 0)", "empty"]),
        (torch.ones(0, 4).long(), ValueError, ["(0, 4)", "empty"]),
        (bad_values(101), ValueError, ["101", "row 1, position 1", "100"]),
        (bad_values(-1), ValueError, ["-1", "row 1, position 1", "0 to 100"]),
        (bad_values(2**40), ValueError, [str(2**40), "vocab_size=101"]),
    ],
    ids=lambda value: None if isinstance(value, type) else str(value)[:20],
)
def test_bad_ids_are_answered_in_one_sentence(read, tiny, ids, error, words):
    with pytest.raises(error) as raised:
        read(tiny, ids)
    for word in words:
        assert word in message(raised)


@readers
def test_int32_ids_are_read_like_int64(read, tiny):
    ids = torch.tensor([[3, 100, 0]])
    torch.manual_seed(0)
    expected = read(tiny, ids)
    torch.manual_seed(0)
    assert torch.equal(read(tiny, ids.int()), expected)


@pytest.mark.parametrize("module", [gptlib.DummyGPTModel, gptlib.GPTModel])
def test_the_context_ends_exactly_at_its_length(module, tiny):
    model = module(tiny).eval()
    ids = torch.zeros(2, 17, dtype=torch.long)
    assert model(ids[:, :16]).shape == (2, 16, 101)
    with pytest.raises(ValueError) as raised:
        model(ids)
    for word in ("17 tokens", "context_length=16", "ids[:, -16:]"):
        assert word in message(raised)


FEATURE_READERS = {
    "layer norm": lambda tiny: gptlib.LayerNorm(24),
    "feed-forward": gptlib.FeedForward,
    "block": gptlib.TransformerBlock,
    "attention": lambda tiny: gptlib.MultiHeadAttention(24, 6, 16, 0.0, 3),
    "deep network": lambda tiny: gptlib.ExampleDeepNeuralNetwork(
        [24, 5], False
    ),
}


@pytest.mark.parametrize("make", FEATURE_READERS.values(), ids=FEATURE_READERS)
@pytest.mark.parametrize(
    "x, error, words",
    [
        (torch.zeros(2, 3, 25), ValueError, ["24", "(2, 3, 25)"]),
        (torch.zeros(2, 3, 1), ValueError, ["24", "(2, 3, 1)"]),
        (torch.tensor(1.0), ValueError, ["24"]),
        (torch.zeros(2, 3, 24).long(), TypeError, ["int64", "embedding"]),
        ([[0.0] * 24], TypeError, ["list"]),
    ],
    ids=["too wide", "would broadcast", "scalar", "ids", "list"],
)
def test_features_that_do_not_fit(make, tiny, x, error, words):
    with pytest.raises(error) as raised:
        make(tiny)(x)
    for word in words:
        assert word in message(raised)
