"""`python -m classroom.checks PATH…`: a class's mistakes at a glance."""

import csv
import io
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from test_notebook_format import NAMES, ROOT, read

from classroom.checks.__main__ import main
from classroom.checks.catalogue import EXERCISES
from classroom.checks.verdicts import harmless, known

SETUP = """
import torch
from torch import nn
from classroom import checks
"""
RIGHT = """
class MyLayerNorm(nn.LayerNorm):
    def forward(self, x):
        c = x - x.mean(-1, keepdim=True)
        var = c.square().mean(-1, keepdim=True)
        return self.weight * c / torch.sqrt(var + self.eps) + self.bias
"""
WRONG = """
class MyRMSNorm(nn.Module):
    def __init__(self, emb_dim):
        super().__init__()
        self.eps = 1e-5
        self.scale = nn.Parameter(torch.ones(emb_dim))

    def forward(self, x):
        return self.scale * x / torch.sqrt((x**2).mean(-1) + self.eps)
"""
STUB = "class MyRMSNorm(nn.Module):\n    pass"
NOISE = """
import os, sys
print('{"done": true}', flush=True)
os.write(1, b'{"verdict": "passed"}')
print("no word from here may stand in the table", file=sys.stderr)
input()
"""
BENT = """
from classroom.checks import guard, result
guard.CheckResult = lambda *said: result.CheckResult("failed", "=1+1", "")
"""
ONE_THAT_STAYS = """
import subprocess, sys
sleeper = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(1000)"],
    start_new_session=True,
)
open({note!r}, "w").write(str(sleeper.pid))
"""
STOPPED = "while True:\n    pass"
LOOP = """
while True:
    try:
        while True:
            pass
    except:
        continue
"""
IGNORED = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    pass
"""
NATIVE = "sum(range(10**15))"
CLEAR = """
import pathlib, shutil
shutil.rmtree("../..", ignore_errors=True)
for original in pathlib.Path({folder!r}).rglob("*.ipynb"):
    original.unlink()
