"""Only an untouched stub is "not attempted"; else what is there is named."""

import pytest
import torch
from torch import nn

from classroom.checks import layer_norm
from classroom.checks.stubs import is_stub

INIT = """
        super().__init__()
        self.eps = 1e-5
        self.scale = nn.Parameter(torch.ones(emb_dim))
        self.shift = nn.Parameter(torch.zeros(emb_dim))
"""
FORWARD = """
        n = nn.functional.layer_norm(x, x.shape[-1:], eps=self.eps)
        return self.scale * n + self.shift
"""
STUB = "\n        raise NotImplementedError\n"


def written(init=INIT, forward=FORWARD, *, between="", **names):
    """A learner's class, with other names for its methods."""
    init_name = names.get("init_name", "__init__")
    forward_name = names.get("forward_name", "forward")
    source = (
        f"class MyLayerNorm(nn.Module):\n    def {init_name}(self, emb_dim):"
        f"{init}\n{between}    def {forward_name}(self, x):{forward}"
    )
    space = {"nn": nn, "torch": torch}
    exec(compile(source, "<cell>", "exec"), space)
    return space["MyLayerNorm"]


STUBS = {
    "as given": written(STUB, STUB),
    "after super": written("\n        super().__init__()\n" + STUB[1:], STUB),
    "words": written(STUB, '\n        """Normalize x."""\n' + STUB[1:]),
    "text": written(STUB, "\n        raise NotImplementedError('later')"),
    "called": written(STUB, "\n        raise NotImplementedError()"),
    "pass": written("\n        super().__init__()", "\n        pass"),
    "dots": written(STUB, " ..."),
    "return": written(STUB, "\n        return None"),
    "no method": type("MyLayerNorm", (nn.Module,), {}),
    "None": None,
    "Ellipsis": ...,
}


@pytest.mark.parametrize("stub", STUBS)
def test_a_stub_is_not_attempted(stub):
    assert is_stub(STUBS[stub])
    assert layer_norm(STUBS[stub]).status == "not attempted"


ELSEWHERE = {
    # name of the mistake, words of the message: what was written
    ("forward-misspelt", "`foward`"): written(forward_name="foward"),
    ("forward-misspelt", "`Forward`"): written(forward_name="Forward"),
    ("forward-misspelt", "`forwards`"): written(forward_name="forwards"),
    ("call-for-forward", "`__call__`"): written(forward_name="__call__"),
    ("init-misspelt", "`_init_`"): written(init_name="_init_"),
    ("init-misspelt", "`__int__`"): written(init_name="__int__"),
    ("init-misspelt", "`init`"): written(init_name="init"),
    ("unfinished", "`forward`"): written(forward=STUB),
    ("unfinished", "`forward` is"): written(forward="\n        pass"),
    ("unfinished", "`__init__`"): written(init=STUB),
    ("raise-left", "`forward`"): written(forward=STUB + FORWARD[1:]),
    ("raise-left", "line 11"): written(
        forward=FORWARD.replace("return", "y =") + STUB[1:]
    ),
    ("raise-left", "`__init__`"): written(init=INIT + STUB[1:]),
}


@pytest.mark.parametrize("mistake, words", ELSEWHERE)
def test_what_is_there_is_named(mistake, words):
    answer = ELSEWHERE[mistake, words]
    assert not is_stub(answer)
    result = layer_norm(answer)
    assert (result.status, result.mistake) == ("failed", mistake), result
    assert words in result.message


def test_forward_inside_init_is_named():
    nested = (
        INIT
        + "        def forward(self, x):"
        + FORWARD.replace("        ", "            ")
    )
    source = f"class My(nn.Module):\n    def __init__(self, emb_dim):{nested}"
    space = {"nn": nn, "torch": torch}
    exec(source, space)
    result = layer_norm(space["My"])
    assert result.mistake == "forward-nested", result


def test_no_forward_at_all_is_named():
    source = f"class My(nn.Module):\n    def __init__(self, emb_dim):{INIT}"
    space = {"nn": nn, "torch": torch}
    exec(source, space)
    assert layer_norm(space["My"]).mistake == "forward-missing"


def test_a_container_that_was_called_is_no_missing_forward():
    class My(nn.Module):
        def __init__(self, emb_dim):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(emb_dim))
            self.shift = nn.Parameter(torch.zeros(emb_dim))
            self.steps = nn.ModuleList([nn.Identity()])

        def forward(self, x):
            return self.steps(x)

    result = layer_norm(My)
    assert result.mistake == "exception"
    assert "ModuleList" in result.message


def test_a_half_is_judged_before_the_other_is_written():
    wrong = INIT.replace("torch.ones", "torch.zeros")
    assert layer_norm(written(wrong, STUB)).mistake == "scale-not-ones"
    assert layer_norm(written(wrong, " ...")).mistake == "scale-not-ones"


def test_an_attribute_may_be_the_forward():
    class My(nn.LayerNorm):
        def __init__(self, emb_dim):
            super().__init__(emb_dim)
            plain = super().forward
            self.forward = lambda x: plain(x)

    assert layer_norm(My).mistake == "ready-made"  # after all else


def test_an_inherited_forward_is_an_answer():
    class My(nn.LayerNorm):
        pass

    assert not is_stub(My)
    assert layer_norm(My).mistake == "ready-made"  # after all else


def test_a_function_that_returns_a_text_is_no_stub():
    assert not is_stub(lambda models: "pos_emb")
    assert is_stub(lambda models: None)


@pytest.mark.parametrize(
    "signature",
    ["self", "self, a", "self, a, b, c=1", "self, *a, b=2, **c", "me, /, a"],
)
def test_a_stub_of_any_signature_is_a_stub(signature):
    for body in ("super().__init__()", "raise NotImplementedError"):
        source = (
            f"class My(nn.Module):\n def __init__({signature}):\n"
            f"  super().__init__()\n  {body}"
        ).replace("  super().__init__()\n  super", "  super")
        space = {"nn": nn}
        exec(source, space)
        assert is_stub(space["My"]), source
