"""What a check answers."""

from dataclasses import dataclass
from html import escape

SIGNS = {"passed": "✓", "failed": "✗", "not attempted": "○"}
# Text and background together, so that both JupyterLab themes can read them.
COLORS = {
    "passed": ("#0b3d1f", "#e3f4e8"),
    "failed": ("#5c1300", "#fdeae3"),
    "not attempted": ("#33373d", "#eceff2"),
}


@dataclass(frozen=True)
class CheckResult:
    """The verdict on a learner's answer.

    Attributes:
        status: "passed", "failed" or "not attempted".
        mistake: a short stable name of the mistake, or None.
        message: what was seen, what was expected, and where to look.
    """

    status: str
    mistake: str | None
    message: str

    def __repr__(self):
        name = f" [{self.mistake}]" if self.mistake else ""
        return f"{SIGNS[self.status]} {self.status}{name}: {self.message}"

    def _repr_html_(self):
        text, background = COLORS[self.status]
        name = f" <code>{escape(self.mistake)}</code>" if self.mistake else ""
        return (
            f'<div style="color:{text};background:{background};'
            f"border-left:6px solid {text};padding:8px 12px;"
            f'white-space:pre-wrap"><strong>{SIGNS[self.status]} '
            f"{self.status}</strong>{name}: {escape(self.message)}</div>"
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
