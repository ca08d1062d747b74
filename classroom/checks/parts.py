"""The parts of a learner's module: are they there, and what do they hold?"""

from itertools import permutations, zip_longest

import torch
from torch import nn
from torch.nn import functional as F

from classroom.checks.result import Mistake
from classroom.checks.tensors import same


def count(*modules):
    return sum(p.numel() for m in modules for p in m.parameters())


def check_names(module, parts):
    """The parts have the notes' names, and parameters stand nowhere else.

    Args:
        parts: name → the mistake if it is missing, what the part is.
    """
    missing = [name for name in parts if getattr(module, name, None) is None]
    if missing:
        _blame_missing(module, missing, parts)
    own = set()
    for name in parts:
        check_registered(module, name)
        part = getattr(module, name)
        own |= (
            {part} if isinstance(part, torch.Tensor) else {*part.parameters()}
        )
    others = [n for n, p in module.named_parameters() if p not in own]
    if others:
        raise Mistake(
            "extra-parameters",
            f"Besides {', '.join(parts)}, your module trains "
            f"{', '.join(others[:4])}. Is that asked for?",
        )


def _blame_missing(module, missing, parts):
    has = dict(module.named_children())
    others = [
        name
        for name, part in has.items()
        if name not in parts and not isinstance(part, nn.Dropout)
    ]
    name, what = parts[missing[0]]
    says = "Is it left out, or not assigned to self?"
    if others:
        name, says = (
            "wrong-name",
            "The names are fixed: saved weights are found by them.",
        )
    raise Mistake(
        name,
        f"Your module has no {' and no '.join(missing)}; it has "
        f"{', '.join(has) or 'no parts'}. {missing[0]}: {what}. {says}",
    )


def check_registered(module, name):
    """The part is a module or a tensor, and no plain container of modules."""
    part = getattr(module, name)
    if isinstance(part, nn.Module | torch.Tensor):
        return
    kind = type(part).__name__
    if not isinstance(part, list | tuple | dict):
        raise Mistake(
            "wrong-part", f"{name} is of type {kind}; expected a module."
        )
    values = part.values() if isinstance(part, dict) else part
    inside = [value for value in values if isinstance(value, nn.Module)]
    seen, total = count(module), count(module, *inside)
    told = ""
    if total > seen:
        told = f" It reports {seen} parameters; expected {total}."
    raise Mistake(
        f"{name.split('_')[-1]}-plain-list",
        f"{name} is of type {kind}, in which your module does not see the "
        f"{len(inside)} modules.{told} An optimizer would never train them. "
        "Which container of torch.nn registers its modules?",
    )


def check_created(build, makers):
    """From one seed, the parts start as if made in this order.

    Args:
        build: makes the learner's module, as new.
        makers: name → what makes such a part, in the order asked for.
    """
    states = []
    for seed in (2, 1):
        torch.manual_seed(seed)
        module = build()
        states.append(torch.get_rng_state())
    if torch.equal(*states):
        raise Mistake(
            "seed-set",
            "Building your module leaves the random generator in the same "
            "state wherever it stood before. Is there a seed in __init__? "
            "Then all modules start alike.",
        )
    own = [name for name, _ in module.named_children() if name in makers]
    if own != [name for name in makers if name in own]:
        _blame_order(own, makers)
    for order in permutations(makers):
        torch.manual_seed(1)
        made = {name: makers[name]() for name in order}
        if all(_alike(made[n], getattr(module, n, None)) for n in made):
            break
    else:
        return  # weights drawn in another way
    if order != tuple(makers):
        _blame_order(order, makers)


def _blame_order(order, wanted):
    raise Mistake(
        "created-in-other-order",
        f"Your module creates {', '.join(order)} in this order; asked for was "
        f"{', '.join(wanted)}. One seed can then give other weights.",
    )


def _alike(one, other):
    """Whether two modules hold the same parameters."""
    if not isinstance(other, nn.Module):
        return False
    pairs = zip_longest(one.parameters(), other.parameters())
    return all(
        p is not None and q is not None and torch.equal(p, q) for p, q in pairs
    )


def is_layer_norm(norm, x):
    """Whether it is a layer norm with its own two parameters."""
    own = [p.detach() for p in norm.parameters()]
    if [p.shape for p in own] != [x.shape[-1:]] * 2:
        return False
    output = norm(x.clone())
    return any(
        same(output, F.layer_norm(x, x.shape[-1:], *scale_and_shift), 1e-3)
        for scale_and_shift in (own, own[::-1])
    )


def loaded(reference, module):
    """The reference with a module's parameters, or None if they can't be told
    by their names, nor those of its linear layers by their shapes."""
    own = {_as_in_notes(n): p.detach() for n, p in module.named_parameters()}
    shapes = {name: p.shape for name, p in reference.named_parameters()}
    kinds = {type(part) for part in module.modules() if part._parameters}
    by_shape = {p.shape: p for p in own.values()}
    if kinds == {nn.Linear} and len(by_shape) == len(own) == len(shapes):
        own = {n: by_shape[x] for n, x in shapes.items() if x in by_shape}
    if {name: p.shape for name, p in own.items()} != shapes:
        return None
    reference.load_state_dict(own, strict=False)
    return reference.eval()


def _as_in_notes(name):
    """nn.LayerNorm calls scale and shift otherwise."""
    if "norm" not in name:
        return name
    return name.replace(".weight", ".scale").replace(".bias", ".shift")


def remark(module, drop, norm):
    """For praise: what the notes call otherwise, or nothing."""
    if not isinstance(getattr(module, drop, None), nn.Module):
        return f" One remark: the notes call the dropout module {drop}."
    if hasattr(getattr(module, norm), "weight"):
        return (
            f" One remark: {norm} calls its parameters weight and bias; the "
            "notes call them scale and shift."
        )
    return ""
