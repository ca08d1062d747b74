"""The signal in any network, and thirty layers: right answers pass, each
wrong one is named as the mistake it is."""

import linecache
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gptlib
from classroom.checks import signal_per_layer, thirty_layers


def made(source, name):
    """What a cell with this source defines."""
    cell = {
        "torch": torch,
        "nn": nn,
        "F": F,
        "math": math,
        "gptlib": gptlib,
        "GELU": gptlib.GELU,
        "LayerNorm": gptlib.LayerNorm,
    }
    linecache.cache["cell"] = (len(source), None, source.splitlines(True), "")
    exec(compile(source, "cell", "exec"), cell)
    return cell[name]


def changed(source, *pairs):
    for old, new in pairs:
        assert old in source, old
        source = source.replace(old, new)
    return source


# --- signal_per_layer ----------------------------------------------------

SIGNAL = """
def my_signal_per_layer(model, x):
    inputs, x = [], x.clone().requires_grad_()
    handles = [
        layer.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
        for layer in model.layers
    ]
    loss = model(x).pow(2).mean()
    for handle in handles:
        handle.remove()
    gradients = torch.autograd.grad(loss, inputs)
    return [gradient.abs().mean().item() for gradient in gradients]
"""
RETAINED = """
def my_signal_per_layer(model, x):
    kept, handles = [], []
    before = [p.grad for p in model.parameters()]

    def keep(layer, args):
        args[0].retain_grad()
        kept.append(args[0])

    for layer in model.layers:
        handles.append(layer.register_forward_pre_hook(keep))
    x = x.detach().clone()
    x.requires_grad = True
    loss = (model(x) ** 2).mean()
    for p in model.parameters():
        p.grad = None
    loss.backward()
    for p, grad in zip(model.parameters(), before):
        p.grad = grad
    for handle in handles:
        handle.remove()
    return [float(torch.mean(torch.abs(t.grad))) for t in kept]
"""
TENSOR_HOOKS = """
def my_signal_per_layer(model, x):
    found = {}

    class Listener:
        def __init__(self, n):
            self.n = n

        def __call__(self, layer, args):
            def note(grad):
                found[self.n] = grad.abs().mean()
            args[0].register_hook(note)

    handles = [layer.register_forward_pre_hook(Listener(n))
               for n, layer in enumerate(model.layers)]
    inputs = x.clone().requires_grad_(True)
    y = model(inputs)
    torch.autograd.grad(F.mse_loss(y, torch.zeros_like(y)),
                        [*model.parameters(), inputs], allow_unused=True)
    [handle.remove() for handle in handles]
    return [found[n] for n in sorted(found)]
"""
FORWARD_HOOK = """
def my_signal_per_layer(model, x):
    seen = []
    def hook(module, inputs, output):
        seen.append(inputs[0])
    hooks = []
    for module in model.layers:
        hooks.append(module.register_forward_hook(hook))
    x = x + torch.zeros_like(x, requires_grad=True)
    out = model(x)
    while hooks:
        hooks.pop().remove()
    grads = torch.autograd.grad((out * out).sum() / out.numel(), seen)
    return torch.stack([g.abs().mean() for g in grads])
"""
COPIED = """
import copy
def my_signal_per_layer(model, x):
    model, x = copy.deepcopy(model), x.clone().requires_grad_()
    inputs = []
    for layer in model.layers:
        layer.register_forward_pre_hook(lambda m, a: inputs.append(a[0]))
    model(x).square().mean().backward(inputs=None, retain_graph=True)
    loss = model(x).square().mean()
    half = inputs[len(inputs) // 2 :]
    return tuple(g.abs().sum().item() / g.numel()
                 for g in torch.autograd.grad(loss, half))
"""
PATCHED = """
def my_signal_per_layer(model, x):
    inputs, olds = [], []
    for layer in model.layers:
        old = layer.forward
        olds.append(layer)
        def listen(value, old=old):
            inputs.append(value)
            return old(value)
        layer.forward = listen
    try:
        loss = model(x.clone().requires_grad_()).pow(2).mean()
    finally:
        for layer in olds:
            del layer.forward
    with torch.enable_grad():
        grads = torch.autograd.grad(loss, inputs)
    return list(map(lambda g: g.abs().mean().item(), grads))
"""
SIGNAL_STYLES = {
    "solution": SIGNAL,
    "retain_grad": RETAINED,
    "hooks on tensors": TENSOR_HOOKS,
    "forward hooks": FORWARD_HOOK,
    "a copy of the model": COPIED,
    "forward replaced": PATCHED,
}


