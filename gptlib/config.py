"""What fixes a GPT: seven entries, and what makes them valid."""

from collections.abc import Mapping
from difflib import get_close_matches
from numbers import Integral, Real
from types import MappingProxyType

# GPT-2's smallest size. Source: lecture notes, "The configuration"; Radford
# et al. 2019, "Language Models are Unsupervised Multitask Learners".
GPT_CONFIG_124M = {
    "vocab_size": 50257,  # tokens that the tokenizer knows
    "context_length": 1024,  # tokens that the model can read at once
    "emb_dim": 768,  # features of each token's vector
    "n_heads": 12,  # attention heads in each block
    "n_layers": 12,  # transformer blocks
    "drop_rate": 0.1,  # share of values that dropout zeroes in training
    "qkv_bias": False,  # whether query, key and value layers have a bias
}

# The four published sizes. Source: lecture notes, exercise 4.2.
GPT2_CONFIGS = {
    "gpt2-small (124M)": GPT_CONFIG_124M.copy(),
    "gpt2-medium (355M)": GPT_CONFIG_124M
    | {"emb_dim": 1024, "n_heads": 16, "n_layers": 24},
    "gpt2-large (774M)": GPT_CONFIG_124M
    | {"emb_dim": 1280, "n_heads": 20, "n_layers": 36},
    "gpt2-xl (1558M)": GPT_CONFIG_124M
    | {"emb_dim": 1600, "n_heads": 25, "n_layers": 48},
}

# Both dicts can be changed by whoever has them. What must not follow such a
# change, like the check below, goes by these copies, which can't.
PUBLISHED = MappingProxyType(
    {name: MappingProxyType(cfg.copy()) for name, cfg in GPT2_CONFIGS.items()}
)
SMALLEST = PUBLISHED["gpt2-small (124M)"]


def check_config(cfg):
    """Raise if `cfg` does not describe a model that can be built.

    Raises:
        TypeError: `cfg` is no mapping, or a value has the wrong type.
        KeyError: keys are missing, unknown or misspelt (all are listed).
        ValueError: a value is out of range, or `emb_dim` can't be divided
            among `n_heads`.
    """
    if not isinstance(cfg, Mapping):
        raise TypeError(
            "A configuration is a dict like GPT_CONFIG_124M; "
            f"got {type(cfg).__name__}."
        )
    _check_keys(cfg)
    for name, example in SMALLEST.items():
        if type(example) is int:
            check_count(cfg[name], name)
    check_drop_rate(cfg["drop_rate"], "drop_rate")
    if not isinstance(cfg["qkv_bias"], bool):
        raise TypeError(
            f"qkv_bias must be True or False; got {cfg['qkv_bias']!r}."
        )
    _check_heads(cfg)


def check_count(value, name, least=1):
    """Raise if `value` is no whole number of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(
            f"{name} must be a whole number (int); got {value!r} "
            f"({type(value).__name__})."
        )
    if value < least:
        raise ValueError(f"{name} must be at least {least}; got {value}.")


def check_drop_rate(value, name="dropout"):
    """Raise if `value` is no share between 0 and 1."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(
            f"{name} must be a number from 0 to 1; got {value!r} "
            f"({type(value).__name__})."
        )
    if not 0 <= value <= 1:
        raise ValueError(
            f"{name} must lie between 0 and 1 (0.1 drops 10 % of the "
            f"values); got {value}."
        )


def check_divisible(width, num_heads, width_name, heads_name):
    """Raise if the heads can't share `width` features evenly."""
    if width % num_heads:
        raise ValueError(
            f"{width_name}={width} is not divisible by {heads_name}="
            f"{num_heads}: each head takes {width_name} / {heads_name} "
            f"features, which would be {width / num_heads:.2f}; choose "
            f"{heads_name} among the divisors of {width_name}."
        )


def _check_keys(cfg):
    missing = [key for key in SMALLEST if key not in cfg]
    unknown = [key for key in cfg if key not in SMALLEST]
    if not missing and not unknown:
        return
    faults = []
    if missing:
        faults.append("lacks " + ", ".join(map(repr, missing)))
    if unknown:
        faults.append("has unknown " + ", ".join(map(_with_nearest, unknown)))
    raise KeyError(
        f"The configuration {' and '.join(faults)}; "
        f"its keys are {', '.join(SMALLEST)}."
    )


def _with_nearest(key):
    near = get_close_matches(str(key).lower(), SMALLEST, n=1)
    return f"{key!r} (did you mean {near[0]!r}?)" if near else repr(key)


def _check_heads(cfg):
    emb_dim, heads, layers = cfg["emb_dim"], cfg["n_heads"], cfg["n_layers"]
    try:
        check_divisible(emb_dim, heads, "emb_dim", "n_heads")
    except ValueError as error:
        swapped = {"emb_dim": emb_dim, "n_heads": layers, "n_layers": heads}
        if not any(swapped.items() <= s.items() for s in PUBLISHED.values()):
            raise
        raise ValueError(
            f"{error} GPT-2 of this width has n_heads={layers} and "
            f"n_layers={heads}: are the two swapped?"
        ) from None
