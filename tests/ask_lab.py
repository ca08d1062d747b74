"""Ask a starting JupyterLab for each notebook: ask_lab.py RUNTIME_DIR PID."""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path


def wait_for_server(runtime_dir, pid, seconds=120):
    """Address and token of the server `pid`, once it answers."""
    info = runtime_dir / f"jpserver-{pid}.json"
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        os.kill(pid, 0)  # raises if the process has ended
        try:
            server = json.loads(info.read_text(encoding="utf-8"))
            ask(server, "api/status")
            return server
        except (OSError, ValueError):
            time.sleep(1)
    raise SystemExit(f"no JupyterLab answered within {seconds} s")


def ask(server, path):
    request = urllib.request.Request(
        f"{server['url']}{path}",
        headers={"Authorization": f"token {server['token']}"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def main(runtime_dir, pid):
    server = wait_for_server(Path(runtime_dir), int(pid))
    notebooks = Path(__file__).parent.parent / "notebooks"
    for path in sorted(notebooks.glob("*.ipynb")):
        found = json.loads(ask(server, f"api/contents/{path.name}"))
        assert found["type"] == "notebook", found
        assert "<title>" in ask(server, f"lab/tree/{path.name}").decode()
        print(f"JupyterLab opens {path.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
