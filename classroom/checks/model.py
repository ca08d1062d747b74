"""Checks of notebook 06: the whole model, and the search for a broken part."""

import copy
import random
import weakref
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import NamedTuple

import torch
from torch import nn

from classroom.checks import data_path
from classroom.checks.data_path import SIZES, TABLES, TINY
from classroom.checks.edits import Task, known
from classroom.checks.functions import (
    attempt,
    equal,
    judge,
    left_alone,
    returned,
)
from classroom.checks.guard import exercise
from classroom.checks.manners import check_manners
from classroom.checks.modules import gradients, randomized
from classroom.checks.parts import count, is_layer_norm, loaded, remark
from classroom.checks.result import Mistake
from classroom.checks.tensors import difference, number, same
from gptlib.block import TransformerBlock
from gptlib.model import GPTModel
from gptlib.skeleton import DummyLayerNorm

CALL = "MyGPTModel(cfg)"
BLOCK_DROPOUT = known(
    "block-dropout-missing",
    "Which configuration do the blocks get, and in which mode do they run?",
    {"block(x)": "block.eval()(x)"},
)


def _model(solve):
    class MyGPTModel(GPTModel):
        def forward(self, in_idx):
            return solve(in_idx, **data_path.parts(self))

    return MyGPTModel


GPT_MODEL = Task(
    data_path.logits,
    [*data_path.PATH, *data_path.HIDDEN, BLOCK_DROPOUT],
    _model,
)


@exercise(
    "The skeleton of notebook 01 has the same data path. Which of its parts "
    "are placeholders?",
    "Build six parts in __init__ (tok_emb, pos_emb, drop_emb, trf_blocks, "
    "final_norm, out_head). In forward, add the two embeddings, then apply "
    "the other four one after another.",
    "Positions count the tokens, in_idx.shape[1], on in_idx.device. "
    "nn.Sequential(*blocks) registers blocks that are each made by their own "
    "call of TransformerBlock(cfg). The head is a Linear with bias=False.",
    task=GPT_MODEL,
)
def gpt_model(cls):
    """The parts, the data path, dropout, the device and gradients."""
    for qkv_bias in (False, True):
        model = data_path.start(cls, CALL, qkv_bias=qkv_bias)
        data_path.check_parts(model, qkv_bias)
        _check_real_parts(model, qkv_bias)
    data_path.check_order(cls, CALL, TransformerBlock)
    data_path.check_logits(data_path.build(cls, CALL, qkv_bias=True))
    model = data_path.build(cls, CALL)
    _check_against_gptlib(model)
    _check_block_dropout(data_path.build(cls, CALL, drop_rate=1.0))
    data_path.check_positions(model)
    check_manners(model, data_path.some_texts())
    data_path.check_all_gradients(model, GPT_MODEL)
    return (
        "your model is complete. Batches of 1 to 9 tokens give the "
        "logits that its parts give along the data path; it has "
        f"{count(model)} parameters in this size, as it should; dropout "
        "acts on the embeddings in training only, and positions follow the "
        f"IDs to another device.{remark(model, 'drop_emb', 'final_norm')}"
    )


# --- real blocks and a real norm -------------------------------------------


def _check_real_parts(model, qkv_bias):
    for name in TABLES:
        if not isinstance(getattr(model, name), nn.Module):
            raise Mistake(
                "wrong-name",
                f"The weights of {name} are called {name}; expected "
                f"{name}.weight. The names are fixed, because saved weights "
                "are found by them. Which layer holds such a table?",
            )
    reference = GPTModel(SIZES | {"qkv_bias": qkv_bias})
    for block in data_path.blocks_of(model):
        _check_size(block, count(reference.trf_blocks[0]), qkv_bias)
    _check_final_norm(model.final_norm)
    data_path.check_rate(model, "the model")


