"""What a check answers."""

import re
from dataclasses import dataclass, field
from html import escape

SIGNS = {"passed": "✓", "failed": "✗", "not attempted": "○"}
# Text, background and edge. Text and background together, so that both
# JupyterLab themes can read them; the edge is seen on either theme's page.
COLORS = {
    "passed": ("#0b3d1f", "#e3f4e8", "#009e73"),
    "failed": ("#5c1300", "#fdeae3", "#d55e00"),
    "not attempted": ("#33373d", "#eceff2", "#7a828c"),
}
ARGUMENTS = r"\((?!e?s\))(?:[^()]|\([^()]*\))*\)"
# What reads as code in a sentence: `in backticks`, a call, a dotted name, or
# a name with an underscore.
CODE = re.compile(
    r"`(?P<quoted>[^`]+)`|(?P<bare>"
    rf"\b[A-Za-z_]\w*(?:\.\w+)*{ARGUMENTS}(?:\.\w+(?:{ARGUMENTS})?)*"
    r"|\b(?:self|torch|nn|F|math|x)\.[A-Za-z_][\w.]*\w"
    r"|\b[A-Za-z]+(?:_[A-Za-z0-9]+)+\b)"
)


@dataclass(frozen=True)
class CheckResult:
    """The verdict on a learner's answer.

    Attributes:
        status: "passed", "failed" or "not attempted".
        mistake: a short stable name of the mistake, or None.
        message: what was seen, what was expected, and where to look.
        hints: what a notebook shows folded below, each inside the one before.
    """

    status: str
    mistake: str | None
    message: str
    hints: tuple = field(default=(), compare=False)

    def __repr__(self):
        name = f" [{self.mistake}]" if self.mistake else ""
        return f"{SIGNS[self.status]} {self.status}{name}: {self.message}"

    def _repr_html_(self):
        name = f" <code>{escape(self.mistake)}</code>" if self.mistake else ""
        verdict = f"<strong>{SIGNS[self.status]} {self.status}</strong>{name}"
        return panel(
            self.status,
            f"{verdict}: {code_in(self.message)}{_folded(self.hints)}",
        )


def panel(status, html):
    """A box in the colours of a status."""
    text, background, edge = COLORS[status]
    return (
        f'<div style="color:{text};background:{background};'
        f"border-left:6px solid {edge};padding:8px 12px;white-space:pre-line;"
        f'overflow-wrap:break-word">{html}</div>'
    )


def code_in(sentence):
    """HTML of a sentence, with what is code in it set as code."""

    def mark(found):
        return f"<code>{found['quoted'] or found['bare']}</code>"

    return CODE.sub(mark, escape(sentence, quote=False))


def _folded(hints, number=1):
    if number > len(hints):
        return ""
    return (
        f"<details><summary>Hint {number} of {len(hints)}</summary>"
        f"{code_in(hints[number - 1])}{_folded(hints, number + 1)}</details>"
    )


class Mistake(Exception):
    """Ends a check: the answer is wrong, and this is how.

    Args:
        name: short stable name of the mistake, such as "biased-variance".
        message: what was seen (with numbers), what was expected, where to
            look, without giving the answer away.
    """

    def __init__(self, name, message):
        super().__init__(message)
        self.name = name
        self.message = message
