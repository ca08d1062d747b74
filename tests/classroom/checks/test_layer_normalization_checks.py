"""The checks of notebook 02 accept what is right and name what is wrong."""

import copy
import textwrap
import time

import pytest
import torch
import torch.nn.functional as F
from renamed import renamed
from torch import nn

import gptlib
from classroom.checks.guard import HINTS
from classroom.checks.layer_normalization import (
    NORMS,
    faulty_norms,
    layer_norm,
    rms_norm,
)

INIT = """
self.eps = 1e-5
self.scale = nn.Parameter(torch.ones(emb_dim))
self.shift = nn.Parameter(torch.zeros(emb_dim))
"""
FORWARD = """
mean = x.mean(dim=-1, keepdim=True)
var = x.var(dim=-1, keepdim=True, correction=0)
return self.scale * (x - mean) / torch.sqrt(var + self.eps) + self.shift
"""
RMS_INIT = INIT.replace("self.shift = nn.Parameter(torch.zeros(emb_dim))", "")
RMS_FORWARD = """
ms = x.square().mean(dim=-1, keepdim=True)
return self.scale * x / torch.sqrt(ms + self.eps)
"""


def written(init, forward, signature="self, emb_dim"):
    """The class that a learner would have in the cell."""
    source = (
        f"class My(nn.Module):\n    def __init__({signature}):\n"
        f"        super().__init__()\n{textwrap.indent(init, ' ' * 8)}\n"
        f"    def forward(self, x):\n{textwrap.indent(forward, ' ' * 8)}\n"
    )
    names = {"torch": torch, "nn": nn, "F": F, "gptlib": gptlib}
    exec(compile(source, "<cell>", "exec"), names)
    return names["My"]


def stats(mean="-1", var="-1", end=None):
    """Forward with other axes, or another last line."""
    end = end or FORWARD.strip().split("\n")[-1]
    return (
        f"mean = x.mean(dim={mean}, keepdim=True)\n"
        f"var = x.var(dim={var}, keepdim=True, correction=0)\n{end}"
    )


def ends(line):
    """Forward as it should be, up to the last line; `n` is normalized."""
    return stats(end=f"n = (x - mean) / torch.sqrt(var + self.eps)\n{line}")


def spreads(line):
    return (
        "mean = x.mean(dim=-1, keepdim=True)\n"
        f"{line}\nreturn self.scale * (x - mean) / (var + self.eps).sqrt()"
        " + self.shift"
    )


def divided(by, var="x.var(dim=-1, keepdim=True, correction=0)"):
    return (
        "mean = x.mean(dim=-1, keepdim=True)\n"
        f"var = {var}\nreturn self.scale * (x - mean) / ({by}) + self.shift"
    )


