import copy
import pickle

import pytest
import torch
from common import TINY
from torch import nn

from gptlib import GPT_CONFIG_124M, GPTModel, generate_text_cached


def test_names_and_shapes_are_the_notes(tiny):
    shapes = {
        name: tuple(tensor.shape)
        for name, tensor in GPTModel(tiny).state_dict().items()
    }
    block = {
        "att.W_query.weight": (24, 24),
        "att.W_key.weight": (24, 24),
        "att.W_value.weight": (24, 24),
        "att.out_proj.weight": (24, 24),
        "att.out_proj.bias": (24,),
        "ff.layers.0.weight": (96, 24),
        "ff.layers.0.bias": (96,),
        "ff.layers.2.weight": (24, 96),
        "ff.layers.2.bias": (24,),
        "norm1.scale": (24,),
        "norm1.shift": (24,),
        "norm2.scale": (24,),
        "norm2.shift": (24,),
    }
    expected = {"tok_emb.weight": (101, 24), "pos_emb.weight": (16, 24)}
    for i in range(2):
        expected |= {f"trf_blocks.{i}.{n}": s for n, s in block.items()}
    expected |= {
        "final_norm.scale": (24,),
        "final_norm.shift": (24,),
        "out_head.weight": (101, 24),
    }
    assert shapes == expected
    assert list(shapes) == list(expected)


