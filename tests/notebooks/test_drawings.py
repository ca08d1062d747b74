"""The drawings: up to date, readable, accessible, and right in numbers."""

import re
import xml.etree.ElementTree as ET
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from classroom.picture import COLORS
from gptlib.config import GPT_CONFIG_124M
from gptlib.memory import count_parameters
from gptlib.shortcut import ExampleDeepNeuralNetwork, gradient_means
from gptlib.tokenizer import gpt2_tokenizer

IMAGES = Path(__file__).parents[2] / "notebooks" / "images"
_spec = spec_from_file_location("drawings", IMAGES / "drawings.py")
drawings = module_from_spec(_spec)
_spec.loader.exec_module(drawings)
SVG = "{http://www.w3.org/2000/svg}"
EXPECTED = {
    *(f"map-{n:02}" for n in range(1, 9)),
    "stages",
    "component-order",
    "data-path",
    "norm-axes",
    "feed-forward",
    "shortcut-idea",
    "shortcut-network",
    "transformer-block",
    "pre-post-norm",
    "gpt-model",
    "parameter-map",
    "weight-tying",
    "one-iteration",
    "six-iterations",
    "greedy-paths",
    "kv-cache",
}
every_drawing = pytest.mark.parametrize("name", sorted(EXPECTED))


def root(name):
    return ET.fromstring(drawings.DRAWINGS[name]())


def words(name):
    return [element.text for element in root(name).iter(f"{SVG}text")]


def numbers(name):
    """The whole numbers that a drawing shows, thousands commas removed."""
    found = re.findall(r"\d[\d,]*", " ".join(words(name)))
    return [int(number.replace(",", "")) for number in found]


