"""What a module accepts: one clear sentence instead of a late torch error."""

import torch


def check_token_ids(ids, vocab_size, max_tokens=None):
    """Raise if `ids` is no batch of token IDs that a model can embed.

    Args:
        ids: should be an integer tensor of shape (batch, tokens).
        vocab_size: IDs run from 0 to `vocab_size - 1`.
        max_tokens: the longest sequence, or None for any length.

    Raises:
        TypeError: not a tensor, or not of dtype int64 or int32.
        ValueError: not two axes, empty, too long, or an ID out of range.
    """
    if isinstance(ids, str):
        raise TypeError(
            f"Expected token IDs, got text {ids[:20]!r}: encode it first, as "
            "in torch.tensor([tokenizer.encode(text)])."
        )
    if not isinstance(ids, torch.Tensor):
        raise TypeError(
            f"Expected token IDs as a tensor of shape (batch, tokens), got "
            f"{type(ids).__name__}: wrap them, as in torch.tensor([[…]])."
        )
    if ids.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            f"Token IDs must be whole numbers (torch.int64 or torch.int32), "
            f"got {ids.dtype}: convert with ids.long() if these are IDs."
        )
    _check_ids_shape(ids, max_tokens)
    # On meta, and while torch traces a model, there are no values to look at.
    if not (ids.is_meta or torch.compiler.is_compiling()):
        _check_ids_range(ids, vocab_size)


def check_features(x, width, width_name):
    """Raise if `x` is no float tensor with `width` features on its last axis.

    Raises:
        TypeError: not a floating-point tensor.
        ValueError: the last axis has another width.
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(
            f"Expected a tensor of shape (…, {width}), got {type(x).__name__}."
        )
    if not x.is_floating_point():
        raise TypeError(
            f"Expected floating-point features, got {x.dtype}: token IDs "
            "must pass through an embedding first."
        )
    if x.dim() == 0 or x.shape[-1] != width:
        raise ValueError(
            f"Expected {width} features ({width_name}={width}) on the last "
            f"axis, got shape {tuple(x.shape)}."
        )


def _check_ids_shape(ids, max_tokens):
    shape = tuple(ids.shape)
    if ids.dim() != 2:
        cure = (
            "add the batch axis with ids.unsqueeze(0)"
            if ids.dim() == 1
            else "give one row of IDs for each text"
        )
        raise ValueError(
            f"Expected token IDs of shape (batch, tokens), got shape {shape} "
            f"with {ids.dim()} {'axis' if ids.dim() == 1 else 'axes'}: "
            f"{cure}."
        )
    if 0 in shape:
        raise ValueError(
            f"Token IDs of shape {shape} are empty: give at least one row "
            "with at least one token."
        )
    if max_tokens is not None and shape[1] > max_tokens:
        raise ValueError(
            f"The sequence has {shape[1]} tokens but the model reads at most "
            f"context_length={max_tokens}: crop with ids[:, -{max_tokens}:]."
        )


def _check_ids_range(ids, vocab_size):
    wrong = (ids < 0) | (ids >= vocab_size)
    if wrong.any():
        row, column = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"Token ID {ids[row, column].item()} in row {row}, position "
            f"{column} is outside the vocabulary: IDs run from 0 to "
            f"{vocab_size - 1} (vocab_size={vocab_size})."
        )
