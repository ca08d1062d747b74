import subprocess
import sys

import pytest

import gptlib


def test_every_public_name_has_a_docstring():
    for name in gptlib.__all__:
        thing = getattr(gptlib, name)
        if callable(thing):
            assert thing.__doc__, name


@pytest.mark.parametrize("heavy", ["matplotlib", "ipywidgets", "transformers"])
def test_import_stays_light(heavy):
    code = f"import sys, gptlib; print('{heavy}' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert done.stdout.strip() == "False", done.stderr
