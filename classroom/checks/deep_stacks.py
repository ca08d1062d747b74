"""Checks of notebook 04, part two: the signal in any network, and thirty
layers that start as GPT-2's do."""

import contextlib
import itertools
import math
import statistics
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

import gptlib
from classroom.checks.edits import Task, blame, known
from classroom.checks.functions import attempt, check_signature, left_alone
from classroom.checks.guard import exercise
from classroom.checks.manners import check_manners
from classroom.checks.modules import (
    Probe,
    compare,
    construct,
    randomized,
    runs,
)
from classroom.checks.parts import check_names
from classroom.checks.result import Mistake
from classroom.checks.tensors import number, same

# --- the signal's solution, and what mistakes make of it -----------------


def signals(model, x):
    x = x.clone().requires_grad_()
    inputs = []
    hooks = [
        layer.register_forward_pre_hook(lambda _, a: inputs.append(a[0]))
        for layer in model.layers
    ]
    loss = model(x).square().mean()
    for hook in hooks:
        hook.remove()
    gradients = torch.autograd.grad(loss, inputs)
    return [gradient.abs().mean().item() for gradient in gradients]


def joined(model, x, use_shortcut):
    """What a loop over the layers gives that leaves out their model."""
    for layer in model.layers:
        out = layer(x)
        x = x + out if use_shortcut and x.shape == out.shape else out
    return x


ONE = "gradient.abs().mean().item()"
ALL = "gradient in gradients]"
SIGNAL_MISTAKES = [
    known("abs-missing",
          "This fits a mean in which positive and negative numbers cancel. "
          "When are the absolute values taken?",
          {ONE: "gradient.mean().item()"},
          {ONE: "gradient.mean().abs().item()"}),
    *(known("not-the-mean",
            f"This fits {what} of the gradient. Expected the mean of the "
            "absolute values.",
            {ONE: f"gradient.{text}.item()"})
      for what, text in (("the largest entry", "abs().max()"),
                         ("the sum of the entries", "abs().sum()"),
                         ("the length", "norm()"),
                         ("the mean square", "square().mean()"),
                         ("the root of the mean square",
                          "square().mean().sqrt()"),
                         ("the median", "abs().median()"))),
    known("outputs-not-inputs",
          "This fits the gradients at the layers' outputs. Expected those at "
          "what enters each layer: which hook sees that?",
          {"forward_pre_hook(lambda _, a: inputs.append(a[0]))":
           "forward_hook(lambda _, a, out: inputs.append(out))"}),
    known("branch-only",
          "This fits the part of the signal that comes back through the "
          "layers; the part that comes back past them, by the shortcuts, is "
          "missing. Does your hook hand the layer a new tensor, or does it "
          "look at the layer's own gradient alone?",
          {"inputs.append(a[0])": "inputs.append(a[0] * 1) or inputs[-1]"}),
    known("values-not-gradients",
          "This fits the size of what enters each layer. Expected the size of "
          "the loss's gradient there.",
          {ALL: "gradient in inputs]"}),
    known("weights-gradients",
          "This fits the gradients of the weight matrices. Expected those at "
          "what enters each layer.",
          {"grad(loss, inputs)": "grad(loss, [p for p in model.parameters()"
           " if p.dim() > 1])"}),
    known("wrong-loss",
          "This fits a loss without the square.",
          {".square()": ""}, {".square().mean()": ".sum()"}),
    known("wrong-loss",
          "This fits a loss that is a sum over the output. Expected its mean.",
          {".square().mean()": ".square().sum()"}),
    known("reversed",
          "The numbers are right, but the last layer's stands first. Expected "
          "the first layer's first.",
          {ALL: "gradient in gradients[::-1]]"}),
    known("joined-by-hand",
          "This fits layers that are joined by a loop of your own, with a "
          "shortcut wherever shapes agree. Let the model itself run, and "
          "listen.",
          {"model(x)": "joined(model, x, True)"}),
    known("joined-by-hand",
          "This fits layers that are joined by a loop of your own, without a "
          "shortcut. Let the model itself run, and listen.",
          {"model(x)": "joined(model, x, False)"}),
    known("share-not-signal",
          "This fits each signal divided by the last one. Expected the signal "
          "itself.",
          {ONE: "(gradient.abs().mean() / gradients[-1].abs().mean())"
           ".item()"}),
    known("share-not-signal",
          "This fits each signal divided by the first one. Expected the "
          "signal itself.",
          {ONE: "(gradient.abs().mean() / gradients[0].abs().mean()).item()"}),
    known("first-layer-missing",
          "The other layers are right, but there is no number for what enters "
          "the first one.",
          {ALL: "gradient in gradients[1:]]"}),
    known("last-layer-missing",
          "The other layers are right, but there is no number for what enters "
          "the last one.",
          {ALL: "gradient in gradients[:-1]]"}),
    known("one-example-only",
          "This fits the first example of the batch alone. Expected the mean "
          "over all of them.",
          {ONE: "gradient[0].abs().mean().item()"}),
    known("summed-before-abs",
          "This fits a sum over the batch, of which absolute values are taken "
          "afterwards. Expected them first.",
          {ONE: "gradient.sum(0).abs().mean().item()"},
          {ONE: "gradient.mean(0).abs().mean().item()"}),
]  # fmt: skip
SIGNAL = Task(signals, SIGNAL_MISTAKES, lambda solve: solve)


