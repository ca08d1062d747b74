"""The check of multi-head attention: right answers in many styles pass, each
wrong one is told which mistake it is."""

import textwrap

import pytest
import torch
from renamed import renamed
from torch import nn
from torch.nn import functional as F

from classroom.checks.attention import multi_head_attention as check
from gptlib import MultiHeadAttention


def answer(source):
    """The class that a learner's cell defines."""
    names = {"torch": torch, "nn": nn, "F": F, "math": __import__("math")}
    exec(textwrap.dedent(source), names)
    return names["MyMultiHeadAttention"]


STEPS = """
class MyMultiHeadAttention(nn.Module):
    def __init__(
        self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False
    ):
        super().__init__()
        self.d_out = d_out
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        mask = torch.triu(torch.ones(context_length, context_length), 1)
        self.register_buffer("mask", mask.bool())

    def forward(self, x):
        b, t, d_in = x.shape
        q = self.W_query(x)
        k = self.W_key(x)
        v = self.W_value(x)
        q = q.view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        k = k.view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        v = v.view(b, t, self.num_heads, self.head_dim).transpose(1, 2)
        scores = q @ k.transpose(2, 3)
        scores = scores / self.head_dim**0.5
        scores = scores.masked_fill(self.mask[:t, :t], -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        weights = self.dropout(weights)
        context = weights @ v
        context = context.transpose(1, 2).reshape(b, t, self.d_out)
        return self.out_proj(context)
"""

# The same in another hand: helper method, loop-free, tril and -1e9, scaled
# queries.
HELPER = """
class MyMultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads,
                 qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0
        self.h = num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer(
            "allowed", torch.tril(torch.ones(context_length, context_length))
        )

    def cut(self, x):
        n, length, width = x.size()
        return x.reshape(n, length, self.h, width // self.h).permute(
            0, 2, 1, 3)

    def weigh(self, q, k):
        length = q.size(2)
        att = torch.matmul(q, k.transpose(-2, -1))
        seen = self.allowed[:length, :length]
        att = att.masked_fill(seen == 0, -1e9)
        return F.softmax(att, dim=-1)

    def forward(self, x):
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        q, k, v = self.cut(q), self.cut(k), self.cut(v)
        q = q * q.size(-1) ** -0.5
        att = self.dropout(self.weigh(q, k))
        y = torch.matmul(att, v)
        y = y.permute(0, 2, 1, 3).contiguous().view(x.size(0), x.size(1), -1)
        return self.out_proj(y)
"""

LAYERS = """
class MyMultiHeadAttention(nn.Module):
    def __init__(
        self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False
    ):
        super().__init__()
        self.num_heads = num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
"""

SDPA = (
    LAYERS
    + """
    def forward(self, x):
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer in (self.W_query, self.W_key, self.W_value)
        )
        p = self.dropout.p if self.training else 0.0
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=p, is_causal=True)
        return self.out_proj(y.transpose(1, 2).flatten(2))
"""
)

EINSUM = (
    LAYERS
    + """
    def forward(self, x):
        b, t, _ = x.shape
        h = self.num_heads
        q = self.W_query(x).reshape(b, t, h, -1)
        k = self.W_key(x).reshape(b, t, h, -1)
        v = self.W_value(x).reshape(b, t, h, -1)
        s = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
        later = torch.triu(
            torch.full((t, t), float("-inf"), device=x.device), diagonal=1)
        w = self.dropout((s + later).softmax(-1))
        y = torch.einsum("bhqk,bkhd->bqhd", w, v)
        return self.out_proj(y.reshape(b, t, -1))
"""
)

FUSED = """
class MyMultiHeadAttention(nn.Module):
    def __init__(
        self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False
    ):
        super().__init__()
        self.num_heads, self.d_out = num_heads, d_out
        self.W_qkv = nn.Linear(d_in, 3 * d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.W_qkv(x).split(self.d_out, dim=-1)
        q, k, v = (
            a.view(b, t, self.num_heads, -1).transpose(1, 2)
            for a in (q, k, v)
        )
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True,
            dropout_p=self.dropout.p if self.training else 0)
        return self.out_proj(y.transpose(1, 2).reshape(b, t, -1))
"""

LIST = """
class Head(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(
            torch.ones(context_length, context_length), diagonal=1))

    def forward(self, x):
        t = x.shape[1]
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        s = q @ k.transpose(1, 2)
        s.masked_fill_(self.mask.bool()[:t, :t], -torch.inf)
        w = torch.softmax(s / k.shape[-1] ** 0.5, dim=-1)
        return self.dropout(w) @ v


class MyMultiHeadAttention(nn.Module):
    def __init__(
        self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False
    ):
        super().__init__()
        size = d_out // num_heads
        self.heads = nn.ModuleList([
            Head(d_in, size, context_length, dropout, qkv_bias)
            for _ in range(num_heads)
        ])
        self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        return self.out_proj(torch.cat([h(x) for h in self.heads], dim=-1))
"""

LOOP = (
    LAYERS
    + """
        self.register_buffer("mask", torch.ones(
            context_length, context_length).tril().bool())

    def forward(self, x):
        t = x.shape[1]
        contexts = []
        for q, k, v in zip(
            self.W_query(x).chunk(self.num_heads, -1),
            self.W_key(x).chunk(self.num_heads, -1),
            self.W_value(x).chunk(self.num_heads, -1),
        ):
            s = q.bmm(k.mT).div(k.shape[-1] ** 0.5)
            s = torch.where(self.mask[:t, :t], s, torch.tensor(-1e9))
            contexts.append(self.dropout(s.softmax(2)).bmm(v))
        return self.out_proj(torch.cat(contexts, 2))
"""
)

TORCH = """
class MyMultiHeadAttention(nn.Module):
    def __init__(
        self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False
    ):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.mha = nn.MultiheadAttention(
            d_out, num_heads, dropout, bias=True, kdim=d_in, vdim=d_in,
            batch_first=True)
        later = torch.ones(context_length, context_length).triu(1).bool()
        self.register_buffer("mask", later)

    def forward(self, x):
        t = x.shape[1]
        return self.mha(self.W_query(x), x, x,
            attn_mask=self.mask[:t, :t], need_weights=False)[0]
"""


def change(source, *changes):
    """The source with pieces replaced; each must be there."""
    for old, new in changes:
        assert old in source, old
        source = source.replace(old, new)
    return source


