"""The learner's own part in each explorer, beside the reference."""

import functools
import random
import re

import pytest
import torch
from test_notebook_format import NAMES, read
from test_notebook_modules import definitions
from torch import nn
from torch.nn import functional

import gptlib
from classroom import explore
from classroom.explore.attention import SMALL, _small_model, own_attention
from classroom.explore.own import attempt, difference, walk
from gptlib.memory import parameter_formula

WIDE = SMALL | {"vocab_size": 50257, "emb_dim": 24, "n_layers": 2}
MINE = {  # explorer → exercise, answer, the same of gptlib
    "configuration": ("skeleton", "MySkeleton", gptlib.DummyGPTModel),
    "layer_norm": ("layer-norm", "MyLayerNorm", gptlib.LayerNorm),
    "gelu": ("gelu", "MyGELU", gptlib.GELU),
    "gradients": (
        "shortcut",
        "MyShortcutNetwork",
        gptlib.ExampleDeepNeuralNetwork,
    ),
    "attention": (
        "multi-head-attention",
        "MyMultiHeadAttention",
        gptlib.MultiHeadAttention,
    ),
    "model": ("gpt-model", "MyGPTModel", gptlib.GPTModel),
    "parameters": (
        "parameter-count",
        "my_count_parameters",
        parameter_formula,
    ),
    "generation": ("generate", "my_generate", gptlib.generate_text_simple),
}
AGREE = re.compile("agrees|the same|takes the first candidate, too")
everywhere = pytest.mark.parametrize("name", MINE)


@functools.cache
def wide_model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return gptlib.GPTModel(WIDE).eval()


def explorer(name, own=None):
    if name == "attention":
        return explore.explore_attention(attention=own)
    if name == "generation":
        return explore.explore_generation(wide_model(), generate=own)
    return getattr(explore, f"explore_{name}")(own)


def words(name, own):
    """What is said of a learner's part, after all that is said without."""
    told, plain = explorer(name, own), explorer(name).description
    assert told.description.startswith(plain)
    assert told.picture.value and "gpt-stale" not in told.picture._dom_classes
    assert "gpt-shown" in told.words.value
    return told.description[len(plain) :]


def answer(name, kind):
    """The answer in the notebook's stub or solution."""
    notebook = NAMES[list(MINE).index(name)]
    exercise, own, _ = MINE[name]
    cells = {cell.id: cell.source for cell in read(notebook).cells}
    code = cells[f"{kind}-{exercise}"]
    if kind == "solution":
        code = re.search(r"```python\n(.*?)```", code, flags=re.S)[1]
    namespace = definitions(notebook)
    exec(code, namespace)
    return namespace[own]


@everywhere
def test_a_right_one_agrees(name):
    for own in (answer(name, "solution"), MINE[name][2]):
        assert AGREE.search(words(name, own))
        assert "differ" not in words(name, own)


@everywhere
def test_a_stub_is_not_yet_written(name):
    told = explorer(name, answer(name, "exercise"))
    assert words(name, answer(name, "exercise")) == (
        " Yours is not written yet."
    )
    assert told.picture.value == explorer(name).picture.value


@everywhere
def test_its_exception_is_said_beside_the_reference(name):
    def broken(*args, **named):
        return args[0] + nonsense  # noqa: F821

    assert re.fullmatch(
        r" Yours is not drawn\. In broken, line \d+ of your cell, .* raised "
        r"NameError: name 'nonsense' is not defined\. .*",
        words(name, broken),
    )
    told = explorer(name, broken)
    assert told.picture.value == explorer(name).picture.value


@everywhere
@pytest.mark.parametrize("given", [None, 3 + 4j, "text"])
def test_what_is_no_answer_is_said(name, given):
    told = words(name, lambda *args, **named: given)
    assert told.startswith(" Yours")
    assert not AGREE.search(told)


@everywhere
def test_it_leaves_nothing_behind(name, sweep):
    """Inputs, seeds and torch's modes are as before, whatever it does."""
    right = answer(name, "solution")

    def spoil(*args):
        torch.manual_seed(1)
        random.seed(1)
        torch.set_grad_enabled(False)
        for one in args:
            if isinstance(one, torch.Tensor) and not one.is_meta:
                one.zero_()
            elif isinstance(one, dict | list):
                one.clear()

    def function(*args):
        result = right(*args)
        spoil(*args)
        return result

    own = function
    if isinstance(right, type):

        class own(right):
            def forward(self, x):
                result = super().forward(x)
                spoil(x)
                return result

    before = torch.get_rng_state(), random.getstate()
    plain, told = explorer(name), explorer(name, own)
    for box in (told, plain):
        box._controls[list(box._controls)[0]].value = list(
            getattr(box._controls[list(box._controls)[0]], "options", [1, 2])
        )[1]
    assert told.description.startswith(plain.description)
    told.reset.click()
    plain.reset.click()
    assert told.description.startswith(plain.description)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert torch.is_grad_enabled()


