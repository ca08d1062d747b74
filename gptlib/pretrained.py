"""GPT-2's published weights, read into this architecture."""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from gptlib.attention import causal_mask
from gptlib.config import SMALLEST
from gptlib.model import GPTModel

# A file holds no number of heads. In all four sizes each has 64 features.
HEAD_DIM = 64
# Our names → the published ones. Published query, key and value stand side by
# side in one tensor.
FUSED = ("att.W_query", "att.W_key", "att.W_value")
PUBLISHED_NAMES = {
    "tok_emb": "wte",
    "pos_emb": "wpe",
    "out_head": "wte",  # tied
    "final_norm": "ln_f",
    "trf_blocks": "h",
    "norm1": "ln_1",
    "norm2": "ln_2",
    ".scale": ".weight",
    ".shift": ".bias",
    **dict.fromkeys(FUSED, "attn.c_attn"),
    "att.out_proj": "attn.c_proj",
    "ff.layers.0": "mlp.c_fc",
    "ff.layers.2": "mlp.c_proj",
}
# Constants that some files hold: the causal mask, and what it puts in.
CONSTANTS = (".attn.bias", ".attn.masked_bias")


def load_gpt2(path):
    """A GPTModel with the weights of a published GPT-2, in evaluation mode.

    The sizes are read from the file: any of the four that OpenAI published,
    or another whose heads have 64 features. Published weights have the shape
    (in, out), ours (out, in): each is a transposed view of the file's tensor
    and no copy, so the model takes the memory of the file. The head is tied
    to the token table, and query, key and value have biases.
    Source: Radford et al. 2019; Hugging Face's names of the tensors.

    Args:
        path: a `model.safetensors` in Hugging Face's layout of GPT-2, with
            or without "transformer." in front of the names.

    Raises:
        FileNotFoundError: there is no file.
        ValueError: it is no whole safetensors file, or a tensor is missing,
            unknown or of another shape.
    """
    tensors = _read(Path(path))
    cfg = _config(tensors)
    with torch.device("meta"):  # shapes only: no memory yet
        model = GPTModel(cfg)
    state = _views(tensors, model.state_dict())
    model.load_state_dict(state, assign=True)
    model.out_head.weight = model.tok_emb.weight
    mask = causal_mask(cfg["context_length"])
    for block in model.trf_blocks:
        block.att.mask = mask
    return model.eval()


def _read(path):
    """Published name → tensor, without prefix, constants and tied head."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: download it first.")
    try:
        tensors = load_file(path)
    except SafetensorError as error:
        raise ValueError(
            f"{path.name} is no whole safetensors file ({error}): delete it "
            "and download model.safetensors again."
        ) from error
    tensors = {
        name.removeprefix("transformer."): tensor
        for name, tensor in tensors.items()
        if not name.endswith(CONSTANTS)
    }
    head = tensors.pop("lm_head.weight", None)
    if head is not None and not torch.equal(
        head, tensors.get("wte.weight", head)
    ):
        raise ValueError(
            "lm_head.weight differs from wte.weight: GPT-2's output head is "
            "its token table, so this file holds another model."
        )
    return tensors


def _config(tensors):
    """The configuration that a file's tensors belong to."""
    blocks = {name.split(".")[1] for name in tensors if name[:2] == "h."}
    tables = [tensors.get(name) for name in ("wte.weight", "wpe.weight")]
    if not blocks or any(t is None or t.dim() != 2 for t in tables):
        raise ValueError(
            "This is no GPT-2, whose tensors are wte.weight, wpe.weight, "
            f"h.0.ln_1.weight, …: it has {_some(sorted(tensors))}."
        )
    (vocab_size, emb_dim), (context_length, _) = (t.shape for t in tables)
    if emb_dim % HEAD_DIM:
        raise ValueError(
            f"wte.weight has {emb_dim} features: GPT-2's heads have "
            f"{HEAD_DIM} each, and {emb_dim} is no multiple of that."
        )
    return dict(
        SMALLEST,
        vocab_size=vocab_size,
        context_length=context_length,
        emb_dim=emb_dim,
        n_heads=emb_dim // HEAD_DIM,
        n_layers=len(blocks),
        qkv_bias=True,
    )


def _views(tensors, ours):
    """Our names → views of a file's tensors, in the shapes of `ours`."""
    views = {}
    faults = dict.fromkeys(tensors, "is unknown")
    for name, expected in ours.items():
        published = _published(name)
        tensor = tensors.get(published)
        if tensor is None:
            faults[published] = "is missing"
            continue
        views[name] = _view(name, tensor)
        faults[published] = f"has the shape {tuple(tensor.shape)}"
        if views[name].shape == expected.shape:
            del faults[published]
    if faults:
        said = [f"{name} {fault}" for name, fault in faults.items()]
        raise ValueError(f"This is no published GPT-2: {_some(said)}.")
    return views


def _published(name):
    for ours, theirs in PUBLISHED_NAMES.items():
        name = name.replace(ours, theirs)
    return name


def _view(name, tensor):
    """Our tensor of this name, as a view of the published one."""
    if not name.startswith("trf_blocks"):
        return tensor
    for part, fused in enumerate(FUSED):
        if fused in name:
            tensor = tensor.chunk(3, dim=-1)[part]
    return tensor.t() if tensor.dim() == 2 else tensor


def _some(names):
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more if names else "nothing"
