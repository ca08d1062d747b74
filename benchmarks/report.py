"""Figures, their aims, the README's tables and the JSON file."""

import json
import operator
import platform
from dataclasses import asdict, dataclass, fields

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


def tables(rows):
    """What the READMEs show, in Markdown: seconds of generation by way and
    length, and all figures that have an aim."""
    return f"{_generation(rows)}\n\n{_aims(rows)}"


def _generation(rows):
    lengths = {}  # measurement → way → seconds
    for row in rows:
        if row.measurement.startswith("generation") and row.unit == "s":
            ways = lengths.setdefault(row.measurement, {})
            ways[row.what] = f"{row.value:.3g}"
    ways = next(iter(lengths.values()), {})
    lines = [["seconds for", *ways], ["---", *["---:"] * len(ways)]]
    for measurement, seconds in lengths.items():
        lines.append([measurement.partition(", ")[2], *seconds.values()])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _aims(rows):
    lines = ["| | figure | | aim | met |", "|---|---|---:|---|---|"]
    before = ""
    for row in rows:
        if not row.aim:
            continue
        name = row.measurement if row.measurement != before else ""
        before = row.measurement
        value = f"{row.value:.3g} {row.unit}".strip()
        met = "yes" if row.met else "**no**"
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


def load(path):
    """The rows that `save` wrote."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    names = [field.name for field in fields(Row)]
    return [Row(**{name: row[name] for name in names}) for row in rows]


def machine():
    return {
        "system": f"{platform.system()} {platform.machine()}",
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
