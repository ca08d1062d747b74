"""The series' hand-laid-out drawings, written as small SVG files.

    python notebooks/images/drawings.py

Primitives come first (text, box, arrow, cells), then one function for each
drawing. All lengths are in pixels of the drawing at its natural width.
"""

import sys
from functools import partial
from html import escape
from pathlib import Path

from classroom.picture import COLORS, ink
from gptlib.config import GPT_CONFIG_124M

INK, QUIET, LINE, CARD = "black", "#595959", "#8C8C8C", "white"
SHADE = "#E8E8E8"  # cells and bars that are no component
SIZE = 17  # font size of a label; nothing is set smaller than 15

VOCAB, CONTEXT, EMB, LAYERS = (
    GPT_CONFIG_124M[key]
    for key in ("vocab_size", "context_length", "emb_dim", "n_layers")
)
HIDDEN = 4 * EMB
PROMPT = [15496, 11, 314, 716]  # "Hello, I am"
NEW = {
    27018: "␣Feature",
    24086: "iman",
    47843: "␣Bye",
    30961: "swick",
    42348: "attribute",
    7267: "␣argue",
}


# --- colours ---------------------------------------------------------------


def pale(colour):
    """The colour with four parts of white mixed in."""
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{(p + 4 * 255) // 5:02X}" for p in parts)


# --- primitives: each returns a piece of SVG text ----------------------------


def text(x, y, words, size=SIZE, colour=INK, anchor="middle", bold=False):
    """Words with their baseline at y; a newline starts the next line."""
    weight = ' font-weight="bold"' if bold else ""
    return "\n".join(
        f'<text x="{x:g}" y="{y + i * (size + 3):g}" font-size="{size}" '
        f'fill="{colour}" text-anchor="{anchor}"{weight}>{escape(line)}'
        "</text>"
        for i, line in enumerate(words.split("\n"))
    )


def paint(kind, look):
    """Fill, text, outline colour and outline width of a box."""
    full = COLORS.get(kind, CARD)
    if look == "pale":
        return pale(full) if kind in COLORS else CARD, QUIET, LINE, 1
    if look == "empty":
        return CARD, INK, full if kind in COLORS else INK, 3
    return full, ink(full), INK, 3.5 if look == "lit" else 1.5


def box(x, y, w, h, label, kind="data", look="plain", size=SIZE):
    """A rounded box with a centred label, coloured by component.

    `kind` is a key of COLORS, or "data" for what flows through the model.
    `look` is "plain", "lit" (thick outline), "pale" or "empty" (no fill).
    """
    fill, letters, outline, width = paint(kind, look)
    shape = f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6" '
    top = y + h / 2 - label.count("\n") * (size + 3) / 2 + size * 0.36
    edge = f'stroke="{outline}" stroke-width="{width}"/>'
    parts = [f'{shape}fill="{fill}" {edge}']
    if kind == "dropout" and look != "empty":
        plate = 0.56 * size * len(label) + 4  # keeps the hatch off the word
        parts += [
            f'{shape}fill="url(#hatch)" {edge}',
            f'<rect x="{x + (w - plate) / 2:g}" y="{top - size:g}" '
            f'width="{plate:g}" height="{size + 6}" fill="{fill}"/>',
        ]
    parts.append(text(x + w / 2, top, label, size, letters))
    return "<g>" + "\n".join(parts) + "</g>"


def line(*points, colour=INK, width=2, dash=""):
    """A line through the points, each (x, y)."""
    path = "L".join(f"{x:g} {y:g}" for x, y in points)
    dash = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<path d="M{path}" fill="none" stroke="{colour}" '
        f'stroke-width="{width}"{dash}/>'
    )


def arrow(*points, colour=INK, width=2, dash=""):
    """A line with a tip; its last stretch is level or upright."""
    (x0, y0), (x, y) = points[-2:]
    dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
    bx, by = x - 10 * dx, y - 10 * dy
    tip = (
        f"M{x:g} {y:g}L{bx + 6 * dy:g} {by + 6 * dx:g}"
        f"L{bx - 6 * dy:g} {by - 6 * dx:g}Z"
    )
    return (
        line(*points[:-1], (bx, by), colour=colour, width=width, dash=dash)
        + f'\n<path d="{tip}" fill="{colour}"/>'
    )


def shortcut(*points, look="plain"):
    """The dashed arrow that carries a value past a layer."""
    colour = LINE if look == "pale" else COLORS["shortcut"]
    width = 4 if look == "lit" else 2.5
    return arrow(*points, colour=colour, width=width, dash="7 4")


def plus(x, y, look="plain"):
    """The circle in which a shortcut is added back, centred on (x, y)."""
    colour = LINE if look == "pale" else COLORS["shortcut"]
    thick = 3.5 if look == "lit" else 2
    return "\n".join(
        [
            f'<circle cx="{x:g}" cy="{y:g}" r="11" fill="{CARD}" '
            f'stroke="{colour}" stroke-width="{thick}"/>',
            line((x - 6, y), (x + 6, y), colour=colour),
            line((x, y - 6), (x, y + 6), colour=colour),
        ]
    )


def cells(x, y, rows, columns, side, fill=CARD, outline=INK):
    """A table of square cells: a vector if it has one row or column."""
    right, bottom = x + columns * side, y + rows * side
    path = "".join(
        f"M{x + i * side:g} {y:g}V{bottom:g}" for i in range(1, columns)
    )
    path += "".join(
        f"M{x:g} {y + i * side:g}H{right:g}" for i in range(1, rows)
    )
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{columns * side:g}" '
        f'height="{rows * side:g}" fill="{fill}" stroke="{outline}" '
        f'stroke-width="1.5"/>\n<path d="{path}" stroke="{outline}"/>'
    )


