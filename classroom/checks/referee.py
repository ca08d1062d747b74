"""Check of notebook 05: the block against the layer that torch has.

What torch's layer computes is settled by its settings, its weights and the
mask. So where an output is wrong, these are looked at one after the other,
and what is named has been seen.
"""

import copy
from itertools import permutations

import torch
from torch import nn

from classroom.checks.edits import Task, known
from classroom.checks.functions import check_signature, returned
from classroom.checks.guard import exercise
from classroom.checks.modules import randomized
from classroom.checks.result import Mistake
from classroom.checks.tensors import difference, number, same
from gptlib import TransformerBlock

# Odd sizes: width, heads, context length, biases; then the lengths of texts.
CASES = [
    ((15, 3, 9, False), (5, 9, 1)),
    ((15, 3, 9, True), (2,)),
    ((20, 4, 7, False), (7,)),
    ((6, 1, 3, True), (3,)),
]
OWN = "forward", "_sa_block", "_ff_block"  # what makes it torch's layer


def torch_layer(block, tokens):
    att, width = block.att, len(block.norm1.scale)
    order = att.W_query, att.W_key, att.W_value
    weight = torch.cat([part.weight for part in order])
    bias = torch.cat([_bias(part) for part in order])
    layer = nn.TransformerEncoderLayer(
        width, att.num_heads, 4 * width, activation=nn.GELU("tanh"),
        batch_first=True, norm_first=True, layer_norm_eps=1e-5,
    )  # fmt: skip
    out, (wide, _, narrow) = att.out_proj, block.ff.layers
    one, two = block.norm1, block.norm2
    values = [
        weight, bias, out.weight, out.bias,
        wide.weight, wide.bias, narrow.weight, narrow.bias,
        one.scale, one.shift, two.scale, two.shift,
    ]  # fmt: skip
    layer.load_state_dict(dict(zip(layer.state_dict(), values, strict=True)))
    mask = torch.ones(tokens, tokens).bool().triu(diagonal=1)
    return layer, mask


def _bias(part):
    width = len(part.weight)
    return torch.zeros(width) if part.bias is None else part.bias


MISTAKES = [
    known("post-norm", "GPT-2's block is pre-norm.",
          {"norm_first=True": "norm_first=False"}),
    known("batch-axis", "Your layer takes the first axis for the tokens; "
          "here it is the batch.",
          {"batch_first=True": "batch_first=False"}),
    known("other-activation", "Which GELU does GPT-2 use, and what is the "
          "default of this layer?",
          {'nn.GELU("tanh")': "nn.GELU()"}, {'nn.GELU("tanh")': "nn.ReLU()"}),
    known("heads-not-handed-on", "Where does a block keep that number?",
          {"att.num_heads": "1"}, {"att.num_heads": "width"}),
    known("other-eps", "gptlib's norms use 1e-5, as GPT-2 does.",
          {"eps=1e-5": "eps=1e-2"}),
    known("other-type", "The block's weights are torch.float32.",
          {"return layer,": "return layer.half(),"},
          {"return layer,": "return layer.double(),"}),
    known("mask-missing", "With it, every token sees the later ones.",
          {"mask = ": "mask = 0 * "}, {"mask = ": "mask = None and "}),
    known("mask-inverted", "In this layer, what does True mean? Its help "
          "tells you.",
          {".triu(diagonal=1)": ".tril()"}),
    known("mask-backwards", "It hides the earlier tokens and shows the later "
          "ones.",
          {".triu(diagonal=1)": ".tril(diagonal=-1)"}),
    known("mask-off-by-one", "A token sees itself and all earlier ones. "
          "Where does the mask start?",
          {"diagonal=1": "diagonal=0"}, {"diagonal=1": "diagonal=2"}),
    known("mask-wrong", "A token sees itself and all earlier ones.",
          {"mask = ": "mask = torch.eye(tokens) == 0 * "}),
    known("mask-added", "A mask holds True and False, or floats that are "
          "added to the scores. What must a float be where a token is hidden?",
          {".bool()": ""}, {".bool()": ".mul(-1.0)"}),
    known("mask-not-zero", "A float is added to a score: 0 leaves it as it "
          "is, -inf hides the token. (0 * inf is nan.)",
          {".bool().triu(diagonal=1)": ".triu(diagonal=1) * -torch.inf"}),
    known("qkv-order", "The task says how they are stacked.",
          {"att.W_query, att.W_key": "att.W_key, att.W_query"},
          {"att.W_key, att.W_value": "att.W_value, att.W_key"}),
    known("transposed", "Both kinds of layer keep (out, in).",
          {"weight, bias, out.weight": "weight, bias, out.weight.T"},
          {"[part.weight for": "[part.weight.T for"}),
    known("norms-swapped", "Which norm stands before attention?",
          {"one, two =": "two, one ="}),
    known("weights-not-copied", "Is each of the block's weights copied to its "
          "own place?",
          {"weight, bias, out": "weight, 0 * bias, out"},
          {"out.weight, out.bias": "out.weight, 0 * out.bias"},
          {"two.scale, two.shift": "two.shift, two.scale"},
          {"wide.bias, narrow": "0 * wide.bias, narrow"},
          {"two.scale, two.shift": "one.scale, one.shift"}),
]  # fmt: skip
SAYS = {mistake.name: mistake.says for mistake in MISTAKES}
REFEREE = Task(torch_layer, MISTAKES, lambda solve: solve)


