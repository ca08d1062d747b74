"""Checks of notebook 02: layer norm, RMSNorm, and a test for such norms."""

import copy
from functools import partial
from itertools import combinations

import torch

import gptlib
from classroom.checks.edits import Task, known
from classroom.checks.functions import check_signature, judge, returned
from classroom.checks.guard import exercise
from classroom.checks.manners import check_manners
from classroom.checks.modules import (
    Probe,
    compare,
    construct,
    rescued,
    run,
    runs,
)
from classroom.checks.ready_made import check_written_out
from classroom.checks.result import Mistake
from classroom.checks.tensors import difference, number, same

WIDTH = 5
# Far from 1 and 0, and of both signs: forgotten or misplaced, they show.
SETTINGS = {
    "scale": torch.tensor([1.5, -0.7, 2.1, 0.4, -1.2]),
    "shift": torch.tensor([0.3, -1.1, 0.8, 2.0, -0.5]),
}
# The first name of each is the notes'; the others mean the same elsewhere.
NAMES = {
    "scale": ("scale", "weight", "gamma", "gain"),
    "shift": ("shift", "bias", "beta"),
}
START = {"scale": 1, "shift": 0}
TORCHS_OWN = {
    f"{kind}_norm" for kind in ("layer", "rms", "group", "instance", "batch")
}


# --- the solutions, and what mistakes make of them -----------------------


def normalized(x, scale, shift):
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, keepdim=True, correction=0)
    n = (x - mean) / (var + 1e-5).sqrt()
    return scale * n + shift


def divided_by_root_mean_square(x, scale):
    var = x.square().mean(-1, keepdim=True)
    n = x / (var + 1e-5).sqrt()
    return scale * n


VAR = "x.var(-1, keepdim=True, correction=0)"
MEAN_SQUARE = "x.square().mean(-1, keepdim=True)"
AXES_BUT_THE_LAST = {
    "axis 0": "(0,)",
    "axis 1": "(1,)",
    "axes 0 and 1": "(0, 1)",
    "axes 0 and 2": "(0, 2)",
    "axes 1 and 2": "(1, 2)",
    "the whole tensor": "(0, 1, 2)",
}


def _wrong_axes(averages):
    """Every choice of axes but the right one, for each of the averages."""
    return [
        known(
            "whole-tensor" if over == "(0, 1, 2)" else "wrong-axis",
            f"This fits {what} taken over {where}. Expected one number for "
            "each row, over its features: the last axis, here axis 2, "
            "however many axes there are.",
            {old: old.replace("-1", over) for old in edited},
        )
        for where, over in AXES_BUT_THE_LAST.items()
        for what, edited in averages.items()
    ]


def _keepdim_missing(*edits):
    """It shows on a square input alone; on others it is an error."""
    return known(
        "keepdim-missing",
        "This fits an average that has lost its axis. An input of shape "
        f"(4, 5) raises an error; a square one, {(WIDTH, WIDTH)}, runs, since "
        "there the shapes happen to fit. Compare the shape of each average "
        "with (4, 1).",
        *edits,
    )