@pytest.mark.parametrize("style", SIGNAL_STYLES)
def test_right_signals_pass(style):
    fn = made(SIGNAL_STYLES[style], "my_signal_per_layer")
    result = signal_per_layer(fn)
    assert result.status == "passed", result


MEAN = "gradient.abs().mean().item()"
HOOK = (
    "layer.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))"
)
BY_HAND = """
def my_signal_per_layer(model, x):
    inputs, x = [], x.clone().requires_grad_()
    for layer in model.layers:
        inputs.append(x)
        out = layer(x)
        x = x + out if model.use_shortcut and x.shape == out.shape else out
    gradients = torch.autograd.grad(x.pow(2).mean(), inputs)
    return [gradient.abs().mean().item() for gradient in gradients]
"""
BACKWARD_HOOK = """
def my_signal_per_layer(model, x):
    found = []
    handles = [layer.register_full_backward_hook(
        lambda m, into, out: found.append(into[0].abs().mean().item()))
        for layer in model.layers]
    loss = model(x.clone().requires_grad_()).pow(2).mean()
    torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    for handle in handles:
        handle.remove()
    return found[::-1]
"""
WRONG_SIGNALS = [
    ("abs-missing", [(MEAN, "gradient.mean().item()")]),
    ("not-the-mean", [(MEAN, "gradient.norm().item()")]),
    ("not-the-mean", [(MEAN, "gradient.abs().max().item()")]),
    ("outputs-not-inputs", [
        (HOOK, "layer.register_forward_hook("
               "lambda _, args, out: inputs.append(out))")]),
    ("values-not-gradients", [("in gradients]", "in inputs]")]),
    ("wrong-loss", [(".pow(2).mean()", ".pow(2).sum()")]),
    ("wrong-loss", [(".pow(2).mean()", ".sum()")]),
    ("reversed", [("in gradients]", "in reversed(gradients)]")]),
    ("share-not-signal", [
        (MEAN, "(gradient.abs().mean() / gradients[-1].abs().mean()).item()")
    ]),
    ("first-layer-missing", [("in model.layers\n", "in model.layers[1:]\n")]),
    ("last-layer-missing", [("in model.layers\n", "in model.layers[:-1]\n")]),
    ("one-example-only", [(MEAN, "gradient[0].abs().mean().item()")]),
    ("summed-before-abs", [(MEAN, "gradient.sum(0).abs().mean().item()")]),
    ("input-without-gradient", [(".requires_grad_()", "")]),
    ("input-marked", [("x.clone().requires_grad_()", "x.requires_grad_()")]),
    ("hooks-left", [("        handle.remove()", "        pass")]),
    ("hooks-left", [("in handles:", "in handles[1:]:")]),
    ("returns-none", [("    return [", "    [")]),
    ("wrong-type", [(f"[{MEAN} for gradient in gradients]",
                     "{n: g for n, g in enumerate(gradients)}")]),
    ("wrong-type", [(MEAN, "gradient")]),
    ("wrong-type", [(f"[{MEAN} for gradient in gradients]",
                     "sum(g.abs().mean().item() for g in gradients)")]),
    ("gradients-left", [("    gradients =",
                         "    loss.backward(retain_graph=True)\n"
                         "    gradients =")]),
    ("mode-changed", [("    loss =", "    model.eval()\n    loss =")]),
    ("weights-changed", [
        ("    return", "    with torch.no_grad():\n"
         "        next(model.parameters()).add_(1e-3)\n    return")]),
    ("input-overwritten", [
        ("inputs, x = [], x", "given, inputs, x = x, [], x"),
        ("    return", "    given.zero_()\n    return")]),
    ("gradients-turned-off", [
        ("    return", "    torch.set_grad_enabled(False)\n    return")]),
    ("forward-rewritten", [("abs().mean()", "abs().mean((0, 1))")]),
    ("forward-rewritten", [("in model.layers\n", "in model.layers[:5]\n")]),
]  # fmt: skip


@pytest.mark.parametrize("name, pairs", WRONG_SIGNALS)
def test_each_wrong_signal_is_named(name, pairs):
    fn = made(changed(SIGNAL, *pairs), "my_signal_per_layer")
    result = signal_per_layer(fn)
    assert (result.status, result.mistake) == ("failed", name), result
    assert len(result.message) < 700


