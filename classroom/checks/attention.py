"""Is a learner's multi-head attention right?"""

import inspect
import itertools
import math
import re
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from classroom.checks.guard import exercise
from classroom.checks.probes import expect_tensor, number, same
from classroom.checks.result import Mistake

# No two of these sizes, nor of their square roots, are equal, and head_dim
# is not 4 (where half and square root agree): a wrong one shows.
MAIN = {"d_in": 10, "d_out": 15, "context_length": 8, "num_heads": 3}
OTHER = {"d_in": 7, "d_out": 12, "context_length": 13, "num_heads": 2}
TOKENS = 6


@exercise(
    "Follow the shapes: (batch, tokens, d_in) → queries, keys, values → "
    "heads → scores (batch, heads, tokens, tokens) → weights → context → "
    "(batch, tokens, d_out). Write the shape behind each line.",
    "Split with a view to (batch, tokens, heads, head_dim), then swap the "
    "two middle axes; undo both at the end. Between them: scores, scaled by "
    "the head's size; mask cropped to the tokens; softmax over the keys; "
    "dropout on the weights.",
    "`scores = queries @ keys.transpose(2, 3)`, divided by the root of "
    "`keys.shape[-1]`; hide `self.mask[:tokens, :tokens]` with minus "
    "infinity before the softmax over `dim=-1`.",
)
def multi_head_attention(cls):
    """Values against a reference with the learner's own parameters (several
    heads, not square, short and full sequences), causality, dropout in
    both modes, biases, and a mask that follows the module."""
    torch.set_num_threads(1)  # tiny tensors: waiting would cost more
    _check_signature(cls)
    verified = _check_values(cls, MAIN, TOKENS)
    _check_values(cls, OTHER, OTHER["context_length"], qkv_bias=True)
    _check_biases(cls)
    share = _check_dropout(cls)
    _check_mask_follows(cls)
    sentence = (
        f"{verified} In training with dropout 0.25, {share:.0%} of the "
        "attention weights fell out; in evaluation, none."
    )
    return f"{sentence}{_remark(cls)}"


# --- building and running ------------------------------------------------


def _check_signature(cls):
    try:
        signature = inspect.signature(cls)
    except (TypeError, ValueError):
        return
    sizes = {**MAIN, "dropout": 0.0}
    try:
        signature.bind(**sizes, qkv_bias=False)
    except TypeError as error:
        raise Mistake(
            "wrong-signature",
            f"Your class takes {signature}, and called as the exercise says "
            f"it answers: {error}. Expected: (d_in, d_out, context_length, "
            "dropout, num_heads, qkv_bias=False).",
        ) from None
    try:
        signature.bind(**sizes)
    except TypeError:
        raise Mistake(
            "qkv-bias-default",
            "Your class cannot be built without qkv_bias; it should be "
            "False where it is not given.",
        ) from None


def _build(cls, sizes, dropout=0.0, **more):
    """The learner's module with parameters that hide nothing: large enough
    to tell scalings apart, biases not zero."""
    module = cls(**sizes, dropout=dropout, **more)
    if not isinstance(module, nn.Module):
        raise Mistake(
            "not-a-module",
            f"Your class makes a {type(module).__name__}; expected an "
            "nn.Module, so that its parameters can be found and trained.",
        )
    _check_no_parameter_mask(module, sizes["context_length"])
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.is_floating_point():
                parameter.normal_(0, 0.5)
    return module


def _check_no_parameter_mask(module, length):
    for name, parameter in module.named_parameters():
        if tuple(parameter.shape[-2:]) == (length, length):
            raise Mistake(
                "mask-is-parameter",
                f"{name} is an nn.Parameter of {length} × {length} numbers, "
                "so it counts as a parameter (1,048,576 of them at a context "
                "of 1,024). A mask is not trained: register it as a buffer.",
            )


def _text(sizes, tokens, batch=2):
    return torch.randn(batch, tokens, sizes["d_in"])


def _output(module, x, d_out):
    """What the module makes of `x`, if it has the form asked for."""
    given = x.clone()
    output = module(x)
    if isinstance(output, tuple | list) and len(output):
        raise Mistake(
            "returns-weights",
            f"forward returns a {type(output).__name__} of {len(output)}; "
            "expected the context vectors alone: a block adds them to its "
            "input.",
        )
    _check_shape(output, x, d_out)
    if not torch.equal(given, x):
        raise Mistake(
            "input-overwritten",
            "Your forward changes the tensor that it was given, and a "
            "block still needs it for its shortcut. Look for an operation "
            "in place (`+=`, or a name that ends in `_`).",
        )
    return output


def _check_shape(output, x, d_out):
    shape = tuple(getattr(output, "shape", ()))
    batch, tokens, d_in = x.shape
    if shape == (batch, tokens, d_in):
        raise Mistake(
            "d-in-not-d-out",
            f"An input of {tuple(x.shape)} gave an output of {shape}; "
            f"expected {(batch, tokens, d_out)}: d_out={d_out} features, not "
            f"d_in={d_in}.",
        )
    if len(shape) == 4 and math.prod(shape) == batch * tokens * d_out:
        raise Mistake(
            "heads-not-merged",
            f"The output has shape {shape}: the heads are still apart. "
            f"Expected {(batch, tokens, d_out)}, side by side again.",
        )
    expect_tensor(output, (batch, tokens, d_out))


# --- exceptions that tell a known mistake --------------------------------

