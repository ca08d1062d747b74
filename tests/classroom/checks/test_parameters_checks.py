"""The checks of notebook 07: counting by formula, and making XL fit."""

import copy

import numpy
import pytest
import torch
from renamed import renamed
from torch import nn

from classroom.checks.parameters import fit_xl, parameter_count
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


@pytest.mark.parametrize(
    "answer",
    [
        by_layers, by_hint_3, by_pattern, parameter_formula,
        made(FORMULA), made(MODEL), by_set, by_shapes, by_tensor, nested,
        Counter(), lambda cfg, tied: count_parameters(cfg, tied),
        made(FORMULA, ("return total", "return numpy.int64(total)")),
        made(FORMULA, ("4 * d * d", "4 * d**2")),
        made(FORMULA, ("return total", "print(total)\n    return total")),
    ],
)  # fmt: skip
def test_right_counts_pass(answer):
    result = parameter_count(answer)
    assert (result.status, result.mistake) == ("passed", None), result
    assert "124,412,160" in result.message


def test_a_built_model_is_accepted_and_remarked():
    assert "formulas alone" in parameter_count(by_set).message
    assert "formulas alone" not in parameter_count(nested).message


WRONG_COUNTS = [
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
    (fit_xl, """
def answer(limit_bytes):
    STATE
    return original(limit_bytes)
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
    answer.__globals__["original"] = made(UPWARD)
    assert check(answer).mistake == name
    assert before == (GPT2_CONFIGS, GPT_CONFIG_124M)


@pytest.mark.parametrize("cfg", [GPT_CONFIG_124M, *GPT2_CONFIGS.values()])
def test_changed_public_configurations_refuse_no_right_answer(cfg):
    before = dict(cfg)
    cfg.update(n_layers=3, emb_dim=24)
    try:
        assert parameter_count(made(MODEL)).status == "passed"
        assert fit_xl(made(FIT)).status == "passed"
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
    for word in ("621.83", "163,009,536", "MiB"):
        assert word in parameter_count(wrong).message


def stub_none(cfg, tied):
    """Number of parameters."""


def stub_raise(cfg, tied):
    raise NotImplementedError


def stub_half(cfg, tied):
    d = cfg["emb_dim"]
    if d:
        raise NotImplementedError("to be done")


@pytest.mark.parametrize("check", [parameter_count, fit_xl])
@pytest.mark.parametrize("stub", [None, ..., stub_none, stub_raise])
def test_stubs_are_not_attempted(check, stub):
    assert check(stub).status == "not attempted"


def test_half_a_stub_is_told_that_its_raise_is_left():
    assert parameter_count(stub_half).mistake == "raise-left"
    assert fit_xl(lambda limit: stub_half(GPT_CONFIG_124M, limit)).mistake == (
        "raise-left"
    )


@pytest.mark.parametrize("check", [parameter_count, fit_xl])
def test_an_exception_names_line_and_cause(check):
    def answer(cfg, tied=False):
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


# --- fit_xl --------------------------------------------------------------

FIT = """
def answer(limit_bytes):
    xl_cfg = GPT2_CONFIGS["gpt2-xl (1558M)"]
    one = count_parameters(xl_cfg | {"n_layers": 1})
    per_block = count_parameters(xl_cfg | {"n_layers": 2}) - one
    room = int(limit_bytes // 16) - one
    if room < 0:
        raise ValueError("Not even one block fits.")
    n_layers = min(1 + room // per_block, 48)
    return xl_cfg | {"n_layers": n_layers}
"""
LOOP = """
def answer(limit_bytes):
    cfg = dict(GPT2_CONFIGS["gpt2-xl (1558M)"])
    for n in range(48, 0, -1):
        cfg["n_layers"] = n
        bytes_ = 16 * count_parameters(cfg)
        if bytes_ <= limit_bytes:
            return cfg
    raise ValueError("no block")


def count_parameters(cfg, tied=False):
    d = cfg["emb_dim"]
    rows = 50257 * (2 - tied) + 1024 + 2 + cfg["n_layers"] * (12 * d + 10)
    return d * rows
"""
SLOW = LOOP[: LOOP.index("\n\n\ndef")]  # lays out a model for each number
UPWARD = """
def answer(limit_bytes):
    cfg = copy(GPT2_CONFIGS["gpt2-xl (1558M)"])
    best = 0
    for n in range(1, 49):
        if 16 * need(n) <= limit_bytes:
            best = n
    if best == 0:
        raise ValueError("no block")
    cfg.update(n_layers=best)
    return cfg


def need(n):
    return 163_692_800 - 1600 + 1600 + n * 30_736_000


def copy(cfg):
    return {**cfg}
"""
NEED_0 = count_parameters(GPT2_CONFIGS[XL] | {"n_layers": 1}) - 30_736_000
UPWARD = UPWARD.replace("163_692_800 - 1600 + 1600", str(NEED_0))


def built_for_real(limit_bytes):
    cfg = GPT2_CONFIGS[XL].copy()
    while cfg["n_layers"] > 0:
        total = sum(p.numel() for p in GPTModel(cfg).parameters())
        if total * 16 <= limit_bytes:
            return cfg
        cfg["n_layers"] -= 1
    raise ValueError


def same_dict_when_all_fits(limit_bytes):
    xl = GPT2_CONFIGS[XL]
    if limit_bytes >= 16 * (NEED_0 + 48 * 30_736_000):
        return xl
    return made(UPWARD)(limit_bytes)


HINT_3 = """
def answer(limit_bytes):
    xl_cfg = GPT2_CONFIGS["gpt2-xl (1558M)"]
    one = count_parameters(xl_cfg | {"n_layers": 1})
    per_block = count_parameters(xl_cfg | {"n_layers": 2}) - one
    n_layers = 1 + (limit_bytes // 16 - one) // per_block
    n_layers = min(n_layers, 48)
    if n_layers < 1:
        raise ValueError("Not even one block fits.")
    return xl_cfg | {"n_layers": n_layers}
"""
BINARY = """
def answer(limit_bytes):
    cfg = {**GPT2_CONFIGS["gpt2-xl (1558M)"]}
    low, high = 0, 48
    while low < high:
        cfg["n_layers"] = (low + high + 1) // 2
        if 16 * count_parameters(cfg) <= limit_bytes:
            low = cfg["n_layers"]
        else:
            high = cfg["n_layers"] - 1
    if not low:
        raise ValueError(limit_bytes)
    return dict(GPT_CONFIG_124M, emb_dim=1600, n_heads=25, n_layers=low)
"""


@pytest.mark.parametrize(
    "answer",
    [
        made(HINT_3), made(BINARY), made(FIT), made(LOOP), made(UPWARD),
        made(SLOW), built_for_real,
        same_dict_when_all_fits,
        made(FIT, ("int(limit_bytes // 16)", "torch.tensor(limit_bytes // 16"
                   ").long().item()")),
        made(FIT, ("xl_cfg | {\"n_layers\": n_layers}",
                   "dict(xl_cfg, n_layers=numpy.int64(n_layers))")),
        made(UPWARD, ("16 * need(n) <= limit_bytes",
                      "need(n) * 4 * 4 / 1e9 <= limit_bytes / 1e9")),
        made(FIT, ("1 + room // per_block, 48", "room // per_block + 1, "
                   "xl_cfg['n_layers']")),
        made(FIT, ("if room < 0", "if limit_bytes < one * 16")),
    ],
)  # fmt: skip
def test_right_fits_pass(answer):
    before = copy.deepcopy(GPT2_CONFIGS)
    result = fit_xl(answer)
    assert (result.status, result.mistake) == ("passed", None), result
    assert before == GPT2_CONFIGS


WRONG_FITS = [
    ("limit-not-reached", FIT,
     [("if room < 0", "if room <= 0"), ("room // per_block",
                                        "(room - 1) // per_block")]),
    ("limit-not-reached", LOOP, [("<=", "<")]),
    ("limit-not-reached", SLOW, [("<=", "<")]),
    ("no-error", SLOW, [('raise ValueError("no block")', "pass")]),
    ("limit-not-reached", UPWARD, [("<=", "<")]),
    ("tied-counted", LOOP, [("count_parameters(cfg)",
                             "count_parameters(cfg, tied=True)")]),
    ("tied-counted", UPWARD, [("return 1", "return -50257 * 1600 + 1")]),
    ("weights-only", LOOP, [("16 *", "4 *")]),
    ("weights-only", UPWARD, [("16 *", "4 *")]),
    ("optimizer-forgotten", LOOP, [("16 *", "8 *")]),
    ("optimizer-forgotten", UPWARD, [("16 *", "12 *")]),
    ("weights-counted-twice", UPWARD, [("16 *", "20 *")]),
    ("mib-against-mb", LOOP, [("bytes_ <= limit_bytes",
                               "bytes_ / 1024**2 <= limit_bytes / 1e6")]),
    ("mib-against-mb", UPWARD, [("16 * need(n) <= limit_bytes",
                                 "16 * need(n) / 1e9 <= limit_bytes / "
                                 "1024**3")]),
    ("tables-forgotten", FIT,
     [("room = int(limit_bytes // 16) - one",
       "room = int(limit_bytes // 16) - per_block")]),
    ("tables-forgotten", UPWARD, [("return 1", "return 0 * 1")]),
    ("head-forgotten", UPWARD, [("return 1", "return -1024 * 1600 + 1")]),
    ("proportional", UPWARD,
     [("16 * need(n)", "16 * need(48) / 48 * n")]),
    ("rounded-up", FIT,
     [("room // per_block", "round(room / per_block)")]),
    ("rounded-up", FIT, [("room // per_block", "-(-room // per_block)")]),
    ("one-block-too-few", FIT, [("1 + room", "room")]),
    ("one-block-too-few", LOOP, [("return cfg",
                                  "return cfg | {'n_layers': max(n - 1, 0)}"
                                  )]),
    ("fewest-blocks", LOOP, [("range(48, 0, -1)", "range(1, 49)")]),
    ("not-capped", FIT, [("min(1 + room // per_block, 48)",
                          "1 + room // per_block")]),
    ("not-capped", UPWARD, [("range(1, 49)", "range(1, 5000)")]),
    ("limit-ignored", FIT, [("min(1 + room // per_block, 48)", "10")]),
    ("limit-ignored", UPWARD, [("<= limit_bytes:", "<= 8e9:")]),
    ("no-error", UPWARD, [("best = 0\n", "best = 1\n")]),
    ("one-block-too-few", UPWARD, [("best = n", "best = n - 1")]),
    ("family-changed", FIT,
     [('return xl_cfg | {"n_layers": n_layers}',
       "xl_cfg['n_layers'] = n_layers\n    return xl_cfg")]),
    ("family-changed", LOOP,
     [("dict(GPT2_CONFIGS[\"gpt2-xl (1558M)\"])",
       "GPT2_CONFIGS[\"gpt2-xl (1558M)\"]")]),
    ("no-error", FIT, [("if room < 0", "if False")]),
    ("no-error", LOOP, [('raise ValueError("no block")', "return None")]),
    ("no-error", UPWARD, [('raise ValueError("no block")', "best = 1")]),
    ("no-error", UPWARD, [("best == 0", "best < 0")]),
    ("wrong-error", FIT, [("raise ValueError", "raise KeyError")]),
    ("fits-yet-refused", FIT, [("room < 0", "room > 0")]),
    ("fits-yet-refused", FIT,
     [('{"n_layers": 1}', '{"n_layers": 0}')]),
    ("returns-none", LOOP, [("return cfg", "break"),
                            ('    raise ValueError("no block")\n',
                             "        else:\n            pass\n"
                             "    if n == 1: raise ValueError\n")]),
    ("layers-not-config", FIT,
     [('xl_cfg | {"n_layers": n_layers}', "n_layers")]),
    ("not-a-config", FIT,
     [('xl_cfg | {"n_layers": n_layers}', "[n_layers]")]),
    ("keys-changed", FIT,
     [('return xl_cfg |', "return")]),
    ("layers-not-whole", FIT, [("room // per_block", "room / per_block")]),
    ("layers-not-whole", FIT,
     [('{"n_layers": n_layers}', '{"n_layers": float(n_layers)}')]),
    ("keys-changed", FIT,
     [('{"n_layers": n_layers}', '{"n_layers": n_layers, "tied": 1}')]),
    ("other-entry-changed", FIT,
     [('{"n_layers": n_layers}', '{"n_layers": n_layers, "n_heads": 1}')]),
    ("wrong-size", LOOP, [("gpt2-xl (1558M)", "gpt2-large (774M)")]),
    ("too-few-blocks", UPWARD, [("30_736_000", "40_736_000")]),
    ("too-many-blocks", UPWARD, [("30_736_000", "20_736_000")]),
]  # fmt: skip


WRONG_FITS += [
    (name, source, [(old, new)])
    for source, factor in [(HINT_3, "// 16"), (SLOW, "16 *"), (UPWARD, "16 *")]
    for old in [factor]
    for name, new in [
        ("weights-only", old.replace("16", "4")),
        ("optimizer-forgotten", old.replace("16", "12")),
        ("weights-counted-twice", old.replace("16", "20")),
    ]
] + [
    ("one-block-refused", HINT_3, [("n_layers < 1", "n_layers <= 1")]),
    ("one-block-refused", SLOW, [("(48, 0, -1)", "(48, 1, -1)")]),
    ("one-block-refused", UPWARD, [("range(1,", "range(2,")]),
    ("cap-too-low", UPWARD, [("49", "48")]),
    ("mib-against-mb", SLOW,
     [("bytes_ <= limit_bytes", "bytes_ / 1024**3 <= limit_bytes / 1e9")]),
    ("limit-ignored", "kept = []\n" + HINT_3,
     [("    return", "    kept.append(n_layers)\n    n_layers = kept[0]\n"
       "    return")]),
    ("result-shared",
     "made = dict(GPT2_CONFIGS['gpt2-xl (1558M)'])\n" + HINT_3,
     [('return xl_cfg | {"n_layers": n_layers}',
       "made['n_layers'] = n_layers\n    return made")]),
    ("wrong-error", HINT_3, [("raise ValueError", "assert 0,")]),
    ("no-error", HINT_3, [("raise ValueError", "return ValueError")]),
    ("no-error", HINT_3, [("n_layers < 1", "n_layers < 0")]),
    ("too-few-blocks", HINT_3, [("- one)", "- one - 50257 * 1600)")]),
]  # fmt: skip


def test_what_fits_two_mistakes_is_said_to():
    one = fit_xl(made(SLOW, ("count_parameters(cfg)",
                             "count_parameters(cfg, tied=True)")))  # fmt: skip
    assert "Embedding and head" in one.message and " Or: " in one.message


@pytest.mark.parametrize(
    ("name", "source", "changes"),
    WRONG_FITS,
    ids=[f"{i}-{row[0]}" for i, row in enumerate(WRONG_FITS)],
)
def test_wrong_fits_are_diagnosed(name, source, changes):
    before = copy.deepcopy(GPT2_CONFIGS)
    xl = GPT2_CONFIGS[XL]
    result = fit_xl(made(source, *changes))
    name = renamed(name, "parameters")
    assert (result.status, result.mistake) == ("failed", name), result
    assert before == GPT2_CONFIGS and GPT2_CONFIGS[XL] is xl


def test_the_message_of_a_fit_holds_its_numbers():
    message = fit_xl(made(LOOP, ("16 *", "4 *"))).message
    for word in ("25,221,120,000", "you keep 48", "expected 46", "16 bytes"):
        assert word in message, message
