"""The notebooks' cells in a kernel, as nbval runs them."""

import functools
import subprocess
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from benchmarks.report import Row

ROOT = Path(__file__).parent.parent
NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
# A process's largest resident memory in MB. On Linux not by `getrusage`,
# which counts the parent too, whose memory a child shares until it execs.
PEAK = r"""
import re, resource
try:
    with open("/proc/self/status") as file:
        print(int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) / 1024)
except OSError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2)
"""


def measure(quick=False):
    """Rows for each notebook: kernel start, `import torch`, cells."""
    runs = {name: run(name) for name in NAMES}
    parts = ("kernel", "torch", "cells")
    for name, found in runs.items():
        total = sum(found[part] for part in parts)
        for part in parts:
            what = f"{name[:2]}: {part}"
            yield Row("suite", what, found[part], "s")
        yield Row("suite", f"{name[:2]}: all", total, "s", "≤ 10")
    sums = {part: sum(r[part] for r in runs.values()) for part in parts}
    share = sums["cells"] / sum(sums.values())
    yield Row("suite", "cells / all, over all notebooks", share, "×", "≤ 0.6")
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "notebooks"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    total = time.perf_counter() - start
    yield Row("suite", "pytest notebooks", total, "s")


@functools.cache
def run(name):
    """Seconds and peak MB of one notebook in a new kernel."""
    path = ROOT / "notebooks" / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    extra = [nbformat.v4.new_code_cell(s) for s in ("", "import torch", PEAK)]
    notebook.cells += extra
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    )

    def seconds(cells):
        start = time.perf_counter()
        for cell in cells:
            client.execute_cell(cell, notebook.cells.index(cell))
        return time.perf_counter() - start

    start = time.perf_counter()
    with client.setup_kernel():
        client.execute_cell(extra[0], len(notebook.cells) - 3)
        found = {"kernel": time.perf_counter() - start}
        found["torch"] = seconds(extra[1:2])
        found["cells"] = seconds(cells)
        seconds(extra[2:])
    return found | {"peak": float(extra[2].outputs[0].text)}
