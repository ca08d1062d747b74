"""Counting parameters by formula, and making GPT-2 XL fit into memory."""

import copy
import time
from itertools import combinations
from math import ceil
from numbers import Integral
from types import SimpleNamespace

import torch
from torch.nn.modules.module import (
    register_module_parameter_registration_hook,
)

from classroom.checks.guard import exercise
from classroom.checks.result import Mistake
from gptlib.config import GPT2_CONFIGS, GPT_CONFIG_124M

XL = "gpt2-xl (1558M)"
BYTES = 16  # training in float32 with AdamW, for each parameter
LARGEST_REAL_TABLE = 10_000_000  # numbers; the tiny models stay far below

# --- what is right ---------------------------------------------------------


def _sizes(cfg, tied):
    """Short names for the formulas."""
    return SimpleNamespace(
        V=cfg["vocab_size"],
        C=cfg["context_length"],
        d=cfg["emb_dim"],
        H=cfg["n_heads"],
        L=cfg["n_layers"],
        b=int(cfg["qkv_bias"]),
        t=int(tied),
    )


def _block(s):
    attention = 4 * s.d**2 + s.d + 3 * s.d * s.b
    return attention + 8 * s.d**2 + 5 * s.d + 4 * s.d


def _total(s):
    tables = (2 - s.t) * s.V * s.d + s.C * s.d
    return tables + s.L * _block(s) + 2 * s.d


def _changed(s, **entries):
    """How much the total moves if some sizes are others."""
    return _total(SimpleNamespace(**vars(s) | entries)) - _total(s)


def _ff_width(hidden):
    """How much the total moves with another hidden width."""

    def delta(s):
        h = hidden(s.d)
        return s.L * (2 * s.d * h + h + s.d - 8 * s.d**2 - 5 * s.d)

    return delta