class _Other(nn.Module):
    """A network whose forward joins its layers in its own way."""

    def __init__(self, layers, join):
        super().__init__()
        self.layers, self.join = nn.ModuleList(layers), join
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        first = x
        for layer in self.layers:
            x = self.join(self.norm, layer, x, first)
        return x


def _steps(count):
    return [
        nn.Sequential(nn.Linear(4, 4), gptlib.GELU()) for _ in range(count)
    ]


def _stack(sizes, use_shortcut, seed):
    torch.manual_seed(seed)
    return gptlib.ExampleDeepNeuralNetwork(sizes, use_shortcut)


def _notebooks():
    """Networks of the notebook's class, each with an input."""
    torch.manual_seed(3)
    rows = torch.randn(5, 4)
    three = torch.tensor([[1.0, 0, -1]])
    return {
        "ExampleDeepNeuralNetwork without shortcuts": (
            _stack([3] * 5 + [1], False, 123), three),
        "ExampleDeepNeuralNetwork with shortcuts": (
            _stack([3] * 5 + [1], True, 123), three),
        "a network with shortcuts and a batch of 5": (
            _stack([4, 4, 6, 6, 2], True, 7), rows),
    }  # fmt: skip


def _others():
    """Networks that join their layers otherwise, each with an input."""
    torch.manual_seed(4)
    rows, texts = torch.randn(5, 4), torch.randn(2, 3, 4)
    wide = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
            for _ in range(4)]  # fmt: skip
    joins = {
        "a norm in front of each layer":
            (_steps(4), lambda norm, f, x, first: x + f(norm(x)), rows),
        "a norm after each sum":
            (_steps(3), lambda norm, f, x, first: norm(x + f(x)), rows),
        "half of each layer's output":
            (wide, lambda norm, f, x, first: x + 0.5 * f(x), texts),
        "the network's input added each time":
            (_steps(6), lambda norm, f, x, first: first + f(x), texts),
        "a single layer":
            (_steps(1), lambda norm, f, x, first: f(x), rows),
        "Linear layers alone":
            ([nn.Linear(4, 4), nn.Linear(4, 4)],
             lambda norm, f, x, first: f(2 * x), rows),
    }  # fmt: skip
    return {
        f"a network with {name}": (_Other(layers, join), x)
        for name, (layers, join, x) in joins.items()
    }


# --- the thirty layers' solution, and what mistakes make of it -----------


def summed(x, layers, final, head, gelu):
    width = x.shape[-1:]
    for scale, shift, weight, bias in layers:
        read = F.layer_norm(x, width, scale, shift)
        out = F.gelu(F.linear(read, weight, bias), approximate=gelu)
        x = x + out
    y = F.layer_norm(x, width, *final)
    return F.linear(y, *head)


