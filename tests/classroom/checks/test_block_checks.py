"""The checks of notebook 05 know a right block and each wrong one."""

import textwrap

import pytest
import torch
from renamed import renamed
from torch import nn
from torch.nn import functional as F

import gptlib
from classroom.checks.block import drop_rates, transformer_block
from gptlib import (
    GPT_CONFIG_124M,
    FeedForward,
    LayerNorm,
    MultiHeadAttention,
    TransformerBlock,
)

INIT = """
emb_dim = cfg["emb_dim"]
self.att = MultiHeadAttention(
    d_in=emb_dim, d_out=emb_dim, context_length=cfg["context_length"],
    dropout=cfg["drop_rate"], num_heads=cfg["n_heads"],
    qkv_bias=cfg["qkv_bias"],
)
self.ff = FeedForward(cfg)
self.norm1 = LayerNorm(emb_dim)
self.norm2 = LayerNorm(emb_dim)
self.drop_shortcut = nn.Dropout(cfg["drop_rate"])
"""
PRE = """
x = x + self.drop_shortcut(self.att(self.norm1(x)))
x = x + self.drop_shortcut(self.ff(self.norm2(x)))
return x
"""
POST = """
x = self.norm1(x + self.drop_shortcut(self.att(x)))
x = self.norm2(x + self.drop_shortcut(self.ff(x)))
return x
"""
RATES = (
    INIT.replace('dropout=cfg["drop_rate"]', 'dropout=cfg["drop_rate_attn"]')
    .replace('Dropout(cfg["drop_rate"])', 'Dropout(cfg["drop_rate_shortcut"])')
    .replace(
        "FeedForward(cfg)",
        "FeedForward({k: cfg.get(k, 0.0) for k in GPT_CONFIG_124M})",
    )
)
NAMES = {
    "torch": torch,
    "nn": nn,
    "F": F,
    "gptlib": gptlib,
    "GPT_CONFIG_124M": GPT_CONFIG_124M,
    "MultiHeadAttention": MultiHeadAttention,
    "FeedForward": FeedForward,
    "LayerNorm": LayerNorm,
    "TransformerBlock": TransformerBlock,
}


def made(forward, init=INIT, base="nn.Module"):
    """A block with this code in its two methods."""
    indent = " " * 8
    code = (
        f"class Block({base}):\n"
        "    def __init__(self, cfg):\n"
        "        super().__init__()\n"
        f"{textwrap.indent(textwrap.dedent(init), indent)}\n"
        "    def forward(self, x):\n"
        f"{textwrap.indent(textwrap.dedent(forward), indent)}\n"
    )
    scope = dict(NAMES)
    exec(compile(code, "<cell>", "exec"), scope)
    return scope["Block"]


def halves(first, second="x = x + drop(ff(norm2(x)))"):
    """Forward code in which `self.` stands for itself."""
    code = f"{first}\n{second}\nreturn x"
    for name in ("att", "ff", "norm1", "norm2"):
        code = code.replace(f"{name}(", f"self.{name}(")
    return code.replace("drop(", "self.drop_shortcut(")


FIRST = "x = x + drop(att(norm1(x)))"
SECOND = "x = x + drop(ff(norm2(x)))"

