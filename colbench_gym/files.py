"""Files of a folder that a command writes, so that a kill at any time loses at most the unit of work in progress; and its lock.

Whole files are written to a temporary file, which then replaces the old one. Growing files are appended to in batches of complete
lines. A kill can leave an incomplete last line; it is ignored on reading and removed before the next append.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from colbench_gym.locks import HAS_LOCKS, lock

Row = dict[str, Any]
_CHUNK_BYTES = 1 << 16


def write_text(path: Path, text: str) -> None:
    """Write a whole file atomically: it has either the old content or the new."""
    _write_whole(path, [text])


def _write_whole(path: Path, parts: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    refuse_no_file(beside)
    if path.is_dir():  # anything else is replaced
        refuse_no_file(path)
    with beside.open("w", encoding="utf-8") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


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
    """The JSON object in a file; {} if there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


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


@contextlib.contextmanager
def locked_for_process(folder: Path, is_shared: bool = False) -> Iterator[None]:
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
            lock(descriptor, is_shared, waits=False)
        except BlockingIOError:
            raise ValueError(
                f"Another process is working in {str(folder)!r}; wait until it ends, or give another `--output`."
            ) from None
        yield
    finally:
        os.close(descriptor)


def not_writable(folder: Path, reason: str | None) -> ValueError:
    """The error of an output folder that cannot be created or written."""
    return ValueError(f"`output` must name a folder that can be written, got {str(folder)!r}: {reason}.")
