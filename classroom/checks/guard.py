"""Run a check so that a learner's code can neither break nor bend it."""

import dataclasses
import functools

from classroom.checks import advice, standing, stubs
from classroom.checks.limit import TimeOut, run_limited
from classroom.checks.result import CheckResult, Mistake
from classroom.checks.surroundings import restored

SECONDS = 10
NOT_ATTEMPTED = CheckResult(
    "not attempted",
    None,
    "the code is still to be written. Fill in the cell above, run it, then "
    "run this check again.",
)
# Exercise name → its hints, in the order of how much they tell; its `Task`.
HINTS, TASKS = {}, {}


def exercise(*hints, task=None):
    """Make a check of a function that looks at a learner's answer.

    The function gets the answer, raises `Mistake` where it is wrong, and
    returns the sentence that a right answer earns. The check that comes out
    returns a `CheckResult` and never raises: an exception in the learner's
    code becomes a message, what takes more than ten seconds of the processor
    is stopped, printing is swallowed, and torch's and Python's state is as
    before, whatever it is.

    Args:
        hints: three, in the order of how much they tell.
        task: the `Task` that the function judges by.
    """

    def decorate(look):
        HINTS[look.__name__], TASKS[look.__name__] = hints, task

        @functools.wraps(look)
        def check(answer):
            result = NOT_ATTEMPTED
            if not stubs.is_stub(answer):
                with restored():
                    result = _verdict(look, answer)
            standing.note(look.__name__, result.status)
            if result.status == "passed":
                return result
            return dataclasses.replace(result, hints=hints)

        return check

    return decorate


def _verdict(look, answer):
    try:
        stubs.check_in_place(answer)
        praise = run_limited(functools.partial(look, answer), SECONDS)
    except Mistake as mistake:
        seen = mistake
        if mistake.name == "returns-none" and stubs.unfinished(answer):
            seen = stubs.still_to_write(answer)
    except TimeOut:
        seen = Mistake(
            "too-slow",
            f"Your code took more than {SECONDS} seconds of the processor and "
            "was stopped. Is there a loop that never ends?",
        )
    except KeyboardInterrupt:
        raise  # the learner's own wish to stop
    except BaseException as error:  # SystemExit, too, must not end a kernel
        seen = stubs.why_unwritten(error) or Mistake(
            "exception", advice.explained(error)
        )
    else:
        return CheckResult("passed", None, praise)
    message = seen.message + advice.on_config(answer)
    return CheckResult("failed", seen.name, message)
