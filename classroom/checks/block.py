"""Checks of notebook 05: the transformer block, and one with two rates.

A block is right if it gives what the solution makes of the block's own parts,
at several drop rates. What these parts compute is looked at first.
"""

import re
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from classroom.checks.attention import check_behavior
from classroom.checks.data_path import SIZES
from classroom.checks.edits import Task, blame, known
from classroom.checks.guard import exercise
from classroom.checks.manners import check_manners
from classroom.checks.modules import (
    Probe,
    check_drawn_anew,
    check_dropped,
    compare,
    construct,
    randomized,
    rescued,
    run,
    runs,
)
from classroom.checks.parts import (
    check_created,
    check_names,
    count,
    is_layer_norm,
    loaded,
    remark,
)
from classroom.checks.result import Mistake
from classroom.checks.tensors import difference, number, same
from gptlib import (
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    TransformerBlock,
)

PARTS = {  # name → what it is, its parameters at width 12, its own check
    "norm1": ("norm", 24, "layer_norm"),
    "att": ("attention", 588, "multi_head_attention"),
    "norm2": ("norm", 24, "layer_norm"),
    "ff": ("feed-forward", 1212, "feed_forward"),
}
MADE = {  # part → what makes it, in the order asked for
    "att": lambda: MultiHeadAttention(12, 12, 9, 0.0, 3),
    "ff": lambda: FeedForward(SIZES),
    "norm1": lambda: LayerNorm(12),
    "norm2": lambda: LayerNorm(12),
    "drop_shortcut": nn.Dropout,
}
OTHER_SIZES = {"emb_dim": 20, "n_heads": 4, "context_length": 6}
TINY = 1e-9  # a drop rate at which a block is in training and drops nothing


# --- the solutions, and what mistakes make of them -----------------------


def pre_norm_block(x, norm1, att, norm2, ff, drop):
    n, f = norm1, att
    h = x + drop(f(n(x)))
    m, g = norm2, ff
    return h + drop(g(m(h)))


def rates(cfg):
    attention = cfg["drop_rate_attn"]
    shortcuts = cfg["drop_rate_shortcut"]
    return attention, shortcuts


# The first half, of x, the norm n and the sub-layer f.
RIGHT = "x + drop(f(n(x)))"


def _second(half):
    """A half as the solutions write it the second time."""
    names = {"x": "h", "n": "m", "f": "g"}
    return re.sub(r"\b[xnf]\b", lambda found: names[found[0]], half)


def _in_halves(name, says, *halves):
    """A mistake that each half can hold, or one of them.

    `RIGHT` stands in the solution's first half, one of `halves` instead.
    """
    first = [{RIGHT: half} for half in halves]
    second = [{_second(RIGHT): _second(half)} for half in halves]
    both = [one | two for one, two in zip(first, second, strict=True)]
    places = {
        "Each half": both,
        "The first half (attention)": first,
        "The second half (feed-forward)": second,
    }
    names = (name,) * 3 if isinstance(name, str) else name
    for each, (where, edits) in zip(names, places.items(), strict=True):
        yield known(each, says.format(where=where), *edits)