def _check_size(block, expected, qkv_bias):
    if count(block) == expected:
        return
    name, says = "wrong-block", "Does it get the model's own configuration?"
    if count(block) == 0:
        name, says = "placeholder-blocks", "Is it the skeleton's placeholder?"
    raise Mistake(
        name,
        f"A block ({type(block).__name__}) has {count(block)} parameters; "
        f"expected {expected} with qkv_bias={qkv_bias}. {says}",
    )


def _check_final_norm(norm):
    if not count(norm):
        raise Mistake(
            "final-norm-missing",
            f"final_norm is a {type(norm).__name__} without parameters, "
            "which normalizes nothing that can be trained; expected 24 (a "
            "scale and a shift of 12).",
        )
    if is_layer_norm(norm, 3 * torch.randn(2, 5, 12) + 2):
        return
    raise Mistake(
        "final-norm-wrong",
        f"final_norm has {count(norm)} parameters (expected 24), or gives "
        "other values than a layer norm over 12 features.",
    )


@torch.no_grad()
def _check_against_gptlib(model):
    """gptlib's model with the same parameters gives the same logits."""
    reference = loaded(GPTModel(SIZES), model)
    if not reference:
        return  # a block whose inside has other names
    ids = data_path.some_ids(3, 5)
    output, expected = model(ids), reference(ids)
    if not same(output, expected, atol=1e-3):
        raise Mistake(
            "wrong-block",
            "gptlib's model with your parameters gives other logits, and the "
            "data path is right: look inside your blocks. "
            f"{difference(output, expected)}",
        )


@torch.no_grad()
def _check_block_dropout(model):
    """At a rate of 1.0 in training, each block returns what it gets."""

    def look(block, args, output):
        if not same(output, args[0], equal_nan=True):
            raise Mistake(
                BLOCK_DROPOUT.name,
                "With a drop rate of 1.0 in training mode, the blocks still "
                f"add something. {difference(output, args[0])} "
                f"{BLOCK_DROPOUT.says}",
            )

    for block in data_path.blocks_of(model):
        block.register_forward_hook(look)
    model.train()(data_path.some_ids(3, 5))


# --- models with a fault ---------------------------------------------------


class Way(NamedTuple):
    """A way in which a model is broken, or not: its part, what is done to a
    model, and how a message tells it."""

    part: str | None
    do: Callable
    says: str


def _acting(part, forward):
    """Let a part answer with forward(its own answer, what it was given).

    Its class has the old name, and its parameters stay.
    """
    own = type(part)

    def changed(self, x):
        return forward(self, own.forward(self, x), x)

    part.__class__ = type(own.__name__, (own,), {"forward": changed})


def _same_rows(model, noise=0.0):
    table = model.pos_emb.weight.data
    table.copy_(table[0] + noise * torch.randn(table.shape))


def _one_position(model):
    _acting(model.pos_emb, lambda e, out, x: e.weight[0].expand_as(out))


def _one_object(model):
    model.trf_blocks[-1] = model.trf_blocks[0]


def _copied(model):
    model.trf_blocks[-1].load_state_dict(model.trf_blocks[0].state_dict())


def _shared(model):
    first, last = model.trf_blocks[0], model.trf_blocks[-1]
    for name, part in first.named_children():
        setattr(last, name, part)


def _deputy(model):
    """The last block has weights of its own, and uses the first block's."""
    first = [model.trf_blocks[0]]  # in a list, so that it isn't registered
    _acting(model.trf_blocks[-1], lambda block, out, x: first[0](x))


def _placeholder(model):
    model.final_norm = DummyLayerNorm(model.pos_emb.embedding_dim)


def _idle_norm(model):
    _acting(model.final_norm, lambda norm, out, x: x)


def _only_centred(model):
    _acting(
        model.final_norm, lambda norm, out, x: x - x.mean(-1, keepdim=True)
    )


def _only_scaled(model):
    _acting(
        model.final_norm,
        lambda norm, out, x: x / x.var(-1, keepdim=True, correction=0).sqrt(),
    )


