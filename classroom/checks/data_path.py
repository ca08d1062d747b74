"""GPT's data path, which notebook 01's skeleton and the model share.

A learner's model is compared with a composition of its own parts: first in
evaluation, then in training. Its blocks are cheap functions meanwhile, each
another one, so that their order shows even where they are placeholders.
"""

import contextlib
import copy
import re
from functools import partial

import torch
from torch import nn
from torch.nn.functional import dropout, embedding, linear
from torch.overrides import TorchFunctionMode

from classroom.checks.devices import WHERE_FROM, check_device
from classroom.checks.edits import Task, blame, known
from classroom.checks.modules import (
    check_drawn_anew,
    check_gradients,
    construct,
    gradients,
    randomized,
)
from classroom.checks.parts import check_created, check_names, count
from classroom.checks.result import Mistake
from classroom.checks.tensors import difference, expect_tensor, same

# No two are equal, so that each shape tells which sizes made it.
SIZES = {
    "vocab_size": 31,
    "context_length": 9,
    "emb_dim": 12,
    "n_heads": 3,
    "n_layers": 4,
    "drop_rate": 0.4,
    "qkv_bias": False,
}
# The notebooks' own, for which learners write probes.
TINY = {
    "vocab_size": 101,
    "context_length": 16,
    "emb_dim": 24,
    "n_heads": 3,
    "n_layers": 2,
    "drop_rate": 0.1,
    "qkv_bias": False,
}
TABLES = {
    "tok_emb": ("vocab_size", "emb_dim"),
    "pos_emb": ("context_length", "emb_dim"),
    "out_head": ("vocab_size", "emb_dim"),
}
ORDER = (
    "tok_emb", "pos_emb", "drop_emb", "trf_blocks", "final_norm", "out_head"
)  # fmt: skip
IN_TRAINING = "In training, drop_rate = 0.4 drops 40% of the embeddings' sum. "
PARTS = {
    "tok_emb": ("token-embedding-missing", "the table of token vectors"),
    "pos_emb": ("position-embedding-missing",
                "the table of position vectors: without it, word order is "
                "lost"),
    "trf_blocks": ("blocks-missing", "the stack of blocks"),
    "final_norm": ("final-norm-missing", "the norm after the blocks"),
    "out_head": ("head-missing", "the layer from vectors to logits"),
}  # fmt: skip


# --- the solution, and what mistakes make of it ----------------------------


def logits(
    in_idx, tok_emb, pos_emb, drop_emb, trf_blocks, final_norm, out_head
):
    positions = torch.arange(in_idx.shape[1], device=in_idx.device)
    token, place = embedding(in_idx, tok_emb), embedding(positions, pos_emb)
    x = token + place
    x = drop_emb(x)
    for block in trf_blocks:
        x = block(x)
    x = final_norm(x)
    return linear(x, out_head)


ARANGE = "torch.arange(in_idx.shape[1], device=in_idx.device)"
IN_BATCH = "torch.arange(in_idx.numel()).view_as(in_idx)"
LOOKED_UP = "embedding(positions, pos_emb)"
LOOP = "for block in trf_blocks:\n    x = block(x)"
HEAD = "linear(x, out_head)"
NO_DROP = {"x = drop_emb(x)": "pass"}
NO_NORM = {"x = final_norm(x)": "pass"}


def _on_head(*written):
    """Edits that do something to the logits."""
    return [{HEAD: text.format(HEAD)} for text in written]