# id → the two halves, in several spellings
WRONG_FORWARD = [
    ("post-norm", POST),
    (
        "post-norm",
        halves(
            "s = x\nx = norm1(drop(att(x)) + s)", "x = norm2(drop(ff(x)) + x)"
        ),
    ),
    ("post-norm", halves("x = norm1(x + drop(att(x)))")),
    ("post-norm", halves(FIRST, "x = norm2(x + drop(ff(x)))")),
    ("post-norm", halves("x = norm1(x + att(x))", "x = norm2(x + ff(x))")),
    (
        "post-norm",
        halves("x = norm1(x + drop(att(x)))", "x = norm1(x + drop(ff(x)))"),
    ),
    ("one-norm", halves(FIRST, "x = x + drop(ff(norm1(x)))")),
    ("one-norm", halves("x = x + drop(att(norm2(x)))")),
    (
        "norms-swapped",
        halves("x = x + drop(att(norm2(x)))", "x = x + drop(ff(norm1(x)))"),
    ),
    (
        "shortcut-from-normalized",
        halves(
            "x = norm1(x)\nx = x + drop(att(x))",
            "x = norm2(x)\nx = x + drop(ff(x))",
        ),
    ),
    ("shortcut-from-normalized", halves("n = norm1(x)\nx = n + drop(att(n))")),
    (
        "shortcut-from-normalized",
        halves(FIRST, "x = norm2(x)\nx = x + drop(ff(x))"),
    ),
    ("first-shortcut-missing", halves("x = drop(att(norm1(x)))")),
    ("second-shortcut-missing", halves(FIRST, "x = drop(ff(norm2(x)))")),
    (
        "second-shortcut-missing",
        halves("h = x + drop(att(norm1(x)))", "x = drop(ff(norm2(h)))"),
    ),
    (
        "shortcuts-missing",
        halves("x = drop(att(norm1(x)))", "x = drop(ff(norm2(x)))"),
    ),
    ("shortcuts-missing", halves("x = att(norm1(x))", "x = ff(norm2(x))")),
    (
        "shortcut-from-wrong-place",
        halves(
            "s = x\nx = x + drop(att(norm1(x)))", "x = s + drop(ff(norm2(x)))"
        ),
    ),
    (
        "shortcut-from-wrong-place",
        halves("h = x + drop(att(norm1(x)))", "x = x + drop(ff(norm2(h)))"),
    ),
    (
        "shortcut-from-wrong-place",
        halves(
            "s = x\nx = x + drop(att(norm1(x)))",
            "x = s + x + drop(ff(norm2(x)))",
        ),
    ),
    (
        "shortcut-from-wrong-place",
        halves(
            "n = norm1(x)\nx = x + drop(att(n))", "x = n + drop(ff(norm2(x)))"
        ),
    ),
    (
        "shortcut-from-wrong-place",
        halves(
            "a = drop(att(norm1(x)))\nx = x + a", "x = a + drop(ff(norm2(x)))"
        ),
    ),
    (
        "shortcut-around-both",
        halves("s = x\nx = drop(att(norm1(x)))", "x = s + drop(ff(norm2(x)))"),
    ),
    (
        "shortcut-around-both",
        halves("", "return x + drop(ff(norm2(drop(att(norm1(x))))))"),
    ),
    (
        "overwritten-input",
        halves("x = att(norm1(x))\nx = x + x", "x = ff(norm2(x))\nx = x + x"),
    ),
    ("overwritten-input", halves("x = drop(att(norm1(x)))\nx = x + x")),
    (
        "overwritten-input",
        halves(
            FIRST, "x = norm2(x)\nx = ff(x)\nx = drop(x)\ns = x\nx = x + s"
        ),
    ),
    ("norm-missing", halves("x = x + drop(att(x))", "x = x + drop(ff(x))")),
    ("norm-missing", halves("x = x + drop(att(x))")),
    ("norm-missing", halves(FIRST, "x = x + drop(ff(x))")),
    ("norm-missing", halves(FIRST, "norm2(x)\nx = x + drop(ff(x))")),
    (
        "norm-after-sub-layer",
        halves("x = x + drop(norm1(att(x)))", "x = x + drop(norm2(ff(x)))"),
    ),
    (
        "norm-on-shortcut",
        halves("x = norm1(x) + drop(att(x))", "x = norm2(x) + drop(ff(x))"),
    ),
    (
        "norm-before-and-after",
        halves(FIRST, "x = norm2(x + drop(ff(norm2(x))))"),
    ),
    (
        "norm-at-the-end",
        halves(FIRST, "x = norm2(x + drop(ff(norm1(x))))"),
    ),
    ("norm-twice", halves("x = x + drop(att(norm1(norm1(x))))")),
    ("attention-missing", halves("", SECOND)),
    ("attention-missing", halves("x + drop(att(norm1(x)))")),
    ("attention-missing", halves("x = x + drop(norm1(x))")),
    ("feed-forward-missing", halves(FIRST, "")),
    ("feed-forward-missing", halves(FIRST, "y = x + drop(ff(norm2(x)))")),
    ("sub-layers-missing", "return x"),
    (
        "sub-layers-swapped",
        halves("x = x + drop(ff(norm1(x)))", "x = x + drop(att(norm2(x)))"),
    ),
    ("sub-layers-swapped", halves(SECOND, FIRST)),
    (
        "parallel-sub-layers",
        halves("", "return x + drop(att(norm1(x))) + drop(ff(norm2(x)))"),
    ),
    (
        "parallel-sub-layers",
        halves(
            "a = drop(att(norm1(x)))\nf = drop(ff(norm1(x)))", "x = x + a + f"
        ),
    ),
    (
        "parallel-sub-layers",
        halves("y = x + drop(att(norm1(x)))", "x = y + drop(ff(norm2(x)))"),
    ),
    (
        "parallel-sub-layers",
        halves("n = norm1(x)\nx = x + drop(att(n))", "x = x + drop(ff(n))"),
    ),
    ("attention-twice", halves(FIRST, "x = x + drop(att(norm2(x)))")),
    ("feed-forward-twice", halves("x = x + drop(ff(norm1(x)))")),
    ("sub-layer-twice", halves("x = x + drop(att(att(norm1(x))))")),
    ("sub-layer-twice", halves(f"{FIRST}\n{FIRST}")),
    (
        "feed-forward-reads-branch",
        halves(
            "a = drop(att(norm1(x)))\nx = x + a", "x = x + drop(ff(norm2(a)))"
        ),
    ),
    ("input-added-twice", halves("x = x + x + drop(att(norm1(x)))")),
    ("subtracted", halves("x = x - drop(att(norm1(x)))")),
    (
        "multiplied",
        halves("x = x * drop(att(norm1(x)))", "x = x * drop(ff(norm2(x)))"),
    ),
    ("averaged", halves("x = (x + drop(att(norm1(x)))) / 2")),
    (
        "dropout-after-addition",
        halves("x = drop(x + att(norm1(x)))", "x = drop(x + ff(norm2(x)))"),
    ),
    (
        "dropout-after-addition",
        halves("s = x\nx = att(norm1(x)) + s\nx = drop(x)"),
    ),
    (
        "dropout-after-addition",
        halves(FIRST, "x = x + ff(norm2(x))\nx = drop(x)"),
    ),
    (
        "dropout-missing",
        halves("x = x + att(norm1(x))", "x = x + ff(norm2(x))"),
    ),
    (
        "dropout-missing",
        halves("drop(x)\nx = x + att(norm1(x))", "x = x + ff(norm2(x))"),
    ),
    ("first-dropout-missing", halves("x = x + att(norm1(x))")),
    ("second-dropout-missing", halves(FIRST, "x = x + ff(norm2(x))")),
    (
        "dropout-before-sub-layer",
        halves("x = x + att(drop(norm1(x)))", "x = x + ff(drop(norm2(x)))"),
    ),
    ("dropout-before-sub-layer", halves("x = x + att(norm1(drop(x)))")),
    ("dropout-before-sub-layer", halves(FIRST, "x = x + ff(norm2(drop(x)))")),
    (
        "dropout-on-shortcut",
        halves("x = drop(x) + att(norm1(x))", "x = drop(x) + ff(norm2(x))"),
    ),
    (
        "dropout-on-input",
        halves("x = drop(x)\nx = x + att(norm1(x))", "x = x + ff(norm2(x))"),
    ),
    ("dropout-twice", halves("x = x + drop(drop(att(norm1(x))))")),
    (
        "dropout-before-and-after",
        halves(FIRST, "x = x + drop(ff(drop(norm2(x))))"),
    ),
    (
        "dropout-in-eval",
        PRE.replace(
            "self.drop_shortcut(", "F.dropout(p=self.drop_shortcut.p, input="
        ),
    ),
    (
        "drop-rate-not-handed-on",
        PRE.replace(
            "self.drop_shortcut(",
            "F.dropout(p=0.1, training=self.training, input=",
        ),
    ),
    ("in-place-addition", PRE.replace("x = x +", "x +=")),
    (
        "in-place-addition",
        halves("x = x + drop(att(norm1(x)))", "x += drop(ff(norm2(x)))"),
    ),
    (
        "gradient-cut",
        PRE.replace(
            "self.att(self.norm1(x))", "self.att(self.norm1(x)).detach()"
        ),
    ),
    ("gradient-cut", halves("s = x.detach()\nx = s + drop(att(norm1(x)))")),
    ("gradient-cut", "with torch.no_grad():\n" + textwrap.indent(PRE, "    ")),
    ("returns-none", PRE.replace("return x", "")),
    ("wrong-shape", PRE.replace("return x", "return x[:, -1]")),
    ("wrong-shape", PRE.replace("return x", "return x.transpose(1, 2)")),
    ("wrong-type", PRE.replace("return x", "return x, x")),
]