def _real_bias(model):
    width, vocab = TINY["emb_dim"], TINY["vocab_size"]
    model.out_head = nn.Linear(width, vocab)


def _hidden_bias(model):
    bias = torch.randn(TINY["vocab_size"])
    _acting(model.out_head, lambda head, out, x: out + bias.to(out))


def _one_bias(model):
    bias = torch.zeros(TINY["vocab_size"])
    bias[torch.randint(len(bias), ())] = 0.5
    _acting(model.out_head, lambda head, out, x: out - bias.to(out))


def _other_look(model):
    """Healthy parts in classes of other names, and a parameter too many."""
    for name in FAULTS:
        part = getattr(model, name)
        part.__class__ = type("My" + type(part).__name__, (type(part),), {})
    model.spare = nn.Linear(3, 3)


SAME = "it gives each position the same vector"
EQUAL = "its first and its last block give the same for the same input"
WAYS = {
    "equal rows": Way("pos_emb", _same_rows, SAME),
    "equal up to rounding": Way(
        "pos_emb", partial(_same_rows, noise=1e-7), f"{SAME}, up to rounding"),
    "one row for all": Way(
        "pos_emb", _one_position, f"{SAME}, whatever stands in its table"),
    "one object": Way("trf_blocks", _one_object, f"{EQUAL}: they are one"),
    "copied blocks": Way("trf_blocks", _copied, f"{EQUAL}: one is a copy"),
    "shared tensors": Way(
        "trf_blocks", _shared, f"{EQUAL}: they share their weights"),
    "one block's work": Way(
        "trf_blocks", _deputy, f"{EQUAL}, though their weights differ"),
    "placeholder": Way(
        "final_norm", _placeholder, "its final norm is the placeholder"),
    "idle norm": Way(
        "final_norm", _idle_norm, "its final norm returns what it gets"),
    "only centred": Way(
        "final_norm", _only_centred,
        "its final norm gives mean 0, and leaves the variance"),
    "only scaled": Way(
        "final_norm", _only_scaled,
        "its final norm gives variance 1, and leaves the mean"),
    "bias": Way("out_head", _real_bias, "its head has a bias"),
    "bias in forward": Way(
        "out_head", _hidden_bias,
        "its head adds a bias that is no parameter"),
    "bias for one token": Way(
        "out_head", _one_bias, "its head adds a bias to one token's logit"),
    "healthy": Way(None, lambda model: None, "it has no fault"),
    "other names": Way(
        None, _other_look,
        "it has no fault, but other class names and a spare parameter"),
}  # fmt: skip
_MADE = weakref.WeakKeyDictionary()  # model → the way in which it was made


def _models(ways):
    """Name → a model of two or three blocks, broken in this way."""
    models = {}
    for name, way in ways.items():
        n_layers = int(torch.randint(2, 4, ()))
        model = GPTModel(TINY | {"n_layers": n_layers}).eval()
        WAYS[way].do(model)
        models[name], _MADE[model] = model, way
    return models


# --- broken models ---------------------------------------------------------

FAULTS = ("pos_emb", "trf_blocks", "final_norm", "out_head")


def at_fault(ways):
    found = {}
    for name, way in ways.items():
        found[name] = WAYS[way].part
    return found


def _taken(for_others, other):
    """Edit: these parts, or None, are taken for another one."""
    part = "WAYS[way].part"
    return {part: f"{other!r} if {part} in {for_others} else {part}"}


def _overlooked(*ways):
    """Edit: models broken in these ways pass as healthy."""
    part = "WAYS[way].part"
    return {part: f"None if way in {ways} else {part}"}


def _all_but(*ways):
    """Edit: only models broken in these ways are found."""
    return _overlooked(*(way for way in WAYS if way not in ways))


