"""What a run records of the machine: versions of packages, the commit, and peak memory."""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from sweetrl_agent.core.processes import return_freed_memory

PACKAGES = ("gymnasium", "numpy", "torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers")


def forget_peak_memory() -> None:
    """Reset the peak of `peak_memory_mib`, after returning freed memory to the system.

    On systems other than Linux, the peak remains that of the whole process.
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


def versions() -> dict[str, Any]:
    """Versions of Python and packages, the machine and, in a git checkout, the commit: what is needed to reproduce the run."""
    packages = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    commit = git_commit(__file__)
    return {
        "python": platform.python_version(),
        "packages": packages,
        **({"git_commit": commit} if commit else {}),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def git_commit(file: str | Path) -> str | None:
    """Commit of the checkout of a tracked file, with "-dirty" if tracked files have changed since.

    None if git does not track the file (such as a package installed inside another repository) or git is not available.
    """
    path = Path(file).resolve()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "GIT_OPTIONAL_LOCKS": "0"
    }
    said = ""
    for command in (
        ["ls-files", "--error-unmatch", path.name],
        ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
    ):
        try:
            said = subprocess.run(
                ["git", *command], cwd=path.parent, env=environment, capture_output=True, text=True, check=True, timeout=60
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return None
    return said.strip()
