"""The workflow for other systems runs what the README says.

No runner is here: its steps are taken apart, and the one which reads the
README is run, as on each system.
"""

import os
import platform
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / ".github" / "workflows" / "tests.yml"
WORKFLOW = yaml.safe_load(FILE.read_text(encoding="utf-8"))
STEPS = {
    step.get("name", step.get("uses")): step
    for step in WORKFLOW["jobs"]["tests"]["steps"]
}
README = (ROOT / "README.md").read_text(encoding="utf-8")
BASH = pytest.mark.skipif(
    platform.system() == "Windows", reason="bash may be another system's"
)


def run(step, folder, **environment):
    subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", STEPS[step]["run"]],
        cwd=folder,
        env=os.environ | environment,
        check=True,
    )


@BASH
@pytest.mark.parametrize(
    "system, end_of_line, commands",
    [
        (
            "macOS",
            "\n",
            [
                "INSTALL=python3 -m venv .venv && "
                ".venv/bin/pip install -r tests/requirements.txt",
                "TEST=.venv/bin/pytest -n 2",
            ],
        ),
        (
            "Windows",
            "\r\n",
            [
                "INSTALL=python -m venv .venv && "
                ".venv/Scripts/pip install -r tests/requirements.txt",
                "TEST=.venv/Scripts/pytest -n 2",
            ],
        ),
    ],
)
def test_it_runs_the_readmes_command(tmp_path, system, end_of_line, commands):
    readme = tmp_path / "README.md"
    readme.write_text(README, encoding="utf-8", newline=end_of_line)
    told = tmp_path / "told"
    run(
        "Read the test command in the README",
        tmp_path,
        RUNNER_OS=system,
        GITHUB_ENV=str(told),
    )
    assert told.read_text(encoding="utf-8").splitlines() == commands
    assert STEPS["Install"]["run"] == 'bash -c "$INSTALL"'
    assert STEPS["Test"]["run"] == 'bash -c "$TEST"'


@BASH
def test_on_mondays_it_takes_the_newest_releases(tmp_path):
    pins = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    (tmp_path / "requirements.txt").write_text(pins, encoding="utf-8")
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@" > asked\n', encoding="utf-8")
    python.chmod(0o755)
    run("Go to the newest releases", tmp_path, TEST=str(tmp_path / "pytest"))
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert asked == "-m pip install --upgrade -r newest.txt\n"
    names = (tmp_path / "newest.txt").read_text(encoding="utf-8").split()
    assert sorted(names) == [
        "anywidget", "ipywidgets", "jupyterlab", "matplotlib", "nbval",
        "numpy", "safetensors", "tiktoken", "torch",
    ]  # fmt: skip


def test_it_covers_the_systems_and_pythons_that_the_readme_names():
    matrix = WORKFLOW["jobs"]["tests"]["strategy"]["matrix"]
    assert [name.split("-")[0] for name in matrix["os"]] == [
        "ubuntu",
        "macos",
        "windows",
    ]
    first, *_, newest = matrix["python"]
    assert f"You need Python {first}, " in README
    assert f" or {newest}. " in README


def test_it_may_only_read():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert "permissions" not in WORKFLOW["jobs"]["tests"]