OUT = "F.gelu(F.linear(read, weight, bias), approximate=gelu)"
READ = "F.layer_norm(x, width, scale, shift)"
LAYER_MISTAKES = [
    known("shortcut-missing",
          "This fits layers in a row without an addition.",
          {"x = x + out": "x = out"}),
    known("carries-normalized-input",
          "This fits a shortcut that carries the normalized input. Expected "
          "the input itself: which tensor stands before the plus?",
          {"x = x + out": "x = read + out"}),
    known("norm-after-addition",
          "This fits a norm of the sum, x = norm(x + …). Expected the norm "
          "inside the branch, before the Linear.",
          {"read = " + READ: "read = x",
           "x = x + out": "x = F.layer_norm(x + out, width, scale, shift)"}),
    known("norm-after-branch",
          "This fits a norm of what the layer gives, before the addition. "
          "Expected it before the Linear.",
          {"read = " + READ: "read = x",
           "x = x + out": "x = x + F.layer_norm(out, width, scale, shift)"}),
    known("norm-between",
          "This fits a norm between Linear and GELU. Expected it before the "
          "Linear.",
          {"read = " + READ: "read = x",
           OUT: "F.gelu(F.layer_norm(F.linear(read, weight, bias), width, "
                "scale, shift), approximate=gelu)"}),
    known("norm-missing",
          "This fits layers that read the sum as it is, without a norm.",
          {READ: "x"}),
    known("final-norm-missing",
          "This fits an out_head that reads the last sum as it is.",
          {"F.layer_norm(x, width, *final)": "x"}),
    known("activation-missing",
          "This fits layers without GELU.",
          {OUT: "F.linear(read, weight, bias)"}),
    known("wrong-activation", "This fits ReLU in place of GELU.",
          {OUT: "F.relu(F.linear(read, weight, bias))"}),
    known("activation-on-head",
          "This fits a GELU after out_head. Nothing follows it.",
          {"return F.linear(y, *head)":
           "return F.gelu(F.linear(y, *head), approximate=gelu)"}),
    known("activation-after-addition",
          "This fits a GELU of the sum. Expected the addition last.",
          {OUT: "F.linear(read, weight, bias)",
           "x = x + out": "x = F.gelu(x + out, approximate=gelu)"}),
    known("divided-in-forward",
          "This fits a division by √N in forward, at every call. Expected it "
          "once, on the weights, when the network is made.",
          {"x = x + out": "x = x + out / len(layers) ** 0.5"}),
    known("divided-in-forward",
          "This fits a division by √N of the weights in forward, at every "
          "call. Expected it once, when the network is made.",
          {"F.linear(read, weight, bias)": "F.linear(read, weight / "
           "len(layers) ** 0.5, bias / len(layers) ** 0.5)"}),
    known("sum-divided",
          "This fits a division of the sum itself. A shortcut carries it as "
          "it is.",
          {"x = x + out": "x = (x + out) / len(layers) ** 0.5"},
          {"x = x + out": "x = (x + out) / 2"}),
    known("head-unused",
          "This fits the mean of the normalized sum, without out_head.",
          {"F.linear(y, *head)": "y.mean(-1, keepdim=True) + 0 * "
           "F.linear(y, *head)"}),
    known("last-layer-skipped",
          "This fits a last layer without a shortcut. Which layers does the "
          "exercise leave out?",
          {"x = x + out": "x = out if weight is layers[-1][2] else x + out"}),
    known("activation-before-linear",
          "This fits a GELU in front of the Linear. Expected it behind.",
          {OUT: "F.linear(F.gelu(read, approximate=gelu), weight, bias)"}),
    known("adds-network-input",
          "This fits the network's first input added at every layer. Expected "
          "the input of that same layer.",
          {"width = x.shape[-1:]": "width, first = x.shape[-1:], x",
           "x = x + out": "x = first + out"}),
    known("subtracted", "This fits a difference. Expected a sum.",
          {"x = x + out": "x = x - out"}),
    known("last-layer-not-run",
          "This fits all layers but the last one.",
          {"in layers:": "in layers[:-1]:"}),
    known("returns-after-first-layer",
          "This fits the first layer alone, then final_norm and out_head. At "
          "which indentation do the last lines stand?",
          {"in layers:": "in layers[:1]:"}),
]  # fmt: skip


