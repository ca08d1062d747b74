"""Checks of notebook 06: the whole model, and the search for a broken part.

A model is compared with a composition of its own parts, and with gptlib's
model that holds the same parameters. A wrong output is looked up among what
known mistakes in the embeddings, the trunk and the output would give.
"""

import copy

import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from classroom.checks.block import SIZES, randomize
from classroom.checks.guard import exercise
from classroom.checks.probes import (
    construct,
    difference,
    expect_tensor,
    number,
    same,
)
from classroom.checks.result import Mistake
from gptlib.config import GPT_CONFIG_124M
from gptlib.model import GPTModel
from gptlib.skeleton import DummyLayerNorm

# All sizes differ: 31 entries, 9 positions, 12 features, 3 heads, 4 blocks.
CFG = SIZES | {"n_layers": 4}
MISSING = {
    "tok_emb": "token-embedding-missing",
    "pos_emb": "position-embedding-missing",
    "trf_blocks": "blocks-missing",
    "final_norm": "final-norm-missing",
    "out_head": "head-missing",
}
TABLES = {  # part → the shape of its weight, the mistake's name, why
    "tok_emb": ((31, 12), "token-table-size", "a row for each token"),
    "pos_emb": ((9, 12), "position-table-size", "a row for each position"),
    "out_head": ((31, 12), "head-size", "a row for each token"),
}


# --- the parts -----------------------------------------------------------


def build(answer, rate=0.0, **changes):
    """The learner's model with random parameters."""
    cfg = CFG | {"drop_rate": rate} | changes
    given = dict(cfg)
    model = construct(answer, given, call="MyGPTModel(cfg)")
    if given != cfg:
        raise Mistake(
            "config-changed",
            "Your model changes the configuration that it is given. Others "
            "use it too, so leave it as it was.",
        )
    return randomize(model)


def blocks_of(model):
    # Not .children(), which shows a module once if it stands there twice.
    return list(model.trf_blocks._modules.values())


def count(module):
    return sum(p.numel() for p in module.parameters())


def check_parts(model, qkv_bias=False):
    """Each part is there, with a size and parameters that fit."""
    check_listed(model)
    check_present(model)
    check_blocks(model, qkv_bias)
    check_head(model)
    for name, (shape, mistake, why) in TABLES.items():
        weight = getattr(getattr(model, name), "weight", None)
        if not isinstance(weight, torch.Tensor) or weight.shape != shape:
            seen = None if weight is None else tuple(weight.shape)
            raise Mistake(
                mistake,
                f"The weight of {name} has shape {seen}; expected {shape}, "
                f"{why} (vocab_size=31, context_length=9, emb_dim=12).",
            )
    check_final_norm(model.final_norm)
    check_no_others(model)


def check_listed(model):
    """Blocks in a list are not part of the model, as PyTorch sees it."""
    listed = getattr(model, "trf_blocks", None)
    if isinstance(listed, dict):
        listed = list(listed.values())
    if not isinstance(listed, (list, tuple)):
        return
    raise Mistake(
        "blocks-in-list",
        f"trf_blocks is a Python {type(model.trf_blocks).__name__} of "
        f"{len(listed)} blocks, which PyTorch does not register: the model "
        f"counts {count(model)} parameters; expected {count(GPTModel(CFG))}. "
        "An optimizer would never train the blocks.",
    )


def check_present(model):
    missing = [
        name
        for name in MISSING
        if not isinstance(getattr(model, name, None), nn.Module)
    ]
    if not missing:
        return
    names = " and none called ".join(missing)
    others = {
        name.split(".")[0]
        for name, _ in model.named_parameters()
        if name.split(".")[0] not in MISSING or name in MISSING
    }
    if others:
        raise Mistake(
            "wrong-name",
            f"The model has no module called {names}; it has "
            f"{', '.join(sorted(others))}. The names are fixed, because "
            "saved weights are found by them.",
        )
    raise Mistake(
        MISSING[missing[0]],
        f"The model has no module called {names}. Follow the "
        "picture of the assembled model from top to bottom: which stop is "
        "left out?",
    )


def check_blocks(model, qkv_bias):
    """As many blocks as configured, each with parameters of its own."""
    blocks = blocks_of(model)
    tensors = [id(p) for block in blocks for p in block.parameters()]
    reference = GPTModel(CFG | {"qkv_bias": qkv_bias})
    if len(blocks) != 4:
        raise Mistake(
            "wrong-number-of-blocks",
            f"trf_blocks holds {len(blocks)} modules; cfg['n_layers'] is 4 "
            "(and cfg['n_heads'] is 3).",
        )
    if len(set(tensors)) < len(tensors):
        raise Mistake(
            "one-block-repeated",
            f"The {len(blocks)} blocks are {len(set(map(id, blocks)))} "
            f"object(s) with shared weights: the model counts {count(model)} "
            f"parameters; expected {count(reference)}. Each needs a call of "
            "TransformerBlock of its own.",
        )
    expected = count(reference.trf_blocks[0])
    for block in blocks:
        check_block_size(block, expected, qkv_bias)


