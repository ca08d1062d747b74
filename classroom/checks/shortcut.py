"""Checks of notebook 04: the shortcut network, and how deep is too deep."""

import functools
from itertools import pairwise
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F

from classroom.checks.guard import exercise
from classroom.checks.probes import (
    Known,
    check_signature,
    construct,
    difference,
    expect_tensor,
    explain,
    number,
    same,
)
from classroom.checks.result import Mistake
from gptlib.shortcut import ExampleDeepNeuralNetwork, gradient_means

EQUAL = [4, 4, 4, 4, 4]  # every layer can have a shortcut
# In the lists of two, broadcasting could hide an addition or not; in the
# longer ones, layers with a shortcut stand between layers without.
MIXED = [[5, 1], [1, 4], [3, 4], [5, 5, 1], [4, 6, 6, 2], [2, 2, 3, 3, 1, 1]]


@exercise(
    "The list of widths has one number more than the network has layers. "
    "In forward, keep the input of a layer until its output is there.",
    "For each layer, compute its output under a new name. Compare the "
    "shapes of this output and of the input. Only where they agree, and "
    "only if use_shortcut is true, both are added.",
    "In the loop: out = layer(x); if …: out = …; x = out. A sum written "
    "with + is a new tensor, one written with += is not.",
)
def shortcut(cls):
    """Structure, values with and without shortcuts, mixed widths, the
    caller's tensor, and gradients, against a small reference."""
    for sizes in ([5, 7, 7, 2], EQUAL, [3, 3]):
        _check_structure(_build(cls, sizes, True), sizes)
    model = _build(cls, EQUAL, True)
    x = torch.randn(3, EQUAL[0])
    short = _run_equal(cls, model, x)
    plain = _run_plain(cls, model, x)
    activation = _activation(model, x, plain)
    _check_short(model, x, short, plain, activation)
    _check_plain(model, x, short, plain, activation)
    for sizes in MIXED:
        _check_mixed(cls, sizes, activation)
    _check_gradient(model, x, activation)
    note = ""
    if activation is F.gelu:
        note = " Your GELU is the exact form; the notes use the tanh form."
    return (
        f"{len(MIXED) + 1} lists of widths, from one layer to five, give "
        "the right values with and without shortcuts, the caller's tensor "
        f"stays as it was, and the gradients are right too.{note}"
    )


# --- building ------------------------------------------------------------


def _build(cls, sizes, use_shortcut):
    """A learner's network with random parameters, the same at each call."""
    given = list(sizes)
    call = f"MyShortcutNetwork({given}, {use_shortcut})"
    try:
        model = construct(cls, given, use_shortcut, call=call)
    except IndexError:
        _check_fixed_depth(cls, sizes)
        raise
    if given != list(sizes):
        raise Mistake(
            "changes-layer-sizes",
            f"The caller's list was {list(sizes)} and is {given} after the "
            "network was built. Read the widths without taking them out.",
        )
    torch.manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            # Wide layers shrink, narrow ones not: values stay near 1.
            p.normal_(0, 1 / p.shape[-1] ** 0.5 if p.dim() == 2 else 0.5)
    return model


def _check_fixed_depth(cls, sizes):
    try:
        cls([3, 3, 3, 3, 3, 1], True)
    except Exception:
        return  # then the exception has another cause
    raise Mistake(
        "wrong-number-of-layers",
        f"Six widths work, but {sizes}, with {len(sizes)} widths, raises an "
        "IndexError. Let the list's length decide how many layers there are.",
    )


