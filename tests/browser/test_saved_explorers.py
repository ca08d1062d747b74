"""An explorer outlives its kernel: whatever was saved shows its picture."""

import json
import shutil

import nbformat
import pytest
from lab import Notebook

CODE = "from classroom import explore\nexplore.explore_gelu()"


@pytest.fixture
def notebook(room, lab):
    """A notebook with an explorer, which was run."""
    kernel = {"name": "python3", "display_name": "Python 3"}
    content = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(CODE)],
        metadata={"kernelspec": kernel},
    )
    nbformat.write(content, lab.root / "explorer.ipynb")
    notebook = Notebook(room.new_page(), lab, "explorer.ipynb")
    notebook.run_all()
    notebook.explorer().shown()
    yield notebook
    notebook.close()


def save(notebook):
    notebook.command("docmanager:save")


def open_again(notebook):
    notebook.end_kernel()
    notebook.hidden.clear()  # a kernel that ends while it starts warns
    notebook.open()


def assert_it_shows_its_picture(notebook):
    notebook.check()
    seen = notebook.page.evaluate(
        "tests.pictures('.jp-OutputArea-output img')"
    )
    assert [visible for _, visible in seen] == [True]


def test_run_save_open(notebook):
    save(notebook)
    open_again(notebook)
    assert_it_shows_its_picture(notebook)


def test_opened_without_a_run_and_saved_again(notebook):
    """As JupyterLab does by itself after two minutes."""
    save(notebook)
    for _ in range(2):
        open_again(notebook)
        notebook.page.evaluate("tests.context().model.dirty = true")
        save(notebook)
    open_again(notebook)
    assert_it_shows_its_picture(notebook)


def test_restart_save_open(notebook):
    notebook.page.evaluate("tests.context().sessionContext.restartKernel()")
    save(notebook)
    open_again(notebook)
    assert_it_shows_its_picture(notebook)


def test_moved_saved_and_run_again(notebook):
    """It is still an explorer where a kernel runs it."""
    slider = notebook.explorer().sliders()[0]
    before = notebook.explorer().press(slider, "ArrowRight")
    save(notebook)
    assert notebook.explorer().press(slider, "ArrowRight") != before
    open_again(notebook)
    notebook.run_all()
    slider = notebook.explorer().sliders()[0]
    before = notebook.explorer().shown()
    assert notebook.explorer().press(slider, "ArrowRight") != before
    notebook.check()


def test_a_copy_and_one_of_somebody_else(notebook, room, lab):
    """The copy is trusted as the notebook is; the other, changed outside of
    JupyterLab, is not."""
    save(notebook)
    shutil.copy(lab.root / "explorer.ipynb", lab.root / "copy.ipynb")
    content = json.loads((lab.root / "copy.ipynb").read_text("utf-8"))
    content["cells"][0]["source"] = "# changed outside\n" + CODE
    (lab.root / "other.ipynb").write_text(json.dumps(content), "utf-8")
    for name in ("copy.ipynb", "other.ipynb"):
        other = Notebook(room.new_page(), lab, name)
        assert_it_shows_its_picture(other)
        other.close()


def test_after_a_restart_it_says_what_to_do(notebook):
    told = (
        "() => getComputedStyle(document.querySelector('.gpt-words'),"
        " '::before').content"
    )
    assert notebook.page.evaluate(told) == "none"
    notebook.page.evaluate("tests.context().sessionContext.restartKernel()")
    notebook.page.wait_for_function(f"({told})() !== 'none'")
    assert "run this cell again" in notebook.page.evaluate(told)
    notebook.run_all()
    notebook.explorer().shown()
    assert notebook.page.evaluate(told) == "none"