class Reference(nn.Module):
    """The exercise's network, made as it asks."""

    def __init__(self, width, depth=30):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                gptlib.LayerNorm(width), nn.Linear(width, width), gptlib.GELU()
            )
            for _ in range(depth)
        )
        self.final_norm = gptlib.LayerNorm(width)
        self.out_head = nn.Linear(width, 1)
        with torch.no_grad():
            for _, linear, _ in self.layers:
                linear.weight /= math.sqrt(depth)
                linear.bias /= math.sqrt(depth)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.out_head(self.final_norm(x))


def _thirty(solve):
    class MyThirtyLayers(Reference):
        def forward(self, x):
            layers = [
                (*norm.parameters(), *linear.parameters())
                for norm, linear, _ in self.layers
            ]
            final, head = self.final_norm, self.out_head
            ends = [*final.parameters()], [*head.parameters()]
            return solve(x, layers, *ends, "tanh")

    return MyThirtyLayers


THIRTY = Task(summed, LAYER_MISTAKES, _thirty)


# --- the exercises -------------------------------------------------------


@exercise(
    "Two steps: first collect the tensors that enter the layers, while the "
    "model runs; then ask for the loss's gradient at each of them.",
    "Register one hook for each layer. It only appends args[0] to a list. "
    "What enters the first layer is a copy of x that asks for a gradient: "
    "x.clone().requires_grad_().",
    "torch.autograd.grad(loss, inputs) takes the whole list and leaves no "
    "grad behind. Before you return, call remove() on each handle.",
    task=SIGNAL,
)
def signal_per_layer(fn):
    """The notebook's networks, others, and what is left behind."""
    _check_signals(fn, _notebooks(), partial(_unexplained, fn))
    _check_signals(fn, _others(), _rewritten)
    for name, (model, x) in (others := _others()).items():
        _check_left_alone(fn, name, model, x)
    return (
        f"{len(_notebooks())} networks of the notebook and {len(others)} that "
        "join their layers in other ways give the right signals; no hook, "
        "gradient or mark stays behind."
    )


@exercise(
    "Start from exercise 1. Each layer gets one more part, in front; the "
    "addition stays outside of all three. Only then think of the start.",
    "Norm, Linear and GELU in an nn.Sequential, `depth` of them in an "
    "nn.ModuleList. After the loop: out_head of final_norm of x. A new "
    "Linear's weight and bias can be changed in place under "
    "torch.no_grad().",
    "with torch.no_grad(): linear.weight /= depth**0.5, and the same for the "
    "bias. In forward: for layer in self.layers: x = x + …",
    task=THIRTY,
)
def thirty_layers(cls):
    """Parts, start values, output and gradients, widths and depths."""
    for width, depth in ((16, 5), (24, 12), (16, 30)):
        module = _made(cls, width, depth)
        _check_start(module, width, depth)
    _check_drawn(cls)
    for width, depth in ((6, 4), (5, 7), (1, 1)):
        module = _made(cls, width, depth)
        randomized(module)
        probes = _probes(width)
        readings = _readings(module, probes[0].x)
        compare(module, THIRTY, probes, readings)
        check_manners(module, [probe.x for probe in probes])
    if len(_linears(construct(cls, 4, call="MyThirtyLayers(4)"))) != 30:
        raise Mistake(
            "defaults-missing",
            "MyThirtyLayers(4) has another number of layers than 30. Look at "
            "the default value of depth.",
        )
    return (
        "start and output are right at all widths and depths. "
        f"{_sums(cls)} {_flow(cls)}"
    )


