"""The checks of notebook 07: counting by formula, and the depth that fits."""

import copy
import re
from pathlib import Path

import numpy
import pytest
import torch
from renamed import renamed
from torch import nn

from classroom.checks.guard import HINTS
from classroom.checks.parameters import deepest, parameter_count
from gptlib import (
    GPT2_CONFIGS,
    GPT_CONFIG_124M,
    GPTModel,
    count_parameters,
    parameter_formula,
)

XL = "gpt2-xl (1558M)"
FORMULA = """
def answer(cfg, tied):
    d, V, C = cfg["emb_dim"], cfg["vocab_size"], cfg["context_length"]
    L, H, q = cfg["n_layers"], cfg["n_heads"], cfg["qkv_bias"]
    attention = 4 * d * d + d + (3 * d if q else 0)
    feed_forward = d * 4 * d + 4 * d + 4 * d * d + d
    norms = 2 * 2 * d
    blocks = L * (attention + feed_forward + norms)
    head = 0 if tied else V * d
    total = V * d + C * d + blocks + 2 * d + head
    return total
"""
MODEL = """
def answer(cfg, tied):
    with torch.device("meta"):
        model = GPTModel(cfg)
    total = sum(p.numel() for p in model.parameters())
    head = model.out_head.weight.numel()
    if tied:
        total -= head
    return total
"""


def made(source, *changes):
    """The function `answer` of a source, after replacing pieces of it."""
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    space = {
        "torch": torch, "numpy": numpy, "GPTModel": GPTModel,
        "count_parameters": count_parameters, "GPT2_CONFIGS": GPT2_CONFIGS,
        "GPT_CONFIG_124M": GPT_CONFIG_124M,
    }  # fmt: skip
    exec(source, space)
    return space["answer"]


def by_set(cfg, tied):
    model = GPTModel(cfg)  # in real memory, unless the check prevents it
    if tied:
        model.out_head.weight = model.tok_emb.weight
    return sum(p.numel() for p in set(model.parameters()))


def by_shapes(cfg, tied):
    d, hidden = cfg["emb_dim"], 4 * cfg["emb_dim"]
    block = [(d, d)] * 4 + [(d,)] * 4 + [(d, hidden), (hidden,)]
    block += [(hidden, d), (d,), (d,)] + [(d,)] * 3 * cfg["qkv_bias"]
    rows = 1 if tied else 2
    shapes = [(cfg["vocab_size"], d)] * rows + [(cfg["context_length"], d)]
    shapes += block * cfg["n_layers"] + [(d,), (d,)]
    return sum(int(numpy.prod(shape)) for shape in shapes)


def by_tensor(cfg, tied):
    d = cfg["emb_dim"]
    rows = cfg["vocab_size"] * (2 - tied) + cfg["context_length"] + 2
    block = 12 * d + 10 + 3 * cfg["qkv_bias"]
    return (torch.tensor(d) * (rows + block * cfg["n_layers"])).item()


def nested(cfg, tied):
    def linear(n_in, n_out, bias=True):
        return n_in * n_out + n_out * bias

    d = cfg["emb_dim"]
    total = 2 * d + d * cfg["context_length"] + d * cfg["vocab_size"]
    for _ in range(cfg["n_layers"]):
        total += 3 * linear(d, d, cfg["qkv_bias"]) + linear(d, d)
        total += linear(d, 4 * d) + linear(4 * d, d) + 2 * 2 * d
    return total if tied else total + linear(d, cfg["vocab_size"], False)


class Counter:
    def __call__(self, cfg, tied=False):
        return count_parameters(cfg, tied)


def by_layers(cfg, tied):
    def n(layer):
        return sum(p.numel() for p in layer.parameters())

    d = cfg["emb_dim"]
    block = 3 * n(nn.Linear(d, d, cfg["qkv_bias"])) + n(nn.Linear(d, d))
    block += n(nn.Sequential(nn.Linear(d, 4 * d), nn.Linear(4 * d, d)))
    block += 2 * n(nn.LayerNorm(d))
    tables = n(nn.Embedding(cfg["context_length"], d))
    tables += (2 - tied) * n(nn.Embedding(cfg["vocab_size"], d))
    return tables + cfg["n_layers"] * block + n(nn.LayerNorm(d))


