"""All mistakes that the checks can name, for instructors.

    python -m classroom.checks --mistakes

The names and words come from the tasks' tables, and the rest from the code
that raises them: whatever can be said has its row.
"""

import ast
import inspect
import re
import textwrap
from itertools import pairwise

from classroom import checks
from classroom.checks import (
    devices,
    edits,
    functions,
    guard,
    manners,
    modules,
    parts,
    ready_made,
    stubs,
    tensors,
)
from classroom.checks.catalogue import EXERCISES
from classroom.checks.guard import TASKS

ENGINE = (
    edits, functions, guard, modules, parts, tensors, manners, devices,
    ready_made, stubs,
)  # fmt: skip
NAME = re.compile(r"[a-z0-9…]+(-[a-z0-9…]+)+")


def mistakes():
    """Where it is named → {name of the mistake: what a learner reads}.

    The keys are exercises, notebooks (for what several of their exercises
    look at) and "any exercise".
    """
    rows = {"any exercise": _written(ENGINE)}
    for notebook, exercises in EXERCISES.items():
        files = [inspect.getmodule(getattr(checks, n)) for n in exercises]
        shared = [
            value
            for file in files
            for value in vars(file).values()
            if inspect.ismodule(value) and value.__package__ == __package__
        ]
        everywhere = _written(files + shared)
        for exercise in exercises:
            own = rows[exercise] = {}
            for mistake in TASKS[exercise].mistakes:
                own.setdefault(mistake.name, mistake.says)
                everywhere.pop(mistake.name, None)
        rows[f"notebook {notebook[:2]}"] = everywhere
    return rows


def print_mistakes():
    """The table as text: a paragraph for each mistake."""
    for place, names in mistakes().items():
        print(f"\n{place}\n{'=' * len(place)}")
        for name, says in names.items():
            says = textwrap.indent(textwrap.fill(says, 75), "    ")
            print(f"\n{name}\n{says}")


def _written(files):
    """Name → words of what these files' code raises, in its order."""
    found = {}
    for file in dict.fromkeys(files):
        for node in ast.walk(ast.parse(inspect.getsource(file))):
            items = getattr(node, "args", None) or getattr(node, "elts", [])
            if isinstance(items, list):
                for one, other in pairwise(map(_text, items)):
                    if NAME.fullmatch(one) and " " in other:
                        found.setdefault(one, other)
    return found


def _text(node):
    """A string's text, with … for what is filled in; "" for other code."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (getattr(part, "value", None) for part in node.values)
        return "".join(p if isinstance(p, str) else "…" for p in parts)
    return ""
