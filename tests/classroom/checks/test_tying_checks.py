"""The check of a tie, from ties that hold to ties that only look so."""

import copy
import types

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from classroom.checks.tying import tie_weights


def from_the_head(model):
    model.tok_emb.weight = model.out_head.weight
    return model


def drawn_anew(model):
    nn.init.normal_(model.tok_emb.weight, std=0.02)
    model.out_head.weight = model.tok_emb.weight
    return model


def shrunk(model):
    with torch.no_grad():
        model.tok_emb.weight.mul_(0.02)
    model.out_head.register_parameter("weight", model.tok_emb.weight)
    return model


def a_new_parameter_for_both(model):
    shape = model.tok_emb.weight.shape
    table = nn.Parameter(0.05 * torch.randn(shape))
    for part in (model.tok_emb, model.out_head):
        part.weight = table
    return model


def a_new_head(model):
    rows, width = model.tok_emb.weight.shape
    head = nn.Linear(width, rows, bias=False)
    model.out_head = head
    model.tok_emb._parameters["weight"] = head.weight
    return model


def with_the_heads_numbers(model):
    model.tok_emb.weight.data = model.out_head.weight.detach().clone()
    setattr(model.out_head, "weight", model.tok_emb.weight)  # noqa: B010
    return model


class Tie:
    def __call__(self, model):
        del model.tok_emb.weight
        model.tok_emb.weight = model.out_head.weight
        return model


def twice(model):
    return from_the_head(from_the_head(model))


@pytest.mark.parametrize(
    "answer",
    [
        from_the_head, drawn_anew, shrunk, a_new_parameter_for_both,
        a_new_head, with_the_heads_numbers, Tie(), twice,
    ],
)  # fmt: skip
def test_right_ties_pass(answer):
    result = tie_weights(answer)
    assert (result.status, result.mistake) == ("passed", None), result


def no_return(model):
    from_the_head(model)


def other_direction(model):
    model.out_head.weight = model.tok_emb.weight
    return model


def drawn_too_large_for_a_wide_model(model):
    model.tok_emb.weight = model.out_head.weight
    nn.init.normal_(model.tok_emb.weight, std=0.2)
    return model


def shrunk_to_nothing(model):
    model.tok_emb.weight = model.out_head.weight
    model.tok_emb.weight.data *= 1e-9
    return model


def a_copy(model):
    model.out_head.weight = nn.Parameter(model.tok_emb.weight.clone())
    return model


def same_memory(model):
    model.out_head.weight.data = model.tok_emb.weight.data
    return model


def tied_in_forward(model):
    def forward(self, x):
        return F.linear(x, model.tok_emb.weight)

    model.out_head.forward = types.MethodType(forward, model.out_head)
    return model


def head_removed(model):
    table = model.out_head.weight
    model.tok_emb.weight = table
    model.out_head = lambda x: x @ table.T
    return model


def head_deleted(model):
    model.tok_emb.weight = model.out_head.weight
    del model.out_head
    return model


def a_head_that_is_a_function(model):
    del model.out_head
    model.out_head = lambda x: F.linear(x, model.tok_emb.weight)
    return model


def scaled_logits(model):
    model.out_head.weight = model.tok_emb.weight
    model.final_norm.scale.data.mul_(model.tok_emb.weight.shape[1] ** -0.5)
    return model


def scaled_by_a_hook(model):
    model.out_head.weight = model.tok_emb.weight
    model.out_head.register_forward_hook(lambda part, x, y: 0.1 * y)
    return model


def a_copy_is_tied(model):
    return from_the_head(copy.deepcopy(model))


def the_table_itself(model):
    return from_the_head(model).tok_emb.weight


def in_evaluation_mode(model):
    return from_the_head(model).eval()


def frozen(model):
    model.tok_emb.weight = model.out_head.weight.requires_grad_(False)
    return model


def all_parts_drawn_anew(model):
    for p in model.parameters():
        nn.init.normal_(p, std=0.02)
    return from_the_head(model)


