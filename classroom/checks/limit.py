"""Run a learner's code for a limited time, in a thread of its own.

torch keeps its modes (device, gradients, inference, autocast, functions) for
each thread: in a new one none is on, and those that the code leaves on end
with it. What can't be stopped, like a call that never comes back from native
code, is left behind, and the notebook goes on.
"""

import ctypes
import threading
import time

STACK = 16 * 1024**2  # bytes; macOS gives threads too few for deep calls
POLL, PATIENCE = 0.005, 1.0  # seconds


class TimeOut(BaseException):
    """Not an Exception, so that a learner's `except` lets it through."""


def run_limited(function, seconds):
    """What a function returns or raises.

    Args:
        function: called without arguments.
        seconds: of the process's CPU time, so that a busy machine is no
            fault; of waiting, six times as many.

    Raises:
        TimeOut: it takes longer.
    """
    ended = []

    def work():
        try:
            ended.append((function(), None))
        except BaseException as error:  # raised again below
            ended.append((None, error))

    before = threading.stack_size(STACK)
    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()
    finally:
        threading.stack_size(before)
    try:
        in_time = _wait(thread, seconds)
    except KeyboardInterrupt:  # the learner's own wish to stop
        _stop(thread)
        raise
    if not in_time:
        _stop(thread)
        raise TimeOut
    result, error = ended[0]
    if error is not None:
        raise error
    return result


def _wait(thread, seconds):
    """Whether the thread ends in time."""
    cpu, clock = time.process_time(), time.monotonic()
    pause = POLL
    while thread.is_alive():
        thread.join(pause)
        pause = min(2 * pause, 0.1)
        late = (
            time.process_time() - cpu > seconds
            or time.monotonic() - clock > 6 * seconds
        )
        if late and thread.is_alive():
            return False
    return True


def _stop(thread):
    """Raise TimeOut in the thread, again where a bare `except` caught it."""
    until = time.monotonic() + PATIENCE
    while thread.is_alive() and time.monotonic() < until:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(TimeOut)
        )
        thread.join(0.05)