def check_block_size(block, expected, qkv_bias):
    if count(block) == expected:
        return
    seen = f"A block has {count(block)} parameters; expected {expected}"
    if count(block) == 0:
        raise Mistake(
            "placeholder-blocks",
            f"{seen}. Is it the skeleton's placeholder "
            f"({type(block).__name__})?",
        )
    raise Mistake(
        "wrong-block",
        f"{seen} (with qkv_bias={qkv_bias}). Does it get the model's own "
        "configuration?",
    )


def check_head(model):
    head, table = model.out_head, model.tok_emb
    if getattr(head, "bias", None) is not None:
        raise Mistake(
            "bias-in-head",
            f"out_head has a bias of {head.bias.numel()} numbers; GPT-2's "
            "head is a table of weights and nothing else.",
        )
    ours = getattr(head, "weight", None)
    theirs = getattr(table, "weight", None)
    if None not in (ours, theirs) and ours.data_ptr() == theirs.data_ptr():
        raise Mistake(
            "tied",
            "out_head and tok_emb share one table (weight tying): the model "
            f"counts {count(model)} parameters; expected "
            f"{count(GPTModel(CFG))}. This model has a head of its own.",
        )


def check_final_norm(norm):
    own = [p.detach() for p in norm.parameters()]
    if not own:
        raise Mistake(
            "final-norm-missing",
            f"final_norm is a {type(norm).__name__} without parameters, "
            "which normalizes nothing that can be trained; expected 24 (a "
            "scale and a shift of 12).",
        )
    x = 3 * torch.randn(2, 5, 12) + 2
    if [p.shape for p in own] == [(12,)] * 2:
        expected = [F.layer_norm(x, (12,), *each) for each in (own, own[::-1])]
        if any(same(norm(x), each, 1e-3) for each in expected):
            return
    raise Mistake(
        "final-norm-wrong",
        f"final_norm is no layer norm over 12 features: it has {count(norm)} "
        "parameters (expected 24), or gives other values.",
    )


def check_no_others(model):
    own = {
        id(p) for part in MISSING for p in getattr(model, part).parameters()
    }
    others = [n for n, p in model.named_parameters() if id(p) not in own]
    if others:
        raise Mistake(
            "extra-parameters",
            f"The model has parameters that are not asked for: "
            f"{', '.join(others[:4])}.",
        )


# --- the composition of the parts, right and wrong ------------------------


def embeddings(model, ids):
    """What reaches the first block: rightly, and by known mistakes."""
    batch, tokens = ids.shape
    table, width = model.pos_emb.weight, model.pos_emb.weight.shape[1]
    token, position = model.tok_emb(ids), table[:tokens]
    both = token + position
    yield None, both
    yield "position-embedding-missing", token
    for row in {0, 1, tokens - 1, tokens % len(table), len(table) - 1}:
        yield "positions-constant", token + table[row]
    if tokens < len(table):
        yield "positions-off-by-one", token + table[1 : tokens + 1]
        yield "positions-from-the-end", token + table[-tokens:]
    yield "positions-off-by-one", token + table.roll(1, 0)[:tokens]
    yield "positions-reversed", token + position.flip(0)
    if ids.max() < len(table):
        yield "positions-from-ids", token + table[ids]
    if batch > 1:
        yield "positions-along-batch", token + table[:batch].unsqueeze(1)
    yield "embeddings-multiplied", token * position
    yield "embeddings-scaled", both * width**0.5
    yield "embeddings-scaled", token * width**0.5 + position
    yield "embeddings-scaled", both / 2
    yield "embeddings-scaled", both / width**0.5
    yield "positions-subtracted", token - position
    yield "positions-added-twice", both + position
    yield "token-embedding-missing", position.expand_as(token)
    yield "token-embedding-twice", token + both
    yield "token-embedding-twice", token + token


def through(blocks, x, step=lambda x, block: block(x)):
    for block in blocks:
        x = step(x, block)
    return x


