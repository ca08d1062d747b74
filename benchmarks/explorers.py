"""From a control's new value to the picture's bytes, for each explorer."""

import io

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks import models
from benchmarks.report import Row
from benchmarks.timing import best, interleaved, ratio
from classroom import explore


def measure(quick=False):
    """Rows for each explorer: the slowest of its controls."""
    for name in explore.__all__:
        make = getattr(explore, name)
        given = [models.ours(models.SMALL)] if "generation" in name else []
        explorer = make(*given)
        name = name.removeprefix("explore_")
        found = {}
        for label, control in explorer._controls.items():
            functions = {
                "explorer": presses(explorer, control),
                "bare line": bare_line,
            }
            seconds = interleaved(functions, 5 if quick else 15)
            slowness = ratio(seconds, "explorer", "bare line")
            found[label] = 1000 * best(seconds)["explorer"], slowness
        label = max(found, key=found.get)
        milliseconds, slowness = found[label]
        what = f"{name}: {label}"
        yield Row("explorers", what, milliseconds, "ms")
        yield Row("explorers", f"{what} / bare line", slowness, "×")


def presses(explorer, control):
    """A function that gives the control its next value and waits."""
    values = _values(control)

    def press():
        values.append(values.pop(0))
        control.value = values[0]
        assert explorer.picture.value

    return press


def _values(control):
    """Two values or more, to go through in turn: the present one last."""
    options = getattr(control, "options", None)
    if options is not None:
        pairs = [o if isinstance(o, tuple) else (o, o) for o in options]
        return [value for _, value in pairs]
    if isinstance(control.value, bool):
        return [True, False]
    if isinstance(control.value, str):
        return [control.value + end for end in (" on", " and on", "")]
    up = control.value + control.step <= control.max
    step = control.step if up else -control.step
    values = [control.value + number * step for number in range(1, 9)]
    values = [v for v in values if control.min <= v <= control.max]
    return [*values, control.value]


def bare_line():
    figure = Figure()
    FigureCanvasAgg(figure)
    figure.add_subplot().plot([1, 2, 3], [1, 4, 9])
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()
