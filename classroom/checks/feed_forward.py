"""Checks of notebook 03: GELU, the feed-forward network and SwiGLU."""

import math
from functools import partial

import torch
import torch.nn.functional as F

from classroom.checks.guard import exercise
from classroom.checks.probes import (
    Known,
    blame,
    construct,
    difference,
    expect_tensor,
    explain,
    gradients,
    number,
    same,
)
from classroom.checks.result import Mistake

ROOT = math.sqrt(2 / math.pi)
CUBIC = 0.044715
TIGHT = {"rtol": 1e-5, "atol": 1e-5}  # the exact form is 4.7e-4 away
BATCH, TOKENS = 2, 5


def _cfg(emb_dim):
    """A tiny configuration; its drop rate shows a dropout inside."""
    return {
        "vocab_size": 101,
        "context_length": 16,
        "emb_dim": emb_dim,
        "n_heads": 2,
        "n_layers": 3,
        "drop_rate": 0.5,
        "qkv_bias": False,
    }


def _known(name, says, **changes):
    return Known(name, says, changes)


# --- GELU ----------------------------------------------------------------


@exercise(
    "Try your module on 0, 1 and -1. The task's text says what comes out.",
    "It is a product: x, times a share between 0 and 1 of it. The share is "
    "half of one plus a tanh.",
    "The content of the tanh is math.sqrt(2 / math.pi) times a bracket; in "
    "the bracket stands x plus 0.044715 times its third power.",
)
def gelu(cls):
    """The tanh form on -6 … 6, far outside, any shape, and its slope."""
    module = construct(cls, call="MyGELU()")
    if list(module.parameters()):
        raise Mistake(
            "extra-parameters",
            f"Your module has {len(list(module.parameters()))} parameter(s); "
            "expected none. GELU has nothing to train.",
        )
    x = torch.linspace(-6, 6, 61)  # (points,)
    expected = _gelu(x)
    output = _called(module, x)
    if not same(output, expected, **TIGHT):
        _blame_gelu(output, expected, x)
    _check_far_out(module)
    _check_shapes(module)
    _check_slope(module)
    gap = (output.double() - expected).abs().max()
    return (
        "on 61 points from -6 to 6 your result is at most "
        f"{_small(float(gap))} away from the tanh form (the exact form: "
        "0.0004732). Far out, in other shapes and in its slope it agrees, "
        "too."
    )


def _small(gap):
    return "0.000001" if gap < 1e-6 else f"{gap:.1g}"


GELU_STEPS = {
    "outer": lambda x, share: x * share,
    "half": 0.5,
    "one": 1.0,
    "squash": torch.tanh,
    "inner": lambda x, root, bent: root * (x + bent),
    "root": ROOT,
    "cubic": CUBIC,
    "power": 3,
}


def _gelu(x, **changes):
    """The tanh form in steps, each of which a `Known` may replace."""
    steps = GELU_STEPS | changes
    x = x.double()
    bent = steps["cubic"] * x ** steps["power"]
    content = steps["squash"](steps["inner"](x, steps["root"], bent))
    return steps["outer"](x, steps["half"] * (steps["one"] + content))


def _instead(function):
    """The changes of a mistake that replaces the whole formula."""
    return GELU_STEPS | {"outer": lambda x, share: function(x)}


OTHER_CURVES = {
    "exact-form": (F.gelu, ""),
    "sigmoid-form": (
        lambda x: x * torch.sigmoid(1.702 * x),
        "the sigmoid form x · sigmoid(1.702 x), a coarser approximation",
    ),
    "silu": (F.silu, "SiLU, x · sigmoid(x)"),
    "relu": (torch.relu, "ReLU, max(0, x)"),
    "leaky-relu": (F.leaky_relu, "a leaky ReLU"),
    "elu": (F.elu, "ELU"),
    "mish": (F.mish, "Mish"),
    "softplus": (F.softplus, "softplus"),
    "tanh": (torch.tanh, "the plain tanh"),
    "sigmoid": (torch.sigmoid, "the plain sigmoid"),
    "no-activation": (lambda x: x, "no bend at all: x comes back unchanged"),
    "erf-without-root": (
        lambda x: 0.5 * x * (1 + torch.erf(x)),
        "the exact form whose x is not divided by the root of 2; and the "
        "tanh form was asked for",
    ),
    "exact-form-half-missing": (
        lambda x: 2 * F.gelu(x),
        "twice the exact form; the tanh form was asked for, with its ½",
    ),
}
EXACT = (
    "This is the exact form, x · Φ(x), and as such it is right. The tanh "
    "form was asked for: GPT-2 was trained with it."
)