COMPARES = known(
    "compares-models",
    "Judge each model by itself: there may be fewer than four, and two with "
    "the same fault.",
    {"return found": "rest = [p for p in FAULTS if p not in found.values()]\n"
                     "return found | {name: rest[0]} if rest else found"},
)  # fmt: skip
# Faults that only part of the probes finds.
HALVES = [
    known("judged-by-looks",
          "Faults that show in the number of parameters or in the classes' "
          "names are found, others are not. Probe what a part does with an "
          "input.",
          _all_but("one object", "shared tensors", "placeholder", "bias"),
          _all_but("placeholder", "bias")),
    known("copies-missed",
          "Blocks that are one object, or share their weights, are found, "
          "and others that do the same are not. What do equal blocks give "
          "for one input?",
          _overlooked("copied blocks", "shared tensors", "one block's work"),
          _overlooked("copied blocks", "one block's work"),
          _overlooked("copied blocks")),
    known("block-weights-read",
          "Blocks with equal weights are found, and blocks that do the same "
          "with other weights are not. What do they give for one input?",
          _overlooked("one block's work")),
    known("position-table-read",
          "Equal rows in the position table are found, and a part that gives "
          "one row, whatever stands in its table, is not. Call it, or look "
          "at the logits.",
          _overlooked("one row for all"),
          _overlooked("one row for all", "equal up to rounding")),
    known("compared-exactly",
          "Equal position vectors are found, and those that are equal up to "
          "rounding are not. How far apart may two numbers be?",
          _overlooked("equal up to rounding")),
    known("only-the-mean",
          "A final norm that gives mean 0 and leaves the variance as it is "
          "passes as healthy. What else does a layer norm promise?",
          _overlooked("only centred")),
    known("only-the-variance",
          "A final norm that gives variance 1 and leaves the mean as it is "
          "passes as healthy. What else does a layer norm promise?",
          _overlooked("only scaled")),
    known("norm-read",
          "A final norm that has lost its parameters is found, and others "
          "that don't normalize are not. Call it, and look at what it gives.",
          _overlooked("idle norm", "only centred", "only scaled")),
    known("bias-read",
          "A head with a bias among its parameters is found, and one that "
          "adds a bias in forward is not. What does it give for an input of "
          "zeros?",
          _overlooked("bias in forward", "bias for one token")),
    known("one-logit-missed",
          "A head whose bias changes one logit alone passes as healthy. How "
          "many of its 101 logits does your probe look at?",
          _overlooked("bias for one token")),
]  # fmt: skip


SEARCH_MISTAKES = [
    known("same-answer-for-all",
          "Every answer is the same. Which probe fires on models that pass "
          "it?",
          *({"= WAYS[way].part": f"= {part!r}"} for part in (*FAULTS, None))),
    *HALVES,
    known("healthy-blamed",
          "Models without a fault are taken for broken ones. Does your probe "
          "ask more than a healthy part does, or guess the part that is left?",
          *(_taken((None,), part) for part in FAULTS)),
    *(known(f"{part.replace('_', '-')}-blamed",
            f"Several other parts are taken for {part}. Its probe fires on "
            "models in which that part is healthy.",
            *(_taken(others, part)
              for others in combinations(FAULTS, 2) if part not in others))
      for part in FAULTS),
    *(known(f"{part.replace('_', '-')}-missed",
            f"A fault in {part} is not found. Try your probe for this part "
            "on a healthy model and on a broken one.",
            *(_taken((part,), other)
              for other in (None, *FAULTS) if part != other))
      for part in FAULTS),
    COMPARES,
]  # fmt: skip


def _search(solve):
    """Finds faults by knowing how each model was made."""
    return lambda models: solve({n: _MADE[m] for n, m in models.items()})


BROKEN_MODELS = Task(at_fault, SEARCH_MISTAKES, _search)