# What shows in evaluation.
PATH = [
    *(known("positions-constant",
            f"This fits the vector of {which} position for each token. Which "
            "positions is pos_emb asked for?",
            {ARANGE: f"torch.full(in_idx.shape[1:], {row})"})
      for which, row in [("the first", 0), ("the second", 1),
                         ("the last token's", "in_idx.shape[1] - 1"),
                         ("the next token's", "in_idx.shape[1]"),
                         ("the table's last", "len(pos_emb) - 1")]),
    known("positions-off-by-one",
          "This fits positions that start at 1; the table's rows count from "
          "0.",
          {ARANGE: "torch.arange(1, in_idx.shape[1] + 1)"}),
    known("positions-off-by-one",
          "This fits positions that start at -1, the table's last row; they "
          "count from 0.",
          {ARANGE: "torch.arange(-1, in_idx.shape[1] - 1) % len(pos_emb)"}),
    known("positions-reversed",
          "This fits positions that run from the last to the first.",
          {ARANGE: f"{ARANGE}.flip(0)"}),
    known("positions-from-the-end",
          "This fits the last rows of the position table. A text starts at "
          "position 0, however long it is.",
          {ARANGE: "torch.arange(len(pos_emb))[-in_idx.shape[1] :]"}),
    known("positions-along-batch",
          "This fits positions counted along the batch. in_idx.shape is "
          "(batch, tokens): which of the two should be counted?",
          {"shape[1]": "shape[0]"},
          {ARANGE: "torch.arange(in_idx.shape[0])[:, None]"}),
    known("positions-of-all-tokens",
          "This fits positions counted through the whole batch. Each text "
          "starts again at 0.",
          {"in_idx.shape[1]": "in_idx.numel()"},
          {ARANGE: IN_BATCH},
          {ARANGE: f"{IN_BATCH} % len(pos_emb)"}),
    known("positions-of-full-context",
          "This fits positions for context_length tokens, also for a shorter "
          "text. How many tokens does in_idx have?",
          {"in_idx.shape[1]": "len(pos_emb)"}),
    known("positions-from-token-ids",
          "This fits a position table that is asked for the token IDs; "
          "expected 0, 1, 2, …, whatever the tokens are.",
          {ARANGE: "in_idx"}),
    known("position-embedding-unused",
          "This fits token vectors alone: one token four times would give "
          "four equal rows of logits. Are the position vectors added?",
          {"token + place": "token"}),
    known("positions-averaged",
          "This fits one vector for all positions, their mean or sum.",
          {LOOKED_UP: f"{LOOKED_UP}.mean(0)"},
          {LOOKED_UP: f"{LOOKED_UP}.sum(0)"}),
    known("positions-added-twice",
          "This fits position vectors that are added twice.",
          {"token + place": "token + 2 * place"}),
    known("positions-subtracted",
          "This fits position vectors that are subtracted; expected a sum.",
          {"token + place": "token - place"}),
    known("embeddings-multiplied",
          "This fits a product of token and position vectors; expected a "
          "sum.",
          {"token + place": "token * place"}),
    known("embeddings-concatenated",
          "This fits token and position vectors that stand beside each "
          "other, 24 numbers for each token; expected their sum, of 12.",
          {"token + place": "torch.cat([token, place.expand_as(token)], -1)"}),
    known("embeddings-scaled",
          "This fits vectors that a factor scales before the blocks; GPT-2 "
          "adds the two and does no more.",
          {"token + place": "(token + place) * token.shape[-1] ** 0.5"},
          {"token + place": "token * token.shape[-1] ** 0.5 + place"},
          {"token + place": "(token + place) / 2"},
          {"token + place": "(token + place) / token.shape[-1] ** 0.5"}),
    known("token-embedding-unused",
          "This fits position vectors alone: the result does not depend on "
          "the tokens.",
          {"token + place": "place.expand_as(token)"},
          {"token + place": "place"}),
    known("token-embedding-twice",
          "This fits token vectors that are added twice.",
          {"token + place": "2 * token + place"},
          {"token + place": "2 * token"}),
    known("positions-added-late",
          "This fits position vectors that are added after the blocks, which "
          "then know of no order.",
          {"token + place": "token", "final_norm(x)": "final_norm(x + place)"},
          {"token + place": "token",
           "final_norm(x)": "final_norm(x) + place"}),
    known("positions-in-each-block",
          "This fits position vectors that are added before every block; "
          "once, before the first, is enough.",
          {"token + place": "token", "block(x)": "block(x + place)"}),
    known("dropout-in-evaluation",
          "This fits dropout in evaluation mode, where it should hand "
          "everything through. How does it know the mode?",
          *({"drop_emb(x)": f"drop_emb(x, p={p}, training=True)"}
            for p in (0.4, 0.5, 0.1))),
    known("blocks-unused",
          "This fits a model without blocks. Is trf_blocks called, and is "
          "its result used?",
          {"= block(x)": "= x"}),
    known("one-block-repeated",
          "This fits one block that does the work of all four.",
          {"block(x)": "trf_blocks[0](x)"},
          {"block(x)": "trf_blocks[-1](x)"}),
    *(known("blocks-skipped",
            f"This fits {which} alone, of the blocks 0 to 3. What does each "
            "block get, and what happens to its result?",
            {"in trf_blocks": f"in trf_blocks[{part}]"})
      for which, part in [
          ("block 0", ":1"), ("block 3", "3:"), ("blocks 0 to 2", ":3"),
          ("blocks 1 to 3", "1:"), ("block 1", "1:2"), ("block 2", "2:3"),
          ("blocks 0 and 1", ":2"), ("blocks 1 and 2", "1:3")]),
    known("blocks-reversed",
          "This fits blocks that run from the last to the first.",
          {"in trf_blocks": "in trf_blocks[::-1]"}),
    known("blocks-twice",
          "This fits a stack of blocks that runs twice.",
          {"in trf_blocks": "in trf_blocks * 2"}),
    known("blocks-in-parallel",
          "This fits blocks that all read the embeddings; each should read "
          "what the one before it returned.",
          {LOOP: "x = sum(block(x) for block in trf_blocks)"},
          {LOOP: "x = x + sum(block(x) for block in trf_blocks)"}),
    known("extra-shortcut",
          "This fits a shortcut around the blocks. Blocks have shortcuts "
          "inside, and the model adds none.",
          {"= block(x)": "= x + block(x)"},
          {LOOP: f"start = x\n{LOOP}\nx = start + x"},
          {LOOP: f"start = x\n{LOOP}",
           "= final_norm(x)": "= start + final_norm(x)"}),
    known("final-norm-unused",
          "This fits a head that reads what the blocks return. Is final_norm "
          "called, and is its result used?",
          NO_NORM),
    known("final-norm-before-blocks",
          "This fits a final_norm before the blocks; expected after the "
          "last.",
          {"drop_emb(x)": "final_norm(drop_emb(x))"} | NO_NORM,
          {"drop_emb(x)": "drop_emb(final_norm(x))"} | NO_NORM),
    known("final-norm-twice",
          "This fits a final_norm that acts twice; expected once, after the "
          "last block.",
          {"final_norm(x)": "final_norm(final_norm(x))"},
          {"drop_emb(x)": "final_norm(drop_emb(x))"}),
    known("final-norm-after-each-block",
          "This fits a final_norm after each block; expected once, after the "
          "last.",
          {"block(x)": "final_norm(block(x))"} | NO_NORM,
          {"block(x)": "final_norm(block(x))"}),
    known("norm-on-logits",
          "This fits a norm that acts on the logits; expected before the "
          "head.",
          {HEAD: f"final_norm({HEAD})"} | NO_NORM,
          *_on_head("nn.functional.layer_norm({0}, {0}.shape[-1:])")),
    known("softmax-on-logits",
          "This fits a softmax behind the head. The model ends in logits, as "
          "the head gives them.",
          *_on_head("{}.softmax(-1)", "{}.log_softmax(-1)")),
    known("softmax-on-logits",
          "This fits a softmax behind the head, along another axis than the "
          "vocabulary. The model ends in logits, as the head gives them.",
          *_on_head("{}.softmax(1)", "{}.softmax(0)")),
    known("sigmoid-on-logits",
          "This fits a sigmoid behind the head; expected the head's numbers "
          "as they are.",
          *_on_head("{}.sigmoid()")),
    known("activation-on-logits",
          "This fits an activation behind the head; expected the head's "
          "numbers as they are.",
          *_on_head("{}.relu()", "{}.tanh()")),
    known("logits-scaled",
          "This fits logits divided by the root of emb_dim; expected the "
          "head's numbers as they are.",
          *_on_head("{} / x.shape[-1] ** 0.5")),
    known("tied-head",
          "This fits logits from the token table; expected out_head, a table "
          "of its own.",
          {HEAD: "linear(x, tok_emb)"}),
    known("last-position-only",
          "This fits the last token's logits alone; each token of each text "
          "has a row of its own.",
          *_on_head("{}[:, -1]", "{}[:, -1:]")),
    known("averaged-over-positions",
          "This fits logits averaged over the tokens; each token of each "
          "text has a row of its own.",
          *_on_head("{}.mean(1)")),
    known("returns-ids",
          "This fits token IDs. The model gives all logits, and choosing "
          "comes later.",
          *_on_head("{}.argmax(-1)", "{}[:, -1].argmax(-1)",
                    "{}[:, -1].argmax(-1, keepdim=True)")),
    known("head-unused",
          "This fits the vectors that out_head should read. Is it called?",
          {HEAD: "x"}),
    known("axes-swapped",
          "This fits two axes that are exchanged: expected (batch, tokens, "
          "vocab_size).",
          *_on_head("{}.transpose(1, 2)")),
    known("batch-flattened",
          "This fits the axes of batch and tokens made one: expected (batch, "
          "tokens, vocab_size).",
          *_on_head("{}.flatten(0, 1)")),
]  # fmt: skip
# What evaluation on a CPU does not show.
HIDDEN = [
    known("dropout-missing",
          "This fits vectors of which none is dropped before the first block. "
          "Is drop_emb called, and is its result used?",
          NO_DROP),
    *(known("dropout-before-addition",
            f"This fits dropout on {what}; expected once, on the sum of "
            "both.",
            {"token + place": text} | NO_DROP)
      for what, text in [
          ("the token vectors alone", "drop_emb(token) + place"),
          ("the position vectors alone", "token + drop_emb(place)"),
          ("the position vectors alone, one by one for each text",
           "token + drop_emb(place.expand_as(token))"),
          ("each of the two embeddings", "drop_emb(token) + drop_emb(place)"),
          ("each of the two embeddings", "drop_emb(place) + drop_emb(token)"),
          ("each of the two embeddings",
           "drop_emb(token) + drop_emb(place.expand_as(token))")]),
    known("dropout-twice",
          "This fits dropout that acts twice on the embeddings; expected "
          "once.",
          {"drop_emb(x)": "drop_emb(drop_emb(x))"}),
    known("dropout-after-blocks",
          "This fits dropout after the blocks; expected before the first, on "
          "the sum of the embeddings.",
          {"final_norm(x)": "final_norm(drop_emb(x))"} | NO_DROP,
          {"final_norm(x)": "drop_emb(final_norm(x))"} | NO_DROP),
    known("dropout-after-each-block",
          "This fits dropout after each block; expected once, before the "
          "first, on the sum of the embeddings.",
          {"block(x)": "drop_emb(block(x))"} | NO_DROP),
    known("dropout-on-logits",
          "This fits dropout behind the head; expected before the first "
          "block, on the sum of the embeddings.",
          {HEAD: f"drop_emb({HEAD})"} | NO_DROP),
    *(known("drop-rate-not-handed-on",
            f"This fits a rate of {p}; expected the one of cfg.",
            {"drop_emb(x)": f"drop_emb(x, p={p})"})
      for p in (0.1, 0.5, 0.2, 0.3, 0.6, 0.05, 0.15, 0.25, 0.7, 0.8, 0.9)),
    known("positions-on-wrong-device",
          "With all else on another device, positions are looked up that "
          "live on cpu.",
          {", device=in_idx.device": ""}),
]  # fmt: skip


