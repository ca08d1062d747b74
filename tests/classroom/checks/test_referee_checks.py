"""The check of notebook 05's referee knows right layers and wrong ones."""

import copy
import re
import textwrap

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from classroom.checks.referee import torch_referee

LAYER = """
att, d = block.att, block.norm1.scale.numel()
layer = nn.TransformerEncoderLayer(
    d, att.num_heads, dim_feedforward=4 * d,
    activation=nn.GELU(approximate="tanh"), batch_first=True, norm_first=True,
)
"""
COPY = """
with torch.no_grad():
    theirs = layer.self_attn
    qkv = att.W_query, att.W_key, att.W_value
    theirs.in_proj_weight.copy_(torch.cat([w.weight for w in qkv]))
    if qkv[0].bias is not None:
        theirs.in_proj_bias.copy_(torch.cat([w.bias for w in qkv]))
    theirs.out_proj.weight.copy_(att.out_proj.weight)
    theirs.out_proj.bias.copy_(att.out_proj.bias)
    layer.linear1.load_state_dict(block.ff.layers[0].state_dict())
    layer.linear2.load_state_dict(block.ff.layers[2].state_dict())
    for own, norm in (layer.norm1, block.norm1), (layer.norm2, block.norm2):
        own.weight.copy_(norm.scale)
        own.bias.copy_(norm.shift)
"""
MASK = """
mask = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
return layer, mask
"""
RIGHT = LAYER + COPY + MASK


def made(code, before=""):
    """A learner's function with this body."""
    body = textwrap.indent(textwrap.dedent(code), "    ")
    scope = {"torch": torch, "nn": nn, "F": F, "copy": copy}
    code = f"{before}\ndef my_torch_layer(block, tokens):\n{body}\n"
    exec(compile(code, "<cell>", "exec"), scope)
    return scope["my_torch_layer"]


def changed(old, new, code=RIGHT):
    assert old in code
    return made(code.replace(old, new))


OWN_CLASS = """
class Layer(nn.TransformerEncoderLayer):
    def __init__(self, block):
        d = len(block.norm1.scale)
        super().__init__(
            d, block.att.num_heads, 4 * d, 0.0, block.ff.layers[1],
            batch_first=True, norm_first=True,
        )
        self.linear1, self.linear2 = block.ff.layers[0], block.ff.layers[2]
        self.take(block.att)
        for name in ("norm1", "norm2"):
            mine, other = getattr(self, name), getattr(block, name)
            mine.weight, mine.bias = other.scale, other.shift

    def take(self, att):
        own = self.self_attn
        own.out_proj.weight = att.out_proj.weight
        own.out_proj.bias = att.out_proj.bias
        layers = att.W_query, att.W_key, att.W_value
        own.in_proj_weight.data = torch.vstack([w.weight for w in layers])
        if layers[0].bias is not None:
            own.in_proj_bias.data = torch.hstack([w.bias for w in layers])
"""
ROW_BY_ROW = """
rows = []
for row in range(tokens):
    rows.append([col > row for col in range(tokens)])
return [layer, torch.tensor(rows)]
"""
SLICES = COPY.replace(
    "theirs.in_proj_weight.copy_(torch.cat([w.weight for w in qkv]))",
    "for n, w in enumerate(qkv):\n"
    "        theirs.in_proj_weight[n * d:(n + 1) * d] = w.weight",
)
RIGHT_ANSWERS = {
    "copy_": made(RIGHT),
    "shared parameters, own class": made(
        "return Layer(block), torch.ones(tokens, tokens).triu(1) > 0",
        OWN_CLASS,
    ),
    "mask of floats": changed(
        MASK,
        "\nreturn layer, nn.Transformer.generate_square_subsequent_mask("
        "tokens)\n",
    ),
    "large negative numbers": changed(
        "mask = ", "mask = -1e9 * ", RIGHT.replace("dtype=torch.bool", "")
    ),
    "a list, a mask by loops": made(LAYER + COPY + ROW_BY_ROW),
    "slices": made(LAYER + SLICES + MASK),
    "functional activation": changed(
        'nn.GELU(approximate="tanh")',
        "lambda x: F.gelu(x, approximate='tanh')",
    ),
    "double and back, in evaluation, frozen": changed(
        "return layer, mask",
        "layer = layer.double().float().eval().requires_grad_(False)\n"
        "return layer, mask",
    ),
    "deep copies": changed(
        "layer.linear1.load_state_dict(block.ff.layers[0].state_dict())",
        "layer.linear1 = copy.deepcopy(block.ff.layers[0])",
    ),
    "kept layers": made(
        "if block not in KEPT:\n"
        f"{textwrap.indent(LAYER + COPY, '    ')}\n"
        "    KEPT[block] = layer\n"
        "layer = KEPT[block]\n" + MASK,
        "KEPT = {}",
    ),
}


@pytest.mark.parametrize("style", RIGHT_ANSWERS)
def test_right_answers_pass(style):
    result = torch_referee(RIGHT_ANSWERS[style])
    assert result.status == "passed", result