def by_hint_3(cfg, tied):
    d = cfg["emb_dim"]
    block = 12 * d**2 + 10 * d
    if cfg["qkv_bias"]:
        block += 3 * d
    total = cfg["n_layers"] * block + 2 * d + cfg["context_length"] * d
    return total + cfg["vocab_size"] * d * (1 if tied else 2)


def by_pattern(cfg, tied=False):
    match cfg:
        case {"vocab_size": v, "emb_dim": d, "n_layers": n, **rest}:
            block = [4 * d * d, d, 3 * d * rest["qkv_bias"], 8 * d * d, 9 * d]
            rows = v + (not tied) * v + rest["context_length"] + 2
            return sum([rows * d, *block * n])


def by_nothing_but_python(cfg, tied):
    from math import prod

    def table(*sides):
        return prod(cfg.get(side, side) for side in sides)

    d, biases = "emb_dim", 9 + 3 * bool(cfg["qkv_bias"]) + 1
    block = table(12, d, d) + table(biases, d)
    ends = [table("vocab_size", d)] * (1 if tied else 2)
    rest = [table("context_length", d), table(2, d)]
    return sum(ends + rest + [block for _ in range(cfg["n_layers"])])


def test_the_formula_of_the_package_is_no_answer():
    for answer in (parameter_formula, lambda *case: parameter_formula(*case)):
        result = parameter_count(answer)
        assert result.mistake == "ready-made", result


@pytest.mark.parametrize(
    "answer",
    [
        by_hint_3, by_pattern, by_nothing_but_python,
        made(FORMULA), by_shapes, by_tensor, nested,
        made(FORMULA, ("return total", "return numpy.int64(total)")),
        made(FORMULA, ("4 * d * d", "4 * d**2")),
        made(FORMULA, ("return total", "print(total)\n    return total")),
    ],
)  # fmt: skip
def test_right_counts_pass(answer):
    result = parameter_count(answer)
    assert (result.status, result.mistake) == ("passed", None), result
    assert "1,557,611,200" in result.message


@pytest.mark.parametrize(
    "answer",
    [
        by_layers, by_set, made(MODEL), Counter(),
        lambda cfg, tied: count_parameters(cfg, tied),
    ],
)  # fmt: skip
def test_numbers_read_off_a_model_are_not_what_is_asked(answer):
    result = parameter_count(answer)
    assert result.mistake == "model-built"
    assert "All numbers are right" in result.message