@exercise(
    "Write one probe for one part, and try it on a healthy model and on the "
    "five suspects. Return None for a model that passes.",
    "A part shows what it does when you call it: with the positions 0 to 15, "
    "with one input for every block, with vectors far from mean 0, with a "
    "vector of zeros.",
    "Write a function of one model that runs four probes in turn. Compare "
    "up to rounding, as with (a - b).abs().max() < 1e-5, never with ==; "
    "and of the blocks compare each with each.",
    task=BROKEN_MODELS,
)
def broken_models(fn):
    """Every fault is found, whatever the models' names and order."""
    rounds, answers = _rounds(), []
    stock = {(*ways.items(),): _models(ways) for ways in rounds}
    _check_left_alone(fn, _models(rounds[0]))
    judge(
        partial(_ask, fn, answers, stock),
        BROKEN_MODELS,
        [(ways,) for ways in rounds],
        _seen_faults,
        partial(_otherwise, answers),
    )
    count_all = sum(map(len, rounds))
    return (
        f"your probes judged all {count_all} models rightly. They were broken "
        f"in {len(WAYS) - 2} ways, drawn in a new order each time, and some "
        "were healthy."
    )


def _rounds():
    """Names and ways: each part once and again in another order, a few
    models, two of a kind; the rest in between, all drawn anew."""
    draw = random.Random()
    by_part = {
        part: draw.sample([w for w in WAYS if WAYS[w].part == part], 2)
        for part in (*FAULTS, None)
    }
    first = draw.sample([by_part[part][0] for part in FAULTS], 4)
    others = [way for way in WAYS if way not in first]
    names = [*FAULTS, "x1", "north", "my model", "0", *"pqrstuvw"]
    draw.shuffle(others), draw.shuffle(names)
    alone, *pair = by_part[None][:1], *by_part[draw.choice(FAULTS)]
    return [
        dict(zip(called, ways, strict=True))
        for called, ways in [
            ("ABCD", first),
            ("ABCD", first[1:] + first[:1]),
            ("ABCD", first[2:] + first[:2]),
            (["one"], alone),
            ("BA", pair),
            (names[: len(others)], others),
        ]
    ]


def _check_left_alone(fn, models):
    """Probes look: the dict and its models are as before."""
    given = dict(models)
    try:
        with left_alone(*models.values()):
            attempt(partial(fn, given))
    except Mistake as mistake:
        raise Mistake(
            mistake.name,
            f"{mistake.message} Let your probes put back what they change, or "
            "probe a copy.",
        ) from None
    if given != models:
        kept = given.keys() == models.keys()
        has = "other values" if kept else f"the keys {[*given]}"
        raise Mistake(
            "input-overwritten",
            f"The dict was handed over with the models {', '.join(models)}; "
            f"after the call of your function it has {has}. It belongs to "
            "the caller: put the answers into a dict of your own.",
        )


def _ask(fn, answers, stock, ways):
    """A learner's answer for models broken in these ways: a dict of parts."""
    answer = returned(fn, dict(stock[(*ways.items(),)]))
    if not isinstance(answer, dict):
        raise Mistake(
            "wrong-type",
            f"The answer is of type {type(answer).__name__}; expected a dict "
            "with one entry for each model.",
        )
    if _swapped(answer, ways):
        raise Mistake(
            "keys-and-values-swapped",
            f"The answer maps parts to names, as in {answer}; expected names "
            "to parts.",
        )
    if set(answer) != set(ways):
        raise Mistake(
            "wrong-keys",
            f"The answer has the keys {list(answer)}; the models are called "
            f"{list(ways)}. Each needs an entry, a healthy one too.",
        )
    answers.append(answer)
    return answer


def _swapped(answer, ways):
    """Whether its keys are parts and its values the models' names."""
    if not answer:
        return False
    try:
        named = set(answer.values()) <= set(ways)
    except TypeError:
        return False  # a value that no set can hold
    return named and set(answer) <= {*FAULTS, None} and set(answer) != {*ways}


def _seen_faults(case, outcome, right):
    answer, truth = outcome.result, right.result
    wrong = [n for n, part in truth.items() if answer[n] != part]
    way, model = case[0][wrong[0]], f"Model {wrong[0]}"
    if wrong[0] in FAULTS:
        model = f"The model called {wrong[0]!r} (a name means nothing)"
    return (
        f"In a dict of {len(truth)}, your function judges {len(wrong)} "
        f"wrongly. {model}: {WAYS[way].says}; expected "
        f"{WAYS[way].part!r}, and the answer is {answer[wrong[0]]!r}."
    )