def trunks(model, x, position):
    """What the head reads: rightly, and by known mistakes."""
    norm, blocks = model.final_norm, blocks_of(model)
    out = through(blocks, x)
    yield None, norm(out)
    yield "final-norm-unused", out
    yield "final-norm-before-blocks", through(blocks, norm(x))
    yield "final-norm-twice", norm(norm(out))
    yield "final-norm-twice", norm(through(blocks, norm(x)))
    yield (
        "final-norm-after-each-block",
        through(blocks, x, lambda x, b: norm(b(x))),
    )
    yield "blocks-unused", norm(x)
    yield "blocks-unused", x
    for block in blocks:
        yield "one-block-repeated", norm(through([block] * len(blocks), x))
    for start, stop in [
        (0, -1),
        (1, None),
        (0, 1),
        (-1, None),
        (0, 2),
        (1, -1),
    ]:
        yield "blocks-skipped", norm(through(blocks[start:stop], x))
    yield "blocks-skipped", norm(blocks[1](x))
    yield "blocks-reversed", norm(through(blocks[::-1], x))
    yield "blocks-twice", norm(through(blocks * 2, x))
    yield "blocks-in-parallel", norm(sum(block(x) for block in blocks))
    yield "blocks-in-parallel", norm(x + sum(block(x) for block in blocks))
    yield "extra-shortcut", norm(x + out)
    yield "extra-shortcut", norm(through(blocks, x, lambda x, b: x + b(x)))
    yield "extra-shortcut", x + norm(out)
    late = through(blocks, x - position)
    yield "positions-added-late", norm(late + position)
    yield "positions-added-late", norm(late) + position
    yield (
        "positions-in-each-block",
        norm(through(blocks, x - position, lambda x, b: b(x + position))),
    )


def heads(model, x):
    """What is returned: rightly, and by known mistakes."""
    logits = model.out_head(x)
    yield None, logits
    yield "softmax-applied", logits.softmax(-1)
    yield "softmax-applied", logits.softmax(1)
    yield "log-softmax-applied", logits.log_softmax(-1)
    yield "activation-on-logits", logits.sigmoid()
    yield "activation-on-logits", logits.relu()
    yield "activation-on-logits", logits.tanh()
    yield "logits-scaled", logits / x.shape[-1] ** 0.5
    yield "tied", x @ model.tok_emb.weight.T
    yield "last-position-only", logits[:, -1]
    yield "last-position-only", logits[:, -1:]
    yield "averaged-over-positions", logits.mean(1)
    yield "returns-ids", logits.argmax(-1)
    yield "returns-ids", logits[:, -1].argmax(-1)
    yield "returns-ids", logits[:, -1].argmax(-1, keepdim=True)
    yield "head-unused", x
    yield "logits-transposed", logits.transpose(1, 2)
    yield "logits-flattened", logits.flatten(0, 1)
    yield "norm-on-logits", F.layer_norm(logits, logits.shape[-1:])


@torch.no_grad()
def composed(model, ids):
    """What the model should give in evaluation mode, from its own parts."""
    _, x = next(embeddings(model, ids))
    _, x = next(trunks(model, x, 0))
    return model.out_head(x)


@torch.no_grad()
def known_mistake(model, ids, output):
    """Name of the mistake that gives this output, or None."""
    position = model.pos_emb.weight[: ids.shape[1]]
    starts = list(embeddings(model, ids))
    first = list(trunks(model, starts[0][1], position))
    singles = [
        *((name, heads(model, x)) for name, x in first),
        *((n, trunk_right(model, x)) for n, x in starts),
        *((n, pairs_of(model, n, x, position)) for n, x in starts[1:]),
    ]
    for name, outputs in singles:
        for other, wrong in outputs:
            if same(output, wrong) and (name or other):
                return name or other
    return None


def trunk_right(model, x):
    """Right trunk, any head, for one way of embedding."""
    return heads(model, next(trunks(model, x, 0))[1])


def pairs_of(model, name, x, position):
    """Any trunk, right head, for one way of embedding."""
    for other, read in trunks(model, x, position):
        yield other, model.out_head(read)