def _check_structure(model, sizes):
    layers = getattr(model, "layers", None)
    if layers is None:
        raise Mistake(
            "layers-missing",
            "The network has no attribute `layers`; the exercise keeps the "
            "layers there.",
        )
    if not isinstance(layers, nn.Module):
        raise Mistake(
            "layers-plain-list",
            f"self.layers is a {type(layers).__name__}, and the network "
            f"reports {_count(model)} parameters: what stands in a plain "
            "Python container is never trained. Which container of torch.nn "
            "registers its modules?",
        )
    matrices = [tuple(p.shape) for p in model.parameters() if p.dim() == 2]
    _check_matrices(layers, matrices, sizes)
    wanted = sum(i * o + o for i, o in pairwise(sizes))
    if _count(model) != wanted:
        few = _count(model) < wanted
        raise Mistake(
            "bias-missing" if few else "extra-parameters",
            f"For {sizes} the network has {_count(model)} parameters; "
            f"expected {wanted}: each Linear has a weight matrix and a bias, "
            "and a shortcut has nothing to learn.",
        )


def _count(model):
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _check_matrices(layers, found, sizes):
    wanted = [(d_out, d_in) for d_in, d_out in pairwise(sizes)]
    if found == wanted:
        return
    steps = len(layers) if hasattr(layers, "__len__") else len(found)
    seen = f"For {sizes} the weight matrices have the shapes {found}; "
    if found == [shape[::-1] for shape in wanted]:
        name, where = "widths-swapped", "nn.Linear takes the input width first"
    elif len(found) == len(wanted) and _wider(found, wanted):
        name, where = "concatenation", "an addition keeps the width"
    elif len(found) == 1 < len(wanted) == steps:
        name = "one-layer-repeated"
        where = "one layer stands in the list several times"
    elif len(found) > len(wanted) == steps:
        name, where = "extra-parameters", "a shortcut has nothing to learn"
    elif len(found) != len(wanted):
        name = "wrong-number-of-layers"
        where = "a layer connects two neighbors in the list of widths"
    else:
        name, where = "wrong-widths", "look at what each Linear is given"
    raise Mistake(name, f"{seen}expected {wanted}: {where}.")


def _wider(found, wanted):
    return all(
        f[0] == w[0] and f[1] >= w[1]
        for f, w in zip(found, wanted, strict=True)
    )


# --- the reference, and what known mistakes make of it -------------------


def _always(i, n):
    return True


def _never(i, n):
    return False


def _tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


def _reference(
    model,
    x,
    *,
    when=_always,
    add=lambda s: s.x + s.out,
    act=_tanh_gelu,
    end=lambda first, x: x,
    steps=None,
    chained=True,
    bare_last=False,
    enter=lambda x: x,
):
    """The network's output, computed from its parameters.

    The keyword arguments are what mistakes change: which layers have a
    shortcut, what it adds (from the names in `s`), the activation, what
    happens after the last layer, how many layers run, whether a layer gets
    the output of the one before, whether the last has no activation, and
    what happens to x at the start of each layer.
    """
    params = list(model.parameters())
    weights = [p for p in params if p.dim() == 2]
    biases = [p for p in params if p.dim() == 1]
    first = before = total = x
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        if i == steps:
            break
        x = enter(x)
        pre = F.linear(x, weight, bias)
        bare = bare_last and i == len(weights) - 1
        out = pre if bare else act(pre)
        s = SimpleNamespace(x=x, pre=pre, out=out, first=first, act=act)
        s.before, s.total = before, total
        wanted = x.shape == pre.shape and when(i, len(weights))
        new = add(s) if wanted else s.out
        before = x
        x = new if chained else first
        total = total + new if total.shape == new.shape else new
    return end(first, new)


def _known(name, says, **changes):
    return Known(name, says, changes)


