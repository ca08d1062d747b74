"""Check of notebook 05: multi-head attention, the previous unit's module."""

import inspect
import math
import re
from functools import partial
from itertools import chain, compress, permutations, product

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

import gptlib
from classroom.checks.devices import check_device
from classroom.checks.edits import Task, known
from classroom.checks.guard import exercise
from classroom.checks.manners import check_manners
from classroom.checks.modules import (
    Probe,
    check_drawn_anew,
    check_dropped,
    check_gradients,
    compare,
    construct,
    gradients,
    randomized,
    rescued,
    run,
    runs,
    settled,
)
from classroom.checks.parts import check_created
from classroom.checks.result import Mistake
from classroom.checks.tensors import (
    difference,
    expect_tensor,
    farthest,
    number,
    same,
    told_apart,
)

# No two of these sizes, nor of their square roots, are equal, and head_dim
# is not 4 (where half and square root agree): a wrong one shows.
MAIN = {
    "d_in": 10, "d_out": 15, "context_length": 8, "num_heads": 3,
    "qkv_bias": False,
}  # fmt: skip
OTHER = {
    "d_in": 7, "d_out": 12, "context_length": 13, "num_heads": 2,
    "qkv_bias": True,
}  # fmt: skip
TOKENS = 6
RATE = 0.25
CALL = (
    "MyMultiHeadAttention(d_in=…, d_out=…, context_length=…, dropout=…, "
    "num_heads=…, qkv_bias=…)"
)
COMPARED = (
    "With your own parameters, 3 heads, d_in=10 and d_out=15, the output "
    "(2, 6, 15) equals the reference; no token sees a later one, and "
    "gradients reach all parameters."
)
BY_BEHAVIOR = (
    "Your parameters have an arrangement of their own, so the output could "
    "not be compared with a reference; checked by behavior: no token sees a "
    "later one, each row of weights adds up to 1, texts of a batch stay apart."
)
LOOK = (
    "The expected value comes from your own W_query, W_key, W_value and "
    "out_proj. Compare each step's shape and numbers with the notebook's "
    "steps for one head."
)
GUESSED = (
    "Either a number is wrong, or your parameters are laid out in a way that "
    "could not be read: with layers named as in the notebook, they are read "
    "surely. Compare each step's shape and numbers with the steps for one "
    "head."
)
# Texts on which a module shows what it does for some alone.
OTHERWISE = (
    "wrong-for-other-texts",
    "Yours is right for (2, 6, 10). Which line goes by the number of texts or "
    "tokens, or by what was there before?",
)
SHAPES = [(3, 8), (2, 7), (1, 1)]
NAMES = ["W_query", "W_key", "W_value", "out_proj"]


# --- the solution, and what mistakes make of it ----------------------------


def attended(x, project, out, heads, drop=lambda weights: weights):
    q, k, v = project(x)
    size = q.shape[-1] // heads
    q = q.unflatten(-1, (heads, -1)).transpose(1, 2)
    k = k.unflatten(-1, (heads, -1)).transpose(1, 2)
    v = v.unflatten(-1, (heads, -1)).transpose(1, 2)
    scores = q @ k.mT / size**0.5
    later = torch.ones_like(scores).triu(1).bool()
    weights = scores.masked_fill(later, -torch.inf).softmax(-1)
    context = drop(weights) @ v
    return out(context.transpose(1, 2).flatten(2))


FILL = ".masked_fill(later, -torch.inf)"
MERGE = "context.transpose(1, 2).flatten(2)"
START = "q, k, v = project(x)"
# What a row becomes in which all is hidden: NaN; or even, with a fill of
# -1e9; or zeros, in torch's own kernel.
BLIND_ROWS = [
    {},
    {"-torch.inf": "-1e9"},
    {"softmax(-1)": "softmax(-1).nan_to_num(0)"},
]
BY_SHAPE = ".reshape(*x.shape[:2], -1)"
INTERLEAVED = ".unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)"
MERGED_INTERLEAVED = {MERGE: "context.permute(0, 2, 3, 1).flatten(2)"}


def _cut(new, parts="qkv"):
    """An edit of how these parts are cut into heads."""
    old = ".unflatten(-1, (heads, -1)).transpose(1, 2)"
    return {f"{p}{old}": f"{p}{new}" for p in parts}