# --- a learner's model and its parts ---------------------------------------


def start(answer, call, **changes):
    """The learner's model as it starts."""
    try:
        model = construct(answer, SIZES | changes, call=call)
    except TypeError as error:
        if not re.match(r"(list|tuple|generator) is not a Mod", str(error)):
            raise
        raise Mistake(
            "blocks-not-unpacked",
            f"Torch says: {error}. nn.Sequential takes the blocks one by "
            "one, as separate arguments, not as one list.",
        ) from None
    return model.eval()


def build(answer, call, **changes):
    """The learner's model, with parameters that all show."""
    return randomized(start(answer, call, **changes))


def parts(model):
    """What `logits` reads: the model's own tables, blocks and norm."""
    return {
        **{name: table(model, name) for name in TABLES},
        "drop_emb": partial(
            dropout, p=SIZES["drop_rate"], training=model.training
        ),
        "trf_blocks": blocks_of(model),
        "final_norm": model.final_norm,
    }


def table(model, name):
    """A part's weights, whether it is a module or the table itself."""
    part = getattr(model, name)
    return getattr(part, "weight", part)


def blocks_of(model):
    """The blocks of torch's containers, or of a learner's own."""
    stack = model.trf_blocks
    if not hasattr(stack, "__len__"):
        inner = list(stack.children())
        nested = len(inner) == 1 and hasattr(inner[0], "__len__")
        stack = inner[0] if nested else inner or [stack]
    if isinstance(stack, nn.ModuleDict):
        stack = stack.values()
    return list(stack)


