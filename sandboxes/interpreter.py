"""Which interpreter a runner uses, which files it needs, and how bubblewrap is told."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

BUBBLEWRAP = "/usr/bin/bwrap"
"""Never searched for: the packages of these names on PyPI are something else."""

_LIBRARY_DIRECTORIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_NOBODY = "65534"


@dataclass(frozen=True)
class Interpreter:
    """A Python and what it must be able to read.

    Attributes:
        executable: The real binary, behind the links of a virtual environment.
        roots: Readable trees and files: standard library, shared libraries, time zones, the packages.
        hidden: Directories below the roots that stay unreadable: site-packages.
        packages: Names of the packages that are installed, of those asked for.
        package_parents: Directories that hold the packages.
    """

    executable: str
    roots: tuple[str, ...]
    hidden: tuple[str, ...]
    packages: tuple[str, ...]
    package_parents: tuple[str, ...]

    @property
    def listable(self) -> tuple[str, ...]:
        """Directories in which the import system looks for modules."""
        return tuple({os.path.dirname(path) for path in self.hidden})


def find_interpreter(packages: Sequence[str]) -> Interpreter:
    """Describe the interpreter of this process, with those of `packages` that it has."""
    # In a virtual environment made with copies, the binary finds the standard library through a file of the environment.
    executable = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    standard = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib", vars={"platbase": sys.base_exec_prefix})}
    libraries = [str(path) for path in Path(sys.base_prefix, "lib").glob("*.so*")]
    roots = [*_LIBRARY_DIRECTORIES, *standard, "/usr/share/zoneinfo", *libraries]
    hidden = {str(path) for root in roots for pattern in _HIDDEN for path in Path(root).glob(pattern)}
    found, directories = _find_packages(packages)
    real = dict.fromkeys(os.path.realpath(path) for path in roots if os.path.exists(path))
    return Interpreter(
        executable=executable,
        roots=(*real, *directories),
        hidden=tuple(sorted({os.path.realpath(path) for path in hidden})),
        packages=found,
        package_parents=tuple(dict.fromkeys(os.path.dirname(path) for path in directories)),
    )


_HIDDEN = ("site-packages", "dist-packages", "python3*/site-packages", "python3*/dist-packages")


def _find_packages(packages: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found, directories = [], []
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        found.append(name)
        for location in spec.submodule_search_locations or [spec.origin or ""]:
            # A wheel keeps the shared libraries that it brings along in "<name>.libs", beside the package.
            directories += [path for path in (location, f"{location}.libs") if os.path.exists(path)]
    return tuple(found), tuple(directories)


def bubblewrap_command(interpreter: Interpreter) -> list[str]:
    """Command line that runs the interpreter in namespaces of its own, with nothing mounted but what it needs."""
    command = [BUBBLEWRAP, "--unshare-all", "--die-with-parent", "--new-session", "--hostname", "sandbox"]
    command += ["--uid", _NOBODY, "--gid", _NOBODY, "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
    for directory in _LIBRARY_DIRECTORIES:
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