def _wrong_constant(what, value, expected, **changes):
    return _known(
        "wrong-constant",
        f"This fits {value:g} as {what}; expected {expected}.",
        **changes,
    )


GELU_KNOWN = [
    *[
        _known(name, says and f"This fits {says}.", **_instead(function))
        for name, (function, says) in OTHER_CURVES.items()
    ],
    _known(
        "half-missing",
        "This fits a share that is twice as large: it should lie between 0 "
        "and 1. Which factor stands in front?",
        half=1.0,
    ),
    _known(
        "half-twice",
        "This fits a share that is halved twice.",
        half=0.25,
    ),
    _known(
        "x-missing",
        "This fits the share alone, without x.",
        outer=lambda x, share: share,
    ),
    _known(
        "one-missing",
        "This fits a share that runs from -½ to ½; expected from 0 to 1. "
        "What is added to the tanh?",
        one=0.0,
    ),
    _known(
        "sign-flipped",
        "This fits a tanh that is subtracted: negative numbers pass and "
        "positive ones don't. Look at the signs.",
        squash=lambda z: -torch.tanh(z),
    ),
    _known(
        "one-negative",
        "This fits a 1 that is subtracted. Look at the signs.",
        one=-1.0,
    ),
    _known(
        "tanh-missing",
        "This fits the content of the tanh without the tanh.",
        squash=lambda z: z,
    ),
    _known(
        "sigmoid-for-tanh",
        "This fits a sigmoid in the place of the tanh.",
        squash=torch.sigmoid,
    ),
    _known(
        "sigmoid-for-tanh",
        "This fits x · sigmoid(content). With a sigmoid in place of the "
        "tanh, its content has to be twice as large.",
        half=1.0,
        one=0.0,
        squash=torch.sigmoid,
    ),
    _known(
        "erf-for-tanh",
        "This fits an erf in the place of the tanh.",
        squash=torch.erf,
    ),
    _known(
        "bracket-missing",
        "This fits a root that multiplies x alone. It belongs to the whole "
        "sum with the cube.",
        inner=lambda x, root, bent: root * x + bent,
    ),
    _known(
        "bracket-misplaced",
        "This fits a cube of root · x. Which part is raised to the third "
        "power?",
        inner=lambda x, root, bent: root * x + root**3 * bent,
    ),
    _known(
        "bracket-misplaced",
        "This fits a third power of 0.044715 · x together. Which part is "
        "raised to the third power?",
        cubic=CUBIC**3,
    ),
    _known(
        "bracket-misplaced",
        "This fits the third power of the whole sum. Which part is raised "
        "to the third power?",
        inner=lambda x, root, bent: root * (x + CUBIC * x) ** 3,
    ),
    _known(
        "wrong-sign",
        "This fits a cube that is subtracted. Expected a sum.",
        inner=lambda x, root, bent: root * (x - bent),
    ),
    _known(
        "product-for-sum",
        "This fits a product of x and its cube. Expected their sum.",
        inner=lambda x, root, bent: root * x * bent,
    ),
    _known(
        "x-missing-inside",
        "This fits a tanh of the cube alone. Expected the sum of x and the "
        "cube.",
        inner=lambda x, root, bent: root * bent,
    ),
    _known(
        "wrong-constant",
        "This fits a factor √(π/2) = 1.253 of the bracket, or a division by "
        "√(2/π) = 0.7979. Expected a product with √(2/π).",
        inner=lambda x, root, bent: (x + bent) / root,
    ),
    *[
        _known(
            "wrong-power",
            f"This fits x to the power of {power}. Expected the third power.",
            power=power,
        )
        for power in (2, 1, 4, 5)
    ],
    _known(
        "cube-missing",
        "This fits a tanh without the cube. Expected a sum in the bracket.",
        cubic=0.0,
    ),
    *[
        _wrong_constant("the cube's factor", c, CUBIC, cubic=c)
        for c in (0.44715, 0.0044715)
    ],
    *[
        _wrong_constant("the factor of the bracket", r, "√(2/π)", root=r)
        for r in (2 / math.pi, 1.0)
    ],
]