def check_parts(model, qkv_bias=False):
    """Each part is there, and has the sizes that `SIZES` gives it.

    Args:
        qkv_bias: that of the model's configuration; ask with False first.
    """
    check_names(model, PARTS)
    for name in TABLES:
        _check_table(model, name)
    _check_head(model, qkv_bias)
    check_blocks(model, SIZES["n_layers"])
    check_rate(getattr(model, "drop_emb", None), "drop_emb")


def _check_table(model, name):
    part, weights, keys = (
        getattr(model, name),
        table(model, name),
        TABLES[name],
    )
    kind = type(part).__name__
    if not isinstance(weights, torch.Tensor):
        raise Mistake(
            "wrong-part",
            f"{name} is of type {kind} and holds no table of weights.",
        )
    found, wanted = tuple(weights.shape), tuple(SIZES[key] for key in keys)
    if isinstance(part, nn.Linear) and name != "out_head":
        raise Mistake(
            "wrong-part",
            f"{name} is a {kind}, which multiplies vectors; its weights have "
            f"shape {found}. Expected a table that is asked for row numbers, "
            f"of shape {wanted}, ({', '.join(keys)}).",
        )
    if found != wanted:
        mistake, says = _wrong_size(name, found, wanted)
        raise Mistake(
            mistake,
            f"The weights of {name} have shape {found}; expected {wanted}, "
            f"({', '.join(keys)}). {says}",
        )
    if not any(weights is p for p in model.parameters()):
        raise Mistake(
            "not-trainable",
            f"The weights of {name} are not among the model's trainable "
            "parameters, so training would leave them as they are.",
        )