@pytest.mark.parametrize(
    "name, source",
    [
        ("forward-rewritten", BY_HAND),
        ("joined-by-hand", BY_HAND.replace("model.use_shortcut", "True")),
        ("joined-by-hand", BY_HAND.replace("model.use_shortcut", "False")),
        ("branch-only", BACKWARD_HOOK),
        (
            "gradient-not-kept",
            changed(RETAINED, ("args[0].retain_grad()", "pass")),
        ),
        (
            "gradients-left",
            changed(RETAINED, ("        p.grad = grad", "        pass")),
        ),
        ("weights-gradients", """
def my_signal_per_layer(model, x):
    return list(gptlib.gradient_means(model, x).values())
"""),
        ("model-changed", changed(
            SIGNAL,
            ("layer.register_forward_pre_hook(lambda _, args: "
             "inputs.append(args[0]))",
             "setattr(layer, 'forward', lambda a, old=layer.forward: "
             "(inputs.append(a), old(a))[1])"),
            ("        handle.remove()", "        pass"))),
        ("remembers-calls", """
inputs = []
"""
         + changed(SIGNAL, ("inputs, x = [], x", "x = x"),
                   ("    gradients =", "    if len(inputs) > len(handles):\n"
                    "        del inputs[len(handles):]\n    gradients ="))
         .replace("def my", "def my", 1)),
    ],
)  # fmt: skip
def test_each_other_wrong_signal_is_named(name, source):
    result = signal_per_layer(made(source, "my_signal_per_layer"))
    if name == "remembers-calls":
        assert result.status == "failed", result
        return
    assert (result.status, result.mistake) == ("failed", name), result


@pytest.mark.parametrize(
    "name, words, pairs",
    [
        ("not-in-graph", "a copy of what", [("args[0])", "args[0].clone())")]),
        ("not-in-graph", "another run", [
            ("model(x).pow(2).mean()",
             "F.mse_loss(model(x), 0 * model(x).detach())")]),
        ("tuple-kept", "in a tuple", [("args[0])", "args)")]),
        ("hook-called-otherwise", "with two values", [("_, args", "args")]),
        ("hook-called-otherwise", "with three", [("_pre_hook", "_hook")]),
        ("graph-used-up", "one walk", [
            ("torch.autograd.grad(loss, inputs)",
             "[torch.autograd.grad(loss, i)[0] for i in inputs]")]),
    ],
)  # fmt: skip
def test_what_stops_the_signal_is_told(name, words, pairs):
    fn = made(changed(SIGNAL, *pairs), "my_signal_per_layer")
    result = signal_per_layer(fn)
    assert (result.status, result.mistake) == ("failed", name), result
    assert words in result.message and len(result.message) < 450


# --- thirty_layers -------------------------------------------------------

