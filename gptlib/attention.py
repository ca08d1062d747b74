"""Masked multi-head attention: the previous unit's module."""

import torch
from torch import nn
from torch.nn import functional as F

from gptlib.config import check_count, check_divisible, check_drop_rate
from gptlib.inputs import check_features


class MultiHeadAttention(nn.Module):
    """Each position gathers values from itself and earlier positions.

    Maps (batch, tokens, d_in) to (batch, tokens, d_out). `mask` marks what a
    position must not see: a buffer, so it moves with the module and is no
    parameter; it is not saved, since it can always be made again. torch's
    kernel masks by itself, so another `mask` changes nothing but the weights
    that are returned. Source: Vaswani et al. 2017, "Attention Is All You
    Need", section 3.2.

    Args:
        d_in: features of the input.
        d_out: features of the output, shared evenly by the heads.
        context_length: the longest sequence.
        dropout: share of attention weights dropped in training.
        num_heads: number of heads.
        qkv_bias: whether the query, key and value layers have a bias.

    Raises:
        TypeError, ValueError: a size is no whole number ≥ 1, `d_out` is not
            divisible by `num_heads`, or `dropout` lies outside [0, 1]; in
            `forward`, an input of another shape or too many tokens.
    """

    def __init__(
        self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False
    ):
        super().__init__()
        check_count(d_in, "d_in")
        check_count(d_out, "d_out")
        check_count(context_length, "context_length")
        check_count(num_heads, "num_heads")
        check_divisible(d_out, num_heads, "d_out", "num_heads")
        check_drop_rate(dropout)
        self.d_in, self.num_heads = d_in, num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer(
            "mask", causal_mask(context_length), persistent=False
        )

    def forward(self, x, return_weights=False):
        """Context vectors of `x`, (batch, tokens, d_out).

        With `return_weights` a pair: the context vectors, and the attention
        weights before dropout, (batch, heads, tokens, tokens).
        """
        self._check_input(x)
        queries = self.split_heads(self.W_query(x))
        keys = self.split_heads(self.W_key(x))
        values = self.split_heads(self.W_value(x))
        context = self.out_proj(self.gather(queries, keys, values))
        if return_weights:
            return context, self._weights(queries, keys)
        return context

    def split_heads(self, x):
        """(batch, tokens, d_out) → (batch, heads, tokens, head_dim)."""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def gather(self, queries, keys, values):
        """Each query's weighted sum of values, (batch, tokens, d_out).

        Several queries stand at the positions of the keys, and each sees
        its own and earlier ones; a single query is the last position.
        """
        context = F.scaled_dot_product_attention(
            queries,
            keys,
            values,
            dropout_p=self.dropout.p if self.dropout.training else 0.0,
            is_causal=bool(queries.shape[2] > 1),  # an export has SymBool
        )  # (batch, heads, tokens, head_dim)
        return context.transpose(1, 2).flatten(2)

    def _weights(self, queries, keys):
        """What `gather` weights by, before dropout: its kernel keeps none."""
        scores = queries @ keys.transpose(2, 3)  # (batch, heads, tok, tok)
        scores = scores / queries.shape[-1] ** 0.5
        hidden = self.mask[: scores.shape[2], : scores.shape[3]]
        return scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)

    def _check_input(self, x):
        check_features(x, self.d_in, "d_in")
        if x.dim() != 3 or 0 in x.shape:
            raise ValueError(
                "Attention expects (batch, tokens, d_in), none of them 0; "
                f"got shape {tuple(x.shape)}."
            )
        if x.shape[1] > len(self.mask):
            raise ValueError(
                f"The sequence has {x.shape[1]} tokens but the module reads "
                f"at most context_length={len(self.mask)}: crop it first."
            )

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs):
        # The notes' module saves its mask, as numbers; this one makes its own.
        state_dict.pop(f"{prefix}mask", None)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        # to_empty leaves a buffer unset, and a mask that is not saved would
        # stay so: make it again wherever the module has been moved.
        self.mask = causal_mask(len(self.mask), self.mask.device)
        return self


def causal_mask(size, device=None):
    """True above the diagonal: row i must not see column j > i."""
    everywhere = torch.ones(size, size, dtype=torch.bool, device=device)
    return everywhere.triu(diagonal=1)
