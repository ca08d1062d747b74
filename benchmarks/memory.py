"""Peak memory of whole processes, beyond bare torch."""

import subprocess
import sys
from functools import partial

from benchmarks import notebooks
from benchmarks.notebooks import PEAK
from benchmarks.report import Row
from benchmarks.timing import best, interleaved, ratio
from gptlib import GPT_CONFIG_124M, count_parameters, model_size_mb

BARE = "import torch; torch.set_num_threads(2)"
BUILT = """
import torch, gptlib
torch.manual_seed(123)
model = gptlib.GPTModel(gptlib.GPT_CONFIG_124M).eval()
"""
LAID_OUT = "gptlib.to_input_major(model)\n"
GENERATED = """
ids = torch.tensor([[15496, 11, 314, 716]])
gptlib.generate_text_cached(model, ids, 100, 1024)
"""
COUNTED = """
import time
from gptlib import GPT2_CONFIGS, count_parameters
start = time.perf_counter()
for cfg in GPT2_CONFIGS.values():
    for tied in (False, True):
        count_parameters(cfg, tied)
print(time.perf_counter() - start)
"""


def measure(quick=False):
    """Rows for 124M at work, the family counted, and each notebook."""
    name = "peak memory"
    (bare,) = numbers(BARE + PEAK)
    yield Row(name, "import torch", bare, "MB")
    weights = model_size_mb(count_parameters(GPT_CONFIG_124M))
    codes = {
        "124M and 100 tokens": BUILT + GENERATED,
        "the same, input-major": BUILT + LAID_OUT + GENERATED,
    }
    for what, code in codes.items():
        beyond = numbers(code + PEAK)[0] - bare - weights
        what = f"{what}, beyond torch and its weights"
        yield Row(name, what, beyond, "MB", "≤ 300")
    runs = [numbers(COUNTED + PEAK) for _ in range(3)]
    seconds, megabytes = map(min, zip(*runs, strict=True))
    what = "family counted, beyond torch"
    yield Row(name, what, megabytes - bare, "MB", "≤ 20")
    for notebook in notebooks.NAMES:
        found = notebooks.run(notebook)["peak"]
        yield Row(name, f"kernel of {notebook[:2]}", found, "MB")
    what = "four sizes, tied and untied"
    yield Row("counting", what, seconds, "s", "≤ 0.5")
    yield from _imports(5 if quick else 15)


def _imports(rounds):
    ours, theirs = "from gptlib import *", "import torch"
    functions = {code: partial(numbers, code) for code in (ours, theirs)}
    seconds = interleaved(functions, rounds)
    for code, shortest in best(seconds).items():
        yield Row("import", f"process with {code}", shortest, "s")
    found = ratio(seconds, ours, theirs)
    yield Row("import", "gptlib / torch", found, "×", "≤ 1.1")


def numbers(code):
    """What a new Python prints that runs `code`, as floats."""
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=True
    )
    return [float(number) for number in done.stdout.split()]