DIVIDE = [
    known("root-missing",
          "This fits a division by a mean of squares, whose units are "
          "squared. What brings it back to the units of the row?",
          {".sqrt()": ""}, {" + 1e-5).sqrt()": ")"}),
    known("std-for-variance",
          "This fits a root of a root. Is what you take the root of a root "
          "already, as a standard deviation is?",
          {"(var + 1e-5)": "(var.sqrt() + 1e-5)"},
          {"var + 1e-5": "var.sqrt()"}),
    known("multiplied-by-root",
          "This fits rows that are multiplied with the root. Expected a "
          "division.",
          {" / (var": " * (var"}),
]  # fmt: skip
MISPLACED_EPS = [
    known("eps-missing",
          "This fits a root without eps: it is left out, makes no "
          "difference, or is added to the result, behind the division. Rows "
          "of tiny numbers show it; a row of zeros would be 0 / 0.",
          {" + 1e-5": ""}),
    *(known("eps-outside-root",
            f"This fits an eps of {eps:g} that is added after the root is "
            "taken. Which sum should stand inside the root?",
            {"(var + 1e-5).sqrt()": f"(var.sqrt() + {eps})"})
      for eps in (1e-5, 1e-6, 1e-8, 1e-3, 1e-4, 1e-2)),
    *(known("eps-value",
            f"This fits eps = {eps:g}; expected 1e-05. Rows of tiny numbers "
            "show it.",
            {"1e-5": str(eps)})
      for eps in (1e-6, 1e-8, 1e-12, 1e-3, 1e-4, 1e-7, 1e-2, 1e-1, 1.0, 1e-9,
                  1e-10, 5e-6, 5e-5, 2e-5, torch.finfo(torch.float32).eps)),
    known("eps-clamped",
          "This fits eps as a lower bound, as clamp or max give it. Expected "
          "a sum inside the root.",
          {"(var + 1e-5)": "var.clamp(min=1e-5)"},
          {"(var + 1e-5).sqrt()": "var.sqrt().clamp(min=1e-5)"}),
    known("eps-twice",
          "This fits eps inside the root and once more outside. Expected it "
          "inside alone.",
          {"(var + 1e-5).sqrt()": "((var + 1e-5).sqrt() + 1e-5)"}),
    known("eps-subtracted",
          "This fits an eps that is subtracted inside the root. Rows of tiny "
          "numbers become NaN.",
          {"var + 1e-5": "var - 1e-5"}),
]  # fmt: skip
SCALE = [
    known("scale-unused",
          "The check set scale to numbers other than 1, and nothing in the "
          "output follows them. Is scale used in forward?",
          {"scale * n": "n"}),
    known("scale-added",
          "This fits a sum with scale. Expected a product.",
          {"scale * n": "scale + n"}),
    known("scale-divides",
          "This fits a division by scale. Expected a product.",
          {"scale * n": "n / scale"}),
    known("scale-plus-one",
          "This fits 1 + scale as the factor. Expected scale itself, which "
          "starts as ones.",
          {"scale * n": "(1 + scale) * n"}),
]  # fmt: skip
KEPT, LOST = "(-1, keepdim=True", "(-1"
LAYER_MISTAKES = [
    _keepdim_missing({"mean" + KEPT: "mean" + LOST},
                     {"var" + KEPT: "var" + LOST},
                     {"mean" + KEPT: "mean" + LOST,
                      "var" + KEPT: "var" + LOST}),
    known("not-normalized",
          "This fits rows from which nothing is subtracted and that nothing "
          "divides.",
          {"(x - mean) / (var + 1e-5).sqrt()": "x"}),
    known("rms-norm",
          "This fits RMSNorm (exercise 2): no mean is subtracted, neither in "
          "the variance nor from the row.",
          {VAR: MEAN_SQUARE, "(x - mean)": "x"}),
    *_wrong_axes({"mean and variance": ["mean(-1", "var(-1"],
                  "the mean alone": ["mean(-1"],
                  "the variance alone": ["var(-1"]}),
    known("whole-tensor",
          "This fits distances from each row's mean whose squares are "
          "averaged over the whole tensor, into one variance. Expected one "
          "variance for each row.",
          {VAR: "(x - mean).square().mean()"}),
    *DIVIDE,
    known("bracket-missing",
          "This fits a mean that is divided, and then subtracted from "
          "numbers that are not. Python divides before it subtracts: which "
          "difference should be divided?",
          {"(x - mean) /": "x - mean /"},
          {"scale * n": "scale * x - mean / (var + 1e-5).sqrt()"}),
    known("not-divided",
          "This fits rows that are not divided by anything: how widely they "
          "spread is still in the result.",
          {" / (var + 1e-5).sqrt()": ""}),
    known("mean-not-subtracted",
          "This fits rows from which no mean is subtracted before they are "
          "divided.",
          {"(x - mean)": "x"}),
    known("mean-added",
          "This fits a mean that is added. Look at its sign.",
          {"x - mean": "x + mean"}),
    known("median-for-mean",
          "This fits a row's median, its middle number, in place of its "
          "mean.",
          {"x.mean(-1, keepdim=True)": "x.median(-1, keepdim=True).values"}),
    known("biased-variance",
          "This fits a variance that is divided by n - 1 = 4; expected n = 5. "
          "Your normalized rows have variance 0.8, not 1. See step 2.",
          {"correction=0": "correction=1"}),
    known("variance-uncentered",
          "This fits the mean of the squared numbers as the variance. "
          "Expected the mean of the squared distances from the mean.",
          {VAR: MEAN_SQUARE}),
    known("sum-for-mean",
          "This fits the sum of the squared distances as the variance. "
          "Expected their average.",
          {VAR: f"x.shape[-1] * {VAR}"}),
    known("mean-absolute-deviation",
          "This fits the average absolute distance in place of the root of "
          "the average squared distance.",
          {VAR: "(x - mean).abs().mean(-1, True)", ".sqrt()": ""}),
    known("square-missing",
          "This fits distances under the root that are not squared.",
          {VAR: "(x - mean).abs().mean(-1, True)"},
          {VAR: "(x - mean).mean(-1, True)"}),
    known("square-of-mean",
          "This fits the square of the distances' mean, which is 0. Expected "
          "the mean of their squares: which of the two comes first?",
          {VAR: "(x - mean).mean(-1, keepdim=True).square()"}),
    *MISPLACED_EPS,
    *SCALE,
    known("scale-before-normalizing",
          "This fits scale and shift applied to the input, before it is "
          "normalized. The normalization removes most of them again.",
          {"mean = ": "x = scale * x + shift\nmean = ",
           "scale * n + shift": "n"}),
    known("shift-unused",
          "The check set shift to numbers other than 0, and nothing in the "
          "output follows them. Is shift used in forward?",
          {" + shift": ""}),
    known("scale-and-shift-unused",
          "The check set scale and shift to other numbers, and nothing in the "
          "output follows them. Are both used in forward?",
          {"scale * n + shift": "n"}),
    known("shift-scaled",
          "This fits a shift that is added first and then scaled as well. "
          "Look at the order, or at a bracket, in the last line.",
          {"n + shift": "(n + shift)"}),
    known("scale-shift-swapped",
          "This fits a product with shift and a sum with scale. Which of the "
          "two should stretch, and which move?",
          {"scale * n + shift": "shift * n + scale"}),
    known("shift-subtracted",
          "This fits a shift that is subtracted. Look at its sign.",
          {"+ shift": "- shift"}),
    known("shift-multiplied",
          "This fits a product with shift. Expected a sum.",
          {"+ shift": "* shift"}),
]  # fmt: skip
RMS_MISTAKES = [
    _keepdim_missing({KEPT: LOST}),
    known("not-normalized",
          "This fits rows that are not divided at all.",
          {"x / (var + 1e-5).sqrt()": "x"}),
    known("layer-norm",
          "This fits layer norm: the mean is subtracted. RMSNorm leaves the "
          "mean in.",
          {"var = ": "x = x - x.mean(-1, keepdim=True)\nvar = "}),
    *_wrong_axes({"the mean of the squares": ["mean(-1"]}),
    *DIVIDE,
    known("mean-subtracted",
          "This fits rows from which the mean is subtracted before they are "
          "divided. RMSNorm leaves the mean in.",
          {"n = x": "n = (x - x.mean(-1, True))"}),
    known("variance-for-mean-square",
          "This fits the variance under the root: squared distances from the "
          "mean. Expected the squares of the numbers themselves.",
          {MEAN_SQUARE: VAR}, {MEAN_SQUARE: "x.var(-1, keepdim=True)"}),
    known("norm-divided-by-n",
          "This fits the root of the sum of the squares, divided by n. "
          "Expected the root of their mean: is n inside the root or outside?",
          {"(var + 1e-5).sqrt()": "((5 * var).sqrt() / 5)"},
          {"(var + 1e-5).sqrt()": "((5 * var).sqrt() / 5 + 1e-5)"},
          {"(var + 1e-5)": "(var / 5 + 1e-5)"}),
    known("divided-by-n-minus-1",
          "This fits a sum of squares that is divided by n - 1 = 4; expected "
          "n = 5.",
          {MEAN_SQUARE: f"{MEAN_SQUARE} * 5 / 4"}),
    known("sum-for-mean",
          "This fits the sum of the squares under the root. Expected their "
          "mean.",
          {".mean(": ".sum("}),
    known("square-of-mean",
          "This fits the square of the mean. Expected the mean of the "
          "squares: which of the two comes first?",
          {MEAN_SQUARE: "x.mean(-1, keepdim=True).square()"}),
    known("square-missing",
          "This fits a mean under the root of numbers that are not squared.",
          {".square()": ""}, {".square()": ".abs()"}),
    known("mean-absolute-value",
          "This fits a division by the mean of the absolute values. Expected "
          "the root of the mean of the squares.",
          {".square()": ".abs()", ".sqrt()": ""}),
    *MISPLACED_EPS,
    *SCALE,
    known("scale-before-normalizing",
          "This fits scale applied to the input, before it is normalized.",
          {"var = ": "x = scale * x\nvar = ", "scale * n": "n"}),
]  # fmt: skip