NO_CORRECTION = "x.std(-1, keepdim=True, correction=0)"
WRONG_FORWARDS = [
    ("biased-variance", spreads("var = x.var(-1, keepdim=True)")),
    ("biased-variance", spreads("var = x.std(-1, keepdim=True) ** 2")),
    ("biased-variance", spreads(
        "var = ((x - mean)**2).sum(-1, keepdim=True) / (x.shape[-1] - 1)")),
    ("biased-variance", divided("x.std(-1, keepdim=True)")),
    ("eps-missing", divided("torch.sqrt(var)")),
    ("eps-missing", divided(NO_CORRECTION)),
    ("eps-missing", stats(end="return self.scale * (x - mean) / "
                          "torch.sqrt(var) + self.eps + self.shift")),
    ("bracket-missing", stats(end="return self.scale * x - mean / "
                              "torch.sqrt(var + self.eps) + self.shift")),
    ("bracket-missing", ends("n = x - mean / torch.sqrt(var + self.eps)\n"
                             "return self.scale * n + self.shift")),
    ("whole-tensor", spreads("d = x - mean\nvar = (d**2).mean()")),
    ("eps-outside-root", divided("torch.sqrt(var) + self.eps")),
    ("eps-outside-root", divided(f"{NO_CORRECTION} + self.eps")),
    ("eps-outside-root", divided(f"{NO_CORRECTION} + 1e-6")),
    ("eps-outside-root", divided("var ** 0.5 + 1e-8")),
    ("eps-value", divided("torch.sqrt(var + 1e-6)")),
    ("eps-value", divided("torch.sqrt(var + 1e-12)")),
    ("eps-value", divided("torch.sqrt(var + 1e-3)")),
    ("eps-value", "return F.layer_norm(x, x.shape[-1:], self.scale, "
     "self.shift, 1e-8)"),
    ("eps-clamped", divided("torch.sqrt(var.clamp(min=self.eps))")),
    ("eps-twice", divided("torch.sqrt(var + self.eps) + self.eps")),
    ("eps-subtracted", divided("torch.sqrt(var - self.eps)")),
    ("wrong-axis", stats("0", "0")),
    ("wrong-axis", stats("1", "1")),
    ("wrong-axis", stats("-2", "-2")),
    ("wrong-axis", stats("0")),
    ("wrong-axis", stats(var="1")),
    ("wrong-axis", stats("(0, 1)", "(0, 1)")),
    ("wrong-axis", stats("(-2, -1)", "(-2, -1)")),
    ("wrong-axis", spreads("var = x.var(0, keepdim=True, correction=0)\n"
                           "mean = x.mean(0)")),
    ("whole-tensor", divided("(var + self.eps) ** 0.5",
                             "x.var(correction=0)").replace(
                                 "dim=-1, keepdim=True", "")),
    ("whole-tensor", "return self.scale * (x - x.mean()) / torch.sqrt("
     "x.var(unbiased=False) + self.eps) + self.shift"),
    ("keepdim-missing", stats().replace(", keepdim=True", "")),
    ("keepdim-missing", stats().replace(", keepdim=True", "", 1)),
    ("keepdim-missing", spreads("var = x.var(-1, correction=0)")),
    ("keepdim-missing", "mean, var = x.mean(-1), x.var(-1)\n"
     "return self.scale * (x - mean) / (var + 1e-5).sqrt() + self.shift"),
    ("scale-unused", ends("return n + self.shift")),
    ("shift-unused", ends("return self.scale * n")),
    ("shift-unused", ends("return n * self.scale")),
    ("scale-and-shift-unused", ends("return n")),
    ("shift-scaled", ends("return self.scale * (n + self.shift)")),
    ("scale-shift-swapped", ends("return self.shift * n + self.scale")),
    ("scale-added", ends("return self.scale + n + self.shift")),
    ("shift-subtracted", ends("return self.scale * n - self.shift")),
    ("shift-multiplied", ends("return self.scale * n * self.shift")),
    ("scale-divides", ends("return n / self.scale + self.shift")),
    ("scale-plus-one", ends("return n * (1 + self.scale) + self.shift")),
    ("scale-before-normalizing",
     "x = self.scale * x + self.shift\n" + ends("return n")),
    ("root-missing", divided("var + self.eps")),
    ("root-missing", divided("var")),
    ("std-for-variance", divided("(var + self.eps).sqrt()", NO_CORRECTION)),
    ("std-for-variance", divided("(var + self.eps).sqrt()",
                                 "x.std(-1, keepdim=True)")),
    ("not-divided", "return self.scale * (x - x.mean(-1, keepdim=True))"
     " + self.shift"),
    ("multiplied-by-root", divided("1 / (var + self.eps).sqrt()")),
    ("mean-not-subtracted", stats(
        end="return self.scale * x / (var + 1e-5).sqrt() + self.shift")),
    ("mean-added", stats(end="return self.scale * (x + mean) / "
                         "(var + self.eps).sqrt() + self.shift")),
    ("median-for-mean", "mean = x.median(-1, keepdim=True).values\n"
     + "\n".join(FORWARD.strip().split("\n")[1:])),
    ("variance-uncentered", spreads("var = (x ** 2).mean(-1, True)")),
    ("rms-norm", "ms = x.square().mean(-1, keepdim=True)\n"
     "return self.scale * x / torch.sqrt(ms + 1e-5) + self.shift"),
    ("rms-norm", "n = F.rms_norm(x, x.shape[-1:], eps=1e-5)\n"
     "return self.scale * n + self.shift"),
    ("sum-for-mean", spreads(
        "var = (x - mean).square().sum(-1, keepdim=True)")),
    ("mean-absolute-deviation", divided(
        "var + self.eps", "(x - mean).abs().mean(-1, True)")),
    ("square-missing", spreads("var = (x - mean).mean(-1, keepdim=True)")),
    ("square-missing", spreads("var = (x - mean).abs().mean(-1, True)")),
    ("square-of-mean", spreads(
        "var = (x - mean).mean(-1, keepdim=True).square()")),
    ("square-of-mean", spreads(
        "var = ((x - mean).sum(-1, keepdim=True) / x.shape[-1]) ** 2")),
    ("cancellation", spreads(
        "var = (x * x).mean(-1, keepdim=True) - mean ** 2")),
    ("cancellation", spreads(
        "var = x.square().mean(-1, True) - x.mean(-1, True).square()\n"
        "var = var.clamp(min=0)")),
    ("wrong-values", spreads(
        "var = x.clamp(max=99).var(-1, keepdim=True, correction=0)")),
    ("not-normalized", "return self.scale * x + self.shift"),
    ("not-normalized", "return x"),
    ("input-overwritten", "mean = x.mean(-1, keepdim=True)\nx -= mean\n"
     "var = x.square().mean(-1, keepdim=True)\n"
     "return self.scale * x / (var + self.eps).sqrt() + self.shift"),
    ("input-overwritten", FORWARD.replace(
        "return ", "y = ") + "return x.copy_(y)"),
    ("gradient-detached", ends("return self.scale * n.detach() + "
                               "self.shift")),
    ("gradient-detached", stats(end="mean, var = mean.detach(), var.detach()"
                                "\n" + FORWARD.strip().split("\n")[-1])),
    ("gradient-detached", "with torch.no_grad():\n"
     + textwrap.indent(stats(), "    ")),
    ("gradient-detached", ends("return self.scale.data * n + self.shift")),
    ("mode-dependent", FORWARD.replace(
        "return ", "y = ") + "return F.dropout(y, 0.5, self.training)"),
    ("not-repeatable", FORWARD.replace(
        "return ", "y = ") + "return F.dropout(y, 0.5)"),
    ("only-2d", stats().replace(
        "mean =", "rows, width = x.shape\nmean =", 1)),
    ("only-2d", "m = x.mean(1).unsqueeze(1)\n"
     "v = x.var(-1, keepdim=True, correction=0)\n"
     "return self.scale * (x - m.view(len(x), 1)) / (v + 1e-5).sqrt()"
     " + self.shift"),
    ("only-3d", stats("2", "2")),
    ("only-3d", "b, t, d = x.shape\n" + FORWARD),
    ("returns-none", ends("self.y = n")),
    ("wrong-type", ends("return n.tolist()")),
    ("wrong-shape", ends("return n[..., :3]")),
    ("wrong-values", ends("return (self.scale * n + self.shift).tanh()")),
]  # fmt: skip


@pytest.mark.parametrize("name, forward", WRONG_FORWARDS)
def test_a_wrong_layer_norm_is_named(name, forward):
    result = layer_norm(written(INIT, forward))
    assert (result.status, result.mistake) == ("failed", renamed(name)), result
    assert len(result.message) < 500


