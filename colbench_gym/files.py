"""Files of a folder that a command writes, so that a kill at any time loses at most the unit of work in progress; and its lock.

Whole files are written to a temporary file, which then replaces the old one. Growing files are appended to in batches of complete
lines. A kill can leave an incomplete last line; it is ignored on reading and removed before the next append.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Row = dict[str, Any]
#: Whether this system locks files; Windows has no such locks.
HAS_LOCKS = fcntl is not None
_CHUNK_BYTES = 1 << 16
_LOCK_TRIES = 5


def write_text(path: Path, text: str) -> None:
    """Write a whole file atomically: it has either the old content or the new."""
    _write_whole(path, [text])


def _write_whole(path: Path, parts: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    refuse_no_file(beside)
    if path.is_dir():  # anything else is replaced
        refuse_no_file(path)
    beside.unlink(missing_ok=True)  # it is not opened for writing: it may be a link
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def refuse_no_file(path: Path) -> None:
    """Refuse a folder, a pipe or a device in the place of a file; a link counts as what it leads to.

    Raises:
        ColBenchError: Names it.
    """
    if path.exists() and not path.is_file():
        raise ColBenchError(f"{path} must be a file, and it is a folder, a pipe or a device; remove it.")


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, keys in the given order."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def read_json(path: Path) -> Row:
    """The JSON object in a file; {} if there is none, also where the file contains anything else: see `read_object`."""
    try:
        value = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_object(path: Path) -> Row:
    """Read a JSON object from a file; {} if the file does not exist.

    Raises:
        ColBenchError: If the file contains anything else, or cannot be read.
    """
    refuse_no_file(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ColBenchError(f"Could not read {str(path)!r}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise ColBenchError(f"{path}: expected a JSON object; restore the file, or remove it.")
    return content


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a whole JSONL file row by row: the rows need not fit into memory together."""
    _write_whole(path, map(_line, rows))


def append_rows(path: Path, rows: Iterable[Row]) -> None:
    """Append rows to a JSONL file, after removing an incomplete last line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.truncate(_complete_bytes(path))
        file.write("".join(_line(row) for row in rows).encode())
        file.flush()
        os.fsync(file.fileno())


def read_rows(path: Path, fields: Collection[str] = ()) -> list[Row]:
    """Rows of a JSONL file without an incomplete last line; [] if the file does not exist. See `iter_rows`."""
    return list(iter_rows(path, fields))


def iter_rows(path: Path, fields: Collection[str] = ()) -> Iterator[Row]:
    """Iterate over the rows of a JSONL file, for large files.

    Args:
        path: The file.
        fields: Fields that every row must have.

    Raises:
        ColBenchError: If a complete line is not a JSON object or lacks a field, or the file cannot be read: a kill alone does not cause this.
    """
    refuse_no_file(path)
    if not path.exists():
        return
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n") and line.strip():
                    yield _row(line, path, number, fields)
    except OSError as error:
        raise ColBenchError(f"Could not read {str(path)!r}: {error.strerror}.") from None


def count_rows(path: Path) -> int:
    """Number of rows that `read_rows` returns; 0 if the file does not exist."""
    return sum(1 for _ in iter_rows(path))


def _row(line: bytes, path: Path, number: int, fields: Collection[str]) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not row.keys() >= set(fields):
        wanted = f" with {', '.join(fields)}" if fields else ""
        raise ColBenchError(
            f"{path}, line {number}: expected a JSON object{wanted}, got {line[:-1][:60]!r}; restore or remove the file."
        )
    return row


def _complete_bytes(path: Path) -> int:
    """Length in bytes up to the end of the last complete line. Searched from the end, so that an append does not read the whole file."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(end - _CHUNK_BYTES, 0)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
    return 0


def _line(row: Row) -> str:
    return json.dumps(row) + "\n"  # ASCII, so that a lone surrogate in a row is not an error


def is_locked(folder: Path) -> bool | None:
    """Whether a process of this machine works in a folder, or in one that it is in; None where the system has no locks.

    It takes a shared lock for a moment, for which `locked` waits.
    """
    real = folder.resolve()
    for place in (real, *real.parents) if HAS_LOCKS else ():
        with contextlib.suppress(PermissionError, FileNotFoundError, NotADirectoryError):
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(descriptor)
    return False if HAS_LOCKS else None