def outline(x, y, w, h, colour=INK, width=2, corner=10):
    """An unfilled frame round a group of shapes."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" '
        f'rx="{corner}" fill="none" stroke="{colour}" '
        f'stroke-width="{width}"/>'
    )


def badge(x, y, number):
    """A black disc with a step's number, centred on (x, y)."""
    return (
        f'<g><circle cx="{x:g}" cy="{y:g}" r="14" fill="{INK}"/>'
        + text(x, y + 6, str(number), 16, CARD, bold=True)
        + "</g>"
    )


def pill(x, y, tip=0):
    """The words "you are here" at (x, y), pointing up at x + tip if given."""
    point = f'<path d="M{x + tip - 9:g} {y - 11:g}l9 -10l9 10Z"/>'
    return (
        f'<g><rect x="{x - 64:g}" y="{y - 13:g}" width="128" height="26" '
        f'rx="13" fill="{INK}"/>'
        + (point if tip else "")
        + text(x, y + 5.5, "you are here", 16, CARD, bold=True)
        + "</g>"
    )


def column(x, w, y, h, gap, boxes):
    """Boxes (label, kind) one under the other, joined by arrows."""
    parts = []
    for i, (label, kind) in enumerate(boxes):
        top = y + i * (h + gap)
        parts.append(box(x, top, w, h, label, kind))
        if i:
            parts.append(arrow((x + w / 2, top - gap), (x + w / 2, top)))
    return "\n".join(parts)


def card(width, height, title, description, *parts):
    """The whole SVG file: a white rounded card with the parts on it."""
    return "\n".join(
        filter(
            None,
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
                f'viewBox="0 0 {width} {height}" role="img" '
                'font-family="DejaVu Sans, Verdana, Arial, sans-serif">',
                f"<title>{escape(title)}</title>",
                f"<desc>{escape(description)}</desc>",
                '<defs><pattern id="hatch" width="8" height="8" '
                'patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
                f'<path d="M0 0V8" stroke="{CARD}" stroke-width="3"/>'
                "</pattern></defs>",
                f'<rect width="{width}" height="{height}" rx="12" '
                f'fill="{CARD}"/>',
                *parts,
                "</svg>\n",
            ],
        )
    )


# --- the map of the model, eight states --------------------------------------

MODEL = {"embeddings", "block", "output"}
LIT = {  # outcome -> (what it is about, the lit parts, where the pill is)
    1: (
        "the skeleton: embeddings, dropout and output head are real, the "
        "blocks and the final norm are empty boxes",
        MODEL | {"loop"},
        (196, 20),
    ),
    2: (
        "the norms: two in each block and one after the last block",
        {"norm"},
        (344, 228, -27),
    ),
    3: (
        "the feed-forward network in the second half of the block",
        {"feed_forward"},
        (402, 228, 1),
    ),
    4: (
        "the two shortcuts past the halves of the block",
        {"shortcut"},
        (508, 228, 49),
    ),
    5: (
        "the whole transformer block, repeated twelve times",
        {"block"},
        (423, 20),
    ),
    6: (
        "the whole model, from the embeddings to the output head",
        MODEL,
        (423, 20),
    ),
    7: (
        "every part, with a question mark for its number of parameters",
        MODEL,
        (423, 20),
    ),
    8: (
        "the loop that takes the next token from the logits and appends it "
        "to the token IDs",
        {"loop"},
        (423, 262),
    ),
}
NORM = 2 * EMB
BLOCK = 4 * EMB * EMB + EMB + 2 * EMB * HIDDEN + HIDDEN + EMB + 2 * NORM
COUNTS = {
    "token": VOCAB * EMB,
    "position": CONTEXT * EMB,
    "blocks": LAYERS * BLOCK,
    "final norm": NORM,
    "head": VOCAB * EMB,
}


def model_map(outcome):
    """The model from text to next token with one outcome's part lit."""
    about, lit, here = LIT[outcome]
    counts = "asked" if outcome == 7 else ""
    title = f"Map of the model, outcome {outcome}"
    return whole_map(outcome, title, about, lit, counts, pill(*here))


def parameter_map():
    """The map of outcome 7 with its question marks answered."""
    about = (
        "every part with its number of parameters, "
        f"{sum(COUNTS.values()):,} in total"
    )
    title = "Map of the model with the parameters of each part"
    return whole_map(7, title, about, MODEL, "told")


def whole_map(outcome, title, about, lit, counts="", here=""):
    """The map; `counts` of the parts are left out, "asked" or "told"."""

    def look(*tags):
        if not lit.intersection(tags):
            return "pale"
        placeholder = outcome == 1 and {"block", "norm"}.intersection(tags)
        return "empty" if placeholder else "lit"

    return card(
        720,
        294,
        title,
        "The path through a GPT model: text, token IDs, embeddings, twelve "
        "transformer blocks, final norm, output head, logits, and the next "
        f"token back to the token IDs. Lit here: {about}.",
        map_ends(look),
        map_embeddings(look, counts),
        map_block(look, counts),
        map_output(look, counts),
        map_total(counts) if counts else "",
        here,
    )


def flow(*points, look="pale"):
    """An arrow of the map: grey and thin when its part is pale."""
    if look == "pale":
        return arrow(*points, colour=LINE)
    return arrow(*points, width=2.5)


