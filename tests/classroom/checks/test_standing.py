"""How far a learner is in a notebook."""

import re

import pytest

from classroom import checks
from classroom.checks import standing
from classroom.checks.catalogue import EXERCISES


@pytest.fixture(autouse=True)
def from_the_beginning(monkeypatch):
    monkeypatch.setattr(standing, "_latest", {})


@pytest.fixture
def exercises():
    return list(next(iter(EXERCISES.values())))


def test_at_first_nothing_is_attempted(exercises):
    first, *others = str(checks.progress("01")).splitlines()
    assert first == f"0 of {len(exercises)} exercises passed."
    assert others[:-1] == [f"○ {name}: not attempted" for name in exercises]
    assert others[-1] == f"Go on with {exercises[0]}."


def test_a_check_is_noted_and_the_latest_counts(exercises):
    name = exercises[0]
    check = getattr(checks, name)
    check(42)
    assert f"✗ {name}: failed" in str(checks.progress("01"))
    standing.note(name, "passed")
    told = str(checks.progress("01"))
    assert told.startswith("1 of ") and f"✓ {name}: passed" in told
    assert told.endswith(f"Go on with {exercises[1]}.")
    check(42)
    assert f"✗ {name}: failed" in str(checks.progress("01"))


def test_when_all_is_done_the_next_notebook_comes():
    names = list(EXERCISES)
    for name, following in zip(names, names[1:], strict=False):
        for exercise in EXERCISES[name]:
            standing.note(exercise, "passed")
        told = checks.progress(name[:2])
        assert str(told).endswith(f"Next: {following}.")
        assert f'href="{following}.ipynb"' in told._repr_html_()
    for exercise in EXERCISES[names[-1]]:
        standing.note(exercise, "passed")
    assert str(checks.progress("08")).endswith("That was the last notebook.")


def test_links_lead_to_the_cells_of_the_answers(exercises):
    html = checks.progress("01")._repr_html_()
    found = re.findall(r'href="#cell-id=(.*?)"', html)
    cells = [f"exercise-{name.replace('_', '-')}" for name in exercises]
    assert found == [*cells, cells[0]]


@pytest.mark.parametrize("name", ["99", "", None])
def test_another_notebook_is_refused(name):
    with pytest.raises(ValueError, match="give one of 01, 02"):
        checks.progress(name)
