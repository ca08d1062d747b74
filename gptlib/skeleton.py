"""The placeholder model: GPT's data path before any part of it works."""

import torch
from torch import nn

from gptlib.config import check_config
from gptlib.inputs import check_token_ids


class DummyGPTModel(nn.Module):
    """Embeddings and output head with placeholders in between.

    Token IDs (batch, tokens) become logits (batch, tokens, vocab_size).
    Source: lecture notes, "The skeleton".

    Args:
        cfg: a configuration that `check_config` accepts.

    Raises:
        TypeError, KeyError, ValueError: see `check_config`; in `forward`
            see `check_token_ids`.
    """

    def __init__(self, cfg):
        super().__init__()
        check_config(cfg)
        vocab_size, emb_dim = cfg["vocab_size"], cfg["emb_dim"]
        self.tok_emb = nn.Embedding(vocab_size, emb_dim)
        self.pos_emb = nn.Embedding(cfg["context_length"], emb_dim)
        self.drop_emb = nn.Dropout(cfg["drop_rate"])
        self.trf_blocks = nn.Sequential(
            *(DummyTransformerBlock(cfg) for _ in range(cfg["n_layers"]))
        )
        self.final_norm = DummyLayerNorm(emb_dim)
        self.out_head = nn.Linear(emb_dim, vocab_size, bias=False)

    def forward(self, in_idx):
        check_token_ids(
            in_idx, self.tok_emb.num_embeddings, self.pos_emb.num_embeddings
        )
        positions = torch.arange(in_idx.shape[1], device=in_idx.device)
        x = self.tok_emb(in_idx)  # (batch, tokens, emb)
        x = x + self.pos_emb(positions)
        x = self.drop_emb(x)
        x = self.trf_blocks(x)
        x = self.final_norm(x)
        return self.out_head(x)  # (batch, tokens, vocab)


class DummyTransformerBlock(nn.Module):
    """Holds a block's place; returns its input unchanged."""

    def __init__(self, cfg):
        super().__init__()
        check_config(cfg)

    def forward(self, x):
        return x


class DummyLayerNorm(nn.Module):
    """Holds a layer norm's place; returns its input unchanged."""

    def __init__(self, normalized_shape, eps=1e-5):
        super().__init__()

    def forward(self, x):
        return x