ACTIVATIONS = [
    _known(
        "activation-missing",
        "The layers give what a Linear gives alone: the GELU has no effect.",
        act=lambda v: v,
    ),
    *(
        _known(
            "wrong-activation",
            f"The values are those of {what} in place of GELU.",
            act=function,
        )
        for what, function in {
            "ReLU": F.relu,
            "the sigmoid": torch.sigmoid,
            "tanh": torch.tanh,
            "SiLU": F.silu,
            "the sigmoid form": lambda v: v * torch.sigmoid(1.702 * v),
            "GELU applied twice": lambda v: _tanh_gelu(_tanh_gelu(v)),
            "leaky ReLU": F.leaky_relu,
        }.items()
    ),
]
FLOW = [
    _known(
        "activation-missing-last",
        "The last layer gives what its Linear gives alone. Each layer is a "
        "Linear followed by GELU, the last one too.",
        bare_last=True,
    ),
    _known(
        "layers-not-chained",
        "Every layer gets the network's input, and only the last layer's "
        "result is returned. What does the next round of the loop read?",
        chained=False,
    ),
    _known(
        "returns-after-first-layer",
        "The output is the first layer's alone. At which indentation does "
        "the return stand?",
        steps=1,
    ),
    _known(
        "last-layer-not-run",
        "The output is the one before the last layer.",
        steps=len(EQUAL) - 2,
    ),
]
PLACES = [
    _known(
        "always-plain",
        "With use_shortcut=True the network gives the same as without: no "
        "input is added anywhere. Follow the flag from __init__ to forward, "
        "and look at the condition in front of the addition.",
        when=_never,
    ),
    _known(
        "only-last-layer",
        "Only the last layer has a shortcut; expected one around each layer "
        "whose input and output have the same shape.",
        when=lambda i, n: i == n - 1,
    ),
    _known(
        "only-first-layer",
        "Only the first layer has a shortcut; expected one around each layer "
        "whose input and output have the same shape.",
        when=lambda i, n: i == 0,
    ),
    _known(
        "last-layer-skipped",
        "The last layer has no shortcut although its input and output have "
        "the same shape. Let the shapes decide, not the layer's place.",
        when=lambda i, n: i < n - 1,
    ),
    _known(
        "first-layer-skipped",
        "The first layer has no shortcut although its input and output have "
        "the same shape. Let the shapes decide, not the layer's place.",
        when=lambda i, n: i > 0,
    ),
    *(
        _known(
            "every-second-layer",
            "Only every second layer has a shortcut; expected one around "
            "each layer whose input and output have the same shape.",
            when=lambda i, n, odd=odd: i % 2 == odd,
        )
        for odd in (0, 1)
    ),
    _known(
        "only-around-the-whole",
        "The network's input is added once, to the last output; expected "
        "one addition for each layer.",
        when=_never,
        end=lambda first, x: first + x,
    ),
    _known(
        "input-added-again-at-the-end",
        "After the last layer the network's input is added once more.",
        end=lambda first, x: first + x,
    ),
]
SUMS = [
    _known(
        "carries-normalized-input",
        "Each layer's input is normalized, and the normalized one is added; "
        "expected the input itself.",
        enter=lambda x: F.layer_norm(x, x.shape[-1:]),
    ),
    _known(
        "adds-output-to-itself",
        "Each layer's output is added to itself: the input is lost. Which "
        "tensor does x name at the moment of the addition?",
        add=lambda s: s.out + s.out,
    ),
    _known(
        "adds-network-input",
        "Every layer's output gets the network's first input added; "
        "expected the input of that same layer.",
        add=lambda s: s.first + s.out,
    ),
    _known(
        "activation-after-addition",
        "The values are GELU(x + Linear(x)): the activation takes in the "
        "sum, and with it the carried input. Expected the addition last.",
        add=lambda s: s.act(s.pre + s.x),
    ),
    _known(
        "adds-earlier-input",
        "The input of the layer before is added; expected the input of the "
        "same layer.",
        add=lambda s: s.before + s.out,
    ),
    _known(
        "adds-every-earlier-input",
        "The inputs of all earlier layers are added as well; expected the "
        "input of the same layer alone.",
        add=lambda s: s.total + s.out,
    ),
    _known(
        "adds-linear-output",
        "The Linear's output is added to its own activation; expected the "
        "layer's input.",
        add=lambda s: s.pre + s.out,
    ),
    _known(
        "shortcut-around-each-step",
        "There is one shortcut past the Linear and another past the GELU; "
        "expected one past both together.",
        add=lambda s: s.x + s.pre + s.act(s.x + s.pre),
    ),
    _known(
        "activation-missing",
        "Input and Linear are added, and no GELU was applied.",
        add=lambda s: s.x + s.pre,
    ),
    _known(
        "activates-carried-input",
        "The carried input has gone through GELU as well; it must arrive "
        "at the addition as it was.",
        add=lambda s: s.act(s.x) + s.out,
    ),
    *(
        _known(
            "activation-after-addition",
            "The sum of input and output goes through GELU once more.",
            add=lambda s, act=act: act(s.x + s.out),
        )
        for act in (_tanh_gelu, F.gelu)
    ),
    _known(
        "subtracts",
        "The layer's output is subtracted from its input; expected a sum.",
        add=lambda s: s.x - s.out,
    ),
    _known(
        "subtracts",
        "The layer's input is subtracted from its output; expected a sum.",
        add=lambda s: s.out - s.x,
    ),
    _known(
        "multiplies",
        "Input and output are multiplied; expected a sum.",
        add=lambda s: s.x * s.out,
    ),
    _known(
        "averages",
        "The sum of input and output is halved; expected the sum itself.",
        add=lambda s: (s.x + s.out) / 2,
    ),
    _known(
        "adds-input-twice",
        "The input is added twice to the output; expected once.",
        add=lambda s: 2 * s.x + s.out,
    ),
    _known(
        "adds-output-twice",
        "The output is added twice to the input; expected once.",
        add=lambda s: s.x + 2 * s.out,
    ),
    _known(
        "adds-input-to-itself",
        "The input is added to itself: the layer's output is lost.",
        add=lambda s: s.x + s.x,
    ),
    _known(
        "layer-output-lost",
        "Only the input is carried on: the layer's output is lost.",
        add=lambda s: s.x,
    ),
]
# --- running -------------------------------------------------------------


