"""Checks of notebook 01: the skeleton, a configuration, logits by hand."""

import contextlib
import copy
from collections.abc import Mapping
from functools import partial
from numbers import Integral, Real
from reprlib import repr as shortened

import torch

from classroom.checks import data_path
from classroom.checks.data_path import SIZES
from classroom.checks.edits import BODY, Task, known
from classroom.checks.functions import (
    check_signature,
    equal,
    judge,
    returned,
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


def _instead(entry, *values):
    """Edits that put each of these values into an entry."""
    right = f'"{entry}": {described(entry)!r},'
    return [{right: f'"{entry}": {value!r},'} for value in values]


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
ENTRY_MISTAKES = [
    known("markers-forgotten",
          "GPT-2's own tokens are there. What does this tokenizer have "
          "besides?",
          *_instead("vocab_size", 50257)),
    known("highest-id-for-count",
          "Is that the highest ID? IDs count from 0, and vocab_size counts "
          "the tokens.",
          *_instead("vocab_size", 50259, 50256)),
    known("numbers-for-rows",
          "That is all numbers of the position table; context_length counts "
          "its rows. How long is one row?",
          *_instead("context_length", 573440)),
    known("columns-for-rows",
          "That is how long a row of the position table is. How many rows "
          "does it have?",
          *_instead("context_length", 896)),
    known("as-in-gpt2",
          "GPT_CONFIG_124M has the same value. What does the description say "
          "about this entry?",
          *_instead("context_length", 1024), *_instead("emb_dim", 768),
          *_instead("n_heads", 12), *_instead("n_layers", 12),
          *_instead("drop_rate", 0.1), *_instead("qkv_bias", False)),
    known("head-width-for-width",
          "64 is how wide each head is; emb_dim is the width of all heads "
          "together.",
          *_instead("emb_dim", 64)),
    known("head-width-for-count",
          "64 is how wide each head is; n_heads says how many heads stand "
          "side by side.",
          *_instead("n_heads", 64)),
    known("blocks-for-heads",
          "That is the number of blocks. How many heads does each have?",
          *_instead("n_heads", 20)),
    known("heads-for-blocks",
          "That is the number of heads. How many blocks are there?",
          *_instead("n_layers", 14)),
    known("kept-for-dropped",
          "That is the share which stays; drop_rate is the share which is "
          "set to zero.",
          *_instead("drop_rate", 0.85, 85)),
    known("percent-for-share",
          "A drop rate is a share of 1, not a number of per cent.",
          *_instead("drop_rate", 15)),
    known("float-size",
          "A size must be a whole number (int), and this is a float: `/` "
          "always gives one, `//` does not.",
          *(edit for entry, value in
            [("vocab_size", 50260.0), ("context_length", 640.0),
             ("emb_dim", 896.0), ("n_heads", 14.0), ("n_layers", 20.0)]
            for edit in _instead(entry, value))),
]  # fmt: skip


def _configuration(solve):
    return lambda: {entry: solve(entry) for entry in ENTRIES}


CONFIGURATION = Task(described, ENTRY_MISTAKES, _configuration)


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
    given = _given_entries(fn)
    wrong = [e for e in ENTRIES if not equal(given[e], described(e))]
    for entry in wrong:
        judge(
            given.__getitem__,
            CONFIGURATION,
            [(entry,)],
            partial(_seen_entry, wrong),
            partial(_otherwise_entry, wrong),
        )
    return (
        "all seven entries fit the description: 14 heads of 64 numbers make "
        "896, and 640 positions of 896 numbers make 573,440."
    )


def _given_entries(fn):
    """Entry → value that a learner's function gives, whenever it is called."""
    if isinstance(fn, Mapping):
        raise Mistake(
            "not-a-function",
            "Your answer is a dictionary; expected a function that returns "
            "one, as the stub begins it.",
        )
    check_signature(fn, call="my_configuration()")
    first, second = _entries(fn), _entries(fn)
    for entry, value in first.items():
        if repr(value) != repr(second[entry]) and isinstance(value, Real):
            raise Mistake(
                "not-repeatable",
                f"{entry} is {value} after a first call and {second[entry]} "
                "after a second. What is kept from one call to the next?",
            )
    return first


def _entries(fn):
    """The entries of a learner's configuration, as plain numbers."""
    with _configurations_kept(fn):
        cfg = fn()
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
    return f"{entry} is {shortened(outcome.result)}.{_also(wrong, entry)}"


def _also(wrong, entry):
    others = ", ".join(other for other in wrong if other != entry)
    return f" (Not right so far, either: {others}.)" if others else ""


def _otherwise_entry(wrong, case, outcome, right):
    (entry,) = case
    try:
        check_config(SMALLEST | {entry: outcome.result})
    except TypeError as error:
        says = f"{error.args[0]}{_also(wrong, entry)}"  # it tells the value
        raise Mistake("wrong-type", says) from None
    except ValueError:
        pass  # out of range, or no divisor of 768, which is not the width
    return OTHERWISE[entry]


@contextlib.contextmanager
def _configurations_kept(fn):
    """Raise `Mistake` if a call that ends without an error leaves another
    configuration changed; put all of them back in any case."""
    own = filter(_is_configuration, getattr(fn, "__globals__", {}).values())
    found = [GPT_CONFIG_124M, *GPT2_CONFIGS.values(), *own]
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
            "as GPT_CONFIG_124M. Make a new one: `a | b` is a copy of a with "
            "the entries of b put in.",
        )


