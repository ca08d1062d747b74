"""Each mistake with shortcuts is named, and each right style passes."""

import linecache
from functools import partial
from itertools import pairwise

import pytest
import torch
from renamed import renamed
from torch import nn
from torch.nn import functional as F

import gptlib
from classroom.checks.shortcut_connections import shortcut

RIGHT = """
class MyShortcutNetwork(nn.Module):
    def __init__(self, layer_sizes, use_shortcut):
        super().__init__()
        self.use_shortcut = use_shortcut
        self.layers = nn.ModuleList()
        for d_in, d_out in zip(layer_sizes[:-1], layer_sizes[1:]):
            self.layers.append(nn.Sequential(nn.Linear(d_in, d_out), GELU()))

    def forward(self, x):
        for layer in self.layers:
            out = layer(x)
            if self.use_shortcut and out.shape == x.shape:
                out = out + x
            x = out
        return x
"""
LOOP = RIGHT[RIGHT.index("        for layer in") :]
INIT = RIGHT[RIGHT.index("        self.layers =") : RIGHT.index("    def f")]
COND = "self.use_shortcut and out.shape == x.shape"


def made(source, name="MyShortcutNetwork"):
    """What a cell with this source defines."""
    cell = {
        "torch": torch,
        "nn": nn,
        "F": F,
        "GELU": gptlib.GELU,
        "gptlib": gptlib,
        "pairwise": pairwise,
        "ExampleDeepNeuralNetwork": gptlib.ExampleDeepNeuralNetwork,
        "gradient_means": gptlib.gradient_means,
    }
    linecache.cache["cell"] = (len(source), None, source.splitlines(True), "")
    exec(compile(source, "cell", "exec"), cell)
    return cell[name]


def changed(*pairs, source=RIGHT):
    for old, new in pairs:
        assert old in source, old
        source = source.replace(old, new)
    return source


def loop(body, head="for layer in self.layers:", before=""):
    """The right answer with another forward."""
    lines = [*before.splitlines(), head]
    lines += [f"    {line}" for line in body.splitlines()]
    text = "\n".join(f"        {line}" for line in lines)
    return changed((LOOP, text + "\n        return x\n"))


NUMBERED = "for i, layer in enumerate(self.layers):"


def placed(condition):
    """Shortcuts only at some layers."""
    return loop(
        "out = layer(x)\n"
        f"if {COND} and ({condition}):\n"
        "    out = out + x\n"
        "x = out",
        head=NUMBERED,
    )


def added(expression, before="first = x"):
    return loop(
        f"out = layer(x)\nif {COND}:\n    out = {expression}\nx = out",
        before=before,
    )


LINEARS = changed(
    ("nn.Sequential(nn.Linear(d_in, d_out), GELU())", "nn.Linear(d_in, d_out)")
)
OUT = "out = layer(x)"