@exercise(
    "Compare the defaults that help(nn.TransformerEncoderLayer) lists with "
    "the block: the place of the norm, the activation, the meaning of the "
    "first axis, the width of the feed-forward network.",
    "Print name and shape of everything in layer.state_dict() beside that of "
    "block.state_dict(). One matrix of the layer is three of the block's on "
    "top of each other; a bias that the block lacks can be zeros.",
    "norm_first, batch_first, dim_feedforward and activation need another "
    "value than the default: nn.GELU(approximate='tanh') is GPT-2's. "
    "torch.cat stacks the three matrices. In a mask of True and False, True "
    "hides.",
    task=REFEREE,
)
def torch_referee(answer):
    """Same output, for fresh weights, odd sizes, both kinds of biases."""
    check_signature(
        answer, nn.Module(), 5, call="my_torch_layer(block, tokens)"
    )
    before = ""
    for sizes, lengths in CASES:
        block = _block(*sizes)
        for tokens in lengths:
            for texts in (2, tokens):
                _compare(answer, block, tokens, texts, before)
            before = f"Right for {_told(block)}, tokens={tokens}. "
    return (
        "torch's own layer agrees with the block: with its weights, it gives "
        "the same output to within rounding, at three widths, with and "
        "without query, key and value biases, for texts of 1 to 9 tokens. "
        "Two independent programs now say what a pre-norm block computes."
    )


def _block(width, heads, length, bias):
    """With fresh random weights."""
    cfg = {
        "vocab_size": 11,
        "context_length": length,
        "emb_dim": width,
        "n_heads": heads,
        "n_layers": 2,
        "drop_rate": 0.2,
        "qkv_bias": bias,
    }
    return randomized(TransformerBlock(cfg)).eval()


def _compare(answer, block, tokens, texts, before):
    width = len(block.norm1.scale)
    x = torch.randn(texts, tokens, width)
    expected, given = block(x).detach(), copy.deepcopy(block)
    layer, mask = _pair(answer, given, tokens)
    _check_unchanged(block, given)
    output = _called(layer.eval(), x.clone(), mask)
    if same(output, expected):
        return
    seen = (
        f"For x of shape {tuple(x.shape)} and {_told(block)}: "
        f"{difference(output, expected)} "
    )
    for look in (_look_at_settings, _look_at_mask, _look_at_weights):
        if told := look(layer, mask, block, tokens):
            name, fact = told
            raise Mistake(name, f"{before}{seen}{fact} {SAYS[name]}")
    if isinstance(output, Exception):
        raise output
    raise Mistake(
        "wrong-values",
        f"{before}{seen}Settings, weights and mask are the block's, so what "
        "else does your layer do?",
    )