MASK_LINE = "scores.masked_fill(self.mask[:t, :t], -torch.inf)"
RIGHT = {
    "steps": STEPS,
    "helper": HELPER,
    "sdpa": SDPA,
    "einsum": EINSUM,
    "fused": FUSED,
    "list of heads": LIST,
    "loop": LOOP,
    "-1e9": change(STEPS, ("-torch.inf)", "-1e9)")),
    "finfo min": change(
        STEPS, ("-torch.inf)", "torch.finfo(scores.dtype).min)")
    ),
    "in place": change(
        STEPS, (f"scores = {MASK_LINE}", MASK_LINE.replace("fill(", "fill_("))
    ),
    "mask before scale": change(
        STEPS,
        ("        scores = scores / self.head_dim**0.5\n", ""),
        ("softmax(scores,", "softmax(scores / self.head_dim**0.5,"),
    ),
    "renormalized after softmax": change(
        STEPS,
        (f"        scores = {MASK_LINE}\n", ""),
        (
            "weights = self.dropout(",
            "weights = weights.masked_fill(self.mask[:t, :t], 0)\n"
            "        weights = weights / weights.sum(-1, keepdim=True)\n"
            "        weights = self.dropout(",
        ),
    ),
    "softmax by hand": change(
        STEPS,
        (
            "torch.softmax(scores, dim=-1)",
            "(scores - scores.amax(-1, keepdim=True)).exp()\n"
            "        weights = weights / weights.sum(-1, keepdim=True)",
        ),
    ),
    "mask from forward": change(
        STEPS,
        (
            "self.mask[:t, :t]",
            "torch.ones(t, t, device=x.device).triu(1).bool()",
        ),
        ('        self.register_buffer("mask", mask.bool())\n', ""),
    ),
    "plain mask, moved": change(
        STEPS,
        ('self.register_buffer("mask", mask.bool())', "self.m = mask.bool()"),
        ("self.mask[:t, :t]", "self.m[:t, :t].to(x.device)"),
    ),
    "not saved": change(
        STEPS, ("mask.bool())", "mask.bool(), persistent=False)")
    ),
    "4-d mask": change(
        STEPS,
        ("mask.bool())", "mask.bool()[None, None])"),
        ("self.mask[:t, :t]", "self.mask[:, :, :t, :t]"),
    ),
    "additive buffer": change(
        STEPS,
        (
            "mask.bool())",
            "torch.zeros_like(mask).masked_fill(mask.bool(), -torch.inf))",
        ),
        (MASK_LINE, "scores + self.mask[:t, :t]"),
    ),
    "sdpa mask": change(
        SDPA,
        (
            "is_causal=True",
            "attn_mask=torch.ones(x.shape[1], x.shape[1], "
            "dtype=torch.bool, device=x.device).tril()",
        ),
    ),
    "functional dropout": change(
        STEPS,
        ("nn.Dropout(dropout)", "dropout"),
        (
            "self.dropout(weights)",
            "F.dropout(weights, self.dropout, self.training)",
        ),
    ),
    "dropout by hand": change(
        STEPS,
        ("nn.Dropout(dropout)", "dropout"),
        (
            "        weights = self.dropout(weights)\n",
            """
        if self.training and self.dropout > 0:
            keep = (torch.rand_like(weights) > self.dropout).float()
            weights = weights * keep / (1 - self.dropout)
""",
        ),
    ),
    "fused per head": change(
        FUSED,
        (
            "q, k, v = self.W_qkv(x).split(self.d_out, dim=-1)",
            "q, k, v = self.W_qkv(x).view(b, t, self.num_heads, 3, -1)"
            ".unbind(3)",
        ),
    ),
    "fused, other order": change(
        FUSED, ("q, k, v = self.W", "k, v, q = self.W")
    ),
    "fused with properties": FUSED
    + "".join(
        f"""
    @property
    def W_{name}(self):
        return self.W_qkv.weight[{i} * self.d_out:{i + 1} * self.d_out]
"""
        for i, name in enumerate(("query", "key", "value"))
    ),
    "other names": change(
        STEPS,
        ("W_query", "q_proj"),
        ("W_key", "k_proj"),
        ("W_value", "v_proj"),
        ("self.out_proj", "self.o_proj"),
    ),
    "names that say nothing": change(
        STEPS, ("W_query", "a"), ("W_key", "b"), ("W_value", "c")
    ),
    "bare parameters": change(
        STEPS,
        *(
            (
                f"self.W_{n} = nn.Linear(d_in, d_out, bias=qkv_bias)",
                f"self.W_{n} = nn.Parameter(torch.rand(d_in, d_out))\n"
                f"        self.b_{n} = nn.Parameter("
                "torch.rand(d_out)) if qkv_bias else 0",
            )
            for n in ("query", "key", "value")
        ),
        *(
            (f"self.W_{n}(x)", f"x @ self.W_{n} + self.b_{n}")
            for n in ("query", "key", "value")
        ),
    ),
    "one matrix a head": change(
        LAYERS,
        *(
            (
                f"self.W_{n} = nn.Linear(d_in, d_out, bias=qkv_bias)",
                f"self.W_{n} = nn.ModuleList(nn.Linear(d_in, "
                "d_out // num_heads, bias=qkv_bias) "
                "for _ in range(num_heads))",
            )
            for n in ("query", "key", "value")
        ),
    )
    + """
    def forward(self, x):
        q, k, v = (torch.stack([f(x) for f in layers], 1) for layers in (
            self.W_query, self.W_key, self.W_value))
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True,
            dropout_p=self.dropout.p * self.training)
        return self.out_proj(y.transpose(1, 2).flatten(2))
""",
    "torch's module": TORCH,
    "optional weights": change(
        STEPS, ("def forward(self, x)", "def forward(self, x, more=False)")
    ),
    "raises if not divisible": change(
        STEPS,
        (
            "        self.d_out = d_out",
            "        if d_out % num_heads:\n"
            "            raise ValueError\n        self.d_out = d_out",
        ),
    ),
    "scale kept as a tensor": change(
        STEPS,
        ("self.head_dim**0.5", "torch.sqrt(torch.tensor(self.head_dim))"),
    ),
}


