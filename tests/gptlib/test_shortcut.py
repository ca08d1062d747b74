import pytest
import torch
from torch import nn

from gptlib import ExampleDeepNeuralNetwork, gradient_means, print_gradients

NOTES = {
    False: ["0.0002017", "0.0001201", "0.0007152", "0.001399", "0.005050"],
    True: ["0.2217", "0.2069", "0.3290", "0.2666", "1.326"],
}
SAMPLE = torch.tensor([[1.0, 0.0, -1.0]])


def notes_network(use_shortcut):
    torch.manual_seed(123)
    return ExampleDeepNeuralNetwork([3, 3, 3, 3, 3, 1], use_shortcut)


@pytest.mark.parametrize("use_shortcut", [False, True])
def test_the_notes_gradient_means(use_shortcut, capsys):
    model = notes_network(use_shortcut)
    means = gradient_means(model, SAMPLE)
    assert list(means) == [f"layers.{i}.0.weight" for i in range(5)]
    assert [f"{m:#.4g}" for m in means.values()] == NOTES[use_shortcut]
    print_gradients(model, SAMPLE)
    assert capsys.readouterr().out.splitlines() == [
        f"layers.{i}.0.weight has gradient mean of {mean}"
        for i, mean in enumerate(NOTES[use_shortcut])
    ]


def test_a_second_call_gives_the_same_and_nothing_is_stored():
    model = notes_network(True)
    first = gradient_means(model, SAMPLE)
    assert gradient_means(model, SAMPLE) == first
    assert all(p.grad is None for p in model.parameters())


def test_means_agree_with_backward():
    model = notes_network(True)
    nn.MSELoss()(model(SAMPLE), torch.tensor([[0.0]])).backward()
    with torch.no_grad():  # a learner's surroundings must not matter
        means = gradient_means(model, SAMPLE)
    for name, parameter in model.named_parameters():
        if "weight" in name:
            expected = parameter.grad.abs().mean().item()
            assert means[name] == pytest.approx(expected, rel=1e-6)


def test_a_shortcut_adds_the_input_where_shapes_agree():
    torch.manual_seed(0)
    model = ExampleDeepNeuralNetwork([3, 3, 5, 5, 1], use_shortcut=True)
    x = torch.randn(2, 3)
    expected = x
    for layer, same in zip(model.layers, [1, 0, 1, 0], strict=True):
        expected = layer(expected) + same * (expected if same else 0)
    torch.testing.assert_close(model(x), expected)


def test_the_input_is_not_overwritten():
    x = torch.randn(2, 3)
    before = x.clone()
    notes_network(True)(x)
    assert torch.equal(x, before)


@pytest.mark.parametrize("sizes", [[2, 2], [3, 1], [4] * 31])
def test_any_number_of_layers(sizes):
    model = ExampleDeepNeuralNetwork(sizes, use_shortcut=True)
    assert len(model.layers) == len(sizes) - 1
    assert len(gradient_means(model, torch.ones(1, sizes[0]))) == (
        len(sizes) - 1
    )


@pytest.mark.parametrize(
    "sizes, error, word",
    [
        ([], ValueError, "got 0"),
        ([3], ValueError, "got 1"),
        ([3, 0, 1], ValueError, r"layer_sizes\[1\]"),
        ([3, 2.0, 1], TypeError, r"layer_sizes\[1\]"),
    ],
)
def test_sizes_that_make_no_network(sizes, error, word):
    with pytest.raises(error, match=word):
        ExampleDeepNeuralNetwork(sizes, use_shortcut=True)