WRONG_INITS = [
    ("scale-and-shift-missing", "", ends("return n")),
    ("scale-missing", "self.shift = nn.Parameter(torch.zeros(emb_dim))",
     ends("return n + self.shift")),
    ("shift-missing", RMS_INIT, ends("return self.scale * n")),
    ("shift-missing", "self.n = nn.LayerNorm(emb_dim, bias=False)",
     "return self.n(x)"),
    ("scale-and-shift-missing",
     "self.n = nn.LayerNorm(emb_dim, elementwise_affine=False)",
     "return self.n(x)"),
    ("not-parameters", INIT.replace("nn.Parameter", ""), FORWARD),
    ("not-parameters",
     INIT.replace("nn.Parameter(torch.ones(emb_dim))", "1.0"), FORWARD),
    ("not-parameters", "self.register_buffer('scale', torch.ones(emb_dim))\n"
     "self.register_buffer('shift', torch.zeros(emb_dim))", FORWARD),
    ("not-parameters", INIT.replace("nn.Parameter", "", 1), FORWARD),
    ("not-parameters", INIT.replace(
        "nn.Parameter(torch.ones(emb_dim))",
        "torch.ones(emb_dim, requires_grad=True)"), FORWARD),
    ("parameter-shape", INIT.replace("emb_dim", "1"), FORWARD),
    ("parameter-shape", INIT.replace("emb_dim", "768"), FORWARD),
    ("parameter-shape", INIT.replace("ones(emb_dim)", "tensor(1.0)"),
     FORWARD),
    ("not-trainable", INIT.replace("zeros(emb_dim)",
                                   "zeros(emb_dim), requires_grad=False"),
     FORWARD),
    ("scale-not-ones", INIT.replace("ones", "zeros"), FORWARD),
    ("scale-not-ones", INIT.replace("ones", "randn"), FORWARD),
    ("shift-not-zeros", INIT.replace("zeros", "ones"), FORWARD),
    ("extra-parameters", INIT + "self.l = nn.Linear(2, 2)", FORWARD),
    ("eps-value", INIT.replace("1e-5", "1e-6"), FORWARD),
    ("eps-value", "self.n = nn.LayerNorm(emb_dim, eps=1e-6)",
     "return self.n(x)"),
    ("mode-dependent", INIT + "self.m, self.v = 0, 1",
     "if self.training:\n"
     "    self.m = x.mean(-1, keepdim=True).detach()\n"
     "    self.v = x.var(-1, keepdim=True, correction=0).detach()\n"
     "    m = x.mean(-1, keepdim=True)\n"
     "    v = x.var(-1, keepdim=True, correction=0)\n"
     "else:\n    m, v = 0.9 * self.m, 0.9 * self.v\n"
     "return self.scale * (x - m) / (v + self.eps).sqrt() + self.shift"),
    ("width-hardcoded", INIT, spreads(
        "var = (x - mean).square().sum(-1, keepdim=True) / 5")),
    ("width-hardcoded", INIT.replace("emb_dim", "5"), FORWARD),
]  # fmt: skip


@pytest.mark.parametrize("name, init, forward", WRONG_INITS)
def test_wrong_parameters_are_named(name, init, forward):
    result = layer_norm(written(init, forward))
    assert (result.status, result.mistake) == ("failed", renamed(name)), result


class Renamed(nn.LayerNorm):
    pass


class WithNames(nn.LayerNorm):
    @property
    def scale(self):
        return self.weight

    @property
    def shift(self):
        return self.bias


def helper(x):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(((x - mean) ** 2).mean(-1, True) + 1e-5)


class WithHelper(nn.Module):
    def __init__(self, emb_dim, eps=1e-5):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(emb_dim))
        self.scale = nn.Parameter(torch.ones(emb_dim))
        self.eps = eps

    @staticmethod
    def normalized(x):
        return helper(x)

    def forward(self, x):
        return torch.addcmul(self.shift, self.scale, self.normalized(x))


class WrittenOut(nn.LayerNorm):
    def forward(self, x):
        return helper(x) * self.weight + self.bias


# The task: "LayerNorm from a blank page". torch's own is not written at all.
READY_MADE = {
    "gptlib's": gptlib.LayerNorm,
    "nn.LayerNorm": nn.LayerNorm,
    "renamed": Renamed,
    "properties": WithNames,
    "lambda": lambda emb_dim: nn.LayerNorm(emb_dim, eps=1e-5),
    "wrapped": written("self.n = nn.LayerNorm(emb_dim)", "return self.n(x)"),
    "F.layer_norm": written(INIT, "return F.layer_norm(x, self.scale.shape, "
                            "self.scale, self.shift, self.eps)"),
    "plain, then scaled": written(
        INIT, "n = torch.native_layer_norm(x, x.shape[-1:], None, None, "
        "self.eps)[0]\nreturn self.scale * n + self.shift"),
    "torch.ops": written(
        INIT, "return torch.ops.aten.layer_norm.default(x, x.shape[-1:], "
        "self.scale, self.shift, self.eps)"),
    "another norm": written(
        INIT, "rows = F.group_norm(x.reshape(-1, x.shape[-1]), 1, eps=1e-5)\n"
        "return self.scale * rows.reshape(x.shape) + self.shift"),
    "rms_norm of distances": written(
        INIT, "c = x - x.mean(-1, keepdim=True)\nreturn self.shift + "
        "F.rms_norm(c, x.shape[-1:], self.scale, self.eps)"),
}  # fmt: skip


@pytest.mark.parametrize("style", READY_MADE)
def test_torchs_own_layer_norm_is_no_answer(style):
    result = layer_norm(READY_MADE[style])
    assert (result.status, result.mistake) == ("failed", "ready-made"), result
    assert "values are right" in result.message
    assert "_norm" in result.message