# --- signals -------------------------------------------------------------


def _check_signals(fn, networks, otherwise):
    """Compare on these networks; raise what explains a wrong answer."""
    call = "my_signal_per_layer(model, x)"
    check_signature(fn, None, None, call=call)
    made = {}
    for name, (model, x) in networks.items():
        outcome = attempt(fn, model, x)
        made[name] = outcome.error or _numbers(outcome.result, name)
    wrong = [n for n in made if not _fits(made, networks, signals, [n])]
    if not wrong:
        return
    found = SIGNAL.explain(
        lambda solve: _fits(made, networks, solve, networks)
    )
    wanted = signals(*networks[wrong[0]])
    told = made[wrong[0]]
    if isinstance(told, Exception):
        what = f"{type(told).__name__}: {told}".split(". ")[0].rstrip(".")
        seen = f"For {wrong[0]}, it stops with {what}."
    else:
        seen = (
            f"For {wrong[0]} the answer is {_list(told)}; expected "
            f"{_list(wanted)}."
        )
    words = ("", "") if found else otherwise(told, wanted)
    blame(found, seen, *words)


def _fits(made, networks, solve, names):
    """Whether a solution gives what was made for these networks."""
    for name in names:
        model, x = networks[name]
        try:
            wanted = torch.tensor(solve(model, x), dtype=torch.float64)
        except Exception as error:  # two edits together may break anything
            wanted = error
        _drop_hooks(model)
        if isinstance(wanted, Exception) or isinstance(made[name], Exception):
            return False
        if not same(made[name], wanted, 1e-3, 1e-9 * float(wanted.max())):
            return False
    return True


def _numbers(result, name):
    """What an answer returned, as a tensor."""
    if result is None:
        raise Mistake(
            "returns-none",
            "The function returns None: does every path end in a return?",
        )
    if isinstance(result, list | tuple | torch.Tensor):
        try:
            entries = [float(entry) for entry in result]
            return torch.tensor(entries, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError):
            kinds = {type(entry).__name__ for entry in result}
            raise Mistake(
                "wrong-type",
                f"For {name} the list holds entries of type "
                f"{', '.join(sorted(kinds))}, which are no single numbers. "
                "Expected one number for each layer.",
            ) from None
    raise Mistake(
        "wrong-type",
        f"The function returns a {type(result).__name__}; expected a list of "
        "numbers, one for each layer.",
    )


def _unexplained(fn, told, wanted):
    """Name and words for what no known mistake explains."""
    text = str(told)
    if isinstance(told, RuntimeError) and "require" in text:
        return (
            "input-without-gradient",
            "Some tensor asks for no gradient. No parameter stands before "
            "the first layer, so nothing asks for a gradient of its input "
            "unless you do. Are gradients switched off on the way, as by "
            "no_grad or detach?",
        )
    if isinstance(told, Exception) and "NoneType" in text:
        return (
            "gradient-not-kept",
            "Something is None. Only parameters keep their .grad by "
            "themselves; a tensor in the middle does if you call "
            "retain_grad() before backward().",
        )
    for piece, name, says in STOPS if isinstance(told, Exception) else ():
        if piece in text:
            return name, says
    if isinstance(told, Exception):
        raise told
    if len(told) != len(wanted):
        return (
            "wrong-length",
            f"The list has {len(told)} numbers for {len(wanted)} layers.",
        )
    return (
        "wrong-values",
        "Compare with the notebook's `signals` on the same network.",
    )


STOPS = [
    ("not have been used", "not-in-graph",
     "The loss does not depend on a tensor of your list: is it a copy of what "
     "the layer reads, or from another run of the model?"),
    ("a second time", "graph-used-up",
     "The first walk back throws away what the second needs. Can one walk "
     "bring all the gradients?"),
    ("but got tuple", "tuple-kept",
     "What enters comes to your hook in a tuple, with the tensor inside."),
    ("positional argument", "hook-called-otherwise",
     "If this is your hook: PyTorch calls one that runs before a layer with "
     "two values, one that runs after it with three."),
]  # fmt: skip