HALVES = [
    ("post-norm",
     "{where} normalizes after the addition (post-norm), so the shortcut "
     "path passes through a norm. GPT-2 is pre-norm: only the branch is "
     "normalized, before its sub-layer.",
     "n(x + f(x))"),
    ("norm-missing",
     "{where} works without its norm. Where in the picture does it stand?",
     "x + f(x)"),
    ("shortcut-from-normalized",
     "{where} adds the branch to the normalized vectors; expected: to those "
     "that came in. Look at which name holds what when you add.",
     "n(x) + f(n(x))"),
    (("shortcuts-missing", "first-shortcut-missing",
      "second-shortcut-missing"),
     "{where} returns its branch alone, which should correct the vectors and "
     "not replace them. What does the dashed arrow in the picture do?",
     "f(n(x))", "f(x)", "n(f(x))", "n(f(n(x)))"),
    ("adds-output-to-itself",
     "{where} adds the branch to itself: the input has been overwritten "
     "before the addition. Keep it under a name of its own.",
     "2 * f(n(x))", "2 * f(x)", "n(2 * f(x))"),
    (("sub-layers-missing", "attention-missing", "feed-forward-missing"),
     "{where} has no effect of its sub-layer in the output. Is it called, "
     "and is its result kept?",
     "x", "n(x)", "x + n(x)"),
    ("norm-after-sub-layer",
     "{where} normalizes the result of its sub-layer before adding it. "
     "Compare the order of norm and sub-layer with the task.",
     "x + n(f(x))"),
    ("norm-on-shortcut",
     "{where} normalizes what the shortcut carries and gives the sub-layer "
     "the raw vectors. Which of the two does the norm belong to?",
     "n(x) + f(x)"),
    ("norm-before-and-after",
     "{where} normalizes before its sub-layer and after it; expected once.",
     "n(x + f(n(x)))", "x + n(f(n(x)))", "n(n(x) + f(n(x)))"),
    ("norm-twice", "{where} applies its norm twice in a row; expected once.",
     "x + f(n(n(x)))", "n(n(x + f(x)))"),
    ("sub-layer-twice", "{where} applies its sub-layer twice; expected once.",
     "x + f(f(n(x)))", "x + f(n(f(n(x))))", "n(x + f(f(x)))",
     "x + 2 * f(n(x))", "(y := x + f(n(x))) + f(n(y))",
     "n((y := n(x + f(x))) + f(y))"),
    ("input-added-twice", "{where} adds its input twice; expected once.",
     "2 * x + f(n(x))", "n(2 * x + f(x))"),
    ("subtracted",
     "{where} subtracts; expected the branch added to the input.",
     "x - f(n(x))", "f(n(x)) - x", "n(x - f(x))", "n(f(x) - x)"),
    ("multiplied",
     "{where} multiplies; expected the branch added to the input.",
     "x * f(n(x))", "n(x * f(x))"),
    ("averaged",
     "{where} divides the sum; a shortcut adds and does no more.",
     "(x + f(n(x))) / 2", "(x + f(n(x))) / 2**0.5"),
]  # fmt: skip
# Name, words, and what can stand in the second half.
WHOLES = [
    ("norm-at-the-end",
     "A norm works on the result of the second half, so that the shortcut "
     "path passes through it. Which norm stands where?",
     "m(h + g(n(h)))", "n(h + g(m(h)))"),
    ("parallel-sub-layers",
     "Feed-forward reads the block's input, so the sub-layers work side by "
     "side. The second half works on the result of the first.",
     "h + g(m(x))", "h + g(n(x))", "x + h + g(m(x))", "h - x + g(m(x))",
     "h + g(m(n(x)))"),
    ("shortcut-from-wrong-place",
     "The second shortcut starts at the wrong place. It carries what the "
     "first half returned, that and nothing else.",
     "x + g(m(h))", "h + x + g(m(h))", "f(n(x)) + g(m(h))",
     "n(x) + g(m(h))", "h + f(n(x)) + g(m(h))", "h + n(x) + g(m(h))"),
    ("shortcut-around-both",
     "A single shortcut spans both sub-layers. Each half has one of its own.",
     "x + g(m(f(n(x))))", "x + g(f(n(x)))"),
    ("feed-forward-reads-branch",
     "The second half reads attention's branch alone; it should read the sum "
     "that the first half ends with.",
     "h + g(m(f(n(x))))", "h + g(f(n(x)))"),
]  # fmt: skip
ORDERS = [
    known("one-norm",
          "Both halves use one and the same norm. They learn different "
          "numbers, so each needs a norm of its own.",
          {"norm2": "norm1"}, {"norm1": "norm2"}),
    known("norms-swapped",
          "The first half uses norm2 and the second norm1. The names say "
          "which is which, and saved weights rely on them.",
          {"norm1": "norm2", "norm2": "norm1"}),
    known("sub-layers-swapped",
          "The feed-forward network works before attention. First gather, "
          "then process.",
          {"att": "ff", "ff": "att"},
          {"norm1, att": "norm2, ff", "norm2, ff": "norm1, att"}),
    known("attention-twice",
          "Both halves use attention, and feed-forward is never used.",
          {"ff": "att"}),
    known("feed-forward-twice",
          "Both halves use feed-forward, and attention is never used.",
          {"att": "ff"}),
]  # fmt: skip
# The same for dropout, in either half.
DROPPED = [
    (("dropout-missing", "first-dropout-missing", "second-dropout-missing"),
     "{where} adds all of its branch: where does dropout act?",
     "x + f(n(x))"),
    ("dropout-after-addition",
     "The shortcut's vectors are dropped too: dropout acts after the "
     "addition. It belongs to the branch alone.",
     "drop(x + f(n(x)))"),
    ("dropout-before-sub-layer",
     "{where} drops before its sub-layer, which then works on zeros. Dropout "
     "should act on the sub-layer's result.",
     "x + f(drop(n(x)))", "x + f(n(drop(x)))"),
    ("dropout-on-shortcut",
     "{where} drops what the shortcut carries and keeps its branch. Which of "
     "the two is dropout for?",
     "drop(x) + f(n(x))"),
    ("dropout-twice", "{where} drops twice in a row; expected once.",
     "x + drop(drop(f(n(x))))"),
    ("dropout-before-and-after",
     "{where} drops before its sub-layer and at the end of the branch; "
     "expected only the latter.",
     "x + drop(f(drop(n(x))))", "x + drop(f(n(drop(x))))"),
]  # fmt: skip
ON_INPUT = known(
    "dropout-on-input",
    "Dropout acts once, on the block's input. It belongs to the end of each "
    "branch.",
    {"n, f": "x = drop(x)\ndrop = lambda y: y\nn, f"},
)
RATE_MISTAKES = [
    known("rates-swapped", "The two are exchanged.",
          {"rate_attn": "rate_shortcut", "rate_shortcut": "rate_attn"}),
    known("one-rate-for-both", "Both follow one entry of the configuration.",
          {"rate_attn": "rate_shortcut"}, {"rate_shortcut": "rate_attn"}),
    known("embedding-rate-used",
          "The embeddings' rate belongs to the model, not to its blocks.",
          {"rate_attn": "rate_emb"}, {"rate_shortcut": "rate_emb"}),
]  # fmt: skip