HEAD = """
class MyMultiHeadAttention(nn.Module):
    def __init__(
        self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False
    ):
        super().__init__()
        self.num_heads = num_heads
"""
TAIL = """
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, t, _ = x.shape
"""
SDPA_END = """
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=self.dropout.p * self.training)
        return self.out_proj(y.transpose(1, 2).flatten(2))
"""
RIGHT |= {
    "a sum of the heads' outputs": change(
        LAYERS,
        (
            "self.out_proj = nn.Linear(d_out, d_out)",
            "self.outs = nn.ModuleList(nn.Linear(d_out // num_heads, d_out, "
            "bias=not i) for i in range(num_heads))",
        ),
    )
    + """
    def forward(self, x):
        q, k, v = (
            f(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for f in (self.W_query, self.W_key, self.W_value)
        )
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=self.dropout.p * self.training)
        return sum(out(y[:, i]) for i, out in enumerate(self.outs))
""",
    "initialized in its own way": change(
        STEPS,
        (
            "mask.bool())",
            "mask.bool())\n        for p in self.parameters():\n"
            "            nn.init.normal_(p, std=0.02)",
        ),
    ),
    "cropped from the end": change(STEPS, ("[:t, :t]", "[-t:, -t:]")),
    "scale in a buffer": change(
        STEPS,
        (
            "self.d_out = d_out",
            "self.d_out = d_out\n        self.register_buffer('scale', "
            "torch.tensor((d_out // num_heads) ** -0.5))",
        ),
        ("scores / self.head_dim**0.5", "scores * self.scale"),
    ),
    "stacked parameter": HEAD
    + """
        self.W = nn.Parameter(torch.randn(3, d_in, d_out) * 0.1)
        self.b = nn.Parameter(torch.randn(3, d_out)) if qkv_bias else None
"""
    + TAIL
    + """
        y = torch.einsum("btd,kde->kbte", x, self.W)
        if self.b is not None:
            y = y + self.b[:, None, None]
        q, k, v = y.unflatten(-1, (self.num_heads, -1)).transpose(2, 3)
"""
    + SDPA_END,
    "keys and values fused by head": HEAD
    + """
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_kv = nn.Linear(d_in, 2 * d_out, bias=qkv_bias)
"""
    + TAIL
    + """
        q = self.W_query(x).view(b, t, self.num_heads, -1).transpose(1, 2)
        kv = self.W_kv(x).view(b, t, self.num_heads, 2, -1)
        k, v = kv.permute(3, 0, 2, 1, 4)
"""
    + SDPA_END,
    "fused, three last": HEAD
    + """
        self.qkv = nn.Linear(d_in, 3 * d_out, bias=qkv_bias)
"""
    + TAIL
    + """
        q, k, v = self.qkv(x).reshape(
            b, t, self.num_heads, -1, 3).permute(4, 0, 2, 1, 3)
"""
    + SDPA_END,
    "a matrix for each head and role": HEAD
    + """
        size = d_out // num_heads
        shape = num_heads, d_in, size
        self.W_query = nn.Parameter(torch.randn(shape))
        self.W_key = nn.Parameter(torch.randn(shape))
        self.W_value = nn.Parameter(torch.randn(shape))
        self.bias = nn.ParameterList(
            nn.Parameter(torch.randn(num_heads, 1, size)) for _ in "qkv"
            if qkv_bias)
"""
    + TAIL
    + """
        q, k, v = (x[:, None] @ w for w in (
            self.W_query, self.W_key, self.W_value))
        if len(self.bias):
            q, k, v = (a + b for a, b in zip((q, k, v), self.bias))
"""
    + SDPA_END,
    "row by row, early return": LAYERS
    + """
    def forward(self, x):
        b, t, _ = x.shape
        if t == 1 and not self.training:
            return self.out_proj(self.W_value(x))
        rows = []
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        for i in range(t):
            heads = []
            for qh, kh, vh in zip(q[:, i].chunk(self.num_heads, -1),
                    k[:, :i + 1].chunk(self.num_heads, -1),
                    v[:, :i + 1].chunk(self.num_heads, -1)):
                s = (qh[:, None] * kh).sum(-1) / qh.shape[-1] ** 0.5
                w = self.dropout(F.softmax(s, dim=-1))
                heads.append((w[..., None] * vh).sum(1))
            rows.append(torch.cat(heads, -1))
        return self.out_proj(torch.stack(rows, 1))
""",
    "softmax in float32": change(
        STEPS,
        (
            "weights = torch.softmax(scores, dim=-1)",
            "weights = F.softmax(scores.float(), dim=-1).to(x.dtype)",
        ),
    ),
    "arange": change(
        STEPS,
        (
            "self.mask[:t, :t]",
            "(i := torch.arange(t, device=x.device)) > i[:, None]",
        ),
        ('        self.register_buffer("mask", mask.bool())\n', ""),
    ),
    "functional": change(
        STEPS,
        *(
            (
                f"self.W_{n}(x)",
                f"F.linear(x, self.W_{n}.weight, self.W_{n}.bias)",
            )
            for n in ("query", "key", "value")
        ),
    ),
    "new_ones": change(
        STEPS, ("self.mask[:t, :t]", "x.new_ones(t, t).triu(1) == 1")
    ),
    "softmax module": change(
        STEPS,
        (
            "self.d_out = d_out",
            "self.soft = nn.Softmax(dim=-1)\n        self.d_out = d_out",
        ),
        ("torch.softmax(scores, dim=-1)", "self.soft(scores)"),
    ),
    "baddbmm": LAYERS
    + """
    def forward(self, x):
        b, t, _ = x.shape
        h = self.num_heads
        q, k, v = (f(x).reshape(b, t, h, -1).transpose(1, 2).flatten(0, 1)
            for f in (self.W_query, self.W_key, self.W_value))
        later = x.new_full((t, t), -1e9).triu(1).expand(b * h, t, t)
        w = torch.baddbmm(later, q, k.mT, alpha=q.shape[-1] ** -0.5)
        y = self.dropout(w.softmax(-1)).bmm(v)
        return self.out_proj(y.unflatten(0, (b, h)).transpose(1, 2).flatten(2))
""",
    "cached mask by length": LAYERS
    + """
        self.masks = {}

    def later(self, t, device):
        if (t, device) not in self.masks:
            self.masks[t, device] = torch.ones(
                t, t, dtype=torch.bool, device=device).triu(1)
        return self.masks[t, device]

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for f in (self.W_query, self.W_key, self.W_value))
        s = q @ k.mT * k.shape[-1] ** -0.5
        s = s.masked_fill(self.later(x.shape[1], x.device), -torch.inf)
        y = self.dropout(s.softmax(-1)) @ v
        return self.out_proj(y.transpose(1, 2).flatten(2))
""",
}


@pytest.mark.parametrize("style", RIGHT)
def test_right_answers_pass(style):
    result = check(answer(RIGHT[style]))
    assert result.status == "passed", result


def test_gptlibs_own_passes():
    assert check(MultiHeadAttention).status == "passed"
    assert check(lambda *a, **k: MultiHeadAttention(*a, **k)).mistake is None