RIGHT = {
    "the reference": written(INIT, FORWARD),
    "a helper": WithHelper,
    "on torch's parameters": WrittenOut,
    "unbiased=False": written(INIT, FORWARD.replace(
        "correction=0", "unbiased=False")),
    "solution": written(INIT, (
        "centered = x - x.mean(dim=-1, keepdim=True)\n"
        "var = centered.square().mean(dim=-1, keepdim=True)\n"
        "return self.scale * centered / torch.sqrt(var + self.eps)"
        " + self.shift")),
    "mean of squares, in float64": written(INIT, (
        "z = x.double()\nm = z.mean(-1, keepdim=True)\n"
        "v = (z * z).mean(-1, keepdim=True) - m**2\n"
        "return (self.scale * (z - m) / (v + 1e-5).sqrt() + self.shift)"
        ".to(x.dtype)")),
    "einsum": written(INIT, spreads(
        "c = x - mean\nvar = torch.einsum('...d,...d->...', c, c)[..., None]"
        " / x.size(-1)")),
    "std squared": written(INIT, spreads(
        "var = x.std(-1, keepdim=True, correction=0) ** 2")),
    "unsqueeze": written(INIT, FORWARD.replace(
        "dim=-1, keepdim=True", "dim=-1").replace(
            "dim=-1)", "dim=-1).unsqueeze(-1)").replace(
                "correction=0)", "correction=0)[..., None]")),
    "var_mean": written(INIT, "v, m = torch.var_mean(x, -1, correction=0, "
                        "keepdim=True)\nreturn (x - m).div((v + 1e-5).sqrt())"
                        ".mul(self.scale).add(self.shift)"),
    "a row at a time": written(INIT, (
        "rows = x.reshape(-1, x.shape[-1])\nout = torch.empty_like(rows)\n"
        "for i, r in enumerate(rows):\n"
        "    c = r - r.mean()\n"
        "    out[i] = c / (c.pow(2).mean() + 1e-5) ** 0.5\n"
        "return self.scale * out.reshape(x.shape) + self.shift")),
    "gamma and beta": written(
        INIT.replace("scale", "gamma").replace("shift", "beta"),
        FORWARD.replace("scale", "gamma").replace("shift", "beta")),
    "own names": written(
        INIT.replace("scale", "a").replace("shift", "b"),
        FORWARD.replace("scale", "a").replace("shift", "b")),
    "registered": written(
        "self.register_parameter('scale', nn.Parameter(torch.ones(emb_dim)))"
        "\nself.register_parameter('shift', "
        "nn.Parameter(torch.full((emb_dim,), 0.0)))\nself.eps = 1e-5",
        FORWARD),
    "in place on a copy": written(INIT, (
        "y = x.clone()\ny -= x.mean(-1, keepdim=True)\n"
        "return y / torch.sqrt(x.var(-1, keepdim=True, correction=0) + 1e-5)"
        " * self.scale + self.shift")),
    "a centering matrix": written(INIT, (
        "d = x.shape[-1]\nc = x @ (torch.eye(d, dtype=x.dtype, "
        "device=x.device) - 1 / d)\nms = (c * c).sum(-1, keepdim=True) / d\n"
        "return self.scale * c * torch.rsqrt(ms + self.eps) + self.shift")),
    "in float64": written(INIT, (
        "z = x.double()\ns, m = torch.std_mean(z, -1, correction=0, "
        "keepdim=True)\nz = (z - m) / (s.square() + self.eps).sqrt()\n"
        "return (self.scale * z + self.shift).to(x.dtype)")),
    "a row calls itself": written(INIT, (
        "if x.dim() > 1:\n    return torch.stack([self(row) for row in x])\n"
        "m = sum(x) / len(x)\nv = sum((x - m) ** 2) / len(x)\n"
        "return self.scale * (x - m) / (v + self.eps) ** 0.5 + self.shift")),
    "a dict of parameters": written(
        "self.p = nn.ParameterDict({'scale': torch.ones(emb_dim), "
        "'shift': torch.zeros(emb_dim)})",
        "n = x - x.mean(-1, True)\nn = n / (n.square().mean(-1, True) + 1e-5)"
        ".sqrt()\nreturn torch.einsum('...d,d->...d', n, self.p['scale'])"
        " + self.p['shift']"),
    "columns": written(INIT, (
        "x, shape = x.reshape(-1, x.shape[-1]).T, x.shape\n"
        "n = (x - x.mean(0)) / torch.sqrt(x.var(0, correction=0) + 1e-5)\n"
        "return (n.T * self.scale + self.shift).reshape(shape)")),
    "a feature at a time": written(INIT, (
        "m = torch.zeros(x.shape[:-1], dtype=x.dtype, device=x.device)\n"
        "for i in range(x.shape[-1]):\n    m = m + x[..., i] / x.shape[-1]\n"
        "c = x - m[..., None]\nv = (c**2).mean(-1, keepdim=True)\n"
        "return c / (v + self.eps).sqrt() * self.scale + self.shift")),
}  # fmt: skip


@pytest.mark.parametrize("style", RIGHT)
def test_a_right_layer_norm_passes(style):
    start = time.process_time()
    result = layer_norm(RIGHT[style])
    assert (result.status, result.mistake) == ("passed", None), result
    assert time.process_time() - start < 1


def test_other_names_are_remarked():
    assert "weight and bias" in layer_norm(WrittenOut).message
    assert "remark" not in layer_norm(RIGHT["the reference"]).message


Y = FORWARD.replace("return", "y =")
# Each is right on the first inputs that one would think of.
HIDDEN_FAULTS = [
    ("shape-dependent", INIT, Y + "return y if x.shape[0] > 1 else x"),
    ("shape-dependent", INIT, Y + "return y if x.dim() < 4 else y.flip(1)"),
    ("wrong-shape", INIT, Y + "return y.squeeze()"),
    ("width-hardcoded", INIT, Y + "return y * (2 - x.shape[-1] % 2)"),
    ("remembers-calls", INIT + "self.m = None",
     "m = x.mean(-1, keepdim=True)\nself.m = m if self.m is None else self.m\n"
     "m = self.m if self.m.shape == m.shape else m\n"
     + FORWARD.replace("mean = x.mean(dim=-1, keepdim=True)", "mean = m")),
    ("remembers-calls", INIT + "self.kept = {}",
     Y + "return self.kept.setdefault(x.shape, y.detach()) * 0.5 + y / 2"),
    ("only-2d-and-more", INIT, Y + "return y if x.dim() > 1 else x"),
    ("only-2d-and-more", INIT, "rows = x.shape[-2]\n" + FORWARD),
    ("needs-contiguous", INIT, "s = x.shape\nx = x.view(-1, s[-1])\n"
     + Y + "return y.view(s)"),
    ("dtype-dependent", INIT, Y + "return y if x.dtype == torch.float32 "
     "else x"),
    ("dtype-fixed", INIT, Y + "return y.float()"),
    ("weights-changed", INIT, "self.scale.data.fill_(1)\n" + FORWARD),
    ("weights-changed", INIT, "self.shift.data.mul_(0.9)\n" + FORWARD),
    ("mode-changed", INIT, "self.eval()\n" + FORWARD),
    ("gradients-turned-off", INIT, Y + "torch.set_grad_enabled(False)\n"
     "return y"),
    ("generator-used", INIT, "torch.manual_seed(0)\n" + FORWARD),
    ("gradient-detached", INIT, FORWARD.replace(
        "self.scale *", "self.scale.detach() *")),
    ("device-fixed", INIT, Y + "return y + torch.zeros(x.shape[-1], "
     "dtype=x.dtype)"),
    ("extra-parameters", INIT.replace("1e-5", "nn.Parameter(torch.tensor("
                                      "1e-5))", 1), FORWARD),
    ("constant-rows", INIT, Y + "return y + (y == self.shift).all(-1, True)"),
]  # fmt: skip


@pytest.mark.parametrize("name, init, forward", HIDDEN_FAULTS)
def test_a_fault_that_hides_is_named(name, init, forward):
    start = time.process_time()
    result = layer_norm(written(init, forward))
    assert (result.status, result.mistake) == ("failed", name), result
    assert time.process_time() - start < 1.5


