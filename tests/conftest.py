import pytest
import torch
from common import TINY

import gptlib


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
