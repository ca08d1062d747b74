"""Run one notebook's cells in this process, then judge its answers.

`classroom.checks.isolated` starts this as a process of its own and kills it
when it is done or out of time. One line of JSON comes in: cells, exercises
and limits. A line goes out for each cell that begins and for each verdict.
"""

import _thread
import contextlib
import json
import os
import re
import signal
import sys
import threading

from ipykernel.compiler import XCachingCompiler
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from classroom import checks

UNREADABLE = "SyntaxError", "IndentationError", "TabError"


class Shell(InteractiveShell):
    """A notebook's shell without a kernel, which shows nothing."""

    def enable_gui(self, gui=None):
        pass

    def showtraceback(self, *args, **kwargs):
        pass

    def showsyntaxerror(self, *args, **kwargs):
        pass


def main():
    job, report = _take_over()
    judges = {name: getattr(checks, name) for name in job["exercises"]}
    _limit_memory(job["megabytes"])
    shell = _shell()
    errors = []
    for number, cell in enumerate(job["cells"], start=1):
        report(cell=number)
        errors.append(_run(shell, cell, job["seconds"]))
    for name, answer in job["exercises"].items():
        report(judged=name)
        if answer in shell.user_ns:
            verdict = _judged(judges[name], shell.user_ns[answer])
        else:
            verdict = f"missing ({_why(answer, job['cells'], errors)})"
        report(verdict=verdict)
    report(done=True)


def _take_over():
    """The job, and a way to report that no print of a learner's disturbs."""
    job = json.loads(sys.stdin.buffer.readline())
    alive, out = os.dup(0), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)

    def die_with_parent():
        os.read(alive, 1)  # returns when the other end is closed
        os._exit(1)

    def report(**message):
        out.write(json.dumps(message).encode() + b"\n")
        out.flush()

    threading.Thread(target=die_with_parent, daemon=True).start()
    return job, report


def _limit_memory(megabytes):
    """On Linux; elsewhere there is no such limit."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        limit = megabytes * 1024**2
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _shell():
    config = Config()
    config.HistoryManager.enabled = False
    shell = Shell.instance(config=config, compiler_class=XCachingCompiler)
    # Pictures are not looked at, so they need not be drawn.
    shell.display_formatter.active_types = ["text/plain"]
    return shell


def _run(shell, cell, seconds):
    """Name of the exception that ended the cell, or None."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(seconds, _interrupt)
    timer.daemon = True
    timer.start()
    try:
        result = shell.run_cell(cell)
        error = result.error_before_exec or result.error_in_exec
    except BaseException as escaped:
        error = escaped
    finally:
        timer.cancel()
    return error and type(error).__name__


def _interrupt():
    if os.name == "nt":
        _thread.interrupt_main()
    else:
        os.kill(os.getpid(), signal.SIGINT)


def _judged(check, answer):
    """A word, also where a cell bent the check itself."""
    try:
        result = check(answer)
        return str(result.mistake or result.status)
    except BaseException:
        return "invalid"


def _why(answer, cells, errors):
    """Why nothing of an answer's name exists after all cells."""
    ended = list(zip(cells, errors, strict=True))
    if any(answer in cell and e in UNREADABLE for cell, e in ended):
        return "syntax error in its cell"
    defines = re.compile(rf"^\s*((class|def)\s+{answer}\b|{answer}\s*=)", re.M)
    tried = [error for cell, error in ended if defines.search(cell)]
    setup = [e for cell, e in ended if e and "from classroom import" in cell]
    if not tried or not tried[-1]:
        return "never defined"
    if setup:
        return f"setup cell failed: {setup[0]}"
    if tried[-1] == "KeyboardInterrupt":
        return "its cell was stopped"
    return f"its cell raised {tried[-1]}"


if __name__ == "__main__":
    main()