def _block(solve):
    class MyBlock(TransformerBlock):
        def forward(self, x):
            parts = self.norm1, self.att, self.norm2, self.ff
            return solve(x, *parts, self.drop_shortcut)

    return MyBlock


def _block_with_rates(solve):
    class MyDropRatesBlock(TransformerBlock):
        def __init__(self, cfg):
            super().__init__({key: cfg.get(key, 0.0) for key in SIZES})
            self.att.dropout.p, self.drop_shortcut.p = solve(cfg)

    return MyDropRatesBlock


AT_REST = (
    "drop-rate-not-handed-on",
    f"Expected the same, as all drop rates are {TINY}. Do yours come from the "
    "configuration?",
)


def _tasks():
    """To join the parts, to drop in the right place, and to do both."""
    second = _second(RIGHT)
    # These leave the first half as it is, and by that pair with few others.
    join = [
        known(name, says, *({RIGHT: RIGHT, second: new} for new in edits))
        for name, says, *edits in WHOLES
    ]
    for half in HALVES:
        join += _in_halves(*half)
    join += ORDERS
    drop = [ON_INPUT]
    for half in DROPPED:
        drop += _in_halves(*half)
    # Pairs of one mistake of each kind would be too many.
    return [
        Task(
            pre_norm_block, mistakes, _block, in_either_mode=AT_REST, atol=1e-6
        )
        for mistakes in (join, drop, join + drop)
    ]


PRE_NORM, PRE_DROPS, PRE_BOTH = _tasks()
RATES = Task(rates, RATE_MISTAKES, _block_with_rates)


# --- the exercises -------------------------------------------------------


@exercise(
    "Follow the dashed arrows in the picture of the block: two additions, "
    "and nothing else on that path.",
    "Each half is: norm, sub-layer, dropout, add. The second half works on "
    "what the first returned.",
    "The symbols are h = x + dropout(attention(norm₁(x))) and out = h + "
    "dropout(feedforward(norm₂(h))). Write one line of `forward` for each; "
    "both rates come from cfg['drop_rate'].",
    task=PRE_BOTH,
)
def transformer_block(cls):
    """Order of the parts, shortcuts, dropout's place, what is handed on."""
    build = partial(_built, cls, "MyTransformerBlock(cfg)", _one_rate)
    block = _with_right_parts(build)
    _check_rate(build)
    compare(block, PRE_NORM, PROBES, **_judge(block))
    check_manners(build(0.0, 0.0), INPUTS)
    _check_other_sizes(build, PRE_NORM)
    check_created(lambda: cls(_one_rate(0.0, 0.0)), MADE)
    _check_dropout(build, PRE_DROPS)
    return (
        "your block is a pre-norm block. On five inputs of up to 9 tokens "
        "the output is what its parts give in GPT-2's order; a drop rate of "
        "1.0 leaves the input as it is, 0.5 drops half of each branch, and "
        f"gradients reach every parameter.{_remark(block)}"
    )