def _layer_norm(solve):
    class MyLayerNorm(gptlib.LayerNorm):
        def forward(self, x):
            return solve(x, self.scale, self.shift)

    return MyLayerNorm


def _rms_norm(solve):
    class MyRMSNorm(torch.nn.Module):
        def __init__(self, emb_dim):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(emb_dim))

        def forward(self, x):
            return solve(x, self.scale)

    return MyRMSNorm


LAYER_NORM = Task(normalized, LAYER_MISTAKES, _layer_norm)
RMS_NORM = Task(divided_by_root_mean_square, RMS_MISTAKES, _rms_norm)


# --- the exercises ---------------------------------------------------------


@exercise(
    "Take one row on paper, as in steps 2 to 5. Which numbers of the row go "
    "into its mean, and by what is the sum of the squares divided?",
    "You need a mean and a variance for each row, with the last axis kept "
    "(length 1); the variance divides by n. Then subtract, divide, and use "
    "both parameters.",
    "In __init__: two nn.Parameter, of torch.ones and torch.zeros. In "
    "forward: x.var with correction=0 and keepdim=True, plus eps, then the "
    "root of that sum; the product with scale comes before the sum with "
    "shift.",
    task=LAYER_NORM,
)
def layer_norm(cls):
    """Values, parameters, eps, any number of axes, modes and gradients."""
    module = construct(cls, WIDTH, call=f"MyLayerNorm({WIDTH})")
    reading, remark = _reading(module, ["scale", "shift"])
    probes = _probes(module, LAYER_NORM, reading)
    compare(module, LAYER_NORM, probes, [reading], rescues=_single_row(module))
    check_written_out(module, AXES[3], TORCHS_OWN, "means and a root")
    check_manners(module, [probe.x for probe in probes])
    _check_cancellation(module, reading)
    _check_other_width(cls, LAYER_NORM, reading)
    return (
        "inputs with 1, 2, 3 and 4 axes agree with the reference to 4 digits. "
        f"Each row of {WIDTH} features gets mean 0 and variance 1 (divided "
        f"by n = {WIDTH}, eps = 1e-05 inside the root), then scale and "
        "shift; a constant row gives shift; gradients reach the input and "
        f"both parameters.{remark}"
    )