@pytest.fixture(scope="module")
def hugging_face():
    """Hugging Face's GPT-2 with random weights, and ours with a copy."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=101,
        n_positions=16,
        n_embd=24,
        n_layer=2,
        n_head=3,
        initializer_range=0.3,
    )
    theirs = transformers.GPT2LMHeadModel(config).eval()
    for parameter in theirs.parameters():  # biases start at zero there
        torch.nn.init.normal_(parameter, std=0.3)
    ours = GPTModel(TINY | {"qkv_bias": True}).eval()
    ours.load_state_dict(_translated(theirs.transformer))
    ours.out_head.weight = ours.tok_emb.weight
    return theirs, ours


def _translated(theirs):
    """Their tensors under our names; their Conv1D stores (in, out)."""
    state = {
        "tok_emb.weight": theirs.wte.weight,
        "pos_emb.weight": theirs.wpe.weight,
        "final_norm.scale": theirs.ln_f.weight,
        "final_norm.shift": theirs.ln_f.bias,
        "out_head.weight": theirs.wte.weight,
    }
    for i, block in enumerate(theirs.h):
        ours = f"trf_blocks.{i}"
        qkv = ("W_query", "W_key", "W_value")
        weights = block.attn.c_attn.weight.T.chunk(3)
        biases = block.attn.c_attn.bias.chunk(3)
        for name, weight, bias in zip(qkv, weights, biases, strict=True):
            state[f"{ours}.att.{name}.weight"] = weight
            state[f"{ours}.att.{name}.bias"] = bias
        for name, layer in {
            "att.out_proj": block.attn.c_proj,
            "ff.layers.0": block.mlp.c_fc,
            "ff.layers.2": block.mlp.c_proj,
        }.items():
            state[f"{ours}.{name}.weight"] = layer.weight.T
            state[f"{ours}.{name}.bias"] = layer.bias
        for name, norm in {"norm1": block.ln_1, "norm2": block.ln_2}.items():
            state[f"{ours}.{name}.scale"] = norm.weight
            state[f"{ours}.{name}.shift"] = norm.bias
    return state


def test_logits_equal_hugging_faces(hugging_face, ids):
    theirs, ours = hugging_face
    with torch.no_grad():
        torch.testing.assert_close(
            ours(ids), theirs(ids).logits, rtol=1e-4, atol=1e-4
        )


def test_gradients_equal_hugging_faces(hugging_face, ids):
    theirs, ours = hugging_face
    grads = [
        torch.autograd.grad(logits.square().mean(), table)[0]
        for logits, table in [
            (ours(ids), ours.tok_emb.weight),
            (theirs(ids).logits, theirs.transformer.wte.weight),
        ]
    ]
    torch.testing.assert_close(*grads, rtol=1e-3, atol=1e-4)


def test_no_logit_sees_a_later_token(tiny_model, ids):
    before = tiny_model(ids)
    for position in range(1, 9):
        other = ids.clone()
        other[:, position] = (other[:, position] + 50) % 101
        after = tiny_model(other)
        assert torch.equal(after[:, :position], before[:, :position])
        changed = (after - before).abs() > 1e-6
        assert changed[:, position:].any(-1).all()


def test_order_matters(tiny_model):
    one = tiny_model(torch.tensor([[5, 6, 7]]))
    other = tiny_model(torch.tensor([[6, 5, 7]]))
    assert (one[:, -1] - other[:, -1]).abs().max() > 1e-3


def test_a_batch_row_equals_the_row_alone(tiny_model, ids):
    torch.testing.assert_close(tiny_model(ids)[1:2], tiny_model(ids[1:2]))


def test_positions_come_from_the_position_table(tiny_model):
    with torch.no_grad():
        tiny_model.pos_emb.weight.zero_()
    same = tiny_model(torch.full((1, 6), 7))  # equal tokens, no positions
    torch.testing.assert_close(same[:, 0], same[:, 5])


def test_every_block_takes_part_and_has_its_own_weights(tiny_model, ids):
    before = tiny_model(ids)
    blocks = tiny_model.trf_blocks
    assert not torch.equal(blocks[0].att.W_key.weight,
                           blocks[1].att.W_key.weight)  # fmt: skip
    for block in blocks:
        with torch.no_grad():
            block.ff.layers[2].bias[0].add_(1)
        after = tiny_model(ids)
        assert (after - before).abs().max() > 1e-3
        before = after


def test_the_final_norm_is_used(tiny_model, ids):
    with torch.no_grad():
        tiny_model.final_norm.scale.zero_()
    assert tiny_model(ids).abs().max() == 0


def test_embedding_dropout_is_on_in_training_only(tiny, ids):
    model = GPTModel(tiny | {"drop_rate": 1.0})
    kept = []
    model.trf_blocks.register_forward_pre_hook(
        lambda module, args: kept.append(args[0].abs().max().item())
    )
    model.train()(ids)
    model.eval()(ids)
    assert kept[0] == 0 and kept[1] > 0


def test_positions_are_made_on_the_inputs_device(tiny):
    model = GPTModel(tiny).to("meta")
    ids = torch.zeros(2, 5, dtype=torch.long, device="meta")
    assert model(ids).shape == (2, 5, 101)


def test_another_default_device_does_not_matter(tiny_model, ids):
    expected = tiny_model(ids)
    with torch.device("meta"):
        torch.testing.assert_close(tiny_model(ids), expected)


def test_it_works_after_to_empty_and_load(tiny, ids):
    torch.manual_seed(0)
    source = GPTModel(tiny).eval()
    with torch.device("meta"):
        target = GPTModel(tiny).eval()
    target.to_empty(device="cpu").load_state_dict(source.state_dict())
    torch.testing.assert_close(target(ids), source(ids))


def test_the_notes_batch_gives_the_notes_shape():
    with torch.device("meta"):
        logits = GPTModel(GPT_CONFIG_124M)(torch.zeros(2, 4).long())
    assert logits.shape == torch.Size([2, 4, 50257])


def test_a_state_of_the_notes_own_model_is_loaded_strictly(tiny, tiny_model):
    """Its attention saves the mask, as numbers."""
    state = tiny_model.state_dict()
    for i in range(2):
        mask = torch.triu(torch.ones(16, 16), diagonal=1)
        state[f"trf_blocks.{i}.att.mask"] = mask
    names = set(state)
    target = GPTModel(tiny)
    assert target.load_state_dict(state, strict=True) == ([], [])
    assert set(state) == names  # the caller's dict stays whole
    assert torch.equal(target.out_head.weight, tiny_model.out_head.weight)
    state["trf_blocks.0.att.masks"] = mask
    with pytest.raises(RuntimeError, match="att.masks"):
        target.load_state_dict(state)


class LowRank(nn.Module):
    """LoRA: a Linear with a trainable product of two thin ones beside it."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, 2, bias=False)
        self.up = nn.Linear(2, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def test_any_linear_can_be_wrapped(tiny_model, ids):
    before = tiny_model(ids)
    cached = generate_text_cached(tiny_model, ids, 3, 16)
    for module in list(tiny_model.modules()):
        for name, layer in list(module.named_children()):
            if isinstance(layer, nn.Linear):
                setattr(module, name, LowRank(layer).eval())
    assert sum(isinstance(m, LowRank) for m in tiny_model.modules()) == 13
    assert torch.equal(tiny_model(ids), before)
    assert torch.equal(generate_text_cached(tiny_model, ids, 3, 16), cached)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_a_copy_gives_the_same(tiny_model, ids, copied):
    assert torch.equal(copied(tiny_model)(ids), tiny_model(ids))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(tiny_model, ids, dtype):
    expected = tiny_model(ids)
    logits = tiny_model.to(dtype)(ids)
    assert logits.dtype == dtype
    assert (logits.float() - expected).abs().max() < 0.05


def test_it_is_traced_in_one_piece(tiny_model, ids):
    traced = torch.compile(tiny_model, backend="eager", fullgraph=True)
    torch.testing.assert_close(traced(ids), tiny_model(ids))


@pytest.mark.skipif(
    not hasattr(torch.export, "Dim"), reason="this torch exports no sizes"
)
def test_it_is_exported_for_any_batch_and_length(tiny_model, ids):
    sizes = {
        0: torch.export.Dim("batch", min=1, max=8),
        1: torch.export.Dim("tokens", min=2, max=16),
    }
    program = torch.export.export(tiny_model, (ids,), dynamic_shapes=(sizes,))
    for some in (ids, ids[:1, :4], ids.repeat(2, 1)):
        torch.testing.assert_close(program.module()(some), tiny_model(some))
