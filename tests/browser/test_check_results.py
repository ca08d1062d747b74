"""What a check answers can be read in both themes."""

import nbformat
import pytest
from lab import THEMES, Notebook

RESULTS = """
from IPython.display import display
from classroom.checks.result import SIGNS, CheckResult

for status in SIGNS:
    display(CheckResult(status, "a-mistake", f"{status}, as a test."))
"""


@pytest.mark.parametrize("theme", THEMES)
def test_all_results_can_be_read(run, theme):
    notebook = run(RESULTS)
    notebook.set_theme(theme)
    outputs = notebook.page.locator(".jp-OutputArea-output")
    assert outputs.filter(has_text=", as a test.").count() == 3
    found = notebook.violations()
    assert not found, found


def test_a_hint_shows_when_it_is_asked_for_and_brings_the_next(run):
    notebook = run("from classroom import checks\nchecks.gelu(int)")
    panel = notebook.page.locator(".jp-OutputArea-output details")
    hints = [panel.nth(number).locator("> summary") for number in range(3)]
    for number, hint in enumerate(hints, start=1):
        seen = [hint.is_visible() for hint in hints]
        assert seen == [n < number for n in range(3)]
        assert hint.inner_text() == f"Hint {number} of 3"
        hint.press("Enter")  # by keyboard


def test_progress_links_to_an_exercise(room, lab):
    new = nbformat.v4
    progress = 'from classroom import checks\nchecks.progress("02")'
    far = new.new_markdown_cell("\n\n".join(["a long way"] * 200))
    answer = new.new_code_cell("class MyLayerNorm: ...")
    answer.id = "exercise-layer-norm"
    kernel = {"name": "python3", "display_name": "Python 3"}
    content = new.new_notebook(
        cells=[new.new_code_cell(progress), far, answer],
        metadata={"kernelspec": kernel},
    )
    nbformat.write(content, lab.root / "progress.ipynb")
    notebook = Notebook(room.new_page(), lab, "progress.ipynb")
    notebook.run_all()
    text = notebook.page.get_by_text("class MyLayerNorm")
    notebook.page.locator(".jp-OutputArea-output a").first.click()
    notebook.page.wait_for_function(
        "(e) => { const {top} = e.getBoundingClientRect();"
        "         return top > 0 && top < innerHeight; }",
        arg=text.element_handle(),
    )
    notebook.close()
