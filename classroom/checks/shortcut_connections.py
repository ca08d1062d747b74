"""Checks of notebook 04: the shortcut network."""

from itertools import pairwise, product
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

import gptlib
from classroom.checks.edits import Task, blame, known
from classroom.checks.guard import exercise
from classroom.checks.manners import check_manners
from classroom.checks.modules import (
    check_gradients,
    construct,
    randomized,
    runs,
    settled,
)
from classroom.checks.parts import check_names, count
from classroom.checks.result import Mistake
from classroom.checks.tensors import difference, expect_tensor, same

EQUAL = [[4, 4], [4, 4, 4, 4, 4]]  # every layer can have a shortcut
# One layer that can't: broadcasting could hide an addition, or not.
CHANGED = [[5, 1], [1, 4], [3, 4]]
# Layers with a shortcut stand between layers without.
MIXED = [[5, 5, 1], [4, 6, 6, 2], [2, 2, 3, 3, 1, 1]]
UNEXPLAINED = (
    "wrong-values",
    "Compare one layer after the other with a calculation of your own.",
)
# Any number of layers: more than a number written out would reach.
FURTHER = [[4] * 35, [2, 9, 9, 12, 12]]
ROWS = {35: 1, 5: 5}  # of the input, by how long the list is; else 3
# Lists of widths, with or without shortcuts, and what to say if no known
# mistake explains them. What was right before helps to explain.
STAGES = [
    (EQUAL, (False, True), *UNEXPLAINED),
    (CHANGED + MIXED, (False,), *UNEXPLAINED),
    (CHANGED, (True,), "adds-where-shapes-differ",
     "It is right with use_shortcut=False, and nothing can be added here. "
     "Which two shapes do you compare before you add?"),
    (MIXED, (True,), *UNEXPLAINED),
    (FURTHER, (False, True), "only-some-sizes",
     "Up to six narrow layers and three rows are right. Which size or number "
     "does your code take for granted?"),
]  # fmt: skip

# --- the network's solution, and what mistakes make of it ----------------


def chained(x, layers, use_shortcut, gelu):
    for weight, bias in layers:
        pre = F.linear(x, weight, bias)
        out = F.gelu(pre, approximate=gelu)
        if use_shortcut and out.shape == x.shape:
            out = x + out
        x = out
    return x


LOOP = "for weight, bias in layers:"
GELU = "F.gelu(pre, approximate=gelu)"
SHAPES = " and out.shape == x.shape"
FIRST = {LOOP: f"first = x\n{LOOP}"}


def _only(condition):
    """A shortcut only where this holds of layer i."""
    return {
        LOOP: "for i, (weight, bias) in enumerate(layers):",
        SHAPES: f"{SHAPES} and {condition}",
    }


def _sums(name, says, *sums):
    """This stands where x + out should stand."""
    return known(name, says, *({"x + out": text} for text in sums))


