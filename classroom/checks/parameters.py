"""Checks of notebook 07: counting parameters, and the depth that fits."""

import contextlib
import math
from functools import partial
from itertools import combinations_with_replacement, product
from numbers import Integral, Real
from unittest import mock

import torch
from torch.nn.modules import module as hooks

from classroom.checks.edits import Numbers, Task, known
from classroom.checks.functions import attempt, check_signature, judge
from classroom.checks.guard import exercise
from classroom.checks.result import Mistake
from gptlib import memory
from gptlib.config import (
    GPT2_CONFIGS,
    GPT_CONFIG_124M,
    PUBLISHED,
    SMALLEST,
)

KEYS = ("vocab_size", "context_length", "emb_dim", "n_heads", "n_layers",
        "qkv_bias", "drop_rate")  # fmt: skip
GPT2 = [dict(cfg) for cfg in PUBLISHED.values()]
SMALL, XL = (
    dict(PUBLISHED[name]) for name in ("gpt2-small (124M)", "gpt2-xl (1558M)")
)
LARGEST_REAL_TABLE = 10_000_000  # numbers; the tiny models stay far below


# --- the solutions, and what mistakes make of them -----------------------


def parameters(cfg, tied):
    V, C, d = cfg["vocab_size"], cfg["context_length"], cfg["emb_dim"]
    qkv = 3 * d * d + (3 * d if cfg["qkv_bias"] else 0)
    output = d * d + d
    hidden = 4 * d
    widen = d * hidden + hidden
    narrow = hidden * d + d
    norms = 2 * 2 * d
    block = qkv + output + widen + narrow + norms
    head = 0 if tied else V * d
    total = V * d + C * d + cfg["n_layers"] * block + 2 * d + head
    return total


def most_blocks(cfg, limit_bytes, per_parameter):
    V, C, d = cfg["vocab_size"], cfg["context_length"], cfg["emb_dim"]
    qkv_bias = 3 * d if cfg["qkv_bias"] else 0
    vectors = 10 * d + qkv_bias
    block = 12 * d * d + vectors
    head = V * d
    outside = V * d + C * d + 2 * d + head
    room = limit_bytes // per_parameter - outside
    blocks = room // block
    return max(0, blocks)


H, L = 'cfg["n_heads"]', 'cfg["n_layers"]'
QKV_BIAS = '(3 * d if cfg["qkv_bias"] else 0)'
NO_QKV_BIAS = {f" + {QKV_BIAS}": ""}
NO_OUTPUT_BIAS = {"output = d * d + d": "output = d * d"}
NO_HIDDEN_BIASES = {" + hidden\n": "\n", "hidden * d + d": "hidden * d"}
NO_BIASES = NO_OUTPUT_BIAS | NO_HIDDEN_BIASES
NO_SHIFTS = {"2 * 2 * d": "2 * d", "2 * d + head": "d + head"}
NO_FINAL_NORM = {"2 * d + head": "head"}
TABLES_ONLY = NO_BIASES | NO_QKV_BIAS | {" + norms": ""} | NO_FINAL_NORM
CONFIG_IGNORED = known(
    "config-ignored",
    "Other configurations give the same: does the result depend on `cfg`?",
    {"V, C, d = ": "cfg = SMALL\nV, C, d = "})  # fmt: skip