def map_ends(look):
    """Text and token IDs at the left; the loop along the bottom."""
    loop = look("loop")
    return "\n".join(
        [
            box(14, 44, 100, 36, "text", "data", loop, 16),
            flow((64, 80), (64, 104), look=loop),
            box(14, 104, 100, 44, "token IDs", "data", loop, 16),
            box(14, 240, 100, 42, "next token", "data", loop, 16),
            flow((64, 240), (64, 148), look=loop),
            box(598, 206, 112, 34, "logits", "data", loop, 16),
            flow((654, 240), (654, 262), (114, 262), look=loop),
        ]
    )


def share(name):
    """A part's share of the model's parameters, in per cent."""
    percent = 100 * COUNTS[name] / sum(COUNTS.values())
    return f"{percent:.1f} %" if percent >= 0.1 else "< 0.1 %"


def part(name, label, counts):
    """A part's label; under it its parameters and their share, if told."""
    under = {"asked": "\n?", "told": f"\n{COUNTS[name]:,}\n{share(name)}"}
    return label + under.get(counts, "")


def map_embeddings(look, counts):
    """Token and position embedding, then dropout."""
    lit = look("embeddings")
    return "\n".join(
        [
            text(190, 52, "embeddings", 16, QUIET if lit == "pale" else INK),
            flow((114, 126), (136, 126), look=look("embeddings", "loop")),
            box(
                136,
                62,
                108,
                62,
                part("token", "token", counts),
                "embedding",
                lit,
                16,
            ),
            box(
                136,
                128,
                108,
                62,
                part("position", "+ position", counts),
                "embedding",
                lit,
                16,
            ),
            box(136, 198, 108, 34, "dropout", "dropout", lit, 16),
            flow(
                (244, 215),
                (256, 215),
                (256, 108),
                (290, 108),
                look=look("embeddings", "block"),
            ),
        ]
    )


def map_block(look, counts):
    """The transformer block: two rows, each with a dashed shortcut."""
    whole = look("block")
    colour, width = (LINE, 1.5) if whole == "pale" else (INK, 3)
    blocks = f"transformer block × {LAYERS}"
    under = {"asked": ": ?", "told": f": {share('blocks')}"}
    return "\n".join(
        [
            outline(266, 38, 314, 208, colour, width),
            text(
                423,
                62,
                blocks + under.get(counts, ""),
                16,
                QUIET if whole == "pale" else INK,
            ),
            shortcut(
                (278, 108),
                (278, 76),
                (557, 76),
                (557, 97),
                look=look("block", "shortcut"),
            ),
            map_row(108, "attention", "attention", look),
            flow(
                (557, 119),
                (557, 142),
                (278, 142),
                (278, 188),
                (290, 188),
                look=whole,
            ),
            shortcut(
                (278, 155),
                (557, 155),
                (557, 177),
                look=look("block", "shortcut"),
            ),
            map_row(188, "feed-\nforward", "feed_forward", look),
        ]
    )


def map_row(y, label, kind, look):
    """One half of the block, centred on y: norm, layer, dropout, plus."""
    whole = look("block")
    return "\n".join(
        [
            flow((344, y), (356, y), look=whole),
            flow((448, y), (460, y), look=whole),
            flow((534, y), (546, y), look=whole),
            box(
                290, y - 22, 54, 44, "norm", "norm", look("block", "norm"), 16
            ),
            box(356, y - 22, 92, 44, label, kind, look("block", kind), 16),
            box(460, y - 22, 74, 44, "dropout", "dropout", whole, 16),
            plus(557, y, look("block", "shortcut")),
        ]
    )


def map_output(look, counts):
    """Final norm and output head, down to the logits."""
    lit = look("output")
    return "\n".join(
        [
            flow(
                (568, 188),
                (588, 188),
                (588, 75),
                (598, 75),
                look=look("block", "output"),
            ),
            flow((654, 106), (654, 124), look=lit),
            box(
                598,
                44,
                112,
                62,
                part("final norm", "final norm", counts),
                "norm",
                look("output", "norm"),
                16,
            ),
            box(
                598,
                124,
                112,
                62,
                part("head", "output head", counts),
                "head",
                lit,
                16,
            ),
            flow((654, 186), (654, 206), look=look("output", "loop")),
        ]
    )


def map_total(counts):
    """The sums of outcome 7: one block, twelve of them, the whole model."""
    total, blocks = "?", f"{LAYERS} × ? = ?"
    if counts == "told":
        total = f"{sum(COUNTS.values()):,}"
        blocks = f"{LAYERS} × {BLOCK:,} = {COUNTS['blocks']:,}"
    return "\n".join(
        [
            text(423, 235, blocks, 16),
            box(
                286,
                252,
                274,
                32,
                f"total {total} parameters",
                "data",
                "lit",
                16,
            ),
        ]
    )


# --- where the unit stands ---------------------------------------------------


def stages():
    """Building, pretraining and fine-tuning, with this unit marked."""

    def stage(x, number, name, *steps):
        return "\n".join(
            [
                outline(x, 20, 204, 254),
                badge(x + 28, 48, number),
                text(x + 50, 54, name, 18, anchor="start", bold=True),
                *steps,
            ]
        )

    return card(
        700,
        292,
        "Three stages on the way to a useful language model",
        "Stage 1 builds the model: data and tokens, attention, and the "
        "architecture, which is this unit. Stage 2 pretrains it on plain "
        "text; stage 3 fine-tunes it for a task.",
        stage(
            20,
            1,
            "building",
            box(36, 76, 172, 44, "data and tokens", "embedding", "pale"),
            box(36, 130, 172, 44, "attention", "attention", "pale"),
            box(36, 184, 172, 76, "architecture:\nthis unit", "data", "lit"),
        ),
        arrow((224, 147), (248, 147)),
        stage(
            248,
            2,
            "pretraining",
            text(350, 102, "plain text\nwithout labels"),
            arrow((350, 134), (350, 160)),
            box(264, 160, 172, 70, "model that\ncontinues text"),
        ),
        arrow((452, 147), (476, 147)),
        stage(
            476,
            3,
            "fine-tuning",
            text(578, 102, "a smaller set\nwith answers"),
            arrow((578, 134), (578, 160)),
            box(492, 160, 172, 70, "classifier\nor assistant"),
        ),
    )


