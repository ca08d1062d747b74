"""What a notebook builds and what gptlib holds are the same thing."""

import ast

import pytest
import torch
from common import TINY
from test_notebook_format import NAMES, code_cells, read

import gptlib

NUMBER = {name[:2]: name for name in NAMES}
DUMMIES = ("DummyGPTModel", "DummyTransformerBlock", "DummyLayerNorm")


def definitions(name):
    """Everything that a notebook imports and defines, stubs left out."""
    namespace = {}
    for cell in code_cells(read(name)):
        if "exercise" in cell.metadata.get("tags", []):
            continue
        body = [
            node
            for node in ast.parse(cell.source).body
            if isinstance(
                node,
                ast.Import | ast.ImportFrom | ast.ClassDef | ast.FunctionDef,
            )
        ]
        exec(compile(ast.Module(body, []), name, "exec"), namespace)
    return namespace


@pytest.fixture(scope="module")
def defined():
    return {number: definitions(name) for number, name in NUMBER.items()}


def pair(defined, number, name):
    """The notebook's own and gptlib's, which must be two things."""
    own, packaged = defined[number][name], getattr(gptlib, name)
    assert own is not packaged, f"notebook {number} does not define {name}"
    return own, packaged


MODULES = [
    ("01", "DummyGPTModel", (TINY,), "ids"),
    ("01", "DummyTransformerBlock", (TINY,), "features"),
    ("01", "DummyLayerNorm", (24,), "features"),
    ("02", "LayerNorm", (24,), "features"),
    ("03", "GELU", (), "features"),
    ("03", "FeedForward", (TINY,), "features"),
    ("04", "ExampleDeepNeuralNetwork", ([24, 24, 5, 5], True), "features"),
    ("04", "ExampleDeepNeuralNetwork", ([24, 24, 5, 5], False), "features"),
    ("05", "TransformerBlock", (TINY,), "features"),
    ("06", "GPTModel", (TINY,), "ids"),
]


@pytest.mark.parametrize("number, name, arguments, kind", MODULES)
@pytest.mark.parametrize("training", [False, True])
def test_same_seed_same_parameters_same_output(
    defined, number, name, arguments, kind, training
):
    torch.manual_seed(1)
    x = {
        "ids": torch.randint(0, 101, (3, 9)),
        "features": 3 * torch.randn(3, 9, 24),
    }[kind]
    results = []
    for cls in pair(defined, number, name):
        torch.manual_seed(2)
        module = cls(*arguments).train(training)
        results.append((module.state_dict(), module(x)))
    (own_state, own_output), (state, output) = results
    assert list(own_state) == list(state)
    for key in state:
        assert torch.equal(own_state[key], state[key]), key
    torch.testing.assert_close(own_output, output)


@pytest.mark.parametrize("use_shortcut", [False, True])
def test_gradient_functions_agree(defined, use_shortcut, capsys):
    own, packaged = pair(defined, "04", "gradient_means")
    own_print, packaged_print = pair(defined, "04", "print_gradients")
    torch.manual_seed(123)
    model = gptlib.ExampleDeepNeuralNetwork([3, 3, 3, 1], use_shortcut)
    x = torch.tensor([[1.0, 0.0, -1.0]])
    expected = packaged(model, x)
    assert own(model, x) == pytest.approx(expected, rel=1e-6)
    assert own(model, x) == pytest.approx(expected, rel=1e-6)
    texts = []
    for function in (own_print, packaged_print):
        function(model, x)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("tied", [False, True])
def test_counting_functions_agree(defined, tied):
    own, packaged = pair(defined, "07", "count_parameters")
    with torch.device("meta"):
        model = gptlib.GPTModel(TINY)
    assert own(model, tied) == packaged(model, tied)
    own, packaged = pair(defined, "07", "model_size_mb")
    assert own(163_009_536) == packaged(163_009_536)
    assert own(163_009_536, 2) == packaged(163_009_536, 2)


def test_generation_functions_agree(defined, tiny_model, ids):
    own, packaged = pair(defined, "08", "generate_text_simple")
    for count in (0, 1, 12):
        assert torch.equal(
            own(tiny_model, ids, count, 16),
            packaged(tiny_model, ids, count, 16),
        )
