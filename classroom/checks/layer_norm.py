"""Checks of notebook 02: layer normalization and RMSNorm."""

from itertools import combinations

import torch

from classroom.checks.guard import exercise
from classroom.checks.probes import (
    Known,
    blame,
    construct,
    difference,
    expect_tensor,
    explain,
    gradients,
    same,
)
from classroom.checks.result import Mistake

EPS = 1e-5
WIDTH = 5
# Narrow (so that n - 1 shows), not square, no two axes equally long.
SHAPES = {2: (4, WIDTH), 3: (2, 3, WIDTH), 4: (2, 2, 3, WIDTH)}
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
)
def layer_norm(cls):
    """Values, parameters, eps, any number of axes, modes and gradients."""
    remark = _check_norm(cls, "MyLayerNorm", LAYER_STEPS, LAYER_KNOWN)
    return (
        "inputs with 2, 3 and 4 axes agree with the reference to 4 digits. "
        f"Each row of {WIDTH} features gets mean 0 and variance 1 (divided "
        f"by n = {WIDTH}, eps = {EPS:g} inside the root), then scale and "
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
)
def rms_norm(cls):
    """Values, the one parameter, eps, axes, modes and gradients."""
    remark = _check_norm(cls, "MyRMSNorm", RMS_STEPS, RMS_KNOWN)
    return (
        "inputs with 2, 3 and 4 axes agree with the reference to 4 digits. "
        f"Each row of {WIDTH} features is divided by its root mean square "
        f"(eps = {EPS:g} inside the root) and scaled, its mean kept; a row "
        "of zeros stays zero; gradients reach the input and "
        f"scale.{remark}"
    )


def _check_norm(cls, name, steps, known):
    module = construct(cls, WIDTH, call=f"{name}({WIDTH})")
    roles = ("scale", "shift") if steps is LAYER_STEPS else ("scale",)
    found = _parameters(module, roles)
    with torch.no_grad():
        for role, (_, parameter) in found.items():
            parameter.copy_(SETTINGS[role])
    _check_repeats(module)
    _check_values(module, steps, known)
    _check_constant_rows(module, steps)
    _check_gradients(module, steps, found)
    _check_other_width(cls, steps)
    return _remark_on_names({role: found[role][0] for role in roles})


def _remark_on_names(names):
    if all(role == name.split(".")[-1] for role, name in names.items()):
        return ""
    return (
        f" A remark: your parameters are called {' and '.join(names.values())}"
        f"; these notebooks look for {' and '.join(names)}."
    )


# --- parameters ----------------------------------------------------------


def _parameters(module, roles):
    """Role → (name, parameter), each as it should be at the start."""
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
    return found


def _name_of(role, parameters):
    """The parameter with one of the role's names, or else its start."""
    for known in NAMES[role]:
        for name in parameters:
            if name.split(".")[-1] == known:
                return name
    others = sum(NAMES.values(), ())
    for name, parameter in parameters.items():
        fits = parameter.shape == (WIDTH,) and name not in others
        if fits and (parameter == START[role]).all():
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
            "not-parameters",
            f"{' and '.join(plain)} of your module: found a {kind}, which "
            "parameters() does not list. Training would never change it. "
            "Look at what wraps the tensor in __init__.",
        )
    raise Mistake(
        "-and-".join(missing) + "-missing",
        f"Your module has no parameter {' and no '.join(missing)}: "
        f"named_parameters() lists {len(list(module.parameters()))} in all. "
        f"Expected one number a feature in each; look at __init__.",
    )


def _blame_extra(parameters, roles):
    only_scale = roles == ("scale",)
    shift = only_scale and _name_of("shift", parameters)
    raise Mistake(
        "shift-not-asked" if shift else "extra-parameters",
        f"Besides {' and '.join(roles)}, your module trains "
        f"{', '.join(parameters)}. Expected {len(roles)} parameter"
        f"{'' if only_scale else 's'} in all.",
    )


