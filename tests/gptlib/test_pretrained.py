"""GPT-2's published weights, against Hugging Face's own model of a file."""

import subprocess
import sys

import pytest
import torch
from common import message
from safetensors.torch import load_file, save_file

from gptlib import (
    generate_text_cached,
    generate_text_simple,
    load_gpt2,
    to_input_major,
)
from gptlib.config import PUBLISHED
from gptlib.memory import parameter_formula

NOTHING = torch.zeros(1)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """A small GPT-2 with random weights and biases, and its file."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=101, n_positions=16, n_embd=128, n_layer=3, n_head=2,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).eval()
    for parameter in model.parameters():  # biases start at zero
        torch.nn.init.normal_(parameter, std=0.2)
    folder = tmp_path_factory.mktemp("gpt2")
    model.save_pretrained(folder)
    return model, folder / "model.safetensors"


@pytest.fixture
def tensors(theirs):
    return load_file(theirs[1])


@pytest.fixture
def reload(tmp_path):
    """Loads a model from a file with these tensors."""

    def load(tensors):
        path = tmp_path / "model.safetensors"
        save_file({n: t.contiguous() for n, t in tensors.items()}, path)
        return load_gpt2(path)

    return load


def logits(model, ids):
    with torch.no_grad():
        return getattr(out := model(ids), "logits", out)


def test_logits_are_theirs(theirs, ids):
    ours = load_gpt2(theirs[1])
    torch.testing.assert_close(
        logits(ours, ids), logits(theirs[0], ids), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize(
    "generate", [generate_text_simple, generate_text_cached]
)
@pytest.mark.parametrize("arrange", [lambda model: model, to_input_major])
def test_greedy_ids_are_theirs(theirs, ids, generate, arrange):
    model, path = theirs
    expected = model.generate(
        ids, max_new_tokens=7, do_sample=False, pad_token_id=0,
        attention_mask=torch.ones_like(ids),
    )  # fmt: skip
    ours = arrange(load_gpt2(path))
    assert torch.equal(generate(ours, ids, 7, 16), expected)


def test_it_is_in_evaluation_mode_and_tied(theirs):
    ours = load_gpt2(theirs[1])
    assert not any(module.training for module in ours.modules())
    assert ours.out_head.weight is ours.tok_emb.weight
    ours.tok_emb.weight.sum().backward()  # it can be trained on
    assert ours.out_head.weight.grad is not None


def test_weights_are_views_that_lie_input_major(theirs):
    ours = load_gpt2(theirs[1])
    block = ours.trf_blocks[1]
    places = set()
    for part in (block.att.W_query, block.att.W_key, block.att.W_value):
        assert part.weight.stride() == (1, 3 * 128)
        places.add(part.weight.untyped_storage().data_ptr())
    assert len(places) == 1
    assert block.ff.layers[0].weight.stride() == (1, 4 * 128)
    before = [p.data_ptr() for p in ours.parameters()]
    assert before == [p.data_ptr() for p in to_input_major(ours).parameters()]


def test_the_prefix_and_constants_do_not_matter(theirs, tensors, reload, ids):
    bare = {n.removeprefix("transformer."): t for n, t in tensors.items()}
    for i in range(3):
        bare[f"h.{i}.attn.bias"] = torch.ones(1, 1, 16, 16)
        bare[f"h.{i}.attn.masked_bias"] = torch.tensor(-1e4)
    ours = reload(bare | {"lm_head.weight": bare["wte.weight"].clone()})
    assert torch.equal(logits(ours, ids), logits(load_gpt2(theirs[1]), ids))


def test_half_precision_stays(tensors, reload, ids):
    ours = reload({name: t.bfloat16() for name, t in tensors.items()})
    assert {p.dtype for p in ours.parameters()} == {torch.bfloat16}
    assert logits(ours, ids).dtype == torch.bfloat16


BLOCK = "transformer.h.1."


@pytest.mark.parametrize(
    "change, says",
    [
        ({BLOCK + "mlp.c_fc.bias": None}, "h.1.mlp.c_fc.bias is missing"),
        ({BLOCK + "attn.c_attn.weight": None}, "h.1.attn.c_attn.weight is m"),
        ({"transformer.ln_f.bias": None}, "ln_f.bias is missing"),
        ({"transformer.wpe.weight": None}, "wte.weight, wpe.weight"),
        ({"transformer.wte.weight": None}, "wte.weight, wpe.weight"),
        ({"transformer.score.weight": NOTHING}, "score.weight is unknown"),
        ({"transformer.h.7.ln_1.bias": NOTHING}, "h.7.ln_1.bias is unknown"),
        ({BLOCK + "ln_2.bias": NOTHING}, r"h.1.ln_2.bias has the shape \(1,"),
        (
            {BLOCK + "mlp.c_proj.weight": torch.zeros(128, 512)},
            r"h.1.mlp.c_proj.weight has the shape \(128, 512\)",
        ),
        (
            {BLOCK + "attn.c_attn.bias": torch.zeros(383)},
            r"h.1.attn.c_attn.bias has the shape \(383,\)",
        ),
        (
            {"transformer.wpe.weight": torch.zeros(16, 64)},
            r"wpe.weight has the shape \(16, 64\)",
        ),
        ({"transformer.wte.weight": torch.zeros(101, 100)}, "no multiple"),
        ({"transformer.wte.weight": torch.zeros(101)}, "no GPT-2"),
        ({"lm_head.weight": torch.zeros(101, 128)}, "lm_head.weight differs"),
    ],
)
def test_a_file_of_something_else_gets_one_sentence(
    tensors, reload, change, says
):
    changed = {n: t for n, t in (tensors | change).items() if t is not None}
    with pytest.raises(ValueError, match=says) as raised:
        reload(changed)
    assert len(message(raised)) < 240


def test_many_faults_are_still_one_sentence(tensors, reload):
    left = {n: t for n, t in tensors.items() if ".ln_" not in n}
    with pytest.raises(ValueError, match="and 11 more") as raised:
        reload(left)
    assert len(message(raised)) < 240


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="download it first") as raised:
        load_gpt2(tmp_path / "model.safetensors")
    message(raised)


@pytest.mark.parametrize("kept", [0, 5, 1000, -1])
def test_half_a_download(theirs, tmp_path, kept):
    path = tmp_path / "model.safetensors"
    path.write_bytes(theirs[1].read_bytes()[:kept])
    with pytest.raises(ValueError, match="no whole safetensors file"):
        load_gpt2(str(path))


def test_a_pickle_is_never_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return print, ("opened",)

    torch.save(Bomb(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="no whole safetensors file"):
        load_gpt2(tmp_path / "pytorch_model.bin")


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_four_sizes(name, monkeypatch):
    """Shapes only: what a file of each size would hold, on meta."""
    transformers = pytest.importorskip("transformers")
    cfg = PUBLISHED[name]
    config = transformers.GPT2Config(
        n_embd=cfg["emb_dim"], n_layer=cfg["n_layers"], n_head=cfg["n_heads"]
    )
    with torch.device("meta"):
        published = transformers.GPT2Model(config)
    monkeypatch.setattr(
        "gptlib.pretrained.load_file", lambda path: published.state_dict()
    )
    ours = load_gpt2(__file__)
    assert ours.trf_blocks[0].att.num_heads == cfg["n_heads"]
    expected = parameter_formula({**cfg, "qkv_bias": True}, tied=True)
    assert sum(p.numel() for p in ours.parameters()) == expected
    assert expected == published.num_parameters()


MEASURE = """
import sys, resource, torch
from gptlib import load_gpt2
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = peak()
model = load_gpt2(sys.argv[1])
with torch.inference_mode():
    model(torch.arange(8)[None])
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="kilobytes on Linux only")
def test_it_takes_the_memory_of_its_file(tmp_path):
    """One more time 200 MB would show: nothing is copied."""
    generator = torch.Generator().manual_seed(0)
    sizes = {
        "wte.weight": (2000, 1024), "wpe.weight": (64, 1024),
        "ln_f.weight": (1024,), "ln_f.bias": (1024,),
    }  # fmt: skip
    for i in range(4):
        for norm in ("ln_1", "ln_2"):
            for kind in ("weight", "bias"):
                sizes[f"h.{i}.{norm}.{kind}"] = (1024,)
        for part, inputs, outputs in [
            ("attn.c_attn", 1024, 3072), ("attn.c_proj", 1024, 1024),
            ("mlp.c_fc", 1024, 4096), ("mlp.c_proj", 4096, 1024),
        ]:  # fmt: skip
            sizes[f"h.{i}.{part}.weight"] = (inputs, outputs)
            sizes[f"h.{i}.{part}.bias"] = (outputs,)
    path = tmp_path / "model.safetensors"
    tensors = {
        n: torch.randn(s, generator=generator) for n, s in sizes.items()
    }
    save_file(tensors, path)
    megabytes = path.stat().st_size / 2**20
    assert megabytes > 190
    run = [sys.executable, "-c", MEASURE, path]
    told = subprocess.run(run, capture_output=True, text=True, check=True)
    assert float(told.stdout) <= megabytes + 50