@exercise(
    "Read the formula from the inside out: what happens to each number of "
    "a row first, before anything is averaged?",
    "Unlike layer norm, nothing is subtracted. You need one number for each "
    "row: the mean of the squares, with the last axis kept.",
    "In forward: x.square().mean with dim=-1 and keepdim=True gives the mean "
    "square. Add eps, take the root, divide x by it, multiply by scale.",
    task=RMS_NORM,
)
def rms_norm(cls):
    """Values, the one parameter, eps, axes, modes and gradients."""
    module = construct(cls, WIDTH, call=f"MyRMSNorm({WIDTH})")
    reading, remark = _reading(module, ["scale"])
    probes = _probes(module, RMS_NORM, reading)
    compare(module, RMS_NORM, probes, [reading], rescues=_single_row(module))
    check_written_out(module, AXES[3], TORCHS_OWN, "means and a root")
    check_manners(module, [probe.x for probe in probes])
    _check_other_width(cls, RMS_NORM, reading)
    return (
        "inputs with 1, 2, 3 and 4 axes agree with the reference to 4 digits. "
        f"Each row of {WIDTH} features is divided by its root mean square "
        f"(eps = 1e-05 inside the root) and scaled, its mean kept; a row "
        "of zeros stays zero; gradients reach the input and "
        f"scale.{remark}"
    )