def _run_equal(cls, model, x):
    """The output with shortcuts where all widths are equal."""
    given = x.clone()
    try:
        output = model(given)
    except RuntimeError as error:
        _check_in_place(error)
        _check_concatenation(cls)
        raise
    if not same(given, x, rtol=0, atol=0):
        raise Mistake(
            "overwrites-input",
            f"The caller's tensor began with {number(x[0, 0])} and holds "
            f"{number(given[0, 0])} after the call. Look for a line that "
            "writes into the tensor x rather than make a new one (+=, "
            "add_, out=, x[:] = …).",
        )
    if isinstance(output, torch.Tensor) and output.shape != x.shape:
        _check_concatenation(cls)
    expect_tensor(output, x.shape, f"The output for the widths {EQUAL}")
    return output


def _run_plain(cls, model, x):
    plain = _build(cls, EQUAL, False)
    given = x.clone()
    output = plain(given)
    where = f"The output for the widths {EQUAL} without shortcuts"
    expect_tensor(output, x.shape, where)
    return output


def _check_concatenation(cls):
    """Whether input and output are joined, seen on a single layer."""
    output = _build(cls, [4, 4], True)(torch.randn(3, 4))
    shape = tuple(output.shape)
    if shape in ((3, 8), (6, 4), (2, 3, 4), (3, 2, 4), (3, 4, 2)):
        raise Mistake(
            "concatenation",
            f"One layer from 4 to 4 turns (3, 4) into {shape}: input and "
            "output stand beside each other. A shortcut keeps the shape, "
            "since it adds them number by number.",
        )


def _check_in_place(error):
    if "in-place" in str(error) or "inplace" in str(error):
        raise Mistake(
            "in-place-addition",
            "The gradients can't be computed: a value that they need was "
            "overwritten in place. Make a new tensor for the sum.",
        ) from None


