"""What this process may use of the machine: processors and memory.

A container, or one account on a class server, is often granted less than the
hardware has. Linux keeps such limits as files of control groups, version 1 or
2; where there are none, the hardware is the limit.

Nothing here needs torch: it runs before torch is loaded, which would otherwise
start a thread for each of the host's processors.
"""

import math
import os
from pathlib import Path

ROOT = Path("/")


def cpus():
    """Number of processors that this process can keep busy, at least 1.

    A quota of 2.5 processors counts as 2: three threads would use it up
    before its period ends, and then all of them wait.
    """
    if hasattr(os, "sched_getaffinity"):
        allowed = [len(os.sched_getaffinity(0))]
    else:
        allowed = [os.cpu_count() or 1]
    for group in _groups("cpu"):
        found = _numbers(group / "cpu.max") or [
            *_numbers(group / "cpu.cfs_quota_us"),
            *_numbers(group / "cpu.cfs_period_us"),
        ]
        if found:
            quota, period = found
            allowed.append(quota / period)
    return max(1, int(min(allowed)))


def free_memory():
    """Bytes that this process can still take; None without Jupyter."""
    try:
        import psutil  # which Jupyter's kernel needs
    except ImportError:
        return None
    free = [psutil.virtual_memory().available]
    for group in _groups("memory"):
        limit = _numbers(group / "memory.max") or _numbers(
            group / "memory.limit_in_bytes"
        )
        used = _numbers(group / "memory.current") or _numbers(
            group / "memory.usage_in_bytes"
        )
        if limit and used:
            free.append(limit[0] - used[0] + _cached_files(group))
    return max(0, min(free))


def _cached_files(group):
    """Bytes of files kept in memory, which counts them, until it is short."""
    lines = _text(group / "memory.stat").splitlines()
    stat = dict(line.split() for line in lines)
    return sum(
        int(stat.get(f"total_{name}", stat.get(name, 0)))
        for name in ("active_file", "inactive_file")
    )


def _groups(controller):
    """Folders of the groups around this process, the innermost first."""
    for line in _text(ROOT / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue  # version 1 has a tree for each; version 2 names none
        top = ROOT / "sys/fs/cgroup" / (controller if controllers else "")
        parts = Path(path).parts[1:]
        for count in reversed(range(len(parts) + 1)):
            yield top.joinpath(*parts[:count])


def _numbers(path):
    """Numbers in a file: none if there is no file, infinity for no limit."""
    words = _text(path).split()
    return [math.inf if w in ("max", "-1") else int(w) for w in words]


def _text(path):
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
