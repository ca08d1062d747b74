"""The command: measure, print the tables, write the JSON file."""

import argparse
from pathlib import Path

import torch

import benchmarks
from benchmarks import (
    explorers,
    forward,
    generation,
    growth,
    memory,
    notebooks,
)
from benchmarks.report import save, tables
from benchmarks.timing import THREADS

MEASUREMENTS = {
    "generation": generation.measure,
    "forward": forward.measure,
    "training": forward.measure_training,
    "memory": memory.measure,
    "suite": notebooks.measure,
    "explorers": explorers.measure,
    "growth": growth.measure,
}
RESULTS = Path(__file__).parent / "results.json"


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=benchmarks.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="measurement",
                        help=", ".join(MEASUREMENTS))  # fmt: skip
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, default=RESULTS)
    arguments = parser.parse_args(arguments)
    unknown = set(arguments.names) - set(MEASUREMENTS)
    if unknown:
        parser.error(
            f"unknown: {', '.join(sorted(unknown))}; "
            f"choose from {', '.join(MEASUREMENTS)}"
        )
    torch.set_num_threads(THREADS)
    rows = []
    for name in arguments.names or MEASUREMENTS:
        for row in MEASUREMENTS[name](arguments.quick):
            print(f"{row.measurement}: {row.what}: {row.value:.4g} {row.unit}",
                  flush=True)  # fmt: skip
            rows.append(row)
    save(rows, arguments.json)
    print(f"\n{tables(rows)}\n\nsaved: {arguments.json}")


if __name__ == "__main__":
    main()
