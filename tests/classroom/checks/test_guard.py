"""A learner's code can neither break a check nor bend it."""

import random
import time

import numpy
import pytest
import torch
from torch import nn

from classroom.checks import guard
from classroom.checks.result import CheckResult, Mistake


@guard.exercise("first", "second", "third")
def doubles(answer):
    """A tiny exercise: return twice the input."""
    result = (answer() if isinstance(answer, type) else answer)(3)
    if result != 6:
        raise Mistake("not-doubled", f"3 became {result}; expected 6.")
    return "3 becomes 6."


def quiet(x):
    """Nothing yet."""


def ellipsis(x): ...


def raising(x):
    raise NotImplementedError


def raising_with_text(x):
    raise NotImplementedError("write me")


class Empty(nn.Module):
    pass


class OnlyInit(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)


class StubForward(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        raise NotImplementedError


class EllipsisForward(nn.Module):
    def forward(self, x): ...


class Plain:
    pass


@pytest.mark.parametrize(
    "answer",
    [
        None, ..., quiet, ellipsis, raising, raising_with_text, Empty,
        OnlyInit, StubForward, EllipsisForward, Plain, lambda x: None,
    ],
)  # fmt: skip
def test_an_untouched_stub_is_not_attempted(answer):
    result = doubles(answer)
    assert (result.status, result.mistake) == ("not attempted", None)


def test_a_stub_deeper_down_is_not_attempted():
    def answer(x):
        return raising(x)

    assert doubles(answer).status == "not attempted"


def test_right_and_wrong():
    assert doubles(lambda x: 2 * x) == CheckResult(
        "passed", None, "3 becomes 6."
    )
    result = doubles(lambda x: x)
    assert (result.status, result.mistake) == ("failed", "not-doubled")


def test_a_constant_answer_is_an_attempt():
    assert doubles(lambda x: 5).mistake == "not-doubled"


def test_an_exception_becomes_line_and_cause():
    def answer(x):
        y = {"a": x}
        return y["b"]  # here

    result = doubles(answer)
    assert (result.status, result.mistake) == ("failed", "exception")
    line = answer.__code__.co_firstlineno + 2
    for word in (f"line {line}", 'return y["b"]', "KeyError", "'b'"):
        assert word in result.message


def test_an_exception_inside_torch_names_the_learners_line():
    def answer(x):
        return torch.ones(2, 3) @ torch.ones(2, 3)

    assert "torch.ones(2, 3) @ torch.ones(2, 3)" in doubles(answer).message


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, RecursionError])
def test_nothing_escapes(error):
    def answer(x):
        raise error

    assert doubles(answer).mistake == "exception"


def test_the_learners_own_interrupt_does():
    def answer(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        doubles(answer)


@pytest.mark.parametrize("stubborn", [False, True])
def test_what_hangs_is_stopped(monkeypatch, stubborn):
    monkeypatch.setattr(guard, "SECONDS", 0.2)

    def answer(x):
        while True:
            try:
                time.sleep(0.01)
            except:  # noqa: E722
                if not stubborn:
                    raise

    def gives_up_late(x):
        for _ in range(3):  # swallows the first two
            try:
                while True:
                    pass
            except:  # noqa: E722
                continue
        while True:
            pass

    start = time.monotonic()
    result = doubles(gives_up_late if stubborn else answer)
    assert (result.status, result.mistake) == ("failed", "too-slow")
    assert time.monotonic() - start < 2


def test_prints_are_kept_out(capsys):
    def answer(x):
        print("debugging")
        return 2 * x

    assert doubles(answer).status == "passed"
    assert capsys.readouterr().out == ""


def test_surroundings_are_as_before():
    def answer(x):
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_grad_enabled(False)
        torch.set_num_threads(1)
        torch.manual_seed(5), torch.rand(3)
        random.seed(5), numpy.random.seed(5)
        return 2 * x

    torch.set_num_threads(2)
    states = (
        torch.get_rng_state().tolist(),
        random.getstate(),
        numpy.random.get_state()[1].tolist(),
    )
    with torch.no_grad():
        assert doubles(answer).status == "passed"
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float32
    assert torch.get_default_device() == torch.device("cpu")
    assert torch.get_num_threads() == 2
    assert states == (
        torch.get_rng_state().tolist(),
        random.getstate(),
        numpy.random.get_state()[1].tolist(),
    )


def test_a_check_starts_from_a_known_state():
    seen = []

    def answer(x):
        seen.append((torch.rand(1).item(), torch.is_grad_enabled()))
        return 2 * x

    torch.manual_seed(1)
    doubles(answer)
    torch.manual_seed(2)
    with torch.no_grad():
        doubles(answer)
    assert seen[0] == seen[1] and seen[0][1]


def test_hints_come_one_by_one_and_the_last_stays(capsys):
    for _ in range(4):
        guard.hint("doubles")
    assert capsys.readouterr().out.splitlines() == [
        "Hint 1 of 3: first",
        "Hint 2 of 3: second",
        "Hint 3 of 3: third",
        "Hint 3 of 3: third",
    ]


def test_an_unknown_exercise_has_no_hint():
    with pytest.raises(KeyError, match="no exercise 'doulbes'"):
        guard.hint("doulbes")


def test_a_result_says_status_by_sign_and_word():
    for status, sign in (
        ("passed", "✓"), ("failed", "✗"), ("not attempted", "○"),
    ):  # fmt: skip
        result = CheckResult(status, "an-id", "a < b")
        assert str(result) == f"{sign} {status} [an-id]: a < b"
        html = result._repr_html_()
        assert f"{sign} {status}" in html and "a &lt; b" in html


def test_colors_have_contrast():
    from classroom.checks.result import COLORS

    def luminance(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [
            p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4
            for p in parts
        ]
        return sum(
            w * p
            for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True)
        )

    for text, background in COLORS.values():
        light, dark = luminance(background), luminance(text)
        assert (light + 0.05) / (dark + 0.05) >= 4.5