# Name → sizes, tokens and batch with one coincidence each, and the words
# for a module that runs only there.
RESCUES = {
    "mask-not-cropped": (
        {},
        MAIN["context_length"],
        2,
        "With context_length=8 your module reads 8 tokens, but not 6. The "
        "text may be shorter than the context: look at the mask's size.",
    ),
    "d-in-not-d-out": (
        {"d_in": MAIN["d_out"]},
        TOKENS,
        2,
        "Your module runs with d_in = d_out = 15 but not with d_in=10, "
        "d_out=15. Which layer or size takes one for the other?",
    ),
    "heads-split-by-view": (
        {},
        MAIN["num_heads"],
        2,
        "With 3 heads your module reads 3 tokens, but not 6: heads stand "
        "where tokens should. Between the `view` to (batch, tokens, heads, "
        "head_dim) and the scores, two axes have to change places.",
    ),
    "keys-not-transposed": (
        {},
        MAIN["d_out"] // MAIN["num_heads"],
        2,
        "With heads of 5 features your module reads 5 tokens, but not 6. "
        "Which two axes of the keys change places before `queries @ keys`?",
    ),
    "batch-of-one-only": (
        {},
        TOKENS,
        1,
        "Your module reads a batch of 1 but not a batch of 2. Look at the "
        "shape that you give to `view` or `reshape`.",
    ),
}
# Widths that 3 heads do not divide, or that divide 3: a class that refuses
# 15 and takes one of these asks the wrong way round.
INDIVISIBLE = {
    13: "3 divides the first and not the second",
    3: "3 divides both: which number must divide which",
}


def _first_run(cls, sizes, tokens, **more):
    """Module and output; an exception is looked into."""
    x = _text(sizes, tokens)
    try:
        module = _build(cls, sizes, dropout=0.5, **more).eval()
        return module, x, _output(module, x, sizes["d_out"])
    except (Mistake, NotImplementedError):
        raise
    except Exception as error:
        if sizes == MAIN:
            _look_into(error, cls)
            raise
        _only_main(sizes, tokens, f"it stops: {error}")


def _only_main(sizes, tokens, seen):
    spelled = ", ".join(f"{name}={size}" for name, size in sizes.items())
    raise Mistake(
        "fails-at-other-sizes",
        f"Your module is right with 3 heads of 5 features on 6 tokens, but "
        f"with {spelled} on {tokens} tokens {seen} Is a size written as a "
        "number, or taken for another?",
    ) from None


def _look_into(error, cls):
    if "view size is not compatible" in str(error):
        raise Mistake(
            "view-after-transpose",
            "`view` cannot join axes after `transpose`: the numbers no "
            "longer lie in that order in memory. Make them contiguous first, "
            "or use a relative of `view` that copies where it must.",
        ) from None
    what = f"{type(error).__name__}: {error}".split("\n")[0]
    if not _builds(cls, MAIN):
        _look_into_division(cls)
    for name, (changed, tokens, batch, words) in RESCUES.items():
        sizes = MAIN | changed
        if _runs(cls, sizes, _text(sizes, tokens, batch)):
            raise Mistake(name, f"{words} (It stopped with {what})") from None


def _look_into_division(cls):
    for width, why in INDIVISIBLE.items():
        if _builds(cls, MAIN | {"d_out": width}):
            raise Mistake(
                "divisibility-wrong",
                f"With 3 heads, your class refuses d_out=15 and accepts "
                f"d_out={width}; {why}. Look at the test.",
            ) from None


def _builds(cls, sizes):
    try:
        cls(**sizes, dropout=0.0)
    except Exception:
        return False
    return True


def _runs(cls, sizes, x):
    try:
        cls(**sizes, dropout=0.0).eval()(x)
    except Exception:
        return False
    return True


# --- the learner's parameters --------------------------------------------


@dataclass
class _Parts:
    """One reading of a module: which of its parameters play which role.

    Attributes:
        project: x → its queries, keys and values, (batch, tokens, d_out).
        out: context vectors → output.
        has_out: whether there is an output projection at all.
        complete: whether these are all of the module's parameters.
    """

    project: Any
    out: Any
    has_out: bool
    complete: bool


def _parts(module, sizes):
    """Every reading of the module's parameters that makes sense, the most
    likely one first: by the notes' names, by telling names, one fused
    layer; else by shape."""
    outs, out_names = _outs(module, sizes)
    readings = [
        *_by_attribute(module, sizes),
        *_by_name(module, sizes),
        *_fused(module, sizes),
    ] or list(_by_shape(module, sizes))
    everything = {name for name, _ in module.named_parameters()}
    parts = [
        _Parts(project, out, bool(out_names), everything <= names | out_names)
        for project, names in readings
        for out in outs
    ]
    return [part for part in parts if _usable(part.project, sizes["d_in"])]


def _usable(layer, width):
    """Whether what the module calls so can be called so."""
    try:
        with torch.no_grad():
            layer(torch.zeros(1, 1, width))
    except Exception:
        return False
    return True


def _by_attribute(module, sizes):
    names = ["W_query", "W_key", "W_value"]
    layers = [getattr(module, name, None) for name in names]
    if any(layer is None for layer in layers):
        return
    used = {n for n, _ in module.named_parameters() if n.startswith("W_")}
    calls = [partial(_call, layer, sizes["d_in"]) for layer in layers]
    yield lambda x: [call(x) for call in calls], used


def _call(layer, width, x):
    """A layer, a matrix either way up, or a list of heads' layers."""
    if isinstance(layer, nn.ModuleList | list | tuple):
        return torch.cat([_call(part, width, x) for part in layer], dim=-1)
    if isinstance(layer, torch.Tensor):
        return x @ (layer if len(layer) == width else layer.mT)
    return layer(x)


ROLES = {
    "q": r"q|quer(y|ies)",
    "k": r"k|keys?",
    "v": r"v|val(ue)?s?",
    "out": r"o|out|output|proj|projection",
}


def _role(name):
    """Which of q, k, v, out a parameter's name speaks of, or None."""
    words = re.split(r"[._\d]+", name.lower())
    words = [
        word[1:] if len(word) > 1 and word[0] == "w" else word
        for word in words
    ]
    for role, pattern in ROLES.items():
        if any(re.fullmatch(pattern, word) for word in words):
            return role
    return None


def _by_name(module, sizes):
    found = {role: [] for role in "qkv"}
    for name, parameter in module.named_parameters():
        if _role(name) in found:
            found[_role(name)].append((name, parameter))
    matrices = [_matrix(found[role], sizes["d_in"]) for role in "qkv"]
    if any(matrix is None for matrix, _ in matrices):
        return
    names = {name for role in found.values() for name, _ in role}
    yield partial(_multiplied, matrices), names


