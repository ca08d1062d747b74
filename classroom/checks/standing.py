"""Which exercises of a notebook are done, as long as its kernel lives."""

from dataclasses import dataclass

from classroom.checks.catalogue import EXERCISES
from classroom.checks.result import SIGNS, panel

_latest = {}  # exercise → the status of its last check


def note(exercise, status):
    _latest[exercise] = status


def progress(notebook):
    """How far a learner is in a notebook; shows as a list of its exercises.

    Args:
        notebook: how its name begins, such as "02".

    Raises:
        ValueError: no notebook's name begins like this.
    """
    names = list(EXERCISES)
    found = [name for name in names if name.startswith(str(notebook))]
    if not notebook or not found:
        raise ValueError(
            f"No notebook begins with {notebook!r}: give one of "
            f"{', '.join(name[:2] for name in names)}."
        )
    exercises = EXERCISES[found[0]]
    states = {name: _latest.get(name, "not attempted") for name in exercises}
    return Progress(states, *names[names.index(found[0]) + 1 :][:1])


@dataclass(frozen=True)
class Progress:
    """Exercises with their states, and the notebook that comes next."""

    states: dict
    following: str | None = None

    def __repr__(self):
        return self._told("\n", lambda words, address: words)

    def _repr_html_(self):
        status = "failed" if self._open() else "passed"
        if set(self.states.values()) == {"not attempted"}:
            status = "not attempted"
        return panel(status, self._told("<br>", _link))

    def _open(self):
        return [n for n, state in self.states.items() if state != "passed"]

    def _told(self, newline, link):
        def exercise(name):
            cell = f"exercise-{name.replace('_', '-')}"
            return link(name, f"#cell-id={cell}")

        passed = len(self.states) - len(self._open())
        lines = [f"{passed} of {len(self.states)} exercises passed."]
        for name, state in self.states.items():
            lines.append(f"{SIGNS[state]} {exercise(name)}: {state}")
        if self._open():
            lines.append(f"Go on with {exercise(self._open()[0])}.")
        elif self.following:
            next_one = link(self.following, f"{self.following}.ipynb")
            lines.append(f"Next: {next_one}.")
        else:
            lines.append("That was the last notebook.")
        return newline.join(lines)


def _link(words, address):
    # On the panel's own ground: a dark theme's links would be too pale.
    return f'<a style="color:inherit" href="{address}">{words}</a>'
