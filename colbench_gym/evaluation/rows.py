"""The file of an evaluation's rows, in the order of the episodes. A kill at any time loses only episodes that were under way.

A void row is held back until a valid one follows: if the simulated human or the agent's server has gone down, the evaluation stops, and
the last void episodes are played again when it resumes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.summary import VOID

Row = dict[str, Any]
#: Void episodes in a row, and their tasks, after which the evaluation stops. Source: `sweetrl_agent.rollouts.scheduler`.
MOST_FAILED, FAILED_TASKS = 10, 3
FIELDS = ("agent", "split", "task_id", "episode", "outcome")


def read_rows(path: Path) -> list[Row]:
    """Rows of a file without an incomplete last line; [] if it does not exist.

    Raises:
        ColBenchError: If a complete line is not a row of an evaluation.
    """
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or not row.keys() >= set(FIELDS):
            raise ColBenchError(
                f"{path}, line {number}: expected a JSON object with {', '.join(FIELDS)}, got {line[:60]!r}; restore or remove the file."
            )
        rows.append(row)
    return rows


def write_whole(path: Path, text: str) -> None:
    """Write a whole file atomically."""
    beside = path.with_name(path.name + ".part")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


class RowFile:
    """Appends rows as they come.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = read_rows(path)
        if path.exists():
            with path.open("rb+") as file:
                file.truncate(file.read().rfind(b"\n") + 1)
        self._held: list[Row] = []

    def count(self, label: Row) -> int:
        """Number of rows with these fields and values."""
        return sum(_has(row, label) for row in self.rows)

    def add(self, row: Row, why: str = "") -> None:
        """Append a row.

        Args:
            row: The row.
            why: Why its episode is void.

        Raises:
            ColBenchError: If too many void episodes have come in a row.
        """
        if row["outcome"] == VOID:
            self._held.append(row)
            if len(self._held) >= MOST_FAILED and len({held["task_id"] for held in self._held}) >= FAILED_TASKS:
                raise ColBenchError(
                    f"{len(self._held)} episodes in a row are void. The last error: {why.rstrip('.')}. The evaluation stops, since other "
                    "episodes would fail too; all before are kept. Fix it, and give the same command to resume."
                )
            return
        self._append([*self._held, row])
        self._held = []

    def flush(self) -> None:
        """Append the void rows that are held back."""
        self._append(self._held)
        self._held = []

    def replace(self, is_chosen: Callable[[Row], bool], played: Iterator[Row]) -> None:
        """Replace the chosen rows by others, in order. The file is written as a whole."""
        self.rows = [next(played) if is_chosen(row) else row for row in self.rows]
        write_whole(self.path, "".join(map(_line, self.rows)))

    def _append(self, rows: Iterable[Row]) -> None:
        new = list(rows)
        if not new:
            return
        with self.path.open("ab") as file:
            file.write("".join(map(_line, new)).encode())
            file.flush()
            os.fsync(file.fileno())
        self.rows += new


def _has(row: Row, label: Row) -> bool:
    return all(row.get(name) == value for name, value in label.items())


def _line(row: Row) -> str:
    return json.dumps(row) + "\n"  # ASCII, so that a lone surrogate in a row is not an error
