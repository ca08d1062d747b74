"""Errors that beginners meet get one line of advice, true and helpful."""

import linecache
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gptlib
from classroom import checks

PARTS = {
    "feed_forward": """
class MyFeedForward(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg["emb_dim"]
        self.layers = nn.Sequential(
            nn.Linear(d, 4 * d), GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        return self.layers(x)
""",
    "layer_norm": """
class MyLayerNorm(nn.Module):
    def __init__(self, emb_dim):
        super().__init__()
        self.eps = 1e-5
        self.scale = nn.Parameter(torch.ones(emb_dim))
        self.shift = nn.Parameter(torch.zeros(emb_dim))

    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        var = x.var(dim=-1, keepdim=True, correction=0)
        n = (x - mean) / torch.sqrt(var + self.eps)
        return self.scale * n + self.shift
""",
    "gelu": """
class MyGELU(nn.Module):
    def forward(self, x):
        cubed = x + 0.044715 * x**3
        share = 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * cubed))
        return x * share
""",
}


def checked(exercise, edits):
    """The verdict on a right answer with these texts replaced."""
    source = PARTS[exercise]
    for old, new in edits.items():
        assert old in source, old
        source = source.replace(old, new)
    cell = f"<cell {abs(hash(source))}>"
    lines = source.splitlines(keepends=True)
    linecache.cache[cell] = len(source), None, lines, cell
    names = {
        "F": F, "GELU": gptlib.GELU, "math": math, "nn": nn, "torch": torch,
        "GPT_CONFIG_124M": gptlib.GPT_CONFIG_124M,
    }  # fmt: skip
    exec(compile(source, cell, "exec"), names)
    (answer,) = (v for k, v in names.items() if k.startswith("My"))
    return getattr(checks, exercise)(answer)


