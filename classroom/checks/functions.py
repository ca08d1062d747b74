"""A learner's function: called on several cases, compared, explained."""

import contextlib
import copy
import inspect
import random
from typing import NamedTuple

import torch

from classroom.checks.edits import blame
from classroom.checks.result import Mistake

# What of a model is its caller's: the mistake, what is said, what to look at.
PROMISES = [
    ("weights-changed",
     "a model has other weights; only an optimizer should change them.",
     lambda model: list(model.state_dict().values())),
    ("mode-changed",
     "a model, or a part of it, is in the other mode, training or evaluation; "
     "the caller has set it.",
     lambda model: [part.training for part in model.modules()]),
    ("gradients-left",
     "grad of a model's parameters has changed; the caller may still need "
     "it. torch.autograd.grad leaves it alone.",
     lambda model: [p.grad for p in model.parameters()]),
    ("model-frozen",
     "requires_grad of a model's parameters has changed; where it is False, "
     "training leaves them as they are.",
     lambda model: [p.requires_grad for p in model.parameters()]),
]  # fmt: skip


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
            f"{error}.{_on_self(answer)}",
        ) from None
    except ValueError:
        pass  # a callable that does not show its signature


def _on_self(answer):
    """A remark if a class has an __init__ whose `self` is forgotten."""
    init = vars(answer).get("__init__") if isinstance(answer, type) else None
    if init and next(iter(inspect.signature(init).parameters), "") != "self":
        return " Is `self` the first parameter of __init__?"
    return ""


def returned(function, *args):
    """What a learner's function returns, which must not be None."""
    result = function(*args)
    if result is None:
        raise Mistake(
            "returns-none",
            "The function returns None: does every path end in a return?",
        )
    return result


def judge(answer, task, cases, seen, otherwise, agree=None):
    """Call an answer on all cases; raise what explains a wrong one.

    Args:
        answer: the learner's function.
        task: a `Task`, whose solution takes the same arguments.
        cases: list of tuples of arguments.
        seen: (case, outcome, what is right) → a sentence with the numbers.
        otherwise: the same → name and words where nothing known explains
            what was seen; it may raise a `Mistake` itself.
        agree: whether two outcomes are the same, instead of `alike`.

    Returns:
        list of `Outcome`, one for each case.
    """
    agree = agree or alike
    outcomes = [attempt(answer, *case) for case in cases]
    rights = [attempt(task.solution, *case) for case in cases]
    triples = list(zip(cases, outcomes, rights, strict=True))
    wrong = [t for t in triples if not agree(t[1], t[2])]
    if not wrong:
        again = attempt(answer, *cases[0])
        if not agree(again, rights[0]):
            _blame_again(again, cases[0], seen, rights[0])
        return outcomes
    found = task.explain(
        lambda solve: all(
            agree(attempt(solve, *case), outcome)
            for case, outcome, _ in triples
        )
    )
    error = wrong[0][1].error
    if error is not None and not found:
        raise error
    words = ("", "") if found else otherwise(*wrong[0])
    blame(found, seen(*wrong[0]), *words)


def _blame_again(again, case, seen, right):
    """Raise what a case that was right means if the second time it is not."""
    if again.error is not None:
        raise again.error
    raise Mistake(
        "not-repeatable",
        f"{seen(case, again, right)} The first call with these arguments was "
        "right, and this is the second. Is something random, or kept from "
        "one call to the next?",
    )


def attempt(function, *args):
    """The outcome of a call on copies of these arguments.

    Raises:
        Mistake: gradients are switched on or off for all that follows, or
            the number type of new tensors is changed.
    """
    given, result, raised = copy.deepcopy(args), None, None
    before, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    try:
        result = function(*given)
    except (Mistake, NotImplementedError):
        raise
    except Exception as error:
        raised = error
    after = torch.is_grad_enabled()
    torch.set_grad_enabled(before)
    if torch.get_default_dtype() != dtype:
        torch.set_default_dtype(dtype)
        raise Mistake(
            "default-dtype-changed",
            f"After the call, new tensors are not of type {dtype} any more, "
            "in later cells too. Look for set_default_dtype.",
        )
    if raised is None and after != before:
        how = "on" if after else "off"
        raise Mistake(
            f"gradients-turned-{how}",
            f"After the call, gradients are switched {how} for all that "
            "follows, in later cells too. What your function switches, it "
            "has to switch back; `with torch.no_grad():` does so by itself.",
        )
    return Outcome(result, raised, not all(map(equal, given, args)))


@contextlib.contextmanager
def left_alone(*models):
    """Raise `Mistake` if what is done inside leaves a model changed."""
    kept = [copy.deepcopy([look(m) for m in models]) for *_, look in PROMISES]
    yield
    for (name, says, look), before in zip(PROMISES, kept, strict=True):
        if not equal([look(m) for m in models], before):
            raise Mistake(name, f"After the call, {says}")


def draws(function, *args):
    """Whether a call draws random numbers or sets a seed."""
    torch.default_generator.manual_seed(98765)  # no seed of a learner's
    random.seed(98765)
    before = torch.get_rng_state(), random.getstate()
    function(*args)
    return not equal((torch.get_rng_state(), random.getstate()), before)


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