def _called(layer, x, mask):
    """Output or error. Torch's fast path, which it takes without gradients
    and for an even number of heads, takes each GELU for the exact one."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        return layer(x, src_mask=mask)
    except Exception as error:
        return error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _told(block):
    att, width = block.att, len(block.norm1.scale)
    return (
        f"a block with emb_dim={width}, n_heads={att.num_heads}, "
        f"qkv_bias={att.W_query.bias is not None}"
    )


def _pair(answer, block, tokens):
    """The learner's layer and mask."""
    try:
        result = returned(answer, block, tokens)
    except (AssertionError, AttributeError, RuntimeError, TypeError) as error:
        raise _explained(error, block) from error
    kind = type(result).__name__
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise Mistake(
            "not-a-pair",
            f"Your function returns something of type {kind}; expected two "
            "things, the layer and the mask: return layer, mask.",
        )
    layer, mask = result
    if not isinstance(layer, nn.TransformerEncoderLayer):
        raise Mistake(
            "other-layer",
            f"The first thing returned is of type {type(layer).__name__}; "
            "expected an nn.TransformerEncoderLayer, and then the mask.",
        )
    theirs = nn.TransformerEncoderLayer
    changed = [
        name for name in OWN
        if getattr(getattr(layer, name), "__func__", None)
        is not getattr(theirs, name)
    ]  # fmt: skip
    if changed or layer._forward_hooks:
        raise Mistake(
            "no-referee",
            f"Your layer computes {' and '.join(changed) or 'its output'} in "
            "code of your own. A referee is fair only if it runs torch's.",
        )
    return layer, mask


# What an error holds, and what it means where weights are copied.
ERRORS = [
    ("feed-forward-width", "2048",
     "No size of the block is 2048, but a default of torch's layer is. "
     "Which?"),
    ("heads-not-handed-on", "divisible by num_heads",
     SAYS["heads-not-handed-on"]),
    ("sizes-differ", "size of tensor a",
     "A copy needs two equal shapes. Print both: does one not follow the "
     "block, or is it turned?"),
    ("names-differ", "Unexpected key",
     "The two modules give their weights different names. Which name of the "
     "layer's state_dict() belongs to which of the block's?"),
    ("names-missing", "Missing key",
     "load_state_dict wants every name that layer.state_dict() lists."),
    ("sizes-differ", "size mismatch",
     "Does one shape not follow the block, or is it turned? Or do the values "
     "stand in another order than the names in layer.state_dict()?"),
    ("copied-with-gradients", "leaf Variable that requires grad",
     "Torch refuses to write into a parameter while it records gradients. "
     "The note below the task says under what a copy is allowed."),
    ("wrong-arguments", "TransformerEncoderLayer.__init__()",
     "help(nn.TransformerEncoderLayer) lists what it takes."),
]  # fmt: skip


def _explained(error, block):
    """What an error most likely means, or the error itself."""
    text, bare = str(error), block.att.W_query.bias is None
    lines = [line.strip() for line in text.splitlines()] or [""]
    line = lines[1] if lines[0].startswith("Error(s)") else lines[0]
    seen = (
        f"For {_told(block)}, it stops with {type(error).__name__}: "
        f"{line.rstrip('. ')}."
    )
    if bare and "NoneType" in text:
        return Mistake(
            "bias-is-none",
            f"{seen} What is None there? The W_query.bias of such a block "
            "is, and every bias of a layer that is made with bias=False. "
            "Which bias changes nothing?",
        )
    for name, words, says in ERRORS:
        if words in text:
            return Mistake(name, f"{seen} {says}")
    return error


def _check_unchanged(block, given):
    """The learner got a copy, which must still be like the block."""
    now = given.state_dict()
    for name, value in block.state_dict().items():
        if name not in now or not torch.equal(now[name], value):
            raise Mistake(
                "block-changed",
                f"After the call, {name} of the block is another. The layer "
                "should get the block's weights, and the block stay as it "
                "is.",
            )


# --- what is wrong, as far as it can be seen -------------------------------


