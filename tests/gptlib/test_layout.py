import copy
import io

import pytest
import torch
from torch import nn

from gptlib import GPTModel, generate_text_simple, to_input_major


def linears(model):
    return [m for m in model.modules() if isinstance(m, nn.Linear)]


def input_major(weight):
    return weight.stride() == (1, weight.shape[0])


@pytest.fixture
def pair(tiny_model):
    return tiny_model, to_input_major(copy.deepcopy(tiny_model))


def same_state(one, other):
    one, other = one.state_dict(), other.state_dict()
    assert list(one) == list(other)
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


def test_state_dict_stays_as_it_is(pair):
    plain, laid_out = pair
    same_state(plain, laid_out)
    assert all(input_major(m.weight) for m in linears(laid_out))
    assert not any(input_major(m.weight) for m in linears(plain))


def test_parameters_stay_the_same_objects(tiny_model):
    before = dict(tiny_model.named_parameters())
    assert to_input_major(tiny_model) is tiny_model
    for name, parameter in tiny_model.named_parameters():
        assert parameter is before[name]


def test_the_same_ids(pair, ids):
    plain, laid_out = (generate_text_simple(m, ids, 20, 16) for m in pair)
    assert torch.equal(plain, laid_out)


def test_the_same_training_step(pair, ids):
    for model in pair:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(ids).square().mean().backward()
            optimizer.step()
    for one, other in zip(*(m.parameters() for m in pair), strict=True):
        torch.testing.assert_close(one, other)
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("order", [1, -1])
def test_states_load_in_both_directions(pair, tiny, order):
    source, kind = pair[::order]
    target = GPTModel(tiny)
    if order == -1:
        to_input_major(target)
    strides = [p.stride() for p in target.parameters()]
    target.load_state_dict(source.state_dict())
    same_state(source, target)
    assert [p.stride() for p in target.parameters()] == strides


def test_a_saved_state_is_an_ordinary_one(pair):
    plain, laid_out = pair
    file = io.BytesIO()
    torch.save(laid_out.state_dict(), file)
    file.seek(0)
    plain.load_state_dict(torch.load(file))
    same_state(plain, laid_out)


def test_twice_is_as_good_as_once_and_copies_keep_it(pair):
    model = copy.deepcopy(to_input_major(pair[1]))
    assert all(input_major(m.weight) for m in linears(model))
    same_state(pair[0], model)


@pytest.mark.parametrize("by", ["parameter", "memory"])
def test_a_shared_weight_stays_shared(tiny_model, by):
    table, head = tiny_model.tok_emb, tiny_model.out_head
    if by == "parameter":
        head.weight = table.weight
    else:
        head.weight.data = table.weight.data
    to_input_major(tiny_model)
    assert head.weight.data_ptr() == table.weight.data_ptr()
    assert not input_major(head.weight)
    assert input_major(tiny_model.trf_blocks[0].ff.layers[0].weight)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types_are_left_alone(tiny_model, dtype):
    to_input_major(tiny_model.to(dtype))
    assert not any(input_major(m.weight) for m in linears(tiny_model))


def test_other_devices_are_left_alone(tiny):
    with torch.device("meta"):
        model = to_input_major(GPTModel(tiny))
    assert not any(input_major(m.weight) for m in linears(model))