SAYS = {
    "position-embedding-missing": "The output is what token embeddings alone "
    "give: the position table is not used. One token four times gives four "
    "equal rows of logits.",
    "positions-constant": "Every token gets the vector of one and the same "
    "position. What should be counted along the tokens?",
    "positions-off-by-one": "The positions are shifted by one: the first "
    "token stands at position 0.",
    "positions-from-the-end": "The last rows of the position table are used; "
    "a text starts at row 0, however long it is.",
    "positions-reversed": "The positions run backwards.",
    "positions-from-ids": "The position table is asked for the token IDs. It "
    "should be asked for 0, 1, 2, …, whatever the tokens are.",
    "positions-along-batch": "The positions are counted along the batch. "
    "`in_idx.shape` is (batch, tokens): which of the two do you count?",
    "positions-of-all-tokens": "The positions are counted through the whole "
    "batch; each text starts again at 0.",
    "positions-of-full-context": "Positions are made for the full context "
    "length, also for a shorter text. How many tokens does the input have?",
    "embeddings-multiplied": "The two embeddings are multiplied; the model "
    "adds them.",
    "embeddings-scaled": "The embeddings are scaled by a factor; GPT-2 adds "
    "the two vectors and does no more.",
    "positions-subtracted": "The position vectors are subtracted; the model "
    "adds them.",
    "positions-added-twice": "The position vectors are added twice.",
    "token-embedding-missing": "The output does not depend on the tokens: "
    "the position vectors alone reach the blocks.",
    "token-embedding-twice": "The token embedding is added twice.",
    "final-norm-unused": "final_norm exists and is not used between the "
    "blocks and the head.",
    "final-norm-before-blocks": "final_norm works before the blocks; its "
    "place is after the last one.",
    "final-norm-twice": "final_norm is applied twice.",
    "final-norm-after-each-block": "final_norm is applied after each block; "
    "its place is after the last one, once.",
    "blocks-unused": "The blocks are never used: no position knows of "
    "another.",
    "one-block-repeated": "One block does the work of all: the same one is "
    "called again and again.",
    "blocks-skipped": "Not all blocks are used one after another. What does "
    "each block get, and what happens to its result?",
    "blocks-reversed": "The blocks are used in reverse order.",
    "blocks-twice": "The whole stack of blocks is used twice.",
    "blocks-in-parallel": "Every block reads the embeddings; each should "
    "read what the one before it returned.",
    "extra-shortcut": "There is a shortcut around the blocks; they have "
    "shortcuts inside, and the model adds none.",
    "positions-added-late": "The positions are added after the blocks, so "
    "the blocks know of no order. They belong to the token embeddings.",
    "positions-in-each-block": "The positions are added before every block; "
    "once, before the first, is enough.",
    "softmax-applied": "The output holds probabilities, and logits are asked "
    "for. Is there a softmax after the head?",
    "log-softmax-applied": "The output holds log-probabilities, and logits "
    "are asked for. Is there a log_softmax after the head?",
    "activation-on-logits": "An activation is applied to the logits; the "
    "head's numbers are returned as they are.",
    "logits-scaled": "The logits are scaled by a factor.",
    "tied": "The output is computed with the token embedding's table (weight "
    "tying); this model uses out_head, a table of its own.",
    "last-position-only": "Only the last position's logits are returned; "
    "each position has an answer of its own.",
    "averaged-over-positions": "The logits are averaged over the positions; "
    "each position has an answer of its own.",
    "returns-ids": "Token IDs are returned; the model gives all logits, and "
    "choosing comes later.",
    "head-unused": "The vectors are returned as the final norm leaves them; "
    "out_head is not used.",
    "logits-transposed": "Two axes are exchanged: expected (batch, tokens, "
    "vocab).",
    "logits-flattened": "The axes of batch and tokens are joined: expected "
    "(batch, tokens, vocab).",
    "norm-on-logits": "A norm is applied to the logits; the final norm comes "
    "before the head.",
    "embedding-dropout-missing": "With a drop rate of 1.0 in training mode, "
    "the token IDs still reach the blocks: nothing is dropped between the "
    "embeddings and the first block.",
    "embedding-dropout-on-tokens-only": "Dropout acts on the token embedding "
    "alone; it should act on the sum of both.",
    "embedding-dropout-on-positions-only": "Dropout acts on the position "
    "embedding alone; it should act on the sum of both.",
    "dropout-after-blocks": "drop_emb acts after the blocks; its place is "
    "between the embeddings and the first block.",
    "dropout-on-logits": "drop_emb acts at the end of the model; its place "
    "is between the embeddings and the first block.",
}


def say(name, evidence=""):
    return Mistake(name, f"{SAYS[name]} {evidence}".strip())


# --- running a model -----------------------------------------------------


def some_ids(batch, tokens, top=31):
    return torch.randint(top, (batch, tokens))


def run(model, ids):
    given = ids.clone()
    with torch.no_grad():
        output = model(given)
    if isinstance(output, torch.Tensor) and not torch.equal(given, ids):
        raise Mistake(
            "input-changed",
            "Your model changes the tensor of token IDs that it is given.",
        )
    return output


def check_forward(model):
    """Batches of several sizes give what the model's own parts give."""
    for batch, tokens in [(3, 5), (1, 9), (2, 1), (5, 2)]:
        top = 9 if batch == 3 else 31  # low IDs fit the position table, too
        ids = some_ids(batch, tokens, top)
        try:
            output = run(model, ids)
        except Mistake:
            raise
        except Exception as error:
            raise why_stopped(model, error) from error
        expected = composed(model, ids)
        if not isinstance(output, torch.Tensor) or not same(output, expected):
            raise why_wrong(model, ids, output, expected)


