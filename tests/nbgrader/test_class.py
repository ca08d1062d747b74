"""nbgrader grades a class of five over two notebooks of the series.

Needs tests/nbgrader/requirements.txt. The commands are those of
INSTRUCTORS.md, and so is what becomes of each learner.
"""

import csv
import os
import re
import subprocess
import sys

import nbformat
import pytest
from test_notebook_format import ROOT, read

from classroom import nbgrader
from classroom.checks.catalogue import EXERCISES

pytestmark = pytest.mark.nbgrader

NORM, FEED = "02-layer-normalization", "03-gelu-and-feed-forward"
KEEPDIM = ", keepdim=True"
DIES = "import os\nos._exit(1)"
LOOP = """
while True:
    try:
        while True:
            pass
    except:
        continue
"""


def solution(name, exercise):
    text = next(c for c in read(name).cells if c.id == f"solution-{exercise}")
    return re.search(r"```python\n(.*?)```", text.source, re.S)[1]


def right(name):
    ids = [one.replace("_", "-") for one in EXERCISES[name]]
    return {f"exercise-{one}": solution(name, one) for one in ids}


def without_keepdim(answers):
    cell = "exercise-rms-norm"
    return answers | {cell: answers[cell].replace(KEEPDIM, "")}


# What each learner writes into which cell.
CLASS = {
    NORM: {
        "right": right(NORM),
        "wrong": without_keepdim(right(NORM)),
        "stub": {},
        "endless": right(NORM) | {"exercise-rms-norm": "while True: pass"},
        "dying": right(NORM) | {"exercise-rms-norm": DIES},
    },
    FEED: {
        "right": right(FEED),
        "wrong": {"exercise-gelu": "class MyGELU(nn.ReLU):\n    pass"},
        "stub": {"point-gelu": "pass"},
        "endless": right(FEED) | {"exercise-is-position-wise": LOOP},
        "dying": right(FEED)
        | {"exercise-gelu-slope": "bytearray(8 * 1024**3)"},
    },
}
POINTS = {
    NORM: {"right": 3, "wrong": 2, "stub": 0, "endless": 2, "dying": 0},
    FEED: {"right": 3, "wrong": 0, "stub": 0, "endless": 0, "dying": 2},
}
GIVEN_UP = {(NORM, "dying"), (FEED, "endless")}


def call(course, *arguments):
    """nbgrader in an activated environment: it looks for alembic there."""
    programs = os.path.dirname(sys.executable)
    path = os.pathsep.join([programs, os.environ["PATH"]])
    return subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=course,
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def submit(course, name):
    """What each learner makes of the released notebook."""
    released = course / "release" / name / f"{name}.ipynb"
    for learner, answers in CLASS[name].items():
        notebook = nbformat.read(released, as_version=4)
        for cell in notebook.cells:
            cell.source = answers.get(cell.id, cell.source)
        folder = course / "submitted" / learner / name
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / released.name)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course after all commands; what nbgrader said while it graded."""
    course = tmp_path_factory.mktemp("course")
    assert nbgrader.main([str(course)]) == 0
    config = course / "nbgrader_config.py"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("timeout = 60", "timeout = 20"))
    said = {}
    for name in CLASS:
        done = call(course, "generate_assignment", name)
        assert done.returncode == 0, done.stderr
        submit(course, name)
        said[name] = call(course, "autograde", name).stderr
        done = call(course, "generate_feedback", name)
        assert done.returncode == 0, done.stderr
    done = call(course, "export")
    assert done.returncode == 0, done.stderr
    return course, said


@pytest.mark.parametrize("name", CLASS)
def test_what_learners_get_has_our_stubs(course, name):
    released = course[0] / "release" / name / f"{name}.ipynb"
    stubs = {cell.id: cell.source for cell in read(name).cells}
    found = {
        cell.id: cell.source
        for cell in nbformat.read(released, as_version=4).cells
    }
    for cell, source in found.items():
        if cell.startswith("exercise-"):
            assert source == stubs[cell]
    assert not any("BEGIN SOLUTION" in source for source in found.values())


@pytest.mark.parametrize("name", CLASS)
def test_points_are_in_the_csv(course, name):
    with (course[0] / "grades.csv").open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["assignment"] == name]
    found = {row["student_id"]: float(row["score"]) for row in rows}
    assert found == POINTS[name]
    most = POINTS[name]["right"]
    assert {float(row["max_score"]) for row in rows} == {most}


@pytest.mark.parametrize("name", CLASS)
@pytest.mark.parametrize("learner", POINTS[NORM])
def test_feedback_names_the_mistake(course, name, learner):
    page = course[0] / "feedback" / learner / name / f"{name}.html"
    if (name, learner) in GIVEN_UP:
        assert not page.exists()
        return
    words = {
        (NORM, "wrong"): "failed [keepdim-missing]:",
        (NORM, "stub"): "not attempted",
        (NORM, "endless"): "CellTimeoutError",
        (FEED, "wrong"): "failed [relu]",
        (FEED, "stub"): "not attempted",
        (FEED, "dying"): "MemoryError",
    }
    text = page.read_text(encoding="utf-8")
    assert words.get((name, learner), "Score: ") in text


def test_who_was_given_up_is_said(course):
    _, said = course
    for name, learner in GIVEN_UP:
        end = f"processing assignment '{name}' for student '{learner}'"
        assert end in said[name]
        assert said[name].count("There was an error processing") == 2
