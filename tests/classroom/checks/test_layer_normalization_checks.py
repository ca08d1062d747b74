"""The checks of notebook 02 accept what is right and name what is wrong."""

import textwrap
import time

import pytest
import torch
import torch.nn.functional as F
from renamed import renamed
from torch import nn

import gptlib
from classroom.checks.guard import HINTS
from classroom.checks.layer_normalization import layer_norm, rms_norm

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


RIGHT = {
    "the reference": written(INIT, FORWARD),
    "gptlib's": gptlib.LayerNorm,
    "nn.LayerNorm": nn.LayerNorm,
    "renamed": Renamed,
    "properties": WithNames,
    "a helper": WithHelper,
    "lambda": lambda emb_dim: nn.LayerNorm(emb_dim, eps=1e-5),
    "wrapped": written("self.n = nn.LayerNorm(emb_dim)", "return self.n(x)"),
    "unbiased=False": written(INIT, FORWARD.replace(
        "correction=0", "unbiased=False")),
    "F.layer_norm": written(INIT, "return F.layer_norm(x, self.scale.shape, "
                            "self.scale, self.shift, self.eps)"),
    "solution": written(INIT, (
        "centered = x - x.mean(dim=-1, keepdim=True)\n"
        "var = centered.square().mean(dim=-1, keepdim=True)\n"
        "return self.scale * centered / torch.sqrt(var + self.eps)"
        " + self.shift")),
    "mean of squares": written(INIT, spreads(
        "var = (x * x).mean(-1, keepdim=True) - mean ** 2")),
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
}  # fmt: skip


@pytest.mark.parametrize("style", RIGHT)
def test_a_right_layer_norm_passes(style):
    start = time.process_time()
    result = layer_norm(RIGHT[style])
    assert (result.status, result.mistake) == ("passed", None), result
    assert time.process_time() - start < 1


def test_other_names_are_remarked():
    assert "weight and bias" in layer_norm(nn.LayerNorm).message
    assert "remark" not in layer_norm(gptlib.LayerNorm).message


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


RIGHT_RMS = {
    "the reference": written(RMS_INIT, RMS_FORWARD),
    "nn.RMSNorm": SubclassedRMS,
    "lambda": lambda emb_dim: nn.RMSNorm(emb_dim, eps=1e-5),
    "F.rms_norm": written(RMS_INIT, "return F.rms_norm(x, self.scale.shape, "
                          "self.scale, self.eps)"),
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


STUBS = [
    None,
    ...,
    type("Empty", (nn.Module,), {}),
    NotebookStub,
    OnlyInit,
    written(INIT, "raise NotImplementedError"),
    written(INIT, "..."),
    written(INIT, "pass"),
    written(INIT, '"""Normalize x."""'),
    written("raise NotImplementedError", FORWARD),
    written(INIT, "y = x.mean(-1)\nraise NotImplementedError('rest')"),
]


@pytest.mark.parametrize("check", [layer_norm, rms_norm])
@pytest.mark.parametrize("stub", STUBS)
def test_a_stub_is_not_attempted(check, stub):
    result = check(stub)
    assert (result.status, result.mistake) == ("not attempted", None)


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