def _wrong_size(name, found, wanted):
    if found == wanted[::-1] and name == "pos_emb":
        return "context-width-swapped", "Which of its sizes comes first?"
    if found == wanted[::-1]:
        return "vocabulary-width-swapped", "Which of its sizes comes first?"
    if {50257, 1024, 768} & set(found):
        return "size-hardcoded", "Read each size from cfg."
    if name == "pos_emb":
        return "position-table-size", "How many positions exist?"
    return "wrong-size", "Which entries of cfg does it need?"


def _check_head(model, qkv_bias):
    bias = getattr(model.out_head, "bias", None)
    if bias is not None:
        when, says = "", "Which argument of nn.Linear turns the bias off?"
        if qkv_bias:
            when = "With qkv_bias=True, "
            says = "Which layers is qkv_bias for?"
        raise Mistake(
            "head-bias",
            f"{when}out_head has a bias of {bias.numel()} numbers; GPT-2's "
            f"head is a table of weights and nothing else. {says}",
        )
    tables = [table(model, name) for name in ("out_head", "tok_emb")]
    if tables[0].data_ptr() == tables[1].data_ptr():
        raise Mistake(
            "tied-head",
            "out_head and tok_emb share one table (weight tying): the model "
            f"counts {count(model)} parameters. Expected two tables of 31 × "
            "12 each.",
        )