def _check_start(role, name, parameter):
    if tuple(parameter.shape) != (WIDTH,):
        raise Mistake(
            "parameter-shape",
            f"{name} has shape {tuple(parameter.shape)} with emb_dim={WIDTH}; "
            f"expected ({WIDTH},): one number a feature.",
        )
    if not parameter.requires_grad:
        raise Mistake(
            "not-trainable",
            f"{name} is a parameter with requires_grad=False, so training "
            "leaves it as it is. Expected requires_grad=True.",
        )
    if not (parameter == START[role]).all():
        start = "ones" if START[role] else "zeros"
        raise Mistake(
            f"{role}-not-{start}",
            f"A new module's {name} starts with "
            f"{float(parameter.flatten()[0]):.4g}; expected all {start}, so "
            "that training starts from the plain normalized rows.",
        )


# --- what the norms compute, and what mistakes make of it -----------------


def _compute(steps, x, scale=SETTINGS["scale"], shift=SETTINGS["shift"]):
    """A norm in steps, each of which a `Known` mistake may replace."""
    x = steps["before"](x, scale, shift)
    mean = x.mean(steps["mean_over"], keepdim=True)
    spread = steps["spread"](x, steps["spread_over"])
    normalized = steps["divide"](steps["center"](x, mean), spread)
    return steps["affine"](normalized, scale, shift)


def _mean_square(x, over):
    return x.square().mean(over, keepdim=True)


def _variance(x, over):
    return _mean_square(x - x.mean(over, keepdim=True), over)


def _sum_of_squares(x, over):
    return (x - x.mean(over, keepdim=True)).square().sum(over, keepdim=True)


def _mean_distance(x, over):
    distances = x - x.mean(over, keepdim=True)
    return distances.abs().mean(over, keepdim=True)


LAYER_STEPS = {
    "before": lambda x, scale, shift: x,
    "mean_over": -1,
    "spread_over": -1,
    "spread": _variance,
    "center": lambda x, mean: x - mean,
    "divide": lambda x, spread: x / (spread + EPS).sqrt(),
    "affine": lambda x, scale, shift: scale * x + shift,
}
RMS_STEPS = LAYER_STEPS | {
    "spread": _mean_square,
    "center": lambda x, mean: x,
    "affine": lambda x, scale, shift: scale * x,
}


def _known(name, says, **changes):
    return Known(name, says, changes)


def _other_eps(eps):
    return _known(
        "eps-value",
        f"This fits eps = {eps:g}; expected {EPS:g}. Rows with a tiny "
        "variance show it.",
        divide=lambda x, spread: x / (spread + eps).sqrt(),
    )


def _eps_outside(eps):
    return _known(
        "eps-outside-root",
        f"This fits an eps of {eps:g} that is added after the root is taken. "
        "Which sum should stand inside the root?",
        divide=lambda x, spread: x / (spread.sqrt() + eps),
    )