THIRTY = """
class MyThirtyLayers(nn.Module):
    def __init__(self, width, depth=30):
        super().__init__()
        self.layers = nn.ModuleList()
        for _ in range(depth):
            linear = nn.Linear(width, width)
            with torch.no_grad():
                linear.weight /= depth**0.5
                linear.bias /= depth**0.5
            norm = gptlib.LayerNorm(width)
            self.layers.append(nn.Sequential(norm, linear, GELU()))
        self.final_norm = gptlib.LayerNorm(width)
        self.out_head = nn.Linear(width, 1)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.out_head(self.final_norm(x))
"""
DIVIDED = """                linear.weight /= depth**0.5
                linear.bias /= depth**0.5
"""
BLOCKS = """
class Block(nn.Module):
    def __init__(self, width, factor):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        for p in self.linear.parameters():
            p.data.mul_(factor)

    def forward(self, x):
        return x + F.gelu(self.linear(self.norm(x)), approximate="tanh")

class MyThirtyLayers(nn.Module):
    def __init__(self, width, depth=30):
        super().__init__()
        factor = 1 / math.sqrt(depth)
        self.layers = nn.Sequential(
            *[Block(width, factor) for _ in range(depth)])
        self.final_norm = nn.LayerNorm(width)
        self.out_head = nn.Linear(width, 1)

    def forward(self, x):
        return self.out_head(self.final_norm(self.layers(x)))
"""
FLAT = """
class MyThirtyLayers(nn.Module):
    def __init__(self, w, d=30):
        super().__init__()
        parts = []
        for _ in range(d):
            parts += [LayerNorm(w), nn.Linear(w, w), nn.GELU()]
        self.layers = nn.ModuleList(parts)
        self.out_head = nn.Linear(w, 1)
        self.final_norm = LayerNorm(w)
        with torch.no_grad():
            for part in self.layers:
                if isinstance(part, nn.Linear):
                    part.weight.copy_(part.weight / d ** .5)
                    part.bias.copy_(part.bias / d ** .5)

    def forward(self, x):
        for n in range(0, len(self.layers), 3):
            branch = x
            for part in self.layers[n : n + 3]:
                branch = part(branch)
            x = branch + x
        x = self.final_norm(x)
        return self.out_head(x)
"""
APPLIED = changed(
    THIRTY,
    (f"            with torch.no_grad():\n{DIVIDED}", ""),
    ("        self.final_norm = ", """        self.layers.apply(self.shrink)
        self.final_norm = """),
    ("    def forward", """    @torch.no_grad()
    def shrink(self, part):
        if isinstance(part, nn.Linear):
            n = len(self.layers)
            part.weight.div_(math.sqrt(n))
            part.bias.div_(math.sqrt(n))

    def forward"""),
)  # fmt: skip
DRAWN = changed(
    THIRTY,
    (DIVIDED, """                reach = 1 / math.sqrt(width * depth)
                linear.weight.uniform_(-reach, reach)
                linear.bias.uniform_(-reach, reach)
"""),
)  # fmt: skip
SUBCLASS = """
class Small(nn.Linear):
    def reset_parameters(self):
        super().reset_parameters()
        if self.n:
            with torch.no_grad():
                self.weight /= self.n ** 0.5
                self.bias /= self.n ** 0.5

    def __init__(self, width, n):
        self.__dict__["n"] = n
        nn.Module.__init__(self)
        self.__dict__["n"] = n
        super().__init__(width, width)

class MyThirtyLayers(nn.Module):
    def __init__(self, width, depth=30):
        super().__init__()
        make = lambda: nn.Sequential(
            LayerNorm(width), nn.Linear(width, width), GELU())
        self.layers = nn.ModuleList([make() for _ in range(depth)])
        for name, p in self.layers.named_parameters():
            if "1." in name[name.index("."):]:
                p.data = p.data / math.sqrt(depth)
        self.final_norm = LayerNorm(width)
        self.out_head = nn.Linear(width, 1)

    def forward(self, x, n=0):
        if n == len(self.layers):
            return self.out_head(self.final_norm(x))
        return self.forward(torch.add(x, self.layers[n](x)), n + 1)
"""
THIRTY_STYLES = {
    "solution": THIRTY,
    "a class for each layer": BLOCKS,
    "one flat list": FLAT,
    "apply": APPLIED,
    "drawn anew": DRAWN,
    "by name, recursion": SUBCLASS,
    "residual kept": changed(
        THIRTY, ("x = x + layer(x)", "kept = x\n            x = layer(x)\n"
                 "            x = x + kept")),
    "exact GELU": changed(THIRTY, ("GELU()", "nn.GELU()")),
}  # fmt: skip


@pytest.mark.parametrize("style", THIRTY_STYLES)
def test_right_layers_pass(style):
    result = thirty_layers(made(THIRTY_STYLES[style], "MyThirtyLayers"))
    assert result.status == "passed", result
    assert "0.62 to 1.46" in result.message or style == "drawn anew"


