"""Numbers in the text are those that the cells hold or print.

Only numbers of three digits and more: of fewer, any notebook has each by
chance. A number is known if a number in the code or the saved outputs of the
same notebook rounds to it, in ones, thousands or millions.
"""

import re
from pathlib import Path

import pytest
from test_notebook_format import NAMES, code_cells, read

UNITS = 1, 1e3, 1e6
NUMBER = re.compile(r"(?<![\w.,])\d[\d_,]*(?:\.\d+)?(?![\w%])")
# What no cell holds: the text works it out before the reader, or quotes it.
WORKED_OUT = {
    "01": "2,048 0.2506 1,023 573,440 896 "  # examples, a softmax, exercise 2
    "312 3290 26081 582 5,232 7.39 "  # MB, IDs, a count and e² on paper
    "117 175 1,411 355 665",  # as published, and their ratio
    "02": "4,096 6,144 1,536 38,400 1.41 124 767",  # products, √2, n − 1
    "03": "1.28",  # read off SiLU's curve in the explorer
    "04": "221 625",  # 0.0257 / 0.000116, 5⁴
    "05": "1,536",  # 2 × 768
    # MB of the model, √2, two models' difference, ln 101 + 1/6
    "06": "652 1.414 7,152 4.78",
    "07": "2,048 4,194,304 7,085,568 52.2 "  # tables, and the map's shares
    "117 345 762 1,542 1,558 "  # as published
    "1,150 151 496 248 4,096 1,557,611,200",  # estimates, and the answers'
    "08": "124 652 1,025 50256",  # the model's size, 1,024 + 1, a special ID
}


def digits(text):
    return text.replace(",", "").replace("_", "").strip("0.").replace(".", "")


def numbers(text):
    """The numbers of a text, without years and what has few digits."""
    found = {n.rstrip(",_") for n in NUMBER.findall(text)}
    return {
        number
        for number in found
        if len(digits(number)) >= 3 and not re.fullmatch("(19|20)..", number)
    }


def value(number):
    return float(number.replace(",", "").replace("_", ""))


def told(notebook):
    """What the code cells hold and print."""
    for cell in code_cells(notebook):
        yield cell.source
        for output in cell.outputs:
            yield output.get("text", "")
            yield output.get("data", {}).get("text/plain", "")


def unknown(notebook):
    """(cell, number) where the text has one that no code holds or prints."""
    known = {value(n) for text in told(notebook) for n in numbers(text)}
    for cell in notebook.cells:
        if cell.cell_type != "markdown" or cell.id == "goals":
            continue
        text = re.sub(r"```.*?```|\]\([^)]*\)", "", cell.source, flags=re.S)
        for number in sorted(numbers(text)):
            places = len(number.partition(".")[2])
            rounded = {
                round(k / unit, places) for k in known for unit in UNITS
            }
            if value(number) not in rounded:
                yield cell.id, number


@pytest.mark.parametrize("name", NAMES)
def test_a_range_in_the_text_is_that_of_the_cell_below(name):
    """Or of a cell above, if that one makes none."""
    cells, above = read(name).cells, ""
    for text, code in zip(cells, cells[1:], strict=False):
        if text.cell_type == "markdown" and code.cell_type == "code":
            above += code.source
            made = code.source if "linspace(" in code.source else above
            plain = text.source.replace("−", "-")
            for ends in re.findall(r"(?<!\w)\[(-\d+, \d+)\]", plain):
                assert f"linspace({ends}," in made, (
                    f"{text.id} says [{ends}], unlike cell {code.id}"
                )


@pytest.mark.parametrize("name", NAMES)
def test_numbers_in_the_text_are_those_of_the_cells(name):
    allowed = WORKED_OUT[name[:2]].split()
    found = list(unknown(read(name)))
    new = [
        f"{number} in {id}" for id, number in found if number not in allowed
    ]
    assert not new, (
        f"{name} holds and prints none of these numbers of its text: {new}. "
        "Correct the text, or add what it works out itself to WORKED_OUT in "
        f"{Path(__file__).name}."
    )
    assert set(allowed) == {number for _, number in found}, "WORKED_OUT is old"
