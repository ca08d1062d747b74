"""Write a course for nbgrader, which gives marks for the exercises.

    python -m classroom.nbgrader COURSE_FOLDER

Each notebook becomes an assignment in `source/`. Its exercises are answers to
be graded, with their stubs as they are. Behind each check stands a locked
cell for one point: it fails with the check's message. The folded solutions
are left out. `nbgrader_config.py` limits time and memory. INSTRUCTORS.md says
how to go on, and what such marks can't promise.

nbgrader itself is needed only afterwards.
"""

import argparse
import re
import shutil
import sys
from pathlib import Path

import nbformat

from classroom.checks.catalogue import EXERCISES

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
CONFIG = '''\
"""Limits under which nbgrader runs what learners wrote."""

c = get_config()

# The stubs are the series' own; nbgrader would put another in their place.
c.ClearSolutions.enabled = False

# A cell is interrupted after so many seconds. If it ignores that, the
# submission is given up, and the next one runs.
c.Execute.timeout = 60
c.Execute.interrupt_on_timeout = True

# Bytes for nbgrader and for each kernel that it starts (on Linux).
try:
    import resource

    limit = 3000 * 1024**2
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
except (ImportError, ValueError, OSError):
    pass
'''
POINT = """\
from classroom import checks

verdict = checks.{check}({answer})
assert verdict.status == "passed", verdict
"""


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m classroom.nbgrader",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, metavar="COURSE_FOLDER")
    folder = parser.parse_args(arguments).folder
    if (folder / "source").exists():
        print(f"{folder} holds a course already.", file=sys.stderr)
        return 1
    for name in EXERCISES:
        write_assignment(name, folder / "source" / name)
    (folder / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
    print(f"Written: {len(EXERCISES)} assignments in {folder / 'source'}")
    return 0


def write_assignment(name, folder):
    """A notebook of the series as an assignment, with its pictures."""
    source = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    notebook = assignment(source, EXERCISES[name])
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / f"{name}.ipynb")
    text = "\n".join(cell.source for cell in notebook.cells)
    for picture in set(re.findall(r"images/[\w./-]+\.(?:svg|png)", text)):
        (folder / picture).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(NOTEBOOKS / picture, folder / picture)


def assignment(notebook, exercises):
    """The notebook with nbgrader's metadata and a cell for each point."""
    ids = {name.replace("_", "-"): name for name in exercises}
    cells = []
    for cell in notebook.cells:
        role, _, name = cell.id.partition("-")
        if name in ids and role == "solution":
            continue
        cells.append(cell)
        if name in ids and role == "exercise":
            _mark(cell, solution=True)
        elif name in ids and role == "check":
            check = ids[name]
            cells.append(_point(name, check, exercises[check]))
    notebook.cells = cells
    return notebook


def _point(name, check, answer):
    cell = nbformat.v4.new_code_cell(
        POINT.format(check=check, answer=answer).strip(), id=f"point-{name}"
    )
    _mark(cell, grade=True, locked=True, points=1)
    return cell


def _mark(cell, **metadata):
    none = dict.fromkeys(("grade", "locked", "solution", "task"), False)
    cell.metadata["nbgrader"] = {
        "schema_version": 3,
        "grade_id": cell.id,
        **none,
        **metadata,
    }


if __name__ == "__main__":
    sys.exit(main())
