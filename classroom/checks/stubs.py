"""What of an answer is still as the exercise gave it, and what got lost.

A function is a stub if this Python compiles it to what it makes of a stub:
nothing is read from the text, which is not always at hand.
"""

import difflib
import functools
import re
import types

from torch import nn

from classroom.checks.result import Mistake

BODIES = (
    "pass",
    "return None",
    "raise NotImplementedError",
    "raise NotImplementedError()",
    "raise NotImplementedError('text')",
)


def is_stub(answer):
    """Whether nothing of an answer has been written."""
    if answer is None or answer is Ellipsis:
        return True
    if not isinstance(answer, type):
        return is_empty(answer)
    if _forward(answer) and not is_empty(_forward(answer)):
        return False
    return all(map(is_empty, _own_functions(answer).values()))


def is_empty(function):
    """Whether a function does nothing but return None or raise
    NotImplementedError, `super().__init__()` in front or not."""
    code = getattr(function, "__code__", None)
    return code is not None and _bare(code) in _stubs(code.co_nlocals)


def check_in_place(answer):
    """Raise `Mistake` if a class has its methods in the wrong place or by
    other names, so that torch would not find them."""
    if not isinstance(answer, type) or not issubclass(answer, nn.Module):
        return
    own = _own_functions(answer)
    if "__init__" not in own:
        _blame_near("init-misspelt", "__init__", own)
    if _forward(answer):
        return
    for name, function in own.items():
        inner = [
            getattr(c, "co_name", "") for c in function.__code__.co_consts
        ]
        if "forward" in inner:
            raise Mistake(
                "forward-nested",
                f"`forward` is defined inside `{name}`, and is gone when that "
                "ends. Both belong to the class: compare how far they are "
                "indented.",
            )
    if "__call__" in own:
        raise Mistake(
            "call-for-forward",
            "Your class defines `__call__`; expected `forward`. A module's "
            "own `__call__` calls `forward`, and does more around it.",
        )
    _blame_near("forward-misspelt", "forward", own)


def unfinished(answer):
    """Names of the methods that are still stubs, or [] for a function.

    An __init__ that only calls its parent's may be all that is needed.
    """
    if not isinstance(answer, type):
        return []
    return [
        name
        for name, function in _own_functions(answer).items()
        if is_empty(function)
        and (
            name != "__init__"
            or "NotImplementedError" in function.__code__.co_names
        )
    ]


def why_unwritten(error):
    """What it means that a call in an answer ended in NotImplementedError.

    Returns:
        `Mistake`: there is no forward, a method is still a stub, or the
        stub's raise was left; None for any other error.
    """
    if not isinstance(error, NotImplementedError):
        return None
    if re.search(r"Module \[Module(List|Dict)\]", str(error)):
        return None  # a container that was called; the class has a forward
    if "is missing the required" in str(error):
        return Mistake(
            "forward-missing",
            "Your class has no `forward`; nothing wrong was found in the "
            "rest.",
        )
    tb = error.__traceback__
    while tb.tb_next:
        tb = tb.tb_next
    code = tb.tb_frame.f_code
    if _bare(code) in _stubs(code.co_nlocals):
        return _unfinished(code.co_name)
    if "NotImplementedError" not in code.co_names:
        return None  # torch's own, as for a softmax of whole numbers
    return Mistake(
        "raise-left",
        f"`{code.co_name}` holds code of yours and still the stub's `raise "
        f"NotImplementedError`, in line {tb.tb_lineno} of your cell, where it "
        "ends. Take that line out.",
    )


def still_to_write(answer):
    """What is said of a half-written class."""
    return _unfinished("`, `".join(unfinished(answer)))


def _unfinished(names):
    return Mistake(
        "unfinished",
        f"`{names}` is still to be written; nothing wrong was found in the "
        "rest.",
    )


def _blame_near(mistake, wanted, own):
    others = [n for n in own if n not in dir(nn.Module)]
    bare = {name.strip("_"): name for name in others}
    near = difflib.get_close_matches(wanted.strip("_"), bare, 1, 0.7)
    if near:
        raise Mistake(
            mistake,
            f"Your class has no `{wanted}`; it has `{bare[near[0]]}`. torch "
            f"looks for the name `{wanted}`, letter by letter.",
        )


def _forward(cls):
    """The class's forward, or None if it is the one that only raises."""
    forward = getattr(cls, "forward", None)
    return None if forward is nn.Module.forward else forward


def _own_functions(cls):
    """Name → function that the class, or one below nn.Module, defines."""
    found = {}
    for base in cls.__mro__:
        if base.__module__.startswith("torch.") or base is object:
            break
        for name, value in vars(base).items():
            if isinstance(value, types.FunctionType):
                found.setdefault(name, value)
    return found


@functools.cache
def _stubs(parameters):
    """What this Python makes of each stub with so many parameters, in a
    class and with words."""
    found = set()
    names = ", ".join(f"p{number}" for number in range(parameters))
    for words in ("", "'''words'''; "):
        for start in ("", "super().__init__(); "):
            for body in BODIES:
                made = {}
                line = f"{words}{start}{body}"
                exec(f"class C:\n def f({names}): {line}", made)
                found.add(_bare(made["C"].f.__code__))
    return frozenset(found)


def _bare(code):
    """A code object without line numbers, signature and what texts say."""
    constants = ["" if isinstance(c, str) else c for c in code.co_consts]
    return code.co_code, code.co_names, repr(constants)
