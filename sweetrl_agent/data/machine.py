"""Facts on the machine that a run records: versions of packages, the commit, and peak memory."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from colbench_gym.evaluation import names
from sandboxes.cpus import cgroup_folders
from sweetrl_agent.core.processes import return_freed_memory

PACKAGES = ("gymnasium", "numpy", "torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers")


def forget_peak_memory() -> None:
    """Reset the peak of `peak_memory_mib`, after returning freed memory to the system.

    On systems other than Linux, the peak covers the whole process.
    """
    gc.collect()
    return_freed_memory()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak_memory_mib() -> float:
    """Peak memory of this process in MiB: resident, plus GPU memory if there is a GPU; 0 on Windows."""
    try:
        status = Path("/proc/self/status").read_text()
        resident = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    except OSError:
        try:
            import resource
        except ImportError:  # Windows
            return 0.0
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
    return resident + (torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else 0.0)


def free_disk(folder: Path) -> int:
    """Free bytes on the disk of a folder, which need not exist."""
    path = folder.absolute()
    return shutil.disk_usage(next(parent for parent in (path, *path.parents) if parent.is_dir())).free


def available_memory(
    meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Bytes of memory that this process can still get, by the machine and by the limits of its cgroups; None if neither is known.

    Args:
        meminfo: File with the memory of the machine.
        cgroup: File that lists the cgroups of this process.
        root: Mount point of the cgroups: version 2, version 1, or both.
    """
    bytes_left: list[int] = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        bytes_left.append(int(meminfo.read_text().partition("MemAvailable:")[2].split()[0]) * 1024)
    for folder in cgroup_folders(cgroup, root, "memory"):
        for limit, used, inactive in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            with contextlib.suppress(OSError, ValueError, IndexError):  # "max", or no such file
                cached = int((folder / "memory.stat").read_text().partition(f"{inactive} ")[2].split()[0])
                bytes_left.append(int((folder / limit).read_text()) - int((folder / used).read_text()) + cached)
    return max(0, min(bytes_left)) if bytes_left else None


def versions() -> dict[str, Any]:
    """Versions of Python and packages, the machine and, in a git checkout, the commit: the facts to reproduce the run."""
    commit = git_commit(__file__)
    return {**names.versions(PACKAGES), **({"git_commit": commit} if commit else {})}


def git_commit(file: str | Path) -> str | None:
    """Commit of the checkout of a tracked file, with "-dirty" if tracked files have changed since.

    None if git does not track the file (such as a package installed inside another repository) or git is not available.
    """
    path = Path(file).resolve()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "GIT_OPTIONAL_LOCKS": "0"
    }
    output = ""
    for command in (
        ["ls-files", "--error-unmatch", path.name],
        ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
    ):
        try:
            output = subprocess.run(
                ["git", *command], cwd=path.parent, env=environment, capture_output=True, text=True, check=True, timeout=60
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return None
    return output.strip()