DIVIDE = [
    _known(
        "root-missing",
        "This fits a division by the variance itself. It has squared units; "
        "what brings it back to the units of the row?",
        divide=lambda x, spread: x / (spread + EPS),
    ),
    _known(
        "root-missing",
        "This fits a division by the variance itself, without eps. It has "
        "squared units; what brings it back to the units of the row?",
        divide=lambda x, spread: x / spread,
    ),
    _known(
        "std-for-variance",
        "This fits a root of a root: a standard deviation stands where the "
        "variance should, and the root is taken once more.",
        divide=lambda x, spread: x / (spread.sqrt() + EPS).sqrt(),
    ),
    _known(
        "std-for-variance",
        "This fits a root of a root, without eps: a standard deviation "
        "stands where the variance should.",
        divide=lambda x, spread: x / spread.sqrt().sqrt(),
    ),
    _known(
        "not-divided",
        "This fits rows that are not divided by anything: how widely they "
        "spread is still in the result.",
        divide=lambda x, spread: x,
    ),
    _known(
        "multiplied-by-root",
        "This fits a product with the root where a quotient should be.",
        divide=lambda x, spread: x * (spread + EPS).sqrt(),
    ),
]
MISPLACED_EPS = [
    _known(
        "eps-missing",
        "This fits a root without eps, or with one that is far too small "
        "or added elsewhere. Rows with a tiny variance show it; a constant "
        "row would be 0 / 0.",
        divide=lambda x, spread: x / spread.sqrt(),
    ),
    *[_eps_outside(eps) for eps in (1e-5, 1e-6, 1e-8, 1e-3, 1e-4, 1e-2)],
    *[
        _other_eps(eps)
        for eps in (
            1e-6, 1e-8, 1e-12, 1e-3, 1e-4, 1e-7, 1e-2, 1e-1, 1.0, 1e-9,
            1e-10, 5e-6, 5e-5, 2e-5, torch.finfo(torch.float32).eps,
        )
    ],
    _known(
        "eps-clamped",
        "This fits eps as a lower bound of the root's content. Expected it "
        "as a summand.",
        divide=lambda x, spread: x / spread.clamp(min=EPS).sqrt(),
    ),
    _known(
        "eps-clamped",
        "This fits eps as a lower bound of the root. Expected it as a "
        "summand inside the root.",
        divide=lambda x, spread: x / spread.sqrt().clamp(min=EPS),
    ),
    _known(
        "eps-twice",
        "This fits eps inside the root and once more outside.",
        divide=lambda x, spread: x / ((spread + EPS).sqrt() + EPS),
    ),
    _known(
        "eps-subtracted",
        "This fits an eps that is subtracted inside the root, where rows "
        "with a tiny variance become NaN.",
        divide=lambda x, spread: x / (spread - EPS).sqrt(),
    ),
]  # fmt: skip
AFFINE = [
    _known(
        "scale-unused",
        "The check set scale to numbers other than 1, and nothing in the "
        "output follows them. Is scale used in forward?",
        affine=lambda x, scale, shift: x + shift,
    ),
    _known(
        "shift-unused",
        "The check set shift to numbers other than 0, and nothing in the "
        "output follows them. Is shift used in forward?",
        affine=lambda x, scale, shift: scale * x,
    ),
    _known(
        "scale-and-shift-unused",
        "The check set scale and shift to other numbers, and nothing in the "
        "output follows them. Are both used in forward?",
        affine=lambda x, scale, shift: x,
    ),
    _known(
        "shift-scaled",
        "This fits a shift that is added first and then scaled as well. "
        "Look at the order, or at a bracket, in the last line.",
        affine=lambda x, scale, shift: scale * (x + shift),
    ),
    _known(
        "scale-shift-swapped",
        "This fits a product with shift and a sum with scale. Which of the "
        "two should stretch, and which move?",
        affine=lambda x, scale, shift: shift * x + scale,
    ),
    _known(
        "scale-added",
        "This fits a scale that is added. Expected a factor.",
        affine=lambda x, scale, shift: x + scale + shift,
    ),
    _known(
        "shift-subtracted",
        "This fits a shift that is subtracted. Look at its sign.",
        affine=lambda x, scale, shift: scale * x - shift,
    ),
    _known(
        "shift-multiplied",
        "This fits a shift that is a factor. Expected a summand.",
        affine=lambda x, scale, shift: scale * x * shift,
    ),
    _known(
        "scale-divides",
        "This fits a division by scale. Expected a factor.",
        affine=lambda x, scale, shift: x / scale + shift,
    ),
    _known(
        "scale-plus-one",
        "This fits 1 + scale as the factor. Expected scale itself, which "
        "starts as ones.",
        affine=lambda x, scale, shift: (1 + scale) * x + shift,
    ),
    _known(
        "scale-before-normalizing",
        "This fits scale and shift applied to the input, before it is "
        "normalized. The normalization removes most of them again.",
        before=lambda x, scale, shift: scale * x + shift,
        affine=lambda x, scale, shift: x,
    ),
]
LAYER_KNOWN = [
    _known(
        "not-normalized",
        "This fits rows that are neither centered nor divided.",
        center=lambda x, mean: x,
        divide=lambda x, spread: x,
    ),
    _known(
        "rms-norm",
        "This fits RMSNorm (exercise 2): no mean is subtracted, neither in "
        "the variance nor from the row.",
        center=lambda x, mean: x,
        spread=_mean_square,
    ),
    *DIVIDE,
    _known(
        "mean-not-subtracted",
        "This fits rows from which no mean is subtracted before they are "
        "divided.",
        center=lambda x, mean: x,
    ),
    _known(
        "mean-added",
        "This fits a mean that is added. Look at its sign.",
        center=lambda x, mean: x + mean,
    ),
    _known(
        "median-for-mean",
        "This fits the row's median, the middle number, in place of its mean.",
        center=lambda x, mean: x - x.median(-1, keepdim=True).values,
    ),
    _known(
        "biased-variance",
        f"This fits a variance divided by n - 1 = {WIDTH - 1}; expected by "
        f"n = {WIDTH}. Your normalized rows have variance "
        f"{(WIDTH - 1) / WIDTH:g}, not 1. See step 4.",
        spread=lambda x, over: x.var(over, correction=1, keepdim=True),
    ),
    _known(
        "variance-uncentered",
        "This fits the mean of the squared numbers as the variance. "
        "Expected the mean of the squared distances from the mean.",
        spread=_mean_square,
    ),
    _known(
        "sum-for-mean",
        "This fits the sum of the squared distances as the variance. "
        "Expected their average.",
        spread=_sum_of_squares,
    ),
    _known(
        "mean-absolute-deviation",
        "This fits the average absolute distance in place of the root of "
        "the average squared distance.",
        spread=_mean_distance,
        divide=lambda x, spread: x / (spread + EPS),
    ),
    _known(
        "square-missing",
        "This fits absolute distances under the root. Expected squared ones.",
        spread=_mean_distance,
    ),
    _known(
        "square-missing",
        "This fits a variance of 0 in each row: are the distances squared "
        "before they are averaged?",
        spread=lambda x, over: (x - x.mean(over, keepdim=True)).mean(
            over, keepdim=True
        ),
    ),
    *MISPLACED_EPS,
    *AFFINE,
]
RMS_KNOWN = [
    _known(
        "not-normalized",
        "This fits rows that are not divided at all.",
        divide=lambda x, spread: x,
        center=lambda x, mean: x,
    ),
    _known(
        "layer-norm",
        "This fits layer norm: the mean is subtracted. RMSNorm leaves the "
        "mean in.",
        center=lambda x, mean: x - mean,
        spread=_variance,
    ),
    *DIVIDE,
    _known(
        "mean-subtracted",
        "This fits rows from which the mean is subtracted before they are "
        "divided. RMSNorm leaves the mean in.",
        center=lambda x, mean: x - mean,
    ),
    _known(
        "variance-for-mean-square",
        "This fits the variance under the root, squared distances from the "
        "mean. Expected the mean of the squared numbers themselves.",
        spread=_variance,
    ),
    _known(
        "variance-for-mean-square",
        "This fits the variance, divided by n - 1, under the root. Expected "
        "the mean of the squared numbers themselves.",
        spread=lambda x, over: x.var(over, correction=1, keepdim=True),
    ),
    _known(
        "divided-by-n-minus-1",
        f"This fits squares summed and divided by n - 1 = {WIDTH - 1}; "
        f"expected by n = {WIDTH}.",
        spread=lambda x, over: _mean_square(x, over) * WIDTH / (WIDTH - 1),
    ),
    _known(
        "sum-for-mean",
        "This fits the sum of the squares under the root. Expected their "
        "mean.",
        spread=lambda x, over: x.square().sum(over, keepdim=True),
    ),
    _known(
        "square-of-mean",
        "This fits the square of the mean. Expected the mean of the "
        "squares: which of the two comes first?",
        spread=lambda x, over: x.mean(over, keepdim=True).square(),
    ),
    _known(
        "square-missing",
        "This fits a mean under the root whose numbers are not squared.",
        spread=lambda x, over: x.mean(over, keepdim=True),
    ),
    _known(
        "square-missing",
        "This fits absolute values under the root. Expected squares.",
        spread=lambda x, over: x.abs().mean(over, keepdim=True),
    ),
    _known(
        "mean-absolute-value",
        "This fits a division by the mean absolute value. Expected the root "
        "of the mean square.",
        spread=lambda x, over: x.abs().mean(over, keepdim=True),
        divide=lambda x, spread: x / (spread + EPS),
    ),
    *MISPLACED_EPS,
    _known(
        "scale-unused",
        "The check set scale to numbers other than 1, and nothing in the "
        "output follows them. Is scale used in forward?",
        affine=lambda x, scale, shift: x,
    ),
    _known(
        "scale-added",
        "This fits a scale that is added. Expected a factor.",
        affine=lambda x, scale, shift: x + scale,
    ),
    _known(
        "scale-divides",
        "This fits a division by scale. Expected a factor.",
        affine=lambda x, scale, shift: x / scale,
    ),
    _known(
        "scale-plus-one",
        "This fits 1 + scale as the factor. Expected scale itself, which "
        "starts as ones.",
        affine=lambda x, scale, shift: (1 + scale) * x,
    ),
    _known(
        "scale-before-normalizing",
        "This fits scale applied to the input, before it is normalized.",
        before=lambda x, scale, shift: scale * x,
        affine=lambda x, scale, shift: x,
    ),
]


