"""Layer normalization: each token's features to mean 0 and variance 1."""

import torch
from torch import nn
from torch.nn import functional as F

from gptlib.config import check_count
from gptlib.inputs import check_features


class LayerNorm(nn.Module):
    """Normalize the last axis, then scale and shift it.

    Computes scale · (x − mean) / √(variance + eps) + shift by torch's own
    kernel; notebook 02 writes the formula out. The variance is the biased
    one (divided by n, not n − 1), as in GPT-2's own weights. The same as
    `torch.nn.LayerNorm`, whose `weight` and `bias` are here called `scale`
    and `shift`. Source: Ba et al. 2016, "Layer Normalization";
    lecture notes, "The module" of layer normalization.

    Args:
        emb_dim: number of features on the last axis of the input.

    Raises:
        TypeError, ValueError: `emb_dim` is no whole number ≥ 1; in
            `forward`, the input has another width or is not floating-point.
    """

    def __init__(self, emb_dim):
        super().__init__()
        check_count(emb_dim, "emb_dim")
        self.eps = 1e-5
        self.scale = nn.Parameter(torch.ones(emb_dim))
        self.shift = nn.Parameter(torch.zeros(emb_dim))

    def forward(self, x):
        check_features(x, len(self.scale), "emb_dim")
        return F.layer_norm(
            x, self.scale.shape, self.scale, self.shift, self.eps
        )