WRONG_RMS = [
    ("mean-subtracted", RMS_FORWARD.replace(
        "self.scale * x", "self.scale * (x - x.mean(-1, keepdim=True))")),
    ("layer-norm", "return F.layer_norm(x, x.shape[-1:], self.scale)"),
    ("layer-norm", "c = x - x.mean(-1, keepdim=True)\n"
     "return self.scale * c / (c.pow(2).mean(-1, True) + 1e-5).sqrt()"),
    ("variance-for-mean-square", RMS_FORWARD.replace(
        "x.square().mean(dim=-1, keepdim=True)",
        "x.var(-1, keepdim=True, correction=0)")),
    ("variance-for-mean-square", RMS_FORWARD.replace(
        "x.square().mean(dim=-1, keepdim=True)", "x.var(-1, keepdim=True)")),
    ("divided-by-n-minus-1", RMS_FORWARD.replace(
        "mean(dim=-1, keepdim=True)", "sum(-1, True) / (x.shape[-1] - 1)")),
    ("sum-for-mean", RMS_FORWARD.replace("mean", "sum")),
    ("sum-for-mean", "return self.scale * x / (x.norm(dim=-1, keepdim=True)"
     "**2 + self.eps).sqrt()"),
    ("sum-for-mean", "return self.scale * x / (x.norm(dim=-1, keepdim=True)"
     " + self.eps)"),
    ("norm-divided-by-n", "rms = x.norm(dim=-1, keepdim=True) / x.shape[-1]\n"
     "return self.scale * x / rms"),
    ("norm-divided-by-n", "rms = x.norm(dim=-1, keepdim=True) / x.shape[-1]\n"
     "return self.scale * x / (rms + self.eps)"),
    ("eps-missing", RMS_FORWARD.replace("(ms + self.eps)", "(ms) + self.eps")),
    ("square-of-mean", RMS_FORWARD.replace(
        "x.square().mean(dim=-1, keepdim=True)",
        "x.mean(-1, keepdim=True) ** 2")),
    ("square-missing", RMS_FORWARD.replace(".square()", "")),
    ("square-missing", RMS_FORWARD.replace(".square()", ".abs()")),
    ("mean-absolute-value", "return self.scale * x / "
     "(x.abs().mean(-1, keepdim=True) + self.eps)"),
    ("root-missing", RMS_FORWARD.replace("torch.sqrt", "")),
    ("std-for-variance", RMS_FORWARD.replace(
        "torch.sqrt(ms", "torch.sqrt(ms.sqrt()")),
    ("eps-missing", RMS_FORWARD.replace(" + self.eps", "")),
    ("eps-outside-root", RMS_FORWARD.replace(
        "torch.sqrt(ms + self.eps)", "(torch.sqrt(ms) + self.eps)")),
    ("eps-value", RMS_FORWARD.replace("self.eps", "1e-6")),
    ("eps-value", "return F.rms_norm(x, x.shape[-1:], self.scale)"),
    ("wrong-axis", RMS_FORWARD.replace("-1", "1")),
    ("wrong-axis", RMS_FORWARD.replace("-1", "0")),
    ("whole-tensor", RMS_FORWARD.replace("dim=-1, keepdim=True", "")),
    ("keepdim-missing", RMS_FORWARD.replace(", keepdim=True", "")),
    ("scale-unused", RMS_FORWARD.replace("self.scale * ", "")),
    ("scale-added", RMS_FORWARD.replace("self.scale *", "self.scale +")
     .replace("x / torch.sqrt(ms + self.eps)",
              "(x / torch.sqrt(ms + self.eps))")),
    ("scale-divides", RMS_FORWARD.replace("self.scale *", "1 / self.scale *")
     ),
    ("scale-plus-one", RMS_FORWARD.replace("self.scale", "(1 + self.scale)")
     ),
    ("scale-before-normalizing", "x = x * self.scale\n"
     + RMS_FORWARD.replace("self.scale * ", "")),
    ("not-normalized", "return self.scale * x"),
    ("not-normalized", "return x * self.scale"),
    ("multiplied-by-root", RMS_FORWARD.replace("/", "*")),
    ("only-3d", RMS_FORWARD.replace("-1", "2")),
    ("input-overwritten", "x /= (x.square().mean(-1, True) + 1e-5).sqrt()\n"
     "return self.scale * x"),
    ("gradient-detached", RMS_FORWARD.replace("(ms", "(ms.detach()")),
    ("wrong-values", RMS_FORWARD.strip() + " + 0.25"),
]  # fmt: skip


@pytest.mark.parametrize("name, forward", WRONG_RMS)
def test_a_wrong_rms_norm_is_named(name, forward):
    result = rms_norm(written(RMS_INIT, forward))
    assert (result.status, result.mistake) == ("failed", renamed(name)), result


@pytest.mark.parametrize(
    "name, init",
    [
        ("shift-not-asked", INIT),
        ("scale-missing", "self.eps = 1e-5"),
        ("not-parameters", RMS_INIT.replace("nn.Parameter", "")),
        ("parameter-shape", RMS_INIT.replace("emb_dim", "1")),
        ("scale-not-ones", RMS_INIT.replace("ones", "zeros")),
    ],
)
def test_a_wrong_scale_of_rms_norm_is_named(name, init):
    result = rms_norm(written(init, RMS_FORWARD))
    assert result.mistake == renamed(name)


class SubclassedRMS(nn.RMSNorm):
    def __init__(self, emb_dim):
        super().__init__(emb_dim, eps=1e-5)


READY_MADE_RMS = {
    "nn.RMSNorm": SubclassedRMS,
    "lambda": lambda emb_dim: nn.RMSNorm(emb_dim, eps=1e-5),
    "F.rms_norm": written(RMS_INIT, "return F.rms_norm(x, self.scale.shape, "
                          "self.scale, self.eps)"),
}  # fmt: skip


@pytest.mark.parametrize("style", READY_MADE_RMS)
def test_torchs_own_rms_norm_is_no_answer(style):
    result = rms_norm(READY_MADE_RMS[style])
    assert (result.status, result.mistake) == ("failed", "ready-made"), result
    assert "torch's own rms_norm" in result.message


