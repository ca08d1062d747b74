"""Checks of notebook 01: the skeleton, its shapes, and text to IDs."""

import contextlib
import sys

import torch
from torch import nn

from classroom.checks.guard import exercise
from classroom.checks.probes import (
    Known,
    check_signature,
    construct,
    difference,
    expect_tensor,
    explain,
    gradients,
    same,
)
from classroom.checks.result import Mistake
from gptlib.tokenizer import gpt2_tokenizer

# No two sizes are equal, and more tokens than values in a vector: so the
# vectors in front of the head can be computed back from the logits.
CONFIG = {
    "vocab_size": 37,
    "context_length": 9,
    "emb_dim": 12,
    "n_heads": 3,
    "n_layers": 4,
    "drop_rate": 0.4,
    "qkv_bias": False,
}
TABLES = {
    "tok_emb": ("vocab_size", "emb_dim"),
    "pos_emb": ("context_length", "emb_dim"),
    "out_head": ("vocab_size", "emb_dim"),
}


@exercise(
    "Six parts in __init__: two tables, dropout, the stack of blocks, the "
    "norm, the head. In forward, write the shape behind each line.",
    "Positions are the whole numbers from 0 up to the number of tokens, "
    "made on the device of in_idx. Their vectors are added to the tokens' "
    "vectors; then dropout, blocks, norm and head follow, in this order.",
    "tok_emb and pos_emb are nn.Embedding(rows, emb_dim), the blocks stand "
    "in nn.Sequential(*[… for _ in range(…)]), the head is nn.Linear(…, …, "
    "bias=False), and the positions are torch.arange(…, device=…).",
)
def skeleton(cls):
    """Parts and their sizes, logits, the order of the parts, dropout, the
    positions' device, and gradients."""
    model = _build(cls)
    _check_parts(model)
    _check_tables(model)
    _check_blocks(model)
    _check_placeholders(model)
    for ids in (_ids(2, 5), _ids(1, 1), _ids(3, 9)):
        _check_logits(model, ids)
    _check_device(_build(cls))
    _check_order(cls)
    _check_dropout(_build(cls))
    _check_gradient(_build(cls))
    return (
        "texts of 1, 5 and 9 tokens give the right logits, the "
        f"{CONFIG['n_layers']} blocks, the norm and the head follow each "
        "other, dropout acts in training alone, and the positions are made "
        "where the IDs are."
    )


# --- building, parts and sizes -------------------------------------------


def _build(cls):
    """A learner's model with random parameters, the same at each call."""
    call = "MySkeleton(cfg)"
    try:
        model = construct(cls, dict(CONFIG), call=call)
    except TypeError as error:
        if "is not a Module subclass" not in str(error):
            raise
        raise Mistake(
            "blocks-not-unpacked",
            f"torch says: {error}. nn.Sequential takes the blocks one by "
            "one, as separate arguments, not as one list.",
        ) from None
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model.eval()


def _ids(batch, tokens, below=CONFIG["vocab_size"]):
    return torch.randint(below, (batch, tokens))


MISSING = {
    "tok_emb": ("token-embedding-missing", "the table of token vectors"),
    "pos_emb": (
        "position-embedding-missing",
        "the table of position vectors: without it, word order is lost",
    ),
    "trf_blocks": ("blocks-missing", "the stack of blocks"),
    "final_norm": ("final-norm-missing", "the norm after the blocks"),
    "out_head": ("head-missing", "the layer from vectors to logits"),
}


def _check_parts(model):
    for part, (name, what) in MISSING.items():
        if getattr(model, part, None) is None:
            raise Mistake(
                name,
                f"The model has no `{part}`, {what}. It has {_names(model)}.",
            )
    if not isinstance(model.final_norm, nn.Module):
        raise Mistake(
            "wrong-part",
            "`final_norm` is a "
            f"{type(model.final_norm).__name__}; expected a module.",
        )


def _names(model):
    names = ", ".join(name for name, _ in model.named_children())
    return names or "no parts"


def _table(model, part):
    """The part's weights, whether it is a module or the table itself."""
    part = getattr(model, part)
    return part if isinstance(part, torch.Tensor) else part.weight


def _check_tables(model):
    for part, keys in TABLES.items():
        table = getattr(getattr(model, part), "weight", getattr(model, part))
        if not isinstance(table, torch.Tensor):
            raise Mistake(
                "wrong-part",
                f"`{part}` is a {type(getattr(model, part)).__name__} and "
                "holds no table of weights.",
            )
        found, wanted = tuple(table.shape), tuple(CONFIG[k] for k in keys)
        if found != wanted:
            _raise_size(part, found, wanted, keys)
        _check_trainable(model, part, table)
    _check_head(model)


