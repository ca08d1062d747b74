"""JupyterLab in Chromium: what the browser tests do to it and ask of it."""

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from importlib.resources import files
from pathlib import Path

import nbformat

HERE = Path(__file__).parent
NOTEBOOKS = HERE.parent.parent / "notebooks"
AXE = Path(str(files("axe_playwright_python") / "axe.min.js"))
NAMES = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
FLAGS = [
    "--no-sandbox",  # containers run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PROGRAMS = ["chromium", "chromium-browser", "google-chrome", "chrome"]
WITHOUT_CHROMIUM = (
    "the browser tests need Chromium: on Debian `apt install chromium`, "
    "elsewhere `playwright install chromium`, or name one in CHROMIUM"
)
THEMES = ["JupyterLab Light", "JupyterLab Dark"]
# Rules that JupyterLab itself breaks, and where (anywhere if empty): its
# themes set links apart from other text by colour only.
JUPYTERLABS = [("link-in-text-block", "")]
FOCUSABLE = ".noUi-handle, button, input"
# In a message from the kernel; the second is what each JupyterLab asks of
# a kernel that has imported no ipywidgets yet.
ERROR = re.compile('"msg_type": ?"error"|"name": ?"stderr"')
EXPECTED = re.compile("No such comm")


def find_chromium(playwright):
    """Path of a Chromium or Chrome on this machine, or None."""
    own = playwright.chromium.executable_path
    named = os.environ.get("CHROMIUM")
    found = [named] if named else [own, *map(shutil.which, PROGRAMS)]
    return next((p for p in found if p and Path(p).exists()), None)


def saved_pictures(name, folded=False):
    """How many pictures a notebook has; those in folded outputs, if asked."""
    cells = nbformat.read(NOTEBOOKS / name, as_version=4).cells
    outputs = [o for cell in cells if folded or not hidden(cell)
               for o in cell.get("outputs", [])]  # fmt: skip
    drawn = sum("image/png" in o.get("data", {}) for o in outputs)
    return drawn + sum(
        cell.source.count("](images/")
        for cell in cells
        if cell.cell_type == "markdown"
    )


def answers(name):
    """Which of a notebook's code cells answer a question: their numbers."""
    cells = nbformat.read(NOTEBOOKS / name, as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    return [n for n, c in enumerate(code) if hidden(c)]


def hidden(cell):
    return cell.metadata.get("jupyter", {}).get("outputs_hidden", False)


class Lab:
    """A JupyterLab server over a copy of the notebooks, in `folder`."""

    def __init__(self, folder):
        self.root = folder / "notebooks"
        shutil.copytree(
            NOTEBOOKS,
            self.root,
            ignore=shutil.ignore_patterns(".ipynb_checkpoints"),
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{free.getsockname()[1]}"
        self.token = secrets.token_hex(16)
        asking = folder / "settings" / "@jupyterlab" / "apputils-extension"
        asking.mkdir(parents=True)  # or a notification covers the page
        (asking / "notification.jupyterlab-settings").write_text(
            '{"fetchNews": "false", "checkForUpdates": false}'
        )
        self._log = folder / "lab.log"
        self._start(folder)

    def _start(self, folder):
        own = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "IPYTHONDIR": "ipython",
        }
        paths = {name: str(folder / path) for name, path in own.items()}
        command = [
            *(sys.executable, "-m", "jupyterlab", "--no-browser"),
            *("--allow-root", "--ip=127.0.0.1", "--expose-app-in-browser"),
            f"--port={self.address.rpartition(':')[2]}",
            "--ServerApp.port_retries=0",
            f"--ServerApp.root_dir={self.root}",
            f"--IdentityProvider.token={self.token}",
            "--LabApp.news_url=None",
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, env=os.environ | paths, stdout=log, stderr=log
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def _wait(self, seconds=90):
        end = time.monotonic() + seconds
        while True:
            try:
                asked = f"{self.address}/api/status?token={self.token}"
                return urllib.request.urlopen(asked, timeout=5).close()
            except OSError:
                running = self._process.poll() is None
                told = self._log.read_text(encoding="utf-8", errors="replace")
                assert running and time.monotonic() < end, told
                time.sleep(0.2)

    def stop(self):
        """End the server, which ends its kernels."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Notebook:
    """A notebook that is open in JupyterLab, in a page of its own."""

    def __init__(self, page, lab, name):
        self.page, self.lab, self.name = page, lab, name
        self.hidden = []  # errors that JupyterLab keeps from its user
        page.add_init_script(path=HERE / "page.js")
        page.on("pageerror", lambda error: self.hidden.append(str(error)))
        page.on("websocket", self._listen)
        self.open()

    def _listen(self, socket):
        socket.on("framereceived", self._receive)

    def _receive(self, frame):
        text = (
            frame if isinstance(frame, str) else frame.decode(errors="replace")
        )
        if ERROR.search(text) and not EXPECTED.search(text):
            self.hidden.append(text[-2000:])

    def open(self):
        self.page.goto(
            f"{self.lab.address}/lab/tree/{self.name}"
            f"?token={self.lab.token}&reset"
        )
        self.page.wait_for_function(
            "window.jupyterapp?.shell.currentWidget?.context?.sessionContext",
            timeout=60_000,
        )
        self.page.evaluate("tests.ready()")

    def command(self, name, **arguments):
        self.page.evaluate(
            "([name, given]) => tests.execute(name, given)", [name, arguments]
        )

    def run_all(self):
        self.command("notebook:run-all-cells")

    def end_kernel(self):
        self.page.evaluate("tests.context().sessionContext.shutdown()")

    def set_theme(self, name):
        self.command("apputils:change-theme", theme=name)
        self.page.wait_for_function(
            "(name) => document.body.dataset.jpThemeName === name", arg=name
        )

    def violations(self):
        """What axe finds to be serious in what the series itself shows."""
        if not self.page.evaluate("Boolean(window.axe)"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        return [
            found
            for found in self.page.evaluate("tests.violations()")
            if found["impact"] in ("serious", "critical")
            and not any(
                found["rule"] == rule and place in found["where"]
                for rule, place in JUPYTERLABS
            )
        ]

    def close(self):
        self.end_kernel()
        self.page.close()

    def check(self, seconds=10):
        """Nothing went wrong: neither to be seen nor in secret."""
        self.page.wait_for_function(
            "tests.widgetsAreThere()", timeout=1000 * seconds
        )
        broken = self.page.evaluate("tests.broken()")
        assert not broken, broken
        assert not self.hidden, self.hidden

    def explorer(self):
        return Explorer(self.page, self.page.locator(".gpt-explorer"))


class Explorer:
    """An explorer on the page, moved by keyboard only."""

    def __init__(self, page, box):
        self.page, self.box = page, box

    def sliders(self):
        return self.box.locator(".noUi-handle").all()

    def at(self, slider, end):
        """Whether a slider is at its end, "min" or "max"."""
        now = slider.get_attribute("aria-valuenow")
        return now == slider.get_attribute(f"aria-value{end}")

    def controls(self):
        """All that can be set. The first of some buttons, which is the
        default, comes last, so that each press changes something."""
        buttons = self.box.get_by_role("button").filter(has_not_text="Reset")
        fields = self.box.locator("input")
        return [*self.sliders(), *reversed(buttons.all()), *fields.all()]

    def keys(self, control):
        """Presses that change a control, one after the other."""
        kind = control.get_attribute("type")
        if control.get_attribute("role") == "slider":
            there, back = ["ArrowRight"], ["ArrowLeft"]
            return [back, there] if self.at(control, "max") else [there, back]
        if kind == "checkbox":
            return [["Space"], ["Space"]]
        if kind == "number":
            return [
                ["ArrowUp"],
                ["ArrowDown"],
                ["End", "0", "0", "0", "0", "Enter"],
                ["ControlOrMeta+a", "7", "Enter"],
            ]
        if kind == "text":
            return [
                ["End", "Space", "b", "Enter"],
                ["ControlOrMeta+a", "Delete", "Enter"],
                ["b", "Enter"],
            ]
        return [["Enter"]]

    def shown(self):
        """What it shows: picture, words, and whether it is impossible."""
        shown = self.box.evaluate("(box) => tests.shown(box)")
        assert not shown["error"], shown["words"]
        assert (shown["picture"] == "grey") == shown["impossible"], shown
        return shown

    def type(self, control, *keys):
        """Press keys on a control, as fast as can be."""
        control.focus()
        for key in keys:
            self.page.keyboard.press(key)

    def press(self, control, *keys):
        """Press keys on a control; what is shown then."""
        self.type(control, *keys)
        return self.shown()

    def unreached(self):
        """What can be set but does not get the focus by Tab alone."""
        self.box.evaluate("(box) => tests.collectFocused(box)")
        self.box.locator(FOCUSABLE).first.focus()
        for _ in range(2 * self.box.locator(FOCUSABLE).count()):
            self.page.keyboard.press("Tab")
        return [
            control.evaluate("(control) => control.outerHTML")
            for control in self.controls()
            if not control.evaluate("(control) => tests.focused.has(control)")
        ]

    def reset(self):
        return self.press(
            self.box.get_by_role("button", name="Reset"), "Enter"
        )

    def milliseconds(self, slider, presses):
        """From key press to new picture, between the slider's ends."""
        self.box.evaluate("(box) => tests.time(box)")
        slider.focus()
        key = "ArrowRight"
        for number in range(1, presses + 1):
            key = "ArrowLeft" if self.at(slider, "max") else key
            key = "ArrowRight" if self.at(slider, "min") else key
            self.page.keyboard.press(key)
            self.page.wait_for_function(f"tests.times.length >= {number}")
        return self.page.evaluate("tests.times")
