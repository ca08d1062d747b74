"""What is typed reaches an explorer, in time, and nothing else."""

import pytest

LETTERS = "a b c d e f g h i j k l m n o"  # 15 tokens
COUNT = """(box) => {
  tests.drawn = 0;
  box.querySelector('img.widget-image')
    .addEventListener('load', () => { tests.drawn += 1; }); }"""


@pytest.fixture
def explorer(run):
    explorer = run(
        "from classroom import explore\nexplore.explore_attention()"
    ).explorer()
    explorer.shown()
    return explorer


def test_fast_typing_draws_the_last_text_and_few_before(explorer):
    field = explorer.box.locator("input[type=text]")
    field.focus()
    explorer.page.keyboard.press("ControlOrMeta+a")
    explorer.box.evaluate(COUNT)
    explorer.page.keyboard.type(LETTERS)
    assert "15 tokens; the last, '␣o'" in explorer.shown()["words"]
    assert 1 <= explorer.page.evaluate("tests.drawn") < len(LETTERS) / 2


def test_arrow_keys_move_the_slider_and_not_the_notebook(explorer):
    slider = explorer.sliders()[0]
    slider.click()
    for key in ("ArrowRight", "ArrowUp", "ArrowDown", "ArrowLeft"):
        before = slider.get_attribute("aria-valuenow")
        explorer.press(slider, key)
        assert slider.get_attribute("aria-valuenow") != before
    assert slider.evaluate("(one) => one === document.activeElement")
    # Without this, Notebook 7 takes the keys to go from heading to heading.
    assert slider.get_attribute("data-lm-suppress-shortcuts") == "true"