def _raise_size(part, found, wanted, keys):
    full = {50257, 1024, 768}
    if found == wanted[::-1]:
        swapped = "vocabulary-width-swapped"
        name = "context-width-swapped" if part == "pos_emb" else swapped
        where = "In which order does the layer take its two numbers?"
    elif set(found) & full:
        name = "hard-coded-size"
        where = "Read each size from cfg."
    elif part == "pos_emb":
        name = "position-table-size"
        where = "How many positions exist?"
    else:
        name, where = "wrong-size", "Which entries of cfg does it need?"
    raise Mistake(
        name,
        f"The weights of `{part}` have shape {found}; expected {wanted}, "
        f"({', '.join(keys)}). {where}",
    )


def _check_trainable(model, part, table):
    registered = any(p is table for p in model.parameters())
    if not registered or not table.requires_grad:
        raise Mistake(
            "not-trainable",
            f"The weights of `{part}` are not among the model's trainable "
            "parameters, so training would leave them as they are.",
        )


def _check_head(model):
    if getattr(model.out_head, "bias", None) is not None:
        raise Mistake(
            "head-bias",
            f"`out_head` has a bias of {CONFIG['vocab_size']} numbers; the "
            "notes' head has weights alone. Which argument of nn.Linear "
            "turns the bias off?",
        )
    if _table(model, "out_head") is _table(model, "tok_emb"):
        raise Mistake(
            "tied-head",
            "`out_head` and `tok_emb` share one table. The skeleton has two "
            f"of {CONFIG['vocab_size']} × {CONFIG['emb_dim']} each.",
        )


# --- blocks --------------------------------------------------------------


def _check_blocks(model):
    stack = model.trf_blocks
    if not isinstance(stack, nn.Module):
        raise Mistake(
            "blocks-plain-list",
            f"`trf_blocks` is a {type(stack).__name__}: torch does not see "
            "the blocks in it, so the real ones would never be trained. "
            "Which container of torch.nn registers its modules?",
        )
    blocks, wanted = _blocks(model), CONFIG["n_layers"]
    if len(blocks) != wanted:
        seen = {CONFIG[k]: f", which is {k}" for k in ("n_heads", "emb_dim")}
        raise Mistake(
            "wrong-number-of-blocks",
            f"`trf_blocks` holds {len(blocks)} blocks"
            f"{seen.get(len(blocks), '')}; expected n_layers = {wanted}.",
        )
    if len({id(block) for block in blocks}) < wanted:
        raise Mistake(
            "one-block-repeated",
            "One and the same block stands in `trf_blocks` several times: "
            "the real blocks would share their weights. Make a new one in "
            "each round.",
        )


def _blocks(model):
    stack = model.trf_blocks
    if not hasattr(stack, "__len__"):
        children = list(stack.children())
        inner = children[0] if len(children) == 1 else stack
        stack = inner if hasattr(inner, "__len__") else children or [stack]
    if isinstance(stack, nn.ModuleDict):
        return list(stack.values())
    return list(stack)


def _check_placeholders(model):
    parts = {f"block {i}": b for i, b in enumerate(_blocks(model))}
    parts["final_norm"] = model.final_norm
    for training in (False, True):
        for name, part in parts.items():
            x = torch.randn(2, 5, CONFIG["emb_dim"])
            output = part.train(training)(x.clone())
            if output is None:
                raise Mistake(
                    "returns-none",
                    f"The placeholder {name} returns None; expected its "
                    "input.",
                )
            if not isinstance(output, torch.Tensor) or not same(output, x):
                _raise_placeholder(name, output, x)
    model.eval()


def _raise_placeholder(name, output, x):
    if isinstance(output, torch.Tensor) and output.shape == x.shape:
        seen = difference(output, x)
    else:
        seen = f"It returns {getattr(output, 'shape', output)!r}."
    raise Mistake(
        "placeholder-changes-input",
        f"The placeholder {name} changes its input. {seen} Today it hands "
        "its input through.",
    )


# --- logits --------------------------------------------------------------


def _reference(
    model,
    ids,
    *,
    tokens=lambda e: e,
    rows=lambda t: torch.arange(t),
    places=lambda p: p,
    join=torch.add,
    head="out_head",
    scores=lambda z: z,
):
    """Logits from the model's tables; keyword arguments make it wrong."""
    vectors = tokens(_table(model, "tok_emb")[ids])
    # Wrong rows may lie outside the table: then the nearest one serves.
    positions = rows(ids.shape[1]).clamp(0, CONFIG["context_length"] - 1)
    x = join(vectors, places(_table(model, "pos_emb")[positions]))
    return scores(x @ _table(model, head).T)


def _known(name, says, **changes):
    return Known(name, says, changes)


def _scale(factor):
    return lambda x: x * factor


