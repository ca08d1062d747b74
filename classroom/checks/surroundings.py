"""A known state of torch and Python for a check, the learner's own after it.

torch's modes are not touched here: a check runs in a thread of its own, which
begins with none of them.
"""

import contextlib
import io
import os
import random
import sys
import warnings

import torch

# What there is once in a process: how to read it, how to write it.
STATE = [
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.get_rng_state, torch.set_rng_state),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    (lambda: vars(torch._tensor_str.PRINT_OPTS).copy(),
     lambda options: vars(torch._tensor_str.PRINT_OPTS).update(options)),
    (random.getstate, random.setstate),
    (lambda: _folder(), lambda folder: folder and os.chdir(folder)),
    (os.environ.copy, lambda variables: _refill(os.environ, variables)),
    (sys.path.copy, lambda folders: _refill(sys.path, folders)),
    (sys.getrecursionlimit, sys.setrecursionlimit),
]  # fmt: skip


@contextlib.contextmanager
def restored():
    """Begin with torch's defaults and one seed; end as it was before.

    What is printed or warned in between is swallowed.
    """
    state, numpy = STATE, sys.modules.get("numpy")
    if numpy:
        generator = numpy.random.get_state, numpy.random.set_state
        state = [*STATE, generator]
    before = [read() for read, _ in state]
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        torch.set_default_dtype(torch.float32)
        torch.set_num_threads(1)  # tiny tensors: more threads only wait
        torch.manual_seed(0)
        try:
            yield
        finally:
            for (_, write), value in zip(state, before, strict=True):
                write(value)


def _folder():
    """The current folder; None if it is gone, which is no fault here."""
    with contextlib.suppress(FileNotFoundError):
        return os.getcwd()


def _refill(container, content):
    """The same object with other content: others hold on to it."""
    if container == content:
        return
    container.clear()
    (container.update if isinstance(content, dict) else container.extend)(
        content
    )
