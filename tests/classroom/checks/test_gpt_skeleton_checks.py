"""Each mistake with the skeleton is named, and each right style passes."""

import linecache
from functools import partial

import pytest
import torch
from renamed import renamed
from torch import nn
from torch.nn import functional as F

import gptlib
from classroom.checks.gpt_skeleton import (
    ENTRIES,
    configuration,
    described,
    last_logits,
    skeleton,
)
from classroom.checks.guard import TASKS

RIGHT = """
class MySkeleton(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        emb_dim = cfg["emb_dim"]
        self.tok_emb = nn.Embedding(cfg["vocab_size"], emb_dim)
        self.pos_emb = nn.Embedding(cfg["context_length"], emb_dim)
        self.drop_emb = nn.Dropout(cfg["drop_rate"])
        blocks = [DummyTransformerBlock(cfg) for _ in range(cfg["n_layers"])]
        self.trf_blocks = nn.Sequential(*blocks)
        self.final_norm = DummyLayerNorm(emb_dim)
        self.out_head = nn.Linear(emb_dim, cfg["vocab_size"], bias=False)

    def forward(self, in_idx):
        tokens = in_idx.shape[1]
        positions = torch.arange(tokens, device=in_idx.device)
        x = self.tok_emb(in_idx) + self.pos_emb(positions)
        x = self.drop_emb(x)
        x = self.trf_blocks(x)
        x = self.final_norm(x)
        return self.out_head(x)
"""
FORWARD = RIGHT[RIGHT.index("        tokens = ") :]
POS = "self.pos_emb(positions)"
SUM = f"self.tok_emb(in_idx) + {POS}"
ARANGE = "torch.arange(tokens, device=in_idx.device)"
DROP = "        x = self.drop_emb(x)\n"
RUN = "        x = self.trf_blocks(x)\n"
NORM = "        x = self.final_norm(x)\n"
HEAD = "return self.out_head(x)"


def made(source, name="MySkeleton"):
    """What a cell with this source defines."""
    cell = {
        "torch": torch,
        "nn": nn,
        "F": F,
        "gptlib": gptlib,
        "DummyTransformerBlock": gptlib.DummyTransformerBlock,
        "DummyLayerNorm": gptlib.DummyLayerNorm,
        "tokenizer": gptlib.gpt2_tokenizer(),
    }
    linecache.cache["cell"] = (len(source), None, source.splitlines(True), "")
    exec(compile(source, "cell", "exec"), cell)
    return cell[name]


def changed(*pairs, source=RIGHT):
    for old, new in pairs:
        assert old in source, old
        source = source.replace(old, new)
    return source


def block(body, name="DummyTransformerBlock"):
    """The right answer with another placeholder."""
    return (
        f"""
class {name}(nn.Module):
    def __init__(self, cfg, eps=1e-5):
        super().__init__()
        self.layer = nn.Identity()

    def forward(self, x):
        {body}
"""
        + RIGHT
    )


def without(part):
    """The right answer without one part."""
    lines = RIGHT.splitlines()
    return "\n".join(line for line in lines if f"self.{part} =" not in line)