SCALES = {  # name of a mistake → what the scores are divided by, in words
    "scaled-by-full-width": {
        "15**0.5": "√15, the root of the full width",
        "15": "15, the full width"},
    "not-scaled": {"1": "nothing"},
    "scale-root-missing": {"5": "5, the head's size itself"},
    "scale-multiplied": {
        "5**-0.5": "1/√5 (that is, multiplied by √5)",
        "5**-1": "1/5 (that is, multiplied by 5)"},
    "scaled-by-input-width": {"10**0.5": "√10, from d_in"},
    "scaled-by-number-of-heads": {
        "3**0.5": "√3, from the number of heads",
        "3": "3, the number of heads"},
    "scaled-by-tokens": {
        "6**0.5": "√6, from the number of tokens",
        "6": "6, the number of tokens"},
    "scaled-by-context-length": {"8**0.5": "√8, from the context length"},
    "scale-not-a-root": {
        "2.5": "2.5, half of the head's size",
        "2": "2, half of the head's size, rounded",
        "25": "5²",
        "5**1.5": "5 to the power of 1.5"},
}  # fmt: skip
# Which of queries, keys and values stand in their places: one of them twice,
# in another order, or queries alone.
ROLES = [
    "kkv", "qqv", "vkv", "qvv", "qkq", "qkk", "kqv", "qvk", "vkq", "kvq",
    "vqk", "qqq",
]  # fmt: skip
WORDS = {"q": "queries", "k": "keys", "v": "values"}
MISTAKES = [
    *(known(name,
            f"This fits scores divided by {words}; expected √5 = 2.236, the "
            "root of one head's size (15 features / 3 heads).",
            {"size**0.5": value})
      for name, cases in SCALES.items() for value, words in cases.items()),
    known("mask-missing",
          "This fits tokens that see all tokens, later ones too. Expected "
          "that each sees itself and earlier ones only: does a mask reach the "
          "scores?",
          {FILL: ""}),
    known("mask-off-by-one-hides-self",
          "This fits a mask that hides a token from itself, so that the first "
          "has nothing to look at. Expected only later tokens hidden; look at "
          "the mask's diagonal.",
          *({"triu(1)": "triu(0)"} | blind for blind in BLIND_ROWS)),
    known("mask-off-by-one-sees-next",
          "This fits tokens that see 1 token ahead; expected 0. Look at the "
          "mask's diagonal.",
          {"triu(1)": "triu(2)"}),
    known("mask-inverted",
          "This fits a mask that is the wrong way round: tokens see later "
          "ones and not the earlier ones. Which half of the square has to be "
          "hidden?",
          {"triu(1)": "tril(-1)"},
          *({"triu(1)": f"tril({n})"} | blind
            for n in (0, 1) for blind in BLIND_ROWS)),
    known("mask-after-softmax",
          "This fits a mask that falls on the weights, after the softmax, so "
          "that a row no longer adds up to 1. Expected scores that are hidden "
          "before the softmax.",
          *({f"{FILL}.softmax(-1)": f".softmax(-1).masked_fill(later, {n})"}
            for n in ("0", "-torch.inf", "-1e9"))),
    *(known("mask-fill-not-infinite",
            f"This fits hidden scores that are set to {n}. e to the power of "
            f"{n} is {number(math.exp(n))}, so later tokens still get weight; "
            "expected weights of exactly 0. What must a score be for that?",
            {"-torch.inf": str(n)})
      for n in (0, 1, -1, -10)),
    known("mask-fill-sign",
          "This fits hidden scores that are set to a large positive number, "
          "so that all weight goes to later tokens; expected weights of 0 "
          "there. Look at the sign.",
          {"-torch.inf": "torch.inf"}, {"-torch.inf": "1e9"}),
    *(known("softmax-wrong-axis",
            f"This fits a softmax over {words}. Expected it over the keys, so "
            "that each token's weights add up to 1. Look at `dim`.",
            *({"softmax(-1)": f"softmax({axis})"} | fill for fill in fills))
      for axis, words, fills in [
          (-2, "the queries (dim=-2)", BLIND_ROWS[:1]),
          (1, "the heads (dim=1)", BLIND_ROWS[:2]),
          (0, "the batch (dim=0)", BLIND_ROWS[:2])]),
    known("softmax-missing",
          "This fits scores that are used as weights without a softmax, so "
          "that a row does not add up to 1.",
          {".softmax(-1)": "", "-torch.inf": "0"},
          {".softmax(-1)": ""},
          {".softmax(-1)": "", "-torch.inf": "-1e9"}),
    known("mask-added-as-numbers",
          "This fits a mask whose zeros and ones are added to the scores, "
          "which moves them by 1 at most, so later tokens still get weight. "
          "Expected weights of exactly 0.",
          *({f"scores{FILL}": f"(scores {plus} later.float())"}
            for plus in ("+", "-", "+ 1 -"))),
    known("softmax-twice",
          "This fits a softmax that is taken twice, which flattens the "
          "weights and gives hidden tokens some again. Expected it once.",
          {"softmax(-1)": "softmax(-1).softmax(-1)"}),
    known("scaled-after-softmax",
          "This fits weights that are divided by 2.236 after the softmax, so "
          "that a row adds up to 0.4472, not 1. Expected the scores divided "
          "before it.",
          {" / size**0.5": "", "softmax(-1)": "softmax(-1) / size**0.5"}),
    known("weights-transposed",
          "This fits weights that are turned round before they meet the "
          "values: tokens gather from those that look at them.",
          {"drop(weights)": "drop(weights).mT"}),
    known("heads-split-by-view",
          "This fits heads that are cut out of (batch, tokens, d_out) by "
          "shape alone, so that they mix tokens. Each head should hold a "
          "share of 5 features of every token: which axes change places?",
          *(_cut(".reshape(len(x), heads, -1, size)", parts)
            for parts in ("qkv", "q", "k", "v")),
          *(_cut(".unflatten(-1, (heads, -1))") | {MERGE: merge}
            for merge in ("context.flatten(2)",
                          f"context.transpose(1, 2){BY_SHAPE}"))),
    known("heads-merged-wrong-axes",
          "This fits wrong axes that change places before the heads are "
          "joined. From (batch, heads, tokens, head_dim), which order puts a "
          "token's heads side by side?",
          *({MERGE: f"context.transpose({axes}){BY_SHAPE}"}
            for axes in ("2, 3", "1, 3"))),
    known("heads-merged-by-view",
          "This fits heads that are joined by shape alone: (batch, heads, "
          "tokens, head_dim) read as (batch, tokens, d_out), which mixes "
          "tokens. Undo the change of axes first.",
          {MERGE: f"context{BY_SHAPE}"}),
    known("heads-interleaved",
          "This fits heads that take every 3rd feature. Expected 5 that lie "
          "side by side, as in (heads, head_dim).",
          _cut(INTERLEAVED),
          _cut(INTERLEAVED) | MERGED_INTERLEAVED,
          MERGED_INTERLEAVED),
    *(known(name, says,
            {START: f"{START}\nheads = {n}"},
            {START: f"{START}\nheads = {n}", "size**0.5": "5**0.5"})
      for name, n, says in [
          ("heads-and-size-swapped", 5,
           "This fits 5 heads of 3 features; expected 3 heads of 5. Look at "
           "the order of the last two numbers of the view."),
          ("one-head-only", 1,
           "This fits 1 head of 15 features; expected num_heads=3 heads of "
           "5, each with weights of its own.")]),
    *(known("queries-keys-mixed-up" if c == "v" else "values-mixed-up",
            f"This fits scores of your {WORDS[a]} times your {WORDS[b]}, "
            f"whose weights gather your {WORDS[c]}. Expected queries times "
            "keys, and weights that gather values.",
            {START: f"{START}\nq, k, v = {a}, {b}, {c}"})
      for a, b, c in ROLES),
    known("values-mixed-up",  # queries that are scaled first, then taken
          "This fits weights that gather your queries; expected values.",
          {") @ v": ") @ (q / size**0.5)"}),
    known("out-proj-unused",
          "This fits an output that never went through out_proj. Expected "
          "that the joined heads pass through it last.",
          {"return out": "return "}),
    known("out-proj-twice",
          "This fits an out_proj that is applied twice; expected once, last.",
          {MERGE: f"out({MERGE})"}),
]  # fmt: skip


