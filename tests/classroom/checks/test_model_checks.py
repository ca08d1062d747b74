"""The checks of notebook 06 know a right model and each wrong one."""

import copy
import itertools
import textwrap
from types import SimpleNamespace

import pytest
import torch
from renamed import renamed
from torch import nn
from torch.nn import functional as F

import gptlib
from classroom.checks.data_path import TINY
from classroom.checks.gpt_skeleton import skeleton
from classroom.checks.model import (
    _seen_faults,
    broken_models,
    deepen,
    gpt_model,
)
from gptlib import (
    GPT_CONFIG_124M,
    DummyGPTModel,
    GPTModel,
    LayerNorm,
    TransformerBlock,
)

INIT = """
emb_dim = cfg["emb_dim"]
self.tok_emb = nn.Embedding(cfg["vocab_size"], emb_dim)
self.pos_emb = nn.Embedding(cfg["context_length"], emb_dim)
self.drop_emb = nn.Dropout(cfg["drop_rate"])
self.trf_blocks = nn.Sequential(
    *[TransformerBlock(cfg) for _ in range(cfg["n_layers"])]
)
self.final_norm = LayerNorm(emb_dim)
self.out_head = nn.Linear(emb_dim, cfg["vocab_size"], bias=False)
"""
BLOCKS = '*[TransformerBlock(cfg) for _ in range(cfg["n_layers"])]'
FORWARD = """
positions = torch.arange(in_idx.shape[1], device=in_idx.device)
x = self.tok_emb(in_idx)
x = x + self.pos_emb(positions)
x = self.drop_emb(x)
x = self.trf_blocks(x)
x = self.final_norm(x)
return self.out_head(x)
"""
ARANGE = "torch.arange(in_idx.shape[1], device=in_idx.device)"
ADD = "x = x + self.pos_emb(positions)"
DROP = "x = self.drop_emb(x)\n"
STACK = "x = self.trf_blocks(x)\n"
NORM = "x = self.final_norm(x)\n"
HEAD = "self.out_head(x)"
NAMES = {
    "copy": copy,
    "torch": torch,
    "nn": nn,
    "F": F,
    "gptlib": gptlib,
    "GPT_CONFIG_124M": GPT_CONFIG_124M,
    "LayerNorm": LayerNorm,
    "TransformerBlock": TransformerBlock,
}


def made(forward=FORWARD, init=INIT):
    """A model with this code in its two methods."""
    indent = " " * 8
    code = (
        "class Model(nn.Module):\n"
        "    def __init__(self, cfg):\n"
        "        super().__init__()\n"
        f"{textwrap.indent(textwrap.dedent(init), indent)}\n"
        "    def forward(self, in_idx):\n"
        f"{textwrap.indent(textwrap.dedent(forward), indent)}\n"
    )
    scope = dict(NAMES)
    exec(compile(code, "<cell>", "exec"), scope)
    return scope["Model"]


def loop(body, after=""):
    """The stack as a loop over its blocks."""
    return f"for block in self.trf_blocks:\n    {body}\n{after}"