FLAG = [
    known("always-plain",
          "With use_shortcut=True the network gives the same as without: no "
          "input is added anywhere. Follow the flag from __init__ to "
          "forward, and look at the condition in front of the addition.",
          {"use_shortcut": "False"}),
    known("use-shortcut-inverted",
          "use_shortcut=True gives the plain network, use_shortcut=False the "
          "one with shortcuts. Look at the condition.",
          {"use_shortcut": "not use_shortcut"}),
    known("use-shortcut-ignored",
          "This fits a network that adds inputs with use_shortcut=False all "
          "the same.",
          {"use_shortcut and ": ""}, {"and": "or"}),
    known("plain-path-missing",
          "This fits a network that returns its input if use_shortcut is "
          "False: where nothing is added, the layer's output must be carried "
          "on.",
          {"    out = x + out": "    x = x + out", "    x = out\n": ""}),
]  # fmt: skip
PLACES = [
    *(known(name,
            f"This fits {what}. Expected one around each layer whose input "
            "and output have the same shape: let the shapes decide, not the "
            f"layer's place.{further}",
            *map(_only, conditions))
      for name, what, further, *conditions in (
          ("only-last-layer", "a shortcut around the last layer alone", "",
           "i == len(layers) - 1"),
          ("only-first-layer", "a shortcut around the first layer alone", "",
           "i == 0"),
          ("last-layer-skipped", "a shortcut around all layers but the last",
           " Or does `return` give the last layer's output instead of the "
           "sum?", "i < len(layers) - 1"),
          ("first-layer-skipped", "a shortcut around all layers but the first",
           "", "i > 0"),
          ("every-second-layer", "a shortcut around every second layer", "",
           "i % 2 == 0", "i % 2 == 1"))),
    known("only-around-the-whole",
          "This fits the network's input added once, to the last output. "
          "Expected one addition for each layer.",
          FIRST | {"use_shortcut" + SHAPES: "False",
                   "return x": "return x + first if use_shortcut else x"}),
    known("input-added-again-at-the-end",
          "This fits the network's input added once more after the last "
          "layer.",
          FIRST | {"return x": "return x + first if use_shortcut else x"}),
    known("adds-where-shapes-differ",
          "Where a layer changes the width, its input can't be added; torch "
          "stretches an axis of length 1 without an error. Which two shapes "
          "do you compare before you add?",
          {SHAPES: ""}, {"==": "<="}, {"==": ">="},
          {SHAPES: "", "out = x + out": "out += x"}),
    known("only-first-width",
          "This fits shortcuts only around layers as wide as the network's "
          "input. Which two shapes do you compare before you add?",
          FIRST | {SHAPES: f"{SHAPES} == first.shape"}),
    known("plain-if-any-width-differs",
          "This fits a network without any shortcut as soon as one width "
          "differs. Let each layer's own shapes decide.",
          {SHAPES: f"{SHAPES} and all(w.shape == w.T.shape "
                   "for w, _ in layers)"}),
]  # fmt: skip
SUMS = [
    _sums("concatenation",
          "Input and output stand beside each other. A shortcut keeps the "
          "shape, since it adds them number by number.",
          *(f"torch.{join}([{both}], {axis})"
            for join, both, axis in product(
                ("cat", "stack"), ("x, out", "out, x"), (0, -1)))),
    known("carries-normalized-input",
          "This fits a layer whose input is normalized, and the normalized "
          "one is added. Expected the input itself.",
          {"pre =": "x = F.layer_norm(x, x.shape[-1:])\n    pre ="}),
    known("adds-output-to-itself",
          "This fits each layer's output added to itself: the input is lost. "
          "Which tensor does x name at the moment of the addition?",
          {"x + out": "out + out"},
          {SHAPES: "", "x + out": "out + out"}),
    known("adds-network-input",
          "This fits the network's first input added to every layer's "
          "output. Expected the input of that same layer.",
          FIRST | {"x + out": "first + out"}),
    known("adds-earlier-input",
          "This fits the input of the layer before as what is added. "
          "Expected the input of the same layer.",
          {LOOP: f"before = x\n{LOOP}", "x + out": "before + out",
           "    x = out": "    before, x = x, out"}),
    known("adds-every-earlier-input",
          "This fits the inputs of all earlier layers added as well. "
          "Expected the input of the same layer alone.",
          {LOOP: f"total = 0\n{LOOP}", "pre =": "total = total + x\n    pre =",
           "x + out": "total + out"}),
    _sums("activation-after-addition",
          "This fits a GELU that takes in the sum, and with it the carried "
          "input. Expected the addition last.",
          "F.gelu(x + pre, approximate=gelu)",
          "F.gelu(x + out, approximate='tanh')",
          "F.gelu(x + out, approximate='none')"),
    _sums("adds-linear-output",
          "This fits the Linear's output added to its own activation. "
          "Expected the layer's input.",
          "pre + out"),
    _sums("shortcut-around-each-step",
          "This fits one shortcut past the Linear and another past the GELU. "
          "Expected one past both together.",
          "x + pre + F.gelu(x + pre, approximate=gelu)"),
    _sums("activation-missing",
          "This fits x + Linear(x), to which no GELU was applied.",
          "x + pre"),
    _sums("activates-carried-input",
          "This fits a carried input that has gone through GELU as well. It "
          "must arrive at the addition as it was.",
          "F.gelu(x, approximate='tanh') + out",
          "F.gelu(x, approximate='none') + out"),
    _sums("subtracted",
          "This fits a difference of input and output. Expected a sum.",
          "x - out", "out - x"),
    _sums("multiplied",
          "This fits a product of input and output. Expected a sum.",
          "x * out"),
    _sums("averaged",
          "This fits half the sum of input and output. Expected all of it.",
          "(x + out) / 2"),
    _sums("input-added-twice",
          "This fits an input that is added twice. Expected once.",
          "2 * x + out"),
    _sums("adds-output-twice",
          "This fits an output that is added twice. Expected once.",
          "x + 2 * out"),
    _sums("adds-input-to-itself",
          "This fits an input added to itself: the layer's output is lost.",
          "x + x"),
    _sums("layer-output-lost",
          "This fits the input carried on alone: the layer's output is lost.",
          "x"),
]  # fmt: skip
FLOW = [
    known("activation-missing-last",
          "This fits a last layer that gives what its Linear gives alone. "
          "Each layer is a Linear followed by GELU, the last one too.",
          {GELU: f"pre if weight is layers[-1][0] else {GELU}"}),
    known("layers-not-chained",
          "This fits layers that all get the network's input, and the last "
          "one's result returned. What does the next round of the loop read?",
          {"    x = out\nreturn x": "return out"}),
    known("sum-not-returned",
          "This fits sums that are carried on, while `return` gives the last "
          "layer's output instead of the sum. And where nothing is added, "
          "the output must be carried on.",
          {"    out = x + out": "    x = x + out",
           "    x = out\nreturn x": "return out"}),
    known("returns-after-first-layer",
          "This fits the first layer's output alone. At which indentation "
          "does the return stand?",
          {"return x": "    return x"}),
    known("last-layer-not-run",
          "This fits the output before the last layer.",
          {"in layers": "in layers[:-1]"}),
]  # fmt: skip
ACTIVATIONS = [
    known("activation-missing",
          "This fits layers that give what a Linear gives alone: the GELU "
          "has no effect.",
          {GELU: "pre"}),
    *(known("wrong-activation",
            f"This fits {what} in place of GELU.",
            {GELU: text})
      for what, text in (
          ("ReLU", "F.relu(pre)"),
          ("the sigmoid", "torch.sigmoid(pre)"),
          ("tanh", "torch.tanh(pre)"),
          ("SiLU", "F.silu(pre)"),
          ("the sigmoid form", "pre * torch.sigmoid(1.702 * pre)"),
          ("GELU applied twice", GELU.replace("pre", GELU)),
          ("leaky ReLU", "F.leaky_relu(pre)"))),
]  # fmt: skip


