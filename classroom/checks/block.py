"""Checks of notebook 05: the transformer block and two relatives.

The verdict compares a block with a composition of the block's own parts; the
diagnosis puts stand-ins in their place, whose compositions all differ, and
looks the output up among what known mistakes would give.
"""

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from classroom.checks.guard import exercise
from classroom.checks.probes import (
    construct,
    difference,
    expect_tensor,
    number,
    same,
)
from classroom.checks.result import Mistake
from gptlib.attention import MultiHeadAttention
from gptlib.config import GPT_CONFIG_124M
from gptlib.feed_forward import FeedForward

# All sizes differ, so that a mixed-up one shows.
SIZES = GPT_CONFIG_124M | {
    "vocab_size": 31,
    "context_length": 9,
    "emb_dim": 12,
    "n_heads": 3,
    "n_layers": 2,
}
PARTS = {
    "norm1": "norm",
    "att": "attention",
    "norm2": "norm",
    "ff": "feed-forward",
}


class Task(NamedTuple):
    """What is asked for: how the block is built, and how a half works."""

    call: str
    half: str  # a name in HALVES
    configure: Callable  # (rate of attention, rate of shortcuts) → cfg


# --- what a half of the block can look like: x, its norm n, its layer f ---

HALVES = [
    ("pre-norm", lambda x, n, f: x + f(n(x))),
    ("post-norm", lambda x, n, f: n(x + f(x))),
    ("norm-missing", lambda x, n, f: x + f(x)),
    ("shortcut-from-normalized", lambda x, n, f: n(x) + f(n(x))),
    ("shortcut-missing", lambda x, n, f: f(n(x))),
    ("shortcut-missing", lambda x, n, f: f(x)),
    ("shortcut-missing", lambda x, n, f: n(f(x))),
    ("shortcut-missing", lambda x, n, f: n(f(n(x)))),
    ("overwritten-input", lambda x, n, f: f(n(x)) + f(n(x))),
    ("overwritten-input", lambda x, n, f: f(x) + f(x)),
    ("overwritten-input", lambda x, n, f: n(f(x) + f(x))),
    ("sub-layer-missing", lambda x, n, f: x),
    ("sub-layer-missing", lambda x, n, f: n(x)),
    ("sub-layer-missing", lambda x, n, f: x + n(x)),
    ("sub-layer-missing", lambda x, n, f: n(x + x)),
    ("norm-after-sub-layer", lambda x, n, f: x + n(f(x))),
    ("norm-on-shortcut", lambda x, n, f: n(x) + f(x)),
    ("norm-before-and-after", lambda x, n, f: n(x + f(n(x)))),
    ("norm-before-and-after", lambda x, n, f: x + n(f(n(x)))),
    ("norm-before-and-after", lambda x, n, f: n(n(x) + f(n(x)))),
    ("norm-twice", lambda x, n, f: x + f(n(n(x)))),
    ("norm-twice", lambda x, n, f: n(n(x + f(x)))),
    ("sub-layer-twice", lambda x, n, f: x + f(f(n(x)))),
    ("sub-layer-twice", lambda x, n, f: x + f(n(f(n(x))))),
    ("sub-layer-twice", lambda x, n, f: n(x + f(f(x)))),
    ("sub-layer-twice", lambda x, n, f: x + f(n(x)) + f(n(x))),
    ("sub-layer-twice", lambda x, n, f: (y := x + f(n(x))) + f(n(y))),
    ("sub-layer-twice", lambda x, n, f: n((y := n(x + f(x))) + f(y))),
    ("input-added-twice", lambda x, n, f: x + x + f(n(x))),
    ("input-added-twice", lambda x, n, f: n(x + x + f(x))),
    ("subtracted", lambda x, n, f: x - f(n(x))),
    ("subtracted", lambda x, n, f: f(n(x)) - x),
    ("subtracted", lambda x, n, f: n(x - f(x))),
    ("subtracted", lambda x, n, f: n(f(x) - x)),
    ("multiplied", lambda x, n, f: x * f(n(x))),
    ("multiplied", lambda x, n, f: n(x * f(x))),
    ("averaged", lambda x, n, f: (x + f(n(x))) / 2),
    ("averaged", lambda x, n, f: (x + f(n(x))) / 2**0.5),
]

