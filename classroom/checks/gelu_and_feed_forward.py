"""Checks of notebook 03: GELU, its slope, the feed-forward network, and a
probe for what works position by position."""

import math
from functools import partial
from itertools import combinations, permutations

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

import gptlib
from classroom.checks.edits import BODY, Numbers, Task, blame, known
from classroom.checks.functions import (
    attempt,
    check_signature,
    judge,
    left_alone,
)
from classroom.checks.guard import exercise
from classroom.checks.manners import check_manners
from classroom.checks.modules import (
    NAN,
    Probe,
    compare,
    construct,
    randomized,
    run,
    runs,
    settled,
)
from classroom.checks.ready_made import check_written_out
from classroom.checks.result import Mistake
from classroom.checks.tensors import (
    difference,
    farthest,
    number,
    same,
    told_apart,
)

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


def product_rule(x):
    share = torch.special.ndtr(x)
    bell = torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    slope = share + x * bell
    return slope


def each_alone(module, x):
    together = module(x)
    rows, places = range(x.shape[0]), range(x.shape[1])
    for row in rows:
        for place in places:
            alone = module(x[row : row + 1, place : place + 1])[0, 0]
            if not same(alone, together[row, place], atol=1e-4):
                return False
    return True


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
    known("bracket-missing",
          "This fits a 1 + tanh without a bracket: what stands in front "
          "multiplies the 1 alone.",
          {"0.5 * (1 + torch.tanh(content))": "torch.tanh(content)",
           "x * share": "0.5 * x + share"},
          {"0.5 * (1 + torch.tanh(content))": "0.5 + torch.tanh(content)"}),
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

GELU_SLOPE_MISTAKES = [
    known("tanh-form",
          "This fits the slope of the tanh form, which is right as such. The "
          "slope of x · Φ(x) was asked for.",
          {BODY: "return _tanh_slope(x)"}),
    known("second-term-missing",
          "This fits Φ(x) alone. The product rule has two terms: Φ has a "
          "slope, too.",
          {"share + x * bell": "share"}),
    known("first-term-missing",
          "This fits x times the bell alone. The product rule has two terms: "
          "x has a slope, too.",
          {"share + x * bell": "x * bell"}),
    known("slopes-multiplied",
          "This fits 1 times the bell, the product of the two slopes. The "
          "slope of a product is a sum: compare the rule.",
          {"share + x * bell": "bell"}),
    known("x-missing",
          "This fits Φ(x) plus the bell. What is the bell multiplied with?",
          {"x * bell": "bell"}),
    known("x-on-both",
          "This fits x · Φ(x) plus x times the bell. What is the slope of x "
          "itself?",
          {"= share +": "= x * share +"}),
    known("factors-swapped",
          "This fits x · Φ(x) plus the bell. Which factor goes with which "
          "slope?",
          {"share + x * bell": "x * share + bell"}),
    known("value-for-slope",
          "This fits x · Φ(x) itself. Its slope was asked for.",
          {"share + x * bell": "x * share"}),
    known("value-for-slope",
          "This fits the tanh form of GELU itself. The slope of x · Φ(x) was "
          "asked for.",
          {BODY: "return F.gelu(x, approximate='tanh')"}),
    known("minus-for-plus",
          "This fits Φ(x) minus x times the bell. Expected a sum.",
          {"share + x": "share - x"}),
    known("bell-slope",
          "This fits Φ(x) plus x times the slope of the bell. The slope of Φ "
          "is the bell itself.",
          {"x * bell": "x * (-x * bell)"}),
    known("terms-multiplied",
          "This fits Φ(x) times x times the bell. The rule has a sum.",
          {"share + x": "share * x"}),
    known("bell-wrong",
          "This fits a bell without its factor 1/√(2π).",
          {" / math.sqrt(2 * math.pi)": ""}),
    known("bell-wrong",
          "This fits a bell that is divided by 2π, without the root.",
          {"math.sqrt(2 * math.pi)": "(2 * math.pi)"}),
    known("bell-wrong",
          "This fits a bell with √π or √2 · π in place of √(2π).",
          {"math.sqrt(2 * math.pi)": "math.sqrt(math.pi)"},
          {"math.sqrt(2 * math.pi)": "(math.sqrt(2) * math.pi)"}),
    known("bell-wrong",
          "This fits a bell that is multiplied by √(2π).",
          {"/ math.sqrt": "* math.sqrt"}),
    known("bell-wrong",
          "This fits a bell that has e to the power of -x², without the ½.",
          {"x * x / 2": "x * x"}),
    known("bell-wrong",
          "This fits a bell that has e to the power of +x²/2. It should fall "
          "to both sides.",
          {"-x * x": "x * x"},
          {"-x * x": "(-x) ** 2"}),
    known("bell-wrong",
          "This fits a sum that is divided by √(2π) as a whole. The factor "
          "belongs to the bell alone.",
          {"share + x": "share / math.sqrt(2 * math.pi) + x"}),
    known("bell-wrong",
          "This fits a bell that has e to the power of x/2 or -x/2. Expected "
          "-x²/2.",
          {"-x * x": "-x"}, {"-x * x": "x"}),
    known("logarithm-for-bell",
          "This fits the bell's logarithm in place of the bell. Is it from "
          "log_prob?",
          {"= share + x * bell": "= share + x * bell.log()"}),
    known("relu-slope",
          "This fits ReLU's slope, 0 on one side and 1 on the other.",
          *({BODY: f"return (x {sign} 0).to(x.dtype)"} for sign in (">", ">=")
            )),
]  # fmt: skip