def _is_configuration(thing):
    return (
        isinstance(thing, dict)
        and "n_heads" in thing
        and all(isinstance(value, Real) for value in thing.values())
    )


# --- the last position's logits, by hand -----------------------------------


def by_hand(ids, tok, pos, head):
    place = len(ids) - 1
    token, position = tok[ids[place]], pos[place]
    x = token + position
    logits = head @ x
    return logits


VECTORS = "tok[ids] + pos[: len(ids)]"
THE_EXAMPLE = "This fits a size that is written down, as in the example: "
LOGIT_MISTAKES = [
    known("first-position-read",
          "This fits the logits of the first position. Which position scores "
          "the next token?",
          {"len(ids) - 1": "0"}),
    known("first-position-read",
          "This fits the first token of the text. Which token stands last?",
          {"ids[place]": "ids[0]"}),
    known("positions-constant",
          "This fits the vector of the first position, however long the text "
          "is. Where does its last token stand?",
          {"pos[place]": "pos[0]"}),
    known("positions-from-the-end",
          "This fits the last row of the position table. A text starts at "
          "position 0, however long it is.",
          {"pos[place]": "pos[-1]"}),
    known("positions-of-full-context",
          "This fits all rows of the position table at once, also for a "
          "shorter text. How many tokens does ids have?",
          {BODY: "return head @ (tok[ids] + pos)[-1]"},
          {BODY: "return (tok[ids] + pos) @ head.T"}),
    known("positions-off-by-one",
          "This fits positions that start at 1; the table's rows count from "
          "0.",
          {"pos[place]": "pos[place + 1]"}),
    known("positions-off-by-one",
          "This fits positions that start at -1; the table's rows count from "
          "0.",
          {"pos[place]": "pos[place - 1]"}),
    known("positions-from-token-ids",
          "This fits a position table that is asked for the token's ID. What "
          "is a position, whatever the token is?",
          {"pos[place]": "pos[ids[place]]"}),
    known("position-embedding-unused",
          "This fits the token's vector alone. What does the model add to "
          "it?",
          {"token + position": "token"}),
    known("token-embedding-unused",
          "This fits the position's vector alone: the result does not depend "
          "on the tokens.",
          {"token + position": "position"}),
    known("tokens-by-position",
          "This fits a row of tok that does not go by the token's ID.",
          {"tok[ids[place]]": "tok[place]"}, {"tok[ids[place]]": "tok[-1]"}),
    known("ids-as-numbers",
          "This fits an ID that is added as a number. An ID is a name: which "
          "numbers stand for it?",
          {"token + position": "ids[place] + position"}),
    known("embeddings-multiplied",
          "This fits a product of token and position vectors; expected a "
          "sum.",
          {"token + position": "token * position"}),
    known("positions-subtracted",
          "This fits a position vector that is subtracted; expected a sum.",
          {"token + position": "token - position"}),
    known("averaged-over-positions",
          "This fits the mean or the sum of all tokens' vectors. Nothing in "
          "this model looks at a neighbor.",
          *({BODY: f"return head @ ({VECTORS}).{how}(0)"}
            for how in ("mean", "sum"))),
    known("all-positions-returned",
          "This fits the logits of all positions; asked for are those of the "
          "last.",
          {BODY: f"return ({VECTORS}) @ head.T"},
          {BODY: f"return head @ ({VECTORS}).T"}),
    known("head-not-transposed",
          "This fits a head that is read the other way round. It has a row "
          "for each token: what do you multiply with a row?",
          {"head @ x": "head.T @ x"}),
    known("product-not-added-up",
          "This fits products that are not added up. A dot product is one "
          "number.",
          {"head @ x": "head * x"}),
    known("tied-head",
          "This fits logits from the token table; expected head, a table of "
          "its own.",
          {"head @ x": "tok @ x"}),
    known("head-unused",
          "This fits the vector that the head should read. Is it used?",
          {"head @ x": "x"}),
    known("softmax-on-logits",
          "This fits a softmax behind the head; asked for are the logits.",
          *({"head @ x": f"(head @ x).{how}(0)"}
            for how in ("softmax", "log_softmax"))),
    known("returns-ids",
          "This fits the ID of the highest logit; asked for are all logits.",
          {"return logits": "return logits.argmax()"}),
    known("extra-axis",
          "The numbers are right, and an axis of length 1 is too many.",
          {"return logits": "return logits[None]"},
          {"return logits": "return logits[:, None]"}),
    known("size-hardcoded",
          f"{THE_EXAMPLE}two tokens. How long is this text?",
          {"len(ids) - 1": "1"}, {"pos[place]": "pos[1]"},
          {"ids[place]": "ids[1]"}),
    known("size-hardcoded",
          f"{THE_EXAMPLE}three tokens in the vocabulary. How many rows does "
          "head have?",
          {"return logits": "return logits[:3]"}),
    known("size-hardcoded",
          f"{THE_EXAMPLE}two numbers in each vector. How long is a row?",
          {"head @ x": "head[:, :2] @ x[:2]"}),
]  # fmt: skip
LAST_LOGITS = Task(by_hand, LOGIT_MISTAKES, lambda solve: solve)