ADD = "x = x + layer(x)"
WRONG_LAYERS = [
    ("not-divided", [(DIVIDED, "                pass\n")]),
    ("not-divided", [("                linear.bias /= depth**0.5\n", "")]),
    ("divided-by-depth", [("depth**0.5", "depth")]),
    ("divided-by-2n", [("depth**0.5", "(2 * depth)**0.5")]),
    ("depth-ignored", [("depth**0.5", "30**0.5")]),
    ("divided-by-width", [("depth**0.5", "width**0.5")]),
    ("multiplied", [("/= depth", "*= depth")]),
    ("head-divided", [("    def forward", "        with torch.no_grad():\n"
                       "            self.out_head.weight /= depth**0.5\n"
                       "            self.out_head.bias /= depth**0.5\n\n"
                       "    def forward")]),
    ("start-differs", [("            norm =", "            if _ == 0:\n"
                        "                linear.weight.data /= 2\n"
                        "            norm =")]),
    ("divided-in-forward", [
        (ADD, "x = x + layer(x) / len(self.layers)**0.5")]),
    ("shortcut-missing", [(ADD, "x = layer(x)")]),
    ("carries-normalized-input", [(ADD, "x = layer[0](x)\n"
                                   "            x = x + layer[1:](x)")]),
    ("norm-after-addition", [(ADD, "x = layer[0](x + layer[1:](x))")]),
    ("norm-after-branch", [("(norm, linear, GELU())",
                            "(linear, GELU(), norm)")]),
    ("norm-between", [("(norm, linear, GELU())", "(linear, norm, GELU())")]),
    ("part-missing", [("(norm, linear, GELU())", "(linear, GELU())")]),
    ("norm-missing", [(ADD, "x = x + layer[1:](x)")]),
    ("final-norm-missing", [("self.out_head(self.final_norm(x))",
                             "self.out_head(x)")]),
    ("final-norm-missing", [("        self.final_norm = gptlib.LayerNorm("
                             "width)\n", ""),
                            ("self.final_norm(x)", "x")]),
    ("activation-missing", [(", GELU())", ")")]),
    ("wrong-activation", [("GELU()", "nn.ReLU()")]),
    ("activation-on-head", [("return self.out_head(self.final_norm(x))",
                             "return GELU()(self.out_head("
                             "self.final_norm(x)))")]),
    ("last-layer-skipped", [("in self.layers:", "in self.layers[:-1]:"),
                            ("        return self.out_head(",
                             "        x = self.layers[-1](x)\n"
                             "        return self.out_head(")]),
    ("activation-before-linear", [("(norm, linear, GELU())",
                                   "(norm, GELU(), linear)")]),
    ("sum-divided", [(ADD, "x = (x + layer(x)) / 2")]),
    ("adds-network-input", [(ADD, "x = first + layer(x)"),
                            ("        for layer", "        first = x\n"
                             "        for layer")]),
    ("wrong-number-of-layers", [("range(depth)", "range(depth - 1)")]),
    ("wrong-number-of-layers", [("range(depth)", "range(30)")]),
    ("wrong-number-of-layers", [
        ("        for _ in range(depth):\n            linear",
         "        norm = gptlib.LayerNorm(width)\n"
         "        for _ in range(depth):\n            linear"),
        ("            norm = gptlib.LayerNorm(width)\n", "")]),
    ("layers-plain-list", [("nn.ModuleList()", "[]")]),
    ("layers-alike", [("        self.final_norm =",
                       "        for layer in self.layers:\n"
                       "            layer.load_state_dict("
                       "self.layers[0].state_dict())\n"
                       "        self.final_norm =")]),
    ("seed-set", [("super().__init__()", "super().__init__()\n"
                   "        torch.manual_seed(1)")]),
    ("defaults-missing", [("depth=30", "depth=12")]),
    ("wrong-signature", [(", depth=30", ""), ("depth", "30")]),
    ("bias-missing", [("(width, width)\n", "(width, width, bias=False)\n"),
                      ("                linear.bias /= depth**0.5\n", "")]),
    ("input-overwritten", [(ADD, "x += layer(x)")]),
    ("forward-misspelt", [("def forward", "def foward")]),
    ("gradient-detached", [(ADD, "x = x.detach() + layer(x)")]),
    ("wrong-widths", [("nn.Linear(width, 1)", "nn.Linear(width, width)")]),
    ("wrong-name", [("final_norm", "norm")]),
    ("out-head-missing", [("        self.out_head = nn.Linear(width, 1)\n",
                           ""), ("self.out_head(self.final_norm(x))",
                                 "self.final_norm(x)")]),
]  # fmt: skip


@pytest.mark.parametrize("name, pairs", WRONG_LAYERS)
def test_each_wrong_stack_is_named(name, pairs):
    result = thirty_layers(made(changed(THIRTY, *pairs), "MyThirtyLayers"))
    assert (result.status, result.mistake) == ("failed", name), result
    assert len(result.message) < 600