def _called(module, x):
    """The module's output, of the input's shape; the input must stay."""
    before = x.clone()
    output = module(x)
    expect_tensor(output, before.shape)
    if not torch.equal(x, before):
        raise Mistake(
            "input-overwritten",
            "After the call, the input itself has changed. "
            f"{difference(x, before).replace('output', 'input')} Look for "
            "an assignment such as *= that works in place.",
        )
    return output


def _blame_gelu(output, expected, x):
    found = explain(
        output,
        lambda **changes: _gelu(x, **changes),
        GELU_KNOWN,
        **TIGHT,
    )
    gap = (output.detach().double() - expected).abs()
    worst = gap.nan_to_num(nan=torch.inf).argmax()
    seen = (
        f"At x = {number(x[worst])} your module gives "
        f"{number(output[worst])}; expected {number(expected[worst])}."
    )
    if not found:
        _blame_constants(output, x, seen)
    elif found[0].name == "exact-form":
        raise Mistake("exact-form", f"{EXACT} {seen}")
    blame(
        found,
        seen,
        "Calculate this point by hand, from the inside of the formula to the "
        "outside.",
    )


def _blame_constants(output, x, seen):
    """Undo the formula: content / x is a straight line over x²."""
    share = output.detach().double() / x.double()
    usable = (share > 0.55) & (share < 0.995) & (x > 0)
    if usable.sum() < 4:
        return
    squares = x[usable].double().square()
    line = torch.atanh(2 * share[usable] - 1) / x[usable]
    table = torch.stack([torch.ones_like(squares), squares], dim=1)
    root, slope = torch.linalg.lstsq(table, line[:, None]).solution.flatten()
    if same(table @ torch.stack([root, slope]), line, atol=1e-4):
        raise Mistake(
            "wrong-constant",
            f"{seen} This fits {number(root)} as the factor of the bracket "
            f"and {slope / root:.5f} as the cube's; expected √(2/π) = "
            f"{ROOT:.4g} and {CUBIC}.",
        )


def _check_far_out(module):
    x = torch.tensor([-100.0, -30.0, 30.0, 100.0])
    output = _called(module, x)
    if not same(output, _gelu(x), **TIGHT):
        raise Mistake(
            "overflow",
            f"Right from -6 to 6, but {difference(output, _gelu(x))} (The "
            "inputs are -100, -30, 30, 100.) Does an exp grow too large for "
            "float32?",
        )


def _check_shapes(module):
    """In every shape, number by number, in either mode."""
    for shape in [(4,), (3, 7), (2, 3, 5), (2, 1, 3, 4)]:
        x = 2 * torch.randn(shape)
        for mode in (True, False):
            output = _called(module.train(mode), x)
            if not same(output, _gelu(x), **TIGHT):
                raise Mistake(
                    "not-elementwise",
                    f"{difference(output, _gelu(x))} Right in one row of 61 "
                    "points, so what does a number's result depend on, "
                    "other than on that number?",
                )


def _check_slope(module):
    x = torch.linspace(-3, 3, 21).requires_grad_()
    output = module(x * 1)
    (seen,) = gradients(output.sum(), [x])
    (expected,) = torch.autograd.grad(_gelu(x).sum(), x)
    if seen is None or not same(seen, expected, atol=1e-4):
        what = "no gradient" if seen is None else difference(seen, expected)
        raise Mistake(
            "gradient-detached",
            "The values are right, but training needs the slope, too: "
            f"{what.replace('output', 'slope')} Look for detach, no_grad, "
            ".data or .item.",
        )


# --- what the feed-forward network and SwiGLU share ----------------------


def _weights_of(module):
    """Matrices and vectors among the parameters; a 1-wide convolution's
    weight (out, in, 1) is a matrix, too."""
    matrices, vectors = [], []
    for parameter in module.parameters():
        shape = [n for n in parameter.shape if n > 1]
        (matrices if len(shape) > 1 else vectors).append(parameter)
    return matrices, vectors


