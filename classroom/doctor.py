"""Can this machine run the series? One screen, each problem with its cure.

    python -m classroom.doctor

The exit status is 0 if it can, 1 if not. The output names no user, no folder
and no host, so that a student in trouble can paste it anywhere. This runs
where packages are missing or broken, and under Pythons that are too old. What
a notebook does is tried in a process of its own: as a kernel starts it, and if
that fails without the user's settings, to tell what is in the way.
"""

import os
import sys

if __name__ == "__main__":
    # What is here or on PYTHONPATH must not stand in for what is imported
    # below: this folder goes, the others come last.
    if os.path.abspath(sys.path[0]) == os.getcwd():
        del sys.path[0]
    LAST = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    LAST = [os.path.abspath(folder) for folder in LAST if folder]
    sys.path.sort(key=lambda folder: os.path.abspath(folder) in LAST)

import functools
import json
import platform
import re
import subprocess
import tempfile
import textwrap
import warnings
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple, Optional
from urllib.parse import urlsplit
from urllib.request import url2pathname

from classroom.machine import cpus, free_memory

SERIES = Path(__file__).parent.parent
NOTEBOOKS = SERIES / "notebooks"
NAME, ROOMS = "gpt-part-by-part", ("gptlib", "classroom")
WINDOWS = os.name == "nt"
# The Pythons for which the pinned packages are published.
OLDEST, NEWEST, NEWEST_ON_INTEL_MAC = (3, 11), (3, 14), (3, 12)
NOTEBOOK_GB = 1.0  # what the largest notebook takes beside `import torch`
RUNTIME = "https://aka.ms/vs/17/release/vc_redist.x64.exe"
# Settings of other people's that reach a notebook.
SETTINGS = re.compile("PYTHON|MPL|MATPLOTLIB|IPYTHON")
# What torch is here, and what it takes: a line of JSON.
IMPORT = """
import json
from importlib import metadata
try:
    import psutil  # which Jupyter's kernel needs
    used = lambda: psutil.Process().memory_info().rss
except ImportError:
    used = lambda: 0
before = used()
import torch
taken = used() - before
disk = 0
for package in metadata.distributions():
    name = package.metadata["Name"] or ""
    if name == "torch" or name.startswith(("nvidia-", "cuda-", "triton")):
        disk += sum(file.size or 0 for file in package.files or [])
found = {
    "version": torch.__version__.split("+")[0],
    "gpu": any(getattr(torch.version, x, None) for x in ("cuda", "hip")),
    "threads": torch.get_num_threads(),
    "memory": taken,
    "disk": disk,
}
print(json.dumps(found))
"""

# A kernel's start, with its changes of the path, and what notebooks import:
# IMPORT's line, and a line of the modules' names.
SETUP = f"""
import sys
from pathlib import Path

if sys.path[0] in ("", str(Path.cwd())):
    del sys.path[0]
from ipykernel.kernelapp import IPKernelApp

IPKernelApp().init_path()
{IMPORT}
from torch import nn
from torch.nn import functional as F

import gptlib
from classroom import checks, explore, plots

plots.activation_curves([0, 1], {{"GELU": [0, 1]}}).png()
explore.explore_gelu()
print(*{{name.partition(".")[0] for name in sys.modules}})
"""


class Finding(NamedTuple):
    """What is so and, if that is a problem, what to do about it."""

    fact: str
    cure: Optional[str] = None  # noqa: UP045, for older Pythons


def check_python():
    version = platform.python_version()
    system = f"{platform.system()} {platform.machine()}"
    newest = NEWEST_ON_INTEL_MAC if system == "Darwin x86_64" else NEWEST
    known = " to ".join(f"{v[0]}.{v[1]}" for v in (OLDEST, newest))
    again = "and make .venv again with it"
    if not OLDEST <= sys.version_info[:2] <= newest:
        fact = f"For Python {version} on {system} some packages don't exist"
        yield Finding(fact, f"install one of Python {known} {again}")
    elif sys.maxsize < 2**32:
        fact = f"This Python {version} has 32 bits, and torch needs 64"
        yield Finding(fact, f"install the 64-bit Python {again}")
    else:
        yield Finding(f"Python {version} on {system}")


