"""In a lecture any cell may be run at any time: its output stays the same.

Not part of plain pytest: `pytest -m shuffle`.
"""

import random

import pytest
from test_notebook_format import NAMES, code_cells, read
from test_notebook_runs import printed, run, running

pytestmark = pytest.mark.shuffle


@pytest.mark.parametrize("name", NAMES)
def test_after_a_whole_run_any_order_prints_what_is_saved(name):
    notebook = read(name)
    saved = {cell.id: printed(cell) for cell in code_cells(notebook)}
    with running(notebook) as client:
        for cell in code_cells(notebook):
            assert run(client, cell) == saved[cell.id], cell.id
        for seed in range(5):
            cells = code_cells(notebook)
            random.Random(seed).shuffle(cells)
            for cell in cells:
                again = run(client, cell)
                assert again == saved[cell.id], (cell.id, f"seed {seed}")
