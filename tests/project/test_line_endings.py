"""Whoever clones the series gets the same bytes, on Windows too."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def git(*arguments, folder=ROOT):
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, check=True
    )
    return done.stdout.decode("utf-8")


@pytest.mark.skipif(
    not (ROOT / ".git").exists() or shutil.which("git") is None,
    reason="no git clone, or no git",
)
def test_a_clone_on_windows_has_the_same_bytes(tmp_path):
    settings = ["-c", "core.autocrlf=true", "-c", "core.eol=crlf"]
    git(*settings, "clone", "-q", "--no-hardlinks", str(ROOT), str(tmp_path))
    names = git("ls-files", "-z", folder=tmp_path).split("\0")[:-1]
    changed = [
        name
        for name in names
        if (tmp_path / name).read_bytes()
        != subprocess.check_output(["git", "show", f"HEAD:{name}"], cwd=ROOT)
    ]
    assert names and changed == []
