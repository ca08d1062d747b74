"""Checks of notebook 03: GELU, the feed-forward network and SwiGLU."""

import math
from functools import partial
from itertools import chain, permutations

import torch
import torch.nn.functional as F
from torch import nn

import gptlib
from classroom.checks.edits import BODY, Task, known
from classroom.checks.guard import exercise
from classroom.checks.manners import check_manners
from classroom.checks.modules import (
    Probe,
    compare,
    construct,
    randomized,
    run,
    runs,
)
from classroom.checks.ready_made import check_written_out
from classroom.checks.result import Mistake
from classroom.checks.tensors import difference, farthest, same, told_apart

BATCH, TOKENS = 2, 5
TIGHT = {"rtol": 1e-5, "atol": 1e-5}  # the exact form is 4.7e-4 away
NO_DROPOUT = (
    "dropout-inside",
    "This network has no dropout of its own; the transformer block adds it "
    "behind it.",
)


# --- the solutions, and what mistakes make of them -----------------------


def tanh_form(x):
    root = math.sqrt(2 / math.pi)
    cube = 0.044715 * x**3
    content = root * (x + cube)
    share = 0.5 * (1 + torch.tanh(content))
    return x * share


def expanded_and_contracted(x, w_in, b_in, w_out, b_out, gelu):
    hidden = x @ w_in.T + b_in
    y = gelu(hidden) @ w_out.T + b_out
    return y


def gated(x, gate, up, down):
    g, u = x @ gate.T, x @ up.T
    y = (F.silu(g) * u) @ down.T
    return y


# What learners take for the right bend: its code, and what to call it.
BENDS = {
    "relu": ("torch.relu", "ReLU, max(0, x)"),
    "silu": ("F.silu", "SiLU, x · sigmoid(x)"),
    "sigmoid-form": ("(lambda z: z * torch.sigmoid(1.702 * z))",
                     "GELU's sigmoid form, a coarser approximation"),
    "tanh": ("torch.tanh", "the plain tanh"),
    "sigmoid": ("torch.sigmoid", "the plain sigmoid"),
    "softmax": ("partial(F.softmax, dim=-1)", "softmax"),
    "leaky-relu": ("F.leaky_relu", "a leaky ReLU"),
    "elu": ("F.elu", "ELU"),
    "mish": ("F.mish", "Mish"),
    "softplus": ("F.softplus", "softplus"),
}  # fmt: skip


def _other_bends(old, new, says):
    return [
        known(name, says.format(words), {old: new.format(code)})
        for name, (code, words) in BENDS.items()
        if code not in old  # that one is right
    ]