def why_wrong(model, ids, output, expected):
    """The mistake behind a wrong output, as a `Mistake`."""
    name = None
    if isinstance(output, torch.Tensor):
        name = known_mistake(model, ids, output)
    if name and output.shape == expected.shape:
        return say(name, difference(output, expected))
    if name:
        return say(
            name,
            f"The output has shape {tuple(output.shape)}; expected "
            f"{tuple(expected.shape)}.",
        )
    expect_tensor(output, expected.shape, "The output")
    return Mistake(
        "wrong-values",
        "The output is not what your parts give along the data path. "
        f"{difference(output, expected)} Write it down line by line, with "
        "the shape behind each line.",
    )


def why_stopped(model, error):
    """Inputs of other shapes tell some mistakes that end in an error."""
    if isinstance(error, NotImplementedError):
        return not_callable(model, error)
    stopped = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    evidence = f"A batch of 3 texts of 5 tokens stopped with {stopped}"
    one_text = named(model, some_ids(1, 5, 9))
    if one_text == "positions-constant":
        return say("positions-along-batch", evidence)
    if named(model, some_ids(3, 9, 9)) == "right":
        return say("positions-of-full-context", evidence)
    if one_text == "right":
        return say("positions-of-all-tokens", evidence)
    for name in (one_text, named(model, some_ids(5, 5, 9))):
        if name in SAYS:
            return say(name, evidence)
    return why_unfit(model, evidence) or error


def not_callable(model, error):
    """A ModuleList holds blocks and can't be called; else the stub's."""
    if "missing the required" not in str(error):
        return error
    return Mistake(
        "module-list-called",
        f"trf_blocks is a {type(model.trf_blocks).__name__}, and calling it "
        f"stopped with {str(error)[:80]}. Such a list keeps blocks and does "
        "not run them: who calls each block in turn?",
    )


def why_unfit(model, evidence):
    """What reached the position table and the first block, if it is odd."""
    reached, ids = {}, some_ids(3, 5, 9)
    for key, part in [("rows", model.pos_emb), ("x", blocks_of(model)[0])]:
        part.register_forward_pre_hook(
            lambda _, args, key=key: reached.setdefault(key, args[0])
        )
    named(model, ids)
    rows, x = reached.get("rows"), reached.get("x")
    if rows is not None and (rows.min() < 0 or rows.max() > 8):
        shifted = rows.max() - rows.min() == 4
        return Mistake(
            "positions-off-by-one" if shifted else "positions-outside-table",
            f"pos_emb is asked for rows {int(rows.min())} to "
            f"{int(rows.max())}; 5 tokens stand at positions 0 to 4. "
            f"{evidence}",
        )
    if x is None or x.shape == (3, 5, 12):
        return None
    if x.shape == (5, 12):
        return say("token-embedding-missing", evidence)
    return Mistake(
        "embeddings-concatenated" if x.numel() == 360 else "wrong-shape",
        f"The first block gets shape {tuple(x.shape)}; expected (3, 5, 12), "
        f"the sum of token and position vectors. {evidence}",
    )


def named(model, ids):
    """ "right", the name of a known mistake, or None."""
    try:
        output = run(model, ids)
    except Exception:
        return None
    if not isinstance(output, torch.Tensor):
        return None
    if same(output, composed(model, ids)):
        return "right"
    return known_mistake(model, ids, output)


def check_against_gptlib(model):
    """gptlib's model with the same parameters gives the same logits."""
    reference = GPTModel(CFG).eval()
    shapes = {name: p.shape for name, p in reference.named_parameters()}
    own = {as_in_notes(n): p.detach() for n, p in model.named_parameters()}
    if {name: p.shape for name, p in own.items()} != shapes:
        return  # a block whose inside has other names
    reference.load_state_dict(own, strict=False)
    ids = some_ids(3, 5)
    output, expected = run(model, ids), run(reference, ids)
    if not same(output, expected, atol=1e-3):
        raise Mistake(
            "wrong-block",
            "gptlib's model with your parameters gives other logits, and the "
            "data path is right: look inside your blocks. "
            f"{difference(output, expected)}",
        )


def as_in_notes(name):
    """nn.LayerNorm calls scale and shift otherwise."""
    if "norm" not in name:
        return name
    return name.replace(".weight", ".scale").replace(".bias", ".shift")


# --- dropout -------------------------------------------------------------