@exercise(
    "Do the example on paper first, and write down where each number comes "
    "from. How much of the text do the logits of its last position need?",
    "The token at a position chooses the row of tok, and the position itself "
    "the row of pos; positions count from 0. The two rows are added.",
    "Each row of head gives one logit: its dot product with the vector. A "
    "table times a vector, `table @ vector`, makes all of them at once.",
    task=LAST_LOGITS,
)
def last_logits(fn):
    """The logits of one text's last position, from tables of several sizes,
    which stay as they are."""
    cases = _some_tables()
    call = "my_last_logits(ids, tok, pos, head)"
    check_signature(fn, *cases[0], call=call)
    outcomes = judge(
        partial(_as_tensor, fn),
        LAST_LOGITS,
        cases,
        lambda case, outcome, right: (
            f"With {_shown(*case)}: "
            f"{difference(outcome.error or outcome.result, right.result)}"
        ),
        _otherwise_logits,
        agree=_close,
    )
    if any(outcome.changed for outcome in outcomes):
        raise Mistake(
            "input-overwritten",
            "The logits are right, and after the call a table is not as it "
            "was. A row of a table can be the table's own memory: look for "
            "an assignment such as += that works in place.",
        )
    return (
        "texts of 1 to 5 tokens give the right logits, with tables of three "
        "sizes. The tokens before the last change nothing: no block is there "
        "to read them."
    )


def _some_tables():
    """ids, tok, pos and head: texts of all lengths, and a square head."""
    return [
        (
            torch.tensor(ids),
            torch.randn(vocab, emb),
            torch.randn(context, emb),
            torch.randn(vocab, emb),
        )
        for vocab, context, emb, ids in [
            (7, 5, 4, [4, 1, 3]),
            (7, 5, 4, [2]),
            (4, 6, 4, [1, 3, 0, 2]),  # a wrong way round raises no error
            (9, 5, 3, [8, 4, 4, 0, 7]),  # as long as can be
        ]
    ]


def _as_tensor(fn, ids, tok, pos, head):
    """What a learner's function returns; an ID alone as a tensor, too."""
    logits = returned(fn, ids, tok, pos, head)
    if isinstance(logits, Integral):
        return torch.tensor(logits)
    if not isinstance(logits, torch.Tensor):
        expect_tensor(logits, head.shape[:1])
    return logits


def _close(one, other):
    """As `alike`, up to rounding, and for errors of the same kind."""
    return same(one.error or one.result, other.error or other.result)


def _shown(ids, tok, pos, head):
    return (
        f"ids = {ids.tolist()}, tok of shape {tuple(tok.shape)}, pos "
        f"{tuple(pos.shape)} and head {tuple(head.shape)}"
    )


def _otherwise_logits(case, outcome, right):
    expect_tensor(outcome.result, right.result.shape)
    return (
        "wrong-values",
        "Do the example by hand, and compare it with your function line by "
        "line.",
    )