LOGITS = [
    _known(
        "softmax-on-logits",
        "The output is a softmax: its rows sum to 1. The model ends in "
        "logits, as the head gives them.",
        scores=lambda z: z.softmax(-1),
    ),
    _known(
        "softmax-on-logits",
        "The output is a softmax along another axis than the vocabulary; "
        "the model ends in logits, as the head gives them.",
        scores=lambda z: z.softmax(1),
    ),
    _known(
        "softmax-on-logits",
        "The output is a softmax along the batch; the model ends in logits.",
        scores=lambda z: z.softmax(0),
    ),
    _known(
        "softmax-on-logits",
        "The output is the logarithm of a softmax; the model ends in "
        "logits, as the head gives them.",
        scores=lambda z: z.log_softmax(-1),
    ),
    _known(
        "sigmoid-on-logits",
        "The output is a sigmoid of the logits; expected the logits.",
        scores=torch.sigmoid,
    ),
    _known(
        "position-embedding-unused",
        "The logits are those of the token vectors alone: the position "
        "vectors are not added.",
        places=_scale(0),
    ),
    _known(
        "position-embedding-constant",
        "Each token gets the vector of position 0. Which positions do you "
        "ask pos_emb for?",
        rows=lambda t: torch.zeros(t, dtype=torch.long),
    ),
    _known(
        "position-embedding-constant",
        "Each token gets the vector of position 1. Which positions do you "
        "ask pos_emb for?",
        rows=lambda t: torch.ones(t, dtype=torch.long),
    ),
    _known(
        "position-embedding-constant",
        "Each token gets the vector of the last position. Which positions "
        "do you ask pos_emb for?",
        rows=lambda t: torch.full((t,), t - 1),
    ),
    _known(
        "position-embedding-constant",
        "Each token gets the vector of the position after the last. Which "
        "positions do you ask pos_emb for?",
        rows=lambda t: torch.full((t,), t),
    ),
    _known(
        "positions-off-by-one",
        "The positions start at 1; the table's rows count from 0.",
        rows=lambda t: torch.arange(1, t + 1),
    ),
    _known(
        "positions-reversed",
        "The positions run from the last to the first.",
        rows=lambda t: torch.arange(t).flip(0),
    ),
    _known(
        "positions-from-the-end",
        "The last rows of the position table are used; a text starts at "
        "position 0.",
        rows=lambda t: torch.arange(t) + CONFIG["context_length"] - t,
    ),
    _known(
        "positions-averaged",
        "Each token gets the mean of the position vectors.",
        places=lambda p: p.mean(0, keepdim=True),
    ),
    _known(
        "positions-averaged",
        "Each token gets the sum of all position vectors.",
        places=lambda p: p.sum(0, keepdim=True),
    ),
    _known(
        "position-added-twice",
        "The position vectors are added twice.",
        places=_scale(2),
    ),
    _known(
        "position-subtracted",
        "The position vectors are subtracted; expected a sum.",
        places=_scale(-1),
    ),
    _known(
        "position-multiplied",
        "Token and position vectors are multiplied; expected a sum.",
        join=torch.mul,
    ),
    _known(
        "embeddings-averaged",
        "The sum of token and position vectors is halved.",
        join=lambda a, b: (a + b) / 2,
    ),
    _known(
        "token-embedding-unused",
        "The logits do not depend on the IDs: the token vectors are lost.",
        tokens=_scale(0),
    ),
    _known(
        "token-added-twice",
        "The token vectors are added twice.",
        tokens=_scale(2),
    ),
    _known(
        "embedding-scaled",
        "The token vectors are multiplied by the root of emb_dim; GPT-2 "
        "does not scale them.",
        tokens=_scale(CONFIG["emb_dim"] ** 0.5),
    ),
    _known(
        "tied-head",
        "The logits come from the token table; expected `out_head`, a table "
        "of its own.",
        head="tok_emb",
    ),
    _known(
        "placeholder-changes-input",
        "The vectors are normalized before the head; today's norm hands "
        "its input through.",
        join=lambda a, b: nn.functional.layer_norm(a + b, a.shape[-1:]),
    ),
]


def _check_logits(model, ids):
    given = ids.clone()
    try:
        output = model(given)
    except (RuntimeError, IndexError) as error:
        if f"x{2 * CONFIG['emb_dim']} and" in str(error):
            raise Mistake(
                "embeddings-concatenated",
                f"The head gets vectors of {2 * CONFIG['emb_dim']} numbers "
                f"for an emb_dim of {CONFIG['emb_dim']}: token and position "
                "vectors stand beside each other; expected their sum.",
            ) from None
        _check_positions(model)
        raise
    _check_shape(model, output, ids)
    if not torch.equal(given, ids):
        raise Mistake(
            "overwrites-input", "The caller's token IDs have been changed."
        )
    if not same(output, model(ids.clone())):
        raise Mistake(
            "dropout-in-evaluation",
            "Two calls in evaluation mode give different logits. Dropout "
            "must hand everything through after model.eval().",
        )
    _check_values(model, output, ids)