WRONG = [
    ("position-embedding-missing",
     changed((SUM, "self.tok_emb(in_idx)"), source=without("pos_emb"))),
    ("position-embedding-unused", changed((SUM, "self.tok_emb(in_idx)"))),
    ("position-embedding-unused", changed((f" + {POS}", f"; {POS}"))),
    ("position-embedding-constant", changed(
        (ARANGE, "torch.zeros(tokens, dtype=torch.long, "
                 "device=in_idx.device)"))),
    ("position-embedding-constant", changed(
        (ARANGE, "torch.tensor([tokens - 1], device=in_idx.device)"))),
    ("position-embedding-constant", changed(
        (ARANGE, "torch.zeros_like(in_idx)"))),
    ("position-embedding-constant", changed(
        (POS, "self.pos_emb.weight[0]"))),
    ("positions-off-by-one", changed(
        ("arange(tokens,", "arange(1, tokens + 1,"))),
    ("positions-off-by-one", changed((POS, "self.pos_emb(positions + 1)"))),
    ("positions-reversed", changed((POS, "self.pos_emb(positions.flip(0))"))),
    ("positions-wrong-axis", changed(("in_idx.shape[1]", "in_idx.shape[0]"))),
    ("positions-wrong-axis", changed(("in_idx.shape[1]", "len(in_idx)"))),
    ("positions-of-all-tokens", changed(
        (ARANGE, "torch.arange(in_idx.numel()).view_as(in_idx)"))),
    ("positions-of-all-tokens", changed(
        (ARANGE, "torch.arange(in_idx.numel()).view_as(in_idx) "
                 "% self.pos_emb.num_embeddings"))),
    ("positions-of-all-tokens", changed(
        (POS, "self.pos_emb((positions + tokens * torch.arange("
              "len(in_idx))[:, None]) % 9)"))),
    ("positions-context-length", changed(
        ("in_idx.shape[1]", "self.pos_emb.num_embeddings"))),
    ("positions-context-length", changed((POS, "self.pos_emb.weight"))),
    ("positions-from-token-ids", changed((POS, "self.pos_emb(in_idx)"))),
    ("positions-from-the-end", changed(
        (POS, "self.pos_emb.weight[-tokens:]"))),
    ("positions-averaged", changed(
        (POS, POS + ".mean(0)"))),
    ("position-added-twice", changed((SUM, f"{SUM} + {POS}"))),
    ("position-subtracted", changed((" + self.pos", " - self.pos"))),
    ("position-multiplied", changed((" + self.pos", " * self.pos"))),
    ("token-embedding-unused", changed(
        (SUM, f"0 * self.tok_emb(in_idx) + {POS}"))),
    ("embeddings-concatenated", changed(
        (SUM, f"torch.cat([self.tok_emb(in_idx), {POS}.expand("
              "len(in_idx), -1, -1)], dim=-1)"))),
    ("wrong-part", changed(("DummyLayerNorm(emb_dim)", "lambda x: x"))),
    ("embedding-scaled", changed(
        ("self.tok_emb(in_idx)", "self.tok_emb(in_idx) * 12 ** 0.5"))),
    ("positions-wrong-device", changed((", device=in_idx.device", ""))),
    ("positions-wrong-device", changed(
        ("device=in_idx.device", "device='cpu'"))),
    ("positions-wrong-device", changed(
        (ARANGE, "torch.tensor(list(range(tokens)))"))),
    ("positions-wrong-device", changed(
        ("super().__init__()", "super().__init__()\n"
         "        self.places = torch.arange(cfg['context_length'])"),
        (ARANGE, "self.places[:tokens]"))),
    ("dropout-missing", changed((DROP, ""), source=without("drop_emb"))),
    ("dropout-unused", changed((DROP, ""))),
    ("dropout-unused", changed((DROP, "        self.drop_emb(x)\n"))),
    ("wrong-drop-rate", changed(('cfg["drop_rate"]', "0.1"))),
    ("wrong-drop-rate", changed(('cfg["drop_rate"]', "0.0"))),
    ("wrong-drop-rate", changed(('cfg["drop_rate"]', "0.9"))),
    ("wrong-drop-rate", changed(('cfg["drop_rate"]', ""))),
    ("dropout-twice", changed((DROP, DROP * 2))),
    ("dropout-before-addition", changed(
        (SUM, f"self.drop_emb(self.tok_emb(in_idx)) + {POS}"), (DROP, ""))),
    ("dropout-before-addition", changed(
        (SUM, f"self.tok_emb(in_idx) + self.drop_emb({POS})"), (DROP, ""))),
    ("dropout-after-blocks", changed((DROP + RUN, RUN + DROP))),
    ("dropout-after-blocks", changed((DROP, ""), (NORM, NORM + DROP))),
    ("dropout-on-logits", changed(
        (DROP, ""), (HEAD, "return self.drop_emb(self.out_head(x))"))),
    ("dropout-in-evaluation", changed((DROP, "        x = F.dropout(x)\n"))),
    ("dropout-in-evaluation", changed(
        (DROP, "        x = F.dropout(x, 0.5, not self.training)\n"))),
    ("head-bias", changed((", bias=False", ""))),
    ("head-bias", changed(("bias=False", "bias=True"))),
    ("head-bias", changed(("bias=False", 'bias=cfg["qkv_bias"]'))),
    ("head-bias", changed(("bias=False", 'bias=not cfg["qkv_bias"]'))),
    ("tied-head", changed(
        ("bias=False)", "bias=False)\n"
         "        self.out_head.weight = self.tok_emb.weight"))),
    ("tied-head", changed((HEAD, "return x @ self.tok_emb.weight.T"))),
    ("blocks-plain-list", changed(("nn.Sequential(*blocks)", "blocks"),
                                  (RUN, "        for b in self.trf_blocks:\n"
                                   "            x = b(x)\n"))),
    ("blocks-plain-list", changed(("nn.Sequential(*blocks)", "tuple(blocks)"),
                                  (RUN, "        for b in self.trf_blocks:\n"
                                   "            x = b(x)\n"))),
    ("blocks-not-unpacked", changed(("*blocks", "blocks"))),
    ("wrong-number-of-blocks", changed(
        ('range(cfg["n_layers"])', "range(12)"))),
    ("wrong-number-of-blocks", changed(
        ('range(cfg["n_layers"])', 'range(cfg["n_heads"])'))),
    ("wrong-number-of-blocks", changed(
        ('range(cfg["n_layers"])', 'range(cfg["n_layers"] - 1)'))),
    ("wrong-number-of-blocks", changed(
        ("nn.Sequential(*blocks)", "DummyTransformerBlock(cfg)"))),
    ("one-block-repeated", changed(
        ('[DummyTransformerBlock(cfg) for _ in range(cfg["n_layers"])]',
         '[DummyTransformerBlock(cfg)] * cfg["n_layers"]'))),
    ("one-block-repeated", changed(
        (RUN, "        for _ in self.trf_blocks:\n"
              "            x = self.trf_blocks[0](x)\n"))),
    ("block-skipped", changed((RUN, "        x = self.trf_blocks[0](x)\n"))),
    ("block-skipped", changed((RUN, "        x = self.trf_blocks[:-1](x)\n"))),
    ("block-skipped", changed(
        (RUN, "        for b in self.trf_blocks:\n"
              "            y = b(x)\n"
              "        x = y\n"))),
    ("blocks-unused", changed((RUN, ""))),
    ("blocks-unused", changed((RUN, "        self.trf_blocks(x)\n"))),
    ("blocks-reversed", changed(
        (RUN, "        for b in reversed(self.trf_blocks):\n"
              "            x = b(x)\n"))),
    ("blocks-run-twice", changed((RUN, RUN * 2))),
    ("blocks-missing", changed((RUN, ""), source=without("trf_blocks"))),
    ("final-norm-missing", changed((NORM, ""), source=without("final_norm"))),
    ("final-norm-unused", changed((NORM, ""))),
    ("final-norm-unused", changed((NORM, "        self.final_norm(x)\n"))),
    ("norm-before-blocks", changed((RUN + NORM, NORM + RUN))),
    ("norm-before-blocks", changed((NORM, ""), (DROP, NORM + DROP))),
    ("norm-after-head", changed(
        (NORM, ""), (HEAD, "return self.final_norm(self.out_head(x))"))),
    ("norm-after-each-block", changed(
        (RUN + NORM, "        for b in self.trf_blocks:\n"
                     "            x = self.final_norm(b(x))\n"))),
    ("positions-after-blocks", changed(
        (SUM, "self.tok_emb(in_idx)"), (NORM, NORM + f"        x = x + {POS}\n"
         ))),
    ("softmax-on-logits", changed((HEAD, HEAD + ".softmax(-1)"))),
    ("softmax-on-logits", changed(
        (HEAD, "return torch.softmax(self.out_head(x), dim=1)"))),
    ("softmax-on-logits", changed((HEAD, HEAD + ".log_softmax(-1)"))),
    ("last-position-only", changed((HEAD, HEAD + "[:, -1]"))),
    ("last-position-only", changed((HEAD, "return self.out_head(x[:, -1:])"))),
    ("head-unused", changed((HEAD, "return x"))),
    ("head-missing", changed((HEAD, "return x"), source=without("out_head"))),
    ("returns-ids", changed((HEAD, HEAD + ".argmax(-1)"))),
    ("axes-swapped", changed((HEAD, HEAD + ".transpose(1, 2)"))),
    ("batch-flattened", changed((HEAD, HEAD + ".flatten(0, 1)"))),
    ("placeholder-changes-input", block("return x + 1")),
    ("placeholder-changes-input", block("return x * 2")),
    ("placeholder-changes-input", block("return x.add_(1)")),
    ("placeholder-changes-input", block("return torch.zeros_like(x)")),
    ("placeholder-changes-input", block("return F.dropout(x, 0.5, "
                                        "self.training)")),
    ("placeholder-changes-input", block(
        "return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)",
        "DummyLayerNorm")),
    ("placeholder-changes-input", changed(
        ("DummyLayerNorm(emb_dim)", "nn.LayerNorm(emb_dim)"))),
    ("placeholder-changes-input", changed(
        ("DummyTransformerBlock", "gptlib.TransformerBlock"))),
    ("vocabulary-width-swapped", changed(
        ('nn.Embedding(cfg["vocab_size"], emb_dim)',
         'nn.Embedding(emb_dim, cfg["vocab_size"])'))),
    ("vocabulary-width-swapped", changed(
        ('nn.Linear(emb_dim, cfg["vocab_size"]',
         'nn.Linear(cfg["vocab_size"], emb_dim'))),
    ("context-width-swapped", changed(
        ('(cfg["context_length"], emb_dim)',
         '(emb_dim, cfg["context_length"])'))),
    ("position-table-size", changed(
        ('cfg["context_length"]', 'cfg["vocab_size"]'))),
    ("hard-coded-size", changed(('cfg["context_length"]', "1024"))),
    ("hard-coded-size", changed(('cfg["emb_dim"]', "768"))),
    ("wrong-size", changed(
        ('nn.Linear(emb_dim, cfg["vocab_size"]',
         'nn.Linear(emb_dim, emb_dim'))),
    ("gradient-blocked", changed(
        ("    def forward", "    @torch.no_grad()\n    def forward"))),
    ("gradient-blocked", changed((POS, POS + ".detach()"))),
    ("not-trainable", changed(
        (DROP, DROP),
        ("        self.drop_emb =",
         "        self.pos_emb.weight.requires_grad = False\n"
         "        self.drop_emb ="))),
    ("not-repeatable", changed((HEAD, HEAD + " + torch.rand(1)"))),
    ("wrong-values", changed(
        (SUM, f"F.alpha_dropout(self.tok_emb(in_idx), 0.4, self.training) + "
              f"{POS}"), (DROP, ""))),
    ("module-list-called", changed(
        ("nn.Sequential(*blocks)", "nn.ModuleList(blocks)"))),
    ("returns-none", changed((HEAD, "self.out_head(x)"))),
    ("returns-none", block("x")),
    ("wrong-signature", changed(
        ("__init__(self, cfg)", "__init__(self)"),
        ("        emb_dim = ", "        cfg = {}; emb_dim = "))),
    ("not-a-module", changed(
        ("(nn.Module)", ""), ("        super().__init__()\n", ""))),
    ("wrong-type", changed((HEAD, HEAD + ", None"))),
    ("created-in-other-order", changed(
        ("        self.tok_emb = nn.Embedding(cfg[\"vocab_size\"], emb_dim)\n",
         ""),
        ("bias=False)", "bias=False)\n        self.tok_emb = "
         "nn.Embedding(cfg[\"vocab_size\"], emb_dim)"))),
]  # fmt: skip


