import pytest
import torch
from torch.nn import functional as F

from classroom.explore import explore_parameters
from classroom.explore.parameters import activation_bytes, memory_need
from gptlib import (
    GPT2_CONFIGS,
    GPT_CONFIG_124M,
    GPTModel,
    check_config,
    parameter_formula,
)
from gptlib.memory import shapes_only


def test_an_impossible_configuration_is_refused_as_everywhere():
    cfg = GPT_CONFIG_124M | {"n_heads": 7}
    with pytest.raises(ValueError) as wanted:
        check_config(cfg)
    with pytest.raises(ValueError) as got:
        memory_need(cfg)
    assert str(got.value) == str(wanted.value)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_training_takes_what_torch_takes(tiny, dtype):
    model = GPTModel(tiny).to(getattr(torch, dtype))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(1, 4, dtype=torch.long)).sum().backward()
    optimizer.step()
    weights = list(model.parameters())
    states = [
        state[name]
        for state in optimizer.state.values()
        for name in ("exp_avg", "exp_avg_sq")
    ]
    count, need = memory_need(tiny, dtype, training=True)
    assert count == sum(p.numel() for p in weights)
    assert need == {
        "weights": sum(p.nbytes for p in weights),
        "gradients": sum(p.grad.nbytes for p in weights),
        "AdamW states": sum(s.nbytes for s in states),
    }


def kept(cfg, dtype, texts):
    """Bytes that torch's forward pass keeps for a backward pass."""
    with shapes_only():
        model = GPTModel(cfg).to(dtype)
        ids = torch.zeros(texts, cfg["context_length"], dtype=torch.long)
    own = [*model.parameters(), *model.buffers()]
    own = {t.untyped_storage()._cdata for t in own}
    found = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        found[storage._cdata] = storage  # alive, or its place is used again
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    return sum(s.nbytes() for key, s in found.items() if key not in own)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "sizes",
    [(101, 16, 24, 3, 2), (57, 40, 12, 4, 3), (211, 7, 30, 5, 1)],
)
def test_activations_are_what_torch_keeps(tiny, dtype, sizes):
    names = "vocab_size", "context_length", "emb_dim", "n_heads", "n_layers"
    cfg = tiny | dict(zip(names, sizes, strict=True)) | {"drop_rate": 0.1}
    wanted = kept(cfg, getattr(torch, dtype), 1)
    assert activation_bytes(cfg, dtype) == wanted
    _, need = memory_need(cfg, dtype, training=True, texts=3)
    assert need["activations"] == 3 * wanted
    # Two of a loss's numbers are there once, not once for each text.
    few = 3 * torch.finfo(getattr(torch, dtype)).bits // 8
    assert abs(need["activations"] - kept(cfg, getattr(torch, dtype), 3)) <= (
        few + 16 * cfg["context_length"]
    )


def test_the_default_says_the_notes_figures():
    told = explore_parameters().description
    assert "163,009,536 parameters" in told
    assert "(Weights in MiB: 621.83.)" in told
    assert "activations not counted" in told
    assert "Fits in 1 GB, 2 GB, 8 GB, 16 GB, 80 GB" in told


def test_each_control_over_its_range(sweep):
    assert sweep(explore_parameters()) == []  # heads follow the width


def test_medium_is_trained_in_16_gb_and_no_less(control):
    explorer = explore_parameters()
    press(explorer, "gpt2-medium (355M)")
    control(explorer, "training").value = 1
    assert "Fits in 16 GB, 80 GB" in explorer.description
    assert "activations 6.863 GB" in explorer.description


def press(explorer, label):
    _, row = explorer.children[0].children
    (button,) = (b for b in row.children if b.description == label)
    button.click()


def test_a_size_at_the_press_of_a_button(control, monkeypatch):
    explorer = explore_parameters()
    drawn, draw = [], explorer._draw
    explorer._draw = lambda **values: drawn.append(values) or draw(**values)
    press(explorer, "gpt2-xl (1558M)")
    assert "1,637,792,000 parameters" in explorer.description
    # No setting on the way, such as 48 blocks of a width of 768, was drawn.
    assert all(values == drawn[-1] for values in drawn)
    control(explorer, "training").value = 1
    assert "47,192,801,284 bytes" in explorer.description
    assert "Fits in 80 GB." in explorer.description
    press(explorer, "gpt2-small (124M)")
    assert "Fits in 8 GB, 16 GB, 80 GB" in explorer.description
    explorer.reset.click()
    assert "621.83" in explorer.description


@pytest.mark.parametrize("size", GPT2_CONFIGS)
def test_the_sliders_can_show_every_size(size):
    explorer = explore_parameters()
    press(explorer, size)
    count = parameter_formula(GPT2_CONFIGS[size])
    assert f"{count:,} parameters" in explorer.description


def test_the_largest_fits_nowhere(control):
    explorer = explore_parameters()
    for label in ("vocab_size", "context", "emb_dim", "n_layers"):
        control(explorer, label).value = control(explorer, label).max
    control(explorer, "training").value = 32
    assert "Fits in none of 1 GB," in explorer.description
    assert "activations 43,352 GB" in explorer.description


def test_the_smallest_is_told_in_mb(control):
    explorer = explore_parameters()
    for label in ("vocab_size", "context", "emb_dim", "n_layers"):
        control(explorer, label).value = control(explorer, label).min
    assert "weights 0.3640 MB" in explorer.description


def test_without_a_kernel_the_default_shows():
    data, metadata = explore_parameters()._repr_mimebundle_()
    assert data["text/plain"].startswith("163,009,536 parameters")
    assert metadata["image/png"]["alt"] == data["text/plain"]
