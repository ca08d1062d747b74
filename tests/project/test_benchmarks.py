"""The benchmarks' arithmetic; what they measure is no matter for tests."""

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks.report import Row, load, save, tables  # noqa: E402
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


ROWS = [
    Row("generation, 10 tokens", "plain loop", 1.2345, "s"),
    Row("generation, 10 tokens", "cached", 0.5, "s"),
    Row("generation, 10 tokens", "plain / cached", 2.469, "×", "≥ 3"),
    Row("generation, 100 tokens", "plain loop", 15.04, "s"),
    Row("generation, 100 tokens", "cached", 5.0, "s"),
    Row("generation, 100 tokens", "plain / cached", 3.0, "×", "≥ 3"),
    Row("generation, 100 tokens", "with less", 2.0, "×", "≤ 3"),
]


def test_tables_show_seconds_of_generation_and_aims():
    seconds, aims = tables(ROWS).split("\n\n")
    assert seconds.splitlines() == [
        "| seconds for | plain loop | cached |",
        "| --- | ---: | ---: |",
        "| 10 tokens | 1.23 | 0.5 |",
        "| 100 tokens | 15 | 5 |",
    ]
    assert aims.splitlines()[2:] == [
        "| generation, 10 tokens | plain / cached | 2.47 × | ≥ 3 | **no** |",
        "| generation, 100 tokens | plain / cached | 3 × | ≥ 3 | yes |",
        "|  | with less | 2 × | ≤ 3 | yes |",
    ]


def test_the_file_holds_every_row(tmp_path):
    save(ROWS, tmp_path / "results.json")
    assert load(tmp_path / "results.json") == ROWS
    saved = json.loads((tmp_path / "results.json").read_text("utf-8"))
    met = [row["met"] for row in saved["rows"]]
    assert met == [None, None, False, None, None, True, True]
    assert saved["machine"]["torch"]


def test_both_pages_show_what_was_measured():
    rows = load(ROOT / "benchmarks" / "results.json")
    generation, aims = tables(rows).split("\n\n")
    for page, shown in [
        ("README.md", [generation]),
        ("benchmarks/README.md", [generation, aims]),
    ]:
        text = (ROOT / page).read_text(encoding="utf-8")
        for table in shown:
            assert f"\n{table}\n" in text, page


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
