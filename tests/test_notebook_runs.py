"""What every notebook prints, wherever, whenever and however often it runs.

nbval, which plain pytest applies to `notebooks/`, compares one run on this
machine with what is saved. Here: other processors and thread counts, cells
that are run again, no network, and the memory that it takes.
"""

import contextlib
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from nbclient import NotebookClient
from test_notebook_format import NAMES, code_cells, read

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
LINUX = pytest.mark.skipif(
    platform.system() != "Linux", reason="reads Linux's /proc or namespaces"
)


def capabilities():
    """Levels of processor features that torch can be held to here."""
    levels = ["default", "avx2", "avx512"]
    best = torch.backends.cpu.get_cpu_capability().lower()
    known = best in levels
    return levels[: levels.index(best) + 1] if known else ["default"]


EXTREMES = [(capabilities()[0], 1), (capabilities()[-1], 2)]
REST = [
    pytest.param(capability, threads, marks=pytest.mark.matrix)
    for capability in capabilities()
    for threads in (1, 2)
    if (capability, threads) not in EXTREMES
]


@contextlib.contextmanager
def running(notebook, **environment):
    """A kernel for `notebook`, as JupyterLab would start it."""
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(NOTEBOOKS)}},
        coalesce_streams=True,
    )
    with client.setup_kernel(env=os.environ | environment):
        yield client


def run(client, cell):
    """Execute a cell; what it prints, in the form that nbval compares."""
    if cell.source.strip():
        client.execute_cell(cell, client.nb.cells.index(cell))
    return printed(cell)


def printed(cell):
    """Streams joined, texts of results; None where nbval does not look."""
    if "nbval-ignore-output" in cell.metadata.get("tags", []):
        return None
    texts = {}
    for output in cell.outputs:
        if output.output_type == "stream":
            kind = output.name
            texts[kind] = texts.get(kind, "") + output.text
        else:
            for kind, data in output.get("data", {}).items():
                if not kind.startswith("image/"):
                    texts.setdefault(kind, []).append(data)
    return texts


def peak_megabytes(client):
    """Largest resident memory of the client's kernel so far."""
    pid = client.km.provisioner.pid
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1024


@pytest.mark.parametrize("capability, threads", [EXTREMES[-1], *REST])
@pytest.mark.parametrize("name", NAMES)
def test_it_prints_what_is_saved(name, capability, threads):
    notebook = read(name)
    saved = {cell.id: printed(cell) for cell in code_cells(notebook)}
    environment = {
        "ATEN_CPU_CAPABILITY": capability,
        "OMP_NUM_THREADS": str(threads),
    }
    with running(notebook, **environment) as client:
        for cell in code_cells(notebook):
            assert run(client, cell) == saved[cell.id], cell.id
        if platform.system() == "Linux":
            assert peak_megabytes(client) < 1200


@pytest.mark.parametrize("name", NAMES)
def test_any_cell_can_be_run_again(name):
    notebook = read(name)
    saved = {cell.id: printed(cell) for cell in code_cells(notebook)}
    with running(notebook) as client:
        for cell in code_cells(notebook):
            assert run(client, cell) == saved[cell.id], cell.id
            assert run(client, cell) == saved[cell.id], f"{cell.id} twice"
        # Last to first: each meets what the whole notebook left behind.
        for cell in reversed(code_cells(notebook)):
            assert run(client, cell) == saved[cell.id], f"{cell.id} later"


@LINUX
def test_no_notebook_needs_the_network():
    """All of them by nbval, where only the loopback exists: with the least
    of processor features and one thread, the other extreme."""
    capability, threads = EXTREMES[0]
    start = (
        "import fcntl, socket, struct, sys, pytest\n"
        "up = struct.pack('16sh', b'lo', 1)\n"  # interface flags: IFF_UP
        "fcntl.ioctl(socket.socket(), 0x8914, up)\n"  # SIOCSIFFLAGS
        "sys.exit(pytest.main(sys.argv[1:]))\n"
    )
    isolated = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*isolated, "true"], capture_output=True).returncode:
        pytest.skip("this machine does not allow a network namespace")
    done = subprocess.run(
        [*isolated, sys.executable, "-c", start, str(NOTEBOOKS), "-q"],
        capture_output=True,
        text=True,
        cwd=NOTEBOOKS.parent,
        env=os.environ
        | {
            "ATEN_CPU_CAPABILITY": capability,
            "OMP_NUM_THREADS": str(threads),
        },
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
