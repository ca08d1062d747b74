"""Slides and pages of a notebook that open anywhere, without a network.

`jupyter nbconvert --to gpt-slides` finds `Slides` by an entry point that the
package installs, and `--to gpt-page` finds `Page`; what nbconvert makes of
other notebooks stays as it is.
"""

import base64
import html
import io
import mimetypes
import re
from functools import partial
from pathlib import Path

import matplotlib.style
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser
from nbconvert.exporters import HTMLExporter, SlidesExporter
from nbconvert.preprocessors import Preprocessor
from nbformat.v4 import new_markdown_cell
from traitlets import default

# Code, which stays as it is, or a formula: $$on a line$$ or $in a line$.
FORMULA = re.compile(
    r"```.*?```|`[^`]*`|\$\$(?P<block>.+?)\$\$|\$(?P<inline>.+?)\$", re.S
)
LAUNCH = re.compile(r"^\[!\[.*\]\(.*\)\]\(.*\)\n*", re.M)  # a badge
PICTURE = re.compile(r"^!\[.*?\]\(.*?\)$", re.M | re.S)
IMAGE = re.compile(r"!\[(.*?)\]\((images/.*?)\)", re.S)
HEADING = re.compile(r"#+ ")
AT_A_GLANCE = re.compile(r"#+ |- |1\. |\||\$\$")  # heading, list, table, …
QUESTION = re.compile(r"\*\*Before you run it:\*\*")
FORMULAS = {"mathtext.fontset": "cm", "svg.fonttype": "path"}
MANY_WORDS = 80
# Pixels: a slide without its margins, a line of the smallest code or of words
# with what surrounds a block of them, the least height of a picture. Its words
# are to be read from the back row: of its own height it needs this share.
ROOM, CODE, WORDS, AROUND, DRAWN = 680, 22.5, 35, 30, 360
READABLE = 0.8
COLUMNS = 85  # letters in a line of words
CODE_ABOVE_PICTURE = 3  # lines: below more code, a picture would be small


class Slides(SlidesExporter):
    """reveal.js and all pictures in one file."""

    export_from_notebook = "Slides of this series"  # in JupyterLab's menu
    exclude_input_prompt = exclude_output_prompt = True

    @default("extra_template_basedirs")
    def _extra_template_basedirs(self):
        return [str(Path(__file__).parent)]

    @default("template_name")
    def _template_name_default(self):
        return "template"

    @default("preprocessors")
    def _preprocessors(self):
        return [Prepare, Embed]


class Page(HTMLExporter):
    """The whole notebook in one file, to read and to print."""

    export_from_notebook = "Page of this series"  # in JupyterLab's menu

    @default("extra_template_basedirs")
    def _extra_template_basedirs(self):
        return [str(Path(__file__).parent)]

    @default("template_name")
    def _template_name_default(self):
        return "page"

    @default("preprocessors")
    def _preprocessors(self):
        return [Embed]


class Prepare(Preprocessor):
    """Makes a slide of what a notebook has made a page."""

    def preprocess(self, nb, resources):
        cells = []
        for before, cell in zip([None, *nb.cells], nb.cells, strict=False):
            slideshow = cell.metadata.get("slideshow", {})
            if slideshow.get("slide_type") == "skip":
                cells.append(cell)
            elif cell.cell_type == "markdown":
                cell.source = LAUNCH.sub("", cell.source)
                cells += _answer_to_the_last_slide(cell)
                cells += _for_the_back_row(cell)
            else:
                _hold_back(cell, before)
                cells.append(cell)
        _turn_over(cells)
        nb.cells = cells
        return nb, resources


class Embed(Preprocessor):
    """Puts formulas and pictures into the text."""

    def preprocess(self, nb, resources):
        folder = Path(resources["metadata"]["path"])
        for cell in nb.cells:
            if cell.cell_type == "markdown":
                cell.source = FORMULA.sub(_draw, cell.source)
                cell.source = IMAGE.sub(partial(_embed, folder), cell.source)
        return nb, resources


def formula_image(formula, display=False):
    """An <img> element that shows a formula of LaTeX, sized in em."""
    formula = " ".join(formula.replace(r"\tfrac", r"\frac").split())
    if display:
        formula = formula.replace(r"\frac", r"\dfrac")
    text, font = f"${formula}$", FontProperties(size=10)
    dpi, em = 720, 100  # 10 points are 100 pixels
    # From matplotlib's own settings on: the reader's may ask for LaTeX, or for
    # white ink.
    with matplotlib.style.context(["default", FORMULAS]):
        parsed = MathTextParser("path").parse(text, dpi=dpi, prop=font)
        width, height, depth = parsed[:3]
        figure = Figure(figsize=(width / dpi, height / dpi))
        figure.text(0, depth / height, text, fontproperties=font)
        svg = io.BytesIO()
        FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None})
    data = base64.b64encode(svg.getvalue()).decode("ascii")
    return (
        f'<img class="formula{" display" if display else ""}" '
        f'alt="{html.escape(formula)}" '
        f'style="width: {width / em:.3f}em; height: {height / em:.3f}em; '
        f'vertical-align: {-depth / em:.3f}em" '
        f'src="data:image/svg+xml;base64,{data}">'
    )