# Which norm and which sub-layer the two halves use.
ORDERS = [
    (None, ("norm1", "att", "norm2", "ff")),
    ("one-norm", ("norm1", "att", "norm1", "ff")),
    ("one-norm", ("norm2", "att", "norm2", "ff")),
    ("norms-swapped", ("norm2", "att", "norm1", "ff")),
    ("sub-layers-swapped", ("norm1", "ff", "norm2", "att")),
    ("sub-layers-swapped", ("norm2", "ff", "norm1", "att")),
    ("sub-layers-swapped", ("norm1", "ff", "norm1", "att")),
    ("attention-twice", ("norm1", "att", "norm2", "att")),
    ("feed-forward-twice", ("norm1", "ff", "norm2", "ff")),
]


def wholes(half, x, n1, a, n2, f):
    """Mistakes that concern the block as a whole: (name, output) pairs."""
    h = half(x, n1, a)
    branch, reads, normed = a(n1(x)), n2(h), n1(x)
    if half is dict(HALVES)["post-norm"]:
        branch, both = a(x), x + a(x) + f(x)
        yield "parallel-sub-layers", n2(both)
        yield "parallel-sub-layers", n1(both)
        yield "parallel-sub-layers", n2(n1(both))
        yield "parallel-sub-layers", n1(x + a(x)) + n2(x + f(x))
        yield "parallel-sub-layers", n2(h + f(x))
        for start in (x, h + x, branch, normed):
            yield "shortcut-from-wrong-place", n2(start + f(h))
        yield "shortcut-around-both", n2(x + f(a(x)))
        yield "shortcut-around-both", n2(x + f(n1(a(x))))
        yield "feed-forward-reads-branch", n2(h + f(a(x)))
        return
    yield "norm-at-the-end", n2(half(h, n1, f))
    yield "norm-at-the-end", n1(half(h, n2, f))
    yield "parallel-sub-layers", h + f(n2(x))
    yield "parallel-sub-layers", h + f(n1(x))
    yield "parallel-sub-layers", x + h + f(n2(x))
    yield "parallel-sub-layers", a(n1(x)) + f(n2(x))
    yield "parallel-sub-layers", h + f(n2(n1(x)))
    for start in (x, h + x, branch, normed, h + branch, h + normed):
        yield "shortcut-from-wrong-place", start + f(reads)
    yield "shortcut-around-both", x + f(n2(branch))
    yield "shortcut-around-both", x + f(branch)
    yield "feed-forward-reads-branch", h + f(n2(branch))
    yield "feed-forward-reads-branch", h + f(branch)


def stand_in(shift, slope, offset):
    """A function of a tensor that commutes with none of the others."""
    return lambda x: torch.sin(slope * x.roll(shift, -1) + offset)


STAND_INS = {
    "norm1": stand_in(1, 0.9, 0.3),
    "att": stand_in(2, 0.7, -0.4),
    "norm2": stand_in(3, 0.8, 0.5),
    "ff": stand_in(5, 0.6, 0.2),
}


def replace(block, functions):
    """Let the named parts compute these functions instead of their own."""
    for name, function in functions.items():

        def forward(x=None, *args, function=function, **options):
            x = next(iter(options.values())) if x is None else x
            result = function(x)
            return (result, None) if options.get("return_weights") else result

        getattr(block, name).forward = forward


# --- what is said about each mistake -------------------------------------