@exercise(
    "Two parts of the block take a rate. Which key belongs to which?",
    "FeedForward refuses unknown keys and uses no rate. Build a dictionary "
    "of the seven keys for it, with any drop_rate.",
    "For FeedForward: {key: … for key in GPT_CONFIG_124M}, where cfg.get "
    "helps with the one that is missing. Attention gets "
    "cfg['drop_rate_attn'] as its dropout; the rest is TransformerBlock.",
    task=RATES,
)
def drop_rates(cls):
    """As `transformer_block`, with a rate each for attention, shortcuts."""
    build = partial(_built, cls, "MyDropRatesBlock(cfg)", _separate_rates)
    block = _with_right_parts(build)
    _check_separate_rates(build)
    compare(block, PRE_NORM, PROBES, **_judge(block))
    check_manners(build(0.0, 0.0), INPUTS)
    _check_other_sizes(build, PRE_NORM)
    _check_dropout(build, PRE_DROPS)
    _check_rates_apart(build)
    return (
        "attention drops with drop_rate_attn and the branches with "
        "drop_rate_shortcut, each alone: a shortcut rate of 1.0 leaves the "
        f"input as it is, whatever attention's rate is.{_remark(block)}"
    )


def _one_rate(attention, shortcuts):
    return SIZES | {"drop_rate": shortcuts}


def _separate_rates(attention, shortcuts):
    rates = {"emb": 0.15, "attn": attention, "shortcut": shortcuts}
    cfg = SIZES | {f"drop_rate_{key}": rate for key, rate in rates.items()}
    del cfg["drop_rate"]
    return cfg


def _built(answer, call, configure, attention=TINY, shortcuts=TINY, **changes):
    """The learner's block, its parameters random."""
    cfg = configure(attention, shortcuts) | changes
    try:
        block = construct(answer, cfg, call=call)
    except KeyError as error:
        if "drop_rate" not in cfg:  # then it is not what was meant
            error.args = tuple(
                str(told).replace(" (did you mean 'drop_rate'?)", "")
                for told in error.args
            )
        text = str(error)
        raise rescued(error, [
            (lambda: text == "'drop_rate'", "old-key",
             "This configuration has no drop_rate; its rates are "
             "drop_rate_emb, drop_rate_attn and drop_rate_shortcut."),
            (lambda: "has unknown" in text, "unknown-keys-handed-on",
             "A part of gptlib was given the separate rates and refuses "
             "them. Hand it a configuration of the seven keys it knows."),
            (lambda: "configuration lacks" in text, "keys-not-handed-on",
             "A part of gptlib was given too few keys. Hand it a "
             "configuration of the seven keys it knows."),
        ]) from error  # fmt: skip
    return randomized(block)


def _reading(block, rate=0.0):
    """What the solution needs: the block's own parts, and dropout."""
    parts = {name: getattr(block, name) for name in PARTS}
    return parts | {"drop": partial(F.dropout, p=rate)}


_remark = partial(remark, drop="drop_shortcut", norm="norm1")


def _input(*shape):
    random = torch.Generator().manual_seed(3)
    return torch.randn(shape, generator=random) + 0.5


X = _input(2, 5, 12)
INPUTS = [
    0.3 * X,
    _input(1, 9, 12),
    3 * _input(3, 1, 12),
    _input(4, 6, 12),
    _input(1, 4, 12).repeat(3, 1, 1),
]
WRONG = (
    "Your parts do not give this in the order that is asked for. Write down "
    "each half by itself: norm, sub-layer, dropout, add."
)
WRONG_FOR_SOME = (
    "Yours is right for (2, 5, 12). What in forward goes by the number of "
    "texts or tokens, or by the calls before?"
)


PROBES = [
    Probe(INPUTS[0], "wrong-values", WRONG),
    *(Probe(x, "wrong-for-other-texts", WRONG_FOR_SOME) for x in INPUTS[1:]),
]


def _judge(block):
    """For `compare`: readings, and what an error means."""
    runs_first = partial(runs, block, INPUTS[0].clone())
    rescue = runs_first, "wrong-for-other-texts", WRONG_FOR_SOME
    return {"readings": [_reading(block)], "rescues": [rescue]}


