"""Launch links lead to this repository's notebooks on Binder."""

import re
import runpy
import shutil
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from test_notebook_format import NAMES

ROOT = Path(__file__).parents[2]
FILES = ["README.md", *(f"notebooks/{name}.ipynb" for name in NAMES)]
links = SimpleNamespace(**runpy.run_path(str(ROOT / "binder" / "links.py")))


def read(name, root=ROOT):
    return (root / name).read_text(encoding="utf-8")


def found(text):
    return re.findall(r"https://mybinder\.org/[^)\s\"]*", text)


@pytest.fixture
def copy(tmp_path):
    """The files that hold links, to write to."""
    (tmp_path / "notebooks").mkdir()
    for name in [*FILES, "pyproject.toml"]:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def move(copy, address):
    """Give the copy another address and its links."""
    text = read("pyproject.toml", copy)
    text = text.replace(links.repository(copy), address)
    (copy / "pyproject.toml").write_text(text, encoding="utf-8")
    links.main(copy)


def test_every_link_is_what_the_command_writes(copy):
    links.main(copy)
    for name in FILES:
        assert read(name, copy) == read(name), f"run binder/links.py: {name}"


@pytest.mark.parametrize("name", FILES)
def test_links_are_quoted_and_their_files_exist(name):
    opened = []
    for link in found(read(name)):
        url = urlsplit(link)
        (path,) = parse_qs(url.query, strict_parsing=True)["urlpath"]
        assert url.query == f"urlpath={quote(path, safe='')}"
        assert url.path == quote(url.path) and url.path.endswith("/HEAD")
        opened.append(path.removeprefix("lab/tree/"))
        assert (ROOT / opened[-1]).exists()
    assert opened == (
        ["notebooks", *FILES[1:]] if name == FILES[0] else [name]
    )


def test_the_address_stands_in_one_place():
    address = links.repository()
    assert read("pyproject.toml").count(address) == 1
    place = urlsplit(address).path.strip("/")
    for name in FILES:
        assert read(name).count(place) == len(found(read(name))), name


def test_the_badge_is_a_file_of_the_series():
    for name in FILES:
        images = re.findall(r"\[!\[.*?\]\((.*?)\)\]\(", read(name))
        assert len(images) == len(found(read(name)))
        for image in images:
            assert (ROOT / name).parent.joinpath(image).is_file()


def test_after_a_move_all_links_are_new(copy):
    before = {name: read(name, copy) for name in FILES}
    address = links.repository(copy)
    move(copy, "https://github.com/a-school/gpt-course.git/")
    for name in FILES:
        new = found(read(name, copy))
        assert len(new) == len(found(before[name])) > 0
        for link in new:
            assert link.startswith(
                "https://mybinder.org/v2/gh/a-school/gpt-course/HEAD?urlpath="
            )
    move(copy, address)
    assert {name: read(name, copy) for name in FILES} == before


def test_a_badge_that_is_missing_is_put_there(copy):
    for name in FILES:
        text = re.sub(rf"( |\n\n){links.BADGE}", "", read(name, copy))
        text = re.sub(
            rf'    "{links.BADGE}\\n",\n    "\\n",\n', "", text
        )  # a line of a notebook's file
        assert not found(text)
        (copy / name).write_text(text, encoding="utf-8")
    links.main(copy)
    for name in FILES:
        assert read(name, copy) == read(name)


@pytest.mark.parametrize(
    "address, place",
    [
        ("https://github.com/o/r", "gh/o/r"),
        ("https://github.com/o/r.git", "gh/o/r"),
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


def test_a_notebook_that_readme_does_not_name_is_told():
    with pytest.raises(ValueError, match="0 places, not one, for .*Run note"):
        links.update_readme("# Title\n", links.repository(), ["09.ipynb"])