SAYS = {
    "pre-norm": "{where} normalizes before the sub-layer, as GPT-2 does. "
    "This exercise asks for the older order: the norm comes last, after the "
    "addition.",
    "post-norm": "{where} normalizes after the addition (post-norm), so the "
    "shortcut path passes through a norm. GPT-2 is pre-norm: only the branch "
    "is normalized, before its sub-layer.",
    "norm-missing": "{where} works without its norm. Follow the solid arrows "
    "in the picture of the block: what stands before the sub-layer?",
    "shortcut-from-normalized": "{where} adds the branch to the normalized "
    "vectors; the shortcut carries the vectors as they came in. Look at "
    "which name holds what when you add.",
    "shortcut-missing": "{where} returns its branch alone: the sub-layer "
    "replaces the vectors and should correct them. What does the dashed "
    "arrow in the picture of the block do?",
    "overwritten-input": "{where} adds the branch to itself: the input has "
    "been overwritten before the addition. Keep it under a name of its own.",
    "sub-layer-missing": "{where} has no effect of its sub-layer in the "
    "output. Is it called, and is its result kept?",
    "norm-after-sub-layer": "{where} normalizes the result of its sub-layer "
    "before adding it. Compare the order of norm and sub-layer with the task.",
    "norm-on-shortcut": "{where} normalizes what the shortcut carries and "
    "gives the sub-layer the raw vectors: it is the other way round.",
    "norm-before-and-after": "{where} normalizes twice, before the sub-layer "
    "and after it; once is asked for.",
    "norm-at-the-end": "A norm works on the result of the second half, so "
    "that the shortcut path passes through it. Which norm stands where?",
    "norm-twice": "{where} applies its norm twice in a row.",
    "sub-layer-twice": "{where} applies its sub-layer twice.",
    "input-added-twice": "{where} adds its input twice. Count the additions.",
    "subtracted": "{where} subtracts; the branch is added to the input.",
    "multiplied": "{where} multiplies; the branch is added to the input.",
    "averaged": "{where} divides the sum; a shortcut adds and does no more.",
    "one-norm": "Both halves use one and the same norm. They learn different "
    "numbers, so each needs a norm of its own.",
    "norms-swapped": "The first half uses norm2 and the second norm1. The "
    "names say which is which, and saved weights rely on them.",
    "sub-layers-swapped": "The feed-forward network works before attention. "
    "First gather, then process.",
    "attention-twice": "Both halves use attention, and feed-forward is never "
    "used.",
    "feed-forward-twice": "Both halves use the feed-forward network, and "
    "attention is never used.",
    "parallel-sub-layers": "Feed-forward reads the block's input, so the "
    "sub-layers work side by side. The second half works on the result of "
    "the first.",
    "shortcut-from-wrong-place": "The second shortcut starts at the wrong "
    "place. It carries what the first half returned, that and nothing else.",
    "shortcut-around-both": "A single shortcut spans both sub-layers. Each "
    "half has one of its own.",
    "feed-forward-reads-branch": "The second half reads attention's branch "
    "alone; it should read the sum that the first half ends with.",
    "dropout-missing": "With a drop rate of 1.0 in training mode, {where} "
    "still adds its sub-layer's result. Where does dropout act?",
    "dropout-after-addition": "With a drop rate of 1.0 in training mode, the "
    "shortcut's vectors are zeroed too: dropout acts after the addition. It "
    "belongs to the branch only.",
    "dropout-before-sub-layer": "With a drop rate of 1.0 in training mode, "
    "the sub-layer works on zeros and its result is added: dropout acts "
    "before the sub-layer in {where}, and should act on its result.",
    "dropout-on-shortcut": "With a drop rate of 1.0 in training mode, the "
    "shortcut of {where} is zeroed and the branch is kept: it is the other "
    "way round.",
    "dropout-before-and-after": "Besides the dropout at the end of the "
    "branch, there is one before the sub-layer in {where}: at a rate of 0.5 "
    "in training mode, the sub-layer does not get 1.0 everywhere from a norm "
    "that returns 1.0.",
    "dropout-on-input": "Dropout acts once, on the block's input. It belongs "
    "to the end of each branch.",
}
HALF_NAMES = {
    "shortcut-missing": ("first-{}", "second-{}", "shortcuts-missing"),
    "dropout-missing": ("first-{}", "second-{}", "{}"),
    "sub-layer-missing": (
        "attention-missing",
        "feed-forward-missing",
        "sub-layers-missing",
    ),
}
WHERES = (
    "the first half (attention)",
    "the second half (feed-forward)",
    "each half",
)


def mistake(name, half, evidence):
    """`half` is 0 or 1 for the first or second, 2 for both."""
    says = SAYS[name].format(where=WHERES[half])
    name = HALF_NAMES.get(name, ["{}"] * 3)[half].format(name)
    says = f"{says[0].upper()}{says[1:]} {evidence}"
    return Mistake(name, says.strip())


def faulty_half(names, right):
    """The first wrong name of two, and which half it is in (2: both)."""
    wrong = [i for i in (0, 1) if names[i] != right]
    half = 2 if len(wrong) == 2 and names[0] == names[1] else wrong[0]
    return names[wrong[0]], half


# --- the composition of the parts ----------------------------------------


def composed(block, task, x):
    """What the block should give in evaluation mode, from its own parts."""
    half = dict(HALVES)[task.half]
    return half(half(x, block.norm1, block.att), block.norm2, block.ff)


def run(block, x, needs_same=True):
    """The output, with the parts' gradients off and the input unharmed."""
    given = x.clone()
    with torch.no_grad():
        output = block(given)
    expect_tensor(output, x.shape, "The block's output")
    if needs_same and not torch.equal(given, x):
        raise Mistake(
            "in-place-addition",
            "Your block changes the tensor that it is given: input [0, 0, 0] "
            f"was {number(x[0, 0, 0])} and is {number(given[0, 0, 0])} "
            "afterwards. `+=` writes into a tensor; make a new one.",
        )
    return output


def check_composition(block, task):
    """Does the output agree with the parts, put together rightly?"""
    for shape, spread in [((2, 5, 12), 3), ((1, 9, 12), 1), ((3, 1, 12), 0.3)]:
        x = spread * torch.randn(shape) + 0.5
        with torch.no_grad():
            expected = composed(block, task, x)
        output = run(block, x)
        if not same(output, expected):
            raise why_composed(block, task, difference(output, expected))


