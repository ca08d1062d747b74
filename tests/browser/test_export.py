"""Every notebook as a page of its own: on a screen, and on paper.

In a folder without the pictures, in a browser without scripts or a network.
"""

import re
import subprocess
import sys
import tomllib

import pytest
from lab import HERE, NAMES, NOTEBOOKS, saved_pictures

PROJECT = NOTEBOOKS.parent / "pyproject.toml"
# Of each answer: whether it is folded, and the text that is folded away.
FOLDED = """() => tests.all('details').map((answer) => [
  !answer.open, answer.textContent.trim().length
                - answer.querySelector('summary').textContent.length])"""


# Code, outputs and pictures of which a part can't be seen.
CUT = """() => tests.all('pre, img, table').filter((e) =>
  e.scrollWidth > e.clientWidth + 1 ||
  e.getBoundingClientRect().right > innerWidth).map((e) => e.textContent)"""
PAPER = {"width": 698, "height": 1027}  # pixels: A4 without its margins
FETCHED = re.compile(r'<(?:script|link|img)[^>]*(?:src|href)="(?!data:)[^>]*>')


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Folder of all eight, made as INSTRUCTORS.md says."""
    folder = tmp_path_factory.mktemp("pages")
    paths = [str(NOTEBOOKS / name) for name in NAMES]
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    exporters = project["entry-points"]["nbconvert.exporters"]
    exporter = exporters["gpt-page"].replace(":", ".")
    command = [sys.executable, "-m", "nbconvert", "--to", exporter, *paths]
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
def test_all_is_there_and_answers_are_folded(reader, pages, name):
    path = (pages / name).with_suffix(".html")
    assert FETCHED.findall(path.read_text("utf-8")) == []
    reader.goto(path.as_uri())
    reader.evaluate((HERE / "page.js").read_text(encoding="utf-8"))
    shown = reader.evaluate("tests.pictures('img:not(.formula)')")
    assert len(shown) == saved_pictures(name, folded=True)
    assert all(seen for _, seen in shown), shown
    assert reader.evaluate("tests.all('img').every((image) => image.alt)")
    assert reader.evaluate("tests.all('img.formula').length") > 0
    text = reader.evaluate("document.body.innerText")
    assert not re.search(r"\\frac|\\text|\\mu", text)
    answers = reader.evaluate(FOLDED)
    assert answers
    assert all(folded and text > 20 for folded, text in answers), answers
    reader.set_viewport_size(PAPER)
    reader.emulate_media(media="print")
    assert reader.evaluate(CUT) == []
    reader.emulate_media(media="screen")