def _shapes(parameters):
    return ", ".join(str(tuple(p.shape)) for p in parameters)


def _require_matrices(matrices, wanted, emb_dim, call):
    """As many matrices as layers, and the width from the configuration."""
    if not matrices:
        raise Mistake(
            "not-registered",
            f"{call} has no weight among its parameters(), so training "
            "would change nothing. Are the layers made in __init__, and "
            "kept in a place that a module looks into (no plain list)?",
        )
    kernels = [p for p in matrices if len(_flat(p).shape) > 2]
    if kernels:
        raise Mistake(
            "mixes-positions",
            f"A weight of shape {tuple(kernels[0].shape)} covers several "
            "positions at once. Expected each position on its own.",
        )
    if not any(emb_dim in p.shape for p in matrices):
        raise Mistake(
            "width-hardcoded",
            f"With emb_dim = {emb_dim}, the weights have shapes "
            f"{_shapes(matrices)}. Does the width come from cfg?",
        )
    fused = wanted == 3 and len(matrices) == 2  # gate and up in one
    if len(matrices) != wanted and not fused:
        raise Mistake(
            "layer-missing" if len(matrices) < wanted else "extra-layer",
            f"Found {len(matrices)} weight matrices, of shapes "
            f"{_shapes(matrices)}; expected {wanted}.",
        )


def _randomize(parameters):
    """Random parameters large enough that every bend shows."""
    source = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in parameters:
            size = 0.5 if len(parameter.shape) > 1 else 1.0
            parameter.copy_(
                size * torch.randn(parameter.shape, generator=source)
            )


def _outputs(module, x):
    """The output in evaluation mode, the same in training mode."""
    module.eval()
    output, again = _called(module, x), _called(module, x)
    if not same(output, again, equal_nan=True):
        raise Mistake(
            "not-repeatable",
            "Two calls with the same input give two results. "
            f"{difference(again, output)} Expected the same. Is something "
            "random in forward?",
        )
    module.train()
    for _ in range(2):
        trained = _called(module, x)
        if not same(trained, output, equal_nan=True):
            raise Mistake(
                "dropout-inside",
                "Training mode gives another result than evaluation mode. "
                f"{difference(trained, output)} This network has no dropout "
                "of its own; the transformer block adds it behind it.",
            )
    return output


def _check_positions(module, x, output):
    """Change one position: no other output may move."""
    for row, position in [(0, 1), (1, TOKENS - 1)]:
        changed = x.clone()
        changed[row, position] += torch.linspace(-1, 2, x.shape[-1])
        moved = (_called(module, changed) - output).abs().amax(-1) > 1e-5
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


def _blame(output, expected, compute, known):
    blame(
        explain(output, compute, known),
        difference(output, expected),
        "Follow one vector through forward: which layer comes when, and what "
        "does the bend take in?",
    )


def _check_other_shapes(module, compute, width):
    for shape in [(1, 1), (4, 3), (3, 16)]:
        x = torch.randn(*shape, width)
        output = _called(module, x)
        if not same(output, compute(x)):
            raise Mistake(
                "shape-dependent",
                f"Right for {BATCH} sequences of {TOKENS} tokens. "
                f"{difference(output, compute(x))} Batch and tokens may "
                "vary from call to call.",
            )


def _check_gradients(module, x):
    """Every parameter and the input learn from the output."""
    x = x.clone().requires_grad_()
    output = module(x * 1)
    tensors = [x, *module.parameters()]
    names = ["the input", *(name for name, _ in module.named_parameters())]
    grads = gradients(output.square().sum(), tensors)
    for name, grad in zip(names, grads, strict=True):
        if grad is None or not grad.any():
            raise Mistake(
                "gradient-detached",
                f"The values are right, but no gradient reaches {name}. "
                "Look for detach, no_grad, .data or requires_grad=False.",
            )


def _nothing(x):
    return x


def _tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


