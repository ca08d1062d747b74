"""Check the answers in a folder of learners' notebooks, as a table.

    python -m classroom.checks PATH… [--csv] [--seconds N] [--megabytes N]
    python -m classroom.checks --mistakes

A row for each notebook, a column for each exercise. Each notebook runs in a
kernel of its own, with a limit on each cell's time and on memory (the latter
on Linux); a notebook that can't be run gets a row that says why. The second
form prints all mistakes that the checks can name, with their words.
"""

import argparse
import csv
import json
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

from classroom.checks.catalogue import EXERCISES
from classroom.checks.table import print_mistakes

MARK = "classroom.checks:"
LIMIT_MEMORY = """
try:
    import resource
    resource.setrlimit(resource.RLIMIT_DATA, ({bytes}, {bytes}))
except (ImportError, ValueError, OSError):
    pass
"""
CHECK = """
import json as _json
from classroom import checks as _checks
_results = {{}}
for _name, _answer in {exercises!r}.items():
    if _answer in globals():
        _result = getattr(_checks, _name)(globals()[_answer])
        _results[_name] = _result.mistake or _result.status
    else:
        _results[_name] = "missing"
print({mark!r} + _json.dumps(_results))
"""


def main(arguments=None):
    options = _parser().parse_args(arguments)
    if options.mistakes:
        print_mistakes()
        return 0
    rows = [
        {"notebook": str(path), **check_notebook(path, options)}
        for path in find_notebooks(options.paths)
    ]
    if not rows:
        print("No notebooks found.", file=sys.stderr)
        return 1
    columns = list(dict.fromkeys(name for row in rows for name in row))
    (_print_csv if options.csv else _print_table)(columns, rows)
    return 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m classroom.checks",
        description="Check the answers in learners' notebooks.",
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--mistakes", action="store_true",
                        help="print what the checks can name")  # fmt: skip
    parser.add_argument("--csv", action="store_true", help="print CSV")
    parser.add_argument("--seconds", type=int, default=60,
                        help="time limit of a cell (60)")  # fmt: skip
    parser.add_argument("--megabytes", type=int, default=3000,
                        help="memory limit of a notebook (3000)")  # fmt: skip
    return parser


def find_notebooks(paths):
    """Notebooks at the paths and in the folders below them, sorted."""
    found = []
    for path in paths:
        found += sorted(path.rglob("*.ipynb")) if path.is_dir() else [path]
    return [p for p in found if ".ipynb_checkpoints" not in p.parts]


def check_notebook(path, options):
    """Exercise → "passed", "not attempted", the mistake's name, or
    "missing"; {"error": why} for a notebook that can't be checked."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception as error:  # whatever is wrong with a learner's file
        return {"error": f"can't be read: {type(error).__name__}"}
    exercises = _exercises_of(notebook)
    if not exercises:
        return {"error": "holds none of the exercises"}
    try:
        return _run(notebook, path.parent, exercises, options)
    except DeadKernelError:
        return {"error": "the kernel died (out of memory?)"}
    except CellTimeoutError:
        return {"error": f"still ran after {options.seconds} s"}
    except Exception as error:
        return {"error": f"can't be run: {type(error).__name__}: {error}"}


def _exercises_of(notebook):
    """The exercises of the notebook that this one was made from."""
    source = "\n".join(cell.source for cell in notebook.cells)
    best = max(
        EXERCISES.values(),
        key=lambda exercises: sum(a in source for a in exercises.values()),
    )
    return best if any(a in source for a in best.values()) else {}


def _run(notebook, folder, exercises, options):
    code = nbformat.v4.new_code_cell
    limit = LIMIT_MEMORY.format(bytes=options.megabytes * 1024**2)
    check = CHECK.format(exercises=exercises, mark=MARK)
    notebook.cells = [code(limit), *notebook.cells, code(check)]
    NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=options.seconds,
        interrupt_on_timeout=True,
        allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    for output in notebook.cells[-1].outputs:
        for line in output.get("text", "").splitlines():
            if line.startswith(MARK):
                return json.loads(line.removeprefix(MARK))
    return {"error": "the checks could not be run"}


def _print_csv(columns, rows):
    writer = csv.DictWriter(sys.stdout, columns, restval="")
    writer.writeheader()
    writer.writerows(rows)


def _print_table(columns, rows):
    table = [columns] + [[row.get(c, "") for c in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = zip(row, widths, strict=True)
        print("  ".join(cell.ljust(width) for cell, width in cells).rstrip())


if __name__ == "__main__":
    sys.exit(main())
