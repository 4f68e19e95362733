"""Digests of the files that a command reads and writes (SHA-256), so that a later command notices which of them changed.

A name in a folder is a file ("trajectories.jsonl"), a folder ("policy/"), or the rows of a file that several stages write
(`rows_of("evaluation.jsonl", agent="rft")`). An input from elsewhere is a path, or "module:NAME" for a module of the user's own, which names the files
that its code reads in a list `COLBENCH_FILES`.

A digest is kept with the size and the times of its file, and the file is read again only where these differ. The time of the last change
(`st_ctime`) cannot be set back by a program, so a bit that is flipped under an old date is noticed too. A file that was written in the last
two seconds is read again next time, since times are coarse.
"""

from __future__ import annotations

import ast
import errno
import hashlib
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from sandboxes.named import find_beside

#: Beginning of the name of an input that is a module.
MODULE = "module:"
#: Name of the list, in a module of the user's own, of the files and folders that its code reads.
FILES = "COLBENCH_FILES"
#: Age from which a file's times are trusted, in nanoseconds.
SETTLED_NS = 2_000_000_000
#: Entry of what has the place of a file and is none: a pipe or a device is not read, since that could take for ever.
_NO_FILE: dict[str, Any] = {"sha256": "no file"}
_OURS = ("sandboxes", "colbench_gym", "sweetrl_agent")
_SLICE = re.compile(r"\[-?\d*:-?\d*\]$")
_OBJECT = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_][\w.-]*")


def rows_of(file: str, **label: Any) -> str:
    """Name of the rows of a file that have these fields and values."""
    return f"{file} {json.dumps(label, sort_keys=True)}"


def file_of(name: str) -> str:
    """The file or folder of a name, without the label of rows."""
    return name.partition(" {")[0]


def label_of(name: str) -> dict[str, Any]:
    """The fields and values of `rows_of`; {} for a whole file."""
    label: dict[str, Any] = json.loads(name[len(file_of(name)) :] or "{}")
    return label


def module_of(spec: Any) -> list[str]:
    """Input names of an object that is named as "module:NAME", also in a mapping with a "name"; [] for one of ours."""
    match = _OBJECT.fullmatch(str(spec.get("name", "")) if isinstance(spec, Mapping) else str(spec))
    return module_input(match[1]) if match else []


def module_input(module: str) -> list[str]:
    """Input names of a module and of the files in its `COLBENCH_FILES`; [] for one of ours, which `versions.json` records.

    Raises:
        ColBenchError: If `COLBENCH_FILES` is not a list of names, written out.
    """
    return [] if module.partition(".")[0] in _OURS else [MODULE + module, *_files_read_by(module)]


def inputs_of_source(source: str) -> list[str]:
    """Input names of a source of tasks: its file or the module of its function; [] for embedded tasks, seeds and the hub."""
    path = _SLICE.sub("", source)
    if path.startswith(("embedded:", "hub:", "seeds:")) or not path:
        return []
    try:
        is_path = path.endswith(".jsonl") or Path(path).is_file()
    except (OSError, ValueError):  # too long, or not a valid file name
        return []
    return [path] if is_path else module_of(path)


def shown_input(name: str) -> str:
    """The file or folder of an input, for messages."""
    if not name.startswith(MODULE):
        return name
    files = [str(path) for path in _module_files(name.removeprefix(MODULE))]
    return os.path.commonpath(files) if files else name