def _by_shape(module, sizes):
    """Three layers without telling names, in whatever order."""
    shape = {sizes["d_in"], sizes["d_out"]}
    named = dict(module.named_parameters())
    layers = [[n] for n, p in named.items() if set(p.shape) == shape]
    if len(layers) != 3:
        return
    for layer in layers:
        bias = layer[0].removesuffix("weight") + "bias"
        layer.extend([bias] if bias in named else [])
    matrices = [
        _matrix([(n, named[n]) for n in layer], sizes["d_in"])
        for layer in layers
    ]
    names = set().union(*layers)
    for order in itertools.permutations(matrices):
        yield partial(_multiplied, order), names


def _multiplied(matrices, x):
    return [x @ weight + bias for weight, bias in matrices]


def _matrix(named, width):
    """The parts of one role, heads side by side: (d_in, …) and a bias."""
    weights, biases = [], [torch.zeros(())]
    for _, parameter in named:
        if parameter.dim() == 2 and width in parameter.shape:
            upright = len(parameter) == width
            weights.append(parameter if upright else parameter.mT)
        elif parameter.dim() == 3 and parameter.shape[1] == width:
            weights.append(parameter.transpose(0, 1).flatten(1))
        elif parameter.shape[-1:] != (width,):
            biases.append(parameter.flatten())
    if not weights:
        return None, None
    bias = torch.cat(biases[1:]) if biases[1:] else biases[0]
    weight = torch.cat(weights, dim=1)
    return (
        (weight, bias)
        if bias.numel() in (1, weight.shape[1])
        else (None, None)
    )


def _fused(module, sizes):
    """One layer for all three: cut in three, or in heads and then three, in
    whatever order."""
    d_in, d_out, heads = sizes["d_in"], sizes["d_out"], sizes["num_heads"]
    named = [
        (name, p)
        for name, p in module.named_parameters()
        if p.numel() in (3 * d_in * d_out, 3 * d_out) and 3 * d_out in p.shape
    ]
    weight, bias = _matrix(named, d_in)
    if weight is None:
        return
    names = {name for name, _ in named}
    for order in itertools.permutations(range(3)):
        yield partial(_cut, weight, bias, (3, -1), order), names
        yield partial(_cut, weight, bias, (heads, 3, -1), order), names


def _cut(weight, bias, shape, order, x):
    fused = (x @ weight + bias).unflatten(-1, shape)
    parts = fused.unbind(-2)
    if len(shape) == 3:  # (…, heads, head_dim)
        parts = [part.flatten(-2) for part in parts]
    return [parts[i] for i in order]


def _outs(module, sizes):
    """Ways to read the output projection, and its parameters' names."""
    layer = getattr(module, "out_proj", None)
    named = dict(module.named_parameters())
    if callable(layer):
        return [layer], {n for n in named if n.startswith("out_proj")}
    square = (sizes["d_out"],) * 2
    found = [n for n, p in named.items() if tuple(p.shape) == square]
    found.sort(key=lambda name: _role(name) != "out")
    if not found:
        return [lambda x: x], set()
    weight, stem = named[found[0]], found[0].removesuffix("weight")
    others = [
        n
        for n, p in named.items()
        if tuple(p.shape) == square[:1]
        and (n.startswith(stem) if stem != found[0] else _role(n) == "out")
    ]
    bias = named[others[0]] if others else 0
    ways = [lambda x: x @ weight.mT + bias, lambda x: x @ weight + bias]
    return ways, {found[0], *others[:1]}


# --- values --------------------------------------------------------------


def _check_values(cls, sizes, tokens, **more):
    """Compare with the reference; the sentence that says what was done."""
    module, x, output = _first_run(cls, sizes, tokens, **more)
    _check_evaluation(module, x, output, sizes)
    readings = _parts(module, sizes)
    _check_widths(readings, x, sizes)
    parts = _fitting(readings, x, output, sizes)
    if parts:
        _check_learnable(module, parts, output, sizes)
        return (
            f"With your own parameters, {sizes['num_heads']} heads, "
            f"d_in={sizes['d_in']} and d_out={sizes['d_out']}, the "
            f"output {tuple(output.shape)} equals the reference, and no "
            "token sees a later one."
        )
    _diagnose(cls, module, x, output, readings, sizes)
    return (
        "Your parameters have an arrangement of their own, so the output "
        "could not be compared with a reference; checked by behavior: no "
        "token sees a later one, each row of weights adds up to 1, texts of "
        "a batch stay apart."
    )


def _fitting(readings, x, output, sizes):
    """The reading with which the reference gives this output, or None."""
    for parts in readings:
        if _usable(parts.out, sizes["d_out"]) and same(
            output, _attention(parts, x, sizes)
        ):
            return parts
    return None


def _check_evaluation(module, x, output, sizes):
    again = _output(module, x, output.shape[-1])
    gap = (again - output).abs().max()
    if gap > 1e-6:
        _check_registered(module, sizes)  # else .eval() cannot reach it
        raise Mistake(
            "dropout-in-evaluation",
            f"After .eval(), two runs on the same input differ by "
            f"{number(gap)}; expected 0. Dropout has to know whether the "
            "module is in training.",
        )


def _check_widths(readings, x, sizes):
    """A head of the full width, or projections narrower than d_out."""
    if not readings:
        return
    named = zip(
        ("queries", "keys", "values"), readings[0].project(x), strict=True
    )
    for name, projected in named:
        width = projected.shape[-1]
        if width != sizes["d_out"]:
            raise Mistake(
                "wrong-projection-width",
                f"All heads together have {name} of {width} features; "
                f"expected d_out={sizes['d_out']}, so that each of the "
                f"{sizes['num_heads']} heads gets "
                f"{sizes['d_out'] // sizes['num_heads']}.",
            )