# Some mistakes can't be told apart by number: then the sentence names both.
COUNT_MISTAKES = [
    known("bytes-returned",
          "This fits a number of bytes. How many parameters are there?",
          *({"return total": f"return {n} * total"} for n in (4, 2, 8, 16))),
    CONFIG_IGNORED,
    known("rule-only",
          "This fits the rule, 12 × n_layers × emb_dim² and the tables around "
          "the blocks. The exact count is larger: which tables of one block "
          "have a single axis, and what else does the rule leave out?",
          TABLES_ONLY, TABLES_ONLY | {"C * d + ": ""}),
    known("tied-subtracted-twice",
          "With tied=True one vocab_size × emb_dim table is left, not none.",
          {"0 if tied": "-V * d if tied"}),
    known("tied-ignored",
          "tied=True and tied=False give one number: is `tied` used?",
          {"0 if tied else ": ""}),
    known("always-tied", "With tied=False, the head has a table of its own.",
          {"if tied": "if True"}),
    known("tied-inverted", "tied=True and tied=False have changed places.",
          {"if tied": "if not tied"}),
    known("tied-added", "tied=True gives more; sharing a table saves one.",
          {"0 if tied": "2 * V * d if tied"}),
    known("token-table-forgotten",
          "A table of vocab_size × emb_dim is missing, tied or not.",
          {"V * d + ": ""}),
    known("tied-wrong-table",
          "Tying keeps the position table: which one did you take away?",
          {"0 if tied": "V * d - C * d if tied"},
          {"0 if tied": "-C * d if tied"}),
    known("mask-counted",
          "The surplus grows with context_length²: masks are no parameters.",
          *({line: f"{line}{mask} + "} for mask in ("C * C", f"{H} * C * C")
            for line in ("norms = ", "total = ")),
          *({"norms = ": f"norms = C * (C {x} 1) // 2 + "} for x in "-+")),
    known("position-table-forgotten",
          "context_length × emb_dim numbers are missing: which table is that?",
          {"C * d + ": ""}),
    known("position-table-in-every-block",
          "The position table stands before the blocks, once, not in each.",
          {"C * d": f"{L} * C * d"}),
    known("biases-forgotten",
          "A linear layer has one bias for each output; yours lack them.",
          *(NO_BIASES | qkv | shifts for qkv in ({}, NO_QKV_BIAS)
            for shifts in ({}, NO_SHIFTS))),
    known("feed-forward-bias-forgotten",
          "Each block lacks 5 × emb_dim numbers, as many as the two biases of "
          "feed-forward have.",
          NO_HIDDEN_BIASES),
    known("output-bias-forgotten",
          "Each block lacks emb_dim numbers: one bias (of attention's output "
          "layer, of the second feed-forward layer), or half a norm.",
          NO_OUTPUT_BIAS),
    known("qkv-bias-always",
          "With qkv_bias=False, query, key and value have no bias.",
          {'if cfg["qkv_bias"]': "if True"}),
    known("qkv-bias-never",
          "With qkv_bias=True, three layers of each block get a bias.",
          NO_QKV_BIAS),
    known("qkv-bias-inverted", "qkv_bias=True and False have changed places.",
          {'if cfg["qkv_bias"]': 'if not cfg["qkv_bias"]'}),
    known("qkv-bias-once",
          "With qkv_bias=True, a block gets three more biases, not one.",
          {"3 * d if": "d if"}),
    known("qkv-bias-one-block",
          "With qkv_bias=True, every block gets more biases, not one alone.",
          NO_QKV_BIAS | {"total = ": f"total = {QKV_BIAS} + "}),
    known("qkv-bias-wrong-size",
          "With qkv_bias=True, three layers get one number for each output.",
          *({"3 * d if": f"{size} if"}
            for size in ("4 * d", "3", f"3 * (d // {H})", f"3 * d * {H}",
                         "3 * d * d"))),
    known("output-bias-only-with-qkv",
          "Whatever `qkv_bias` says, attention's output layer has a bias.",
          {"output = d * d + d": 'output = d * d + d * cfg["qkv_bias"]'}),
    known("norms-or-bias-forgotten",
          "Each block lacks 4 × emb_dim numbers: either its two norms (a "
          "scale and a shift each) or the first feed-forward layer's bias.",
          {" + norms": ""}),
    known("norms-forgotten",
          "The norms are missing, two in each block and one at the end.",
          {" + norms": ""} | NO_FINAL_NORM),
    known("final-norm-forgotten",
          "2 × emb_dim numbers are missing: what follows the last block?",
          NO_FINAL_NORM),
    known("final-norm-in-every-block",
          "Blocks have too many vectors of emb_dim numbers, as with a third "
          "norm: the final one stands once, after the last block.",
          {"2 * 2": "3 * 2"}, {"2 * 2": "3 * 2"} | NO_FINAL_NORM),
    known("norm-shift-forgotten",
          "A norm has two vectors of emb_dim numbers; you count one of them.",
          NO_SHIFTS, {"2 * d + head": "d + head"}),
    known("one-norm-per-block",
          "Each block lacks 2 × emb_dim numbers: one norm, or two biases.",
          {"2 * 2": "2"}),
    known("head-bias-counted",
          "There are vocab_size numbers too many: the head has no bias.",
          {"total = ": "total = V + "}, {"else V * d": "else V * d + V"},
          {"0 if tied": "V if tied"}),
    known("one-block-only",
          "All blocks but one are missing: which entry says how many?",
          {f"{L} * block": "block"}),
    known("blocks-forgotten", "All transformer blocks are missing.",
          {f"{L} * block + ": ""}),
    known("block-count-off-by-one",
          "The difference is exactly one block: how often is it counted?",
          {L: f"({L} + 1)"}, {L: f"({L} - 1)"}),
    known("heads-for-layers", "This fits n_heads blocks, not n_layers.",
          {L: H}),
    known("heads-multiplied",
          "Heads share the emb_dim columns of each table; they add nothing.",
          {"qkv + output": f"{H} * (qkv + output)"}, {"= qkv": f"= {H} * qkv"},
          {"3 * d * d": f"3 * {H} * d * d"}, {"+ output": f"+ {H} * output"},
          {"3 * d * d": f"3 * {H} * d * d", "= d * d": f"= {H} * d * d"},
          {"3 * d * d": f"3 * {H} * d * d", "+ output": f"+ {H} * output"},
          {"= d * d": f"= {H} * d * d"}),
    known("one-head-only",
          "Tables are too narrow: all heads together have emb_dim columns.",
          *({"3 * d * d": f"3 * d * (d // {H})"} | bias | output
            for bias in ({}, {"3 * d if": f"3 * (d // {H}) if"})
            for output in ({}, {"= d * d": f"= d * (d // {H})"}))),
    known("qkv-once",
          "Each block lacks two square tables: query, key and value have one "
          "each.",
          {"3 * d * d": "d * d"}, {"3 * d * d": "d * d", "3 * d if": "d if"}),
    known("output-layer-forgotten",
          "Each block lacks emb_dim² numbers, a square table: how many has "
          "attention, the layer after the heads included?",
          {" + output": ""}, {"output = d * d + d": "output = d"}),
    known("attention-forgotten", "The attention layers are missing.",
          {"qkv + output + ": ""}),
    known("feed-forward-width",
          "In both feed-forward tables, one side is 4 × emb_dim long.",
          *({"hidden = 4 * d": f"hidden = {width}"}
            for width in ("d", "2 * d", "3 * d", "5 * d", "6 * d", "8 * d",
                          "3072", "4"))),
    known("feed-forward-one-layer",
          "Each block lacks a table of 4 × emb_dim²: the feed-forward network "
          "has two.",
          {" + widen": ""}, {" + narrow": ""}, {"hidden * d + d": "d"}),
    known("feed-forward-three-layers",
          "The feed-forward network has two tables; you count three.",
          {"+ widen": "+ 2 * widen"}, {"+ narrow": "+ 2 * narrow"},
          {"hidden * d + d": "2 * hidden * d + d"}),
    known("feed-forward-forgotten", "The feed-forward layers are missing.",
          {" + widen + narrow": ""},
          {"d * hidden + hidden": "hidden", "hidden * d + d": "d"}),
    known("size-hardcoded",
          "One size keeps GPT-2 small's value: is a number written out?",
          {'cfg["vocab_size"]': "50257"}, {'cfg["context_length"]': "1024"},
          {'cfg["emb_dim"]': "768"}, {L: "12"}),
    known("float-returned",
          "A count is a whole number (int): is there a `/` or a tensor?",
          {"return total": "return float(total)"}),
]  # fmt: skip
QUOTIENT = "limit_bytes // per_parameter"
DEPTH_MISTAKES = [
    known("limit-not-reached", "A model of exactly the limit fits.",
          {"= limit_bytes //": "= (limit_bytes - 1) //"}),
    known("tied-counted", "Embedding and head have a table each.",
          {" + head": ""}),
    known("tables-forgotten",
          "This fits the blocks alone; what stands around them weighs, too.",
          {" - outside": ""}),
    known("tables-in-every-block",
          "This fits tables that come again with each block; they are there "
          "once.",
          {"blocks = room // block":
           f"blocks = {QUOTIENT} // (block + outside)"}),
    known("positions-forgotten",
          "context_length × emb_dim numbers outside the blocks are left out.",
          {"C * d + ": ""}),
    known("final-norm-forgotten",
          "2 × emb_dim numbers outside the blocks are left out.",
          {"2 * d + head": "head"}),
    known("vectors-forgotten",
          "12 × emb_dim² is a block's tables. At the boundary, the biases and "
          "norms count as well.",
          {"+ vectors": ""}),
    known("rule-only",
          "This fits the rule, 12 × n_layers × emb_dim² and two tables. At "
          "the boundary, what the rule leaves out counts as well.",
          {"+ vectors": "", "C * d + ": "", "2 * d + head": "head"}),
    known("qkv-bias-always",
          "With qkv_bias=False, blocks have no query, key and value biases.",
          {'3 * d if cfg["qkv_bias"] else 0': "3 * d"}),
    known("masks-counted",
          "Your blocks are too large by context_length² numbers each: masks "
          "are no parameters.",
          {"vectors = 10 * d": "vectors = C * C + 10 * d"}),
    known("qkv-bias-ignored",
          "With qkv_bias=True, each block is 3 × emb_dim numbers larger.",
          {" + qkv_bias": ""}),
    known("per-parameter-ignored",
          "This fits a fixed number of bytes for each parameter: is "
          "`per_parameter` used?",
          *({QUOTIENT: f"limit_bytes // {n}"} for n in (16, 4, 2))),
    known("limit-is-a-count",
          "This takes the limit for a number of parameters; it is in bytes.",
          {QUOTIENT: "limit_bytes"}),
    known("mib-against-mb",
          "One side is in steps of 1,000 and the other in steps of 1,024.",
          *({QUOTIENT: f"int({QUOTIENT} * 1.024 ** {n})"}
            for n in (2, 3, -2, -3))),
    known("proportional",
          "Not everything grows with the number of blocks: what stays?",
          {"blocks = room // block": 'L = cfg["n_layers"]\n'
           f"blocks = L * ({QUOTIENT}) // (outside + L * block)"}),
    known("below-zero", "Where not even one block fits, the answer is 0.",
          {"max(0, blocks)": "blocks"}),
    known("one-at-least", "Where not even one block fits, the answer is 0.",
          {"max(0, blocks)": "max(1, blocks)"}),
    known("rounded-up",
          "The last block does not fit: does your division round up?",
          {"room // block": "-(-room // block)"},
          {"room // block": "round(room / block)"}),
    known("one-block-too-many",
          "The last block does not fit: where does your count begin, and "
          "does it stop one step late?",
          {"room // block": "room // block + 1"},
          {"max(0, blocks)": "max(0, blocks) + 1"}),
    known("one-block-too-few",
          "One more block would fit: does your count begin at 0 or at 1?",
          {"room // block": "room // block - 1"}),
    known("one-block-refused",
          "A limit that holds one block and no more has the answer 1.",
          {"max(0, blocks)": "max(0, blocks) if blocks > 1 else 0"}),
    known("own-depth-is-the-end",
          "This stops at cfg's own n_layers; the answer may be deeper.",
          {"max(0, blocks)": 'max(0, min(blocks, cfg["n_layers"]))'}),
    known("capped",
          "This fits a largest depth of your own: where does a range end?",
          *({"max(0, blocks)": f"max(0, min(blocks, {n}))"}
            for n in (11, 12, 23, 24, 35, 36, 47, 48, 49))),
    CONFIG_IGNORED,
]  # fmt: skip


