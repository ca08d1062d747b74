import pytest
import torch

from classroom.explore import explore_parameters
from classroom.explore.parameters import memory_need
from gptlib import (
    GPT2_CONFIGS,
    GPT_CONFIG_124M,
    GPTModel,
    check_config,
    parameter_formula,
)


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


def test_the_default_says_the_notes_figures():
    told = explore_parameters().description
    assert "163,009,536 parameters" in told
    assert "621.83 MB" in told
    assert "Fits in 1 GB, 2 GB, 8 GB, 16 GB, 80 GB" in told


def test_each_control_over_its_range(sweep):
    impossible = sweep(explore_parameters())
    assert any("not divisible by n_heads=13" in told for told in impossible)


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
    # No setting on the way, such as 12 heads of a width of 1600, was drawn.
    assert all(values == drawn[-1] for values in drawn)
    control(explorer, "training").value = True
    assert "26,204,672,000 bytes" in explorer.description
    assert "Fits in 80 GB;" in explorer.description
    press(explorer, "gpt2-small (124M)")
    assert "Fits in 8 GB, 16 GB, 80 GB" in explorer.description
    explorer.reset.click()
    assert "621.83 MB" in explorer.description


@pytest.mark.parametrize("size", GPT2_CONFIGS)
def test_the_sliders_can_show_every_size(size):
    explorer = explore_parameters()
    press(explorer, size)
    count = parameter_formula(GPT2_CONFIGS[size])
    assert f"{count:,} parameters" in explorer.description


def test_the_largest_fits_nowhere(control):
    explorer = explore_parameters()
    control(explorer, "n_heads").value = 64
    for label in ("vocab_size", "context", "emb_dim", "n_layers"):
        control(explorer, label).value = control(explorer, label).max
    control(explorer, "training").value = True
    assert "Fits in none of 1 GB," in explorer.description


def test_without_a_kernel_the_default_shows():
    data, metadata = explore_parameters()._repr_mimebundle_()
    assert data["text/plain"].startswith("163,009,536 parameters")
    assert metadata["image/png"]["alt"] == data["text/plain"]
