"""The whole GPT: embeddings, blocks, final norm, output head."""

import torch
from torch import nn

from gptlib.block import TransformerBlock
from gptlib.config import check_config
from gptlib.inputs import check_token_ids
from gptlib.layer_norm import LayerNorm


class GPTModel(nn.Module):
    """Token IDs (batch, tokens) to logits (batch, tokens, vocab_size).

    Parameters are created in the order of the lines below; with another
    order the same seed gives another model. Source: lecture notes,
    "Assembling the GPT model"; Radford et al. 2019, section 2.3.

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
            *(TransformerBlock(cfg) for _ in range(cfg["n_layers"]))
        )
        for block in self.trf_blocks:  # one mask for all: 1 MiB saved for each
            block.att.mask = self.trf_blocks[0].att.mask
        self.final_norm = LayerNorm(emb_dim)
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