@pytest.mark.parametrize(
    "name, source", WRONG, ids=[f"{n}-{i}" for i, (n, _) in enumerate(WRONG)]
)
def test_each_mistake_is_named(name, source):
    result = skeleton(made(source))
    name = renamed(name, "skeleton")
    assert (result.status, result.mistake) == ("failed", name), result
    assert len(result.message) > 20


REPEATED = '[DummyTransformerBlock(cfg) for _ in range(cfg["n_layers"])]'


@pytest.mark.parametrize(
    "pairs, seen",
    [
        ([("bias=False", 'bias=cfg["qkv_bias"]')], "With qkv_bias=True, "),
        ([("bias=False", "bias=True")], "out_head has a bias of 31 numbers"),
        (
            [(REPEATED, '[DummyTransformerBlock(cfg)] * cfg["n_layers"]')],
            "trf_blocks holds one block 4 times. Make each with a call of "
            "its own.",
        ),
        (
            [("range(cfg[", "range(2) for _ in range(cfg["),
             ("*blocks", "*blocks[:2], *blocks[:2]")],
            "trf_blocks holds 2 different blocks in 4 places.",
        ),
    ],
)  # fmt: skip
def test_what_is_told_of_heads_and_blocks(pairs, seen):
    result = skeleton(made(changed(*pairs)))
    assert result.message.startswith(seen), result