def test_praise_says_what_was_verified():
    message = check(answer(STEPS)).message
    assert "3 heads" in message and "(2, 6, 15)" in message


def test_unusual_parameters_are_verified_by_behavior():
    assert "by behavior" in check(answer(TORCH)).message


def test_names_of_ones_own_are_remarked():
    assert "W_query" in check(answer(RIGHT["other names"])).message


BUFFER = 'self.register_buffer("mask", mask.bool())'
SPLIT = "view(b, t, self.num_heads, self.head_dim).transpose(1, 2)"
MERGE = "context.transpose(1, 2).reshape(b, t, self.d_out)"
SCALE = "scores / self.head_dim**0.5"
HELPER_SCALE = "q.size(-1) ** -0.5"
SOFTMAX = "torch.softmax(scores, dim=-1)"
MASK_ASSIGN = f"scores = {MASK_LINE}"
DROP = "weights = self.dropout(weights)"
CUT = """x.reshape(n, length, self.h, width // self.h).permute(
            0, 2, 1, 3)"""
DROPPED_MASK = f"        {MASK_ASSIGN}\n"


def steps(*changes):
    return change(STEPS, *changes)


def helper(*changes):
    return change(HELPER, *changes)


WRONG = [
    ("scaled-by-full-width", steps((SCALE, "scores / self.d_out**0.5"))),
    ("scaled-by-full-width", steps((SCALE, "scores / self.d_out"))),
    (
        "scaled-by-full-width",
        helper((HELPER_SCALE, "self.out_proj.in_features ** -0.5")),
    ),
    (
        "scaled-by-full-width",
        change(SDPA, ("q, k, v, drop", "q / 3**0.5, k, v, drop")).replace(
            "3**0.5", "self.num_heads**0.5"
        ),
    ),
    ("not-scaled", steps((SCALE, "scores"))),
    ("not-scaled", change(RIGHT["names that say nothing"],
                          (SCALE, "scores"))),
    ("not-scaled", change(SDPA, ("dropout_p=p", "dropout_p=p, scale=1.0"))),
    ("not-scaled", change(LIST, (" / k.shape[-1] ** 0.5", ""))),
    ("not-scaled", change(EINSUM, (" / math.sqrt(q.shape[-1])", ""))),
    ("scale-root-missing", steps((SCALE, "scores / self.head_dim"))),
    (
        "scale-root-missing",
        change(SDPA, ("q, k, v, drop", "q / q.shape[-1]**.5, k, v, drop")),
    ),
    ("scale-multiplied", steps((SCALE, "scores * self.head_dim**0.5"))),
    ("scale-multiplied", helper((HELPER_SCALE, "q.size(-1) ** 0.5"))),
    ("scaled-by-number-of-heads", helper((HELPER_SCALE, "self.h ** -0.5"))),
    ("scaled-by-tokens", steps((SCALE, "scores / scores.shape[-1]**0.5"))),
    ("scaled-by-input-width", steps((SCALE, "scores / d_in**0.5"))),
    ("scale-not-a-root", steps((SCALE, "scores / (self.head_dim * 0.5)"))),
    (
        "scaled-after-softmax",
        steps(
            (SCALE, "scores"), (SOFTMAX, SOFTMAX + " / self.head_dim**0.5")
        ),
    ),
    ("mask-missing", steps((DROPPED_MASK, ""))),
    ("mask-missing", change(SDPA, (", is_causal=True", ""))),
    ("mask-missing", change(EINSUM, ("(s + later)", "s"))),
    ("mask-missing", steps(("mask.bool())", "(mask * 0).bool())"))),
    ("mask-dropped", steps((MASK_ASSIGN, MASK_LINE))),
    (
        "mask-dropped",
        helper(
            (
                "att = att.masked_fill(seen == 0, -1e9)",
                "masked = att.masked_fill(seen == 0, -1e9)",
            )
        ),
    ),
    (
        "mask-dropped",
        steps(
            (DROPPED_MASK, ""),
            (SOFTMAX, SOFTMAX + f"\n        {MASK_ASSIGN}"),
        ),
    ),
    ("mask-off-by-one-hides-self", steps(("length), 1)", "length), 0)"))),
    ("mask-off-by-one-hides-self", steps(("length), 1)", "length))"))),
    (
        "mask-off-by-one-hides-self",
        helper(("context_length))\n", "context_length), -1)\n")),
    ),
    (
        "mask-off-by-one-hides-self",
        change(EINSUM, ("diagonal=1", "diagonal=0")),
    ),
    ("mask-off-by-one-sees-next", steps(("length), 1)", "length), 2)"))),
    (
        "mask-off-by-one-sees-next",
        helper(("context_length))\n", "context_length), 1)\n")),
    ),
    ("mask-inverted", steps(("torch.triu", "torch.tril"), (", 1)", ")"))),
    ("mask-inverted", steps(("self.mask[:t, :t]", "~self.mask[:t, :t]"))),
    ("mask-inverted", helper(("seen == 0", "seen == 1"))),
    ("mask-inverted", helper(("torch.tril", "torch.triu"))),
    ("mask-inverted", change(LOOP, (".tril()", ".triu(1)"))),
    (
        "mask-inverted",
        change(RIGHT["sdpa mask"], (".tril()", ".triu(1)")),
    ),
    ("mask-inverted", change(LIST, ("torch.triu", "torch.tril"))),
    (
        "mask-after-softmax",
        steps(
            (DROPPED_MASK, ""),
            (
                SOFTMAX,
                SOFTMAX + ".masked_fill(self.mask[:t, :t], 0)",
            ),
        ),
    ),
    (
        "mask-after-softmax",
        helper(
            ("        att = att.masked_fill(seen == 0, -1e9)\n", ""),
            ("F.softmax(att, dim=-1)", "F.softmax(att, dim=-1) * seen"),
        ),
    ),
    (
        "mask-after-softmax",
        steps(
            (DROPPED_MASK, ""),
            (
                SOFTMAX,
                SOFTMAX + ".masked_fill(self.mask[:t, :t], -torch.inf)",
            ),
        ),
    ),
    ("mask-fill-not-infinite", steps(("-torch.inf)", "0)"))),
    ("mask-fill-not-infinite", steps(("-torch.inf)", "-1e-9)"))),
    (
        "mask-fill-not-infinite",
        helper(("att.masked_fill(seen == 0, -1e9)", "att * seen")),
    ),
    (
        "mask-added-as-numbers",
        steps((MASK_LINE, "scores + self.mask[:t, :t]")),
    ),
    (
        "mask-added-as-numbers",
        helper(("att.masked_fill(seen == 0, -1e9)", "att + seen")),
    ),
    ("mask-fill-sign", steps(("-torch.inf)", "torch.inf)"))),
    ("mask-fill-sign", helper(("-1e9", "1e9"))),
    ("softmax-wrong-axis", steps(("dim=-1", "dim=-2"))),
    ("softmax-wrong-axis", steps(("dim=-1", "dim=1"))),
    ("softmax-wrong-axis", steps(("dim=-1", "dim=0"))),
    ("softmax-wrong-axis", helper(("dim=-1", "dim=2"))),
    ("softmax-wrong-axis", helper(("dim=-1", "dim=1"))),
    ("softmax-wrong-axis", change(LIST, ("dim=-1)\n        return self.drop",
                                         "dim=1)\n        return self.drop"))),
    ("softmax-missing", helper(("F.softmax(att, dim=-1)", "att * seen"))),
    ("softmax-twice", steps((DROP, DROP.replace(
        "(weights)", "(weights.softmax(-1))")))),
    ("weights-transposed", steps(("weights @ v", "weights.mT @ v"))),
    (
        "heads-split-by-view",
        steps((SPLIT, "view(b, self.num_heads, t, self.head_dim)")),
    ),
    (
        "heads-split-by-view",
        helper((CUT, "x.view(n, self.h, length, width // self.h)")),
    ),
    (
        "heads-split-by-view",
        steps(
            (SPLIT, "view(b, self.num_heads, t, self.head_dim)"),
            (MERGE, "context.reshape(b, t, self.d_out)"),
        ),
    ),
    (
        "heads-split-by-view",
        steps(
            (
                "v = v." + SPLIT,
                "v = v.view(b, self.num_heads, t, self.head_dim)",
            )
        ),
    ),
    ("heads-split-by-view", steps((".transpose(1, 2)\n", "\n"))),
    (
        "heads-split-by-view",
        steps(
            (".transpose(1, 2)\n", "\n"),
            (MERGE, "context.reshape(b, t, self.d_out)"),
        ),
    ),
    (
        "heads-split-by-view",
        steps(
            (".transpose(1, 2)\n", "\n"),
            (MERGE, "context.reshape(b, t, self.d_out)"),
            (
                "self.mask[:t, :t]",
                "self.mask[:self.num_heads, :self.num_heads]",
            ),
        ),
    ),
    (
        "heads-merged-by-view",
        steps((MERGE, "context.reshape(b, t, self.d_out)")),
    ),
    (
        "heads-merged-by-view",
        helper((".permute(0, 2, 1, 3).contiguous()", "")),
    ),
    (
        "heads-merged-by-view",
        change(SDPA, ("y.transpose(1, 2).flatten(2)", "y.reshape(x.shape[0],"
                      " x.shape[1], -1)")),
    ),
    ("heads-not-merged", helper(
        ("y = y.permute(0, 2, 1, 3).contiguous().view(x.size(0), x.size(1), "
         "-1)\n", "\n"), ("self.out_proj(y)", "y"))),
    (
        "heads-interleaved",
        helper(
            (CUT, "x.view(n, length, width // self.h, self.h).permute(\n"
             "            0, 3, 1, 2)"),
        ),
    ),
    (
        "heads-and-size-swapped",
        steps((SPLIT, "view(b, t, self.head_dim, self.num_heads)"
               ".transpose(1, 2)")),
    ),
    (
        "heads-and-size-swapped",
        steps(
            (SPLIT, "view(b, t, self.head_dim, self.num_heads)"
             ".transpose(1, 2)"),
            (SCALE, "scores / self.num_heads**0.5"),
        ),
    ),
    (
        "heads-merged-wrong-axes",
        steps((MERGE, "context.transpose(2, 3).reshape(b, t, self.d_out)")),
    ),
    (
        "heads-merged-wrong-axes",
        helper(("y.permute(0, 2, 1, 3)", "y.permute(0, 3, 2, 1)")),
    ),
    ("softmax-missing", helper(("F.softmax(att, dim=-1)", "att"))),
    ("softmax-missing", steps((SOFTMAX, "scores"))),
    ("scale-not-a-root", steps((SCALE, "scores / self.head_dim**1.5"))),
    ("view-after-transpose", steps((".reshape(", ".view("))),
    ("view-after-transpose", helper((".contiguous()", ""))),
    ("keys-not-transposed", steps(("q @ k.transpose(2, 3)", "q @ k"))),
    ("keys-not-transposed", helper(("k.transpose(-2, -1)", "k"))),
    (
        "mask-is-parameter",
        steps(
            (
                BUFFER,
                "self.mask = nn.Parameter(mask, requires_grad=False)",
            ),
            ("self.mask[:t", "self.mask.bool()[:t"),
        ),
    ),
    ("mask-not-buffer", steps((BUFFER, "self.mask = mask.bool()"))),
    (
        "mask-not-buffer",
        steps((BUFFER, "self._m = mask.bool()"), ("self.mask", "self._m")),
    ),
    (
        "fails-at-other-sizes",
        steps(("ones(context_length, context_length)", "ones(d_out, d_out)")),
    ),
    (
        "fails-at-other-sizes",
        helper(("self.h = num_heads", "self.h = 3")),
    ),
    (
        "mask-not-buffer",
        change(
            LIST,
            ('self.register_buffer("mask", torch.triu(', "self.mask = (("),
        )
        .replace("((\n            torch.ones(context_length, context_length),"
                 " diagonal=1))", "torch.ones(\n            context_length, "
                 "context_length).triu(1)"),
    ),
    (
        "mask-not-buffer",
        helper(
            (
                """self.register_buffer(
            "allowed", torch.tril(torch.ones(context_length, context_length))
        )""",
                "self.allowed = torch.tril("
                "torch.ones(context_length, context_length))",
            )
        ),
    ),
    (
        "mask-not-buffer",
        steps(
            (BUFFER, "self.mask = mask.bool()"),
            (MASK_ASSIGN, MASK_LINE.replace("fill(", "fill_(")),
        ),
    ),
    (
        "dropout-in-evaluation",
        steps((DROP, "weights = F.dropout(weights, self.dropout.p)")),
    ),
    ("dropout-in-evaluation", change(SDPA, (" if self.training else 0.0",
                                            ""))),
    (
        "dropout-in-evaluation",
        steps(
            ("self.dropout(weights)", "F.dropout(weights, self.dropout.p, "
             "training=not self.training)")
        ),
    ),
    ("dropout-missing", steps((f"        {DROP}\n", ""))),
    ("dropout-missing", steps((DROP, "self.dropout(weights)"))),
    ("dropout-missing", change(SDPA, ("dropout_p=p, ", ""))),
    ("dropout-missing", steps(("nn.Dropout(dropout)", "nn.Dropout(0.0)"))),
    (
        "dropout-on-output",
        steps(
            (f"        {DROP}\n", ""),
            ("self.out_proj(context)", "self.dropout(self.out_proj(context))"),
        ),
    ),
    (
        "dropout-on-output",
        steps(
            ("self.out_proj(context)", "self.dropout(self.out_proj(context))"),
        ),
    ),
    (
        "dropout-misplaced",
        steps((DROP, "pass"), ("weights @ v", "self.dropout(weights @ v)")),
    ),
    (
        "dropout-misplaced",
        steps((DROP, "pass"), ("W_value(x)", "W_value(self.dropout(x))")),
    ),
    (
        "dropout-before-softmax",
        steps((f"        {DROP}\n", ""), (SOFTMAX, "torch.softmax("
               "self.dropout(scores), dim=-1)")),
    ),
    ("dropout-rate-wrong", steps(("Dropout(dropout)", "Dropout(0.1)"))),
    ("dropout-rate-wrong", steps(("Dropout(dropout)",
                                  "Dropout(1 - dropout)"))),
    (
        "dropout-not-rescaled",
        change(RIGHT["dropout by hand"], (" / (1 - self.dropout)", "")),
    ),
    ("out-proj-missing", steps(
        ("        self.out_proj = nn.Linear(d_out, d_out)\n", ""),
        ("self.out_proj(context)", "context"))),
    ("out-proj-missing", change(FUSED,
        ("        self.out_proj = nn.Linear(d_out, d_out)\n", ""),
        ("self.out_proj(y.transpose(1, 2).reshape(b, t, -1))",
         "y.transpose(1, 2).reshape(b, t, -1)"))),
    ("out-proj-missing", change(LIST,
        ("        self.out_proj = nn.Linear(d_out, d_out)\n", ""),
        ("self.out_proj(", "("))),
    ("out-proj-unused", steps(("self.out_proj(context)", "context"))),
    ("out-proj-unused", change(LIST, ("self.out_proj(", "("))),
    ("out-proj-twice", helper(("self.out_proj(y)",
                               "self.out_proj(self.out_proj(y))"))),
    ("out-proj-bias-missing", steps(("(d_out, d_out)",
                                     "(d_out, d_out, bias=False)"))),
    ("out-proj-bias-missing", helper(("(d_out, d_out)",
                                      "(d_out, d_out, bias=qkv_bias)"))),
    ("queries-keys-mixed-up", steps(("k = self.W_key", "k = self.W_query"))),
    ("queries-keys-mixed-up", steps(("q @ k.transpose(2, 3)",
                                     "k @ q.transpose(2, 3)"))),
    ("values-mixed-up", steps(("weights @ v", "weights @ k"))),
    ("values-mixed-up", helper(("matmul(att, v)", "matmul(att, q)"))),
    ("values-mixed-up", steps(("k = self.W_key", "k = self.W_value"),
                              ("v = self.W_value", "v = self.W_key"))),
    ("one-head-only", steps(("self.num_heads = num_heads",
                             "self.num_heads = 1"),
                            ("d_out // num_heads", "d_out"))),
    ("one-head-only", helper(("self.h = num_heads", "self.h = 1"))),
    ("one-head-only", LAYERS + """
    def forward(self, x):
        y = F.scaled_dot_product_attention(
            self.W_query(x), self.W_key(x), self.W_value(x), is_causal=True)
        return self.out_proj(y)
"""),
    ("qkv-bias-ignored", steps(("bias=qkv_bias", "bias=False"))),
    ("qkv-bias-ignored", steps(
        ("W_key = nn.Linear(d_in, d_out, bias=qkv_bias",
         "W_key = nn.Linear(d_in, d_out, bias=False"))),
    ("qkv-bias-always", steps((", bias=qkv_bias", ""))),
    ("qkv-bias-always", helper(
        ("W_value = nn.Linear(d_in, d_out, bias=qkv_bias",
         "W_value = nn.Linear(d_in, d_out"))),
    ("qkv-bias-always", change(LIST, (", bias=qkv_bias", ""))),
    ("qkv-bias-always", change(FUSED, (", bias=qkv_bias", ""))),
    ("qkv-bias-inverted", steps(("=qkv_bias", "=not qkv_bias"))),
    ("qkv-bias-default", steps(("qkv_bias=False", "qkv_bias=True"))),
    ("qkv-bias-default", steps(("qkv_bias=False", "qkv_bias"))),
    ("returns-weights", steps(("return self.out_proj(context)",
                               "return self.out_proj(context), weights"))),
    ("returns-none", steps(("return self.out_proj(context)",
                            "self.out_proj(context)"))),
    ("mask-not-cropped", steps(("self.mask[:t, :t]", "self.mask"))),
    ("mask-not-cropped", helper(("self.allowed[:length, :length]",
                                 "self.allowed"))),
    ("mask-not-cropped", steps(("self.mask[:t, :t]", "self.mask[:t]"))),
    ("batch-rows-mixed", change(TORCH, (",\n            batch_first=True",
                                        ""), ("[:t, :t]",
                                        "[:len(x), :len(x)]"))),
    ("d-in-not-d-out", steps(("W_key = nn.Linear(d_in",
                              "W_key = nn.Linear(d_out"))),
    ("d-in-not-d-out", steps(("k = self.W_key(x)", "k = self.W_key(q)"))),
    ("d-in-not-d-out", steps(("Linear(d_out, d_out)",
                              "Linear(d_out, d_in)"))),
    ("d-in-not-d-out", helper(("d_out % num_heads", "d_in % num_heads"))),
    ("divisibility-wrong", helper(("d_out % num_heads == 0",
                                   "d_out % num_heads"))),
    ("divisibility-wrong", helper(("d_out % num_heads == 0",
                                   "num_heads % d_out == 0"))),
    ("wrong-signature", steps(("self, d_in, d_out, context_length, dropout",
                               "self, d_in, d_out, length, dropout"),
                              ("ones(context_length, context_length)",
                               "ones(length, length)"))),
    ("wrong-signature", "class MyMultiHeadAttention(nn.Module):\n"
     "    def __init__(self, cfg):\n        super().__init__()\n"
     "    def forward(self, x):\n        return x"),
    ("shared-projection", steps(
        ("W_key = nn.Linear(d_in, d_out, bias=qkv_bias)",
         "W_key = self.W_query"))),
    ("parameters-not-registered", change(
        LIST, ("nn.ModuleList([", "list([")).replace(
            "self.heads = list", "self.heads = list")),
    ("wrong-projection-width", change(
        LIST, ("size = d_out // num_heads", "size = d_out"),
        ("self.out_proj = nn.Linear(d_out", "self.out_proj = nn.Linear("
         "d_out * num_heads"))),
    ("gradient-lost", steps(("        scores = q @",
                             "        q = q.detach()\n        scores = q @"))),
    ("not-a-module", "class MyMultiHeadAttention:\n"
     "    def __init__(self, d_in, d_out, context_length, dropout, num_heads,"
     " qkv_bias=False):\n        self.d_out = d_out\n"
     "    def forward(self, x):\n        return x"),
    ("input-overwritten", steps(("        b, t, d_in = x.shape",
     "        b, t, d_in = x.shape\n        x += 1"))),
    ("wrong-values", steps((SCALE, SCALE + " + q.sin() @ v.mT"))),
    # Two slips at once: the first of them is named.
    ("scaled-by-full-width", steps((SCALE, "scores / self.d_out**0.5"),
                                   ("length), 1)", "length), 2)"))),
    ("not-scaled", steps((SCALE, "scores"), ("@ v", "@ k"))),
    # A layer that is left over hides nothing.
    ("not-scaled", steps((SCALE, "scores"), (
        "        self.dropout =",
        "        self.a = nn.Linear(d_in, d_out)\n        self.dropout ="))),
    ("not-trainable", steps((
        "        self.dropout =",
        "        self.W_key.requires_grad_(False)\n        self.dropout ="))),
    ("mode-dependent", steps((DROP, f"{DROP}\n        if self.training:\n"
                              "            weights = weights.roll(1, 0)"))),
    ("output-not-finite", steps((SCALE, "scores * torch.inf"))),
    ("output-not-finite", steps((MASK_ASSIGN,
                                 "scores = scores + self.mask[:t, :t] * "
                                 "-torch.inf"))),
]  # fmt: skip
QUERY, KEY = (
    f"        self.W_{name} = nn.Linear(d_in, d_out, bias=qkv_bias)\n"
    for name in ("query", "key")
)
OUT = "        self.out_proj = nn.Linear(d_out, d_out)\n"
SCORES = "        scores = q @"
SHAPE = "b, t, d_in = x.shape"
INIT, FORWARD = STEPS.split("    def forward")


