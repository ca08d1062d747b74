"""Each mistake with the skeleton is named, and each right style passes."""

import linecache
from functools import partial

import pytest
import torch
from renamed import renamed
from torch import nn
from torch.nn import functional as F

import gptlib
from classroom.checks import hint
from classroom.checks.gpt_skeleton import predict_shapes, round_trip, skeleton

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
        ("positions-wrong-device", ["another device", "(5,)", "CPU"]),
        ("dropout-unused", ["40%"]),
        ("wrong-drop-rate", ["0.4", "10%"]),
    ],
)
def test_messages_hold_what_matters(name, words):
    source = next(source for n, source in WRONG if n == name)
    message = skeleton(made(source)).message
    assert [word for word in words if word not in message] == [], message


def test_no_cause_is_made_up():
    twelve = skeleton(made(changed(('range(cfg["n_layers"])', "range(12)"))))
    assert "emb_dim" not in twelve.message
    table = 'nn.Embedding(cfg["context_length"], emb_dim)'
    linear = table.replace("Embedding", "Linear")
    linear = skeleton(made(changed((table, linear))))
    assert linear.mistake == "wrong-part"
    assert "Linear" in linear.message and "(12, 9)" in linear.message
    public = skeleton(made(changed(
        ('emb_dim = cfg["emb_dim"]',
         'emb_dim = gptlib.GPT_CONFIG_124M["emb_dim"]'))))  # fmt: skip
    assert public.mistake == "size-hardcoded"
    assert "GPT_CONFIG_124M" in public.message


# --- predict_shapes ------------------------------------------------------

SHAPES = """
def my_shapes(cfg, batch, tokens):
    vectors = (batch, tokens, cfg["emb_dim"])
    return {
        "tok_emb": vectors,
        "pos_emb": (tokens, cfg["emb_dim"]),
        "trf_blocks": vectors,
        "final_norm": vectors,
        "logits": (batch, tokens, cfg["vocab_size"]),
    }
"""
P = '"pos_emb": (tokens, cfg["emb_dim"])'
V = '(batch, tokens, cfg["emb_dim"])'
L = '(batch, tokens, cfg["vocab_size"])'
T = '"tok_emb": vectors'
B = '"trf_blocks": vectors'
WRONG_SHAPES = [
    ("position-batch-axis", [(P, '"pos_emb": vectors')]),
    ("position-batch-axis", [(P, '"pos_emb": (1, tokens, cfg["emb_dim"])')]),
    ("table-shape", [(T, '"tok_emb": (cfg["vocab_size"], cfg["emb_dim"])')]),
    ("table-shape", [
        (P, '"pos_emb": (cfg["context_length"], cfg["emb_dim"])')]),
    ("table-shape", [(L, '(cfg["emb_dim"], cfg["vocab_size"])')]),
    ("context-for-tokens", [
        (V, '(batch, cfg["context_length"], cfg["emb_dim"])')]),
    ("head-unused", [(L, "vectors")]),
    ("last-position-only", [(L, '(batch, cfg["vocab_size"])')]),
    ("vocabulary-for-width", [(V, L)]),
    ("batch-tokens-swapped", [(V, '(tokens, batch, cfg["emb_dim"])')]),
    ("batch-axis-missing", [(V, '(tokens, cfg["emb_dim"])')]),
    ("axes-swapped", [(L, '(batch, cfg["vocab_size"], tokens)')]),
    ("axes-swapped", [(P, '"pos_emb": (cfg["emb_dim"], tokens)')]),
    ("layers-axis", [(B, '"trf_blocks": (cfg["n_layers"], *vectors)')]),
    ("layers-axis", [
        (B, '"trf_blocks": (batch, cfg["n_heads"], tokens, '
            'cfg["emb_dim"] // cfg["n_heads"])')]),
    ("width-missing", [(T, '"tok_emb": (batch, tokens)')]),
    ("flattened", [(L, '(batch * tokens, cfg["vocab_size"])')]),
    ("hard-coded-size", [('cfg["vocab_size"]', "50257")]),
    ("hard-coded-size", [('cfg["emb_dim"]', "768")]),
    ("wrong-shape", [(V, "(batch, tokens, 5)")]),
    ("missing-stop", [('"final_norm": vectors,', "")]),
    ("missing-stop", [('"logits"', '"out_head"')]),
    ("wrong-type", [(T, '"tok_emb": "(batch, tokens, emb_dim)"')]),
    ("wrong-type", [("return {", "return [*{"), ("    }\n", "    }.values()]\n"
                                                 )]),
    ("returns-none", [("return {", "{")]),
    ("changes-cfg", [("    vectors", "    cfg['batch'] = batch\n    vectors"
                      )]),
    ("wrong-signature", [("batch, tokens):", "tokens):"),
                         ("    vectors", "    batch = 2\n    vectors")]),
    ("wrong-shape", [("return {", "one = tokens == 1\n    return {"),
                     (T, '"tok_emb": vectors[one:]')]),
    ("wrong-shape", [
        ("    vectors", "    tokens = min(tokens, 9)\n    vectors")]),
    ("wrong-shape", [('cfg["emb_dim"])\n', 'cfg["emb_dim"] / 1)\n')]),
    ("wrong-type", [("return {", "return str({"), ("    }\n", "    })\n")]),
    ("raise-left", [("return {", "raise NotImplementedError\n    return {")]),
    ("builds-a-model", [
        ("    vectors", "    model = gptlib.DummyGPTModel(cfg)\n"
                        "    vectors")]),
]  # fmt: skip