POSITION_WISE_MISTAKES = [
    known("same-answer-for-all",
          "Every module is accepted. What does your function compare? Equal "
          "shapes show nothing, and a wide tolerance hides much.",
          {BODY: "return True"}),
    known("same-answer-for-all",
          "Every module is refused. Try it on nn.Identity(), and follow the "
          "comparison.",
          {BODY: "return False"}),
    known("exact-comparison",
          "This fits a comparison without any tolerance. Equal results may "
          "differ by rounding.",
          {"not same(alone, together[row, place], atol=1e-4)":
           "not torch.equal(alone, together[row, place])"}),
    known("difference-one-sided",
          "This fits a comparison that sees only differences of one sign. A "
          "result can be too large or too small.",
          *({"not same(alone, together[row, place], atol=1e-4)":
             f"({gap}).max() > 1e-4"}
            for gap in ("alone - together[row, place]",
                        "together[row, place] - alone"))),
    known("differences-cancel",
          "This fits a test that adds up what it sees of all features. Some "
          "of it is positive and some negative: in a sum or a mean it can "
          "cancel.",
          {"not same(alone, together[row, place], atol=1e-4)":
           "(alone - together[row, place]).sum().abs() > 1e-4"}),
    known("answer-inverted",
          "This fits answers that are turned around: True stands for "
          "position-wise.",
          {"return False": "return True", "return True": "return False"}),
    known("only-last-changed",
          "This fits a change of the last position alone, with a look at the "
          "others. What comes before it may never look that far.",
          {BODY: "return _others_stay(module, x, [-1])"}),
    known("only-first-changed",
          "This fits a change of the first position alone, with a look at "
          "the others. Which modules look forward only?",
          {BODY: "return _others_stay(module, x, [0])"}),
    known("only-one-changed",
          "This fits a change of one position in the middle, with a look at "
          "the others. Some modules look at one special position.",
          {BODY: "return _others_stay(module, x, [1])"},
          {BODY: "return _others_stay(module, x, [x.shape[1] // 2])"}),
    known("place-ignored",
          "This fits a change at each position, with a look at the others. "
          "It misses modules with another rule at each position.",
          {BODY: "return _others_stay(module, x, range(x.shape[1]))"}),
    known("place-ignored",
          "This fits a change at each position, with a look at the others of "
          "the same sequence. It misses another rule at each position, and "
          "modules that look at other sequences.",
          {BODY: "return _others_stay(module, x, range(x.shape[1]), True)"}),
    known("only-shuffled",
          "This fits shuffled positions alone. Which modules mix positions, "
          "in whatever order they come?",
          {BODY: "return _shuffles(module, x, 1)"}),
    known("only-shuffled",
          "This fits shuffled positions and sequences alone. Which modules "
          "mix them, in whatever order they come?",
          {BODY: "return _shuffles(module, x, 1, 0)"},
          {BODY: "return _reordered(module, x)"}),
    known("batch-ignored",
          "This fits a test of the positions of each sequence that never "
          "takes the sequences apart.",
          {"row : row + 1": ":", "[0, 0]": "[row, 0]"}),
    known("batch-ignored",
          "This fits a change at each position and a shuffle of positions, "
          "without a look at the other sequences.",
          {BODY: "return _shuffles(module, x, 1) and _others_stay("
                 "module, x, range(x.shape[1]), True)"}),
    known("batch-ignored",
          "This fits a test that sends all vectors in one call, each as a "
          "sequence of its own, or all as one. They still have company.",
          *({BODY: f"return _in_other_shape(module, x, x.flatten(0, 1)[{i}])"}
            for i in (":, None", "None"))),
    known("neighbors-ignored",
          "This fits a test that takes the sequences apart, and no positions.",
          {BODY: "return _rows_alone(module, x)"}),
    known("one-place-tried",
          "This fits a test of the first position alone.",
          {"range(x.shape[1])": "[0]"}),
    known("one-place-tried",
          "This fits a test of the last position alone.",
          {"range(x.shape[1])": "[x.shape[1] - 1]"}),
    known("one-place-tried",
          "This fits a test of the first sequence alone.",
          {"range(x.shape[0])": "[0]"}),
    known("ends-early",
          "This fits a loop that ends after the first position. Where does "
          "`return True` stand?",
          {"return False\nreturn True": "return False\n        return True"}),
]  # fmt: skip


