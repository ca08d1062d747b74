"""The widget that all explorers share: nothing stale, nothing hidden."""

import base64
import sys
import threading
import time
from pathlib import Path

import ipywidgets as widgets
import pytest
from jupyterlab_server.settings_utils import _get_overrides

from classroom import explore
from classroom.explore.explorer import (
    Explorer,
    _Number,
    choice,
    number,
    slider,
    steps,
    switch,
    text,
)
from classroom.picture import Picture

PNG = b"\x89PNG"


def draw(a, b=0):
    if a == 9:
        raise ValueError("a must not be 9 < 10.")
    if a == 8:
        raise RuntimeError("broken")
    if a == 7:
        raise KeyError("no 'x'")
    return Picture(1, 1, f"a is {a}, b is {b}")


@pytest.fixture
def explorer():
    controls = {
        "a": slider("a", 1, 0, 9),
        "Group": {"b": number("b", 2, 0, 9)},
    }
    return Explorer(draw, controls)


def classes(explorer):
    return explorer.picture._dom_classes


def test_it_starts_with_the_defaults(explorer):
    assert explorer.description == "a is 1, b is 2"
    assert "a is 1, b is 2" in explorer.words.value
    assert bytes(explorer.picture.value).startswith(PNG)


def test_a_change_is_drawn_and_said(explorer, control):
    control(explorer, "a").value = 3
    assert "a is 3, b is 2" in explorer.words.value
    control(explorer, "b").value = 5
    assert explorer.description == "a is 3, b is 5"


def test_the_last_of_many_fast_changes_stays(explorer, control):
    for value in (2, 9, 3, 8, 4):
        control(explorer, "a").value = value
    assert explorer.description == "a is 4, b is 2"
    assert "gpt-stale" not in classes(explorer)


def test_reset_draws_the_defaults_once(explorer, control):
    control(explorer, "a").value = 9
    control(explorer, "b").value = 7
    drawn = []
    original = explorer._draw
    explorer._draw = lambda **v: drawn.append(v) or original(**v)
    control(explorer, "Reset").click()
    assert drawn == [{"a": 1, "b": 2}]
    assert explorer.description == "a is 1, b is 2"
    assert "gpt-stale" not in classes(explorer)


@pytest.mark.parametrize(
    "value, kind, said",
    [
        (9, "gpt-impossible", "Not possible</b>a must not be 9 &lt; 10."),
        (8, "gpt-error", "RuntimeError</b>broken"),
        (7, "gpt-error", "KeyError</b>no &#x27;x&#x27;"),
    ],
)
def test_an_error_is_shown_and_the_old_picture_marked(
    explorer, control, value, kind, said
):
    control(explorer, "a").value = value
    assert f'class="{kind}"' in explorer.words.value
    assert said in explorer.words.value
    assert "still shows the last possible setting" in explorer.words.value
    assert "gpt-stale" in classes(explorer)
    assert bytes(explorer.picture.value).startswith(PNG)
    control(explorer, "a").value = 1
    assert "gpt-stale" not in classes(explorer)
    assert 'class="gpt-shown"' in explorer.words.value


def test_a_number_out_of_range_is_told_and_stays_as_it_was_typed(
    explorer, control
):
    for value in (-1, 10, 10**20):
        control(explorer, "b").value = value
        assert "gpt-impossible" in explorer.words.value
        assert explorer.description.startswith(
            f"The b must be from 0 to 9: {value} is not."
        )
        assert "gpt-stale" in classes(explorer)
    control(explorer, "b").value = 9
    assert explorer.description == "a is 1, b is 9"
    control(explorer, "b").value = 10
    control(explorer, "Reset").click()
    assert explorer.description == "a is 1, b is 2"


def test_an_error_in_the_first_picture_is_shown_without_one():
    explorer = Explorer(draw, {"a": slider("a", 8, 0, 9)})
    assert "broken" in explorer.words.value
    assert "last possible setting" not in explorer.words.value
    data = explorer._repr_mimebundle_()
    assert data["text/plain"] == "broken" and "image/png" not in data


def test_without_a_kernel_the_first_picture_shows(explorer, control):
    control(explorer, "a").value = 3
    data, metadata = explorer._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]).startswith(PNG)
    assert data["text/plain"] == "a is 1, b is 2"
    assert metadata["image/png"]["alt"] == "a is 1, b is 2"
    assert "application/vnd.jupyter.widget-view+json" in data


def test_the_controls_work_by_keyboard_and_have_labels():
    made = [
        slider("whole", 1, 0, 9),
        steps("listed", [1, 3, 10], 3),
        number("number", 1, 0, 9),
        choice("choice", ["x", "y"], "y"),
        switch("switch", True),
        text("text", "words"),
    ]
    assert [type(one) for one in made] == [
        widgets.IntSlider,
        widgets.SelectionSlider,
        _Number,
        widgets.ToggleButtons,
        widgets.Checkbox,
        widgets.Text,
    ]
    assert [c.value for c in made] == [1, 3, 1, "y", True, "words"]
    assert all(one.description for one in made)


def test_a_sentence_of_a_learner_is_text_not_html():
    def echo(words):
        return Picture(1, 1, words)

    explorer = Explorer(echo, {"words": text("words", "<script>")})
    assert "&lt;script&gt;" in explorer.words.value


def test_the_picture_has_a_name(explorer):
    state = explorer.picture.get_state()
    assert state["tooltip"] and state["description"] == ""


def test_all_explorers_have_docstrings():
    assert len(explore.__all__) == 8
    for name in explore.__all__:
        assert getattr(explore, name).__doc__, name


def test_two_controls_in_two_threads_leave_the_latest_picture():
    drawing = threading.Event()

    def slow(a, b):
        if b == 2:
            drawing.set()
            time.sleep(0.2)
        return draw(a, b)

    controls = {"a": slider("a", 1, 0, 9), "b": slider("b", 1, 0, 9)}
    explorer = Explorer(slow, controls)
    late = threading.Thread(target=lambda: setattr(controls["b"], "value", 2))
    late.start()
    drawing.wait()
    controls["a"].value = 3
    late.join()
    assert explorer.description == "a is 3, b is 2"


def test_controls_wait_for_cells_in_jupyterlab_of_this_environment():
    folder = Path(sys.prefix, "share/jupyter/lab/settings")
    file = folder / "overrides.d" / "gpt-part-by-part.json"
    assert file.is_file(), "pip install -e ."
    overrides, error = _get_overrides(str(folder))
    assert not error
    kernels = overrides["@jupyterlab/apputils-extension:kernels-settings"]
    assert kernels["commsOverSubshells"] == "disabled"
