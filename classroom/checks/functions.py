"""A learner's function: called on several cases, compared, explained."""

import copy
import inspect
from typing import NamedTuple

import torch

from classroom.checks.edits import blame
from classroom.checks.result import Mistake


class Outcome(NamedTuple):
    """What a call gave, or the error that it raised, and what it changed.

    Attributes:
        changed: whether the arguments are others after the call.
    """

    result: object
    error: Exception | None
    changed: bool


def check_signature(answer, *args, call, **named):
    """Raise `Mistake` unless `answer` can be called with these arguments.

    Args:
        answer: the learner's class or function.
        args, named: what it is going to get.
        call: how the exercise writes that call, for the message.
    """
    try:
        inspect.signature(answer).bind(*args, **named)
    except TypeError as error:
        raise Mistake(
            "wrong-signature",
            f"The check calls {call}, which does not fit your signature: "
            f"{error}.",
        ) from None
    except ValueError:
        pass  # a callable that does not show its signature


def returned(function, *args):
    """What a learner's function returns, which must not be None."""
    result = function(*args)
    if result is None:
        raise Mistake(
            "returns-none",
            "The function returns None: does every path end in a return?",
        )
    return result


def judge(answer, task, cases, seen, otherwise):
    """Call an answer on all cases; raise what explains a wrong one.

    Args:
        answer: the learner's function.
        task: a `Task`, whose solution takes the same arguments.
        cases: list of tuples of arguments.
        seen: (case, outcome, what is right) → a sentence with the numbers.
        otherwise: the same → name and words where nothing known explains
            what was seen; it may raise a `Mistake` itself.

    Returns:
        list of `Outcome`, one for each case.
    """
    outcomes = [attempt(answer, *case) for case in cases]
    rights = [attempt(task.solution, *case) for case in cases]
    triples = list(zip(cases, outcomes, rights, strict=True))
    wrong = [t for t in triples if not alike(t[1], t[2])]
    if not wrong:
        return outcomes
    found = task.explain(
        lambda solve: all(
            alike(attempt(solve, *case), outcome)
            for case, outcome, _ in triples
        )
    )
    error = wrong[0][1].error
    if error is not None and not found:
        raise error
    words = ("", "") if found else otherwise(*wrong[0])
    blame(found, seen(*wrong[0]), *words)


def attempt(function, *args):
    """The outcome of a call on copies of these arguments."""
    given, result, raised = copy.deepcopy(args), None, None
    try:
        result = function(*given)
    except (Mistake, NotImplementedError):
        raise
    except Exception as error:
        raised = error
    return Outcome(result, raised, not all(map(equal, given, args)))


def alike(one, other):
    """Whether two outcomes are the same result, or the same error."""
    if one.error is None and other.error is None:
        return equal(one.result, other.result)
    return repr(one.error) == repr(other.error)


def equal(a, b):
    """Whether two results are the same to the last digit, tensors inside
    of lists, tuples and dicts too; whole and other numbers differ."""
    pairs = [(a, b)]
    for a, b in pairs:  # grows on the way
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            kinds = a.is_floating_point() == b.is_floating_point()
            same = kinds and a.shape == b.shape and bool((a == b).all())
        elif type(a) is not type(b):
            same = False
        elif isinstance(a, list | tuple):
            same = len(a) == len(b)
            pairs += zip(a, b, strict=False)
        elif isinstance(a, dict):
            same = a.keys() == b.keys()
            pairs += [(a[key], b[key]) for key in a if same]
        else:
            same = a == b
        if not same:
            return False
    return True