def _wrong_axes(axes):
    """Statistics over every choice of axes but the right one."""
    choices = [
        over
        for length in range(1, axes + 1)
        for over in combinations(range(axes), length)
        if over != (axes - 1,)
    ]
    for over in choices:
        whole = len(over) == axes
        name = "whole-tensor" if whole else "wrong-axis"
        which = "the whole tensor" if whole else _named_axes(over)
        for what, changes in {
            "mean and variance": ("mean_over", "spread_over"),
            "the mean alone": ("mean_over",),
            "the variance (or mean square) alone": ("spread_over",),
        }.items():
            yield Known(
                name,
                f"This fits {what} taken over {which}. Expected one number "
                f"for each row, over its features: axis {axes - 1}, the "
                "last, however many axes there are.",
                dict.fromkeys(changes, over),
            )


def _named_axes(over):
    return ("axis " if len(over) == 1 else "axes ") + " and ".join(
        map(str, over)
    )


# --- behavior ------------------------------------------------------------


def _rows(shape):
    """Rows of unlike size and offset; two so tiny that eps shows."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    rows = x.view(-1, shape[-1])
    sizes = [1, 3e-3, 3, 1e-5, 0.5, 2]
    offsets = [0.5, 0, -2, 0, 3, -1]
    for i, row in enumerate(rows):
        row *= sizes[i % 6]
        row += offsets[i % 6]
    return x


def _attempt(module, x):
    """The module's output, or the error that this input raises."""
    try:
        output = module(x)
    except NotImplementedError:
        raise  # a stub, whatever stands around it
    except (RuntimeError, IndexError, ValueError) as error:
        return error
    expect_tensor(output, x.shape)
    return output


