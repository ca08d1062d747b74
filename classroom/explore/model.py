"""Explorer 06: a sentence on its way through a small model."""

import functools
import math

import torch

from classroom import plots
from classroom.explore.explorer import Explorer, slider, switch, text
from classroom.explore.own import (
    attempt,
    difference,
    mark_bars,
    unlike,
    walk,
)
from classroom.explore.tokens import one_thread, read_tokens
from classroom.picture import Picture, digits, styled
from gptlib.config import SMALLEST
from gptlib.model import GPTModel

SMALL = SMALLEST | {
    "context_length": 16,
    "emb_dim": 24,  # as in the notebook's TINY; 64 takes 16 MB more
    "n_heads": 3,
    "n_layers": 4,
}
BLOCKS = [f"block {n}" for n in range(1, SMALL["n_layers"] + 1)]
PARTS = [
    ("token embedding", "embedding"),
    ("+ position embedding", "embedding"),
    ("dropout (off)", "dropout"),
    *((name, None) for name in BLOCKS),
    ("final norm", "norm"),
    ("output head", "head"),
]
NAMES = ["tok_emb", "sum", "drop_emb", *BLOCKS, "final_norm", "out_head"]
WITHOUT = [
    ("final norm (off)", None) if name == "final norm" else (name, kind)
    for name, kind in PARTS
]


def explore_model(model=None):
    """Step a sentence through a small model: shape and size at each stop.

    Args:
        model: your own class, such as `MyGPTModel`, made from the same
            configuration and seed. Its sizes are marked at the bars.
    """
    own = functools.lru_cache(maxsize=8)(functools.partial(own_stops, model))
    return Explorer(
        functools.partial(_draw, own),
        {
            "step": slider("step (part)", 1, 1, len(PARTS)),
            "sentence": text("sentence", "Every effort moves you"),
            "norm": switch("final norm", True),
        },
    )


@functools.lru_cache(maxsize=8)
@one_thread()
def stops(sentence, norm=True):
    """Shape and standard deviation of the output of each of PARTS.

    Without `norm`, the final norm hands on what it gets.

    Raises:
        ValueError: the sentence is empty or too long.
    """
    ids = torch.tensor([read_tokens(sentence, SMALL["context_length"])])
    with torch.no_grad():
        outputs = list(_walk(_small_model(), ids, norm))
    return [(tuple(x.shape), x.std().item()) for x in outputs]


def own_stops(model, sentence, norm=True):
    """The learner's model at each of PARTS.

    Returns:
        standard deviations (nan for a part that is not called), or None; and
        words on where it first differs.
    """
    ids = torch.tensor([read_tokens(sentence, SMALL["context_length"])])
    outputs, words = attempt(model, _own_outputs, ids, norm)
    if outputs is None:
        return None, words
    with torch.no_grad():
        right = list(_walk(_small_model(), ids, norm))
    sizes = [math.nan if x is None else x.std().item() for x in outputs]
    return sizes, _first_difference(outputs, right)


@styled
def model_step(parts, shapes, sizes, step, own=None):
    """`plots.part_sizes` up to part number `step`, from 1, which is marked.

    `shapes` are of each part's output, `sizes` its standard deviations, and
    `own` those of the learner's model.
    """
    now, (name, _) = step - 1, parts[step - 1]
    shape, size = ", ".join(map(str, shapes[now])), digits(sizes[now])
    change = "" if now == 0 else f", before it {digits(sizes[now - 1])}"
    description = (
        f"Part {step} of {len(parts)}, {name}: its output has shape "
        f"({shape}) and standard deviation {size}{change}."
    )
    if any("(off)" in label for label, kind in parts if kind is None):
        description += " The final norm is off."
    height = 0.9 + 0.3 * len(parts)
    picture = Picture(7, height, description, (2.5, 0.15, 0.75, 0.1))
    axes = picture.subplots()
    unit, room = "standard deviation of the output", 1.75 * max(sizes)
    if own is not None:  # up to three times as large has room
        most = 3 * max(sizes)
        room = 1.75 * max(size for size in [*sizes, *own] if size <= most)
    bars, numbers = plots.draw_parts(axes, parts, sizes[:step], unit, room)
    if own is not None:
        own = [math.inf if size > most else size for size in own[:step]]
        mark_bars(axes, own, numbers)
        axes.set_xlabel(f"{unit}; triangle: yours")
    bars[now].set_linewidth(3)
    numbers[now].set(text=f"{size}  ← ({shape})", weight="bold")
    axes.get_yticklabels()[now].set_weight("bold")
    return picture


@functools.cache
def _small_model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        return GPTModel(SMALL).eval()


def _walk(model, ids, norm):
    x = model.tok_emb(ids)
    yield x
    x = x + model.pos_emb(torch.arange(ids.shape[1]))
    yield x
    last = model.final_norm if norm else torch.nn.Identity()
    for part in (model.drop_emb, *model.trf_blocks, last):
        x = part(x)
        yield x
    yield model.out_head(x)


@torch.no_grad()
def _own_outputs(model, ids, norm):
    """The outputs of PARTS, None for one that is not called."""
    torch.manual_seed(123)
    own = model(SMALL).eval()
    if not norm:
        own.final_norm = torch.nn.Identity()
    seen = walk(own, ids)
    return [seen.get(name) for name in NAMES]


def _first_difference(outputs, right):
    names = zip(NAMES, outputs, strict=True)
    missing = [name for name, own in names if own is None and name != "sum"]
    skipped = f" Yours does not call {', '.join(missing)}." if missing else ""
    for n, (own, wanted) in enumerate(zip(outputs, right, strict=True)):
        where = f" First difference, part {n + 1}, {PARTS[n][0]}: yours"
        if own is None:
            continue
        wrong = unlike(own, wanted.shape)
        if wrong:
            return f"{skipped}{where} is unlike it: {wrong}."
        words = difference(own, wanted, _place)
        if words.startswith("differs"):
            return f"{skipped}{where} {words}."
    return skipped or f" Yours agrees at all {len(right)} parts."


def _place(at):
    return f"at token {at[1] + 1}, feature {at[2] + 1}"


def _draw(own, sentence, step, norm):
    shapes, sizes = zip(*stops(sentence, norm), strict=True)
    marks, words = own(sentence, norm)
    parts = PARTS if norm else WITHOUT
    picture = model_step(parts, shapes, sizes, step, marks)
    picture.description += words
    return picture
