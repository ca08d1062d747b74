"""What is broken on purpose must be seen by the checks of this folder."""

import pytest
from playwright.sync_api import TimeoutError

EXPLORER = """
from classroom import explore

def broken(*arguments, **values):
    raise RuntimeError("broken on purpose")

explorer = explore.explore_gelu()
draw, first = explorer._draw, explorer._values()
{}
explorer
"""
# What happens in a callback → what the checks then say.
CALLBACKS = {
    "explorer._draw = broken": "RuntimeError.*broken on purpose",
    "explorer._controls['reach'].observe(broken, 'value')": "on purpose",
    "explorer._draw = lambda **values: draw(**first)": "nothing changed",
    "import sys\n"
    "explorer._draw = lambda **values: "
    "sys.stderr.write('broken on purpose') and draw(**values)": "on purpose",
}
CELLS = [
    "1 / 0",
    "import warnings\nwarnings.warn('on purpose')",
    EXPLORER.format("explorer.words._view_module = 'nowhere'"),
]
HTML = "from IPython.display import HTML\nHTML('{}')"
PAGES = {
    '<p style="color: #999; background: #fff">pale</p>': "color-contrast",
    "<input>": "label",
}


@pytest.mark.parametrize("code", CALLBACKS)
def test_a_broken_callback_is_seen(run, code):
    notebook = run(EXPLORER.format(code))
    notebook.check()  # nothing has been moved yet
    explorer = notebook.explorer()
    slider = explorer.sliders()[0]
    with pytest.raises(AssertionError, match=CALLBACKS[code]):
        before = explorer.shown()
        after = explorer.press(slider, "ArrowRight")
        assert after != before, "nothing changed"
        notebook.check()


@pytest.mark.parametrize("code", CELLS)
def test_a_broken_cell_is_seen(run, code):
    notebook = run(code)
    with pytest.raises((AssertionError, TimeoutError)):
        notebook.check(seconds=2)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_few_can_read_is_seen(run, page):
    found = run(HTML.format(page)).violations()
    assert [violation["rule"] for violation in found] == [PAGES[page]]
