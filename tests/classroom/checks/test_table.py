"""`python -m classroom.checks --mistakes`: every name that can be given."""

from classroom.checks.__main__ import main
from classroom.checks.guard import TASKS
from classroom.checks.table import mistakes


def test_every_known_mistake_has_a_row_with_its_first_words():
    rows = mistakes()
    for exercise, task in TASKS.items():
        if task is None:  # an exercise that only a test sets
            continue
        assert set(rows[exercise]) == {m.name for m in task.mistakes}
        first = task.mistakes[0]
        assert rows[exercise][first.name] == first.says


def test_what_the_engine_and_the_files_raise_has_a_row():
    rows = mistakes()
    shared = {"input-overwritten", "needs-contiguous", "ready-made"}
    assert shared <= {*rows["any exercise"]}
    assert "eps-missing" in rows["layer_norm"]
    assert "not-registered" in rows["notebook 02"]
    # What is filled in is left open.
    assert "type …;" in rows["any exercise"]["not-a-module"]


def test_no_mistake_has_two_rows_for_one_exercise():
    rows = mistakes()
    assert not set(rows["layer_norm"]) & set(rows["notebook 02"])


def test_the_command_prints_them(capsys):
    assert main(["--mistakes"]) == 0
    printed = capsys.readouterr().out
    assert "\nlayer_norm\n==========\n" in printed
    assert "\nbiased-variance\n    This fits a variance" in printed
    assert max(map(len, printed.splitlines())) <= 79
