"""Learners' notebooks: which files are some, and what they hold."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from classroom.checks.catalogue import EXERCISES

ARCHIVES = {".7z", ".gz", ".rar", ".tar", ".tgz", ".zip"}


@dataclass
class Notebook:
    """A learner's notebook, as read before anyone's code runs.

    Attributes:
        path: the file.
        exercises: exercise → the answer's name, of the notebook of the
            series that this one was made from.
        cells: the code cells' sources.
        error: why it can't be checked, or None.
    """

    path: Path
    exercises: dict = field(default_factory=dict)
    cells: list = field(default_factory=list)
    error: str | None = None


def find(paths):
    """(notebooks at the paths and in the folders below, skipped files)."""
    found, skipped = {}, {}
    for path in paths:
        if not path.is_dir():
            found[path] = None
            continue
        for file in _files(path, skipped):
            if file.suffix.lower() == ".ipynb":
                found[file] = None
            elif _may_hold_one(file):
                skipped[file] = None
    return list(found), list(skipped)


def name(path):
    """A path as text, also if the locale or its own bytes are at odds."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _files(folder, skipped):
    """All files below a folder, sorted; unreadable folders are skipped."""

    def skip(error):
        skipped[Path(error.filename)] = None

    found = []
    for here, folders, names in os.walk(folder, onerror=skip):
        folders[:] = [n for n in folders if n != ".ipynb_checkpoints"]
        found += [Path(here, name) for name in names]
    return sorted(found)


def _may_hold_one(file):
    return ".ipynb" in file.name.lower() or file.suffix.lower() in ARCHIVES


def read(path):
    """The `Notebook` at a path, whatever is wrong with it."""
    try:
        cells = nbformat.read(path, as_version=4).cells
        sources = [c.source for c in cells if c.cell_type == "code"]
    except Exception as error:
        return Notebook(path, error=f"can't be read: {type(error).__name__}")
    exercises = _exercises("\n".join(sources))
    if not exercises:
        return Notebook(path, error="holds none of the exercises")
    return Notebook(path, exercises, sources)


def _exercises(source):
    """Of the notebook of the series that has most names in this source."""
    counts = {
        notebook: sum(answer in source for answer in exercises.values())
        for notebook, exercises in EXERCISES.items()
    }
    best = max(counts, key=counts.get)
    return EXERCISES[best] if counts[best] else {}
