"""A lecture in JupyterLab: all cells, then any cell at any time.

Not part of plain pytest: `pytest -m shuffle`.
"""

import random

import nbformat
import pytest
from lab import NOTEBOOKS, Notebook
from test_notebook_format import code_cells
from test_notebook_runs import printed

pytestmark = pytest.mark.shuffle
NAME = "04-shortcut-connections.ipynb"
CONTENT = "jupyterapp.shell.currentWidget.content"


def outputs(notebook, number):
    """What cell `number` of the open notebook prints now."""
    found = notebook.page.evaluate(
        f"(n) => {CONTENT}.model.cells.get(n).toJSON()", number
    )
    return printed(nbformat.from_dict(found))


def test_any_order_prints_what_is_saved(browser, lab):
    saved = nbformat.read(NOTEBOOKS / NAME, as_version=4)
    page = browser.new_page()
    try:
        notebook = Notebook(page, lab, NAME)
        notebook.run_all()
        numbers = [saved.cells.index(cell) for cell in code_cells(saved)]
        for seed in range(5):
            random.Random(seed).shuffle(numbers)
            for number in numbers:
                page.evaluate(f"(n) => {{ {CONTENT}.activeCellIndex = n }}",
                              number)  # fmt: skip
                notebook.command("notebook:run-cell")
                wanted = printed(saved.cells[number])
                assert outputs(notebook, number) == wanted, (seed, number)
        notebook.check()
        notebook.end_kernel()
    finally:
        page.close()