def why_composed(block, task, evidence):
    """The mistake in how the parts are put together, as a `Mistake`."""
    called = calls(block)
    replace(block, STAND_INS)
    x = torch.randn(1, 2, 12)
    output = run(block, x)
    for name, half, expected in candidates(task, x):
        if torch.allclose(output, expected, 1e-4, 1e-5):
            return mistake(name, half, evidence)
    unused = [name for name in PARTS if name not in called]
    if unused:
        return Mistake(
            "part-unused",
            f"`forward` never calls {', '.join(unused)}. {evidence}",
        )
    return Mistake(
        "wrong-values",
        f"The output is not what your parts give in this order. {evidence} "
        "Write down each half by itself: norm, sub-layer, add.",
    )


def candidates(task, x):
    """(name, half, output) of what may be wrong, single mistakes first."""
    right = next(pair for pair in HALVES if pair[0] == task.half)
    for name, output in wholes(right[1], x, *STAND_INS.values()):
        yield name, 2, output
    for order, parts in ORDERS[1:]:
        yield order, 2, stacked(right, right, parts, x)
    pairs = [pair for pair in product(HALVES, HALVES) if pair != (right,) * 2]
    alike = [(one, two) for one, two in pairs if one[0] == two[0]]
    single = [pair for pair in pairs if right in pair] + alike
    for _, parts in ORDERS:
        yield from wrong_halves(single, task, parts, x)
    yield from wrong_halves(pairs, task, ORDERS[0][1], x)


def wrong_halves(pairs, task, parts, x):
    for one, two in pairs:
        name, half = faulty_half((one[0], two[0]), task.half)
        yield name, half, stacked(one, two, parts, x)


def stacked(one, two, parts, x):
    """The output of two halves that are made of these stand-ins."""
    n1, a, n2, f = (STAND_INS[part] for part in parts)
    return two[1](one[1](x, n1, a), n2, f)


def calls(block):
    """Names of the parts that one run of the block calls."""
    called = set()
    hooks = [
        getattr(block, name).register_forward_hook(
            lambda *_, name=name: called.add(name)
        )
        for name in PARTS
    ]
    run(block, torch.randn(2, 5, 12), needs_same=False)
    for hook in hooks:
        hook.remove()
    return called


# --- the parts -----------------------------------------------------------


def build(answer, task, attention=0.0, shortcut=0.0, **changes):
    """The learner's block with random parameters, its parts all there."""
    cfg = task.configure(attention, shortcut) | changes
    given = dict(cfg)
    try:
        block = construct(answer, given, call=task.call)
    except KeyError as error:
        raise key_mistake(error) from error
    if given != cfg:
        raise Mistake(
            "config-changed",
            "Your block changes the configuration that it is given: its keys "
            f"are now {', '.join(map(str, given))}. Others use it too, so "
            "leave it as it was.",
        )
    check_parts(block)
    return block


def key_mistake(error):
    """A wrong key as a `Mistake`; else the error itself."""
    if error.args == ("drop_rate",):
        return Mistake(
            "old-key",
            "Your block asks for cfg['drop_rate'], which this configuration "
            "does not have: its rates are drop_rate_emb, drop_rate_attn and "
            "drop_rate_shortcut.",
        )
    if "has unknown" in str(error):
        return Mistake(
            "unknown-keys-handed-on",
            "A part of gptlib was given the configuration with the separate "
            f"rates and refuses it: {str(error)[:90]}… Hand it a "
            "configuration of the seven keys that it knows.",
        )
    return error