WRONG_COUNTS = [
    ("rule-only", FORMULA,
     [("4 * d * d + d + (3 * d if q else 0)", "4 * d * d"),
      ("d * 4 * d + 4 * d + 4 * d * d + d", "8 * d * d"),
      ("norms = 2 * 2 * d", "norms = 0"), ("+ 2 * d + head", "+ head")]),
    ("rule-only", FORMULA,
     [("4 * d * d + d + (3 * d if q else 0)", "4 * d * d"),
      ("d * 4 * d + 4 * d + 4 * d * d + d", "8 * d * d"),
      ("norms = 2 * 2 * d", "norms = 0"),
      ("V * d + C * d + blocks + 2 * d", "V * d + blocks")]),
    ("tied-subtracted-twice", FORMULA,
     [("return total", "return total - (V * d if tied else 0)")]),
    ("tied-subtracted-twice", MODEL,
     [("model = GPTModel(cfg)", "model = GPTModel(cfg)\n"
       "        if tied: model.out_head.weight = model.tok_emb.weight")]),
    ("tied-ignored", FORMULA, [("0 if tied else V * d", "V * d")]),
    ("tied-ignored", MODEL, [("total -= head", "total = total")]),
    ("always-tied", FORMULA, [("0 if tied else V * d", "0")]),
    ("always-tied", MODEL, [("if tied", "if True")]),
    ("tied-inverted", FORMULA, [("0 if tied else", "0 if not tied else")]),
    ("tied-inverted", MODEL, [("if tied", "if not tied")]),
    ("tied-added", FORMULA, [("0 if tied else V * d",
                              "2 * V * d if tied else V * d")]),
    ("tied-added", MODEL, [("-=", "+=")]),
    ("token-table-forgotten", FORMULA, [("V * d + C * d", "C * d")]),
    ("token-table-forgotten", MODEL,
     [("return total", "return total - head")]),
    ("tied-wrong-table", FORMULA,
     [("return total", "return total - (C * d if tied else 0)")]),
    ("tied-wrong-table", MODEL,
     [("head = model.out_head", "head = model.pos_emb")]),
    ("mask-counted", FORMULA, [("norms = ", "norms = C * C + ")]),
    ("mask-counted", MODEL,
     [("return total",
       "return total + sum(b.numel() for b in model.buffers())")]),
    ("position-table-forgotten", FORMULA, [("V * d + C * d", "V * d")]),
    ("position-table-forgotten", MODEL,
     [("return total", "return total - model.pos_emb.weight.numel()")]),
    ("position-table-in-every-block", FORMULA, [("C * d +", "C * d * L +")]),
    ("biases-forgotten", FORMULA,
     [("d + (3 * d if q else 0)", "0"), ("+ 4 * d +", "+"),
      ("4 * d * d + d\n", "4 * d * d\n"), ("+ 0\n", "\n")]),
    ("biases-forgotten", FORMULA,
     [("* d + d +", "* d +"), ("+ 4 * d +", "+"),
      ("4 * d * d + d\n", "4 * d * d\n")]),
    ("biases-forgotten", MODEL,
     [("p.numel() for p in model.parameters()",
       "p.numel() for n, p in model.named_parameters() if 'bias' not in n")]),
    ("feed-forward-bias-forgotten", FORMULA,
     [("+ 4 * d +", "+"), ("4 * d * d + d\n", "4 * d * d\n")]),
    ("feed-forward-bias-forgotten", MODEL,
     [("return total", "return total - cfg['n_layers'] * 5 * "
       "cfg['emb_dim']")]),
    ("output-bias-forgotten", FORMULA, [("* d + d +", "* d +")]),
    ("output-bias-forgotten", FORMULA, [("4 * d * d + d\n",
                                         "4 * d * d\n")]),
    ("norms-or-bias-forgotten", FORMULA, [("+ 4 * d +", "+")]),
    ("norms-or-bias-forgotten", FORMULA, [("norms = 2 * 2 * d",
                                           "norms = 0")]),
    ("qkv-bias-always", FORMULA, [("if q else", "if True else")]),
    ("qkv-bias-always", MODEL,
     [("GPTModel(cfg)", "GPTModel(cfg | {'qkv_bias': True})")]),
    ("qkv-bias-never", FORMULA, [("if q else", "if False else")]),
    ("qkv-bias-never", MODEL,
     [("GPTModel(cfg)", "GPTModel(cfg | {'qkv_bias': False})")]),
    ("qkv-bias-inverted", FORMULA, [("if q else", "if not q else")]),
    ("qkv-bias-once", FORMULA, [("3 * d if q", "d if q")]),
    ("qkv-bias-one-block", FORMULA,
     [("d + (3 * d if q else 0)", "d"),
      ("return total", "return total + 3 * d * q")]),
    ("qkv-bias-wrong-size", FORMULA, [("3 * d if q", "4 * d if q")]),
    ("qkv-bias-wrong-size", FORMULA, [("3 * d if q", "3 if q")]),
    ("qkv-bias-wrong-size", FORMULA, [("3 * d if q", "5 * d if q")]),
    ("output-bias-only-with-qkv", FORMULA,
     [("d + (3 * d if q else 0)", "(4 * d if q else 0)")]),
    ("norms-forgotten", FORMULA,
     [("norms = 2 * 2 * d", "norms = 0"), ("+ 2 * d + head", "+ head")]),
    ("norms-forgotten", MODEL,
     [("p.numel() for p in model.parameters()", "p.numel() for n, p in "
       "model.named_parameters() if 'norm' not in n")]),
    ("final-norm-forgotten", FORMULA, [("+ 2 * d + head", "+ head")]),
    ("final-norm-forgotten", MODEL,
     [("return total", "return total - 2 * cfg['emb_dim']")]),
    ("final-norm-in-every-block", FORMULA,
     [("norms = 2", "norms = 3"), ("+ 2 * d + head", "+ head")]),
    ("norm-shift-forgotten", FORMULA,
     [("norms = 2 * 2 * d", "norms = 2 * d"), ("+ 2 * d +", "+ d +")]),
    ("norm-shift-forgotten", FORMULA, [("+ 2 * d +", "+ d +")]),
    ("one-norm-per-block", FORMULA, [("norms = 2 * 2 * d",
                                      "norms = 2 * d")]),
    ("head-bias-counted", FORMULA, [("else V * d", "else V * d + V")]),
    ("head-bias-counted", MODEL, [("return total",
                                   "return total + cfg['vocab_size']")]),
    ("one-block-only", FORMULA, [("L * (att", "(att")]),
    ("one-block-only", MODEL,
     [("GPTModel(cfg)", "GPTModel(cfg | {'n_layers': 1})")]),
    ("blocks-forgotten", FORMULA, [("blocks = L", "blocks = 0")]),
    ("block-count-off-by-one", FORMULA, [("L * (att", "(L - 1) * (att")]),
    ("block-count-off-by-one", FORMULA, [("L * (att", "(L + 1) * (att")]),
    ("heads-for-layers", FORMULA, [("L * (att", "H * (att")]),
    ("heads-multiplied", FORMULA, [("L * (att", "L * (H * att")]),
    ("heads-multiplied", FORMULA,
     [("4 * d * d + d + (", "(H * 3 + 1) * d * d + d + (")]),
    ("one-head-only", FORMULA,
     [("4 * d * d + d + (", "3 * d * (d // H) + d * d + d + (")]),
    ("qkv-once", FORMULA, [("attention = 4", "attention = 2")]),
    ("output-layer-forgotten", FORMULA, [("attention = 4 * d * d + d",
                                          "attention = 3 * d * d")]),
    ("output-layer-forgotten", FORMULA, [("attention = 4",
                                          "attention = 3")]),
    ("attention-forgotten", FORMULA, [("(attention +", "(")]),
    ("feed-forward-width", FORMULA,
     [("d * 4 * d + 4 * d + 4 * d * d + d", "2 * d * d + 2 * d")]),
    ("feed-forward-width", FORMULA,
     [("d * 4 * d + 4 * d + 4 * d * d + d", "4 * d * d + 3 * d")]),
    ("feed-forward-one-layer", FORMULA,
     [("d * 4 * d + 4 * d + 4", "4")]),
    ("feed-forward-one-layer", FORMULA, [("+ 4 * d * d + d\n", "\n")]),
    ("feed-forward-three-layers", FORMULA, [("d * 4 * d", "d * 8 * d")]),
    ("feed-forward-forgotten", FORMULA, [("feed_forward +", "")]),
    ("hardcoded-size", FORMULA, [('C = cfg["emb_dim"], cfg["vocab_size"], '
                                  'cfg["context_length"]',
                                  'C = cfg["emb_dim"], cfg["vocab_size"], '
                                  '1024')]),
    ("hardcoded-size", FORMULA, [('L, H, q = cfg["n_layers"]',
                                  'L, H, q = 12')]),
    ("config-ignored", FORMULA, [("    return total",
                                  "    return 163_009_536")]),
    ("config-ignored", MODEL,
     [("GPTModel(cfg)", "GPTModel(GPT_CONFIG_124M)"), ("if tied", "if 0")]),
    ("config-ignored", FORMULA, [("    return total", "    return 7")]),
    ("config-ignored", FORMULA,
     [("    d,", "    cfg = GPT_CONFIG_124M\n    d,")]),
    ("real-memory", MODEL, [('"meta"', '"cpu"')]),
    ("mib-returned", FORMULA, [("return total",
                                "return total * 4 / 1024**2")]),
    ("mib-returned", MODEL, [("return total",
                              "return round(total * 4 / 1024**2, 2)")]),
    ("mib-returned", FORMULA, [("return total", "return total / 1024**2")]),
    ("mb-returned", FORMULA, [("return total", "return total * 4 / 1e6")]),
    ("mb-returned", MODEL, [("return total", "return total // 10**6")]),
    ("mb-returned", FORMULA, [("return total",
                               "return round(4 * total / 1e9, 2)")]),
    ("bytes-returned", FORMULA, [("return total", "return total * 4")]),
    ("bytes-returned", MODEL, [("return total", "return total * 2")]),
    ("bytes-returned", FORMULA,
     [("return total", "return total * 4"), ("0 if tied else V * d", "0")]),
    ("float-returned", FORMULA, [("return total", "return total * 8 / 8")]),
    ("float-returned", MODEL, [("return total", "return float(total)")]),
    ("float-returned", FORMULA, [("return total",
                                  "return torch.tensor(total)")]),
    ("text-returned", FORMULA, [("return total", "return f'{total:,}'")]),
    ("text-returned", MODEL, [("return total", "return str(total)")]),
    ("not-a-number", FORMULA, [("return total", "return total, tied")]),
    ("not-a-number", FORMULA, [("return total", "return {'n': total}")]),
    ("returns-none", FORMULA, [("return total", "print(total)")]),
    ("returns-none", MODEL, [("    return total", "        return total")]),
    ("config-changed", FORMULA, [("    d,", "    cfg['a'] = 1\n    d,")]),
    ("config-changed", FORMULA,
     [("    d,", "    cfg['n_layers'] += 1\n    d,"),
      ("return total", "return total + 7")]),
    ("config-changed", MODEL, [("    with", "    cfg['n_heads'] = 1\n"
                                "    with")]),
    ("wrong-count", FORMULA, [("return total", "return total + 7")]),
    ("wrong-count", FORMULA,
     [("return total", "return total if d < 1600 else 1_557_611_200")]),
    ("tied-wrong-amount", FORMULA, [("0 if tied", "7 if tied")]),
    ("untied-wrong-amount", FORMULA, [("else V * d", "else V * V")]),
    # Two at once: the first is named.
    ("tied-ignored", FORMULA,
     [("0 if tied else V * d", "V * d"), ("+ 2 * d + head", "+ head")]),
    ("mask-counted", FORMULA,
     [("norms = ", "norms = C * C + "), ("if q else", "if True else")]),
]  # fmt: skip