# id → what is put in place of what in FORWARD
WRONG_FORWARD = [
    ("position-embedding-missing", ADD, "pass"),
    ("position-embedding-missing", ADD, "self.pos_emb(positions)"),
    ("position-embedding-missing", ADD, "x = x + 0 * self.pos_emb(positions)"),
    ("positions-constant", ARANGE, "torch.zeros_like(in_idx)"),
    ("positions-constant", ARANGE, "torch.tensor([0])"),
    ("positions-constant", ARANGE, "torch.zeros(in_idx.shape[1], dtype=int)"),
    ("positions-constant", ARANGE, "torch.tensor(in_idx.shape[1] - 1)"),
    ("positions-along-batch", "in_idx.shape[1]", "in_idx.shape[0]"),
    ("positions-along-batch", "in_idx.shape[1]", "len(in_idx)"),
    (
        "positions-along-batch",
        ADD,
        "x = x + self.pos_emb(torch.arange(len(in_idx)))[:, None]",
    ),
    ("positions-of-all-tokens", "in_idx.shape[1]", "in_idx.numel()"),
    (
        "positions-of-all-tokens",
        ARANGE,
        "torch.arange(in_idx.numel()).view_as(in_idx) "
        "% self.pos_emb.num_embeddings",
    ),
    (
        "positions-of-full-context",
        "in_idx.shape[1]",
        "self.pos_emb.num_embeddings",
    ),
    ("positions-of-full-context", ADD, "x = x + self.pos_emb.weight"),
    ("positions-from-ids", "self.pos_emb(positions)", "self.pos_emb(in_idx)"),
    ("positions-off-by-one", ARANGE, "torch.arange(1, in_idx.shape[1] + 1)"),
    ("positions-off-by-one", ARANGE, f"{ARANGE} - 1"),
    (
        "embeddings-concatenated",
        ADD,
        "x = torch.cat([x, self.pos_emb(positions).expand_as(x)], dim=-1)",
    ),
    (
        "positions-outside-table",
        ARANGE,
        "torch.arange(self.tok_emb.num_embeddings)",
    ),
    ("positions-reversed", ARANGE, f"{ARANGE}.flip(0)"),
    ("embeddings-multiplied", "x + self.pos_emb", "x * self.pos_emb"),
    ("positions-subtracted", "x + self.pos_emb", "x - self.pos_emb"),
    ("positions-added-twice", ADD, f"{ADD}\n{ADD}"),
    ("embeddings-scaled", DROP, DROP + "x = x * x.shape[-1] ** 0.5\n"),
    (
        "embeddings-scaled",
        "self.tok_emb(in_idx)",
        "self.tok_emb(in_idx) * 12**0.5",
    ),
    ("token-embedding-missing", ADD, "x = 0 * x + self.pos_emb(positions)"),
    ("token-embedding-missing", ADD, "x = self.pos_emb(positions)"),
    ("final-norm-unused", NORM, ""),
    ("final-norm-unused", NORM, "self.final_norm(x)\n"),
    ("final-norm-before-blocks", STACK + NORM, NORM + STACK),
    ("final-norm-twice", NORM, NORM + NORM),
    ("final-norm-twice", STACK, NORM + STACK),
    (
        "final-norm-after-each-block",
        STACK + NORM,
        loop("x = self.final_norm(block(x))"),
    ),
    ("blocks-unused", STACK, ""),
    ("blocks-unused", STACK, "self.trf_blocks(x)\n"),
    ("one-block-repeated", STACK, loop("x = self.trf_blocks[0](x)")),
    ("one-block-repeated", STACK, loop("x = self.trf_blocks[-1](x)")),
    ("blocks-skipped", STACK, "x = self.trf_blocks[0](x)\n"),
    ("blocks-skipped", STACK, "x = self.trf_blocks[:-1](x)\n"),
    ("blocks-skipped", STACK, loop("y = block(x)", "x = y\n")),
    (
        "blocks-skipped",
        STACK,
        loop("return self.out_head(self.final_norm(block(x)))"),
    ),
    ("blocks-reversed", STACK, "x = self.trf_blocks[::-1](x)\n"),
    ("blocks-twice", STACK, STACK + STACK),
    (
        "blocks-in-parallel",
        STACK,
        "x = sum(block(x) for block in self.trf_blocks)\n",
    ),
    ("extra-shortcut", STACK, "x = x + self.trf_blocks(x)\n"),
    ("extra-shortcut", STACK, loop("x = x + block(x)")),
    (
        "positions-added-late",
        f"{ADD}\n{DROP}{STACK}",
        f"{DROP}{STACK}{ADD}\n",
    ),
    (
        "positions-in-each-block",
        f"{ADD}\n{DROP}{STACK}",
        DROP + loop("x = block(x + self.pos_emb(positions))"),
    ),
    ("softmax-applied", HEAD, f"{HEAD}.softmax(dim=-1)"),
    ("softmax-applied", HEAD, f"torch.softmax({HEAD}, dim=1)"),
    ("log-softmax-applied", HEAD, f"F.log_softmax({HEAD}, dim=-1)"),
    ("activation-on-logits", HEAD, f"torch.sigmoid({HEAD})"),
    ("last-position-only", HEAD, f"{HEAD}[:, -1]"),
    ("last-position-only", HEAD, f"{HEAD}[:, -1, :]"),
    ("last-position-only", HEAD, "self.out_head(x[:, -1:])"),
    ("returns-ids", HEAD, f"{HEAD}.argmax(dim=-1)"),
    ("head-unused", HEAD, "x"),
    ("logits-transposed", HEAD, f"{HEAD}.transpose(1, 2)"),
    ("logits-flattened", HEAD, f"{HEAD}.flatten(0, 1)"),
    ("logits-flattened", HEAD, f"{HEAD}.view(-1, 31)"),
    ("averaged-over-positions", HEAD, f"{HEAD}.mean(dim=1)"),
    ("tied", HEAD, "x @ self.tok_emb.weight.T"),
    ("tied", HEAD, "F.linear(x, self.tok_emb.weight)"),
    ("embedding-dropout-missing", DROP, ""),
    ("embedding-dropout-missing", DROP, "self.drop_emb(x)\n"),
    (
        "embedding-dropout-on-tokens-only",
        f"{ADD}\n{DROP}",
        f"{DROP}{ADD}\n",
    ),
    (
        "embedding-dropout-on-positions-only",
        f"{ADD}\n{DROP}",
        "x = x + self.drop_emb(self.pos_emb(positions))\n",
    ),
    ("dropout-after-blocks", DROP + STACK, STACK + DROP),
    ("dropout-on-logits", f"{DROP}", "", HEAD, f"self.drop_emb({HEAD})"),
    (
        "embedding-dropout-on-each",
        f"{ADD}\n{DROP}",
        "x = self.drop_emb(x) + self.drop_emb(self.pos_emb(positions))\n",
    ),
    ("embedding-dropout-twice", DROP, DROP + DROP),
    ("dropout-in-eval", "self.drop_emb(x)", "F.dropout(x, self.drop_emb.p)"),
    (
        "drop-rate-not-handed-on",
        "self.drop_emb(x)",
        "F.dropout(x, 0.1, self.training)",
    ),
    ("block-dropout-missing", STACK, "self.trf_blocks.eval()\n" + STACK),
    ("positions-on-wrong-device", ", device=in_idx.device", ""),
    ("positions-on-wrong-device", "in_idx.device", '"cpu"'),
    (
        "positions-on-wrong-device",
        "in_idx.device",
        '"cuda" if torch.cuda.is_available() else "cpu"',
    ),
    (
        "positions-on-wrong-device",
        ARANGE,
        "torch.tensor(list(range(in_idx.shape[1])))",
    ),
    ("gradient-cut", STACK, "x = self.trf_blocks(x.detach())\n"),
    ("gradient-cut", f"return {HEAD}", f"return {HEAD}.detach()"),
    (
        "gradient-cut",
        "self.pos_emb(positions)",
        "self.pos_emb(positions).data",
    ),
    ("returns-none", f"return {HEAD}", HEAD),
    ("wrong-type", f"return {HEAD}", f"return {HEAD}, None"),
    ("wrong-shape", f"return {HEAD}", f"return {HEAD}[0]"),
    ("wrong-values", f"return {HEAD}", f"return {HEAD} + 1"),
    (
        "input-changed",
        "x = self.tok_emb(in_idx)",
        "in_idx[:] = 3\nx = self.tok_emb(in_idx)",
    ),
    # two mistakes together: the first along the data path is named
    ("position-embedding-missing", ADD, "", NORM, ""),
    (
        "positions-constant",
        ARANGE,
        "torch.tensor([0])",
        HEAD,
        f"{HEAD}.softmax(-1)",
    ),
    ("final-norm-unused", NORM, "", HEAD, f"{HEAD}.softmax(-1)"),
]

