"""What all figures share: a Picture, its style, its colours, its words.

A component has one colour and one hatch in every picture, so that colour
never carries a meaning alone.
"""

import base64
import functools
import io
import threading
from numbers import Integral

import matplotlib.style
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch
from matplotlib.textpath import text_to_path
from PIL import Image

COLORS = {
    "embedding": "#56B4E9",
    "norm": "#009E73",
    "attention": "#E69F00",
    "feed_forward": "#CC79A7",
    "shortcut": "#0072B2",
    "head": "#D55E00",
    "dropout": "#999999",
}
HATCHES = {
    "embedding": "+",
    "norm": "..",
    "attention": "//",
    "feed_forward": "\\\\",
    "shortcut": "",
    "head": "--",
    "dropout": "xx",
}
GREY, BEFORE = "#D9D9D9", "//"  # what a component is compared with
LINES = [  # one look for each series of a plot, then from the start again
    {"color": "#000000", "ls": "-", "marker": "o"},
    {"color": "#D55E00", "ls": "--", "marker": "s"},
    {"color": "#0072B2", "ls": "-.", "marker": "^"},
    {"color": "#009E73", "ls": ":", "marker": "D"},
]
MEMORY_FILLS = "#F0E442", "#FFFFFF", GREY, "#8C8C8C"
MEMORY_HATCHES = "", "//", "..", "xx"

LOCK = threading.RLock()
SPACE = "(␣ is a space)"
PNG = {"compress_level": 1}  # a third of the time, a tenth more bytes
# In a notebook: two dots for one of the page, as screens have, and so many
# colours that none is seen to change. Both together take fewer bytes.
DOTS, SHADES = 2, 256
SIZE = 13  # points; no text in a picture is smaller than 12
STYLE = {
    "font.size": SIZE,
    "axes.titlesize": SIZE,
    "axes.labelsize": SIZE,
    "legend.fontsize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "hatch.linewidth": 0.7,
    "lines.linewidth": 2.5,
    "lines.markersize": 7,
    "text.hinting": "none",  # a fifth of the time, no worse at these sizes
}


def styled(draw):
    """Let `draw` work in the series' style and leave the reader's alone.

    One thread at a time: the style is a global thing.
    """

    @functools.wraps(draw)
    def styled(*args, **kwargs):
        with LOCK, matplotlib.style.context(["default", STYLE]):
            return draw(*args, **kwargs)

    return styled


class Picture(Figure):
    """A white figure that shows and describes itself, without pyplot.

    Args:
        width, height: inches, at 100 dots an inch.
        description: what is to be seen, in a sentence with the key numbers.
        margins: inches left, right, below and above the axes. Without them
            they are measured from the texts, which takes as long as drawing:
            an explorer draws anew at each key press, so it gives them.
    """

    def __init__(self, width, height, description, margins=None):
        super().__init__(
            figsize=(width, height),
            dpi=100,
            facecolor="white",
            layout=None if margins else "constrained",
        )
        if margins:
            self.set_margins(*margins)
        else:
            self.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
        self.description = description

    def set_margins(self, left, right, bottom, top):
        """Fix the margins, in inches, in place of measuring them."""
        width, height = self.get_size_inches()
        self.set_layout_engine(None)
        self.subplots_adjust(
            left=left / width,
            right=1 - right / width,
            bottom=bottom / height,
            top=1 - top / height,
        )

    @styled
    def png(self):
        """The picture as the bytes of a PNG file."""
        file = io.BytesIO()  # savefig would draw everything twice
        _Canvas(self).print_png(file, pil_kwargs=PNG)
        return file.getvalue()

    @styled
    def _sharp_png(self):
        """`png` for what is drawn once and kept, in place of often."""
        dpi = self.dpi
        self.set_dpi(DOTS * dpi)
        FigureCanvasAgg(self).draw()
        drawn = np.asarray(self.canvas.buffer_rgba())[..., :3].copy()
        self.set_dpi(dpi)
        self.png()  # else canvas and texts would hold the sheet, 8 MB of it
        file = io.BytesIO()
        shades = Image.fromarray(drawn).quantize(
            SHADES, dither=Image.Dither.NONE
        )
        shades.save(file, "PNG", compress_level=9)
        return file.getvalue()

    def _repr_mimebundle_(self, **kwargs):
        image = base64.b64encode(self._sharp_png()).decode("ascii")
        data = {"image/png": image, "text/plain": self.description}
        look = {"alt": self.description, "width": round(self.bbox.width)}
        return data, {"image/png": look}


