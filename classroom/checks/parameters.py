"""Checks of notebook 07: counting parameters, and making GPT-2 XL fit."""

import contextlib
import math
from functools import partial
from itertools import combinations_with_replacement, product
from numbers import Integral, Real

import torch
from torch.nn.modules import module as hooks

from classroom.checks.edits import Numbers, Task, known
from classroom.checks.functions import attempt, check_signature, judge
from classroom.checks.guard import exercise
from classroom.checks.result import Mistake
from gptlib.config import (
    GPT2_CONFIGS,
    GPT_CONFIG_124M,
    PUBLISHED,
    SMALLEST,
)
from gptlib.memory import shapes_only

KEYS = ("vocab_size", "context_length", "emb_dim", "n_heads", "n_layers",
        "qkv_bias", "drop_rate")  # fmt: skip
GPT2 = [dict(cfg) for cfg in PUBLISHED.values()]
SMALL, *_, XL = GPT2
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


def most_blocks(limit_bytes):
    outside = parameters(XL | {"n_layers": 0}, False)
    block = parameters(XL | {"n_layers": 1}, False) - outside
    room = limit_bytes // 16
    blocks = (room - outside) // block
    return int(max(0, min(blocks, 48)))


H, L = 'cfg["n_heads"]', 'cfg["n_layers"]'
QKV_BIAS = '(3 * d if cfg["qkv_bias"] else 0)'
NO_QKV_BIAS = {f" + {QKV_BIAS}": ""}
NO_OUTPUT_BIAS = {"output = d * d + d": "output = d * d"}
NO_HIDDEN_BIASES = {" + hidden\n": "\n", "hidden * d + d": "hidden * d"}
NO_BIASES = NO_OUTPUT_BIAS | NO_HIDDEN_BIASES
NO_SHIFTS = {"2 * 2 * d": "2 * d", "2 * d + head": "d + head"}
NO_FINAL_NORM = {"2 * d + head": "head"}
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
FIT_MISTAKES = [
    known("limit-not-reached", "A model of exactly the limit fits.",
          {"limit_bytes //": "(limit_bytes - 1) //"}),
    known("tied-counted", "Embedding and head have a table each.",
          {"- outside) /": "- outside + 50257 * 1600) /"}),
    known("weights-only",
          "The weights alone would fit; training needs gradients and AdamW's "
          "two averages as well, 16 bytes per parameter in all.",
          {"// 16": "// 4"}, {"// 16": "// 2"}),
    known("optimizer-forgotten",
          "This fits weights and gradients; AdamW keeps two numbers more.",
          {"// 16": "// 8"}, {"// 16": "// 12"}),
    known("weights-counted-twice",
          "This fits more than 16 bytes for each parameter.",
          *({"// 16": f"// {n}"} for n in (20, 24, 32, 64))),
    known("mib-against-mb",
          "One side is in steps of 1,000 and the other in steps of 1,024.",
          *({"// 16": f"/ 16 * 1.024 ** {n}"} for n in (2, 3, -2, -3))),
    known("tables-forgotten",
          "This fits the blocks alone; what stands around them weighs, too.",
          {"(room - outside)": "room"}),
    known("head-forgotten",
          "Part of what stands outside the blocks is missing.",
          {"- outside) /": "- outside + 1024 * 1600) /"},
          {"- outside) /": "- outside + (1024 + 50257) * 1600) /"}),
    known("proportional",
          "Not everything shrinks with the number of blocks: what stays?",
          {"(room - outside) // block":
           "48 * room // (outside + 48 * block)"}),
    known("rounded-up",
          "The last block does not fit: does your division round up?",
          {"// block": "// block + 1"},
          {"(room - outside) // block": "round((room - outside) / block)"},
          {"(room - outside) // block": "-((outside - room) // block)"}),
    known("one-block-too-few",
          "One more block would fit: does your count begin at 0 or at 1?",
          {"blocks, 48": "blocks - 1, 48"}, {"blocks, 48": "blocks - 1, 47"}),
    known("one-block-refused",
          "A limit that holds one block and no more is refused; an error is "
          "right only if not even one fits.",
          {"max(0, min(blocks, 48))": "min(blocks, 48) * (blocks > 1)"}),
    known("cap-too-low",
          "This fits an upper end of 47 blocks; XL has 48. Where does a range "
          "end?",
          {"blocks, 48": "blocks, 47"}),
    known("fewest-blocks", "Asked is the largest number that fits.",
          {"48": "1"}),
    known("not-capped", "XL has 48 blocks: the answer never has more.",
          {"min(blocks, 48)": "blocks"}),
]  # fmt: skip