COUNT = Task(parameters, COUNT_MISTAKES, lambda solve: solve)
DEPTH = Numbers(most_blocks, DEPTH_MISTAKES, lambda solve: solve)


# --- counting --------------------------------------------------------------

TIED = (False, True)
# One has the smallest numbers that there are, an odd width, and fewer tokens
# than positions.
TINY = list(product([
    dict(zip(KEYS, row, strict=True))
    for row in [(101, 16, 24, 3, 2, False, 0.1), (57, 40, 12, 4, 3, True, 0.2),
                (211, 7, 30, 5, 6, True, 0.1), (67, 11, 20, 2, 7, False, 0.0),
                (23, 50, 9, 1, 1, True, 0.1)]
], TIED))  # fmt: skip
GPT3 = SMALL | {
    "context_length": 2048, "emb_dim": 12288, "n_heads": 96, "n_layers": 96,
    "qkv_bias": True,
}  # fmt: skip
BIASED = [SMALL | {"qkv_bias": True}, XL | {"qkv_bias": True}, GPT3]
PUBLISHED_CASES = list(product([*GPT2, *BIASED], TIED))
# What makes a result useless, and which counts are off if no known mistake
# explains them: name, words, is it so?
COUNT_FAULTS = [
    ("returns-none", "Does every path end in a return?",
     lambda count: count is None),
    ("text-returned", "That is text; expected a whole number (int).",
     lambda count: isinstance(count, str)),
    ("wrong-type", "Expected one whole number (int).",
     lambda count: not isinstance(count, Real)),
]  # fmt: skip
PARTLY_OFF = [
    ("tied-wrong-amount",
     "Only counts with tied=True are off: what does a tied head save?",
     lambda cfg, tied: tied),
    ("untied-wrong-amount",
     "Only counts with tied=False are off: what does an own head add?",
     lambda cfg, tied: not tied),
    ("qkv-bias-wrong-size",
     "Only counts with qkv_bias=True are off: which layers get a bias then?",
     lambda cfg, tied: cfg["qkv_bias"]),
    ("qkv-bias-wrong-size",
     "Only counts with qkv_bias=False are off: what is left out then?",
     lambda cfg, tied: not cfg["qkv_bias"]),
]  # fmt: skip
# What may be too much or too little in every count: 1, one entry, or two or
# three multiplied.
TERMS = [
    term
    for n in range(4)
    for term in combinations_with_replacement(KEYS[:5], n)
]
NOT_TINY = "wrong-count", "Tiny models are right: what ignores `cfg`?"
CONFIG_CHANGED = (
    "config-changed",
    "Your code changes `cfg`: read its entries and leave them be.",
)
UNITS = [
    ("mib-returned", "1,024", 1024),
    ("mb-returned", "1,000", 1000),
]