def ink(fill):
    """Black or white: the text colour that is easier to read on `fill`.

    `fill` is any matplotlib colour. The contrast is at least 4.58 to 1.
    """
    rgb = np.array(to_rgb(fill))
    steep = ((rgb + 0.055) / 1.055) ** 2.4
    linear = np.where(rgb <= 0.04045, rgb / 12.92, steep)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    return "black" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "white"


def memory_looks(kinds):
    """Kind of memory → its colour and hatch: 16 that differ, then again."""
    looks = {}
    for n, kind in enumerate(kinds):
        row, column = divmod(n, 4)
        hatch = MEMORY_HATCHES[(row + column) % 4]
        looks[kind] = MEMORY_FILLS[column], hatch
    return looks


def array(values):
    """Float array of a tensor, an array, or an iterable of numbers."""
    if hasattr(values, "detach"):
        return values.detach().cpu().double().numpy()
    if not isinstance(values, np.ndarray | list | tuple | range):
        values = list(values)
    return np.asarray(values, dtype=float)


def digits(value, residue=0):
    """Integers in full, floats to 4 significant digits.

    Below `residue` the digits are rounding errors and differ from one
    machine to the next, so only the bound is told.
    """
    if abs(value) < residue:
        return f"below {residue:.0e}".replace("e-0", "e-")
    if value == 0 or isinstance(value, Integral):
        return f"{int(value):,}"
    return f"{value:#,.4g}".rstrip(".")


def sentence(words):
    """The words with their first letter large, the others as they are."""
    return words[:1].upper() + words[1:]


def visible(token):
    """A token's text with each space as an open box, escapes spelt out."""
    text = "".join(
        c
        if c.isprintable() and (c < "\u0590" or c == "\ufffd")
        else ascii(c)[1:-1]
        for c in token
    )
    return text.replace(" ", "␣")


def label_axes(axes, xlabel, ylabel, title=""):
    axes.set(xlabel=xlabel, ylabel=ylabel, title=title)
    axes.tick_params(labelsize=12)


def pin_labels(axes, x, y):
    """Fix how far left and below of the axes, in their sizes, labels stand.

    To put them beside the ticks takes a tenth of the time of a drawing.
    """
    axes.yaxis.set_label_coords(x, 0.5)
    axes.xaxis.set_label_coords(0.5, y)


def component_bars(axes, sizes, components):
    """Horizontal bars, each in the look of its component, grey for None."""
    return axes.barh(
        range(len(sizes)),
        sizes,
        ec="black",
        color=[COLORS.get(component, GREY) for component in components],
        hatch=[HATCHES.get(component, "") for component in components],
    )


def names_down(axes, names, room, start=0):
    """Name horizontal bars from the top down; the x axis ends at `room`."""
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlim(start, room)


def legend_patch(name, color, hatch):
    label = name.replace("_", "-")
    return Patch(facecolor=color, hatch=hatch, edgecolor="black", label=label)


def card(color):
    """A patch of plain `color` behind a text, so no hatch crosses it."""
    return {"facecolor": color, "edgecolor": "none", "pad": 2}


def centre(axes, x, y, text, **look):
    axes.text(x, y, text, ha="center", va="center", fontsize=12, **look)


def note(axes, text, place, shift, **look):
    """Text `shift` points (right, up) away from a place in the plot."""
    axes.annotate(text, place, shift, textcoords="offset points", **look)


def inches(text):
    """Width of a text of 12 points, for margins that fit."""
    font = FontProperties(size=12)
    text = visible(text)
    width = text_to_path.get_text_width_height_descent(text, font, False)[0]
    return width / 72


class _Canvas(FigureCanvasAgg):
    """Draws on the last picture's sheet if that has the same size: then
    matplotlib need not measure the same words again."""

    sheet = staticmethod(functools.lru_cache(maxsize=8)(RendererAgg))

    def get_renderer(self):
        return self.sheet(*self.figure.bbox.size, self.figure.dpi)