# --- what is wrong ---------------------------------------------------------
# Name of a mistake, how far it moves the total (one function for each way of
# making it), and where to look. Some ways can't be told apart by number: then
# the sentence names both. The first that agrees everywhere is reported; two
# together are tried after all single ones.
MISTAKES = [
    ("tied-subtracted-twice",
     [lambda s: -s.t * s.V * s.d],
     "With tied=True one vocab_size × emb_dim table is left, not none: it "
     "looks as if the shared table was taken away twice."),
    ("tied-ignored",
     [lambda s: s.t * s.V * s.d],
     "tied=True gives the same number as tied=False: does your result depend "
     "on `tied`?"),
    ("always-tied",
     [lambda s: -(1 - s.t) * s.V * s.d],
     "With tied=False the embedding and the output head each have a table of "
     "their own: yours holds only one of the two."),
    ("tied-inverted",
     [lambda s: (2 * s.t - 1) * s.V * s.d],
     "The numbers for tied=True and tied=False have changed places."),
    ("tied-added",
     [lambda s: 2 * s.t * s.V * s.d],
     "tied=True makes the number larger; sharing a table makes it smaller."),
    ("token-table-forgotten",
     [lambda s: -s.V * s.d],
     "A table of vocab_size × emb_dim is missing, tied or not: count token "
     "embedding and output head once more."),
    ("tied-wrong-table",
     [lambda s: s.t * (s.V - s.C) * s.d, lambda s: -s.t * s.C * s.d],
     "Tying concerns the token embedding and the head; the position table "
     "(context_length × emb_dim) stays. Which table did you take away?"),
    ("mask-counted",
     [lambda s: s.L * s.C**2, lambda s: s.C**2,
      lambda s: s.L * s.H * s.C**2, lambda s: s.H * s.C**2,
      lambda s: s.L * s.C * (s.C - 1) // 2,
      lambda s: s.L * s.C * (s.C + 1) // 2],
     "The surplus is made of context_length × context_length: the attention "
     "masks are buffers, not parameters."),
    ("position-table-forgotten",
     [lambda s: -s.C * s.d],
     "context_length × emb_dim numbers are missing: which embedding has one "
     "row for each position?"),
    ("position-table-in-every-block",
     [lambda s: s.C * s.d * (s.L - 1)],
     "The position table stands before the blocks, once; yours is multiplied "
     "by n_layers."),
    ("biases-forgotten",
     [lambda s: -s.L * (6 + 3 * s.b) * s.d, lambda s: -s.L * 6 * s.d,
      lambda s: -s.L * (8 + 3 * s.b) * s.d - s.d,
      lambda s: -s.L * 8 * s.d - s.d],
     "Every block lacks its bias vectors: the attention's output layer and "
     "both feed-forward layers add one number for each of their outputs."),
    ("feed-forward-bias-forgotten",
     [lambda s: -s.L * 5 * s.d],
     "Each block lacks 5 × emb_dim numbers: both linear layers of the "
     "feed-forward network have a bias, one number for each output."),
    ("output-bias-forgotten",
     [lambda s: -s.L * s.d],
     "Each block lacks emb_dim numbers, one bias vector: look at the output "
     "layer of the attention, and at the second feed-forward layer."),
    ("qkv-bias-always",
     [lambda s: 3 * s.d * s.L * (1 - s.b)],
     "With qkv_bias=False the query, key and value layers have no bias; you "
     "count 3 × emb_dim for each block all the same."),
    ("qkv-bias-never",
     [lambda s: -3 * s.d * s.L * s.b],
     "With qkv_bias=True three layers of each block get a bias of emb_dim "
     "numbers, which are missing: does your result depend on that entry?"),
    ("qkv-bias-inverted",
     [lambda s: 3 * s.d * s.L * (1 - 2 * s.b)],
     "The numbers for qkv_bias=True and qkv_bias=False have changed places."),
    ("qkv-bias-once",
     [lambda s: -2 * s.d * s.L * s.b],
     "With qkv_bias=True query, key and value each get a bias of emb_dim "
     "numbers; you count one of the three."),
    ("qkv-bias-one-block",
     [lambda s: -3 * s.d * (s.L - 1) * s.b],
     "With qkv_bias=True every block gets three more biases; you count those "
     "of a single block."),
    ("qkv-bias-wrong-size",
     [lambda s: s.d * s.L * s.b,
      lambda s: s.L * s.b * (3 - 3 * s.d),
      lambda s: s.L * s.b * (s.d // s.H * 3 - 3 * s.d),
      lambda s: s.L * s.b * (s.H * 3 * s.d - 3 * s.d),
      lambda s: s.L * s.b * (3 * s.d**2 - 3 * s.d)],
     "qkv_bias=True adds a bias to three layers of each block, one number "
     "for each of their emb_dim outputs; you add another amount."),
    ("output-bias-only-with-qkv",
     [lambda s: -s.d * s.L * (1 - s.b)],
     "`qkv_bias` concerns query, key and value only: the attention's output "
     "layer has its bias in any case."),
    ("norms-or-bias-forgotten",
     [lambda s: -4 * s.L * s.d],
     "Each block lacks 4 × emb_dim numbers: either its two norms (a scale and "
     "a shift each) or the first feed-forward layer's bias."),
    ("norms-forgotten",
     [lambda s: -4 * s.L * s.d - 2 * s.d],
     "The norms are missing: each has a scale and a shift of emb_dim "
     "numbers, two norms in a block and one at the end."),
    ("final-norm-forgotten",
     [lambda s: -2 * s.d],
     "2 × emb_dim numbers are missing, however many blocks there are: what "
     "stands between the last block and the head?"),
    ("final-norm-in-every-block",
     [lambda s: 2 * s.d * (s.L - 1), lambda s: 2 * s.d * s.L],
     "The final norm stands after the last block, once; a block has two "
     "norms, yours has three."),
    ("norm-shift-forgotten",
     [lambda s: -2 * s.L * s.d - s.d, lambda s: -s.d],
     "A norm has two vectors of emb_dim numbers, a scale and a shift; you "
     "count one of them."),
    ("one-norm-per-block",
     [lambda s: -2 * s.L * s.d],
     "Each block lacks 2 × emb_dim numbers: it has two norms, and each has a "
     "scale and a shift."),
    ("head-bias-counted",
     [lambda s: s.V, lambda s: s.V * (1 - s.t), lambda s: s.V * s.t],
     "There are vocab_size numbers too many: the output head has no bias."),
    ("one-block-only",
     [lambda s: -(s.L - 1) * _block(s)],
     "All blocks but one are missing: which entry says how many there are?"),
    ("blocks-forgotten",
     [lambda s: -s.L * _block(s)],
     "The transformer blocks are missing altogether."),
    ("block-count-off-by-one",
     [_block, lambda s: -_block(s)],
     "The difference is exactly one block: how often is it counted?"),
    ("heads-for-layers",
     [lambda s: _changed(s, L=s.H)],
     "The number of blocks is taken from n_heads instead of n_layers."),
    ("heads-multiplied",
     [lambda s: s.L * (s.H - 1) * (4 * s.d**2 + s.d + 3 * s.d * s.b),
      lambda s: s.L * (s.H - 1) * (3 * s.d**2 + 3 * s.d * s.b),
      lambda s: s.L * (s.H - 1) * 4 * s.d**2,
      lambda s: s.L * (s.H - 1) * 3 * s.d**2,
      lambda s: s.L * (s.H - 1) * (4 * s.d**2 + s.d),
      lambda s: s.L * (s.H - 1) * s.d**2,
      lambda s: s.L * (s.H - 1) * (s.d**2 + s.d)],
     "The surplus grows with n_heads: heads share the emb_dim columns of "
     "each table among themselves and add nothing."),
    ("one-head-only",
     [lambda s: s.L * 3 * (s.d // s.H - s.d) * s.d,
      lambda s: s.L * 3 * (s.d // s.H - s.d) * (s.d + s.b),
      lambda s: s.L * 4 * (s.d // s.H - s.d) * s.d,
      lambda s: s.L * 4 * (s.d // s.H - s.d) * s.d
      + s.L * 3 * s.b * (s.d // s.H - s.d)],
     "The attention tables are too narrow, by a factor n_heads: all heads "
     "together have emb_dim columns."),
    ("qkv-once",
     [lambda s: -2 * s.L * s.d**2,
      lambda s: -2 * s.L * (s.d**2 + s.d * s.b)],
     "Each block lacks two tables of emb_dim × emb_dim: query, key and value "
     "have one each."),
    ("output-layer-forgotten",
     [lambda s: -s.L * (s.d**2 + s.d), lambda s: -s.L * s.d**2],
     "Each block lacks a table of emb_dim × emb_dim: after its heads, "
     "attention has an output layer."),
    ("attention-forgotten",
     [lambda s: -s.L * (4 * s.d**2 + s.d + 3 * s.d * s.b)],
     "The attention layers of the blocks are missing."),
    ("feed-forward-width",
     [*(_ff_width(lambda d, k=k: k * d) for k in (1, 2, 3, 5, 6, 8)),
      _ff_width(lambda d: 3072), _ff_width(lambda d: 4)],
     "The feed-forward network is off: its hidden layer has 4 × emb_dim "
     "features, in both of its tables."),
    ("feed-forward-one-layer",
     [lambda s: -4 * s.L * s.d**2,
      lambda s: -s.L * (4 * s.d**2 + s.d),
      lambda s: -s.L * (4 * s.d**2 + 4 * s.d)],
     "The feed-forward network has two tables, there and back; you count "
     "one."),
    ("feed-forward-three-layers",
     [lambda s: 4 * s.L * s.d**2,
      lambda s: s.L * (4 * s.d**2 + s.d),
      lambda s: s.L * (4 * s.d**2 + 4 * s.d)],
     "The feed-forward network has two tables; you count three."),
    ("feed-forward-forgotten",
     [lambda s: -s.L * (8 * s.d**2 + 5 * s.d),
      lambda s: -s.L * 8 * s.d**2],
     "The feed-forward layers of the blocks are missing."),
    ("hardcoded-size",
     [lambda s: _changed(s, V=50257), lambda s: _changed(s, C=1024),
      lambda s: _changed(s, d=768), lambda s: _changed(s, L=12)],
     "One size does not follow the configuration: it keeps the small "
     "model's value. Look for a number that should be read from `cfg`."),
]  # fmt: skip
# Counts that were turned into something else, as what 1 parameter becomes.
UNITS = {
    "mib-returned": [4 / 1024**2, 1 / 1024**2, 4 / 1024**3, 1 / 1024**3],
    "mb-returned": [4e-6, 1e-6, 4e-9, 1e-9],
    "bytes-returned": [4],
}
SMALL = [
    GPT_CONFIG_124M | dict(zip(
        ("vocab_size", "context_length", "emb_dim", "n_heads", "n_layers",
         "qkv_bias"), row, strict=True))
    for row in [
        (101, 16, 24, 3, 2, False),
        (57, 40, 12, 4, 3, True),
        (211, 7, 30, 5, 6, True),
        (67, 11, 20, 2, 7, False),
    ]
]  # fmt: skip


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
)
def parameter_count(fn):
    """Counts for any configuration, tied or not, as a whole number."""
    cases = [(cfg, tied) for cfg in SMALL for tied in (False, True)]
    counts = [_count(fn, *case) for case in cases]
    wants = [_total(_sizes(*case)) for case in cases]
    if counts != wants:
        _explain(fn, cases, counts, wants)
    for count in counts:
        _expect_whole(count)
    built = _gpt2_sizes(fn)
    return _praise(built)


def _praise(built):
    praise = (
        "all four sizes of GPT-2 and four tiny configurations are right, "
        "tied and not, with and without query, key and value biases. For "
        "GPT-2 small: 163,009,536, or 124,412,160 when tied."
    )
    if built:
        praise += (
            " Your answer builds the model to count it. The exercise asks "
            "for formulas alone: try that too, XL would take 6.6 GB outside "
            "the meta device."
        )
    return praise


def _gpt2_sizes(fn):
    """Check the published sizes; whether the answer builds models."""
    biased = GPT_CONFIG_124M | {"qkv_bias": True}
    built = False
    for cfg in [*GPT2_CONFIGS.values(), biased]:
        for tied in (False, True):
            count, built = _without_memory(_count, fn, cfg, tied)
            want = _total(_sizes(cfg, tied))
            if count != want:
                raise Mistake(
                    "wrong-count",
                    f"tiny models are right, yet {_seen(cfg, tied, count)}; "
                    f"expected {want:,}. Which part does not follow `cfg`?",
                )
            _expect_whole(count)
    return built


def _count(fn, cfg, tied):
    """The learner's count: a number, whatever else is wrong with it."""
    given = copy.deepcopy(cfg)
    count = fn(given, tied)
    if given != cfg:
        raise Mistake(
            "config-changed",
            "your function changes the configuration that it is given: "
            f"{cfg} became {given}. Read the entries and leave them be.",
        )
    if count is None:
        raise Mistake(
            "returns-none",
            "your function returns None; expected a whole number. Is there "
            "a return at the end of every path?",
        )
    if isinstance(count, str):
        raise Mistake(
            "text-returned",
            f"your function returns the text {count[:30]!r}; expected a "
            "number (int), which print can still format afterwards.",
        )
    try:
        return count if isinstance(count, Integral) else float(count)
    except (TypeError, ValueError, RuntimeError):
        raise Mistake(
            "not-a-number",
            f"your function returns {type(count).__name__}; expected one "
            "whole number (int).",
        ) from None


def _expect_whole(count):
    if not isinstance(count, Integral) or isinstance(count, bool):
        raise Mistake(
            "float-returned",
            f"the value is right, but {count} is no whole number (int). "
            "Where does a division `/` or a tensor come in?",
        )


def _explain(fn, cases, counts, wants):
    """Raise the mistake that explains all counts."""
    sizes = [_sizes(*case) for case in cases]
    gaps = [c - w for c, w in zip(counts, wants, strict=True)]
    spot = next(i for i, gap in enumerate(gaps) if gap)
    seen = f"{_seen(*cases[spot], counts[spot])}; expected {wants[spot]:,}. "
    moves = [
        (name, [[way(s) for s in sizes] for way in ways], where)
        for name, ways, where in MISTAKES
    ]
    _explain_by_one(moves, gaps, seen)
    _explain_by_unit(fn, moves, counts, wants, seen)
    if len(set(counts)) == 1:
        raise Mistake(
            "config-ignored",
            seen + "Every configuration gives this number: does your result "
            "depend on `cfg`?",
        )
    _explain_by_two(moves, gaps, seen)
    _explain_by_entry(cases, gaps, seen)


def _explain_by_one(moves, gaps, seen):
    for name, ways, where in moves:
        if gaps in ways:
            raise Mistake(name, seen + where)


def _explain_by_two(moves, gaps, seen):
    for (name, first, where), (_, second, _) in combinations(moves, 2):
        for one in first:
            rest = [gap - move for gap, move in zip(gaps, one, strict=True)]
            if rest in second:
                raise Mistake(name, f"{seen}{where} A second part is off too.")


def _explain_by_unit(fn, moves, counts, wants, seen):
    """Bytes or megabytes instead of a count."""
    for factor in (2, 4, 8, 16):
        gaps = [c / factor - w for c, w in zip(counts, wants, strict=True)]
        if not any(gaps) or any(gaps in ways for _, ways, _ in moves):
            raise Mistake(
                "bytes-returned",
                f"{seen}You give {factor} times as much, which is a number "
                "of bytes; asked is how many parameters there are.",
            )
    if all(abs(c) < w / 1000 for c, w in zip(counts, wants, strict=True)):
        # Tiny models round to 0 MB: look at one that does not.
        _explain_by_megabyte(fn)


def _explain_by_megabyte(fn):
    count, _ = _without_memory(_count, fn, GPT_CONFIG_124M, False)
    want = _total(_sizes(GPT_CONFIG_124M, False))
    for name, factors in UNITS.items():
        if any(abs(count / want / f - 1) < 0.02 for f in factors):
            unit = {"mib": "1,024 (MiB, GiB)", "mb": "1,000 (MB, GB)"}
            raise Mistake(
                name,
                f"{_seen(GPT_CONFIG_124M, False, count)}; expected {want:,}. "
                "Yours is divided down in steps of "
                f"{unit[name.split('-')[0]]}; asked is the number of "
                "parameters, no size in memory.",
            )


def _explain_by_entry(cases, gaps, seen):
    """No known mistake: at least say which entry matters."""
    wrong = [case for case, gap in zip(cases, gaps, strict=True) if gap]
    kinds = [
        ("tied-wrong-amount",
         all(tied for _, tied in wrong),
         "Only the counts with tied=True are off: what does a model save "
         "whose head uses the embedding's table?"),
        ("untied-wrong-amount",
         not any(tied for _, tied in wrong),
         "Only the counts with tied=False are off: what does a head with a "
         "table of its own add?"),
        ("qkv-bias-wrong-size",
         all(cfg["qkv_bias"] for cfg, _ in wrong),
         "Only the counts with qkv_bias=True are off: which layers get a "
         "bias then, and of how many numbers?"),
        ("qkv-bias-wrong-size",
         not any(cfg["qkv_bias"] for cfg, _ in wrong),
         "Only the counts with qkv_bias=False are off: what is left out "
         "then?"),
        ("wrong-count",
         True,
         "Compare part by part with what `parameters_by_part(cfg)` gives."),
    ]  # fmt: skip
    for name, found, where in kinds:
        if found:
            raise Mistake(name, seen + where)


def _seen(cfg, tied, count):
    entries = ", ".join(
        f"{key}={value}" for key, value in cfg.items() if key != "drop_rate"
    )
    number = f"{count:,}" if isinstance(count, Integral) else f"{count:,.6g}"
    return f"with {entries} and tied={tied} you count {number}"


def _without_memory(call, *args):
    """Call so that a large model takes no memory; (result, was one built).

    Models are laid out on the meta device. Code that uses tensors for its
    arithmetic needs their values: it is called again without that, and
    stopped where it fills a large table.
    """
    built = []

    def note(module, name, parameter):
        built.append(name)

    def refuse(module, name, parameter):
        real = parameter is not None and not parameter.is_meta
        if real and parameter.numel() > LARGEST_REAL_TABLE:
            raise Mistake(
                "real-memory",
                f"your code fills a table of {parameter.numel():,} numbers "
                f"for `{name}` in real memory. All of XL would take 6.6 GB: "
                "use the formulas, or `torch.device('meta')`.",
            )

    try:
        with _hooked(note), torch.device("meta"):
            return call(*args), bool(built)
    except (RuntimeError, TypeError):  # what asking for a value raises
        with _hooked(refuse):
            return call(*args), bool(built)


class _hooked:
    """For a while, be told of every parameter that a module gets."""

    def __init__(self, hook):
        self.hook = hook

    def __enter__(self):
        self.handle = register_module_parameter_registration_hook(self.hook)

    def __exit__(self, *error):
        self.handle.remove()


# --- make XL fit -------------------------------------------------------------


def _need(n_layers, tied=False):
    """Parameters of XL with this many blocks."""
    return _total(_sizes(GPT2_CONFIGS[XL] | {"n_layers": n_layers}, tied))


def _most(limit, cost, most=48):
    """The largest number of blocks that costs at most `limit`, or 0."""
    return max((n for n in range(1, most + 1) if cost(n) <= limit), default=0)


def _in_bytes(cost):
    return lambda limit: _most(limit, cost)


BASE = _need(0)
PER_BLOCK = _need(1) - BASE
# What comes out of a known mistake: limit → number of blocks.
FIT_MISTAKES = [
    ("limit-not-reached",
     [lambda limit: _most(limit, lambda n: BYTES * _need(n) + 1)],
     "A model that takes exactly the limit still fits: look at how you "
     "compare the two."),
    ("tied-counted",
     [_in_bytes(lambda n: BYTES * _need(n, tied=True))],
     "You seem to count one vocabulary table; here embedding and head each "
     "keep their own."),
    ("weights-only",
     [_in_bytes(lambda n: 4 * _need(n)), _in_bytes(lambda n: 2 * _need(n))],
     "The weights alone would fit; training needs gradients and AdamW's two "
     "averages as well, 16 bytes per parameter in all."),
    ("optimizer-forgotten",
     [_in_bytes(lambda n: 8 * _need(n)), _in_bytes(lambda n: 12 * _need(n))],
     "Weights and gradients would fit; AdamW keeps two more numbers for each "
     "parameter, 16 bytes in all."),
    ("weights-counted-twice",
     [_in_bytes(lambda n: 20 * _need(n)), _in_bytes(lambda n: 64 * _need(n)),
      _in_bytes(lambda n: 32 * _need(n)), _in_bytes(lambda n: 24 * _need(n))],
     "You reckon with more than 16 bytes per parameter: those are the weight "
     "(4), its gradient (4) and AdamW's averages (8) together."),
    ("mib-against-mb",
     [_in_bytes(lambda n, f=f: BYTES * _need(n) * f)
      for f in (1e6 / 1024**2, 1e9 / 1024**3, 1024**2 / 1e6, 1024**3 / 1e9)],
     "One side of your comparison is in steps of 1,000 and the other in "
     "steps of 1,024: keep both in bytes."),
    ("tables-forgotten",
     [_in_bytes(lambda n: BYTES * PER_BLOCK * n),
      _in_bytes(lambda n: BYTES * (PER_BLOCK * n + 2 * 1600))],
     "The blocks alone would fit; the embeddings and the head take their "
     "part of the limit too."),
    ("head-forgotten",
     [_in_bytes(lambda n: BYTES * (_need(n) - 1600 * 1024)),
      _in_bytes(lambda n: BYTES * (_need(n, True) - 1600 * 1024))],
     "Part of what stands outside the blocks is missing: two vocabulary "
     "tables, the position table, the final norm."),
    ("proportional",
     [lambda limit: min(48, int(48 * limit / (BYTES * _need(48))))],
     "The need does not shrink in proportion to the blocks: the embeddings "
     "and the head stay as large as they are."),
    ("rounded-up",
     [lambda limit: min(48, _most(limit, lambda n: BYTES * _need(n)) + 1),
      lambda limit: min(48, round((limit / BYTES - BASE) / PER_BLOCK)),
      lambda limit: min(48, ceil((limit / BYTES - BASE) / PER_BLOCK))],
     "The last block does not fit as a whole: does your division round up?"),
    ("one-block-too-few",
     [lambda limit: _most(limit, lambda n: BYTES * _need(n + 1)),
      lambda limit: _most(limit, lambda n: BYTES * _need(n + 1), 47),
      lambda limit: max(0, _most(limit, lambda n: BYTES * _need(n)) - 1)],
     "One more block would fit: does your count begin at 0 or at 1?"),
    ("fewest-blocks",
     [lambda limit: int(limit >= BYTES * _need(1))],
     "Fewer blocks fit too, but asked is the largest number that does."),
    ("not-capped",
     [lambda limit: _most(limit, lambda n: BYTES * _need(n), 10**4)],
     "XL has 48 blocks: the answer never has more, however large the "
     "limit."),
]  # fmt: skip


@exercise(
    "Every further block costs the same. What costs something even without "
    "any block?",
    "Count XL with one block and with two: the difference is a block. Then "
    "see how many whole blocks go into limit_bytes / 16 beside the rest.",
    "n_layers is 1 + (limit_bytes // 16 - one) // per_block, but at most 48, "
    "and a ValueError if it is below 1; return "
    "xl_cfg | {'n_layers': …} so that XL's own dict stays.",
)
def fit_xl(fn):
    """The most blocks of XL whose training stays within a limit."""
    # Answers that lay out 48 models for each limit are slow and right: they
    # get as many of these limits as there is time for.
    limits = [
        BYTES * _need(46), 10**12, BYTES * _need(1) - 1, 8 * 10**9,
        BYTES * _need(2) - 1, BYTES * _need(30) + 300_000_000, 8 * 1024**3,
        BYTES * _need(46) - 1, BYTES * _need(2), 20e9, BYTES * _need(10),
        BYTES * _need(1), 0,
    ]  # fmt: skip
    started, fits = time.monotonic(), {}
    for limit in limits:
        if time.monotonic() - started < 4:
            fits[limit] = _fit(fn, limit)
    if any(got != _right(limit) for limit, got in fits.items()):
        _explain_fit(fits)
    return (
        "8 GB keep 10 of XL's 48 blocks, a byte more or less at the boundary "
        "makes the difference of one block, and what holds not even one "
        "raises a ValueError."
    )


def _right(limit):
    return _most(limit, lambda n: BYTES * _need(n))


def _fit(fn, limit):
    """Number of blocks in the learner's answer; 0 stands for ValueError.

    Words where a ValueError should have come.
    """
    family, before = dict(GPT2_CONFIGS), copy.deepcopy(GPT2_CONFIGS)
    try:
        cfg, _ = _without_memory(fn, limit)
    except ValueError:
        return 0
    except (Mistake, NotImplementedError):
        raise
    except Exception as error:
        if _right(limit):
            raise
        raise Mistake(
            "wrong-error",
            f"for {limit:,} bytes, not enough for one block, your code "
            f"raises {type(error).__name__}: {error}; expected ValueError.",
        ) from None
    finally:
        changed = before != GPT2_CONFIGS
        _put_back(family, before)
    if changed:
        raise Mistake(
            "family-changed",
            "your code changes GPT2_CONFIGS itself: every later cell would "
            "read the smaller XL. Make a new dict (it has been put back).",
        )
    return _blocks_of(cfg, limit)


def _put_back(family, before):
    """The same dicts with the same entries: notebooks hold on to them."""
    for size, cfg in family.items():
        cfg.clear()
        cfg.update(before[size])
    GPT2_CONFIGS.clear()
    GPT2_CONFIGS.update(family)


def _blocks_of(cfg, limit):
    if cfg is None and not _right(limit):
        return "None"  # no ValueError, as is said later
    _expect_config(cfg, limit)
    xl, n_layers = GPT2_CONFIGS[XL], cfg["n_layers"]
    if list(sorted(cfg)) != sorted(xl):
        raise Mistake(
            "keys-changed",
            f"your configuration has the keys {', '.join(map(str, cfg))}; "
            f"expected XL's: {', '.join(xl)}.",
        )
    for size, other in GPT2_CONFIGS.items():
        if size != XL and cfg | {"n_layers": 0} == other | {"n_layers": 0}:
            raise Mistake(
                "wrong-size",
                f"your configuration is the one of {size}; expected XL's.",
            )
    for key in xl:
        if key != "n_layers" and cfg[key] != xl[key]:
            raise Mistake(
                "other-entry-changed",
                f"{key} is {cfg[key]} in your configuration and {xl[key]} in "
                "XL's: only n_layers may change.",
            )
    if not isinstance(n_layers, Integral) or isinstance(n_layers, bool):
        raise Mistake(
            "layers-not-whole",
            f"n_layers is {n_layers!r} ({type(n_layers).__name__}); expected "
            "a whole number (int). Does a division `/` come in?",
        )
    possible = _right(limit)
    return int(n_layers) if possible else f"a model of {n_layers} blocks"


def _expect_config(cfg, limit):
    if isinstance(cfg, dict) and "n_layers" in cfg:
        return
    name, what = "not-a-config", f"{type(cfg).__name__}"
    if cfg is None:
        name, what = "returns-none", "None"
    elif isinstance(cfg, int | float):
        name, what = "layers-not-config", f"the number {cfg}"
    raise Mistake(
        name,
        f"for {limit:,} bytes your function returns {what}; expected a whole "
        "configuration, XL's with another n_layers.",
    )


def _explain_fit(fits):
    possible = {x: got for x, got in fits.items() if _right(x)}
    wrong = [x for x, got in possible.items() if got != _right(x)]
    if not wrong:
        _miss_an_error(next(x for x in fits if fits[x] != _right(x)), fits)
    seen = _seen_fit(wrong[0], fits)
    for name, ways, where in FIT_MISTAKES:
        for way in ways:
            if all(way(x) == got for x, got in possible.items()):
                raise Mistake(name, seen + where)
    if len(set(possible.values())) == 1 and fits[wrong[0]]:
        raise Mistake(
            "limit-ignored",
            seen + "Every limit gives this answer: does it depend on "
            "`limit_bytes`?",
        )
    name, where = "too-few-blocks", "More would fit: what is too much?"
    if fits[wrong[0]] == 0:
        name, where = "fits-yet-refused", "When may the error come?"
    elif fits[wrong[0]] > _right(wrong[0]):
        name, where = "too-many-blocks", "They do not fit: what is left out?"
    raise Mistake(name, seen + where)


def _miss_an_error(limit, fits):
    raise Mistake(
        "no-error",
        f"{limit:,} bytes are less than one block needs "
        f"({BYTES * _need(1):,}), and your function returns {fits[limit]}; "
        "expected a ValueError.",
    )


def _seen_fit(limit, fits):
    got, want = fits[limit], _right(limit)
    what = f"you keep {got or 'no'} blocks" + " (ValueError)" * (not got)
    return (
        f"for {limit:,} bytes {what}; expected {want}, which take "
        f"{BYTES * _need(want):,} bytes (one block more: "
        f"{BYTES * _need(want + 1):,}). "
    )