# Change → how all counts are off: that is seen, and no cause of it.
OFF_BY_ONE_TERM = {
    ("* d + d\n    norms", "* d + d - 3 * d\n    norms"):
        "3 × emb_dim × n_layers are too few",
    ("* d + d\n    norms", "* d + d + 3 * d\n    norms"):
        "3 × emb_dim × n_layers are too many",
    ("norms = 2 * 2 * d", "norms = d"): "3 × emb_dim × n_layers are too few",
    ("norms = 2 * 2 * d", "norms = 8 * d"):
        "4 × emb_dim × n_layers are too many",
    ("4 * d * d + d + (", "4 * d * d + 2 * d + ("):
        "1 × emb_dim × n_layers are too many",
    ("4 * d * d + d\n", "6 * d * d + d\n"):
        "2 × emb_dim × emb_dim × n_layers are too many",
    ("+ 2 * d + head", "+ 3 * d + head"): "1 × emb_dim are too many",
    ("return total", "return total - 3 * V"): "3 × vocab_size are too few",
}  # fmt: skip


@pytest.mark.parametrize("change", OFF_BY_ONE_TERM)
def test_two_mistakes_that_add_up_to_one_term_are_not_asserted(change):
    result = parameter_count(made(FORMULA, change))
    assert result.mistake == "wrong-count"
    assert OFF_BY_ONE_TERM[change] in result.message
    assert "second mistake" not in result.message