def _activation(model, x, plain):
    """F.gelu if that is what the learner used, else the notes' tanh form."""
    exact = same(plain, _reference(model, x, when=_never, act=F.gelu))
    return F.gelu if exact else _tanh_gelu


def _check_short(model, x, short, plain, activation):
    def compute(**changes):
        return _reference(model, x, **{"act": activation} | changes)

    expected = compute()
    if same(short, expected):
        return
    if same(plain, expected) and same(short, compute(when=_never)):
        raise Mistake(
            "use-shortcut-inverted",
            "use_shortcut=True gives the plain network, use_shortcut=False "
            "the one with shortcuts. Look at the condition.",
        )
    found = explain(short, compute, [*PLACES, *SUMS, *FLOW, *ACTIVATIONS])
    if not found:  # the plain path is simpler to explain
        _check_plain(model, x, short, plain, activation)
    _raise(found, short, expected)


def _check_plain(model, x, short, plain, activation):
    def compute(**changes):
        return _reference(
            model, x, **{"act": activation, "when": _never} | changes
        )

    expected = compute()
    if same(plain, expected):
        return
    if same(plain, short):
        raise Mistake(
            "use-shortcut-ignored",
            "use_shortcut=False gives the same values as True: the inputs "
            "are added all the same. " + difference(plain, expected),
        )
    if same(plain, x):
        raise Mistake(
            "plain-path-missing",
            "With use_shortcut=False the network returns its input: where "
            "nothing is added, the layer's output must be carried on.",
        )
    found = explain(plain, compute, [*FLOW, *ACTIVATIONS])
    if not found:
        _check_leftover_shortcuts(plain, compute)
    _raise(found, plain, expected)


def _check_leftover_shortcuts(plain, compute):
    known = [k for k in PLACES if k.name != "always-plain"]
    for mistake in [*known, *SUMS]:
        if same(plain, compute(**{"when": _always} | mistake.changes)):
            raise Mistake(
                "use-shortcut-ignored",
                "With use_shortcut=False something is still added to the "
                "layers' outputs. Expected the layers alone.",
            )


def _raise(found, output, expected):
    says = " Also: ".join(known.says for known in found)
    if not found:
        found = [Known("wrong-values", "", {})]
        says = "The values are not those of x + F(x) in each layer."
    raise Mistake(found[0].name, f"{says} {difference(output, expected)}")


# --- other widths, and the way back --------------------------------------


def _check_mixed(cls, sizes, activation):
    x = torch.randn(3, sizes[0])
    for use_shortcut in (False, True):
        model = _build(cls, sizes, use_shortcut)
        when = _always if use_shortcut else _never
        expected = _reference(model, x, act=activation, when=when)
        try:
            output = model(x.clone())
        except RuntimeError as error:
            if not use_shortcut:
                raise
            _raise_unequal(sizes, f"raises {error}")
        if use_shortcut:
            _check_guarded(model, x, sizes, output, expected, activation)
        where = f"The output for the widths {sizes}, {use_shortcut=},"
        expect_tensor(output, expected.shape, where)
        if not same(output, expected):
            _raise([], output, expected)


def _check_guarded(model, x, sizes, output, expected, activation):
    if not isinstance(output, torch.Tensor):
        return
    if output.shape != expected.shape:
        _raise_unequal(
            sizes,
            f"returns {tuple(output.shape)} for an input of shape "
            f"{tuple(x.shape)}; expected {tuple(expected.shape)}",
        )
    if same(output, expected):
        return
    if sizes[0] != sizes[1] and len(sizes) == 2:  # nothing may be added
        _raise_unequal(sizes, f"is wrong. {difference(output, expected)}")
    known = [
        _known(
            "only-first-width",
            "Only layers as wide as the network's input have a shortcut.",
            when=lambda i, n: sizes[i + 1] == sizes[0],
        ),
        _known(
            "plain-if-any-width-differs",
            "As soon as one width differs, no layer has a shortcut.",
            when=_never,
        ),
        *PLACES,
    ]

    def compute(**changes):
        return _reference(model, x, **{"act": activation} | changes)

    _raise(explain(output, compute, known), output, expected)