STEPS = """
        for block in self.trf_blocks:
            x = block(x)
"""
RIGHT_STYLES = {
    "solution": RIGHT,
    "module list": changed(("nn.Sequential(*blocks)", "nn.ModuleList(blocks)"),
                           (RUN, STEPS)),
    "identity": changed(
        ("DummyTransformerBlock(cfg)", "nn.Identity()"),
        ("DummyLayerNorm(emb_dim)", "nn.Identity()")),
    "one line": changed((FORWARD, """
        return self.out_head(self.final_norm(self.trf_blocks(self.drop_emb(
            self.tok_emb(in_idx) + self.pos_emb(
                torch.arange(in_idx.size(-1)).to(in_idx.device))))))
""")),
    "batched positions": changed(
        (POS, "self.pos_emb(positions.unsqueeze(0).expand_as(in_idx))")),
    "sliced table": changed((POS, "self.pos_emb.weight[:tokens]")),
    "buffer": changed(
        ("super().__init__()", "super().__init__()\n"
         "        self.register_buffer('places', "
         "torch.arange(cfg['context_length']), persistent=False)"),
        (ARANGE, "self.places[:tokens]")),
    "device of a weight": changed(
        ("device=in_idx.device", "device=self.tok_emb.weight.device")),
    "cumulative sum": changed(
        (ARANGE, "torch.ones_like(in_idx[0]).cumsum(0) - 1")),
    "functional dropout": changed(
        (DROP, "        x = F.dropout(x, self.drop_emb.p, self.training)\n")),
    "dropout by hand": changed(
        (DROP, "        if self.training:\n"
               "            x = x * (torch.rand_like(x) > 0.4) / 0.6\n")),
    "functional head": changed(
        (HEAD, "return F.linear(x, self.out_head.weight)")),
    "einsum head": changed(
        (HEAD, 'return torch.einsum("bte,ve->btv", x, '
               "self.out_head.weight)")),
    "parameter as table": changed(
        ('nn.Embedding(cfg["context_length"], emb_dim)',
         'nn.Parameter(torch.zeros(cfg["context_length"], emb_dim))'),
        (POS, "self.pos_emb[:tokens]")),
    "checks its input": changed(
        ("        tokens = ", "        assert in_idx.max() < 1000\n"
         "        tokens = ")),
    "own placeholders": block("return x"),
    "placeholder with a copy": block("return self.layer(x).clone()"),
    "optional targets": changed(
        ("def forward(self, in_idx)", "def forward(self, in_idx, y=None)")),
    "in place sum": changed(
        (f"x = {SUM}", f"x = self.tok_emb(in_idx)\n        x += {POS}")),
}  # fmt: skip


