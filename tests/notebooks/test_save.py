"""What `tests/save.py` keeps of a notebook, and what it writes anew."""

import base64
import copy
import io

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
from save import hide_answer, minutes, tidy, words
from test_notebook_format import ROOT

new = nbformat.v4
WIDGET = "application/vnd.jupyter.widget-view+json"


def png(pixels):
    file = io.BytesIO()
    plt.imsave(file, pixels)
    return base64.b64encode(file.getvalue()).decode("ascii")


@pytest.fixture
def pixels():
    pixels = np.ones((100, 100, 3))
    pixels[40:60, 40:60] = 0
    return pixels


def notebook(*outputs, tags=(), text="Text."):
    cell = new.new_code_cell(
        "1", id="code", outputs=list(outputs), metadata={"tags": list(tags)}
    )
    before = new.new_markdown_cell(text, id="text")
    return new.new_notebook(cells=[before, cell])


def picture(data, text="a picture", **more):
    bundle = {"image/png": data, "text/plain": text, **more}
    return new.new_output("display_data", data=bundle)


def saved(run, before):
    """The outputs that are saved of a run, after those of `before`."""
    tidy(run, before)
    return run.cells[1].outputs


def test_a_picture_that_differs_by_rounding_is_kept(pixels):
    before = notebook(picture(png(pixels)))
    pixels[0, 0] = 0
    (output,) = saved(notebook(picture(png(pixels))), before)
    assert output == before.cells[1].outputs[0]


def test_a_line_that_moves_by_less_than_a_pixel_is_kept(pixels):
    before = notebook(picture(png(pixels)))
    pixels[40:60, 39], pixels[40:60, 59] = 0.6, 0.4
    (output,) = saved(notebook(picture(png(pixels))), before)
    assert output == before.cells[1].outputs[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda p: np.roll(p, 2, axis=0),  # something moved
        lambda p: p[:99],  # another size
        lambda p: 1 - p,  # other colours
    ],
)
def test_another_picture_is_saved(pixels, change):
    drawn = png(change(pixels))
    before = notebook(picture(png(pixels)))
    (output,) = saved(notebook(picture(drawn)), before)
    assert output.data["image/png"] == drawn


def printed(text):
    return new.new_output("stream", name="stdout", text=text)


@pytest.mark.parametrize("tag", ["times", "nbval-ignore-output"])
def test_other_times_are_kept_and_other_words_are_not(tag):
    before = notebook(printed("loop: 1.25 s"), tags=[tag])
    run = notebook(printed("loop: 12.5 s"), tags=[tag])
    assert saved(run, before)[0].text == "loop: 1.25 s"
    run = notebook(printed("cache: 12.5 s"), tags=[tag])
    assert saved(run, before)[0].text == "cache: 12.5 s"


def test_another_number_is_saved_where_no_time_is_printed():
    before = notebook(printed("mean: 1.25"))
    assert saved(notebook(printed("mean: 1.26")), before)[0].text.endswith("6")


def test_an_explorers_new_picture_is_saved_and_its_widget_is_not(pixels):
    tags = ["nbval-ignore-output"]
    before = notebook(picture(png(pixels), "at 1"), tags=tags)
    drawn = png(1 - pixels)
    run = notebook(
        picture(drawn, "at 2", **{WIDGET: {"model_id": "1"}}), tags=tags
    )
    (output,) = saved(run, before)
    assert output.data == {"image/png": drawn, "text/plain": "at 2"}


def test_a_new_cell_is_saved():
    before = notebook()
    before.cells.pop()
    assert saved(notebook(printed("new")), before)[0].text == "new"


def test_what_answers_a_question_is_folded():
    asked = notebook(printed("3"), text="**Before you run it:** how many?")
    tidy(asked, copy.deepcopy(asked))
    assert asked.cells[1].metadata["jupyter"] == {"outputs_hidden": True}
    hide_answer(asked.cells[1], asked=False)
    assert "jupyter" not in asked.cells[1].metadata


def test_minutes_are_written_where_they_are_said():
    told = "**Time:** about 99 minutes. **You need:** Python."
    goals = new.new_markdown_cell(told, id="goals")
    text = new.new_markdown_cell("word " * 1991)
    code = [new.new_code_cell("1") for _ in range(19)]
    check = new.new_code_cell("1", id="check-it")
    book = new.new_notebook(cells=[goals, text, *code, check])
    assert words(book) == 1998
    assert minutes(book) == 30  # 10 and 10, and 10 for one exercise
    tidy(book, copy.deepcopy(book))
    assert "about 30 minutes" in book.cells[0].source


def test_the_formula_is_what_instructors_read():
    text = (ROOT / "INSTRUCTORS.md").read_text(encoding="utf-8")
    said = "one for each 200 words, one for two cells, ten for an exercise"
    assert said in " ".join(text.split())
