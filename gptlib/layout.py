"""The order of a weight's numbers in memory, which sets how fast it is read.

A Linear's weight has the shape (out, in), and torch stores it output by
output. One token, one row, is then a dot product for each output. Stored input
by input, the same product is a sum of whole columns, each scaled by one input,
which the processor adds to neighbouring outputs. Generation with a cache does
little else: so this order decides its speed. See `benchmarks`.
"""

from collections import Counter

import torch
from torch import nn


def to_input_major(model):
    """Store each Linear's weight of a module input by input; the same module.

    Shapes, values, parameters and `state_dict` stay as they are; only the
    strides change, and `load_state_dict`, `deepcopy` and `to` keep them. It
    takes about as long as 15 tokens of generation and then saves 5 to 25 %
    of each, by processor: it pays for long texts. At most one weight is in
    memory twice at a time.

    Left alone are weights for which it is no gain (measured: other types
    than float32, other devices than the CPU), and shared ones, like a head
    tied to the token embedding, whose rows are looked up one by one.
    """
    named = model.named_parameters(remove_duplicate=False)
    users = Counter(_memory(parameter) for _, parameter in named)
    for layer in model.modules():
        if not isinstance(layer, nn.Linear):
            continue
        weight = layer.weight
        fits = weight.dtype == torch.float32 and weight.device.type == "cpu"
        if fits and users[_memory(weight)] == 1:
            weight.data = weight.data.t().contiguous().t()
    return model


def _memory(tensor):
    return tensor.untyped_storage().data_ptr()
