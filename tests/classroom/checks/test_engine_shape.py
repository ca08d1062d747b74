"""The checks stay readable: short functions, shallow calls, one engine."""

import ast
import contextlib
import sys
from pathlib import Path

import pytest

from classroom import checks
from classroom.checks.guard import TASKS
from classroom.checks.result import Mistake

FOLDER = Path(checks.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_functions_are_short(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lengths = {
        node.name: node.end_lineno - node.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    assert {n: x for n, x in lengths.items() if x > 40} == {}


def chains(look, answer):
    """The deepest chain of named functions of the checks, from `look` on."""
    deepest, stack = [], []

    def note(frame, event, arg):
        nonlocal deepest
        code = frame.f_code
        ours = str(FOLDER) in code.co_filename and "<" not in code.co_qualname
        if not ours or not (stack or code.co_name == look.__name__):
            return
        if event == "call":
            stack.append(code.co_name)
            deepest = max(deepest, [*stack], key=len)
        elif event == "return":
            stack.pop()

    sys.setprofile(note)
    try:
        with contextlib.suppress(Mistake):
            look(answer)
    finally:
        sys.setprofile(None)
    return deepest


@pytest.mark.parametrize("name", [n for n, task in TASKS.items() if task])
def test_calls_are_shallow(name):
    check, task = getattr(checks, name), TASKS[name]
    first = task.mistakes[0].edits[0]
    for solve in (task.edited(), task.edited(first)):
        deepest = chains(check.__wrapped__, task.answer(solve))
        assert len(deepest) <= 5, deepest