def _check_values(model, output, ids):
    expected = _reference(model, ids)
    if same(output, expected, atol=1e-4):
        return
    wrong = explain(
        output, lambda **c: _reference(model, ids, **c), LOGITS, atol=1e-4
    )
    if wrong and ids.shape[1] > 1:
        says = " Also: ".join(known.says for known in wrong)
        raise Mistake(wrong[0].name, f"{says} {difference(output, expected)}")
    raise Mistake(
        "wrong-values",
        difference(output, expected) + " Compare each step of forward with "
        "the formula x_t = E[id_t] + P[t].",
    )


def _check_positions(model):
    """Which wrong positions raise an error? Those that fit other inputs."""
    full, square = _ids(2, CONFIG["context_length"]), _ids(5, 5)
    if _works(model, full):
        raise Mistake(
            "positions-context-length",
            f"The model reads {CONFIG['context_length']} tokens, its longest "
            "input, but neither 5 nor 1. How many positions does a text "
            "need? Look at the shape of in_idx.",
        )
    if _works(model, square):
        raise Mistake(
            "positions-wrong-axis",
            "The model works where batch and tokens are equal, as in (5, "
            "5), but not for (2, 5). Which axis of in_idx holds the tokens?",
        )
    low = _ids(2, 5, below=CONFIG["context_length"])
    if _works(model, low):
        vectors = _table(model, "tok_emb")[low] + _table(model, "pos_emb")[low]
        if same(model(low), vectors @ _table(model, "out_head").T, atol=1e-4):
            raise Mistake(
                "positions-from-token-ids",
                "pos_emb is asked for the token IDs; expected the positions "
                "0, 1, 2, …",
            )
    if _works(model, _ids(2, 5)) and not _works(model, full):
        raise Mistake(
            "positions-off-by-one",
            f"5 tokens work but {CONFIG['context_length']}, the longest "
            "input, do not: a position lies outside the table. At which "
            "number do the positions start?",
        )


def _works(model, ids):
    try:
        output = model(ids)
    except (RuntimeError, IndexError):
        return False
    return isinstance(output, torch.Tensor)


def _check_shape(model, output, ids):
    (batch, tokens), vocab = ids.shape, CONFIG["vocab_size"]
    wanted = (batch, tokens, vocab)
    if isinstance(output, torch.Tensor) and tuple(output.shape) != wanted:
        known = {
            (batch, vocab): "last-position-only",
            (batch, 1, vocab): "last-position-only",
            (batch, tokens, CONFIG["emb_dim"]): "head-unused",
            (batch, vocab, tokens): "axes-swapped",
            (batch * tokens, vocab): "batch-flattened",
            (batch, tokens): "returns-ids",
        }
        name = known.get(tuple(output.shape), "wrong-shape")
        raise Mistake(
            name,
            f"IDs of shape {(batch, tokens)} give an output of shape "
            f"{tuple(output.shape)}; expected {wanted}: a row of logits for "
            "each token of each text.",
        )
    expect_tensor(output, wanted)


# --- device, dropout, order, gradients ------------------------------------


def _tap(part, function):
    """Let `function` take the place of what a part computes."""
    part.forward = function


class _Seen(BaseException):
    """Ends a run of a learner's model: what it had to show was seen."""


def _check_device(model):
    """Positions must be made where the IDs are. The meta device stands for
    a graphics card; it takes no notice of a mixture, so look inside."""
    if not isinstance(model.pos_emb, nn.Module):
        return
    # First on the CPU: is pos_emb called at all? Arithmetic on meta is slow
    # at its first use (2 seconds), so a run ends when pos_emb is called.
    if _positions_device(model, _ids(2, 5)) is None:
        return
    device = _positions_device(model.to("meta"), _ids(2, 5).to("meta"))
    if device not in (None, "meta"):
        raise Mistake(
            "positions-wrong-device",
            f"The IDs are on the device meta, the positions on {device}: "
            "on a graphics card this raises an error. torch.arange has an "
            "argument for the device.",
        )


def _positions_device(model, ids):
    """Where the first positions that pos_emb is asked for are, or None."""
    seen = []

    def look(positions, *args, **kwargs):
        seen.append(positions.device.type)
        raise _Seen

    _tap(model.pos_emb, look)
    # Meta tensors hold no values; an error from looking at them is fine.
    with contextlib.suppress(_Seen, Exception):
        model(ids)
    return seen[0] if seen else None


