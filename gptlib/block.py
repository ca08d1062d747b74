"""The transformer block: attention, then feed-forward, each in a shortcut."""

from torch import nn

from gptlib.attention import MultiHeadAttention
from gptlib.config import check_config
from gptlib.feed_forward import FeedForward
from gptlib.layer_norm import LayerNorm


class TransformerBlock(nn.Module):
    """Pre-norm block: x + dropout(sub-layer(norm(x))), twice.

    Maps (batch, tokens, emb_dim) to the same shape. Source: lecture notes,
    "The transformer block"; Radford et al. 2019, section 2.3.

    Args:
        cfg: a configuration that `check_config` accepts.

    Raises:
        TypeError, KeyError, ValueError: see `check_config`; in `forward`
            see `LayerNorm` and `MultiHeadAttention`.
    """

    def __init__(self, cfg):
        super().__init__()
        check_config(cfg)
        self.att = MultiHeadAttention(
            d_in=cfg["emb_dim"],
            d_out=cfg["emb_dim"],
            context_length=cfg["context_length"],
            dropout=cfg["drop_rate"],
            num_heads=cfg["n_heads"],
            qkv_bias=cfg["qkv_bias"],
        )
        self.ff = FeedForward(cfg)
        self.norm1 = LayerNorm(cfg["emb_dim"])
        self.norm2 = LayerNorm(cfg["emb_dim"])
        self.drop_shortcut = nn.Dropout(cfg["drop_rate"])

    def forward(self, x):
        x = x + self.drop_shortcut(self.att(self.norm1(x)))
        x = x + self.drop_shortcut(self.ff(self.norm2(x)))
        return x  # (batch, tokens, emb)