WRONG = [
    ("always-plain", loop("x = layer(x)")),
    ("always-plain", changed(("= use_shortcut", "= False"))),
    ("always-plain", changed(("== x.shape", "is x.shape"))),
    ("always-plain", changed(("out = out + x", "out + x"))),
    ("adds-where-shapes-differ", changed((COND, "self.use_shortcut"))),
    (
        "adds-where-shapes-differ",
        changed(("out.shape == x.shape", "len(out) == len(x)")),
    ),
    (
        "adds-where-shapes-differ",
        changed(("out.shape == x.shape", "out.shape[0] == x.shape[0]")),
    ),
    (
        "adds-where-shapes-differ",
        changed(("out.shape == x.shape", "out.dim() == x.dim()")),
    ),
    (
        "adds-where-shapes-differ",
        changed(("out.shape == x.shape", "out.shape[1] <= x.shape[1]")),
    ),
    (
        "adds-where-shapes-differ",
        changed(("out.shape == x.shape", "out.shape[1] >= x.shape[1]")),
    ),
    ("adds-where-shapes-differ", changed((" == x.shape", " != None"))),
    (
        "adds-where-shapes-differ",
        loop(
            "out = layer(x)\n"
            "if self.use_shortcut:\n"
            "    w = min(x.shape[1], out.shape[1])\n"
            "    out = out + F.pad(x[:, :w], (0, out.shape[1] - w))\n"
            "x = out"
        ),
    ),
    ("adds-output-to-itself", changed(("out + x", "out + out"))),
    (
        "adds-output-to-itself",
        loop(
            "before = x.shape\n"
            "x = layer(x)\n"
            "if self.use_shortcut and x.shape == before:\n"
            "    x = x + x"
        ),
    ),
    (
        "adds-output-to-itself",
        loop("x = layer(x)\nif self.use_shortcut:\n    x = x + x"),
    ),
    ("adds-output-to-itself", changed(("out + x", "2 * out"))),
    (
        "overwrites-input",
        loop(f"out = layer(x)\nif {COND}:\n    x += out\nelse:\n    x = out"),
    ),
    (
        "overwrites-input",
        loop(
            f"out = layer(x)\nif {COND}:\n    x.add_(out)\nelse:\n    x = out"
        ),
    ),
    (
        "overwrites-input",
        loop(
            "out = layer(x)\n"
            f"if {COND}:\n"
            "    x[:] = x + out\n"
            "else:\n"
            "    x = out"
        ),
    ),
    (
        "in-place-addition",
        loop(
            f"out = layer(x)\nif {COND}:\n    x += out\nelse:\n    x = out",
            before="x = x.clone()",
        ),
    ),
    ("only-last-layer", placed("i == len(self.layers) - 1")),
    ("only-last-layer", placed("layer is self.layers[-1]")),
    (
        "only-last-layer",
        loop(
            f"x = out\nout = layer(x)\nif {COND}:\n    last = out + x\n"
            "else:\n    last = out",
            before="out = x",
        ).replace("        return x\n", "        return last\n"),
    ),
    ("only-first-layer", placed("i == 0")),
    ("only-first-layer", placed("layer is self.layers[0]")),
    ("last-layer-skipped", placed("i < len(self.layers) - 1")),
    ("last-layer-skipped", placed("layer is not self.layers[-1]")),
    ("first-layer-skipped", placed("i > 0")),
    ("every-second-layer", placed("i % 2 == 0")),
    ("every-second-layer", placed("i % 2 == 1")),
    (
        "only-around-the-whole",
        loop("x = layer(x)", before="first = x").replace(
            "return x",
            "return x + first if self.use_shortcut and "
            "x.shape == first.shape else x",
        ),
    ),
    ("adds-network-input", added("out + first")),
    (
        "adds-network-input",
        loop(
            "out = layer(x)\n"
            "if self.use_shortcut and out.shape == first.shape:\n"
            "    out = first + out\n"
            "x = out",
            before="first = x",
        ),
    ),
    (
        "layers-not-chained",
        loop(
            f"out = layer(x)\nif {COND}:\n    out = out + x",
        ).replace("return x", "return out"),
    ),
    ("use-shortcut-ignored", changed((COND, "out.shape == x.shape"))),
    ("use-shortcut-ignored", changed(("= use_shortcut", "= True"))),
    ("use-shortcut-ignored", changed((" and ", " or "))),
    ("use-shortcut-inverted", changed(("if self", "if not self"))),
    (
        "use-shortcut-inverted",
        changed(("= use_shortcut", "= not use_shortcut")),
    ),
    ("activation-missing", LINEARS),
    (
        "activation-missing",
        changed((", GELU()", "")),
    ),
    ("wrong-activation", changed(("GELU()", "nn.ReLU()"))),
    ("wrong-activation", changed(("GELU()", "nn.Tanh()"))),
    ("wrong-activation", changed(("GELU()", "nn.SiLU()"))),
    ("wrong-activation", changed(("GELU()", "nn.Sigmoid()"))),
    ("wrong-activation", changed(("GELU()", "GELU(), GELU()"))),
    (
        "activation-after-addition",
        changed(("x = out\n", "x = F.gelu(out)\n"), source=LINEARS),
    ),
    (
        "activation-after-addition",
        changed(
            ("x = out\n", "x = F.gelu(out, approximate='tanh')\n"),
            source=LINEARS,
        ),
    ),
    (
        "activation-after-addition",
        added("F.gelu(out + x, approximate='tanh')"),
    ),
    ("activation-missing-last", loop(
        "out = layer[0](x)\n"
        "if layer is not self.layers[-1]:\n"
        "    out = layer[1](out)\n"
        f"if {COND}:\n"
        "    out = out + x\n"
        "x = out"
    )),
    ("concatenation", loop(
        "out = layer(x)\n"
        "x = torch.cat([x, out], dim=-1) if self.use_shortcut else out"
    )),
    ("concatenation", added("torch.cat([x, out], dim=-1)")),
    ("concatenation", added("torch.cat((x, out))")),
    ("concatenation", changed(
        ("nn.Linear(d_in, d_out)", "nn.Linear(2 * d_in, d_out)"),
        ("layer(x)", "layer(torch.cat([x, x], -1))"),
    )),
    ("wrong-number-of-layers", changed(
        ("layer_sizes[:-1]", "layer_sizes[:-2]"))),
    ("wrong-number-of-layers", changed(
        ("layer_sizes[:-1]", "layer_sizes[1:-1]"),
        ("layer_sizes[1:]", "layer_sizes[2:]"))),
    ("wrong-number-of-layers", changed((INIT, """
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.Linear(layer_sizes[i], layer_sizes[i + 1]), GELU()
            )
            for i in range(5)
        )

"""))),
    ("one-layer-repeated", changed((INIT, """
        d = layer_sizes[0]
        layer = nn.Sequential(nn.Linear(d, d), GELU())
        self.layers = nn.ModuleList([layer] * (len(layer_sizes) - 1))

"""))),
    ("layers-plain-list", changed(("nn.ModuleList()", "[]"))),
    ("layers-plain-list", changed((INIT, """
        self.layers = tuple(
            nn.Sequential(nn.Linear(a, b), GELU())
            for a, b in pairwise(layer_sizes)
        )

"""))),
    ("layers-missing", changed(("self.layers", "self.steps"))),
    ("widths-swapped", changed(
        ("nn.Linear(d_in, d_out)", "nn.Linear(d_out, d_in)"))),
    ("bias-missing", changed(("d_out)", "d_out, bias=False)"))),
    ("extra-parameters", changed(
        ("super().__init__()", "super().__init__()\n"
         "        self.scale = nn.Parameter(torch.ones(1))"))),
    ("extra-parameters", changed(
        ("super().__init__()", "super().__init__()\n"
         "        self.p = nn.Linear(layer_sizes[0], layer_sizes[-1])"))),
    ("adds-earlier-input", loop(
        f"out = layer(x)\nif {COND}:\n    out = out + before\n"
        "before, x = x, out", before="before = x")),
    ("shortcut-around-each-step", loop(
        "for step in layer:\n"
        "    out = step(x)\n"
        f"    if {COND}:\n"
        "        out = out + x\n"
        "    x = out")),
    ("carries-normalized-input", loop(
        f"x = F.layer_norm(x, x.shape[-1:])\nout = layer(x)\n"
        f"if {COND}:\n    out = out + x\nx = out")),
    ("subtracts", changed(("out + x", "out - x"))),
    ("subtracts", changed(("out + x", "x - out"))),
    ("multiplies", changed(("out + x", "out * x"))),
    ("averages", changed(("out + x", "(out + x) / 2"))),
    ("adds-input-twice", changed(("out + x", "out + x + x"))),
    ("adds-output-twice", changed(("out + x", "x + 2 * out"))),
    ("adds-input-to-itself", changed(("out + x", "x + x"))),
    ("layer-output-lost", changed(("out + x", "x"))),
    ("activates-carried-input", added(
        "out + F.gelu(x, approximate='tanh')")),
    ("adds-linear-output", added("out + layer[0](x)")),
    ("adds-every-earlier-input", loop(
        f"out = layer(x)\ntotal = total + x if total.shape == x.shape "
        f"else x\nif {COND}:\n    out = out + total\nx = out",
        before="total = torch.zeros_like(x)")),
    ("plain-path-missing", loop(
        f"out = layer(x)\nif {COND}:\n    x = out + x")),
    ("returns-after-first-layer", changed(
        ("            x = out\n        return x",
         "            x = out\n            return x"))),
    ("gradient-blocked", changed(("out + x", "out + x.detach()"))),
    ("gradient-blocked", changed(("out + x", "out.detach() + x"))),
    ("gradient-blocked", changed(
        ("    def forward", "    @torch.no_grad()\n    def forward"))),
    ("only-first-width", added("out + x").replace(
        COND, "self.use_shortcut and out.shape == first.shape == x.shape")),
    ("changes-layer-sizes", changed((INIT, """
        self.layers = nn.ModuleList()
        d_in = layer_sizes.pop(0)
        for d_out in layer_sizes:
            self.layers.append(nn.Sequential(nn.Linear(d_in, d_out), GELU()))
            d_in = d_out

"""))),
    ("returns-none", changed(("        return x\n", ""))),
    ("wrong-signature", changed((", use_shortcut):", "):"))),
]  # fmt: skip