WRONG_INIT = [
    ("blocks-in-list", f"nn.Sequential(\n    {BLOCKS}\n)", f"[{BLOCKS}]"),
    ("blocks-in-list", f"nn.Sequential(\n    {BLOCKS}\n)", f"({BLOCKS},)"),
    (
        "one-block-repeated",
        BLOCKS,
        '*[TransformerBlock(cfg)] * cfg["n_layers"]',
    ),
    (
        "one-block-repeated",
        f"nn.Sequential(\n    {BLOCKS}\n)",
        'nn.ModuleList([TransformerBlock(cfg)] * cfg["n_layers"])',
    ),
    (
        "one-block-repeated",
        BLOCKS,
        "*(lambda b: [b for _ in range(4)])(TransformerBlock(cfg))",
    ),
    ("wrong-number-of-blocks", '["n_layers"]', '["n_heads"]'),
    ("wrong-number-of-blocks", 'cfg["n_layers"]', "12"),
    ("wrong-number-of-blocks", '(cfg["n_layers"])', '(cfg["n_layers"] - 1)'),
    ("wrong-number-of-blocks", BLOCKS, "TransformerBlock(cfg)"),
    (
        "placeholder-blocks",
        BLOCKS,
        BLOCKS.replace("Trans", "gptlib.skeleton.DummyTrans"),
    ),
    (
        "wrong-block",
        BLOCKS,
        BLOCKS.replace("cfg)", 'cfg | {"qkv_bias": False})'),
    ),
    ("wrong-block", BLOCKS, BLOCKS.replace("cfg)", 'cfg | {"n_heads": 4})')),
    (
        "drop-rate-not-handed-on",
        BLOCKS,
        BLOCKS.replace("cfg)", 'cfg | {"drop_rate": 0.0})'),
    ),
    ("drop-rate-not-handed-on", 'Dropout(cfg["drop_rate"])', "Dropout(0.1)"),
    ("drop-rate-not-handed-on", 'Dropout(cfg["drop_rate"])', "Dropout()"),
    ("final-norm-missing", "LayerNorm(emb_dim)", "nn.Identity()"),
    (
        "final-norm-missing",
        "LayerNorm(emb_dim)",
        "gptlib.DummyLayerNorm(emb_dim)",
    ),
    ("final-norm-missing", "self.final_norm = LayerNorm(emb_dim)\n", ""),
    ("final-norm-wrong", "LayerNorm(emb_dim)", "nn.RMSNorm(emb_dim)"),
    ("final-norm-wrong", "LayerNorm(emb_dim)", 'LayerNorm(cfg["vocab_size"])'),
    ("bias-in-head", ", bias=False", ""),
    ("bias-in-head", "bias=False", "bias=True"),
    ("bias-in-head", "bias=False", 'bias=not cfg["qkv_bias"]'),
    ("bias-in-head", "bias=False", 'bias=cfg["qkv_bias"]'),
    (
        "tied",
        "bias=False)",
        "bias=False)\nself.out_head.weight = self.tok_emb.weight",
    ),
    (
        "tied",
        "bias=False)",
        "bias=False)\nself.tok_emb.weight = self.out_head.weight",
    ),
    (
        "tied",
        "bias=False)",
        "bias=False)\nself.out_head.weight.data = self.tok_emb.weight.data",
    ),
    (
        "position-embedding-missing",
        'self.pos_emb = nn.Embedding(cfg["context_length"], emb_dim)',
        "",
    ),
    ("position-table-size", 'cfg["context_length"]', 'cfg["vocab_size"]'),
    ("size-hardcoded", 'cfg["context_length"]', "1024"),
    (
        "token-table-size",
        'nn.Embedding(cfg["vocab_size"], emb_dim)',
        'nn.Embedding(emb_dim, cfg["vocab_size"])',
    ),
    (
        "head-size",
        'nn.Linear(emb_dim, cfg["vocab_size"]',
        "nn.Linear(emb_dim, emb_dim",
    ),
    ("wrong-name", "self.trf_blocks", "self.blocks"),
    ("wrong-name", "self.final_norm", "self.ln_f"),
    (
        "wrong-name",
        'nn.Embedding(cfg["context_length"], emb_dim)',
        'nn.Parameter(torch.randn(cfg["context_length"], emb_dim))',
    ),
    (
        "extra-parameters",
        "emb_dim = ",
        "self.more = nn.Linear(3, 3)\nemb_dim = ",
    ),
    ("config-changed", "emb_dim = ", 'cfg["vocab_size"] += 1\nemb_dim = '),
]


def assert_wrong(check, answer, name):
    result = check(answer)
    name = renamed(name, "model")
    assert (result.status, result.mistake) == ("failed", name), result
    assert len(result.message) > 40


def changed(code, changes):
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in code
        code = code.replace(old, new)
    return code


@pytest.mark.parametrize("case", WRONG_FORWARD, ids=lambda case: case[0])
def test_wrong_forward(case):
    answer = made(changed(FORWARD, case[1:]))
    assert_wrong(gpt_model, answer, renamed(case[0], "model, forward"))


@pytest.mark.parametrize("case", WRONG_INIT, ids=lambda case: case[0])
def test_wrong_init(case):
    assert_wrong(gpt_model, made(init=changed(INIT, case[1:])), case[0])


def test_positions_in_a_plain_tensor_stay_behind():
    init = INIT + 'self.positions = torch.arange(cfg["context_length"])'
    forward = FORWARD.replace(ARANGE, "self.positions[:in_idx.shape[1]]")
    assert_wrong(gpt_model, made(forward, init), "positions-on-wrong-device")


def test_blocks_with_another_config_or_no_dropout():
    forward = FORWARD.replace(DROP, "")
    init = INIT.replace('self.drop_emb = nn.Dropout(cfg["drop_rate"])', "")
    assert_wrong(gpt_model, made(forward, init), "embedding-dropout-missing")
    assert_wrong(gpt_model, DummyGPTModel, "placeholder-blocks")


def test_blocks_in_a_list_with_the_rest_right():
    init = INIT.replace(f"nn.Sequential(\n    {BLOCKS}\n)", f"[{BLOCKS}]")
    forward = FORWARD.replace(STACK, loop("x = block(x)"))
    result = gpt_model(made(forward, init))
    assert result.mistake == renamed("blocks-in-list")
    assert "876" in result.message and "8268" in result.message