def test_a_lack_is_named_by_its_size_where_several_parts_have_it():
    one = parameter_count(made(FORMULA, ("norms = 2 * 2 * d",
                                         "norms = 3 * d")))  # fmt: skip
    assert "half a norm" in one.message


SPECIAL_CASES = [
    ("total = V", "if L == 1: blocks = 0\n    total = V"),
    ("total = V", "if H == 1: blocks = 0\n    total = V"),
    ("V * d + C * d", "V * d + min(C, V) * d"),
    ('d, V, C = cfg["emb_dim"]', 'd, V, C = cfg["emb_dim"] // 2 * 2'),
    ("return total", "return total + int(10 * cfg['drop_rate']) - 1"),
]


@pytest.mark.parametrize("change", SPECIAL_CASES)
def test_a_count_wrong_for_some_sizes_is_no_mistake_of_all(change):
    result = parameter_count(made(FORMULA, change))
    assert result.mistake == "wrong-count"
    assert "of 10 tiny cases are off" in result.message


CACHED = (
    FORMULA.replace("def answer", "def count")
    + """
kept = {}
def answer(cfg, tied):
    key = cfg["emb_dim"], tied
    if key not in kept:
        kept[key] = count(cfg, tied)
    return kept[key]
"""
)


def test_what_tiny_models_refute_is_not_said_of_large_ones():
    result = parameter_count(made(CACHED))
    assert result.mistake == "wrong-count"
    assert "Tiny models are right" in result.message