def check_packages():
    if _moved():
        return  # check_place tells how to install all of them again
    found = _installed()
    pins = _pins() if "packaging" in found else []
    missing = [pin.name for pin in pins if _key(pin.name) not in found]
    if len(missing) == len(pins):
        yield Finding(
            "This Python has none of the packages",
            "run the README's first command, and then this check as "
            f"'{_venv('python')} -m classroom.doctor'",
        )
        return
    if NAME not in found:
        missing.append(NAME)
    problems = [f"{name} is not installed" for name in missing]
    problems += _other_versions(pins, found)
    problems += _unmet_needs(pins, found)
    problems += _numpy_clash(found)
    for problem in problems:
        yield Finding(problem, _install())
    if not problems:
        names = ", ".join(f"{p.name} {found[_key(p.name)]}" for p in pins)
        yield Finding(f"Packages as pinned: {names}")


def check_place():
    """Is the series where it was installed?"""
    if _moved():
        yield Finding(
            "The folder was moved, renamed or copied after the installation, "
            f"and programs such as {_venv('jupyter')} can't start any more",
            "delete the folder .venv and run the README's first command again",
        )
    elif NAME in _installed() and not all(map(_found_as, ROOMS)):
        if _is_private(_source()):
            yield Finding(
                "The series was installed from a folder that you can't read",
                "make an environment of your own by the README's first command"
                " in the series' folder",
            )
        else:
            yield Finding(
                "The series was moved or deleted after its installation",
                _install(),
            )


def check_rooms():
    """Is what notebooks import the series', or another one of that name?"""
    if _moved():
        return  # check_place tells
    files = {room: _found_as(room) for room in ROOMS}
    foreign = {r: file for r, file in files.items() if _is_elsewhere(file, r)}
    owners = {_owner(room) for room in foreign} - {None}
    owners |= {"gptlib"} & set(_installed())  # a stranger's has this name
    for owner in sorted(owners):
        yield Finding(
            f"The foreign package {owner} stands in the way of the series'",
            f"run '{_tool('pip')} uninstall {owner}', then {_install()}",
        )
    if not owners:
        found = [_in_the_way(*item) for item in foreign.items()]
        yield from dict.fromkeys(found)  # one copy holds both rooms
        if not foreign and all(files.values()):
            fact = "Notebooks import the series' own gptlib and classroom"
            yield Finding(fact)


def check_home():
    """Can JupyterLab write what it needs to start?"""
    try:
        from jupyter_core.paths import jupyter_runtime_dir
    except ImportError:
        return  # check_packages tells
    if not _can_be_written(jupyter_runtime_dir()):
        variable = "USERPROFILE" if WINDOWS else "HOME"
        if _can_be_written(os.path.expanduser("~")):
            variable = "JUPYTER_RUNTIME_DIR"
        yield Finding(
            "JupyterLab can't start, for you can't write in its folder",
            f"set the environment variable {variable} to a folder in which "
            "you can, before you start JupyterLab",
        )


def check_notebook():
    """Do a notebook's imports and pictures work where a kernel starts?"""
    here = _set_up_here()
    if here.returncode == 0:
        yield _complaint(here.stderr) or Finding(
            "What notebooks import and draw works in their folder"
        )
        return
    with tempfile.TemporaryDirectory() as empty:
        kept = {k: v for k, v in os.environ.items() if not SETTINGS.match(k)}
        clean = _run(SETUP, cwd=empty, env=kept)
    if clean.returncode == 0:
        names = {*clean.stdout.splitlines()[-1].split()} - {*ROOMS}
        found = list(_shadows(sorted(names), here.stderr))
        yield from found or [_settings(_reason(here))]
    else:  # the installation's fault, of which other checks may know more
        known = [*check_torch(), *check_vocabulary()]
        yield from [finding for finding in known if finding.cure] or [
            Finding(
                f"What notebooks import doesn't work ({_reason(clean)})",
                _install("--force-reinstall"),
            )
        ]


