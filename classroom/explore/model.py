"""Explorer 06: a sentence on its way through a small model."""

import functools

import torch

from classroom import plots
from classroom.explore.explorer import Explorer, slider, switch, text
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
PARTS = [
    ("token embedding", "embedding"),
    ("+ position embedding", "embedding"),
    ("dropout (off)", "dropout"),
    *((f"block {n}", None) for n in range(1, SMALL["n_layers"] + 1)),
    ("final norm", "norm"),
    ("output head", "head"),
]
WITHOUT = [
    ("final norm (off)", None) if name == "final norm" else (name, kind)
    for name, kind in PARTS
]


def explore_model():
    """Step a sentence through a small model: shape and size at each stop."""

    return Explorer(
        _draw,
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


@styled
def model_step(parts, shapes, sizes, step):
    """`plots.part_sizes` up to part number `step`, from 1, which is marked.

    `shapes` are of each part's output, `sizes` its standard deviations.
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
    bars, numbers = plots.draw_parts(axes, parts, sizes[:step], unit, room)
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


def _draw(sentence, step, norm):
    shapes, sizes = zip(*stops(sentence, norm), strict=True)
    return model_step(PARTS if norm else WITHOUT, shapes, sizes, step)