def randomize(module):
    """Parameters that are all different, so that an unused one shows."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module


def check_parts(block):
    """The four parts with parameters exist, apart from each other."""
    missing = [
        name
        for name in PARTS
        if not isinstance(getattr(block, name, None), nn.Module)
    ]
    if missing:
        raise missing_mistake(block, missing)
    ids = [
        {id(p) for p in getattr(block, part).parameters()} for part in PARTS
    ]
    count = sum(p.numel() for p in block.parameters())
    if block.norm1 is block.norm2 or ids[0] & ids[2]:
        raise Mistake(
            "one-norm",
            f"{SAYS['one-norm']} Your block has {count} parameters at width "
            "12; expected 24 more.",
        )
    extra = {id(p) for p in block.parameters()} - set().union(*ids)
    if extra:
        raise Mistake(
            "extra-parameters",
            f"Besides norm1, att, norm2 and ff, your block has {len(extra)} "
            "more parameter tensors. Which module do they belong to, and is "
            "it asked for?",
        )


def missing_mistake(block, missing):
    """Parts are absent, or have other names than the notes give them."""
    others = {
        name: child
        for name, child in block.named_children()
        if name not in PARTS and next(child.parameters(), None) is not None
    }
    norms = [n for n in others if "norm" in type(others[n]).__name__.lower()]
    norms += [n for n in ("norm1", "norm2") if n not in missing]
    if {"norm1", "norm2"} & set(missing) and len(norms) == 1:
        return Mistake(
            "one-norm",
            f"{SAYS['one-norm']} Yours is called {norms[0]}; expected norm1 "
            "and norm2.",
        )
    if others:
        return Mistake(
            "wrong-name",
            f"The block has no {' and no '.join(missing)}; it has "
            f"{', '.join(others)}. The notes fix the names, because saved "
            "weights are found by them.",
        )
    return Mistake(
        f"{PARTS[missing[0]]}-missing",
        f"The block has no module called {' and none called '.join(missing)}. "
        "Its parts are att, ff, norm1, norm2 and drop_shortcut: is each "
        "assigned to self in __init__?",
    )


def check_handed_on(answer, task):
    """The sizes and switches of the configuration reach the parts."""
    block = build(answer, task).eval()
    length = getattr(getattr(block.att, "mask", None), "shape", [9])[-1]
    if length != 9:
        raise Mistake(
            "context-length-not-handed-on",
            f"Attention's mask is made for {length} tokens, but "
            "cfg['context_length'] is 9.",
        )
    with_bias = build(answer, task, qkv_bias=True)
    for each, bias in [(block, False), (with_bias, True)]:
        check_bias(each.att, bias)
    randomize(block)
    check_norms(block)
    check_heads(block.att)
    check_feed_forward(block.ff)


def check_bias(att, bias):
    seen = sum(p.numel() for p in att.parameters())
    expected = 4 * 12 * 12 + 12 + 36 * bias
    if seen == expected:
        return
    if seen == expected + 36 * (-1 if bias else 1):
        raise Mistake(
            "qkv-bias-not-handed-on",
            f"With qkv_bias={bias}, attention has {seen} parameters at width "
            f"12; expected {expected}: three biases of 12 numbers make the "
            "difference.",
        )
    raise Mistake(
        "attention-wrong",
        f"Attention has {seen} parameters at width 12 (qkv_bias={bias}); "
        f"expected {expected}. Is it MultiHeadAttention, from emb_dim to "
        "emb_dim?",
    )


def check_norms(block):
    """Each norm is a layer norm, with a scale and a shift of its own."""
    x = 3 * torch.randn(2, 5, 12) + 2
    for name in ("norm1", "norm2"):
        norm = getattr(block, name)
        own = [p for p in norm.parameters() if p.shape == (12,)]
        if len(own) == 2:
            with torch.no_grad():
                expected = F.layer_norm(x, (12,), own[0], own[1])
                other = F.layer_norm(x, (12,), own[1], own[0])
                seen = norm(x)
            if same(seen, expected, 1e-3) or same(seen, other, 1e-3):
                continue
        raise Mistake(
            "norm-wrong",
            f"{name} is no layer norm: it has "
            f"{sum(p.numel() for p in norm.parameters())} parameters "
            "(expected 24: a scale and a shift of 12), or gives other values. "
            "checks.layer_norm tells you more.",
        )


def loaded(part, reference):
    """The reference with the part's parameters, or None if names differ."""
    own = {name: p.detach() for name, p in part.named_parameters()}
    shapes = {name: p.shape for name, p in reference.named_parameters()}
    if {name: p.shape for name, p in own.items()} != shapes:
        return None
    reference.load_state_dict(own, strict=False)
    return reference.eval()


@torch.no_grad()
def check_heads(att):
    """Attention works with the configuration's number of heads."""
    x = torch.randn(2, 5, 12)
    output = att(x)
    for heads in (3, 1, 2, 4, 6, 12):
        reference = loaded(att, MultiHeadAttention(12, 12, 9, 0.0, heads))
        if reference is None:
            return  # an attention module with parameters of other names
        if not same(output, reference(x)):
            continue
        if heads == 3:
            return
        raise Mistake(
            "n-heads-not-handed-on",
            f"Attention gives what {heads} head(s) would give; cfg['n_heads'] "
            "is 3. Which entry reaches num_heads?",
        )
    raise Mistake(
        "attention-wrong",
        "Your block's `att` gives other values than MultiHeadAttention with "
        "the same weights. checks.multi_head_attention tells you more.",
    )