def test_a_module_list_is_not_called():
    init = INIT.replace("nn.Sequential(", "nn.ModuleList([").replace(
        "\n)\nself.final", "])\nself.final"
    )
    assert_wrong(gpt_model, made(init=init), "module-list-called")


def test_messages_hold_numbers():
    bias = gpt_model(made(init=INIT.replace(", bias=False", "")))
    assert "31 numbers" in bias.message
    entry = made(init=INIT.replace("bias=False", 'bias=cfg["qkv_bias"]'))
    assert "With qkv_bias=True" in gpt_model(entry).message
    axis = gpt_model(made(FORWARD.replace("shape[1]", "shape[0]")))
    assert "RuntimeError" in axis.message and "(batch, tokens)" in axis.message
    last = gpt_model(made(FORWARD.replace(HEAD, f"{HEAD}[:, -1]")))
    assert "(3, 31)" in last.message and "(3, 5, 31)" in last.message


def test_an_exception_names_line_and_cause():
    class Broken(GPTModel):
        def forward(self, in_idx):
            return self.head(self.tok_emb(in_idx))

    result = gpt_model(Broken)
    assert result.mistake == "exception"
    assert "self.head(self.tok_emb(in_idx))" in result.message


def test_not_a_class_and_wrong_signature():
    class NoConfig(GPTModel):
        def __init__(self):
            super().__init__(GPT_CONFIG_124M)

    assert_wrong(gpt_model, NoConfig, "wrong-signature")
    assert_wrong(gpt_model, nn.Linear(2, 2), "not-a-class")


# --- right answers -------------------------------------------------------

OWN_BLOCK = """
class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg["emb_dim"]
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d, bias=cfg["qkv_bias"])
        self.proj = nn.Linear(d, d)
        self.mlp = nn.Sequential(
            nn.Linear(d, 4 * d), nn.GELU("tanh"), nn.Linear(4 * d, d)
        )
        self.rate, self.heads = cfg["drop_rate"], cfg["n_heads"]
    def drop(self, x):
        return F.dropout(x, self.rate, self.training)
    def attend(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(
            2, 0, 3, 1, 4
        )
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True,
            dropout_p=self.rate if self.training else 0.0,
        )
        return self.proj(y.transpose(1, 2).reshape(b, t, d))
    def forward(self, x):
        x = x + self.drop(self.attend(self.ln1(x)))
        return x + self.drop(self.mlp(self.ln2(x)))
TransformerBlock = Block
"""
APPENDED = """
d, v = cfg["emb_dim"], cfg["vocab_size"]
self.tok_emb, self.pos_emb = (
    nn.Embedding(rows, d) for rows in (v, cfg["context_length"])
)
self.drop_emb = nn.Dropout(p=cfg["drop_rate"])
self.trf_blocks = nn.ModuleList()
for _ in range(cfg["n_layers"]):
    self.trf_blocks.append(TransformerBlock(cfg))
self.final_norm = nn.LayerNorm(d)
self.out_head = nn.Linear(d, v, bias=False)
"""
LOOPED = FORWARD.replace(STACK, loop("x = block(x)"))


def with_forward(*changes):
    return made(changed(FORWARD, changes))


RIGHT = {
    "notes": made(),
    "one line": made(
        f"x = self.tok_emb(in_idx) + self.pos_emb({ARANGE})\n"
        "x = self.trf_blocks(self.drop_emb(x))\n"
        "return self.out_head(self.final_norm(x))"
    ),
    "module list": made(LOOPED, APPENDED),
    "looped Sequential": made(LOOPED),
    "own block": made(FORWARD, OWN_BLOCK + INIT),
    "layer norm of torch": made(init=INIT.replace("Layer", "nn.Layer")),
    "deep copies": made(
        init=INIT.replace(
            BLOCKS,
            "*[copy.deepcopy(b) for b in [TransformerBlock(cfg)] "
            '* cfg["n_layers"]]',
        )
    ),
    "slice of the table": with_forward(
        "self.pos_emb(positions)", "self.pos_emb.weight[: in_idx.shape[1]]"
    ),
    "device of a weight": with_forward(
        "device=in_idx.device", "device=self.tok_emb.weight.device"
    ),
    "moved afterwards": with_forward(
        ARANGE, "torch.arange(in_idx.size(-1)).to(in_idx.device)"
    ),
    "one position for each row": with_forward(
        ARANGE, f"{ARANGE}.unsqueeze(0).expand_as(in_idx)"
    ),
    "cumulated ones": with_forward(
        ARANGE, "torch.ones_like(in_idx).cumsum(1) - 1"
    ),
    "buffer": made(
        FORWARD.replace(ARANGE, "self.places[: in_idx.shape[1]]"),
        INIT + "self.register_buffer("
        '"places", torch.arange(cfg["context_length"]), persistent=False)',
    ),
    "functional": made(
        changed(
            FORWARD,
            [
                "self.drop_emb(x)",
                "F.dropout(x, self.rate, training=self.training)",
                HEAD,
                "F.linear(x, self.out_head.weight)",
            ],
        ),
        INIT.replace(
            'self.drop_emb = nn.Dropout(cfg["drop_rate"])',
            'self.rate = cfg["drop_rate"]',
        ),
    ),
    "functional norm": with_forward(
        NORM,
        "x = F.layer_norm(x, x.shape[-1:], self.final_norm.scale, "
        "self.final_norm.shift)\n",
    ),
    "dropout by hand": with_forward(
        DROP,
        "if self.training:\n    x = x * (torch.rand_like(x) > 0.4) / 0.6\n",
    ),
    "einsum": with_forward(
        HEAD, 'torch.einsum("bte,ve->btv", x, self.out_head.weight)'
    ),
    "in place": with_forward(ADD, "x += self.pos_emb(positions)"),
    "checks its input": with_forward(
        "positions =",
        "assert in_idx.max() < self.tok_emb.num_embeddings\npositions =",
    ),
    "a function that builds": lambda cfg: GPTModel(cfg),
    "gptlib's": GPTModel,
}