def _tanh_slope(x):
    root = math.sqrt(2 / math.pi)
    bent = torch.tanh(root * (x + 0.044715 * x**3))
    inner = root * (1 + 3 * 0.044715 * x**2)
    return 0.5 * (1 + bent) + 0.5 * x * (1 - bent**2) * inner


@torch.no_grad()
def _others_stay(module, x, places, row_alone=False):
    """Whether a change at a place of the first sequence stays there."""
    for place in places:
        changed = x.clone()
        changed[0, place] += torch.linspace(-1, 2, x.shape[2])
        moved = (module(changed) - module(x)).abs().amax(-1) > 1e-4
        moved[0, place] = False
        if moved[:1].any() if row_alone else moved.any():
            return False
    return True


@torch.no_grad()
def _shuffles(module, x, *axes):
    """Whether reversed inputs give reversed outputs."""
    return all(
        (module(x.flip(axis)) - module(x).flip(axis)).abs().max() < 1e-4
        for axis in axes
    )


@torch.no_grad()
def _reordered(module, x):
    """Whether vectors that change places, across sequences, too, take
    their outputs along."""
    count = x.shape[0] * x.shape[1]
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    moved = module(x.flatten(0, 1)[order].view_as(x))
    right = module(x).flatten(0, 1)[order].view_as(x)
    return bool((moved - right).abs().max() < 1e-4)


@torch.no_grad()
def _in_other_shape(module, x, reshaped):
    gap = module(reshaped).reshape(x.shape) - module(x)
    return bool(gap.abs().max() < 1e-4)


@torch.no_grad()
def _rows_alone(module, x):
    rows = torch.cat([module(x[row : row + 1]) for row in range(len(x))])
    return bool((rows - module(x)).abs().max() < 1e-4)


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


GELU = Task(tanh_form, GELU_MISTAKES, _gelu, **TIGHT)
FEED_FORWARD = Task(
    expanded_and_contracted, FEED_FORWARD_MISTAKES, _feed_forward,
    in_either_mode=NO_DROPOUT,
)  # fmt: skip
GELU_SLOPE = Task(
    product_rule, GELU_SLOPE_MISTAKES, lambda solve: lambda x: solve(x),
    **TIGHT,
)  # fmt: skip
POSITION_WISE = Numbers(
    each_alone, POSITION_WISE_MISTAKES,
    lambda solve: lambda module, x: solve(module, x),
)  # fmt: skip


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
    "Name the two factors u and v. What is the slope of each, by itself?",
    "The slope of x is 1, and the slope of Φ(x) is the height of the bell. "
    "Put the four into the rule. At 0, the result is 0.5.",
    "Φ(x) is torch.special.ndtr(x). The bell is torch.exp of -x²/2, divided "
    "by math.sqrt(2 * math.pi). One of the two terms is Φ(x); the other is "
    "left to you.",
    task=GELU_SLOPE,
)
def gelu_slope(fn):
    """The slope of the exact form on -6 … 6, far outside, in any shape."""
    check_signature(fn, torch.zeros(3), call="my_gelu_slope(x)")
    module = _as_module(fn)
    for x, *otherwise in SLOPE_POINTS:
        _check_slope(module, x, *otherwise)
    inputs = [2 * torch.randn(s) for s in [(3, 7), (4,), (2, 3, 5), (1,), ()]]
    for x in inputs:
        _check_slope(module, x)
    _check_by_rule(module)
    check_written_out(
        module, inputs[0], {"gelu", "gelu_backward"}, "Φ and the bell"
    )
    check_manners(module, inputs)
    return (
        "on 61 points from -6 to 6 your slope is less than 0.0001 away from "
        "what autograd finds for x · Φ(x), and also far out and in other "
        "shapes."
    )