def after(line, code):
    """STEPS with a line of code below another."""
    return steps((line, f"{line}\n        {code}"))


def if_(condition, line):
    return steps((line, f"if {condition}:\n            {line}"))


def kept(size):
    return f"weights = weights * self.dropout(torch.ones_like(weights{size}))"


# Wrong for some texts, modes, calls, types or places alone.
WRONG += [
    ("wrong-for-other-texts", steps((MASK_ASSIGN, """
        if not hasattr(self, "now"):
            self.now = self.mask[:t, :t]
        scores = scores.masked_fill(self.now, -torch.inf)"""))),
    ("wrong-for-other-texts", after(DROP, """
        if b > 1 and torch.equal(x[0], x[1]):
            weights = weights / 2""")),
    ("batch-rows-mixed", after(DROP, "weights = weights[:1]")),
    ("batch-rows-mixed",
     after(DROP, "weights = weights.flip(0) if b == 3 else weights")),
    ("blind-to-earlier-tokens",
     after(DROP, "weights = weights * (0 if t == 1 else 1)")),
    ("sees-later-tokens", if_("t % 2 == 0", MASK_ASSIGN)),
    ("sees-later-tokens", if_("t < len(self.mask)", MASK_ASSIGN)),
    ("sees-later-tokens", change(
        TORCH, ("attn_mask=self", "attn_mask=None if t == 7 else self"))),
    ("mode-dependent", if_("not self.training", MASK_ASSIGN)),
    ("mask-dropped", if_("self.training", MASK_ASSIGN)),
    ("mode-dependent", if_("not self.training or not self.dropout.p",
                           MASK_ASSIGN)),
    ("out-proj-missing", change(INIT, (OUT, ""), (BUFFER, "self.m = mask"))),
    ("gradient-detached", steps((SCORES, "        k = k.detach() if "
                                 f"self.training else k\n{SCORES}"))),
    ("generator-used", after(SHAPE, "torch.manual_seed(123)")),
    ("dropout-repeated", after(
        SHAPE, "if self.training:\n            torch.manual_seed(1)")),
    ("dropout-together", steps((DROP, kept("[:, :1]")))),
    ("dropout-together", steps((DROP, kept("[:1]")))),
    ("dropout-together", steps((DROP, kept("[:, :, :1]")))),
    ("dropout-together", steps((DROP, kept("[..., :1]")))),
    ("dropout-misplaced",
     steps(("self.W_query(x)", "self.dropout(self.W_query(x))"))),
    ("dropout-misplaced", after(
        DROP, "weights = weights / weights.sum(-1, keepdim=True)")),
    ("dropout-together", steps(("nn.Dropout(", "nn.Dropout2d("))),
    ("device-fixed", steps((SCALE, "scores / torch.tensor([self.head_dim])"
                            "**0.5"))),
    ("seed-set", after("super().__init__()", "torch.manual_seed(123)")),
    ("needs-contiguous", after(SHAPE, "x = x.view(b * t, -1).view(b, t, -1)")),
    ("needs-contiguous", after(
        SHAPE, "x = x.as_strided(x.shape, (t * d_in, d_in, 1))")),
    ("dtype-fixed", steps(("q @ k.transpose(2, 3)",
                           "q.float() @ k.transpose(2, 3).float()"))),
    ("dtype-fixed", steps(("proj(context)", "proj(context).float()"))),
    ("mode-changed", after(DROP, "self.dropout.eval()")),
    ("mode-changed", after(DROP, "self.train()")),
    ("gradients-turned-off", after(DROP, "torch.set_grad_enabled(False)")),
    ("created-in-other-order",
     steps((OUT, ""), (QUERY, OUT + QUERY))),
    ("created-in-other-order", steps((QUERY + KEY, KEY + QUERY))),
    ("wrong-signature", steps(("context_length, dropout, num_heads",
                               "context_length, num_heads, dropout"))),
    ("size-hardcoded", steps(("ones(context_length, context_length)",
                              "ones(1024, 1024)"))),
    ("mask-not-buffer", steps((BUFFER, "self.kept = [mask.bool()]"),
                              ("self.mask[:t", "self.kept[0][:t"))),
    ("device-fixed", steps(
        ("self.mask[:t, :t]", "torch.ones(t, t).triu(1).bool()"),
        (f"        {BUFFER}\n", ""))),
    ("not-scaled", change(RIGHT["stacked parameter"],
                          ("is_causal=True,", "is_causal=True, scale=1.0,"))),
    ("not-scaled", change(RIGHT["keys and values fused by head"],
                          ("is_causal=True,", "is_causal=True, scale=1.0,"))),
    # Something is still to be written, or in the wrong place.
    ("forward-misspelt", steps(("def forward", "def foward"))),
    ("forward-nested", INIT + "        def forward" + textwrap.indent(
        FORWARD, "    ").lstrip()),
    ("init-misspelt", steps(("__init__(\n", "_init_(\n"))),
    ("raise-left", after(SHAPE, "raise NotImplementedError")),
    ("raise-left", after(BUFFER, "raise NotImplementedError")),
    ("raise-left", after(
        SHAPE, "if t > 8:\n            raise NotImplementedError")),
    ("forward-missing", INIT),
    ("not-registered", change(INIT, (
        QUERY, QUERY.replace("nn.Linear(", "[nn.Linear(").replace(
            "bias)", "bias)]")))),
    ("not-registered", change(INIT, (
        QUERY, "        self.W_query = torch.randn(d_in, d_out)\n"))),
    ("shared-projection", change(INIT, (
        KEY, "        self.W_key = self.W_query\n"))),
    ("out-proj-missing", change(INIT, (OUT, ""))),
    ("wrong-size", change(INIT, ("(d_out, d_out)", "(d_out, d_in)"))),
    ("wrong-size", change(INIT, (
        "(d_in, d_out", "(d_in, d_out // num_heads"))),
    ("mask-is-parameter", change(INIT, (BUFFER,
                                        "self.mask = nn.Parameter(mask)"))),
    ("qkv-bias-always", change(INIT, ("bias=qkv_bias", "bias=True"))
     + "    def forward(self, x):\n        pass"),
    ("qkv-bias-default", change(INIT, ("qkv_bias=False", "qkv_bias"))
     + "    def forward(self, x):\n        raise NotImplementedError"),
]  # fmt: skip


