"""The doctor names each trouble with its cure, and no student."""

import ast
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.markers import default_environment
from test_notebook_runs import ADDED_MB

from classroom import doctor
from gptlib import tokenizer

ROOT = Path(__file__).parents[2]
INSTALL = "install -r requirements.txt' in the series' folder."
AROUND = os.environ.get("PYTHONPATH", "")
CLAIMS = tempfile.TemporaryDirectory()
CPU = {"gpu": False, "memory": 206 * 2**20, "disk": 698_003_938}
GPU = {"gpu": True, "memory": 530 * 2**20, "disk": 4_780_000_000}


@pytest.fixture(autouse=True)
def plain(monkeypatch, tmp_path_factory):
    """No PYTHONPATH but a test's own, a folder with nothing in it, and what
    torch is not known from the test before."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for folder in as_pinned():
        monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
    doctor._import_torch.cache_clear()
    doctor._set_up_here.cache_clear()


def torch_is(monkeypatch, **facts):
    """Let a torch with these properties be the one that is installed."""
    facts = {"version": "2.13.0", "threads": 1} | facts
    done = SimpleNamespace(returncode=0, stdout=f"x\n{json.dumps(facts)}\n")
    monkeypatch.setattr(doctor, "_import_torch", lambda: done)


def examine(python=sys.executable, folder=ROOT, prefix=(), **environment):
    """Exit status and findings, a line each, of a run as a student's."""
    paths = [environment.pop("PYTHONPATH", "")]
    if python == sys.executable:
        paths += [AROUND, *as_pinned()]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run(
        [*prefix, python, "-m", "classroom.doctor"],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert all(len(line) <= 79 for line in done.stdout.splitlines())
    return done.returncode, re.sub(r"\n {11}", " ", done.stdout)


def imported(code):
    """Dotted names of what some code imports."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def unprivileged():
    """What to start a program with, so that permissions hold for it."""
    if os.name == "nt":
        pytest.skip("Windows has other permissions")
    if os.getuid():
        return []
    if not shutil.which("setpriv"):
        pytest.skip("permissions don't hold for root")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


def copied(old, new):
    shutil.copytree(old, new, symlinks=True)


def problems(check):
    """Sentences of the problems that one check finds."""
    return [f"{fact}: {cure}." for fact, cure in check() if cure]


def module(folder, name, code):
    """Let Python find a module of this name before any other."""
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return {"PYTHONPATH": str(folder)}


def package(folder, name, version, *needs):
    """Let Python find a package of this name and version before others."""
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {need}" for need in needs]
    (about / "METADATA").write_text("\n".join(lines), encoding="utf-8")
    return about


def pinned():
    """Version of each package in requirements.txt, on this system."""
    return {p.name: str(p.specifier)[2:] for p in doctor._pins()}


@functools.cache
def as_pinned():
    """A folder that claims the pinned version of each package of which another
    one is installed: a new pin, or a newest release, is no trouble here."""
    others = {
        name: version
        for name, version in pinned().items()
        if metadata.version(name).split("+")[0] != version
    }
    for name, version in others.items():
        needs = metadata.requires(name) or []
        package(Path(CLAIMS.name), name, version, *needs)
    return [CLAIMS.name] if others else []


def series(folder):
    """A copy of the series in this folder, with no notebook in it."""
    (folder / "notebooks").mkdir(parents=True)
    shutil.copy(ROOT / "requirements.txt", folder)
    for room in ("classroom", "gptlib"):
        leave = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, folder / room, ignore=leave)
    return folder


def install(folder, site):
    """Put the series in this folder, and what it needs, into a site."""
    site.mkdir(parents=True, exist_ok=True)
    about = package(site, "gpt-part-by-part", "0.1.0")
    record = {"url": folder.as_uri(), "dir_info": {"editable": True}}
    (about / "direct_url.json").write_text(json.dumps(record), "utf-8")
    path = [folder, sysconfig.get_path("purelib")]
    path[1:1] = as_pinned()
    (site / "all.pth").write_text("\n".join(map(str, path)), "utf-8")


def environment(folder, home):
    """Python and site of an environment with the series in a folder."""
    venv.create(home, with_pip=False, symlinks=os.name != "nt")
    (site,) = [*home.glob("lib/*/site-packages"), *home.glob("Lib/site-*")]
    install(folder, site)
    (python,) = [*home.glob("bin/python"), *home.glob("*/python.exe")]
    jupyter = python.with_name("jupyter" + python.suffix)
    jupyter.write_text(f"#!{python}\n", encoding="utf-8")
    return python, site


def test_where_the_tests_run_the_series_runs():
    status, text = examine()
    assert status == 0, text
    assert text.count("  ok  ") == 8 and "PROBLEM" not in text
    assert len(text.splitlines()) <= 24  # one screen


def test_a_python_without_packages_is_the_wrong_one(tmp_path):
    venv.create(tmp_path, with_pip=False)
    found = [*tmp_path.glob("bin/python"), *tmp_path.glob("*/python.exe")]
    status, text = examine(found[0])
    assert status == 1
    assert "none of the packages: run the README's first command" in text
    assert text.count("PROBLEM") == 1


def test_torch_that_breaks_is_told_from_torch_that_is_missing(tmp_path):
    python, site = environment(ROOT, tmp_path)
    module(site, "torch", "import torch_c_part")
    status, text = examine(python)
    assert status == 1
    assert (
        "torch can't be imported (ModuleNotFoundError: No module named "
        "'torch_c_part'): run '"
    ) in text
    assert "install --force-reinstall -r requirements.txt'" in text
    assert text.count("PROBLEM") == 1


def test_torch_that_ends_python_is_survived(tmp_path):
    python, site = environment(ROOT, tmp_path)
    module(site, "torch", "import os; os._exit(132)")
    status, text = examine(python)
    assert "imported (Python ended with status 132): run" in text


def test_tiktoken_that_breaks_is_named(tmp_path):
    python, site = environment(ROOT, tmp_path)
    module(site, "tiktoken", "raise ImportError('DLL load failed')")
    status, text = examine(python)
    assert status == 1
    assert "tiktoken can't be imported (DLL load failed): run '" in text
    assert text.count("PROBLEM") == 1


def test_another_package_that_breaks_is_named(tmp_path, monkeypatch):
    python, site = environment(ROOT, tmp_path)
    module(site, "ipywidgets", "import ipywidgets_part")
    monkeypatch.setattr(sys, "executable", str(python))
    (found,) = problems(doctor.check_notebook)
    assert "doesn't work (ModuleNotFoundError: No module named 'ipyw" in found
    assert "install --force-reinstall -r requirements.txt'" in found


@pytest.mark.parametrize("change", [os.rename, copied])
def test_a_folder_that_is_not_where_it_was_installed(change, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    python, _ = environment(series(old), old / ".venv")
    change(old, new)
    status, text = examine(new / python.relative_to(old), new)
    assert status == 1
    assert "The folder was moved, renamed or copied after the inst" in text
    assert "delete the folder .venv and run the README's first command" in text
    assert text.count("PROBLEM") == 1


def test_a_folder_that_was_moved_away_from_an_environment(tmp_path):
    python, _ = environment(series(tmp_path / "old"), tmp_path / "env")
    os.rename(tmp_path / "old", tmp_path / "new")
    status, text = examine(python, tmp_path / "new")
    assert status == 1
    assert "The series was moved or deleted after its installation: " in text
    assert "'python -m pip install -r requirements.txt'" in text
    assert text.count("PROBLEM") == 1


def test_a_program_that_no_shebang_holds(tmp_path, monkeypatch):
    """What pip writes where the folder's name is long or has a space."""
    python = tmp_path / "my python" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(doctor, "WINDOWS", False)
    jupyter = python.with_name("jupyter")
    for line in ("'''exec' \"{}\" \"$0\"", "#!{}", 'MZ\0#!"{}"\r\n'):
        for there in (python, tmp_path / "gone" / "python3"):
            jupyter.write_text(line.format(there), encoding="utf-8")
            assert doctor._moved() == (there != python), line
    jupyter.write_text("#!/bin/sh\nexec something", encoding="utf-8")
    assert not doctor._moved()


def test_an_installation_from_a_private_folder(tmp_path):
    owner, reader = tmp_path / "owner", series(tmp_path / "reader")
    python, _ = environment(series(owner), tmp_path / "env")
    owner.chmod(0)
    try:
        status, text = examine(python, reader, prefix=unprivileged())
    finally:
        owner.chmod(0o700)
    assert status == 1
    assert "The series was installed from a folder that you can't read" in text
    assert "make an environment of your own by the README's first com" in text
    assert text.count("PROBLEM") == 1


def test_windows_without_its_runtime(tmp_path, monkeypatch):
    error = (
        "[WinError 126] The specified module could not be found. Error "
        r"loading \"C:\\Users\\Jane Doe\\torch\\lib\\c10.dll\" or one of its"
    )
    module(tmp_path, "torch", f'raise OSError("{error}")')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctor, "WINDOWS", True)
    (found,) = problems(doctor.check_torch)
    assert "install Microsoft's Visual C++ runtime" in found
    assert "https://aka.ms/vs/17/release/vc_redist.x64.exe" in found
    assert '"c10.dll"' in found and "Jane" not in found


