"""Controls, a picture and words about it: what all explorers share."""

import threading
from html import escape
from pathlib import Path

import anywidget
import ipywidgets as widgets
from traitlets import Unicode

# JupyterLab may handle two controls in two threads at once (its issue 19719):
# the one that draws last must have read the values last.
ONE_AT_A_TIME = threading.RLock()

KEPT = " The picture is grey: it still shows the last possible setting."


class _Page(anywidget.AnyWidget):
    """Nothing to see: what this page of an explorer needs beside widgets."""

    _esm = Path(__file__).parent / "page.js"
    _css = Path(__file__).parent / "page.css"


class _Image(widgets.Image):
    """An image with a name: the page wants `description` beside a tooltip."""

    description = Unicode("").tag(sync=True)
    tooltip = Unicode(
        "This explorer's picture; the words below it say what it shows."
    ).tag(sync=True)


class _Number(widgets.IntText):
    """A number with limits: a BoundedIntText changes others in silence."""

    limits = None


class Explorer(widgets.VBox):
    """Controls over a picture over the words that describe it.

    Each change of a control calls `draw` with the values of all controls, by
    name, and shows the Picture that it returns. A ValueError's sentence is
    shown in place of the words, and so is any other error, with its type;
    the picture then turns grey. Without a kernel, the picture of the first
    values shows.

    Args:
        draw: values of the controls, by name → Picture.
        controls: name → control, or group's heading → such a dict.
    """

    def __init__(self, draw, controls):
        self._draw = draw
        self._controls, groups = {}, {}
        for name, control in controls.items():
            one = control if isinstance(control, dict) else {name: control}
            heading = name if isinstance(control, dict) else ""
            self._controls |= one
            groups.setdefault(heading, []).extend(one.values())
        self._defaults, self._restoring = self._values(), False
        for control in self._controls.values():
            control.observe(self._update, "value")
        self.reset = widgets.Button(
            description="Reset", layout={"width": "6em"}
        )
        self.reset.on_click(self._restore)
        self.picture = _Image(
            format="png",
            layout=widgets.Layout(align_self="flex-start", max_width="100%"),
        )
        self.words = widgets.HTML().add_class("gpt-words")
        list(groups.values())[-1].append(self.reset)
        view = widgets.Box([self.picture, self.words]).add_class("gpt-view")
        rows = [_row(*group) for group in groups.items()]
        super().__init__([*rows, view, _Page()])
        self.add_class("gpt-explorer")
        self._first = self._update(), self.description

    def _values(self):
        return {name: _value(c) for name, c in self._controls.items()}

    def _update(self, change=None):
        with ONE_AT_A_TIME:
            return None if self._restoring else self._show()

    def _show(self):
        """Draw, or say why not; returns the picture, or None."""
        try:
            picture = self._draw(**self._values())
            self.picture.value = picture.png()
        except Exception as error:  # shown here, or it would be nowhere
            self._explain(error)
            return None
        self.picture.remove_class("gpt-stale")
        self._say(picture.description)
        return picture

    def _explain(self, error):
        sentence = str(error.args[0]) if error.args else str(error)
        if isinstance(error, ValueError):
            kind, heading = "gpt-impossible", "Not possible"
        else:
            kind, heading = "gpt-error", type(error).__name__
        kept = KEPT if self.picture.value else ""
        self.picture.add_class("gpt-stale")
        self._say(sentence + kept, kind, heading)

    def _say(self, text, kind="gpt-shown", heading=""):
        self.description = text
        heading = f"<b>⚠ {escape(heading)}</b>" if heading else ""
        words = f'<div class="{kind}">{heading}{escape(text)}</div>'
        self.words.value = words

    def _restore(self, button=None):
        """The first values again, drawn once."""
        with ONE_AT_A_TIME:
            self._restoring = True  # else each control would draw a picture
            for name, control in self._controls.items():
                control.value = self._defaults[name]
            self._restoring = False
            self._show()

    def _repr_mimebundle_(self, **kwargs):
        data = super()._repr_mimebundle_(**kwargs)
        picture, description = self._first
        data["text/plain"] = description
        if picture is None:
            return data
        shown, look = picture._repr_mimebundle_()
        return shown | data, look


def slider(label, value, least, most, step=1):
    """A slider over whole numbers.

    The label says the unit, where there is one.
    """
    return widgets.IntSlider(
        value, min=least, max=most, step=step, **_look(label)
    )


def steps(label, options, value):
    """A slider over listed values, for steps that are not equal or whole.

    (A FloatSlider's value comes back from the page as 3.0000000000000004.)
    """
    return widgets.SelectionSlider(
        options=options, value=value, **_look(label)
    )


def number(label, value, least, most):
    """A field to type a whole number into; arrow keys change it by 1."""
    field = _Number(value, **_look(label))
    field.limits = least, most
    return field


def choice(label, options, value=None):
    """Buttons of which one is on; `options` are texts or text → value."""
    buttons = widgets.ToggleButtons(options=options, **_look(label, "auto"))
    buttons.style.button_width = "auto"
    if value is not None:
        buttons.value = value
    return buttons


def switch(label, value=False):
    """A box to tick."""
    look = {"width": "auto", "margin": "2px 2em 2px 2px"}
    return widgets.Checkbox(
        value, description=label, indent=False, layout=look
    )


def text(label, value):
    """A line of text, read as it is typed."""
    return widgets.Text(value, **_look(label, "34em"))


def _value(control):
    """What the control is set to.

    Raises:
        ValueError: it is a number that the control does not take.
    """
    value, limits = control.value, getattr(control, "limits", None)
    if limits and not limits[0] <= value <= limits[1]:
        least, most = limits
        raise ValueError(
            f"The {control.description} must be from {least} to {most}: "
            f"{value} is not."
        )
    return value


def _look(label, width="174px"):
    return {
        "description": label,
        "style": {"description_width": "auto"},
        "layout": {"flex": f"1 1 {width}", "max_width": "28em"},
    }


def _row(heading, controls):
    row = widgets.Box(list(controls)).add_class("gpt-controls")
    if not heading:
        return row
    name = widgets.HTML(escape(heading)).add_class("gpt-heading")
    return widgets.VBox([name, row])