def check_blocks(model, wanted):
    """As many blocks as configured, each with parameters of its own."""
    blocks = blocks_of(model)
    if len(blocks) != wanted:
        raise Mistake(
            "wrong-number-of-blocks",
            f"The length of trf_blocks is {len(blocks)}; expected n_layers = "
            f"{wanted}. Is another entry of cfg read, or a number written "
            "down?",
        )
    tensors = [id(p) for block in blocks for p in block.parameters()]
    objects = len(set(map(id, blocks)))
    if objects < wanted and not tensors:
        held = "one block" if objects == 1 else f"{objects} different blocks"
        times = f"{wanted} times" if objects == 1 else f"in {wanted} places"
        raise Mistake(
            "one-block-repeated",
            f"trf_blocks holds {held} {times}. Make each with a call of its "
            "own.",
        )
    if objects < wanted or len(set(tensors)) < len(tensors):
        raise Mistake(
            "one-block-repeated",
            f"The {wanted} blocks share their weights (different objects: "
            f"{objects}), and the model counts {count(model)} parameters. "
            "Each block needs a call of its own.",
        )


def check_rate(part, name):
    """Dropout modules have the rate of cfg."""
    for module in part.modules() if isinstance(part, nn.Module) else []:
        if isinstance(module, nn.Dropout) and module.p != SIZES["drop_rate"]:
            raise Mistake(
                "drop-rate-not-handed-on",
                f"A dropout in {name} drops {module.p:.0%} of its values; "
                f"expected cfg's drop_rate = {SIZES['drop_rate']}.",
            )


def check_order(answer, call, block=None):
    """Parts are made in this order: from one seed they start the same.

    Args:
        block: makes a block, unless blocks hold no numbers.
    """
    model = start(answer, call, n_layers=2)
    check_blocks(model, 2)
    own = [name for name, _ in model.named_children() if name in ORDER]
    if own != sorted(own, key=ORDER.index):
        raise Mistake(
            "created-in-other-order",
            f"Your model gets its parts in the order {', '.join(own)}; asked "
            f"for was {', '.join(ORDER)}.",
        )
    vocab_size, context_length, emb_dim, _, n_layers, *_ = SIZES.values()
    makers = {
        "tok_emb": lambda: nn.Embedding(vocab_size, emb_dim),
        "pos_emb": lambda: nn.Embedding(context_length, emb_dim),
        "trf_blocks": lambda: nn.Sequential(
            *(block(SIZES) for _ in range(n_layers))
        ),
        "out_head": lambda: nn.Linear(emb_dim, vocab_size, bias=False),
    }
    if block is None:
        del makers["trf_blocks"]
    check_created(lambda: answer(dict(SIZES)), makers)


# --- what the model gives, in both modes -----------------------------------


def some_ids(batch, tokens, below=SIZES["vocab_size"]):
    return torch.randint(below, (batch, tokens))


def every_id():
    """All IDs at all positions: none may be kept out of training."""
    return (torch.arange(4 * 9) % SIZES["vocab_size"]).view(4, 9)


def some_texts():
    return list(map(some_ids, (3, 2, 1), (5, 9, 2)))


def _probes():
    """Texts of all lengths, and equal ones in a batch."""
    # The first one's IDs are low, so that they fit the position table too.
    probes = [some_ids(3, 5, 9), *map(some_ids, (1, 2, 5), (9, 1, 2))]
    probes += map(some_ids, (2, 1, 4, 2, 3), (3, 4, 6, 7, 8))
    return [*probes, probes[0][[0, 1, 0, 2, 0]]]


