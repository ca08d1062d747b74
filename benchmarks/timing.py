"""Times of functions that are called in turn."""

import statistics
import time

THREADS = 2


def interleaved(functions, rounds):
    """Seconds of each call: all functions once, then all again.

    Neighbours in time are disturbed alike by what else the machine does, so
    their ratio stays when their times do not.

    Args:
        functions: name → function without arguments; each is called once
            more beforehand.
        rounds: how many times, or name → how many times.

    Returns:
        name → list of seconds.
    """
    if isinstance(rounds, int):
        rounds = dict.fromkeys(functions, rounds)
    for name, function in functions.items():
        if rounds[name] > 1:  # else the call is a long one
            function()
    seconds = {name: [] for name in functions}
    for number in range(max(rounds.values())):
        for name, function in functions.items():
            if number < rounds[name]:
                seconds[name].append(_seconds(function))
    return seconds


def ratio(seconds, other, ours):
    """How many times as long `other` takes, in the median over the rounds."""
    pairs = zip(seconds[other], seconds[ours], strict=False)
    return statistics.median(a / b for a, b in pairs)


def best(seconds):
    """name → the shortest time: the one that was disturbed least."""
    return {name: min(times) for name, times in seconds.items()}


def _seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
