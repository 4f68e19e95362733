"""Compares the files of our packages in the repository, in wheels and in the sdist: package_files.py CHECKOUT WHEEL... SDIST."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGES = ("sandboxes", "colbench_gym", "sweetrl_agent")
Digests = dict[str, str]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def of_checkout(folder: Path) -> Digests:
    """Digest of every tracked file of the packages, by its path."""
    listed = subprocess.run(["git", "ls-files", "-z", *PACKAGES], cwd=folder, capture_output=True, check=True).stdout
    return {name: _digest((folder / name).read_bytes()) for name in filter(None, listed.decode().split("\0"))}


def of_wheel(path: Path) -> Digests:
    """Digest of every file of the wheel but its metadata; the licence must be among those."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names), f"{path.name} has no LICENSE"
        return {name: _digest(archive.read(name)) for name in names if ".dist-info/" not in name}


def of_sdist(path: Path) -> Digests:
    """Digest of every file of the packages in the sdist."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            name = member.name.partition("/")[2]
            if member.isfile() and name.startswith(tuple(f"{package}/" for package in PACKAGES)):
                found[name] = _digest(archive.extractfile(member).read())  # type: ignore[union-attr]
    return found


def main(checkout: str, *archives: str) -> int:
    """Print what differs; returns the exit status."""
    expected, wrong = of_checkout(Path(checkout)), 0
    for archive in map(Path, archives):
        found = (of_wheel if archive.suffix == ".whl" else of_sdist)(archive)
        for name in sorted(expected.keys() | found.keys()):
            if expected.get(name) != found.get(name):
                state = "missing" if name not in found else "not in the repository" if name not in expected else "different"
                print(f"{archive.name}: {name} is {state}", file=sys.stderr)
                wrong += 1
        print(f"{archive.name}: {len(found)} files of the packages")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