WRONG_INIT = [
    ("one-norm", INIT + "self.norm2 = self.norm1"),
    (
        "one-norm",
        INIT + "self.norm2.scale = self.norm1.scale\n"
        "self.norm2.shift = self.norm1.shift",
    ),
    (
        "one-norm",
        INIT.replace(
            "self.norm1 = LayerNorm", "self.norm = LayerNorm"
        ).replace("self.norm2 = LayerNorm(emb_dim)", ""),
    ),
    ("one-norm", INIT.replace("self.norm2 = LayerNorm(emb_dim)", "")),
    ("wrong-name", INIT.replace("self.att", "self.attention")),
    (
        "wrong-name",
        INIT.replace("self.norm1", "self.ln1").replace(
            "self.norm2", "self.ln2"
        ),
    ),
    ("feed-forward-missing", INIT.replace("self.ff = FeedForward(cfg)", "")),
    ("extra-parameters", INIT + "self.norm3 = LayerNorm(emb_dim)"),
    ("qkv-bias-not-handed-on", INIT.replace('cfg["qkv_bias"]', "False")),
    ("qkv-bias-not-handed-on", INIT.replace('qkv_bias=cfg["qkv_bias"],', "")),
    ("qkv-bias-not-handed-on", INIT.replace('cfg["qkv_bias"]', "True")),
    (
        "qkv-bias-not-handed-on",
        INIT.replace('cfg["qkv_bias"]', 'not cfg["qkv_bias"]'),
    ),
    (
        "drop-rate-not-handed-on",
        INIT.replace('Dropout(cfg["drop_rate"])', "Dropout()"),
    ),
    (
        "drop-rate-not-handed-on",
        INIT.replace('Dropout(cfg["drop_rate"])', "Dropout(0.1)"),
    ),
    (
        "drop-rate-not-handed-on",
        INIT.replace('dropout=cfg["drop_rate"]', "dropout=0.0"),
    ),
    (
        "drop-rate-not-handed-on",
        INIT.replace(
            'Dropout(cfg["drop_rate"])', 'Dropout(1 - cfg["drop_rate"])'
        ),
    ),
    (
        "n-heads-not-handed-on",
        INIT.replace('cfg["n_heads"]', 'cfg["n_layers"]'),
    ),
    ("n-heads-not-handed-on", INIT.replace('cfg["n_heads"]', "12")),
    ("n-heads-not-handed-on", INIT.replace('cfg["n_heads"]', "1")),
    (
        "context-length-not-handed-on",
        INIT.replace('cfg["context_length"]', "1024"),
    ),
    (
        "context-length-not-handed-on",
        INIT.replace('cfg["context_length"]', "emb_dim"),
    ),
    (
        "norm-wrong",
        INIT.replace(
            "self.norm1 = LayerNorm(emb_dim)", "self.norm1 = nn.Identity()"
        ),
    ),
    (
        "norm-wrong",
        INIT.replace("self.norm2 = LayerNorm", "self.norm2 = nn.RMSNorm"),
    ),
    (
        "feed-forward-wrong",
        INIT.replace("FeedForward(cfg)", "nn.Linear(emb_dim, emb_dim)"),
    ),
    (
        "feed-forward-wrong",
        INIT.replace(
            "FeedForward(cfg)",
            "nn.Sequential(nn.Linear(emb_dim, 48), nn.Linear(48, 24), "
            "nn.GELU(), nn.Linear(24, emb_dim))",
        ),
    ),
    (
        "config-changed",
        'cfg["vocab_size"] = 1\n' + INIT,
    ),
    (
        "feed-forward-wrong",
        INIT.replace(
            "FeedForward(cfg)",
            "nn.Sequential(nn.Linear(emb_dim, 48), nn.ReLU(), "
            "nn.Linear(48, emb_dim))",
        ),
    ),
]


