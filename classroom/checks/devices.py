"""Would a module run on another device? Asked without one.

torch's stand-in for another device ("meta") takes a second to load. Here the
module's tensors and its input only count as being elsewhere, and so does all
that is computed from them or made on their device.
"""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from classroom.checks.result import Mistake

ELSEWHERE = torch.device("meta")  # what a tensor there says of its device
CPU = torch.device("cpu")
MOVES = "to", "type_as", "cuda"
WHERE_FROM = (
    "Where does it come from: is it made on the input's device, as with "
    "device=x.device, or registered as a buffer?"
)


def check_device(module, x, name="device-fixed", says=None):
    """Raise `Mistake` if tensors that stay on the CPU meet the module's.

    Args:
        x: the module's input.
        name, says: what it means, if the exercise knows it.
    """
    tensors = [x, *module.parameters(), *module.buffers()]
    with torch.no_grad(), _Elsewhere(tensors) as mode:
        module(x)
    if not mode.met:
        return
    function, shape = mode.met[0]
    says = says or WHERE_FROM
    raise Mistake(
        name,
        f"With module and input on another device, {function} meets a tensor "
        f"of shape {shape} that is still on the CPU, and stops there. {says}",
    )


class _Elsewhere(TorchFunctionMode):
    """Attributes:
    met: (function, shape) wherever a tensor from here met one from there.
    """

    def __init__(self, tensors):
        super().__init__()
        self.there, self.met = list(tensors), []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if getattr(func, "__self__", None) is torch.Tensor.device:
            there = any(args[0] is other for other in self.there)
            return ELSEWHERE if there else func(*args)
        if func is torch.device:
            return func(*args, **kwargs)
        leaves = tree_leaves((args, kwargs))
        fetched = name == "cpu" or _names(CPU, leaves)
        given = [x for x in leaves if isinstance(x, torch.Tensor)]
        there = [any(x is other for other in self.there) for x in given]
        moved = _names(ELSEWHERE, leaves) or (name in MOVES and any(there[1:]))
        args = [CPU if _names(ELSEWHERE, [a]) else a for a in args]
        if _names(ELSEWHERE, [kwargs.get("device")]):
            kwargs["device"] = CPU
        result = func(*args, **kwargs)
        if getattr(result, "device", None) == ELSEWHERE:
            # Made inside `with torch.device(x.device)`.
            result, moved = func(*args, **kwargs, device=CPU), True
        here = [
            x for x, t in zip(given, there, strict=True) if not t and x.dim()
        ]
        if any(there) and here and not moved and name != "__getitem__":
            self.met.append((name, tuple(here[0].shape)))
        if (moved or fetched) and isinstance(result, torch.Tensor):
            result = result.detach()  # else it may be the one from before
        if moved or any(there) and not fetched:
            self.there += tree_leaves(result)
        return result


def _names(device, leaves):
    """Whether one of the leaves is this device or its name."""
    return any(
        isinstance(leaf, str | torch.device) and str(leaf) == str(device)
        for leaf in leaves
    )
