"""What INSTRUCTORS.md names is there, and is what it says."""

import re

import pytest
import torch
from common import sections
from save import minutes
from test_notebook_format import NAMES, ROOT, code_cells, read

import gptlib
from classroom import checks, nbgrader
from classroom.checks.__main__ import _parser
from classroom.checks.catalogue import EXERCISES
from classroom.slides import QUESTION

TEXT = (ROOT / "INSTRUCTORS.md").read_text(encoding="utf-8")
# The part on each notebook, by its number.
PARTS = dict(re.findall(r"^## (\d\d) · (.*?)(?=^## )", TEXT, re.M | re.S))


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def test_each_notebook_has_its_part():
    assert sorted(PARTS) == [name[:2] for name in NAMES]


def test_minutes_outcome_and_exercises_are_the_notebooks(name):
    time, outcome = minutes(read(name)), name[3:]
    exercises = len(EXERCISES[name])
    row = f"| {name[:2]} | `{outcome}` | {time} | {exercises} |"
    assert row in TEXT
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    row = rf"^\| {name[:2]} \| .*/{name}\.ipynb\).* \| {time} \|$"
    assert re.search(row, readme, flags=re.MULTILINE)


def test_both_plans_hold_each_notebook_once_and_add_up():
    table = TEXT[TEXT.index("### Two plans") : TEXT.index("\n## Plan")]
    row = r"^\| (\d\d) \| \w+: (\d+) \| \w+: (\d+) \|"
    rows = re.findall(row, table, flags=re.MULTILINE)
    assert [number for number, *_ in rows] == sorted(PARTS)
    short, long = (sum(int(row[n]) for row in rows) for n in (1, 2))
    assert f"| in all | {short} | {long} |" in table
    assert short <= 2 * 90 and long <= 4 * 90


def test_each_question_is_asked_in_the_notebook(name):
    notebook = read(name)
    order = [cell.id for cell in code_cells(notebook)]
    pairs = zip(notebook.cells, notebook.cells[1:], strict=False)
    asked = [
        cell.id
        for before, cell in pairs
        if cell.cell_type == "code" and QUESTION.search(before.source)
    ]
    line = r"^- `([a-z0-9-]+)` \[(\d+)\]: "
    found = re.findall(line, PARTS[name[:2]], flags=re.M)
    named = [name for name, _ in found]
    assert 5 <= len(named) <= 8
    lost = [n for n in named if n not in asked]
    assert not lost, (
        f"INSTRUCTORS.md asks about {lost}, which no cell of {name} after a "
        f"question is called; there are {asked}"
    )
    assert named == sorted(named, key=order.index), "not in the cells' order"
    numbers = [(n, str(order.index(n) + 1)) for n in named]
    assert found == numbers, "tests/save.py sets these numbers"


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
    others = {e for n in EXERCISES if n != name for e in EXERCISES[n]}
    assert not others & set(words)


def test_the_commands_for_marks_name_a_notebook_and_the_pinned_nbgrader():
    commands = re.findall(r"^nbgrader (\w+) ?(.*)$", TEXT, flags=re.M)
    assert [name for name, _ in commands] == [
        "generate_assignment",
        "autograde",
        "generate_feedback",
        "export",
    ]
    assert {argument for _, argument in commands} <= {*NAMES, ""}
    pins = (ROOT / "tests/nbgrader/requirements.txt").read_text("utf-8")
    assert re.search(r"^nbgrader==.*$", pins, flags=re.M)[0] in TEXT


def test_limits_are_those_of_the_commands():
    seconds = _parser().parse_args([])
    assert f"`--seconds` ({seconds.seconds})" in TEXT
    assert f"`--notebook-seconds` ({seconds.notebook_seconds})" in TEXT
    cell = re.search(r"timeout = (\d+)", nbgrader.CONFIG)[1]
    megabytes = re.search(r"(\d+) \* 1024\*\*2", nbgrader.CONFIG)[1]
    assert f"time to {cell} seconds, and the memory to {megabytes} MB" in (
        TEXT.replace("\n", " ")
    )


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
    if link.startswith("https://"):
        return
    page, _, section = link.partition("#")
    page = ROOT / (page or "INSTRUCTORS.md")
    assert page.exists()
    if section:
        assert section in sections(page.read_text(encoding="utf-8"))
