"""What a run takes from the machine: the cores that it may use, and the commit that it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from sandboxes.cpus import cgroup_cpus, usable_cpus
from sweetrl_agent.data.machine import git_commit, versions

ALONE = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "


def test_cores_follow_the_affinity():
    program = ALONE + "from sandboxes.cpus import usable_cpus; print(usable_cpus())"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "1\n"
    assert 1 <= usable_cpus() <= len(os.sched_getaffinity(0))


def test_a_run_has_as_many_threads_as_cores_that_it_may_use(tmp_path):
    asked = ["--tasks", "embedded:train[:10]", "--test_tasks", "embedded:test[:3]", "--unseen_tasks", "", "--sandbox", "embedded",
             "--stage", "report", "--output", str(tmp_path / "run")]  # fmt: skip
    program = (
        ALONE + "import json, torch; from sweetrl_agent import train; torch.set_num_threads(3)\n"
        f"config = train.parse({asked!r}); from sweetrl_agent.data.run import Run; from sweetrl_agent.trainers.stage_runner import run_stages; run_stages(Run(config), 'report')\n"
        "print(json.dumps(torch.get_num_threads()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == 1


@pytest.mark.parametrize(
    ("own", "files", "cores"),
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
def test_cores_follow_the_quota_of_the_control_group_and_of_those_around_it(own, files, cores, tmp_path):
    if own is not None:
        (tmp_path / "cgroup").write_text(own)
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
    from sweetrl_agent.data import run

    assert versions().get("git_commit") == git_commit(run.__file__)
