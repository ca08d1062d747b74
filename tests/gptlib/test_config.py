import pytest
import torch
from common import message

import gptlib
from gptlib import GPT2_CONFIGS, GPT_CONFIG_124M, check_config
from gptlib.config import PUBLISHED, SMALLEST

MODULES = [
    gptlib.DummyGPTModel,
    gptlib.DummyTransformerBlock,
    gptlib.FeedForward,
    gptlib.TransformerBlock,
    gptlib.GPTModel,
]


def test_the_notes_configuration():
    assert GPT_CONFIG_124M == {
        "vocab_size": 50257,
        "context_length": 1024,
        "emb_dim": 768,
        "n_heads": 12,
        "n_layers": 12,
        "drop_rate": 0.1,
        "qkv_bias": False,
    }


def test_the_family_of_exercise_4_2():
    shapes = {
        name: (cfg["emb_dim"], cfg["n_layers"], cfg["n_heads"])
        for name, cfg in GPT2_CONFIGS.items()
    }
    assert shapes == {
        "gpt2-small (124M)": (768, 12, 12),
        "gpt2-medium (355M)": (1024, 24, 16),
        "gpt2-large (774M)": (1280, 36, 20),
        "gpt2-xl (1558M)": (1600, 48, 25),
    }, (
        "The lecture notes and the notebooks count four published sizes with "
        "heads of 64 features: let a notebook that needs another define it. "
        "Or change this table, and read all of notebook 07, which counts "
        'and names them ("four", "all four"), and INSTRUCTORS.md on it.'
    )
    for cfg in GPT2_CONFIGS.values():
        check_config(cfg)


@pytest.mark.parametrize("key", GPT_CONFIG_124M)
def test_a_missing_key_is_named(key):
    cfg = {k: v for k, v in GPT_CONFIG_124M.items() if k != key}
    with pytest.raises(KeyError) as raised:
        check_config(cfg)
    assert f"lacks '{key}'" in message(raised)


@pytest.mark.parametrize(
    "wrong, right",
    [
        ("context_len", "context_length"),
        ("ctx_length", "context_length"),
        ("n_head", "n_heads"),
        ("num_heads", "n_heads"),
        ("num_layers", "n_layers"),
        ("embed_dim", "emb_dim"),
        ("Emb_Dim", "emb_dim"),
        ("dropout_rate", "drop_rate"),
        ("vocabsize", "vocab_size"),
    ],
)
def test_a_misspelt_key_gets_the_nearest_name(wrong, right):
    cfg = dict(GPT_CONFIG_124M)
    cfg[wrong] = cfg.pop(right)
    with pytest.raises(KeyError) as raised:
        check_config(cfg)
    assert f"'{wrong}' (did you mean '{right}'?)" in message(raised)
    assert f"lacks '{right}'" in message(raised)


def test_all_wrong_keys_are_listed_at_once():
    cfg = dict(GPT_CONFIG_124M, zzz=1, n_head=2)
    del cfg["vocab_size"], cfg["emb_dim"]
    with pytest.raises(KeyError) as raised:
        check_config(cfg)
    for word in ("'zzz'", "'n_head'", "'vocab_size'", "'emb_dim'"):
        assert word in message(raised)


@pytest.mark.parametrize(
    "key, value",
    [
        ("n_heads", 3.0),
        ("n_layers", "12"),
        ("vocab_size", None),
        ("context_length", True),
        ("emb_dim", [768]),
        ("drop_rate", "0.1"),
        ("drop_rate", True),
        ("qkv_bias", 0),
        ("qkv_bias", None),
    ],
)
def test_a_wrong_type_is_named_with_its_value(key, value):
    with pytest.raises(TypeError) as raised:
        check_config(GPT_CONFIG_124M | {key: value})
    assert key in message(raised) and repr(value) in message(raised)


@pytest.mark.parametrize(
    "key, value",
    [
        ("n_layers", 0),
        ("n_heads", 0),
        ("n_heads", -12),
        ("vocab_size", 0),
        ("context_length", -1),
        ("emb_dim", 0),
        ("drop_rate", -0.1),
        ("drop_rate", 1.5),
        ("drop_rate", float("nan")),
    ],
)
def test_a_value_out_of_range_is_named(key, value):
    with pytest.raises(ValueError) as raised:
        check_config(GPT_CONFIG_124M | {key: value})
    assert key in message(raised) and str(value) in message(raised)