def _fit_answer(solve):
    def my_fit_xl(limit_bytes):
        n_layers = solve(limit_bytes)
        if n_layers < 1:
            raise ValueError("Not even one block fits.")
        return XL | {"n_layers": n_layers}

    return my_fit_xl


COUNT = Task(parameters, COUNT_MISTAKES, lambda solve: solve)
FIT = Numbers(most_blocks, FIT_MISTAKES, _fit_answer)


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
PUBLISHED_CASES = list(product([*GPT2, SMALL | {"qkv_bias": True}], TIED))
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
    ("mib-returned", "divided in steps of 1,024 (MiB, GiB)", 1024),
    ("mb-returned", "divided in steps of 1,000 (MB, GB)", 1000),
]


@exercise(
    "List the tables of the model from the input to the output and write "
    "down rows × columns for each; the section `Where the parameters sit` "
    "prints those of one block.",
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
    praise = (
        "all four sizes of GPT-2 and five tiny configurations are right, "
        "tied and not, with and without query, key and value biases. For "
        "GPT-2 small: 163,009,536, or 124,412,160 when tied."
    )
    if built:
        praise += (
            " Your answer builds the model to count it. Try it with formulas "
            "alone, too: outside the meta device, XL would take 6.6 GB."
        )
    return praise


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
                f"{right:,}. Yours is {says}: that is a size in memory.",
            )


def _without_memory(built, call, *args):
    """Call with models on the meta device; note what is built.

    Code that uses tensors for its arithmetic needs their values: it is
    called again without that, and stopped where it fills a large table.
    """

    def note(module, name, parameter):
        built.append(name)
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
        with shapes_only():
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


# --- making XL fit ---------------------------------------------------------


def _need(n_layers):
    """Bytes that training XL with this many blocks takes."""
    return 16 * parameters(XL | {"n_layers": n_layers}, False)


# An answer may lay out 48 models for each limit, which is slow and right: it
# gets the first limits, one more if it is wrong, to tell how, and the others
# while it has made so few tensors.
FIRST, PATIENCE = (10**12, _need(1)), 6_000
LIMITS = [
    _need(46), 10**12, _need(46) - 1, 8 * 10**9, _need(2) - 1, 20 * 10**9,
    _need(30) + 300_000_000, 8 * 1024**3, _need(2), _need(10), _need(30),
    _need(1),
]  # fmt: skip
TOO_SMALL = [_need(1) - 1, 0]
CONFIG_FAULTS = [
    ("returns-none", "Does every path end in a return?",
     lambda cfg: cfg is None),
    ("layers-not-config", "Expected a configuration with that n_layers.",
     lambda cfg: isinstance(cfg, int | float)),
    ("not-a-config", "Expected a dict, XL's with another n_layers.",
     lambda cfg: not isinstance(cfg, dict)),
    ("keys-changed", f"Expected XL's keys: {', '.join(KEYS)}.",
     lambda cfg: cfg.keys() != XL.keys()),
    ("wrong-size", "Those are another size's entries; expected XL's.",
     lambda cfg: any(cfg == other | {"n_layers": cfg["n_layers"]}
                     for other in GPT2[:-1])),
    *(("other-entry-changed", f"Expected XL's {key}, {entry}.",
       lambda cfg, key=key, entry=entry: cfg[key] != entry)
      for key, entry in XL.items() if key != "n_layers"),
    ("layers-not-whole", "Expected a whole n_layers: is there a division `/`?",
     lambda cfg: not isinstance(cfg["n_layers"], Integral)),
]  # fmt: skip


