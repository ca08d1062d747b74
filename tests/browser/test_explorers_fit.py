"""Explorers fit what they are looked at on."""

import nbformat
import pytest
from lab import Notebook

SIZES = {
    "laptop": (1366, 768),
    "tablet": (820, 1180),
    "phone": (390, 844),
    "laptop at 200 %": (683, 384),
}
EXPLORERS = [
    "explore_configuration()",
    "explore_layer_norm()",
    "explore_gelu()",
    "explore_gradients()",
    "explore_attention()",
    "explore_model()",
    "explore_parameters()",
    "explore_generation(gptlib.GPTModel(SMALL).eval())",
]
SETUP = """
import gptlib
from classroom import explore
SMALL = gptlib.GPT_CONFIG_124M | {
    "emb_dim": 24, "n_layers": 1, "context_length": 64}
"""
MEASURE = """() => {
  const box = document.querySelector('.gpt-explorer');
  const tracks = [...box.querySelectorAll('.noUi-base')];
  return {
    height: box.offsetHeight,
    tracks: tracks.map((track) => track.offsetWidth),
    sideways: box.scrollWidth > box.clientWidth }; }"""


@pytest.fixture(scope="module", params=EXPLORERS)
def notebook(request, browser, lab):
    new, kernel = nbformat.v4, {"name": "python3", "display_name": "Python 3"}
    content = new.new_notebook(
        cells=[
            new.new_code_cell(SETUP),
            new.new_code_cell(f"explore.{request.param}"),
        ],
        metadata={"kernelspec": kernel},
    )
    nbformat.write(content, lab.root / "layout.ipynb")
    notebook = Notebook(browser.new_page(), lab, "layout.ipynb")
    notebook.command("application:toggle-left-area")
    notebook.run_all()
    yield notebook
    notebook.close()


@pytest.mark.parametrize("device", SIZES)
def test_it_fits(notebook, device):
    """Sliders that a finger can set; on a laptop all can be seen at once."""
    width, height = SIZES[device]
    notebook.page.set_viewport_size({"width": width, "height": height})
    notebook.page.wait_for_timeout(300)  # a new layout
    found = notebook.page.evaluate(MEASURE)
    assert not found["sideways"]
    assert all(track >= 160 for track in found["tracks"]), found
    if device == "laptop":
        assert found["height"] <= 610, found