@torch.no_grad()
def check_logits(model):
    """Compare a model with `logits`, its blocks replaced by functions."""
    for i, block in enumerate(blocks_of(model)):
        block.forward = _stand_in(i)
    probes, fresh = _probes(), None
    with contextlib.suppress(Exception):  # for a model that can't be copied
        fresh = copy.deepcopy(model)
    kept = {name: p.clone() for name, p in model.named_parameters()}
    for training in (False, True):
        reading = parts(model.train(training))
        solve = partial(logits, **reading)
        outputs = [_outcome(model, ids) for ids in probes]
        _check_kept(model, kept, training)
        if isinstance(outputs[0], NameError | AttributeError):
            raise outputs[0]  # no edit gives that: the search would be long
        expected = [_outcome(solve, ids) for ids in probes]
        pairs = zip(outputs, expected, strict=True)
        right = [same(*pair, equal_nan=True) for pair in pairs]
        if all(right) or training and _agree_on_average(model, solve):
            continue
        n = right.index(False)
        triple = probes[n], outputs[n], expected[n]
        seen = f"{IN_TRAINING if training else ''}IDs of shape "
        seen += f"{tuple(probes[n].shape)}: {difference(*triple[1:])}"
        task = Task(logits, HIDDEN if training else PATH, None)
        agrees = partial(_all_agree, outputs, probes, reading)
        if any(isinstance(output, torch.Tensor) for output in outputs):
            found = task.explain(agrees)
        else:
            _check_rows(model, probes[n], seen)
            found = _alone(task, agrees)
        words = ("", "") if found else _otherwise(fresh, model, *triple)
        blame(found, seen, *words)
    check_drawn_anew(model, probes[0])


def _check_kept(model, weights, training):
    """Calls have left the model's weights and its mode alone."""
    if model.training != training:
        raise Mistake(
            "mode-changed",
            f"A call with training = {training} leaves your model with "
            f"training = {not training}; the caller decides on it. Is there "
            "a train() or eval() in forward?",
        )
    for name, p in model.named_parameters():
        if not torch.equal(p, weights[name]):
            raise Mistake(
                "weights-changed",
                f"A call changes {name}; only an optimizer should. Is "
                "something assigned to it, or does an argument such as "
                "max_norm change it?",
            )


def _stand_in(i):
    return lambda x, *args, **kwargs: x + (x * (1 + i / 4) + i).sin()


def _outcome(function, ids):
    """What a call gives, with draws that are always the same; or its error."""
    given = ids.clone()
    torch.default_generator.manual_seed(3)  # the CPU's alone: it is cheap
    try:
        output = function(given)
    except NotImplementedError as error:
        if "[ModuleList]" not in str(error):
            raise
        raise Mistake(
            "module-list-called",
            f"A call of a ModuleList stopped with {str(error)[:70]}. Such a "
            "list keeps blocks and does not run them: who calls each block "
            "in turn?",
        ) from None
    except Exception as error:
        return error
    if not torch.equal(given, ids):
        raise Mistake(
            "input-overwritten",
            "After the call, the token IDs themselves have changed: "
            f"{ids.flatten()[:9].tolist()} are {given.flatten()[:9].tolist()} "
            "now. What writes into in_idx?",
        )
    if not isinstance(output, torch.Tensor):
        expect_tensor(output, (*ids.shape, SIZES["vocab_size"]))
    return output


def _all_agree(outputs, probes, reading, solve):
    """Whether an edited solution gives these outputs."""
    # Errors alone say little: then they must have the same words.
    values = any(isinstance(output, torch.Tensor) for output in outputs)
    for output, ids in zip(outputs, probes, strict=True):
        again = _outcome(partial(solve, **reading), ids)
        worded_alike = values or str(output) == str(again)
        if not (worded_alike and same(output, again, equal_nan=True)):
            return False
    return True


