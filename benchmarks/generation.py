"""Greedy generation: plain loop, cache, Hugging Face, and the bound."""

import copy
import statistics
import tempfile
import time
from pathlib import Path

import torch

from benchmarks import models
from benchmarks.report import Row
from benchmarks.timing import best, interleaved, ratio
from gptlib import (
    generate_text_cached,
    generate_text_simple,
    load_gpt2,
    to_input_major,
)

ROUNDS = {10: 7, 100: 5, 300: 3, 1000: 2}
PLAIN, CACHED, LAID_OUT, LOADED, THEIRS = (
    "plain loop",
    "cached",
    "cached, input-major",
    "cached, loaded",
    "Hugging Face",
)


def measure(quick=False):
    """Rows for 10, 100, 300 and 1000 new tokens after "Hello, I am"."""
    model = models.ours()
    laid_out = to_input_major(copy.deepcopy(model))
    theirs = models.hugging_face()
    loaded = _loaded(theirs)
    size = model.pos_emb.num_embeddings
    prompt = models.PROMPT
    for count in (10, 100) if quick else ROUNDS:
        outputs, moments = {}, []

        def run(name, generate, model, count=count, outputs=outputs, **more):
            outputs[name] = generate(model, prompt, count, size, **more)

        def heard(chosen, moments=moments):
            moments.append(time.perf_counter())

        functions = {
            PLAIN: lambda: run(PLAIN, generate_text_simple, model),
            CACHED: lambda: run(CACHED, generate_text_cached, model),
            LAID_OUT: lambda: run(
                LAID_OUT, generate_text_cached, laid_out, on_token=heard
            ),
            LOADED: lambda: run(LOADED, generate_text_cached, loaded),
            THEIRS: lambda: run(THEIRS, _generate, theirs),
        }
        rounds = dict.fromkeys(functions, ROUNDS[count])
        rounds[PLAIN] = {10: 3, 100: 1, 300: 1, 1000: 1}[count]
        seconds = interleaved(functions, rounds)
        same = all(
            torch.equal(outputs[PLAIN], outputs[name])
            for name in (CACHED, LAID_OUT)
        ) and torch.equal(outputs[LOADED], outputs[THEIRS])
        bound = count * read_seconds(models.matrices(laid_out))
        yield from _rows(count, seconds, bound, same)
        if count == 1000:
            yield _growth(moments, count)


def _loaded(theirs):
    """Our model with the weights that Hugging Face saves, as views."""
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        return load_gpt2(Path(folder) / "model.safetensors")


def _generate(theirs, prompt, count, size):
    return theirs.generate(prompt, max_new_tokens=count, do_sample=False)


def _rows(count, seconds, bound, same):
    name = f"generation, {count} tokens"
    for what, shortest in best(seconds).items():
        yield Row(name, what, shortest, "s")
    yield Row(name, "bound: the weights' bytes, only read", bound, "s")
    yield Row(name, "same IDs (1: yes)", same, "", "≥ 1")
    yield Row(name, "plain / cached", ratio(seconds, PLAIN, CACHED), "×")
    for ours in (CACHED, LAID_OUT, LOADED):
        aim = "" if ours == CACHED else "≥ 1.15"
        times = ratio(seconds, THEIRS, ours)
        yield Row(name, f"Hugging Face / {ours}", times, "×", aim)
    share = bound / best(seconds)[LAID_OUT]
    aim = "≥ 0.5" if count == 100 else ""
    yield Row(name, f"bound / {LAID_OUT}", share, "×", aim)


def _growth(moments, count):
    """Time of the last tokens against that of the 10th, in each run."""
    found = []
    for start in range(0, len(moments), count):
        run = moments[start : start + count]
        steps = [b - a for a, b in zip(run, run[1:], strict=False)]
        tenth, last = steps[4:14], steps[-10:]
        found.append(statistics.median(last) / statistics.median(tenth))
    name = f"generation, {count} tokens"
    return Row(name, "1000th / 10th token", min(found), "×", "≤ 1.4")


def read_seconds(tensors, rounds=10):
    """Seconds to read as many bytes once, by the fastest of three ways.

    Which of them is fastest differs between processors, and a bound must not
    be one that a matrix-vector product could beat.
    """
    count = sum(tensor.numel() for tensor in tensors)
    block = torch.rand(count // 768, 768)
    flat, tall = block.view(-1), block.view(768, -1)
    row, long_row = torch.rand(768), torch.rand(tall.shape[1])
    ways = {
        "sum": flat.sum,
        "row by row": lambda: block @ row,
        "long rows": lambda: tall @ long_row,
    }
    return min(best(interleaved(ways, rounds)).values())