@exercise(
    "Read the definition in the task again: from what alone may an output "
    "vector come? How could you give a module that alone?",
    "Two probes of this notebook together need care: each position, both "
    "directions, other sequences, another rule at each place. One test "
    "covers all: compare each vector's output with what the module gives for "
    "this vector without company.",
    "together = module(x). In two loops, over sequences and over positions: "
    "module(x[row : row + 1, place : place + 1]) has the shape (1, 1, emb). "
    "What must it be close to?",
    task=POSITION_WISE,
)
def is_position_wise(fn):
    """Answers for modules that mix in many ways, and for some that don't."""
    call = "my_is_position_wise(module, x)"
    check_signature(fn, nn.Identity(), torch.zeros(1, 2, 3), call=call)
    _check_looks_only(fn)
    cases = _modules()
    judge(
        partial(_verdict, fn), POSITION_WISE,
        [(module, x) for _, module, x in cases],
        partial(_seen_verdict, fn, cases), _otherwise,
    )  # fmt: skip
    return (
        f"your function judges all {len(cases)} modules as it should: those "
        "that look back, ahead, at every position or at other sequences, and "
        "those with another rule at each position, are found; no healthy one "
        "is refused."
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
    if output[x < 0].isnan().all() and output[x > 0].isfinite().all():
        raise Mistake(
            "root-of-negative",
            "For every negative x your module gives nan, no number; for "
            "positive x it gives numbers. A root, a logarithm or a power "
            "such as 0.5 of a negative number does that. Which part of your "
            "formula takes one, and of what?",
        )
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


# --- GELU's slope ----------------------------------------------------------


def _as_module(function):
    """A learner's function as a module, so that it can be judged as one."""

    class Function(nn.Module):
        def forward(self, x):
            return function(x)

    return Function()


class _Watched(TorchFunctionMode):
    """Attributes:
    phi: what Φ, under any of its names, was asked for.
    recorded: whether something was computed for autograd.
    """

    PHI = {"special_ndtr", "ndtr", "erf", "erfc", "special_erf", "gelu"}

    def __init__(self):
        super().__init__()
        self.phi, self.recorded = [], False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in (*args, result):
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                self.recorded = True
        if forward_ad._current_level >= 0:  # jvp: autograd, too
            self.recorded = True
        if getattr(func, "__name__", "").split(".")[0] in self.PHI:
            self.phi.append(args[0].detach())
        return result


def _check_slope(
    module, x, name="not-elementwise",
    says="One row of 61 points is right, so what does a number's slope "
    "depend on, other than on that number?",
):  # fmt: skip
    expected = product_rule(x)
    output = settled(module, GELU_SLOPE, x, expected.shape)
    if same(output, expected, **TIGHT):
        return
    told = difference(output, expected)
    if x.dim() == 1:
        told = _at_point(x, output, expected).replace("module", "function")
    if not output.isfinite().any():
        raise Mistake(name, f"{told} {NAN}")
    found = ()
    if x.numel() > 9:
        _blame_quotient(module, told)
        found = GELU_SLOPE.explain(
            lambda solve: same(output, solve(x), **TIGHT)
        )
        if x.dim() == 1 and not found:
            _blame_bell(x, output, told)
    blame(found, told, name, says)


def _blame_bell(x, output, told):
    """Undo the rule: the bell's logarithm is a straight line over x²."""
    share, squares = torch.special.ndtr(x), x.square()
    bell = (output.detach() - share) / x
    usable = (x.abs() > 0.3) & (x.abs() < 3) & (bell > 1e-5)
    if usable.sum() < 4:
        return
    table = torch.stack([torch.ones_like(x), -squares], dim=1)[usable]
    logs = bell[usable].log()[:, None]
    log_height, steep = torch.linalg.lstsq(table, logs).solution.flatten()
    height = log_height.exp()
    right = torch.tensor([(2 * math.pi) ** -0.5, 0.5])
    if same(torch.stack([height, steep]), right, rtol=0.01, atol=0):
        return
    if same(share + x * height * torch.exp(-steep * squares), output,
            rtol=1e-3, atol=1e-4):  # fmt: skip
        raise Mistake(
            "bell-wrong",
            f"{told} This fits a bell of {height:.4g} · e^(-{steep:.4g} · "
            "x²) in the second term. At 0 the bell has the height 1/√(2π) = "
            "0.3989, and e has the power -x²/2.",
        )


def _check_by_rule(module):
    """No autograd."""
    with _Watched() as watched:
        module(torch.linspace(-2, 2, 9))
    if watched.recorded:
        raise Mistake(
            "autograd-used",
            "Your values are right, and autograd finds them. The exercise is "
            "to write the slope out, by the product rule.",
        )
    _blame_quotient(module, "Your values are right.")


def _blame_quotient(module, told):
    """Does it ask for Φ at two places close together?"""
    with _Watched() as watched:
        module(torch.linspace(-2, 2, 9))
    for one, other in combinations(watched.phi, 2):
        if one.shape == other.shape:
            gap = (one.abs() - other.abs()).abs().max()
            if 0 < gap < 0.25:
                raise Mistake(
                    "difference-quotient",
                    f"{told} Your function asks for Φ at two places "
                    f"{number(gap)} apart, as a difference quotient does. "
                    "The exercise is to write the slope out, by the product "
                    "rule.",
                )


SLOPE_POINTS = [
    Probe(torch.arange(-30, 31) / 5, "wrong-values",  # in the middle: 0
          "Calculate this point by hand: Φ(x), the bell, and what the rule "
          "makes of them."),
    Probe(torch.tensor([30.0, 100.0, -30.0, -100.0]), "wrong-far-out",
          "From -6 to 6 it is right. Does something grow too large for "
          "float32 far out?"),
]  # fmt: skip


# --- is it position-wise? --------------------------------------------------


FIVES, FOURS = (2, 5, 12), (3, 4, 8)
# What it does, the input's shape, the module; and the parts that this needs.
MODULES = [
    ("is a feed-forward network", FIVES, lambda x, ff: ff(x),
     lambda: gptlib.FeedForward(_cfg(12))),
    ("is a linear layer", FIVES, lambda x, one: one(x),
     lambda: nn.Linear(12, 12)),
    ("is a layer that rounds a single position in another way", FOURS,
     lambda x, one: one(x) * (1 + 1.2e-7 * (x.shape[1] > 1)),
     lambda: nn.Linear(8, 8)),
    ("norms the features", FIVES, lambda x, norm: norm(5 * x + 3),
     lambda: nn.LayerNorm(12)),
    ("multiplies each number with itself", FOURS, lambda x: x * x),
    ("turns the order of the features around", FOURS, lambda x: x.flip(-1)),
    ("has dropout, which sleeps in evaluation mode", FIVES,
     lambda x, one, drop: drop(one(x)),
     lambda: nn.Linear(12, 12), lambda: nn.Dropout(0.5)),
    ("is attention that looks back", FIVES, lambda x, one: x + 2 * one(x),
     lambda: gptlib.MultiHeadAttention(12, 12, 16, 0.0, 3)),
    ("is attention that looks everywhere", FIVES,
     lambda x: (x @ x.mT).softmax(-1) @ x),
    ("norms over the positions", FIVES,
     lambda x: (x - x.mean(1, keepdim=True))
     / (x.var(1, keepdim=True, correction=0) + 1e-5).sqrt()),
    ("adds the mean of all positions", FOURS,
     lambda x: x + x.mean(1, keepdim=True)),
    ("gives each position the vector before it", FIVES,
     lambda x: x.roll(1, 1)),
    ("adds the vector before it", FOURS,
     lambda x: x + F.pad(x, (0, 0, 1, 0))[:, :-1]),
    ("adds the vector after it", FOURS,
     lambda x: x + F.pad(x, (0, 0, 0, 1))[:, 1:]),
    ("adds the first vector to all", FIVES, lambda x: x + x[:, :1]),
    ("adds the last vector to all", FIVES, lambda x: x + x[:, -1:]),
    ("turns the order of the positions around", FIVES, lambda x: x.flip(1)),
    ("adds another vector at each position", FIVES,
     lambda x, table: x + table.weight[: x.shape[1]],
     lambda: nn.Embedding(16, 12)),
    ("adds the first vector to the last", FIVES,
     lambda x: torch.cat([x[:, :-1], x[:, -1:] + x[:, :1]], 1)),
    ("takes the mean of all sequences away", FOURS,
     lambda x: x - x.mean(0, keepdim=True)),
    ("adds the first sequence to all others", FOURS,
     lambda x: torch.cat([x[:1], x[1:] + x[:1]])),
    ("turns the order of the sequences around", FIVES, lambda x: x.flip(0)),
    ("adds the mean of all vectors of all sequences", FIVES,
     lambda x: x + x.mean((0, 1), keepdim=True)),
    ("adds the vector before it, or the last of the sequence before", FOURS,
     lambda x: x + x.flatten(0, 1).roll(1, 0).view_as(x)),
    ("gives each position the largest numbers among the positions", FOURS,
     lambda x: x.amax(1, keepdim=True).expand_as(x)),
    ("gives each position the smallest numbers among the positions", FIVES,
     lambda x: x.amin(1, keepdim=True).expand_as(x)),
    ("adds the vector before it, less the mean of its features", FIVES,
     lambda x: x + x.roll(1, 1) - x.roll(1, 1).mean(-1, keepdim=True)),
]  # fmt: skip


def _modules():
    """What it does, a module in evaluation mode, and an input for it."""
    return [
        (what, _acting(acts, *(make() for make in parts)),
         torch.randn(shape))
        for what, shape, acts, *parts in MODULES
    ]  # fmt: skip


def _acting(acts, *parts):
    """A module that tells nothing but by what it does."""

    class Module(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(parts)

        def forward(self, x):
            if x.dim() != 3 or not x.numel():
                raise ValueError(
                    "The module takes an input of shape (batch, tokens, emb)"
                    f", none of them 0; this one has shape {tuple(x.shape)}."
                )
            return acts(x, *self.parts)

    return Module().eval()


def _check_looks_only(fn):
    """A probe leaves the module and the input as they are."""
    module = gptlib.FeedForward(_cfg(12)).eval()
    x = torch.randn(2, 5, 12)
    given = x.clone()
    with left_alone(module):
        attempt(partial(fn, module, given))
    if not torch.equal(given, x):
        raise Mistake(
            "input-overwritten",
            "After the call, the input itself has changed. It belongs to the "
            f"caller. {difference(given, x, 'input')} Change a copy.",
        )


def _verdict(fn, module, x):
    answer = fn(module, x)
    if answer is None:
        raise Mistake(
            "returns-none",
            "The function returns None: does every path end in a return?",
        )
    if isinstance(answer, torch.Tensor) and answer.numel() == 1:
        answer = answer.item()
    if isinstance(answer, (bool, np.bool_)):
        return bool(answer)
    shape = ""
    if isinstance(answer, torch.Tensor):
        shape = f" of shape {tuple(answer.shape)}"
    raise Mistake(
        "wrong-type",
        f"The answer is of type {type(answer).__name__}{shape}; expected "
        "True or False for the module as a whole.",
    )


def _seen_verdict(fn, cases, case, outcome, right):
    """How many are judged wrongly, and what one of them does."""
    wrong = [
        (what, verdict)
        for what, module, x in cases
        if (verdict := _verdict(fn, module, x)) != each_alone(module, x)
    ]
    what, verdict = wrong[0] if wrong else ("", outcome.result)
    return (
        f"Judged wrongly of {len(cases)} modules: {len(wrong)}. One that "
        f"{what} gets {verdict}."
    )


def _otherwise(case, outcome, right):
    if right.result:
        return (
            "healthy-refused",
            "It is position-wise. Equal results may differ by rounding, and "
            "a position's output may be anything, as long as it comes from "
            "this position.",
        )
    return (
        "mixing-missed",
        "It is not position-wise. Make such a module yourself and follow "
        "what your function compares.",
    )


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
