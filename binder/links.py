"""Write all links that launch the series on Binder.

    python binder/links.py [OWNER/REPOSITORY or the repository's address]

Without an argument the address is that of the GitHub workflow which runs
this, else that of the clone's remote `origin`. There is a badge below the
title of README.md, one beside each notebook in README's table, and one below
each notebook's title; badges that are there already are replaced.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, urlsplit

ROOT = Path(__file__).parent.parent
BADGE = r"\[!\[[^\]]*\]\([^)]*/badges/[^)]*\)\]\([^)]*\)"


def find_address(arguments, environment, root=ROOT):
    """The repository's address as https://…, or None if nothing tells it."""
    if arguments:
        return as_address(arguments[0])
    if "GITHUB_REPOSITORY" in environment:
        server = environment.get("GITHUB_SERVER_URL", "https://github.com")
        return f"{server}/{environment['GITHUB_REPOSITORY']}"
    command = ["git", "remote", "get-url", "origin"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True)
    except FileNotFoundError:  # no git
        return None
    return as_address(done.stdout.decode("utf-8").strip())


def as_address(text):
    """What git or a person calls a repository, as https://host/path.

    None for a folder: Binder can't reach it.
    """
    if re.fullmatch(r"\w[\w-]*/[\w.-]+", text):
        text = f"https://github.com/{text}"
    # git@host:path and ssh://git@host/path; a user's name or token goes.
    found = re.fullmatch(
        r"(?:(?:https?|ssh|git)://(?:[^@/]*@)?|[^@/:]+@)"
        r"(?P<host>[\w.-]+)(?::\d+)?[:/](?P<path>.+?)(?:\.git)?/*",
        text,
    )
    return found and f"https://{found['host']}/{found['path']}"


def launch_url(address, path):
    """Where Binder opens a file or folder of the repository in JupyterLab."""
    url = urlsplit(address)
    if url.hostname == "github.com":
        place = "gh" + quote(url.path)
    else:
        place = "git/" + quote(address, safe="")
    opened = quote(f"lab/tree/{path}", safe="")
    return f"https://mybinder.org/v2/{place}/HEAD?urlpath={opened}"


def badge(address, what, path, images, readme):
    """A badge in a file from which `images` and `readme` lead there."""
    if address is None:
        words = "Not yet on Binder: this copy's address is not known"
        picture = f"![{words}]({images}/badges/binder-later.svg)"
        return f"[{picture}]({readme}#on-binder)"
    picture = f"![Run {what} on Binder]({images}/badges/binder.svg)"
    return f"[{picture}]({launch_url(address, path)})"


def update_readme(text, address, names):
    """README's text with the badge of the series and one for each name."""
    here = "notebooks/images", ""
    new = badge(address, "the series", "notebooks", *here)
    text = _below_title(text, new)
    for name in names:
        path = f"notebooks/{name}"
        new = badge(address, f"notebook {name[:2]}", path, *here)
        link = re.escape(f"]({path})")
        text = _put(rf"({link})( {BADGE})?", " ", new, text)
    return text


def update_notebook(text, address, name):
    """A notebook file's text with its badge in the first cell."""
    notebook = json.loads(text)
    cell = notebook["cells"][0]
    what, path = f"notebook {name[:2]}", f"notebooks/{name}"
    new = badge(address, what, path, "images", "../README.md")
    source = _below_title("".join(cell["source"]), new)
    cell["source"] = source.splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def write_links(address, root=ROOT):
    """Write them all; `address` is None while nobody knows it."""
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


def _below_title(text, new):
    return _put(rf"\A(# .*)(\n\n{BADGE})?", "\n\n", new, text)


def _put(pattern, between, new, text):
    """Put `new` behind the first group, in place of what is there."""
    text, count = re.subn(pattern, lambda m: m[1] + between + new, text)
    if count != 1:
        raise ValueError(
            f"README.md or a notebook has {count} places, not one, for {new}"
        )
    return text


def main():
    address = find_address(sys.argv[1:], os.environ)
    if address is None:
        sys.exit(
            "The repository's address is not known: give it, as in 'python "
            "binder/links.py OWNER/REPOSITORY'. Nothing was changed."
        )
    write_links(address)


if __name__ == "__main__":
    main()