@torch.no_grad()
def check_feed_forward(ff):
    x = torch.randn(2, 5, 12)
    reference = loaded(ff, FeedForward(SIZES))
    seen = sum(p.numel() for p in ff.parameters())
    # The exact GELU differs by less than this: another exercise's matter.
    right = reference is None or same(ff(x), reference(x), atol=5e-3)
    if not right or seen != 1212:
        raise Mistake(
            "feed-forward-wrong",
            f"Your block's `ff` has {seen} parameters at width 12 (expected "
            "1212), or gives other values than FeedForward with the same "
            "weights. checks.feed_forward tells you more.",
        )


# --- gradients -----------------------------------------------------------


def check_gradients(block, task):
    """Gradients reach the input and every parameter."""
    start = torch.randn(2, 5, 12, requires_grad=True)
    weights = torch.randn(2, 5, 12)
    composed(block, task, start * 1).mul(weights).sum().backward()
    expected, start.grad = start.grad, None
    block.zero_grad(set_to_none=True)
    try:
        block(start * 1).mul(weights).sum().backward()
    except RuntimeError as error:
        raise gradient_mistake(error) from error
    without = [name for name, p in block.named_parameters() if p.grad is None]
    if start.grad is None or without or not same(start.grad, expected, 1e-3):
        raise Mistake(
            "gradient-cut",
            "The output is right, but the gradient does not come back as it "
            f"should; parameters without one: {', '.join(without) or 'none'}. "
            "Look for no_grad, detach or .data.",
        )


def gradient_mistake(error):
    if "inplace" in str(error):
        return Mistake(
            "in-place-addition",
            "The output is right, but backward fails: `+=` writes into a "
            "tensor that the norm still needs for its gradient. Make a new "
            "tensor with `x = x + …`.",
        )
    if "does not require grad" in str(error):
        return Mistake(
            "gradient-cut",
            "The output carries no gradient, so the block can't be trained. "
            "Look for no_grad, detach or .data.",
        )
    return error


# --- dropout -------------------------------------------------------------


def check_dropout(answer, task):
    """Dropout acts on the branches, in training, with the given rate."""
    check_rate(build(answer, task, 0.3, 0.3), 0.3, 0.3)
    check_quiet(build(answer, task, 0.5, 0.5).eval(), task, "dropout-in-eval")
    name = "drop-rate-not-handed-on"
    check_quiet(build(answer, task), task, name)
    check_all_dropped(build(answer, task, 1.0, 1.0), task)
    for half, part in enumerate(("att", "ff")):
        check_share(build(answer, task, 0.5, 0.5), part, half)


def attention_rates(block):
    """The drop rates in attention, as far as they can be read."""
    kinds = (nn.Dropout, nn.MultiheadAttention)
    found = [m for m in block.att.modules() if isinstance(m, kinds)]
    return {getattr(m, "p", getattr(m, "dropout", None)) for m in found}


def check_rate(block, attention, shortcut):
    """The modules hold the rates that the configuration gives them."""
    seen = attention_rates(block)
    if seen - {attention}:
        raise rate_mistake("attention", seen, attention)
    if not seen and not drops_weights(block.att):
        raise rate_mistake("attention", {0.0}, attention)
    drop = getattr(block, "drop_shortcut", None)
    if isinstance(drop, nn.Dropout) and drop.p != shortcut:
        raise rate_mistake("drop_shortcut", {drop.p}, shortcut)


@torch.no_grad()
def drops_weights(att):
    """Whether two training runs differ, in a module of another make."""
    x = torch.randn(4, 9, 12)
    return not same(att.train()(x), att(x))


def rate_mistake(where, seen, expected):
    rates = ", ".join(number(rate) for rate in seen)
    return Mistake(
        "drop-rate-not-handed-on",
        f"The drop rate in {where} is {rates}; the configuration says "
        f"{expected}. Look at what {where} is built with.",
    )


def check_quiet(block, task, name):
    """Without dropout at work, the output is the composition's."""
    randomize(block)
    x = torch.randn(2, 5, 12)
    with torch.no_grad():
        expected = composed(block, task, x)
    output = run(block, x)
    if same(output, expected):
        return
    says = {
        "dropout-in-eval": "In evaluation mode the output is still dropped "
        "from: dropout must stop after .eval(). nn.Dropout knows the mode; "
        "F.dropout has to be told.",
        "drop-rate-not-handed-on": "With drop rates of 0.0 in training mode, "
        "values are still dropped. Where does your rate come from?",
    }
    raise Mistake(name, f"{says[name]} {difference(output, expected)}")