@exercise(
    "List the tables of the model from the input to the output and write "
    "down rows × columns for each; the section `What fills a block` prints "
    "those of one block.",
    "Per block: four square tables in attention, two tables of "
    "emb_dim × 4 emb_dim in the feed-forward network, biases (three more if "
    "qkv_bias), and two norms. Outside: two embeddings, the final norm, and "
    "the head unless it is tied.",
    "With d = cfg['emb_dim']: one block without its query, key and value "
    "biases is 12·d² + 10·d; add 3·d if cfg['qkv_bias'], multiply by "
    "cfg['n_layers'], then add what stands outside the blocks.",
    task=COUNT,
)
def parameter_count(fn):
    """Counts for any configuration, tied or not, as a whole number."""
    check_signature(fn, SMALL, False, call="my_count_parameters(cfg, tied)")
    built = []
    count = partial(_count, fn, built)
    counts = [_result(attempt(count, *case)) for case in TINY]
    _blame_term(counts)
    outcomes = judge(count, COUNT, TINY, _seen, partial(_unknown, fn, counts))
    every = TINY + PUBLISHED_CASES
    outcomes += judge(count, COUNT, every, _seen, lambda *_: NOT_TINY)
    if any(outcome.changed for outcome in outcomes):
        raise Mistake(*CONFIG_CHANGED)
    _blame_model(built)
    _blame_formula(fn)
    return (
        "all sizes of GPT-2, GPT-3's and five tiny configurations are right, "
        "tied and not, with and without query, key and value biases. GPT-2 XL "
        "as it was published, tied and with these biases, has 1,557,611,200: "
        "that is where its name, 1558M, comes from."
    )


