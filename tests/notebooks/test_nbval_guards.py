"""A notebook that was tampered with turns the suite red."""

import copy
import re
import subprocess
import sys

import nbformat
import pytest
import test_notebook_format as rules
from nbclient import NotebookClient


@pytest.fixture
def small():
    """A notebook of two cells, really run."""
    code = nbformat.v4.new_code_cell
    notebook = nbformat.v4.new_notebook(
        cells=[code("print(2 + 2)"), code("'a' * 3")],
        metadata={"kernelspec": {"name": "python3", "display_name": ""}},
    )
    return NotebookClient(notebook).execute()


def tampered(notebook):
    """Name → the notebook, changed in one place."""
    found = {
        name: copy.deepcopy(notebook)
        for name in ("untouched", "stream", "result", "cleared-0", "cleared-1")
    }
    found["stream"].cells[0].outputs[0].text = "5\n"
    found["result"].cells[1].outputs[0].data["text/plain"] = "'aaaa'"
    found["cleared-0"].cells[0].outputs = []
    found["cleared-1"].cells[1].outputs = []
    return found


def test_nbval_sees_each_change_and_nothing_else(small, tmp_path):
    for name, notebook in tampered(small).items():
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env",
         "-c", "/dev/null", "--rootdir", str(tmp_path), str(tmp_path), "-rfE"],
        capture_output=True,
        text=True,
    )  # fmt: skip
    line = r"^FAILED .*?([\w-]+)\.ipynb::Cell (\d)"
    red = re.findall(line, done.stdout, re.M)
    wanted = {"cleared-0": "0", "cleared-1": "1", "result": "1", "stream": "0"}
    assert dict(red) == wanted and len(red) == len(wanted), done.stdout


def test_an_unexecuted_notebook_is_red():
    notebook = rules.read(rules.NAMES[1])
    for cell in rules.code_cells(notebook):
        cell.execution_count, cell.outputs = None, []
    with pytest.raises(AssertionError):
        rules.test_every_code_cell_was_run_once_in_order(notebook)


def test_a_renamed_cell_is_red():
    notebook = rules.read(rules.NAMES[1])
    notebook.cells[3].id += "-renamed"
    with pytest.raises(AssertionError):
        rules.check_ids(rules.NAMES[1], notebook)