@pytest.mark.parametrize(
    "name, source", WRONG, ids=[f"{i}-{n}" for i, (n, _) in enumerate(WRONG)]
)
def test_wrong_answers_are_told_their_mistake(name, source):
    result = check(answer(source))
    assert result.status == "failed", result
    assert result.mistake == renamed(name, "attention"), result


WORDS = [
    ("scaled-by-full-width", ["√15", "√5 = 2.236", "15 features / 3 heads"]),
    ("scaled-after-softmax", ["2.236", "0.4472", "after the softmax"]),
    ("mask-off-by-one-sees-next", ["1 token ahead", "diagonal"]),
    ("mask-fill-not-infinite", ["set to 0", "is 1"]),
    ("softmax-wrong-axis", ["dim=-2", "your output is", "expected"]),
    ("heads-split-by-view", ["5 features", "axes"]),
    ("one-head-only", ["1 head of 15", "3 heads of 5"]),
    ("qkv-bias-default", ["W_query and W_key and W_value", "default"]),
    ("mask-not-cropped", ["8 tokens", "not 6"]),
    ("mask-is-parameter", ["8 × 8", "1,048,576"]),
    ("mask-not-buffer", ["self.mask", "plain tensor"]),
    ("dropout-missing", ["0.25"]),
    ("dropout-rate-wrong", ["10%", "expected 25%"]),
    ("dropout-not-rescaled", ["multiplied by 1;", "1.333"]),
    ("returns-weights", ["tuple of 2"]),
    ("wrong-projection-width", ["45 features", "d_out=15"]),
    ("wrong-signature", ["length", "context_length"]),
    ("wrong-for-other-texts", ["right for (2, 6, 10)", "number of texts"]),
    ("dropout-together", ["8 different", "about 500"]),
    ("created-in-other-order", ["out_proj, W_query, W_key, W_value"]),
    ("size-hardcoded", ["1024", "(8, 8)"]),
]