def _check_other_sizes(build, task):
    x, seen = _input(2, 6, 20), ""
    try:
        block = build(**OTHER_SIZES).eval()
        expected = task.solution(x, **_reading(block))
        output = block(x.clone())
        if not same(output, expected):
            seen = difference(output, expected)
        elif count(block) != 5000:
            seen = f"It has {count(block)} parameters; expected 5,000."
    except NotImplementedError:
        raise
    except Exception as error:
        seen = difference(error, x)
    if seen:
        sizes = ", ".join(f"{key}={n}" for key, n in OTHER_SIZES.items())
        raise Mistake(
            "fails-at-other-sizes",
            f"Your block is right with emb_dim=12, n_heads=3, "
            f"context_length=9, but not with {sizes}. {seen} Is a size "
            "written as a number?",
        )


# --- the parts -----------------------------------------------------------


def _with_right_parts(build):
    """A block whose parts are there, and are what they should be."""
    block = build().eval()
    _check_norms(block)
    check_names(
        block,
        {
            n: (f"{kind}-missing", f"its {kind}")
            for n, (kind, *_) in PARTS.items()
        },
    )
    for bias, att in (False, block.att), (True, build(qkv_bias=True).att):
        if count(att) in (588, 624):  # else it is wrong in another way
            _handed_on("attention", "qkv_bias", count(att) == 624, bias)
    length = getattr(getattr(block.att, "mask", None), "shape", [9])[-1]
    _handed_on("attention", "context_length", length, 9)
    _handed_on("attention", "n_heads", _heads(block.att) or 3, 3)
    for name in PARTS:
        _check_values(name, getattr(block, name))
    # From here on results so small that a norm's eps shows: without it,
    # n(2 * f(x)) would be n(f(x)).
    with torch.no_grad():
        for p in (*block.att.parameters(), *block.ff.parameters()):
            p *= 0.03
    return block


def _handed_on(where, key, seen, expected):
    if seen != expected:
        raise Mistake(
            f"{key.replace('_', '-')}-not-handed-on",
            f"With {key}={expected} in the configuration, {where} works with "
            f"{seen}. Look at what {where} is built with.",
        )


def _check_norms(block):
    """There is not just one norm, nor one set of parameters for both."""
    norms = [
        module
        for name, module in block.named_modules()
        if name and "norm" in (name + type(module).__name__).lower()
    ]
    if norms and all(map(count, norms)) and count(nn.ModuleList(norms)) == 24:
        raise Mistake(
            "one-norm",
            "The norms of your block have 24 parameters at width 12; expected "
            "24 more, in norm1 and norm2. The halves learn different numbers, "
            "so each needs a norm of its own.",
        )


def _heads(att):
    """With how many heads it works, or None where that can't be seen."""
    for heads in (3, 1, 2, 4, 6, 12):
        reference = loaded(MultiHeadAttention(12, 12, 9, 0.0, heads), att)
        if reference and same(run(att, X, X.shape), reference(X)):
            return heads
    return None


def _check_values(name, part):
    """A part gives what gptlib's gives with the same parameters."""
    kind, size, check = PARTS[name]
    right = count(part) == size
    if right and kind == "norm":
        right = is_layer_norm(part, X)
    elif right:
        reference = loaded(MADE[name](), part)
        output = run(part, X, X.shape)
        if kind == "attention" and not reference:
            check_behavior(part, X, output)
        # The exact GELU differs by less: that is another exercise's matter.
        right = not reference or same(output, reference(X), atol=5e-3)
    if right:
        return
    seen = "gives other values than it should with its parameters"
    if count(part) != size:
        seen = f"has {count(part)} parameters at width 12; expected {size}"
    more = f"; checks.{check} tells you more"
    if type(part).__module__.startswith("gptlib"):
        more = ""  # that check passes the class itself
    raise Mistake(
        f"{kind}-wrong",
        f"Your block's {name} {seen}. Look at what it is built with{more}.",
    )


# --- rates ---------------------------------------------------------------


def _seen_rates(block):
    """Drop rates of attention and shortcuts; None where no module tells."""
    attention = [
        module.p if isinstance(module, nn.Dropout) else module.dropout
        for module in block.att.modules()
        if isinstance(module, nn.Dropout | nn.MultiheadAttention)
    ]
    if not attention:
        block.att.train()
        attention = [0.0 if same(block.att(X), block.att(X)) else None]
    drop = getattr(block, "drop_shortcut", None)
    return attention[0], drop.p if isinstance(drop, nn.Dropout) else None


def _check_rate(build):
    """The one rate reaches attention and shortcuts, as far as modules tell."""
    where = "attention", "drop_shortcut"
    for part, seen in zip(where, _seen_rates(build(0.3, 0.3)), strict=True):
        _handed_on(part, "drop_rate", 0.3 if seen is None else seen, 0.3)