def component_order():
    """The order of writing; arrows show which piece needs which."""

    def step(number, x, y, w, label, kind, look="plain"):
        return box(x, y, w, 60, label, kind, look) + "\n" + badge(x, y, number)

    return card(
        700,
        400,
        "The order in which the components are written",
        "First a skeleton of placeholders (notebook 1). Then layer norm (2), "
        "GELU and the feed-forward network (3) and the shortcut (4), which "
        "with the attention of the unit before make the transformer block "
        "(5). Blocks make the final model (6).",
        step(1, 30, 162, 116, "skeleton", "data", "empty"),
        arrow((146, 192), (196, 192)),
        outline(196, 20, 266, 344, LINE, 1.5),
        step(2, 222, 44, 214, "layer norm", "norm"),
        step(3, 222, 126, 80, "GELU", "feed_forward"),
        arrow((302, 156), (326, 156)),
        box(326, 126, 110, 60, "feed-\nforward", "feed_forward"),
        step(4, 222, 208, 214, "shortcut", "shortcut"),
        box(
            222, 290, 214, 60, "attention\n(unit before)", "attention", "pale"
        ),
        arrow((462, 192), (492, 192)),
        step(5, 492, 162, 82, "block", "data"),
        arrow((574, 192), (604, 192)),
        step(6, 604, 162, 78, "model", "data", "lit"),
        text(533, 246, "needs all\nof these", 16, QUIET),
        text(643, 246, "12 blocks", 16, QUIET),
        badge(34, 382, "n"),
        text(56, 388, "= written in notebook n", 16, anchor="start"),
    )


# --- data through the model --------------------------------------------------

COLUMNS = [84 + 112 * i for i in range(4)]  # centre of each token's column


def each(draw):
    """The piece that `draw(i, centre)` gives for each of the four tokens."""
    return "\n".join(draw(i, x) for i, x in enumerate(COLUMNS))


def downs(y, to):
    """An arrow from y down to `to` in each of the four columns."""
    return each(lambda i, x: arrow((x, y), (x, to)))


def strips(y, kind):
    """One row of cells, a token's vector, in each column."""
    return each(lambda i, x: cells(x - 45, y, 1, 5, 18, pale(COLORS[kind])))


def shape(y, numbers, words):
    """A stop's shape and what it holds, at the right margin."""
    return "\n".join(
        [
            text(496, y, numbers, 18, anchor="start", bold=True),
            text(496, y + 21, words, 16, QUIET, "start"),
        ]
    )


def data_path():
    """One four-token text from words to logits, its shape at each stop."""
    words = ["Every", "␣effort", "␣moves", "␣you"]
    ids = [6109, 3626, 6100, 345]
    return card(
        680,
        522,
        "From text to logits",
        "“Every effort moves you” becomes the token IDs 6109, 3626, 6100 and "
        "345, then four vectors of 768 numbers. The GPT blocks give four "
        "vectors of 768 again, and the head turns each into 50,257 logits.",
        each(lambda i, x: text(x, 38, words[i])),
        downs(46, 68),
        each(lambda i, x: box(x - 45, 68, 90, 36, str(ids[i]))),
        text(496, 38, "4 tokens (␣: space)", anchor="start"),
        shape(84, "1 × 4", "token IDs"),
        downs(104, 128),
        box(24, 128, 456, 44, "token + position embedding", "embedding"),
        downs(172, 196),
        strips(196, "embedding"),
        shape(198, "1 × 4 × 768", "one vector per token"),
        downs(214, 238),
        box(24, 238, 456, 64, "GPT: 12 transformer blocks, final norm"),
        downs(302, 326),
        strips(326, "norm"),
        shape(328, "1 × 4 × 768", "one vector per token"),
        downs(344, 368),
        box(24, 368, 456, 44, "output head", "head"),
        downs(412, 436),
        strips(436, "head"),
        shape(438, "1 × 4 × 50,257", "logits: a score for\neach known token"),
        each(lambda i, x: text(x, 482, "50,257", 16)),
        text(252, 508, "four rows of logits, one for each token", 16, QUIET),
    )