def _check_dropout(model):
    rate = CONFIG["drop_rate"]
    ids = _ids(64, 9)
    summed = _vectors(model, ids)
    logits = model.train()(ids)
    # Logits are vectors @ table.T; more rows than columns: solvable.
    table = _table(model, "out_head").T
    vectors = logits.double() @ torch.linalg.pinv(table.double())
    zeros = _share(vectors)
    if _share(logits) > 0.2 and zeros < 0.2:
        raise Mistake(
            "dropout-on-logits",
            f"In training {_share(logits):.0%} of the logits are zero: "
            "dropout stands behind the head; it belongs behind the sum of "
            "the embeddings.",
        )
    _check_branches(model, ids, vectors)
    if zeros < 0.01:
        _raise_no_dropout(model, vectors, summed)
    if abs(zeros - rate) > 0.05:
        twice = abs(zeros - (1 - (1 - rate) ** 2)) < 0.05
        raise Mistake(
            "dropout-twice" if twice else "wrong-drop-rate",
            f"With drop_rate = {rate}, {zeros:.0%} of the values are zero in "
            f"training; expected about {rate:.0%}.",
        )
    kept = vectors.abs() > 1e-3
    wanted = summed.double() / (1 - rate)
    if not same(vectors[kept], wanted[kept], atol=1e-3):
        raise Mistake(
            "wrong-values",
            "In training, the values that dropout keeps are not those of "
            f"the sum divided by {1 - rate}.",
        )


def _vectors(model, ids):
    positions = torch.arange(ids.shape[1])
    return _table(model, "tok_emb")[ids] + _table(model, "pos_emb")[positions]


def _share(x):
    """Share of zeros."""
    return (x.abs() < 1e-4).double().mean().item()


def _check_branches(model, ids, vectors):
    """Dropout on one of the two embeddings, before they are added."""
    tokens = _table(model, "tok_emb")[ids].double()
    places = _table(model, "pos_emb")[torch.arange(ids.shape[1])].double()
    both = {"position": vectors - places, "token": vectors - tokens}
    for untouched, rest in both.items():
        if _share(rest) > 0.25:
            raise Mistake(
                "dropout-before-addition",
                f"In training the {untouched} vectors never go through "
                "dropout. Where does it stand, before or after the addition?",
            )


def _raise_no_dropout(model, vectors, summed):
    part = getattr(model, "drop_emb", None)
    if part is None:
        raise Mistake(
            "dropout-missing",
            "The model has no `drop_emb`, and none of its values is zero in "
            f"training; expected about {CONFIG['drop_rate']:.0%}.",
        )
    if not same(vectors, summed, atol=1e-3):
        raise Mistake(
            "dropout-before-addition",
            "In training the values change, but none is zero: dropout acts "
            "on the embeddings before they are added.",
        )
    rate = getattr(part, "p", None)
    if rate is not None and rate != CONFIG["drop_rate"]:
        raise Mistake(
            "wrong-drop-rate",
            f"`drop_emb` has the rate {rate}; expected drop_rate = "
            f"{CONFIG['drop_rate']} from cfg.",
        )
    raise Mistake(
        "dropout-unused",
        "`drop_emb` is there, but none of the values is zero in training; "
        f"expected about {CONFIG['drop_rate']:.0%}. Is its result used?",
    )


def _marked_block(i):
    return lambda x, *args: x * (1 + i / 4) + i + 1


def _marked_norm(x, *args):
    return x.abs() / 2


def _marked_dropout(x, *args):
    return x.clamp(min=-0.5) + 0.25


def _flow(
    model,
    ids,
    *,
    drop="after",
    blocks=tuple(range(CONFIG["n_layers"])),
    norm="after",
    late=False,
):
    """What marked parts give, in the order that the arguments say."""
    tokens = _table(model, "tok_emb")[ids]
    places = _table(model, "pos_emb")[torch.arange(ids.shape[1])]
    x = tokens if late else tokens + places
    x = _marked_norm(x) if norm == "first" else x
    x = _marked_dropout(x) if drop == "after" else x
    x = _marked_norm(x) if norm == "before" else x
    for i in blocks:
        x = _marked_block(i)(x)
        x = _marked_norm(x) if norm == "each" else x
        x = _marked_dropout(x) if drop == "each" else x
    x = _marked_dropout(x) if drop == "blocks" else x
    x = _marked_norm(x) if norm == "after" else x
    x = _marked_dropout(x) if drop == "norm" else x
    x = x + places if late else x
    logits = x @ _table(model, "out_head").T
    return _marked_norm(logits) if norm == "head" else logits