def _look_at_settings(layer, mask, block, tokens):
    att, x = layer.self_attn, torch.linspace(-3, 3, 61)
    if not layer.norm_first:
        return "post-norm", "Your layer has norm_first=False."
    if not att.batch_first:
        return "batch-axis", "Your layer has batch_first=False."
    if att.num_heads != block.att.num_heads:
        return (
            "heads-not-handed-on",
            f"Your layer has num_heads={att.num_heads}.",
        )
    for name, value in layer.named_parameters():
        if value.dtype != torch.float32:
            return "other-type", f"{name} of your layer is {value.dtype}."
    gelu = nn.GELU(approximate="tanh")
    output, expected = layer.activation(x), gelu(x)
    if not same(output, expected, atol=1e-6):
        at = int((output - expected).abs().argmax())
        return (
            "other-activation",
            f"Your layer's activation turns {number(x[at])} into "
            f"{number(output[at], 6)}; the block's into "
            f"{number(expected[at], 6)}.",
        )
    for norm in (layer.norm1, layer.norm2):
        if norm.eps != 1e-5:
            return "other-eps", f"Your layer's norms use eps={norm.eps:g}."
    return None


def _look_at_mask(layer, mask, block, tokens):
    if mask is None:
        return "mask-missing", "The mask is None."
    shape = tuple(getattr(mask, "shape", ()))
    if not isinstance(mask, torch.Tensor) or shape != (tokens, tokens):
        raise Mistake(
            "mask-shape",
            f"For {tokens} tokens, your mask is a {type(mask).__name__} of "
            f"shape {shape}; expected a tensor of shape ({tokens}, {tokens}):"
            " a row for each token that looks.",
        )
    hidden = mask
    if mask.dtype != torch.bool:
        hidden = mask < -1e4
        kind = f"Your mask is of type {mask.dtype}."
        if not hidden.any() and mask.any():
            return "mask-added", kind
        if mask.is_floating_point() and mask.dtype != torch.float32:
            return "other-type", kind
        odd = (~hidden & (mask != 0)).nonzero()
        if len(odd):
            row, column = odd[0].tolist()
            fact = f"Your mask[{row}, {column}] is {mask[row, column]:g}."
            return "mask-not-zero", fact
    right = torch.ones(shape).triu(1).bool()
    kinds = [
        ("mask-missing", torch.zeros_like(right)),
        ("mask-inverted", ~right),
        ("mask-backwards", right.T),
        *(("mask-off-by-one", torch.ones(shape).triu(n) > 0) for n in (0, 2)),
    ]
    if torch.equal(hidden, right):
        return None
    row = int((hidden != right).any(dim=1).nonzero()[0])
    seen = [n for n in range(tokens) if not hidden[row, n]]
    wanted = list(range(row + 1))
    fact = f"By your mask token {row} sees {seen}; expected {wanted}."
    fits = [name for name, kind in kinds if torch.equal(hidden, kind)]
    return (fits[0] if len(fits) == 1 else "mask-wrong"), fact


def _look_at_weights(layer, mask, block, tokens):
    right = torch_layer(block, tokens)[0].state_dict()
    own = layer.state_dict()
    for name, value in right.items():
        if name not in own:
            fact = f"Your layer has no {name}, and the block has."
            return "weights-not-copied", fact
        if not same(own[name], value):
            fact = difference(own[name], value, f"layer's {name}")
            return _kind(name, own, right), fact
    return None


def _kind(name, own, right):
    """What stands there instead, if it is something of the block's."""
    mine, value = own[name], right[name]
    if "in_proj" in name:
        parts = value.chunk(3)
        if any(same(mine, torch.cat(p)) for p in permutations(parts)):
            return "qkv-order"
        turned = torch.cat([part.T for part in parts])
        return "transposed" if same(mine, turned) else "weights-not-copied"
    if value.dim() == 2 and same(mine, value.T):
        return "transposed"
    other = {"norm1": "norm2", "norm2": "norm1"}.get(name.split(".")[0])
    if other and all(
        same(own[f"{norm}.weight"], right[f"{instead}.weight"])
        for norm, instead in (("norm1", "norm2"), ("norm2", "norm1"))
    ):
        return "norms-swapped"
    return "weights-not-copied"