def gpt_model():
    """The assembled model, a shape beside each part."""

    def row(y, label, kind, size, h=40):
        return "\n".join(
            [
                box(40, y, 340, h, label, kind),
                text(412, y + h / 2 + 6, size, anchor="start"),
            ]
        )

    def down(y):
        return arrow((210, y), (210, y + 18))

    return card(
        620,
        556,
        "The assembled GPT model",
        "A text becomes token IDs of shape 1 × 4, which pick token vectors. "
        "The positions 0, 1, 2 and 3, counted and not read from the text, "
        "pick position vectors of shape 4 × 768. Their sum has shape "
        "1 × 4 × 768. Dropout, twelve blocks and the final norm keep "
        "that shape; the output head gives logits of shape 1 × 4 × 50,257.",
        box(40, 14, 340, 36, "“Every effort moves you”", "data"),
        text(412, 38, "text", anchor="start"),
        arrow((119, 50), (119, 68)),
        box(40, 68, 158, 52, "token IDs\n1 × 4", "data"),
        box(222, 68, 158, 52, "positions\n0 1 2 3", "data"),
        text(412, 88, "positions are counted,", 16, QUIET, "start"),
        text(412, 108, "the same for every text", 16, QUIET, "start"),
        arrow((119, 120), (119, 138)),
        arrow((301, 120), (301, 138)),
        box(40, 138, 158, 54, "token\nembedding", "embedding"),
        box(222, 138, 158, 54, "position\nembedding", "embedding"),
        text(210, 171, "+", 20, bold=True),
        text(412, 160, "1 × 4 × 768", anchor="start"),
        text(412, 184, "+ 4 × 768", anchor="start"),
        arrow((210, 180), (210, 212)),
        row(212, "dropout", "dropout", "1 × 4 × 768"),
        down(252),
        *(
            line(
                (40 + d, 330 + d),
                (40 + d, 336 + d),
                (380 + d, 336 + d),
                (380 + d, 270 + d),
                (374 + d, 270 + d),
            )
            for d in (6, 12)
        ),
        row(
            270,
            "transformer block\nattention, then feed-forward",
            "data",
            "1 × 4 × 768",
            66,
        ),
        text(412, 334, "12 blocks,", 16, QUIET, "start"),
        text(412, 354, "own weights", 16, QUIET, "start"),
        arrow((210, 348), (210, 366)),
        row(366, "final norm", "norm", "1 × 4 × 768"),
        down(406),
        row(424, "output head (no bias)", "head", "768 → 50,257"),
        down(464),
        row(482, "logits", "data", "1 × 4 × 50,257"),
        text(210, 544, "last row: scores for the next token", 16, QUIET),
    )


# --- parts of the block ------------------------------------------------------


def norm_axes():
    """Which cells of a (batch, features) table share one mean."""

    def table(x, name, row, words):
        left, top, columns, rows = (0, 32, 6, 1) if row else (64, 0, 1, 4)
        fill = COLORS["norm"] if row else SHADE
        return "\n".join(
            [
                text(x + 96, 40, name, 19, bold=True),
                text(x + 96, 68, "features →", 16, QUIET),
                text(x - 34, 138, "batch\n↓", 16, QUIET),
                cells(x, 76, 4, 6, 32),
                cells(x + left, 76 + top, rows, columns, 32, fill),
                outline(
                    x + left, 76 + top, 32 * columns, 32 * rows, INK, 4, 0
                ),
                text(x + 96, 238, "one mean, one variance", bold=True),
                text(x + 96, 266, words),
            ]
        )

    return card(
        620,
        306,
        "Layer norm against batch norm",
        "Two tables of four examples by six features. Layer norm takes one "
        "mean over a row, the features of one example; batch norm takes one "
        "mean over a column, one feature of all examples.",
        table(
            92,
            "layer norm",
            True,
            "over the features\nof one row",
        ),
        table(
            392,
            "batch norm",
            False,
            "over the batch,\nfor one feature",
        ),
    )


def feed_forward():
    """Expansion, GELU and contraction of one token's vector."""

    def slope(x, left, right):
        return (
            f'<g><path d="M{x} {140 - left}L{x + 104} {140 - right}'
            f'V{140 + right}L{x} {140 + left}Z" '
            f'fill="{COLORS["feed_forward"]}" stroke="{INK}" '
            'stroke-width="1.5"/>\n' + text(x + 52, 146, "linear") + "</g>"
        )

    def vector(x, count, size):
        return "\n".join(
            [
                cells(x, 140 - count * 9, count, 1, 18),
                text(x + 9, 140 + count * 9 + 24, size, 16),
            ]
        )

    def position(i):
        x = 30 + 208 * i
        return "\n".join(
            [
                cells(x, 336, 2, 1, 16),
                arrow((x + 16, 352), (x + 42, 352)),
                box(x + 42, 332, 80, 40, "same", "feed_forward"),
                arrow((x + 122, 352), (x + 148, 352)),
                cells(x + 148, 336, 2, 1, 16),
                text(x + 82, 394, f"position {i + 1}", 16),
            ]
        )

    return card(
        640,
        412,
        "The feed-forward network",
        "One token's 768 numbers are expanded to 3,072 by a linear layer, "
        "pass through GELU, and are contracted to 768 again. The same weights "
        "serve every position, and positions do not mix.",
        vector(32, 3, f"{EMB}"),
        arrow((50, 140), (80, 140)),
        slope(80, 30, 110),
        arrow((184, 140), (214, 140)),
        vector(214, 12, f"{HIDDEN:,}"),
        arrow((232, 140), (262, 140)),
        box(262, 108, 116, 64, "GELU", "feed_forward"),
        arrow((378, 140), (408, 140)),
        vector(408, 12, f"{HIDDEN:,}"),
        arrow((426, 140), (456, 140)),
        slope(456, 110, 30),
        arrow((560, 140), (590, 140)),
        vector(590, 3, f"{EMB}"),
        line((20, 288), (620, 288), colour=LINE, width=1),
        text(320, 316, "the same weights at every position", 16, QUIET),
        *map(position, range(3)),
    )


GRADIENTS = {
    False: ["0.0002017", "0.0001201", "0.0007152", "0.001399", "0.005050"],
    True: ["0.2217", "0.2069", "0.3290", "0.2666", "1.326"],
}


def layer(x, y, number, gradient, with_shortcut):
    """One layer, the way to the next one, and its mean gradient."""
    middle, sizes = x + 115, "3 → 1" if number == 5 else "3 → 3"
    parts = [
        box(
            x + 40,
            y,
            150,
            38,
            f"layer {number}: {sizes}",
            "feed_forward",
            size=16,
        ),
        text(x + 200, y + 26, gradient, anchor="start", bold=True),
        arrow((middle, y + 38), (middle, y + 86 if number < 5 else y + 62)),
    ]
    if with_shortcut and number < 5:
        parts += [
            shortcut(
                (middle, y - 16),
                (x + 20, y - 16),
                (x + 20, y + 53),
                (middle - 11, y + 53),
            ),
            plus(middle, y + 53),
        ]
    return "\n".join(parts)


