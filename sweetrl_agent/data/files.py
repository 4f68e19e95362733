"""The files of a run folder: written so that a kill at any moment loses at most the unit of work in flight.

Whole files are written beside their name and moved over it. Growing files take complete batches of lines: a torn last line,
all that a kill can leave behind, is dropped on reading and cut off before the next batch.
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
#: What every row has of `evaluation.jsonl` and of `metrics.jsonl`.
EVALUATION, METRICS = ("agent", "split", "task_id", "episode", "outcome"), ("stage",)
_CHUNK_BYTES = 1 << 16


def write_text(path: Path, text: str) -> None:
    """Write a whole file: afterwards it has the old content or the new, never a part."""
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
    """Write a JSON file, keys in the order given."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a whole JSONL file, row by row: they need not fit into memory together."""
    _write_whole(path, map(_line, rows))


def append_rows(path: Path, rows: Iterable[Row]) -> None:
    """Append rows to a JSONL file, after cutting off a torn last line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.truncate(_complete_bytes(path))
        file.write("".join(_line(row) for row in rows).encode())
        file.flush()
        os.fsync(file.fileno())


def read_rows(path: Path, fields: Collection[str] = ()) -> list[Row]:
    """Rows of a JSONL file without a torn last line; [] where there is no file. See `iter_rows`."""
    return list(iter_rows(path, fields))


def iter_rows(path: Path, fields: Collection[str] = ()) -> Iterator[Row]:
    """The same one by one, for files that are large.

    Args:
        path: The file.
        fields: What every row must have.

    Raises:
        ColBenchError: If a whole line is no JSON object or lacks a field, or the file cannot be read: something else than a kill has been at it.
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
    """A JSON object from a file; {} where there is no file.

    Raises:
        ColBenchError: If the file holds anything else, or cannot be read.
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
    """How many rows `read_rows` gives; 0 where there is no file."""
    return sum(1 for _ in iter_rows(path))


def whole_batches(path: Path, count: int, batch: int, total: int) -> int:
    """How much of the work at the end of a growing file is done; rows of a batch that a kill cut short are removed.

    Args:
        path: The file.
        count: Rows at its end that belong to this work.
        batch: Rows that are appended together.
        total: Rows that the work comes to; its last batch may be smaller.

    Returns:
        Rows of this work that stay: a multiple of `batch`, or `total`.
    """
    kept = count if count == total else count // batch * batch
    if kept < count:
        rows = read_rows(path)
        write_rows(path, rows[: len(rows) - (count - kept)])
    return kept


def _complete_bytes(path: Path) -> int:
    """Length up to the end of the last whole line, looked for from the end: a growing file is not read at every append."""
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
    return json.dumps(row) + "\n"  # ASCII, so that a lone surrogate in a row is no error


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder, and everything in it, for this process alone; it is made if it is not there.

    The lock (`flock`) is exclusive on the folder and shared on all folders above it, so a comparison and a run in one of its seeds'
    folders exclude each other, whichever comes first. The kernel releases it when the process ends, however it ends.

    Limits: On network file systems it holds among the processes of one machine. A folder above that this user cannot open is not locked.

    Raises:
        ValueError: If another process holds it or a folder around or in it, it cannot be made or written, or a link leads out of it.
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
            f"Another process is at work in {str(folder)!r}; wait until it ends, or give another `--output`."
        ) from None


def check_output(folder: Path) -> None:
    """Check a folder as `locked` does, and neither make nor lock it.

    Raises:
        ValueError: If it cannot be made or written, or a link leads out of it.
    """
    _check_writable(folder)
    refuse_links_out(folder)


def _check_writable(folder: Path) -> None:
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists() or path.is_symlink())
    except OSError as error:  # such as a name that is too long
        raise _not_writable(folder, error.strerror) from None
    if not existing.is_dir():
        raise _not_writable(folder, f"{str(existing)!r} is no folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise _not_writable(folder, f"{str(existing)!r} may not be written")
    try:
        os.rmdir(tempfile.mkdtemp(dir=existing))  # what `access` says of root is not true of /proc and its like
    except OSError as error:
        raise _not_writable(folder, error.strerror) from None


def _not_writable(folder: Path, reason: str | None) -> ValueError:
    return ValueError(f"`output` must name a folder that can be written, got {str(folder)!r}: {reason}.")


def refuse_links_out(folder: Path) -> None:
    """Refuse a folder in which a symbolic link leads out of it: what is written below must stay below.

    Limits: It looks once. A link that somebody with write access plants later is followed, and hard links are not seen.

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