def _attention(solve):
    class MyMultiHeadAttention(gptlib.MultiHeadAttention):
        def forward(self, x):
            def project(x):
                return [self.W_query(x), self.W_key(x), self.W_value(x)]

            return solve(
                x, project, self.out_proj, self.num_heads, self.dropout
            )

    return MyMultiHeadAttention


ATTENTION = Task(attended, MISTAKES, _attention)


# --- the exercise ----------------------------------------------------------


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
    task=ATTENTION,
)
def multi_head_attention(cls):
    """Values against a reference with the learner's own parameters (several
    heads, not square, short and full sequences), causality, dropout in
    both modes, biases, and a mask that follows the module."""
    module, x = _first_run(cls)
    readings = _readings(module, MAIN, x)
    _check_registered(module)
    missing = [name for name in NAMES if not hasattr(module, name)]
    probes = _probes(x, GUESSED if missing else LOOK)
    if readings:
        _check_mask_kept(module, x, readings)
        compare(
            module, ATTENTION, probes, readings, seen=_seen,
            resort=partial(check_behavior, module),
            rescues=[(partial(runs, module, x.clone()), *OTHERWISE)],
        )  # fmt: skip
    else:
        for probe in probes:
            output = run(module, probe.x, (*probe.x.shape[:2], 15))
            check_behavior(module, probe.x, output)
    _check_other_sizes(cls)
    _check_biases(cls)
    _check_mask_follows(cls, x)
    check_manners(_built(cls, MAIN), [probe.x for probe in probes])
    _check_layers_new(cls)
    share = _check_dropout(cls)
    _check_training(cls, x)
    _check_weights_apart(cls)
    remark = (
        f" A remark: the notes call the layers {', '.join(NAMES)}; yours has "
        f"no {', '.join(missing)}."
    )
    return (
        f"{COMPARED if readings else BY_BEHAVIOR} In training with dropout "
        f"{RATE}, {share:.0%} of the attention weights fell out; in "
        f"evaluation, none.{remark if missing else ''}"
    )


# --- building and running --------------------------------------------------

SIZES = [(10, 15, False)] * 3 + [(15, 15, True)]  # in, out, bias


def _built(cls, sizes, dropout=0.0):
    """The learner's module, whose parameters hide nothing."""
    module = construct(cls, **sizes, dropout=dropout, call=CALL)
    given = [*sizes][:3] + ["dropout"] + [*sizes][3:]
    taken = [n for n in inspect.signature(cls).parameters if n in given]
    if taken != [n for n in given if n in taken]:
        raise Mistake(
            "wrong-signature",
            f"Your class takes {', '.join(taken)} in this order; expected "
            f"{', '.join(given)}. A call without names would mix them up.",
        )
    length = sizes["context_length"]
    for name, parameter in module.named_parameters():
        if parameter.shape[-2:] == (length, length):
            raise Mistake(
                "mask-is-parameter",
                f"{name} is an nn.Parameter of {length} × {length} numbers, "
                "so it counts as a parameter (1,048,576 of them at a context "
                "of 1,024). A mask is not trained: register it as a buffer.",
            )
    return randomized(module)