def test_a_package_that_is_missing(monkeypatch):
    there = doctor._installed()
    del there["ipywidgets"], there["gpt-part-by-part"]
    monkeypatch.setattr(doctor, "_installed", lambda: there)
    missing, package = problems(doctor.check_packages)
    assert missing.startswith("ipywidgets is not installed: run '")
    assert package.startswith("gpt-part-by-part is not installed: run '")
    assert missing.endswith(INSTALL) and package.endswith(INSTALL)


def test_what_lies_in_the_current_folder_is_not_installed(
    tmp_path, monkeypatch
):
    package(tmp_path, "gpt-part-by-part", "0.1.0")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert doctor._installed() == {"gpt-part-by-part": "0.1.0"}
    monkeypatch.chdir(tmp_path)  # as a student's `python -m classroom.doctor`
    assert doctor._installed() == {}


def room(folder, name):
    """Let Python find a package of this name, which is not the series'."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text("", encoding="utf-8")


def test_a_foreign_package_of_the_same_name_is_noticed(tmp_path):
    room(tmp_path, "gptlib")
    package(tmp_path, "gptlib", "0.4.2")
    status, text = examine(PYTHONPATH=str(tmp_path))
    assert status == 1
    assert "The foreign package gptlib stands in the way of the series" in text
    assert re.search(r"run '.*pip uninstall gptlib', then run '.*pip ", text)
    assert text.count("PROBLEM") == 1
    assert str(tmp_path) not in text


@pytest.mark.parametrize("name", ["gptlib", "classroom"])
def test_a_foreign_package_of_another_name_is_named(
    name, tmp_path, monkeypatch
):
    room(tmp_path, name)
    record = package(tmp_path, "chat-client", "1.0") / "RECORD"
    record.write_text(f"{name}/__init__.py,,\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = problems(doctor.check_rooms)
    assert found.startswith("The foreign package chat-client stands in the")
    assert "pip uninstall chat-client', then run '" in found
    assert found.endswith(INSTALL)


def test_a_folder_of_the_same_name_is_noticed(tmp_path, monkeypatch):
    room(tmp_path, "classroom")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = problems(doctor.check_rooms)
    assert found.startswith("Notebooks import another gptlib or classroom tha")
    assert found.endswith(INSTALL) and "PYTHONPATH" not in found
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (found,) = problems(doctor.check_rooms)
    assert found == (
        "classroom/, in a folder on PYTHONPATH, stands in the way of the "
        "right classroom: rename it, or take its folder out of the "
        "environment variable PYTHONPATH."
    )


def test_a_folder_of_the_same_name_beside_the_notebooks(tmp_path):
    home = series(tmp_path / "home")
    python, _ = environment(home, home / ".venv")
    room(home / "notebooks", "gptlib")
    status, text = examine(python, home)
    assert status == 1
    assert (
        "notebooks/gptlib/ stands in the way of the right gptlib: rename it."
    ) in text
    assert text.count("PROBLEM") == 1


def test_a_folder_of_the_same_name_among_packages(tmp_path):
    python, site = environment(ROOT, tmp_path)
    room(site, "gptlib")
    status, text = examine(python)
    assert status == 1
    assert "gptlib/ in site-packages stands in the way of the right" in text
    assert "right gptlib: delete it." in text


def test_a_foreign_package_of_this_user(tmp_path):
    """On a Python without an environment, the user's packages come first."""
    python, base = sys._base_executable, str(tmp_path)
    site = subprocess.run(
        [python, "-m", "site", "--user-site"],
        env=os.environ | {"PYTHONUSERBASE": base},
        stdout=subprocess.PIPE,
        text=True,
    )
    site = Path(site.stdout.strip())
    install(ROOT, site)
    package(site, "gptlib", "0.4.2")
    room(site, "gptlib")
    status, text = examine(python, PYTHONUSERBASE=base)
    assert status == 1
    assert "The foreign package gptlib stands in the way of the series" in text
    assert "run 'python -m pip uninstall gptlib', then run '" in text