@everywhere
def test_over_each_controls_range(name, sweep):
    sweep(explorer(name, answer(name, "solution")))


class WithoutHead(gptlib.DummyGPTModel):
    def forward(self, in_idx):
        x = self.tok_emb(in_idx) + self.pos_emb(in_idx % 4)
        return self.final_norm(self.trf_blocks(x))


def test_a_skeletons_shapes():
    assert words("configuration", WithoutHead) == (
        " Position embedding: yours has shape (2, 4, 768), not (4, 768)."
        " Yours does not call drop_emb."
        " Output head: yours has shape (2, 4, 768), not (2, 4, 50257)."
    )


class Lifted(gptlib.LayerNorm):
    def forward(self, x):
        return super().forward(x) + 0.25


class Unbiased(nn.Module):
    def __init__(self, emb_dim):
        super().__init__()

    def forward(self, x):
        mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-5)


def test_a_norms_values(control):
    assert " differs by up to 0.2500, most in row " in words(
        "layer_norm", Lifted
    )
    box = explorer("layer_norm", Unbiased)
    control(box, "features").value = 2  # −1 and 1, but √½ of it
    assert " differs by up to 0.2929, most in row " in box.description
    control(box, "unbiased").value = True
    assert "Yours agrees" in box.description


def test_an_activations_values(control):
    def bent(x):
        return gptlib.GELU()(x) + 0.5 * (x == x[150])

    assert words("gelu", bent) == (
        " Yours differs by up to 0.5000, most at x = -0.75: 0.33, not -0.17."
    )
    box = explorer("gelu", nn.GELU)  # the exact form
    assert " differs by up to 0.0004" in box.description
    control(box, "activation").value = "GELU, exact form"
    assert "Yours agrees to" in box.description


def test_an_activation_far_off_leaves_the_axes():
    for own in (lambda x: 1000 * x, lambda x: x / 0, lambda x: x * torch.nan):
        assert " Yours differs" in words("gelu", own)


def test_the_gradients_of_a_network():
    class Doubled(gptlib.ExampleDeepNeuralNetwork):
        def forward(self, x):
            return 2 * super().forward(x)  # the loss is 4 times as large

    class Always(gptlib.ExampleDeepNeuralNetwork):
        def __init__(self, layer_sizes, use_shortcut):
            super().__init__(layer_sizes, True)

    assert words("gradients", Doubled) == (
        " Yours differs by up to 0.01515, most in layer 5: 0.0202, not "
        "0.00505."
    )
    assert "in layer 5: 1.326, not 0.00505." in words("gradients", Always)
    told = words("gradients", lambda sizes, _: nn.Linear(*sizes[:2]))
    assert told == " Yours is not drawn: its shape is (1,), not (5,)."


class Changed(gptlib.MultiHeadAttention):
    scale, masked, projected = 1, True, True

    def forward(self, x):
        q, k, v = (
            self.split_heads(layer(x))
            for layer in (self.W_query, self.W_key, self.W_value)
        )
        scores = q @ k.transpose(2, 3) * self.scale / q.shape[-1] ** 0.5
        if self.masked:
            hidden = self.mask[: x.shape[1], : x.shape[1]]
            scores = scores.masked_fill(hidden, -torch.inf)
        sums = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return self.out_proj(sums) if self.projected else sums


def test_the_weights_of_an_attention():
    class Unscaled(Changed):
        scale = 4  # the root of 16 features

    class Open(Changed):
        masked = False

    class Bare(Changed):
        projected = False

    model, place = _small_model(), ("Every effort moves you", 2, 3)
    right, told = own_attention(Changed, model, *place)
    assert "Your head agrees" in told and "Your output agrees" in told
    sharp, told = own_attention(Unscaled, model, *place)
    torch.testing.assert_close(
        sharp, right**4 / (right**4).sum(-1, keepdim=True)
    )
    assert "Your head differs by up to" in told
    everything, told = own_attention(Open, model, *place)
    assert (everything > 0).all()
    seen = everything.tril()
    torch.testing.assert_close(seen / seen.sum(-1, keepdim=True), right)
    assert "token 1 ('Every') looks at token" in told
    bare, told = own_attention(Bare, model, *place)
    torch.testing.assert_close(bare, right)
    assert "Your head agrees" in told and "Your output differs" in told


