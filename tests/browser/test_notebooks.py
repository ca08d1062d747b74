"""Every notebook in JupyterLab, as a reader meets it.

One page a notebook: it is opened, run, explored by keyboard, judged by axe,
saved and opened again, in the order of the tests.
"""

import pytest
from lab import NAMES, THEMES, Notebook, answers, saved_pictures

# What can be set to something impossible, told in the explorer.
REFUSING = ("01", "04", "05", "06", "08")
BARE_LINE = """
from classroom.explore.explorer import Explorer, slider
from classroom.picture import Picture

def draw(end):
    picture = Picture(6, 4, f"to {end}", (0.8, 0.2, 0.6, 0.2))
    picture.subplots().plot([0, end])
    return picture

Explorer(draw, {"end": slider("end", 1, 1, 40)})
"""
SIZES = {
    "laptop": (1366, 768),
    "tablet": (820, 1180),
    "phone": (390, 844),
    "laptop at 200 %": (683, 384),
}
MEASURE = """() => {
  const box = document.querySelector('.gpt-explorer');
  const tracks = [...box.querySelectorAll('.noUi-base')];
  return {
    height: box.offsetHeight,
    tracks: tracks.map((track) => track.offsetWidth),
    sideways: box.scrollWidth > box.clientWidth }; }"""
PICTURES = ".jp-RenderedMarkdown img, .jp-OutputArea-output img"


@pytest.fixture(scope="module", params=NAMES)
def notebook(request, room, lab):
    """A notebook that has been opened, looked at (`opened`: its pictures,
    `folded`: its folded outputs) and run."""
    notebook = Notebook(room.new_page(), lab, request.param)
    notebook.opened = pictures(notebook)
    notebook.folded = notebook.page.evaluate("tests.folded()")
    notebook.run_all()
    yield notebook
    notebook.close()


@pytest.fixture
def explorer(notebook):
    """Its explorer, which "Reset" must bring back to how it was."""
    explorer = notebook.explorer()
    first = explorer.shown()
    yield explorer
    assert explorer.reset() == first
    notebook.check()


def pictures(notebook):
    """Addresses of all pictures, and whether they can be seen."""
    notebook.page.wait_for_load_state("networkidle")
    return notebook.page.evaluate(f"tests.pictures('{PICTURES}')")


def all_show(pictures):
    hidden = [address for address, seen in pictures if not seen]
    return pictures and not hidden


def test_it_shows_its_pictures_before_it_is_run(notebook):
    assert len(notebook.opened) == saved_pictures(notebook.name)
    assert all_show(notebook.opened), notebook.opened


def test_what_answers_a_question_is_folded_until_it_is_run(notebook):
    assert notebook.folded == answers(notebook.name) != []
    assert notebook.page.evaluate("tests.folded()") == []


def test_it_runs(notebook):
    prompts = notebook.page.evaluate("tests.prompts()")
    assert prompts == [f"[{n}]:" for n in range(1, len(prompts) + 1)]
    assert all_show(pictures(notebook))
    notebook.check()


def test_a_screen_reader_is_told_what_pictures_show(notebook):
    alts = notebook.page.eval_on_selector_all(
        ".jp-RenderedImage img", "(pictures) => pictures.map((p) => p.alt)"
    )
    assert all(len(alt.split()) > 4 for alt in alts), alts


def test_tab_reaches_every_control(explorer):
    assert explorer.unreached() == []


def test_every_control_changes_what_is_shown(notebook, explorer):
    before, impossible = explorer.shown(), False
    for control in explorer.controls():
        for keys in explorer.keys(control):
            after = explorer.press(control, *keys)
            told = keys, control.evaluate("(control) => control.outerHTML")
            assert after != before, told
            impossible |= after["impossible"]
            before = after
    assert impossible == notebook.name.startswith(REFUSING)


def test_no_drag_leaves_a_stale_picture(explorer):
    """Nor is a slider that can't be brought to its ends."""
    for slider in explorer.sliders():
        explorer.press(slider, "End")
        assert explorer.at(slider, "max")
        dragged = explorer.press(slider, *["ArrowLeft"] * 12)
        explorer.press(slider, "ArrowRight")
        assert explorer.press(slider, "ArrowLeft") == dragged
        explorer.press(slider, "Home")
        assert explorer.at(slider, "min")


def test_how_long_a_picture_takes(notebook, explorer, speed):
    times = explorer.milliseconds(explorer.sliders()[0], presses=12)
    speed(notebook.name, times)


def test_how_long_a_bare_line_takes(run, speed):
    """What the others compare with, whatever the machine is doing."""
    explorer = run(BARE_LINE).explorer()
    explorer.shown()
    speed("a bare line", explorer.milliseconds(explorer.sliders()[0], 12))


def test_the_explorer_fits(notebook):
    """Sliders that a finger can set; on a laptop all can be seen at once."""
    page, before = notebook.page, notebook.page.viewport_size
    notebook.command("application:toggle-left-area")
    for device, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(300)  # a new layout
        found = page.evaluate(MEASURE)
        assert not found["sideways"], device
        assert all(track >= 160 for track in found["tracks"]), (device, found)
        if device == "laptop":
            assert found["height"] <= 610, found
    page.set_viewport_size(before)
    notebook.command("application:toggle-left-area")


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_serious(notebook, theme):
    notebook.set_theme(theme)
    found = notebook.violations()
    assert not found, found


def test_saved_and_opened_again_it_shows_all(notebook):
    notebook.command("docmanager:save")
    notebook.end_kernel()
    notebook.open()
    notebook.check()
    shown = pictures(notebook)
    assert all_show(shown)
    # Nothing is folded: what was run stays open.
    drawn = saved_pictures(notebook.name, folded=True)
    assert len(shown) == drawn