def _network(solve):
    class MyShortcutNetwork(gptlib.ExampleDeepNeuralNetwork):
        def forward(self, x):
            layers = [(step[0].weight, step[0].bias) for step in self.layers]
            return solve(x, layers, self.use_shortcut, "tanh")

    return MyShortcutNetwork


SHORTCUT = Task(
    chained, [*FLAG, *PLACES, *SUMS, *FLOW, *ACTIVATIONS], _network
)


# --- the exercises -------------------------------------------------------


@exercise(
    "The list of widths has one number more than the network has layers. "
    "In forward, keep the input of a layer until its output is there.",
    "For each layer, compute its output under a new name. Compare the "
    "shapes of this output and of the input. Only where they agree, and "
    "only if use_shortcut is true, both are added.",
    "In the loop: out = layer(x); if …: out = …; x = out. A sum written "
    "with + is a new tensor, one written with += is not.",
    task=SHORTCUT,
)
def shortcut(cls):
    """Structure, values with and without shortcuts, mixed widths, the
    caller's tensor, and gradients."""
    for sizes in ([5, 7, 7, 2], EQUAL[-1], [3, 3]):
        _check_structure(_build(cls, sizes, True), sizes)
        _check_start(cls, sizes)
    networks, forms = [], ["tanh", "none"]
    for widths, flags, *otherwise in STAGES:
        networks += [_look(cls, *both) for both in product(widths, flags)]
        forms = _compare(networks, forms, *otherwise)
    for network in networks:
        _check_again(network, forms[0])
    for network in networks[:4]:
        x = network.x
        check_manners(network.module, [x, x[:1], torch.cat([x, x, x])])
    for network in networks:
        reading = {**network.reading, "gelu": forms[0]}
        check_gradients(network.module, SHORTCUT, network.x, reading)
    note = ""
    if forms == ["none"]:
        note = " Your GELU is the exact form; the notes use the tanh form."
    return (
        f"{len(networks) // 2} lists of widths, from one layer to 34, give "
        "the right values with and without shortcuts, the caller's tensor "
        f"stays as it was, and the gradients are right too.{note}"
    )


# --- building a network --------------------------------------------------


def _build(cls, sizes, use_shortcut):
    """A learner's network with large parameters, the same at each call."""
    call = f"MyShortcutNetwork({sizes}, {use_shortcut})"
    try:
        model = construct(cls, sizes, use_shortcut, call=call)
    except IndexError:
        if runs(cls, [3] * 6, True):
            raise Mistake(
                "wrong-number-of-layers",
                f"Six widths work, but {sizes}, with {len(sizes)} widths, "
                "raises an IndexError. Let the list's length decide how many "
                "layers there are.",
            ) from None
        raise
    torch.manual_seed(1)
    return randomized(model)