def assert_wrong(check, cls, name):
    result = check(cls)
    expected = ("failed", renamed(name, "block"))
    assert (result.status, result.mistake) == expected, result
    assert len(result.message) > 40


@pytest.mark.parametrize(("name", "forward"), WRONG_FORWARD)
def test_wrong_forward(name, forward):
    assert_wrong(transformer_block, made(forward), name)


@pytest.mark.parametrize(("name", "init"), WRONG_INIT)
def test_wrong_init(name, init):
    assert_wrong(transformer_block, made(PRE, init), name)


def test_dropout_of_other_makes():
    own = """
    def drop(y):
        if not self.training:
            return y
        return y * (torch.rand_like(y) >= self.drop_shortcut.p)
    """
    body = textwrap.dedent(own) + PRE.replace("self.drop_shortcut(", "drop(")
    assert_wrong(transformer_block, made(body), "dropout-not-scaled")
    whole = INIT.replace("nn.Dropout(", "nn.Dropout1d(")
    assert_wrong(transformer_block, made(PRE, whole), "dropout-whole-tokens")
    rare = body.replace(">= self.drop_shortcut.p", ">= p**2")
    rare = "p = self.drop_shortcut.p\n" + rare
    assert_wrong(transformer_block, made(rare), "wrong-drop-share")
    right = body.replace("return y *", "return y / max(1 - p, 1e-9) *")
    right = "p = self.drop_shortcut.p\n" + right
    functional = right.replace(
        "self.norm1(x)",
        "F.layer_norm(x, x.shape[-1:], self.norm1.scale, self.norm1.shift)",
    )
    for forward in right, functional:
        result = transformer_block(made(forward))
        assert result.status == "passed", result


def test_parts_of_own_make_are_looked_at():
    blind = OWN_PARTS.replace("is_causal=True,", "")
    assert_wrong(transformer_block, made(PRE, blind), "sees-later-tokens")
    relu = OWN_PARTS.replace('GELU("tanh")', "ReLU()")
    assert_wrong(transformer_block, made(PRE, relu), "feed-forward-wrong")


def test_two_mistakes():
    both = halves("x = x + drop(att(x))", "x = x - drop(ff(norm2(x)))")
    result = transformer_block(made(both))
    assert result.mistake == "norm-missing"
    assert "a second mistake: The second half" in result.message
    other = halves("x = drop(x) + att(norm1(x))", "x = x + ff(norm2(x))")
    result = transformer_block(made(other))
    assert result.mistake == "second-dropout-missing"
    assert "a second mistake: The first half" in result.message


def test_a_part_that_overwrites_its_input():
    norm = """
    class InPlace(LayerNorm):
        def forward(self, x):
            x -= x.mean(-1, keepdim=True)
            return super().forward(x)
    """
    init = textwrap.dedent(norm) + INIT.replace("= LayerNorm", "= InPlace")
    assert_wrong(transformer_block, made(PRE, init), "input-overwritten")
    # And the inputs of the checks are as they were.
    assert transformer_block(TransformerBlock).status == "passed"


def test_not_a_class_and_wrong_signature():
    class NoConfig(TransformerBlock):
        def __init__(self):
            super().__init__(GPT_CONFIG_124M)

    built = TransformerBlock(GPT_CONFIG_124M | {"emb_dim": 12})
    assert_wrong(transformer_block, built, "not-a-class")
    assert_wrong(transformer_block, NoConfig, "wrong-signature")


def test_messages_hold_numbers():
    assert "expected" in transformer_block(made(POST)).message
    shared = transformer_block(made(PRE, INIT + "self.norm2 = self.norm1"))
    assert "24" in shared.message
    heads = INIT.replace('cfg["n_heads"]', '"3"')
    result = transformer_block(made(PRE, heads))
    assert result.mistake == "exception"
    assert "num_heads" in result.message


def test_an_exception_names_line_and_cause():
    class Broken(TransformerBlock):
        def forward(self, x):
            return x + self.attention(x)

    result = transformer_block(Broken)
    assert result.mistake == "exception"
    assert "self.attention(x)" in result.message


