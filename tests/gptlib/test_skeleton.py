import torch

from gptlib import (
    GPT_CONFIG_124M,
    DummyGPTModel,
    DummyLayerNorm,
    DummyTransformerBlock,
)


def test_the_notes_batch_gives_logits_of_the_notes_shape():
    model = DummyGPTModel(GPT_CONFIG_124M)
    batch = torch.tensor([[6109, 3626, 6100, 345], [6109, 1110, 6622, 257]])
    with torch.no_grad():
        assert model(batch).shape == torch.Size([2, 4, 50257])


def test_placeholders_return_the_very_tensor(tiny):
    x = torch.randn(2, 3, 24)
    assert DummyTransformerBlock(tiny)(x) is x
    assert DummyLayerNorm(24, eps=1e-3)(x) is x


def test_the_data_path_is_embeddings_then_head(tiny, ids):
    torch.manual_seed(0)
    model = DummyGPTModel(tiny).eval()
    tokens, positions = model.tok_emb.weight, model.pos_emb.weight
    expected = (tokens[ids] + positions[:9]) @ model.out_head.weight.T
    torch.testing.assert_close(model(ids), expected)


def test_dropout_is_the_only_difference_in_training(tiny, ids):
    model = DummyGPTModel(tiny | {"drop_rate": 1.0})
    assert model.train()(ids).abs().max() == 0
    assert model.eval()(ids).abs().max() > 0


def test_names_and_shapes(tiny):
    model = DummyGPTModel(tiny)
    shapes = {n: tuple(p.shape) for n, p in model.state_dict().items()}
    assert shapes == {
        "tok_emb.weight": (101, 24),
        "pos_emb.weight": (16, 24),
        "out_head.weight": (101, 24),
    }
    assert len(model.trf_blocks) == 2
    assert isinstance(model.final_norm, DummyLayerNorm)