# The bends that a learner may take, and what to call them.
BENDS = {
    "no-activation": (_nothing, "no bend at all"),
    "relu": (torch.relu, "ReLU"),
    "silu": (F.silu, "SiLU"),
    "gelu": (_tanh_gelu, "GELU"),
    "sigmoid-form": (
        lambda x: x * torch.sigmoid(1.702 * x),
        "GELU's sigmoid form",
    ),
    "tanh": (torch.tanh, "tanh"),
    "sigmoid": (torch.sigmoid, "the sigmoid"),
    "leaky-relu": (F.leaky_relu, "a leaky ReLU"),
    "elu": (F.elu, "ELU"),
    "softmax": (lambda x: x.softmax(-1), "softmax"),
    "half-missing": (
        lambda x: 2 * _tanh_gelu(x),
        "a GELU without its factor ½",
    ),
}


def _wrong_bends(key, right, wanted):
    return [
        _known(
            name,
            f"This fits {says} as the bend. Expected {wanted}.",
            **{key: function},
        )
        for name, (function, says) in BENDS.items()
        if name not in right
    ]


# --- the feed-forward network --------------------------------------------


@exercise(
    "One vector goes in, of cfg['emb_dim'] numbers. How many numbers has it "
    "after the first layer, and after the second?",
    "Three parts in a row: a linear layer that expands by 4, GELU, a linear "
    "layer that contracts. Both layers have a bias; nothing comes after.",
    "In __init__: self.layers = nn.Sequential(…) with nn.Linear(d, 4 * d), "
    "an instance of gptlib.GELU, and a third part for you to fill in. In "
    "forward, call it.",
)
def feed_forward(cls):
    """Widths, the bend and its place, each position on its own."""
    emb_dim, call = 6, "MyFeedForward(cfg)"
    module = construct(cls, _cfg(emb_dim), call=call)
    weights = _expand_and_contract(module, emb_dim, call)
    _randomize(module.parameters())
    x = _input(emb_dim)
    output = _outputs_or_why(module, x, 4 * emb_dim)
    _check_positions(module, x, output)
    compute, exact = _feed_forward_that_fits(weights, x, output)
    _check_other_shapes(module, compute, emb_dim)
    _check_gradients(module, x)
    other = construct(cls, _cfg(10), call=call)
    _expand_and_contract(other, 10, call)
    return (
        f"{emb_dim} features become {4 * emb_dim}, pass GELU and become "
        f"{emb_dim} again; {BATCH} sequences of {TOKENS} tokens agree with "
        "the reference to 4 digits. Each position stays on its own, in both "
        "modes, and gradients reach all parameters."
        + exact
        * " A remark: your GELU is the exact form. It is at most "
        "0.0005 away from the tanh form that GPT-2 was trained with."
    )


def _input(emb_dim):
    source = torch.Generator().manual_seed(4)
    return torch.randn(BATCH, TOKENS, emb_dim, generator=source)


def _expand_and_contract(module, emb_dim, call):
    """(w_in, b_in, w_out, b_out), or a `Mistake` if widths are wrong."""
    matrices, vectors = _weights_of(module)
    _require_matrices(matrices, 2, emb_dim, call)
    hidden = 4 * emb_dim
    w_in = _of_shape(matrices, hidden, emb_dim)
    w_out = _of_shape(matrices, emb_dim, hidden)
    if not w_in or not w_out:
        raise Mistake(
            "wrong-width",
            f"With emb_dim = {emb_dim}, your weights have shapes "
            f"{_shapes(matrices)}. Expected {emb_dim} → {hidden} in the "
            f"first layer and {hidden} → {emb_dim} in the second.",
        )
    b_in = [v for v in vectors if v.numel() == hidden]
    b_out = [v for v in vectors if v.numel() == emb_dim]
    if not b_in or not b_out:
        raise Mistake(
            "bias-missing",
            f"Your layers have {len(vectors)} bias(es): {_shapes(vectors)}. "
            f"Expected ({hidden},) in the first layer and ({emb_dim},) in "
            "the second.",
        )
    if len(vectors) > 2:
        raise Mistake(
            "extra-parameters",
            f"Besides two weights and two biases there are more parameters: "
            f"{_shapes(vectors)} in all. Is there a norm inside? It stands "
            "in front of this network, in the transformer block.",
        )
    return w_in[0], b_in[0], w_out[0], b_out[0]


def _flat(matrix):
    """Without the last axis of a 1-wide convolution's weight."""
    return matrix.detach().reshape([n for n in matrix.shape if n > 1])


def _of_shape(matrices, *shape):
    return [_flat(m) for m in matrices if _flat(m).shape == shape]