@pytest.mark.parametrize("style", RIGHT_STYLES)
def test_right_answers_pass(style):
    result = skeleton(made(RIGHT_STYLES[style]))
    assert result.status == "passed", result


def test_the_packages_model_passes_in_whatever_way_it_is_handed_over():
    model = gptlib.DummyGPTModel
    assert skeleton(model).status == "passed"
    assert skeleton(partial(model)).status == "passed"
    assert skeleton(lambda cfg: model(cfg)).status == "passed"


STUB = """
class MySkeleton(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        ...  # create the six parts

    def forward(self, in_idx):
        raise NotImplementedError
"""


@pytest.mark.parametrize(
    "source",
    [
        STUB,
        STUB.replace("raise NotImplementedError", "..."),
        STUB.replace("raise NotImplementedError", "pass"),
        STUB.replace("raise NotImplementedError", '"""Not yet."""'),
        "class MySkeleton(nn.Module):\n    pass",
    ],
)
def test_stubs_are_not_attempted(source):
    assert skeleton(made(source)).status == "not attempted"


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("unfinished", HEAD, HEAD),
        ("head-bias", ", bias=False", ""),
        ("wrong-number-of-blocks", 'cfg["n_layers"]', "4"),
        ("created-in-other-order", "self.drop_emb = ", "self.drop_emb = 0\n"
         "        self.out_head = nn.Linear(emb_dim, cfg['vocab_size'], 0)\n"
         "        self.drop_emb = "),
    ],
)  # fmt: skip
def test_a_written_init_is_judged_before_forward(name, old, new):
    source = changed((FORWARD, "        raise NotImplementedError\n"))
    if name != "unfinished":
        source = changed((old, new), source=source)
    result = skeleton(made(source))
    assert (result.status, result.mistake) == ("failed", name), result


def test_an_exception_names_its_line_and_cause():
    result = skeleton(made(changed(("x = self.drop_emb(x)", "x = drop(x)"))))
    assert (result.status, result.mistake) == ("failed", "exception")
    assert "x = drop(x)" in result.message
    assert "NameError" in result.message


@pytest.mark.parametrize(
    "name, words",
    [
        ("wrong-number-of-blocks", ["12", "n_layers = 4"]),
        ("last-position-only", ["(3, 31)", "(3, 5, 31)"]),
        ("vocabulary-width-swapped", ["(12, 31)", "(31, 12)", "tok_emb"]),
        ("head-bias", ["31", "bias"]),
        (
            "positions-wrong-device",
            ["another device", "(5,)", "CPU", "device=in_idx.device."],
        ),
        ("dropout-unused", ["40%"]),
        ("wrong-drop-rate", ["0.4", "10%"]),
    ],
)
def test_messages_hold_what_matters(name, words):
    source = next(source for n, source in WRONG if n == name)
    message = skeleton(made(source)).message
    assert [word for word in words if word not in message] == [], message
    assert "buffer" not in message  # notebook 01 says nothing of them


def test_no_cause_is_made_up():
    twelve = skeleton(made(changed(('range(cfg["n_layers"])', "range(12)"))))
    assert "emb_dim" not in twelve.message
    table = 'nn.Embedding(cfg["context_length"], emb_dim)'
    linear = table.replace("Embedding", "Linear")
    linear = skeleton(made(changed((table, linear))))
    assert linear.mistake == "wrong-part"
    assert "Linear" in linear.message and "(12, 9)" in linear.message
    bare = skeleton(
        made(changed(("DummyTransformerBlock(cfg)", "DummyTransformerBlock")))
    )
    assert bare.mistake == "exception" and "brackets" in bare.message
    assert "one list" not in bare.message
    count = skeleton(made(changed((POS, "self.pos_emb(tokens)"))))
    assert "self.pos_emb(tokens)" in count.message
    assert "tensor of row numbers" in count.message
    public = skeleton(made(changed(
        ('emb_dim = cfg["emb_dim"]',
         'emb_dim = gptlib.GPT_CONFIG_124M["emb_dim"]'))))  # fmt: skip
    assert public.mistake == "size-hardcoded"
    assert "GPT_CONFIG_124M" in public.message


# --- configurations -------------------------------------------------------

NEW = """
def my_configuration():
    return {
        "vocab_size": 50260,
        "context_length": 640,
        "emb_dim": 896,
        "n_heads": 14,
        "n_layers": 20,
        "drop_rate": 0.15,
        "qkv_bias": True,
    }
"""
IN_PLACE = """
def my_configuration():
    GPT_CONFIG_124M.update(vocab_size=50260, context_length=640, emb_dim=896,
                           n_heads=14, n_layers=20, drop_rate=0.15,
                           qkv_bias=True)
    return GPT_CONFIG_124M
"""