def check_torch():
    done = _import_torch()
    if done.returncode:
        ended = f"Python ended with status {done.returncode}"
        reason = (done.stderr.strip() or ended).splitlines()[-1]
        if reason == "ModuleNotFoundError: No module named 'torch'":
            return  # check_packages tells
        fact = f"torch can't be imported ({_public(reason)})"
        if WINDOWS and re.search("DLL|WinError", done.stderr):
            yield Finding(
                fact,
                "install Microsoft's Visual C++ runtime, which Windows may "
                f"lack, from {RUNTIME} and restart",
            )
        else:
            yield Finding(fact, _install("--force-reinstall"))
        return
    torch, usable = _facts(done), cpus()
    threads = torch["threads"]
    if threads > usable:
        yield Finding(
            f"torch starts {threads} threads where {usable} can run at a "
            "time, and the others wait",
            f"set the environment variable OMP_NUM_THREADS to {usable} "
            "before you start JupyterLab",
        )
        return
    kind = "build with GPU libraries" if torch["gpu"] else "CPU build"
    disk, memory = torch["disk"] / 1e9, torch["memory"] / 2**20
    fact = f"torch {torch['version']}, {kind}"
    if disk:
        fact += f" ({disk:.1f} GB on disk)"
    fact += f", runs on {threads} of {usable} processors"
    if memory:
        fact += f"; importing it takes {memory:.0f} MB of memory"
    yield Finding(fact)


def check_vocabulary():
    try:
        from gptlib.tokenizer import gpt2_tokenizer

        gpt2_tokenizer()
    except ModuleNotFoundError:
        return  # check_packages tells
    except ImportError as error:
        fact = f"tiktoken can't be imported ({_public(str(error))})"
        yield Finding(fact, _install("--force-reinstall"))
    except ValueError:
        yield Finding(
            "The vocabulary, gptlib/data/gpt2.tiktoken, is missing or damaged",
            "run 'git checkout -- gptlib/data/gpt2.tiktoken' or download the "
            "series again",
        )
    else:
        yield Finding("GPT-2's vocabulary is complete")


def check_memory():
    free = free_memory()
    if free is None:
        return  # psutil is missing, as is Jupyter: check_packages tells
    gigabytes = free / 2**30
    torch = _facts(_import_torch())
    needed = NOTEBOOK_GB + (torch["memory"] / 2**30 if torch else 0.2)
    count = int(gigabytes / needed)
    fact = f"{gigabytes:.1f} GB of memory are free"
    if count == 0:
        yield Finding(
            f"{fact}, and a notebook can take {needed:.1f} GB",
            "close other programs, and notebooks by 'Shut Down Kernel'",
        )
    elif count == 1:
        yield Finding(f"{fact}: room for one notebook at a time")
    else:
        yield Finding(f"{fact}: room for {count} notebooks at a time")


def check_kernel():
    try:
        from jupyter_client.kernelspec import KernelSpecManager
    except ImportError:
        return  # check_packages tells
    command = KernelSpecManager().get_kernel_spec("python3").argv[0]
    major, minor = sys.version_info[:2]
    # Jupyter takes these names for the Python that runs it.
    own = ("python", f"python{major}", f"python{major}.{minor}")
    if command in own or _folder(command) == _folder(sys.executable):
        yield Finding("Notebooks run in this environment (kernel python3)")
    else:
        yield Finding(
            "The kernel python3 starts the Python of another environment",
            f"run '{_tool('jupyter')} kernelspec remove python3'",
        )


CHECKS = [
    check_python,
    check_place,
    check_packages,
    check_rooms,
    check_home,
    check_notebook,
    check_torch,
    check_vocabulary,
    check_memory,
    check_kernel,
]
# These would only fail of what was found before them.
IMPORTS = [check_notebook, check_torch, check_vocabulary]


def main():
    sys.stdout.reconfigure(errors="replace")
    warnings.simplefilter("ignore")  # they name folders
    well = True
    for check in CHECKS:
        if well or check not in IMPORTS:
            for finding in _findings(check):
                well = well and not finding.cure
                _tell(finding)
    if well:
        print("\nThis machine can run the series.")
        return 0
    print("\nBegin with the first problem, then run this again.")
    return 1


def _tell(finding):
    fact, cure = finding
    line = f"  PROBLEM  {fact}: {cure}." if cure else f"  ok       {fact}."
    lines = textwrap.fill(
        line,
        width=79,
        subsequent_indent=" " * 11,
        break_long_words=False,
        break_on_hyphens=False,
    )
    print(lines, flush=True)


def _findings(check):
    try:
        yield from check()
    except Exception as error:
        yield Finding(
            f"{check.__name__} failed with {type(error).__name__}",
            "show this line to whoever gave you the series",
        )


@functools.cache
def _set_up_here():
    return _run(SETUP, cwd=NOTEBOOKS)