N = CONFIG["n_layers"]
ORDER = [
    _known(
        "final-norm-unused",
        "`final_norm` has no effect on the logits. Is it called, and is its "
        "result used?",
        norm=None,
    ),
    _known(
        "blocks-unused",
        "`trf_blocks` has no effect on the logits. Is it called, and is its "
        "result used?",
        blocks=(),
    ),
    *(
        _known(
            "norm-before-blocks",
            "`final_norm` acts before the blocks; expected after them.",
            norm=place,
        )
        for place in ("before", "first")
    ),
    _known(
        "norm-after-each-block",
        "`final_norm` acts after each block; expected once, after the last.",
        norm="each",
    ),
    _known(
        "norm-after-head",
        "`final_norm` acts on the logits; expected before the head.",
        norm="head",
    ),
    *(
        _known(
            "dropout-after-blocks",
            "`drop_emb` acts after the blocks; expected before them, on the "
            "sum of the embeddings.",
            drop=place,
        )
        for place in ("blocks", "norm")
    ),
    _known(
        "dropout-after-each-block",
        "`drop_emb` acts after each block; expected once, before them.",
        drop="each",
    ),
    *(
        _known(
            "one-block-repeated",
            f"Block {i} runs {N} times, and the others never.",
            blocks=(i,) * N,
        )
        for i in (0, N - 1)
    ),
    *(
        _known(
            "block-skipped",
            f"Of the {N} blocks, only {list(run)} act on the logits.",
            blocks=run,
        )
        for run in [
            *((i,) for i in range(N)),
            tuple(range(1, N)),
            tuple(range(N - 1)),
        ]
    ),
    _known(
        "blocks-reversed",
        "The blocks run from the last to the first.",
        blocks=tuple(range(N))[::-1],
    ),
    _known(
        "blocks-run-twice",
        "The stack of blocks runs twice.",
        blocks=tuple(range(N)) * 2,
    ),
    _known(
        "positions-after-blocks",
        "The position vectors are added after the blocks; expected before, "
        "so that the blocks can see them.",
        late=True,
    ),
]


def _check_order(cls):
    """With parts that mark what goes through them, order is a value."""
    model = _build(cls)
    for i, block in enumerate(_blocks(model)):
        _tap(block, _marked_block(i))
    _tap(model.final_norm, _marked_norm)
    if isinstance(getattr(model, "drop_emb", None), nn.Module):
        _tap(model.drop_emb, _marked_dropout)
    ids = _ids(2, 5)
    output = model(ids)
    expected = _flow(model, ids)
    functional = _flow(model, ids, drop=None)  # F.dropout in forward
    if any(same(output, good, atol=1e-3) for good in (expected, functional)):
        return
    for base in ({}, {"drop": None}):
        wrong = explain(
            output,
            lambda base=base, **c: _flow(model, ids, **(base | c)),
            ORDER,
            atol=1e-3,
        )
        if wrong:
            says = " Also: ".join(known.says for known in wrong)
            raise Mistake(wrong[0].name, says)
    _check_dropout(_build(cls))  # explains more kinds of wrong dropout
    raise Mistake(
        "wrong-order",
        "With parts that mark what goes through them, the logits are not "
        "those of drop_emb → trf_blocks → final_norm → out_head. "
        + difference(output, expected),
    )


def _check_gradient(model):
    output = model(_ids(2, 5))
    weights = [_table(model, part) for part in TABLES]
    found = gradients(output.sum(), weights)
    for part, gradient in zip(TABLES, found, strict=True):
        if gradient is None or not gradient.any():
            raise Mistake(
                "gradient-blocked",
                f"No gradient reaches `{part}`, so it could not be trained. "
                "Look for no_grad, detach or .data in forward.",
            )


# --- the shapes ----------------------------------------------------------


@exercise(
    "Which parts of the model see the batch? The position vectors are the "
    "same for every text.",
    "tok_emb turns each ID into a vector, blocks and norm keep the shape, "
    "and the head changes the length of the last axis alone.",
    'Begin with vectors = (batch, tokens, cfg["emb_dim"]): three of the '
    "five stops have this shape.",
)
def predict_shapes(fn):
    """Shapes for several configurations, one too large to be built."""
    check_signature(fn, CONFIG, 2, 5, call="my_shapes(cfg, batch, tokens)")
    for sizes, batch, tokens in SHAPE_CASES:
        cfg = CONFIG | sizes
        given = dict(cfg)
        _check_shapes(
            _ask_shapes(fn, given, batch, tokens), cfg, batch, tokens
        )
        if given != cfg:
            raise Mistake("changes-cfg", "The caller's cfg has changed.")
    return (
        f"all five shapes are right for {len(SHAPE_CASES)} configurations "
        "and batches, without a model."
    )


SHAPE_CASES = [
    ({}, 2, 5),
    ({"vocab_size": 101, "emb_dim": 24, "context_length": 16}, 7, 3),
    # No machine could hold this one.
    ({"vocab_size": 10**13, "emb_dim": 3 * 10**9}, 3, 8),
    ({"vocab_size": 50257, "emb_dim": 1600, "context_length": 1024,
      "n_heads": 25, "n_layers": 48}, 1, 10),
]  # fmt: skip


