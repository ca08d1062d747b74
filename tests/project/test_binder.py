"""Binder's image, without Docker: what it installs, starts and takes.

The quick tests ask repo2docker, which Binder uses, what it would do. Those
marked `binder` do it, with an environment and a home of their own, and run
every notebook there: `pytest -m binder`.
"""

import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib import metadata
from pathlib import Path

import pytest
import requests
from ask_lab import wait_for_server
from jupyter_client import BlockingKernelClient
from nbformat.v4 import output_from_msg
from packaging.requirements import Requirement
from test_notebook_format import NAMES, code_cells, read
from test_notebook_runs import printed

from classroom import doctor

ROOT = Path(__file__).parents[2]
BINDER = ROOT / "binder"
MB = 2**20
IMAGE_MB = 1600
MEMORY_MB = 2048  # Binder ends what takes more, and promises half of it.
FIRST_RUN_MB, TWICE_MB = 1024, 1740
# All files can be read, and only those in two folders written.
READ_ONLY = (
    'for folder in "$HOME" "$TMPDIR"; do mount --bind "$folder" "$folder"; '
    'done; mount -o remount,bind,ro /; cd "$HOME"; exec "$@"'
)
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


def lines(file):
    text = file.read_text(encoding="utf-8")
    return [x for x in text.splitlines() if x and not x.startswith("#")]


def pins(file):
    """Versions by name of what `file` installs on one of Binder's machines."""
    machine = {"sys_platform": "linux", "platform_machine": "x86_64"}
    found = [Requirement(x) for x in lines(file) if not x.startswith("-")]
    return {
        pin.name: str(pin.specifier)
        for pin in found
        if not pin.marker or pin.marker.evaluate(machine)
    }


def test_both_files_pin_what_is_installed():
    wanted = pins(ROOT / "requirements.txt")
    assert all(re.fullmatch(r"==[\d.]+", pin) for pin in wanted.values())
    wanted["torch"] += "+cpu"
    theirs = pins(BINDER / "requirements.txt")
    differ = [
        f"{name} {wanted.get(name)} and {theirs.get(name)}"
        for name in sorted({*wanted, *theirs})
        if wanted.get(name) != theirs.get(name)
    ]
    assert not differ, (
        "requirements.txt and binder/requirements.txt say two things: "
        f"{', '.join(differ)}. Change both; README, For maintainers, says how."
    )
    if os.environ.get("GITHUB_EVENT_NAME") != "schedule":  # newest releases
        found = doctor.check_packages()
        problems = [f"{fact}: {cure}" for fact, cure in found if cure]
        assert not problems, problems[0]


def test_nothing_local_is_required():
    # It would make Binder install everything again after each commit.
    found = lines(BINDER / "requirements.txt")
    assert [line for line in found if line.startswith("-")] == [
        "--extra-index-url https://download.pytorch.org/whl/cpu"
    ]


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_scripts_are_executable_and_clean(name):
    script = BINDER / name
    assert os.access(script, os.X_OK)
    assert b"\r" not in script.read_bytes()
    tool = shutil.which("shellcheck", path=sysconfig.get_path("scripts"))
    checked = subprocess.run([tool, script], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


@pytest.fixture(scope="module")
def pack():
    """The way in which repo2docker would build this repository."""
    from repo2docker.app import Repo2Docker

    tool = Repo2Docker()
    with contextlib.chdir(ROOT):
        for kind in tool.buildpacks:
            found = kind(base_image=tool.base_image)
            if found.detect():
                found.platform = "linux/amd64"
                found.text = found.render(
                    {"NB_USER": "jovyan", "NB_UID": "1000"}
                )
                yield found
                return
    pytest.fail("repo2docker finds nothing to build here")


def test_binder_reads_these_files_and_no_others(pack):
    assert f"python-{pack.python_version}" == (
        (BINDER / "runtime.txt").read_text(encoding="utf-8").strip()
    )
    assert re.findall(r"bin/pip (.*)", pack.text) == [
        'install --no-cache-dir -r "binder/requirements.txt"'
    ]
    assert pack.get_assemble_scripts() == []  # so a commit installs nothing
    assert "RUN ./binder/postBuild\n" in pack.text
    assert 'ENV R2D_ENTRYPOINT="${REPO_DIR}/binder/start"\n' in pack.text


class Image:
    """Binder's steps in a folder: a Python environment, and a home with the
    repository's files and nothing else."""

    def __init__(self, folder, pack):
        self.home, self.prefix = folder / "home", folder / "env"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        listed = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
        files = subprocess.check_output(listed, cwd=ROOT, text=True)
        for name in files.strip("\0").split("\0"):
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, self.home / name)
        venv.create(self.prefix, with_pip=True)
        for _, step in pack.get_preassemble_scripts():
            self.run("bash", "-c", step)
        for step in pack.get_post_build_scripts():
            self.run(f"./{step}")

    @property
    def environment(self):
        ways = re.compile("PIP_|https?_proxy$", re.I)  # to the packages
        kept = {k: v for k, v in os.environ.items() if ways.match(k)}
        return kept | {
            "HOME": str(self.home),
            "KERNEL_PYTHON_PREFIX": str(self.prefix),
            "PATH": f"{self.prefix / 'bin'}:/usr/bin:/bin",
            "TMPDIR": str(self.temporary),
            "PIP_RETRIES": "0",  # no waiting for an index out of reach
        }

    def run(self, *command):
        done = subprocess.run(
            command,
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def packages(self):
        site = self.prefix / "lib" / f"python{sys.version[:4]}/site-packages"
        found = metadata.distributions(path=[str(site)])
        return {package.metadata["Name"] for package in found}

    def megabytes(self):
        files = [*self.prefix.rglob("*"), *self.home.rglob("*")]
        return sum(file.lstat().st_blocks for file in files) * 512 / MB


@pytest.fixture(scope="module")
def image(tmp_path_factory, pack):
    if platform.system() != "Linux":
        pytest.skip("Binder's machines run Linux")
    if f"{sys.version_info[0]}.{sys.version_info[1]}" != pack.python_version:
        pytest.skip(f"Binder runs Python {pack.python_version}")
    return Image(tmp_path_factory.mktemp("binder"), pack)


class Server:
    """JupyterLab as Binder starts it: no more memory, nothing to write to."""

    def __init__(self, image):
        self.runtime = image.home / ".local/share/jupyter/runtime"
        self.log = image.temporary / "lab.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*NAMESPACE, "bash", "-c", READ_ONLY, "bash"]
                + ["prlimit", f"--data={MEMORY_MB * MB}", "binder/start"]
                + ["jupyter", "lab", "--allow-root", "--no-browser"],
                env=image.environment,
                stdout=log,
                stderr=log,
            )
        try:
            self.found = wait_for_server(self.runtime, self.process.pid)
        except BaseException:
            self.process.kill()
            raise

    def ask(self, method, path, **request):
        answer = requests.request(
            method,
            f"{self.found['url']}api/{path}",
            headers={"Authorization": f"token {self.found['token']}"},
            timeout=60,
            **request,
        )
        answer.raise_for_status()
        return answer

    @contextlib.contextmanager
    def kernel(self, path):
        """A client of the kernel that JupyterLab starts for a notebook."""
        wanted = {"path": path, "name": path, "type": "notebook"}
        session = self.ask("POST", "sessions", json=wanted).json()
        file = self.runtime / f"kernel-{session['kernel']['id']}.json"
        client = BlockingKernelClient(connection_file=str(file))
        client.load_connection_file()
        client.start_channels(hb=False)  # which would not wait for a slow one
        try:
            client.wait_for_ready(timeout=120)
            yield client
        finally:
            client.stop_channels()
            self.ask("DELETE", f"sessions/{session['id']}")


