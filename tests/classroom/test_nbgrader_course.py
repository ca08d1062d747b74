"""`python -m classroom.nbgrader FOLDER`: what nbgrader will find there."""

import nbformat
import pytest
from test_notebook_format import NAMES, read

from classroom import nbgrader
from classroom.checks.catalogue import EXERCISES


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course")
    assert nbgrader.main([str(folder)]) == 0
    return folder


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def assignment(course, name):
    file = course / "source" / name / f"{name}.ipynb"
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    return notebook


def graded(notebook):
    return [cell for cell in notebook.cells if "nbgrader" in cell.metadata]


def test_each_exercise_is_an_answer_with_its_stub(course, name):
    stubs = {cell.id: cell.source for cell in read(name).cells}
    answers = [
        cell
        for cell in graded(assignment(course, name))
        if cell.metadata.nbgrader.solution
    ]
    assert len(answers) == len(EXERCISES[name])
    for cell in answers:
        assert cell.source == stubs[cell.id]
        assert not cell.metadata.nbgrader.grade


def test_behind_each_check_stands_its_point(course, name):
    cells = assignment(course, name).cells
    points = [
        number
        for number, cell in enumerate(cells)
        if cell.metadata.get("nbgrader", {}).get("points")
    ]
    assert len(points) == len(EXERCISES[name])
    for number in points:
        call = cells[number - 1].source.splitlines()[0]
        assert f"verdict = {call}\n" in cells[number].source
        data = cells[number].metadata.nbgrader
        assert data.points == 1 and data.locked and data.grade
    text = "".join(cells[number].source for number in points)
    for check, answer in EXERCISES[name].items():
        assert f"= checks.{check}({answer})" in text


def test_grade_ids_are_unique_and_other_cells_are_the_series(course, name):
    notebook = assignment(course, name)
    ids = [cell.metadata.nbgrader.grade_id for cell in graded(notebook)]
    assert len(ids) == len(set(ids))
    left = [c.id for c in notebook.cells if not c.id.startswith("point-")]
    exercises = [check.replace("_", "-") for check in EXERCISES[name]]
    solutions = {f"solution-{exercise}" for exercise in exercises}
    whole = [cell.id for cell in read(name).cells]
    assert left == [id for id in whole if id not in solutions]


def test_its_pictures_are_there(course, name):
    for cell in assignment(course, name).cells:
        for link in cell.source.split("](images/")[1:]:
            picture = link.split(")")[0].split()[0]
            assert (course / "source" / name / "images" / picture).exists()


def test_a_course_is_not_overwritten(course, capsys):
    assert nbgrader.main([str(course)]) == 1
    assert "holds a course already" in capsys.readouterr().err