def _blame_model(built):
    """Raise `Mistake` if right numbers were read off a model."""
    if built:
        raise Mistake(
            "model-built",
            f"All numbers are right, and your code makes {len(built):,} "
            "tables of PyTorch to get them. Asked is arithmetic with the "
            "configuration's entries alone, no layer and no model.",
        )


def _blame_formula(fn):
    """Raise `Mistake` if the numbers come from gptlib's own formula, which
    looks at the configuration first."""
    with mock.patch.object(memory, "check_config") as looked_at:
        fn(dict(SMALL), False)
    if looked_at.called:
        raise Mistake(
            "ready-made",
            "All numbers are right, and gptlib's own parameter_formula gives "
            "them. Asked is what stands in it: write the arithmetic out.",
        )


def _count(fn, built, cfg, tied):
    """The learner's count, as int or float."""

    def number():
        count = fn(cfg, tied)
        tensor = isinstance(count, torch.Tensor) and count.numel() == 1
        return float(count) if tensor else count

    with _as_published():
        count = _without_memory(built, number)
    _blame_fault(count, COUNT_FAULTS)
    return int(count) if isinstance(count, Integral) else float(count)


def _result(outcome):
    if outcome.error:
        raise outcome.error
    return outcome.result


def _blame_term(counts):
    """Raise `Mistake` if all counts are off by one term, and no single known
    mistake is: two together that add up to it would be a guess."""
    rights = [parameters(*case) for case in TINY]
    edits = (edit for m in COUNT_MISTAKES for edit in m.edits)
    known_ones = map(COUNT.edited, edits)
    for term in TERMS:
        factors = {
            (count - right) / math.prod(cfg[key] for key in term)
            for (cfg, _), count, right in zip(
                TINY, counts, rights, strict=True
            )
        }
        factor = factors.pop()
        if factors or not factor or factor % 1:
            continue
        if any([f(*case) for case in TINY] == counts for f in known_ones):
            return
        raise Mistake(
            "wrong-count",
            f"You count {counts[0]:,} for the first configuration tried; "
            f"expected {rights[0]:,}. In all of them, "
            f"{' × '.join([f'{abs(factor):g}', *term])} are "
            f"too {'many' if factor > 0 else 'few'}. Compare part by part: "
            "`parameters_by_part(cfg)`.",
        )