@pytest.mark.parametrize(
    "name, source", WRONG, ids=[f"{n}-{i}" for i, (n, _) in enumerate(WRONG)]
)
def test_each_mistake_is_named(name, source):
    result = shortcut(made(source))
    assert (result.status, result.mistake) == ("failed", renamed(name)), result
    assert len(result.message) > 20


RIGHT_STYLES = {
    "solution": RIGHT,
    "comprehension": changed((INIT, """
        self.layers = nn.ModuleList([
            nn.Sequential(nn.Linear(a, b), GELU())
            for a, b in pairwise(layer_sizes)
        ])

""")),
    "indices, Sequential": changed((INIT, """
        n = len(layer_sizes) - 1
        self.layers = nn.Sequential(*[
            nn.Sequential(
                nn.Linear(layer_sizes[i], layer_sizes[i + 1]),
                nn.GELU(approximate="tanh"),
            ) for i in range(n)
        ])

""")),
    "exact GELU": changed(("GELU()", "nn.GELU()")),
    "activation in forward": changed(
        ("out = layer(x)", "out = F.gelu(layer(x), approximate='tanh')"),
        source=LINEARS),
    "one shared activation": changed(
        (INIT, INIT.replace("GELU()", "self.act")),
        ("super().__init__()", "super().__init__()\n"
         "        self.act = GELU()")),
    "else": loop(f"out = layer(x)\nif {COND}:\n    x = x + out\n"
                 "else:\n    x = out"),
    "in place on the output": loop(
        f"out = layer(x)\nif {COND}:\n    out += x\nx = out"),
    "torch.add": added("torch.add(out, x)"),
    "last axis": changed(("out.shape == x.shape",
                          "out.shape[-1] == x.shape[-1]")),
    "number of values": changed(("out.shape == x.shape",
                                 "out.numel() == x.numel()")),
    "decided in init": changed((INIT, INIT.rstrip() + """
        self.same = [a == b for a, b in pairwise(layer_sizes)]

"""), (LOOP, """
        for layer, same in zip(self.layers, self.same):
            out = layer(x)
            x = x + out if same and self.use_shortcut else out
        return x
""")),
    "own linear": changed(
        ("class My", """
class Step(nn.Linear):
    def __init__(self, d_in, d_out):
        super().__init__(d_in, d_out)
        self.gelu = GELU()

    def forward(self, x):
        return self.gelu(torch.einsum("bi,oi->bo", x, self.weight)
                         + self.bias)


class My"""),
        ("nn.Sequential(nn.Linear(d_in, d_out), GELU())",
         "Step(d_in, d_out)")),
    "copy of the input": loop(
        f"out = layer(x)\nif {COND}:\n    out = out + residual\n"
        "x = out\nresidual = x.clone()", before="residual = x.clone()"),
}  # fmt: skip