@pytest.mark.parametrize("name, words", WORDS)
def test_messages_hold_numbers(name, words):
    source = next(source for found, source in WRONG if found == name)
    message = check(answer(source)).message
    assert [word for word in words if word not in message] == [], message


def test_a_cause_is_not_asserted_where_two_fit():
    said = [check(answer(s)).message for n, s in WRONG
            if n == "output-not-finite"]  # fmt: skip
    assert all("Two things" in m for m in said), said


def test_dropped_mask_and_missing_mask_differ_in_words():
    said = {
        name: check(answer(source)).message
        for name, source in WRONG
        if name in ("mask-missing", "mask-dropped")
    }
    assert "masked_fill" in said["mask-dropped"]
    assert "masked_fill" not in said["mask-missing"]


STUBS = [
    "class MyMultiHeadAttention(nn.Module):\n    pass",
    'class MyMultiHeadAttention(nn.Module):\n    """To do."""',
    "class MyMultiHeadAttention(nn.Module):\n    def __init__(self, d_in,"
    " d_out, context_length, dropout, num_heads, qkv_bias=False):\n"
    "        super().__init__()\n        raise NotImplementedError\n"
    "    def forward(self, x):\n        raise NotImplementedError",
]  # fmt: skip
UNFINISHED = [
    ("unfinished", LAYERS + "    def forward(self, x):\n        ..."),
    ("unfinished", LAYERS + "    def forward(self, x):\n        pass"),
    ("unfinished",
     LAYERS + "    def forward(self, x):\n        raise NotImplementedError"),
    ("raise-left",
     LAYERS + "    def forward(self, x):\n        q = self.W_query(x)\n"
     "        raise NotImplementedError('the rest')"),
]  # fmt: skip


@pytest.mark.parametrize("source", STUBS)
def test_stubs_are_not_attempted(source):
    assert check(answer(source)).status == "not attempted"


@pytest.mark.parametrize("name, source", UNFINISHED)
def test_what_is_half_written_is_told_so(name, source):
    assert check(answer(source)).mistake == name


class NameMissing(nn.Module):
    def __init__(
        self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False
    ):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x):
        return self.W_querry(x)


def test_an_exception_names_line_and_cause():
    result = check(NameMissing)
    assert (result.status, result.mistake) == ("failed", "exception")
    assert "self.W_querry(x)" in result.message
    assert "has no attribute 'W_querry'" in result.message
