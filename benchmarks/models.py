"""The models that are measured, and Hugging Face's of the same sizes."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is downloaded: random weights

import torch  # noqa: E402
import transformers  # noqa: E402

from gptlib import GPT_CONFIG_124M, GPTModel  # noqa: E402

PROMPT = torch.tensor([[15496, 11, 314, 716]])  # "Hello, I am"
SMALL = GPT_CONFIG_124M | {
    "vocab_size": 5000,
    "context_length": 256,
    "emb_dim": 256,
    "n_heads": 4,
    "n_layers": 4,
}
transformers.logging.set_verbosity_error()


def ours(cfg=GPT_CONFIG_124M):
    torch.manual_seed(123)
    return GPTModel(cfg).eval()


def hugging_face(cfg=GPT_CONFIG_124M):
    """Their GPT-2 with its head tied, as they publish it."""
    torch.manual_seed(123)
    config = transformers.GPT2Config(
        vocab_size=cfg["vocab_size"],
        n_positions=cfg["context_length"],
        n_embd=cfg["emb_dim"],
        n_layer=cfg["n_layers"],
        n_head=cfg["n_heads"],
        resid_pdrop=cfg["drop_rate"],
        embd_pdrop=cfg["drop_rate"],
        attn_pdrop=cfg["drop_rate"],
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return transformers.GPT2LMHeadModel(config).eval()


def matrices(model):
    """The weights that each generated token is multiplied by."""
    named = model.named_parameters()
    return [p for name, p in named if p.dim() == 2 and "_emb" not in name]
