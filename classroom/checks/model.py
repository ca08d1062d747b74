"""Checks of notebook 06: the whole model, and the search for a broken part."""

from functools import partial
from itertools import combinations

import torch
from torch import nn

from classroom.checks import data_path
from classroom.checks.data_path import SIZES, TABLES, TINY
from classroom.checks.edits import Task, known
from classroom.checks.functions import (
    attempt,
    judge,
    left_alone,
    returned,
)
from classroom.checks.guard import exercise
from classroom.checks.manners import check_manners
from classroom.checks.parts import count, is_layer_norm, loaded, remark
from classroom.checks.result import Mistake
from classroom.checks.tensors import difference, same
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


# --- broken models ---------------------------------------------------------

FAULTS = ("pos_emb", "trf_blocks", "final_norm", "out_head")
# Names and faults: several orders, fewer models, more than one of a kind.
ROUNDS = [
    dict(zip(names, (FAULTS[i] for i in numbers), strict=True))
    for names, numbers in [
        ("ABCD", (2, 0, 3, 1)),
        ("ABCD", (1, 3, 0, 2)),
        ("ABCD", (3, 2, 1, 0)),
        ("ABCD", (0, 1, 2, 3)),
        (("north", "x1", "out_head", "pos_emb"), (1, 2, 0, 3)),
        (("p", "q", "r"), (3, 3, 0)),
        (("one",), (2,)),
        ("BA", (1, 1)),
    ]
]


def at_fault(faults):
    found = {}
    for name, part in faults.items():
        found[name] = part
    return found


def _taken(for_others, other):
    """Edit: these parts are taken for another one."""
    return {"= part": f"= {other!r} if part in {for_others} else part"}


COMPARES = known(
    "compares-models",
    "Judge each model by itself: there may be fewer than four, and two with "
    "the same fault.",
    {"return found": "rest = [p for p in FAULTS if p not in found.values()]\n"
                     "return found | {name: rest[0]} if rest else found"},
)  # fmt: skip


SEARCH_MISTAKES = [
    known("same-answer-for-all",
          "Every answer is the same. Which probe fires on models that pass "
          "it?",
          *({"= part": f"= {part!r}"} for part in (*FAULTS, None))),
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
    """Finds faults by looking at the model's parts, and reports as told."""

    def look(model):
        rows = model.pos_emb.weight
        if (rows == rows[0]).all():
            return "pos_emb"
        if len(set(model.trf_blocks)) < len(model.trf_blocks):
            return "trf_blocks"
        return "final_norm" if model.out_head.bias is None else "out_head"

    return lambda models: solve({n: look(m) for n, m in models.items()})


BROKEN_MODELS = Task(at_fault, SEARCH_MISTAKES, _search)


@exercise(
    "Each of the four hints under the exercise names a probe. Begin with one "
    "fault, and return None for models that pass.",
    "Four probes: one token four times; identity of the blocks; final_norm "
    "on vectors far from mean 0; out_head on a vector of zeros.",
    "Write a function of one model that runs the probes in turn and returns "
    "the part whose probe fails; the answer is a dict that calls it for each "
    "name and model.",
    task=BROKEN_MODELS,
)
def broken_models(fn):
    """Every fault is found, whatever the models' names and order."""
    _check_left_alone(fn)
    answers = []
    judge(
        partial(_ask, fn, answers),
        BROKEN_MODELS,
        [(faults,) for faults in ROUNDS],
        _seen_faults,
        partial(_otherwise, answers),
    )
    return (
        "your probes found the part at fault in all "
        f"{sum(map(len, ROUNDS))} broken models, in several orders and under "
        "other names."
    )


def _check_left_alone(fn):
    """Probes look: the dict and its models are as before."""
    models = {name: _broken(part) for name, part in ROUNDS[0].items()}
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


def _ask(fn, answers, faults):
    """A learner's answer for models with these faults: a dict of parts."""
    answer = returned(
        fn, {name: _broken(part) for name, part in faults.items()}
    )
    if not isinstance(answer, dict):
        raise Mistake(
            "wrong-type",
            f"The answer is of type {type(answer).__name__}; expected a dict "
            "with one entry for each model.",
        )
    if set(answer) <= set(FAULTS) and set(answer.values()) == set(faults):
        raise Mistake(
            "keys-and-values-swapped",
            f"The answer maps parts to names, as in {answer}; expected names "
            "to parts.",
        )
    if set(answer) != set(faults):
        raise Mistake(
            "wrong-keys",
            f"The answer has the keys {list(answer)}; the models are called "
            f"{list(faults)}.",
        )
    answers.append(answer)
    return answer


def _broken(part):
    """A tiny model with a fault in one part, as notebook 06 makes it."""
    model = GPTModel(TINY)
    if part == "pos_emb":
        row = model.pos_emb.weight.data[:1]
        model.pos_emb.weight.data = row.repeat(TINY["context_length"], 1)
    if part == "trf_blocks":
        only = model.trf_blocks[0]
        model.trf_blocks = nn.Sequential(*[only] * TINY["n_layers"])
    if part == "final_norm":
        model.final_norm = DummyLayerNorm(TINY["emb_dim"])
    if part == "out_head":
        model.out_head = nn.Linear(TINY["emb_dim"], TINY["vocab_size"])
    return model.eval()


def _seen_faults(case, outcome, right):
    answer, truth = outcome.result, right.result
    wrong = [n for n, part in truth.items() if answer[n] != part]
    n = wrong[0]
    return (
        f"Judged wrongly of the models {', '.join(truth)}: {len(wrong)}. The "
        f"fault of {n} is in {truth[n]}, and the answer is {answer[n]!r}."
    )


def _otherwise(answers, case, outcome, right):
    """What wrong answers can be that no known mistake explains."""
    given = [a for answer in answers for a in answer.values()]
    unknown = [a for a in given if a is not None and a not in FAULTS]
    if unknown:
        return (
            "unknown-part",
            f"An answer is {unknown[0]!r}; the parts are called "
            f"{', '.join(FAULTS)}.",
        )
    if all(answer == answers[0] for answer in answers[:4]):
        return (
            "answer-by-name",
            "The answer is the same whichever model has which fault. Probe "
            "the models; don't go by their names.",
        )
    if answers[:5] == ROUNDS[:5]:
        return COMPARES.name, COMPARES.says
    missed = next(p for n, p in case[0].items() if outcome.result[n] != p)
    return (
        f"{missed.replace('_', '-')}-missed",
        f"Try your probe for {missed} on a healthy model and on a broken one.",
    )