def _raise_unequal(sizes, what):
    raise Mistake(
        "adds-where-shapes-differ",
        f"With the widths {sizes} and use_shortcut=True the network {what}. "
        "Where a layer changes the width, its input can't be added; torch "
        "stretches an axis of length 1 without an error. Which two shapes "
        "do you compare before you add?",
    ) from None


def _check_gradient(model, x, activation):
    weights = [p for p in model.parameters() if p.dim() == 2]
    output = model(x.clone())
    if not output.requires_grad:
        raise Mistake(
            "gradient-blocked",
            "The output carries no gradient, so nothing can be trained. "
            "Look for no_grad, detach or .data.",
        )
    try:
        found = torch.autograd.grad(
            output.pow(2).mean(), weights, materialize_grads=True
        )
    except RuntimeError as error:
        _check_in_place(error)
        raise
    reference = _reference(model, x, act=activation).pow(2).mean()
    wanted = torch.autograd.grad(reference, weights)
    for place, (seen, right) in enumerate(zip(found, wanted, strict=True)):
        if not same(seen, right):
            raise Mistake(
                "gradient-blocked",
                "The values are right, but layer "
                f"{place}'s weights get a mean absolute gradient of "
                f"{number(seen.abs().mean())}; expected "
                f"{number(right.abs().mean())}. Look for no_grad, detach or "
                ".data on the way.",
            )


# --- the depth at which the gradient is gone ------------------------------


@exercise(
    "Write a loop over depth = 1, 2, 3, … in which each round makes one "
    "plain network and measures its first layer's gradient.",
    "Set the seed right before each network is made. gradient_means gives a "
    'dictionary; the first layer\'s entry is "layers.0.0.weight".',
    "while True: depth += 1; torch.manual_seed(…); model = …([width] * "
    "depth + [1], False); compare the first layer's mean with threshold.",
)
def vanishing_depth(fn):
    """Answers for several widths, seeds and thresholds, each one far from
    the measured values, so that rounding can't decide."""
    call = "my_vanishing_depth(threshold, width, seed)"
    check_signature(fn, *QUESTIONS[0], call=call)
    answers = []
    for question in QUESTIONS:
        answers.append(_ask(fn, *question))
        if answers != [_search(*q) for q in QUESTIONS[: len(answers)]]:
            _raise_wrong_depth(fn, answers)
    _check_defaults(fn)
    return (
        f"{len(QUESTIONS)} questions with widths from 2 to 5 have the right "
        "answer; below 1e-8 it takes 12 layers."
    )


def _check_defaults(fn):
    for threshold in (0.05, 2e-5, 1e-6, 1e-8):
        wanted = _search(threshold, 3, 123)
        if fn(threshold) != wanted:
            raise Mistake(
                "defaults-missing",
                f"my_vanishing_depth({threshold}) gives {fn(threshold)!r}; "
                f"expected {wanted}, as for width=3 and seed=123. Look at "
                "the default values.",
            )


# (threshold, width, seed). The first is one that wrong ways to search
# answer, too: they could look for a deeper one for ever.
QUESTIONS = [
    (0.0026, 3, 123),
    (0.0025, 4, 123),  # 1 layer is below, 2 layers are above
    (0.0011, 4, 7),
    (1.5e-4, 3, 123),  # the second layer's mean is below at 5 layers
    (2e-3, 3, 1),  # deeper, the mean rises above the threshold again
    (1e-3, 2, 5),
    (1e-4, 5, 11),
    (1e-8, 3, 123),
]


