"""Find the files that an interpreter needs, on the host or inside a container."""

from __future__ import annotations

import glob
import os
import sys

LIBRARY_DIRECTORIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_HIDDEN = ("site-packages", "dist-packages", "python3*/site-packages", "python3*/dist-packages")


def interpreter_files() -> tuple[list[str], list[str]]:
    """Trees and files of this interpreter to make readable, and directories below them that must stay unreadable.

    Standard library, shared libraries and time zones are readable; third-party packages are not.
    """
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    standard = [os.path.dirname(os.__file__), os.path.join(sys.base_exec_prefix, sys.platlibdir, version)]
    libraries = glob.glob(os.path.join(sys.base_prefix, "lib", "*.so*"))
    roots = [*LIBRARY_DIRECTORIES, *standard, "/usr/share/zoneinfo", *sorted(libraries)]
    hidden = {path for root in roots for pattern in _HIDDEN for path in glob.glob(os.path.join(root, pattern))}
    real = dict.fromkeys(os.path.realpath(path) for path in roots if os.path.exists(path))
    return list(real), sorted({os.path.realpath(path) for path in hidden})
