"""Checks of notebook 01: the skeleton, and configurations."""

import contextlib
import copy
from collections.abc import Mapping
from functools import partial
from numbers import Integral, Real
from reprlib import repr as shortened

import torch

from classroom.checks import data_path
from classroom.checks.data_path import SIZES
from classroom.checks.edits import Task, known
from classroom.checks.functions import (
    check_signature,
    equal,
    judge,
)
from classroom.checks.guard import exercise
from classroom.checks.manners import check_manners
from classroom.checks.result import Mistake
from classroom.checks.tensors import difference, expect_tensor, same
from gptlib.config import (
    GPT2_CONFIGS,
    GPT_CONFIG_124M,
    SMALLEST,
    check_config,
)
from gptlib.skeleton import DummyGPTModel

CALL = "MySkeleton(cfg)"


def _skeleton(solve):
    class MySkeleton(DummyGPTModel):
        def forward(self, in_idx):
            return solve(in_idx, **data_path.parts(self))

    return MySkeleton


SKELETON = Task(
    data_path.logits, [*data_path.PATH, *data_path.HIDDEN], _skeleton
)


@exercise(
    "Six parts in __init__: two tables, dropout, the stack of blocks, the "
    "norm, the head. In forward, write the shape behind each line.",
    "Positions are the whole numbers from 0 up to the number of tokens, "
    "made on the device of in_idx. Their vectors are added to the tokens' "
    "vectors; then dropout, blocks, norm and head follow, in this order.",
    "tok_emb and pos_emb are nn.Embedding(rows, emb_dim), the blocks stand "
    "in nn.Sequential(*[… for _ in range(…)]), the head is nn.Linear(…, …, "
    "bias=False), and the positions are torch.arange(…, device=…).",
    task=SKELETON,
)
def skeleton(cls):
    """Parts and their sizes, logits, the order of the parts, dropout, the
    positions' device, and gradients."""
    for qkv_bias in (False, True):
        model = data_path.start(cls, CALL, qkv_bias=qkv_bias)
        data_path.check_parts(model, qkv_bias)
    data_path.check_order(cls, CALL)
    _check_placeholders(model)
    model = data_path.build(cls, CALL)
    # Order shows where each part does something: so does the norm now.
    model.final_norm.forward = lambda x, *args: 2 * (x / 2).sin()
    data_path.check_logits(model)
    model = data_path.build(cls, CALL)
    data_path.check_positions(model)
    check_manners(model, data_path.some_texts())
    data_path.check_all_gradients(model, SKELETON)
    return (
        "texts of 1 to 9 tokens give the right logits, the "
        f"{SIZES['n_layers']} blocks, the norm and the head follow each "
        "other, dropout acts in training alone, and the positions are made "
        "where the IDs are."
    )


def _check_placeholders(model):
    named = {f"block {i}": b for i, b in enumerate(data_path.blocks_of(model))}
    named["final_norm"] = model.final_norm
    for training in (False, True):
        for name, part in named.items():
            x = torch.randn(2, 5, SIZES["emb_dim"])
            output = part.train(training)(x.clone())
            where = f"The output of the placeholder {name}"
            expect_tensor(output, x.shape, where)
            if not same(output, x):
                raise Mistake(
                    "placeholder-changes-input",
                    f"The placeholder {name} changes its input. "
                    f"{difference(output, x)} Today it hands its input "
                    "through.",
                )
    model.eval()


# --- configurations --------------------------------------------------------

# A wrong width makes others wrong, so it is named before them.
ENTRIES = (
    "vocab_size", "emb_dim", "context_length", "n_heads", "n_layers",
    "drop_rate", "qkv_bias"
)  # fmt: skip
DRAFT = {
    "vocab_size": 50256,
    "context_length": 1024,
    "emb_dim": 1280,
    "n_heads": 24,
    "n_layers": 36,
    "drop_rate": 5,
    "qkv_bias": False,
}


def described(entry):
    return {
        "vocab_size": 50260,
        "emb_dim": 896,
        "context_length": 640,
        "n_heads": 14,
        "n_layers": 20,
        "drop_rate": 0.15,
        "qkv_bias": True,
    }[entry]