def _shapes(cfg, batch, tokens):
    vectors = (batch, tokens, cfg["emb_dim"])
    return {
        "tok_emb": vectors,
        "pos_emb": vectors[1:],
        "trf_blocks": vectors,
        "final_norm": vectors,
        "logits": (batch, tokens, cfg["vocab_size"]),
    }


def _ask_shapes(fn, cfg, batch, tokens):
    try:
        return fn(cfg, batch, tokens)
    except (RuntimeError, MemoryError) as error:
        if cfg["vocab_size"] < 10**13:
            raise
        raise Mistake(
            "builds-a-model",
            f"For a model of {cfg['vocab_size']:,} tokens torch says: "
            f"{str(error).splitlines()[0]}. Compute the shapes from the "
            "numbers, without building anything.",
        ) from None


def _check_shapes(answer, cfg, batch, tokens):
    wanted = _shapes(cfg, batch, tokens)
    if not isinstance(answer, dict):
        raise Mistake(
            "returns-none" if answer is None else "wrong-type",
            f"The function returns {answer!r}; expected a dictionary with "
            f"the stops {', '.join(wanted)}.",
        )
    missing = [stop for stop in wanted if stop not in answer]
    if missing:
        raise Mistake(
            "missing-stop",
            f"The dictionary has no {', '.join(missing)}; it has "
            f"{', '.join(map(str, answer)) or 'nothing'}.",
        )
    for stop, shape in wanted.items():
        found = answer[stop]
        if not isinstance(found, (tuple, list)):
            raise Mistake(
                "wrong-type",
                f"At {stop} stands {found!r}; expected a shape as a tuple.",
            )
        if tuple(found) != shape:
            _raise_shape(stop, tuple(found), shape, cfg, batch, tokens)


def _raise_shape(stop, found, wanted, cfg, batch, tokens):
    emb, vocab = cfg["emb_dim"], cfg["vocab_size"]
    known = _wrong_shapes(stop, cfg, batch, tokens)
    hard = {50257, 768, 1024} & set(found) - set(wanted)
    name, says = "wrong-shape", "Which axes does this part see?"
    if hard:
        name = "hard-coded-size"
        says = f"{max(hard)} is not a size of this configuration."
    for known_name, (shapes, known_says) in known.items():
        if found in shapes:
            name, says = known_name, known_says
            break
    raise Mistake(
        name,
        f"For emb_dim {emb}, vocab_size {vocab}, {batch} texts of {tokens} "
        f"tokens, {stop} is {found}; expected {wanted}. {says}",
    )


