import os

import pytest
import torch
from common import TINY

import gptlib

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # the other processor has the other tests


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


def pytest_terminal_summary(terminalreporter):
    """What the browser's tests measured, in whichever process they ran."""
    passed = terminalreporter.stats.get("passed", [])
    measured = [told for report in passed for told in report.user_properties]
    lines = [line for kind, line in measured if kind == "key press"]
    if lines:
        terminalreporter.section("key press → new picture: min, median, max")
        for line in lines:
            terminalreporter.write_line(line)