def _outputs_or_why(module, x, hidden):
    """The output; where torch raises, an input that fits tells why."""
    try:
        return _outputs(module, x)
    except NotImplementedError:
        raise
    except RuntimeError as error:
        emb_dim = x.shape[-1]
        if _runs(module, torch.zeros(BATCH, TOKENS, hidden)):
            raise Mistake(
                "layers-swapped",
                f"Your network takes {hidden} features where {emb_dim} come "
                "in. Which layer expands, and which contracts?",
            ) from None
        if _runs(module, torch.zeros(BATCH, emb_dim, emb_dim)):
            raise Mistake(
                "mixes-positions",
                f"An input of shape {tuple(x.shape)} raises: {error}. One "
                f"with as many tokens as features, {emb_dim} of each, runs: "
                "a layer works along the tokens. Expected the last axis.",
            ) from None
        raise


def _runs(module, x):
    try:
        module(x)
    except Exception:
        return False
    return True


def _feed_forward_that_fits(weights, x, output):
    """The reference in the learner's layout, and whether GELU is exact."""
    w_in, b_in, w_out, b_out = weights
    # nn.Linear keeps (out, in); GPT-2's own code keeps (in, out).
    layouts = [weights, (w_out.T, b_in, w_in.T, b_out)]
    for bend in (_tanh_gelu, F.gelu):
        for layout in layouts:
            if same(output, _feed_forward(layout, x, bend=bend)):
                fitting = partial(_feed_forward, layout, bend=bend)
                return fitting, bend is F.gelu
    compute = partial(_feed_forward, weights, x)
    _blame(output, compute(), compute, FEED_FORWARD_KNOWN)


FEED_FORWARD_STEPS = {
    "before": _nothing,
    "bend": _tanh_gelu,
    "after": _nothing,
    "add": lambda x, y: y,
    "biases": (1, 1),
}


def _feed_forward(weights, x, **changes):
    """The network in steps, each of which a `Known` may replace."""
    steps = FEED_FORWARD_STEPS | changes
    w_in, b_in, w_out, b_out = weights
    with_in, with_out = steps["biases"]
    hidden = F.linear(steps["before"](x), w_in, with_in * b_in)
    y = F.linear(steps["bend"](hidden), w_out, with_out * b_out)
    return steps["add"](x, steps["after"](y))


CURVES = [
    ("GELU", _tanh_gelu),
    ("GELU", F.gelu),
    ("ReLU", torch.relu),
    ("SiLU", F.silu),
    ("tanh", torch.tanh),
    ("sigmoid", torch.sigmoid),
]
SHORTCUT = _known(
    "shortcut-inside",
    "This fits an input that is added at the end. The shortcut belongs to "
    "the transformer block, not to this network.",
    add=lambda x, y: x + y,
)
FEED_FORWARD_KNOWN = [
    *[
        _known(
            "activation-after-second",
            f"This fits a {name} after the second layer in place of between "
            "the two.",
            bend=_nothing,
            after=function,
        )
        for name, function in CURVES
    ],
    *[
        _known(
            "activation-after-second",
            f"This fits a {name} after the second layer as well. Expected "
            "one bend, between the two layers.",
            bend=bend,
            after=function,
        )
        for name, function in CURVES
        for bend in (_tanh_gelu, function)
    ],
    *[
        _known(
            "activation-before-first",
            f"This fits a {name} before the first layer in place of between "
            "the two.",
            before=function,
            bend=_nothing,
        )
        for name, function in CURVES
    ],
    *[
        _known(
            "activation-before-first",
            f"This fits a {name} before the first layer as well. Expected "
            "one bend, between the two layers.",
            before=function,
        )
        for name, function in CURVES
    ],
    *_wrong_bends("bend", {"gelu"}, "GELU"),
    _known(
        "activation-twice",
        "This fits a GELU of a GELU. Expected one bend between the layers.",
        bend=lambda x: _tanh_gelu(_tanh_gelu(x)),
    ),
    SHORTCUT,
    _known(
        "softmax-at-the-end",
        "This fits a softmax of the output. Nothing follows the second layer.",
        after=lambda y: y.softmax(-1),
    ),
    *[
        _known(
            "bias-unused",
            "This fits a network without "
            f"{'the biases' if used == (0, 0) else 'one of its biases'}.",
            biases=used,
        )
        for used in [(0, 1), (1, 0), (0, 0)]
    ],
    _known(
        "exact-form",
        "The GELU is the exact form, which is accepted here.",
        bend=F.gelu,
    ),
]


