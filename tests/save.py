"""Saves notebooks as they are committed, after a change or a new pin.

Usage: .venv/bin/python tests/save.py [NUMBER …]

Each named notebook (01 to 08, or all) is run in a new kernel, and its file
written again. Where nothing changed, the file stays as it was, byte by byte:
pictures that differ by the rounding of another processor, and times, which are
never twice the same, are kept. One picture does follow the processor, that of
05's cell `orders`: put it back if you did not mean to change it. In both pages
for readers, minutes, exercises and cell numbers are set.
"""

import argparse
import base64
import io
import re
from itertools import zip_longest
from pathlib import Path

import nbformat
import numpy as np
from matplotlib.image import imread
from nbclient import NotebookClient
from numpy.lib.stride_tricks import sliding_window_view

from classroom.slides import QUESTION

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
WIDGET = "application/vnd.jupyter.widget-view+json"
# Cells that print times, or draw them beside words that are always the same.
TIMED = {"nbval-ignore-output", "times"}
# A reading rate for prose between code, running a cell and looking at what it
# prints, and an exercise from an empty cell to "passed".
WORDS_A_MINUTE, CELLS_A_MINUTE, MINUTES_AN_EXERCISE = 200, 2, 10
TIME = re.compile(r"(\*\*Time:\*\* about )\d+( minutes)")
# A line that another processor's rounding moves by less than a pixel, colours
# of 0 to 1 that differ less, or so small a share of pixels, are the same.
FAINT, FEW = 0.05, 0.0002


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", metavar="NUMBER")
    numbers = parser.parse_args().numbers or [""]
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if path.name.startswith(tuple(numbers)):
            save(path)
        write_rows(path)
        write_numbers(path)


def save(path):
    """Run the notebook of this path, and write it as it is committed."""
    before = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(before, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources=resources,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
    ).execute()
    tidy(notebook, nbformat.reads(before, as_version=4))
    text = nbformat.writes(notebook) + "\n"
    if text == before:
        print(path.name, "stays as it was")
    else:
        path.write_text(text, encoding="utf-8", newline="\n")
        print(path.name, "is saved anew")


def tidy(notebook, before):
    """Leave of a run what is committed: see this file's first lines."""
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata.pop("widgets", None)
    old = {cell.id: cell for cell in before.cells}
    asked = False
    for cell in notebook.cells:
        if cell.cell_type == "code":
            hide_answer(cell, asked and cell.outputs)
            timed = TIMED.intersection(cell.metadata.get("tags", []))
            saved = old[cell.id].get("outputs", []) if cell.id in old else []
            pairs = zip_longest(cell.outputs, saved[: len(cell.outputs)])
            cell.outputs = [as_committed(*pair, timed) for pair in pairs]
        else:
            write_minutes(cell, notebook)
        asked = bool(QUESTION.search(cell.source))


def hide_answer(cell, asked):
    """JupyterLab folds what answers the question above, until it is run."""
    jupyter = dict(cell.metadata.get("jupyter", {}), outputs_hidden=True)
    if not asked:
        del jupyter["outputs_hidden"]
    cell.metadata.pop("jupyter", None)
    if jupyter:
        cell.metadata["jupyter"] = jupyter


def write_minutes(cell, notebook):
    if cell.id == "goals":
        told = rf"\g<1>{minutes(notebook)}\g<2>"
        cell.source = TIME.sub(told, cell.source)


def write_rows(path):
    """The notebook's minutes and exercises in the tables of both pages."""
    notebook, row = nbformat.read(path, as_version=4), f"| {path.name[:2]} |"
    time, count = minutes(notebook), exercises(notebook)
    for page, ends in [
        ("README.md", f"{time} |"),
        ("INSTRUCTORS.md", f"{time} | {count} |"),
    ]:
        page = NOTEBOOKS.parent / page
        old = (
            re.escape(row)
            + r" .*\| )"
            + re.sub(r"\d+", r"\\d+", re.escape(ends))
        )
        text = page.read_text(encoding="utf-8")
        text = re.sub(rf"(?m)^({old}$", rf"\g<1>{ends}", text)
        page.write_text(text, encoding="utf-8", newline="\n")


def write_numbers(path):
    """Beside the name of a cell to ask about, the number that it shows."""
    page = NOTEBOOKS.parent / "INSTRUCTORS.md"
    text = page.read_text(encoding="utf-8")
    part = re.search(rf"(?ms)^## {path.name[:2]} · .*?(?=^## )", text)[0]
    new = part
    for cell in nbformat.read(path, as_version=4).cells:
        if number := cell.get("execution_count"):
            name = f"- `{cell.id}`"
            old = rf"(?m)^{re.escape(name)}(?: \[\d+\])?:"
            new = re.sub(old, f"{name} [{number}]:", new)
    page.write_text(text.replace(part, new), encoding="utf-8", newline="\n")


def minutes(notebook):
    """How long a learner takes, rounded to five minutes."""
    code = [c for c in notebook.cells if c.cell_type == "code"]
    return 5 * round(
        (
            words(notebook) / WORDS_A_MINUTE
            + len(code) / CELLS_A_MINUTE
            + exercises(notebook) * MINUTES_AN_EXERCISE
        )
        / 5
    )


def exercises(notebook):
    """How many answers it checks."""
    code = (c for c in notebook.cells if c.cell_type == "code")
    return sum(cell.id.startswith("check-") for cell in code)


def words(notebook):
    """How many words of text it has, with its folded solutions."""
    texts = (c.source for c in notebook.cells if c.cell_type == "markdown")
    return sum(len(text.split()) for text in texts)


def as_committed(output, saved, timed):
    """The output, or the saved one if they are the same for a reader."""
    data = output.get("data", {})
    explorer = data.pop(WIDGET, None)
    if saved is None:
        return output
    if timed and not explorer:
        if _without_numbers(output) == _without_numbers(saved):
            return saved
    elif _look_alike(
        data.get("image/png"), saved.get("data", {}).get("image/png")
    ):
        data["image/png"] = saved["data"]["image/png"]
    return output


def _without_numbers(output):
    text = output.get("text") or output["data"]["text/plain"]
    return re.sub(r"[ \d.,]+", "0", text)


def _look_alike(new, old):
    """Whether two pictures, in base64, differ by no more than rounding."""
    if new is None or old is None:
        return False
    new, old = map(_pixels, (new, old))
    if new.shape != old.shape:
        return False
    edged = np.pad(old, ((1, 1), (1, 1), (0, 0)), mode="edge")
    around = sliding_window_view(edged, (3, 3), axis=(0, 1))
    darker = new < around.min(axis=(-2, -1)) - FAINT
    lighter = new > around.max(axis=(-2, -1)) + FAINT
    return bool((darker | lighter).any(axis=-1).mean() < FEW)


def _pixels(picture):
    return np.asarray(imread(io.BytesIO(base64.b64decode(picture))))


if __name__ == "__main__":
    main()
