import itertools

import pytest
import torch

from classroom.explore import explore_parameters
from classroom.explore.parameters import memory_need, parameter_formula
from gptlib import (
    GPT2_CONFIGS,
    GPT_CONFIG_124M,
    GPTModel,
    check_config,
    count_parameters,
)

SMALL_CONFIGS = [
    GPT_CONFIG_124M
    | dict(
        zip(
            ("vocab_size", "context_length", "n_heads", "emb_dim", "n_layers"),
            (vocab, context, heads, heads * size, layers),
            strict=True,
        )
    )
    | {"qkv_bias": bias}
    for vocab, context, heads, size, layers, bias in itertools.product(
        (1, 101), (1, 16), (1, 3), (1, 8), (1, 2), (False, True)
    )
]


@pytest.mark.parametrize("tied", [False, True])
def test_the_formula_counts_as_the_model_does(tied):
    configs = [*SMALL_CONFIGS, GPT_CONFIG_124M]
    for cfg in configs:
        assert parameter_formula(cfg, tied) == count_parameters(cfg, tied)


def test_the_notes_figures():
    assert parameter_formula(GPT_CONFIG_124M) == 163_009_536
    assert parameter_formula(GPT_CONFIG_124M, tied=True) == 124_412_160


@pytest.mark.parametrize(
    ("size", "untied", "tied_with_bias"),
    [
        ("gpt2-small (124M)", 163_009_536, 124_439_808),
        ("gpt2-medium (355M)", 406_212_608, 354_823_168),
        ("gpt2-large (774M)", 838_220_800, 774_030_080),
        ("gpt2-xl (1558M)", 1_637_792_000, 1_557_611_200),
    ],
)
def test_the_family(size, untied, tied_with_bias):
    cfg = GPT2_CONFIGS[size]
    assert parameter_formula(cfg) == untied
    biased = cfg | {"qkv_bias": True}
    assert parameter_formula(biased, tied=True) == tied_with_bias


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
