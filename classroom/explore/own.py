"""The learner's own part beside the reference: how it is run and told of."""

import copy
import math

import torch
from matplotlib.patheffects import withStroke

from classroom.checks import advice, stubs
from classroom.checks.surroundings import restored
from classroom.checks.tensors import farthest, same, told_apart
from classroom.picture import digits

# In every picture: a dotted black line, or a white triangle, is "yours".
CASING = [withStroke(linewidth=5, foreground="white")]
LINE = {"color": "black", "ls": ":", "lw": 3, "zorder": 4, "label": "yours"}
LINE |= {"path_effects": CASING}
MARK = {"color": "black", "ls": "", "marker": "v", "ms": 10, "mfc": "white"}
MARK |= {"mew": 2, "zorder": 4, "label": "yours", "clip_on": False}
UNWRITTEN = " Yours is not written yet."


def attempt(part, use, *args):
    """Let `use` try a learner's part, on copies of the arguments.

    Torch's and Python's state is afterwards as before.

    Args:
        part: the learner's class or function; None if there is none.
        use: (part, *args) → what it gives.

    Returns:
        what it gives, and ""; or None, and a sentence on why.
    """
    if part is None:
        return None, ""
    if stubs.is_stub(part):
        return None, UNWRITTEN
    try:
        with restored(), torch.set_grad_enabled(torch.is_grad_enabled()):
            given = use(part, *copy.deepcopy(args))
    except Exception as error:  # the reference is still to be drawn
        if stubs.why_unwritten(error):
            return None, UNWRITTEN
        why = advice.explained(error)
        end = "" if why[-1] in ".?!" else "."
        return None, f" Yours is not drawn. {why}{end}"
    if given is None:
        return None, " Yours returns None: does it end in a return?"
    return given, ""


def compared(part, use, *args, reference, place, atol=1e-5, what="Yours"):
    """`attempt`, and the tensor that it gives held against the reference.

    Args:
        place: index of a number → words that say where it stands.
        atol: differences up to this are rounding, whatever the size.
        what: begins the sentence.

    Returns:
        the learner's tensor, or None if it has no place in the picture; and
        a sentence on what differs.
    """
    own, words = attempt(part, use, *args)
    if own is None:
        return None, words
    wrong = unlike(own, reference.shape)
    if wrong:
        return None, f" {what} is not drawn: {wrong}."
    own = own.detach()
    return own, f" {what} {difference(own, reference, place, atol)}."


def made(part, *args):
    """A new object of the learner's class; a function stays what it is."""
    return part(*args) if isinstance(part, type) else part


def unlike(own, shape):
    """What is wrong if `own` is no tensor of this shape, or nothing."""
    if not isinstance(own, torch.Tensor):
        return f"it is of type {type(own).__name__}, not a tensor"
    if own.shape != shape:
        return f"its shape is {tuple(own.shape)}, not {tuple(shape)}"
    return ""


def difference(own, reference, place, atol=1e-5):
    """How far two tensors of one shape are apart, and where, in words."""
    gap = (own.double() - reference.double()).abs().max().item()
    if same(own, reference, atol=atol, equal_nan=True):
        return f"agrees {f'to {gap:.0e}' if gap > 0 else 'exactly'}"
    at = farthest(own, reference)
    given, wanted = told_apart(own[at], reference[at])
    size = f" by up to {digits(gap)}, most" if math.isfinite(gap) else ""
    return f"differs{size} {place(at)}: {given}, not {wanted}"


def mark_bars(axes, values, labels):
    """A triangle where the learner's horizontal bars would end.

    A bar's label makes room for it; what is beyond the axis is marked at its
    end.
    """
    end = axes.get_xlim()[1]
    for y, (value, label) in enumerate(zip(values, labels, strict=True)):
        if math.isnan(value):
            continue
        axes.plot(min(value, end), y, **MARK)
        if value < end:
            label.xy = max(value, label.xy[0]), y
            label.xyann = 9, 0


def walk(model, ids):
    """What a GPT's parts give, by their names, on the way of some token IDs.

    "sum" is what its dropout gets. A part that is not called is missing, and
    the logits are what the model returns.
    """
    blocks = {f"block {n}": b for n, b in enumerate(model.trf_blocks, 1)}
    parts = {"tok_emb": model.tok_emb, "pos_emb": model.pos_emb}
    parts |= {"drop_emb": model.drop_emb} | blocks
    parts["final_norm"] = model.final_norm
    seen = {}

    def note(name, part, args, output):
        if part is model.drop_emb:
            seen.setdefault("sum", args[0].clone())
        seen.setdefault(name, output.clone())

    for name, part in parts.items():
        part.register_forward_hook(lambda *call, name=name: note(name, *call))
    return seen | {"out_head": model(ids)}