def _text(sizes, tokens, batch=2):
    return torch.randn(batch, tokens, sizes["d_in"])


def _probes(x, look):
    """The text of the first run, and other lengths, batches, equal texts."""
    others = [_text(MAIN, tokens, batch) for batch, tokens in SHAPES]
    others += [_text(MAIN, 5, 1).repeat(4, 1, 1)]
    return [
        Probe(x, "wrong-values", look),
        *(Probe(other, *OTHERWISE) for other in others),
    ]


def _first_run(cls):
    """The module in evaluation, for good, and an input that it can read."""
    x = _text(MAIN, TOKENS)
    try:
        module = _built(cls, MAIN).eval()
        output = module(x.clone())
    except NotImplementedError:
        _check_layers(cls)
        raise
    except Mistake:
        raise
    except Exception as error:
        raise rescued(error, _rescues(cls, error)) from None
    if output is None:
        _check_layers(cls)
    module.train = lambda mode=True: module  # dropout is looked at apart
    _check_form(output)
    if not output.isfinite().all():
        # An infinity becomes NaN where it meets both signs; now it stays.
        x = x.abs()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.abs_()
        output = module(x.clone())
    if not output.isfinite().any():
        _check_finite(output)  # such an output fits too many mistakes
    return module, x


def _check_form(output):
    """Is it what the exercise asks for, or known to be something else?"""
    if isinstance(output, tuple | list) and len(output):
        raise Mistake(
            "returns-weights",
            f"forward returns a {type(output).__name__} of {len(output)}; "
            "expected the context vectors alone: a block adds them to its "
            "input.",
        )
    shape = tuple(getattr(output, "shape", ()))
    if shape == (2, TOKENS, 10):
        raise Mistake(
            "d-in-not-d-out",
            f"An input of shape {shape} gave an output of the same shape; "
            f"expected {(2, TOKENS, 15)}: d_out=15 features, not d_in=10.",
        )
    if len(shape) == 4 and math.prod(shape) == 2 * TOKENS * 15:
        raise Mistake(
            "heads-not-merged",
            f"The output has shape {shape}: the heads are still apart. "
            f"Expected {(2, TOKENS, 15)}, side by side again.",
        )
    expect_tensor(output, (2, TOKENS, 15))


# Changed sizes, tokens and batch with one coincidence each: what it means
# for a module that it runs there alone.
COINCIDENCES = [
    ({}, MAIN["context_length"], 2, "mask-not-cropped",
     "With context_length=8 your module reads 8 tokens, but not 6. The text "
     "may be shorter than the context: look at the mask's size."),
    ({"d_in": 15}, TOKENS, 2, "d-in-not-d-out",
     "Your module runs with d_in = d_out = 15 but not with d_in=10, d_out=15. "
     "Which layer or size takes one for the other?"),
    ({}, MAIN["num_heads"], 2, "heads-split-by-view",
     "With 3 heads your module reads 3 tokens, but not 6: heads stand where "
     "tokens should. Between the `view` to (batch, tokens, heads, head_dim) "
     "and the scores, two axes have to change places."),
    ({}, 5, 2, "keys-not-transposed",
     "With heads of 5 features your module reads 5 tokens, but not 6. Which "
     "two axes of the keys change places before `queries @ keys`?"),
    ({}, TOKENS, 1, "batch-of-one-only",
     "Your module reads a batch of 1 but not a batch of 2. Look at the shape "
     "that you give to `view` or `reshape`."),
]  # fmt: skip


def _rescues(cls, error):
    """What an error means: (whether it is that, a name, words)."""

    def builds(**changed):
        return runs(lambda: cls(**MAIN | changed, dropout=0.0))

    def reads(changed, tokens, batch):
        x = _text(MAIN | changed, tokens, batch)
        return runs(lambda: cls(**MAIN | changed, dropout=0.0).eval()(x))

    yield (
        lambda: "view size is not compatible" in str(error),
        "view-after-transpose",
        "`view` cannot join axes after `transpose`: the numbers no longer "
        "lie in that order in memory. Make them contiguous first, or use a "
        "relative of `view` that copies where it must.",
    )
    for width, why in {
        13: "3 divides the first and not the second",
        3: "3 divides both: which number must divide which",
    }.items():
        yield (
            lambda width=width: not builds() and builds(d_out=width),
            "divisibility-wrong",
            "With 3 heads, your class refuses d_out=15 and accepts "
            f"d_out={width}; {why}. Look at the test.",
        )
    for *where, name, says in COINCIDENCES:
        yield partial(reads, *where), name, says


# --- the learner's parameters ----------------------------------------------

ROLE_WORDS = {
    "q": r"q|quer(y|ies)",
    "k": r"k|keys?",
    "v": r"v|val(ue)?s?",
    "out": r"o|out|output|proj|projection",
}


