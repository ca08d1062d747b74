"""A notebook that was tampered with turns the suite red."""

import copy
import subprocess
import sys

import nbformat
import pytest
import test_notebook_format as rules
from nbclient import NotebookClient


@pytest.fixture(scope="module")
def small():
    """A notebook of two cells, really run."""
    code = nbformat.v4.new_code_cell
    notebook = nbformat.v4.new_notebook(
        cells=[code("print(2 + 2)"), code("'a' * 3")],
        metadata={"kernelspec": {"name": "python3", "display_name": ""}},
    )
    return NotebookClient(notebook).execute()


def nbval(notebook, folder):
    path = folder / "small.ipynb"
    nbformat.write(notebook, path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env",
         "-c", "/dev/null", "--rootdir", str(folder), str(path)],
        capture_output=True,
        text=True,
    )  # fmt: skip
    return done.returncode == 0


def test_an_untouched_notebook_is_green(small, tmp_path):
    assert nbval(small, tmp_path)


def test_a_changed_stream_is_red(small, tmp_path):
    changed = copy.deepcopy(small)
    changed.cells[0].outputs[0].text = "5\n"
    assert not nbval(changed, tmp_path)


def test_a_changed_result_is_red(small, tmp_path):
    changed = copy.deepcopy(small)
    changed.cells[1].outputs[0].data["text/plain"] = "'aaaa'"
    assert not nbval(changed, tmp_path)


@pytest.mark.parametrize("index", [0, 1])
def test_a_cleared_output_is_red(small, tmp_path, index):
    changed = copy.deepcopy(small)
    changed.cells[index].outputs = []
    assert not nbval(changed, tmp_path)


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