def _check_start(cls, sizes):
    """From one seed, it has the parameters of the notebook's network."""
    for seed in (1, 2):
        starts = []
        for build in (cls, gptlib.ExampleDeepNeuralNetwork):
            torch.manual_seed(seed)
            starts.append(list(build(list(sizes), True).parameters()))
            starts[-1].sort(key=torch.Tensor.dim)
        for mine, theirs in zip(*starts, strict=True):
            if not torch.equal(mine, theirs):
                raise Mistake(
                    "start-differs",
                    f"Made with {sizes} after torch.manual_seed({seed}), your "
                    "network has other start values than the notebook's. "
                    f"{difference(mine, theirs, 'parameter')} Each Linear "
                    "draws its own when it is made: are they made in the "
                    "list's order, is something else drawn or seeded before, "
                    "or are values set afterwards?",
                )


def _check_structure(model, sizes):
    check_names(model, {"layers": ("layers-missing", "where the layers go")})
    matrices = [tuple(p.shape) for p in model.parameters() if p.dim() == 2]
    _check_matrices(model.layers, matrices, sizes)
    trained = count(model)
    wanted = sum(i * o + o for i, o in pairwise(sizes))
    if trained != wanted:
        raise Mistake(
            "bias-missing" if trained < wanted else "extra-parameters",
            f"For {sizes} the network has {trained} parameters; expected "
            f"{wanted}: each Linear has a weight matrix and a bias, and a "
            "shortcut has nothing to learn.",
        )


def _check_matrices(layers, found, sizes):
    wanted = [(d_out, d_in) for d_in, d_out in pairwise(sizes)]
    if found == wanted:
        return
    steps = len(layers) if hasattr(layers, "__len__") else len(found)
    wider = len(found) == len(wanted) and all(
        f[0] == w[0] and f[1] >= w[1]
        for f, w in zip(found, wanted, strict=True)
    )
    if found == [shape[::-1] for shape in wanted]:
        name, where = "widths-swapped", "nn.Linear takes the input width first"
    elif wider:
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
    raise Mistake(
        name,
        f"For {sizes} the weight matrices have the shapes {found}; expected "
        f"{wanted}: {where}.",
    )


# --- comparing networks --------------------------------------------------


class Network(NamedTuple):
    """A learner's network, and what it makes of x: a tensor or an error."""

    name: str
    module: nn.Module
    x: torch.Tensor
    reading: dict
    made: object

    def fits(self, solve, form):
        """Whether a solution with this form of GELU makes the same of x."""
        return same(self.made, self.wanted(solve, form), equal_nan=True)

    def wanted(self, solve, form):
        try:
            return solve(self.x, **self.reading, gelu=form)
        except Exception as error:  # two edits together may break anything
            return error


def _look(cls, sizes, use_shortcut):
    module = _build(cls, sizes, use_shortcut)
    parameters = list(module.parameters())
    weights = [p for p in parameters if p.dim() == 2]
    biases = [p for p in parameters if p.dim() == 1]
    layers = list(zip(weights, biases, strict=True))
    x = torch.randn(ROWS.get(len(sizes), 3), sizes[0])
    try:
        # Another shape is a known mistake's, so it is no mistake yet.
        shape = getattr(module(x.clone()), "shape", (3, sizes[-1]))
        made = settled(module, SHORTCUT, x, shape)
    except NotImplementedError:
        raise  # a stub, whatever stands around it
    except (RuntimeError, IndexError) as error:
        made = error
    reading = {"layers": layers, "use_shortcut": use_shortcut}
    name = f"the widths {sizes} with use_shortcut={use_shortcut}"
    return Network(name, module, x, reading, made)


def _compare(networks, forms, name, says):
    """The forms of GELU, of those given, with which all networks are right."""
    right = {
        form: [network.fits(chained, form) for network in networks]
        for form in forms
    }
    most = max(map(sum, right.values()))
    forms = [form for form in forms if sum(right[form]) == most]
    if most == len(networks):
        return forms
    found = SHORTCUT.explain(
        lambda solve: any(
            all(network.fits(solve, form) for network in networks)
            for form in forms
        )
    )
    wrong = networks[right[forms[0]].index(False)]
    made, wanted = wrong.made, wrong.wanted(chained, forms[0])
    if not found and (name, says) == UNEXPLAINED:
        if isinstance(made, Exception):
            raise made
        expect_tensor(made, wanted.shape, f"The output for {wrong.name}")
    blame(
        found, f"Look at {wrong.name}. {difference(made, wanted)}", name, says
    )


def _check_again(network, form):
    """A second input of the same shape, after other networks were made."""
    again = network._replace(x=-network.x)
    made, wanted = network.module(-network.x), again.wanted(chained, form)
    if not same(made, wanted):
        raise Mistake(
            "remembers-calls",
            f"For {network.name}, the first result is right; one for other "
            "numbers, after other networks were made, is not. "
            f"{difference(made, wanted)} Is something kept from one call to "
            "the next, or in the class instead of in self?",
        )