def _rewritten(told, wanted):
    return (
        "forward-rewritten",
        "The notebook's own networks are right. Does your code take for "
        "granted how the layers are joined, what they consist of, or how "
        "many axes x has? Let the model itself run, and only listen.",
    )


def _check_left_alone(fn, name, model, x):
    """Nothing stays: hooks, gradients, modes, marks on the input."""
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    given = x.clone()
    with left_alone(model), _attributes_kept(model, name):
        for _ in range(2):
            told = _numbers(fn(model, given), name)
    if _drop_hooks(model):
        raise Mistake(
            "hooks-left",
            f"After the call, hooks are still on {name}: they would run at "
            "each later call, too. Which method of a handle removes one?",
        )
    if given.requires_grad or given.grad is not None:
        raise Mistake(
            "input-marked",
            "After the call, the caller's x has requires_grad=True. Mark a "
            "copy of it.",
        )
    if not torch.equal(given, x):
        raise Mistake(
            "input-overwritten", "After the call, the caller's x has changed."
        )
    if not same(told, torch.tensor(signals(model, x)).double(), 1e-3, 1e-12):
        raise Mistake(
            "remembers-calls",
            f"For {name}, the first call is right and a later one is not: "
            f"{_list(told)}. Is something kept from one call to the next, or "
            "added to gradients that were there?",
        )


@contextlib.contextmanager
def _attributes_kept(model, name):
    """Raise `Mistake` if a part of the model gains or loses an attribute."""
    before = [{*vars(part)} for part in model.modules()]
    yield
    after = [{*vars(part)} for part in model.modules()]
    if after != before:
        more = sorted(set().union(*after).difference(*before))
        raise Mistake(
            "model-changed",
            f"After the call, parts of {name} have other attributes than "
            f"before{': ' if more else ''}{', '.join(more)}. Leave the model "
            "as you found it.",
        )


def _drop_hooks(model):
    """Remove all hooks; whether there were any."""
    found = False
    for part in model.modules():
        for kind in ("_forward_pre_hooks", "_forward_hooks",
                     "_backward_hooks", "_backward_pre_hooks"):  # fmt: skip
            found = found or bool(getattr(part, kind))
            getattr(part, kind).clear()
    return found


def _list(values):
    return f"[{', '.join(number(value, 3) for value in values)}]"


# --- thirty layers -------------------------------------------------------


PARTS = {
    "layers": ("layers-missing", "where the layers go"),
    "final_norm": ("final-norm-missing", "the norm after the last sum"),
    "out_head": ("out-head-missing", "the Linear to one value"),
}


def _made(cls, width, depth):
    """A learner's network, with all its parts."""
    call = f"MyThirtyLayers({width}, {depth})"
    torch.manual_seed(width)
    module = construct(cls, width, depth, call=call)
    check_names(module, PARTS)
    linears, norms = _linears(module), _norms(module.layers)
    for found, what in (
        (linears, "weight matrices"),
        (norms, "norms with scale and shift"),
    ):
        if len(found) != depth:
            raise Mistake(
                "wrong-number-of-layers" if found else "part-missing",
                f"In {call}, the number of {what} in layers is {len(found)}; "
                f"expected {depth}, one for each layer and each its own.",
            )
    if len(_norms(module.final_norm)) != 1:
        raise Mistake(
            "part-missing",
            f"final_norm, a {type(module.final_norm).__name__}, holds no "
            "layer norm's scale and shift.",
        )
    shapes = {tuple(weight.shape) for weight, _ in linears}
    head = [tuple(p.shape) for p in module.out_head.parameters()]
    if shapes != {(width, width)} or head != [(1, width), (1,)]:
        raise Mistake(
            "wrong-widths",
            f"In {call}, the weights of layers have the shapes "
            f"{sorted(shapes)} and out_head's parameters {head}; expected "
            f"{(width, width)}, and {(1, width)} with {(1,)}.",
        )
    return module


