"""What is saved of an explorer: its picture, which outlives the kernel."""

import copy
import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from classroom.settings import WIDGET, leave_pictures

PICTURE = {"image/png": "aGk=", "text/plain": "a picture"}
WIDGET_ONLY = {WIDGET: {"model_id": "1"}, "text/plain": "IntSlider()"}


def notebook(*bundles):
    outputs = [
        nbformat.v4.new_output("display_data", data=dict(data))
        for data in bundles
    ]
    cell = nbformat.v4.new_code_cell(outputs=outputs)
    text = nbformat.v4.new_markdown_cell("text")
    return nbformat.v4.new_notebook(cells=[text, cell])


def saved(content, type="notebook"):
    model = {"type": type, "content": content, "format": "json"}
    leave_pictures(model=model, path="a.ipynb", contents_manager=None)
    return model["content"]


def test_where_a_picture_stands_only_the_picture_is_saved():
    found = saved(notebook(PICTURE | {WIDGET: {"model_id": "1"}}, PICTURE))
    assert [o.data for o in found.cells[1].outputs] == [PICTURE, PICTURE]


def test_other_widgets_stay_as_they_are():
    before = notebook(WIDGET_ONLY)
    before.metadata["widgets"] = {"state": {}}
    assert saved(copy.deepcopy(before)) == before


@pytest.mark.parametrize("content, type", [("text", "file"), (None, "file")])
def test_other_files_stay_as_they_are(content, type):
    assert saved(content, type) == content


def test_a_notebook_of_an_old_format_stays_as_it_is():
    old = nbformat.v3.new_notebook()
    assert saved(copy.deepcopy(old)) == old


def test_the_server_of_this_environment_does_so():
    place = "etc/jupyter/jupyter_server_config.d/gpt-part-by-part.json"
    assert Path(sys.prefix, place).is_file(), "pip install -e ."
    told = subprocess.run(
        [sys.executable, "-m", "jupyter", "server", "extension", "list"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = re.findall(r"classroom\.settings .*", told.stdout + told.stderr)
    enabled, valid = lines
    assert "enabled" in enabled and "OK" in valid


def test_jupyterlab_of_this_environment_names_pictures():
    place = Path(sys.prefix, "share/jupyter/labextensions/gpt-part-by-part")
    about = json.loads((place / "package.json").read_text("utf-8"))
    assert (place / about["jupyterlab"]["_build"]["load"]).is_file()
