"""The benchmarks' arithmetic; what they measure is no matter for tests."""

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from benchmarks.report import Row, save, table  # noqa: E402
from benchmarks.timing import best, interleaved, ratio  # noqa: E402


@pytest.mark.parametrize(
    "value, aim, met",
    [
        (1.25, "≥ 1.25", True),
        (1.24, "≥ 1.25", False),
        (0.5, "≤ 0.5", True),
        (0.51, "≤ 0.5", False),
        (7.0, "", None),
    ],
)
def test_an_aim_is_met_or_not(value, aim, met):
    assert Row("m", "w", value, "s", aim).met is met


def test_table_and_file_hold_every_row(tmp_path):
    rows = [Row("one", "a", 1.5, "s"), Row("one", "b", 2.0, "×", "≥ 3")]
    assert table(rows).splitlines()[2:] == [
        "| one | a | 1.5 s |  |  |",
        "|  | b | 2 × | ≥ 3 | **no** |",
    ]
    save(rows, tmp_path / "results.json")
    saved = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert [row["met"] for row in saved["rows"]] == [None, False]
    assert saved["machine"]["torch"]


def test_calls_take_turns():
    calls = []
    functions = {name: lambda name=name: calls.append(name) for name in "ab"}
    seconds = interleaved(functions, {"a": 3, "b": 2})
    assert "".join(calls) == "ab" + "ab" + "ab" + "a"
    assert [len(times) for times in seconds.values()] == [3, 2]


def test_ratio_is_the_median_over_the_rounds():
    seconds = {"other": [2.0, 9.0, 4.0], "ours": [1.0, 1.0, 2.0]}
    assert ratio(seconds, "other", "ours") == 2
    assert best(seconds) == {"other": 2.0, "ours": 1.0}


def test_the_command_names_what_it_can_measure(capsys):
    pytest.importorskip("transformers")
    command = importlib.import_module("benchmarks.__main__")
    with pytest.raises(SystemExit):
        command.main(["generation", "nothing"])
    answer = capsys.readouterr().err
    assert "unknown: nothing; choose from generation, forward" in answer
