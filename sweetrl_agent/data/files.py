"""Files of a run folder, written so that a kill at any time loses at most the unit of work in progress.

Whole files are written to a temporary file, which then replaces the old one. Growing files are appended to in batches of complete
lines. A kill can leave an incomplete last line; it is ignored on reading and removed before the next append.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError

Row = dict[str, Any]
#: Required fields of every row of `evaluation.jsonl` and of `metrics.jsonl`.
EVALUATION, METRICS = ("agent", "split", "task_id", "episode", "outcome"), ("stage",)
#: Field of a row of metrics: wall time of the stage's training up to its step. It is kept in a file of its own, since it differs between equal runs.
SECONDS = "seconds"
_CHUNK_BYTES = 1 << 16


def write_text(path: Path, text: str) -> None:
    """Write a whole file atomically: it has either the old content or the new."""
    _write_whole(path, [text])


def _write_whole(path: Path, parts: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    with beside.open("w", encoding="utf-8") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, keys in the given order."""
    write_text(path, json.dumps(value, indent=2) + "\n")


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
    if not path.exists():
        return
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n") and line.strip():
                    yield _row(line, path, number, fields)
    except OSError as error:
        raise ColBenchError(f"Could not read {str(path)!r}: {error.strerror}.") from None


def _row(line: bytes, path: Path, number: int, fields: Collection[str]) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or not row.keys() >= set(fields):
        wanted = f" with {', '.join(fields)}" if fields else ""
        raise ColBenchError(
            f"{path}, line {number}: expected a JSON object{wanted}, got {line[:60]!r}; restore or remove the file."
        )
    return row


def read_object(path: Path) -> Row:
    """Read a JSON object from a file; {} if the file does not exist.

    Raises:
        ColBenchError: If the file contains anything else, or cannot be read.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ColBenchError(f"Could not read {str(path)!r}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ColBenchError(f"{path}: expected a JSON object; restore the file, or remove it.")
    return found


def count_rows(path: Path) -> int:
    """Number of rows that `read_rows` returns; 0 if the file does not exist."""
    return sum(1 for _ in iter_rows(path))


def whole_batches(path: Path, count: int, batch: int, total: int) -> int:
    """Number of rows of complete batches at the end of a growing file; rows of an incomplete batch are removed.

    Args:
        path: The file.
        count: Rows at its end that belong to this unit of work.
        batch: Rows per append.
        total: Rows of the finished work; its last batch may be smaller.

    Returns:
        Rows of this work that are kept: a multiple of `batch`, or `total`.
    """
    kept = count if count == total else count // batch * batch
    if kept < count:
        rows = read_rows(path)
        write_rows(path, rows[: len(rows) - (count - kept)])
    return kept


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


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder and everything in it for this process; it is created if it does not exist.

    The lock (`flock`) is exclusive on the folder and shared on all its parents, so a comparison and a run in the folder of one of its
    seeds exclude each other, in either order. The kernel releases the lock when the process ends for any reason.

    Limits: On network file systems it works only between processes of one machine. A parent that this user cannot open is not locked.

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
                    _flock(above, fcntl.LOCK_SH, held)
            _flock(real, fcntl.LOCK_EX, held)
        except OSError as error:
            raise _not_writable(folder, error.strerror) from None
        refuse_links_out(folder)
        yield


def _flock(folder: Path, kind: int, held: contextlib.ExitStack) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    held.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(
            f"Another process is working in {str(folder)!r}; wait until it ends, or give another `--output`."
        ) from None


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


def _not_writable(folder: Path, reason: str | None) -> ValueError:
    return ValueError(f"`output` must name a folder that can be written, got {str(folder)!r}: {reason}.")


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


def timeless(row: Row) -> Row:
    """A row of metrics without its wall time."""
    return {name: value for name, value in row.items() if name != SECONDS}
