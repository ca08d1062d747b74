import contextlib
import os
import statistics

import nbformat
import pytest

pytest.register_assert_rewrite("lab")

from lab import FLAGS, WITHOUT_CHROMIUM, Lab, Notebook, find_chromium  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402


@pytest.fixture(scope="module")
def browser():
    # A module's, not the session's: while playwright runs, so does its event
    # loop, which the tests of other folders must not meet.
    refuse = pytest.fail if os.environ.get("CI") else pytest.skip
    with contextlib.ExitStack() as stack:
        try:
            playwright = stack.enter_context(sync_playwright())
        except Exception as error:  # its Node.js misses a library, say
            refuse(f"playwright does not start: {error}")
        path = find_chromium(playwright)
        if path is None:
            refuse(WITHOUT_CHROMIUM)
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.stop()


@pytest.fixture(scope="module")
def lab(browser, server):
    """The server, which without a browser is not even started."""
    return server


@pytest.fixture(scope="module")
def room(browser):
    """What the pages of a module share, such as what is cached."""
    with browser.new_context(viewport={"width": 1400, "height": 1000}) as room:
        yield room


@pytest.fixture(scope="module")
def scratch(room, lab):
    """A notebook of one cell."""
    kernel = {"name": "python3", "display_name": "Python 3"}
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell()], metadata={"kernelspec": kernel}
    )
    nbformat.write(notebook, lab.root / "scratch.ipynb")
    notebook = Notebook(room.new_page(), lab, "scratch.ipynb")
    yield notebook
    notebook.close()


@pytest.fixture
def run(scratch):
    """Run code in a notebook of one cell."""

    def run(code):
        scratch.hidden.clear()
        scratch.page.evaluate("(code) => tests.write(code)", code)
        scratch.run_all()
        return scratch

    return run


@pytest.fixture
def speed(record_property):
    """Report milliseconds from key press to picture after all tests."""

    def report(name, times):
        least, middle, most = min(times), statistics.median(times), max(times)
        line = (
            f"{least:5.0f} {middle:5.0f} {most:5.0f} ms  {name}, "
            f"{len(times)} presses"
        )
        record_property("key press", line)

    return report
