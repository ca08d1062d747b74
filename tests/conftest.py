import pytest
import torch

import gptlib

# Odd sizes on which mistakes show: nothing is square, several heads.
TINY = {
    "vocab_size": 101,
    "context_length": 16,
    "emb_dim": 24,
    "n_heads": 3,
    "n_layers": 2,
    "drop_rate": 0.1,
    "qkv_bias": False,
}


@pytest.fixture
def tiny():
    return dict(TINY)


@pytest.fixture
def tiny_model(tiny):
    torch.manual_seed(0)
    return gptlib.GPTModel(tiny).eval()


@pytest.fixture
def ids():
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 101, (3, 9), generator=generator)


def message(raised):
    """The sentence a learner reads, which must be one line."""
    text = str(raised.value.args[0])
    assert "\n" not in text
    return text
