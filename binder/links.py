"""Write all links that launch the series on Binder: run it after a move.

    python binder/links.py

The repository's address stands once, in pyproject.toml as `Repository` of
`[project.urls]`. From it this makes a badge below the title of README.md, one
beside each notebook in README's table, and one below each notebook's title.
Badges that are there already are replaced.
"""

import json
import re
import tomllib
from pathlib import Path
from urllib.parse import quote, urlsplit

ROOT = Path(__file__).parent.parent
BADGE = r"\[!\[Run [^\]]* on Binder\]\([^)]*\)\]\([^)]*\)"


def repository(root=ROOT):
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"]["urls"]["Repository"]


def launch_url(address, path):
    """Where Binder opens a file or folder of the repository in JupyterLab."""
    address = address.rstrip("/").removesuffix(".git")
    url = urlsplit(address)
    if url.hostname == "github.com":
        place = "gh" + quote(url.path)
    else:
        place = "git/" + quote(address, safe="")
    opened = quote(f"lab/tree/{path}", safe="")
    return f"https://mybinder.org/v2/{place}/HEAD?urlpath={opened}"


def badge(address, what, path, images):
    picture = f"![Run {what} on Binder]({images}/badges/binder.svg)"
    return f"[{picture}]({launch_url(address, path)})"


def update_readme(text, address, names):
    """README's text with the badge of the series and one for each name."""
    images = "notebooks/images"
    new = badge(address, "the series", "notebooks", images)
    text = _below_title(text, new)
    for name in names:
        path = f"notebooks/{name}"
        new = badge(address, f"notebook {name[:2]}", path, images)
        link = re.escape(f"]({path})")
        text = _put(rf"({link})( {BADGE})?", " ", new, text)
    return text


def update_notebook(text, address, name):
    """A notebook file's text with its badge in the first cell."""
    notebook = json.loads(text)
    cell = notebook["cells"][0]
    what, path = f"notebook {name[:2]}", f"notebooks/{name}"
    new = badge(address, what, path, "images")
    source = _below_title("".join(cell["source"]), new)
    cell["source"] = source.splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _below_title(text, new):
    return _put(rf"\A(# .*)(\n\n{BADGE})?", "\n\n", new, text)


def _put(pattern, between, new, text):
    """Put `new` behind the first group, in place of what is there."""
    text, count = re.subn(pattern, lambda m: m[1] + between + new, text)
    if count != 1:
        raise ValueError(f"{count} places, not one, for {new}")
    return text


def main(root=ROOT):
    address = repository(root)
    notebooks = sorted((root / "notebooks").glob("*.ipynb"))
    names = [path.name for path in notebooks]
    for path in [root / "README.md", *notebooks]:
        old = path.read_text(encoding="utf-8")
        if path in notebooks:
            new = update_notebook(old, address, path.name)
        else:
            new = update_readme(old, address, names)
        if new != old:
            path.write_text(new, encoding="utf-8", newline="\n")
            print(f"{path.relative_to(root)}: links written")


if __name__ == "__main__":
    main()