RIGHT_RMS = {
    "the reference": written(RMS_INIT, RMS_FORWARD),
    "a longer vector": written(RMS_INIT, (
        "d = x.shape[-1]\neps = torch.full_like(x[..., :1], (d * 1e-5)**0.5)\n"
        "norm = torch.linalg.vector_norm(torch.cat([x, eps], -1), dim=-1)\n"
        "return self.scale * x * d**0.5 / norm[..., None]")),
    "in float64": written(RMS_INIT, (
        "z = x.double()\nz = z / (z.pow(2).mean(-1, True) + 1e-5).sqrt()\n"
        "return z.to(x) * self.scale")),
    "a row calls itself": written(RMS_INIT, (
        "if x.dim() > 1:\n    return torch.stack([self(row) for row in x])\n"
        "return self.scale * x / (x.dot(x) / len(x) + self.eps) ** 0.5")),
    "columns": written(RMS_INIT, (
        "x, shape = x.reshape(-1, x.shape[-1]).T, x.shape\n"
        "n = x / torch.sqrt((x * x).mean(0) + 1e-5)\n"
        "return n.T.reshape(shape) * self.scale")),
    "rsqrt": written(RMS_INIT, "n = x * torch.rsqrt(x.pow(2).mean(-1, "
                     "keepdim=True) + self.eps)\nreturn n * self.scale"),
    "norm": written(RMS_INIT, "ms = x.norm(dim=-1, keepdim=True) ** 2 / "
                    "x.shape[-1]\nreturn x / (ms + 1e-5) ** 0.5 * self.scale"
                    ),
    "einsum": written(RMS_INIT, "ms = torch.einsum('...d,...d->...', x, x)"
                      ".unsqueeze(-1) / x.size(-1)\n"
                      "return self.scale * (x / (ms + self.eps).sqrt())"),
    "weight": written(RMS_INIT.replace("scale", "weight"),
                      RMS_FORWARD.replace("scale", "weight")),
}  # fmt: skip


@pytest.mark.parametrize("style", RIGHT_RMS)
def test_a_right_rms_norm_passes(style):
    result = rms_norm(RIGHT_RMS[style])
    assert (result.status, result.mistake) == ("passed", None), result


class OnlyInit(nn.Module):
    def __init__(self, emb_dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(emb_dim))


class NotebookStub(nn.Module):
    def __init__(self, emb_dim):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        raise NotImplementedError


STUBS = [None, ..., type("Empty", (nn.Module,), {}), NotebookStub]


@pytest.mark.parametrize("check", [layer_norm, rms_norm])
@pytest.mark.parametrize("stub", STUBS)
def test_a_stub_is_not_attempted(check, stub):
    result = check(stub)
    assert (result.status, result.mistake) == ("not attempted", None)


HALVES = [
    ("unfinished", INIT, "raise NotImplementedError"),
    ("unfinished", INIT, "..."),
    ("unfinished", INIT, "pass"),
    ("unfinished", INIT, '"""Normalize x."""'),
    ("unfinished", "raise NotImplementedError", FORWARD),
    ("raise-left", INIT, "y = x.mean(-1)\nraise NotImplementedError('rest')"),
    ("raise-left", INIT, "raise NotImplementedError\n" + FORWARD),
    ("scale-not-ones", INIT.replace("ones", "zeros"), "..."),
    ("parameter-shape", INIT.replace("emb_dim", "768"), "pass"),
]


@pytest.mark.parametrize("name, init, forward", HALVES)
def test_a_half_written_norm_is_told_what_its_half_is_like(
    name, init, forward
):
    assert layer_norm(written(init, forward)).mistake == name
    rms_init = init.replace("self.shift = nn.Parameter(torch.zeros(", "(((")
    rms_init = "\n".join(x for x in rms_init.split("\n") if "(((" not in x)
    rms_forward = RMS_FORWARD if init.startswith("raise") else forward
    assert rms_norm(written(rms_init, rms_forward)).mistake == name


def test_half_an_init_without_forward_is_judged():
    assert layer_norm(OnlyInit).mistake == "shift-missing"
    assert rms_norm(OnlyInit).mistake == "forward-missing"


@pytest.mark.parametrize("check", [layer_norm, rms_norm])
@pytest.mark.parametrize(
    "name, answer",
    [
        ("wrong-signature", written(INIT, FORWARD, "self")),
        ("wrong-signature", written(INIT, FORWARD, "self, emb_dim, eps")),
        ("not-a-class", nn.LayerNorm(5)),
        ("not-a-module", lambda emb_dim: emb_dim),
    ],
)
def test_what_can_not_be_built_is_named(check, name, answer):
    assert check(answer).mistake == name


@pytest.mark.parametrize(
    "init, forward, line",
    [
        (INIT, "return self.scal * x", "self.scal * x"),
        (INIT, "return x @ x.transpose(0, 5)", "x.transpose(0, 5)"),
        (INIT, "return x.mean(axes=-1)", "x.mean(axes=-1)"),
        (INIT.replace("torch.ones", "torch.one"), FORWARD, "torch.one("),
    ],
)
def test_an_exception_names_line_and_cause(tmp_path, init, forward, line):
    cell = tmp_path / "cell.py"
    cell.write_text(
        "import torch\nfrom torch import nn\n\n\nclass My(nn.Module):\n"
        "    def __init__(self, emb_dim):\n        super().__init__()\n"
        f"{textwrap.indent(init, ' ' * 8)}\n    def forward(self, x):\n"
        f"{textwrap.indent(forward, ' ' * 8)}\n"
    )
    names = {}
    exec(compile(cell.read_text(), str(cell), "exec"), names)
    result = layer_norm(names["My"])
    assert (result.status, result.mistake) == ("failed", "exception")
    assert line in result.message and "line " in result.message
    assert "Error" in result.message


@pytest.mark.parametrize(
    "forward, words",
    [
        (spreads("var = x.var(-1, keepdim=True)"), ["n - 1 = 4", "0.8"]),
        (divided("torch.sqrt(var + 1e-6)"), ["eps = 1e-06", "1e-05"]),
        (stats("0", "0"), ["axis 0", "axis 2", "(2, 3, 5)"]),
        (stats("-2"), ["mean alone", "axis 1"]),
        (stats().replace(", keepdim=True", ""), ["(4, 5)", "(5, 5)"]),
        (stats("2", "2"), ["right for 3 axes", "(4, 5)"]),
        (
            ends("return n").replace(", correction=0", ""),
            ["n - 1", "second mistake", "Are both used"],
        ),
        ("return x * 0.3", ["(2, 3, 5)", "expected"]),
        (
            spreads("var = x.square().mean(-1, True) - mean.square()"),
            ["9998 to 10002", "float64", "Subtract the mean first"],
        ),
        (
            spreads(
                "var = x.clamp(max=99).var(-1, correction=0, keepdim=True)"
            ),
            ["9998 to 10002", "closer to 0 are right"],
        ),
    ],
)
def test_the_message_says_what_was_seen(forward, words):
    message = layer_norm(written(INIT, forward)).message
    for word in words:
        assert word in message