def shortcut_idea():
    """One layer F and a shortcut past it: values forward, gradient back."""
    start, first, last, end = 150, 250, 430, 530

    def layer_at(y, name):
        return "\n".join(
            [
                text(20, y - 92, name, 18, anchor="start", bold=True),
                box(first, y - 28, last - first, 56, "layer F"),
            ]
        )

    def forward(y):
        return "\n".join(
            [
                layer_at(y, "forward: the values"),
                text(96, y + 6, "x"),
                arrow((112, y), (first, y)),
                arrow((last, y), (end - 11, y)),
                shortcut(
                    (start, y), (start, y - 58), (end, y - 58), (end, y - 11)
                ),
                plus(end, y),
                text(start, y + 26, "x forks", 16, COLORS["shortcut"]),
                text(
                    340,
                    y - 66,
                    "shortcut: x, unchanged",
                    16,
                    COLORS["shortcut"],
                ),
                text(474, y + 26, "F(x)", 16),
                arrow((end + 11, y), (576, y)),
                text(584, y + 6, "x + F(x)", anchor="start"),
            ]
        )

    def backward(y):
        return "\n".join(
            [
                layer_at(y, "backward: the gradient"),
                text(584, y + 6, "g, from the loss", 16, anchor="start"),
                arrow((576, y), (last, y)),
                arrow((first, y), (start + 11, y)),
                shortcut(
                    (end, y), (end, y - 58), (start, y - 58), (start, y - 11)
                ),
                text(end, y + 30, "g goes both ways", 16, COLORS["shortcut"]),
                plus(start, y),
                text(340, y - 66, "past F: g·1", 16, COLORS["shortcut"]),
                text(340, y + 52, "through F: g·F′(x)", 16),
                arrow((start - 11, y), (60, y)),
                text(14, y - 16, "g·(1 + F′(x))", 16, anchor="start"),
                text(start, y + 36, "added", 16, COLORS["shortcut"]),
            ]
        )

    return card(
        740,
        372,
        "A shortcut past one layer",
        "Forward, the input x forks: it goes through layer F and, by a "
        "dashed shortcut, past it; a plus adds both to x + F(x). Backward, "
        "the gradient g returns through F, times the slope of F, and past F, "
        "times 1; where x forked, both are added: g·(1 + F′(x)).",
        forward(118),
        backward(298),
    )


def shortcut_network():
    """The five-layer network without and with shortcuts."""

    def half(x, name, flag):
        return "\n".join(
            [
                text(x + 115, 34, name, 18, bold=True),
                text(x + 115, 66, "input [1, 0, −1]", 16),
                text(x + 200, 66, "mean |gradient|", 16, QUIET, "start"),
                arrow((x + 115, 72), (x + 115, 100)),
                *(
                    layer(x, 100 + 86 * i, i + 1, gradient, flag)
                    for i, gradient in enumerate(GRADIENTS[flag])
                ),
                text(x + 115, 526, "output → loss", 16),
            ]
        )

    return card(
        700,
        544,
        "Mean gradients in five layers",
        "Without shortcuts the mean gradient shrinks from 0.005050 in layer "
        "5 to 0.0002017 in layer 1. With shortcuts past layers 1 to 4 layer "
        "1 still has 0.2217; layer 5 has no shortcut, its shapes differ.",
        half(10, "without shortcuts", False),
        half(360, "with shortcuts", True),
    )


def transformer_block():
    """One block, two rows: attention's half and feed-forward's half."""

    def half(y, number, label, kind, words):
        return "\n".join(
            [
                shortcut((44, y - 56), (596, y - 56), (596, y - 11)),
                arrow((44, y), (72, y)),
                box(72, y - 32, 96, 64, f"norm {number}", "norm"),
                arrow((168, y), (198, y)),
                box(198, y - 32, 196, 64, label, kind),
                arrow((394, y), (424, y)),
                box(424, y - 32, 106, 64, "dropout", "dropout"),
                arrow((530, y), (585, y)),
                plus(596, y),
                text(320, y - 65, "shortcut", 16, COLORS["shortcut"]),
                text(296, y + 54, words, 16, QUIET),
            ]
        )

    return card(
        640,
        420,
        "One transformer block",
        "First half: norm 1, masked multi-head attention, dropout. Second "
        "half: norm 2, feed-forward, dropout. A dashed shortcut adds each "
        "half's input to its output; the shape stays (batch, tokens, 768).",
        text(20, 36, "in: (batch, tokens, 768)", anchor="start"),
        line((44, 46), (44, 130)),
        half(
            130,
            1,
            "masked multi-head\nattention",
            "attention",
            "tokens look at themselves and earlier tokens",
        ),
        line((596, 141), (596, 206), (44, 206), (44, 304)),
        half(304, 2, "feed-forward", "feed_forward", "each token on its own"),
        arrow((596, 315), (596, 378)),
        text(620, 400, "out: (batch, tokens, 768)", anchor="end"),
    )


