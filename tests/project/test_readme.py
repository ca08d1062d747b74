"""The README's commands and links hold."""

import platform
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch
from common import sections
from test_notebook_format import NAMES
from test_notebook_runs import running, torch_megabytes

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_two_commands_stand_on_a_line_each():
    commands = re.findall(r"^python3 -m venv .*$", README, flags=re.M)
    assert commands == [
        "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt "
        "&& .venv/bin/jupyter lab --allow-root "
        "notebooks/01-gpt-configuration-and-skeleton.ipynb",
        "python3 -m venv .venv && .venv/bin/pip install -r "
        "tests/requirements.txt && .venv/bin/pytest -n 2",
    ]


def test_ci_runs_the_readmes_commands_and_has_none_of_its_own():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in script
    assert "pip install" not in script and "pytest" not in script


def test_the_index_of_the_cpu_build_is_binders():
    wanted = re.search(r"^ *export PIP_EXTRA_INDEX_URL=(.*)$", README, re.M)[1]
    binder = (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8")
    assert f"--extra-index-url {wanted}\n" in binder


@pytest.mark.skipif(platform.system() != "Linux", reason="a row for Linux")
def test_importing_torch_takes_what_the_table_says():
    gpu = torch.version.cuda is not None
    build = "with GPU libraries: pip's choice" if gpu else "CPU build"
    row = re.search(rf"^\| Linux, {build} \|.*\| (\d+)–(\d+) MB", README, re.M)
    least, most = map(int, row.groups())
    notebook = nbformat.v4.new_notebook()
    with running(notebook) as client:
        assert 0.8 * least < torch_megabytes(client) < 1.2 * most


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)]+)\)", README))
def test_every_link_leads_somewhere(link):
    if link.startswith("#"):
        assert link[1:] in sections(README)
    else:
        assert link.startswith("https://") or (ROOT / link).exists()


def test_files_in_commands_exist():
    named = r"(?:tests|notebooks|binder)/[\w./-]*\w(?![\w./…-])"
    missing = [n for n in re.findall(named, README) if not (ROOT / n).exists()]
    assert missing == []


@pytest.mark.parametrize("page", ["README.md", "INSTRUCTORS.md"])
def test_each_section_with_a_command_says_it_for_windows(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for section in re.split("^## ", text, flags=re.M):
        title = section.partition("\n")[0]
        assert ".venv/bin/" not in section or ".venv\\Scripts\\" in section, (
            f"{page}, {title}: say how its commands are written on Windows"
        )


@pytest.mark.parametrize("name", NAMES)
def test_every_notebook_is_in_the_table(name):
    assert README.count(f"(notebooks/{name}.ipynb)") == 1


def test_requirements_are_pinned():
    lines = []
    for file in (ROOT / "requirements.txt", ROOT / "tests/requirements.txt"):
        lines += file.read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    loose = [line for line in wanted if not re.match(r"[a-z0-9-]+==\d", line)]
    assert loose == ["-e .", "-r ../requirements.txt"]


@pytest.mark.parametrize("arguments", [["check"], ["format", "--check"]])
def test_ruff_is_content(arguments):
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *arguments, "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
