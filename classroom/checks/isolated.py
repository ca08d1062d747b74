"""A notebook in a process of its own, which can't hold up or harm the next.

It starts in an empty folder with an empty home, imports what this process
would import, and is killed with all that it started: when it has answered,
when its time is over, or when this process ends. It is no sandbox: what a
learner wrote runs with the rights of whoever called.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from classroom.checks.verdicts import known

ROOT = str(Path(__file__).parents[2])
OF_A_USER = "IPYTHON", "JUPYTER", "MPL", "XDG_"
_ending = threading.Lock()


class Runner:
    """Runs notebooks under the same limits; ends what it started.

    Args:
        seconds: limit for a cell, which is interrupted then.
        notebook_seconds: limit for a notebook, which is killed then.
        megabytes: limit for a process's memory (on Linux).
        threads: how many torch may start.
    """

    def __init__(self, seconds, notebook_seconds, megabytes, threads=1):
        self.limits = {"seconds": seconds, "megabytes": megabytes}
        self.notebook_seconds = notebook_seconds
        self.threads = threads
        self._running = set()
        self._stopped = False

    def verdicts(self, notebook):
        """Exercise → verdict; under "error", what kept some from it."""
        with tempfile.TemporaryDirectory(
            prefix="classroom-", ignore_cleanup_errors=True
        ) as room:
            process = self._start(Path(room))
            self._running.add(process)
            try:
                return self._ask(process, notebook)
            finally:
                _end(process)
                self._running.discard(process)

    def stop(self):
        """End all that runs; what would start afterwards ends at once."""
        self._stopped = True
        for process in list(self._running):
            _end(process)

    def _start(self, room):
        # Deep, so that a cell which clears `..` or `../..` finds nothing.
        folder = room / "a" / "copy" / "of" / "it"
        folder.mkdir(parents=True)
        return subprocess.Popen(
            [sys.executable, "-m", "classroom.checks.run_cells"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=_environment(room, self.threads),
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )

    def _ask(self, process, notebook):
        if self._stopped:
            return {"error": "stopped"}
        job = {
            "cells": notebook.cells,
            "exercises": notebook.exercises,
            **self.limits,
        }
        lines = queue.SimpleQueue()
        threading.Thread(
            target=_talk,
            args=(process, json.dumps(job).encode(), lines),
            daemon=True,
        ).start()
        return self._listen(lines)

    def _listen(self, lines):
        end = time.monotonic() + self.notebook_seconds
        found, where, name = {}, "before its first cell", None
        while True:
            try:
                line = lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                after = f"after {self.notebook_seconds} s"
                return found | {"error": f"still ran {after}: {where}"}
            message = _message(line)
            if "done" in message:
                return found
            if "cell" in message:
                where = f"code cell {message['cell']}"
            elif "judged" in message:
                name = message["judged"]
                where = f"the check of {name}"
            elif "verdict" in message:
                found[name] = known(message["verdict"])
            else:
                why = "its process died (out of memory?)"
                return found | {"error": f"{why}: {where}"}


def _talk(process, job, lines):
    """Hand over the job, then pass on what comes back, b"" at its end."""
    # The pipe stays open: its end tells the process that this one is gone.
    with contextlib.suppress(OSError):
        process.stdin.write(job + b"\n")
        process.stdin.flush()
    for line in process.stdout:
        lines.put(line)
    lines.put(b"")


def _message(line):
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _environment(room, threads):
    """This process's environment, without what belongs to its user."""
    home = room / "home"
    home.mkdir()
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(OF_A_USER)
    }
    homes = "HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"
    return kept | {
        **dict.fromkeys((*homes, "TMPDIR", "TEMP", "TMP"), str(home)),
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": str(threads),
        "PYTHONIOENCODING": "utf-8",
        "PYTHONPATH": os.pathsep.join(_modules()),
        "PYTHONSAFEPATH": "1",  # not the folder that a program starts in
        # `!pip install` in a cell must not change this environment.
        "PIP_DRY_RUN": "1",
        "PIP_NO_INDEX": "1",
    }


def _modules():
    """Where this process finds modules, save for the folder it stands in."""
    here = os.getcwd()
    paths = [os.path.abspath(path) for path in sys.path]
    return [path for path in paths if path == ROOT or path != here]


def _end(process):
    """Kill a process, its group, and what it started beside the group."""
    with _ending:
        if process.returncode is not None:
            return  # the system may have given its number to another
        family = [process]
        with contextlib.suppress(psutil.Error):
            family += psutil.Process(process.pid).children(recursive=True)
        if hasattr(os, "killpg"):
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        for member in family:
            with contextlib.suppress(psutil.Error, OSError):
                member.kill()
        process.wait()