@pytest.fixture(scope="module")
def server(image):
    if subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode:
        pytest.skip("this machine does not allow a mount namespace")
    server = Server(image)
    yield server
    server.process.terminate()
    server.process.wait(60)


def execute(client, cell):
    """Run a cell, whose outputs are replaced."""
    cell.outputs = []

    def keep(message):
        with contextlib.suppress(ValueError):  # no output: a change of state
            cell.outputs.append(output_from_msg(message))

    client.execute_interactive(cell.source, output_hook=keep, timeout=300)


def peak(status):
    """Largest resident memory so far, from a process' status file."""
    return int(re.search(r"VmHWM:\D+(\d+) kB", status).group(1)) / 1024


def peak_of(client):
    reply = client.execute_interactive(
        "", user_expressions={"it": "open('/proc/self/status').read()"}
    )
    return peak(
        reply["content"]["user_expressions"]["it"]["data"]["text/plain"]
    )


@pytest.mark.binder
def test_the_image_is_small(image, capsys):
    megabytes = image.megabytes()
    with capsys.disabled():
        print(f"\nBinder's environment and home: {megabytes:.0f} MB")
    assert megabytes <= IMAGE_MB
    assert not [x for x in image.packages() if x.startswith("nvidia")]
    assert "gpt-part-by-part" in image.packages()


@pytest.mark.binder
def test_a_file_outside_the_home_cannot_be_written(server):
    with server.kernel("notebooks/any.ipynb") as client:
        cell = read(NAMES[0]).cells[0]
        cell.source = "import torch\nopen(torch.__file__, 'a')"
        execute(client, cell)
    assert "Read-only" in str(cell.outputs)


@pytest.mark.binder
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_in_binders_memory(name, server, capsys):
    saved = {cell.id: printed(cell) for cell in code_cells(read(name))}
    peaks = []
    for times in (1, 2):
        with server.kernel(f"notebooks/{name}.ipynb") as client:
            for cell in code_cells(read(name)):
                for _ in range(times):
                    execute(client, cell)
                    assert printed(cell) == saved[cell.id], cell.id
            peaks.append(peak_of(client))
    status = Path(f"/proc/{server.process.pid}/status")
    own = peak(status.read_text(encoding="utf-8"))
    with capsys.disabled():
        print(
            f"\n{name}: at most {peaks[0]:.0f} MB, {peaks[1]:.0f} MB with "
            f"every cell run twice; JupyterLab {own:.0f} MB"
        )
    assert peaks[0] <= FIRST_RUN_MB
    assert peaks[1] <= TWICE_MB
    assert peaks[1] + own <= MEMORY_MB
