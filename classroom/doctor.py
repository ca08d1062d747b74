"""Can this machine run the series? One screen, each problem with its cure.

    python -m classroom.doctor

The exit status is 0 if it can, 1 if not. The output names no user, no folder
and no host, so that a student in trouble can paste it anywhere. This runs
where packages are missing or broken, and under Pythons that are too old.
"""

import functools
import json
import os
import platform
import re
import subprocess
import sys
import textwrap
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple, Optional

from classroom.machine import cpus, free_memory

SERIES = Path(__file__).parent.parent
NAME, ROOMS = "gpt-part-by-part", ("gptlib", "classroom")
WINDOWS = os.name == "nt"
# The Pythons for which the pinned packages are published.
OLDEST, NEWEST, NEWEST_ON_INTEL_MAC = (3, 11), (3, 14), (3, 12)
NOTEBOOK_GB = 1.0  # what the largest notebook takes beside `import torch`
RUNTIME = "https://aka.ms/vs/17/release/vc_redist.x64.exe"

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


def check_rooms():
    """Is what notebooks import the series', or another one of that name?"""
    folders = {room: _found_as(room) for room in ROOMS}
    foreign = [room for room in ROOMS if _is_elsewhere(folders[room], room)]
    owners = {_owner(room) for room in foreign} - {None}
    owners |= {"gptlib"} & set(_installed())  # a stranger's has this name
    for owner in sorted(owners):
        yield Finding(
            f"The foreign package {owner} stands in the way of the series'",
            f"run '{_tool('pip')} uninstall {owner}', then {_install()}",
        )
    if foreign and not owners:
        entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        named = any(str(folders[room].parent) in entries for room in foreign)
        yield Finding(
            f"Notebooks import another {' and '.join(foreign)} than the "
            "series'",
            "take its folder out of the environment variable PYTHONPATH"
            if named
            else _install(),
        )
    elif not owners and all(folders.values()):
        yield Finding("Notebooks import the series' own gptlib and classroom")


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
    check_packages,
    check_rooms,
    check_torch,
    check_vocabulary,
    check_memory,
    check_kernel,
]


def main():
    sys.stdout.reconfigure(errors="replace")
    findings = [finding for check in CHECKS for finding in _findings(check)]
    for fact, cure in findings:
        line = f"  PROBLEM  {fact}: {cure}." if cure else f"  ok       {fact}."
        print(
            textwrap.fill(
                line,
                width=79,
                subsequent_indent=" " * 11,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
    if any(finding.cure for finding in findings):
        print("\nBegin with the first problem, then run this again.")
        return 1
    print("\nThis machine can run the series.")
    return 0


def _findings(check):
    try:
        yield from check()
    except Exception as error:
        yield Finding(
            f"{check.__name__} failed with {type(error).__name__}",
            "show this line to whoever gave you the series",
        )


@functools.cache
def _import_torch():
    """A process of its own, which an import can end without an exception."""
    return subprocess.run(
        [sys.executable, "-c", IMPORT],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )


def _facts(done):
    """What the process found; None if it could not import torch."""
    if done.returncode:
        return None
    return json.loads(done.stdout.splitlines()[-1])


def _installed():
    """Version of each package, without what lies in the current folder."""
    found = {}
    for package in _distributions():
        found.setdefault(_key(package.metadata["Name"] or ""), package.version)
    return found


def _distributions():
    path = [p for p in sys.path if p and Path(p).resolve() != Path.cwd()]
    return metadata.distributions(path=path)


def _found_as(room):
    """The folder that a notebook would import, wherever this was started."""
    path = sys.path
    if Path(path[0]).resolve() == Path.cwd():
        path = path[1:]  # `python -m` puts it there, for itself
    spec = PathFinder.find_spec(room, path)
    return Path(spec.origin).parent if spec and spec.origin else None


def _is_elsewhere(folder, room):
    return folder is not None and not folder.samefile(SERIES / room)


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

    waiting = [_key(pin.name) for pin in pins]
    for name in waiting:  # which grows meanwhile
        if name not in found:
            continue
        for need in map(Requirement, metadata.requires(name) or []):
            if need.marker and not need.marker.evaluate({"extra": ""}):
                continue
            key = _key(need.name)
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
    return _venv(name) if own else f"python -m {name}"


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
