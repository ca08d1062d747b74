"""Which cells are on a slide, and what nbconvert makes of them there."""

import re
import subprocess
import sys

import matplotlib
import nbformat
import pytest
from nbformat.v4 import (
    new_code_cell,
    new_markdown_cell,
    new_notebook,
    new_output,
)
from test_notebook_format import NAMES, ROOT, read

from classroom.picture import Picture
from classroom.slides import Embed, Prepare, formula_image

# As nbconvert says where a notebook's pictures are.
RESOURCES = {"metadata": {"path": str(ROOT / "notebooks")}}
TYPES = {"slide", "subslide", "fragment", "skip", "notes", ""}


@pytest.fixture(params=NAMES)
def cells(request):
    return read(request.param).cells


def kind(cell, missing=""):
    return cell.metadata.get("slideshow", {}).get("slide_type", missing)


def test_every_cell_says_where_it_goes(cells):
    for cell in cells:
        assert kind(cell, "none") in TYPES, (
            f"cell {cell.id} has slide type {kind(cell, 'none')}: choose one "
            f"of {TYPES} in JupyterLab's Property Inspector, or write it into "
            'the cell\'s metadata: {"slideshow": {"slide_type": ""}}'
        )
    assert kind(cells[0]) == kind(cells[-1]) == "slide"


def test_setup_checks_and_solutions_are_on_no_slide(cells):
    for before, cell in zip(cells, cells[1:], strict=False):
        if cell.id == "setup" or "check" in cell.metadata.get("tags", []):
            assert kind(before) == kind(cell) == "skip", cell.id
        if cell.id.startswith("solution-"):
            assert kind(cell) == "skip", cell.id


def test_all_other_code_is_on_a_slide(cells):
    for cell in cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "code" and cell.id not in ("setup", "progress"):
            assert "check" in tags or kind(cell) in ("", "subslide"), cell.id


def test_a_section_begins_a_slide(cells):
    for cell in cells:
        section = re.search(r"^##? ", cell.source, flags=re.M)
        if cell.cell_type == "markdown" and section and kind(cell) != "skip":
            assert kind(cell) == "slide" or cell.id == "goals", cell.id


def prepared(*cells):
    """Sources of the cells that become of `cells`, each with its type."""
    notebook, _ = Prepare().preprocess(
        new_notebook(cells=list(cells)), RESOURCES
    )
    Embed().preprocess(notebook, RESOURCES)
    return [
        (cell.source, cell.metadata.get("slideshow", {}).get("slide_type"))
        for cell in notebook.cells
    ]


def test_a_picture_keeps_its_heading_and_its_words_are_for_the_speaker():
    text = "## Fit\n\n![a map\nof all](a.svg)\n\nWords.\n\n![b](b.svg)"
    assert prepared(new_markdown_cell(text)) == [
        ("## Fit\n\n![a map\nof all](a.svg)", None),
        ("Words.", "notes"),
        ("![b](b.svg)", "subslide"),
    ]


def test_of_many_words_the_list_stays():
    words = "word " * 90
    text = f"## Idea\n\n{words}\n\n- one\n- two"
    assert prepared(new_markdown_cell(text)) == [
        ("## Idea\n\n- one\n- two", None),
        (words, "notes"),
    ]
    few = "## Idea\n\nA word.\n\n- one"
    assert prepared(new_markdown_cell(few)) == [(few, None)]
    no_list = f"## Idea\n\n{words}"
    assert prepared(new_markdown_cell(no_list)) == [(no_list, None)]


def test_an_answer_before_a_heading_is_for_the_speaker():
    assert prepared(new_markdown_cell("So it is.\n\n## Next\n\nOn.")) == [
        ("So it is.", "notes"),
        ("## Next\n\nOn.", None),
    ]


@pytest.mark.parametrize("lines, shown", [(3, True), (4, False)])
def test_long_code_makes_way_for_its_picture(lines, shown):
    picture = new_output("display_data", data={"image/png": "AA=="})
    cell = new_code_cell("\n".join("x" * lines), outputs=[picture])
    Prepare().preprocess(new_notebook(cells=[cell]), RESOURCES)
    removed = cell.metadata.get("transient", {}).get("remove_source", False)
    assert removed != shown


def test_a_cell_without_room_begins_a_slide():
    words, code = new_markdown_cell("Words."), new_code_cell("x\n" * 20)
    more = new_code_cell("y", outputs=[new_output("stream", text="z\n" * 9)])
    kinds = [kind for _, kind in prepared(words, code, more)]
    assert kinds == [None, None, "subslide"]


@pytest.mark.parametrize("inches, kind", [(4, None), (7, "subslide")])
def test_a_tall_picture_begins_a_slide_to_be_read_on(inches, kind):
    code = new_code_cell("x\n" * 9)
    data, metadata = Picture(8, inches, "")._repr_mimebundle_()
    output = new_output("display_data", data=data, metadata=metadata)
    drawn = new_code_cell("y", outputs=[output])
    kinds = [kind for _, kind in prepared(code, drawn)]
    assert kinds == [None, kind]


def test_formulas_become_pictures_and_code_stays():
    source = "With $x_1$ and `$HOME`:\n\n$$\\frac{a}{b}$$"
    ((text, _),) = prepared(new_markdown_cell(source))
    assert re.findall(r'class="([a-z ]+)" alt="([^"]+)"', text) == [
        ("formula", "x_1"),
        ("formula display", r"\dfrac{a}{b}"),
    ]
    assert "`$HOME`" in text and "$x" not in text
    assert text.count('src="data:image/svg+xml;base64,') == 2


def test_a_formula_stands_on_its_line():
    """A letter that hangs below the line hangs by as much as it is deep."""
    hang = {
        letter: float(
            re.search(r"vertical-align: (-[\d.]+)em", formula_image(letter))[1]
        )
        for letter in "xp"
    }
    assert hang["x"] > -0.05 > -0.15 > hang["p"] > -0.35


def test_a_formula_is_drawn_in_the_series_style():
    theirs = {"text.usetex": True, "text.color": "white"}
    with matplotlib.rc_context(theirs):
        drawn = formula_image("x_1")
    assert drawn == formula_image("x_1")


def test_slides_of_other_notebooks_stay_nbconverts_own(tmp_path):
    path = tmp_path / "other.ipynb"
    nbformat.write(new_notebook(cells=[new_markdown_cell("$x$")]), path)
    made = {}
    for exporter in ("slides", "gpt-slides"):
        command = [sys.executable, "-m", "nbconvert", "--to", exporter, path]
        subprocess.run(command, check=True, capture_output=True)
        made[exporter] = (tmp_path / "other.slides.html").read_text("utf-8")
    assert 'class="formula' in made["gpt-slides"]
    assert 'class="formula' not in made["slides"]
    assert 'src="https://' in made["slides"]
    assert 'src="https://' not in made["gpt-slides"]
