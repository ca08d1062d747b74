"""Launch links lead to this repository's notebooks on Binder."""

import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, quote, urlsplit

import pytest
import yaml
from test_notebook_format import NAMES

ROOT = Path(__file__).parents[2]
FILES = ["README.md", *(f"notebooks/{name}.ipynb" for name in NAMES)]
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="no git")
links = SimpleNamespace(**runpy.run_path(str(ROOT / "binder" / "links.py")))


def read(name, root=ROOT):
    return (root / name).read_text(encoding="utf-8")


def found(text):
    """Where the badges lead."""
    return re.findall(rf"(?={links.BADGE}).*?\)\]\((.*?)\)", text)


def in_use():
    """The address that the links have now, or None."""
    place = re.search(r"mybinder\.org/v2/gh/([^/]+/[^/]+)/", read(FILES[0]))
    return place and f"https://github.com/{place[1]}"


@pytest.fixture
def copy(tmp_path):
    """The files that hold links, to write to."""
    (tmp_path / "notebooks").mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_every_link_is_what_the_command_writes(copy):
    links.write_links(in_use(), copy)
    for name in FILES:
        assert read(name, copy) == read(name), f"run binder/links.py: {name}"


@pytest.mark.parametrize("name", FILES)
def test_links_are_quoted_and_their_files_exist(name, copy):
    links.write_links("https://github.com/a-school/gpt-course", copy)
    opened = []
    for link in found(read(name, copy)):
        url = urlsplit(link)
        (path,) = parse_qs(url.query, strict_parsing=True)["urlpath"]
        assert url.query == f"urlpath={quote(path, safe='')}"
        assert url.hostname == "mybinder.org"
        assert url.path == "/v2/gh/a-school/gpt-course/HEAD"
        opened.append(path.removeprefix("lab/tree/"))
        assert (ROOT / opened[-1]).exists()
    assert opened == (
        ["notebooks", *FILES[1:]] if name == FILES[0] else [name]
    )


def test_badges_are_files_of_the_series(copy):
    for address in (None, "https://github.com/a-school/gpt-course"):
        links.write_links(address, copy)
        for name in FILES:
            images = re.findall(r"\[!\[.*?\]\((.*?)\)\]\(", read(name, copy))
            assert len(images) == len(found(read(name, copy))) > 0
            for image in images:
                assert (ROOT / name).parent.joinpath(image).is_file()


def test_without_an_address_a_badge_says_so_and_leads_to_the_readme(copy):
    links.write_links("https://github.com/a-school/gpt-course", copy)
    links.write_links(None, copy)
    for name in FILES:
        text = read(name, copy)
        readme = "" if name == "README.md" else "../README.md"
        assert "mybinder.org/v2" not in text
        assert "[![Not yet on Binder: this copy's address is" in text
        assert set(found(text)) == {f"{readme}#on-binder"}
        assert (
            "[![Not yet on Binder: this copy's address is not known]" in text
        )
    assert "\n### On Binder\n" in read("README.md")


def test_after_a_move_and_back_all_is_as_before(copy):
    for address in ("https://github.com/a/b", in_use()):
        links.write_links(address, copy)
    assert all(read(name, copy) == read(name) for name in FILES)


def test_a_badge_that_is_missing_is_put_there(copy):
    for name in FILES:
        text = re.sub(rf"( |\n\n){links.BADGE}", "", read(name, copy))
        text = re.sub(
            rf'    "{links.BADGE}\\n",\n    "\\n",\n', "", text
        )  # a line of a notebook's file
        assert not found(text)
        (copy / name).write_text(text, encoding="utf-8")
    links.write_links(in_use(), copy)
    assert all(read(name, copy) == read(name) for name in FILES)


@pytest.mark.parametrize(
    "address, place",
    [
        ("https://github.com/o/r", "gh/o/r"),
        (
            "https://git.example.org/a/b",
            "git/https%3A%2F%2Fgit.example.org%2Fa%2Fb",
        ),
    ],
)
def test_addresses_and_names_are_quoted(address, place):
    assert links.launch_url(address, "notebooks/a b&c.ipynb") == (
        f"https://mybinder.org/v2/{place}/HEAD"
        "?urlpath=lab%2Ftree%2Fnotebooks%2Fa%20b%26c.ipynb"
    )


@pytest.mark.parametrize(
    "said, address",
    [
        ("o/r", "https://github.com/o/r"),
        ("https://github.com/o/r", "https://github.com/o/r"),
        ("https://github.com/o/r.git/", "https://github.com/o/r"),
        ("https://me:secret@github.com/o/r.git", "https://github.com/o/r"),
        ("git@github.com:o/r.git", "https://github.com/o/r"),
        ("ssh://git@github.com:22/o/r.git", "https://github.com/o/r"),
        ("git@git.example.org:a/b/c", "https://git.example.org/a/b/c"),
        ("", None),
        ("../series", None),
        ("/home/somebody/series", None),
        ("file:///home/somebody/series", None),
        (r"C:\\Users\\somebody\\series", None),
    ],
)
def test_what_git_calls_a_repository_becomes_an_address(said, address):
    assert links.as_address(said) == address


@needs_git
def test_the_address_is_found(tmp_path):
    found = links.find_address
    runner = {"GITHUB_REPOSITORY": "fork/r"}
    assert found(["o/r"], runner, tmp_path) == "https://github.com/o/r"
    assert found([], runner, tmp_path) == "https://github.com/fork/r"
    assert found([], {}, tmp_path) is None
    git("init", "-q", folder=tmp_path)
    git("remote", "add", "origin", "git@github.com:o/r.git", folder=tmp_path)
    assert found([], {}, tmp_path) == "https://github.com/o/r"


def test_a_notebook_that_readme_does_not_name_is_told():
    with pytest.raises(ValueError, match="0 places, not one, for .*Not yet"):
        links.update_readme("# Title\n", None, ["09.ipynb"])


# --- the workflow ----------------------------------------------------------


def git(*arguments, folder):
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]
    done = subprocess.run(
        [*command, *arguments], cwd=folder, check=True, capture_output=True
    )
    return done.stdout.decode("utf-8")


@needs_git
def test_the_first_push_repairs_every_badge(tmp_path):
    """The workflow's steps, on a clone of a repository that knows nothing."""
    file = ROOT / ".github" / "workflows" / "links.yml"
    workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    steps = [
        s["run"] for s in workflow["jobs"]["links"]["steps"] if "run" in s
    ]
    hub, clone = tmp_path / "hub.git", tmp_path / "clone"
    git("init", "-q", "--bare", "-b", "main", str(hub), folder=tmp_path)
    git("clone", "-q", str(hub), str(clone), folder=tmp_path)
    for name in [*FILES, "binder/links.py"]:
        (clone / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    git("checkout", "-q", "-b", "main", folder=clone)
    git("add", "-A", folder=clone)
    git("commit", "-qm", "First", folder=clone)
    git("push", "-q", "-u", "origin", "main", folder=clone)
    environment = os.environ | {"GITHUB_REPOSITORY": "a-school/gpt-course"}
    for _ in range(2):  # the second time there is nothing to commit
        for step in steps:
            subprocess.run(
                ["bash", "-e", "-c", step],
                cwd=clone,
                env=environment,
                check=True,
            )
    log = git("log", "--format=%s", folder=hub).splitlines()
    assert log == ["Lead the launch links to this repository", "First"]
    for name in FILES:
        text = git("show", f"main:{name}", folder=hub)
        assert text.count("mybinder.org/v2/gh/a-school/gpt-course/") == len(
            found(text)
        )