def meant(entry):
    return {
        "vocab_size": 50257,
        "emb_dim": 1280,
        "context_length": 1024,
        "n_heads": 20,
        "n_layers": 36,
        "drop_rate": 0.05,
        "qkv_bias": False,
    }[entry]


def _instead(solution, entry, *values):
    """Edits that put each of these values into an entry."""
    right = f'"{entry}": {solution(entry)!r},'
    return [{right: f'"{entry}": {value!r},'} for value in values]


_in_new, _in_draft = partial(_instead, described), partial(_instead, meant)
FLOAT_SIZE = (
    "float-size",
    "A size must be a whole number (int), and this is a float: `/` always "
    "gives one, `//` does not.",
)
PERCENT = (
    "percent-for-share",
    "A drop rate is a share of 1, not a number of per cent.",
)
HEAD_WIDTH = (
    "head-width-for-count",
    "64 is how wide each head is; n_heads says how many heads stand side "
    "by side.",
)
# What stands for an entry that no known mistake explains.
OTHERWISE = {
    "vocab_size": ("vocabulary-wrong",
                   "It counts all tokens, so it is 1 more than the highest "
                   "ID. What does the tokenizer hold?"),
    "emb_dim": ("width-wrong", "How many numbers describe one token?"),
    "context_length": ("context-wrong",
                       "It is how many rows the position table has. How long "
                       "is each row?"),
    "n_heads": ("heads-wrong",
                "All heads together are emb_dim numbers wide. How wide is "
                "each of them with yours, and how wide should it be?"),
    "n_layers": ("blocks-wrong", "How many blocks stand in the stack?"),
    "drop_rate": ("drop-rate-wrong",
                  "It is the share that is set to zero, from 0 to 1: 0.1 "
                  "means one value in ten."),
    "qkv_bias": ("qkv-bias-wrong",
                 "Do the query, key and value layers add a constant?"),
}  # fmt: skip
AS_MEANT = OTHERWISE | {
    "emb_dim": ("width-changed",
                "The width is as meant. Which other entry decides how wide a "
                "head is?"),
    "n_layers": ("blocks-changed",
                 "The number of blocks is as meant, and what a block needs "
                 "does not depend on it."),
    "context_length": ("context-changed", "In the draft it is as meant."),
    "qkv_bias": ("qkv-bias-changed", "In the draft it is as meant."),
}  # fmt: skip