def _check_separate_rates(build):
    """Each rate reaches its own place, as far as modules tell."""
    cfg = _separate_rates(0.3, 0.6)
    seen = _seen_rates(build(0.3, 0.6))

    def agrees(solve):
        pairs = zip(seen, solve(cfg), strict=True)
        return all(rate in (None, wanted) for rate, wanted in pairs)

    if agrees(rates):
        return
    told = ["an unknown rate" if r is None else number(r) for r in seen]
    part = "shortcut" if seen[0] in (None, 0.3) else "attention"
    blame(
        RATES.explain(agrees),
        "With drop_rate_attn=0.3, drop_rate_shortcut=0.6 and "
        f"drop_rate_emb=0.15, attention drops with {told[0]} and "
        f"drop_shortcut with {told[1]}.",
        f"{part}-rate-wrong",
        "Expected 0.3 and 0.6.",
    )


def _check_rates_apart(build):
    """The rates by what they do, where no module tells them."""
    block = build(0.0, 1.0).train()
    seen = "With drop_rate_attn=0.0 and drop_rate_shortcut=1.0, in training:"
    output = block(X)
    if not same(output, X):
        raise Mistake(
            "shortcut-rate-wrong",
            f"{seen} {difference(output, X)} Which rate drops the branches?",
        )
    output, expected = block.att(X), block.att.eval()(X)
    if not same(output, expected):
        raise Mistake(
            "attention-rate-wrong",
            f"{seen} {difference(output, expected, 'attention')} Which rate "
            "does it drop with?",
        )


# --- dropout -------------------------------------------------------------


def _check_dropout(build, task):
    """It acts on the branches, in training only, and doubles what it keeps."""
    block = build(0.5, 0.5).eval()
    output, expected = block(X), task.solution(X, **_reading(block))
    if not same(output, expected):
        raise Mistake(
            "dropout-in-evaluation",
            "In evaluation mode, at a drop rate of 0.5, your block still "
            f"drops. {difference(output, expected)} nn.Dropout knows the "
            "mode; F.dropout has to be told.",
        )
    for rate in (1.0, 0.5):
        block = build(rate, rate).train()
        block.att.eval()  # its own dropout is another matter
        reading = _reading(block, rate)
        output, expected = _drawn(block), _drawn(task.solution, **reading)
        if same(output, expected):
            continue
        found = task.explain(partial(_gives, output, reading))
        if found or rate == 1.0:
            blame(
                found,
                f"At a drop rate of {rate} in training mode: "
                f"{difference(output, expected)}",
                "dropout-wrong",
                "Both branches should be zero, and nothing else.",
            )
        # Dropout of another make draws other numbers: how many does it keep?
        _check_share(build(0.5, 0.5).train(), "att", "ff")
        _check_share(build(0.5, 0.5).train(), "ff", "att")
    check_drawn_anew(build(0.5, 0.5), X)


def _drawn(function, **reading):
    """What it gives when dropout draws the same random numbers each time."""
    torch.manual_seed(1)
    return function(X.clone(), **reading)


def _gives(output, reading, solve):
    return same(output, _drawn(solve, **reading))


def _check_share(block, part, other):
    """Of the part's result half is kept, number by number, and doubled."""
    block.att.eval()
    called = []

    def give_back(norm, x, named, output):
        called.append(norm)
        return [*x, *named.values()][0]

    for norm in (block.norm1, block.norm2):
        norm.register_forward_hook(give_back, with_kwargs=True)
    for p in getattr(block, other).parameters():  # add nothing
        nn.init.zeros_(p)
    x = _input(16, 9, 12)
    factors = (block(x) - x) / getattr(block, part)(x)
    if len({*called}) < 2:
        return  # norms in code of its own can't be taken out
    kept = factors.abs() > 0.01
    share = 1 - kept.float().mean().item()
    axes = "in all texts", "in all tokens of a text", "in whole tokens"
    for axis, where in enumerate(axes):
        if 0 < share < 1 and (kept == kept.narrow(axis, 0, 1)).all():
            raise Mistake(
                "dropout-whole-tokens" if axis == 2 else "dropout-together",
                f"At a drop rate of 0.5 in training mode, of what {part} "
                f"gives numbers are dropped together {where}; expected each "
                "number by itself.",
            )
    check_dropped(f"what {part} gives", 0.5, share, factors[kept])
