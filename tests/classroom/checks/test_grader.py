"""`python -m classroom.checks PATH…`: a table of a class's answers."""

import csv
import io
import platform
import subprocess
import sys

import nbformat
import pytest
from test_notebook_format import read

from classroom.checks.__main__ import main

RIGHT = """
import torch
from torch import nn

class MyLayerNorm(nn.LayerNorm):
    def forward(self, x):
        c = x - x.mean(-1, keepdim=True)
        var = c.square().mean(-1, keepdim=True)
        return self.weight * c / torch.sqrt(var + self.eps) + self.bias
"""
WRONG = """
class MyRMSNorm(nn.Module):
    def __init__(self, emb_dim):
        super().__init__()
        self.eps = 1e-5
        self.scale = nn.Parameter(torch.ones(emb_dim))

    def forward(self, x):
        return self.scale * x / torch.sqrt((x**2).mean(-1) + self.eps)
"""
STUB = "class MyRMSNorm(nn.Module):\n    pass"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Rows of the CSV, by notebook: a folder with every kind of trouble."""
    folder = tmp_path_factory.mktemp("class")
    answers = {
        "right-and-wrong": [RIGHT, WRONG],
        "deleted": [RIGHT],
        "troubled": [
            "1 / 0",
            RIGHT,
            STUB,
            "print('classroom.checks:{}')",
            "raise SystemExit",
        ],
        "stopped": [
            RIGHT,
            STUB,
            "while True: pass",
            "hoard = bytearray(4 * 1024**3)",
        ],
        "dies": [RIGHT, STUB, "import os; os._exit(1)"],
        "other": ["print('nothing of ours')"],
    }
    for name, sources in answers.items():
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        notebook = nbformat.v4.new_notebook(cells=cells)
        (folder / name).mkdir()
        nbformat.write(notebook, folder / name / "02.ipynb")
    (folder / "broken").mkdir()
    (folder / "broken" / "02.ipynb").write_text("{", encoding="utf-8")
    (folder / "dies" / ".ipynb_checkpoints").mkdir()
    (folder / "dies" / ".ipynb_checkpoints" / "02.ipynb").write_text("{")
    command = [sys.executable, "-m", "classroom.checks", str(folder), "--csv"]
    limits = ["--seconds", "5", "--megabytes", "2000"]
    done = subprocess.run([*command, *limits], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = csv.DictReader(io.StringIO(done.stdout))
    found = {row.pop("notebook").split("/")[-2]: row for row in rows}
    assert set(found) == {*answers, "broken"}
    return found


@pytest.mark.parametrize(
    "name, layer_norm, rms_norm",
    [
        ("right-and-wrong", "passed", "keepdim-missing"),
        ("deleted", "passed", "missing"),
        ("troubled", "passed", "not attempted"),
    ],
)
def test_a_notebook_that_runs_gets_its_answers(
    table, name, layer_norm, rms_norm
):
    row = table[name]
    assert (row["layer_norm"], row["rms_norm"]) == (layer_norm, rms_norm)
    assert row["error"] == ""


@pytest.mark.parametrize(
    "name, word",
    [
        ("dies", "kernel died"),
        ("broken", "can't be read"),
        ("other", "none of the exercises"),
    ],
)
def test_a_notebook_that_cannot_be_checked_gets_a_row(table, name, word):
    assert word in table[name]["error"]
    assert table[name]["layer_norm"] == ""


@pytest.mark.skipif(platform.system() != "Linux", reason="limit on Linux")
def test_a_cell_beyond_its_time_or_memory_fails_alone(table):
    assert table["stopped"]["layer_norm"] == "passed"


def test_the_series_own_notebook_is_a_row_of_a_table(tmp_path, capsys):
    nbformat.write(read("02-layer-normalization"), tmp_path / "mine.ipynb")
    assert main([str(tmp_path / "mine.ipynb")]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["notebook", "layer_norm", "rms_norm"]
    assert row.split()[1:] == ["not", "attempted", "not", "attempted"]


def test_an_empty_folder_is_said(tmp_path, capsys):
    assert main([str(tmp_path)]) == 1
    assert "No notebooks" in capsys.readouterr().err