def test_a_diagnosis_takes_less_than_a_second():
    start = time.process_time()
    layer_norm(written(INIT, WRONG_FORWARDS[-1][1]))
    assert time.process_time() - start < 1


@pytest.mark.parametrize("check", [layer_norm, rms_norm])
def test_there_are_three_hints(check):
    assert len(HINTS[check.__name__]) == 3


CAUSES = [
    # what was written, the mistake's name, words that are true of it
    ({"self.scale * (": "self.scale @ ("}, "square-only", "`@`"),
    ({"self.scale * (x - mean)": "(x - mean) @ self.scale"}, "square-only",
     "`@`"),
    ({"return self.scale * (x - mean)": "n = (x - mean)",
      "+ self.shift": "\nreturn self.scale @ n + self.shift"}, "exception",
     "`@`"),
    ({"(x - mean)": "((x - mean) @ torch.ones_like(x).mT)"}, "square-only",
     "(4, 5)"),
    ({"var + self.eps": "var * -torch.inf"}, "wrong-values", "inf * 0"),
    ({"dim=-1, keepdim=True)": "dim=-1)"}, "keepdim-missing", "(4, 1)"),
]  # fmt: skip


@pytest.mark.parametrize("edit, name, words", CAUSES)
def test_a_cause_is_told_only_where_it_fits(edit, name, words):
    forward = FORWARD
    for old, new in edit.items():
        forward = forward.replace(old, new)
    result = layer_norm(written(INIT, forward))
    assert result.mistake == name, result
    assert words in result.message


def test_the_public_configuration_may_be_another(monkeypatch):
    monkeypatch.setitem(gptlib.GPT_CONFIG_124M, "emb_dim", 4)
    assert layer_norm(RIGHT["the reference"]).status == "passed"
    assert rms_norm(RIGHT_RMS["the reference"]).status == "passed"


# --- a test for norms -------------------------------------------------------


def inputs_for(width):
    rows = torch.randn(4, width)
    return [rows, rows + 3, 0.001 * rows, torch.randn(width, width)]


def largest_gap(norm, width, inputs):
    right = nn.LayerNorm(width)
    return max((norm(x) - right(x)).abs().max() for x in inputs)


def probe(inputs=inputs_for, limit=1e-4):
    """A learner's test: these inputs, and so much of a difference."""
    return lambda norm, width: bool(
        largest_gap(norm, width, inputs(width)) < limit
    )


def by_properties(norm, emb_dim):
    """Means, variances and a gradient; torch's norm is not needed."""
    for x in (torch.randn(3, emb_dim), torch.rand(3, emb_dim) - 7,
              torch.randn(emb_dim, emb_dim) + 2):  # fmt: skip
        x = 100 * x  # eps hardly matters
        y = norm(x)
        if y.mean(-1).abs().max() > 1e-4:
            return False
        if (y.var(-1, correction=0) - 1).abs().max() > 5e-4:
            return False
    row = torch.ones(1, emb_dim, requires_grad=True)
    norm(row)[0, 0].backward()
    return bool(row.grad.isfinite().all())


def written_out(norm, emb_dim):
    def formula(x):
        c = x - x.mean(-1, keepdim=True)
        return c / (c.square().mean(-1, keepdim=True) + 1e-5) ** 0.5

    x = torch.linspace(-2, 3, emb_dim).expand(emb_dim, -1) ** 2
    x = x + (torch.arange(emb_dim)[:, None] % 7) ** 2
    for size in (1, 1e-3, 5):
        if not torch.allclose(norm(size * x), formula(size * x), 0, 1e-3):
            return False
    return True


def in_three_axes(norm, emb_dim):
    x = torch.randn(emb_dim, 3, emb_dim)
    pairs = [
        (norm(x), F.layer_norm(x, [emb_dim])),
        (norm(-2 * x + 1), F.layer_norm(-2 * x + 1, [emb_dim])),
        (norm(x / 500), F.layer_norm(x / 500, [emb_dim])),
    ]
    return all(torch.allclose(a, b, atol=1e-4) for a, b in pairs)


class Tester:
    """A method of an object; it looks at copies, in double precision."""

    def __call__(self, norm, emb_dim):
        norm, right = copy.deepcopy(norm).double(), nn.LayerNorm(emb_dim)
        right.double()
        for x in inputs_for(emb_dim):
            x = x.double()
            if torch.dist(norm(x), right(x)) > 1e-4:
                return False
        return True


def with_asserts(norm, emb_dim):
    try:
        for x in inputs_for(emb_dim):
            with torch.no_grad():
                right = gptlib.LayerNorm(emb_dim)(x)
                torch.testing.assert_close(norm(x), right, rtol=0, atol=1e-4)
    except AssertionError:
        return False
    return True


def by_its_own_numbers(norm, emb_dim):
    """Scale and shift set, and the state handed over to torch's norm."""
    with torch.no_grad():
        norm.scale.copy_(torch.arange(1.0, emb_dim + 1))
        norm.shift.fill_(7)
    right = nn.LayerNorm(emb_dim)
    right.load_state_dict({"weight": norm.scale, "bias": norm.shift})
    x = torch.randn(3, emb_dim)
    return all(
        torch.allclose(norm(x), right(x), rtol=1e-3, atol=1e-3)
        for x in (x, x / 1000, torch.randn(emb_dim, emb_dim))
    )


def by_what_changes_nothing(norm, emb_dim):
    """Rows alone or together, moved and stretched; a row too small."""
    x = torch.randn(emb_dim, emb_dim)
    alone = [copy.deepcopy(norm)(row[None]) for row in x]
    if not torch.allclose(norm(x), torch.cat(alone), atol=1e-4):
        return False
    if not torch.allclose(norm(x[:2]), norm(3 * x[:2] + 1), atol=1e-2):
        return False
    wide = norm(50 * torch.randn(50, emb_dim)).square().mean(-1)
    tiny = norm(1e-3 * torch.eye(emb_dim)[:1])
    return bool((wide - 1).abs().max() < 5e-4 and tiny.std() < 0.5)


