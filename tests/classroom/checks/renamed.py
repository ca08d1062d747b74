"""Names of mistakes that have changed: old → new.

The wrong answers in these tests were written before the checks had one
vocabulary; their tables keep the names that they were written with.
"""

RENAMED = {
    "activation-on-logits": "sigmoid-on-logits",
    "adds-input-twice": "input-added-twice",
    "averages": "averaged",
    "bias-in-head": "head-bias",
    "block-skipped": "blocks-skipped",
    "blocks-in-list": "blocks-plain-list",
    "blocks-run-twice": "blocks-twice",
    "changes-cfg": "config-changed",
    "changes-layer-sizes": "config-changed",
    "dropout-in-eval": "dropout-in-evaluation",
    "dropout-not-scaled": "dropout-not-rescaled",
    "embedding-scaled": "embeddings-scaled",
    "gradient-blocked": "gradient-detached",
    "gradient-cut": "gradient-detached",
    "gradient-lost": "gradient-detached",
    "hard-coded-size": "size-hardcoded",
    "hardcoded-size": "size-hardcoded",
    "in-place": "input-overwritten",
    "in-place-addition": "input-overwritten",
    "input-changed": "input-overwritten",
    "layers-missing": "wrong-name",
    "log-softmax-applied": "softmax-on-logits",
    "multiplies": "multiplied",
    "no-activation": "activation-missing",
    "norm-after-each-block": "final-norm-after-each-block",
    "norm-after-head": "norm-on-logits",
    "norm-before-blocks": "final-norm-before-blocks",
    "not-a-tensor": "wrong-type",
    "not-parameters": "not-registered",
    "overwrites-input": "input-overwritten",
    "overwritten-input": "adds-output-to-itself",
    "parameters-not-registered": "not-registered",
    "position-added-twice": "positions-added-twice",
    "position-batch-axis": "positions-along-batch",
    "position-embedding-constant": "positions-constant",
    "position-multiplied": "embeddings-multiplied",
    "position-subtracted": "positions-subtracted",
    "positions-after-blocks": "positions-added-late",
    "positions-context-length": "positions-of-full-context",
    "positions-from-ids": "positions-from-token-ids",
    "positions-wrong-device": "positions-on-wrong-device",
    "softmax-applied": "softmax-on-logits",
    "subtracts": "subtracted",
    "tied": "tied-head",
    "token-added-twice": "token-embedding-twice",
    "wrong-drop-share": "dropout-rate-wrong",
}
# One old name that stood for two mistakes.
RENAMED_IN = {
    "attention": {"not-a-number": "output-not-finite"},
    "generation": {
        "gradient-left-off": "gradients-turned-off",
        "limit-ignored": "max-new-tokens-ignored",
        "prompts-changed": "input-overwritten",
    },
    "model": {
        "embedding-dropout-missing": "dropout-missing",
        "embedding-dropout-on-each": "dropout-before-addition",
        "embedding-dropout-on-positions-only": "dropout-before-addition",
        "embedding-dropout-on-tokens-only": "dropout-before-addition",
        "embedding-dropout-twice": "dropout-twice",
        "head-size": "wrong-size",
        "logits-flattened": "batch-flattened",
        "logits-transposed": "axes-swapped",
        "token-table-size": "vocabulary-width-swapped",
    },
    "model, forward": {
        "position-embedding-missing": "position-embedding-unused",
        "token-embedding-missing": "token-embedding-unused",
    },
    "parameters": {"not-a-number": "wrong-type"},
    "skeleton": {
        "block-skipped": "blocks-skipped",
        "dropout-unused": "dropout-missing",
        "flattened": "batch-flattened",
        "positions-wrong-axis": "positions-along-batch",
        "wrong-drop-rate": "drop-rate-not-handed-on",
    },
}


def renamed(name, file=None):
    """The name that a mistake has now."""
    return RENAMED_IN.get(file, {}).get(name) or RENAMED.get(name, name)
