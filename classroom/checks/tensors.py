"""Tensors side by side: do they agree, and where are they farthest apart?"""

import torch

from classroom.checks.result import Mistake


def same(a, b, rtol=1e-4, atol=1e-5, equal_nan=False):
    """Whether two tensors agree, up to rounding, or two errors in kind."""
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return type(a) is type(b)
    if a.shape != b.shape:
        return False
    a, b = a.detach().double(), b.detach().double()
    return torch.allclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def expect_tensor(output, shape, where="The output"):
    """Raise `Mistake` unless `output` is a tensor of this shape."""
    if output is None:
        raise Mistake(
            "returns-none",
            f"{where} is None: does every path end in a return?",
        )
    if not isinstance(output, torch.Tensor):
        raise Mistake(
            "wrong-type",
            f"{where} is of type {type(output).__name__}; expected a tensor "
            f"of shape {tuple(shape)}.",
        )
    if tuple(output.shape) != tuple(shape):
        raise Mistake(
            "wrong-shape",
            f"{where} has shape {tuple(output.shape)}; expected "
            f"{tuple(shape)}.",
        )


def difference(output, expected, what="output"):
    """How an output, or the error in its place, is off, as a sentence."""
    if isinstance(output, Exception):
        error = str(output).split("\n")[0].rstrip(".")
        return f"It stops with {type(output).__name__}: {error}."
    if output.shape != expected.shape:
        return (
            f"Your {what} has shape {tuple(output.shape)}; expected "
            f"{tuple(expected.shape)}."
        )
    place = farthest(output, expected)
    given, wanted = told_apart(output[place], expected[place])
    return (
        f"Number {[int(index) for index in place]} of your {what}, of shape "
        f"{tuple(output.shape)}, is {given}; expected {wanted}."
    )


def farthest(output, expected):
    """The index at which two tensors differ most."""
    gap = (output.detach().double() - expected.detach().double()).abs()
    gap = gap.nan_to_num(nan=torch.inf)
    # torch.unravel_index would load a third of a second's worth of modules.
    return tuple((gap == gap.max()).nonzero()[0])


def told_apart(one, other):
    """Two numbers with so many digits that one can see which is which."""
    for digits in range(4, 10):
        shown = number(one, digits), number(other, digits)
        if shown[0] != shown[1]:
            break
    return shown


def number(value, digits=4):
    """A number as learners read it: few significant digits, and no -0."""
    if isinstance(value, torch.Tensor):
        value = value.item()  # without torch's warning about its gradient
    return f"{float(value) + 0.0:.{digits}g}"
