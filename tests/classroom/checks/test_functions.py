"""What every function owes its caller, whatever it computes."""

import random

import pytest
import torch
from torch import nn

from classroom.checks.edits import Task
from classroom.checks.functions import attempt, draws, judge, left_alone
from classroom.checks.result import Mistake


def raised(call):
    with pytest.raises(Mistake) as info:
        call()
    return info.value


@pytest.mark.parametrize("before", [True, False])
def test_a_switch_of_gradients_is_put_back_and_told(before):
    with torch.set_grad_enabled(before):
        mistake = raised(lambda: attempt(torch.set_grad_enabled, not before))
        assert torch.is_grad_enabled() == before
    how = "off" if before else "on"
    assert mistake.name == f"gradients-turned-{how}"
    assert f"switched {how}" in mistake.message


def test_an_error_comes_before_what_it_left_switched():
    def switch(number):
        torch.set_grad_enabled(False)
        return 1 / number

    assert isinstance(attempt(switch, 0).error, ZeroDivisionError)
    assert torch.is_grad_enabled()


def doubled(x):
    return 2 * x


def judged(answer):
    told = "With {} came {}; expected {}."
    judge(
        answer,
        Task(doubled, [], None),
        [(1,), (4,)],
        lambda case, out, right: told.format(*case, out.result, right.result),
        lambda *_: ("wrong-values", "Look again."),
    )


def test_what_is_right_the_first_time_only_is_told():
    calls = []

    def answer(x):
        calls.append(x)
        return 2 * x + (len(calls) > 2)

    mistake = raised(lambda: judged(answer))
    assert mistake.name == "not-repeatable"
    assert "With 1 came 3; expected 2." in mistake.message


def test_an_error_of_the_second_call_is_told():
    left = [2, 4]
    with pytest.raises(IndexError):
        judged(lambda x: (left.pop(0), 2 * x)[1])
    assert left == []


def zero_weight(model):
    model[1].weight.data.zero_()


def another_part(model):
    model[1] = nn.Identity()


def backward(model):
    model(torch.ones(1, 2)).sum().backward()


CHANGES = [
    ("weights-changed", zero_weight),
    ("weights-changed", another_part),
    ("mode-changed", lambda model: model[0].train()),
    ("gradients-left", backward),
    ("gradients-left", lambda model: model.zero_grad()),
    ("model-frozen", lambda model: model[1].bias.requires_grad_(False)),
]


@pytest.mark.parametrize("name, change", CHANGES)
def test_a_changed_model_is_told(name, change):
    others = nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2))
    model = others[1].eval()
    model[1].weight.grad = torch.ones(2, 2)

    def call():
        with left_alone(*others):
            change(model)

    assert raised(call).name == name


def test_an_unchanged_model_is_fine():
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2))
    with left_alone(model):
        model.eval()(torch.ones(1, 2))
        model.train()


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.rand(1),
        lambda: torch.manual_seed(98765),
        lambda: torch.manual_seed(0),
        lambda: random.random(),
        lambda: random.seed(3),
    ],
)
def test_the_use_of_a_generator_is_seen(use):
    assert draws(lambda: (use(), torch.rand(1)))
    assert not draws(lambda: torch.ones(1))