# --- SwiGLU --------------------------------------------------------------


@exercise(
    "Read the formula from the inside: which two layers see x, and what "
    "sees the product?",
    "Two layers expand x. One result passes through SiLU, then the two are "
    "multiplied element by element, then a third layer contracts. For the "
    "hidden width, look up how Python rounds to the nearest whole number.",
    "In __init__: hidden = round(8 * d / 3), and gate, up and down as "
    "nn.Linear with bias=False. In forward: nn.functional.silu of gate(x) "
    "is one factor; the other one and the last layer are left to you.",
)
def swiglu(cls):
    """Widths, no biases, which branch is bent, the product, positions."""
    emb_dim, call = 10, "MySwiGLU(cfg)"
    module = construct(cls, _cfg(emb_dim), call=call)
    choices, remark = _gate_up_down(module, emb_dim, call)
    _randomize(module.parameters())
    x = _input(emb_dim)
    output = _outputs_or_why(module, x, _nearest(emb_dim))
    _check_positions(module, x, output)
    compute = _swiglu_that_fits(choices, x, output)
    _check_other_shapes(module, compute, emb_dim)
    _check_gradients(module, x)
    # 8 · 8 / 3 rounds down, 8 · 10 / 3 up: both must follow the nearest.
    _gate_up_down(construct(cls, _cfg(8), call=call), 8, call)
    return (
        f"{emb_dim} features become {_nearest(emb_dim)} in gate and in up "
        f"(8 becomes {_nearest(8)}); {BATCH} sequences of {TOKENS} tokens "
        "agree with the reference to 4 digits. Each position stays on its "
        f"own, in both modes, and gradients reach all three layers.{remark}"
    )


def _nearest(emb_dim):
    return round(8 * emb_dim / 3)


def _gate_up_down(module, emb_dim, call):
    """Possible (gate, up, down) weights, and a remark on their names."""
    matrices, vectors = _weights_of(module)
    _require_matrices(matrices, 3, emb_dim, call)
    if vectors:
        raise Mistake(
            "bias-present",
            f"Besides the weights there are parameters of shape "
            f"{_shapes(vectors)}. Expected three layers without a bias.",
        )
    _check_hidden(matrices, emb_dim)
    hidden = _nearest(emb_dim)
    named = [_weight(module, name) for name in ("gate", "up", "down")]
    if all(weight is not None for weight in named):
        gate, up, down = named
        if gate.shape != (hidden, emb_dim):  # kept as (in, out)
            gate, up, down = gate.T, up.T, down.T
        return [(gate, up, down)], ""
    return _by_shape(matrices, emb_dim, hidden), (
        " A remark: the exercise calls the layers gate, up and down; yours "
        "have other names."
    )


def _weight(module, name):
    """The matrix of the layer, or the parameter, with this name."""
    for path, parameter in module.named_parameters():
        if name in path.split(".") and len(_flat(parameter).shape) == 2:
            return _flat(parameter)
    return None


def _by_shape(matrices, emb_dim, hidden):
    """Either of the two expansions may be the gate; they may be fused."""
    for layout in (matrices, [_flat(m).T for m in matrices]):
        wide = _of_shape(layout, hidden, emb_dim)
        for fused in _of_shape(layout, 2 * hidden, emb_dim):
            wide += fused.chunk(2)
        narrow = _of_shape(layout, emb_dim, hidden)
        if len(wide) == 2 and narrow:
            one, other = wide
            return [(one, other, narrow[0]), (other, one, narrow[0])]
    return []