@pytest.mark.parametrize("style", RIGHT_STYLES)
def test_right_answers_pass(style):
    result = shortcut(made(RIGHT_STYLES[style]))
    assert result.status == "passed", result
    assert ("exact form" in result.message) == (style == "exact GELU")


def test_the_packages_network_passes_in_whatever_way_it_is_handed_over():
    network = gptlib.ExampleDeepNeuralNetwork
    assert shortcut(network).status == "passed"
    assert shortcut(partial(network)).status == "passed"
    assert shortcut(lambda a, b: network(a, b)).status == "passed"


RIGHT_STYLES |= {
    "subclass": "class MyShortcutNetwork(ExampleDeepNeuralNetwork):\n    pass",
    "a class for each layer": """
class Layer(nn.Module):
    def __init__(self, d_in, d_out, use_shortcut):
        super().__init__()
        self.linear, self.act = nn.Linear(d_in, d_out), GELU()
        self.adds = use_shortcut and d_in == d_out

    def forward(self, x):
        out = self.act(self.linear(x))
        return x + out if self.adds else out

class MyShortcutNetwork(nn.Module):
    def __init__(self, layer_sizes, use_shortcut):
        super().__init__()
        self.layers = nn.ModuleList(
            Layer(*pair, use_shortcut) for pair in pairwise(layer_sizes)
        )

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
""",
    "functional, early return": """
from functools import reduce
class MyShortcutNetwork(nn.Module):
    def __init__(self, sizes, flag=True):
        super().__init__()
        self.flag = flag
        self.layers = nn.ModuleList(
            [nn.Linear(i, o) for i, o in zip(sizes, sizes[1:])]
        )

    def step(self, x, layer):
        out = F.gelu(F.linear(x, layer.weight, layer.bias), approximate="tanh")
        if not self.flag or x.size(-1) != out.size(-1):
            return out
        return torch.add(x, out)

    def forward(self, inputs):
        return reduce(self.step, self.layers, inputs)
""",
    "one flat list": """
class MyShortcutNetwork(nn.Module):
    def __init__(self, layer_sizes, use_shortcut):
        super().__init__()
        self.use_shortcut = use_shortcut
        self.layers = nn.ModuleList()
        for k in range(1, len(layer_sizes)):
            self.layers += [nn.Linear(*layer_sizes[k - 1 : k + 1]), GELU()]

    def forward(self, x):
        for k in range(0, len(self.layers), 2):
            out = self.layers[k + 1](self.layers[k](x))
            if self.use_shortcut is True and out.shape == x.shape:
                out += x
            x = out
        return x
""",
    "recursion": changed((LOOP, """
            return self.run(0, x)

    def run(self, i, x):
        if i == len(self.layers):
            return x
        out = self.layers[i](x)
        linear = self.layers[i][0]
        if self.use_shortcut and linear.in_features == linear.out_features:
            out = out + x
        return self.run(i + 1, out)
""".replace("            return self.run(0", "        return self.run(0"))),
    "plain path apart": loop(
        f"{OUT}\nx = x + out if x.shape == out.shape else out",
        before="if not self.use_shortcut:\n"
        "    return nn.Sequential(*self.layers)(x)"),
}  # fmt: skip

