import itertools
import subprocess
import sys

import pytest
import torch
from torch import nn

from gptlib import (
    GPT2_CONFIGS,
    GPT_CONFIG_124M,
    GPTModel,
    LayerNorm,
    count_parameters,
    model_size_mb,
    parameter_formula,
    parameters_by_part,
)

XL = GPT2_CONFIGS["gpt2-xl (1558M)"]


def formula(cfg, tied):
    """The count from the configuration's numbers alone."""
    d, v = cfg["emb_dim"], cfg["vocab_size"]
    attention = 3 * (d * d + cfg["qkv_bias"] * d) + d * d + d
    feed_forward = (d * 4 * d + 4 * d) + (4 * d * d + d)
    block = attention + feed_forward + 2 * 2 * d
    embeddings = v * d + cfg["context_length"] * d
    return embeddings + cfg["n_layers"] * block + 2 * d + (not tied) * v * d


def test_the_notes_counts():
    assert count_parameters(GPT_CONFIG_124M) == 163_009_536
    assert count_parameters(GPT_CONFIG_124M, tied=True) == 124_412_160
    assert f"{model_size_mb(163_009_536):.2f}" == "621.83"


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("cfg", GPT2_CONFIGS.values(), ids=GPT2_CONFIGS)
def test_the_family_by_formula(cfg, tied):
    assert count_parameters(cfg, tied) == formula(cfg, tied)


@pytest.mark.parametrize("qkv_bias", [False, True])
def test_a_model_counts_like_its_configuration(tiny, qkv_bias):
    cfg = tiny | {"qkv_bias": qkv_bias}
    for tied in (False, True):
        expected = formula(cfg, tied)
        assert count_parameters(GPTModel(cfg), tied) == expected
        assert count_parameters(cfg, tied) == expected


def test_a_tied_head_is_counted_once_and_not_subtracted_again(tiny):
    model = GPTModel(tiny)
    model.out_head.weight = model.tok_emb.weight
    assert count_parameters(model) == formula(tiny, tied=True)
    assert count_parameters(model, tied=True) == formula(tiny, tied=True)


def test_shared_memory_is_counted_once_though_objects_differ(tiny):
    model = GPTModel(tiny)
    model.out_head.weight.data = model.tok_emb.weight.data
    assert model.out_head.weight is not model.tok_emb.weight
    assert count_parameters(model) == formula(tiny, tied=True)
    assert count_parameters(model, tied=True) == formula(tiny, tied=True)


def test_copied_weights_are_not_shared(tiny):
    model = GPTModel(tiny)
    with torch.no_grad():
        model.out_head.weight.copy_(model.tok_emb.weight)
    assert count_parameters(model) == formula(tiny, tied=False)


def test_buffers_do_not_count(tiny):
    longer = tiny | {"context_length": 32}  # a mask four times as large
    positions = 16 * tiny["emb_dim"]
    assert count_parameters(longer) - count_parameters(tiny) == positions


def test_one_block_repeated_counts_once(tiny):
    model = GPTModel(tiny)
    block = model.trf_blocks[0]
    model.trf_blocks = nn.Sequential(block, block)
    missing = sum(p.numel() for p in block.parameters())
    assert count_parameters(model) == formula(tiny, False) - missing


def test_counting_allocates_and_draws_nothing():
    state = torch.get_rng_state()
    with torch.device("cpu"):  # a default device must not win
        count_parameters(XL)
    assert torch.equal(torch.get_rng_state(), state)


def test_counting_loads_nothing():
    # On the meta device, a random start value makes torch load 830 modules.
    code = (
        "import sys\n"
        "from gptlib import GPT2_CONFIGS, count_parameters\n"
        "before = len(sys.modules)\n"
        "for cfg in GPT2_CONFIGS.values():\n"
        "    count_parameters(cfg, tied=True)\n"
        "print(len(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert int(done.stdout) < 20, done.stderr


def test_any_module_can_be_counted():
    assert count_parameters(nn.Linear(3, 5)) == 20
    assert count_parameters(LayerNorm(7)) == 14


@pytest.mark.parametrize("thing", [None, 124, "gpt2", [1]])
def test_what_is_neither_model_nor_configuration(thing):
    with pytest.raises(TypeError, match="a model or a configuration"):
        count_parameters(thing)


def test_tying_needs_both_matrices(tiny):
    with pytest.raises(ValueError, match="none and none"):
        count_parameters(nn.Linear(3, 5), tied=True)
    model = GPTModel(tiny)
    model.out_head = nn.Linear(24, 100, bias=False)
    with pytest.raises(ValueError, match=r"\(101, 24\) and \(100, 24\)"):
        count_parameters(model, tied=True)


def test_parts_add_up(tiny):
    parts = parameters_by_part(tiny)
    assert sum(parts.values()) == formula(tiny, tied=False)
    assert parts["head"] == 101 * 24
    assert parts["embedding"] == (101 + 16) * 24
    assert parts["norm"] == (2 * 2 + 1) * 2 * 24
    assert parts["attention"] == 2 * (4 * 24 * 24 + 24)


@pytest.mark.parametrize(
    "n, width, expected",
    [(2**20, 4, 4.0), (2**20, 2, 2.0), (0, 4, 0.0), (2**21, 0.5, 1.0)],
)
def test_megabytes_are_of_1024_times_1024(n, width, expected):
    assert model_size_mb(n, width) == expected


def test_tied_size_of_the_small_model():
    assert f"{model_size_mb(124_412_160):.2f}" == "474.59"


@pytest.mark.parametrize(
    "arguments, error",
    [
        ((-1,), ValueError),
        ((1.5,), TypeError),
        ((1, 0), ValueError),
        ((1, -4), ValueError),
    ],
)
def test_sizes_that_make_no_sense(arguments, error):
    with pytest.raises(error):
        model_size_mb(*arguments)


# The formula, without a model

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


def test_the_formula_gives_the_notes_figures():
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
def test_the_formula_gives_the_family(size, untied, tied_with_bias):
    cfg = GPT2_CONFIGS[size]
    assert parameter_formula(cfg) == untied
    biased = cfg | {"qkv_bias": True}
    assert parameter_formula(biased, tied=True) == tied_with_bias
