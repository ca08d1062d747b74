"""Run a check so that a learner's code can neither break nor bend it."""

import contextlib
import dis
import functools
import io
import linecache
import random
import signal
import sys
import sysconfig
import threading
import traceback
import warnings
from pathlib import Path

import torch
from torch import nn

import gptlib
from classroom.checks.result import CheckResult, Mistake

SECONDS = 10
NOT_ATTEMPTED = CheckResult(
    "not attempted",
    None,
    "the code is still to be written. Fill in the cell above, run it, then "
    "run this check again.",
)
_TORCH_SAYS = "missing the required", "not implemented for", "of meta tensor"
# Exercise name → its hints, in the order of how much they tell; its `Task`.
HINTS, TASKS = {}, {}
_hints_given = {}


def exercise(*hints, task=None):
    """Make a check of a function that looks at a learner's answer.

    The function gets the answer, raises `Mistake` where it is wrong, and
    returns the sentence that a right answer earns. The check that comes out
    returns a `CheckResult` and never raises: an exception in the learner's
    code becomes a message, one that hangs is stopped after ten seconds
    (where signals exist and in the main thread: not on Windows), printing
    is swallowed, and torch's state is as before.

    Args:
        hints: three, in the order of how much they tell.
        task: the `Task` that the function judges by.
    """

    def decorate(look):
        HINTS[look.__name__], TASKS[look.__name__] = hints, task

        @functools.wraps(look)
        def check(answer):
            if is_stub(answer):
                return NOT_ATTEMPTED
            with _surroundings_restored():
                return _verdict(look, answer)

        return check

    return decorate


def hint(name):
    """The next of an exercise's hints; the last one stays.

    Raises:
        KeyError: there is no such exercise.
    """
    if name not in HINTS:
        raise KeyError(
            f"There is no exercise {name!r}; there are "
            f"{', '.join(sorted(HINTS))}."
        )
    number = min(_hints_given.get(name, 0) + 1, len(HINTS[name]))
    _hints_given[name] = number
    print(f"Hint {number} of {len(HINTS[name])}: {HINTS[name][number - 1]}")


def _verdict(look, answer):
    try:
        with _time_limit(SECONDS):
            praise = look(answer)
    except Mistake as mistake:
        return CheckResult("failed", mistake.name, mistake.message)
    except NotImplementedError as error:
        # torch's own, for a call of a module without forward or of softmax
        # on whole numbers, is no stub.
        if any(words in str(error) for words in _TORCH_SAYS):
            return CheckResult("failed", "exception", _explained(error))
        return NOT_ATTEMPTED
    except _TimeOut:
        return CheckResult(
            "failed",
            "too-slow",
            f"your code was still running after {SECONDS} seconds and was "
            "stopped. Look for a loop that never ends.",
        )
    except KeyboardInterrupt:
        raise  # the learner's own wish to stop
    except BaseException as error:  # SystemExit, too, must not end a kernel
        return CheckResult("failed", "exception", _explained(error))
    return CheckResult("passed", None, praise)


# --- stubs ---------------------------------------------------------------


def is_stub(answer):
    """Whether an answer is still as empty as the exercise gave it."""
    if answer is None or answer is Ellipsis:
        return True
    if not isinstance(answer, type):
        return _is_empty(answer)
    forward = getattr(answer, "forward", None)
    return (
        forward is None or forward is nn.Module.forward or _is_empty(forward)
    )


def _is_empty(function):
    """Whether a function does nothing but return None or raise
    NotImplementedError, whatever way that is written."""
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    done = [step for step in dis.get_instructions(code)]
    names = {s.opname for s in done} - {"RESUME", "NOP", "COPY_FREE_VARS"}
    if names <= {"LOAD_CONST", "RETURN_CONST", "RETURN_VALUE"}:
        return all(
            step.argval is None
            for step in done
            if step.opname.endswith("_CONST")
        )
    raised = {s.argval for s in done if s.opname == "LOAD_GLOBAL"}
    return raised == {"NotImplementedError"} and "RAISE_VARARGS" in names


# --- surroundings --------------------------------------------------------


@contextlib.contextmanager
def _surroundings_restored():
    """A known state for the check, the learner's own state afterwards."""
    numpy = sys.modules.get("numpy")
    before = (
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.get_num_threads(),
        random.getstate(),
        numpy and numpy.random.get_state(),
    )
    with (
        torch.random.fork_rng(devices=[]),
        torch.enable_grad(),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        torch.set_num_threads(1)  # tiny tensors: more threads only wait
        torch.manual_seed(0)
        try:
            yield
        finally:
            dtype, device, threads, state, numpy_state = before
            torch.set_default_dtype(dtype)
            # None for cpu: with a device, each call of torch takes a detour.
            torch.set_default_device(None if device.type == "cpu" else device)
            torch.set_num_threads(threads)
            random.setstate(state)
            if numpy:
                numpy.random.set_state(numpy_state)


class _TimeOut(BaseException):
    """Not an Exception, so that a learner's `except` lets it through."""


@contextlib.contextmanager
def _time_limit(seconds):
    possible = hasattr(signal, "setitimer") and (
        threading.current_thread() is threading.main_thread()
    )
    if not possible:
        yield
        return

    def stop(number, frame):
        raise _TimeOut

    previous = signal.signal(signal.SIGALRM, stop)
    # Again and again: a bare `except:` in a loop catches the first.
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


# --- exceptions ----------------------------------------------------------

_NOT_THE_LEARNERS = [
    str(Path(__file__).parent.parent),  # classroom, which calls the learner
    str(Path(gptlib.__file__).parent),  # called by the learner
    str(Path(torch.__file__).parent),
    sysconfig.get_path("stdlib"),
    "<",
]


def _explained(error):
    """One sentence: the learner's line, and what went wrong there."""
    what = f"{type(error).__name__}: {error}".strip().split("\n")[0]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith(tuple(_NOT_THE_LEARNERS)):
            continue
        line = frame.line or linecache.getline(frame.filename, frame.lineno)
        return (
            f"line {frame.lineno} of your cell, `{line.strip()}` in "
            f"{frame.name}, raised {what}"
        )
    return f"your code could not be used as the exercise asks: {what}"
