"""What a run takes from the machine: the cores that it may use, and the commit that it runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from sandboxes.cpus import cgroup_cpus, usable_cpus
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.data import machine
from sweetrl_agent.data.machine import git_commit, versions
from sweetrl_agent.trainers.stage_runner import set_threads

ALONE = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "


def test_cores_follow_the_affinity():
    program = ALONE + "from sandboxes.cpus import usable_cpus; print(usable_cpus())"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "1\n"
    assert 1 <= usable_cpus() <= len(os.sched_getaffinity(0))


@pytest.fixture
def one_core():
    """One core for this thread, and three threads for torch, meanwhile."""
    cores, threads = os.sched_getaffinity(0), torch.get_num_threads()
    os.sched_setaffinity(0, {min(cores)})
    torch.set_num_threads(3)
    yield
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(threads)


def test_a_run_has_as_many_threads_as_cores_that_it_may_use(one_core):
    set_threads(make_config().run.threads)
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(
    ("cgroups", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/a/b\n", {"cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n", "a/b/cpu.max": "800000 100000\n"}, 3),
        ("0::/docker/of-the-host\n", {"cpu.max": "200000 100000\n"}, 2),
        ("3:cpu,cpuacct:/a\n0::/\n", {"cpu,cpuacct/a/cpu.cfs_quota_us": "400000\n", "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"}, 4),
        ("3:cpu:/a\n", {"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, None),
        ("3:cpuset:/\n", {}, None),
        ("0::/../../escape\nno line\n:::\n", {"cpu.max": "junk\n"}, None),
        (None, {}, None),
    ],
)  # fmt: skip
def test_cores_follow_the_quota_of_the_control_group_and_of_those_around_it(cgroups, files, cores, tmp_path):
    if cgroups is not None:
        (tmp_path / "cgroup").write_text(cgroups)
    for name, text in files.items():
        (tmp_path / "sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sys" / name).write_text(text)
    assert cgroup_cpus(tmp_path / "cgroup", tmp_path / "sys") == cores


def _git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A repository with a package in it, as `git clone` leaves it."""
    package = tmp_path / "repository" / "package"
    package.mkdir(parents=True)
    (package / "run.py").write_text("a = 1\n")
    _git(package, "init", "-q", "..")
    _git(package, "add", ".")
    _git(package, "commit", "-qm", "first")
    return package


def test_the_commit_of_a_checkout(checkout):
    head = _git(checkout, "rev-parse", "HEAD")
    _git(checkout, "tag", "v1")
    assert git_commit(checkout / "run.py") == head
    (checkout / "notes.txt").write_text("untracked")
    assert git_commit(checkout / "run.py") == head
    (checkout / "run.py").write_text("a = 2\n")
    assert git_commit(checkout / "run.py") == f"{head}-dirty"


def test_a_package_installed_inside_another_repository_has_no_commit(checkout):
    installed = checkout.parent / ".venv" / "package"
    installed.mkdir(parents=True)
    (installed / "run.py").write_text("a = 1\n")
    assert git_commit(installed / "run.py") is None


def test_a_package_outside_of_any_repository_has_no_commit_whatever_git_is_told(checkout, tmp_path, monkeypatch):
    (tmp_path / "run.py").write_text("a = 1\n")
    monkeypatch.setenv("GIT_DIR", str(checkout.parent / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(checkout.parent))
    assert git_commit(tmp_path / "run.py") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit(checkout / "run.py") is None, "no git at all"


def test_versions_name_a_commit_or_leave_it_out():
    assert versions().get("git_commit") == git_commit(machine.__file__)