@pytest.mark.parametrize("check, source", [
    (parameter_count, FORMULA.replace("    d,", "    STATE\n    d,")),
    (deepest, """
def answer(*case):
    STATE
    return original(*case)
"""),
])  # fmt: skip
@pytest.mark.parametrize("name, line", [
    ("gradients-turned-off", "torch.set_grad_enabled(False)"),
    ("family-changed", "GPT_CONFIG_124M.update(n_layers=3)"),
    ("family-changed", "GPT2_CONFIGS.pop('gpt2-small (124M)')"),
])  # fmt: skip
def test_what_is_changed_for_others_is_told(check, source, name, line):
    before = copy.deepcopy((GPT2_CONFIGS, GPT_CONFIG_124M))
    answer = made(source.replace("STATE", line))
    answer.__globals__["original"] = two_counts
    assert check(answer).mistake == name
    assert before == (GPT2_CONFIGS, GPT_CONFIG_124M)


@pytest.mark.parametrize("cfg", [GPT_CONFIG_124M, *GPT2_CONFIGS.values()])
def test_changed_public_configurations_refuse_no_right_answer(cfg):
    before = dict(cfg)
    cfg.update(n_layers=3, emb_dim=24)
    try:
        assert parameter_count(made(FORMULA)).status == "passed"
        assert parameter_count(made(MODEL)).mistake == "model-built"
        assert deepest(two_counts).status == "passed"
        assert cfg["n_layers"] == 3  # the learner's own affair
    finally:
        cfg.update(before)


@pytest.mark.parametrize(
    ("name", "source", "changes"),
    WRONG_COUNTS,
    ids=[f"{i}-{row[0]}" for i, row in enumerate(WRONG_COUNTS)],
)
def test_wrong_counts_are_diagnosed(name, source, changes):
    result = parameter_count(made(source, *changes))
    name = renamed(name, "parameters")
    assert (result.status, result.mistake) == ("failed", name), result
    assert any(digit in result.message for digit in "0123456789None")


def test_the_message_holds_configuration_and_both_numbers():
    wrong = made(FORMULA, ("0 if tied else V * d", "V * d"))
    message = parameter_count(wrong).message
    for word in ("vocab_size=101", "tied=True", "19,584", "17,160"):
        assert word in message, message


def test_a_changed_configuration_spoils_no_later_check():
    changing = made(FORMULA, ("    d,", "    cfg['n_layers'] += 1\n    d,"))
    assert parameter_count(changing).status == "failed"
    assert parameter_count(made(FORMULA)).status == "passed"


def test_the_message_of_a_megabyte_holds_its_number():
    wrong = made(FORMULA, ("return total", "return total * 4 / 1024**2"))
    for word in ("621.83", "163,009,536", "1,024 × 1,024"):
        assert word in parameter_count(wrong).message


def stub_none(cfg, tied):
    """Number of parameters."""


def stub_raise(cfg, tied):
    raise NotImplementedError


def stub_half(cfg, tied):
    d = cfg["emb_dim"]
    if d:
        raise NotImplementedError("to be done")


@pytest.mark.parametrize("check", [parameter_count, deepest])
@pytest.mark.parametrize("stub", [None, ..., stub_none, stub_raise])
def test_stubs_are_not_attempted(check, stub):
    assert check(stub).status == "not attempted"


def test_half_a_stub_is_told_that_its_raise_is_left():
    assert parameter_count(stub_half).mistake == "raise-left"
    assert deepest(lambda cfg, limit, each: stub_half(cfg, limit)).mistake == (
        "raise-left"
    )


@pytest.mark.parametrize("check", [parameter_count, deepest])
def test_an_exception_names_line_and_cause(check):
    def answer(cfg, tied=False, each=4):
        sizes = {"width": 5}
        return sizes["emb"]  # here

    result = check(answer)
    assert result.mistake == "exception"
    for word in ('return sizes["emb"]', "KeyError"):
        assert word in result.message


def test_a_wrong_signature_is_a_message():
    result = parameter_count(lambda cfg: 3)
    found = result.status, result.mistake
    assert found == ("failed", "wrong-signature")


# --- deepest -------------------------------------------------------------


