"""The file of an evaluation's rows, in the order of the episodes. A kill at any time loses only episodes that were under way.

A void row is held back until a valid one follows: if the simulated human or the agent's server has gone down, the evaluation stops, and
the last void episodes are played again when it resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.summary import VOID
from colbench_gym.files import Row, append_rows, read_rows, write_rows

#: Void episodes in a row, and their tasks, after which the evaluation stops. Source: `sweetrl_agent.rollouts.scheduler`.
MOST_FAILED, FAILED_TASKS = 10, 3
FIELDS = ("agent", "split", "task_id", "episode", "outcome")


class RowFile:
    """Appends rows as they come.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = read_rows(path, FIELDS)
        if path.exists():
            append_rows(path, [])  # removes an incomplete last line
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
        write_rows(self.path, self.rows)

    def _append(self, rows: Iterable[Row]) -> None:
        new = list(rows)
        if not new:
            return
        append_rows(self.path, new)
        self.rows += new


def _has(row: Row, label: Row) -> bool:
    return all(row.get(name) == value for name, value in label.items())