def _blame_fault(result, faults):
    for name, says, wrong in faults:
        if wrong(result):
            shown = f"{str(result)[:200]} ({type(result).__name__})"
            raise Mistake(name, f"Your result is {shown}. {says}")


def _seen(case, outcome, right):
    (cfg, tied), count = case, outcome.result
    entries = ", ".join(f"{k}={v}" for k, v in cfg.items() if k != "drop_rate")
    number = f"{count:,}" if count % 1 == 0 else f"{count:,.6g}"
    told = f"With {entries} and tied={tied}, you count {number}"
    return f"{told}; expected {right.result:,}."


def _unknown(fn, counts, case, outcome, right):
    """What can be said of a count that no known mistake explains."""
    if outcome.changed:
        return CONFIG_CHANGED
    if abs(outcome.result) < right.result / 1000:
        _check_unit(fn)
    if len(set(counts)) == 1:
        return CONFIG_IGNORED[:2]
    pairs = zip(TINY, counts, strict=True)
    wrong = [case for case, number in pairs if number != parameters(*case)]
    for name, says, affected in PARTLY_OFF:
        if wrong == [case for case in TINY if affected(*case)]:
            return name, says
    return "wrong-count", (
        f"{len(wrong)} of {len(TINY)} tiny cases are off. Compare part by "
        "part: `parameters_by_part(cfg)`."
    )