NEW_MISTAKES = [
    known("markers-forgotten",
          "GPT-2's own tokens are there. What does this tokenizer have "
          "besides?",
          *_in_new("vocab_size", 50257)),
    known("highest-id-for-count",
          "Is that the highest ID? IDs count from 0, and vocab_size counts "
          "the tokens.",
          *_in_new("vocab_size", 50259, 50256)),
    known("numbers-for-rows",
          "That is all numbers of the position table; context_length counts "
          "its rows. How long is one row?",
          *_in_new("context_length", 573440)),
    known("columns-for-rows",
          "That is how long a row of the position table is. How many rows "
          "has it?",
          *_in_new("context_length", 896)),
    known("as-in-gpt2",
          "GPT_CONFIG_124M has the same value. What does the description say "
          "about this entry?",
          *_in_new("context_length", 1024), *_in_new("emb_dim", 768),
          *_in_new("n_heads", 12), *_in_new("n_layers", 12),
          *_in_new("drop_rate", 0.1), *_in_new("qkv_bias", False)),
    known("head-width-for-width",
          "64 is how wide each head is; emb_dim is the width of all heads "
          "together.",
          *_in_new("emb_dim", 64)),
    known(*HEAD_WIDTH, *_in_new("n_heads", 64)),
    known("blocks-for-heads",
          "That is the number of blocks. How many heads has each?",
          *_in_new("n_heads", 20)),
    known("heads-for-blocks",
          "That is the number of heads. How many blocks are there?",
          *_in_new("n_layers", 14)),
    known("kept-for-dropped",
          "That is the share which stays; drop_rate is the share which is "
          "set to zero.",
          *_in_new("drop_rate", 0.85, 85)),
    known(*PERCENT, *_in_new("drop_rate", 15)),
    known(*FLOAT_SIZE,
          *(edit for entry, value in
            [("vocab_size", 50260.0), ("context_length", 640.0),
             ("emb_dim", 896.0), ("n_heads", 14.0), ("n_layers", 20.0)]
            for edit in _in_new(entry, value))),
]  # fmt: skip
DRAFT_MISTAKES = [
    known("highest-id-for-count",
          "A table of 50,256 rows has the rows 0 to 50,255. Which ID has the "
          "end marker?",
          *_in_draft("vocab_size", 50256)),
    known("heads-left",
          "1,280 is not divisible by 24. How wide should a head be?",
          *_in_draft("n_heads", 24)),
    known(*HEAD_WIDTH, *_in_draft("n_heads", 64)),
    known("blocks-for-heads",
          "36 is the number of blocks. How many heads has each?",
          *_in_draft("n_heads", 36)),
    known(*PERCENT, *_in_draft("drop_rate", 5)),
    known("kept-for-dropped",
          "That is the share which stays; drop_rate is the share which is "
          "set to zero.",
          *_in_draft("drop_rate", 0.95, 95)),
    known("as-in-gpt2",
          "GPT_CONFIG_124M has the same value. Is it what is meant here?",
          *_in_draft("drop_rate", 0.1), *_in_draft("n_heads", 12)),
    known("tenths-for-hundredths",
          "0.5 drops half of the values.",
          *_in_draft("drop_rate", 0.5)),
    known("drop-rate-off",
          "That switches dropout off. What is meant is another share.",
          *_in_draft("drop_rate", 0)),
    known(*FLOAT_SIZE,
          *(edit for entry, value in
            [("vocab_size", 50257.0), ("n_heads", 20.0)]
            for edit in _in_draft(entry, value))),
]  # fmt: skip


def _new_answer(solve):
    return lambda: {entry: solve(entry) for entry in ENTRIES}


def _draft_answer(solve):
    return lambda draft: {entry: solve(entry) for entry in ENTRIES}


CONFIGURATION = Task(described, NEW_MISTAKES, _new_answer)
CORRECTED = Task(meant, DRAFT_MISTAKES, _draft_answer)


@exercise(
    "Take the seven keys of GPT_CONFIG_124M, one after the other, and find "
    "the sentence that fixes each. Two of them need a division.",
    "A table's numbers are its rows times its columns, and a position's row "
    "is as long as a token's vector. All heads together are as wide as "
    "that vector.",
    "vocab_size counts GPT-2's 50,257 tokens and the new markers; "
    "context_length is 573,440 // emb_dim; n_heads is emb_dim // 64; "
    "drop_rate is what does not stay.",
    task=CONFIGURATION,
)
def configuration(fn):
    """The seven entries of a configuration that is described in words."""
    given = _given_entries(fn, "my_configuration()")
    wrong = _wrong_entries(given, described)
    for entry in wrong:
        judge(
            given.__getitem__,
            CONFIGURATION,
            [(entry,)],
            partial(_seen_entry, wrong),
            partial(_otherwise_entry, OTHERWISE),
        )
    return (
        "all seven entries fit the description: 14 heads of 64 numbers make "
        "896, and 640 positions of 896 numbers make 573,440."
    )


@exercise(
    "check_config stops at the first thing that can't be built. Correct it "
    "and ask again. It does not know what was meant.",
    "Three entries are wrong. check_config finds two of them; for the third, "
    "compare the highest ID of the tokenizer with the rows of the table.",
    "All heads together are 1,280 numbers wide, each of them 64; 5 per cent "
    "is 5 / 100; the IDs 0 to 50256 need one row more than 50,256.",
    task=CORRECTED,
)
def corrected_configuration(fn):
    """The draft's three wrong entries, and its four right ones."""
    call, draft = "my_corrected_configuration(draft)", copy.deepcopy(DRAFT)
    given = _given_entries(fn, call, draft)
    wrong = _wrong_entries(given, meant)
    for entry in wrong:
        judge(
            given.__getitem__,
            CORRECTED,
            [(entry,)],
            partial(_seen_entry, wrong),
            partial(_otherwise_entry, AS_MEANT),
        )
    return (
        "the draft describes the model that was meant: each of 20 heads is "
        "64 numbers wide, one value in twenty is dropped, and the end marker "
        "has a row."
    )