def _role(name):
    """Which of q, k, v, out a parameter's name speaks of, or None."""
    for role, pattern in ROLE_WORDS.items():
        for word in re.split(r"[._\d]+", name.lower()):
            if re.fullmatch(f"w?({pattern})", word):
                return role
    return None


def _readings(module, sizes, x, written=True):
    """Ways to read the parameters: the one that fits, or else two likely
    ones; none if what the output depends on is not all read.

    Args:
        written: whether forward is; if not, nothing has to fit.
    """
    named = dict(module.named_parameters(remove_duplicate=False))
    inputs, orders = _projections(named, sizes)
    outputs, outs = _outs(named, sizes["d_out"])
    readings = [
        {
            "project": partial(_projected, [(m[:-1], m[-1]) for m in order]),
            "out": out,
            "heads": sizes["num_heads"],
        }
        for order in orders
        for out in outs
    ]
    if not written:
        return readings[:1]
    output = module(x.clone())
    slopes = gradients(output.sum(), list(named.values()))
    used = {n for n, g in zip(named, slopes, strict=True) if g is not None}
    if not used <= inputs | outputs:
        return []
    fitting = [r for r in readings if same(output, attended(x, **r))]
    return fitting[:1] or readings[:2]


def _projected(matrices, x):
    return [F.linear(x, weight.mT, bias) for weight, bias in matrices]


def _projections(named, sizes):
    """The parameters that make queries, keys and values, by name, and lists
    of three matrices: told by names, or else in whatever order."""
    d_in = sizes["d_in"]
    layers = [
        {n: p for n, p in named.items() if _role(n) == role} for role in "qkv"
    ]
    matrices = [_matrix(layer, d_in) for layer in layers]
    if not any(matrix is None for matrix in matrices):
        _check_widths(matrices, sizes)
        return set().union(*layers), [matrices]
    weights = [n for n, p in named.items() if p.dim() > 1 and d_in in p.shape]
    layers = [_with_bias(n, named, d_in) for n in weights]
    matrices = [_matrix(layer, d_in) for layer in layers]
    if any(m is None or m.shape[1] % sizes["d_out"] for m in matrices):
        return set(), []
    ways = [
        list(chain(*parts))
        for parts in product(*(_cuts(matrix, sizes) for matrix in matrices))
    ]
    orders = [permutations(way) for way in ways if len(way) == 3]
    return set().union(*layers), chain(*zip(*orders, strict=True))


def _with_bias(weight, named, d_in):
    """A weight and its bias, which is told by its name or else its size."""
    stem, size = weight.removesuffix("weight"), named[weight].numel() // d_in
    bare = [n for n in named if stem == weight and _role(n) != "out"]
    biases = [n for n in bare if named[n].numel() == size]
    biases += [n for n in named if n == f"{stem}bias"]
    return {n: named[n] for n in (weight, *biases)}