def new(*pairs):
    source = changed(*pairs, source=NEW)
    return configuration(made(source, "my_configuration"))


@pytest.mark.parametrize(
    "name, words, pairs",
    [
        ("markers-forgotten", "50257", [("50260", "50257")]),
        ("highest-id-for-count", "50259", [("50260", "50256 + 3")]),
        ("vocabulary-wrong", "is 3.", [("50260", "3")]),
        ("vocabulary-wrong", "1 more", [("50260", "50261")]),
        ("numbers-for-rows", "573440", [("640", "573_440")]),
        ("columns-for-rows", "does it have", [("640", "896")]),
        ("context-wrong", "746", [("640", "573440 // 768")]),
        ("context-wrong", "row", [("640", "11")]),
        ("as-in-gpt2", "1024", [("640", "1024")]),
        ("as-in-gpt2", "n_heads is 12", [("14", "12")]),
        ("head-width-for-width", "emb_dim is 64", [("896", "64")]),
        ("width-wrong", "960", [("896", "960")]),
        ("head-width-for-count", "n_heads is 64", [("14", "64")]),
        ("heads-wrong", "n_heads is 16", [("14", "16")]),
        ("heads-wrong", "n_heads is 0", [("14", "0")]),
        ("blocks-for-heads", "does each have", [("14", "20")]),
        ("heads-for-blocks", "14", [('s": 20', 's": 14')]),
        ("blocks-wrong", "19", [('s": 20', 's": 19')]),
        ("kept-for-dropped", "0.85", [("0.15", "0.85")]),
        ("percent-for-share", "is 15.", [("0.15", "15")]),
        ("percent-for-share", "is 15.", [("0.15", "15.0")]),
        ("drop-rate-wrong", "0.015", [("0.15", "0.015")]),
        ("drop-rate-wrong", "-0.15", [("0.15", "-0.15")]),
        ("as-in-gpt2", "qkv_bias is False", [("True", "False")]),
        ("wrong-type", "True or False", [("True", "1")]),
        ("wrong-type", "'yes'", [("True", "'yes'")]),
        ("float-size", "14.0", [("14", "896 / 64")]),
        ("wrong-type", "emb_dim must be", [("896", "'896'")]),
        ("wrong-type", "None", [("640", "None")]),
        ("wrong-type", "tensor", [("640", "torch.tensor(640)")]),
        ("wrong-keys", "did you mean 'context_length'",
         [("context_length", "context_len")]),
        ("wrong-keys", "lacks 'qkv_bias'", [('"qkv_bias": True,', "")]),
        ("wrong-keys", "'bias'", [('"qkv_bias"', '"bias": 1, "qkv_bias"')]),
        ("wrong-type", "list", [("return {", "return [*{"),
                                ("    }\n", "    }.values()]\n")]),
        ("returns-none", "None", [("return {", "{")]),
        ("raise-left", "raise",
         [("    return", "    heads = 14\n    raise NotImplementedError\n"
           "    return")]),
        ("wrong-signature", "my_configuration()",
         [("configuration()", "configuration(cfg)")]),
        ("exception", "vocab", [("640", "vocab")]),
        ("exception", "quotation marks", [('"emb_dim"', "emb_dim")]),
        ("exception", "put together with `|`",
         [("return {", "return {} + {")]),
        ("not-repeatable", "20 after a first call and 21",
         [("def ", "seen = []\ndef "), ('s": 20', 's": 19 + len(seen)'),
          ("    return", "    seen.append(1)\n    return")]),
    ],
)  # fmt: skip
def test_each_wrong_entry_is_named(name, words, pairs):
    result = new(*pairs)
    assert (result.status, result.mistake) == ("failed", name), result
    assert words in result.message


def test_all_wrong_entries_are_listed():
    message = new(("14", "16"), ("0.15", "0.85"), ("50260", "50257")).message
    assert "vocab_size is 50257" in message
    assert "either: n_heads, drop_rate" in message


def test_a_wrong_width_is_named_before_what_follows_from_it():
    result = new(("896", "1024"), ("640", "573440 // 1024"), ("14", "16"))
    assert result.mistake == "width-wrong", result
    assert "context_length, n_heads" in result.message


