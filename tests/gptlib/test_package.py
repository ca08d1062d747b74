"""The room of what is taught: it needs nothing of what teaches it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gptlib

ROOM = Path(__file__).parents[2] / "gptlib"
FILES = sorted(ROOM.glob("*.py"))


def imported(file):
    """Names of the packages from which a file imports anything, anywhere."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module.split(".")[0]


def test_it_is_this_repositorys():
    assert Path(gptlib.__file__) == ROOM / "__init__.py"


def test_every_public_name_has_a_docstring():
    for name in gptlib.__all__:
        thing = getattr(gptlib, name)
        if callable(thing):
            assert thing.__doc__, name


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_imports_torch_the_tokenizer_and_its_own_room(file):
    foreign = set(imported(file)) - sys.stdlib_module_names
    assert foreign <= {
        "gptlib", "safetensors", "tiktoken", "tiktoken_ext", "torch"
    }  # fmt: skip


def test_it_can_be_read_in_an_afternoon():
    texts = [file.read_text(encoding="utf-8") for file in FILES]
    lines = sum(len(text.splitlines()) for text in texts)
    assert lines <= 1400, f"gptlib has {lines} lines; a learner reads 1,400"


def test_import_stays_light():
    names = ["gptlib", *(f"gptlib.{file.stem}" for file in FILES[1:])]
    heavy = ["classroom", "ipywidgets", "matplotlib", "transformers"]
    code = f"import sys, {', '.join(names)}\n"
    code += f"print({{*{heavy}}} & {{*sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert done.stdout.strip() == "set()", done.stderr
