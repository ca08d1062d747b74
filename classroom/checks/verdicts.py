"""What a row may say, and how it is written."""

import csv
import functools
import re
import sys

from classroom.checks.catalogue import EXERCISES
from classroom.checks.notebooks import name
from classroom.checks.table import mistakes

COLUMNS = [
    "notebook",
    *(exercise for held in EXERCISES.values() for exercise in held),
    "error",
]
OTHERS = "passed", "not attempted", "exception", "failed"


def known(verdict):
    """The verdict; "invalid" if no check gives it."""
    text = verdict if isinstance(verdict, str) else ""
    return text if _known().fullmatch(text) else "invalid"


@functools.cache
def _known():
    written = set().union(OTHERS, *mistakes().values())
    # Where a check fills something in, the table has "…".
    patterns = [re.escape(w).replace("…", "[a-z0-9-]+") for w in written]
    return re.compile("|".join([*patterns, r"missing \(.+\)"]))


class Csv:
    """RFC 4180 in UTF-8: all exercises of the series, in fixed columns."""

    def __init__(self, notebooks):
        sys.stdout.reconfigure(
            encoding="utf-8", errors="backslashreplace", newline=""
        )
        self._writer = csv.DictWriter(sys.stdout, COLUMNS, restval="")
        self._writer.writeheader()
        sys.stdout.flush()

    def write(self, row):
        cells = {name: harmless(text) for name, text in row.items()}
        self._writer.writerow(cells)
        sys.stdout.flush()


class Table:
    """Text for a screen: the exercises that these notebooks hold."""

    def __init__(self, notebooks):
        sys.stdout.reconfigure(errors="backslashreplace")
        held = {exercise for n in notebooks for exercise in n.exercises}
        self._columns = [column for column in COLUMNS if column in held]
        self._widths = [max(len(column), 20) for column in self._columns]
        self._first = max(len(name(n.path)) for n in notebooks)
        self._write("notebook", self._columns, "")

    def write(self, row):
        cells = [row.get(column, "") for column in self._columns]
        self._write(row["notebook"], cells, row.get("error", ""))

    def _write(self, notebook, cells, error):
        cells = [
            cell.ljust(width)
            for cell, width in zip(cells, self._widths, strict=True)
            if cell or not error
        ]
        line = "  ".join([notebook.ljust(self._first), *cells, error])
        print(line.rstrip(), flush=True)


def harmless(text):
    """A cell which no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in tuple("=+-@\t\r\n") else text
