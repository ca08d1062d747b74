"""A room without internet: the README's steps, the last one without.

The wheels are collected first; all that follows happens where only the
loopback exists, with an empty home and none of this machine's pip settings.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from test_notebook_format import code_cells, read
from test_notebook_runs import printed

pytestmark = pytest.mark.offline

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NAME = "08-autoregressive-greedy-generation"
ISOLATED = ["unshare", "--user", "--map-root-user", "--net"]
# A kernel talks over the loopback, which a new namespace has switched off.
START = """
import fcntl, socket, struct, subprocess, sys
assert [name for _, name in socket.if_nameindex()] == ["lo"]
up = struct.pack("16sh", b"lo", 1)  # interface flags: IFF_UP
fcntl.ioctl(socket.socket(), 0x8914, up)  # SIOCSIFFLAGS
sys.exit(subprocess.run(["bash", "-c", sys.argv[1]]).returncode)
"""


def readme_step(pip):
    """The README's command with this `pip`, without JupyterLab's start."""
    line = rf"^ +(.*\.venv/bin/pip {pip} .*)$"
    (command,) = re.findall(line, README, flags=re.M)
    return command.split(" && .venv/bin/jupyter lab")[0]


@pytest.fixture(scope="module")
def stick(tmp_path_factory):
    """The folder that the instructor carries: the series and its wheels."""
    if (
        platform.system() != "Linux"
        or subprocess.run([*ISOLATED, "true"], capture_output=True).returncode
    ):
        pytest.skip("this machine does not allow a network namespace")
    folder = tmp_path_factory.mktemp("stick") / "gpt"
    made_here = [".*", "*.egg-info", "__pycache__", "build", "wheelhouse"]
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*made_here))
    online = tmp_path_factory.mktemp("online") / ".venv"
    subprocess.run([sys.executable, "-m", "venv", online], check=True)
    command = readme_step("wheel").replace(".venv", str(online))
    subprocess.run(
        ["bash", "-c", command], cwd=folder, check=True, timeout=1200
    )
    return folder


@pytest.fixture(scope="module")
def offline(stick, tmp_path_factory):
    """Run a command in the stick's folder, where there is no network."""
    environment = {
        "HOME": str(tmp_path_factory.mktemp("home")),
        "PATH": os.environ["PATH"],
        "PIP_CONFIG_FILE": os.devnull,
    }

    def run(command):
        done = subprocess.run(
            [*ISOLATED, sys.executable, "-c", START, command],
            cwd=stick,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    run(readme_step("install --no-index"))
    return run


def test_the_packages_import(offline, stick):
    code = (
        "import classroom, gptlib; gptlib.GPTModel; print(classroom, gptlib)"
    )
    answer = offline(f".venv/bin/python -c '{code}'")
    assert all(str(stick / room) in answer for room in ("classroom", "gptlib"))


def test_a_notebook_prints_what_is_saved(offline, stick):
    offline(
        ".venv/bin/jupyter nbconvert --to notebook --execute "
        f"--output run notebooks/{NAME}.ipynb"
    )
    run = nbformat.read(stick / "notebooks" / "run.ipynb", as_version=4)
    printed_now = {cell.id: printed(cell) for cell in code_cells(run)}
    saved = {cell.id: printed(cell) for cell in code_cells(read(NAME))}
    assert printed_now == saved