def _flock(descriptor: int, operation: int) -> None:
    """Lock, and wait for the moment of `is_locked`."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, operation)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return
    fcntl.flock(descriptor, operation)


@contextlib.contextmanager
def _locked_for_process(folder: Path, is_shared: bool = False) -> Iterator[None]:
    """Lock a folder for this process, or for all that share the lock. The kernel releases it when the process ends for any reason.

    Limits: On network file systems it works only between processes of one machine. On Windows nothing is locked.

    Raises:
        ValueError: If another process has locked it.
        OSError: If it cannot be opened.
    """
    if not HAS_LOCKS:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            _flock(descriptor, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"Another process is working in {str(folder)!r}; wait until it ends, or give another `--output`."
            ) from None
        yield
    finally:
        os.close(descriptor)


def _not_writable(folder: Path, reason: str | None) -> ValueError:
    """The error of an output folder that cannot be created or written."""
    return ValueError(f"`output` must name a folder that can be written, got {str(folder)!r}: {reason}.")


def whole_batches(path: Path, batch: int, total: int, is_own: Callable[[Row], bool] = lambda row: True) -> int:
    """Number of rows of complete batches of a unit of work in a growing file; its other rows are removed, those of other work never.

    Args:
        path: The file.
        batch: Rows per append.
        total: Rows of the finished work; its last batch may be smaller.
        is_own: Whether a row belongs to the work.

    Returns:
        Rows of this work that are kept, its first: a multiple of `batch`, or `total`.
    """
    count = sum(map(is_own, iter_rows(path)))
    kept = total if count >= total else count // batch * batch
    if kept < count:
        place = itertools.count()
        write_rows(path, (row for row in iter_rows(path) if not is_own(row) or next(place) < kept))
    return kept


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder and everything in it for this process; it is created if it does not exist.

    The lock is exclusive on the folder and shared on all its parents, so a comparison and a run in the folder of one of its
    seeds exclude each other, in either order. The kernel releases the lock when the process ends for any reason.

    Limits: On network file systems it works only between processes of one machine, and on Windows not at all. A parent that this user cannot open is not locked.

    Raises:
        ValueError: If another process has locked it, a parent or a subfolder; if it cannot be created or written; or if a link points out of it.
    """
    with contextlib.ExitStack() as held:
        _check_writable(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            real = folder.resolve()
            for above in reversed(real.parents):
                with contextlib.suppress(PermissionError):
                    held.enter_context(_locked_for_process(above, is_shared=True))
            held.enter_context(_locked_for_process(real))
        except OSError as error:
            raise _not_writable(folder, error.strerror) from None
        refuse_links_out(folder)
        yield


def check_output(folder: Path) -> None:
    """Check a folder as `locked` does, without creating or locking it.

    Raises:
        ValueError: If it cannot be created or written, or a link points out of it.
    """
    _check_writable(folder)
    refuse_links_out(folder)


def _check_writable(folder: Path) -> None:
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists() or path.is_symlink())
    except OSError as error:  # for example, the name is too long
        raise _not_writable(folder, error.strerror) from None
    if not existing.is_dir():
        raise _not_writable(folder, f"{str(existing)!r} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise _not_writable(folder, f"{str(existing)!r} may not be written")
    try:
        os.rmdir(tempfile.mkdtemp(dir=existing))  # for root, `access` is wrong on /proc and similar file systems
    except OSError as error:
        raise _not_writable(folder, error.strerror) from None


def refuse_links_out(folder: Path) -> None:
    """Refuse a folder with a symbolic link that points out of it: files must be written inside the folder.

    Limits: It checks once. A link created later by somebody with write access is followed, and hard links are not detected.

    Raises:
        ValueError: Names the first such link.
    """
    root = folder.resolve()
    for path, folders, files in os.walk(folder):
        for entry in (Path(path, name) for name in (*folders, *files)):
            if entry.is_symlink() and not Path(target := os.path.realpath(entry)).is_relative_to(root):
                raise ValueError(
                    f"{str(entry)!r} is a symbolic link that leads out of {str(folder)!r}, to {target!r}; "
                    "remove it, or give another `--output`."
                )