def _otherwise(answers, case, outcome, right):
    """What wrong answers can be that no known mistake explains."""
    given = [a for answer in answers for a in answer.values()]
    unknown = [a for a in given if a is not None and a not in FAULTS]
    if unknown:
        return (
            "unknown-part",
            f"An answer is {unknown[0]!r}; the parts are called "
            f"{', '.join(FAULTS)}, and a healthy model gets None.",
        )
    if all(answer == answers[0] for answer in answers[:3]):
        return (
            "answer-by-name",
            "The answer is the same whichever model has which fault. Probe "
            "the models; don't go by their names.",
        )
    name = next(n for n in case[0] if outcome.result[n] != right.result[n])
    part, told = right.result[name], outcome.result[name]
    if part is None:
        return (
            f"{told.replace('_', '-')}-blamed",
            f"Your probe for {told} fires on a healthy model. Does it compare "
            "up to rounding, and ask no more than a healthy part does?",
        )
    if told is not None:
        return (
            f"{told.replace('_', '-')}-blamed",
            f"Your probe for {told} fires on a model whose {told} is healthy; "
            f"another part, {part}, is broken. Does it ask no more than a "
            "healthy part does?",
        )
    deep = " Let the model have three blocks." * (part == "trf_blocks")
    return (
        f"{part.replace('_', '-')}-missed",
        f"Try your probe for {part} on a healthy model and on a broken one."
        f"{deep}",
    )


# --- one block more --------------------------------------------------------


def deepened(model, cfg):
    deeper = GPTModel(cfg | {"n_layers": cfg["n_layers"] + 1})
    deeper.load_state_dict(model.state_dict(), strict=False)
    new = deeper.trf_blocks[-1]
    for last in (new.att.out_proj, new.ff.layers[2]):
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
    return deeper


def _zero(layers):
    """Edit: other layers of the new block become zero."""
    return {"(new.att.out_proj, new.ff.layers[2])": layers}


_LOOP = """\
for last in (new.att.out_proj, new.ff.layers[2]):
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)"""
MAKES = 'GPTModel(cfg | {"n_layers": cfg["n_layers"] + 1})'
LOADS = "deeper.load_state_dict(model.state_dict(), strict=False)"
DEEPEN_MISTAKES = [
    known("no-new-block",
          "How many blocks does the new model's configuration ask for?",
          {MAKES: "GPTModel(cfg)", "deeper.trf_blocks[-1]":
           "TransformerBlock(cfg)"}),
    known("weights-not-copied",
          "The parts that both models have differ in their weights. Are they "
          "copied, and left alone afterwards?",
          {LOADS: "pass"}),
    known("logits-changed",
          "What must both halves of the new block add to the vectors that "
          "pass by?",
          _zero("()"),
          _zero("(new.att.out_proj,)"),
          _zero("(new.ff.layers[2],)"),
          {"nn.init.zeros_(last.bias)": "pass"},
          {"nn.init.zeros_(last.weight)": "pass"},
          {_LOOP: "new.load_state_dict(model.trf_blocks[-1].state_dict())"}),
    known("cannot-learn",
          "A gradient is a product along the way to the loss: where one "
          "factor stays zero, nothing ever moves. How much of the block has "
          "to be zero?",
          {_LOOP: "for p in (*new.att.parameters(), *new.ff.parameters()):"
           "\n    nn.init.zeros_(p)"},
          {_LOOP: "for p in new.parameters():\n    nn.init.zeros_(p)"},
          {_LOOP: "new.forward = lambda x: x"}),
    known("weights-shared",
          "Training the new model changes the given one. Does a list of the "
          "old blocks hold copies, or the blocks themselves?",
          {LOADS: f"{LOADS}\n"
           "deeper.trf_blocks[0] = model.trf_blocks[0]"},
          {LOADS: f"{LOADS}\ndeeper.tok_emb = model.tok_emb"}),
    known("model-changed",
          "The given model belongs to the caller. Build another one, or work "
          "on a copy.",
          {MAKES: "model\nmodel.trf_blocks.append(TransformerBlock(cfg))",
           LOADS: "pass"}),
]  # fmt: skip