GELU_MISTAKES = [
    known("exact-form",
          "This fits the exact form, x · Φ(x), which is right as such. The "
          "tanh form was asked for: GPT-2 was trained with it.",
          {BODY: "return F.gelu(x)"}),
    known("activation-missing",
          "This fits x itself: it comes back without any bend.",
          {BODY: "return x"}),
    *_other_bends(BODY, "return {}(x)",
                  "This fits {}. Expected GELU in its tanh form."),
    known("erf-without-root",
          "This fits the exact form whose x is not divided by the root of 2. "
          "And the tanh form was asked for.",
          {BODY: "return 0.5 * x * (1 + torch.erf(x))"}),
    known("exact-form-half-missing",
          "This fits twice the exact form. The tanh form was asked for, and "
          "with its ½.",
          {BODY: "return 2 * F.gelu(x)"}),
    known("half-missing",
          "This fits a share that is twice as large: it should lie between 0 "
          "and 1. Which factor stands in front?",
          {"0.5 * ": ""}),
    known("half-twice", "This fits a share that is halved twice.",
          {"0.5": "0.25"}),
    known("x-missing", "This fits the share alone. What is it a share of?",
          {"x * share": "share"}),
    known("one-missing",
          "This fits a share that runs from -½ to ½; expected from 0 to 1. "
          "What is added to the tanh?",
          {"1 + ": ""}),
    known("sign-flipped",
          "This fits a tanh that is subtracted: negative numbers pass and "
          "positive ones don't. Look at the signs.",
          {"1 +": "1 -"}),
    known("one-negative",
          "This fits a 1 that is subtracted. Look at the signs.",
          {"1 +": "-1 +"}),
    known("tanh-missing",
          "This fits the content of the tanh without the tanh around it.",
          {"torch.tanh": ""}),
    known("sigmoid-for-tanh",
          "This fits a sigmoid in place of the tanh. It runs from 0 to 1.",
          {"tanh": "sigmoid"}),
    known("sigmoid-for-tanh",
          "This fits x · sigmoid(content). With a sigmoid in place of the "
          "tanh, its content has to be twice as large.",
          {"0.5 * (1 + torch.tanh(content))": "torch.sigmoid(content)"}),
    known("erf-for-tanh", "This fits an erf in place of the tanh.",
          {"tanh": "erf"}),
    known("bracket-missing",
          "This fits a root that multiplies x alone. It belongs to the whole "
          "sum with the cube.",
          {"(x + cube)": "x + cube"}),
    *(known("bracket-misplaced",
            f"This fits the third power of {what}. Which part alone should "
            "be raised to it?",
            edit)
      for what, edit in [
          ("√(2/π) · x", {"(x + cube)": "x + root**3 * cube"}),
          ("0.044715 · x", {"0.044715 * x**3": "(0.044715 * x)**3"}),
          ("the whole sum", {"x + cube)": "x + 0.044715 * x)**3"})]),
    known("wrong-sign", "This fits a cube that is subtracted. Expected a sum.",
          {"x + cube": "x - cube"}),
    known("product-for-sum",
          "This fits a product of x and its cube. Expected their sum.",
          {"x + cube": "x * cube"}),
    known("x-missing-inside",
          "This fits a bracket that holds the cube alone. Expected a sum.",
          {"x + cube": "cube"}),
    known("cube-missing",
          "This fits a bracket that holds x alone. Expected a sum.",
          {"x + cube": "x"}),
    *(known("wrong-power",
            f"This fits x to the power of {power} in the bracket. Expected "
            "the third power.",
            {"**3": f"**{power}"})
      for power in (2, 1, 4, 5)),
    *(known("wrong-constant",
            f"This fits {c} as the cube's factor; expected 0.044715.",
            {"0.044715": c})
      for c in ("0.44715", "0.0044715")),
    known("wrong-constant",
          "This fits a bracket that is divided by √(2/π), or multiplied with "
          "√(π/2). Expected a product with √(2/π).",
          {"2 / math.pi": "math.pi / 2"}),
    known("wrong-constant",
          "This fits 2/π as the factor of the bracket, without the root.",
          {"math.sqrt(2 / math.pi)": "2 / math.pi"}),
    known("wrong-constant",
          "This fits a bracket without a factor; expected √(2/π).",
          {"root * ": ""}),
]  # fmt: skip

SHORTCUT = known(
    "shortcut-inside",
    "This fits an input that is added at the end. The shortcut belongs to "
    "the transformer block, not to this network.",
    {"return y": "return x + y"},
)
LIKELY = [
    "gelu", "F.gelu", "torch.relu", "F.silu", "torch.tanh", "torch.sigmoid",
]  # fmt: skip
FEED_FORWARD_MISTAKES = [
    known("activation-after-second",
          "This fits an activation after the second layer, and none between "
          "the two.",
          *({"gelu(hidden)": "hidden", "return y": f"return {f}(y)"}
            for f in LIKELY)),
    known("activation-after-second",
          "This fits an activation after the second layer as well. Expected "
          "a single one, between the two layers.",
          *({"return y": f"return {f}(y)"} for f in LIKELY)),
    known("activation-before-first",
          "This fits an activation before the first layer, and none between "
          "the two.",
          *({"gelu(hidden)": "hidden", "x @": f"{f}(x) @"} for f in LIKELY)),
    known("activation-before-first",
          "This fits an activation before the first layer as well. Expected "
          "a single one, between the two layers.",
          *({"x @": f"{f}(x) @"} for f in LIKELY)),
    known("activation-missing",
          "This fits no bend at all between the two layers. Together they "
          "then do what a single linear layer could do.",
          {"gelu(hidden)": "hidden"}),
    *_other_bends("gelu(hidden)", "{}(hidden)",
                  "This fits {}, between the layers. Expected GELU."),
    known("half-missing",
          "This fits twice a GELU between the layers. Is its factor ½ lost?",
          {"gelu(hidden)": "2 * gelu(hidden)"}),
    known("activation-twice",
          "This fits a GELU of a GELU. Expected one between the two layers.",
          {"gelu(hidden)": "gelu(gelu(hidden))"}),
    SHORTCUT,
    known("softmax-at-the-end",
          "This fits a softmax at the end. Nothing follows the second layer.",
          {"return y": "return y.softmax(-1)"}),
    known("bias-unused", "This fits a first layer whose bias is not added.",
          {" + b_in": ""}),
    known("bias-unused", "This fits a second layer whose bias is not added.",
          {" + b_out": ""}),
]  # fmt: skip