def pre_post_norm():
    """The two sub-layers with the norm before and after."""

    def half(x, name, pre, words):
        middle, norm = x + 110, ("norm", "norm")

        def sub_layer(y, *step):
            inside = [norm, step] if pre else [step]
            end = y + 58 * len(inside)
            jump = [
                (middle, y - 12),
                (x + 16, y - 12),
                (x + 16, end + 11),
                (middle - 11, end + 11),
            ]
            after = (
                ""
                if pre
                else "\n".join(
                    [
                        arrow((middle, end + 22), (middle, end + 38)),
                        column(x + 40, 140, end + 38, 42, 16, [norm]),
                    ]
                )
            )
            return "\n".join(
                [
                    column(x + 40, 140, y, 42, 16, inside),
                    shortcut(*jump),
                    arrow((middle, end - 16), (middle, end)),
                    plus(middle, end + 11),
                    after,
                ]
            )

        return "\n".join(
            [
                text(middle, 36, name, 19, bold=True),
                text(middle, 62, "x", 18),
                arrow((middle, 68), (middle, 100)),
                sub_layer(100, "attention", "attention"),
                arrow((middle, 238), (middle, 268)),
                sub_layer(268, "feed-forward", "feed_forward"),
                arrow((middle, 406), (middle, 432)),
                text(middle, 458, words),
            ]
        )

    return card(
        620,
        498,
        "Pre-norm against post-norm",
        "Left, pre-norm: each norm stands before its layer, so the shortcut "
        "path runs from input to output untouched. Right, post-norm: each "
        "norm stands after the addition, on the path itself.",
        half(
            50,
            "pre-norm (GPT-2)",
            True,
            "the shortcut path\nholds additions only",
        ),
        half(
            350, "post-norm", False, "the shortcut path\npasses through norms"
        ),
    )


def weight_tying():
    """Two tables of weights, or one used at both ends."""

    def half(x, name, total, *tables):
        role = x + 128
        return "\n".join(
            [
                text(x + 135, 40, name, 19, bold=True),
                *tables,
                arrow((x + 96, 93), (role, 93)),
                box(role, 62, 142, 62, "token\nembedding", "embedding"),
                arrow((role + 71, 124), (role + 71, 150)),
                box(role, 150, 142, 70, "blocks and\nfinal norm"),
                arrow((role + 71, 220), (role + 71, 246)),
                box(role, 246, 142, 62, "output\nhead", "head"),
                arrow((x + 96, 277), (role, 277)),
                box(x, 330, 270, 40, f"{total:,} parameters", "data", "lit"),
            ]
        )

    size, total = "50,257\n× 768", sum(COUNTS.values())
    return card(
        620,
        390,
        "Weight tying",
        "Left: the token embedding and the output head each have a table of "
        "50,257 × 768 weights, 163,009,536 parameters in all. Right: one "
        "table serves both ends, 124,412,160 parameters.",
        half(
            20,
            "two tables",
            total,
            box(20, 62, 96, 62, size),
            box(20, 246, 96, 62, size),
        ),
        line((310, 24), (310, 370), colour=LINE, width=1),
        half(
            330,
            "one table, tied",
            total - COUNTS["head"],
            box(330, 62, 96, 246, "one\ntable\n" + size),
        ),
    )


# --- generation --------------------------------------------------------------


def ids_row(x, y, ids, new=0):
    """Token IDs side by side from x, 60 apart, the last `new` of them lit."""
    old = len(ids) - new
    return "\n".join(
        box(
            x + 60 * i,
            y,
            56,
            34,
            str(n),
            "data" if i < old else "head",
            "plain" if i < old else "lit",
            15,
        )
        for i, n in enumerate(ids)
    )


def bars(x, base, heights):
    """Bars 22 wide standing on y = base; the highest one is marked."""
    return "\n".join(
        f'<rect x="{x + 22 * i}" y="{base - h}" width="18" height="{h}" '
        f'fill="{COLORS["head"] if h == max(heights) else SHADE}" '
        f'stroke="{INK}"/>'
        for i, h in enumerate(heights)
    )


def one_iteration():
    """One round of the loop, from the text to one more token ID."""

    def step(x, y, number, words):
        return "\n".join(
            [
                badge(x + 14, y - 6, number),
                text(x + 34, y, words, anchor="start"),
            ]
        )

    head, table = COLORS["head"], pale(COLORS["head"])
    return card(
        680,
        474,
        "One round of generation",
        "“Hello, I am” is encoded as 15496, 11, 314, 716. The model gives "
        "four rows of logits; the last row goes through softmax, argmax picks "
        "27018, and that ID is appended to the context.",
        step(20, 38, 1, "encode"),
        box(20, 52, 132, 40, "“Hello, I am”"),
        arrow((152, 72), (184, 72)),
        ids_row(184, 55, PROMPT),
        arrow((420, 72), (452, 72)),
        step(484, 38, 2, "crop and run"),
        box(452, 52, 208, 40, "GPT"),
        arrow((572, 92), (572, 132)),
        text(562, 120, "4 × 50,257 logits", 16, QUIET, "end"),
        cells(484, 132, 4, 8, 22, table),
        cells(484, 198, 1, 8, 22, head),
        outline(484, 198, 176, 22, INK, 4, 0),
        arrow((484, 209), (444, 209)),
        step(268, 180, 3, "keep the last row"),
        cells(268, 198, 1, 8, 22, head),
        arrow((268, 209), (204, 209)),
        step(44, 168, 4, "make probabilities"),
        box(60, 187, 144, 44, "softmax"),
        arrow((132, 231), (132, 258)),
        bars(44, 344, [48, 58, 40, 54, 74, 36, 62, 44]),
        text(132, 368, "probabilities, sum 1", 16, QUIET),
        arrow((228, 313), (262, 313)),
        step(262, 276, 5, "take the largest"),
        box(262, 291, 100, 44, "argmax"),
        arrow((362, 313), (384, 313)),
        box(384, 293, 64, 40, "27018", "head", "lit"),
        text(458, 319, "decodes to “␣Feature”", 16, anchor="start"),
        arrow((416, 333), (416, 412)),
        step(20, 435, 6, "append"),
        ids_row(148, 412, [*PROMPT, 27018], new=1),
        text(458, 435, "the next round’s context", 16, anchor="start"),
    )