def check_dropout(answer):
    for module in build(answer, 0.3).modules():
        if isinstance(module, nn.Dropout) and module.p != 0.3:
            raise Mistake(
                "drop-rate-not-handed-on",
                f"A dropout of your model has the rate {number(module.p)}; "
                "cfg['drop_rate'] is 0.3.",
            )
    check_quiet(build(answer, 0.5).eval(), "dropout-in-eval")
    check_quiet(build(answer, 0.0).train(), "drop-rate-not-handed-on")
    check_all_dropped(build(answer, 1.0))
    check_share(build(answer, 0.5))
    check_block_dropout(build(answer, 1.0))


def check_quiet(model, name):
    ids = some_ids(3, 5)
    output, expected = run(model, ids), composed(model, ids)
    if same(output, expected):
        return
    when = {
        "dropout-in-eval": "In evaluation mode",
        "drop-rate-not-handed-on": "With a drop rate of 0.0 in training mode",
    }
    raise Mistake(
        name,
        f"{when[name]}, values are still dropped. "
        f"{difference(output, expected)}",
    )


@torch.no_grad()
def check_all_dropped(model):
    """At a rate of 1.0, nothing of the embeddings reaches the blocks."""
    model.train()
    for block in blocks_of(model):
        block.eval()  # so that dropout before and after them differ
    ids = some_ids(3, 5)
    output = run(model, ids)
    token, position = model.tok_emb(ids), model.pos_emb.weight[:5]
    zero, blocks = torch.zeros_like(token), blocks_of(model)

    def read(x):
        return model.out_head(model.final_norm(through(blocks, x)))

    if same(output, read(zero)):
        return
    wrong = [
        ("embedding-dropout-missing", read(token + position)),
        ("embedding-dropout-on-tokens-only", read(zero + position)),
        ("embedding-dropout-on-positions-only", read(token)),
        ("dropout-after-blocks", model.out_head(model.final_norm(zero))),
        ("dropout-on-logits", torch.zeros_like(output)),
    ]
    evidence = difference(output, read(zero))
    for name, tensor in wrong:
        if same(output, tensor):
            raise say(name, evidence)
    raise Mistake(
        "dropout-wrong",
        "With a drop rate of 1.0 in training mode, zeros should reach the "
        f"first block. {evidence}",
    )


@torch.no_grad()
def check_share(model):
    """At a rate of 0.5, half of the embeddings' sum reaches the blocks."""
    read = []
    blocks_of(model)[0].register_forward_pre_hook(
        lambda module, args: read.append(args[0])
    )
    ids = some_ids(24, 9)
    run(model.train(), ids)
    if not read:
        return
    _, expected = next(embeddings(model, ids))
    kept = read[0] != 0
    share = kept.float().mean().item()
    factor = (read[0][kept] / expected[kept]).median().item()
    seen = (
        f"At a drop rate of 0.5, {number(100 * share)} % of the numbers "
        "reach the first block, those that do times "
        f"{number(factor)}; expected about 50 %, times 2"
    )
    if abs(share - 0.25) < 0.05:
        raise Mistake("embedding-dropout-twice", f"{seen}.")
    if abs(share - 0.75) < 0.05:
        raise Mistake(
            "embedding-dropout-on-each",
            f"{seen}. Does it act on each embedding? It should act once, on "
            "their sum.",
        )
    if abs(share - 0.5) > 0.05 or abs(factor - 2) > 1e-2:
        raise Mistake("dropout-wrong", f"{seen}. How is it dropped?")


@torch.no_grad()
def check_block_dropout(model):
    """At a rate of 1.0 in training mode, blocks return their input."""
    if not isinstance(getattr(model, "drop_emb", None), nn.Dropout):
        return
    model.train()
    model.drop_emb.p = 0.0
    ids = some_ids(3, 5)
    output = run(model, ids)
    _, x = next(embeddings(model, ids))
    expected = model.out_head(model.final_norm(x))
    if not same(output, expected):
        raise Mistake(
            "block-dropout-missing",
            "With a drop rate of 1.0 in training mode, the blocks still add "
            f"something. {difference(output, expected)} Which configuration "
            "do the blocks get, and in which mode do they run?",
        )


# --- device and gradients -------------------------------------------------


class _Enough(Exception):
    """Ends a run on meta once both tables have been looked up."""


class Lookups(TorchFunctionMode):
    """Notes on which device the indices of each lookup in a table are.

    torch's own arange and addition on meta import much of torch the first
    time, which takes seconds: this does without.
    """

    def __init__(self):
        super().__init__()
        self.devices = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.arange and "meta" in str(kwargs.get("device")):
            return func(*args, **kwargs | {"device": "cpu"}).to("meta")
        if func is F.embedding:
            indices = args[0] if args else kwargs["input"]
            self.devices.append(indices.device.type)
            if len(self.devices) == 2:
                raise _Enough
        return func(*args, **kwargs)