def _ask(fn, threshold, width, seed):
    try:
        answer = fn(threshold, width, seed)
    except (RuntimeError, ValueError) as error:
        if width == 3 or "shape" not in str(error):
            raise
        raise Mistake(
            "input-fixed-width",
            f"For width={width} torch says: {error}. Does the input have "
            "as many values as the first layer takes?",
        ) from None
    if answer is None:
        raise Mistake("returns-none", "The function returns None.")
    if isinstance(answer, bool) or not hasattr(answer, "__int__"):
        raise Mistake(
            "wrong-type",
            f"The function returns {answer!r} of type "
            f"{type(answer).__name__}; expected a number of layers.",
        )
    return answer.item() if isinstance(answer, torch.Tensor) else answer


def _raise_wrong_depth(fn, answers):
    asked = len(answers)
    threshold, width, seed = QUESTIONS[asked - 1]
    seen = (
        f"For threshold={threshold:g}, width={width}, seed={seed} the answer "
        f"is {answers[-1]}; expected {_search(threshold, width, seed)}."
    )
    found = _matching(SEARCHES, answers)
    # Ask on until one mistake is left, but nothing that has no end.
    for question in QUESTIONS[asked:]:
        ends = all(_search(*question, **k.changes) is not None for k in found)
        if len({known.name for known in found}) < 2 or not ends:
            break
        answers.append(_ask(fn, *question))
        found = _matching(found, answers)
    if found:
        raise Mistake(found[0].name, f"{seen} {found[0].says}")
    if {_ask(fn, *q) for q in QUESTIONS[:3]} == {answers[-1]}:
        raise Mistake(
            "answer-fixed",
            f"{seen} The answer is the same for other widths, seeds and "
            "thresholds.",
        )
    raise Mistake(
        "wrong-depth",
        f"{seen} Print depth and mean in each round, and compare with "
        "print_gradients for a network of that depth.",
    )


def _matching(known, answers):
    asked = list(zip(QUESTIONS, answers, strict=False))
    return [
        mistake
        for mistake in known
        if all(_search(*q, **mistake.changes) == seen for q, seen in asked)
    ]


def _sizes(width, depth):
    return [width] * depth + [1]


def _input(width):
    return torch.linspace(1, -1, width).unsqueeze(0)


def _first(model, x):
    return next(iter(gradient_means(model, x).values()))


@functools.cache
def _search(
    threshold,
    width,
    seed,
    *,
    sizes=_sizes,
    make_input=_input,
    measure=_first,
    use_shortcut=False,
    reseed=True,
    start=1,
    offset=0,
    above=False,
    fixed_seed=None,
    limit=16,
):
    """The answer to one question; keyword arguments make it wrong."""
    seed = seed if fixed_seed is None else fixed_seed
    torch.manual_seed(seed)
    for depth in range(start, limit + 1):
        if reseed:
            torch.manual_seed(seed)
        model = ExampleDeepNeuralNetwork(sizes(width, depth), use_shortcut)
        below = measure(model, make_input(width)) < threshold
        if below != above:
            return depth + offset
    return None


def _gradients(model, x, loss=lambda y: y.pow(2).mean()):
    return torch.autograd.grad(loss(model(x)), list(model.parameters()))


def _share(model, x):
    means = list(gradient_means(model, x).values())
    return means[0] / means[-1]