def _alone(task, agrees):
    """A single known mistake that explains errors: pairs take too long."""
    for mistake in task.mistakes:
        for edit in mistake.edits:
            if agrees(task.edited(edit)):
                return (mistake,)
    return ()


def _agree_on_average(model, solve):
    """Dropout of a learner's own make draws other masks: then the mean and
    the spread over many of them decide."""
    ids = some_ids(1, 5).expand(4000, -1)
    ours, theirs = solve(ids), _outcome(model, ids)
    if not isinstance(theirs, torch.Tensor) or theirs.shape != ours.shape:
        return False
    spread = ours.std(0)
    gaps = ours.mean(0) - theirs.mean(0), spread - theirs.std(0)
    return all(gap.abs().mean() < 0.05 * spread.mean() for gap in gaps)


class _LookUps(TorchFunctionMode):
    """Notes the rows of each look-up, and the table."""

    def __init__(self):
        super().__init__()
        self.noted = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is embedding:
            self.noted.append((*args, *(kwargs or {}).values())[:2])
        return func(*args, **(kwargs or {}))


def _check_rows(model, ids, seen):
    """An error of each call may come from rows that no table has."""
    with _LookUps() as look_ups, contextlib.suppress(Exception):
        model(ids)
    for rows, weights in look_ups.noted:
        if not isinstance(rows, torch.Tensor) or rows.is_floating_point():
            continue
        first, last = int(rows.min()), int(rows.max())
        if first < 0 or last >= len(weights):
            off = last - first == ids.shape[1] - 1
            raise Mistake(
                "positions-off-by-one" if off else "positions-outside-table",
                f"{seen} A table of {len(weights)} rows is asked for rows "
                f"{first} to {last}; {ids.shape[1]} tokens stand at positions "
                f"0 to {ids.shape[1] - 1}.",
            )


def _otherwise(fresh, model, ids, output, expected):
    """What an output can be that no known mistake explains.

    Args:
        fresh: the model before its first call, or None.
    """
    if fresh and same(_outcome(fresh.train(model.training), ids), expected):
        return (
            "remembers-calls",
            "As the first of all calls, this one gives what is right. What "
            "does forward keep from one call to the next?",
        )
    if isinstance(output, Exception):
        raise output
    expect_tensor(output, expected.shape)
    torch.manual_seed(4)  # not the draws that gave the output
    if not model.training and not same(model(ids.clone()), output):
        return (
            "not-repeatable",
            "A second call with the same IDs gives something else. Is "
            "something in forward random, or kept from call to call?",
        )
    return (
        "wrong-values",
        "This is not what your parts give along the data path. Write it down "
        "line by line, with the shape behind each line.",
    )


# --- gradients and devices -------------------------------------------------


def check_all_gradients(model, task):
    """In evaluation they are the solution's; in training there are some."""
    try:
        check_gradients(model.eval(), task, every_id(), parts(model))
    except Mistake as mistake:
        if "there is none" in mistake.message:
            raise
        raise Mistake(
            mistake.name,
            f"{mistake.message} Or does an argument such as padding_idx "
            "change it?",
        ) from None
    named = dict(model.train().named_parameters())
    grads = gradients(model(every_id()).sum(), list(named.values()))
    for name, grad in zip(named, grads, strict=True):
        if grad is None:
            raise Mistake(
                "gradient-detached",
                f"In training mode, no gradient arrives at {name}. Look for "
                "detach, no_grad or .data on the way.",
            )


def check_positions(model):
    """As `check_device`, in both modes; what is looked up are positions."""
    for training in (True, False):
        try:
            check_device(model.train(training), some_ids(3, 5))
        except Mistake as mistake:
            if " embedding " not in mistake.message:
                raise
            says = "Make it with device=in_idx.device."
            raise Mistake(
                "positions-on-wrong-device",
                mistake.message.replace(WHERE_FROM, says),
            ) from None