def _check_repeats(module):
    """The same answer each time, in training and in evaluation mode."""
    x = _rows(SHAPES[3])
    trained = [_attempt(module.train(), x.clone()) for _ in range(2)]
    evaluated = [_attempt(module.eval(), x.clone()) for _ in range(2)]
    if any(isinstance(out, Exception) for out in trained + evaluated):
        return
    if not same(*evaluated, equal_nan=True):
        raise Mistake(
            "not-repeatable",
            "Two calls with the same input give two results. "
            f"{difference(evaluated[1], evaluated[0])} Expected the same.",
        )
    for output in trained:
        if not same(output, evaluated[0], equal_nan=True):
            raise Mistake(
                "mode-dependent",
                "Training mode gives another result than evaluation mode. "
                f"{difference(output, evaluated[0])} In both modes, a row's "
                "statistics come from that row alone; nothing is remembered "
                "or dropped.",
            )


def _check_values(module, steps, known):
    inputs = {axes: _rows(shape) for axes, shape in SHAPES.items()}
    given = {axes: x.clone() for axes, x in inputs.items()}
    outputs = {axes: _attempt(module, x) for axes, x in given.items()}
    errors = {
        axes: out
        for axes, out in outputs.items()
        if isinstance(out, Exception)
    }
    wrong = [
        axes
        for axes in (3, 2, 4)
        if axes not in errors
        and not same(outputs[axes], _compute(steps, inputs[axes]))
    ]
    right = [axes for axes in SHAPES if axes not in (*wrong, *errors)]
    if errors and right:
        _blame_number_of_axes(errors, right)
    if wrong:
        axes = wrong[0]
        _blame_values(outputs[axes], inputs[axes], steps, known)
    if errors:
        _blame_error(module, errors[2])
    for axes, x in given.items():
        if not torch.equal(x, inputs[axes]):
            raise Mistake(
                "input-overwritten",
                "After the call, the input itself has changed. "
                f"{difference(x, inputs[axes]).replace('output', 'input')} "
                "Look for an assignment such as -= that works in place.",
            )


