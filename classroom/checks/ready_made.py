"""Does torch do all of what an exercise asks its reader to write?"""

import torch
from torch.overrides import TorchFunctionMode

from classroom.checks.result import Mistake


def check_written_out(module, x, functions, says):
    """Raise `Mistake` if a module, right in its values, calls torch's own.

    What counts is what runs, by whatever name the module's code calls it.

    Args:
        functions: names of torch's functions that are the whole answer.
        says: of what the exercise wants it to be written.
    """
    with torch.no_grad(), _Called() as called:
        module(x.clone())
    used = [name for name in called.names if name in functions]
    if used:
        raise Mistake(
            "ready-made",
            f"Your values are right, and torch's own {used[0]} gives them. "
            f"The exercise is to write it out, of {says}, so that nothing in "
            "it is a secret. Later you may well use torch's.",
        )


class _Called(TorchFunctionMode):
    """Attributes:
    names: of the functions that were called, torch.ops' own as well.
    """

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "").split(".")[0]
        self.names.append(name.removeprefix("native_"))
        return func(*args, **(kwargs or {}))
