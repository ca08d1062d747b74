"""Every notebook as a web page, by nbconvert, on a page without scripts."""

import shutil
import subprocess
import sys

import pytest
from lab import HERE, NAMES, NOTEBOOKS, saved_pictures

# Of each answer: whether it is folded, and the text that is folded away.
FOLDED = """() => tests.all('details').map((answer) => [
  !answer.open, answer.textContent.trim().length
                - answer.querySelector('summary').textContent.length])"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Folder of all eight, beside the pictures that they refer to."""
    folder = tmp_path_factory.mktemp("html")
    shutil.copytree(NOTEBOOKS / "images", folder / "images")
    paths = [str(NOTEBOOKS / name) for name in NAMES]
    command = [sys.executable, "-m", "nbconvert", "--to", "html", *paths]
    done = subprocess.run(
        [*command, f"--output-dir={folder}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def reader(browser):
    """A page that runs no scripts and has no network."""
    with browser.new_context(java_script_enabled=False, offline=True) as room:
        yield room.new_page()


@pytest.mark.parametrize("name", NAMES)
def test_all_pictures_show_and_answers_are_folded(reader, pages, name):
    reader.goto((pages / name).with_suffix(".html").as_uri())
    reader.evaluate((HERE / "page.js").read_text(encoding="utf-8"))
    shown = reader.evaluate("tests.pictures('img')")
    assert len(shown) == saved_pictures(name, folded=True)
    assert all(seen for _, seen in shown), shown
    answers = reader.evaluate(FOLDED)
    assert answers
    assert all(folded and text > 20 for folded, text in answers), answers