@pytest.mark.parametrize(
    "source",
    [
        NEW,
        changed(("14", "896 // 64"), ("0.15", "1 - 0.85"), source=NEW),
        changed(("640", "573_440 // 896"), ("50260", "256 + 50_000 + 1 + 3"),
                source=NEW),
        changed(("0.15", "15 / 100"), ("14", "round(896 / 64)"), source=NEW),
        """
def my_configuration():
    cfg = gptlib.GPT_CONFIG_124M | {"vocab_size": 50260, "emb_dim": 896}
    cfg["context_length"] = 640
    cfg.update(n_heads=14, n_layers=20, drop_rate=0.15)
    cfg["qkv_bias"] = True
    return cfg
""",
        """
import types
def my_configuration(width=896, head=64):
    keys = ["qkv_bias", "drop_rate", "n_layers", "n_heads", "emb_dim",
            "context_length", "vocab_size"]
    values = True, 0.15, 20, width // head, width, 640, 50260
    return types.MappingProxyType(dict(zip(keys, values)))
""",
        """
import numpy as np
my_configuration = lambda: dict(
    vocab_size=gptlib.gpt2_tokenizer().n_vocab + 3, emb_dim=np.int64(896),
    context_length=np.divmod(573440, 896)[0], n_heads=14, n_layers=20,
    drop_rate=np.float64(0.15), qkv_bias=not False)
""",
    ],
)  # fmt: skip
def test_right_configurations_pass(source):
    result = configuration(made(source, "my_configuration"))
    assert result.status == "passed", result


def test_a_changed_configuration_of_the_notebook_is_named_and_restored():
    before = dict(gptlib.GPT_CONFIG_124M)
    fn = made(IN_PLACE, "my_configuration")
    own = fn.__globals__["GPT_CONFIG_124M"] = dict(before)
    result = configuration(fn)
    assert result.mistake == "config-changed", result
    assert own == before
    public = IN_PLACE.replace("GPT_CONFIG_124M", "gptlib.GPT_CONFIG_124M")
    result = configuration(made(public, "my_configuration"))
    assert result.mistake == "config-changed", result
    assert before == gptlib.GPT_CONFIG_124M


def test_a_dictionary_in_place_of_a_function_is_told():
    result = configuration(dict(gptlib.GPT_CONFIG_124M))
    assert result.mistake == "not-a-function", result


def test_a_name_of_ones_own_is_no_reason_for_advice():
    source = """
def my_configuration():
    cfg = GPT_CONFIG_124M | {"vocab_size": 50260}
    return cfg
"""
    fn = made(source, "my_configuration")
    fn.__globals__["GPT_CONFIG_124M"] = dict(gptlib.GPT_CONFIG_124M)
    message = configuration(fn).message
    assert "should it read" not in message, message


def test_the_described_model_can_be_built():
    gptlib.check_config({entry: described(entry) for entry in ENTRIES})


@pytest.mark.parametrize("value", ["'15%'", "[0.15]"])
def test_a_wrong_type_is_told_once(value):
    result = new(("0.15", value), ("True", "False"))
    assert result.mistake == "wrong-type"
    assert result.message.count(value) == 1, result
    assert "either: qkv_bias" in result.message


# --- the last position's logits ---------------------------------------------

BY_HAND = """
def my_last_logits(ids, tok, pos, head):
    place = len(ids) - 1
    x = tok[ids[place]] + pos[place]
    return head @ x
"""
TOKEN, PLACE, LOGITS = "tok[ids[place]]", "pos[place]", "head @ x"
ALL = "(tok[ids] + pos[: len(ids)])"


def hand(*pairs):
    source = changed(*pairs, source=BY_HAND)
    return last_logits(made(source, "my_last_logits"))