def check_device(model):
    """Positions follow the token IDs, here to a device without values."""
    move_without_blocks(model)
    ids = torch.zeros(3, 5, dtype=torch.long, device="meta")
    lookups = Lookups()
    try:
        with lookups, torch.no_grad():
            model(ids)
    except Exception as error:
        # Meta has no values, and the learner may look at some: no mistake.
        if "two devices" in str(error) or "same device" in str(error):
            lookups.devices.append("cpu")
    if set(lookups.devices) - {"meta"}:
        raise Mistake(
            "positions-on-wrong-device",
            "With the model and the token IDs on device meta, positions are "
            "looked up that live on cpu. On a GPU this stops with an error: "
            "which tensor does the device come from?",
        )


def move_without_blocks(model):
    """To meta: all but the blocks, whose masks take seconds to make there."""
    for block in blocks_of(model):
        block.forward = lambda x, *args, **options: x
    for name, child in model.named_children():
        if name != "trf_blocks":
            child.to("meta")
    for name, buffer in model.named_buffers(recurse=False):
        setattr(model, name, buffer.to("meta"))


def check_gradients(model):
    """Gradients reach every parameter as they should."""
    ids = some_ids(3, 5)
    twin = copy.deepcopy(model)
    with torch.enable_grad():
        x = twin.tok_emb(ids) + twin.pos_emb.weight[:5]
        x = twin.final_norm(through(blocks_of(twin), x))
        twin.out_head(x).square().sum().backward()
        output = model(ids)
        if output.requires_grad:
            output.square().sum().backward()
    without = [
        name
        for (name, p), q in zip(
            model.named_parameters(), twin.parameters(), strict=True
        )
        if p.grad is None or not same(p.grad, q.grad, 1e-2, 1e-2)
    ]
    if without:
        raise Mistake(
            "gradient-cut",
            "The logits are right, but gradients do not come back as they "
            f"should to {len(without)} parameter tensors, among them "
            f"{without[0]}. Look for no_grad, detach or .data.",
        )


# --- the exercises -------------------------------------------------------


@exercise(
    "The skeleton of notebook 01 has the same data path. Which of its parts "
    "are placeholders?",
    "Build six parts in __init__ (tok_emb, pos_emb, drop_emb, trf_blocks, "
    "final_norm, out_head). In forward, add the two embeddings, then apply "
    "the other four one after another.",
    "Positions count the tokens, in_idx.shape[1], on in_idx.device. "
    "nn.Sequential(*blocks) registers blocks that are each made by their own "
    "call of TransformerBlock(cfg). The head is a Linear with bias=False.",
)
def gpt_model(cls):
    """The parts, the data path, dropout, the device and gradients."""
    model = build(cls).eval()
    check_parts(model)
    check_parts(build(cls, qkv_bias=True), qkv_bias=True)
    check_forward(model)
    check_against_gptlib(model)
    check_dropout(cls)
    check_gradients(build(cls).eval())
    check_device(build(cls).eval())
    return (
        "your model is complete. Four batches of up to 9 tokens give the "
        "logits that its parts give along the data path; it has "
        f"{count(model)} parameters in this size, as it should; dropout "
        "acts on the embeddings in training only, and positions follow the "
        f"IDs to another device.{remark(model)}"
    )


def remark(model):
    if not isinstance(getattr(model, "drop_emb", None), nn.Module):
        return (
            " One remark: the notes keep the dropout in an attribute called "
            "drop_emb, and your model has none."
        )
    if hasattr(model.final_norm, "weight"):
        return (
            " One remark: final_norm calls its parameters weight and bias; "
            "the notes call them scale and shift."
        )
    return ""


# The tiny configuration of notebook 06, for which learners write probes.
TINY = GPT_CONFIG_124M | {
    "vocab_size": 101,
    "context_length": 16,
    "emb_dim": 24,
    "n_heads": 3,
    "n_layers": 2,
}
FAULTS = ("pos_emb", "trf_blocks", "final_norm", "out_head")
# Names and faults: several orders, fewer models, more than one of a kind.
ROUNDS = [
    ("ABCD", (2, 0, 3, 1)),
    ("ABCD", (1, 3, 0, 2)),
    ("ABCD", (3, 2, 1, 0)),
    ("ABCD", (0, 1, 2, 3)),
    (("north", "x1", "out_head", "pos_emb"), (1, 2, 0, 3)),
]
REPEATS = [(("p", "q", "r"), (3, 3, 0)), (("one",), (2,)), ("BA", (1, 1))]