def _given_entries(fn, call, *draft):
    """Entry → value that a learner's function gives, whenever it is called.

    Args:
        call: how the exercise writes the call.
        draft: what the function gets, if anything.
    """
    if isinstance(fn, Mapping):
        raise Mistake(
            "not-a-function",
            "Your answer is a dictionary; expected a function that returns "
            "one, as the stub begins it.",
        )
    check_signature(fn, *draft, call=call)
    first, second = _entries(fn, draft), _entries(fn, draft)
    for entry, value in first.items():
        if repr(value) != repr(second[entry]) and isinstance(value, Real):
            raise Mistake(
                "not-repeatable",
                f"{entry} is {value} after a first call and {second[entry]} "
                "after a second. What is kept from one call to the next?",
            )
    return first


def _wrong_entries(given, solution):
    return [e for e in ENTRIES if not equal(given[e], solution(e))]


def _entries(fn, draft):
    """The entries of a learner's configuration, as plain numbers."""
    with _configurations_kept(fn, *draft):
        cfg = fn(*draft)
    if cfg is None:
        raise Mistake(
            "returns-none",
            "The function returns None: does every path end in a return? A "
            "dict's own `update` returns None, too.",
        )
    if not isinstance(cfg, Mapping):
        raise Mistake(
            "wrong-type",
            f"The function returns {shortened(cfg)}, of type "
            f"{type(cfg).__name__}; expected a dictionary with the seven "
            "entries.",
        )
    if cfg.keys() != SMALLEST.keys():
        try:
            check_config(cfg)
        except KeyError as error:
            raise Mistake("wrong-keys", error.args[0]) from None
    return {entry: _plain(entry, cfg[entry]) for entry in ENTRIES}


def _plain(entry, value):
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    if entry == "drop_rate":
        # 1 - 0.85 is 0.15000000000000002, and float32 has 7 digits.
        share = round(float(value), 7)
        return int(share) if share.is_integer() else share
    return int(value) if isinstance(value, Integral) else float(value)


def _seen_entry(wrong, case, outcome, right):
    (entry,) = case
    others = ", ".join(other for other in wrong if other != entry)
    also = f" (Not right so far, either: {others}.)" if others else ""
    return f"{entry} is {shortened(outcome.result)}.{also}"


def _otherwise_entry(words, case, outcome, right):
    (entry,) = case
    try:
        check_config(SMALLEST | {entry: outcome.result})
    except TypeError as error:
        return "wrong-type", error.args[0]
    except ValueError:
        pass  # out of range, or no divisor of 768, which is not the width
    return words[entry]


@contextlib.contextmanager
def _configurations_kept(fn, *more):
    """Raise `Mistake` if a call that ends without an error leaves another
    configuration changed; put all of them back in any case."""
    own = filter(_is_configuration, getattr(fn, "__globals__", {}).values())
    found = [GPT_CONFIG_124M, *GPT2_CONFIGS.values(), *own, *more]
    before, changed = copy.deepcopy(found), []
    try:
        yield
    finally:
        for one, old in zip(found, before, strict=True):
            if one != old:
                changed.append(one)
                one.clear()
                one.update(old)
    if changed:
        raise Mistake(
            "config-changed",
            "Your function changes a dictionary that others use, too, such "
            "as GPT_CONFIG_124M or draft. Make a new one: `a | b` is a copy "
            "of a with the entries of b put in.",
        )


def _is_configuration(thing):
    return (
        isinstance(thing, dict)
        and "n_heads" in thing
        and all(isinstance(value, Real) for value in thing.values())
    )