def two_counts(cfg, limit_bytes, per_parameter):
    one = count_parameters(cfg | {"n_layers": 1})
    per_block = count_parameters(cfg | {"n_layers": 2}) - one
    room = limit_bytes // per_parameter - one
    return max(0, 1 + room // per_block)


def upward(cfg, limit_bytes, per_parameter):
    cfg = dict(cfg, n_layers=1)
    while per_parameter * parameter_formula(cfg) <= limit_bytes:
        cfg["n_layers"] += 1
    return cfg["n_layers"] - 1


def lays_out_each(cfg, limit_bytes, per_parameter):
    depth = 0
    while True:
        model = GPTModel({**cfg, "n_layers": depth + 1})
        total = sum(p.numel() for p in model.parameters())
        if total * per_parameter > limit_bytes:
            return depth
        depth += 1


def by_bisection(cfg, limit_bytes, per_parameter):
    from bisect import bisect_right

    def need(n):
        return per_parameter * parameter_formula(cfg | {"n_layers": n})

    return bisect_right(range(1, 10_000), limit_bytes, key=need)


def without_batteries(cfg, limit_bytes, per_parameter):
    d = cfg["emb_dim"]
    left = limit_bytes
    left -= per_parameter * d * (2 * cfg["vocab_size"] + 2)
    left -= per_parameter * d * cfg["context_length"]
    block = per_parameter * d * (12 * d + 10 + 3 * cfg["qkv_bias"])
    if left < block:
        return 0
    return divmod(left, block)[0]


def with_floats(cfg, limit_bytes, per_parameter):
    import math

    d = cfg["emb_dim"]
    rest = d * (2 * cfg["vocab_size"] + cfg["context_length"] + 2)
    block = d * (12 * d + 10 + (3 if cfg["qkv_bias"] else 0))
    depth = (limit_bytes / per_parameter - rest) / block
    return 0 if depth < 1 else math.floor(depth)


class Recursive:
    def __call__(self, cfg, limit_bytes, per_parameter, depth=1):
        need = per_parameter * parameter_formula(cfg | {"n_layers": depth})
        if need > limit_bytes:
            return depth - 1
        return self(cfg, limit_bytes, per_parameter, depth + 1)


@pytest.mark.parametrize(
    "answer",
    [
        two_counts, upward, lays_out_each, by_bisection, without_batteries,
        with_floats, Recursive(),
        lambda *case: numpy.int64(two_counts(*case)),
    ],
)  # fmt: skip
def test_right_depths_pass(answer):
    before = copy.deepcopy(GPT2_CONFIGS)
    result = deepest(answer)
    assert (result.status, result.mistake) == ("passed", None), result
    assert before == GPT2_CONFIGS


DEPTH = """
def answer(cfg, limit_bytes, per_parameter):
    one = count_parameters(cfg | {"n_layers": 1})
    two = count_parameters(cfg | {"n_layers": 2})
    per_block = two - one
    room = limit_bytes // per_parameter - one
    return max(0, 1 + room // per_block)
"""
UPWARD = """
def answer(cfg, limit_bytes, per_parameter):
    best = 0
    for n in range(1, 1000):
        if per_parameter * count(cfg, n) <= limit_bytes:
            best = n
    return best


def count(cfg, n):
    d, rows = cfg["emb_dim"], 2 * cfg["vocab_size"] + cfg["context_length"]
    block = 12 * d * d + 10 * d + 3 * d * cfg["qkv_bias"]
    return rows * d + n * block + 2 * d
"""
WRONG_DEPTHS = [
    ("limit-not-reached", UPWARD, [("<=", "<")]),
    ("tied-counted", UPWARD, [("rows = cfg", "rows = cfg"),
                              ("2 * cfg", "1 * cfg")]),
    ("tied-counted", DEPTH, [('{"n_layers": 1})', '{"n_layers": 1}, True)'),
                             ('{"n_layers": 2})', '{"n_layers": 2}, True)')]),
    ("below-zero", DEPTH, [("max(0, 1 + room // per_block)",
                            "1 + room // per_block")]),
    ("one-at-least", UPWARD, [("best = 0", "best = 1")]),
    ("rounded-up", DEPTH, [("1 + room // per_block",
                            "1 - (-room // per_block)")]),
    ("one-block-too-few", DEPTH, [("1 + room", "room")]),
    ("one-block-too-few", UPWARD, [("return best", "return max(0, best - 1)")]
     ),
    ("one-block-too-many", DEPTH, [("1 + room", "2 + room")]),
    ("per-parameter-ignored", UPWARD, [("per_parameter *", "16 *")]),
    ("limit-is-a-count", UPWARD, [("per_parameter *", "1 *"),
                                  ("1000", "10**5")]),
    ("qkv-bias-ignored", UPWARD, [(' + 3 * d * cfg["qkv_bias"]', "")]),
    ("vectors-forgotten", UPWARD,
     [(' + 10 * d + 3 * d * cfg["qkv_bias"]', "")]),
    ("positions-forgotten", UPWARD, [(' + cfg["context_length"]', "")]),
    ("final-norm-forgotten", UPWARD, [(" + 2 * d", "")]),
    ("tables-forgotten", UPWARD, [("rows * d + n * block + 2 * d",
                                   "n * block")]),
    ("own-depth-is-the-end", UPWARD, [("1000", "cfg['n_layers'] + 1")]),
    ("capped", UPWARD, [("1000", "48")]),
    ("capped", UPWARD, [("1000", "200")]),
    ("one-block-too-many", UPWARD, [("return best", "return best + 1")]),
    ("qkv-bias-always", UPWARD, [('cfg["qkv_bias"]', "1")]),
    ("masks-counted", UPWARD, [("+ 10", '+ cfg["context_length"] ** 2 + 10')]),
    ("one-block-refused", UPWARD, [("range(1", "range(2")]),
    ("config-ignored", DEPTH,
     [("    one", "    cfg = GPT_CONFIG_124M\n    one")]),
    ("rule-only", UPWARD,
     [(' + 10 * d + 3 * d * cfg["qkv_bias"]', ""), (" + 2 * d", ""),
      (' + cfg["context_length"]', "")]),
    # In no list.
    ("not-zero", DEPTH,
     [("    return", "    if room < 0: return\n    return")]),
    ("not-zero", DEPTH,
     [("    return", "    if room < 0: raise ValueError(room)\n    return")]),
    ("exception", DEPTH, [('{"n_layers": 1}', '{"n_layers": 0}')]),
    ("returns-none", DEPTH, [("return max", "max")]),
    ("config-returned", DEPTH, [("return max(0, 1 + room // per_block)",
                                 "return cfg | {'n_layers': 1}")]),
    ("not-whole", DEPTH, [("1 + room // per_block", "1 + room / per_block")]),
    ("not-whole", UPWARD, [("return best", "return float(best)")]),
    ("not-whole", UPWARD, [("return best", "return str(best)")]),
    ("config-changed", DEPTH,
     [("    one", "    cfg['n_layers'] = 1\n    one")]),
    ("family-changed", DEPTH,
     [("    one", "    GPT2_CONFIGS.clear()\n    one")]),
    ("too-few-blocks", UPWARD, [("12 * d * d", "13 * d * d")]),
    ("too-many-blocks", UPWARD, [("12 * d * d", "8 * d * d")]),
    ("too-many-blocks", DEPTH,
     [("1 + room // per_block", "1 + int(room / per_block)")]),
    ("too-many-models", DEPTH,
     [("    one", "    for n in range(1, 400): count_parameters(cfg | "
       "{'n_layers': n})\n    one")]),
    ("wrong-signature", DEPTH, [(", per_parameter)", ")")]),
    ("mib-against-mb", UPWARD,
     [("per_parameter * count(cfg, n) <= limit_bytes",
       "per_parameter * count(cfg, n) / 1024**3 <= limit_bytes / 1e9")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "source", "changes"),
    WRONG_DEPTHS,
    ids=[f"{i}-{row[0]}" for i, row in enumerate(WRONG_DEPTHS)],
)
def test_wrong_depths_are_diagnosed(name, source, changes):
    before = copy.deepcopy(GPT2_CONFIGS)
    result = deepest(made(source, *changes))
    assert (result.status, result.mistake) == ("failed", name), result
    assert before == GPT2_CONFIGS


def test_the_message_of_a_depth_holds_its_numbers():
    message = deepest(made(UPWARD, ("<=", "<"))).message
    for word in ("emb_dim=24", "expected 5", "you get 4"):
        assert word in message, message


def test_rounding_at_the_boundary_is_named_as_what_it_may_be():
    def answer(cfg, limit_bytes, per_parameter):
        one, two = (parameter_formula(cfg | {"n_layers": n}) for n in (1, 2))
        room = limit_bytes / 1e9 - per_parameter * one / 1e9
        return max(0, int(room // (per_parameter * (two - one) / 1e9)) + 1)

    result = deepest(answer)
    assert result.mistake == "too-few-blocks"
    assert "a number with a decimal point? Those round." in result.message


def test_the_section_that_a_hint_names_is_there():
    path = Path(__file__).parents[3].joinpath("notebooks")
    text = next(path.glob("07-*.ipynb")).read_text("utf-8")
    named = re.findall(r"section `([^`]+)`", HINTS["parameter_count"][0])
    assert named and all(f"## {section}" in text for section in named)