SEARCHES = [
    Known(
        "seed-outside-loop",
        "Each depth must start from the same seed: where is it set?",
        {"reseed": False},
    ),
    Known(
        "shortcuts-on",
        "That is the answer for networks with shortcuts; the plain network "
        "is asked for.",
        {"use_shortcut": True},
    ),
    Known(
        "wrong-layer",
        "That is the answer for the last layer's gradient; the first "
        "layer's is asked for.",
        {"measure": lambda m, x: list(gradient_means(m, x).values())[-1]},
    ),
    Known(
        "wrong-layer",
        "That is the answer for the smallest gradient of any layer; the "
        "first layer's is asked for.",
        {"measure": lambda m, x: min(gradient_means(m, x).values())},
    ),
    Known(
        "mean-over-layers",
        "That is the answer for the mean of all layers; the first layer's "
        "is asked for.",
        {
            "measure": lambda m, x: (
                sum(gradient_means(m, x).values()) / len(m.layers)
            )
        },
    ),
    Known(
        "off-by-one",
        "One too many: which depth belongs to the measured mean?",
        {"offset": 1},
    ),
    Known(
        "off-by-one",
        "One too few: that depth is the last one above the threshold.",
        {"offset": -1},
    ),
    Known("wrong-start", "The search must start at depth 1.", {"start": 2}),
    Known("wrong-start", "The search must start at depth 1.", {"start": 3}),
    Known("wrong-start", "The search must start at depth 1.", {"start": 5}),
    Known(
        "abs-missing",
        "Gradients of opposite signs cancel: take absolute values before "
        "the mean.",
        {"measure": lambda m, x: _gradients(m, x)[0].mean().item()},
    ),
    Known(
        "wrong-layer",
        "That is the answer for the second layer's gradient; the first "
        "layer's is asked for.",
        {"measure": lambda m, x: list(gradient_means(m, x).values())[:2][-1]},
    ),
    Known(
        "width-ignored",
        "The width makes no difference to the answer.",
        {
            "sizes": lambda width, depth: _sizes(3, depth),
            "make_input": lambda width: _input(3),
        },
    ),
    Known(
        "seed-ignored",
        "The seed makes no difference to the answer.",
        {"fixed_seed": 123},
    ),
    Known(
        "not-the-mean",
        "That is the answer for the largest entry; the mean is asked for.",
        {"measure": lambda m, x: _gradients(m, x)[0].abs().max().item()},
    ),
    Known(
        "not-the-mean",
        "That is the answer for the sum of the entries; the mean is asked "
        "for.",
        {"measure": lambda m, x: _gradients(m, x)[0].abs().sum().item()},
    ),
    Known(
        "not-the-mean",
        "That is the answer for the norm of the gradient; the mean of the "
        "absolute values is asked for.",
        {"measure": lambda m, x: _gradients(m, x)[0].norm().item()},
    ),
    Known(
        "bias-gradient",
        "That is the answer for the first bias; the weight matrix is asked "
        "for.",
        {"measure": lambda m, x: _gradients(m, x)[1].abs().mean().item()},
    ),
    Known(
        "wrong-loss",
        "That is the answer without the square in the loss.",
        {
            "measure": lambda m, x: (
                _gradients(m, x, torch.sum)[0].abs().mean().item()
            )
        },
    ),
    Known(
        "share-not-gradient",
        "That is the answer for the share first / last; the first layer's "
        "gradient itself is asked for.",
        {"measure": _share},
    ),
    Known(
        "output-layer-missing",
        "The widths must end in 1: [width] * depth + [1].",
        {"sizes": lambda width, depth: [width] * (depth + 1)},
    ),
    Known(
        "wrong-layer-sizes",
        "How many widths does a network of this depth have?",
        {"sizes": lambda width, depth: [width] * (depth + 1) + [1]},
    ),
    Known(
        "wrong-input",
        "That is the answer for an input of ones; look at the input that "
        "the exercise gives.",
        {"make_input": lambda width: torch.ones(1, width)},
    ),
    Known(
        "wrong-input",
        "That is the answer for the input in reverse order, -1 to 1.",
        {"make_input": lambda width: -_input(width)},
    ),
    Known(
        "wrong-input",
        "That is the answer for 1, 0, -1 and zeros after it; look at the "
        "input that the exercise gives.",
        {
            "make_input": lambda width: F.pad(
                torch.tensor([[1.0, 0, -1]]), (0, width - 3)
            )
        },
    ),
    Known(
        "threshold-above",
        "That is the smallest depth above the threshold.",
        {"above": True},
    ),
]
