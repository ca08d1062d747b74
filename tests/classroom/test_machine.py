"""Limits of a machine are read right: from files, and from a real quota."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest

from classroom import machine

ROOT = Path(__file__).parents[2]
GB = 2**30
POSIX = pytest.mark.skipif(os.name == "nt", reason="binder/start is for bash")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write a machine's files; the processor has eight cores."""

    def write(texts):
        for name, text in texts.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    monkeypatch.setattr(machine, "ROOT", tmp_path)
    monkeypatch.setattr(
        os, "sched_getaffinity", lambda pid: set(range(8)), raising=False
    )
    return write


def test_without_control_groups_it_is_what_the_scheduler_allows(files):
    assert machine.cpus() == 8


@pytest.mark.parametrize(
    "quota, expected",
    [
        ("100000 100000", 1),
        ("400000 100000", 4),
        ("50000 100000", 1),  # half a processor: one thread, not none
        ("250000 100000", 2),  # a third one would make all of them wait
        ("1600000 100000", 8),  # more than there are
        ("max 100000", 8),
    ],
)
def test_quota_of_version_2(files, quota, expected):
    files(
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cpu.max": f"{quota}\n",
        }
    )
    assert machine.cpus() == expected


@pytest.mark.parametrize("quota, expected", [(200000, 2), (-1, 8)])
def test_quota_of_version_1(files, quota, expected):
    group = "sys/fs/cgroup/cpu"
    files(
        {
            "proc/self/cgroup": "3:memory:/\n2:cpu,cpuacct:/\n1:name=x:/\n",
            f"{group}/cpu.cfs_quota_us": f"{quota}\n",
            f"{group}/cpu.cfs_period_us": "100000\n",
        }
    )
    assert machine.cpus() == expected


def test_the_narrowest_of_nested_groups_counts(files):
    files(
        {
            "proc/self/cgroup": "0::/students/one\n",
            "sys/fs/cgroup/students/cpu.max": "300000 100000",
            "sys/fs/cgroup/students/one/cpu.max": "max 100000",
        }
    )
    assert machine.cpus() == 3


def test_a_group_that_the_container_cannot_see_is_no_obstacle(files):
    files(
        {
            "proc/self/cgroup": "0::/../../kubepods/pod1\n",
            "sys/fs/cgroup/cpu.max": "200000 100000",
        }
    )
    assert machine.cpus() == 2


@pytest.mark.parametrize(
    "proc, group, limits",
    [
        (
            "0::/\n",
            "sys/fs/cgroup",
            {
                "memory.max": 2 * GB,
                "memory.current": 1.5 * GB,
                "memory.stat": ("active_file", "inactive_file"),
            },
        ),
        (
            "4:memory:/\n",
            "sys/fs/cgroup/memory",
            {
                "memory.limit_in_bytes": 2 * GB,
                "memory.usage_in_bytes": 1.5 * GB,
                "memory.stat": ("total_active_file", "total_inactive_file"),
            },
        ),
    ],
    ids=["version 2", "version 1"],
)
def test_files_kept_in_memory_count_as_free(
    files, monkeypatch, proc, group, limits
):
    available(monkeypatch, 16 * GB)
    active, inactive = limits.pop("memory.stat")
    files({f"{group}/{name}": f"{n:.0f}\n" for name, n in limits.items()})
    stat = f"anon 7\n{active} {GB // 4}\n{inactive} {GB // 8}\nfile 9\n"
    files({"proc/self/cgroup": proc, f"{group}/memory.stat": stat})
    assert machine.free_memory() == GB // 2 + GB // 4 + GB // 8


@pytest.mark.parametrize(
    "name, limit", [("max", "max"), ("limit_in_bytes", "9223372036854771712")]
)
def test_no_limit_leaves_what_the_machine_has(files, monkeypatch, name, limit):
    available(monkeypatch, 3 * GB)
    used = {"max": "current"}.get(name, "usage_in_bytes")
    for group in ("sys/fs/cgroup", "sys/fs/cgroup/memory"):
        files({f"{group}/memory.{name}": limit, f"{group}/memory.{used}": "1"})
    files({"proc/self/cgroup": "4:memory:/\n0::/\n"})
    assert machine.free_memory() == 3 * GB


def available(monkeypatch, count):
    memory = SimpleNamespace(available=count)
    monkeypatch.setattr("psutil.virtual_memory", lambda: memory)


def test_on_this_machine_both_are_numbers():
    assert 1 <= machine.cpus() <= os.cpu_count()
    assert machine.free_memory() > 0


@pytest.fixture
def quota_of_one(request):
    """A control group whose processes share the time of one processor."""
    name = f"gptlib-test-{os.getpid()}"
    top = Path("/sys/fs/cgroup")
    old = (top / "cpu").is_dir()
    group = top / "cpu" / name if old else top / name
    try:
        group.mkdir()
        request.addfinalizer(group.rmdir)
        if old:
            (group / "cpu.cfs_quota_us").write_text("100000")
        else:
            (group / "cpu.max").write_text("100000 100000")
    except OSError:
        pytest.skip("only Linux' root can set a quota")
    return group


def test_what_torch_does_under_a_quota(quota_of_one):
    threads = [
        sys.executable,
        "-c",
        "import torch as t; print(t.get_num_threads())",
    ]
    inside = [
        "bash",
        "-c",
        f'echo $$ > {quota_of_one}/cgroup.procs; exec "$@"',
    ]
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    environment = os.environ | {"PATH": path}
    environment.pop("OMP_NUM_THREADS", None)

    def run(*command):
        return subprocess.check_output(
            [*inside, "bash", *command], cwd=ROOT, env=environment, text=True
        )

    # It does not look at the quota. When it does, binder/start can go.
    assert int(run(*threads)) == len(os.sched_getaffinity(0))
    assert int(run("binder/start", *threads)) == 1


@POSIX
def test_start_leaves_a_number_that_is_already_set():
    done = subprocess.check_output(
        ["binder/start", "bash", "-c", "echo $OMP_NUM_THREADS"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "3"},
        text=True,
    )
    assert done == "3\n"