def _check_hidden(matrices, emb_dim):
    """Each matrix must lie between emb_dim and the hidden width."""
    hidden = _nearest(emb_dim)
    shapes = sorted(
        tuple(sorted(n for n in m.shape if n > 1)) for m in matrices
    )
    right = [(emb_dim, hidden)] * 3
    fused = [(emb_dim, hidden), (emb_dim, 2 * hidden)]
    if shapes == fused or (shapes == right and _directions(matrices) == 2):
        return
    exact = 8 * emb_dim / 3
    seen = {n for shape in shapes for n in shape} - {emb_dim}
    # In this order: the nearest one is also one of the two below it.
    names = [
        ("layers-swapped", hidden),
        ("width-rounded-down", int(exact)),
        ("width-rounded-up", int(exact) + 1),
        ("wrong-width", *seen),
    ]
    fits = [name for name, *width in names if seen == set(width)]
    raise Mistake(
        fits[0],
        f"With emb_dim = {emb_dim}, your weights have shapes "
        f"{_shapes(matrices)}. 8 · {emb_dim} / 3 is {exact:.2f}: expected "
        f"{emb_dim} → {hidden} for gate and up, {hidden} → {emb_dim} for "
        "down.",
    )


def _directions(matrices):
    """How many shapes there are: gate and up lie one way, down the other."""
    return len({tuple(m.shape) for m in matrices})


def _swiglu_that_fits(choices, x, output):
    for weights in choices:
        if same(output, _swiglu(weights, x)):
            return partial(_swiglu, weights)
    compute = partial(_swiglu, choices[0], x)
    _blame(output, compute(), compute, SWIGLU_KNOWN)


SWIGLU_STEPS = {
    "gate": F.silu,
    "up": _nothing,
    "join": lambda gate, up: gate * up,
    "hidden": _nothing,
    "after": _nothing,
    "add": lambda x, y: y,
}


def _swiglu(weights, x, **changes):
    """The network in steps, each of which a `Known` may replace."""
    steps = SWIGLU_STEPS | changes
    gate, up, down = weights
    gated = steps["gate"](F.linear(x, gate))
    joined = steps["join"](gated, steps["up"](F.linear(x, up)))
    y = F.linear(steps["hidden"](joined), down)
    return steps["add"](x, steps["after"](y))


SWIGLU_KNOWN = [
    _known(
        "gate-up-swapped",
        "This fits SiLU on up(x), with gate(x) as it is. Which of the two "
        "is the gate?",
        gate=_nothing,
        up=F.silu,
    ),
    _known(
        "silu-on-both",
        "This fits SiLU on gate(x) and on up(x). Expected it on the gate "
        "alone.",
        up=F.silu,
    ),
    _known(
        "silu-after-product",
        "This fits SiLU of the product. Expected it on the gate, before the "
        "two are multiplied.",
        gate=_nothing,
        hidden=F.silu,
    ),
    _known(
        "silu-after-product",
        "This fits SiLU on the gate and of the product as well.",
        hidden=F.silu,
    ),
    _known(
        "activation-after-down",
        "This fits SiLU after the last layer in place of on the gate.",
        gate=_nothing,
        after=F.silu,
    ),
    _known(
        "activation-after-down",
        "This fits SiLU after the last layer as well. Nothing follows it.",
        after=F.silu,
    ),
    *_wrong_bends("gate", {"silu"}, "SiLU, x · sigmoid(x)"),
    _known(
        "gelu",
        "This fits GELU, the exact form, as the bend. Expected SiLU, "
        "x · sigmoid(x).",
        gate=F.gelu,
    ),
    _known(
        "gate-added",
        "This fits a gate that is added. Expected a product.",
        join=lambda gate, up: gate + up,
    ),
    _known(
        "up-unused",
        "This fits a network without up(x). What is the gate multiplied with?",
        join=lambda gate, up: gate,
    ),
    _known(
        "gate-unused",
        "This fits a network without the gate.",
        join=lambda gate, up: up,
    ),
    _known(
        "gate-used-twice",
        "This fits the bent gate times gate(x) itself. Expected up(x) as "
        "the other factor.",
        gate=_nothing,
        join=lambda gate, up: F.silu(gate) * gate,
    ),
    _known(
        "up-used-twice",
        "This fits SiLU of up(x) times up(x). Expected the gate as one "
        "factor.",
        join=lambda gate, up: F.silu(up) * up,
    ),
    _known(
        "gate-squared",
        "This fits the bent gate times itself. Expected up(x) as the other "
        "factor.",
        join=lambda gate, up: gate * gate,
    ),
    SHORTCUT,
]
