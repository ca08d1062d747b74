"""GELU and the feed-forward network: each position on its own."""

from torch import nn
from torch.nn import functional as F

from gptlib.config import check_config
from gptlib.inputs import check_features


class GELU(nn.Module):
    """The Gaussian error linear unit in its tanh form, elementwise.

    Computes x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))), which GPT-2 was
    trained with, by torch's own kernel; notebook 03 writes the formula out.
    The exact form x · Φ(x) differs by less than 0.0005.
    Source: Hendrycks & Gimpel 2016, "Gaussian Error Linear Units".
    """

    def forward(self, x):
        return F.gelu(x, approximate="tanh")


class FeedForward(nn.Module):
    """Linear to four times the width, GELU, Linear back.

    Maps (…, emb_dim) to (…, emb_dim); no position sees another. Source:
    lecture notes, "The module" of the feed-forward network.

    Args:
        cfg: a configuration that `check_config` accepts.

    Raises:
        TypeError, KeyError, ValueError: see `check_config`; in `forward`,
            the input has another width or is not floating-point.
    """

    def __init__(self, cfg):
        super().__init__()
        check_config(cfg)
        self.emb_dim = emb_dim = cfg["emb_dim"]
        self.layers = nn.Sequential(
            nn.Linear(emb_dim, 4 * emb_dim),
            GELU(),
            nn.Linear(4 * emb_dim, emb_dim),
        )

    def forward(self, x):
        check_features(x, self.emb_dim, "emb_dim")
        return self.layers(x)