def head_with_bias(model):
    rows, width = model.tok_emb.weight.shape
    model.out_head = nn.Linear(width, rows)
    return from_the_head(model)


def a_hook_stops_the_lookup(model):
    model.tok_emb.register_forward_hook(lambda part, ids, x: x.detach())
    return from_the_head(model)


def gradient_halved(model):
    model.tok_emb.weight = model.out_head.weight
    model.tok_emb.weight.register_hook(lambda grad: grad / 2)
    return model


def tied_by_a_hook_before_each_call(model):
    def copy_table(part, inputs):
        part.out_head.weight.data.copy_(part.tok_emb.weight.data)

    model.register_forward_pre_hook(copy_table)
    return model


def positions_too(model):
    rows = model.out_head.weight[: len(model.pos_emb.weight)]
    model.pos_emb.weight = nn.Parameter(rows.detach().clone())
    return from_the_head(model)


def transposed(model):
    model.tok_emb.weight = nn.Parameter(model.out_head.weight.T)
    return model


def both_transposed(model):
    model.out_head.weight = transposed(model).tok_emb.weight
    return model


def one_module(model):
    model.tok_emb = model.out_head
    return model


def one_module_the_other_way(model):
    model.out_head = model.tok_emb
    return model


def a_tensor_for_a_parameter(model):
    model.tok_emb.weight = model.out_head.weight.clone()
    return model


def gradient_by_frequency(model):
    model.tok_emb.scale_grad_by_freq = True
    return from_the_head(model)


@pytest.mark.parametrize(
    "answer, name",
    [
        (no_return, "returns-none"),
        (other_direction, "starts-too-large"),
        (drawn_too_large_for_a_wide_model, "starts-too-large"),
        (shrunk_to_nothing, "starts-too-small"),
        (a_copy, "equal-copy"),
        (same_memory, "shared-memory"),
        (tied_in_forward, "not-tied"),
        (head_removed, "exception"),
        (head_deleted, "part-missing"),
        (a_head_that_is_a_function, "part-missing"),
        (scaled_logits, "other-part-changed"),
        (scaled_by_a_hook, "logits-changed"),
        (a_copy_is_tied, "another-model"),
        (the_table_itself, "wrong-type"),
        (in_evaluation_mode, "mode-changed"),
        (frozen, "not-trainable"),
        (all_parts_drawn_anew, "other-part-changed"),
        (head_with_bias, "head-bias"),
        (a_hook_stops_the_lookup, "lookup-gradient-lost"),
        (gradient_halved, "wrong-gradient"),
        (gradient_by_frequency, "wrong-gradient"),
        (tied_by_a_hook_before_each_call, "not-tied"),
        (positions_too, "other-part-changed"),
        (transposed, "wrong-shape"),
        (both_transposed, "wrong-shape"),
        (one_module, "one-module"),
        (one_module_the_other_way, "one-module"),
        (a_tensor_for_a_parameter, "exception"),
        (lambda model, tied: model, "wrong-signature"),
        (lambda model: 7, "wrong-type"),
    ],
)
def test_wrong_ties_are_diagnosed(answer, name):
    result = tie_weights(answer)
    assert (result.status, result.mistake) == ("failed", name), result


def test_the_message_holds_the_numbers():
    message = tie_weights(other_direction).message
    for word in ("ln(101) = 4.615", "with two tables it was 4.6"):
        assert word in message, message
    wide = tie_weights(drawn_too_large_for_a_wide_model).message
    assert "At width 768" in wide, wide
    assert "17,160" in tie_weights(a_copy).message
    assert "expected (101, 24)" in tie_weights(both_transposed).message
    assert "nn.Parameter" in tie_weights(a_tensor_for_a_parameter).message
    assert "a hook" in tie_weights(gradient_halved).message
    assert "Only a module" in tie_weights(head_removed).message


def stub(model):
    """One table for both ends of the model."""
    raise NotImplementedError


def test_a_stub_is_not_attempted():
    assert tie_weights(stub).status == "not attempted"
