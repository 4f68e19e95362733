"""Build a container's root file system from this machine's interpreter or browser, for machines without access to a registry."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from sandboxes.interpreter import find_interpreter

_ENTRY_POINT = "/usr/local/bin/sandbox-python"
_BROWSER = "/usr/lib/chromium/chromium-headless-shell"
#: Dockerfile instructions for `docker import`: the same as at the end of the two Dockerfiles.
PYTHON_CHANGES = ["USER 65534:65534", "WORKDIR /", f'ENTRYPOINT ["{_ENTRY_POINT}"]']
BROWSER_CHANGES = [
    "USER 65534:65534", "WORKDIR /tmp",
    f'ENTRYPOINT ["/bin/sh", "-c", "exec {_BROWSER} \\"$@\\" 3<&0 4>&1 >/dev/null 2>&1", "browser"]',
]  # fmt: skip
_LEFT_OUT = {"__pycache__", "site-packages", "dist-packages", "test", "tests", "ensurepip", "idlelib", "tkinter", "turtledemo", "lib2to3"}  # fmt: skip
_LOADED_LATER = ("libgcc_s.so.1",)  # by the C library itself, when a thread ends
_LIBRARY = re.compile(r"(/\S+) \(0x")


@contextlib.contextmanager
def python_root(packages: Sequence[str], packages_directory: str) -> Iterator[tuple[IO[bytes], int]]:
    """A tar file of a root with this interpreter, and its size in bytes.

    Args:
        packages: Packages to include if this interpreter has them.
        packages_directory: Their directory in the image.
    """
    interpreter = find_interpreter(packages)
    trees = {path: path for path in (os.path.dirname(os.__file__), "/usr/share/zoneinfo") if os.path.isdir(path)}
    trees |= {
        path: f"{packages_directory}/{os.path.basename(path)}"
        for path in interpreter.roots
        if os.path.dirname(path) in interpreter.package_parents
    }
    binaries = [interpreter.executable, *(str(path) for tree in trees for path in Path(tree).rglob("*.so*"))]
    # A link, not a copy: an interpreter finds its standard library relative to its own location.
    with _root(
        {**trees, interpreter.executable: interpreter.executable}, binaries, {_ENTRY_POINT: interpreter.executable}
    ) as made:
        yield made


@contextlib.contextmanager
def browser_root(browser: str) -> Iterator[tuple[IO[bytes], int]]:
    """A tar file of a root with this machine's Chromium, all fonts (so that pages look the same) and a shell; and its size in bytes.

    Args:
        browser: Path of the browser's executable. Required files beside it are included.
    """
    folder = Path(browser).parent
    beside = [str(path) for pattern in ("*.pak", "*.dat", "*.bin", "lib*.so", "*.json") for path in folder.glob(pattern)]
    trees = [path for path in ("/etc/fonts", "/usr/share/fonts", "/usr/share/fontconfig") if os.path.isdir(path)]
    shell = os.path.realpath("/bin/sh")
    wanted = {path: path for path in (browser, *beside, *trees)} | {shell: "/bin/sh"}
    links = {_BROWSER: browser} if browser != _BROWSER else {}
    with _root(wanted, [browser, shell, *(path for path in beside if path.endswith(".so"))], links) as made:
        yield made


@contextlib.contextmanager
def _root(wanted: dict[str, str], binaries: Sequence[str], links: dict[str, str]) -> Iterator[tuple[IO[bytes], int]]:
    """A tar file of files and trees (source to target), the libraries that binaries need, and links (name to target)."""
    trees = [path for path in wanted if os.path.isdir(path)]
    libraries = {path: path for path in _libraries(binaries) if not any(path.startswith(tree + os.sep) for tree in trees)}
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            for source, target in {**wanted, **libraries}.items():
                archive.add(os.path.realpath(source), target, filter=_keep)
            for name, target in links.items():
                archive.addfile(_link(name, target))
            archive.addfile(_everyones("tmp"))  # a mount at this path gets its mode
        size = file.tell()
        file.seek(0)
        yield file, size


def _keep(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = os.path.basename(entry.name)
    if name in _LEFT_OUT or name.startswith("config-"):  # the latter holds static libraries
        return None
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = "root"
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


def _libraries(binaries: Sequence[str]) -> set[str]:
    """Shared libraries that binaries need, by the names they are looked up under."""
    listing = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    libraries = set(_LIBRARY.findall(listing))
    directories = {os.path.dirname(path) for path in libraries}
    later = {os.path.join(directory, name) for directory in directories for name in _LOADED_LATER}
    return libraries | {path for path in later if os.path.exists(path)}


def _everyones(name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
    return entry


def _link(name: str, target: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name.lstrip("/"))
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    return entry
