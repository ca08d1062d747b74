"""Notebook 08's cells on GPT-2's own weights, without these."""

import weakref
from pathlib import Path

import pytest
import torch
from test_notebook_format import NAMES, read

import gptlib

SOURCES = {cell.id: cell.source for cell in read(NAMES[7]).cells}


class Model(torch.nn.Module):
    """Stands in for 124 million numbers."""


@pytest.fixture
def space(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {
        "Path": Path,
        "torch": torch,
        "gptlib": gptlib,
        "model": Model(),
        "tokenizer": gptlib.gpt2_tokenizer(),
        "encoded_tensor": torch.tensor([[15496, 11, 314, 716]]),
    }
    for name in ("attend", "read-token", "generate-cached"):
        exec(SOURCES[name], names)
    return names


def allow(source):
    assert source.startswith("DOWNLOAD = False")
    return source.replace("DOWNLOAD = False", "DOWNLOAD = True", 1)


def test_without_weights_nothing_changes(space, capsys):
    model = space["model"]
    for name in ("weights", "greet"):
        exec(SOURCES[name], space)
    assert space["model"] is model
    assert "set DOWNLOAD = True" in capsys.readouterr().out
    assert not list(Path().iterdir())


def test_loaded_weights_replace_the_random_model(space, capsys, monkeypatch):
    alive, loaded = weakref.ref(space["model"]), Model()

    def load(path):
        assert alive() is None, "two models in memory"
        assert path == Path("gpt2-weights/model.safetensors")
        return loaded

    def fetch(url, target, start_of_hash):
        assert url == (
            "https://huggingface.co/openai-community/gpt2/resolve/main/"
            "model.safetensors"
        )
        Path(target).write_bytes(b"weights")

    monkeypatch.setattr(gptlib, "load_gpt2", load)
    monkeypatch.setattr(torch.hub, "download_url_to_file", fetch)
    exec(allow(SOURCES["weights"]), space)
    assert space["model"] is loaded
    assert "GPT-2's weights are loaded." in capsys.readouterr().out
    longer = torch.tensor([[15496, 11, 314, 716, 257]])
    space["generate_with_cache"] = lambda model, *rest: longer
    exec(SOURCES["greet"], space)
    assert capsys.readouterr().out == "Hello, I am a\n"


def test_a_small_gpt2_writes_what_hugging_faces_does(space, capsys):
    """A file where the download would be: its weights are random."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_embd=64, n_head=1, n_layer=1)
    theirs = transformers.GPT2LMHeadModel(config).eval()
    theirs.save_pretrained("gpt2-weights")
    capsys.readouterr()  # a progress bar
    for name in ("weights", "greet"):
        exec(SOURCES[name], space)
    prompt = space["encoded_tensor"]
    expected = theirs.generate(prompt, max_new_tokens=40, do_sample=False)
    assert torch.equal(space["greeting"], expected)
    assert capsys.readouterr().out == (
        "GPT-2's weights are loaded.\n"
        f"{space['tokenizer'].decode(expected[0].tolist())}\n"
    )


def test_a_file_that_is_not_whole_is_not_kept(space, capsys, tmp_path):
    """torch's own function, on a file of this machine."""
    half = tmp_path / "half"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    source = allow(SOURCES["weights"]).replace(
        "https://huggingface.co/openai-community/gpt2/resolve/main/",
        f"{half.as_uri()}/",
    )
    model = space["model"]
    exec(source, space)
    told = capsys.readouterr().out
    assert told.startswith("Not loaded: invalid hash value")
    assert space["model"] is model
    assert not list(Path("gpt2-weights").iterdir())


def test_a_half_file_put_there_by_hand_is_said_to_be(space, capsys):
    weights = Path("gpt2-weights", "model.safetensors")
    weights.parent.mkdir()
    weights.write_bytes(b"half")
    for name in ("weights", "greet"):
        exec(SOURCES[name], space)
    told = capsys.readouterr().out
    assert "Not loaded: model.safetensors is no whole safetensors" in told
    assert space["model"] is None
    assert told.endswith("This cell waits for the weights.\n")


def test_without_a_network_it_says_so(space, capsys):
    source = allow(SOURCES["weights"]).replace(
        "https://huggingface.co/", "http://127.0.0.1:9/"
    )
    exec(source, space)
    assert "Not loaded: <urlopen error" in capsys.readouterr().out