def beside_notebooks(tmp_path, monkeypatch):
    """A folder which the doctor takes for that of the notebooks."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    monkeypatch.setattr(doctor, "NOTEBOOKS", folder)
    return folder


@pytest.mark.parametrize("name", ["torch.py", "torch/__init__.py", "enum.py"])
def test_a_file_beside_a_notebook_is_in_the_way(name, tmp_path, monkeypatch):
    file = beside_notebooks(tmp_path, monkeypatch) / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine = 1", encoding="utf-8")
    name = name.replace("__init__.py", "")
    (found,) = problems(doctor.check_notebook)
    right = re.match(r"\w+", name)[0]
    assert found == (
        f"notebooks/{name} stands in the way of the right {right}: rename it."
    )


def test_a_file_beside_a_notebook_that_does_no_harm(tmp_path, monkeypatch):
    folder = beside_notebooks(tmp_path, monkeypatch)
    cache = folder / "__pycache__"
    cache.mkdir()
    tag = sys.implementation.cache_tag
    (cache / f"torch.{tag}.pyc").write_bytes(b"left over")
    for name in ("random.py", "typing_extensions.py", "matplotlibrc"):
        (folder / name).write_text("", encoding="utf-8")
    assert problems(doctor.check_notebook) == []


@pytest.mark.parametrize("name", ["random", "typing_extensions", "torch"])
def test_a_file_on_the_path_is_in_the_way(name, tmp_path):
    module(tmp_path, "statistics", "harmless = 1")
    status, text = examine(**module(tmp_path, name, "mine = 1"))
    assert status == 1
    assert (
        f"{name}.py, in a folder on PYTHONPATH, stands in the way of the "
        f"right {name}: rename it, or take its folder out of the environment "
        "variable PYTHONPATH."
    ) in text
    assert text.count("PROBLEM") == 1 and "reinstall" not in text
    assert str(tmp_path) not in text


def test_a_file_that_ends_python_is_in_the_way(tmp_path, monkeypatch):
    folder = beside_notebooks(tmp_path, monkeypatch)
    module(folder, "torch", "import os; os._exit(132)")
    (found,) = problems(doctor.check_notebook)
    assert found.startswith("notebooks/torch.py stands in the way of the righ")


def test_a_setting_that_is_in_the_way(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "typewriter")
    (found,) = problems(doctor.check_notebook)
    assert found.startswith(
        "The environment variable MPLBACKEND stands in the way (ValueError: "
    )
    assert found.endswith("): unset it.")


@pytest.mark.parametrize(
    "lines, cure",
    [
        (["text.usetex: True", "figure.facecolor: black"], []),
        (["text.usetex: True", "lines.color: mud"], ["take line 2 out"]),
        (["", "", "line.colour: red"], ["take line 3 out"]),
    ],
)
def test_matplotlibs_settings(lines, cure, tmp_path, monkeypatch):
    (tmp_path / "matplotlibrc").write_text("\n".join(lines), "utf-8")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    found = list(doctor.check_notebook())
    assert [finding.cure for finding in found if finding.cure] == cure


def test_matplotlibs_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "file" / "folder"))
    (found,) = problems(doctor.check_notebook)
    assert "environment variable MPLCONFIGDIR to a folder in which " in found


def test_jupyters_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert problems(doctor.check_home) == []
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "file" / "new"))
    (found,) = problems(doctor.check_home)
    assert "set the environment variable JUPYTER_RUNTIME_DIR to a" in found


@pytest.mark.parametrize("kind", ["no folder", "not writable"])
def test_a_home_that_cannot_be_written(kind, tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("JUPYTER", "XDG_")):
            monkeypatch.delenv(name)
    prefix = unprivileged()
    home = tmp_path / "home"
    if kind == "no folder":
        home.touch()
    else:
        home.mkdir(mode=0o555)
    status, text = examine(prefix=prefix, HOME=str(home))
    assert status == 1
    assert "JupyterLab can't start, for you can't write in its folder" in text
    assert "set the environment variable HOME to a folder in which you" in text
    assert text.count("PROBLEM") == 1 and str(tmp_path) not in text


def test_it_imports_what_the_notebooks_import():
    found = set()
    for file in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        code = [
            "".join(c["source"]) for c in cells if c["cell_type"] == "code"
        ]
        found |= imported(code[0])
    tried = imported(doctor.SETUP)
    ours = {name for name in found if name.startswith("gptlib.")}
    others = found - ours - tried
    standard = sys.stdlib_module_names
    assert ours and {n.partition(".")[0] for n in others} <= standard


def test_an_old_installation_under_the_foreign_name_is_noticed(
    tmp_path, monkeypatch
):
    package(tmp_path, "gptlib", "0.1.0")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = problems(doctor.check_rooms)
    assert "pip uninstall gptlib'" in found


def test_another_version_than_the_pinned_one(tmp_path, monkeypatch):
    package(tmp_path, "ipywidgets", "7.0")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = problems(doctor.check_packages)
    pin = f"=={pinned()['ipywidgets']}"
    assert found.startswith(f"ipywidgets is 7.0 and should be {pin}: run '")


def test_a_build_of_the_pinned_version_is_that_version(tmp_path, monkeypatch):
    package(tmp_path, "torch", f"{pinned()['torch']}+cu130")
    monkeypatch.syspath_prepend(tmp_path)
    assert problems(doctor.check_packages) == []


def test_a_package_that_another_one_cannot_work_with(tmp_path, monkeypatch):
    package(tmp_path, "numpy", "1.20.0")
    monkeypatch.syspath_prepend(tmp_path)
    found = problems(doctor.check_packages)
    assert re.match(r"matplotlib \S+ needs numpy>=\S+, not 1.20.0: ", found[0])


def test_a_package_that_another_one_misses(tmp_path, monkeypatch):
    needs = ["absent>=1", "other; extra == 'x'"]
    package(tmp_path, "nbval", pinned()["nbval"], *needs)
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = problems(doctor.check_packages)
    assert found.startswith("absent, which nbval needs, is not installed: ")


@pytest.mark.parametrize(
    "torch, numpy, clash",
    [
        ("2.2.2", "2.4.6", ["torch 2.2.2 is made for NumPy 1, not for 2.4.6"]),
        ("2.2.2", "1.26.4", []),
        ("2.3.0", "2.0.0", []),
        ("2.13.0+cpu", "2.4.6", []),
    ],
)
def test_numpy_2_and_a_torch_from_before_it(torch, numpy, clash):
    assert list(doctor._numpy_clash({"torch": torch, "numpy": numpy})) == clash


def test_an_intel_mac_has_pins_of_its_own(monkeypatch):
    mac = {"sys_platform": "darwin", "platform_machine": "x86_64"}
    environment = default_environment() | mac
    monkeypatch.setattr(
        "packaging.markers.default_environment", lambda: environment
    )
    there = doctor._installed() | {"torch": "2.2.2", "numpy": "2.4.6"}
    monkeypatch.setattr(doctor, "_installed", lambda: there)
    monkeypatch.setattr(doctor, "_unmet_needs", lambda *_: [])
    pin, clash = problems(doctor.check_packages)
    assert pin.startswith("numpy is 2.4.6 and should be ==1.26.4: ")
    assert clash.startswith("torch 2.2.2 is made for NumPy 1, not for 2.4.6: ")


@pytest.mark.parametrize("damage", [lambda text: text[:-9], None])
def test_a_vocabulary_that_is_damaged_or_missing(
    damage, tmp_path, monkeypatch
):
    file = tmp_path / "gpt2.tiktoken"
    if damage:
        file.write_bytes(damage(tokenizer.VOCABULARY.read_bytes()))
    monkeypatch.setattr(tokenizer, "VOCABULARY", file)
    tokenizer.gpt2_tokenizer.cache_clear()
    (found,) = problems(doctor.check_vocabulary)
    assert "gpt2.tiktoken, is missing or damaged: run 'git checkout" in found


@pytest.mark.parametrize(
    "torch, fact",
    [
        (CPU, "CPU build (0.7 GB on disk), runs on 1 of 2 processors; "),
        (GPU, "build with GPU libraries (4.8 GB on disk), runs on 1 of 2 "),
        (CPU | {"disk": 0}, "CPU build, runs on 1 of 2 processors; "),
    ],
)
def test_which_torch_this_is_and_what_it_costs(torch, fact, monkeypatch):
    torch_is(monkeypatch, **torch)
    monkeypatch.setattr(doctor, "cpus", lambda: 2)
    (found,) = doctor.check_torch()
    assert found.fact.startswith(f"torch 2.13.0, {fact}")
    taken = 530 if torch is GPU else 206
    assert found.fact.endswith(f"importing it takes {taken} MB of memory")
    assert found.cure is None


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
def test_what_importing_torch_takes_is_measured():
    code = "import torch; print(open('/proc/self/status').read())"
    status = subprocess.check_output([sys.executable, "-c", code], text=True)
    whole = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024
    torch = doctor._facts(doctor._import_torch())
    assert 0 < whole - torch["memory"] / 2**20 < 40  # a bare Python's
    assert torch["gpu"] == (torch["disk"] > 2e9)


def test_without_psutil_torch_runs_all_the_same(tmp_path, monkeypatch):
    module(tmp_path, "psutil", "raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (found,) = doctor.check_torch()
    assert found.cure is None and found.fact.endswith(" processors")


@pytest.mark.parametrize(
    "torch, gigabytes, fact",
    [
        (CPU, 1.1, None),
        (CPU, 1.3, "1.3 GB of memory are free: room for one notebook at a"),
        (CPU, 3.1, "3.1 GB of memory are free: room for 2 notebooks at a"),
        (GPU, 1.3, None),
        (GPU, 1.6, "1.6 GB of memory are free: room for one notebook at a"),
        (GPU, 3.1, "3.1 GB of memory are free: room for 2 notebooks at a"),
    ],
)
def test_memory_that_fits(torch, gigabytes, fact, monkeypatch):
    torch_is(monkeypatch, **torch)
    monkeypatch.setattr(doctor, "free_memory", lambda: gigabytes * 2**30)
    (found,) = doctor.check_memory()
    if fact:
        assert found == (f"{fact} time", None)
    else:
        needed = "1.5" if torch is GPU else "1.2"
        assert found.fact == (
            f"{gigabytes} GB of memory are free, and a notebook can take "
            f"{needed} GB"
        )
        assert found.cure.startswith("close other programs")


def test_memory_is_counted_even_where_torch_cannot_be_imported(
    tmp_path, monkeypatch
):
    module(tmp_path, "torch", "import torch_c_part")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctor, "free_memory", lambda: 2.5 * 2**30)
    (found,) = doctor.check_memory()
    assert found.fact.endswith("room for 2 notebooks at a time")


def test_a_notebook_that_may_be_published_fits_where_the_doctor_says_so():
    assert ADDED_MB <= doctor.NOTEBOOK_GB * 1024


def test_more_threads_than_the_quota_allows(monkeypatch):
    monkeypatch.setattr(doctor, "cpus", lambda: 0)
    (found,) = problems(doctor.check_torch)
    assert re.match(r"torch starts \d+ threads where 0 can run", found)
    assert "set the environment variable OMP_NUM_THREADS to 0" in found


@pytest.mark.parametrize("own", [False, True])
def test_the_kernel_of_another_environment(own, tmp_path):
    python = sys.executable if own else str(tmp_path / "bin" / "python")
    kernel = tmp_path / "kernels" / "python3"
    kernel.mkdir(parents=True)
    spec = {"argv": [python, "-m", "x"], "display_name": "Python 3"}
    (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    status, text = examine(JUPYTER_PATH=str(tmp_path))
    assert status == (0 if own else 1)
    assert ("The kernel python3 starts the Python of another" in text) != own
    assert ("jupyter kernelspec remove python3'." in text) != own


@pytest.mark.parametrize(
    "version, bits, machine, cure",
    [
        ((3, 9), 64, ("Linux", "x86_64"), "one of Python 3.11 to 3.14"),
        ((3, 15), 64, ("Linux", "x86_64"), "one of Python 3.11 to 3.14"),
        ((3, 13), 64, ("Darwin", "x86_64"), "one of Python 3.11 to 3.12"),
        ((3, 13), 32, ("Windows", "AMD64"), "install the 64-bit Python"),
        ((3, 14), 64, ("Darwin", "arm64"), None),
    ],
)
def test_pythons(version, bits, machine, cure, monkeypatch):
    this = SimpleNamespace(version_info=version, maxsize=2 ** (bits - 1) - 1)
    monkeypatch.setattr(doctor, "sys", this)
    monkeypatch.setattr("platform.system", lambda: machine[0])
    monkeypatch.setattr("platform.machine", lambda: machine[1])
    (found,) = doctor.check_python()
    assert cure in found.cure if cure else found.cure is None


@pytest.mark.parametrize(
    "name",
    [
        "gptlib/__init__",
        "classroom/__init__",
        "classroom/machine",
        "classroom/doctor",
    ],
)
def test_an_old_python_can_read_it(name):
    source = (ROOT / f"{name}.py").read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 8))


def test_a_check_that_fails_is_named(monkeypatch):
    monkeypatch.setattr(doctor, "free_memory", lambda: 1 / 0)
    (found,) = doctor._findings(doctor.check_memory)
    assert found.fact == "check_memory failed with ZeroDivisionError"


def test_the_output_holds_no_name_and_no_folder(tmp_path):
    home = tmp_path / "Jane Doe"
    python, site = environment(series(home / "series"), home / "env")
    (home / "series" / "gptlib" / "data" / "gpt2.tiktoken").unlink()
    kernel = home / "share" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    spec = {"argv": [f"{home}/bin/python"], "display_name": "Jane's"}
    (kernel / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    module(site, "torch", f"raise OSError({f'{home}/c10.so: no such file'!r})")
    status, text = examine(
        python,
        home / "series",
        HOME=str(home),
        USERPROFILE=str(home),
        USER="janedoe",
        LOGNAME="janedoe",
        USERNAME="janedoe",
        JUPYTER_PATH=str(home / "share"),
        PYTHONPATH=str(home),
    )
    assert status == 1
    assert text.count("PROBLEM") == 3  # torch, the vocabulary, the kernel
    assert "(OSError: c10.so: no such file)" in text
    assert "jane" not in text.lower() and str(tmp_path) not in text


@pytest.mark.parametrize(
    "reason, public",
    [
        ("/home/jane doe/x.so: no", "x.so: no"),
        ("at '/Users/jane/a b/c.py', line 3", "at 'c.py', line 3"),
        (r"C:\Users\Jané\torch\c10.dll not found", "c10.dll not found"),
        (r"\\server\jane\lib.dll", "lib.dll"),
        ("~/jane/x", "~x"),
        ("either/or, 3/4", "either/or, 3/4"),
    ],
)
def test_folders_are_left_out(reason, public):
    assert doctor._public(reason) == public
