"""One pass without gradients, and one training step."""

import torch
from torch.nn import functional as F

from benchmarks import models
from benchmarks.report import Row
from benchmarks.timing import best, interleaved, ratio


@torch.no_grad()
def measure(quick=False):
    """Rows for 1 × 1024 and 8 × 256 tokens through 124M."""
    model, theirs = models.ours(), models.hugging_face()
    for batch, tokens in ((1, 1024), (8, 256)):
        ids = torch.randint(0, 50257, (batch, tokens))
        flops = _flops(model, batch, tokens)
        side = round((flops / 2) ** (1 / 3))
        square = torch.rand(side, side)
        functions = {
            "GPTModel": lambda ids=ids: model(ids),
            "Hugging Face": lambda ids=ids: theirs(ids, use_cache=False),
            "matmul": lambda square=square: square @ square,
        }
        seconds = interleaved(functions, 3 if quick else 7)
        yield from _rows(f"forward, {batch} × {tokens}", seconds, 1.1, 0.75)


def measure_training(quick=False):
    """Rows for forward and backward of 4 × 256 tokens in a small model."""
    cfg = models.SMALL | {"qkv_bias": True}
    model, theirs = models.ours(cfg), models.hugging_face(cfg)
    ids = torch.randint(0, cfg["vocab_size"], (4, 257))

    def step(model, logits_of):
        model.train().zero_grad()
        logits = logits_of(ids[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()

    functions = {
        "GPTModel": lambda: step(model, model),
        "Hugging Face": lambda: step(
            theirs, lambda ids: theirs(ids, use_cache=False).logits
        ),
    }
    seconds = interleaved(functions, 5 if quick else 20)
    yield from _rows("training step, 4 × 256", seconds, 1.0)


def _rows(name, seconds, times, share=None):
    for what, shortest in best(seconds).items():
        yield Row(name, what, shortest, "s")
    found = ratio(seconds, "Hugging Face", "GPTModel")
    yield Row(name, "Hugging Face / GPTModel", found, "×", f"≥ {times}")
    if share is not None:
        found = ratio(seconds, "matmul", "GPTModel")
        yield Row(name, "matmul / GPTModel", found, "×", f"≥ {share}")


def _flops(model, batch, tokens):
    """Multiplications and additions of the products with weights, and of
    attention's two: each token with itself and the earlier ones."""
    weights = sum(matrix.numel() for matrix in models.matrices(model))
    blocks, width = len(model.trf_blocks), model.pos_emb.embedding_dim
    attention = 2 * blocks * width * (tokens + 1) / 2
    return 2 * batch * tokens * (weights + attention)
