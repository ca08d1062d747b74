"""Time for one more token against length and against batch, drawn."""

from pathlib import Path

import matplotlib.style
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from transformers import DynamicCache

from benchmarks import models
from benchmarks.report import Row
from benchmarks.timing import best, interleaved
from classroom.picture import LINES, STYLE
from gptlib import to_input_major
from gptlib.cache import new_cache, read

PICTURE = Path(__file__).parent / "growth.png"
LENGTHS = (4, 16, 64, 256, 1023)
BATCHES = (1, 2, 4, 8, 16, 32)
PLAIN, CACHED, THEIRS = "plain loop", "cached", "Hugging Face"


@torch.no_grad()
def measure(quick=False):
    """Rows for lengths (batch 1) and batches (length 64); the picture."""
    model = to_input_major(models.ours())
    theirs = models.hugging_face()
    lengths = LENGTHS[:3] if quick else LENGTHS
    batches = BATCHES[:3] if quick else BATCHES
    panels = {
        "tokens before it (one text)": {
            n: _step(model, theirs, 1, n) for n in lengths
        },
        "texts in the batch (64 tokens each)": {
            b: _step(model, theirs, b, 64) for b in batches
        },
    }
    for what, found in panels.items():
        for number, seconds in found.items():
            for name, shortest in seconds.items():
                label = f"{name}, {number} {what}"
                yield Row("growth, one token", label, 1000 * shortest, "ms")
    _draw(panels).savefig(PICTURE)


def _step(model, theirs, batch, length):
    """Seconds for one more token after `length` tokens, by each way."""
    ids = torch.zeros(batch, length + 1, dtype=torch.long)
    new = ids[:, -1:]
    cache = new_cache(model, batch, length + 1)
    read(model, ids[:, :-1], cache, 0)
    past = DynamicCache()
    theirs(ids[:, :-1], cache=past, logits_to_keep=1)

    def their_step():
        theirs(new, cache=past)
        past.crop(-1)  # forget the token again

    functions = {
        PLAIN: lambda: model(ids)[:, -1].argmax(-1),
        CACHED: lambda: read(model, new, cache, length).argmax(-1),
        THEIRS: their_step,
    }
    rounds = dict.fromkeys(functions, 15) | {PLAIN: 3}
    return best(interleaved(functions, rounds))


def _draw(panels):
    with matplotlib.style.context(["default", STYLE]):
        figure = Figure(figsize=(10, 4.5), dpi=100, layout="constrained")
        both = figure.subplots(1, 2, sharey=True)
        looks = list(zip((PLAIN, CACHED, THEIRS), LINES, strict=False))
        for axes, (what, found) in zip(both, panels.items(), strict=True):
            for name, look in looks:
                times = [1000 * seconds[name] for seconds in found.values()]
                axes.loglog(list(found), times, label=name, **look)
            axes.set_xticks(list(found), [str(number) for number in found])
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.minorticks_off()
            axes.set_xlabel(what)
        both[0].set_ylabel("milliseconds for one more token")
        both[0].legend(frameon=False)
    return figure