@functools.cache
def _import_torch():
    """A process that has imported torch, or could not."""
    if _set_up_here.cache_info().currsize:  # it is known already
        here = _set_up_here()
        if here.returncode == 0:
            return here
    return _run(IMPORT)


def _facts(done):
    """What the process found; None if it could not import torch."""
    if done.returncode:
        return None
    return json.loads(re.search("^{.*", done.stdout, flags=re.M)[0])


def _run(code, **options):
    """A process of its own: an import can end it without an exception."""
    return subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        **options,
    )


def _installed():
    """Version of each package, without what lies in the current folder."""
    found = {}
    for package in _distributions():
        found.setdefault(_key(package.metadata["Name"] or ""), package.version)
    return found


def _distributions():
    path = [p for p in _path() if p and Path(p).resolve() != Path.cwd()]
    return metadata.distributions(path=path)


def _path():
    """The folders in which a notebook's imports are looked for, in order."""
    path = [*_pythonpath(), *sys.path]
    names = [os.path.basename(folder) for folder in path]
    packages = {"site-packages", "dist-packages"}
    spots = [n for n, name in enumerate(names) if name in packages]
    # There IPython lets a kernel look into the notebook's folder.
    path.insert(min(spots, default=0), str(NOTEBOOKS))
    return path


def _pythonpath():
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [os.path.abspath(folder) for folder in folders if folder]


def _found_as(name, path=None):
    """The file that a notebook would import, wherever this was started."""
    spec = PathFinder.find_spec(name, path or _path())
    return Path(spec.origin) if spec and spec.has_location else None


def _is_elsewhere(file, room):
    return file is not None and not file.parent.samefile(SERIES / room)


def _in_the_way(name, file):
    """What to do about a file that is imported in place of the right one."""
    package = file.name == "__init__.py"
    folder = file.parent.parent if package else file.parent
    file_name = f"{file.parent.name}/" if package else file.name
    if folder == NOTEBOOKS:
        where, cure = f"notebooks/{file_name}", "rename it"
    elif str(folder) in _pythonpath():
        where = f"{file_name}, in a folder on PYTHONPATH,"
        cure = (
            "rename it, or take its folder out of the environment variable "
            "PYTHONPATH"
        )
    elif folder.name in ("site-packages", "dist-packages"):
        where, cure = f"{file_name} in {folder.name}", "delete it"
    else:
        rooms = " or ".join(ROOMS)
        fact = f"Notebooks import another {rooms} than the series'"
        return Finding(fact, _install())
    return Finding(f"{where} stands in the way of the right {name}", cure)


def _shadows(names, errors):
    """Files beside notebooks or on PYTHONPATH that have a module's name."""
    files = {}
    for folder in [*_pythonpath(), str(NOTEBOOKS)]:
        for name in names:
            file = _found_as(name, [folder])
            if file:
                files.setdefault(name, file)
    # Some do no harm, so those come first of which the errors speak.
    last = errors.strip().rpartition("\n")[2]
    named = {
        name: file
        for name, file in files.items()
        if os.path.join(*file.parts[-2:]) in errors or f"'{name}'" in last
    }
    for name, file in list((named or files).items())[:3]:
        yield _in_the_way(name, file)


def _settings(reason):
    """What to do where no file is in the way but something is."""
    for variable in sorted(filter(SETTINGS.match, os.environ)):
        others = {k: v for k, v in os.environ.items() if k != variable}
        if _run(SETUP, cwd=NOTEBOOKS, env=others).returncode == 0:
            fact = f"The environment variable {variable} stands in the way"
            return Finding(f"{fact} ({reason})", "unset it")
    return Finding(
        f"Something in the folder notebooks stands in the way ({reason})",
        "move what isn't the series' out of there",
    )


def _complaint(errors):
    """What to do about the red lines that a notebook's imports print."""
    if "MPLCONFIGDIR" in errors:
        return Finding(
            "Matplotlib can't write its folder, and says so in red",
            "set the environment variable MPLCONFIGDIR to a folder in which "
            "you can write, before you start JupyterLab",
        )
    line = re.search(r"matplotlibrc'?, line (\d+)", errors)
    if line:
        return Finding(
            "Matplotlib, in red, doesn't understand your settings, the file "
            "matplotlibrc",
            f"take line {line[1]} out",
        )
    return None


def _reason(done):
    ended = f"Python ended with status {done.returncode}"
    return _public((done.stderr.strip() or ended).splitlines()[-1])


