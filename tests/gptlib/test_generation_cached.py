import warnings

import pytest
import torch
from common import NOTES_IDS, message
from torch import nn

from gptlib import (
    GPT_CONFIG_124M,
    DummyGPTModel,
    GPTModel,
    generate_text_cached,
    generate_text_simple,
    to_input_major,
)


def step_by_step(model, ids, count, context_size):
    """Greedy choice written out, without either function's code."""
    for _ in range(count):
        with torch.no_grad():
            last = model(ids[:, -context_size:])[:, -1]
        ids = torch.cat((ids, last.argmax(-1, keepdim=True)), dim=1)
    return ids


def test_the_notes_ids():
    torch.manual_seed(123)
    model = to_input_major(GPTModel(GPT_CONFIG_124M).eval())
    out = generate_text_cached(
        model=model,
        idx=torch.tensor([NOTES_IDS[:4]]),
        max_new_tokens=6,
        context_size=1024,
    )
    assert out.tolist() == [NOTES_IDS]


# A model reads 16 tokens: prompts that end before, at and after the window,
# texts that never reach it, reach it and go far past it.
@pytest.mark.parametrize("context_size", [1, 2, 5, 15, 16])
@pytest.mark.parametrize("prompt", [1, 2, 9, 15, 16, 17, 40])
@pytest.mark.parametrize("count", [0, 1, 7, 40])
def test_the_same_ids(tiny_model, prompt, count, context_size):
    generator = torch.Generator().manual_seed(prompt)
    ids = torch.randint(0, 101, (3, prompt), generator=generator)
    out = generate_text_cached(tiny_model, ids, count, context_size)
    for oracle in (generate_text_simple, step_by_step):
        assert torch.equal(out, oracle(tiny_model, ids, count, context_size))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "change",
    [
        {"qkv_bias": True},
        {"n_layers": 1},
        {"n_layers": 5, "n_heads": 1},
        {"n_heads": 24},
        {"context_length": 1},
        {"drop_rate": 0.0},
    ],
    ids=str,
)
def test_the_same_ids_in_other_models(tiny, ids, change, seed):
    torch.manual_seed(seed)
    model = GPTModel(tiny | change).eval()
    for parameter in model.parameters():  # biases and norms, too
        nn.init.normal_(parameter, std=0.3)
    size = model.pos_emb.num_embeddings
    out = generate_text_cached(model, ids, 20, size)
    assert torch.equal(out, generate_text_simple(model, ids, 20, size))


def test_the_same_ids_with_a_tied_head(tiny_model, ids):
    tiny_model.out_head.weight = tiny_model.tok_emb.weight
    out = generate_text_cached(tiny_model, ids, 20, 16)
    assert torch.equal(out, generate_text_simple(tiny_model, ids, 20, 16))


def test_the_same_ids_in_float64(tiny_model, ids):
    tiny_model.double()
    out = generate_text_cached(tiny_model, ids, 20, 16)
    assert torch.equal(out, generate_text_simple(tiny_model, ids, 20, 16))


def test_bfloat16_chooses_among_the_largest(tiny_model, ids):
    # Its eight bits make logits equal that are not, so rounding may decide.
    tiny_model.bfloat16()
    out = generate_text_cached(tiny_model, ids, 20, 16)
    for end in range(9, 29):
        with torch.no_grad():
            last = tiny_model(out[:, max(0, end - 16) : end])[:, -1].float()
        chosen = last.gather(1, out[:, end : end + 1])
        assert (last.amax(-1, keepdim=True) - chosen < 0.05).all()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_ids_keep_their_type(tiny_model, ids, dtype):
    ids = ids.to(dtype)
    out = generate_text_cached(tiny_model, ids, 12, 16)
    assert out.dtype == dtype
    assert torch.equal(out, generate_text_simple(tiny_model, ids, 12, 16))


def test_all_tensors_are_made_on_the_models_device(tiny):
    # The meta device stands for any that is not the CPU: mixing both raises.
    model = GPTModel(tiny).eval().to("meta")
    ids = torch.zeros(2, 5, dtype=torch.long, device="meta")
    out = generate_text_cached(model, ids, 20, 16)
    assert out.is_meta and out.shape == (2, 25)


def test_each_token_is_read_once_until_the_window_slides(tiny_model, ids):
    read, headed = [], []
    tiny_model.tok_emb.register_forward_pre_hook(
        lambda module, args: read.append(args[0].shape[1])
    )
    tiny_model.out_head.register_forward_pre_hook(
        lambda module, args: headed.append(tuple(args[0].shape))
    )
    generate_text_cached(tiny_model, ids, 11, 16)
    # 9 … 16 tokens fit the window; three rounds later, 16 are read anew.
    assert read == [9, 1, 1, 1, 1, 1, 1, 1, 16, 16, 16]
    assert headed == [(3, 24)] * 11


def snapshot(model):
    """Everything that hangs on a model: attributes and memory."""
    attributes = {n: sorted(vars(m)) for n, m in model.named_modules()}
    tensors = [*model.parameters(), *model.buffers()]
    return attributes, [(t.data_ptr(), t.stride()) for t in tensors]


