"""A learner's module: built, run, compared with the solution, explained."""

import copy
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

from classroom.checks.edits import IN_EITHER_MODE, blame
from classroom.checks.functions import check_signature
from classroom.checks.result import Mistake
from classroom.checks.tensors import difference, expect_tensor, number, same

NAN = (
    "No number of it is finite: nan comes from 0 / 0, inf - inf, inf * 0 or "
    "the root of a negative number."
)


class Probe(NamedTuple):
    """An input, and what it means if a module is wrong for it alone."""

    x: torch.Tensor
    name: str
    says: str


def construct(answer, *args, call, **named):
    """Build the learner's module, or raise `Mistake` if that can't be.

    Args:
        answer: the learner's class, or any callable that gives a module.
        args, named: what its constructor gets.
        call: how the exercise writes that call, for the message.
    """
    if isinstance(answer, nn.Module):
        raise Mistake(
            "not-a-class",
            "This is a module that has been built. Hand over the class "
            f"itself, so that the check can build its own: {call}.",
        )
    check_signature(answer, *args, call=call, **named)
    given = copy.deepcopy(args)
    module = answer(*given, **named)
    if not isinstance(module, nn.Module):
        raise Mistake(
            "not-a-module",
            f"{call} gives an object of type {type(module).__name__}; "
            "expected a torch module. Look at the line `class …(…)`.",
        )
    for before, after in zip(args, given, strict=True):
        if before != after:
            raise Mistake(
                "config-changed",
                f"{call} was given {before}, which is {after} afterwards. "
                "Others use it too, so leave it as it was.",
            )
    return module


def randomized(module):
    """The module with parameters so large that each shows, none frozen."""
    with torch.no_grad():
        for name, p in module.named_parameters():
            if not p.requires_grad:
                raise Mistake(
                    "not-trainable",
                    f"{name} is a parameter with requires_grad=False, so "
                    "training leaves it as it is. Expected "
                    "requires_grad=True.",
                )
            p.copy_((0.5 if p.dim() > 1 else 1.0) * torch.randn(p.shape))
    return module


def compare(
    module, task, probes, readings=({},), *,
    seen=lambda x, *outputs: difference(*outputs), resort=None, rescues=(),
):  # fmt: skip
    """Compare values and gradients; returns the reading that fits.

    Args:
        task: a `Task`, whose solution takes an input and a reading.
        probes: the first is explained; the others find what it hides.
        readings: ways to take the module's parameters, each a dict of the
            solution's other arguments; one of them must fit.
        seen: (x, output, expected) → a sentence with the numbers.
        resort: called with (x, output) that no known mistake explains.
        rescues: (runs, name, says): what an error means if that runs.
    """
    errors, tried = [], []
    for x, *otherwise in probes:
        expected = task.solution(x, **readings[0])
        try:
            output = settled(module, task, x, expected.shape)
        except NotImplementedError:
            raise  # a stub, whatever stands around it
        except (RuntimeError, IndexError, ValueError) as error:
            errors.append(error)
            continue
        tried.insert(0, (x, output))
        fits = partial(_agrees, tried, task.tolerance)
        if not (right := [r for r in readings if fits([r], task.solution)]):
            if not output.isfinite().any():  # it fits whatever is not, too
                blame((), f"{seen(x, output, expected)} {NAN}", *otherwise)
            found = task.explain(partial(fits, readings))
            if resort and not found:
                resort(x, output)
            blame(found, seen(x, output, expected), *otherwise)
        readings = right
    if errors:
        raise rescued(errors[0], rescues)
    for in_mode in (module.train, module.eval):
        check_gradients(in_mode(), task, probes[0].x, readings[0])
    return readings[0]


def settled(module, task, x, shape):
    """What `run` gives, twice the same in training and in evaluation."""
    *others, output = (
        run(module.train(training), x, shape)
        for training in (True, True, False, False)
    )
    for again in reversed(others):
        if same(again, output, equal_nan=True):
            continue
        told = difference(again, output)
        if again is others[-1]:
            raise Mistake(
                "not-repeatable",
                f"Two calls with the same input give two results. {told} "
                "Expected the same: is something random in forward?",
            )
        drawn = not same(*others[:2], equal_nan=True)
        name, says = task.in_either_mode if drawn else IN_EITHER_MODE
        raise Mistake(
            name,
            "Training mode gives another result than evaluation mode. "
            f"{told} {says}",
        )
    return output