DEEPEN = Task(deepened, DEEPEN_MISTAKES, lambda solve: solve)
SAYS = {mistake.name: mistake.says for mistake in DEEPEN_MISTAKES}


@exercise(
    "A model of one layer more, with the weights of the given one, is the "
    "start. What must the new block add to the vectors that pass by, if the "
    "logits are to stay?",
    "Each half of a block ends in a linear layer: att.out_proj and the last "
    "layer of ff. What do weights and bias have to be, so that such a layer "
    "answers every input with zeros?",
    "Make GPTModel of the configuration with one layer more, load the "
    "state_dict of the given model with strict=False, and set weight and "
    "bias of these two layers in the last block to zero: no others.",
    task=DEEPEN,
)
def deepen(fn):
    """One block more, the same logits, and all of it can be trained."""
    for changes in ({}, {"n_layers": 1, "qkv_bias": True}, {"n_layers": 2}):
        _check_deeper(fn, SIZES | changes)
    return (
        "your model has one block more and gives the same logits. After "
        "three steps of training every weight of the new block has moved, and "
        "the given model is as it was."
    )


def _check_deeper(fn, cfg):
    model, given = randomized(GPTModel(cfg)).eval(), dict(cfg)
    before = copy.deepcopy(model)
    try:
        deeper = returned(fn, model, given)
    except RuntimeError as error:
        if "Missing key" not in str(error):
            raise
        raise Mistake(
            "loaded-strictly",
            "load_state_dict stops, since the given model has no weights for "
            "the new block. By default both must have the same names: look "
            "up its argument `strict`.",
        ) from None
    _check_untouched(model, before, given == cfg)
    _check_one_more(deeper, before, cfg)
    frozen = [n for n, p in deeper.named_parameters() if not p.requires_grad]
    if frozen:
        raise Mistake(
            "frozen",
            f"{frozen[0]} has requires_grad=False in your model, so training "
            "leaves it as it is.",
        )
    deeper.eval()
    ids = data_path.some_ids(3, 5)
    with torch.no_grad():
        output, expected = deeper(ids), before(ids)
    if not same(output, expected, rtol=1e-5, atol=1e-4):
        _explain_logits(deeper, before, difference(output, expected))
    _check_learns(deeper, model, before, cfg["qkv_bias"])


def _check_untouched(model, before, same_cfg):
    if not same_cfg:
        raise Mistake(
            "config-changed",
            "cfg has other entries after the call. Others use it too, so "
            "leave it as it was.",
        )
    told = []
    own, old = len(model.trf_blocks), len(before.trf_blocks)
    if own != old:
        told.append(f"{own} blocks, and had {old}")
    elif not equal(dict(model.state_dict()), dict(before.state_dict())):
        told.append("other weights than before")
    elif model.training:
        told.append("been switched to training mode")
    if told:
        raise Mistake(
            "model-changed",
            f"After the call, the given model has {told[0]}. "
            f"{SAYS['model-changed']}",
        )


def _check_one_more(deeper, before, cfg):
    if not isinstance(getattr(deeper, "trf_blocks", None), nn.Module):
        raise Mistake(
            "not-a-model",
            f"The function returns a {type(deeper).__name__}; expected a "
            "model whose blocks stand in trf_blocks.",
        )
    old, new = len(before.trf_blocks), len(data_path.blocks_of(deeper))
    if new != old + 1:
        name = "no-new-block" if new <= old else "too-many-blocks"
        raise Mistake(
            name,
            f"Blocks in the given model: {old}; in yours: {new}; expected: "
            f"{old + 1}. {SAYS['no-new-block'] if new <= old else ''}".strip(),
        )
    wanted = count(GPTModel(cfg | {"n_layers": old + 1}))
    if count(deeper) < wanted:
        raise Mistake(
            "block-without-weights",
            f"Your model has {count(deeper):,} parameters; expected "
            f"{wanted:,}, which is a whole block more than the given model's "
            f"{count(before)}. Is the new one a whole block, of its own?",
        )