# --- parameters ----------------------------------------------------------


def _reading(module, roles):
    """Role → parameter, set to `SETTINGS`; and a remark on their names."""
    parameters = dict(module.named_parameters())
    found = {}
    for role in roles:
        name = _name_of(role, parameters)
        if name:
            found[role] = (name, parameters.pop(name))
    missing = [role for role in roles if role not in found]
    if missing:
        _blame_missing(module, missing)
    if parameters:
        _blame_extra(parameters, roles)
    for role, (name, parameter) in found.items():
        _check_start(role, name, parameter)
        with torch.no_grad():
            parameter.copy_(SETTINGS[role])
    names = [name.split(".")[-1] for name, _ in found.values()]
    remark = (
        f" A remark: your parameters are called {' and '.join(names)}; these "
        f"notebooks look for {' and '.join(roles)}."
    )
    reading = {role: parameter for role, (_, parameter) in found.items()}
    return reading, "" if names == roles else remark


def _name_of(role, parameters):
    """The parameter's name: one of the role's, or else one of the learner's
    own whose parameter starts as the role's does."""
    for known_name in NAMES[role]:
        for name in parameters:
            if name.split(".")[-1] == known_name:
                return name
    taken = sum(NAMES.values(), ())
    for name, parameter in parameters.items():
        free = name.split(".")[-1] not in taken
        fits = parameter.shape == (WIDTH,)
        if free and fits and (parameter == START[role]).all():
            return name
    return None


def _blame_missing(module, missing):
    plain = [
        name
        for role in missing
        for name in NAMES[role]
        if getattr(module, name, None) is not None
    ]
    if plain:
        kind = type(getattr(module, plain[0])).__name__
        raise Mistake(
            "not-registered",
            f"Found {' and '.join(plain)} in your module, as a {kind} that "
            "parameters() does not list. Training would never change it. "
            "Look at what wraps the tensor in __init__.",
        )
    listed = [name for name, _ in module.named_parameters()]
    raise Mistake(
        "-and-".join(missing) + "-missing",
        f"Parameters found: {', '.join(listed) or 'none'}. Expected "
        f"{' and '.join(missing)}, with one number for each feature. Look at "
        "__init__.",
    )


def _blame_extra(parameters, roles):
    shift = "shift" not in roles and _name_of("shift", parameters)
    raise Mistake(
        "shift-not-asked" if shift else "extra-parameters",
        f"Besides {' and '.join(roles)}, your module trains "
        f"{', '.join(parameters)}. Expected no other parameters.",
    )


def _check_start(role, name, parameter):
    if tuple(parameter.shape) != (WIDTH,):
        raise Mistake(
            "parameter-shape",
            f"{name} has shape {tuple(parameter.shape)} with emb_dim={WIDTH}; "
            f"expected ({WIDTH},), one number for each feature.",
        )
    if not parameter.requires_grad:
        raise Mistake(
            "not-trainable",
            f"{name} is a parameter with requires_grad=False, so training "
            "leaves it as it is. Expected requires_grad=True.",
        )
    wrong = parameter[parameter != START[role]]
    if wrong.numel():
        start = "ones" if START[role] else "zeros"
        raise Mistake(
            f"{role}-not-{start}",
            f"A new module's {name} holds {number(wrong[0])}; expected "
            f"{start} alone, so that training starts from the plain "
            "normalized rows.",
        )


# --- inputs ----------------------------------------------------------------


