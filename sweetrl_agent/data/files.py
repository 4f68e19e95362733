"""Files of a run folder: `colbench_gym.files`, and what only a run needs of them; and the lock of a folder with all that is in it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from colbench_gym.errors import ColBenchError
from colbench_gym.files import (
    Row,
    append_rows,
    iter_rows,
    locked_for_process,
    not_writable,
    read_rows,
    refuse_no_file,
    write_json,
    write_rows,
    write_text,
)
from colbench_gym.stage_records import StageRecords

__all__ = [
    "EVALUATION", "METRICS", "SECONDS", "Row", "append_rows", "check_output", "count_rows", "is_text", "iter_rows", "locked", "metrics_of", "read_object", "read_rows",
    "refuse_links_out", "timeless", "whole_batches", "write_json", "write_rows", "write_text",
]  # fmt: skip
#: Required fields of every row of `evaluation.jsonl` and of `metrics.jsonl`.
EVALUATION, METRICS = ("agent", "split", "task_id", "episode", "outcome"), ("stage",)
#: Field of a row of metrics: wall time of the stage's training up to its step. It is kept in a file of its own, since it differs between equal runs.
SECONDS = "seconds"


def read_object(path: Path) -> Row:
    """Read a JSON object from a file; {} if the file does not exist.

    Raises:
        ColBenchError: If the file contains anything else, or cannot be read.
    """
    refuse_no_file(path)
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
                    held.enter_context(locked_for_process(above, is_shared=True))
            held.enter_context(locked_for_process(real))
        except OSError as error:
            raise not_writable(folder, error.strerror) from None
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
        raise not_writable(folder, error.strerror) from None
    if not existing.is_dir():
        raise not_writable(folder, f"{str(existing)!r} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise not_writable(folder, f"{str(existing)!r} may not be written")
    try:
        os.rmdir(tempfile.mkdtemp(dir=existing))  # for root, `access` is wrong on /proc and similar file systems
    except OSError as error:
        raise not_writable(folder, error.strerror) from None


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


def is_text(path: Path, text: str) -> bool:
    """Whether a file has this content; a missing file has none."""
    try:
        return path.read_bytes() == text.encode() if path.is_file() else not (text or path.exists())
    except OSError:
        return False


def timeless(row: Row) -> Row:
    """A row of metrics without its wall time."""
    return {name: value for name, value in row.items() if name != SECONDS}


def metrics_of(records: StageRecords) -> dict[str, str]:
    """The content of `metrics.jsonl` and of `timings.jsonl`, from the records of the stages."""
    found = [record.facts["metrics"] for record in records.stages.values() if "metrics" in record.facts]
    rows = [row for of_stage in found for own in of_stage.values() for row in own]
    times = [{name: row[name] for name in ("stage", "step", SECONDS)} for row in rows if SECONDS in row]
    both = {"metrics.jsonl": [timeless(row) for row in rows], "timings.jsonl": times}
    return {name: "".join(json.dumps(row) + "\n" for row in own) for name, own in both.items()}