def _own(module):
    """The parameters of each part of a module, by part."""
    for part in module.modules():
        own = [*part.parameters(recurse=False)]
        if own:
            yield own


def _linears(module):
    """Weight and bias of each Linear in layers."""
    found = [
        sorted(own, key=torch.Tensor.dim, reverse=True)
        for own in _own(module.layers)
        if any(p.dim() == 2 for p in own)
    ]
    if any([p.dim() for p in own] != [2, 1] for own in found):
        raise Mistake(
            "bias-missing",
            f"A layer holds parameters of shapes "
            f"{[tuple(p.shape) for p in found[0]]}; expected a Linear's "
            "weight and bias.",
        )
    return found


def _norms(module):
    """Scale and shift of each layer norm, in this order."""
    found = [own for own in _own(module) if all(p.dim() == 1 for p in own)]
    if any(len(own) != 2 for own in found):
        raise Mistake(
            "norm-incomplete",
            "A norm has other parameters than a layer norm's two, scale and "
            "shift.",
        )
    return found


def _readings(module, x):
    """The solution's other arguments, the nearer form of GELU first."""
    readings = [_reading(module, form) for form in ("tanh", "none")]
    if runs(module, x.clone()) and torch.is_tensor(y := module(x.clone())):
        gaps = [(y - summed(x, **r)).abs().max().item() for r in readings]
        if gaps[1] < gaps[0]:
            readings.reverse()
    return readings


def _reading(module, form):
    norms, linears = _norms(module.layers), _linears(module)
    (final,) = _norms(module.final_norm)
    return {
        "layers": [(*n, *lin) for n, lin in zip(norms, linears, strict=True)],
        "final": final,
        "head": list(module.out_head.parameters()),
        "gelu": form,
    }


def _probes(width):
    torch.manual_seed(5)
    return [
        Probe(torch.randn(3, width), "wrong-values",
              "Compare one layer after the other with a calculation of your "
              "own."),
        Probe(4 * torch.randn(1, width) + 2, "shape-dependent",
              "With 3 rows it is right. What goes by the number of rows?"),
    ]  # fmt: skip


def _check_start(module, width, depth):
    """Weights and biases start as a Linear's do, divided by √depth."""
    weights, biases = zip(*_linears(module), strict=True)
    usual = 1 / math.sqrt(width)
    reach = [p.abs().max().item() / usual for p in weights]
    if min(reach) < 0.85 * max(reach):
        raise Mistake(
            "start-differs",
            f"With depth {depth}, some layers' weights reach "
            f"{number(max(reach) * usual)} and others' only "
            f"{number(min(reach) * usual)}; expected about "
            f"{number(usual / math.sqrt(depth))} in all: what a new Linear "
            "draws, with one divisor.",
        )
    _check_factor("weights", max(reach), width, depth)
    _check_factor("biases", _reach(biases) / usual, width, depth, 0.85)
    head = _reach(module.out_head.parameters()) / usual
    if not 0.6 < head <= 1.001:
        raise Mistake(
            "head-divided",
            f"out_head's parameters reach {number(head * usual)}; those of a "
            f"new Linear reach {number(usual)}. It does not write into the "
            "sum, so it starts as it is made.",
        )
    for scale, shift in (*_norms(module.layers), *_norms(module.final_norm)):
        if (scale != 1).any() or (shift != 0).any():
            raise Mistake(
                "norm-start-differs",
                "A norm does not start with scales of 1 and shifts of 0. Do "
                "you divide more than the Linears?",
            )


def _reach(tensors):
    return max(p.abs().max().item() for p in tensors)