def _check_unit(fn):
    """Megabytes, rounded in some way: here of a model that has many."""
    right = parameters(SMALL, False)
    number = float(_count(fn, [], dict(SMALL), False))
    for name, says, step in UNITS:
        sizes = [right * n / step**power for n in (1, 4) for power in (2, 3)]
        if any(math.isclose(number, size, rel_tol=0.02) for size in sizes):
            raise Mistake(
                name,
                f"For GPT-2 small, you count {number:,.6g}; expected "
                f"{right:,}. Yours fits a number divided by {says} × {says} "
                "or more, as for a size in memory. Asked is the whole count.",
            )


def _without_memory(built, call, *args):
    """Call with models on the meta device; note what is built.

    Code that uses tensors for its arithmetic needs their values: it is
    called again without that, and stopped where it fills a large table.
    """

    def note(module, name, parameter):
        built.append(name)
        if len(built) > PATIENCE:
            raise Mistake(
                "too-many-models",
                f"For the limits of this check your code has made {PATIENCE:,}"
                " tables by now, and was stopped. Each further block costs "
                "the same: how many models do you have to count?",
            )
        real = parameter is not None and not parameter.is_meta
        if real and parameter.numel() > LARGEST_REAL_TABLE:
            raise Mistake(
                "real-memory",
                f"Your code fills a table of {parameter.numel():,} numbers "
                f"for `{name}` in real memory. All of XL would take 6.6 GB: "
                "use the formulas, or `torch.device('meta')`.",
            )

    hook = hooks.register_module_parameter_registration_hook(note)
    try:
        with memory.shapes_only():
            return call(*args)
    except (RuntimeError, TypeError):  # what asking for a value raises
        return call(*args)
    finally:
        hook.remove()


@contextlib.contextmanager
def _as_published():
    """The public configurations hold what is published while a learner's
    code runs, which must not change them; then what they held before."""
    family = {name: GPT2_CONFIGS.get(name, {}) for name in PUBLISHED}
    wanted = [
        (GPT_CONFIG_124M, dict(SMALLEST)),
        *zip(family.values(), map(dict, PUBLISHED.values()), strict=True),
        (GPT2_CONFIGS, family),
    ]
    found = [(cfg, dict(cfg)) for cfg, _ in wanted]
    try:
        for cfg, entries in wanted:  # the same dict: notebooks hold on to it
            cfg.clear()
            cfg.update(entries)
        yield
        if any(cfg != entries for cfg, entries in wanted):
            raise Mistake(
                "family-changed",
                "After a call, GPT2_CONFIGS or GPT_CONFIG_124M holds other "
                "entries (put back by now). Later cells read it: make a new "
                "dict.",
            )
    finally:
        for cfg, entries in found:
            cfg.clear()
            cfg.update(entries)


# --- the depth that fits ---------------------------------------------------


def _need(cfg, n_layers, per_parameter):
    """Bytes that a model of this depth takes, with two tables."""
    return per_parameter * parameters(cfg | {"n_layers": n_layers}, False)


def _limits(cfg, n_layers, per_parameter):
    """To the byte, and one byte less."""
    need = _need(cfg, n_layers, per_parameter)
    return [(cfg, need - less, per_parameter) for less in (0, 1)]


NARROW, BIASED_CFG, DEEP, ODD, LAST = (cfg for cfg, tied in TINY if not tied)
# Small depths first: an answer may lay out a model for each.
DEPTH_CASES = [
    *_limits(NARROW, 5, 16),
    *_limits(BIASED_CFG, 9, 4),
    *_limits(ODD, 12, 2),
    *_limits(DEEP, 1, 8),
    (NARROW, 0, 16), (DEEP, 1000, 4),
    *((cfg, _need(cfg, n, k) + parameters(cfg, True), k)
      for cfg, n, k in [(LAST, 2, 16), (BIASED_CFG, 3, 8), (ODD, 10, 4)]),
    (SMALL, 3 * 10**9, 16), (XL, 8 * 10**9, 16), (XL, 8 * 1024**3, 16),
    (GPT2[1], 10**9, 4), (GPT2[2], 2 * 10**9, 4),
    (NARROW, _need(NARROW, 50, 4) + 1000, 4),
]  # fmt: skip
# For answers that do not lay out a model for each depth.
FAR = NARROW, _need(NARROW, 257, 4), 4
CAPPED = (
    "capped",
    "Up to 50 blocks you are right, and not far above: is there a range that "
    "ends, or a number that rounds?",
)
MANY, PATIENCE = 10_000, 40_000  # tables that an answer may make for them all
DEPTH_FAULTS = [
    ("returns-none", "Does every path end in a return?",
     lambda depth: depth is None),
    ("config-returned", "Expected n_layers alone, a whole number.",
     lambda depth: isinstance(depth, dict)),
    ("not-whole", "A depth is a whole number (int): is there a `/`?",
     lambda depth: not isinstance(depth, Integral)
     or isinstance(depth, bool)),
]  # fmt: skip


