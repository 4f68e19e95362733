"""The interpreter of a runner, the files that it needs, and the command line of bubblewrap."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from sandboxes.files import LIBRARY_DIRECTORIES, interpreter_files

BUBBLEWRAP = "/usr/bin/bwrap"
"""Never searched for: the packages of these names on PyPI are something else."""

_NOBODY = "65534"
_NAMESPACES = ("user-try", "ipc", "pid", "net", "uts", "cgroup-try")
#: If memory runs out, the kernel should kill a program rather than the host process. Set before bubblewrap, which has no /proc inside.
_FIRST_TO_GO = ("/bin/sh", "-c", '{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null; exec "$@"', "sh")


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter and the files that it must be able to read.

    Attributes:
        executable: The real binary, behind the links of a virtual environment.
        roots: Readable trees and files: standard library, shared libraries, time zones, the packages.
        hidden: Directories below the roots that stay unreadable: site-packages.
        packages: Names of the requested packages that are installed.
        package_parents: Directories that contain the packages.
    """

    executable: str
    roots: tuple[str, ...]
    hidden: tuple[str, ...]
    packages: tuple[str, ...]
    package_parents: tuple[str, ...]


def find_interpreter(packages: Sequence[str]) -> Interpreter:
    """Describe the interpreter of this process and those of `packages` that are installed."""
    # In a virtual environment made with copies, the binary finds the standard library through a file of the environment.
    executable = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    roots, hidden = interpreter_files()
    installed, directories = _find_packages(packages)
    return Interpreter(
        executable=executable,
        roots=(*roots, *directories),
        hidden=tuple(hidden),
        packages=installed,
        package_parents=tuple(dict.fromkeys(os.path.dirname(path) for path in directories)),
    )


def _find_packages(packages: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    installed, directories = [], []
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        installed.append(name)
        for location in spec.submodule_search_locations or [spec.origin or ""]:
            # A wheel stores its bundled shared libraries in "<name>.libs", beside the package.
            directories += [path for path in (location, f"{location}.libs") if os.path.exists(path)]
    return tuple(installed), tuple(directories)


def counts_by_namespace() -> bool:
    """Whether the kernel counts the processes of a user per user namespace (since Linux 5.14) and not over the whole system."""
    version = [int(part) for part in re.findall(r"\d+", os.uname().release)[:2]]
    return version >= [5, 14]


def bubblewrap_command(interpreter: Interpreter) -> list[str]:
    """Command line that runs the interpreter in separate namespaces, with only the files mounted that it needs.

    There is no /proc, and the interpreter is process 1. Bubblewrap's own init process would also hold its standard input, and could
    be read.
    """
    command = [*_FIRST_TO_GO, BUBBLEWRAP, *(f"--unshare-{namespace}" for namespace in _NAMESPACES)]
    command += ["--as-pid-1", "--die-with-parent", "--new-session", "--hostname", "sandbox"]
    command += ["--uid", _NOBODY, "--gid", _NOBODY, "--cap-drop", "ALL", "--dev", "/dev"]
    for directory in LIBRARY_DIRECTORIES:
        if os.path.islink(directory):
            command += ["--symlink", os.readlink(directory), directory]
    packages = [path for path in interpreter.roots if os.path.dirname(path) in interpreter.package_parents]
    for path in (*sorted(set(interpreter.roots) - set(packages)), interpreter.executable):
        command += ["--ro-bind", path, path]
    for path in interpreter.hidden:
        command += ["--tmpfs", path]
    for path in packages:
        command += ["--ro-bind", path, path]
    return [*command, "--remount-ro", "/", "--chdir", "/"]