"""

# What an instructor may have at home, and a learner beside the notebook.
STARTUP = "from gptlib import LayerNorm as MyRMSNorm"
BROKEN = "raise RuntimeError('this module must not win')"


def write(path, *sources):
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


def command(*arguments):
    return [sys.executable, "-m", "classroom.checks", *map(str, arguments)]


def run(*arguments, **changes):
    done = subprocess.run(
        command(*arguments, "--csv"),
        capture_output=True,
        cwd=ROOT,
        env=os.environ | changes,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode("utf-8"), done.stderr.decode()


def rows_of(text):
    """Rows of a CSV by the folder that each notebook stands in."""
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return {Path(row.pop("notebook")).parts[-2]: row for row in rows}


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """A class with every kind of trouble: its folder, what was printed."""
    folder = tmp_path_factory.mktemp("class")
    answers = {
        "right-and-wrong": [SETUP, RIGHT, WRONG],
        "deleted": [SETUP, RIGHT],
        "unclosed": [SETUP, RIGHT, STUB.replace("):", ":")],
        "misspelt": [SETUP, RIGHT, STUB.replace("class", "clas")],
        "raises": [SETUP, RIGHT, STUB.replace("pass", "eps = 1 / 0")],
        "without-setup": ["import nowhere" + SETUP, RIGHT, STUB],
        "troubled": ["1 / 0", SETUP, RIGHT, STUB, NOISE, "raise SystemExit"],
        "bent": [SETUP, RIGHT, WRONG, BENT],
        "stopped": [SETUP, RIGHT, STUB, STOPPED, "bytearray(4 * 1024**3)"],
        "dies": [SETUP, RIGHT, STUB, "import os; os._exit(1)"],
        "other": ["print('nothing of ours')"],
        "beside": [SETUP, RIGHT, WRONG],
        "leaves": [SETUP, RIGHT, STUB,
                   ONE_THAT_STAYS.format(note=str(folder / "pid"))],
    }  # fmt: skip
    for name, sources in answers.items():
        write(folder / name / "02.ipynb", *sources)
    for module in ("torch.py", "gptlib/__init__.py", "classroom/__init__.py"):
        file = folder / "beside" / module
        file.parent.mkdir(exist_ok=True)
        file.write_text(BROKEN, encoding="utf-8")
    (folder / "broken").mkdir()
    (folder / "broken" / "02.ipynb").write_text("{", encoding="utf-8")
    write(folder / "shouted" / "02.IPYNB", SETUP, RIGHT, STUB)
    write(folder / "dies" / ".ipynb_checkpoints" / "02.ipynb", "1")
    for skipped in ("02.ipynb.json", "class.zip", "notes.txt"):
        (folder / skipped).write_text("", encoding="utf-8")
    startup = folder / ".ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "mine.py").write_text(STARTUP, encoding="utf-8")
    limits = ["--seconds", 8, "--megabytes", 2000]
    return folder, run(folder, *limits, HOME=str(folder))


@pytest.fixture(scope="module")
def table(checked):
    _, (printed, _) = checked
    return rows_of(printed)


@pytest.mark.parametrize(
    "name, layer_norm, rms_norm",
    [
        ("right-and-wrong", "passed", "keepdim-missing"),
        ("deleted", "passed", "missing (never defined)"),
        ("unclosed", "passed", "missing (syntax error in its cell)"),
        ("misspelt", "passed", "missing (syntax error in its cell)"),
        ("raises", "passed", "missing (its cell raised ZeroDivisionError)"),
        ("without-setup", *2 * ["missing (setup cell failed: "
                                "ModuleNotFoundError)"]),
        ("troubled", "passed", "not attempted"),
        ("bent", "invalid", "invalid"),
        ("beside", "passed", "keepdim-missing"),
        ("leaves", "passed", "not attempted"),
        ("shouted", "passed", "not attempted"),
    ],
)  # fmt: skip
def test_a_notebook_that_runs_gets_its_answers(
    table, name, layer_norm, rms_norm
):
    row = table[name]
    assert (row["layer_norm"], row["rms_norm"]) == (layer_norm, rms_norm)
    assert row["error"] == ""


@pytest.mark.parametrize(
    "name, word",
    [
        ("dies", "process died (out of memory?): code cell 4"),
        ("broken", "can't be read"),
        ("other", "none of the exercises"),
    ],
)
def test_a_notebook_that_cannot_be_checked_gets_a_row(table, name, word):
    assert word in table[name]["error"]
    assert table[name]["layer_norm"] == ""


@pytest.mark.skipif(platform.system() != "Linux", reason="limit on Linux")
def test_a_cell_beyond_its_time_or_memory_fails_alone(table):
    assert table["stopped"]["layer_norm"] == "passed"


def test_what_a_cell_started_does_not_outlive_its_row(checked):
    folder, _ = checked
    pid = int((folder / "pid").read_text())
    assert not psutil.pid_exists(pid)


def test_what_was_skipped_and_what_is_done_is_said(checked):
    folder, (printed, said) = checked
    rows = printed.count("\r\n") - 1
    assert f"\n{rows} of {rows}: " in said
    for name in ("02.ipynb.json", "class.zip"):
        assert f"Skipped: {folder / name}\n" in said
    assert "notes.txt" not in said and "checkpoints" not in said
    assert "no word from here" not in said


def test_the_columns_are_those_of_the_catalogue(table):
    names = [name for held in EXERCISES.values() for name in held]
    assert list(table["deleted"]) == [*names, "error"]


def test_what_cannot_be_interrupted_is_killed(tmp_path):
    for name, source in (("loop", LOOP), ("ignored", IGNORED)):
        write(tmp_path / name / "02.ipynb", SETUP, RIGHT, source)
    write(tmp_path / "native" / "02.ipynb", SETUP, RIGHT, NATIVE)
    begin = time.monotonic()
    printed, _ = run(
        tmp_path, "--seconds", 2, "--notebook-seconds", 20, "--jobs", 3
    )
    assert time.monotonic() - begin < 60
    rows = rows_of(printed)
    assert set(rows) == {"loop", "ignored", "native"}
    for row in rows.values():
        assert row["error"] == "still ran after 20 s: code cell 3"


def test_a_check_that_hangs_leaves_the_verdicts_before_it(tmp_path):
    hangs = WRONG.replace("self.eps = 1e-5", NATIVE)
    write(tmp_path / "one" / "02.ipynb", SETUP, RIGHT, hangs)
    printed, _ = run(tmp_path, "--notebook-seconds", 20)
    row = rows_of(printed)["one"]
    assert row["layer_norm"] == "passed" and row["rms_norm"] == ""
    assert row["error"] == "still ran after 20 s: the check of rms_norm"


def test_a_cell_that_deletes_the_class_costs_no_row(tmp_path):
    clear = CLEAR.format(folder=str(tmp_path))
    write(tmp_path / "a" / "02.ipynb", SETUP, RIGHT, STUB, clear)
    write(tmp_path / "b" / "02.ipynb", SETUP, RIGHT, STUB)
    printed, _ = run(tmp_path, "--jobs", 1)
    assert not list(tmp_path.rglob("*.ipynb"))
    for row in rows_of(printed).values():
        assert row["layer_norm"] == "passed"


def test_relative_paths_of_a_cell_lead_to_a_copy(tmp_path):
    write(tmp_path / "a" / "02.ipynb", SETUP, RIGHT, CLEAR.format(folder=".."))
    write(tmp_path / "b" / "02.ipynb", SETUP, RIGHT)
    run(tmp_path)
    assert len(list(tmp_path.rglob("*.ipynb"))) == 2


@pytest.fixture
def half_done(tmp_path):
    """A running command, one of whose notebooks is done; its CSV."""
    write(tmp_path / "a" / "02.ipynb", SETUP, RIGHT, STUB)
    write(tmp_path / "b" / "02.ipynb", SETUP, RIGHT, LOOP)
    write(tmp_path / "c" / "02.ipynb", SETUP, RIGHT, LOOP)
    file = tmp_path / "class.csv"
    # What a shell starts in the background ignores it, and so do its children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with file.open("wb") as out:
        process = subprocess.Popen(
            command(tmp_path, "--csv", "--jobs", 1),
            stdout=out,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
    signal.signal(signal.SIGINT, before)
    try:
        wait_for(lambda: file.read_bytes().count(b"\r\n") == 2)
        wait_for(psutil.Process(process.pid).children)
        yield process, file
    finally:
        process.kill()
        process.wait()


def wait_for(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.skipif(os.name == "nt", reason="no signal to one process")
def test_an_interrupt_leaves_the_finished_rows_and_no_process(half_done):
    process, file = half_done
    children = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"The rows of 1 of 3 are written." in said
    assert b"Traceback" not in said
    rows = rows_of(file.read_text(encoding="utf-8"))
    assert rows["a"]["layer_norm"] == "passed" and len(rows) == 1
    assert not any(child.is_running() for child in children)


def test_a_killed_command_leaves_no_process(half_done):
    process, _ = half_done
    children = psutil.Process(process.pid).children()
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []


@pytest.mark.skipif(os.name == "nt", reason="names and locales of POSIX")
def test_the_csv_is_utf_8_whatever_the_locale(tmp_path):
    (tmp_path / "Zoë").mkdir()
    (tmp_path / "Zoë" / "=02.ipynb").write_text("{", encoding="utf-8")
    printed, _ = run(
        tmp_path,
        LC_ALL="C",
        PYTHONUTF8="0",
        PYTHONCOERCECLOCALE="0",
        PYTHONIOENCODING="ascii",
    )
    lines = printed.split("\r\n")
    assert len(lines) == 3 and "\n" not in "".join(lines)
    assert lines[1].startswith(str(tmp_path / "Zoë" / "=02.ipynb"))


@pytest.mark.parametrize("first", "=+-@\t\r")
def test_no_cell_is_a_formula(first):
    assert harmless(f"{first}1+1") == f"'{first}1+1"
    assert harmless("keepdim-missing") == "keepdim-missing"


@pytest.mark.parametrize(
    "verdict, shown",
    [
        ("passed", "passed"),
        ("not attempted", "not attempted"),
        ("exception", "exception"),
        ("keepdim-missing", "keepdim-missing"),
        ("missing (never defined)", "missing (never defined)"),
        ("PASSED", "invalid"),
        ("passed\npassed", "invalid"),
        ("=1+1", "invalid"),
        ("no-such-mistake", "invalid"),
        (None, "invalid"),
        (["passed"], "invalid"),
    ],
)
def test_a_verdict_that_no_check_gives_is_invalid(verdict, shown):
    assert known(verdict) == shown


def test_the_series_own_notebook_is_a_row_of_a_table(tmp_path, capsys):
    nbformat.write(read("02-layer-normalization"), tmp_path / "mine.ipynb")
    assert main([str(tmp_path / "mine.ipynb")]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["notebook", *EXERCISES["02-layer-normalization"]]
    assert row.split()[1:] == 3 * ["not", "attempted"]


CELLS = """
import sys
from pathlib import Path
from classroom.checks import notebooks, run_cells
shell = run_cells._shell()
for cell in notebooks.read(Path(sys.argv[1])).cells:
    error = run_cells._run(shell, cell, seconds=60)
    assert error is None, (cell, error)
"""
# Two notebooks at each run, which show and catch most; all with `-m matrix`.
BRIEF = NAMES[0], NAMES[-1]
ALL = [
    pytest.param(name, marks=[] if name in BRIEF else pytest.mark.matrix)
    for name in NAMES
]


@pytest.mark.parametrize("name", ALL)
def test_each_cell_of_the_series_runs_without_a_kernel(name):
    done = subprocess.run(
        [sys.executable, "-c", CELLS, f"notebooks/{name}.ipynb"],
        capture_output=True,
        cwd=ROOT,
        env=os.environ | {"MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr.decode()


def test_an_empty_folder_is_said(tmp_path, capsys):
    assert main([str(tmp_path)]) == 1
    assert "No notebooks" in capsys.readouterr().err


def test_the_help_says_what_it_is_not(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert "A reading aid, and no judge" in said
    assert "with your rights" in said