# --- right answers -------------------------------------------------------

STEPS = """
shortcut = x
x = self.norm1(x)
x = self.att(x)
x = self.drop_shortcut(x)
x = x + shortcut
shortcut = x
x = self.norm2(x)
x = self.ff(x)
x = self.drop_shortcut(x)
return x + shortcut
"""
OWN_PARTS = """
class Norm(nn.LayerNorm):
    pass
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads, self.rate = cfg["n_heads"], cfg["drop_rate"]
        width = cfg["emb_dim"]
        self.qkv = nn.Linear(width, 3 * width, bias=cfg["qkv_bias"])
        self.proj = nn.Linear(width, width)
    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            y.reshape(b, t, self.heads, -1).transpose(1, 2)
            for y in self.qkv(x).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True,
            dropout_p=self.rate if self.training else 0.0,
        )
        return self.proj(y.transpose(1, 2).reshape(b, t, d))
d = cfg["emb_dim"]
self.att = Attention()
self.ff = nn.Sequential(
    nn.Linear(d, 4 * d), nn.GELU("tanh"), nn.Linear(4 * d, d)
)
self.norm1, self.norm2 = Norm(d), Norm(d)
self.drop_shortcut = nn.Dropout(p=cfg["drop_rate"])
"""
RIGHT = {
    "one line each": made(PRE),
    "steps": made(STEPS),
    "one expression": made(
        "return (h := x + self.drop_shortcut(self.att(self.norm1(x)))) + "
        "self.drop_shortcut(self.ff(self.norm2(h)))"
    ),
    "loop": made(
        "for n, f in ((self.norm1, self.att), (self.norm2, self.ff)):\n"
        "    x = x + self.drop_shortcut(f(n(x)))\n"
        "return x"
    ),
    "torch.add": made(
        PRE.replace("x = x + ", "x = torch.add(x, ").replace(")))", "))))")
    ),
    "layer norm of torch": made(
        PRE, INIT.replace("LayerNorm", "nn.LayerNorm")
    ),
    "own parts": made(STEPS, OWN_PARTS),
    "functional dropout": made(
        PRE.replace(
            "self.drop_shortcut(",
            "F.dropout(p=self.rate, training=self.training, input=",
        ),
        INIT.replace(
            'self.drop_shortcut = nn.Dropout(cfg["drop_rate"])',
            'self.rate = cfg["drop_rate"]',
        ),
    ),
    "two dropouts": made(
        halves(FIRST, "x = x + self.drop2(ff(norm2(x)))"),
        INIT + 'self.drop2 = nn.Dropout(cfg["drop_rate"])',
    ),
    "branches": made(
        "x = x + self.branches[0](x)\nreturn x + self.branches[1](x)",
        INIT + "self.branches = nn.ModuleList([\n"
        "nn.Sequential(self.norm1, self.att, self.drop_shortcut),\n"
        "nn.Sequential(self.norm2, self.ff, self.drop_shortcut)])",
    ),
    "weights asked for": made(
        PRE.replace(
            "self.att(self.norm1(x))",
            "self.att(self.norm1(x), return_weights=True)[0]",
        )
    ),
    "keyword": made(PRE.replace("self.att(self", "self.att(x=self")),
    "norm by keyword": made(PRE.replace("norm1(x)", "norm1(x=x)")),
    "clone": made("s = x.clone()\n" + PRE.replace("x = x +", "x = s +", 1)),
    "in place on a fresh tensor": made(
        "h = self.drop_shortcut(self.att(self.norm1(x)))\n"
        "h = h + x\n"
        "y = self.drop_shortcut(self.ff(self.norm2(h)))\n"
        "y += h\nreturn y"
    ),
    "helper": made(
        "def half(x, norm, f):\n"
        "    return x + self.drop_shortcut(f(norm(x)))\n"
        "x = half(x, self.norm1, self.att)\n"
        "return half(x, self.norm2, self.ff)"
    ),
    "stack and sum": made(
        "y = self.drop_shortcut(self.att(self.norm1(x)))\n"
        "x = torch.stack([x, y]).sum(0)\n"
        "return sum([x, self.drop_shortcut(self.ff(self.norm2(x)))])"
    ),
    "early return": made(
        "x = x + self.drop_shortcut(self.att(self.norm1(x)))\n"
        "if not self.training:\n"
        "    return x + self.ff(self.norm2(x))\n"
        "return x + self.drop_shortcut(self.ff(self.norm2(x)))"
    ),
    "functional norms": made(
        PRE.replace(
            "self.norm1(x)",
            "F.layer_norm(x, x.shape[-1:], self.norm1.scale, "
            "self.norm1.shift)",
        )
    ),
    "dropout subclass": made(
        PRE,
        "class D(nn.Dropout):\n    pass\n" + INIT.replace("nn.Dropout", "D"),
    ),
    "own forward": type(
        "Own", (TransformerBlock,), {"forward": made(PRE).forward}
    ),
    "gptlib's": TransformerBlock,
    "a function that builds": lambda cfg: TransformerBlock(cfg),
}


