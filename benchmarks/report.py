"""Figures, their aims, the table and the JSON file."""

import json
import operator
import platform
from dataclasses import asdict, dataclass

import torch

from benchmarks.timing import THREADS

HOLDS = {"≥": operator.ge, "≤": operator.le}


@dataclass
class Row:
    """One figure; `aim` is a sign and a number, such as "≥ 1.25"."""

    measurement: str
    what: str
    value: float
    unit: str
    aim: str = ""

    @property
    def met(self):
        if not self.aim:
            return None
        sign, number = self.aim.split()
        return bool(HOLDS[sign](self.value, float(number)))


def table(rows):
    """The rows as a Markdown table."""
    lines = ["| | figure | | aim | met |", "|---|---|---:|---|---|"]
    before = ""
    for row in rows:
        name = row.measurement if row.measurement != before else ""
        before = row.measurement
        met = {None: "", True: "yes", False: "**no**"}[row.met]
        value = f"{row.value:.4g} {row.unit}".strip()
        lines.append(f"| {name} | {row.what} | {value} | {row.aim} | {met} |")
    return "\n".join(lines)


def save(rows, path):
    """Rows and the machine that they were measured on, as JSON."""
    content = {
        "machine": machine(),
        "rows": [asdict(row) | {"met": row.met} for row in rows],
    }
    text = json.dumps(content, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def machine():
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "threads": THREADS,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "kernels": torch.backends.cpu.get_cpu_capability(),
    }


def _processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line for line in file if line.startswith("model name")]
    except OSError:
        return platform.processor()
    return names[0].split(":")[1].strip() if names else platform.machine()