def zeroed_halves(right):
    """A half whose dropout zeroes all, in the right place and in others."""
    if right == "pre-norm":
        return [
            ("right", lambda x, n, f: x),
            ("dropout-missing", lambda x, n, f: x + f(n(x))),
            ("dropout-after-addition", lambda x, n, f: 0 * x),
            ("dropout-before-sub-layer", lambda x, n, f: x + f(0 * x)),
            ("dropout-before-sub-layer", lambda x, n, f: x + f(n(0 * x))),
            ("dropout-on-shortcut", lambda x, n, f: f(n(x))),
        ]
    return [
        ("right", lambda x, n, f: n(x)),
        ("dropout-missing", lambda x, n, f: n(x + f(x))),
        ("dropout-after-addition", lambda x, n, f: n(0 * x)),
        ("dropout-after-addition", lambda x, n, f: 0 * x),
        ("dropout-before-sub-layer", lambda x, n, f: n(x + f(0 * x))),
        ("dropout-on-shortcut", lambda x, n, f: n(f(x))),
    ]


def check_all_dropped(block, task):
    """With a rate of 1.0, each half adds nothing to its shortcut."""
    replace(block, STAND_INS)
    x = torch.randn(2, 5, 12)
    output = run(block, x)
    n1, a, n2, f = STAND_INS.values()
    halves = zeroed_halves(task.half)
    (_, half), (_, undropped) = halves[:2]
    expected = half(half(x, n1, a), n2, f)
    if same(output, expected):
        return
    evidence = difference(output, expected)
    for (one, first), (two, second) in product(halves, halves):
        if same(output, second(first(x, n1, a), n2, f)):
            name, which = faulty_half((one, two), "right")
            raise mistake(name, which, evidence)
    if same(output, undropped(undropped(0 * x, n1, a), n2, f)):
        raise mistake("dropout-on-input", 2, evidence)
    raise Mistake(
        "dropout-wrong",
        "With a drop rate of 1.0 in training mode, both branches should be "
        f"zero and nothing else. {evidence}",
    )


def check_share(block, part, half):
    """At a rate of 0.5, half of a branch is dropped, the rest doubled."""
    read = []
    parts = dict.fromkeys(PARTS, torch.zeros_like)
    parts |= dict.fromkeys(("norm1", "norm2"), torch.clone)

    def ones(x):
        read.append(x)
        return torch.ones_like(x)

    replace(block, parts | {part: ones})
    x = torch.ones(16, 9, 12)
    output = run(block, x) - x
    if not all(same(each, x) for each in read):
        raise mistake("dropout-before-and-after", half, "")
    kept = output != 0
    share, value = kept.float().mean().item(), output[kept].mean().item()
    seen = (
        f"At a drop rate of 0.5 in training mode, {number(100 * share)} % of "
        f"the branch in {WHERES[half]} is kept (expected about 50 %)"
    )
    if (kept == kept[..., :1]).all():
        raise Mistake("dropout-whole-tokens", f"{seen}, whole tokens at once.")
    if abs(share - 0.25) < 0.06:
        raise Mistake("dropout-twice", f"{seen}: dropout acts there twice.")
    if abs(share - 0.5) > 0.06:
        raise Mistake("wrong-drop-share", f"{seen}. Which rate is used?")
    if abs(value - 2) > 1e-3:
        raise Mistake(
            "dropout-not-scaled",
            f"{seen}, and a 1 becomes {number(value)}; expected 2, so that "
            "the mean stays the same.",
        )


# --- the exercises -------------------------------------------------------


def check_block(answer, task):
    """All that the three exercises have in common; a remark as praise."""
    block = randomize(build(answer, task).eval())
    check_composition(block, task)
    check_handed_on(answer, task)
    check_dropout(answer, task)
    check_gradients(randomize(build(answer, task)), task)
    if not isinstance(getattr(block, "drop_shortcut", None), nn.Module):
        return (
            " One remark: the notes call the dropout module drop_shortcut, "
            "and your block has no such attribute."
        )
    if not hasattr(block.norm1, "scale") and hasattr(block.norm1, "weight"):
        return (
            " One remark: your norms call their parameters weight and bias; "
            "the notes call them scale and shift."
        )
    return ""


def one_rate(attention, shortcut):
    return SIZES | {"drop_rate": shortcut}


