"""Each notebook's slides: they fit, they need no network, they say it large.

Not part of plain pytest: `pytest -m slides`.
"""

import re
import subprocess
import sys

import nbformat
import pytest
from lab import NAMES, NOTEBOOKS

pytestmark = pytest.mark.slides
WIDTH, HEIGHT = 1280, 720
DECKS = [name.replace(".ipynb", ".slides.html") for name in NAMES]

# All slides, one after another, with all that appears step by step and with
# all answers unfolded.
WALK = """async () => {
  const all = Reveal.getSlides(), seen = [];
  document.querySelectorAll('details').forEach((d) => { d.open = true; });
  for (const slide of all) {
    const {h, v} = Reveal.getIndices(slide);
    Reveal.slide(h, v, 99);
    await new Promise(requestAnimationFrame);
    const boxes = [...slide.querySelectorAll('*')];
    const clipped = boxes.filter((e) =>
      getComputedStyle(e).overflow != 'visible' && (
        e.scrollWidth > e.clientWidth + 1 ||
        e.scrollHeight > e.clientHeight + 1));
    const outside = boxes.map((e) => e.getBoundingClientRect()).filter(
      (r) => r.width && r.height && (r.left < 0 || r.top < 0
        || r.right > innerWidth + 1 || r.bottom > innerHeight + 1));
    const sizes = [...slide.querySelectorAll('pre, p, li, td')]
      .filter((e) => e.offsetHeight)
      .map((e) => parseFloat(getComputedStyle(e).fontSize));
    seen.push({
      name: slide.querySelector('.jp-Cell')?.id,
      height: slide.scrollHeight, width: slide.scrollWidth,
      clipped: clipped.map((e) => e.className),
      outside: outside.length,
      smallest: Math.min(...sizes),
      code: [...slide.querySelectorAll('.highlight pre')].map((e) =>
        parseFloat(getComputedStyle(e).fontSize)),
      words: slide.innerText,
      // The part of the box that a picture fills.
      pictures: [...slide.querySelectorAll('img:not(.formula)')].map((i) => {
        const scale = Math.min(i.clientWidth / i.naturalWidth,
                               i.clientHeight / i.naturalHeight);
        return [i.naturalWidth * scale, i.naturalHeight * scale]; }) }); }
  return seen; }"""


@pytest.fixture(scope="module")
def decks(tmp_path_factory):
    """All eight, made as the README says, and what that printed."""
    folder = tmp_path_factory.mktemp("slides")
    paths = [NOTEBOOKS / name for name in NAMES]
    subprocess.run(
        [
            *(sys.executable, "-m", "nbconvert", "--to", "gpt-slides"),
            *("--output-dir", folder, *paths),
        ],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    return folder


@pytest.fixture(scope="module")
def walked(browser, decks):
    """Of each deck: its slides, and the addresses that it asked for."""
    found = {}
    for name in DECKS:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        asked, errors = [], []
        page.on("request", lambda request, to=asked: to.append(request.url))
        page.on("pageerror", lambda error, to=errors: to.append(str(error)))
        page.goto((decks / name).as_uri())
        page.wait_for_function("() => Reveal.isReady()")
        found[name] = page.evaluate(WALK), asked, errors
        page.close()
    return found


@pytest.mark.parametrize("name", DECKS)
def test_every_slide_fits(walked, name):
    slides = walked[name][0]
    assert len(slides) > 40
    for slide in slides:
        assert slide["height"] <= HEIGHT, slide
        assert slide["width"] <= WIDTH, slide
        assert not slide["clipped"] and not slide["outside"], slide


@pytest.mark.parametrize("name", DECKS)
def test_words_and_pictures_are_large(walked, name):
    """A line of text at 1/36 of the height or more, code at 1/40; a picture
    as high as half the slide or about as wide as the slide."""
    slides = walked[name][0]
    assert min(slide["smallest"] for slide in slides) >= 18
    pictures = [(s["name"], *p) for s in slides for p in s["pictures"]]
    assert len(pictures) >= 3
    for cell, width, height in pictures:
        assert height >= HEIGHT / 2 or width >= 0.9 * WIDTH, (cell, width)


@pytest.mark.parametrize("name", DECKS)
def test_code_grows_where_there_is_room(walked, name):
    sizes = [s["code"][0] for s in walked[name][0] if s["code"]]
    assert max(sizes) == 30
    assert sum(size > 21 for size in sizes) > len(sizes) / 3, sizes


@pytest.mark.parametrize("name", DECKS)
def test_no_deck_asks_the_network(walked, name):
    _, asked, errors = walked[name]
    assert errors == []
    assert [a for a in asked if not a.startswith(("file:", "data:"))] == []


# Of each fold: its summary's words, and what shows and stands in it beside.
FOLDS = """() => [...document.querySelectorAll('details')].map((fold) => {
  const summary = fold.querySelector('summary');
  const inside = [...fold.children].filter((e) => e != summary);
  fold.open = false;
  return [summary.textContent, inside.map((e) => e.textContent).join(' '),
          inside.some((e) => e.checkVisibility())]; })"""


@pytest.mark.parametrize("name", DECKS)
def test_each_fold_keeps_its_secret(browser, decks, name):
    notebook = nbformat.read(
        NOTEBOOKS / name.replace(".slides.html", ".ipynb"), as_version=4
    )
    page = browser.new_page()
    page.goto((decks / name).as_uri())
    folds = page.evaluate(FOLDS)
    page.close()
    texts = [
        cell.source
        for cell in notebook.cells
        if cell.metadata.slideshow.slide_type != "skip"
    ]
    assert len(folds) == sum(text.count("<details>") for text in texts)
    for summary, inside, visible in folds:
        assert len(inside.split()) > 2 and not visible, summary


@pytest.mark.parametrize("name", DECKS)
def test_every_picture_has_words(browser, decks, name):
    page = browser.new_page()
    page.goto((decks / name).as_uri())
    alts = page.evaluate("[...document.images].map((image) => image.alt)")
    page.close()
    assert len(alts) >= 3
    for alt in alts:
        assert alt and not alt.startswith("No description"), alts


@pytest.mark.parametrize("name", DECKS)
def test_formulas_are_drawn(walked, name):
    for slide in walked[name][0]:
        assert not re.search(r"\$[^$\n]+\$|\\frac|\\text", slide["words"])


# On the first step of each slide: outputs that can't be seen yet.
HIDDEN = """() => Reveal.getSlides().flatMap((slide) => {
  const {h, v} = Reveal.getIndices(slide);
  Reveal.slide(h, v, -1);
  return [...slide.querySelectorAll('.jp-CodeCell')]
    .filter((cell) => {
      const output = cell.querySelector('.jp-OutputArea');
      return output && !output.checkVisibility({
        opacityProperty: true, visibilityProperty: true}); })
    .map((cell) => cell.id.replace('cell-id=', '')); })"""


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_waits_for_the_next_key(browser, decks, name):
    """Where the class is asked to predict, the output is not yet there."""
    cells = nbformat.read(NOTEBOOKS / name, as_version=4).cells
    asked = [
        cell.id
        for before, cell in zip(cells, cells[1:], strict=False)
        if "**Before you run it:**" in before.source and cell.get("outputs")
    ]
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    page.goto((decks / name.replace(".ipynb", ".slides.html")).as_uri())
    page.wait_for_function("() => Reveal.isReady()")
    page.add_style_tag(content="* { transition: none !important; }")
    assert page.evaluate(HIDDEN) == asked and len(asked) > 5
    page.close()
