"""A JupyterHub on the loopback, and students who work on it in threads."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import nbformat
import psutil
import requests
import websocket

HERE = Path(__file__).parent
SECONDS = 300  # no step of a class waits longer than this


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def proxy():
    """Path of the program which npm installs, here or for all."""
    name = "configurable-http-proxy"
    folders = [str(HERE / "node_modules" / ".bin"), os.environ["PATH"]]
    found = shutil.which(name, path=os.pathsep.join(folders))
    assert found, f"no {name}: tests/hub/requirements.txt says how to get it"
    return found


class Hub:
    """A JupyterHub for `students`, and the memory of all that it started."""

    def __init__(self, folder, students):
        self.url = free_address()
        self.peak = 0
        self.seen = set()
        self._log = folder / "hub.log"
        (folder / "homes").mkdir()
        environment = {
            "CLASS_URL": self.url,
            "CLASS_HUB_URL": free_address(),
            "CLASS_PROXY_URL": free_address(),
            "CLASS_PROXY": proxy(),
            "CLASS_HOMES": str(folder / "homes"),
            "CLASS_STUDENTS": " ".join(students),
        }
        with self._log.open("wb") as log:
            self._process = psutil.Popen(
                [sys.executable, "-m", "jupyterhub"]
                + ["--config", str(HERE / "jupyterhub_config.py")],
                cwd=folder,
                env=os.environ | environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._watch_memory)
        self._watch.start()

    def wait(self, seconds=120):
        end = time.monotonic() + seconds
        while not self._answers():
            ended = self._process.poll() is not None
            assert not ended and time.monotonic() < end, self.log()
            time.sleep(0.5)

    def _answers(self):
        try:
            return requests.get(f"{self.url}/hub/health", timeout=5).ok
        except requests.ConnectionError:
            return False

    def log(self):
        return self._log.read_text(encoding="utf-8")[-5000:]

    def megabytes(self):
        """Memory of hub, proxy, servers and kernels; shared pages once."""
        total = 0
        for process in [self._process, *self._process.children(True)]:
            try:
                total += process.memory_full_info().pss
            except psutil.Error:  # it has just ended
                continue
            self.seen.add(process)
        return total / 2**20

    def _watch_memory(self):
        while not self._done.wait(0.5):
            self.peak = max(self.peak, self.megabytes())

    def stop(self):
        """End the hub, which ends what it started; return what it left."""
        self._done.set()
        self._watch.join()
        with contextlib.suppress(psutil.NoSuchProcess):
            self.megabytes()
            self._process.terminate()
        _, left = psutil.wait_procs(self.seen, timeout=60)
        for process in left:
            process.kill()
        return left


class Student:
    """Somebody with a browser, a server of their own and its token."""

    def __init__(self, hub, name):
        self.hub, self.name = hub, name
        self.browser = requests.Session()
        self.server = f"{hub.url}/user/{name}"
        self.kernel = None

    def log_in(self):
        url = f"{self.hub.url}/hub/"
        self.browser.get(f"{url}login", timeout=SECONDS)
        form = {"username": self.name, "password": "", "_xsrf": self._xsrf()}
        page = self.browser.post(f"{url}login", data=form, timeout=SECONDS)
        page.raise_for_status()
        answer = self.browser.post(
            f"{url}api/users/{self.name}/tokens",
            json={},
            headers={"X-XSRFToken": self._xsrf()},
            timeout=SECONDS,
        )
        answer.raise_for_status()
        self.token = {"Authorization": f"token {answer.json()['token']}"}

    def _xsrf(self):
        return self.browser.cookies.get("_xsrf", path="/hub/")

    def ask(self, method, url, **request):
        """A request with this student's token, to whatever address."""
        return requests.request(
            method, url, headers=self.token, timeout=SECONDS, **request
        )

    def wait_for_server(self):
        """The hub has begun to start one when the student logged in."""
        user = f"{self.hub.url}/hub/api/users/{self.name}"
        end = time.monotonic() + SECONDS
        while not self.ask("GET", user).json()["server"]:
            assert time.monotonic() < end, self.hub.log()
            time.sleep(0.5)

    def save(self, path, text):
        file = {"type": "file", "format": "text", "content": text}
        url = f"{self.server}/api/contents/{path}"
        self.ask("PUT", url, json=file).raise_for_status()

    def open(self, path):
        """The notebook at `path`, with a kernel started for it."""
        found = self.ask("GET", f"{self.server}/api/contents/{path}")
        session = self.ask(
            "POST",
            f"{self.server}/api/sessions",
            json={
                "path": path,
                "name": path,
                "type": "notebook",
                "kernel": {"name": "python3"},
            },
        )
        session.raise_for_status()
        self.kernel = session.json()["kernel"]["id"]
        return nbformat.from_dict(found.json()["content"])

    def connect(self, owner):
        """The websocket of the kernel which `owner` has started."""
        url = f"{owner.server}/api/kernels/{owner.kernel}/channels"
        return websocket.create_connection(
            url.replace("http", "ws", 1), header=self.token, timeout=SECONDS
        )

    def run(self, notebook):
        """Run all cells over the websocket; their outputs are replaced."""
        channel = self.connect(self)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = list(execute(channel, cell.source))
        channel.close()


def execute(channel, code):
    """Outputs of `code`, as a notebook would save them."""
    request = {
        "channel": "shell",
        "header": {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "execute_request",
            "session": "class",
            "username": "",
            "version": "5.3",
        },
        "parent_header": {},
        "metadata": {},
        "content": {"code": code, "silent": False, "store_history": True},
    }
    channel.send(json.dumps(request))
    while True:
        frame = channel.recv()
        if isinstance(frame, bytes):  # a widget's picture
            continue
        message = json.loads(frame)
        if (
            message["parent_header"].get("msg_id")
            != (request["header"]["msg_id"])
        ):
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "status" and content["execution_state"] == "idle":
            return
        if kind in ("stream", "display_data", "execute_result", "error"):
            yield nbformat.v4.output_from_msg(message)