def _embed(folder, found):
    """A picture of the notebook's folder as an <img> element.

    (nbconvert's `embed_images` parses each piece of HTML by itself, and so
    closes a <details> after its summary: folded answers would show.)
    """
    alt, place = found.groups()
    data = base64.b64encode((folder / place).read_bytes()).decode("ascii")
    kind = mimetypes.guess_type(place)[0]
    alt = html.escape(" ".join(alt.split()))
    return f'<img alt="{alt}" src="data:{kind};base64,{data}">'


def _draw(found):
    if found["block"]:
        return formula_image(found["block"], display=True)
    return formula_image(found["inline"]) if found["inline"] else found[0]


def _answer_to_the_last_slide(cell):
    """The words in front of a cell's heading, taken out, for the speaker."""
    answer, heading, rest = cell.source.partition("\n\n#")
    if not heading or HEADING.match(answer):
        return []
    cell.source = "#" + rest
    return [_new(answer, "notes")]


def _for_the_back_row(cell):
    """A picture gets a slide with its heading; of many words only heading,
    lists, tables and formulas stay. The other words are for the speaker."""
    pictures = PICTURE.findall(cell.source)
    many = len(cell.source.split()) > MANY_WORDS
    if "<details>" in cell.source or not (pictures or many):
        return [cell]
    stays = HEADING if pictures else AT_A_GLANCE
    blocks = re.split(r"\n{2,}", PICTURE.sub("", cell.source).strip())
    shown = [b for b in blocks if stays.match(b)]
    said = [b for b in blocks if not stays.match(b)]
    if all(map(HEADING.match, shown)) and not pictures:
        return [cell]  # nothing else to look at
    cell.source = "\n\n".join([*shown, *pictures[:1]])
    notes = [_new("\n\n".join(said), "notes")] if said else []
    more = [_new(picture, "subslide") for picture in pictures[1:]]
    return [cell, *notes, *more]


def _turn_over(cells):
    """Begin a new slide at each cell for which the last has no room."""
    used = 0
    for cell in cells:
        kind = cell.metadata.setdefault("slideshow", {}).get("slide_type")
        if kind in ("skip", "notes"):
            continue
        height = _height(cell)
        full = used and used + height > ROOM
        if kind not in ("slide", "subslide") and full:
            cell.metadata["slideshow"]["slide_type"] = kind = "subslide"
        used = height + (used if kind not in ("slide", "subslide") else 0)


def _height(cell):
    """About how many pixels of a slide a cell takes at least."""
    if cell.cell_type == "markdown":
        text, drawn = PICTURE.subn("", cell.source.partition("<details>")[0])
        lines = [line for line in text.splitlines() if line]
        rows = [x.startswith("#") + 1 + len(x) // COLUMNS for x in lines]
        return AROUND + WORDS * sum(rows) + DRAWN * drawn
    hidden = "transient" in cell.metadata
    height = 0 if hidden else AROUND + CODE * len(cell.source.splitlines())
    for output in cell.outputs:
        data = output.get("data", {})
        lines = output.get("text", data.get("text/plain", "")).splitlines()
        told = AROUND + CODE * len(lines)
        height += _least_height(output) if "image/png" in data else told
    return height


def _least_height(output):
    """Pixels that a drawn picture takes at least."""
    width = output.metadata.get("image/png", {}).get("width")
    if width is None:  # of another drawing than the series'
        return DRAWN
    header = base64.b64decode(output.data["image/png"][:32])
    across, down = (int.from_bytes(header[n : n + 4]) for n in (16, 20))
    return max(DRAWN, READABLE * width * down / across)


def _new(source, slide_type):
    metadata = {"slideshow": {"slide_type": slide_type}}
    return new_markdown_cell(source, metadata=metadata)


def _hold_back(cell, before):
    """An output that was to be predicted, and code that draws a picture."""
    asked = before is not None and QUESTION.search(before.source)
    cell.metadata["predicted"] = bool(asked)
    picture = any("image/png" in o.get("data", {}) for o in cell.outputs)
    if picture and len(cell.source.splitlines()) > CODE_ABOVE_PICTURE:
        cell.metadata["transient"] = {"remove_source": True}
