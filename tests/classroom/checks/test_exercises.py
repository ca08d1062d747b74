"""The exercises in the notebooks: stub, check, hints, solution."""

import re

import pytest
from test_notebook_format import read
from test_notebook_modules import definitions

from classroom import checks
from classroom.checks.catalogue import EXERCISES
from classroom.checks.guard import HINTS

ALL = [
    (notebook, name, answer)
    for notebook, exercises in EXERCISES.items()
    for name, answer in exercises.items()
]
everywhere = pytest.mark.parametrize("notebook, name, answer", ALL)


def cell(notebook, kind, name):
    wanted = f"{kind}-{name.replace('_', '-')}"
    return next(c for c in read(notebook).cells if c.id == wanted)


def test_every_notebook_has_its_outcome_and_a_transfer_exercise():
    for notebook, exercises in EXERCISES.items():
        tagged = [
            tag
            for c in read(notebook).cells
            for tag in c.metadata.get("tags", [])
            if tag in ("exercise", "check")
        ]
        assert tagged == ["exercise", "check"] * len(exercises), (
            f"{notebook}: each exercise has a cell with the tag exercise, one "
            "with the tag check below, and a line in classroom/checks/"
            f"catalogue.py, which has {len(exercises)} lines"
        )
        assert len(exercises) >= 2


@everywhere
def test_the_stub_is_not_attempted(notebook, name, answer):
    namespace = definitions(notebook)
    exec(cell(notebook, "exercise", name).source, namespace)
    assert getattr(checks, name)(namespace[answer]).status == "not attempted"


@everywhere
def test_the_check_cell_checks_the_answer(notebook, name, answer):
    check = cell(notebook, "check", name)
    assert check.source == f"checks.{name}({answer})"
    assert "not attempted" in check.outputs[0].data["text/plain"]


@everywhere
def test_the_solution_passes(notebook, name, answer):
    source = cell(notebook, "solution", name).source
    assert source.startswith("<details>") and source.endswith("</details>")
    code = re.search(r"```python\n(.*?)```", source, flags=re.S)[1]
    namespace = definitions(notebook)
    exec(code, namespace)
    result = getattr(checks, name)(namespace[answer])
    assert result.status == "passed", result


@everywhere
def test_there_are_three_hints(notebook, name, answer):
    assert len(HINTS[name]) == 3
    assert len(set(HINTS[name])) == 3


def test_every_check_is_in_the_catalogue():
    names = {name for _, name, _ in ALL}
    assert names == set(HINTS) - {"doubles"}
    assert names <= set(checks.__all__)
