"""Check of notebook 07: one table for both ends of the model, proven."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from classroom.checks.edits import Task, known
from classroom.checks.functions import check_signature
from classroom.checks.guard import exercise
from classroom.checks.modules import gradients
from classroom.checks.result import Mistake
from classroom.checks.tensors import difference, number, same
from gptlib.config import SMALLEST
from gptlib.model import GPTModel

ENDS = "tok_emb.weight", "out_head.weight"
CONFIGS = [
    SMALLEST | {"vocab_size": 101, "context_length": 16, "emb_dim": 24,
                "n_heads": 3, "n_layers": 2},
    SMALLEST | {"vocab_size": 67, "context_length": 9, "emb_dim": 40,
                "n_heads": 4, "n_layers": 1, "qkv_bias": True},
]  # fmt: skip
# Logits grow with the width, too: what starts well in a narrow model may not
# in one as wide as GPT-2.
WIDE = CONFIGS[0] | {"emb_dim": 768, "n_layers": 1}
NEAR = 2.0  # how far an untrained model's loss may be from ln(vocab_size)
LEAST = 5e-4  # the smallest standard deviation of a table that can start


def tied(model):
    table = model.out_head.weight
    model.tok_emb.weight = table
    return model


NO_TIE = "model.tok_emb.weight = table"
FORWARD = "model.out_head.forward = lambda x: "
TIE_MISTAKES = [
    known("returns-none",
          "It has to return the model that it got.",
          {"return model": ""}),
    known("another-model",
          "Expected the model that it got, itself.",
          {"return model": "return copy.deepcopy(model)"}),
    known("not-tied",
          "Which line hands one end's parameter to the other?",
          {NO_TIE: "pass"}),
    known("equal-copy",
          "They hold equal numbers, in two places: the first training step "
          "makes them differ.",
          {NO_TIE: "model.tok_emb.weight = nn.Parameter(table.detach() * 1)"},
          {NO_TIE: "model.tok_emb.weight.data.copy_(table)"},
          {NO_TIE: "model.out_head.load_state_dict("
           "model.tok_emb.state_dict())"}),
    known("shared-memory",
          "They look at the same memory, and PyTorch still counts two "
          "parameters; an optimizer keeps averages for both.",
          {NO_TIE: "model.tok_emb.weight.data = table.data"},
          {NO_TIE: "model.tok_emb.weight = nn.Parameter(table.detach())"}),
    known("one-module",
          "One looks rows up and one multiplies: two modules can share a "
          "table, and not their work.",
          {NO_TIE: "model.tok_emb = model.out_head"},
          {NO_TIE: "model.out_head = model.tok_emb"}),
    known("wrong-shape",
          "The table has a row for each token.",
          {NO_TIE: "model.tok_emb.weight = model.out_head.weight = "
           "nn.Parameter(table.detach().T)"},
          {NO_TIE: "model.tok_emb.weight = nn.Parameter(table.detach().T)"}),
    known("wrong-table",
          "The position table is another one: it has a row for each "
          "position.",
          {NO_TIE: "model.pos_emb.weight = table"}),
    known("starts-too-large",
          "Both ends had numbers before: which of the two sizes suits both?",
          {NO_TIE: "model.out_head.weight = model.tok_emb.weight"}),
    known("starts-too-small",
          "Next to the position's row, a token's row is lost.",
          {NO_TIE: f"table.data *= 1e-9\n{NO_TIE}"}),
    known("rows-equal",
          "Then no token can be told from another.",
          {NO_TIE: "model.tok_emb.weight = nn.init.zeros_(table)"},
          {NO_TIE: "model.tok_emb.weight = nn.init.ones_(table)"}),
    known("not-trainable",
          "Expected requires_grad=True.",
          {NO_TIE: f"{NO_TIE}.requires_grad_(False)"}),
    known("head-bias",
          "The head has no bias.",
          {NO_TIE: f"{NO_TIE}\nmodel.out_head.bias = nn.Parameter("
           "torch.zeros(len(table)))"}),
    known("other-part-changed",
          "Only the two ends are to be tied.",
          {NO_TIE: f"{NO_TIE}\nnn.init.zeros_(model.pos_emb.weight)"}),
    known("logits-changed",
          "The head multiplies with the table, and nothing more.",
          {NO_TIE: f"{NO_TIE}\n{FORWARD}x @ table.T / 24**0.5"}),
    known("lookup-gradient-lost",
          "Only the head's use of the table reaches its gradient.",
          {NO_TIE: f"{NO_TIE}\nmodel.tok_emb.forward = "
           "lambda ids: table.detach()[ids]"}),
    known("head-gradient-lost",
          "Only the lookup's use of the table reaches its gradient.",
          {NO_TIE: f"{NO_TIE}\n{FORWARD}x @ table.detach().T"}),
    known("copy-holds-on",
          "Something in the copy still reads the first model's table.",
          {NO_TIE: f"{NO_TIE}\n{FORWARD}x @ table.T"}),
]  # fmt: skip
SAYS = {mistake.name: mistake.says for mistake in TIE_MISTAKES}
TIE = Task(tied, TIE_MISTAKES, lambda solve: solve)


@exercise(
    "One parameter object has to stand in both places; there are two "
    "directions, and both give the right count.",
    "Print the standard deviation of both tables before you tie: the head's "
    "is smaller. The logits grow with the table that stays at the head.",
    "Let the embedding take over the head's parameter, or keep the "
    "embedding's and draw its numbers anew with a standard deviation of 0.02, "
    "as GPT-2 does (torch.nn.init.normal_). Then return the model.",
    task=TIE,
)
def tie_weights(fn):
    """A model is tied, starts well, and stays tied."""
    for seed, cfg in enumerate(CONFIGS):
        torch.manual_seed(seed)
        model = GPTModel(cfg).train(seed == 0)
        before = copy.deepcopy(model)
        modes = [(part, part.training) for part in model.modules()]
        check_signature(fn, model, call="my_tie(model)")
        _check_returned(fn(model), model)
        _check_shared(model, tuple(before.tok_emb.weight.shape))
        _check_rest(model, before, modes)
        ids = torch.randint(0, cfg["vocab_size"], (8, cfg["context_length"]))
        _check_start(model.eval(), before.eval(), ids)
        _check_gradient(model, ids)
        _check_stays(model, ids)
    _check_wide(fn)
    return (
        "one object in both places, counted once; its gradient is the sum of "
        "both uses; an untrained model's loss stays near ln(vocab_size); and "
        "the tie holds after load_state_dict, deepcopy and to."
    )


def _blame(name, seen):
    raise Mistake(name, f"{seen} {SAYS[name]}")


def _check_returned(result, model):
    if result is None:
        _blame("returns-none", "Your function returns None.")
    if isinstance(result, nn.Module) and result is not model:
        _blame("another-model", "Your function returns another model.")
    if result is not model:
        raise Mistake(
            "wrong-type",
            f"Your function returns an object of type {type(result).__name__}"
            f"; {SAYS['returns-none'].lower()}",
        )


def _ends(model):
    """The two weights, which must be there."""
    found = []
    for name in ENDS:
        part = getattr(model, name.split(".")[0], None)
        weight = getattr(part, "weight", None)
        if not isinstance(weight, nn.Parameter):
            raise Mistake(
                "part-missing",
                f"After your function, model.{name} is of type "
                f"{type(weight).__name__}; expected an nn.Parameter. "
                "GPTModel's forward uses both parts.",
            )
        found.append(weight)
    return found


def _check_shared(model, shape):
    first, last = _ends(model)
    if model.tok_emb is model.out_head:
        _blame("one-module", "model.tok_emb is model.out_head now.")
    if any(model.pos_emb.weight is end for end in (first, last)):
        _blame("wrong-table", "model.pos_emb has the vocabulary's table.")
    if not tuple(first.shape) == tuple(last.shape) == shape:
        _blame(
            "wrong-shape",
            f"tok_emb.weight has shape {tuple(first.shape)} and "
            f"out_head.weight {tuple(last.shape)}; expected {shape} for both.",
        )
    if first is not last:
        total = sum(p.numel() for p in model.parameters())
        seen = (
            "`model.out_head.weight is model.tok_emb.weight` is False, and "
            f"the model counts {total:,} parameters; one table fewer would "
            f"be {total - last.numel():,}."
        )
        name = "not-tied"
        if first.data_ptr() == last.data_ptr():
            name = "shared-memory"
        elif torch.equal(first, last):
            name = "equal-copy"
        _blame(name, seen)
    if not first.requires_grad:
        _blame("not-trainable", "The shared table has requires_grad=False.")


def _check_rest(model, before, modes):
    """Whatever is not the shared table is as it was."""
    old, new = before.state_dict(), model.state_dict()
    if "out_head.bias" in new:
        _blame("head-bias", "model.out_head has a bias now.")
    if list(old) != list(new):
        differ = ", ".join(sorted({*old} ^ {*new})) or "their order"
        raise Mistake(
            "other-names",
            f"The names in state_dict() changed: {differ}. Saved weights are "
            "found by them.",
        )
    for name, tensor in old.items():
        if name not in ENDS and not torch.equal(tensor, new[name]):
            _blame("other-part-changed", f"{name} has other numbers now.")
    if any(part.training != mode for part, mode in modes):
        raise Mistake(
            "mode-changed",
            "The model, or a part of it, is in the other mode, training or "
            "evaluation; the caller decides on it.",
        )


def _loss(model, ids):
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def _check_start(model, before, ids):
    """An untrained model guesses like one."""
    table = model.tok_emb.weight
    if torch.equal(table, table[:1].expand_as(table)):
        _blame("rows-equal", "All rows of the shared table are equal.")
    std = number(table.std())
    std = f"The shared numbers have a standard deviation of {std}."
    if table.std() < LEAST:
        _blame("starts-too-small", std)
    with torch.no_grad():
        loss, old = _loss(model, ids).item(), _loss(before, ids).item()
    even = math.log(len(table))
    if not abs(loss - even) < NEAR:
        _blame(
            "starts-too-large",
            f"At width {table.shape[1]}: an untrained model's loss is near "
            f"ln({len(table)}) = {number(even)}; with two tables it was "
            f"{number(old)}, and tied it is {number(loss)}. {std}",
        )


def _check_wide(fn):
    """A model as wide as GPT-2 starts well, too."""
    torch.manual_seed(len(CONFIGS))
    model = GPTModel(WIDE).eval()
    before = copy.deepcopy(model)
    _check_returned(fn(model), model)
    _check_shared(model, tuple(before.tok_emb.weight.shape))
    ids = torch.randint(0, WIDE["vocab_size"], (8, WIDE["context_length"]))
    _check_start(model.eval(), before, ids)


def _untied(model):
    """The same model with two tables of equal values, and GPTModel's own
    way of using them."""
    attention = model.trf_blocks[0].att
    vocab_size, emb_dim = model.tok_emb.weight.shape
    twin = GPTModel(
        SMALLEST
        | {
            "vocab_size": vocab_size,
            "context_length": len(model.pos_emb.weight),
            "emb_dim": emb_dim,
            "n_heads": attention.num_heads,
            "n_layers": len(model.trf_blocks),
            "qkv_bias": attention.W_query.bias is not None,
        }
    )
    twin.load_state_dict(model.state_dict())
    return twin.to(model.tok_emb.weight.dtype).eval()


def _check_logits(model, ids, when, name):
    """With one table, the logits are those of two equal ones."""
    with torch.no_grad():
        output, expected = model(ids), _untied(model)(ids)
    if not same(output, expected):
        _blame(name, f"{when}: {difference(output, expected)}")


def _check_gradient(model, ids):
    """The gradient is the sum of what the two uses give alone."""
    _check_logits(model, ids, "After tying", "logits-changed")
    twin = _untied(model)
    got = gradients(_loss(model, ids), [model.tok_emb.weight])[0]
    lookup, head = gradients(_loss(twin, ids), _ends(twin))
    if got is not None and same(got, lookup + head, rtol=1e-3):
        return
    got = torch.zeros_like(head) if got is None else got
    seen = difference(got, lookup + head, "table's gradient")
    for name, part in [
        ("lookup-gradient-lost", head),
        ("head-gradient-lost", lookup),
    ]:
        if same(got, part, rtol=1e-3):
            _blame(name, seen)
    raise Mistake(
        "wrong-gradient",
        f"{seen} A lookup and a product with the table give the sum of both "
        "uses. Look for what changes that: detach, no_grad, a hook, or an "
        "option of the embedding.",
    )


def _check_stays(model, ids):
    """Loaded, copied, converted: still one object, still used at both ends."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.tok_emb.weight.copy_(torch.randn_like(model.tok_emb.weight))
    loaded = copy.deepcopy(other.state_dict())
    loaded["out_head.weight"] = loaded["tok_emb.weight"].clone()
    model.load_state_dict(loaded)
    copied = copy.deepcopy(model)
    with torch.no_grad():
        _ends(copied)[0].mul_(0.5)
    for change, when in [
        (lambda: model, "load_state_dict"),
        (lambda: copied, "copy.deepcopy"),
        (lambda: model.to(torch.float64), "model.to(torch.float64)"),
    ]:
        first, last = _ends(thing := change())
        if first is not last:
            raise Mistake(
                "tie-lost",
                f"After {when}, out_head.weight and tok_emb.weight are two "
                "objects. What ties them when your function has returned?",
            )
        name = "copy-holds-on" if thing is copied else "logits-changed"
        _check_logits(thing, ids, f"After {when}", name)