@pytest.mark.parametrize("name, pairs", WRONG_SHAPES)
def test_each_wrong_shape_is_named(name, pairs):
    result = predict_shapes(made(changed(*pairs, source=SHAPES), "my_shapes"))
    name = renamed(name, "skeleton")
    assert (result.status, result.mistake) == ("failed", name), result


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [(V, "torch.Size([batch, tokens, cfg['emb_dim']])")],
        [(V, '[batch, tokens, cfg["emb_dim"]]')],
        [("    }\n", '        "drop_emb": vectors,\n    }\n')],
        [(P, '"pos_emb": vectors[1:]'), (L, '(*vectors[:2], '
                                            'cfg["vocab_size"])')],
        [('cfg["emb_dim"]', 'cfg.get("emb_dim")')],
    ],
)  # fmt: skip
def test_right_shapes_pass(pairs):
    result = predict_shapes(made(changed(*pairs, source=SHAPES), "my_shapes"))
    assert result.status == "passed", result


def test_a_dictionary_made_in_a_loop_passes():
    def my_shapes(cfg, batch, tokens):
        names = ["tok_emb", "trf_blocks", "final_norm"]
        shapes = dict.fromkeys(names, (batch, tokens, cfg["emb_dim"]))
        shapes["pos_emb"] = (tokens,) + (cfg["emb_dim"],)
        return shapes | {"logits": (batch, tokens, cfg["vocab_size"])}

    assert predict_shapes(my_shapes).status == "passed"


def test_wrong_shapes_show_both_shapes():
    fn = made(changed((P, '"pos_emb": vectors'), source=SHAPES), "my_shapes")
    message = predict_shapes(fn).message
    assert "pos_emb is (2, 5, 12); expected (5, 12)" in message


# --- round_trip ----------------------------------------------------------