def _explain_logits(deeper, before, seen):
    """Raise what changed the logits: other weights, or the new block."""
    own = deeper.state_dict()
    for name, tensor in before.state_dict().items():
        copied = name in own and same(own[name], tensor)
        if not name.startswith("trf_blocks") and not copied:
            raise Mistake(
                "weights-not-copied",
                f"{seen} {name} is not as in the given model. "
                f"{SAYS['weights-not-copied']}",
            )
    blocks = data_path.blocks_of(deeper)
    new = [b for b in blocks if not _like_any(b, before.trf_blocks)]
    if len(new) > 1:
        raise Mistake(
            "weights-not-copied",
            f"{seen} {len(new)} of your blocks have weights that no block of "
            f"the given model has. {SAYS['weights-not-copied']}",
        )
    told = "The new block has the weights of an old one."
    if new:
        told = _added(new[0], deeper.pos_emb.weight.shape[-1])
    raise Mistake("logits-changed", f"{seen} {told} {SAYS['logits-changed']}")


def _like_any(block, others):
    state = dict(block.state_dict())
    return any(equal(state, dict(o.state_dict())) for o in others)


@torch.no_grad()
def _added(block, width):
    """How much the halves of a block add to some vectors."""
    x = torch.randn(2, 5, width)
    try:
        halves = {
            "attention": block.att(block.norm1(x)),
            "feed-forward": block.ff(block.norm2(x)),
        }
    except Exception:  # a block with other parts
        halves = {"whole": block(x) - x}
    told = [f"its {n} {number(y.abs().max())}" for n, y in halves.items()]
    return (
        f"The most that the new block adds to a number: {', '.join(told)}; "
        "expected 0."
    )


def _check_learns(deeper, model, before, qkv_bias):
    """Three small steps move every parameter, and none of the given model.

    (A bias on all keys alike never matters, so it has no gradient.)
    """
    kept = {n: p.detach().clone() for n, p in deeper.named_parameters()}
    ids = data_path.some_ids(3, 6)
    for _ in range(3):
        logits = deeper(ids[:, :-1]).flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, ids[:, 1:].flatten())
        weights = list(deeper.parameters())
        grads = gradients(loss, weights)
        with torch.no_grad():
            for p, grad in zip(weights, grads, strict=True):
                if grad is not None and grad.abs().max() > 1e-9:
                    p -= 0.05 * grad / grad.abs().max()
    stuck = [n for n, p in deeper.named_parameters() if equal(p, kept[n])]
    stuck = [n for n in stuck if not (qkv_bias and n.endswith("key.bias"))]
    if not equal(dict(model.state_dict()), dict(before.state_dict())):
        name = "weights-shared"
        raise Mistake(name, f"{SAYS[name]} Look at {_moved(model, before)}.")
    if "tok_emb.weight" in stuck:
        raise Mistake(
            "gradient-detached",
            "The logits are right, but in three steps of training even "
            "tok_emb.weight never moves. Is there a detach, .data or no_grad "
            "on the way from the token vectors to the logits?",
        )
    if stuck:
        raise Mistake(
            "cannot-learn",
            f"The logits are right, but in three steps of training "
            f"{len(stuck)} of {len(kept)} weight tensors never move, such as "
            f"{stuck[0]}. {SAYS['cannot-learn']}",
        )


def _moved(model, before):
    old, own = before.state_dict(), model.state_dict()
    return next(name for name in own if not equal(own[name], old[name]))
