"""What every module owes its caller, whatever it computes.

A call gives the same whatever came before it and however its input lies in
memory, follows the input's number type, and changes nothing but its output.
"""

import contextlib
import random

import torch

from classroom.checks.devices import check_device
from classroom.checks.result import Mistake
from classroom.checks.tensors import difference, same


def check_manners(module, inputs):
    """Try a module, right in its values, on all that a caller may do.

    Args:
        inputs: at least two, of several shapes; the first is compared.
    """
    module.eval()
    x, *others = inputs
    wanted = module(x.clone()).detach()
    _check_memory(module, x, others, wanted)
    _check_layout(module, x, wanted)
    for training in (True, False):
        _check_untouched(module.train(training), x, training)
    _check_generators(module, x)
    _check_number_type(module, x, wanted)
    check_device(module, x.clone())


def _check_memory(module, x, others, wanted):
    """Other texts in between, longer and shorter, change nothing."""
    for other in others:
        module(other.clone())
        again = module(x.clone())
        if not same(again, wanted):
            raise Mistake(
                "remembers-calls",
                f"After a call with shape {tuple(other.shape)}, the first "
                f"input gives another result. {difference(again, wanted)} "
                "What does forward keep from one call to the next?",
            )


def _check_layout(module, x, wanted):
    """The same numbers in another order in memory, as after a transpose."""
    if x.dim() < 2:
        return
    turned = x.transpose(0, 1).contiguous().transpose(0, 1)
    try:
        output = module(turned)
    except RuntimeError as error:
        raise Mistake(
            "needs-contiguous",
            "An input that comes out of a transpose stops it, though its "
            f"numbers are the same: {str(error).splitlines()[0]}",
        ) from None
    if not same(output, wanted):
        raise Mistake(
            "needs-contiguous",
            "An input that comes out of a transpose gives another result, "
            f"though its numbers are the same. {difference(output, wanted)} "
            "What in forward goes by their order in memory?",
        )


def _check_untouched(module, x, training):
    """A call leaves weights, modes and gradients as they are."""
    weights = {n: t.clone() for n, t in module.state_dict().items()}
    modes = [part.training for part in module.modules()]
    module(x.clone())
    call = f"A call in {'training' if training else 'evaluation'} mode"
    for name, tensor in module.state_dict().items():
        if not torch.equal(tensor, weights[name]):
            raise Mistake(
                "weights-changed",
                f"{call} changes {name}; only an optimizer should.",
            )
    if modes != [part.training for part in module.modules()]:
        raise Mistake(
            "mode-changed",
            f"{call} leaves parts of your module in the other mode; the "
            "caller decides on it. Is there a train() or eval() in forward?",
        )
    if any(p.grad is not None for p in module.parameters()):
        raise Mistake(
            "gradients-left",
            f"{call} leaves gradients in the parameters. Is there a "
            "backward() in forward?",
        )
    if not torch.is_grad_enabled():
        raise Mistake(
            "gradients-turned-off",
            f"{call} turns gradients off for all that follows. Is there a "
            "set_grad_enabled in your code?",
        )


def _check_generators(module, x):
    """In evaluation, nothing is drawn and nothing is seeded."""
    torch.manual_seed(98765), random.seed(98765)  # no seed of a learner's
    before = torch.get_rng_state(), random.getstate()
    module(x.clone())
    torch_same = torch.equal(before[0], torch.get_rng_state())
    if not torch_same or before[1] != random.getstate():
        raise Mistake(
            "generator-used",
            "A call in evaluation mode draws random numbers or sets a seed. "
            "Others draw from the same generator, so leave it alone.",
        )


def _check_number_type(module, x, numbers):
    """float64 in, the same in float64 out; no number type of its own."""
    default = torch.get_default_dtype()
    double, seen = x.double() if x.is_floating_point() else x.clone(), {}
    try:
        torch.set_default_dtype(torch.float64)
        with contextlib.suppress(RuntimeError):  # nobody's default
            seen[torch.float32] = module(x.clone()).dtype
        torch.set_default_dtype(torch.float32)
        output = module.double()(double)
        seen[torch.float64] = output.dtype
    except RuntimeError as error:
        raise Mistake(
            "dtype-fixed",
            "With weights and input of type torch.float64, it stops: "
            f"{str(error).splitlines()[0]}. New tensors should take the "
            "input's type.",
        ) from None
    finally:
        torch.set_default_dtype(default)
        module.float()
    for wanted, got in seen.items():
        if got != wanted:
            raise Mistake(
                "dtype-fixed",
                f"With weights and input of type {wanted}, the output is of "
                f"type {got}. New tensors should take the input's type, as "
                "with dtype=x.dtype or torch.zeros_like.",
            )
    if not same(output, numbers, rtol=2e-4, atol=5e-5):
        raise Mistake(
            "dtype-dependent",
            "With weights and input of type torch.float64, it gives another "
            f"result. {difference(output, numbers)} What in forward goes by "
            "the number type?",
        )
