"""A known mistake is an edit of the right solution's text.

An exercise's solution is a function of a few lines. A known mistake is what
stands in its text, and what stands there instead. An answer is right if it
gives what the solution gives; it is explained by the edit that gives what it
gives, or else by two of them together.
"""

import ast
import functools
import inspect
import textwrap
from itertools import chain, combinations
from typing import NamedTuple

from classroom.checks.result import Mistake

BODY = "<body>"  # in an edit: all lines of the solution
IN_EITHER_MODE = (
    "mode-dependent",
    "In both modes, the result comes from this input alone; nothing is "
    "remembered or dropped.",
)


class Known(NamedTuple):
    """A known mistake.

    Attributes:
        name: short and stable, such as "biased-variance".
        says: how a tutor says it.
        edits: the ways to make it; each maps text that stands in the
            solution once to what stands there instead.
    """

    name: str
    says: str
    edits: tuple


def known(name, says, *edits):
    return Known(name, says, edits)


class Task:
    """What an exercise asks for.

    Args:
        solution: a function of a few lines, whose text can be edited.
        mistakes: list of `Known`, those to be named first in front.
        answer: makes a learner's answer of a solution, edited or not: the
            tests hand in every edit this way, and it must get its own name.
        in_either_mode: name and words for a module whose result depends on
            the mode, training or evaluation.
        tolerance: `rtol` and `atol` of `same`.
    """

    def __init__(
        self, solution, mistakes, answer,
        in_either_mode=IN_EITHER_MODE, **tolerance,
    ):  # fmt: skip
        self.solution, self.mistakes, self.answer = solution, mistakes, answer
        self.in_either_mode, self.tolerance = in_either_mode, tolerance

    def edited(self, *edits):
        """The solution after these edits, or None if they exclude each other.

        Raises:
            ValueError: an edit's text does not stand in the solution once.
        """
        head, body = _parts(self.solution)
        text = _replaced(body, chain.from_iterable(e.items() for e in edits))
        if text is None:
            return None
        code = f"{head}\n{textwrap.indent(text, '    ')}"
        return _compiled(code, self.solution)

    def explain(self, agrees):
        """The known mistakes, one or else two together, that were made.

        Args:
            agrees: whether the answer gives what an edited solution gives.

        Returns:
            tuple of `Known`: empty if nothing known explains the answer.
        """
        single = [(m, edit) for m in self.mistakes for edit in m.edits]
        ways = chain(((one,) for one in single), combinations(single, 2))
        for found in ways:
            solve = self.edited(*(edit for _, edit in found))
            if solve is not None and agrees(solve):
                return tuple(mistake for mistake, _ in found)
        return ()


class Numbers(Task):
    """A task with answers so short, like small whole numbers, that several
    known mistakes can give the same: then none of them is asserted, and two
    at once would be a guess."""

    def explain(self, agrees):
        fitting = {
            mistake.name: mistake
            for mistake in self.mistakes
            if any(agrees(self.edited(edit)) for edit in mistake.edits)
        }
        first, *others = fitting.values() or [None]
        if others:
            says = f"It could be this: {first.says} Or: {others[0].says}"
            first = first._replace(says=says)
        return (first,) if first else ()


def blame(found, seen, name, says):
    """Raise what explains the numbers seen.

    Args:
        found: what `Task.explain` returned.
        seen: a sentence with the numbers.
        name, says: the mistake's name and where to look if nothing known
            explains them.
    """
    if not found:
        raise Mistake(name, f"{seen} {says}")
    first, *second = found
    also = f" And a second mistake: {second[0].says}" if second else ""
    raise Mistake(first.name, f"{seen} {first.says}{also}")


@functools.cache
def _parts(function):
    """Its first line, and the text of its body below the docstring."""
    source = textwrap.dedent(inspect.getsource(function))
    (tree,) = ast.parse(source).body
    first = tree.body[1 if ast.get_docstring(tree) else 0]
    body = "\n".join(source.splitlines()[first.lineno - 1 :])
    head = f"def {tree.name}({ast.unparse(tree.args)}):"
    return head, textwrap.dedent(body)


def _replaced(text, edits):
    """The text after all edits, or None if two of them overlap."""
    places = []
    for old, new in edits:
        old = text if old == BODY else old
        if text.count(old) != 1:
            raise ValueError(
                f"{old!r} stands {text.count(old)} times in the solution; an "
                "edit needs a text that stands there once."
            )
        places.append((text.index(old), old, new))
    parts, end = [], 0
    for start, old, new in sorted(places):
        if start < end:
            return None
        parts += text[end:start], new
        end = start + len(old)
    return "".join(parts) + text[end:]


@functools.cache
def _compiled(code, function):
    names = {}
    exec(code, function.__globals__, names)
    return names[function.__name__]