@pytest.mark.parametrize("style", RIGHT)
def test_right_blocks_pass(style):
    result = transformer_block(RIGHT[style])
    assert result.status == "passed", result


def test_remarks():
    assert (
        "scale and shift"
        in transformer_block(RIGHT["layer norm of torch"]).message
    )
    assert (
        "drop_shortcut"
        in transformer_block(RIGHT["functional dropout"]).message
    )


class Empty(nn.Module):
    pass


class InitOnly(TransformerBlock):
    def forward(self, x):
        raise NotImplementedError


class ForwardOnly(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        return x


class Dots(TransformerBlock):
    def forward(self, x): ...


class Documented(nn.Module):
    def forward(self, x):
        """To do."""


CHECKS = [transformer_block, drop_rates]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("stub", [Empty, Documented])
def test_stubs(check, stub):
    assert check(stub).status == "not attempted"


@pytest.mark.parametrize("half", [InitOnly, ForwardOnly, Dots])
def test_what_is_half_written_is_told_so(half):
    assert_wrong(transformer_block, half, "unfinished")


def test_half_written_blocks_with_separate_rates():
    assert_wrong(drop_rates, ForwardOnly, "unfinished")
    for half in InitOnly, Dots:  # their parent gets all of cfg
        assert_wrong(drop_rates, half, "unknown-keys-handed-on")
    for rest in "...", "raise NotImplementedError":
        assert_wrong(drop_rates, made(rest, RATES), "unfinished")


TODO = "raise NotImplementedError"
HALF = [
    ("wrong-name", made(TODO, INIT.replace("self.att", "self.attn"))),
    (
        "qkv-bias-not-handed-on",
        made("pass", INIT.replace('cfg["qkv_bias"]', "False")),
    ),
    (
        "drop-rate-not-handed-on",
        made("...", INIT.replace('nn.Dropout(cfg["drop_rate"])',
                                 "nn.Dropout(0.1)")),
    ),
    ("one-norm", made(TODO, INIT + "self.norm2 = self.norm1")),
    ("raise-left", made(f"{TODO}\n{PRE}")),
    ("raise-left", made(PRE, INIT + TODO)),
    ("raise-left", made(PRE.replace("return x", TODO))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "block"), HALF)
def test_the_written_half_is_looked_at(name, block):
    assert_wrong(transformer_block, block, name)


@pytest.mark.parametrize("check", CHECKS)
def test_methods_by_other_names(check):
    for name, old, new in (
        ("forward-misspelt", "forward", "foward"),
        ("init-misspelt", "__init__", "_init_"),
        ("call-for-forward", "forward", "__call__"),
        ("forward-missing", "forward", "other"),
    ):
        block = made(PRE, RATES if check is drop_rates else INIT)
        setattr(block, new, vars(block)[old])
        delattr(block, old)
        assert_wrong(check, block, name)


# --- wrong for some texts, modes, calls, types, places or sizes alone ----


def first(code):
    return lambda forward, init: made(f"{code}\n{forward}", init)


def last(code):
    return lambda forward, init: made(
        forward.replace("return x", f"return {code}"), init
    )


def changed(old, new):
    return lambda forward, init: made(
        forward.replace(old, new), init.replace(old, new)
    )


CALLS = "self.calls = getattr(self, 'calls', 0) + 1"
ANYWHERE = [
    ("wrong-for-other-texts", first(f"{CALLS}\nif self.calls > 4:\n"
                                    "    return x")),
    ("wrong-for-other-texts", last("x - (x.mean(0) if len(x) > 3 else 0)")),
    ("wrong-for-other-texts", last("x if x.shape[1] % 2 else x + 1")),
    ("wrong-for-other-texts", last("x.flip(0) if len(x) == 4 else x")),
    ("wrong-for-other-texts",
     last("x * (1 + (len(x) > 1 and torch.equal(x[0], x[1])))")),
    ("wrong-for-other-texts",
     first("x = x.view(2, -1, 12).view(x.shape)")),
    ("mode-dependent", last("x * 2 if self.training else x")),
    ("mode-dependent",
     last("x * 2 if self.training and self.drop_shortcut.p else x")),
    ("gradient-detached", last("x.detach() if self.training else x")),
    ("generator-used", first("torch.rand(1)")),
    ("generator-used", first("torch.manual_seed(123)")),
    ("dropout-repeated",
     first("if self.training:\n    torch.manual_seed(1)")),
    ("needs-contiguous", first("x = x.view(-1, 12).view(x.shape)")),
    ("needs-contiguous",
     first("b, t, d = x.shape\n"
           "x = x.as_strided((b, t, d), (t * d, d, 1))")),
    ("dtype-fixed", last("x.float()")),
    ("device-fixed", first("x = x + torch.zeros(x.shape)")),
    ("mode-changed", first("self.att.eval()")),
    ("mode-changed", first("self.train()")),
    ("weights-changed", first("self.norm1.scale.data += 1e-3")),
    ("gradients-turned-off", first("torch.set_grad_enabled(False)")),
    ("fails-at-other-sizes", changed('cfg["emb_dim"]', "12")),
    ("fails-at-other-sizes",
     changed("norm2 = LayerNorm(emb_dim)", "norm2 = LayerNorm(12)")),
    ("attention-wrong", changed("d_out=emb_dim", "d_out=2 * emb_dim")),
    ("norm-wrong", changed('cfg["emb_dim"]', "768")),
    ("norm-wrong", changed('cfg["emb_dim"]', 'GPT_CONFIG_124M["emb_dim"]')),
]  # fmt: skip


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("name", "change"), ANYWHERE)
def test_wrong_somewhere(check, name, change):
    init = RATES if check is drop_rates else INIT
    assert_wrong(check, change(PRE, init), name)


