"""What INSTRUCTORS.md names is there, and is what it says."""

import json
import re

import pytest
import torch
from test_notebook_format import NAMES, ROOT, code_cells, read

import gptlib
from classroom import checks
from classroom.checks.catalogue import EXERCISES

TEXT = (ROOT / "INSTRUCTORS.md").read_text(encoding="utf-8")
# The part on each notebook, by its number.
PARTS = dict(re.findall(r"^## (\d\d) · (.*?)(?=^## )", TEXT, re.M | re.S))
ASKS = re.compile(r"\*\*(Before you run it|Predict)")


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def test_each_notebook_has_its_part():
    assert sorted(PARTS) == [name[:2] for name in NAMES]


def test_minutes_outcome_and_exercises_are_the_notebooks(name):
    goals = next(c.source for c in read(name).cells if c.id == "goals")
    minutes = re.search(r"\*\*Time:\*\* (?:about )?([\d–]+)", goals)[1]
    outcome, exercises = name[3:], len(EXERCISES[name])
    row = f"| {name[:2]} | `{outcome}` | {minutes} | {exercises} |"
    assert row in TEXT


def test_each_question_is_asked_in_the_notebook(name):
    notebook = read(name)
    order = [cell.id for cell in code_cells(notebook)]
    pairs = zip(notebook.cells, notebook.cells[1:], strict=False)
    asked = [
        cell.id
        for before, cell in pairs
        if cell.cell_type == "code" and ASKS.search(before.source)
    ]
    named = re.findall(r"^- `([a-z0-9-]+)`: ", PARTS[name[:2]], flags=re.M)
    assert 5 <= len(named) <= 8
    assert [n for n in named if n not in asked] == []
    assert named == sorted(named, key=order.index)


def test_other_names_are_cells_exercises_or_code(name):
    """In "Expect" and "Set": a cell's id, or an exercise, each set once."""
    said = PARTS[name[:2]]
    words = re.findall(r"`([a-z0-9_-]+)`", said[said.index("**Expect**") :])
    ids = {cell.id for cell in read(name).cells}
    for word in words:
        if "-" in word:
            assert word in ids, word
    for exercise in EXERCISES[name]:
        assert words.count(exercise) == 1, exercise
    others = {e for n in NAMES for e in EXERCISES[n]} - set(EXERCISES[name])
    assert not others & set(words)


def test_nbgrader_metadata_and_test_are_right():
    blocks = re.findall(r"```json\n(.*?)```", TEXT, flags=re.S)
    answer, test = (json.loads(block)["nbgrader"] for block in blocks)
    assert answer["solution"] and not answer["grade"]
    assert test["grade"] and test["locked"] and test["points"] == 1
    assert answer["grade_id"] != test["grade_id"]
    line = re.search(r"^assert (checks\..*)$", TEXT, flags=re.M)[0]

    class Right(torch.nn.LayerNorm):
        def forward(self, x):
            c = x - x.mean(dim=-1, keepdim=True)
            root = (c.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
            return self.weight * c / root + self.bias

    exec(line, {"checks": checks, "MyLayerNorm": Right})


def test_a_named_mistake_is_one_that_the_checks_name():
    class Biased(gptlib.LayerNorm):
        def forward(self, x):
            centered = x - x.mean(dim=-1, keepdim=True)
            variance = x.var(dim=-1, keepdim=True)  # divided by n - 1
            normalized = centered / torch.sqrt(variance + self.eps)
            return self.scale * normalized + self.shift

    assert f"`{checks.layer_norm(Biased).mistake}`" in TEXT


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)]+)\)", TEXT))
def test_every_link_leads_somewhere(link):
    assert link.startswith("https://") or (ROOT / link).exists()