def _rows(*shape):
    """Rows of unlike size and offset; two so tiny that eps shows."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    rows = x.view(-1, shape[-1])
    sizes = [1, 3e-3, 3, 1e-5, 0.5, 2]
    offsets = [0.5, 0, -2, 0, 3, -1]
    for i, row in enumerate(rows):
        row *= sizes[i % 6]
        row += offsets[i % 6]
    return x


# Narrow (so that n - 1 shows), not square, no two axes equally long.
AXES = {2: _rows(4, WIDTH), 3: _rows(2, 3, WIDTH), 4: _rows(1, 2, 3, WIDTH)}
PROBES = [
    Probe(AXES[3], "wrong-values",
          "Calculate this row of features by hand, step by step, and "
          "compare."),
    *(Probe(x, "shape-dependent",
            "With shape (2, 3, 5) it is right. What in forward goes by the "
            "number of axes, or by how long one is?")
      for x in (AXES[2], AXES[4])),
    Probe(-AXES[2].flip(0), "remembers-calls",
          "Another input of this shape is right. Is something kept from an "
          "earlier call, or left to the numbers?"),
    Probe(torch.tensor([[0.0], [0.25], [-0.5]]).repeat(1, WIDTH),
          "constant-rows",
          "In this row, all numbers are alike. What keeps the divisor away "
          "from 0?"),
    Probe(AXES[2][1], "only-2d-and-more",
          "Rows of a table are right; this one, without other axes, is not."),
]  # fmt: skip


def _probes(module, task, reading):
    """The probes; in front of them a square, if nothing else runs.

    Raises:
        Mistake: it is right for some numbers of axes, and stops for others.
    """
    errors, right = {}, []
    for n, x in AXES.items():
        try:
            output = run(module, x, x.shape)
        except NotImplementedError:
            raise  # a stub, whatever stands around it
        except (RuntimeError, IndexError, ValueError) as error:
            what = f"{type(error).__name__}: {error}"
            errors[n] = f"An input of shape {tuple(x.shape)} raises {what}."
            continue
        if same(output, task.solution(x, **reading)):
            right.append(n)
    if errors and right:
        raise Mistake(
            "only-" + "-and-".join(f"{n}d" for n in right),
            f"Your module is right for {' and '.join(map(str, right))} axes. "
            f"{next(iter(errors.values()))} Which axis holds the features, "
            "however many axes there are?",
        )
    square = _rows(WIDTH, WIDTH)
    if len(errors) < len(AXES) or not runs(run, module, square, square.shape):
        return PROBES[:-1] if errors else PROBES
    says = (
        f"{errors[2]} Has an average lost its axis, or is a sum, or a "
        "product such as `@`, taken along an axis that should stay?"
    )
    return [Probe(square, "square-only", says), *PROBES[:-1]]


def _single_row(module):
    return [
        (partial(runs, module, AXES[2]), "only-2d-and-more",
         f"Tables of rows are right; a single row, of shape {(WIDTH,)}, "
         "raises an error. Which axis holds the features, however many axes "
         "there are?"),
    ]  # fmt: skip


def _check_other_width(cls, task, reading):
    width = WIDTH + 3
    module, x = cls(width), _rows(2, 3, width)
    shapes = {tuple(p.shape) for p in module.parameters()}
    start = {role: torch.full((width,), START[role]) for role in reading}
    expected = task.solution(x, **start)
    if shapes != {(width,)} or not same(module(x.clone()), expected):
        raise Mistake(
            "width-hardcoded",
            f"It is right for emb_dim={WIDTH}, but not for emb_dim={width}. "
            "Is there a number in your code that should follow emb_dim?",
        )


def _check_cancellation(module, reading):
    """Rows far from 0: float32 is left with few digits of what differs."""
    x = torch.tensor([[0.0, 2, -1, 1, -2], [1, -2, 2, 0, -1]]) + 10_000
    expected = normalized(x, **reading)
    output = module.eval()(x.clone())
    if same(output, expected, atol=0.05):  # sums round in several ways
        return
    seen = f"Of rows from 9998 to 10002: {difference(output, expected)}"
    exact = copy.deepcopy(module).double()(x.double())
    if not same(exact, expected, atol=0.05):
        raise Mistake(
            "wrong-values",
            f"{seen} Rows that lie closer to 0 are right.",
        )
    raise Mistake(
        "cancellation",
        f"{seen} In float64, with twice the digits, it is right. So digits "
        "get lost, as in the mean of the squares minus the squared mean: of "
        "two huge numbers, float32 keeps none for what they differ by. "
        "Subtract the mean first, then square.",
    )


# --- faulty norms ----------------------------------------------------------
#
# What a probe is tried on: modules of the same name, parameters and shapes
# that differ in what they compute. A kind maps to what makes the function of
# one new module, for a kind that remembers.

CALL = "my_norm_is_right(norm, 6)"
WIDTHS = 6, 3, 768  # GPT-2's: there n - 1 differs least from n
RIGHT = "right", "right-in-double"


WRITTEN_OUT = LAYER_NORM.edited()
N_MINUS_1 = LAYER_NORM.edited({"correction=0": "correction=1"})
EPS_OUTSIDE = LAYER_NORM.edited({"(var + 1e-5).sqrt()": "(var.sqrt() + 1e-5)"})


def _in_double():
    return lambda x, *ends: WRITTEN_OUT(x.double(), *ends).to(x.dtype)


def _axis_by_length():
    def solve(x, scale, shift):
        axis = x.shape.index(len(scale))  # the first one that is as long
        n = WRITTEN_OUT(x.movedim(axis, -1), 1, 0).movedim(-1, axis)
        return scale * n + shift

    return solve


def _remembering():
    kept = {}

    def solve(x, scale, shift):
        mean, var = kept.setdefault(
            x.shape,
            (x.mean(-1, True).detach(),
             x.var(-1, keepdim=True, correction=0).detach()),
        )  # fmt: skip
        return scale * (x - mean) / (var + 1e-5).sqrt() + shift

    return solve


NORMS = {
    "right": lambda: WRITTEN_OUT,
    "n-minus-1": lambda: N_MINUS_1,
    "right-in-double": _in_double,
    "axis": _axis_by_length,
    "eps": lambda: EPS_OUTSIDE,
    "memory": _remembering,
}
FAULTS = [kind for kind in NORMS if kind not in RIGHT]
IS = {
    "right": "that is right",
    "right-in-double": "that is right, and whose last digits differ from "
    "torch's, as another order of adding makes them",
    "n-minus-1": "that divides by n - 1",
    "eps": "with eps outside the root",
    "axis": "that looks for its axis by its length",
    "memory": "that keeps the mean and variance of an earlier input",
}


def is_right(kind, width):
    return kind in RIGHT


def _takes_for_right(*kinds, where="True"):
    """Edit: these kinds pass, too, at such widths."""
    return {"in RIGHT": f"in (*RIGHT, *({kinds!r} if {where} else ()))"}


MISSED = {
    "n-minus-1": "By which factor do its outputs differ from right ones? Is "
    "that more than the difference that you allow?",
    "eps": "On most rows eps makes no difference. For which rows does it?",
    "axis": "What must the shape of an input be like, so that a search by "
    "length finds the wrong axis?",
    "memory": "Its first answer for inputs of a shape is right. How many "
    "inputs of one shape does your test try?",
}
STRICT = (
    "Right norms round in several ways. Does your test allow for last digits "
    "that differ, and for nothing but what a right norm does?"
)
FIXED_WIDTH = "Is there a number in your test that should follow emb_dim?"
PROBE_MISTAKES = [
    known("always-true",
          "Every norm gets this answer, faulty ones too. Which of your inputs "
          "tells two of them apart?",
          {"kind in RIGHT": "True"}),
    known("always-false",
          "Every norm gets this answer, right ones too. Does your test allow "
          "for last digits that differ, and ask for nothing but what a right "
          "norm does?",
          {"kind in RIGHT": "False"}),
    known("answer-inverted",
          "Faulty norms get True and right ones False; asked is whether a "
          "norm is right.",
          {"kind in": "kind not in"}),
    known("width-hardcoded",
          f"Right norms of {WIDTHS[0]} features pass, and none of another "
          f"width. {FIXED_WIDTH}",
          {"in RIGHT": f"in RIGHT and width == {WIDTHS[0]}"}),
    known("right-blamed", STRICT,
          {"in RIGHT": "== 'right'"}, {"in RIGHT": "== 'right-in-double'"},
          *({"in RIGHT": f"in RIGHT and width {where}"}
            for where in ("< 768", "< 6", "> 3", "> 6"))),
    known("wide-missed",
          "Narrower norms of this kind are found. The wider a row, the less "
          "n - 1 differs from n: is the difference that you allow small "
          "enough?",
          _takes_for_right("n-minus-1", where="width == 768"),
          _takes_for_right("n-minus-1", where="width > 3")),
    *(known(f"{kind}-missed", MISSED[kind], _takes_for_right(kind))
      for kind in FAULTS),
    known("several-missed",
          "Norms with other faults pass as well. Take the four faults one "
          "after another: for which input does each give another result "
          "than a right norm?",
          *(_takes_for_right(*kinds)
            for n in (2, 3) for kinds in combinations(FAULTS, n)),
          *({"in RIGHT": f"in (*RIGHT, *{kinds!r}) or kind == 'n-minus-1' "
                         "and width == 768"}
            for n in (1, 2, 3) for kinds in combinations(FAULTS[1:], n))),
]  # fmt: skip


def _probe(solve):
    """Finds a norm's kind by what it computes, and answers as told."""

    def kind_of(norm, emb_dim):
        rows = 5 + torch.randn(4, emb_dim)
        tries = {
            "n-minus-1": (rows, 1e-3),
            "memory": (rows + 1, 1e-3),
            "eps": (1e-3 * rows[:2], 1e-2),
            "axis": (torch.randn(emb_dim, emb_dim), 1e-2),
            "right-in-double": (1e3 + rows[:3], 0),
        }
        for kind, (x, atol) in tries.items():
            if (norm(x) - WRITTEN_OUT(x, 1, 0)).abs().max() > atol:
                return kind
        return "right"

    return lambda norm, emb_dim: solve(kind_of(norm, emb_dim), emb_dim)


