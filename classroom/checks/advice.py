"""What an exception in a learner's code means, in a sentence or two."""

import dis
import linecache
import re
import sysconfig
import traceback
import types
from itertools import pairwise
from pathlib import Path

import torch

import gptlib

NOT_THE_LEARNERS = (
    str(Path(__file__).parents[1]),  # classroom, which calls the learner
    str(Path(gptlib.__file__).parent),  # called by the learner
    str(Path(torch.__file__).parent),
    sysconfig.get_path("stdlib"),
    "<frozen",
    "<string>",
)
# What an error says → what beginners did, in most cases.
ADVICE = [
    (r"is not a Module subclass",
     "nn.Sequential takes modules, one by one. Is there a list without a "
     "star in front, or a class without its brackets, as in GELU for "
     "GELU()?"),
    (r"before Module.__init__\(\) call",
     "The first line of __init__ has to be super().__init__()."),
    (r"name 'self' is not defined|takes \d+ positional arguments? but \d+ "
     r"(was|were) given",
     "Is `self` the first parameter of each method? And is __init__ written "
     "with two underscores on each side?"),
    (r"must be tuple of ints|must be int, not float|'float' object cannot be "
     "interpreted as an integer|found element of type float",
     "A size must be a whole number: `/` gives a float, `//` an int."),
    (r"mat1 and mat2 shapes cannot be multiplied|"
     r"size mismatch, got input|Expected size for first two dimensions",
     "Either two sizes do not fit (print the shapes), or `@` stands where "
     "numbers are to be multiplied one by one, with `*`."),
    (r"must be Tensor, not (float|int)|only (one-element|integer) tensors|"
     r"only tensors? with one element can be converted|"
     r"only 0-dimensional arrays|Tensor with \d+ elements cannot be converted",
     "Functions of `math` take one number; for tensors torch has its own, "
     "such as torch.tanh."),
    (r"'tuple' object has no attribute|'list' object has no attribute",
     "A tuple or list came where a tensor was expected. Print its type one "
     "line before."),
    (r"'NoneType' object",
     "Something is None: does the function before it end in a return?"),
    (r"a leaf Variable that requires grad|modified by an inplace operation",
     "An assignment works in place: write x = x + y for x += y."),
    (r"object has no attribute",
     "Is the attribute spelt as in __init__, and assigned to `self` there?"),
]  # fmt: skip


def explained(error):
    """The learner's line, what went wrong there, and what that may mean."""
    what = f"{type(error).__name__}: {error}".strip().split("\n")[0]
    what = what if len(what) <= 240 else f"{what[:240]} …"
    told = f"Your code could not be used as the exercise asks: {what}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(NOT_THE_LEARNERS):
            told = (
                f"In {frame.name}, line {frame.lineno} of your cell, "
                f"`{_line(frame).strip()}`, raised {what}"
            )
            break
    for pattern, advice in ADVICE:
        if re.search(pattern, str(error)):
            return f"{told.rstrip('.')}. {advice}"
    return told


def on_config(answer):
    """A remark if code that is given `cfg` reads the public dict instead."""
    names, waiting = set(), [answer]
    for thing in waiting:  # grows on the way
        if isinstance(thing, type):
            waiting += [f for f in vars(thing).values() if callable(f)]
        code = getattr(thing, "__code__", thing)
        if isinstance(code, types.CodeType):
            names.update(_read(code), code.co_varnames)
            waiting += code.co_consts
    if {"GPT_CONFIG_124M", "cfg"} <= names:
        return " Your code reads GPT_CONFIG_124M: should it read `cfg`?"
    return ""


def _read(code):
    """The names that are read for more than the keys of what they stand for:
    those are the same in each configuration."""
    steps = list(dis.get_instructions(code))
    return {
        step.argval
        for step, after in pairwise(steps)
        if step.opname.startswith("LOAD")
        and after.opname not in ("GET_ITER", "CONTAINS_OP")
        and after.argval != "keys"
    }


def _line(frame):
    return frame.line or linecache.getline(frame.filename, frame.lineno)
