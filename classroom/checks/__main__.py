"""Which mistakes did a class make? A reading aid, and no judge.

    python -m classroom.checks PATH… [--csv]
    python -m classroom.checks --mistakes

A row for each notebook, a column for each exercise. It shows at a glance what
to talk about; it is no proof and gives no marks, for an answer runs in the
process that judges it and can say what it likes.

Checking a folder runs what learners wrote, with your rights, where this
command stands. Each notebook runs in a process and an empty folder of its
own, under limits that keep an unlucky cell from the next notebook; against
ill will take an account or a container of its own.

The second form prints all mistakes that the checks can name, with their words.
"""

import argparse
import contextlib
import sys
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

from classroom import machine
from classroom.checks import notebooks
from classroom.checks.isolated import Runner
from classroom.checks.table import print_mistakes
from classroom.checks.verdicts import Csv, Table

NEEDED = 1500 * 1024**2  # bytes for a notebook of the series, with room


def main(arguments=None):
    options = _parser().parse_args(arguments)
    if options.mistakes:
        print_mistakes()
        return 0
    paths, skipped = notebooks.find(options.paths)
    for path in skipped:
        _say(f"Skipped: {notebooks.name(path)}")
    if not paths:
        _say("No notebooks found.")
        return 1
    # All are read before the first runs, which might delete the others.
    found = [notebooks.read(path) for path in paths]
    table = (Csv if options.csv else Table)(found)
    done = 0
    try:
        with contextlib.closing(_rows(found, options)) as rows:
            for done, row in enumerate(rows, start=1):
                table.write(row)
                _say(f"{done} of {len(found)}: {row['notebook']}")
    except KeyboardInterrupt:
        _say(f"Stopped. The rows of {done} of {len(found)} are written.")
        return 130
    return 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m classroom.checks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--mistakes", action="store_true",
                        help="print what the checks can name")  # fmt: skip
    parser.add_argument("--csv", action="store_true", help="print CSV")
    parser.add_argument("--seconds", type=int, default=60,
                        help="time limit of a cell (60)")  # fmt: skip
    parser.add_argument("--notebook-seconds", type=int, default=180,
                        help="time limit of a notebook (180)")  # fmt: skip
    parser.add_argument("--megabytes", type=int, default=3000,
                        help="memory limit of a notebook (3000)")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=_jobs(),
                        help="notebooks at a time (%(default)s)")  # fmt: skip
    return parser


def _jobs():
    """One for each processor, if the memory is enough."""
    fitting = (machine.free_memory() or 0) // NEEDED
    return max(1, min(machine.cpus(), fitting))


def _rows(found, options):
    """A row for each notebook, as soon as it is known."""
    runner = Runner(
        options.seconds,
        options.notebook_seconds,
        options.megabytes,
        threads=max(1, machine.cpus() // options.jobs),
    )
    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            running = {pool.submit(_row, n, runner) for n in found}
            while running:
                # With a limit: on Windows Ctrl-C does not end a wait.
                done, running = wait(running, 1, FIRST_COMPLETED)
                yield from (future.result() for future in done)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            runner.stop()


def _row(notebook, runner):
    row = {"notebook": notebooks.name(notebook.path)}
    if notebook.error:
        return row | {"error": notebook.error}
    try:
        return row | runner.verdicts(notebook)
    except Exception as error:
        why = f"can't be run: {type(error).__name__}: {error}"
        return row | {"error": why}


def _say(text):
    """To a person, who reads it while the table goes to a file."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
