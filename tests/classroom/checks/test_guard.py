"""A learner's code can neither break a check nor bend it."""

import os
import random
import re
import sys
import threading
import time
import warnings

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
        StubForward, EllipsisForward, Plain, lambda x: None,
    ],
)  # fmt: skip
def test_an_untouched_stub_is_not_attempted(answer):
    result = doubles(answer)
    assert (result.status, result.mistake) == ("not attempted", None)


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


def observed():
    """All of torch's and Python's state that an answer could change."""
    return {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "threads": torch.get_num_threads(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "precision": torch.get_float32_matmul_precision(),
        "modes": torch.overrides._get_current_function_mode_stack(),
        "printed": repr(torch.tensor([1.23456789])),
        "generators": (
            torch.get_rng_state().tolist(),
            random.getstate(),
            numpy.random.get_state()[1].tolist(),
        ),
        "warnings": (list(warnings.filters), warnings.showwarning),
        "python": (
            os.getcwd(), dict(os.environ), list(sys.path),
            sys.getrecursionlimit(), sys.stdout, sys.stderr, sys.getprofile(),
            threading.stack_size(),
        ),
    }  # fmt: skip


def changes_everything(x):
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.autograd.set_detect_anomaly(True)
    torch.set_float32_matmul_precision("medium")
    torch.set_printoptions(precision=1)
    torch.autocast("cpu", torch.bfloat16).__enter__()
    torch.inference_mode().__enter__()
    torch.manual_seed(5), random.seed(5), numpy.random.seed(5)
    warnings.simplefilter("error")
    os.chdir("/")
    os.environ["LEARNER"] = "was here"
    sys.path.insert(0, "/nowhere")
    sys.setrecursionlimit(400)
    return 2 * x


def test_surroundings_are_as_before():
    torch.set_num_threads(2)
    before = observed()
    assert doubles(changes_everything).status == "passed"
    assert observed() == before


@pytest.mark.parametrize(
    "mode",
    [
        lambda: torch.no_grad(),
        lambda: torch.inference_mode(),
        lambda: torch.device("meta"),
        lambda: torch.autocast("cpu", torch.bfloat16),
    ],
)
def test_a_check_is_the_same_in_every_mode(mode):
    def answer(x):
        layer = nn.Linear(3, 3)
        out = layer(torch.ones(2, 3))
        out.sum().backward()
        assert layer.weight.grad.dtype == out.dtype == torch.float32
        assert out.device.type == "cpu"
        return 2 * x

    with mode():
        before = observed()
        result = doubles(answer)
        assert observed() == before
    assert result.status == "passed", result


def test_a_check_needs_no_current_folder(tmp_path):
    gone, here = tmp_path / "gone", os.getcwd()
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    try:
        assert doubles(lambda x: 2 * x).status == "passed"
    finally:
        os.chdir(here)


class Watching(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def test_a_mode_of_the_learners_sees_nothing_of_a_check():
    with Watching() as mode:
        assert doubles(lambda x: int(2 * torch.ones(x).sum())).mistake is None
        assert mode.seen == []


def test_it_works_in_a_thread_of_the_learners():
    results = []
    thread = threading.Thread(
        target=lambda: results.append(doubles(lambda x: 2 * x))
    )
    thread.start()
    thread.join()
    assert results[0].status == "passed"


def test_what_hangs_in_a_thread_is_stopped_too(monkeypatch):
    monkeypatch.setattr(guard, "SECONDS", 0.2)

    def answer(x):
        while True:
            pass

    results = []
    thread = threading.Thread(target=lambda: results.append(doubles(answer)))
    thread.start()
    thread.join(5)
    assert results[0].mistake == "too-slow"


def test_what_waits_forever_is_left_behind(monkeypatch):
    monkeypatch.setattr(guard, "SECONDS", 0.1)
    start = time.monotonic()
    assert doubles(lambda x: time.sleep(20)).mistake == "too-slow"
    assert time.monotonic() - start < 5


def test_waiting_for_a_busy_machine_is_no_fault(monkeypatch):
    monkeypatch.setattr(guard, "SECONDS", 0.5)

    def answer(x):
        time.sleep(1)  # as if other processes had the processor
        return 2 * x

    assert doubles(answer).status == "passed"


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


def test_what_did_not_pass_shows_hints_each_folded_in_the_one_before():
    for answer in (lambda x: 3 * x, lambda x: None):
        html = doubles(answer)._repr_html_()
        first, second, third = (
            html.index(f"<summary>Hint {n} of 3</summary>{word}")
            for n, word in enumerate(("first", "second", "third"), 1)
        )
        assert first < second < third
        assert html.endswith("</details></details></details></div>")


def test_what_passed_shows_none():
    assert "Hint" not in doubles(lambda x: 2 * x)._repr_html_()


def test_hints_are_no_part_of_the_verdict():
    result = doubles(lambda x: 3 * x)
    assert result == CheckResult(result.status, result.mistake, result.message)
    assert "first" not in str(result)


@pytest.mark.parametrize(
    "sentence, code",
    [
        ("Write `a < b` there.", ["a &lt; b"]),
        ("x.mean(dim=-1) has no keepdim", ["x.mean(dim=-1)"]),
        ("call super().__init__() first", ["super().__init__()"]),
        ("emb_dim and n_heads, not heads", ["emb_dim", "n_heads"]),
        ("look at self.layers, then on.", ["self.layers"]),
        ("nn.Linear(d, 4 * d) of f(g(x)) in it",
         ["nn.Linear(d, 4 * d)", "f(g(x))"]),
        ("a shape (2, 4) and a mean of 0.5; e.g. 2 bias(es)", []),
    ],
)  # fmt: skip
def test_code_in_a_message_looks_like_code(sentence, code):
    html = CheckResult("failed", None, sentence)._repr_html_()
    assert re.findall("<code>(.*?)</code>", html) == code


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

    for text, background, edge in COLORS.values():
        for page in ("#ffffff", "#111111"):  # JupyterLab's two themes
            pair = sorted((luminance(edge), luminance(page)))
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 3
        light, dark = luminance(background), luminance(text)
        assert (light + 0.05) / (dark + 0.05) >= 4.5