def moved(line, before):
    assert line in INIT
    return INIT.replace(line, "").replace(before, line + before)


@pytest.mark.parametrize(
    ("name", "init"),
    [
        (
            "created-in-other-order",
            moved("self.ff = FeedForward(cfg)\n", "self.att"),
        ),
        (
            "created-in-other-order",
            moved("self.norm1 = LayerNorm(emb_dim)\n", "self.att"),
        ),
        (
            "created-in-other-order",
            "ff = FeedForward(cfg)\n" + INIT.replace("FeedForward(cfg)", "ff"),
        ),
        ("seed-set", "torch.manual_seed(123)\n" + INIT),
    ],
)
def test_the_order_of_parts(name, init):
    assert_wrong(transformer_block, made(PRE, init), name)


@pytest.mark.parametrize("shape", ["x[:1]", "x[:, :1]", "x[..., :1]"])
def test_dropout_of_several_numbers_together(shape):
    branch = "self.att(self.norm1(x))"
    forward = PRE.replace(
        f"self.drop_shortcut({branch})",
        f"{branch} * self.drop_shortcut(torch.ones_like({shape}))",
    )
    name = "dropout-whole-tokens" if "..." in shape else "dropout-together"
    assert_wrong(transformer_block, made(forward), name)


def test_a_changed_public_configuration_changes_nothing(monkeypatch):
    for key, value in {"emb_dim": 24, "n_heads": 2, "drop_rate": 1.0}.items():
        monkeypatch.setitem(GPT_CONFIG_124M, key, value)
    for check, init in ((transformer_block, INIT), (drop_rates, RATES)):
        assert check(made(PRE, init)).status == "passed"


def test_no_cause_is_asserted_where_another_fits():
    wide = changed("d_out=emb_dim", "d_out=2 * emb_dim")(PRE, INIT)
    assert "qkv_bias" not in transformer_block(wide).message
    hint = made(PRE.replace("self.norm2(x)", "x"), RATES)  # reads only keys
    assert "should it read" not in drop_rates(hint).message
    public = made(PRE, INIT.replace('cfg["n_heads"]',
                                    'GPT_CONFIG_124M["n_heads"]'))  # fmt: skip
    assert "should it read" in transformer_block(public).message


# --- separate rates ------------------------------------------------------

WRONG_RATES = [
    (
        "rates-swapped",
        RATES.replace("rate_attn", "rate_X")
        .replace("rate_shortcut", "rate_attn")
        .replace("rate_X", "rate_shortcut"),
    ),
    ("one-rate-for-both", RATES.replace("rate_attn", "rate_shortcut")),
    ("one-rate-for-both", RATES.replace("rate_shortcut", "rate_attn")),
    ("embedding-rate-used", RATES.replace("rate_shortcut", "rate_emb")),
    ("embedding-rate-used", RATES.replace("rate_attn", "rate_emb")),
    ("attention-rate-wrong", RATES.replace('cfg["drop_rate_attn"]', "0.0")),
    ("shortcut-rate-wrong", RATES.replace('cfg["drop_rate_shortcut"]', "0.0")),
    ("shortcut-rate-wrong", RATES.replace('cfg["drop_rate_shortcut"]', "")),
    (
        "shortcut-rate-wrong",
        RATES.replace(
            'cfg["drop_rate_shortcut"]', 'cfg.get("drop_rate", 0.1)'
        ),
    ),
    ("old-key", INIT),
    ("old-key", RATES.replace("drop_rate_shortcut", "drop_rate")),
    (
        "unknown-keys-handed-on",
        RATES.replace(
            "FeedForward({k: cfg.get(k, 0.0) for k in GPT_CONFIG_124M})",
            "FeedForward(cfg)",
        ),
    ),
    (
        "unknown-keys-handed-on",
        RATES.replace(
            "FeedForward({k: cfg.get(k, 0.0) for k in GPT_CONFIG_124M})",
            'FeedForward(cfg | {"drop_rate": 0.0})',
        ),
    ),
    ("config-changed", 'cfg["drop_rate"] = 0.0\n' + RATES),
    ("one-norm", RATES + "self.norm2 = self.norm1"),
    ("qkv-bias-not-handed-on", RATES.replace('cfg["qkv_bias"]', "False")),
]


@pytest.mark.parametrize(("name", "init"), WRONG_RATES)
def test_wrong_rates(name, init):
    assert_wrong(drop_rates, made(PRE, init), name)


KNOWN = "{k: cfg.get(k, 0.0) for k in GPT_CONFIG_124M}"


def test_a_key_that_the_task_removed_is_not_suggested():
    result = drop_rates(made(PRE, RATES.replace(KNOWN, "cfg")))
    assert "unknown 'drop_rate_emb', 'drop_rate_attn'" in result.message
    assert "did you mean" not in result.message


