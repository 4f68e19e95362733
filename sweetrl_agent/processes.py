"""Processes: that they end with the one that started them, take the cores they may use, and leave a busy machine to others."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
#: How long an idle thread of OpenMP spins before it sleeps: turns of a loop for GNU's runtime, milliseconds for Intel's and LLVM's.
PATIENCE = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "1"}
#: All variables that say how OpenMP's threads wait.
WAITING = ("OMP_WAIT_POLICY", *PATIENCE)


def yield_idle_threads() -> None:
    """Let threads of OpenMP that wait for each other sleep soon, unless the user has set how they wait.

    At every barrier of a training step they spin, by default for so long that, beside another busy process, they take the core from the
    thread they wait for: the supervised stage then takes 18 times as long on two cores. Set before torch is loaded, and inherited by
    processes that are started from here.
    """
    if not os.environ.keys() & set(WAITING):
        os.environ.update(PATIENCE)


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, however it ends. Does nothing where there is no such call (not Linux)."""
    parent = os.getppid()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def usable_cpus() -> int:
    """Cores that this process may use: those of its affinity, and no more than the quota of its control group, rounded down to a whole one."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(affinity, cgroup_cpus() or affinity)


def cgroup_cpus(own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Whole cores of the smallest CPU quota around this process, at least 1; None without a quota.

    Args:
        own: Lists the control groups of this process.
        root: Where they are mounted: version 2, version 1, or both.
    """
    quotas = [quota for folder in _cgroup_folders(own, root) if (quota := _quota(folder)) is not None]
    return max(1, int(min(quotas))) if quotas else None


def _cgroup_folders(own: Path, root: Path) -> Iterator[Path]:
    """The control group and all around it. In a container, whose own group is mounted at the root, only that is there."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for controllers, _, path in (line.partition(":")[2].partition(":") for line in lines):
        if not controllers or "cpu" in controllers.split(","):
            mount = root / controllers
            inside = Path(path.lstrip("/"))
            yield from (mount / folder for folder in (inside, *inside.parents))


def _quota(folder: Path) -> float | None:
    """Cores by the files of a control group; None where it sets no quota."""
    with contextlib.suppress(OSError, ValueError):  # "max", or no such file
        quota, period = map(int, (folder / "cpu.max").read_text().split())
        return quota / period
    with contextlib.suppress(OSError, ValueError):
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        return quota / int((folder / "cpu.cfs_period_us").read_text()) if quota > 0 else None
    return None