class Digests:
    """Digests of the files of a folder, and of inputs from elsewhere.

    Args:
        folder: The folder.
        known: `known` of an earlier command: file -> "sha256", "stamp" (size and times) and "rows" (digests of rows by label).
    """

    def __init__(self, folder: Path, known: Mapping[str, Any] | None = None) -> None:
        self.folder = folder
        self.known: dict[str, dict[str, Any]] = {name: dict(entry) for name, entry in (known or {}).items()}
        self.seconds = 0.0

    def of(self, name: str) -> str | None:
        """Digest of a file, folder or rows of the folder; None if it does not exist, or there are no such rows.

        Raises:
            ColBenchError: If it cannot be read.
        """
        start, file = time.monotonic(), file_of(name)
        try:
            if file != name:
                return self._of_rows(file, name)
            return self._of_path(self.folder / file, file)
        except OSError as error:
            raise ColBenchError(f"Could not read {str(self.folder / file)!r}: {error.strerror}.") from None
        finally:
            self.seconds += time.monotonic() - start

    def of_input(self, name: str) -> str | None:
        """Digest of an input from elsewhere; None if it does not exist.

        Raises:
            ColBenchError: If it cannot be read.
        """
        start = time.monotonic()
        try:
            if name.startswith(MODULE):
                files = _module_files(name.removeprefix(MODULE))
                top = os.path.commonpath([path.parent for path in files]) if files else ""
                return self._joined((os.path.relpath(path, top), path) for path in files) if files else None
            return self._of_path(Path(name).expanduser(), os.path.abspath(Path(name).expanduser()))
        except OSError as error:
            raise ColBenchError(f"Could not read {name!r}: {error.strerror}.") from None
        finally:
            self.seconds += time.monotonic() - start

    def forget_missing(self) -> None:
        """Drop what is known of files that are gone."""
        self.known = {name: entry for name, entry in self.known.items() if (self.folder / name).is_file()}

    def _of_path(self, path: Path, key: str) -> str | None:
        if path.is_dir():
            return self._joined(((f"{key.rstrip('/')}/{name}", path / name) for name in _files_below(path)), key.rstrip("/"))
        return self._of_file(path, key)["sha256"] if path.is_file() else None

    def _joined(self, files: Iterable[tuple[str, Path]], start: str = "") -> str:
        digest = hashlib.sha256()
        for key, path in files:
            known_as = key if start else os.path.abspath(path)
            digest.update(f"{key[len(start) :]}\0{self._of_file(path, known_as)['sha256']}\n".encode())
        return digest.hexdigest()

    def _of_file(self, path: Path, key: str) -> dict[str, Any]:
        try:
            status = path.stat()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP):
                raise
            return _NO_FILE  # a symbolic link to nothing
        if not stat.S_ISREG(status.st_mode):
            return _NO_FILE
        stamp = [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
        if (entry := self.known.get(key)) is None or entry.get("stamp") != stamp:
            with path.open("rb") as file:
                entry = {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}
            if max(stamp[1:]) < time.time_ns() - SETTLED_NS:
                entry["stamp"] = stamp
            self.known[key] = entry
        return entry

    def _of_rows(self, file: str, name: str) -> str | None:
        path = self.folder / file
        if not path.is_file():
            return None
        rows: dict[str, str | None] = self._of_file(path, file).setdefault("rows", {})
        label = name[len(file) + 1 :]
        if label not in rows:
            wanted, digest, count = label_of(name), hashlib.sha256(), 0
            for line, row in complete_lines(path):
                if row is not None and has_label(row, wanted):
                    digest.update(line)
                    count += 1
            rows[label] = digest.hexdigest() if count else None
        return rows[label]


def complete_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """The complete lines of a file of rows with their rows; None for a line that is no JSON object."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n") and line.strip():
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    row = None
                yield line, row if isinstance(row, dict) else None


def has_label(row: Mapping[str, Any], label: Mapping[str, Any]) -> bool:
    """Whether a row has these fields and values."""
    return all(row.get(name) == value for name, value in label.items())


def _files_below(folder: Path) -> list[str]:
    """Files of a folder by relative name, sorted, without checkpoints, files that are being written, and hidden ones."""
    names = []
    for path, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in ("checkpoints", "__pycache__")]
        names += [
            os.path.relpath(Path(path, name), folder)
            for name in files
            if not name.startswith(".") and not name.endswith(".part")
        ]
    return sorted(names)


def _module_files(module: str) -> list[Path]:
    """The source files of a module: its own, or those of the whole package that it is in."""
    find_beside()
    top = module.partition(".")[0]
    package = None if module == "__main__" else _spec(top)
    if package is not None and package.origin and package.submodule_search_locations:
        folder = Path(package.origin).parent
        return [folder / name for name in _files_below(folder) if name.endswith(".py")]
    return [path] if (path := _source_file(module)) else []


def _files_read_by(module: str) -> list[str]:
    """The files that a module's `COLBENCH_FILES` names, relative to its folder. The list is read without importing the module."""
    path = _source_file(module)
    if path is None:
        return []
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, ValueError, SyntaxError):  # loading the module reports it
        return []
    for statement in (each for each in body if isinstance(each, ast.Assign)):
        if any(isinstance(target, ast.Name) and target.id == FILES for target in statement.targets):
            try:
                names = ast.literal_eval(statement.value)
            except (ValueError, TypeError):  # not written out, or no value at all, such as {[]}
                names = None
            if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
                raise ColBenchError(f'{FILES} in {path} must be a list of file names, written out, such as ["weights.npz"].')
            return [str(path.parent / name) for name in names]
    return []


def _source_file(module: str) -> Path | None:
    """The file of a module's source; None if there is none."""
    find_beside()
    origin = (
        getattr(sys.modules.get("__main__"), "__file__", None)
        if module == "__main__"
        else getattr(_spec(module), "origin", None)
    )
    return Path(origin) if origin and Path(origin).is_file() else None


def _spec(module: str) -> Any:
    try:
        return find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
