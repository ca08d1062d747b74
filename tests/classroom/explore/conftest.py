"""What the tests of the explorers share."""

import ipywidgets as widgets
import pytest


def controls_of(box):
    """Every widget with a label, inside groups too."""
    for child in box.children:
        if isinstance(child, widgets.Box):
            yield from controls_of(child)
        elif getattr(child, "description", ""):
            yield child


def _settings(control):
    """The ends and the steps beside the ends and the default."""
    if isinstance(control, widgets.Checkbox):
        return [not control.value, control.value]
    if hasattr(control, "_options_values"):
        return list(control._options_values)
    if hasattr(control, "limits"):
        (low, high), step = control.limits, 1
    elif hasattr(control, "step"):
        low, high, step = control.min, control.max, control.step
    else:
        return []
    near = [low, low + step, control.value - step, control.value + step]
    return [v for v in [*near, high - step, high] if low <= v <= high]


@pytest.fixture
def control():
    def find(explorer, label):
        """The one control whose label starts with `label`."""
        found = [
            c for c in controls_of(explorer) if c.description.startswith(label)
        ]
        assert len(found) == 1, label
        return found[0]

    return find


@pytest.fixture
def sweep():
    def sweep(explorer):
        """Move each control over its range: it changes what is shown.

        Returns the sentences shown for impossible settings.
        """
        impossible = []
        for control in list(controls_of(explorer)):
            start, seen = explorer.description, set()
            for value in _settings(control):
                control.value = value
                seen.add(explorer.description)
                assert "gpt-error" not in explorer.words.value, value
                if "gpt-impossible" in explorer.words.value:
                    impossible.append(explorer.description)
            assert not _settings(control) or seen != {start}, control
            explorer.reset.click()
            assert explorer.description == start
        return impossible

    return sweep