RIGHT_PROBES = {
    "solution": probe(),
    "a tensor for an answer": lambda norm, emb_dim: (
        largest_gap(norm, emb_dim, inputs_for(emb_dim)) < 1e-4
    ),
    "numpy's bool": lambda norm, emb_dim: (
        largest_gap(norm, emb_dim, inputs_for(emb_dim)).detach().numpy() < 1e-4
    ),
    "properties": by_properties,
    "written out": written_out,
    "three axes": in_three_axes,
    "an object": Tester(),
    "asserts": with_asserts,
    "its own numbers": by_its_own_numbers,
    "what changes nothing": by_what_changes_nothing,
}


@pytest.mark.parametrize("style", RIGHT_PROBES)
def test_right_probes_pass(style):
    result = faulty_norms(RIGHT_PROBES[style])
    assert result.status == "passed", result
    assert "18 new norms" in result.message


def without(place):
    def inputs(width):
        kept = inputs_for(width)
        del kept[place]
        return kept

    return inputs


def guesses(norm, emb_dim):
    return bool(torch.rand(()) < 0.5)


def in_turn(answers=()):
    """Another answer at each call."""
    asked = list(answers)

    def my_norm_is_right(norm, emb_dim):
        asked.append(norm)
        return len(asked) % 2 == 1

    return my_norm_is_right


WRONG_PROBES = [
    ("eps-missed", probe(without(2))),
    ("axis-missed", probe(without(3))),
    ("memory-missed", probe(lambda width: [
        torch.randn(2, width), 0.001 * torch.randn(5, width),
        torch.randn(width, width)])),
    ("n-minus-1-missed", lambda norm, emb_dim: all(
        torch.corrcoef(torch.stack([y, z]))[0, 1] > 0.999
        and (y.norm() / z.norm() - 1).abs() < 0.5
        for x in inputs_for(emb_dim)
        for y, z in zip(norm(x).detach(), F.layer_norm(x, [emb_dim]),
                        strict=True))),
    ("wide-missed", probe(limit=0.06)),
    ("wide-missed", probe(limit=0.01)),
    ("wide-missed", lambda norm, emb_dim: all(
        torch.allclose(norm(x), F.layer_norm(x, [emb_dim]), atol=1e-2)
        for x in inputs_for(emb_dim))),
    ("several-missed", probe(lambda width: [torch.randn(4, width)])),
    ("always-true", lambda norm, emb_dim: bool(
        norm(5 + torch.randn(9, emb_dim)).mean(-1).abs().max() < 1e-4)),
    ("always-false", probe(limit=1e-12)),
    ("always-false", lambda norm, emb_dim: all(
        torch.equal(norm(x), nn.LayerNorm(emb_dim)(x))
        for x in inputs_for(emb_dim))),
    ("right-blamed", lambda norm, emb_dim: probe()(norm, emb_dim)
     and emb_dim != 3),
    ("right-blamed", lambda norm, emb_dim: probe()(norm, emb_dim)
     and emb_dim in (6, 3)),
    ("always-true", lambda norm, emb_dim: True),
    ("always-false", lambda norm, emb_dim: bool(
        norm(torch.randn(4, emb_dim)).var(-1).sub(1).abs().max() < 1e-4
        and norm(torch.zeros(2, emb_dim)).abs().max() > 0)),
    ("always-true", lambda norm, emb_dim: "LayerNorm" in str(norm)),
    ("always-true", lambda norm, emb_dim: (
        sum(p.numel() for p in norm.parameters()) == 2 * emb_dim)),
    ("answer-inverted", lambda norm, emb_dim: not probe()(norm, emb_dim)),
    ("wrong-type", lambda norm, emb_dim: "right"),
    ("wrong-type", lambda norm, emb_dim: norm(torch.ones(2, emb_dim)) < 1),
    ("wrong-type", lambda norm, emb_dim: largest_gap(
        norm, emb_dim, inputs_for(emb_dim))),
    ("wrong-type", lambda norm, emb_dim: (probe()(norm, emb_dim), "eps")),
    ("returns-none", lambda norm, emb_dim: print(probe()(norm, emb_dim))),
    ("wrong-signature", lambda norm: True),
    ("gradients-turned-off", lambda norm, emb_dim: (
        torch.set_grad_enabled(False) and 0) or probe()(norm, emb_dim)),
    ("width-hardcoded", lambda norm, emb_dim: probe()(norm, 6)),
    ("width-hardcoded", lambda norm, emb_dim: (
        probe()(norm, 6) if emb_dim == 6 else False)),
    ("width-hardcoded", probe(lambda width: [
        *inputs_for(width), torch.randn(6, 6)])),
    ("exception", lambda norm, emb_dim: probe()(norm, 7)),
    ("several-missed", lambda norm, emb_dim: next(
        bool(largest_gap(norm, emb_dim, [x]) < 1e-4)
        for x in inputs_for(emb_dim))),
    ("several-missed", lambda norm, emb_dim: any(
        largest_gap(norm, emb_dim, [x]) < 1e-4 for x in inputs_for(emb_dim))),
    ("memory-missed", lambda norm, emb_dim: all(
        torch.equal(norm(x), norm(x)) and largest_gap(norm, emb_dim, [x]) < .1
        for x in (torch.randn(4, emb_dim), torch.randn(3, emb_dim) / 1000,
                  torch.randn(emb_dim, emb_dim)))),
    ("exception", lambda norm, emb_dim: bool(
        norm(torch.randn(4, emb_dim)) == 0)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), WRONG_PROBES)
def test_wrong_probes_are_named(name, answer):
    result = faulty_norms(answer)
    assert (result.status, result.mistake) == ("failed", name), result
    assert len(result.message) < 500


@pytest.mark.parametrize("answer", [guesses, in_turn()])
def test_guessing_does_not_pass(answer):
    result = faulty_norms(answer)
    assert result.status == "failed", result


def test_every_norm_is_called_layer_norm_and_looks_alike():
    seen = {}

    def my_norm_is_right(norm, emb_dim):
        state = {n: t.tolist() for n, t in norm.state_dict().items()}
        seen.setdefault(emb_dim, set()).add((str(norm), str(state)))
        return True

    faulty_norms(my_norm_is_right)
    assert [len(looks) for looks in seen.values()] == [1, 1, 1]
    assert len(NORMS) == 6


def test_probes_that_are_still_to_write():
    def my_norm_is_right(norm, emb_dim):
        raise NotImplementedError

    for answer in (my_norm_is_right, None, lambda norm, emb_dim: None):
        assert faulty_norms(answer).status == "not attempted"