@pytest.mark.parametrize("rate", [0, 0.0, 1, 1.0])
def test_both_ends_of_the_drop_rate_are_valid(rate):
    check_config(GPT_CONFIG_124M | {"drop_rate": rate})


def test_one_of_everything_is_valid():
    names = ("vocab_size", "context_length", "emb_dim", "n_heads", "n_layers")
    check_config(GPT_CONFIG_124M | dict.fromkeys(names, 1))


def test_heads_that_do_not_divide_the_width():
    with pytest.raises(ValueError) as raised:
        check_config(GPT_CONFIG_124M | {"n_heads": 7, "n_layers": 11})
    assert "768" in message(raised) and "n_heads=7" in message(raised)
    assert "swapped" not in message(raised)


def test_swapped_heads_and_layers_are_suspected():
    xl = GPT2_CONFIGS["gpt2-xl (1558M)"]
    with pytest.raises(ValueError) as raised:
        check_config(xl | {"n_heads": 48, "n_layers": 25})
    for word in ("1600", "n_heads=48", "n_heads=25", "swapped"):
        assert word in message(raised)


@pytest.mark.parametrize(
    "entries",
    [
        {"emb_dim": 24, "n_heads": 5, "n_layers": 2},
        {"n_heads": 7},  # 12 layers, which would be 12 heads of 64
        {"emb_dim": 1600, "n_heads": 47, "n_layers": 25},
    ],
)
def test_a_swap_is_only_suspected_where_it_would_give_a_published_size(
    entries,
):
    with pytest.raises(ValueError, match="not divisible") as raised:
        check_config(GPT_CONFIG_124M | entries)
    assert "swapped" not in message(raised)


@pytest.mark.parametrize("cfg", [None, [], "gpt2", GPT_CONFIG_124M.items()])
def test_a_configuration_must_be_a_mapping(cfg):
    with pytest.raises(TypeError, match="is a dict"):
        check_config(cfg)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_checks_its_configuration(module, tiny):
    with torch.device("meta"):
        module(tiny)
    with pytest.raises(KeyError, match="did you mean"):
        module(tiny | {"n_head": 3})


@pytest.fixture
def changed_by_a_learner():
    """The public dicts as a learner may leave them: misspelt and emptied."""
    small, family = GPT_CONFIG_124M.copy(), GPT2_CONFIGS.copy()
    GPT_CONFIG_124M["context_len"] = 256
    del GPT_CONFIG_124M["drop_rate"]
    GPT2_CONFIGS.clear()
    yield
    GPT_CONFIG_124M.clear()
    GPT_CONFIG_124M.update(small)
    GPT2_CONFIGS.update(family)


def test_a_changed_public_dict_changes_no_verdict(tiny, changed_by_a_learner):
    check_config(tiny)
    with pytest.raises(KeyError) as raised:
        check_config(GPT_CONFIG_124M)
    said = message(raised)
    assert "lacks 'drop_rate'" in said
    assert "'context_len' (did you mean 'context_length'?)" in said
    assert said.endswith(
        "its keys are vocab_size, context_length, emb_dim, n_heads, "
        "n_layers, drop_rate, qkv_bias."
    )


def test_a_changed_public_dict_changes_no_explorer(changed_by_a_learner):
    from classroom import explore

    for name in ("configuration", "parameters", "attention", "model"):
        explorer = getattr(explore, f"explore_{name}")()
        assert "gpt-shown" in explorer.words.value, explorer.words.value
    presets, *_ = explore.explore_parameters().children
    assert len(presets.children[1].children) == len(PUBLISHED)


def test_the_published_sizes_can_not_be_changed():
    with pytest.raises(TypeError):
        PUBLISHED["gpt2-small (124M)"] = {}
    with pytest.raises(TypeError):
        SMALLEST["emb_dim"] = 1
    assert PUBLISHED == GPT2_CONFIGS and SMALLEST == GPT_CONFIG_124M