# Written to slip through.
SLIPS = [
    ("forward-rewritten", SIGNAL, [("layer.register", "layer[0].register")]),
    ("wrong-values", SIGNAL, [(MEAN, f"round({MEAN}, 4)")]),
    ("exception", SIGNAL, [("model(x)", "model(x.double())")]),
    ("forward-rewritten", SIGNAL, [
        ("model(x)", "model(x.reshape(-1, x.shape[-1]))"),
        (MEAN, f"{MEAN} if x.dim() == 2 else 0.0")]),
    ("part-missing", THIRTY, [("final_norm = gptlib.LayerNorm(width)",
                               "final_norm = nn.Identity()")]),
    ("norm-incomplete", THIRTY, [("norm = gptlib.LayerNorm(width)",
                                  "norm = nn.RMSNorm(width)")]),
    ("weights-changed", THIRTY, [
        (ADD, f"layer[1].weight.data *= 0.99\n            {ADD}")]),
    ("shape-dependent", THIRTY, [
        (ADD, "x = x + (layer(x) if len(x) > 1 else 0)")]),
    ("mode-dependent", THIRTY, [
        ("linear, GELU()", "linear, GELU(), nn.Dropout(0.1)")]),
    ("dtype-fixed", THIRTY, [("        for layer in self.layers:\n",
                              "        x = x.float()\n"
                              "        for layer in self.layers:\n")]),
    ("wrong-values", THIRTY, [(ADD, "x = x + 0.9 * layer(x)")]),
    ("start-differs", THIRTY, [
        (DIVIDED, "                nn.init.normal_(linear.weight, std=0.02)\n"
         "                linear.bias.zero_()\n")]),
    ("start-differs", THIRTY, [  # only the first layer's is the usual one
        ("for _ in", "for i in"), ("depth**0.5", "(i + 1) ** 0.5")]),
    ("part-missing", THIRTY, [
        ("norm = gptlib.LayerNorm(width)",
         "norm = nn.LayerNorm(width, elementwise_affine=False)")]),
    ("norm-start-differs", THIRTY, [
        (DIVIDED, DIVIDED.replace("bias /=", "bias /=") +
         "                self.layers.apply(lambda m: None)\n"),
        ("            self.layers.append",
         "            nn.init.ones_(norm.shift)\n"
         "            self.layers.append")]),
    ("raise-left", THIRTY, [("        return self.out",
                             "        raise NotImplementedError\n"
                             "        return self.out")]),
    ("not-a-class", THIRTY + "MyThirtyLayers = MyThirtyLayers(4)\n", []),
]  # fmt: skip


@pytest.mark.parametrize("name, source, pairs", SLIPS)
def test_what_tries_to_slip_through_is_named(name, source, pairs):
    stack = "MyThirty" in source
    answer = "MyThirtyLayers" if stack else "my_signal_per_layer"
    check = thirty_layers if stack else signal_per_layer
    result = check(made(changed(source, *pairs), answer))
    assert (result.status, result.mistake) == ("failed", name), result


def test_a_right_stack_is_told_what_its_contributions_add_up_to():
    message = thirty_layers(made(THIRTY, "MyThirtyLayers")).message
    assert "6.3 times as large as one of them" in message
    assert "undivided, 12.1 times" in message


def test_a_divided_norm_leads_to_what_is_divided():
    append = "            self.layers.append"
    more = "            norm.scale.data /= depth**0.5\n"
    source = changed(THIRTY, (append, more + append))
    result = thirty_layers(made(source, "MyThirtyLayers"))
    assert result.mistake == "norm-start-differs"
    assert "Do you divide more than the Linears?" in result.message


def test_stubs_are_not_attempted():
    head = "def my_signal_per_layer(model, x):\n    "
    for body in ("raise NotImplementedError", "...", "pass"):
        fn = made(head + body, "my_signal_per_layer")
        assert signal_per_layer(fn).status == "not attempted"
    stub = """
class MyThirtyLayers(nn.Module):
    def __init__(self, width, depth=30):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        raise NotImplementedError
"""
    assert thirty_layers(made(stub, "MyThirtyLayers")).status == (
        "not attempted"
    )


def test_messages_hold_what_was_seen_and_not_the_answer():
    source = changed(THIRTY, ("depth**0.5", "depth"))
    message = thirty_layers(made(source, "MyThirtyLayers")).message
    for number in ("width 16 and depth 5", "0.25", "0.1118", "0.04996"):
        assert number in message
    source = changed(SIGNAL, ("in gradients]", "in inputs]"))
    message = signal_per_layer(made(source, "my_signal_per_layer")).message
    assert "0.667" in message and "0.000116" in message