SUPER = "super().__init__()"
NET, END = "nn.Sequential(", "(4 * d, d))"
WIDER = "4 * d), GELU"
ERRORS = [
    # exercise, what is replaced, words that the line of advice holds
    ("feed_forward", {"GELU()": "GELU"}, "A class needs its brackets"),
    ("feed_forward", {"GELU()": "nn.GELU"}, "A class needs its brackets"),
    ("feed_forward", {"GELU()": "F.gelu"}, "a function is called in forward"),
    ("feed_forward", {"self.layers(x)": "GELU(self.layers(x))"},
     "GELU()(x)"),
    ("feed_forward", {"self.layers(x)": "self.layers(nn.GELU(x))"},
     "not yet called"),
    ("feed_forward", {"self.layers(x)": "x * nn.SiLU(self.layers(x))"},
     "not yet called"),
    ("feed_forward", {NET: NET + "[", END: "(4 * d, d)])"},
     "without a star"),
    ("feed_forward", {NET: NET + "(", END: "(4 * d, d)))"},
     "without a star"),
    ("feed_forward", {NET: "nn.ModuleList("}, "in square brackets"),
    ("feed_forward", {NET: "nn.ModuleList([", END: "(4 * d, d)])"},
     "one after the other"),
    ("feed_forward", {"forward(self, x)": "forward(x)"}, "Is `self` the first"
     ),
    ("feed_forward", {"__init__(self, cfg)": "__init__(cfg)"},
     "Is `self` the first parameter of __init__"),
    ("feed_forward", {"self.layers(x)": "layers(x)"}, "read with `self.`"),
    ("layer_norm", {"self.eps)": "eps)"}, "read with `self.`"),
    ("layer_norm", {"self.eps =": "eps ="}, "assigned to `self`"),
    ("layer_norm", {"def __init__": "def _init_"}, "`__init__`"),
    ("layer_norm", {"def __init__": "def __init"}, "__init__ misspelt"),
    ("layer_norm", {SUPER: "super()._init_()"}, "two underscores"),
    ("layer_norm", {SUPER: "super.__init__()"}, SUPER),
    ("layer_norm", {SUPER: "super(self).__init__()"}, "nothing in its"),
    ("layer_norm", {SUPER: "super().__init__(emb_dim)"}, "nothing in its"),
    ("layer_norm", {SUPER: "super().__init__"}, "first line of __init__"),
    ("layer_norm", {SUPER: "pass"}, "first line of __init__"),
    ("feed_forward", {WIDER: "8 * d / 2), GELU"}, "`/` gives a float"),
    ("feed_forward", {"4 * d": "4.0 * d"}, "whole number"),
    ("layer_norm", {"ones(emb_dim)": "ones(emb_dim / 1)"}, "whole number"),
    ("feed_forward", {WIDER: "torch.tensor(4.0 * d).round()), GELU"},
     "torch's functions a tensor"),
    ("feed_forward", {WIDER: "torch.round(4.0 * d)), GELU"},
     "for a plain number"),
    ("feed_forward", {WIDER: "math.round(4.0 * d)), GELU"}, "another package"),
    ("layer_norm", {"self.scale *": "self.scale @"}, "`@`"),
    ("layer_norm", {"self.scale * n": "n @ self.scale"}, "`@`"),
    ("layer_norm", {"self.scale * n": "torch.dot(self.scale, n)"},
     "with `*`"),
    ("gelu", {"0.044715 * x": "0.044715 @ x"}, "with `*`"),
    ("gelu", {"torch.tanh": "math.tanh"}, "Functions of `math` take one"),
    ("layer_norm", {"torch.sqrt": "math.sqrt"}, "Functions of `math` take one"
     ),
    ("gelu", {"math.sqrt": "torch.sqrt"}, "such as math.sqrt"),
    ("gelu", {"math.sqrt": "sqrt"}, "never made or imported"),
    ("gelu", {"x**3": "x^3"}, "`**` is"),
    ("gelu", {"x * share": "x * share + (x < -7) * -torch.inf"},
     "inf * 0"),
    ("layer_norm", {"+ self.eps": "* -torch.inf"}, "inf * 0"),
    ("feed_forward", {'cfg["emb_dim"]': 'GPT_CONFIG_124M["emb_dim"]'},
     "should it read `cfg`?"),
    ("feed_forward", {'cfg["emb_dim"]': "cfg.emb_dim"}, 'cfg["emb_dim"]'),
    ("feed_forward", {'cfg["emb_dim"]': 'cfg("emb_dim")'}, 'cfg["emb_dim"].'),
    ("feed_forward", {'cfg["emb_dim"]': "cfg"}, 'cfg["emb_dim"]'),
    ("feed_forward", {'cfg["emb_dim"]': 'cfg["embdim"]'}, "context_length"),
    ("layer_norm", {"torch.ones(emb_dim)": "emb_dim"}, "takes a tensor"),
    ("layer_norm", {"nn.Parameter(torch.o": "nn.parameter(torch.o"},
     "capital letter"),
    ("layer_norm", {"self.scale * n": "self.scale(n)"}, "Is a `*` missing"),
    ("layer_norm", {"torch.ones(emb_dim)": "torch.ones(emb_dim).long()"},
     "decimal point"),
    ("layer_norm", {"x.mean(dim": "torch.mean(dim"}, "in the brackets"),
    ("layer_norm", {"n = (x": "self.scale += 1\n        n = (x"},
     "x = x + y"),
    ("layer_norm", {"self.eps = 1e-5": "self.eps = [1e-5][1]"},
     "has the number n − 1"),
    ("layer_norm", {"        self.shift =": "        self.scale /= 2\n"
                    "        self.shift ="}, "inside `with torch.no_grad():`"),
    ("layer_norm", {"        self.shift =": "        self.scale = "
                    "self.scale / 2\n        self.shift ="},
     "or assign an nn.Parameter"),
    ("layer_norm", {"return self": "f = lambda y: y\n        "
                    "f(x, n)\n        return self"}, "made inside another"),
    ("feed_forward", {"self.layers(x)": "super().forward(x.shapes)"},
     "Is the attribute spelt"),
    ("feed_forward", {"self.layers(x)": "self.layers()"}, "in the brackets"),
    ("feed_forward", {"self.layers(x)": "self.layers(x, x)"},
     "in the brackets"),
    ("feed_forward", {"self.layers(x)": "self.layers[x]"}, "round ones"),
    ("feed_forward", {"self.layers(x)": "self(x)"}, "calls itself"),
    ("feed_forward", {"self.layers(x)": "self.layers([x])"}, "tuple or list"),
]  # fmt: skip


@pytest.mark.parametrize("exercise, edits, words", ERRORS)
def test_an_error_gets_its_line_of_advice(exercise, edits, words):
    result = checked(exercise, edits)
    assert result.status == "failed", result
    assert words in result.message, result
    assert len(result.message) < 500


@pytest.mark.parametrize("exercise", PARTS)
def test_the_parts_are_right_before_they_are_edited(exercise):
    assert checked(exercise, {}).status == "passed"


@pytest.mark.parametrize(
    "edits",
    [
        {"return self.layers(x)": "raise ValueError('of my own')"},
        {"return self.layers(x)": "return x.shape[7]"},
    ],
)
def test_an_error_without_known_cause_gets_no_advice(edits):
    message = checked("feed_forward", edits).message
    assert message.endswith(("of my own", "out of range"))


def test_a_long_line_and_a_long_error_are_cut():
    words = "'" + "long " * 200 + "'"
    edits = {"return self.layers(x)": f"raise ValueError({words})"}
    message = checked("feed_forward", edits).message
    assert len(message) < 500
    assert "line 10 of your cell" in message and " …" in message


def test_a_name_that_is_no_cause_is_not_mentioned():
    message = checked("feed_forward", {"nn.Linear(d, 4": "nn.Linear(d, 3"})
    assert "GPT_CONFIG_124M" not in message.message