# Written to slip through: wrong for a start, a size or an order of calls.
SLIPS = [
    ("start-differs", [("self.layers.append(nn.Sequential(nn.Linear("
                        "d_in, d_out), GELU()))",
                        "self.layers.insert(0, nn.Sequential(nn.Linear("
                        "d_in, d_out), GELU()))"),
                       ("zip(layer_sizes[:-1], layer_sizes[1:])",
                        "list(pairwise(layer_sizes))[::-1]")]),
    ("start-differs", [("    def f", "        for layer in self.layers:\n"
                        "            nn.init.zeros_(layer[0].bias)\n"
                        "    def f")]),
    *(("start-differs", [("super().__init__()",
                          f"super().__init__()\n        {line}")])
      for line in ("torch.manual_seed(123)", "x = torch.randn(1)")),
    ("only-some-sizes", [("in self.layers:", "in self.layers[:6]:")]),
    ("only-some-sizes", [("in self.layers:", "in self.layers[:30]:")]),
    ("only-some-sizes", [("== x.shape", "== x.shape and len(x) > 1")]),
    ("only-some-sizes", [("== x.shape", "== x.shape and x.shape[1] < 8")]),
    ("remembers-calls", [("self.use_shortcut = use_shortcut",
                          "type(self).use_shortcut = use_shortcut")]),
    *((name, [("self, x):\n", f"self, x):\n        {line}\n")])
      for name, line in [
          ("remembers-calls", "x = self.__dict__.setdefault('kept', x)"),
          ("mode-changed", "self.eval()"),
          ("gradients-turned-off", "torch.set_grad_enabled(False)"),
          ("dtype-fixed", "x = x.float()"),
          ("needs-contiguous",
           "x = torch.as_strided(x, x.shape, (x.shape[1], 1))"),
          ("device-fixed", "x = x + torch.zeros(x.shape)"),
      ]),
    ("gradient-detached", [("out + x", "out + x.data")]),
    ("forward-misspelt", [("def forward", "def foward")]),
    ("init-misspelt", [("def __init__", "def _init_")]),
    ("raise-left", [("super().__init__()", "super().__init__()\n"
                     "        raise NotImplementedError")]),
    ("raise-left", [("    return x\n",
                     "    raise NotImplementedError\n        return x\n")]),
]  # fmt: skip