TRIP = """
def my_round_trip(text):
    ids = tokenizer.encode(text)
    return ids, tokenizer.decode(ids)
"""
E = "tokenizer.encode(text)"
D = "tokenizer.decode(ids)"
SINGLE = "tokenizer.decode([i]) for i in ids"
WRONG_TRIPS = [
    ("decoded-singly", [(D, f'"".join({SINGLE})')]),
    ("decoded-singly", [(D, '"".join(map(tokenizer.decode, '
                            "[[i] for i in ids]))")]),
    ("joined-with-spaces", [(D, f'" ".join({SINGLE})')]),
    ("text-not-decoded", [(D, "text")]),
    ("pair-swapped", [(f"ids, {D}", f"{D}, ids")]),
    ("not-a-pair", [(f"ids, {D}", "ids")]),
    ("not-a-pair", [(f"ids, {D}", D)]),
    ("returns-none", [("return ", "")]),
    ("wrong-type", [(f"ids, {D}", f"str(ids), {D}")]),
    ("wrong-type", [(f"ids, {D}", "ids, [tokenizer.decode(ids)]")]),
    ("wrong-type", [(f"ids, {D}", f"len(ids), {D}")]),
    ("batch-axis", [(f"ids, {D}", f"[ids], {D}")]),
    ("bytes-not-tokens", [(E, "list(text.encode())"), (D, "text")]),
    ("characters-not-tokens", [(E, "[ord(c) for c in text]"), (D, "text")]),
    ("encoded-by-word", [
        (E, "[i for w in text.split() for i in tokenizer.encode(w)]")]),
    ("encoded-by-character", [
        (E, "[i for c in text for i in tokenizer.encode(c)]")]),
    ("end-marker-added", [(E, f"{E} + [50256]")]),
    ("text-changed", [(E, "tokenizer.encode(text.strip())")]),
    ("lower-cased", [(E, "tokenizer.encode(text.lower())")]),
    ("characters-lost", [
        (E, "tokenizer.encode(text.encode('ascii', 'ignore').decode())")]),
    ("characters-lost", [(D, D + ".encode('ascii', 'ignore').decode()")]),
    ("spaces-lost", [(D, D + ".strip()")]),
    ("text-changed", [(D, D + ".upper()")]),
    ("wrong-ids", [(E, E + "[1:]")]),
    ("ids-sorted", [(f"ids, {D}", f"sorted(ids), {D}")]),
    ("text-not-decoded", [(f"return ids, {D}", f"{D}\n    return ids, text")]),
    ("text-not-decoded", [(D, "text.encode().decode()")]),
    ("text-not-decoded", [(D, "''.join(list(text))")]),
    ("wrong-ids", [(f"ids, {D}", f"list(set(ids)), {D}")]),
    ("wrong-ids", [("(text):", "(text, K=[]):"), ("    ids = ", "    K += "),
                   ("return ids, ", "return K, "), ("(ids)", "(K)")]),
    ("wrong-type", [(f"ids, {D}", f"{D}, len(ids)")]),
    ("text-changed", [(D, "''.join(tokenizer.decode([i], errors='ignore') "
                          "for i in ids)")]),
    ("raise-left", [
        ("return ids", "raise NotImplementedError\n    return ids")]),
    ("wrong-signature", [("(text):", "():"),
                         ("    ids", "    text = 'Hi'\n    ids")]),
]  # fmt: skip


@pytest.mark.parametrize("name, pairs", WRONG_TRIPS)
def test_each_wrong_trip_is_named(name, pairs):
    result = round_trip(made(changed(*pairs, source=TRIP), "my_round_trip"))
    name = renamed(name, "skeleton")
    assert (result.status, result.mistake) == ("failed", name), result


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [("tokenizer", "gptlib.gpt2_tokenizer()")],
        [(f"ids, {D}", f"[ids, {D}]")],
        [(f"ids, {D}", f"torch.tensor(ids), {D}")],
        [(E, "tokenizer.encode_ordinary(text)")],
        [(E, "tokenizer.encode(text, disallowed_special=())")],
        [(D, "b''.join(tokenizer.decode_tokens_bytes(ids)).decode()")],
        [(D, "tokenizer.decode_bytes(ids).decode('utf-8')")],
        [(D, "tokenizer.decode_batch([ids])[0]")],
        [
            (
                D,
                "b''.join(tokenizer.decode_single_token_bytes(i) "
                "for i in ids).decode('utf-8')",
            )
        ],
        [("    ids", "    if not text:\n        return [], ''\n    ids")],
    ],
)
def test_right_trips_pass(pairs):
    result = round_trip(made(changed(*pairs, source=TRIP), "my_round_trip"))
    assert result.status == "passed", result


def test_stub_functions_are_not_attempted():
    for body in ("raise NotImplementedError", "...", "pass", '"""Not yet."""'):
        shapes = made(
            f"def my_shapes(cfg, batch, tokens):\n    {body}", "my_shapes"
        )
        trip = made(f"def my_round_trip(text):\n    {body}", "my_round_trip")
        assert predict_shapes(shapes).status == "not attempted"
        assert round_trip(trip).status == "not attempted"


def test_exceptions_in_functions_name_their_line():
    fn = made(changed((E, "tokeniser.encode(text)"), source=TRIP),
              "my_round_trip")  # fmt: skip
    message = round_trip(fn).message
    assert "tokeniser.encode(text)" in message and "NameError" in message


def test_hints(capsys):
    for name in ("skeleton", "predict_shapes", "round_trip"):
        for number in (1, 2, 3):
            hint(name)
            assert f"Hint {number} of 3" in capsys.readouterr().out