def _check_factor(what, factor, width, depth, least=0.93):
    """The start is divided as asked for."""
    wanted = 1 / math.sqrt(depth)
    if least * wanted < factor <= 1.001 * wanted:
        return
    name, says = "start-differs", "By what do you divide, and how often?"
    for text, name_of, value in (
        ("no division in the start values", "not-divided", 1),
        ("a division by N, or by √N twice", "divided-by-depth", 1 / depth),
        ("a product with √N", "multiplied", math.sqrt(depth)),
        ("a division by √(2N)", "divided-by-2n", 1 / math.sqrt(2 * depth)),
        ("a division by √30, whatever depth is", "depth-ignored",
         1 / math.sqrt(30)),
        ("a division by √width", "divided-by-width", 1 / math.sqrt(width)),
    ):  # fmt: skip
        if 0.97 * value < factor <= 1.001 * value:
            name, says = name_of, f"This fits {text}."
            break
    usual = 1 / math.sqrt(width)
    raise Mistake(
        name,
        f"At width {width} and depth {depth}, the {what} in layers reach "
        f"{number(factor * usual)}; a new Linear's reach {number(usual)}, "
        f"and divided by √{depth} that is {number(usual * wanted)}. {says}",
    )


def _check_drawn(cls):
    """Layers, and networks, start from random weights of their own."""
    one, other = (_linears(_made_anew(cls)) for _ in range(2))
    weights = [weight for weight, _ in one]
    if any(torch.equal(*pair) for pair in itertools.combinations(weights, 2)):
        raise Mistake(
            "layers-alike",
            "Two layers start with equal weights. Each one needs a Linear "
            "that is made for it, not a copy.",
        )
    if torch.equal(weights[0], other[0][0]):
        raise Mistake(
            "seed-set",
            "Two networks made one after the other have equal weights. Is a "
            "seed set in __init__?",
        )


def _made_anew(cls):
    return construct(cls, 8, 3, call="MyThirtyLayers(8, 3)")


def _stacks(cls, width, undo):
    """Thirty layers from each of 21 seeds, their division undone or not."""
    for seed in range(21):
        torch.manual_seed(seed)
        module = cls(width, 30)
        with torch.no_grad():
            for p in itertools.chain(*_linears(module) if undo else ()):
                p *= math.sqrt(30)
        yield module


def _sums(cls):
    """What the layers' contributions add up to, in words."""
    x = torch.linspace(-1, 1, 16).unsqueeze(0)  # (1, width)
    divided, undivided = (
        statistics.median(_sum_by_one(m, x) for m in _stacks(cls, 16, undo))
        for undo in (False, True)
    )
    return (
        f"At width 16, the sum of the thirty contributions is {divided:.1f} "
        "times as large as one of them (the median of 21 seeds); undivided, "
        f"{undivided:.1f} times."
    )


@torch.no_grad()
def _sum_by_one(module, x):
    """The length of what is added, by the mean length of one contribution."""
    start, lengths = x, []
    for norm, linear in zip(
        _norms(module.layers), _linears(module), strict=True
    ):
        read = F.layer_norm(x, x.shape[-1:], *norm)
        out = F.gelu(F.linear(read, *linear), approximate="tanh")
        lengths.append(out.norm().item())
        x = x + out
    return (x - start).norm().item() / statistics.fmean(lengths)


def _flow(cls):
    """What the division does to the signal, in words."""
    x, ranges = torch.tensor([[1.0, 0, -1]]), []
    for undo in (False, True):
        ratios = []
        for module in _stacks(cls, 3, undo):
            ratios += _first_to_last(module, x)
        if not ratios:
            return "(final_norm itself is not called.)"
        ranges.append((min(ratios), max(ratios)))
    (low, high), (wide_low, wide_high) = ranges
    return (
        "At width 3 and depth 30, over 21 seeds, the signal at the input is "
        f"{low:.2f} to {high:.2f} times that at final_norm; with undivided "
        f"weights it would be {wide_low:.2f} to {wide_high:.2f} times."
    )


def _first_to_last(module, x):
    x, last = x.clone().requires_grad_(), []
    hook = module.final_norm.register_forward_pre_hook(
        lambda _, args: last.append(args[0])
    )
    output = module(x).square().mean()
    hook.remove()
    if not last:
        return []
    first, end = torch.autograd.grad(output, [x, last[0]])
    return [(first.abs().mean() / end.abs().mean()).item()]