def run(module, x, shape):
    """The module's output, a tensor of this shape; the input must stay, and
    the parameters."""
    given, parameters = x.clone(), dict(module.named_parameters())
    before = {name: p.detach().clone() for name, p in parameters.items()}
    output = module(given)
    for name, p in parameters.items():
        if not torch.equal(p, before[name]):
            raise Mistake(
                "weights-changed",
                f"A call of your module changes {name}; only an optimizer "
                "should.",
            )
    expect_tensor(output, shape)
    if not torch.equal(given, x):
        raise Mistake(
            "input-overwritten",
            "After the call, the input itself has changed. "
            f"{difference(given, x, 'input')} Look for an assignment such as "
            "+=, -= or *= that works in place.",
        )
    return output


def runs(function, *args):
    """Whether a call ends without an exception."""
    try:
        function(*args)
    except Exception:
        return False
    return True


def rescued(error, rescues):
    """The error, or what it means that something else runs.

    Args:
        error: what an answer raised.
        rescues: list of (works, name, says); the first that works is told.
    """
    for works, name, says in rescues:
        if works():
            what = f"{type(error).__name__}: {error}".split("\n")[0]
            return Mistake(name, f"{says} (It stopped with {what})")
    return error


def check_gradients(module, task, x, reading):
    """The input and all parameters get the solution's gradients."""
    solution = partial(task.solution, **reading)
    named = dict(module.named_parameters())
    if x.is_floating_point():
        x = x.clone().requires_grad_()
        named = {"the input": x, **named}
    factors = torch.randn(solution(x).shape)
    try:
        got, wanted = (
            gradients((function(x * 1) * factors).sum(), list(named.values()))
            for function in (module, solution)
        )
    except RuntimeError as error:
        if "inplace" not in str(error):
            raise
        raise Mistake(
            "input-overwritten",
            "The gradients can't be computed: what they need, the input of "
            "some step, was overwritten. Look for an assignment such as += "
            "that works in place.",
        ) from None
    for name, grad, want in zip(named, got, wanted, strict=True):
        if grad is want is None:
            continue
        if grad is None or not same(grad, want, rtol=1e-3, atol=1e-4):
            told = "there is none."
            if grad is not None:
                told = difference(grad, want, "gradient")
            raise Mistake(
                "gradient-detached",
                f"The values are right, but the gradient of {name} is not: "
                f"{told} Look for detach, no_grad, .data or "
                "requires_grad=False on the way.",
            )


def check_dropped(what, rate, share, factors):
    """In training, this share of it was dropped, the rest multiplied."""
    seen = (
        f"At a drop rate of {rate} in training mode, {share:.0%} of {what} "
        "dropped out"
    )
    if abs(share - rate) > 0.05:
        raise Mistake(
            "dropout-rate-wrong",
            f"{seen}; expected {rate:.0%}. Which rate is used?",
        )
    if ((factors * (1 - rate) - 1).abs() > 0.05).any():
        raise Mistake(
            "dropout-not-rescaled",
            f"{seen}, and the rest is multiplied by {number(factors.mean())}; "
            f"expected 1/(1 - {rate}) = {number(1 / (1 - rate))}, so that the "
            "mean stays the same.",
        )


def check_drawn_anew(module, x):
    """Raise `Mistake` if dropout drops the same in two calls."""
    module.train()
    if same(module(x.clone()), module(x.clone())):
        raise Mistake(
            "dropout-repeated",
            "In training mode, two calls drop the same numbers; expected new "
            "ones each time. Is a seed set in your code, or kept what was "
            "drawn?",
        )


def gradients(loss, tensors):
    """Gradient of `loss` by each tensor; None where none arrives."""
    if not loss.requires_grad:
        return [None] * len(tensors)
    return torch.autograd.grad(loss, tensors, allow_unused=True)


def _agrees(tried, tolerance, readings, solve):
    """Whether a solution gives each of these outputs with one reading."""
    for reading in readings:
        try:
            if all(
                same(output, solve(x, **reading), equal_nan=True, **tolerance)
                for x, output in tried
            ):
                return True
        except (RuntimeError, IndexError):
            continue  # this input has no such axis, or shapes do not fit
    return False