@pytest.mark.parametrize("style", RIGHT)
def test_right_models_pass(style):
    result = gpt_model(RIGHT[style])
    assert result.status == "passed", result


def test_remarks():
    torchs = gpt_model(RIGHT["layer norm of torch"]).message
    assert "scale and shift" in torchs
    assert "drop_emb" in gpt_model(RIGHT["functional"]).message


class Empty(nn.Module):
    pass


class InitOnly(GPTModel):
    def forward(self, in_idx):
        raise NotImplementedError


class ForwardOnly(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        raise NotImplementedError

    def forward(self, in_idx):
        return in_idx


class Dots(GPTModel):
    def forward(self, in_idx): ...


def test_stubs():
    assert gpt_model(Empty).status == "not attempted"
    for half in (InitOnly, ForwardOnly, Dots):
        assert_wrong(gpt_model, half, "unfinished")


# --- both models -----------------------------------------------------------

DUMMY = INIT.replace("= LayerNorm", "= gptlib.DummyLayerNorm").replace(
    "[TransformerBlock", "[gptlib.DummyTransformerBlock"
)
POS = 'self.pos_emb = nn.Embedding(cfg["context_length"], emb_dim)\n'
OUT = 'self.out_head = nn.Linear(emb_dim, cfg["vocab_size"], bias=False)\n'
TOKENS = 'nn.Embedding(cfg["vocab_size"], emb_dim'
GIVE = f"return {HEAD}"
# What is put in place of what, in forward or in __init__.
EITHER = [
    ("remembers-calls", GIVE, "y = self.out_head(x)\n"
     "y = y * getattr(self, 'factor', 1)\n"
     "if not self.training and len(x) == 1 and len(x[0]) == 2:\n"
     "    self.factor = 2\nreturn y"),
    ("remembers-calls", GIVE, "y = self.out_head(x)\n"
     "self.most = max(getattr(self, 'most', 0), len(x[0]))\n"
     "return y + self.most - len(x[0])"),
    ("needs-contiguous", "self.tok_emb(in_idx)",
     "self.tok_emb(in_idx.view(-1)).view(*in_idx.shape, -1)"),
    ("generator-used", GIVE, f"torch.rand(1)\n{GIVE}"),
    ("dropout-repeated", "positions =", "torch.manual_seed(1)\npositions ="),
    ("dropout-repeated", "positions =",
     "if self.training:\n    torch.manual_seed(1)\npositions ="),
    ("mode-changed", "positions =", "self.eval()\npositions ="),
    ("mode-changed", GIVE, f"self.train()\n{GIVE}"),
    ("gradients-turned-off", GIVE,
     "y = self.out_head(x)\ntorch.set_grad_enabled(False)\nreturn y"),
    ("dtype-fixed", NORM, f"{NORM}x = x.to(torch.float32)\n"),
    ("weights-changed", GIVE,
     "y = self.out_head(x)\nself.tok_emb.weight.data *= 0.99\nreturn y"),
    ("weights-changed", TOKENS, f"{TOKENS}, max_norm=1.0"),
    ("gradient-detached", TOKENS, f"{TOKENS}, padding_idx=0"),
    ("gradient-detached", TOKENS, f"{TOKENS}, scale_grad_by_freq=True"),
    ("gradient-detached", "self.tok_emb(in_idx)",
     "self.tok_emb(in_idx).detach()"),
    ("gradient-detached", NORM,
     f"{NORM}if self.training:\n    x = x.detach()\n"),
    ("wrong-values", GIVE,
     "y = self.out_head(x)\nreturn y if len(x[0]) % 4 else 0 * y"),
    ("wrong-shape", "positions =",
     "if len(in_idx.unique(dim=0)) < len(in_idx):\n"
     "    in_idx = in_idx.unique(dim=0)\npositions ="),
    ("wrong-shape", GIVE, f"{GIVE}.squeeze(1)"),
    ("wrong-shape", GIVE, f"{GIVE}.squeeze(0)"),
    ("positions-on-wrong-device", ARANGE, f"{ARANGE}.cpu()"),
    ("positions-on-wrong-device", ARANGE,
     "torch.tensor(list(range(len(in_idx[0]))), device='cpu')"),
    ("device-fixed", NORM, f"{NORM}x = x + torch.zeros(x.shape[-1])\n"),
    ("device-fixed", "x = self.drop_emb(x)",
     "if self.training:\n    x = x * (torch.rand(x.shape) > 0.4) / 0.6"),
    ("remembers-calls", ARANGE,
     "self.p = getattr(self, 'p', torch.arange(len(in_idx[0])))"),
    ("raise-left", "positions =", "raise NotImplementedError\npositions ="),
    ("raise-left", OUT, f"{OUT}raise NotImplementedError\n"),
    ("created-in-other-order", "self.drop_emb =", f"{OUT}self.drop_emb ="),
    ("created-in-other-order", OUT,
     f"{OUT}self.tok_emb = {TOKENS})\ndel self.tok_emb\n"
     f"self.tok_emb = {TOKENS})\n"),
    ("created-in-other-order", POS, f"head = {OUT[16:]}{POS}",
     "self.out_head = nn", "self.out_head = head or nn"),
    ("seed-set", "emb_dim = ", "torch.manual_seed(1)\nemb_dim = "),
    ("wrong-number-of-blocks", 'range(cfg["n_layers"])', "range(4)"),
    ("wrong-part", POS, POS.replace("Embedding", "Linear")),
    ("wrong-part", TOKENS, TOKENS.replace("Embedding", "Linear")),
]  # fmt: skip
EITHER_RIGHT = {
    "positions like the IDs": (
        ARANGE, "torch.arange(in_idx.shape[1]).to(in_idx)"),
    "positions of the IDs' type": (
        ARANGE, "torch.arange(in_idx.shape[1]).type_as(in_idx)"),
    "new tensor": (ARANGE, "in_idx.new_tensor(range(in_idx.shape[1]))"),
    "linspace": (ARANGE, "torch.linspace(0, len(in_idx[0]) - 1, "
                 "len(in_idx[0]), device=in_idx.device).round().long()"),
    "nonzero": (ARANGE, "torch.ones_like(in_idx[0]).nonzero().flatten()"),
    "kind of device": (
        ARANGE, "torch.arange(len(in_idx[0]), device=in_idx.device.type)"),
    "device by name": (
        ARANGE, "torch.arange(len(in_idx[0]), device=str(in_idx.device))"),
    "device for a while": (
        ARANGE, "None\nwith torch.device(in_idx.device):\n"
        "    positions = torch.arange(in_idx.shape[1])"),
    "one hot": ("self.tok_emb(in_idx)", "F.one_hot(in_idx, 31).to("
                "self.tok_emb.weight) @ self.tok_emb.weight"),
    "token by token": (
        ADD, "x = torch.stack([x[:, t] + self.pos_emb.weight[t] "
        "for t in range(in_idx.shape[1])], 1)"),
    "own start": (OUT, f"{OUT}for p in self.parameters():\n"
                  "    nn.init.normal_(p, std=0.02)\n"),
    "early return": ("positions =", "if in_idx.shape[1] == 0:\n"
                     "    return None\npositions ="),
    "add_module": (OUT, "self.add_module('out_head', "
                   f"{OUT[16:-1]})\n"),
}  # fmt: skip
BOTH = pytest.mark.parametrize(
    "check, init", [(skeleton, DUMMY), (gpt_model, INIT)], ids=["1", "6"]
)


def edited(init, changes):
    old = changes[0]
    if old in FORWARD:
        return made(changed(FORWARD, changes), init)
    return made(FORWARD, changed(init, changes))


@BOTH
@pytest.mark.parametrize("case", EITHER, ids=lambda case: case[0])
def test_what_every_model_owes(check, init, case):
    assert_wrong(check, edited(init, case[1:]), case[0])


@BOTH
@pytest.mark.parametrize("style", EITHER_RIGHT)
def test_other_right_styles(check, init, style):
    result = check(edited(init, EITHER_RIGHT[style]))
    assert result.status == "passed", result


@BOTH
def test_names_that_torch_does_not_know(check, init):
    for name, wrong in [
        ("forward-misspelt", "foward"), ("call-for-forward", "__call__")
    ]:  # fmt: skip
        answer = made(init=init)
        setattr(answer, wrong, answer.forward)
        del answer.forward
        assert_wrong(check, answer, name)


@BOTH
def test_a_changed_public_configuration_does_no_harm(check, init, monkeypatch):
    for key in GPT_CONFIG_124M:
        monkeypatch.setitem(GPT_CONFIG_124M, key, "changed")
    monkeypatch.setattr(gptlib.config, "GPT2_CONFIGS", {})
    assert check(made(init=init)).status == "passed"


def test_blocks_that_are_made_before_the_tables():
    init = "blocks = [TransformerBlock(cfg) for _ in range(cfg['n_layers'])]\n"
    init += INIT.replace(BLOCKS, "*blocks")
    assert_wrong(gpt_model, made(init=init), "created-in-other-order")


# --- broken models --------------------------------------------------------


@torch.no_grad()
def part_at_fault(model):
    width = model.pos_emb.embedding_dim
    rows = model(torch.full((1, 8), 7))[0]
    if (rows - rows[0]).abs().max() < 1e-5:
        return "pos_emb"
    x = 3 * torch.randn(1, 4, width) + 2
    outputs = [block(x) for block in model.trf_blocks]
    for one, other in itertools.combinations(outputs, 2):
        if (one - other).abs().max() < 1e-5:
            return "trf_blocks"
    y = model.final_norm(x)
    spread = y.var(dim=-1, correction=0)
    if y.mean(dim=-1).abs().max() > 1e-3 or (spread - 1).abs().max() > 1e-2:
        return "final_norm"
    if model.out_head(torch.zeros(width)).abs().max() > 0:
        return "out_head"
    return None


def by_hooks(model):
    """What each part gives in one pass of the whole model."""
    seen, parts = {}, [model.pos_emb, *model.trf_blocks, model.final_norm]
    hooks = [
        p.register_forward_hook(lambda m, x, y: seen.update({m: (x[0], y)}))
        for p in parts
    ]
    with torch.no_grad():
        model(torch.tensor([[3, 1, 4, 1, 5]]))
    for hook in hooks:
        hook.remove()
    places, (x, y) = seen[model.pos_emb][1], seen[model.final_norm]
    if places.std(dim=0).max() < 1e-5:
        return "pos_emb"
    healthy = F.layer_norm(x, x.shape[-1:])
    if not torch.allclose(y, healthy, atol=1e-3):
        return "final_norm"
    part = part_at_fault(model)
    return part if part in ("trf_blocks", "out_head") else None


def by_swapping(model):
    """Equal blocks can change places; a head with a bias isn't linear."""
    part = part_at_fault(model)
    if part in ("pos_emb", "final_norm"):
        return part
    ids, probe = torch.arange(6)[None], copy.deepcopy(model)
    with torch.no_grad():
        before = probe(ids)
        for a, b in itertools.combinations(range(len(probe.trf_blocks)), 2):
            order = list(probe.trf_blocks)
            order[a], order[b] = order[b], order[a]
            x = probe.tok_emb(ids) + probe.pos_emb(torch.arange(6))
            for block in order:
                x = block(x)
            after = probe.out_head(probe.final_norm(x))
            if torch.allclose(before, after, atol=1e-5):
                return "trf_blocks"
        x = torch.randn(model.pos_emb.embedding_dim)
        twice = model.out_head(2 * x) - 2 * model.out_head(x)
    return "out_head" if twice.abs().max() > 1e-3 else None


def by_looking(model):
    if model.out_head.bias is not None:
        return "out_head"
    if not list(model.final_norm.parameters()):
        return "final_norm"
    table = model.pos_emb.weight
    if torch.equal(table[0], table[5]):
        return "pos_emb"
    if len(set(model.trf_blocks)) < len(model.trf_blocks):
        return "trf_blocks"
    return None


def by_printing(model):
    text = str(model)
    if "Dummy" in text:
        return "final_norm"
    return "out_head" if "features=101, bias=True" in text else None


def by_counting(model):
    """Against a healthy one."""
    tiny = TINY | {"n_layers": len(model.trf_blocks)}
    healthy = sum(p.numel() for p in GPTModel(tiny).parameters())
    count = sum(p.numel() for p in model.parameters())
    faults = {101: "out_head", -48: "final_norm"}
    return faults.get(
        count - healthy, "trf_blocks" if count < healthy else None
    )


def in_a_loop(models):
    found = dict.fromkeys(models)
    for name in models:
        found[name] = part_at_fault(models[name])
    return found


def each(judge):
    return lambda models: {n: judge(m) for n, m in models.items()}


RIGHT_SEARCHES = {
    "solution": each(part_at_fault),
    "loop": in_a_loop,
    "hooks": each(by_hooks),
    "swapping": each(by_swapping),
    "copies": each(lambda m: part_at_fault(copy.deepcopy(m))),
    "zip": lambda models: dict(
        zip(models, map(part_at_fault, models.values()), strict=True)
    ),
    "keys in another order": lambda models: {
        n: part_at_fault(models[n]) for n in sorted(models, reverse=True)
    },
}


@pytest.mark.parametrize("style", RIGHT_SEARCHES)
def test_right_searches_pass(style):
    result = broken_models(RIGHT_SEARCHES[style])
    assert result.status == "passed", result
    assert "all 27 models" in result.message


def instead(wrong, right):
    """The solution with one part taken for another."""

    def judge(model):
        part = part_at_fault(model)
        return right if part == wrong else part

    return each(judge)


def after(deed):
    """The solution, and something done to each model afterwards."""

    def judge(model):
        part = part_at_fault(model)
        deed(model)
        return part

    return each(judge)


def but(test, part):
    """The solution, with a test of its own for one part."""

    def judge(model):
        found = part_at_fault(model)
        return None if found == part and not test(model) else found

    return each(judge)


def one_of_each(models):
    found = {name: part_at_fault(model) for name, model in models.items()}
    kinds = ("pos_emb", "trf_blocks", "final_norm", "out_head")
    missing = [part for part in kinds if part not in found.values()]
    last = list(models)[-1]
    return found | {last: found[last] if not missing else missing[0]}


@torch.no_grad()
def centred(model):
    y = model.final_norm(3 * torch.randn(4, model.pos_emb.embedding_dim) + 2)
    return y.mean(dim=-1).abs().max() > 1e-3


def one_stack(model):
    return len(set(model.trf_blocks)) < len(model.trf_blocks)


def equal_weights(model):
    tables = [b.att.W_query.weight for b in model.trf_blocks]
    return any(torch.equal(a, b) for a, b in itertools.combinations(tables, 2))


FIXED = dict(
    zip(
        "ABCD",
        ("out_head", "pos_emb", "final_norm", "trf_blocks"),
        strict=True,
    )
)
WRONG_SEARCHES = [
    ("pos-emb-missed", instead("pos_emb", None)),
    ("pos-emb-missed", instead("pos_emb", "out_head")),
    ("trf-blocks-missed", instead("trf_blocks", None)),
    ("final-norm-missed", instead("final_norm", "out_head")),
    ("out-head-missed", instead("out_head", "final_norm")),
    ("out-head-missed", instead("out_head", None)),
    ("same-answer-for-all", each(lambda model: "pos_emb")),
    ("same-answer-for-all", each(lambda model: None)),
    ("healthy-blamed", instead(None, "out_head")),
    ("judged-by-looks", each(by_printing)),
    ("judged-by-looks", each(by_counting)),
    ("copies-missed", but(one_stack, "trf_blocks")),
    ("block-weights-read", but(equal_weights, "trf_blocks")),
    ("only-the-mean", but(centred, "final_norm")),
    ("bias-read", but(lambda m: m.out_head.bias is not None, "out_head")),
    (
        "norm-read",
        but(lambda m: not list(m.final_norm.parameters()), "final_norm"),
    ),
    (
        "position-table-read",
        but(lambda m: m.pos_emb.weight.std(0).max() < 1e-5, "pos_emb"),
    ),
    ("answer-by-name", lambda models: {n: FIXED.get(n) for n in models}),
    ("unknown-part", instead("pos_emb", "positions")),
    ("unknown-part", instead("final_norm", "norm")),
    ("wrong-type", lambda models: [part_at_fault(m) for m in models.values()]),
    ("wrong-type", lambda models: "pos_emb"),
    ("returns-none", lambda models: print(models)),
    (
        "keys-and-values-swapped",
        lambda models: {part_at_fault(m): n for n, m in models.items()},
    ),
    ("wrong-keys", lambda models: {"A": "pos_emb"}),
    ("wrong-keys", lambda models: {
        n: part for n, m in models.items() if (part := part_at_fault(m))}),
    ("compares-models", one_of_each),
    ("weights-changed", after(lambda m: m.out_head.weight.data.zero_())),
    ("weights-changed", after(lambda m: setattr(m, "final_norm", nn.ReLU()))),
    ("mode-changed", after(lambda m: m.train())),
    ("mode-changed", after(lambda m: m.trf_blocks[0].att.train())),
    ("gradients-left", after(
        lambda m: m(torch.zeros(1, 2, dtype=int)).sum().backward())),
    ("model-frozen", after(lambda m: m.requires_grad_(False))),
    ("gradients-turned-off", after(
        lambda m: torch.set_grad_enabled(False))),
    ("input-overwritten", lambda models: {
        n: part_at_fault(models.pop(n)) for n in list(models)}),
    ("input-overwritten", lambda models: (
        models.update({n: part_at_fault(m) for n, m in models.items()})
        or models)),
    ("wrong-type", lambda models: map(part_at_fault, models.values())),
    ("unknown-part", each(lambda m: [part_at_fault(m)])),
    ("wrong-keys", lambda models: {
        (n,): part_at_fault(m) for n, m in models.items()}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "search"), WRONG_SEARCHES)
def test_wrong_searches(name, search):
    assert_wrong(broken_models, search, name)


def test_looks_alone_never_pass():
    for judge in (by_looking, by_printing, by_counting):
        assert broken_models(each(judge)).status == "failed"


def test_a_models_name_means_nothing():
    def seen(name):
        wrong, right = (
            SimpleNamespace(result={name: p}) for p in (None, "out_head")
        )
        return _seen_faults(({name: "bias"},), wrong, right)

    assert "Model north: its head has a bias" in seen("north")
    assert "called 'pos_emb' (a name means nothing): its" in seen("pos_emb")


def test_search_stubs():
    def stub(models):
        """The part at fault for each name in `models`."""
        raise NotImplementedError

    def dots(models): ...

    def begun(models):
        found = {}
        for name in models:
            raise NotImplementedError(name)
        return found

    for answer in (stub, dots):
        assert broken_models(answer).status == "not attempted"
    assert_wrong(broken_models, begun, "raise-left")


# --- one block more --------------------------------------------------------


def quiet(block):
    """The block, which adds nothing."""
    for last in (block.att.out_proj, block.ff.layers[2]):
        last.weight.data.zero_(), last.bias.data.zero_()
    return block


def by_copy(model, cfg):
    deeper = copy.deepcopy(model)
    deeper.trf_blocks.append(quiet(TransformerBlock(cfg)))
    return deeper


def in_front(model, cfg):
    deeper = copy.deepcopy(model)
    first = quiet(copy.deepcopy(deeper.trf_blocks[0]))
    deeper.trf_blocks = nn.Sequential(first, *deeper.trf_blocks)
    return deeper


def in_between(model, cfg):
    deeper = copy.deepcopy(model)
    deeper.trf_blocks.insert(1, quiet(TransformerBlock(cfg)))
    return deeper


def by_state(model, cfg):
    deeper = GPTModel(cfg | {"n_layers": cfg["n_layers"] + 1})
    state = deeper.state_dict() | copy.deepcopy(model.state_dict())
    for name in state:
        if name.startswith(f"trf_blocks.{cfg['n_layers']}.") and (
            "out_proj" in name or "ff.layers.2" in name
        ):
            state[name] = torch.zeros_like(state[name])
    deeper.load_state_dict(state)
    return deeper.train()


def by_name(model, cfg):
    deeper = GPTModel({**cfg, "n_layers": cfg["n_layers"] + 1})
    with torch.no_grad():
        own = dict(deeper.named_parameters())
        for name, p in model.named_parameters():
            own[name].copy_(p)
    quiet(deeper.trf_blocks[-1])
    return deeper


class Gate(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.block, self.gate = (
            TransformerBlock(cfg),
            nn.Parameter(torch.zeros(1)),
        )

    def forward(self, x):
        return x + self.gate * (self.block(x) - x)


def gated(model, cfg):
    deeper = copy.deepcopy(model)
    deeper.trf_blocks.append(Gate(cfg))
    return deeper


@pytest.mark.parametrize(
    "answer", [by_copy, in_front, in_between, by_state, by_name, gated]
)
def test_right_deeper_models_pass(answer):
    assert deepen(answer).status == "passed", deepen(answer)


def then(deed):
    """A right answer, and something done to its model."""

    def answer(model, cfg):
        deeper = by_copy(model, cfg)
        return deed(deeper, model, cfg) or deeper

    return answer


def in_its_place(model, cfg):
    model.trf_blocks.append(quiet(TransformerBlock(cfg)))
    return model


def strictly(model, cfg):
    deeper = GPTModel(cfg | {"n_layers": cfg["n_layers"] + 1})
    deeper.load_state_dict(model.state_dict())
    return deeper


def of_old_blocks(model, cfg):
    deeper = copy.deepcopy(model)
    new = quiet(TransformerBlock(cfg))
    deeper.trf_blocks = nn.Sequential(*model.trf_blocks, new)
    return deeper


def nearly_quiet(model, cfg):
    deeper = by_copy(model, cfg)
    last = deeper.trf_blocks[-1]
    for layer in (last.att.out_proj, last.ff.layers[2]):
        nn.init.normal_(layer.weight, std=1e-3)
    return deeper


def detached(model, cfg):
    deeper = by_copy(model, cfg)
    block = deeper.trf_blocks[-1]
    forward = block.forward
    block.forward = lambda x: forward(x.detach())
    return deeper


WRONG_DEEPER = [
    ("logits-changed", nearly_quiet),
    ("gradient-detached", detached),
    ("model-changed", in_its_place),
    ("model-changed", then(lambda d, m, c: m.train() and None)),
    ("model-changed", then(
        lambda d, m, c: m.out_head.weight.data.zero_().any() or None)),
    ("config-changed", then(lambda d, m, c: c.update(n_layers=9))),
    ("loaded-strictly", strictly),
    ("weights-shared", of_old_blocks),
    ("frozen", then(lambda d, m, c: d.requires_grad_(False))),
    ("not-a-model", then(lambda d, m, c: d.state_dict())),
    ("not-a-model", then(lambda d, m, c: d.trf_blocks)),
    ("too-many-blocks", then(lambda d, m, c: by_copy(d, c))),
    ("no-new-block", lambda model, cfg: copy.deepcopy(model)),
    ("returns-none", lambda model, cfg: by_copy(model, cfg) and None),
    ("weights-not-copied", then(
        lambda d, m, c: quiet(d.trf_blocks[0]) and None)),
    ("block-without-weights", then(
        lambda d, m, c: setattr(d, "trf_blocks", nn.Sequential(
            *d.trf_blocks[:-1], nn.Identity())))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), WRONG_DEEPER)
def test_wrong_deeper_models(name, answer):
    assert_wrong(deepen, answer, name)


def test_deepen_stub():
    def stub(model, cfg):
        raise NotImplementedError

    assert deepen(stub).status == "not attempted"