@exercise(
    "Every further block costs the same. What costs something even without "
    "any block?",
    "Count the model with one block and with two: the difference is a block. "
    "Then see how many whole blocks go into the limit beside the rest.",
    "With `one` and `per_block` counted like that: after the first block, "
    "limit_bytes // per_parameter - one numbers are left, for `//` per_block "
    "more blocks; `max` with 0 covers limits that are too small.",
    task=DEPTH,
)
def deepest(fn):
    """The most blocks whose parameters stay within a limit of bytes."""
    check_signature(
        fn, SMALL, 10**9, 16,
        call="my_deepest(cfg, limit_bytes, per_parameter)",
    )  # fmt: skip
    depth = partial(_depth, fn, built := [])
    _result(attempt(depth, *DEPTH_CASES[0]))  # does it run at all?
    outcomes = judge(depth, DEPTH, DEPTH_CASES, _seen_depth, _unknown_depth)
    if len(built) < MANY:
        judge(depth, DEPTH, [FAR], _seen_depth, lambda *_: CAPPED)
    if any(outcome.changed for outcome in outcomes):
        raise Mistake(*CONFIG_CHANGED)
    return (
        "right at the boundary, where one byte decides about a block, for "
        "tiny models and GPT-2's sizes. Training XL's width in 8 GB leaves 10 "
        "of its 48 blocks, in 8 GiB 12: which gigabyte it is decides about "
        "two blocks."
    )


def _depth(fn, built, *case):
    """The learner's number of blocks."""
    with _as_published():
        try:
            depth = _without_memory(built, fn, *case)
        except ValueError as error:
            _blame_refusal(case, f"raises {error!r}")
            raise
    if depth is None:
        _blame_refusal(case, "returns None")
    _blame_fault(depth, DEPTH_FAULTS)
    return int(depth)


def _blame_refusal(case, what):
    """Raise `Mistake` if it is 0 that should have come."""
    cfg, limit, each = case
    if most_blocks(*case) == 0:
        raise Mistake(
            "not-zero",
            f"With a limit of {limit:,} bytes, not even one block fits, which "
            f"takes {_need(cfg, 1, each):,}. Expected 0; your code {what}.",
        )


def _seen_depth(case, outcome, right):
    (cfg, limit, each), most = case, right.result
    sizes = ", ".join(f"{key}={cfg[key]}" for key in KEYS[:3] + KEYS[5:6])
    took = (
        f"{most} take {_need(cfg, most, each):,}, one more "
        if most
        else "one block "
    )
    return (
        f"With {sizes}, a limit of {limit:,} bytes and {each} bytes for each "
        f"parameter, you get {outcome.result}; expected {most} ({took}"
        f"{_need(cfg, most + 1, each):,})."
    )


def _unknown_depth(case, outcome, right):
    if outcome.changed:
        return CONFIG_CHANGED
    cfg, limit, each = case
    if outcome.result == right.result - 1 == most_blocks(cfg, limit - 1, each):
        return "too-few-blocks", (
            "This limit is met to the byte. What makes yours a little too "
            "large, or is there a number with a decimal point? Those round."
        )
    if outcome.result < right.result:
        return "too-few-blocks", "More would fit: what is too much?"
    if right.result == 0:
        return "too-many-blocks", (
            "Not even one block fits. What does your rounding make of a "
            "negative number?"
        )
    return "too-many-blocks", "They do not fit: what is left out?"