SWIGLU_MISTAKES = [
    known("gate-up-swapped",
          "This fits SiLU on up(x), with gate(x) as it is. Which of the two "
          "is the gate?",
          {"F.silu(g) * u": "g * F.silu(u)"}),
    known("silu-on-both",
          "This fits SiLU on gate(x) and on up(x). Expected it on the gate.",
          {" * u": " * F.silu(u)"}),
    known("silu-after-product",
          "This fits SiLU of the product. Expected it on the gate, before "
          "the two are multiplied.",
          {"F.silu(g) * u": "F.silu(g * u)"}),
    known("silu-after-product",
          "This fits SiLU on the gate, and once more on the product. "
          "Expected it on the gate alone.",
          {"(F.silu(g) * u)": "F.silu(F.silu(g) * u)"}),
    known("activation-after-down",
          "This fits SiLU after the last layer, and none on the gate.",
          {"F.silu(g)": "g", "return y": "return F.silu(y)"}),
    known("activation-after-down",
          "This fits SiLU after the last layer as well. Nothing follows it.",
          {"return y": "return F.silu(y)"}),
    known("activation-missing",
          "This fits a product without any bend: gate(x) is used as it is.",
          {"F.silu(g)": "g"}),
    *_other_bends("F.silu(g)", "{}(g)",
                  "This fits {}, on gate(x). Expected SiLU, x · sigmoid(x)."),
    known("gelu", "This fits GELU on gate(x). Expected SiLU, x · sigmoid(x).",
          {"F.silu(g)": "F.gelu(g)"},
          {"F.silu(g)": "F.gelu(g, approximate='tanh')"}),
    known("gate-added", "This fits a gate that is added. Expected a product.",
          {" * u": " + u"}),
    known("up-unused",
          "This fits SiLU of the gate alone. What is it multiplied with?",
          {" * u": ""}),
    known("gate-unused", "This fits a network without the gate.",
          {"F.silu(g) * ": ""}),
    known("gate-used-twice",
          "This fits SiLU of gate(x) times gate(x) itself. Expected up(x) as "
          "the other factor.",
          {" * u": " * g"}),
    known("up-used-twice",
          "This fits SiLU of up(x) times up(x). Expected the gate as one "
          "factor.",
          {"F.silu(g)": "F.silu(u)"}),
    known("gate-squared",
          "This fits SiLU of gate(x) times itself. Expected up(x) as the "
          "other factor.",
          {" * u": " * F.silu(g)"}),
    SHORTCUT,
]  # fmt: skip


def _gelu(solve):
    class MyGELU(nn.Module):
        def forward(self, x):
            return solve(x)

    return MyGELU


def _feed_forward(solve):
    class MyFeedForward(gptlib.FeedForward):
        def forward(self, x):
            first, gelu, second = self.layers
            return solve(x, *first.parameters(), *second.parameters(), gelu)

    return MyFeedForward


