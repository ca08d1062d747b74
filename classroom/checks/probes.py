"""Ways to look at an answer that several checks share."""

import inspect
from itertools import combinations
from typing import NamedTuple

import torch
from torch import nn

from classroom.checks.result import Mistake


class Known(NamedTuple):
    """A known mistake: its name, how a tutor says it, what it changes."""

    name: str
    says: str
    changes: dict


def construct(answer, *args, call):
    """Build the learner's module, or raise `Mistake` if that can't be.

    Args:
        answer: the learner's class, or any callable that gives a module.
        args: what its constructor gets.
        call: how the exercise writes that call, for the message.
    """
    if isinstance(answer, nn.Module):
        raise Mistake(
            "not-a-class",
            f"This is a module that has been built. Hand over the class "
            f"itself, so that the check can build its own: {call}.",
        )
    check_signature(answer, *args, call=call)
    module = answer(*args)
    if not isinstance(module, nn.Module):
        raise Mistake(
            "not-a-module",
            f"{call} gives an object of type {type(module).__name__}; "
            "expected a torch module. Look at the line `class …(…)`.",
        )
    return module


def check_signature(answer, *args, call):
    """Raise `Mistake` unless `answer` can be called with these arguments.

    Args:
        answer: the learner's class or function.
        args: what it is going to get.
        call: how the exercise writes that call, for the message.
    """
    try:
        inspect.signature(answer).bind(*args)
    except TypeError as error:
        raise Mistake(
            "wrong-signature",
            f"The check calls {call}, which does not fit your signature: "
            f"{error}.",
        ) from None
    except ValueError:
        pass  # a callable that does not show its signature


def expect_tensor(output, shape, where="The output"):
    """Raise `Mistake` unless `output` is a tensor of this shape."""
    if output is None:
        raise Mistake(
            "returns-none",
            f"{where} is None: does every path end in a return?",
        )
    if not isinstance(output, torch.Tensor):
        raise Mistake(
            "wrong-type",
            f"{where} is of type {type(output).__name__}; expected a tensor "
            f"of shape {tuple(shape)}.",
        )
    if tuple(output.shape) != tuple(shape):
        raise Mistake(
            "wrong-shape",
            f"{where} has shape {tuple(output.shape)}; expected "
            f"{tuple(shape)}.",
        )


def same(a, b, rtol=1e-4, atol=1e-5, equal_nan=False):
    """Whether two tensors agree, up to rounding."""
    if a.shape != b.shape:
        return False
    a, b = a.detach().double(), b.detach().double()
    return torch.allclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def diagnose(output, wrong):
    """Name of the known wrong result that `output` agrees with, or None.

    Args:
        output: what the learner's code gave.
        wrong: name of a mistake → the tensor that it leads to.
    """
    for name, tensor in wrong.items():
        if same(output, tensor):
            return name
    return None


def explain(output, compute, known, **tolerance):
    """The known mistakes, one or else two together, that give this output.

    Args:
        output: what the learner's code gave.
        compute: the reference; `compute(**changes)` gives a wrong result.
        known: `Known` mistakes, those to be named first in front. Two of
            them are tried together only if they change different things.
        tolerance: `rtol` and `atol` of `same`.

    Returns:
        list of `Known`: empty if nothing known explains the output.
    """
    pairs = (
        (one, other)
        for one, other in combinations(known, 2)
        if not one.changes.keys() & other.changes.keys()
    )
    for mistakes in [*((one,) for one in known), *pairs]:
        changes = {k: v for one in mistakes for k, v in one.changes.items()}
        if same(output, compute(**changes), equal_nan=True, **tolerance):
            return list(mistakes)
    return []


def blame(found, seen, otherwise):
    """Raise the `Mistake` that explains what was seen.

    Args:
        found: what `explain` returned.
        seen: a sentence with the numbers.
        otherwise: where to look if nothing known explains them.
    """
    if not found:
        raise Mistake("wrong-values", f"{seen} {otherwise}")
    also = f" And a second mistake: {found[1].says}" if found[1:] else ""
    raise Mistake(found[0].name, f"{seen} {found[0].says}{also}")


def gradients(loss, tensors):
    """Gradient of `loss` by each tensor; None where none arrives."""
    if not loss.requires_grad:
        return [None] * len(tensors)
    return torch.autograd.grad(loss, tensors, allow_unused=True)


def difference(output, expected):
    """Where an output is farthest off, with both numbers, as a sentence."""
    output, expected = output.detach(), expected.detach()
    gap = (output.double() - expected.double()).abs()
    gap = gap.nan_to_num(nan=torch.inf)
    place = torch.unravel_index(gap.argmax(), gap.shape)
    where = [int(index) for index in place]
    return (
        f"For an input of shape {tuple(output.shape)}, output {where} is "
        f"{number(output[place])}; expected {number(expected[place])}."
    )


def number(value):
    """A number as learners read it: 4 significant digits."""
    return f"{float(value):.4g}"