def six_iterations():
    """Six rounds; each appends one ID to the context."""

    def round_(i):
        y = 82 + 48 * i
        ids = [*PROMPT, *list(NEW)[: i + 1]]
        words = "“" + list(NEW.values())[i] + "”"
        return "\n".join(
            [
                badge(34, y + 17, i + 1),
                ids_row(66, y, ids, new=1),
                text(
                    66 + 60 * len(ids) + 4, y + 23, words, 16, anchor="start"
                ),
            ]
        )

    return card(
        760,
        412,
        "Six rounds of generation",
        "Six rows, one a round. The context starts as 15496, 11, 314, 716 and "
        "grows by one ID a round: 27018, 24086, 47843, 30961, 42348, 7267. "
        "The text becomes “Hello, I am Featureiman Byeswickattribute argue”.",
        text(20, 36, "round", 15, QUIET, "start"),
        text(184, 36, "“Hello, I am”"),
        line((76, 48), (302, 48)),
        text(324, 36, "one more token each round →", 16, QUIET, "start"),
        line((304, 64), (304, 368), colour=LINE, dash="4 4"),
        *map(round_, range(6)),
        text(
            380,
            396,
            "Hello, I am Featureiman Byeswickattribute argue",
            bold=True,
        ),
    )


def greedy_paths():
    """Two choices after "we", and how probable each text is as a whole."""

    def branch(y, first, chances, look, words):
        kind = "head" if look == "lit" else "data"
        middle = y + 24
        once, twice = (f"{chance:.2f}" for chance in chances)
        return "\n".join(
            [
                arrow((116, 130), (150, 130), (150, middle), (222, middle)),
                text(184, middle - 10, once, 16),
                box(222, y, 96, 48, first, kind, look),
                arrow((318, middle), (402, middle)),
                text(356, middle - 10, twice, 16),
                box(402, y, 84, 48, "and", kind, look),
                text(
                    506,
                    middle - 4,
                    f"{once} · {twice} = {chances[0] * chances[1]:.2f}",
                    18,
                    anchor="start",
                    bold=True,
                ),
                text(506, middle + 20, words, 16, QUIET, "start"),
            ]
        )

    return card(
        720,
        260,
        "The best step and the best text",
        "After “we”, greedy takes “sing”, 0.60, then “and”, 0.40: together "
        "0.24. The other branch, “dance”, 0.40, then “and”, 0.95, has 0.38.",
        box(24, 106, 92, 48, "we"),
        branch(30, "sing", (0.6, 0.4), "lit", "greedy: the best step"),
        branch(182, "dance", (0.4, 0.95), "plain", "the best text"),
    )


def kv_cache():
    """The triangle of attention in round 6: what is kept, what is new."""
    names = ["Hello", ",", "␣I", "␣am", *list(NEW.values())[:5]]
    x, side, top, count = 120, 36, 118, len(names)
    lit = COLORS["attention"]

    def row(i):
        y, new = top + i * side, i == count - 1
        look = (lit, INK) if new else (SHADE, LINE)
        return "\n".join(
            [
                text(x - 12, y + 24, names[i], 16, anchor="end", bold=new),
                cells(x, y, 1, i + 1, side, *look),
            ]
        )

    end, bottom = x + count * side, top + count * side
    return card(
        760,
        464,
        "Attention with kept keys and values",
        "A triangle of nine rows, one for each token; a row has a field for "
        "the token itself and each earlier one. Eight rows are grey: old. Of "
        "the keys and values on top, eight are kept and grey, one is new. "
        "Only the last row, with nine fields, is computed in round 6.",
        text(x, 34, "keys and values", anchor="start", bold=True),
        cells(x, 46, 1, count - 1, side, SHADE, LINE),
        cells(end - side, 46, 1, 1, side, lit),
        outline(end - side, 46, side, side, INK, 4, 0),
        text(end + 20, 62, "eight kept from earlier", 16, anchor="start"),
        text(end + 20, 82, "rounds (grey), one new", 16, anchor="start"),
        *map(row, range(count)),
        outline(x, bottom - side, count * side, side, INK, 4, 0),
        text(
            end - 40,
            top + 60,
            "36 grey fields: scores of\nold queries. The plain loop\n"
            "makes them again in each\nround, a cache does not.",
            16,
            anchor="start",
        ),
        text(
            end + 20,
            bottom - 22,
            "9 fields: the new query\nmeets all nine keys.",
            16,
            anchor="start",
            bold=True,
        ),
    )


DRAWINGS = {
    **{f"map-{n:02}": partial(model_map, n) for n in LIT},
    "stages": stages,
    "component-order": component_order,
    "data-path": data_path,
    "norm-axes": norm_axes,
    "feed-forward": feed_forward,
    "shortcut-idea": shortcut_idea,
    "shortcut-network": shortcut_network,
    "transformer-block": transformer_block,
    "pre-post-norm": pre_post_norm,
    "gpt-model": gpt_model,
    "parameter-map": parameter_map,
    "weight-tying": weight_tying,
    "one-iteration": one_iteration,
    "six-iterations": six_iterations,
    "greedy-paths": greedy_paths,
    "kv-cache": kv_cache,
}


def main(folder=Path(__file__).parent):
    """Write every drawing into the folder as <name>.svg."""
    for name, draw in DRAWINGS.items():
        path = Path(folder, f"{name}.svg")
        path.write_text(draw(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