def _check_learnable(module, parts, output, sizes):
    """Right values, but can they be trained?"""
    if not parts.has_out:
        raise Mistake(
            "out-proj-missing",
            "The heads' context vectors come out as they are; expected one "
            "more linear layer, out_proj, that mixes the heads.",
        )
    d_in, d_out = sizes["d_in"], sizes["d_out"]
    expected = 3 * d_in * d_out + d_out * d_out
    count = sum(p.numel() for p in module.parameters() if p.dim() > 1)
    if count < expected:
        layers = [getattr(module, n, None) for n in ("W_query", "W_key")]
        layers.append(getattr(module, "W_value", None))
        shared = len({id(layer) for layer in layers}) < 3
        raise Mistake(
            "shared-projection" if shared else "parameters-not-registered",
            f"The module has weights of {count} numbers; expected {expected}:"
            " queries, keys, values and out_proj learn a matrix each, "
            "and each belongs to the module.",
        )
    _check_gradient(module, output)


def _check_gradient(module, output):
    reached = output.requires_grad
    if reached:
        output.square().sum().backward()
        weights = [p for p in module.parameters() if p.dim() > 1]
        reached = any(p.grad is not None for p in weights)
        query = getattr(getattr(module, "W_query", None), "weight", None)
        if isinstance(query, nn.Parameter):
            reached = query.grad is not None and bool(query.grad.any())
    if not reached:
        raise Mistake(
            "gradient-lost",
            "The values are right, but no gradient reaches the queries' "
            "weights, so they would never learn. Look for no_grad, detach "
            "or .data.",
        )


# --- the reference, and what can go wrong in it --------------------------


def _split(x, heads):
    # (batch, tokens, d_out) → (batch, heads, tokens, head_dim)
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _merge(x):
    return x.transpose(1, 2).flatten(2)


def _above(diagonal, scores):
    """True where a token must not look."""
    return torch.ones_like(scores, dtype=torch.bool).triu(diagonal)


def _up_to(diagonal, scores):
    return torch.ones_like(scores, dtype=torch.bool).tril(diagonal)


def _weigh(scores, hidden):
    return scores.masked_fill(hidden, -torch.inf).softmax(-1)


def _attention(parts, x, sizes, **changes):
    with torch.no_grad():
        named = dict(zip("qkv", parts.project(x), strict=True))
        return _attend(named, parts.out, sizes, **changes)


_hide_later = partial(_above, 1)


def _attend(
    named,
    out,
    sizes,
    roles="qkv",
    heads=None,
    split=None,
    divide=None,
    hide=_hide_later,
    weigh=_weigh,
    after=lambda weights: weights,
    merge=_merge,
    project=lambda out, context: out(context),
):
    """Masked attention; each keyword replaces one step of it."""
    heads = heads or sizes["num_heads"]
    cuts = dict.fromkeys("qkv", _split) | (split or {})
    q, k, v = (
        cuts[part](named[role], heads)
        for part, role in zip("qkv", roles, strict=True)
    )
    scores = q @ k.mT / (divide or q.shape[-1] ** 0.5)
    weights = after(weigh(scores, hide(scores)))
    return project(out, merge(weights @ v))


class _Slip(NamedTuple):
    """A known mistake: its name, words for the learner, changed steps."""

    name: str
    words: str
    changes: dict


def _slips(sizes, tokens):
    return [
        *_scale_slips(sizes, tokens),
        *_mask_slips(),
        *_softmax_slips(sizes),
        *_head_slips(sizes),
        *_role_slips(sizes),
        *_out_slips(),
    ]