def _wrong_shapes(stop, cfg, batch, tokens):
    """Mistake → the shapes at a stop that it leads to, and what to say."""
    emb, vocab = cfg["emb_dim"], cfg["vocab_size"]
    length = cfg["context_length"]
    last = vocab if stop == "logits" else emb
    position = stop == "pos_emb"
    return {
        "position-batch-axis": (
            [(batch, tokens, emb), (1, tokens, emb)] if position else [],
            "All texts share the position vectors: what is pos_emb asked for?",
        ),
        "table-shape": (
            [(vocab, emb), (length, emb), (emb, vocab)],
            "That is the table of weights; what comes out when it is asked?",
        ),
        "context-for-tokens": (
            [(batch, length, last), (1, length, last)],
            "context_length is the longest input, not this one's length.",
        ),
        "batch-axis-missing": (
            [(tokens, last)],
            "Every text has its own rows here.",
        ),
        "last-position-only": (
            [(batch, last), (batch, 1, last)],
            "Every token gets a row of its own.",
        ),
        "head-unused": (
            [(batch, tokens, emb)] if stop == "logits" else [],
            "What does the head change?",
        ),
        "vocabulary-for-width": (
            [(batch, tokens, vocab), (tokens, vocab)],
            "Only the logits are as long as the vocabulary.",
        ),
        "batch-tokens-swapped": (
            [(tokens, batch, last), (batch, emb)],
            "Which axis comes first?",
        ),
        "axes-swapped": (
            [(batch, last, tokens), (last, tokens), (emb, tokens)],
            "The numbers that describe a token stand on the last axis.",
        ),
        "layers-axis": (
            [
                (n, batch, tokens, emb)
                for n in (cfg["n_layers"], cfg["n_heads"])
            ]
            + [
                (batch, n, tokens, emb // cfg["n_heads"])
                for n in (cfg["n_layers"], cfg["n_heads"])
            ],
            "Blocks follow each other and keep the shape; n_layers and "
            "n_heads change none.",
        ),
        "width-missing": (
            [(batch, tokens), (tokens,)],
            "An embedding gives a vector for each ID: an axis is added.",
        ),
        "flattened": (
            [(batch * tokens, last)],
            "Batch and tokens stay two axes.",
        ),
    }


# --- text and IDs --------------------------------------------------------


@exercise(
    "The tokenizer has one method for each direction.",
    "Encode the text, keep the list of IDs, decode this whole list.",
    "ids = tokenizer.encode(…); return ids, tokenizer.decode(…)",
)
def round_trip(fn):
    """IDs and texts for accents, emoji, spaces, and no text at all."""
    check_signature(fn, "Hi", call="my_round_trip(text)")
    tokenizer = gpt2_tokenizer()
    with _decoding() as calls:
        for text in TEXTS:
            ids, back = _pair(fn(text), text)
            _check_ids(ids, text, tokenizer)
            if back != text:
                _raise_text(ids, text, back, tokenizer)
    if not calls:
        raise Mistake(
            "text-not-decoded",
            "The second part of the pair was never decoded: it is the text "
            "that came in. Let it come from the IDs.",
        )
    return (
        f"{len(TEXTS)} texts come back unchanged, and their IDs are "
        "GPT-2's; 🙂 alone has 2."
    )


TEXTS = [
    "naïve café",
    "Every effort moves you",
    "Hi 🙂!",
    "🙂",
    "  two  spaces,\n\ta tab and UPPER case ",
    "日本語 и русский",
    "flibbertigibbet",
    "e\u0301 as two characters",
    "",
]


@contextlib.contextmanager
def _decoding():
    """Collect the names of called functions that decode something."""
    calls = []
    before = sys.getprofile()

    def look(frame, event, function):
        name = frame.f_code.co_name
        if event == "c_call":
            name = getattr(function, "__name__", "")
        if event in ("call", "c_call") and "decode" in name:
            calls.append(name)

    sys.setprofile(look)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def _pair(answer, text):
    if answer is None:
        raise Mistake("returns-none", "The function returns None.")
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        raise Mistake(
            "not-a-pair",
            f"For {text!r} the function returns {answer!r}; expected a pair: "
            "the IDs, and the text again.",
        )
    ids, back = answer
    if isinstance(ids, str) and not isinstance(back, str):
        raise Mistake(
            "pair-swapped",
            "The text comes first and the IDs second; expected the IDs first.",
        )
    ids = ids.tolist() if hasattr(ids, "tolist") else ids
    if not isinstance(ids, (tuple, list)) or not isinstance(back, str):
        raise Mistake(
            "wrong-type",
            f"For {text!r} the pair holds {type(ids).__name__} and "
            f"{type(back).__name__}; expected a list of IDs and a text (str).",
        )
    return list(ids), back


def _check_ids(ids, text, tokenizer):
    wanted = tokenizer.encode(text)
    if ids == wanted:
        return
    pieces = [i for word in text.split() for i in tokenizer.encode(word)]
    known = {
        "batch-axis": ([wanted], "Expected a flat list."),
        "bytes-not-tokens": (
            list(text.encode()),
            "Those are the text's bytes.",
        ),
        "characters-not-tokens": (
            [ord(c) for c in text],
            "Those are the numbers of the characters.",
        ),
        "encoded-by-character": (
            [i for c in text for i in tokenizer.encode(c)],
            "Each character was encoded alone.",
        ),
        "encoded-by-word": (pieces, "Each word was encoded alone."),
        "end-marker-added": (
            [*wanted, tokenizer.eot_token],
            "An end marker was added.",
        ),
        "text-changed": (
            tokenizer.encode(text.strip()),
            "The spaces at its ends were cut off.",
        ),
        "characters-lost": (
            tokenizer.encode(text.encode("ascii", "ignore").decode()),
            "Only ASCII characters are left.",
        ),
        "lower-cased": (
            tokenizer.encode(text.lower()),
            "The text was put in lower case.",
        ),
        "ids-sorted": (sorted(wanted), "Their order has changed."),
        "ids-reversed": (wanted[::-1], "Their order has changed."),
    }
    seen = f"For {text!r} the IDs are {ids}; expected {wanted}."
    for name, (wrong, says) in known.items():
        if ids == wrong:
            raise Mistake(name, f"{seen} {says}")
    raise Mistake("wrong-ids", f"{seen} Which tokenizer made them?")


def _raise_text(ids, text, back, tokenizer):
    single = [tokenizer.decode([i]) for i in ids]
    name, says = "text-changed", "What happens after decode?"
    if "\ufffd" in back:
        name = "decoded-singly"
        says = (
            "� stands for half a character. One character may have several "
            "IDs; how many of them does each call of decode get?"
        )
    elif back == " ".join(single):
        name = "joined-with-spaces"
        says = "The tokens hold their spaces already."
    elif back == "".join(piece for piece in text if piece.isascii()):
        name, says = "characters-lost", "Only ASCII characters are left."
    elif back == text.strip() or back == " ".join(text.split()):
        name, says = "spaces-lost", "Spaces are part of the text."
    raise Mistake(name, f"The text {text!r} comes back as {back!r}. {says}")