OWN_FORWARD = """
class Layer(nn.TransformerEncoderLayer):
    def forward(self, x, src_mask=None):
        return self.block[0](x)
"""
WRONG = [
    ("feed-forward-width", changed("dim_feedforward=4 * d,", "")),
    ("other-activation", changed('nn.GELU(approximate="tanh")', '"gelu"')),
    ("bias-is-none", changed("if qkv[0].bias is not None", "if True")),
    ("weights-not-copied", made(LAYER + MASK)),
    ("weights-not-copied", changed("(layer.norm2, block.norm2)",
                                   "(layer.norm2, block.norm1)")),
    ("weights-not-copied", changed("own.bias.copy_(norm.shift)",
                                   "own.bias.copy_(norm.scale)")),
    ("weights-not-copied", changed("if qkv[0].bias is not None", "if False")),
    ("qkv-order", changed("att.W_query, att.W_key, att.W_value",
                          "att.W_value, att.W_key, att.W_query")),
    ("transposed", changed("copy_(att.out_proj.weight)",
                           "copy_(att.out_proj.weight.T)")),
    ("norms-swapped", changed(
        "(layer.norm1, block.norm1), (layer.norm2, block.norm2)",
        "(layer.norm1, block.norm2), (layer.norm2, block.norm1)")),
    ("mask-shape", changed("(tokens, tokens, dtype", "(5, 5, dtype")),
    ("mask-shape", changed("return layer, mask", "return layer, tokens")),
    ("mask-off-by-one", changed("triu(1)", "triu()")),
    ("mask-added", changed("dtype=torch.bool", "dtype=torch.int64")),
    ("mask-wrong", changed("return", "mask[-1, 0] = tokens > 5\nreturn")),
    ("heads-not-handed-on", changed("att.num_heads", "3")),
    ("block-changed", changed("own.weight.copy_(norm.scale)",
                              "norm.scale.copy_(own.weight)")),
    ("no-referee", made(
        "layer = Layer(len(block.norm1.scale), block.att.num_heads)\n"
        "layer.block = [block]\n" + MASK, OWN_FORWARD)),
    ("no-referee", changed("return", "layer.register_forward_hook("
                           "lambda m, x, y: block(x[0]))\nreturn")),
    ("no-referee", changed("return", "layer.forward = lambda x, src_mask: "
                           "block(x)\nreturn")),
    ("other-layer", made("return block, None")),
    ("other-layer", changed("return layer, mask", "return mask, layer")),
    ("not-a-pair", changed("return layer, mask", "return layer")),
    ("returns-none", changed("return layer, mask", "layer, mask")),
    ("post-norm", changed(", norm_first=True", "")),
    ("copied-with-gradients", changed("with torch.no_grad():", "if True:")),
    ("sizes-differ", changed("dim_feedforward=4 * d", "dim_feedforward=99")),
    ("sizes-differ", made(LAYER + "layer.norm1.load_state_dict("
                          "dict(weight=torch.ones(7), bias=torch.ones(7)))")),
    ("names-differ", made(LAYER + "layer.load_state_dict("
                          "block.state_dict())\n" + MASK)),
    ("names-missing", made(LAYER + "layer.load_state_dict({})\n" + MASK)),
    ("sizes-differ", made(LAYER + "layer.load_state_dict(dict(zip(layer."
                          "state_dict(), block.parameters())))\n" + MASK)),
    ("wrong-arguments", changed("att.num_heads,", "")),
    ("bias-is-none", changed("copy_(att.out_proj.bias)",
                             "copy_(att.W_query.bias.detach())")),
    ("bias-is-none", changed("norm_first=True", "norm_first=True, "
                             "bias=False")),
    ("other-type", changed("return layer", "return layer.double()")),
    ("mask-shape", changed("return layer, mask", "return layer, "
                           "mask.numpy()")),
    ("other-type", changed("return layer, mask", "return layer, "
                           "torch.zeros(mask.shape).double().masked_fill("
                           "mask, -torch.inf)")),
    ("mask-not-zero", changed("return layer, mask", "return layer, "
                              "torch.eye(tokens).masked_fill(mask, "
                              "-torch.inf)")),
    ("mask-not-zero", changed("mask = torch.ones(tokens, tokens, dtype="
                              "torch.bool).triu(1)",
                              "mask = torch.ones(tokens, tokens).triu(1) * "
                              "-torch.inf")),
    ("wrong-values", changed("return",
                             "layer.norm1.forward = lambda x: x\nreturn")),
]  # fmt: skip


@pytest.mark.parametrize("name, answer", WRONG)
def test_wrong_answers(name, answer):
    result = torch_referee(answer)
    assert (result.status, result.mistake) == ("failed", name), result
    assert len(result.message) > 40


def test_what_an_activation_turns_a_number_into():
    message = torch_referee(dict(WRONG)["other-activation"]).message
    number = r"-?\d+\.\d+"
    told = f"turns {number} into {number}; the block's into {number}\\."
    assert re.search(f"activation {told}", message), message


def test_a_right_layer_for_one_kind_of_biases_alone():
    message = torch_referee(WRONG[6][1]).message
    assert message.startswith("Right for a block with emb_dim=15, n_heads=3, ")
    assert "qkv_bias=True" in message and "in_proj_bias" in message


def test_not_attempted_and_wrong_signature():
    stub = made("raise NotImplementedError")
    assert torch_referee(stub).status == "not attempted"
    assert torch_referee(lambda block: block).mistake == "wrong-signature"


def test_an_error_of_the_learners_own():
    result = torch_referee(made("return undefined"))
    assert result.mistake == "exception" and "undefined" in result.message