@pytest.mark.parametrize(
    ("check", "init"),
    [(drop_rates, RATES.replace(KNOWN, "cfg")), (transformer_block, INIT)],
)
def test_a_configuration_that_lacks_keys_is_handed_on(check, init):
    few = '{"emb_dim": cfg["emb_dim"]}'
    init = init.replace("FeedForward(cfg)", f"FeedForward({few})")
    result = check(made(PRE, init))
    assert result.mistake == "keys-not-handed-on"
    assert "configuration of the seven keys" in result.message
    assert 'drop_rate, qkv_bias.")' in result.message


@pytest.mark.parametrize(("check", "init"), [
    (drop_rates, RATES.replace(KNOWN, "GPT_CONFIG_124M")),
    (transformer_block, INIT.replace("rward(cfg)", "rward(GPT_CONFIG_124M)")),
])  # fmt: skip
def test_a_part_of_gptlib_is_not_sent_to_its_own_check(check, init):
    result = check(made(PRE, init))
    assert result.mistake == "feed-forward-wrong"
    assert "Look at what it is built with." in result.message
    assert "checks.feed_forward" not in result.message


@pytest.mark.parametrize(
    ("name", "forward"),
    [
        ("post-norm", POST),
        (
            "dropout-missing",
            halves("x = x + att(norm1(x))", "x = x + ff(norm2(x))"),
        ),
        (
            "dropout-after-addition",
            halves(
                "x = drop(x + att(norm1(x)))", "x = drop(x + ff(norm2(x)))"
            ),
        ),
        (
            "parallel-sub-layers",
            halves(
                "y = x + drop(att(norm1(x)))", "x = y + drop(ff(norm2(x)))"
            ),
        ),
    ],
)
def test_wrong_forward_with_rates(name, forward):
    assert_wrong(drop_rates, made(forward, RATES), name)


PLAIN = """
known = {key: cfg.get(key, 0.5) for key in GPT_CONFIG_124M}
"""
RIGHT_RATES = {
    "notes": made(PRE, RATES),
    "steps": made(STEPS, RATES),
    "rates put in afterwards": made(
        PRE,
        PLAIN + "block = TransformerBlock(known)\n"
        "self.att, self.ff = block.att, block.ff\n"
        "self.norm1, self.norm2 = block.norm1, block.norm2\n"
        'self.att.dropout.p = cfg["drop_rate_attn"]\n'
        'self.drop_shortcut = nn.Dropout(cfg["drop_rate_shortcut"])',
    ),
    "without the rates": made(
        PRE,
        RATES.replace(
            "FeedForward({k: cfg.get(k, 0.0) for k in GPT_CONFIG_124M})",
            "FeedForward({k: v for k, v in (cfg | {'drop_rate': 0.1}).items()"
            " if not k.startswith('drop_rate_')})",
        ),
    ),
    "own feed-forward": made(
        PRE,
        RATES.replace(
            "FeedForward({k: cfg.get(k, 0.0) for k in GPT_CONFIG_124M})",
            'nn.Sequential(nn.Linear(emb_dim, 4 * emb_dim), nn.GELU("tanh"),'
            " nn.Linear(4 * emb_dim, emb_dim))",
        ),
    ),
    "own parts": made(
        PRE,
        OWN_PARTS.replace(
            'self.rate = cfg["n_heads"], cfg["drop_rate"]',
            'self.rate = cfg["n_heads"], cfg["drop_rate_attn"]',
        ).replace('p=cfg["drop_rate"]', 'p=cfg["drop_rate_shortcut"]'),
    ),
}


@pytest.mark.parametrize("style", RIGHT_RATES)
def test_right_rates(style):
    result = drop_rates(RIGHT_RATES[style])
    assert result.status == "passed", result


def test_rates_that_no_module_tells():
    functional = PRE.replace(
        "self.drop_shortcut(",
        "F.dropout(p=self.rate, training=self.training, input=",
    )
    init = RATES.replace(
        'self.drop_shortcut = nn.Dropout(cfg["drop_rate_shortcut"])',
        'self.rate = cfg["drop_rate_attn"]',
    )
    assert_wrong(drop_rates, made(functional, init), "shortcut-rate-wrong")
    init = init.replace('self.rate = cfg["drop_rate_attn"]', "self.rate = 0.3")
    assert_wrong(drop_rates, made(functional, init), "drop-rate-not-handed-on")
    own = OWN_PARTS.replace(
        'self.rate = cfg["n_heads"], cfg["drop_rate"]',
        'self.rate = cfg["n_heads"], cfg["drop_rate_shortcut"]',
    ).replace('p=cfg["drop_rate"]', 'p=cfg["drop_rate_shortcut"]')
    assert_wrong(drop_rates, made(PRE, own), "attention-rate-wrong")


def test_a_subclass_with_rates():
    class Rates(TransformerBlock):
        def __init__(self, cfg):
            names = GPT_CONFIG_124M
            super().__init__({key: cfg.get(key, 0.0) for key in names})
            self.att.dropout = nn.Dropout(cfg["drop_rate_attn"])
            self.drop_shortcut = nn.Dropout(cfg["drop_rate_shortcut"])

    assert drop_rates(Rates).status == "passed"