FAULTY_NORMS = Task(is_right, PROBE_MISTAKES, _probe)


@exercise(
    "Take the four faults one after another. For which input does each give "
    "numbers that a right norm would never give?",
    "A right norm is at hand, to compare with. One input is not enough: you "
    "need tiny numbers for one fault, a special shape for another, and two "
    "inputs of one shape for a third.",
    "Try rows of usual size, the same rows times 0.001, the same rows plus 3, "
    "and a square table of emb_dim rows. Return whether the largest distance "
    "from nn.LayerNorm(emb_dim), over all of them, is below 1e-4.",
    task=FAULTY_NORMS,
)
def faulty_norms(fn):
    """Right norms pass, and each fault is found, at several widths."""
    check_signature(fn, None, 6, call=CALL)
    cases = [(kind, width) for width in WIDTHS for kind in NORMS]
    judge(partial(_asked, fn), FAULTY_NORMS, cases, _seen, _otherwise)
    return (
        f"your test gave the right answer on {len(cases)} new norms, "
        f"{', '.join(map(str, WIDTHS[:-1]))} and {WIDTHS[-1]} features wide: "
        "it finds n - 1, eps outside the root, the axis sought by its length "
        "and the kept numbers, and lets norms pass that only round otherwise."
    )


def _asked(fn, kind, width):
    """The answer for a new norm: True or False, or such a tensor."""
    norm = _layer_norm(NORMS[kind]())(width)
    type(norm).__name__ = type(norm).__qualname__ = "LayerNorm"
    try:
        answer = returned(fn, norm, width)
    except NotImplementedError:
        raise  # a stub, whatever stands around it
    except (RuntimeError, IndexError, ValueError) as error:
        raise rescued(error, _other_width(fn, kind, width)) from None
    if getattr(answer, "ndim", None) == 0:
        answer = answer.item()
    if isinstance(answer, bool):
        return answer
    shape = getattr(answer, "shape", None)
    told = "" if shape is None else f" of shape {tuple(shape)}"
    raise Mistake(
        "wrong-type",
        f"The answer is of type {type(answer).__name__}{told}; expected True "
        "or False, one for the whole norm.",
    )


def _other_width(fn, kind, width):
    """What an error means if the same runs at the first of the widths."""
    if width == WIDTHS[0]:
        return []
    says = (
        f"With a norm of {WIDTHS[0]} features, your test runs; with one of "
        f"{width}, it stops. {FIXED_WIDTH}"
    )
    first = partial(runs, _asked, fn, kind, WIDTHS[0])
    return [(first, "width-hardcoded", says)]


def _seen(case, outcome, right):
    kind, width = case
    return (
        f"A norm of {width} features {IS[kind]}: your answer is "
        f"{outcome.result}; expected {right.result}."
    )


def _otherwise(case, outcome, right):
    """Some of this kind are judged wrongly, and not all."""
    kind, _ = case
    if kind in RIGHT:
        return "right-blamed", STRICT
    return f"{kind}-missed", MISSED[kind]