def _cuts(matrix, sizes):
    """Ways to cut a matrix into queries, keys and values, or some of them:
    one after the other, head by head, or number by number."""
    heads, parts = sizes["num_heads"], matrix.shape[1] // sizes["d_out"]
    if parts == 1:
        return [[matrix]]
    axes = {"part": parts, "head": heads, "size": sizes["d_out"] // heads}
    ways = []
    for order in sorted(permutations(axes), key=lambda o: -o.index("size")):
        columns = matrix.unflatten(1, [axes[name] for name in order])
        where = [1 + order.index(name) for name in axes]
        ways.append([*columns.permute(where[0], 0, *where[1:]).flatten(2)])
    return ways


def _matrix(layer, d_in):
    """Weights, the heads' side by side, above their bias: (d_in + 1, …)."""
    weights, biases = [], []
    for p in layer.values():
        if p.dim() > 1 and d_in in p.shape:
            weights.append(p.movedim(p.shape.index(d_in), 0).flatten(1))
        else:
            biases.append(p.flatten())
    if not weights:
        return None
    weight = torch.cat(weights, dim=1)
    bias = torch.cat(biases) if biases else torch.zeros(weight.shape[1])
    if len(bias) != weight.shape[1]:
        return None
    return torch.cat([weight, bias[None]])


def _outs(named, d_out):
    """The parameters of the last layer, by name, and ways to apply it."""
    square = [
        n for n, p in named.items() if p.dim() > 1 and p.numel() == d_out**2
    ]
    if not square:
        return set(), [lambda x: x]
    name = min(square, key=lambda name: _role(name) != "out")
    stem, bare = name.removesuffix("weight"), not name.endswith("weight")
    biases = [
        n
        for n, p in named.items()
        if p.shape == (d_out,)
        and (n == f"{stem}bias" or (bare and _role(n) == "out"))
    ]
    weight = named[name].reshape(d_out, d_out)
    bias = named[biases[0]] if biases else None
    ways = [weight, weight.mT] if bare else [weight]
    outs = [partial(F.linear, weight=way, bias=bias) for way in ways]
    return {name, *biases[:1]}, outs


def _check_widths(matrices, sizes):
    """A head of the full width, or projections narrower than d_out?"""
    d_out, heads = sizes["d_out"], sizes["num_heads"]
    for role, matrix in zip(WORDS.values(), matrices, strict=True):
        if matrix.shape[1] != d_out:
            raise Mistake(
                "wrong-projection-width",
                f"All heads together have {role} of {matrix.shape[1]} "
                f"features; expected d_out={d_out}, so that each of the "
                f"{heads} heads gets {d_out // heads}.",
            )


def _check_registered(module):
    """Four weights, each of its own and part of the module?"""
    weights = [p for p in module.parameters() if p.dim() > 1]
    count, expected = sum(p.numel() for p in weights), 3 * 10 * 15 + 15 * 15
    if count >= expected:
        return
    seen = f"The module has weights of {count} numbers; expected {expected}"
    every = list(module.named_parameters(remove_duplicate=False))
    if len(every) > len(list(module.parameters())):
        raise Mistake(
            "shared-projection",
            f"{seen}. Two names stand for the same layer; queries, keys, "
            "values and out_proj learn a matrix each.",
        )
    plain = _plain(module, nn.Module)
    if not plain and count == expected - 15 * 15:
        raise Mistake(
            "out-proj-missing",
            f"{seen}: a last layer out_proj, from 15 to 15 features, is "
            "missing.",
        )
    plain = plain or _plain(module, torch.Tensor)
    if plain:
        raise Mistake(
            "not-registered",
            f"{seen}. What self.{', self.'.join(plain)} holds is not part of "
            "the module, as layers in a plain list and plain tensors never "
            "are, so it would not be trained.",
        )
    raise Mistake(
        "wrong-size",
        f"{seen}. Is a layer missing, or has one another size than asked for?",
    )


def _plain(module, kind):
    """What its parts keep beside parameters, buffers and modules: name → a
    value with something of this kind inside."""
    registered = "_parameters", "_buffers", "_modules"
    return {
        name: value
        for part in module.modules()
        for name, value in vars(part).items()
        if name not in registered
        and any(
            isinstance(leaf, kind) and getattr(leaf, "ndim", 2) > 1
            for leaf in tree_leaves(value)
        )
    }


def _check_layers(cls):
    """The written half of a class whose forward is still to be written."""
    module = _built(cls, MAIN)
    for name, (takes, gives, _) in zip(NAMES, SIZES, strict=True):
        layer = getattr(module, name, None)
        shape = gives, takes
        if isinstance(layer, nn.Linear) and layer.weight.shape != shape:
            raise Mistake(
                "wrong-size",
                f"With d_in=10 and d_out=15, {name} takes {layer.in_features} "
                f"features and gives {layer.out_features}; expected {takes} "
                f"and {gives}.",
            )
    _check_registered(module)
    _check_biases(cls, written=False)


# --- values, and what they leave open --------------------------------------


def _seen(x, output, expected):
    """Where the output is farthest off, in numbers."""
    place = farthest(output, expected)
    text, token, feature = map(int, place)
    found, wanted = told_apart(output[place], expected[place])
    return (
        f"Text {text}, token {token}, feature {feature}: your output is "
        f"{found}; expected {wanted}."
    )


def _check_mask_kept(module, x, readings):
    """A mask whose result is thrown away looks like none; code tells."""
    methods = {n: m for n, m in vars(type(module)).items() if n != "__init__"}
    codes = [getattr(m, "__code__", None) for m in methods.values()]
    names = set().union(*(code.co_names for code in codes if code))
    calls = names & {"masked_fill", "masked_fill_", "where"}
    empty = any(
        mask.dim() > 1 and (mask == mask.flatten()[0]).all()
        for mask in module.buffers()
    )
    if empty or not calls:
        return
    output, forgetful = module(x.clone()), ATTENTION.edited({FILL: ""})
    for reading in readings:
        if same(output, forgetful(x, **reading)):
            raise Mistake(
                "mask-dropped",
                f"{_seen(x, output, attended(x, **reading))} Every token sees "
                "all tokens, later ones too. Your code speaks of "
                f"{' and '.join(sorted(calls))}, but the result does not "
                "reach the softmax: is it kept, in time and in both modes?",
            )


def _check_other_sizes(cls):
    """Two heads with biases, and as many tokens as the context holds."""
    x = _text(OTHER, 13)
    try:
        module = _built(cls, OTHER).eval()
        output = run(module, x, (2, 13, 12))
    except NotImplementedError:
        raise
    except Mistake as mistake:
        if mistake.name != "wrong-shape":
            raise
        seen = mistake.message
    except Exception as error:
        seen = difference(error, x)
    else:
        readings = _readings(module, OTHER, x)
        if not readings:
            check_behavior(module, x, output)
            return
        wanted = attended(x, **readings[0])
        if same(output, wanted):
            return
        seen = _seen(x, output, wanted)
    spelled = ", ".join(f"{name}={size}" for name, size in OTHER.items())
    raise Mistake(
        "fails-at-other-sizes",
        "Your module is right with 3 heads of 5 features on 6 tokens, but not "
        f"with {spelled} on 13 tokens. {seen} Is a size written as a number, "
        "or taken for another?",
    )


# --- behavior, whatever the parameters are ---------------------------------


@torch.no_grad()
def check_behavior(module, x, output):
    _check_finite(output)
    if len(x) > 1:
        _check_texts_apart(module, x, output)
    moved = _moved(module, x, output)
    later = moved.triu(1).nonzero().tolist()
    if later:
        looks, seen = later[-1]
        raise Mistake(
            "sees-later-tokens",
            f"In a text of length {x.shape[1]}, when token {seen} changes, "
            f"output {looks} moves. Expected no output before the change to "
            "move; look at the mask.",
        )
    unseen = (~moved).tril().nonzero().tolist()
    if unseen:
        looks, seen = unseen[0]
        raise Mistake(
            "blind-to-earlier-tokens",
            f"In a text of length {x.shape[1]}, when token {seen} changes, "
            f"output {looks} stays. Expected that each output gathers from "
            "its own token and all earlier ones.",
        )
    equal = x[:, :1].repeat(1, x.shape[1], 1)
    gap = (module(equal) - module(equal[:, :1])).abs().max()
    if gap > 1e-4:
        raise Mistake(
            "rows-do-not-sum-to-one",
            f"On a text of {x.shape[1]} equal tokens, outputs differ by "
            f"{number(gap)}; expected 0, since a blend of equal values is "
            "that value. Does each row of weights add up to 1?",
        )


def _check_finite(output):
    rows = (~output.isfinite()).any(-1).any(0).nonzero().flatten().tolist()
    if rows:
        raise Mistake(
            "output-not-finite",
            f"The outputs of tokens {rows} are NaN or infinite. Two things "
            "most often do this: a row of scores that are all minus infinity, "
            "where a token can't see even itself, and 0 times infinity, as in "
            "a mask times minus infinity.",
        )


def _check_texts_apart(module, x, output):
    gap = (module(x[1:].clone()) - output[1:]).abs()
    if (gap > 1e-4).any():
        raise Mistake(
            "batch-rows-mixed",
            f"In a batch of {len(x)}, the others' outputs change by "
            f"{number(gap.max())} when the first text is left out; expected "
            "0: texts of a batch do not see each other. Which axis is the "
            "batch?",
        )


def _moved(module, x, output):
    """Row: output; column: the token that was replaced."""
    columns = []
    for token in range(x.shape[1]):
        changed = x.clone()
        changed[:, token] = changed[:, token].flip(-1) + 1
        columns.append((module(changed) - output).abs().amax((0, 2)) > 1e-5)
    return torch.stack(columns, dim=1)


# --- biases ----------------------------------------------------------------


def _check_biases(cls, written=True):
    """Of queries, keys, values and the output: which have a bias?"""
    default = {n: size for n, size in MAIN.items() if n != "qkv_bias"}
    if not runs(lambda: cls(**default, dropout=0.0)):
        raise Mistake(
            "qkv-bias-default",
            "Your class can't be built without qkv_bias; expected that it is "
            "False where it is not given.",
        )
    found = []
    for sizes in (default, MAIN, MAIN | {"qkv_bias": True}):
        module = _built(cls, sizes).eval()
        readings = _readings(module, sizes, _text(sizes, TOKENS), written)
        if not readings:
            return
        biases = readings[0]["project"](torch.zeros(1, 10))
        biases += [readings[0]["out"](torch.zeros(1, 15))]
        found.append([bool((bias != 0).any()) for bias in biases])
    (*default, _), (*off, out), (*on, out_too) = found
    if not (out and out_too):
        raise Mistake(
            "out-proj-bias-missing",
            "out_proj maps zeros to zeros, so it has no bias; expected one, "
            "15 numbers, whatever qkv_bias is.",
        )
    _check_qkv_bias(default, off, on)


def _check_qkv_bias(default, off, on):
    listed = [" and ".join(compress(NAMES, b)) for b in (default, off)]
    if any(default) and not any(off) and any(on):
        raise Mistake(
            "qkv-bias-default",
            f"Without qkv_bias, {listed[0]} have a bias; expected none. Look "
            "at the default.",
        )
    if any(off) and all(on):
        raise Mistake(
            "qkv-bias-always",
            f"With qkv_bias=False, {listed[1]} have a bias; expected none.",
        )
    if not all(on):
        raise Mistake(
            "qkv-bias-inverted" if any(off) else "qkv-bias-ignored",
            f"With qkv_bias=True, {sum(on)} of the three layers have a bias, "
            f"with False {sum(off)}; expected 3 and 0.",
        )


# --- dropout ---------------------------------------------------------------


def _check_dropout(cls):
    """Share of dropped weights. A text of one token has one weight, 1, so
    its context is all zeros or all of value / (1 - rate), and the output
    takes exactly two values."""
    sizes = MAIN | {"num_heads": 1}
    module = _built(cls, sizes, RATE).eval()
    x, (token, other) = _text(sizes, TOKENS), _text(sizes, 1)
    with torch.no_grad():
        if not same(module(x), module(x)):
            raise Mistake(
                "dropout-in-evaluation",
                f"After .eval(), with dropout {RATE}, two runs on the same "
                "input differ. Dropout has to know whether the module is in "
                "training.",
            )
        still = module(token[None])[0, 0]
        rows = module.train()(token.repeat(2000, 1, 1))[:, 0]
        others = module(other.repeat(200, 1, 1))[:, 0]
        repeats = same(module(x), module(x))
    zeros = float((rows == 0).float().mean())
    if zeros > 0.02:
        raise Mistake(
            "dropout-on-output",
            f"In training with dropout {RATE}, {zeros:.1%} of the output's "
            "numbers are 0; expected none: dropout falls on the attention "
            "weights. The output's own dropout is the block's.",
        )
    kinds = _kinds(rows)
    if len(kinds) == 1:
        calls = torch.cat([module(token[None])[0] for _ in range(20)])
        _blame_one_kind(same(rows[0], still), repeats, len(_kinds(calls)))
    if len(kinds) > 2:
        raise Mistake(
            "dropout-misplaced",
            f"In training with dropout {RATE}, 2000 equal texts of one token "
            "give more than 2 different outputs; expected 2: its single "
            "weight is kept or dropped. Either dropout falls on something "
            "else, or the weights are changed after it.",
        )
    return _dropped_share(kinds, others, still)


@torch.no_grad()
def _check_weights_apart(cls):
    """Each weight falls out by itself. Of a text of two tokens, a head has 3
    weights that count: in all 512 outputs, and 64 at most where those of
    several heads, queries or keys fall out together."""
    module = _built(cls, MAIN, 0.5).train()
    check_drawn_anew(module, _text(MAIN, TOKENS))
    output = module(_text(MAIN, 2, 1).repeat(3000, 1, 1)).flatten(1)
    numbers = (output @ torch.randn(output.shape[1])).sort().values
    kinds = 1 + int((numbers.diff() > 1e-3).sum())
    seen = (
        f"3000 equal texts of two tokens give {kinds} different outputs at a "
        "drop rate of 0.5; expected about 500"
    )
    if kinds <= 64:
        _blame_together(seen)
    if kinds > 512:
        raise Mistake(
            "dropout-misplaced",
            f"In training, {seen}: besides the weights, something else is "
            "dropped.",
        )


def _blame_together(seen):
    raise Mistake(
        "dropout-together",
        f"In training, {seen}: weights of several heads, texts, queries or "
        "keys fall out together. Expected each by itself; look at the shape "
        "of what dropout gets.",
    )


def _kinds(rows):
    """Different rows (three at most) and their shares."""
    kinds, rest = [], rows
    while len(rest) and len(kinds) < 3:
        near = (rest - rest[0]).abs().amax(-1) < 1e-4
        kinds.append((rest[0], float(near.sum()) / len(rows)))
        rest = rest[~near]
    return kinds


def _blame_one_kind(kept, repeats, calls):
    """A single token's weight is always kept, or never, in one call; in
    several calls, its output is of so many kinds."""
    if calls > 1:
        _blame_together("2000 texts of one token all keep its weight, or none")
    if not kept:
        raise Mistake(
            "dropout-rate-wrong",
            f"In training with dropout {RATE}, 2000 of 2000 texts of one "
            "token give another output than in evaluation, and all the same, "
            "as if no weight were kept.",
        )
    if repeats:
        raise Mistake(
            "dropout-missing",
            f"In training with dropout {RATE}, two runs on the same input are "
            "equal. Expected a share of the attention weights dropped.",
        )
    raise Mistake(
        "dropout-before-softmax",
        f"In training with dropout {RATE}, the weight of a single token stays "
        "1, so dropout falls on what goes into the softmax. Expected it on "
        "the weights that come out.",
    )


def _dropped_share(kinds, others, still):
    """The row of a dropped weight is the one that another token has, too."""
    (gone, share), (kept, _) = sorted(
        kinds, key=lambda kind: float((others - kind[0]).abs().sum(-1).min())
    )
    way = still - gone
    scale = ((kept - gone) @ way / way.square().sum()).detach()
    check_dropped("the attention weights", RATE, share, scale)
    return share


# --- calls -----------------------------------------------------------------


def _check_mask_follows(cls, x):
    """What the module keeps has to come along when it moves."""
    kept = _plain(_built(cls, MAIN), torch.Tensor)
    if kept:
        check_device(
            _built(cls, MAIN).eval(), x, "mask-not-buffer",
            f"self.{next(iter(kept))} is a plain tensor: after .to(device) "
            "the parameters have moved and it has not. Make it part of the "
            "module, without training it.",
        )  # fmt: skip


def _check_layers_new(cls):
    """The mask is as long as the context; the layers come in their order."""
    module = _built(cls, MAIN)
    sizes = {tuple(b.shape[-2:]) for b in module.buffers() if b.dim() > 1}
    if sizes and (8, 8) not in sizes:
        raise Mistake(
            "size-hardcoded",
            f"With context_length=8, a buffer has the shape {sizes.pop()}; "
            "expected (8, 8): the mask's size follows the context.",
        )
    layers = zip(NAMES, SIZES, strict=True)
    check_created(
        lambda: cls(**MAIN, dropout=0.0),
        {name: partial(nn.Linear, *size) for name, size in layers},
    )


def _check_training(cls, x):
    """With as good as no dropout, training gives the same results and
    gradients."""
    module = _built(cls, MAIN, 1e-9)
    settled(module, ATTENTION, x, (2, TOKENS, 15))
    for reading in _readings(module, MAIN, x)[:1]:
        check_gradients(module.train(), ATTENTION, x, reading)
