"""Generating text without reading a token twice: keys and values kept."""

import torch

from gptlib.attention import MultiHeadAttention
from gptlib.block import TransformerBlock
from gptlib.generation import check_generation_input
from gptlib.model import GPTModel


def generate_text_cached(
    model, idx, max_new_tokens, context_size, *, on_token=None
):
    """`generate_text_simple`'s IDs, each token read once.

    A token's keys and values in each block depend on earlier tokens only, so
    they are kept, and a round reads nothing but the newest token. Beyond
    `context_size` the window slides: every token moves one position to the
    left, no kept key holds any more, and each round reads the whole window
    again, as the plain loop does. The IDs are the same unless the two
    largest logits differ by no more than rounding. Source: lecture notes,
    "Generating text autoregressively"; notebook 08, "The cure".

    Args:
        model: a GPTModel. Its train or eval mode stays as it is, nothing is
            stored on it, and hooks on it, its blocks and their attention
            are not called.
        idx: the prompt's token IDs, (batch, n_tokens); not changed.
        max_new_tokens: how many tokens to append.
        context_size: how many of the last tokens the model reads.
        on_token: called after each round with the IDs chosen in it, (batch,):
            to show a text as it grows, or to end it with an exception.

    Returns:
        IDs, (batch, n_tokens + max_new_tokens), the prompt first.

    Raises:
        TypeError: `model`, a block or its attention is not gptlib's.
        TypeError, ValueError: as in `generate_text_simple`.

    Warns:
        UserWarning: the model is in training mode.
    """
    check_generation_input(model, idx, max_new_tokens, context_size)
    _check_path(model)
    batch, prompt = idx.shape
    ids = idx.new_empty(batch, prompt + max_new_tokens)
    ids[:, :prompt] = idx
    cache = new_cache(model, batch, min(context_size, ids.shape[1]))
    kept = 0  # how many of the window's tokens the cache holds
    for end in range(prompt, prompt + max_new_tokens):
        start = max(0, end - context_size)  # of the window
        kept = 0 if start > 0 else kept
        with torch.inference_mode():
            logits = read(model, ids[:, start + kept : end], cache, kept)
        ids[:, end] = chosen = logits.argmax(dim=-1)  # (batch,)
        kept = end - start
        if on_token is not None:
            on_token(chosen)
    return ids


def new_cache(model, batch, tokens):
    """Room for each block's keys, then values, as a list of tensors of shape
    (2, batch, heads, tokens, head_dim)."""
    table = model.pos_emb.weight  # for its dtype and device
    heads = (block.att.num_heads for block in model.trf_blocks)
    shapes = ((2, batch, n, tokens, table.shape[1] // n) for n in heads)
    return [table.new_empty(shape) for shape in shapes]


def read(model, ids, cache, kept):
    """Logits after the last of `ids`, the tokens after the `kept` ones.

    The path of `GPTModel.forward`, (batch, tokens) → (batch, vocab), except
    that attention looks at the cache and the head sees one position. `ids`
    holds one token, or `kept` is 0.
    """
    positions = torch.arange(kept, kept + ids.shape[1], device=ids.device)
    x = model.tok_emb(ids) + model.pos_emb(positions)  # (batch, tokens, emb)
    # All but attention treats each token alone, and torch's product with a
    # weight starts sooner on two axes than on three.
    x = model.drop_emb(x).flatten(0, 1)  # (batch · tokens, emb)
    for block, (keys, values) in zip(model.trf_blocks, cache, strict=True):
        attended = _attend(block.att, block.norm1(x), keys, values, kept)
        x = x + block.drop_shortcut(attended)
        x = x + block.drop_shortcut(block.ff(block.norm2(x)))
    last = x.view(*ids.shape, -1)[:, -1]  # (batch, emb)
    return model.out_head(model.final_norm(last))


def _attend(att, x, keys, values, kept):
    """`att(x)` for tokens after the `kept` ones, whose keys join the cache."""
    batch = len(keys)
    end = kept + len(x) // batch

    def by_head(rows):
        return att.split_heads(rows.view(batch, -1, rows.shape[1]))

    keys[:, :, kept:end] = by_head(att.W_key(x))
    values[:, :, kept:end] = by_head(att.W_value(x))
    queries = by_head(att.W_query(x))
    context = att.gather(queries, keys[:, :, :end], values[:, :, :end])
    return att.out_proj(context.flatten(0, 1))


def _check_path(model):
    """Raise where `read` would walk another path than `model(ids)`."""
    for module, known in _walked(model):
        if type(module).forward is not known.forward:
            raise TypeError(
                "generate_text_cached walks the path of gptlib's "
                f"{known.__name__}, and {type(module).__name__} may have "
                "another: generate_text_simple takes any model."
            )


def _walked(model):
    yield model, GPTModel
    for block in model.trf_blocks:
        yield block, TransformerBlock
        yield block.att, MultiHeadAttention