def _scale_slips(sizes, tokens):
    d_in, width, heads = sizes["d_in"], sizes["d_out"], sizes["num_heads"]
    size = width // heads
    root = math.sqrt(size)
    seen = {
        "scaled-by-full-width": [
            (math.sqrt(width), f"√{width}, the root of the full width"),
            (width, f"{width}, the full width"),
        ],
        "not-scaled": [(1, "nothing")],
        "scale-root-missing": [(size, f"{size}, the head's size itself")],
        "scale-multiplied": [
            (1 / root, f"1/√{size} (that is, multiplied by √{size})"),
            (1 / size, f"1/{size} (that is, multiplied by {size})"),
        ],
        "scaled-by-input-width": [(math.sqrt(d_in), f"√{d_in}, from d_in")],
        "scaled-by-number-of-heads": [
            (math.sqrt(heads), f"√{heads}, from the number of heads"),
            (heads, f"{heads}, the number of heads"),
        ],
        "scaled-by-tokens": [
            (math.sqrt(tokens), f"√{tokens}, from the number of tokens"),
            (tokens, f"{tokens}, the number of tokens"),
        ],
        "scaled-by-context-length": [
            (math.sqrt(sizes["context_length"]), "the root of the context")
        ],
        "scale-not-a-root": [
            (size / 2, f"{size / 2}, half of the head's size"),
            (size // 2, f"{size // 2}, half of the head's size"),
            (size**2, f"{size}²"),
            (size**1.5, f"{size} to the power of 1.5"),
            (size ** (1 / 3), f"the third root of {size}"),
            (size**0.25, f"the fourth root of {size}"),
        ],
    }
    expected = (
        f"expected √{size} = {number(root)}, the root of one head's size "
        f"({width} features / {heads} heads)"
    )
    return [
        _Slip(
            name,
            f"The scores are divided by {words}; {expected}.",
            {"divide": value},
        )
        for name, cases in seen.items()
        for value, words in cases
    ]


def _mask_slips():
    hide = [
        (
            "mask-missing",
            lambda s: torch.zeros_like(s, dtype=torch.bool),
            "Every token sees all tokens, later ones too; expected: itself "
            "and earlier ones only.",
        ),
        (
            "mask-off-by-one-hides-self",
            partial(_above, 0),
            "The mask hides a token from itself, so the first one has "
            "nothing to look at; expected: only later tokens are hidden. "
            "Look at the mask's diagonal.",
        ),
        (
            "mask-off-by-one-sees-next",
            partial(_above, 2),
            "Each token sees 1 token ahead; expected: 0. Look at the mask's "
            "diagonal.",
        ),
        *(
            (
                "mask-inverted",
                partial(_up_to, diagonal),
                "The mask is the wrong way round: tokens see later ones and "
                "not the earlier ones. Which half of the square has to be "
                "hidden?",
            )
            for diagonal in (0, -1, 1)
        ),
    ]
    return [_Slip(name, words, {"hide": step}) for name, step, words in hide]


FILL_SIGN = (
    "Hidden scores are set to a large positive number, so all weight goes to "
    "later tokens; expected weights of 0 there. Look at the sign."
)


def _filled(value, scores, hidden):
    return scores.masked_fill(hidden, value).softmax(-1)


def _softmax_slips(sizes):
    root = math.sqrt(sizes["d_out"] // sizes["num_heads"])
    after = (
        "The mask falls on the weights after the softmax, so a row no longer "
        "adds up to 1 (the first token's falls below it). Expected: scores "
        "are hidden before the softmax."
    )
    weigh = [
        (
            "mask-after-softmax",
            lambda s, h: s.softmax(-1).masked_fill(h, 0),
            after,
        ),
        (
            "mask-after-softmax",
            lambda s, h: s.softmax(-1).masked_fill(h, -torch.inf),
            after,
        ),
        (
            "mask-after-softmax",
            lambda s, h: s.softmax(-1).masked_fill(h, -1e9),
            after,
        ),
        *(
            (
                "mask-fill-not-infinite",
                partial(_filled, value),
                f"Hidden scores are set to {value}, and e to the power of "
                f"{value} is {number(math.exp(value))}, so later tokens "
                "still get weight; expected weights of exactly 0. What must "
                "a score be for that?",
            )
            for value in (0, 1, -1, -10, -2, -5)
        ),
        *(
            (
                "mask-fill-sign",
                partial(_filled, value),
                FILL_SIGN,
            )
            for value in (torch.inf, 1e9)
        ),
        *(
            (
                "softmax-wrong-axis",
                lambda s, h, fill=fill, axis=axis: s.masked_fill(
                    h, fill
                ).softmax(axis),
                f"The softmax runs over {words}; expected: over the keys, "
                "so that each token's weights add up to 1. Look at `dim`.",
            )
            for axis, words in [
                (-2, "the queries (dim=-2)"),
                (1, "the heads (dim=1)"),
                (0, "the batch (dim=0)"),
            ]
            for fill in (-torch.inf, -1e9)
        ),
        *(
            (
                "softmax-missing",
                partial(torch.Tensor.masked_fill, value=fill),
                "Scores are used as weights without a softmax, so a row does "
                "not add up to 1.",
            )
            for fill in (0, -torch.inf, -1e9)
        ),
        *(
            (
                "mask-added-as-numbers",
                lambda s, h, step=step: (s + step(h)).softmax(-1),
                "The mask's zeros and ones are added to the scores, which "
                "moves them by 1 at most, so later tokens still get weight; "
                "expected weights of exactly 0.",
            )
            for step in (
                torch.Tensor.float,
                lambda h: -h.float(),
                lambda h: 1 - h.float(),
            )
        ),
        (
            "softmax-twice",
            lambda s, h: _weigh(s, h).softmax(-1),
            "The softmax is taken twice, which flattens the weights and "
            "gives hidden tokens some again; expected: once.",
        ),
    ]
    slips = [_Slip(name, w, {"weigh": step}) for name, step, w in weigh]
    slips.append(
        _Slip(
            "scaled-after-softmax",
            f"The weights are divided by {number(root)} after the softmax, so"
            f" a row adds up to {number(1 / root)}, not 1; expected: the "
            "scores are divided before it.",
            {"divide": 1, "after": lambda weights: weights / root},
        )
    )
    slips.append(
        _Slip(
            "weights-transposed",
            "The weights are turned round before they meet the values: "
            "tokens gather from those that look at them.",
            {"after": lambda weights: weights.mT},
        )
    )
    return slips


def _view_alone(x, heads):
    batch, tokens, width = x.shape
    return x.reshape(batch, heads, tokens, width // heads)


def _untransposed(x, heads):
    return x.unflatten(-1, (heads, -1))  # attention among a token's heads


def _merge_untransposed(x):
    return x.flatten(2)


def _merge_by_turning(x):
    return x.transpose(1, 2).reshape(*x.shape[:2], -1)


def _interleaved(x, heads):
    return x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)


def _merge_interleaved(x):
    return x.permute(0, 2, 3, 1).flatten(2)


def _merge_by_view(x):
    batch, heads, tokens, size = x.shape
    return x.reshape(batch, tokens, heads * size)


def _merge_turned(axes, x):
    batch, _, tokens, _ = x.shape
    return x.transpose(*axes).reshape(batch, tokens, -1)


def _head_slips(sizes):
    heads = sizes["num_heads"]
    size = sizes["d_out"] // heads
    view = (
        "The heads are cut out of (batch, tokens, d_out) by shape alone, so "
        "a head mixes features of several tokens. Each head should hold a "
        f"share of {size} features of every token: which axes change "
        "places?"
    )
    layout = (
        f"A head takes every {heads}th feature; expected {size} that lie "
        "side by side, as in (heads, head_dim)."
    )
    swapped = (
        f"There are {size} heads of {heads} features; expected {heads} heads "
        f"of {size}. Look at the order of the last two numbers of the view."
    )
    one = (
        f"The output is that of 1 head of {sizes['d_out']} features; "
        f"expected num_heads={heads} heads of {size}, each with weights of "
        "its own."
    )
    some = [c for n in (3, 2, 1) for c in itertools.combinations("qkv", n)]
    return [
        *(
            _Slip(
                "heads-split-by-view",
                view,
                {"split": dict.fromkeys(parts, _view_alone)},
            )
            for parts in some
        ),
        *(
            _Slip(
                "heads-split-by-view",
                view,
                {"split": dict.fromkeys("qkv", _untransposed), "merge": merge},
            )
            for merge in (_merge_untransposed, _merge_by_turning)
        ),
        *(
            _Slip(
                "heads-merged-wrong-axes",
                "Before the heads are joined, the wrong axes change places: "
                "from (batch, heads, tokens, head_dim), which order puts a "
                "token's heads side by side?",
                {"merge": partial(_merge_turned, axes)},
            )
            for axes in [(2, 3), (1, 3)]
        ),
        _Slip(
            "heads-merged-by-view",
            "The heads are joined by shape alone: (batch, heads, tokens, "
            "head_dim) is read as (batch, tokens, d_out), which mixes "
            "tokens. Undo the change of axes first.",
            {"merge": _merge_by_view},
        ),
        *(
            _Slip(
                "heads-interleaved",
                layout,
                {"split": dict.fromkeys("qkv", _interleaved), "merge": merge},
            )
            for merge in (_merge, _merge_interleaved)
        ),
        _Slip("heads-interleaved", layout, {"merge": _merge_interleaved}),
        *(
            _Slip(name, words, {"heads": count} | scale)
            for name, words, count in [
                ("heads-and-size-swapped", swapped, size),
                ("one-head-only", one, 1),
            ]
            for scale in ({}, {"divide": math.sqrt(size)})
        ),
    ]


def _role_slips(sizes):
    size = sizes["d_out"] // sizes["num_heads"]
    words = {"q": "queries", "k": "keys", "v": "values"}
    slips = []
    every = itertools.product("vkq", repeat=3)
    fewest_first = sorted(
        every, key=lambda roles: sum(map(str.__ne__, roles, "qkv"))
    )
    for roles in fewest_first[1:]:
        q, k, v = (words[role] for role in roles)
        name = "values-mixed-up" if v != "values" else "queries-keys-mixed-up"
        slips.append(
            _Slip(
                name,
                f"Scores come from your {q} times your {k}, and the weights "
                f"gather your {v}; expected: queries times keys, and the "
                "weights gather values.",
                {"roles": "".join(roles)},
            )
        )
    # Queries that are scaled at the start, and then taken for values.
    slips.append(
        _Slip(
            "values-mixed-up",
            "The weights gather your queries; expected: values.",
            {"roles": "qkq", "after": lambda weights: weights / size**0.5},
        )
    )
    return slips


def _out_slips():
    return [
        _Slip(
            "out-proj-unused",
            "out_proj exists, but the output is the same without it; "
            "expected: the joined heads pass through it last.",
            {"project": lambda out, context: context},
        ),
        _Slip(
            "out-proj-twice",
            "out_proj is applied twice; expected: once, last.",
            {"project": lambda out, context: out(out(context))},
        ),
    ]


# --- diagnosis -----------------------------------------------------------


def _diagnose(cls, module, x, output, readings, sizes):
    """Raise the mistake that explains the output, the likeliest first."""
    if sizes != MAIN and any(parts.complete for parts in readings):
        right = _attention(readings[0], x, sizes)
        _only_main(sizes, x.shape[1], _first_gap(output, right))
    slips = _slips(sizes, x.shape[1])
    # Fused layers can be read in 24 ways: two will do for mistakes.
    readings = [p for p in readings if _usable(p.out, sizes["d_out"])]
    for parts in readings[:2]:
        _match_slips(cls, module, x, output, parts, sizes, slips)
    _check_finite(output)
    _check_behavior(module, x, output)
    _check_registered(module, sizes)
    if any(parts.complete for parts in readings):
        _differs(output, _attention(readings[0], x, sizes))


def _match_slips(cls, module, x, output, parts, sizes, slips):
    with torch.no_grad():
        named = dict(zip("qkv", parts.project(x), strict=True))
    singles = [(slip,) for slip in slips]
    if not parts.complete:
        slips = []  # a guess at a guess
    common = {slip.name: slip for slip in reversed(slips)}.values()
    pairs = [
        pair
        for pair in itertools.combinations(reversed(common), 2)
        if not pair[0].changes.keys() & pair[1].changes.keys()
    ]
    for found in singles + pairs:
        changes = {k: v for slip in found for k, v in slip.changes.items()}
        try:
            with torch.no_grad():
                wrong = _attend(named, parts.out, sizes, **changes)
        except RuntimeError:  # two slips whose shapes do not fit
            continue
        if _agrees(output, wrong):
            right = _attention(parts, x, sizes)
            _raise_slip(cls, module, x, found, output, right, parts)


def _agrees(output, wrong):
    """Whether an output is this wrong one. A row that looks at nothing is
    not a number there and, with -1e9 or in torch's own attention, something
    else in the output: such rows say nothing, unless they are many."""
    known = wrong.isfinite().all(-1)
    if not known.any() or not same(output[known], wrong[known]):
        return False
    few = known.float().mean() > 0.5
    return bool(few) or not output[~known].isfinite().any()


def _raise_slip(cls, module, x, found, output, right, parts):
    name, words = found[0].name, found[0].words
    if not parts.has_out and name == "out-proj-unused" and found[1:]:
        name, words = found[1].name, found[1].words
    if name == "mask-after-softmax" and _infinity_in_softmax(module, x):
        name, words = "mask-fill-sign", FILL_SIGN
    if name == "mask-missing":
        name, words = _which_missing_mask(cls, module)
    elif len(found) > 1:
        words += f" A second slip hides behind it: {found[1].name}."
    raise Mistake(name, f"{words} {_first_gap(output, right)}")


def _infinity_in_softmax(module, x):
    """Minus infinity as a weight, or plus infinity as a score? Where all
    else is positive, the first gives minus infinity, the second nan."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.abs_()
        return bool(module(x.abs()).isnan().any())


def _which_missing_mask(cls, module):
    """No mask at all, or one whose result is thrown away?"""
    seen = (
        "Every token sees all tokens, later ones too; expected: itself "
        "and earlier ones only. "
    )
    used = _names_used(cls)
    empty = any(
        mask.dim() >= 2 and bool((mask == mask.flatten()[0]).all())
        for mask in module.buffers()
    )
    calls = used & {"masked_fill", "where", "mask", "masked_fill_"}
    if not calls or empty or "scaled_dot_product_attention" in used:
        more = (
            "The mask that you keep is the same everywhere."
            if empty
            else "Nothing hides the scores above the diagonal."
        )
        return "mask-missing", seen + more
    return "mask-dropped", (
        f"{seen}Your code speaks of {', '.join(sorted(calls))}, but its "
        "result does not reach the softmax: is it kept, and kept in time?"
    )


def _names_used(cls):
    """Names that the class's methods speak of, the constructor aside."""
    names = set()
    for name, member in vars(cls).items() if isinstance(cls, type) else ():
        code = getattr(getattr(member, "__func__", member), "__code__", None)
        if code is not None and name != "__init__":
            names.update(code.co_names)
    return names


def _first_gap(output, right):
    """Where the output first differs, in numbers."""
    differs = ~torch.isclose(output, right, rtol=1e-4, atol=1e-5)
    if not differs.any():
        return ""
    at = tuple(differs.nonzero()[0].tolist())
    return (
        f"Text {at[0]}, token {at[1]}, feature {at[2]}: your output is "
        f"{number(output[at])}, expected {number(right[at])}."
    )


def _check_finite(output):
    rows = (~output.isfinite()).any(-1).any(0).nonzero().flatten().tolist()
    if rows:
        raise Mistake(
            "not-a-number",
            f"The outputs of tokens {rows} are nan or infinite. A row of "
            "scores that are all minus infinity becomes nan in the softmax: "
            "can every token see at least itself?",
        )


def _differs(output, right):
    raise Mistake(
        "wrong-values",
        f"{_first_gap(output, right)} The expected value comes from your own "
        "W_query, W_key, W_value and out_proj. Compare each step's shape and "
        "numbers with the notebook's steps for one head.",
    )


def _check_registered(module, sizes):
    d_in, d_out = sizes["d_in"], sizes["d_out"]
    count = sum(p.numel() for p in module.parameters() if p.dim() > 1)
    expected = 3 * d_in * d_out + d_out * d_out
    if count == expected - d_out * d_out:
        raise Mistake(
            "out-proj-missing",
            f"The module has weights of {count} numbers; expected {expected}:"
            f" a layer out_proj from {d_out} to {d_out} features is missing.",
        )
    if count < expected:
        raise Mistake(
            "parameters-not-registered",
            f"The module knows weights of {count} numbers; expected "
            f"{expected}. Layers in a plain list, and plain tensors, are not "
            "part of a module, so they would never be trained.",
        )


# --- behavior, whatever the parameters are -------------------------------


def _check_behavior(module, x, output):
    _check_rows_apart(module, x, output)
    moved = _moved(module, x, output)
    later = moved.triu(1).nonzero().tolist()
    if later:
        looks, seen = later[-1]
        raise Mistake(
            "sees-later-tokens",
            f"When token {seen} changes, output {looks} moves; expected: "
            "no output moves that stands before the change. Look at the "
            "mask.",
        )
    unseen = (~moved).tril().nonzero().tolist()
    if unseen:
        looks, seen = unseen[0]
        raise Mistake(
            "blind-to-earlier-tokens",
            f"When token {seen} changes, output {looks} stays; expected: "
            "each output gathers from its own token and all earlier ones.",
        )
    _check_row_sums(module, x)


def _check_rows_apart(module, x, output):
    gap = (_output(module, x[1:], output.shape[-1]) - output[1:]).abs().max()
    if gap > 1e-4:
        raise Mistake(
            "batch-rows-mixed",
            f"The second text's output changes by {number(gap)} when the "
            "first text is left out; expected 0: texts of a batch do not see "
            "each other. Which axis is the batch?",
        )


def _moved(module, x, output):
    """Row: output; column: the token that was replaced."""
    columns = []
    for token in range(x.shape[1]):
        changed = x.clone()
        changed[:, token] = changed[:, token].flip(-1) + 1
        gap = _output(module, changed, output.shape[-1]) - output
        columns.append(gap.abs().amax((0, 2)) > 1e-5)
    return torch.stack(columns, dim=1)


def _check_row_sums(module, x):
    """Equal tokens: whatever the weights, their values' mean is the same,
    if the weights add up to 1."""
    equal = x[:, :1].expand_as(x).contiguous()
    output = module(equal)
    gap = (output - module(equal[:, :1])).abs().max()
    if gap > 1e-4:
        raise Mistake(
            "rows-do-not-sum-to-one",
            f"On a text of {x.shape[1]} equal tokens, outputs differ by "
            f"{number(gap)}; expected 0, since a blend of equal values is "
            "that value. Does each row of weights add up to 1?",
        )


# --- dropout -------------------------------------------------------------


def _check_dropout(cls, rate=0.25, texts=2000):
    """Share of dropped weights. A text of one token has one weight, 1, so
    its context is all zeros or all of value / (1 - rate), and the output
    takes exactly two values."""
    sizes = MAIN | {"num_heads": 1}
    module = _build(cls, sizes, dropout=rate)
    token = _text(sizes, 1, batch=1)
    with torch.no_grad():
        still = module.eval()(token)[0, 0]
        rows = module.train()(token.repeat(texts, 1, 1))[:, 0]
        other = module((token + 1).repeat(200, 1, 1))[:, 0]
    zeros = float((rows == 0).float().mean())
    if zeros > 0.02:
        raise Mistake(
            "dropout-on-output",
            f"In training with dropout {rate}, {zeros:.1%} of the output's "
            "numbers are 0; expected none: dropout falls on the attention "
            "weights. The output's own dropout is the block's.",
        )
    kinds = _kinds(rows)
    if len(kinds) == 1:
        _no_dropout(module, sizes, rate, kinds[0][0], still)
    if len(kinds) > 2:
        raise Mistake(
            "dropout-misplaced",
            f"In training with dropout {rate}, {texts} equal texts of one "
            "token give more than 2 different outputs; expected 2: its "
            "single weight is kept or dropped. Dropout falls on something "
            "else than the weights.",
        )
    return _dropped_share(kinds, other, still, rate)


def _kinds(rows):
    """Different rows (three at most) and their shares."""
    kinds, rest = [], rows
    while len(rest) and len(kinds) < 3:
        near = (rest - rest[0]).abs().amax(-1) < 1e-4
        kinds.append((rest[0], float(near.sum()) / len(rows)))
        rest = rest[~near]
    return kinds


def _no_dropout(module, sizes, rate, row, still):
    x = _text(sizes, TOKENS)
    with torch.no_grad():
        first, second = module(x), module(x)
    if not same(row, still):
        raise Mistake(
            "dropout-rate-wrong",
            f"With dropout {rate}, every weight is dropped in training.",
        )
    if same(first, second):
        raise Mistake(
            "dropout-missing",
            f"In training with dropout {rate}, two runs on the same input "
            "are equal; expected: a share of the attention weights is "
            "dropped.",
        )
    raise Mistake(
        "dropout-before-softmax",
        f"In training with dropout {rate}, the weight of a single token "
        "stays 1: dropout falls on the scores. Expected: on the weights, "
        "after the softmax.",
    )


def _dropped_share(kinds, other, still, rate):
    """The row of a dropped weight is the one that another token has, too."""
    (gone, share), (kept, _) = sorted(
        kinds, key=lambda kind: float((other - kind[0]).abs().sum(-1).min())
    )
    if abs(share - rate) > 0.05:
        raise Mistake(
            "dropout-rate-wrong",
            f"With dropout {rate}, {share:.0%} of the weights are dropped in "
            f"training; expected {rate:.0%}.",
        )
    way = still - gone
    scale = float((kept - gone) @ way / way.square().sum())
    if abs(scale * (1 - rate) - 1) > 1e-2:
        raise Mistake(
            "dropout-not-rescaled",
            f"Weights that are kept are multiplied by {number(scale)}; "
            f"expected 1/(1 - {rate}) = {number(1 / (1 - rate))}.",
        )
    return share


# --- biases --------------------------------------------------------------


def _has_bias(cls, **more):
    """For queries, keys, values and the output: is there a bias? None where
    the parameters cannot be told apart."""
    module = _build(cls, MAIN, **more).eval()
    x = _text(MAIN, TOKENS)
    with torch.no_grad():
        parts = _fitting(_parts(module, MAIN), x, module(x), MAIN)
        if parts is None:
            return None
        zeros = torch.zeros(1, 1, MAIN["d_in"])
        biases = list(parts.project(zeros))
        biases.append(parts.out(torch.zeros(1, 1, MAIN["d_out"])))
    return [bool((bias != 0).any()) for bias in biases]


def _check_biases(cls):
    default, off, on = (
        _has_bias(cls),
        _has_bias(cls, qkv_bias=False),
        _has_bias(cls, qkv_bias=True),
    )
    if None in (default, off, on):
        return
    _check_out_bias(off, on)
    if off[:3] != on[:3] and any(default[:3]) and not any(off[:3]):
        raise Mistake(
            "qkv-bias-default",
            f"Without qkv_bias, {_listed(default)} have a bias; expected "
            "none. Look at the default.",
        )
    if any(off[:3]) and all(on[:3]):
        raise Mistake(
            "qkv-bias-always",
            f"With qkv_bias=False, {_listed(off)} have a bias; expected none.",
        )
    if not all(on[:3]):
        raise Mistake(
            "qkv-bias-inverted" if any(off[:3]) else "qkv-bias-ignored",
            f"With qkv_bias=True, {sum(on[:3])} of the three layers have a "
            f"bias, with False {sum(off[:3])}; expected 3 and 0.",
        )


def _check_out_bias(off, on):
    if not (off[3] and on[3]):
        raise Mistake(
            "out-proj-bias-missing",
            "out_proj maps zeros to zeros, so it has no bias; expected one, "
            f"{MAIN['d_out']} numbers, whatever qkv_bias is.",
        )


def _listed(found):
    names = ["W_query", "W_key", "W_value"]
    return " and ".join(
        name for name, has in zip(names, found, strict=False) if has
    )


# --- the mask follows the module -----------------------------------------


class _Watch(TorchFunctionMode):
    """Sees whether tensors that stay where they are meet others that move.

    Moving a module to another device would show it, too, but not every
    machine has one, and torch's own stand-in ("meta") takes seconds to load.
    """

    def __init__(self, staying):
        self.staying = list(staying)
        self.met = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = _tensors((args, kwargs))
        ours = [t for t in given if any(t is kept for kept in self.staying)]
        if not ours or not isinstance(result, torch.Tensor):
            return result
        if _moves(func, args[1:], kwargs):
            return result.detach()  # on the CPU, it would be the same object
        if len(ours) < len(given):
            self.met = True
        else:
            self.staying.append(result)
        return result


def _tensors(tree):
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _moves(func, args, kwargs):
    """Is this a call such as `mask.to(x.device)`?"""
    targets = torch.Tensor | torch.device | str
    return getattr(func, "__name__", "") in ("to", "type_as", "cuda") and any(
        isinstance(arg, targets) for arg in tree_leaves((args, kwargs))
    )


def _check_mask_follows(cls):
    """What the module keeps has to come along when it moves."""
    module = _build(cls, MAIN).eval()
    kept = _plain_tensors(module)
    with torch.no_grad(), _Watch(kept.values()) as watch:
        module(_text(MAIN, TOKENS))
    if watch.met:
        raise Mistake(
            "mask-not-buffer",
            f"self.{list(kept)[0]} is a plain tensor: after .to(device) the "
            "parameters have moved and it has not, so forward stops there. "
            "Make it part of the module, without training it.",
        )


def _plain_tensors(module):
    """Tensors that are neither parameters nor buffers, by name."""
    return {
        name: tensor
        for part in module.modules()
        for name, value in vars(part).items()
        if name not in ("_parameters", "_buffers")
        for tensor in _tensors(value)
        if tensor.dim() > 1
    }


def _remark(cls):
    """What is worth a word though nothing is wrong."""
    module = cls(**MAIN, dropout=0.0)
    names = ["W_query", "W_key", "W_value", "out_proj"]
    missing = [name for name in names if not hasattr(module, name)]
    if not missing:
        return ""
    return (
        f" One remark: the notes call the layers {', '.join(names)}; yours "
        f"has no {', '.join(missing)}."
    )