def _can_be_written(folder):
    """May this user make and fill the folder?"""
    there = next(
        p for p in (folder, *Path(folder).parents) if os.path.exists(p)
    )
    return os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK)


def _moved():
    """Do the environment's programs look for another Python than this?"""
    if sys.prefix == sys.base_prefix:
        return False
    program = "jupyter.exe" if WINDOWS else "jupyter"
    try:
        code = (Path(sys.executable).parent / program).read_bytes()
    except OSError:
        return False
    # The line after #!, with a detour if it is long or has a space.
    pattern = rb"""(?:#!|'exec' )"?([^"\0\r\n]*python[\w.]*)"""
    pythons = [os.fsdecode(name) for name in re.findall(pattern, code)]
    return bool(pythons) and not _same(pythons[-1], sys.executable)


def _same(one, other):
    one, other = os.path.dirname(one), os.path.dirname(other)
    return os.path.exists(one) and os.path.samefile(one, other)


def _source():
    """The folder from which the series was installed, if it is known."""
    record = metadata.distribution(NAME).read_text("direct_url.json")
    url = json.loads(record or "{}").get("url", "")
    return Path(url2pathname(urlsplit(url).path))


def _is_private(folder):
    try:
        os.stat(folder / "gptlib" / "__init__.py")
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def _owner(room):
    """Name of the package that brought what is imported as `room`, if any."""
    for package in _distributions():
        if f"{room}/__init__.py" in map(str, package.files or []):
            return package.metadata["Name"]
    return None


def _key(name):
    return re.sub("[-_.]+", "-", name).lower()


def _pins():
    from packaging.requirements import Requirement

    text = (SERIES / "requirements.txt").read_text(encoding="utf-8")
    lines = re.findall(r"^\w.*==.*", text, flags=re.M)
    pins = [Requirement(line) for line in lines]
    return [pin for pin in pins if not pin.marker or pin.marker.evaluate()]


def _other_versions(pins, found):
    for pin in pins:
        version = found.get(_key(pin.name))
        if version and not pin.specifier.contains(version, prereleases=True):
            yield f"{pin.name} is {version} and should be {pin.specifier}"


def _unmet_needs(pins, found):
    """What the pinned packages need, and what those need in turn."""
    from packaging.requirements import Requirement

    pinned = [_key(pin.name) for pin in pins]
    waiting = list(pinned)
    for name in waiting:  # which grows meanwhile
        if name not in found:
            continue
        for need in map(Requirement, metadata.requires(name) or []):
            if need.marker and not need.marker.evaluate({"extra": ""}):
                continue
            key = _key(need.name)
            if key in pinned:
                continue  # its own line has been told
            version = found.get(key)
            if version is None:
                yield f"{need.name}, which {name} needs, is not installed"
            elif not need.specifier.contains(version, prereleases=True):
                clash = f"{need.name}{need.specifier}, not {version}"
                yield f"{name} {found[name]} needs {clash}"
            if key not in waiting:
                waiting.append(key)


def _numpy_clash(found):
    # No package says so: torch starts, but can't exchange data with NumPy.
    from packaging.version import Version

    if "torch" in found and "numpy" in found:
        torch, numpy = found["torch"], found["numpy"]
        if Version(torch) < Version("2.3") and Version(numpy) >= Version("2"):
            yield f"torch {torch} is made for NumPy 1, not for {numpy}"


def _install(option=""):
    command = " ".join(f"{_tool('pip')} install {option}".split())
    return f"run '{command} -r requirements.txt' in the series' folder"


def _tool(name):
    """How to call a tool of the environment that this Python belongs to."""
    own = Path(sys.prefix).resolve() == (SERIES / ".venv").resolve()
    # Not .venv/bin/pip, which names the folder where it was made.
    return f"{_venv('python') if own else 'python'} -m {name}"


def _venv(name):
    return rf".venv\Scripts\{name}" if WINDOWS else f".venv/bin/{name}"


def _folder(program):
    return os.path.normcase(os.path.dirname(os.path.abspath(program)))


def _public(reason):
    """A message without the folders in it, which may be named after users."""
    folders = r"""(?<!\w)(\w:)?[\\/]([^\\/"'\n]*[\\/])*"""
    return re.sub(folders, "", reason)


if __name__ == "__main__":
    sys.exit(main())
