"""Generating text: the loop that feeds a model its own choices."""

import warnings

import torch

from gptlib.config import check_count
from gptlib.inputs import check_token_ids


def generate_text_simple(model, idx, max_new_tokens, context_size):
    """Append the most probable next token, `max_new_tokens` times.

    Source: lecture notes, "Generating text autoregressively".

    Args:
        model: maps IDs (batch, tokens) to logits (batch, tokens, vocab).
            Its train or eval mode stays as it is.
        idx: the prompt's token IDs, (batch, n_tokens); not changed.
        max_new_tokens: how many tokens to append.
        context_size: how many of the last tokens the model reads.

    Returns:
        IDs, (batch, n_tokens + max_new_tokens), the prompt first.

    Raises:
        TypeError, ValueError: `idx` is no batch of IDs that the model knows,
            a number is not whole, `max_new_tokens` is negative, or
            `context_size` is below 1 or above the model's own.

    Warns:
        UserWarning: the model is in training mode.
    """
    check_generation_input(model, idx, max_new_tokens, context_size)
    for _ in range(max_new_tokens):
        with torch.no_grad():
            logits = model(idx[:, -context_size:])  # (batch, tokens, vocab)
        # The largest logit is the largest probability: no softmax needed.
        idx_next = logits[:, -1, :].argmax(dim=-1, keepdim=True)  # (batch, 1)
        idx = torch.cat((idx, idx_next.to(idx.dtype)), dim=1)
    return idx.clone() if max_new_tokens == 0 else idx


def check_generation_input(model, idx, max_new_tokens, context_size):
    """Raise or warn if generation would go wrong (see the functions here)."""
    check_count(max_new_tokens, "max_new_tokens", least=0)
    check_count(context_size, "context_size")
    longest = getattr(getattr(model, "pos_emb", None), "num_embeddings", None)
    if longest is not None and context_size > longest:
        raise ValueError(
            f"context_size={context_size} is more than the model can read: "
            f"its context_length is {longest}."
        )
    table = getattr(model, "tok_emb", None)
    check_token_ids(idx, getattr(table, "num_embeddings", torch.inf))
    if any(module.training for module in model.modules()):
        warnings.warn(
            "The model is in training mode: dropout is on and the output "
            "changes from run to run; call model.eval() first.",
            stacklevel=3,
        )
