"""What every notebook looks like: layout, prose, saved outputs."""

import re
import statistics
from pathlib import Path

import nbformat
import pytest
from save import minutes, words

from classroom.checks.catalogue import EXERCISES
from classroom.slides import QUESTION

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def read(name):
    return nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)


@pytest.fixture(params=NAMES)
def notebook(request):
    return read(request.param)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(cell):
    """Words of a markdown cell without headings, pictures and markup."""
    text = re.sub(
        r"^#.*$|!\[.*?\]\(.*?\)|<[^>]*>", "", cell.source, flags=re.M
    )
    return re.findall(r"\w[\w'’.,-]*", text)


def test_the_catalogue_lists_them():
    assert list(EXERCISES) == NAMES, (
        "classroom/checks/catalogue.py must list the notebooks of notebooks/ "
        "under their names. A renamed one is named in README.md, "
        "tests/cell_ids.txt and other notebooks, too: search for its old name."
    )


def test_file_is_valid_and_portable(notebook):
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    assert "widgets" not in notebook.metadata


def test_every_code_cell_was_run_once_in_order(notebook):
    counts = [cell.execution_count for cell in code_cells(notebook)]
    in_order = list(range(1, len(counts) + 1))
    assert counts == in_order, "save it again: README, For maintainers"


def test_no_error_and_no_stderr_is_saved(notebook):
    for cell in code_cells(notebook):
        for output in cell.outputs:
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", cell.source


def test_outputs_hold_nothing_of_one_machine(notebook):
    for cell in code_cells(notebook):
        for output in cell.outputs:
            texts = [output.get("text", "")]
            texts += [
                data
                for kind, data in output.get("data", {}).items()
                if kind.startswith("text/")
            ]
            for text in texts:
                found = re.search(
                    r"0x[0-9a-f]{6,}|/(?:home|root|tmp|Users)/|"
                    r"site-packages|[A-Z]:\\",
                    text,
                )
                assert not found, (cell.id, found)


def test_a_picture_has_words_that_nbval_compares(notebook):
    for cell in code_cells(notebook):
        if any("image/png" in o.get("data", {}) for o in cell.outputs):
            texts = [o.get("text", "") for o in cell.outputs] + [
                o.get("data", {}).get("text/plain", "") for o in cell.outputs
            ]
            assert any(t and not t.startswith("<") for t in texts), cell.id


def test_an_explanation_stands_before_every_code_cell(notebook):
    for before, cell in zip(
        [None, *notebook.cells], notebook.cells, strict=False
    ):
        if cell.cell_type == "code":
            assert before is not None and before.cell_type == "markdown", (
                f"no text before cell {cell.id}"
            )
            assert 20 <= len(prose(before)) <= 60, (
                f"{len(prose(before))} words before cell {cell.id}"
            )


def test_code_cells_are_short_and_narrow(notebook):
    lines = [cell.source.splitlines() for cell in code_cells(notebook)]
    assert statistics.median(map(len, lines)) <= 6
    assert max(map(len, lines)) <= 25
    wide = [line for cell in lines for line in cell if len(line) > 79]
    assert not wide


def test_headings_have_one_top_and_skip_no_level(notebook):
    levels = [
        len(found.group())
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for found in re.finditer(
            r"^#+(?= )", _without_code(cell.source), flags=re.M
        )
    ]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b <= a + 1 for a, b in zip(levels, levels[1:], strict=False))


def test_every_image_exists_and_has_alt_text(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for alt, path in re.findall(
                r"!\[(.*?)\]\((.*?)\)", cell.source, flags=re.S
            ):
                assert len(alt.split()) >= 5, (cell.id, alt)
                assert (ROOT / "notebooks" / path).is_file(), path
            assert "<img" not in cell.source


def check_ids(name, notebook):
    """Cell ids are as listed: links and exercises refer to them."""
    text = (ROOT / "tests" / "cell_ids.txt").read_text(encoding="utf-8")
    part = re.search(rf"^{name}\n((?:  .+\n)*)", text, flags=re.M)
    listed, found = part and part[1].split(), [c.id for c in notebook.cells]
    assert part, f"tests/cell_ids.txt has no part that is called {name}"
    differ = [f"- {id}" for id in listed if id not in found]
    differ += [f"+ {id}" for id in found if id not in listed]
    assert found == listed, (
        f"cells of {name} are not as in tests/cell_ids.txt: "
        f"{', '.join(differ) or 'another order'}. If you meant it, change "
        "that list, and what refers to these cells."
    )


@pytest.mark.parametrize("name", NAMES)
def test_cell_ids_are_as_listed(name):
    check_ids(name, read(name))


def test_what_answers_a_question_is_hidden_until_it_is_run(notebook):
    """So says its metadata, which `tests/save.py` sets."""
    asked = False
    for cell in notebook.cells:
        hidden = cell.metadata.get("jupyter", {}).get("outputs_hidden", False)
        assert hidden == bool(asked and cell.get("outputs")), cell.id
        asked = bool(QUESTION.search(cell.source))


def test_minutes_are_what_the_formula_gives(notebook):
    goals = next(cell.source for cell in notebook.cells if cell.id == "goals")
    told = f"**Time:** about {minutes(notebook)} minutes."
    assert told in goals, "save it again: README, For maintainers"


def test_it_is_short(notebook):
    texts, code = words(notebook), len(code_cells(notebook))
    assert texts <= 3600, f"{texts} words in text cells: say it in 3,600"
    assert code <= 42, f"{code} code cells: show it in 42"


def test_cell_ids_are_readable(notebook):
    for cell in notebook.cells:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", cell.id)


def _without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
