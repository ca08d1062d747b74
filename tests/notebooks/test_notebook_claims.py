"""What the saved outputs say is what the words beside them claim.

nbval holds a new run to the saved outputs; here the outputs themselves are
held to what must be, so that no run which went wrong can be saved.
"""

import re

import pytest
from test_notebook_format import NAMES, code_cells, read

# Cells that show on purpose that something is not so. Wherever else a line
# ends with ": False", an output contradicts its text.
NOT_SO = {
    "01": ["position"],
    "02": ["two-norms", "leak", "one-row"],
    "03": ["gelu-same", "permute"],
    "05": ["dropout", "steps"],
    "06": ["wrong-axis"],
    "08": ["window", "mistake-train", "padding"],
}
# The causal mask by hand: without itself, a first token sees nothing; one
# that starts too late shows the next token.
MASKS = """\
weights of 'Every', and of ' effort'
diagonal=0: [nan, nan, nan, nan] [1.0, 0.0, 0.0, 0.0]
diagonal=1: [1.0, 0.0, 0.0, 0.0] [0.5, 0.5, 0.0, 0.0]
diagonal=2: [0.06, 0.94, 0.0, 0.0] [0.05, 0.05, 0.89, 0.0]
"""


def printed(cell):
    return "".join(output.get("text", "") for output in cell.outputs)


@pytest.mark.parametrize("name", NAMES)
def test_only_what_shall_be_false_is_false(name):
    found = [
        cell.id
        for cell in code_cells(read(name))
        if re.search(r": +False$", printed(cell), flags=re.MULTILINE)
    ]
    assert found == NOT_SO.get(name[:2], [])


@pytest.mark.parametrize("name", NAMES)
def test_all_exercises_are_saved_unanswered(name):
    cells = [c for c in code_cells(read(name)) if c.id.startswith("check-")]
    assert cells
    for cell in cells:
        (result,) = cell.outputs
        assert result.data["text/plain"].startswith("○ not attempted"), cell.id


def test_masks_that_are_off_by_one():
    cells = {cell.id: cell for cell in code_cells(read(NAMES[4]))}
    assert printed(cells["off-by-one"]) == MASKS
