"""What every module owes its caller: each fault alone gets its name."""

import random

import pytest
import torch
from torch import nn

from classroom.checks.devices import check_device
from classroom.checks.manners import check_manners
from classroom.checks.result import Mistake

INPUTS = [torch.randn(2, 3, 4), torch.randn(1, 5, 4), torch.randn(3, 1, 4)]


class Right(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("mask", torch.ones(5, 5).triu(1).bool())
        self.plain = torch.ones(4)

    def forward(self, x):
        return self.linear(x)


def answer(forward, **more):
    return type("Answer", (Right,), {"forward": forward, **more})()


def longest_seen(self, x):
    self.most = max(getattr(self, "most", 0), x.shape[1])
    return self.linear(x) * self.most


def viewed(self, x):
    return self.linear(x.view(-1, 4)).view(x.shape)


def memory_order(self, x):
    storage = torch.as_strided(x, (x.numel(),), (1,))
    return self.linear(storage.reshape(x.shape))


def decays(self, x):
    with torch.no_grad():
        self.linear.weight.mul_(0.9)
    return Right.forward(self, x)


def decays_in_training(self, x):
    if self.training:
        self.linear.bias.data.zero_()
    return Right.forward(self, x)


def evaluates(self, x):
    self.linear.train(not self.linear.training)
    return Right.forward(self, x)


def learns(self, x):
    Right.forward(self, x).sum().backward()
    return Right.forward(self, x)


def no_gradients(self, x):
    torch.set_grad_enabled(False)
    return Right.forward(self, x)


def seeds(self, x):
    torch.manual_seed(1)
    return Right.forward(self, x)


def draws(self, x):
    torch.rand(1)
    return Right.forward(self, x)


def draws_with_python(self, x):
    random.random()
    return Right.forward(self, x)


def single(self, x):
    return Right.forward(self, x).float()


def other_in_double(self, x):
    y = Right.forward(self, x)
    return y if x.dtype == torch.float32 else y + 1


def own_table(self, x):
    return Right.forward(self, x) + torch.zeros(4)


def own_table_of_another_type(self, x):
    return Right.forward(self, x) + torch.zeros(4, dtype=torch.float64)


def own_table_on_cpu(self, x):
    zeros = torch.zeros(4, dtype=x.dtype, device="cpu")
    return Right.forward(self, x) + zeros


def plain_tensor(self, x):
    return Right.forward(self, x) * self.plain.to(x.dtype)


WRONG = [
    ("remembers-calls", longest_seen),
    ("needs-contiguous", viewed),
    ("needs-contiguous", memory_order),
    ("weights-changed", decays_in_training),
    ("mode-changed", evaluates),
    ("gradients-left", learns),
    ("gradients-turned-off", no_gradients),
    ("generator-used", seeds),
    ("generator-used", draws),
    ("generator-used", draws_with_python),
    ("dtype-fixed", single),
    ("dtype-fixed", own_table),
    ("dtype-fixed", own_table_of_another_type),
    ("dtype-dependent", other_in_double),
    ("device-fixed", own_table_on_cpu),
    ("device-fixed", plain_tensor),
]


@pytest.mark.parametrize("name, forward", WRONG)
def test_a_fault_gets_its_name(name, forward):
    try:
        with pytest.raises(Mistake) as raised:
            check_manners(answer(forward), INPUTS)
    finally:
        torch.set_grad_enabled(True)
    assert raised.value.name == name, raised.value.message
    assert raised.value.message[0].isupper()


def test_decay_is_seen_too():
    with pytest.raises(Mistake) as raised:
        check_manners(answer(decays), INPUTS)
    assert raised.value.name in ("remembers-calls", "weights-changed")


def masked(self, x):
    tokens = x.shape[1]
    return self.linear(x) + self.mask[:tokens, :4].sum() * 0


def same_device(self, x):
    zeros = torch.zeros(4, dtype=x.dtype, device=x.device)
    return Right.forward(self, x) + zeros


def alike(self, x):
    rows = torch.arange(x.shape[1], device=x.device)
    return Right.forward(self, x)[:, rows] + torch.zeros_like(x)


def scalar(self, x):
    return Right.forward(self, x) * torch.tensor(2.0, dtype=x.dtype)


def moved(self, x):
    return Right.forward(self, x) * self.plain.to(x)


def moved_by_device(self, x):
    return Right.forward(self, x) * self.plain.to(x.device, x.dtype)


def new(self, x):
    return Right.forward(self, x) + x.new_zeros(4)


def in_place_on_a_copy(self, x):
    y = x.clone()
    y += 1
    return Right.forward(self, y)


def a_row_at_a_time(self, x):
    return torch.stack([self.linear(row) for row in x])


RIGHT = [
    Right.forward, masked, same_device, alike, scalar, moved, moved_by_device,
    new, in_place_on_a_copy, a_row_at_a_time,
]  # fmt: skip


@pytest.mark.parametrize("forward", RIGHT)
def test_what_is_right_passes(forward):
    check_manners(answer(forward), INPUTS)


def test_positions_that_do_not_follow_are_named_as_the_exercise_says():
    class Embeds(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(9, 4)

        def forward(self, ids):
            return self.table(torch.arange(ids.shape[1])) + self.table(ids)

    with pytest.raises(Mistake) as raised:
        check_device(
            Embeds(), torch.zeros(2, 3, dtype=torch.long),
            "positions-on-wrong-device", "Which device has in_idx?",
        )  # fmt: skip
    assert raised.value.name == "positions-on-wrong-device"
    assert "(3,)" in raised.value.message
    assert raised.value.message.endswith("Which device has in_idx?")