def luminance(colour):
    colour = {"black": "#000000", "white": "#FFFFFF"}.get(colour, colour)
    linear = [
        (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)
        for c in (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def extent(element):
    """Left and right end of a text, in px, set in DejaVu Sans."""
    font = FontProperties(
        family="DejaVu Sans", weight=element.get("font-weight", "normal")
    )
    size = float(element.get("font-size"))
    width = TextPath((0, 0), element.text, size, prop=font).get_extents().x1
    shift = {"start": 0, "middle": 0.5, "end": 1}[element.get("text-anchor")]
    left = float(element.get("x")) - shift * width
    return left, left + width


def test_contrast_of_the_extremes():
    assert contrast("black", "white") == pytest.approx(21)


def test_there_is_a_file_for_every_drawing_and_no_other():
    assert {path.stem for path in IMAGES.glob("*.svg")} == EXPECTED
    assert set(drawings.DRAWINGS) == EXPECTED


@every_drawing
def test_committed_file_is_up_to_date(name):
    content = (IMAGES / f"{name}.svg").read_bytes().decode()
    assert content == drawings.DRAWINGS[name]()
    assert content.endswith("</svg>\n")
    assert len(content.encode()) < 15_000


def test_main_writes_every_drawing(tmp_path):
    drawings.main(tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == EXPECTED


@every_drawing
def test_a_screen_reader_hears_what_is_shown(name):
    svg = root(name)
    assert svg.get("role") == "img"
    assert svg.find(f"{SVG}title").text
    assert len(svg.find(f"{SVG}desc").text) > 60


@every_drawing
def test_it_stands_on_a_white_card_of_its_own_size(name):
    svg = root(name)
    x, y, width, height = map(float, svg.get("viewBox").split())
    card = svg.find(f"{SVG}rect")
    assert (x, y, width) == (0, 0, float(svg.get("width")))
    assert (float(card.get("width")), float(card.get("height"))) == (
        width,
        height,
    )
    assert card.get("fill") == "white" and float(card.get("rx")) > 0
    assert 600 <= width <= 880
    assert height <= (300 if name.startswith("map") else 560)


@every_drawing
def test_colours_are_the_components_or_greys(name):
    allowed = {
        *COLORS.values(),
        *map(drawings.pale, COLORS.values()),
        "black",
        "white",
        "none",
        "url(#hatch)",
        drawings.QUIET,
        drawings.LINE,
        drawings.SHADE,
    }
    used = {
        element.get(key)
        for element in root(name).iter()
        for key in ("fill", "stroke")
    } - {None}
    assert used <= allowed


@pytest.mark.parametrize("kind", COLORS)
def test_a_box_takes_its_colour_from_the_one_list(kind, monkeypatch):
    monkeypatch.setitem(COLORS, kind, "#123456")
    assert 'fill="#123456"' in drawings.box(0, 0, 90, 40, "a", kind)


@every_drawing
def test_text_is_large_enough_and_inside_the_card(name):
    svg = root(name)
    for element in svg.iter(f"{SVG}text"):
        left, right = extent(element)
        assert float(element.get("font-size")) >= 15
        assert left >= 8, element.text
        assert right <= float(svg.get("width")) - 8, element.text


def groups(name):
    """Each group that carries words, as (shapes, texts)."""
    for group in root(name).iter(f"{SVG}g"):
        shapes = [
            e
            for e in group
            if e.get("fill", "").startswith(("#", "black", "white"))
            and e.tag != f"{SVG}text"
        ]
        yield shapes, group.findall(f"{SVG}text")


@every_drawing
def test_text_can_be_read_on_what_it_stands_on(name):
    inside = []
    for shapes, texts in groups(name):
        inside += [text.get("x") + text.get("y") for text in texts]
        for text in texts:
            for shape in shapes:
                assert contrast(text.get("fill"), shape.get("fill")) >= 4.5
    for text in root(name).iter(f"{SVG}text"):
        if text.get("x") + text.get("y") not in inside:
            assert contrast(text.get("fill"), "white") >= 4.5


@every_drawing
def test_labels_fit_their_boxes(name):
    for shapes, texts in groups(name):
        if shapes[0].tag == f"{SVG}rect":
            x, y, w, h = (
                float(shapes[0].get(key))
                for key in ("x", "y", "width", "height")
            )
            for text in texts:
                left, right = extent(text)
                assert x + 2 <= left and right <= x + w - 2, text.text
                assert y < float(text.get("y")) <= y + h, text.text


def test_dropout_is_hatched_wherever_it_is_filled():
    assert "url(#hatch)" in drawings.box(0, 0, 90, 40, "dropout", "dropout")
    assert "url(#hatch)" not in drawings.box(0, 0, 90, 40, "norm", "norm")


def test_a_shortcut_is_a_dashed_arrow():
    assert "stroke-dasharray" in drawings.shortcut((0, 0), (0, 40))
    assert "stroke-dasharray" not in drawings.arrow((0, 0), (0, 40))


@pytest.mark.parametrize("outcome", range(1, 9))
def test_each_map_says_where_you_are(outcome):
    name = f"map-{outcome:02}"
    assert words(name).count("you are here") == 1


@pytest.mark.parametrize(
    "outcome, kind, boxes",
    [(2, "norm", 3), (3, "feed_forward", 1), (4, "norm", 0), (8, "head", 0)],
)
def test_each_map_lights_its_own_part_only(outcome, kind, boxes):
    svg = root(f"map-{outcome:02}")
    fills = [rect.get("fill") for rect in svg.iter(f"{SVG}rect")]
    assert fills.count(COLORS[kind]) == boxes
    full = set(fills) & set(COLORS.values())
    assert full == ({COLORS[kind]} if boxes else set())


def test_the_parameters_on_the_map_add_up():
    total = count_parameters(GPT_CONFIG_124M)
    shown = numbers("parameter-map")
    parts = [38_597_376, 786_432, 85_026_816, 1_536, 38_597_376]
    assert sum(parts) == total == 163_009_536
    assert 12 * 7_085_568 == 85_026_816
    assert {*parts, 7_085_568, total} <= set(shown)
    assert shown.count(38_597_376) == 2


def test_the_first_map_asks_for_what_the_second_tells():
    assert not set(numbers("map-07")) & set(numbers("parameter-map")) - {12}
    asked = [word for word in words("map-07") if "?" in word]
    assert len(asked) == 7  # four parts, the blocks, their sum, the total


def test_the_two_totals_of_weight_tying():
    tied = count_parameters(GPT_CONFIG_124M, tied=True)
    assert {163_009_536, tied} <= set(numbers("weight-tying"))
    assert tied == 124_412_160


@pytest.mark.parametrize("use_shortcut", [False, True])
def test_the_gradients_beside_the_layers(use_shortcut):
    import torch

    torch.manual_seed(123)
    model = ExampleDeepNeuralNetwork([3, 3, 3, 3, 3, 1], use_shortcut)
    means = gradient_means(model, torch.tensor([[1.0, 0.0, -1.0]]))
    shown = [float(g) for g in drawings.GRADIENTS[use_shortcut]]
    assert shown == pytest.approx(list(means.values()), rel=5e-4)
    assert set(drawings.GRADIENTS[use_shortcut]) <= set(
        words("shortcut-network")
    )


def test_the_token_ids_are_those_of_the_words():
    tokenizer = gpt2_tokenizer()
    assert tokenizer.encode("Hello, I am") == drawings.PROMPT
    for token, word in drawings.NEW.items():
        assert tokenizer.decode([token]) == word.replace("␣", " ")
    text = tokenizer.decode([*drawings.PROMPT, *drawings.NEW])
    assert text in words("six-iterations")
    ids = tokenizer.encode("Every effort moves you")
    assert set(ids) <= set(numbers("data-path"))


def test_the_context_grows_by_one_id_a_round():
    shown = numbers("six-iterations")
    assert [shown.count(token) for token in drawings.NEW] == [6, 5, 4, 3, 2, 1]


def test_kept_keys_and_values_are_those_of_old_tokens():
    read = len(drawings.PROMPT) + 5  # in round 6
    old = sum(range(1, read))
    assert [f"{old} grey fields", f"{read} fields"] == [
        line.partition(":")[0] for line in words("kv-cache") if "field" in line
    ]


def test_the_best_step_is_not_the_best_text():
    shown = " ".join(words("greedy-paths"))
    assert "0.60 · 0.40 = 0.24" in shown and "0.40 · 0.95 = 0.38" in shown