@pytest.mark.parametrize("count", [0, 1, 20])
def test_nothing_of_the_callers_is_changed(tiny_model, ids, count):
    before, state = ids.clone(), torch.get_rng_state()
    held = snapshot(tiny_model)
    weights = {n: t.clone() for n, t in tiny_model.state_dict().items()}
    out = generate_text_cached(tiny_model, ids, count, 16)
    out.zero_()
    assert not out.requires_grad
    assert torch.equal(ids, before)
    assert torch.equal(torch.get_rng_state(), state)
    assert snapshot(tiny_model) == held
    assert not tiny_model.training and torch.is_grad_enabled()
    for name, tensor in tiny_model.state_dict().items():
        assert torch.equal(tensor, weights[name])
    assert all(p.grad is None for p in tiny_model.parameters())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_works_inside_other_modes(tiny_model, ids, mode):
    expected = generate_text_simple(tiny_model, ids, 12, 16)
    with mode():
        out = generate_text_cached(tiny_model, ids, 12, 16)
    assert torch.equal(out, expected)


def test_on_token_hears_each_round(tiny_model, ids):
    heard = []

    def listen(chosen):
        heard.append(chosen.clone())
        chosen.zero_()  # what it does with them is its own business

    out = generate_text_cached(tiny_model, ids, 12, 16, on_token=listen)
    assert torch.equal(torch.stack(heard, dim=1), out[:, 9:])
    assert torch.equal(out, generate_text_simple(tiny_model, ids, 12, 16))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_broken_off_run_leaves_the_model_usable(tiny_model, ids, error):
    expected = generate_text_simple(tiny_model, ids, 20, 16)
    held, heard = snapshot(tiny_model), []

    def break_off(chosen):
        heard.append(chosen)
        if len(heard) == 3:
            raise error

    with pytest.raises(error):
        generate_text_cached(tiny_model, ids, 20, 16, on_token=break_off)
    assert torch.is_grad_enabled() and snapshot(tiny_model) == held
    for generate in (generate_text_cached, generate_text_simple):
        assert torch.equal(generate(tiny_model, ids, 20, 16), expected)
    tiny_model(ids).mean().backward()  # it can still be trained


def test_an_interrupt_within_a_round_does_no_harm(tiny_model, ids):
    expected = generate_text_simple(tiny_model, ids, 20, 16)

    def interrupt(module, args):
        raise KeyboardInterrupt

    norm = tiny_model.trf_blocks[1].norm2
    hook = norm.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        generate_text_cached(tiny_model, ids, 20, 16)
    hook.remove()
    assert torch.is_grad_enabled()
    out = generate_text_cached(tiny_model, ids, 20, 16)
    assert torch.equal(out, expected)


def test_training_mode_is_kept_and_warned_about(tiny_model, ids):
    tiny_model.train()
    with pytest.warns(UserWarning, match="training mode.*eval") as caught:
        generate_text_cached(tiny_model, ids, 20, 16)
    assert caught[0].filename == __file__
    assert tiny_model.training


def test_dropout_acts_as_in_the_plain_loop(tiny, ids):
    # Everything dropped but the embeddings: each block adds nothing.
    torch.manual_seed(0)
    model = GPTModel(tiny | {"drop_rate": 1.0}).eval()
    for block in model.trf_blocks:
        block.drop_shortcut.train()
    with pytest.warns(UserWarning, match="training mode"):
        out = generate_text_cached(model, ids, 20, 16)
    with pytest.warns(UserWarning, match="training mode"):
        expected = generate_text_simple(model, ids, 20, 16)
    assert torch.equal(out, expected)


def test_evaluation_mode_is_quiet(tiny_model, ids):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        generate_text_cached(tiny_model, ids, 1, 16)


@pytest.mark.parametrize(
    "change",
    [
        {"max_new_tokens": -1},
        {"max_new_tokens": 2.5},
        {"max_new_tokens": True},
        {"context_size": 0},
        {"context_size": 17},
        {"context_size": None},
        {"idx": "Hello, I am"},
        {"idx": [[1, 2]]},
        {"idx": torch.zeros(3, dtype=torch.long)},
        {"idx": torch.zeros(1, 0, dtype=torch.long)},
        {"idx": torch.tensor([[101]])},
        {"idx": torch.tensor([[-1]])},
        {"idx": torch.tensor([[0.5]])},
    ],
    ids=str,
)
def test_a_wrong_input_is_answered_as_by_the_plain_loop(tiny_model, change):
    arguments = {
        "model": tiny_model,
        "idx": torch.tensor([[1]]),
        "max_new_tokens": 1,
        "context_size": 16,
    }
    sentences = []
    for generate in (generate_text_simple, generate_text_cached):
        with pytest.raises((TypeError, ValueError)) as raised:
            generate(**(arguments | change))
        sentences.append((raised.type, message(raised)))
    assert sentences[0] == sentences[1]


class Louder(GPTModel):
    def forward(self, in_idx):
        return 2 * super().forward(in_idx)


@pytest.mark.parametrize("kind", [Louder, DummyGPTModel])
def test_a_model_of_another_path_is_refused(tiny, ids, kind):
    with pytest.raises(TypeError) as raised:
        generate_text_cached(kind(tiny).eval(), ids, 1, 16)
    for word in (kind.__name__, "GPTModel", "generate_text_simple"):
        assert word in message(raised)


@pytest.mark.parametrize("place", ["block", "att"])
def test_a_block_of_another_path_is_refused(tiny_model, ids, place):
    if place == "block":
        tiny_model.trf_blocks[1] = nn.Identity().eval()
    else:
        tiny_model.trf_blocks[1].att = nn.Identity().eval()
    with pytest.raises(TypeError, match="Identity"):
        generate_text_cached(tiny_model, ids, 1, 16)