@pytest.mark.parametrize(
    "name, pairs", SLIPS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(SLIPS)]
)
def test_what_tries_to_slip_through_is_named(name, pairs):
    result = shortcut(made(changed(*pairs)))
    assert (result.status, result.mistake) == ("failed", name), result
    assert len(result.message) < 500


HALF = [
    ("unfinished", (LOOP, "        raise NotImplementedError\n")),
    ("unfinished", (LOOP, "        ...\n")),
    ("unfinished", (LOOP, '        """Not yet."""\n')),
    ("forward-missing", ("    def forward(self, x):\n" + LOOP, "")),
]


@pytest.mark.parametrize("name, half", HALF)
def test_the_written_half_is_looked_at(name, half):
    assert shortcut(made(changed(half))).mistake == name
    for wrong, old, new in [
        ("bias-missing", "d_out)", "d_out, bias=False)"),
        ("layers-plain-list", "nn.ModuleList()", "[]"),
    ]:
        assert shortcut(made(changed(half, (old, new)))).mistake == wrong


STUBS = [
    "class MyShortcutNetwork(nn.Module):\n    pass",
    """
class MyShortcutNetwork(nn.Module):
    def __init__(self, layer_sizes, use_shortcut):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        raise NotImplementedError
""",
]


@pytest.mark.parametrize("source", STUBS)
def test_stubs_are_not_attempted(source):
    assert shortcut(made(source)).status == "not attempted"


def test_an_exception_names_its_line_and_cause():
    result = shortcut(made(changed(("out = layer(x)", "out = layers(x)"))))
    assert (result.status, result.mistake) == ("failed", "exception")
    assert "out = layers(x)" in result.message
    assert "NameError" in result.message


SUMMED = f"out = layer(x)\nif {COND}:\n    x = x + out"
RETURNED = [
    ("last-layer-skipped", f"{SUMMED}\nelse:\n    x = out"),
    ("sum-not-returned", SUMMED),
]


@pytest.mark.parametrize("name, body", RETURNED)
def test_a_returned_output_instead_of_the_sum_is_hinted_at(name, body):
    result = shortcut(made(loop(body).replace("return x\n", "return out\n")))
    assert result.mistake == name
    assert "the last layer's output instead of the sum" in result.message


@pytest.mark.parametrize(
    "name, words",
    [
        ("adds-where-shapes-differ", ["[5, 1]", "(3, 5)", "(3, 1)"]),
        ("overwrites-input", ["input itself has changed", "in place"]),
        ("always-plain", ["use_shortcut=True", "expected"]),
        ("concatenation", ["(3, 4)", "(3, 8)"]),
        ("layers-plain-list", ["list", "0 parameters"]),
    ],
)
def test_messages_hold_what_matters(name, words):
    source = next(source for n, source in WRONG if n == name)
    message = shortcut(made(source)).message
    assert [word for word in words if word not in message] == [], message
