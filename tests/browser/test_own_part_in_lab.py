"""A learner's own class in an explorer, in the browser."""

CODE = """
import torch
from torch import nn
from classroom import explore

class MyGELU(nn.Module):
    def forward(self, x):  # the exercise's formula, and a quarter too much
        share = 1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3))
        return 0.5 * x * share + 0.25

explore.explore_gelu(MyGELU)
"""


def test_what_differs_is_said_at_each_setting(run):
    notebook = run(CODE)
    notebook.check(60)
    explorer = notebook.explorer()
    told = "Yours differs by up to 0.2500, most at x = "
    assert told in explorer.shown()["words"]
    seen = set()
    for slider in explorer.sliders():
        for keys in explorer.keys(slider):
            shown = explorer.press(slider, *keys)
            seen.add(shown["words"])
            assert told in shown["words"] and shown["picture"] != "grey"
    assert len(seen) > 3
    assert told in explorer.reset()["words"]
    notebook.check()
