"""Every known mistake, handed in as a learner's answer, gets its own name."""

import pytest

from classroom import checks
from classroom.checks.guard import TASKS

EVERY = [
    pytest.param(name, mistake, edit, id=f"{name}-{mistake.name}-{n}")
    for name, task in TASKS.items()
    if task
    for n, (mistake, edit) in enumerate(
        (m, e) for m in task.mistakes for e in m.edits
    )
]


@pytest.mark.parametrize("name, mistake, edit", EVERY)
def test_every_known_mistake_gets_its_own_name(name, mistake, edit):
    task = TASKS[name]
    result = getattr(checks, name)(task.answer(task.edited(edit)))
    assert result.mistake == mistake.name, result


@pytest.mark.parametrize("name", [n for n, task in TASKS.items() if task])
def test_the_unedited_solution_passes(name):
    task = TASKS[name]
    result = getattr(checks, name)(task.answer(task.solution))
    assert result.status == "passed", result