@exercise(
    "Follow the dashed arrows in the picture of the block: two additions, "
    "and nothing else on that path.",
    "Each half is: norm, sub-layer, dropout, add. The second half works on "
    "what the first returned.",
    "The symbols are h = x + dropout(attention(norm₁(x))) and out = h + "
    "dropout(feedforward(norm₂(h))). Write one line of `forward` for each; "
    "both rates come from cfg['drop_rate'].",
)
def transformer_block(cls):
    """Order of the parts, shortcuts, dropout's place, what is handed on."""
    task = Task("MyTransformerBlock(cfg)", "pre-norm", one_rate)
    remark = check_block(cls, task)
    return (
        "your block is a pre-norm block. On three inputs of up to 9 tokens "
        "the output is what its parts give in GPT-2's order; a drop rate of "
        "1.0 leaves the input as it is, 0.5 drops half of each branch, and "
        f"gradients reach every parameter.{remark}"
    )


@exercise(
    "The parts are those of TransformerBlock, so only `forward` is new. "
    "Compare the two columns of the pre-norm and post-norm picture.",
    "The order in each half is: sub-layer, dropout, add, norm. Nothing is "
    "normalized before the sub-layer.",
    "A half in words: the norm of (x plus the dropped result of the "
    "sub-layer of x). The second half starts from what the first one's norm "
    "returned.",
)
def post_norm(cls):
    """As `transformer_block`, in the order of the first transformer."""
    task = Task("MyPostNormBlock(cfg)", "post-norm", one_rate)
    remark = check_block(cls, task)
    return (
        "your block is a post-norm block. On three inputs of up to 9 tokens "
        "the norm comes last in each half, dropout acts on the branches "
        f"only, and gradients reach every parameter.{remark}"
    )


def separate_rates(attention, shortcut, embedding=0.15):
    rest = {k: v for k, v in SIZES.items() if k != "drop_rate"}
    return rest | {
        "drop_rate_emb": embedding,
        "drop_rate_attn": attention,
        "drop_rate_shortcut": shortcut,
    }


@exercise(
    "Two parts of the block take a rate. Which key belongs to which?",
    "FeedForward refuses unknown keys and uses no rate. Build a dictionary "
    "of the seven keys for it, with any drop_rate.",
    "For FeedForward: {key: … for key in GPT_CONFIG_124M}, where cfg.get "
    "helps with the one that is missing. Attention gets "
    "cfg['drop_rate_attn'] as its dropout; the rest is TransformerBlock.",
)
def drop_rates(cls):
    """As `transformer_block`, with a rate each for attention, shortcuts."""
    task = Task("MyDropRatesBlock(cfg)", "pre-norm", separate_rates)
    block = randomize(build(cls, task).eval())
    check_composition(block, task)
    check_separate(cls, task)
    remark = check_block(cls, task)
    check_apart(cls, task)
    return (
        "attention drops with drop_rate_attn and the branches with "
        "drop_rate_shortcut, each alone: a shortcut rate of 1.0 leaves the "
        f"input as it is, whatever attention's rate is.{remark}"
    )


def check_separate(answer, task):
    """Each rate reaches its own place and no other."""
    block = build(answer, task, 0.3, 0.6)
    attention = attention_rates(block)
    drop = getattr(block, "drop_shortcut", None)
    shortcut = {drop.p} if isinstance(drop, nn.Dropout) else set()
    seen = (
        "With drop_rate_attn=0.3, drop_rate_shortcut=0.6 and "
        "drop_rate_emb=0.15, attention drops with "
        f"{', '.join(map(number, attention)) or 'an unknown rate'} and "
        f"drop_shortcut with {', '.join(map(number, shortcut)) or 'none'}."
    )
    if attention == {0.6} and shortcut == {0.3}:
        raise Mistake("rates-swapped", f"{seen} The two are exchanged.")
    if attention == shortcut and attention <= {0.3, 0.6}:
        raise Mistake("one-rate-for-both", f"{seen} Both use one rate.")
    if 0.15 in attention | shortcut:
        raise Mistake(
            "embedding-rate-used",
            f"{seen} The embeddings' rate belongs to the model.",
        )
    if attention - {0.3}:
        raise Mistake("attention-rate-wrong", f"{seen} Expected 0.3 and 0.6.")
    if shortcut - {0.6}:
        raise Mistake("shortcut-rate-wrong", f"{seen} Expected 0.3 and 0.6.")


def check_apart(answer, task):
    """The rates by what they do, where no module holds them."""
    x = torch.randn(2, 5, 12)
    block = randomize(build(answer, task, 0.0, 1.0))
    if not same(run(block, x), x):
        raise Mistake(
            "shortcut-rate-wrong",
            "With drop_rate_shortcut=1.0 in training mode, the block does "
            f"not return its input. {difference(run(block, x), x)}",
        )
    if not same(block.att(x), block.att(x)):
        raise Mistake(
            "attention-rate-wrong",
            "With drop_rate_attn=0.0, two training runs of attention differ.",
        )