def _blame_values(output, x, steps, known):
    found = explain(
        output,
        lambda **changes: _compute(steps | changes, x),
        [*_first_of(known), *_wrong_axes(x.dim()), *known],
    )
    blame(
        found,
        difference(output, _compute(steps, x)),
        "Compare your result for this row of features with a calculation by "
        "hand, step by step.",
    )


def _first_of(known):
    """What is wrong as a whole comes before what is wrong in one step."""
    return known[:2]


def _blame_number_of_axes(errors, right):
    axes, error = next(iter(errors.items()))
    raise Mistake(
        "only-" + "-and-".join(f"{axes}d" for axes in right),
        f"Your module is right for {' and '.join(map(str, right))} axes, but "
        f"an input of shape {SHAPES[axes]} raises {type(error).__name__}: "
        f"{error}. Which axis holds the features, however many axes there "
        "are?",
    )


def _blame_error(module, error):
    """Where only a square input runs, a lost axis is the cause."""
    square = _attempt(module, _rows((WIDTH, WIDTH)))
    if isinstance(square, Exception):
        raise error
    raise Mistake(
        "keepdim-missing",
        f"An input of shape {SHAPES[2]} raises {type(error).__name__}: "
        f"{error}. A square one, {(WIDTH, WIDTH)}, runs, and is wrong "
        "without a word. Compare the shapes of your mean and variance with "
        f"({SHAPES[2][0]}, 1).",
    )


def _check_constant_rows(module, steps):
    x = torch.zeros(3, WIDTH)
    x[1:] = torch.tensor([[2.0], [-4.0]])
    output, expected = module(x.clone()), _compute(steps, x)
    if same(output, expected, atol=1e-4):
        return
    name = "constant-rows" if output.isfinite().all() else "eps-missing"
    raise Mistake(
        name,
        "A row whose numbers are all alike has no spread. "
        f"{difference(output, expected)} What keeps the divisor away from 0?",
    )


def _check_gradients(module, steps, found):
    """Gradients as the formula's, through mean and variance as well."""
    x = torch.randn(SHAPES[3]) + 0.5
    factors = torch.randn(SHAPES[3])
    settings = [SETTINGS[role] for role in found]
    wants = [v.clone().requires_grad_() for v in (x, *settings)]
    expected = torch.autograd.grad(
        (_compute(steps, *wants) * factors).sum(), wants
    )
    x = x.clone().requires_grad_()
    output = module(x * 1)
    names = ["the input", *found]
    given = [x, *(parameter for _, parameter in found.values())]
    got = gradients((output * factors).sum(), given)
    for name, grad, want in zip(names, got, expected, strict=True):
        if grad is None or not same(grad, want, rtol=1e-3, atol=1e-4):
            seen = "none" if grad is None else difference(grad, want)
            raise Mistake(
                "gradient-detached",
                f"The values are right, but the gradient of {name} is not: "
                f"{seen.replace('output', 'gradient')} Look for detach, "
                "no_grad, .data or .item on the way through forward.",
            )


def _check_other_width(cls, steps):
    width = WIDTH + 3
    module = cls(width)
    shapes = {tuple(p.shape) for p in module.parameters()}
    x = _rows((2, 3, width))
    fresh = [torch.ones(width), torch.zeros(width)]
    expected = _compute(steps, x, *fresh)
    if shapes == {(width,)} and same(module(x.clone()), expected):
        return
    raise Mistake(
        "width-hardcoded",
        f"Right for emb_dim={WIDTH}, not for emb_dim={width}: is there a "
        f"number in your code that should follow emb_dim?",
    )
