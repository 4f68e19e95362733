"""The number of cores that this process may use."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def usable_cpus() -> int:
    """Number of cores that this process may use: those of its CPU affinity, at most the CPU quota of its cgroup, rounded down."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(affinity, cgroup_cpus() or affinity)


def cgroup_cpus(cgroups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Whole cores of the smallest CPU quota around this process, at least 1; None without a quota.

    Args:
        cgroups: File that lists the cgroups of this process.
        root: Mount point of the cgroups: version 2, version 1, or both.
    """
    quotas = [quota for folder in cgroup_folders(cgroups, root) if (quota := _quota(folder)) is not None]
    return max(1, int(min(quotas))) if quotas else None


def cgroup_folders(cgroups: Path, root: Path, controller: str = "cpu") -> Iterator[Path]:
    """The cgroup of this process and all its parents. In a container only its own cgroup is visible, which is mounted at the root.

    Args:
        cgroups: As in `cgroup_cpus`.
        root: As in `cgroup_cpus`.
        controller: What is limited, such as "cpu" or "memory"; version 1 has cgroups of its own for each.
    """
    try:
        lines = cgroups.read_text().splitlines()
    except OSError:
        return
    for controllers, _, path in (line.partition(":")[2].partition(":") for line in lines):
        if not controllers or controller in controllers.split(","):
            mount = root / controllers
            inside = Path(path.lstrip("/"))
            yield from (mount / folder for folder in (inside, *inside.parents))


def _quota(folder: Path) -> float | None:
    """Quota of a cgroup in cores; None if it has no quota."""
    with contextlib.suppress(OSError, ValueError):  # "max", or no such file
        quota, period = map(int, (folder / "cpu.max").read_text().split())
        return quota / period
    with contextlib.suppress(OSError, ValueError):
        quota = int((folder / "cpu.cfs_quota_us").read_text())
        return quota / int((folder / "cpu.cfs_period_us").read_text()) if quota > 0 else None
    return None
