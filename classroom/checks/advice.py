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
# What stands in the message below → what beginners did, in most cases. The
# first that fits is told: what alone explains an error comes first.
ADVICE = [
    (r"^(?!.*super\(\)\.(?!_*init)).*"  # it may call another method
     r"super\b.*(takes|needs an argument|must be a type|has no attribute)",
     "The line is super().__init__(), with two underscores on each side and "
     "nothing in its brackets."),
    (r"before Module.__init__\(\) call",
     "The first line of __init__ has to be super().__init__()."),
    (r"(list|tuple|generator) is not a Module subclass",
     "nn.Sequential takes modules, one by one: is there a list without a "
     "star in front?"),
    (r"is not a Module subclass",
     "Expected modules. A class needs its brackets, GELU() for GELU, and a "
     "function is called in forward instead."),
    (r"ModuleList\.__init__\(\) takes",
     "nn.ModuleList takes a single list, in square brackets."),
    (r"Module \[Module(List|Dict)\] is missing",
     "A ModuleList or ModuleDict only keeps modules: call those, one after "
     "the other."),
    (r"__init__\(\) (takes|missing|got)",
     "This does not fit what that class takes when it is made. Does it get "
     "its input too early, as in GELU(x) for GELU()(x), or is your own "
     "__init__ misspelt?"),
    (r"<locals>\.[\w<>]+\(\) (takes|missing)",
     "This function, made inside another, is called with more values than it "
     "takes, or with fewer."),
    (r"name 'self' is not defined|takes 1 positional argument but 2 were",
     "Is `self` the first parameter of each method?"),
    (r"takes .*positional arguments? but \d+ (was|were) given|"
     r"missing \d+ required|unexpected keyword|invalid combination of arg",
     "Compare what stands in the brackets of that call with what the "
     "function takes."),
    (r"cannot access local variable",
     "On this path, nothing was assigned to the name before it is read."),
    (r"\b(\w+): .*NameError: name '\1'",
     "A dict's key that is a word stands in quotation marks."),
    (r"NameError",
     "Is it misspelt, or never made or imported? What was made as `self.…` "
     "is read with `self.`, too."),
    (r"cfg\[.*KeyError",
     "The configuration's keys are vocab_size, context_length, emb_dim, "
     "n_heads, n_layers, drop_rate and qkv_bias."),
    (r"unsupported operand.*'dict' and 'dict'",
     "Two dicts are put together with `|`: the second one's entries win."),
    (r"'dict' object|unsupported operand.*'dict'",
     "A dict gives its values by key, in square brackets: cfg[\"emb_dim\"]."),
    (r"must be tuple of ints|must be int, not float|'float' object cannot be "
     "interpreted as an integer|found element of type (float|Tensor)",
     "A size must be a whole number, an int: `/` gives a float, `//` and "
     "round() an int, torch's functions a tensor."),
    (r"for @: |mat1 and mat2 shapes cannot be multiplied|1D tensors expected|"
     r"must be a matrix|must be a 3D tensor|size mismatch, got|"
     r"Expected size for first two dimensions",
     "Either two sizes do not fit (print the shapes), or a matrix product "
     "such as `@` stands where numbers are to be multiplied one by one, with "
     "`*`."),
    (r"must match the size of tensor",
     "Shapes are lined up from the right. Print both: is an axis lost, or "
     "does `@` stand for `*`?"),
    (r"only one.element tensors|with one element can be converted|"
     r"Tensor with \d+ elements cannot be converted|only 0-dimensional array",
     "Functions of `math` take one number; for tensors torch has functions "
     "of the same names, such as torch.exp."),
    (r"embedding\(\): argument 'indices'",
     "A table is asked with a tensor of row numbers, not with how many there "
     "are."),
    (r"must be Tensor, not (float|int)\b",
     "torch's functions take tensors; for a plain number there are math's, "
     "such as math.sqrt, and Python's round()."),
    (r"cannot assign '.*Tensor' as parameter",
     "A calculation, even .T or clone(), gives a tensor. Change a "
     "parameter's numbers in place, inside `with torch.no_grad():`, or assign "
     "an nn.Parameter."),
    (r"cannot assign '.*' as child module",
     "Only a module can stand where a module stood."),
    (r"has no attribute 'detach'|Tensor or None for data",
     "nn.Parameter takes a tensor."),
    (r"NoneType",
     "Something is None: does the function before it end in a return?"),
    (r"must be Tensor, not (list|tuple)|'(tuple|list)' object has no attr",
     "A tuple or list came where a tensor was expected. Print its type one "
     "line before."),
    (r"must be Tensor, not |unsupported operand.*'(type|[A-Z]\w*)' and 'Ten|"
     r"unsupported operand.*'Tensor' and '(type|[A-Z])",
     "Something that is no tensor came where one was expected: a module that "
     "has been made, as in GELU(), but not yet called, as in GELU()(x)?"),
    (r"bitwise_xor|for \^: ", "`^` is no power in Python: `**` is."),
    (r"'module' object is not callable",
     "A part of a package was called: is a capital letter lost, as in "
     "nn.Parameter?"),
    (r"object is not callable",
     "What stands before the brackets can't be called. Is a `*` missing "
     "there, or are square brackets meant?"),
    (r"converted to an index|indices must be integers|is not subscriptable",
     "Square brackets pick something by its number; are round ones meant, "
     "which call?"),
    (r"dtype can require gradients",
     "What is trained holds numbers with a decimal point, 1.0 for 1."),
    (r"^In __init__,.*a leaf Variable that requires grad",
     "A parameter can be changed in place inside `with torch.no_grad():`."),
    (r"list index out of range",
     "The last entry of a list of n has the number n − 1. Which numbers does "
     "your index run through?"),
    (r"a leaf Variable that requires grad|modified by an inplace operation",
     "An assignment works in place: write x = x + y for x += y."),
    (r"RecursionError",
     "Something calls itself without an end, as self(x) does in forward."),
    (r"module '.*' has no attribute",
     "Is it misspelt, or from another package?"),
    (r"object has no attribute",
     "Is the attribute spelt as in __init__, and assigned to `self` there?"),
]  # fmt: skip


def explained(error):
    """The learner's line, what went wrong there, and what that may mean."""
    what = f"{type(error).__name__}: {error}".strip().split("\n")[0]
    what = _cut(what.removesuffix(", but expected one of:"), 200)
    told = f"Your code could not be used as the exercise asks: {what}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(NOT_THE_LEARNERS):
            told = (
                f"In {frame.name}, line {frame.lineno} of your cell, "
                f"`{_cut(_line(frame).strip(), 100)}`, raised {what}"
            )
            break
    for pattern, advice in ADVICE:
        if re.search(pattern, told):
            return f"{told.rstrip('.')}. {advice}"
    return told


def on_config(answer):
    """A remark if code that is given `cfg` reads the public dict instead."""
    names, given, waiting = set(), set(), [answer]
    for thing in waiting:  # grows on the way
        if isinstance(thing, type):
            waiting += [f for f in vars(thing).values() if callable(f)]
        code = getattr(thing, "__code__", thing)
        if isinstance(code, types.CodeType):
            names.update(_read(code))
            count = code.co_argcount + code.co_kwonlyargcount
            given.update(code.co_varnames[:count])
            waiting += code.co_consts
    if "GPT_CONFIG_124M" in names and "cfg" in given:
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


def _cut(text, most):
    return text if len(text) <= most else f"{text[:most]} …"
