"""nbval's cells need no company: `--lf`, shuffling and sharing work."""

import subprocess
import sys
from pathlib import Path

SERIES = Path(__file__).parents[2]


def test_cells_pass_alone_and_backwards():
    path = "notebooks/03-gelu-and-feed-forward.ipynb"
    cells = [f"{path}::Cell {number}" for number in (30, 12)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        + cells,
        capture_output=True,
        text=True,
        cwd=SERIES,
    )
    assert "2 passed" in done.stdout, done.stdout
