"""The cells of an evaluation: the episodes of one policy on one split with one seed, each recorded as a stage (`stage_records`).

So a file of tasks, a model folder or a module that changed is noticed, and rows that are missing or damaged are played again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colbench_gym.digests import rows_of
from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.folder import RESULTS, ROWS, Settings
from colbench_gym.files import Row, iter_rows, read_json, write_json, write_rows
from colbench_gym.stage_records import StageRecords

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cell:
    """Episodes of a policy on a split with a seed.

    Attributes:
        agent: Name of the policy.
        split: The split.
        seed: The seed.
        inputs: What its rows depend on, by input names (`colbench_gym.digests`).
    """

    agent: str
    split: str
    seed: int
    inputs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in `stages.json`."""
        return name_of(self.label)

    @property
    def label(self) -> Row:
        """Fields that identify its rows."""
        return {"agent": self.agent, "split": self.split, "seed": self.seed}

    @property
    def writes(self) -> tuple[str, ...]:
        """Its rows."""
        return (rows_of(ROWS, **self.label),)


def find_invalid(records: StageRecords, cells: Iterable[Cell], redo: Sequence[str]) -> dict[str, str]:
    """Cells that are to be played again, and why. Nothing is changed.

    Args:
        records: The records of the folder. Cells of earlier commands count too, since their rows are in the results.
        cells: The cells of this command.
        redo: Policies, or names of cells, that are to be played again.

    Raises:
        ValueError: If `redo` names none of the cells.
        ColBenchError: As `StageRecords.find_invalid`.
    """
    declared = {cell.name: cell.writes for cell in cells}
    chosen = [name for one in redo for name in [cell.name for cell in cells if one in (cell.agent, cell.name)] or [one]]
    return records.find_invalid(declared, chosen, [name for name in records.stages if name != "results"])


def prepare(
    records: StageRecords,
    settings: Settings,
    cells: Sequence[Cell],
    invalid: Mapping[str, str],
    redo: Sequence[str],
    replays: bool,
) -> None:
    """Remove the rows of cells that are to be played again, and open those in which void episodes are to be.

    Args:
        records: The records of the folder.
        settings: Settings of the folder, which are recorded.
        cells: The cells of this command.
        invalid: What `find_invalid` returns for them.
        redo: As in `find_invalid`; the results of before are kept under another name.
        replays: Whether void episodes are played again.
    """
    for name, why in invalid.items():
        _log.warning("%s: is played again, since %s", name, why)
    records.settings = dict(settings)
    if redo:
        records.keep_results()
    records.clear(invalid, {cell.name: cell.writes for cell in cells})
    rows = records.folder / ROWS
    if invalid and rows.exists():  # a changed row may have the label of no cell
        write_rows(rows, (row for row in iter_rows(rows) if name_of(row) in records.stages))
    for cell in cells:
        if replays:
            records.reopen(cell.name)


@contextmanager
def recorded(records: StageRecords, cell: Cell) -> Iterator[None]:
    """Record the inputs of a cell before its episodes are played, and its rows afterwards."""
    records.begin(cell.name, (), cell.inputs, cell.writes)
    yield
    records.finish(cell.name)


def name_of(row: Mapping[str, Any]) -> str:
    """Name of the cell that a row belongs to."""
    return f"{row.get('agent')}, {row.get('split')}, seed {row.get('seed')}"


def in_order(rows: Iterable[Row], records: StageRecords) -> list[Row]:
    """The rows of the recorded cells by policy, split and seed, whatever the order in which they were played."""
    agents, splits = list(records.settings["policies"]), list(records.settings["tasks"])
    known = [row for row in rows if name_of(row) in records.stages]
    return sorted(known, key=lambda row: (agents.index(row["agent"]), splits.index(row["split"]), row["seed"]))


def write_results(records: StageRecords, results: Mapping[str, Any]) -> None:
    """Write results.json and record its digest.

    Raises:
        ColBenchError: If the file has results of more episodes.
    """
    path = records.folder / RESULTS
    if records.is_as_written(RESULTS):
        refuse_fewer(path, results)
    records.begin("results", (), (), (RESULTS,))
    write_json(path, results)
    records.finish("results")


def refuse_fewer(path: Path, results: Mapping[str, Any]) -> None:
    """Refuse to replace results by others of fewer episodes. A file that is no JSON object has no results.

    Raises:
        ColBenchError: Names the agent and the split that would have fewer.
    """
    now = episodes_of(results)
    for cell, count in episodes_of(read_json(path)).items():
        if now.get(cell, 0) < count:
            raise ColBenchError(
                f"{path} has results of {count} episodes of {cell[0]!r} on {cell[1]!r}, and there are rows of {now.get(cell, 0)}, so it is kept; "
                "restore the rows, or remove that file."
            )


def episodes_of(results: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """Number of episodes by agent and split, void ones included."""
    return {
        (agent, split): score["n"] + score.get("void", 0)
        for agent, splits in results.items()
        if isinstance(splits, dict)
        for split, score in splits.items()
        if isinstance(score, dict)
        and isinstance(score.get("n"), int)
        and "success" in score
        and isinstance(score.get("void", 0), int)
    }