@pytest.mark.parametrize(
    "name, words, pairs",
    [
        ("first-position-read", "first position", [("len(ids) - 1", "0")]),
        ("first-position-read", "first position",
         [(LOGITS, f"({ALL} @ head.T)[0]")]),
        ("first-position-read", "first token", [(TOKEN, "tok[ids][0]")]),
        ("positions-constant", "first position", [(PLACE, "pos[0]")]),
        ("position-embedding-unused", "alone", [(f" + {PLACE}", "")]),
        ("token-embedding-unused", "alone", [(f"{TOKEN} + ", "")]),
        ("positions-from-token-ids", "token's ID",
         [(PLACE, "pos[ids][place]")]),
        ("positions-off-by-one", "start at 1", [(PLACE, "pos[len(ids)]")]),
        ("positions-off-by-one", "start at -1",
         [(PLACE, "pos[len(ids) - 2]")]),
        ("positions-from-the-end", "last row", [(PLACE, "pos[-1]")]),
        ("positions-of-full-context", "How many tokens",
         [(LOGITS, "((tok[ids] + pos) @ head.T)[-1]")]),
        ("tokens-by-position", "token's ID", [(TOKEN, "tok[place]")]),
        ("tokens-by-position", "token's ID", [(TOKEN, "tok[-1]")]),
        ("head-not-transposed", "RuntimeError", [(LOGITS, "x @ head")]),
        ("head-not-transposed", "other way", [(LOGITS, "head.T @ x")]),
        ("product-not-added-up", "(7, 4)", [(LOGITS, "x * head")]),
        ("tied-head", "token table", [(LOGITS, "tok @ x")]),
        ("head-unused", "(4,)", [(LOGITS, "x")]),
        ("softmax-on-logits", "softmax",
         [(LOGITS, "torch.softmax(head @ x, dim=0)")]),
        ("softmax-on-logits", "softmax",
         [(LOGITS, "(head @ x).exp() / (head @ x).exp().sum()")]),
        ("all-positions-returned", "(3, 7)", [(LOGITS, f"{ALL} @ head.T")]),
        ("returns-ids", "all logits", [(LOGITS, "(head @ x).argmax()")]),
        ("returns-ids", "shape ()", [(LOGITS, "int((head @ x).argmax())")]),
        ("embeddings-multiplied", "product", [(" + pos", " * pos")]),
        ("positions-subtracted", "subtracted", [(" + pos", " - pos")]),
        ("ids-as-numbers", "a name", [(TOKEN, "ids[place]")]),
        ("averaged-over-positions", "neighbor",
         [(LOGITS, f"({ALL} @ head.T).mean(0)")]),
        ("averaged-over-positions", "neighbor",
         [(LOGITS, f"({ALL} @ head.T).sum(dim=0)")]),
        ("extra-axis", "(1, 7)",
         [(TOKEN, "tok[ids[-1:]]"), (LOGITS, "x @ head.T")]),
        ("size-hardcoded", "two tokens", [(PLACE, "pos[1]")]),
        ("size-hardcoded", "two tokens", [("len(ids) - 1", "1")]),
        ("size-hardcoded", "two tokens",
         [(LOGITS, "(tok[ids[1]] + pos[1]) @ head.T")]),
        ("size-hardcoded", "three tokens",
         [(LOGITS, "torch.stack([head[i] @ x for i in range(3)])")]),
        ("size-hardcoded", "two numbers",
         [(LOGITS, "head[:, 0] * x[0] + head[:, 1] * x[1]")]),
        ("position-embedding-unused", "second mistake",
         [(f" + {PLACE}", ""), (LOGITS, "(head @ x).softmax(-1)")]),
        ("wrong-values", "by hand", [(LOGITS, "head @ x + 1")]),
        ("wrong-shape", "(2,)", [(LOGITS, "(head @ x)[-2:]")]),
        ("wrong-type", "list", [(LOGITS, "(head @ x).tolist()")]),
        ("exception", "size",
         [(LOGITS, f"head @ torch.cat([{TOKEN}, {PLACE}])")]),
        ("exception", "NameError", [(LOGITS, "head @ y")]),
        ("returns-none", "return", [("return ", "")]),
        ("wrong-signature", "my_last_logits(ids, tok, pos, head)",
         [(", head)", ")"), (LOGITS, "tok @ x")]),
        ("input-overwritten", "+=",
         [(f"{TOKEN} + {PLACE}", f"{TOKEN}\n    x += {PLACE}")]),
        ("not-repeatable", "second",
         [("def ", "seen = []\ndef "), (LOGITS, "head @ x + len(seen) // 5"),
          ("    place", "    seen.append(1)\n    place")]),
    ],
)  # fmt: skip
def test_each_wrong_way_to_the_logits_is_named(name, words, pairs):
    result = hand(*pairs)
    assert (result.status, result.mistake) == ("failed", name), result
    assert words in result.message, result


@pytest.mark.parametrize(
    "body",
    [
        "return head @ (tok[ids[-1]] + pos[len(ids) - 1])",
        f"return ({ALL} @ head.T)[-1]",
        f"return F.linear({ALL}[-1], head)",
        "hot = F.one_hot(ids, len(tok)).float()\n"
        "    x = hot @ tok + pos[: ids.numel()]\n"
        "    return torch.einsum('te,ve->tv', x, head)[-1]",
        "x = [t + p for t, p in zip(tok[ids[-1]].tolist(),\n"
        "                           pos[len(ids) - 1].tolist())]\n"
        "    return torch.tensor([sum(w * v for w, v in zip(row, x))\n"
        "                         for row in head.tolist()])",
        "x = tok[ids[-1]].clone()\n    x += pos[ids.shape[0] - 1]\n"
        "    return (head * x).sum(dim=-1)",
        "x = F.embedding(ids, tok) + F.embedding(torch.arange(len(ids)), pos)"
        "\n    return torch.matmul(x, head.mT)[-1, :]",
        "x = tok.double()[ids[-1]] + pos.double()[: len(ids)][-1]\n"
        "    return x @ head.double().T",
    ],
)
def test_right_ways_to_the_logits_pass(body):
    source = f"def my_last_logits(ids, tok, pos, head):\n    {body}"
    result = last_logits(made(source, "my_last_logits"))
    assert result.status == "passed", result


def test_no_message_on_logits_holds_the_answer():
    for mistake in TASKS["last_logits"].mistakes:
        for answer in ("len(ids) - 1", "tok[ids", "pos[", "head @", "head.T"):
            assert answer not in mistake.says


def test_stub_functions_are_not_attempted():
    for body in ("raise NotImplementedError", "...", "pass", '"""Not yet."""'):
        head = "def g(ids, tok, pos, head):"
        source = f"def f():\n    {body}\n{head}\n    {body}"
        assert configuration(made(source, "f")).status == "not attempted"
        assert last_logits(made(source, "g")).status == "not attempted"