def test_heads_narrower_than_the_text():
    torch.manual_seed(2)
    model = gptlib.GPTModel(WIDE | {"n_heads": 12}).eval()  # 2 features each
    own, told = own_attention(Changed, model, "a b c d e f g", 2, 7)
    assert own.shape == (7, 7) and "Your head agrees" in told
    torch.testing.assert_close(own.sum(-1), torch.ones(7))


def test_the_parts_of_a_model():
    class Unplaced(gptlib.GPTModel):
        def forward(self, in_idx):
            x = self.trf_blocks(self.drop_emb(self.tok_emb(in_idx)))
            return self.out_head(self.final_norm(x))

    class Unnormed(gptlib.GPTModel):
        def forward(self, in_idx):
            x = self.tok_emb(in_idx) + self.pos_emb(
                torch.arange(in_idx.shape[1])
            )
            return self.out_head(self.trf_blocks(self.drop_emb(x)))

    assert words("model", Unplaced).startswith(
        " First difference, part 2, + position embedding: yours differs by "
    )
    assert words("model", Unnormed).startswith(
        " Yours does not call final_norm. First difference, part 9, output "
        "head: yours differs by up to "
    )


def test_a_count(control):
    def untied(cfg, tied):
        return parameter_formula(cfg)

    box = explorer("parameters", untied)
    control(box, "embedding").value = True
    assert box.description.endswith(
        " Yours counts 163,009,536: 38,597,376 too many."
    )
    told = words("parameters", lambda *args: parameter_formula(*args) - 1536)
    assert told == " Yours counts 163,008,000: 1,536 too few."


def test_a_loop(control):
    def first_position(model, idx, count, size):
        for _ in range(count):
            best = model(idx[:, -size:])[:, 0].argmax(-1, keepdim=True)
            idx = torch.cat((idx, best), dim=1)
        return idx

    def late(model, idx, count, size):
        new = gptlib.generate_text_simple(model, idx, count, size)
        new[:, -1] += 1
        return new

    def only_new(model, idx, count, size):
        return gptlib.generate_text_simple(model, idx, count, size)[:, -count:]

    ids = torch.tensor([gptlib.gpt2_tokenizer().encode("Hello, I am")])
    best = wide_model()(ids)[0].argmax(-1).tolist()
    told = words("generation", first_position)
    assert told.startswith(f" In round 1, yours appends {best[0]} (")
    assert f"), not {best[-1]} (" in told
    told = words("generation", only_new)
    assert told == " Yours is not drawn: its shape is (1, 8), not (1, 12)."
    box = explorer("generation", late)
    for first in (1, 4):
        control(box, "candidate").value = first
        control(box, "round").value = 7
        assert "first candidate, too" in box.description
        control(box, "round").value = 8
        assert " In round 8, yours appends " in box.description


def test_a_loop_does_not_change_the_models_mode():
    def training(model, *args):
        model.train()
        return gptlib.generate_text_simple(model, *args)

    words("generation", training)
    assert not any(part.training for part in wide_model().modules())


def test_how_far_and_where():
    reference = torch.tensor([1.0, 2.0, 3.0])

    def told(own):
        return difference(torch.tensor(own), reference, lambda at: f"{at}")

    assert told([1.0, 2.0, 3.0]) == "agrees exactly"
    assert told([1.0, 2.0, 3.000001]).startswith("agrees to 1e-06")
    assert told([1.0, 2.5, 3.0]).startswith("differs by up to 0.5000, most")
    assert told([1.0, torch.nan, 3.0]).endswith(": nan, not 2")
    assert "by up to" not in told([1.0, torch.inf, 3.0])


def test_interrupting_it_is_no_answer():
    def stop(part):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(functional.gelu, stop)


def test_the_walk_calls_each_part_once():
    ids = torch.tensor([[1, 2, 3]])
    seen = walk(gptlib.GPTModel(WIDE), ids)
    assert seen.keys() == {
        *("tok_emb", "pos_emb", "sum", "drop_emb", "block 1", "block 2"),
        *("final_norm", "out_head"),
    }
    assert seen["out_head"].shape == (1, 3, 50257)
