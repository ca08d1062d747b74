"""How many parameters a model has, where they sit, and what they weigh."""

import contextlib
from collections.abc import Mapping

import torch
from torch.nn import init
from torch.overrides import TorchFunctionMode

from gptlib.config import check_config, check_count
from gptlib.model import GPTModel


def count_parameters(model_or_cfg, tied=False):
    """Exact number of parameters, each shared tensor counted once.

    Args:
        model_or_cfg: a module, or a configuration, whose model is then laid
            out on the meta device: shapes without memory.
        tied: count as if the output head used the token embedding's matrix.
            A head that already does is not subtracted again.

    Raises:
        TypeError: neither a module nor a configuration.
        ValueError: `tied` for a module without `tok_emb` and `out_head`, or
            whose two matrices differ in shape.
    """
    model = _as_model(model_or_cfg)
    tensors = {_place(p): p.numel() for p in model.parameters()}
    if tied:
        tensors.pop(_place(_head_that_could_be_tied(model)), None)
        tensors[_place(model.tok_emb.weight)] = model.tok_emb.weight.numel()
    return sum(tensors.values())


def parameter_formula(cfg, tied=False):
    """Number of parameters of a model, by arithmetic alone.

    The same number as `count_parameters`, in a fraction of the time.

    Args:
        cfg: a configuration like GPT_CONFIG_124M.
        tied: embedding and output head share one table.

    Raises:
        KeyError, TypeError, ValueError: the configuration is impossible.
    """
    check_config(cfg)
    d = cfg["emb_dim"]
    tables = (1 if tied else 2) * cfg["vocab_size"] * d
    attention = 4 * d * d + d + (3 * d if cfg["qkv_bias"] else 0)
    feed_forward = 8 * d * d + 5 * d
    block = attention + feed_forward + 2 * 2 * d  # two norms of 2 d each
    positions = cfg["context_length"] * d
    return tables + positions + cfg["n_layers"] * block + 2 * d


def parameters_by_part(cfg):
    """Parameters of an untied model by kind of part, as name → int.

    The names are those of the pictures' colours; embeddings are tokens and
    positions together, norms are all of them, the final one included.
    """
    model = _as_model(cfg)
    kinds = {
        "tok_emb": "embedding", "pos_emb": "embedding", "att": "attention",
        "ff": "feed_forward", "norm1": "norm", "norm2": "norm",
        "final_norm": "norm", "out_head": "head",
    }  # fmt: skip
    parts = dict.fromkeys(kinds.values(), 0)
    for name, parameter in model.named_parameters():
        part = next(p for p in name.split(".") if p in kinds)
        parts[kinds[part]] += parameter.numel()
    return parts


def model_size_mb(n_parameters, bytes_per_parameter=4):
    """Memory of the weights alone in MiB, of 1024 × 1024 bytes.

    Source: lecture notes, "Memory": 163,009,536 parameters of 4 bytes each
    take 621.83 MiB, which the notes write as MB.

    Raises:
        TypeError, ValueError: `n_parameters` is no whole number ≥ 0, or
            `bytes_per_parameter` is no positive number.
    """
    check_count(n_parameters, "n_parameters", least=0)
    if not bytes_per_parameter > 0:
        raise ValueError(
            "bytes_per_parameter must be positive (4 for float32, 2 for "
            f"bfloat16); got {bytes_per_parameter}."
        )
    return n_parameters * bytes_per_parameter / 1024**2


@contextlib.contextmanager
def shapes_only():
    """What is built inside has shapes and no memory: the meta device, fast."""
    with torch.device("meta"), _NoValues():
        yield


def _as_model(model_or_cfg):
    if isinstance(model_or_cfg, torch.nn.Module):
        return model_or_cfg
    if isinstance(model_or_cfg, Mapping):
        with shapes_only():
            return GPTModel(model_or_cfg)
    raise TypeError(
        "Expected a model or a configuration like GPT_CONFIG_124M; got "
        f"{type(model_or_cfg).__name__}."
    )


class _NoValues(TorchFunctionMode):
    """Skips what sets values only, for which torch would load 830 modules on
    the meta device, which take 80 MB and a second."""

    START_VALUES = (init.normal_, init.uniform_, init.kaiming_uniform_)
    TRIANGLES = (torch.Tensor.triu, torch.Tensor.tril, torch.triu, torch.tril)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in self.START_VALUES and kwargs["tensor"].is_meta:
            return kwargs["tensor"]
        if func in self.TRIANGLES and args and args[0].is_meta:
            return args[0]
        return func(*args, **kwargs)


def _place(tensor):
    # Two parameters can be one object, or look at the same memory: it is there
    # once. On the meta device a storage has an identity, but no address.
    storage = tensor.untyped_storage()
    return storage._cdata, tensor.storage_offset(), tensor.numel()


def _head_that_could_be_tied(model):
    head = getattr(getattr(model, "out_head", None), "weight", None)
    table = getattr(getattr(model, "tok_emb", None), "weight", None)
    if head is None or table is None or head.shape != table.shape:
        raise ValueError(
            "tied=True needs a model whose tok_emb.weight and "
            "out_head.weight have the same shape; got "
            f"{_shape(table)} and {_shape(head)}."
        )
    return head


def _shape(tensor):
    return "none" if tensor is None else tuple(tensor.shape)