@exercise(
    "Every further block costs the same. What costs something even without "
    "any block?",
    "Count XL with one block and with two: the difference is a block. Then "
    "see how many whole blocks go into limit_bytes / 16 beside the rest.",
    "n_layers is 1 + (limit_bytes // 16 - one) // per_block, but at most 48, "
    "and a ValueError if it is below 1; return "
    "xl_cfg | {'n_layers': …} so that XL's own dict stays.",
    task=FIT,
)
def fit_xl(fn):
    """The most blocks of XL whose training stays within a limit."""
    check_signature(fn, 8 * 10**9, call="my_fit_xl(limit_bytes)")
    built, given, fault = [], [], None
    fitted = partial(_fitted, fn, built, given)
    fits = {limit: _blocks(attempt(fitted, limit)) for limit in FIRST}
    right = all(kept == most_blocks(limit) for limit, kept in fits.items())
    if right:
        fault = _error_fault(TOO_SMALL[0], attempt(fitted, TOO_SMALL[0]))
    if fault or not right:
        fits[_need(30)] = _blocks(attempt(fitted, _need(30)))
    for limit in LIMITS:
        if len(built) < PATIENCE:
            fits[limit] = _blocks(attempt(fitted, limit))
    cases = [(limit,) for limit in LIMITS if limit in fits]
    judge(fits.get, FIT, cases, _seen_fit, partial(_unknown_fit, fits))
    _check_new(given)
    if not fault and len(built) < PATIENCE:
        fault = _error_fault(TOO_SMALL[1], attempt(fitted, TOO_SMALL[1]))
    if fault:
        raise fault
    return (
        "8 GB keep 10 of XL's 48 blocks, a byte more or less at the boundary "
        "makes the difference of one block, and what holds not even one "
        "raises a ValueError."
    )


def _seen_fit(case, outcome, right):
    (limit,), kept, most = case, outcome.result, right.result
    return (
        f"Of XL's blocks, you keep {kept or 'none'} in {int(limit):,} bytes; "
        f"expected {most}, which take {_need(most):,} bytes (one more: "
        f"{_need(most + 1):,})."
    )


def _unknown_fit(fits, case, outcome, right):
    if not outcome.result:
        return "fits-yet-refused", "When may the error come?"
    if len(set(fits.values())) == 1:
        return "limit-ignored", "Does your answer depend on `limit_bytes`?"
    if outcome.result < right.result:
        return "too-few-blocks", "More would fit: what is too much?"
    return "too-many-blocks", "They do not fit: what is left out?"


def _fitted(fn, built, given, limit):
    """The learner's configuration, as it is right after the call."""
    with _as_published():
        result = _without_memory(built, fn, limit)
        if not isinstance(result, dict):
            return result
        given.append((result, dict(result)))
        return dict(result)


def _check_new(given):
    """Later calls leave the configurations of earlier ones alone."""
    with _as_published():
        for result, before in given:
            if result != before:
                raise Mistake(
                    "result-shared",
                    "A configuration that was returned with n_layers="
                    f"{before['n_layers']} has n_layers={result['n_layers']} "
                    "after later calls. Does each call make a new dict?",
                )


def _error_fault(limit, outcome):
    """The `Mistake` of an answer that raises no ValueError, or None."""
    if isinstance(outcome.error, ValueError):
        return None
    seen = (
        f"{limit:,} bytes are less than one block needs ({_need(1):,}); "
        "expected a ValueError."
    )
    if outcome.error:
        told = f"{seen} Your code raises {outcome.error!r}."
        return Mistake("wrong-error", told)
    return Mistake("no-error", f"{seen} Your result is {outcome.result!r}.")


def _blocks(outcome):
    """Number of blocks in the learner's answer; 0 stands for ValueError."""
    if isinstance(outcome.error, ValueError):
        return 0
    cfg = _result(outcome)
    _blame_fault(cfg, CONFIG_FAULTS)
    return int(cfg["n_layers"])