def break_part(part):
    """A tiny model with a fault in one part, as notebook 06 makes it."""
    broken = GPTModel(TINY)
    if part == "pos_emb":
        row = broken.pos_emb.weight.data[:1]
        broken.pos_emb.weight.data = row.repeat(TINY["context_length"], 1)
    if part == "trf_blocks":
        only = broken.trf_blocks[0]
        broken.trf_blocks = nn.Sequential(*[only] * TINY["n_layers"])
    if part == "final_norm":
        broken.final_norm = DummyLayerNorm(TINY["emb_dim"])
    if part == "out_head":
        broken.out_head = nn.Linear(TINY["emb_dim"], TINY["vocab_size"])
    return broken.eval()


@exercise(
    "Each of the four hints under the exercise names a probe. Begin with one "
    "fault, and return None for models that pass.",
    "Four probes: one token four times; identity of the blocks; final_norm "
    "on vectors far from mean 0; out_head on a vector of zeros.",
    "Write a function of one model that runs the probes in turn and returns "
    "the part whose probe fails; the answer is a dict that calls it for each "
    "name and model.",
)
def broken_models(fn):
    """Every fault is found, whatever the models' names and order."""
    rounds = [ask(fn, names, numbers) for names, numbers in ROUNDS]
    for answer, truth in rounds:
        check_form(answer, truth)
    if any(answer != truth for answer, truth in rounds):
        raise why_missed(rounds)
    for names, numbers in REPEATS:
        check_repeats(fn, names, numbers)
    return (
        "your probes found the part at fault in all 26 broken models, in "
        "several orders and under other names."
    )


def ask(fn, names, numbers):
    """The learner's answer for these models, and the true one."""
    truth = {n: FAULTS[i] for n, i in zip(names, numbers, strict=True)}
    models = {name: break_part(part) for name, part in truth.items()}
    return fn(dict(models)), truth


def check_form(answer, truth):
    """The answer is a dict from each name to one of the four parts."""
    if answer is None:
        raise Mistake(
            "returns-none",
            "The answer is None; expected a dict from names to parts. Does "
            "the function return what it finds?",
        )
    if not isinstance(answer, dict):
        raise Mistake(
            "wrong-type",
            f"The answer is of type {type(answer).__name__}; expected a dict "
            "with one entry for each model.",
        )
    if set(answer) <= set(FAULTS) and set(answer.values()) == set(truth):
        raise Mistake(
            "keys-and-values-swapped",
            f"The answer maps parts to names, as in {answer}; expected names "
            "to parts.",
        )
    if set(answer) != set(truth):
        raise Mistake(
            "wrong-keys",
            f"The answer has the keys {list(answer)}; the models are called "
            f"{list(truth)}.",
        )


def why_missed(rounds):
    """What the wrong answers have in common, as a `Mistake`."""
    same_names = [(a, t) for a, t in rounds if set(t) == set("ABCD")]
    missed = [
        (truth[name], answer[name])
        for answer, truth in rounds
        for name in truth
        if answer[name] != truth[name]
    ]
    seen = f"{len(missed)} of 20 models are judged wrongly"
    answers = [answer for answer, _ in same_names]
    if all(a == answers[0] for a in answers):
        if len(set(answers[0].values())) == 1:
            return Mistake(
                "same-answer-for-all",
                f"{seen}: every answer is {missed[0][1]!r}. Which probe "
                "fires on models that pass it?",
            )
        return Mistake(
            "answer-by-name",
            f"{seen}: the answer is {answers[0]} whichever model has which "
            "fault. Probe the models; don't go by their names.",
        )
    return missed_part(missed, seen)


def missed_part(missed, seen):
    unknown = [a for _, a in missed if a is not None and a not in FAULTS]
    if unknown:
        return Mistake(
            "unknown-part",
            f"{seen}: an answer is {unknown[0]!r}; the parts are called "
            f"{', '.join(FAULTS)}.",
        )
    parts = [part for part in FAULTS if part in {true for true, _ in missed}]
    wrongly = sorted({str(a) for true, a in missed if true == parts[0]})
    blamed = {a for _, a in missed}
    if len(parts) > 1 and len(blamed) == 1 and None not in blamed:
        part = blamed.pop()
        return Mistake(
            f"{part.replace('_', '-')}-blamed",
            f"{seen}: {', '.join(parts)} are all taken for {part}. Its probe "
            "fires on models in which that part is healthy.",
        )
    return Mistake(
        f"{parts[0].replace('_', '-')}-missed",
        f"{seen}: a fault in {parts[0]} is taken for {' or '.join(wrongly)}. "
        "Try your probe for this part on a healthy model and on a broken "
        "one.",
    )


def check_repeats(fn, names, numbers):
    answer, truth = ask(fn, names, numbers)
    if answer != truth:
        raise Mistake(
            "compares-models",
            f"With faults {list(truth.values())} the answer is {answer}. "
            "Judge each model by itself: there may be fewer than four, and "
            "two with the same fault.",
        )