def _swiglu(solve):
    class MySwiGLU(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            width = cfg["emb_dim"]
            hidden = round(8 * width / 3)
            self.gate = nn.Linear(width, hidden, bias=False)
            self.up = nn.Linear(width, hidden, bias=False)
            self.down = nn.Linear(hidden, width, bias=False)

        def forward(self, x):
            return solve(x, *self.parameters())

    return MySwiGLU


GELU = Task(tanh_form, GELU_MISTAKES, _gelu, **TIGHT)
FEED_FORWARD = Task(
    expanded_and_contracted, FEED_FORWARD_MISTAKES, _feed_forward,
    in_either_mode=NO_DROPOUT,
)  # fmt: skip
SWIGLU = Task(gated, SWIGLU_MISTAKES, _swiglu, in_either_mode=NO_DROPOUT)


# --- the exercises ---------------------------------------------------------


@exercise(
    "Try your module on 0, 1 and -1. The task's text says what comes out.",
    "It is a product: x, times a share between 0 and 1 of it. The share is "
    "half of one plus a tanh.",
    "The content of the tanh is math.sqrt(2 / math.pi) times a bracket; in "
    "the bracket stands x plus 0.044715 times its third power.",
    task=GELU,
)
def gelu(cls):
    """The tanh form on -6 … 6, its slope, far outside, in any shape."""
    module = construct(cls, call="MyGELU()")
    parameters = list(module.parameters())
    if parameters:
        raise Mistake(
            "extra-parameters",
            f"Your module has parameters of shape {_shapes(parameters)}; "
            "expected none. GELU has nothing to train.",
        )
    compare(module, GELU, POINTS, seen=_at_point, resort=_look_closer)
    inputs = _check_elementwise(module)
    check_written_out(module, inputs[0], {"gelu"}, "a tanh and a cube")
    check_manners(module, inputs)
    return (
        "on 61 points from -6 to 6 your result is less than 0.0001 away from "
        "the tanh form (the exact form: up to 0.0005), and its slope agrees. "
        "So do its values far out and in other shapes."
    )


@exercise(
    "One vector goes in, of cfg['emb_dim'] numbers. How many numbers has it "
    "after the first layer, and after the second?",
    "Three parts in a row: a linear layer that expands by 4, GELU, a linear "
    "layer that contracts. Both layers have a bias; nothing comes after.",
    "In __init__: self.layers = nn.Sequential(…) with nn.Linear(d, 4 * d), "
    "an instance of gptlib.GELU, and a third part for you to fill in. In "
    "forward, call it.",
    task=FEED_FORWARD,
)
def feed_forward(cls):
    """Widths, the bend and its place, each position on its own."""
    emb_dim, call = 6, "MyFeedForward(cfg)"
    module = randomized(construct(cls, _cfg(emb_dim), call=call))
    readings = _expansion_and_contraction(module, emb_dim, call)
    for width in (10, 768):
        other = construct(cls, _cfg(width), call=call)
        _expansion_and_contraction(other, width, call)
    sequences = _sequences(emb_dim)
    reading = compare(
        module, FEED_FORWARD, sequences, readings,
        resort=partial(_check_positions, module),
        rescues=_rescues(module, emb_dim, 4 * emb_dim),
    )  # fmt: skip
    check_manners(module, [sequence.x for sequence in sequences])
    remark = (
        " A remark: your GELU is the exact form. It is at most 0.0005 away "
        "from the tanh form that GPT-2 was trained with."
    )
    return (
        f"{emb_dim} features become {4 * emb_dim}, pass GELU and become "
        f"{emb_dim} again; {BATCH} sequences of {TOKENS} tokens agree with "
        "the reference to 4 digits. Each position stays on its own, in both "
        "modes, and gradients reach all parameters: 4,722,432 at 768 "
        "features."
        f"{remark if reading['gelu'] is F.gelu else ''}"
    )


@exercise(
    "Read the formula from the inside: which two layers see x, and what "
    "sees the product?",
    "Two layers expand x. One result passes through SiLU, then the two are "
    "multiplied element by element, then a third layer contracts. For the "
    "hidden width, look up how Python rounds to the nearest whole number.",
    "In __init__: hidden = round(8 * d / 3), and gate, up and down as "
    "nn.Linear with bias=False. In forward: nn.functional.silu of gate(x) "
    "is one factor; the other one and the last layer are left to you.",
    task=SWIGLU,
)
def swiglu(cls):
    """Widths, no biases, which branch is bent, the product, positions."""
    emb_dim, call = 10, "MySwiGLU(cfg)"
    module = randomized(construct(cls, _cfg(emb_dim), call=call))
    readings = _gate_up_down(module, emb_dim, call)
    # 8 · 8 / 3 rounds down, 8 · 10 / 3 up: both must follow the nearest.
    for width in (8, 768):
        _gate_up_down(construct(cls, _cfg(width), call=call), width, call)
    sequences = _sequences(emb_dim)
    compare(
        module, SWIGLU, sequences, readings,
        resort=partial(_check_positions, module),
        rescues=_rescues(module, emb_dim, _nearest(emb_dim)),
    )  # fmt: skip
    check_manners(module, [sequence.x for sequence in sequences])
    remark = (
        " A remark: the exercise calls the layers gate, up and down; yours "
        "have other names."
    )
    return (
        f"{emb_dim} features become {_nearest(emb_dim)} in gate and in up "
        f"(8 becomes {_nearest(8)}); {BATCH} sequences of {TOKENS} tokens "
        "agree with the reference to 4 digits. Each position stays on its "
        "own, in both modes, and gradients reach all three layers, of "
        "4,718,592 parameters at 768 features."
        f"{remark if len(readings) > 1 else ''}"
    )


# --- GELU ------------------------------------------------------------------

POINTS = [
    Probe(torch.linspace(-6, 6, 61), "wrong-values",
          "Calculate this point by hand, from the inside of the formula to "
          "the outside."),
    Probe(torch.tensor([30.0, 100.0, -30.0, -100.0]), "overflow",
          "From -6 to 6 it is right. Does an exp grow too large for "
          "float32, or does something infinite meet a 0?"),
]  # fmt: skip


def _at_point(x, output, expected):
    at = farthest(output, expected)
    given, wanted = told_apart(output[at], expected[at])
    return f"At x = {x[at]:.4g} your module gives {given}; expected {wanted}."


def _look_closer(x, output):
    """What no known mistake explains: far out, or by its constants."""
    if x.abs().max() > 6 and output.isfinite().all():
        raise Mistake(
            "wrong-far-out",
            f"{_at_point(x, output, tanh_form(x))} From -6 to 6 it is right. "
            "What in forward goes by how large x is, or how many there are?",
        )
    _blame_constants(x, output)


def _blame_constants(x, output):
    """Undo the formula: content / x is a straight line over x²."""
    share = output.detach().double() / x.double()
    usable = (share > 0.55) & (share < 0.995) & (x > 0)
    if usable.sum() < 4:
        return
    squares = x[usable].double().square()
    line = torch.atanh(2 * share[usable] - 1) / x[usable]
    table = torch.stack([torch.ones_like(squares), squares], dim=1)
    root, slope = torch.linalg.lstsq(table, line[:, None]).solution.flatten()
    content = x.double() * (root + slope * x.double().square())
    if same(0.5 * x * (1 + content.tanh()), output, rtol=1e-3, atol=1e-4):
        raise Mistake(
            "wrong-constant",
            f"{_at_point(x, output, tanh_form(x))} This fits {root:.4g} "
            f"as the factor of the bracket and {slope / root:.5f} as the "
            "cube's; expected √(2/π) = 0.7979 and 0.044715.",
        )


def _check_elementwise(module):
    """In every shape, number by number, in either mode; the inputs tried."""
    shapes = (3, 7), (4,), (2, 3, 5), (2, 1, 3, 4), (3, 7), (1,), ()
    inputs = [2 * torch.randn(shape) for shape in shapes]
    for shape, x in zip(shapes, inputs, strict=True):
        expected = tanh_form(x)
        for training in (True, False):
            output = run(module.train(training), x, shape)
            if not same(output, expected, **TIGHT):
                raise Mistake(
                    "not-elementwise",
                    f"{difference(output, expected)} One row of 61 points "
                    "is right, so what does a number's result depend on, "
                    "other than on that number?",
                )
    return inputs


# --- the networks' weights -------------------------------------------------


def _cfg(emb_dim):
    """A tiny configuration; its drop rate shows a dropout inside."""
    return {
        "vocab_size": 101, "context_length": 16, "emb_dim": emb_dim,
        "n_heads": 2, "n_layers": 3, "drop_rate": 0.5, "qkv_bias": False,
    }  # fmt: skip


def _expansion_and_contraction(module, emb_dim, call):
    """Readings of the weights and biases, with either form of GELU."""
    named, vectors = _weights(module, emb_dim, call)
    matrices, hidden = list(named.values()), 4 * emb_dim
    _check_count(matrices, 2)
    shapes = [(hidden, emb_dim), (emb_dim, hidden)]
    layouts = _layouts(module, permutations(matrices), shapes)
    if not layouts:
        raise Mistake(
            "wrong-width",
            f"With emb_dim = {emb_dim}, your weights have shapes "
            f"{_shapes(matrices)}. Expected {emb_dim} → {hidden} in the "
            f"first layer and {hidden} → {emb_dim} in the second.",
        )
    biases = {v.numel(): v for v in vectors}
    if not {hidden, emb_dim} <= biases.keys():
        raise Mistake(
            "bias-missing",
            f"Shapes of the biases: {_shapes(vectors) or 'none found'}. "
            f"Expected ({hidden},) in the first layer and ({emb_dim},) in "
            "the second.",
        )
    if len(vectors) > 2:
        raise Mistake(
            "extra-parameters",
            "Besides two weights, there are parameters of shape "
            f"{_shapes(vectors)}; expected two biases alone. Is there a norm "
            "inside? It stands in front of this network, in the transformer "
            "block.",
        )
    b_in, b_out = biases[hidden], biases[emb_dim]
    return [
        {"w_in": w, "b_in": b_in, "w_out": v, "b_out": b_out, "gelu": bend}
        for bend in (gptlib.GELU(), F.gelu)
        for w, v in layouts
    ]


def _gate_up_down(module, emb_dim, call):
    """The reading of the weights that their names tell; without names,
    either expansion may be the gate."""
    named, vectors = _weights(module, emb_dim, call)
    ways = _with_gate_and_up_apart(list(named.values()))
    matrices = ways[0]
    _check_count(matrices, 3)
    if vectors:
        raise Mistake(
            "bias-present",
            "Besides the weights, there are parameters of shape "
            f"{_shapes(vectors)}. Expected three layers without a bias.",
        )
    parts = {p: w for name, w in named.items() for p in name.split(".")}
    roles = "gate", "up", "down"
    orders = chain.from_iterable(map(permutations, ways))
    if parts.keys() >= set(roles):
        orders = [[parts[role] for role in roles]]
    hidden = _nearest(emb_dim)
    shapes = [(hidden, emb_dim), (hidden, emb_dim), (emb_dim, hidden)]
    layouts = _layouts(module, orders, shapes)
    if not layouts:
        _blame_widths(matrices, emb_dim)
    return [dict(zip(roles, each, strict=True)) for each in layouts]


def _nearest(emb_dim):
    return round(8 * emb_dim / 3)


def _with_gate_and_up_apart(matrices):
    """The ways to take gate and up out of a parameter that holds both, twice
    as large as down: stacked, in halves, or taking turns."""
    if len(matrices) == 2:
        down, both = sorted(matrices, key=torch.numel)
        if both.numel() == 2 * down.numel():
            axis = both.shape.index(max(both.shape))
            rows = both.movedim(axis, 0)
            ways = [rows.chunk(2), (rows[0::2], rows[1::2])]
            if both.dim() == 3:
                rows, axis = both.movedim(both.shape.index(2), 0), 0
                ways = [rows.unbind()]
            return [[*(w.movedim(0, axis) for w in way), down] for way in ways]
    return [matrices]


def _blame_widths(matrices, emb_dim):
    exact = 8 * emb_dim / 3
    seen = {n for matrix in matrices for n in matrix.shape} - {emb_dim}
    names = {
        (int(exact),): "width-rounded-down",
        (int(exact) + 1,): "width-rounded-up",
        (_nearest(emb_dim),): "layers-swapped",  # the right one of the two
    }
    raise Mistake(
        names.get(tuple(seen), "wrong-width"),
        f"With emb_dim = {emb_dim}, your weights have shapes "
        f"{_shapes(matrices)}. 8 · {emb_dim} / 3 is {exact:.2f}: expected "
        f"{emb_dim} → {_nearest(emb_dim)} for gate and up, "
        f"{_nearest(emb_dim)} → {emb_dim} for down.",
    )


def _weights(module, emb_dim, call):
    """Name → matrix, as wide as cfg says; and the other parameters."""
    flat = {  # a 1-wide convolution's weight (out, in, 1) is a matrix, too
        name: p.squeeze() if p.dim() > 1 else p
        for name, p in module.named_parameters()
    }
    named = {name: p for name, p in flat.items() if p.dim() > 1}
    matrices = list(named.values())
    if not matrices:
        raise Mistake(
            "not-registered",
            f"{call} has no weight among its parameters(), so training "
            "would change nothing. Are the layers made in __init__, assigned "
            "to `self`, and kept where a module looks (no plain list)?",
        )
    kernels = [p for p in matrices if p.dim() > 2 and 2 not in p.shape]
    if kernels:
        raise Mistake(
            "mixes-positions",
            f"A weight has shape {_shapes(kernels[:1])}: as a convolution's, "
            "it covers several positions at once. Expected each position on "
            "its own.",
        )
    if not any(emb_dim in p.shape for p in matrices):
        raise Mistake(
            "width-hardcoded",
            f"With emb_dim = {emb_dim}, the weights have shapes "
            f"{_shapes(matrices)}. Does the width come from cfg?",
        )
    return named, [p for p in flat.values() if p.dim() < 2]


def _check_count(matrices, wanted):
    if len(matrices) != wanted:
        raise Mistake(
            "layer-missing" if len(matrices) < wanted else "extra-layer",
            f"Weight matrices found: {len(matrices)}, with shapes "
            f"{_shapes(matrices)}. Expected {wanted}.",
        )


def _shapes(parameters):
    return ", ".join(str(tuple(p.shape)) for p in parameters)


def _layouts(module, orders, shapes):
    """The orders of weights that have these shapes, transposed or not:
    nn.Linear keeps (out, in), GPT-2's own code (in, out)."""
    orders = [*orders]
    found = [
        layout
        for order in orders
        for layout in (order, [matrix.T for matrix in order])
        if [matrix.shape for matrix in layout] == shapes
    ]
    if found or not runs(module, torch.zeros(1, 1, shapes[0][1])):
        return found
    return [  # some kept this way, some the other
        [
            w if w.shape == s else w.T
            for w, s in zip(order, shapes, strict=True)
        ]
        for order in orders
        if all(
            s in (w.shape, w.T.shape)
            for w, s in zip(order, shapes, strict=True)
        )
    ]


# --- the networks' inputs --------------------------------------------------


def _sequences(emb_dim):
    shapes = (BATCH, TOKENS), (1, 1), (4, 3), (3, 16), (BATCH, TOKENS)
    first, *others = (torch.randn(*shape, emb_dim) for shape in shapes)
    others.append(first[:1].repeat(3, 1, 1))  # three times the same
    return [
        Probe(first, "wrong-values",
              "Follow one vector through forward: which layer comes when, "
              "and where is the bend?"),
        *(Probe(x, "shape-dependent",
                f"The first {BATCH} sequences of {TOKENS} tokens are right. "
                "Does something go by the batch, the number of tokens or an "
                "earlier call?")
          for x in others),
    ]  # fmt: skip


def _rescues(module, emb_dim, hidden):
    """Inputs that run tell why the right one raises an error."""
    return [
        (lambda: runs(module, torch.zeros(BATCH, TOKENS, hidden)),
         "layers-swapped",
         f"Your network takes {hidden} features where {emb_dim} come in. "
         "Which layer expands, and which contracts?"),
        (lambda: runs(module, torch.zeros(BATCH, emb_dim, emb_dim)),
         "mixes-positions",
         f"{TOKENS} tokens of {emb_dim} features raise an error; as many "
         f"tokens as features, {emb_dim} of each, do not. Does a layer work "
         "along the tokens? Expected the last axis."),
    ]  # fmt: skip


def _check_positions(module, x, output):
    """Change one position, the first or the last: no other may move."""
    batch, tokens, emb_dim = x.shape
    for row, position in [(0, 0), (batch - 1, tokens - 1)]:
        changed = x.clone()
        changed[row, position] += torch.linspace(-1, 2, emb_dim)
        moved = (run(module, changed, x.shape) - output).abs().amax(-1) > 1e-5
        moved[row, position] = False
        if moved.any():
            other, token = moved.nonzero()[0].tolist()
            among = "positions" if other == row else "batch"
            raise Mistake(
                f"mixes-{among}",
                f"After a change at position {position} of sequence {row}, "
                f"the output at position {token} of sequence {other} moves. "
                "Expected each position on its own: what in forward works "
                "along another axis than the last?",
            )
