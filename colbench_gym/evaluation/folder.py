"""The folder of an evaluation: `evaluation.jsonl`, `stages.json`, `settings.json` and `results.json`.

A cell, the episodes of one policy on one split with one seed, is recorded as a stage (`colbench_gym.stage_records`). So a file of tasks, a model
folder or a module that changed is noticed, and rows that are missing or damaged are played again. `settings.json` is a copy of the settings that
the rows were made with: the same resume the evaluation, and other policies, splits and seeds may be added.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from colbench_gym.digests import complete_lines, rows_of
from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.rows import RowFile, read_evaluation
from colbench_gym.files import Row, iter_rows, read_json, write_json, write_rows
from colbench_gym.stage_records import EVALUATION, StageRecords

ROWS, SETTINGS, RESULTS = "evaluation.jsonl", "settings.json", "results.json"
#: Settings by kind: of the whole evaluation, by policy, and the source of every split.
Settings = dict[str, dict[str, Any]]
_KINDS = ("evaluation", "policies", "tasks")
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
    def label(self) -> Row:
        """Fields that identify its rows."""
        return {"agent": self.agent, "split": self.split, "seed": self.seed}

    @property
    def name(self) -> str:
        """Its name in `stages.json`."""
        return _name_of(self.label)

    @property
    def writes(self) -> tuple[str, ...]:
        """Its rows."""
        return (rows_of(ROWS, **self.label),)


class EvaluationFolder:
    """The folder, as it is before and while a command plays episodes.

    Args:
        folder: The folder.
        settings: Settings of the command.
        cells: Cells of the command. Those of earlier commands count too, since their rows are in the results.
        redo: Policies, or names of cells, that are to be played again.

    Attributes:
        records: Records of the cells and of the results.
        settings: Settings of the folder, with those of the command.
        invalid: Cells that are to be played again, and why.

    Raises:
        ValueError: If the folder has rows of other settings, or `redo` names none of the cells.
        ColBenchError: As `StageRecords.find_invalid`.
    """

    def __init__(self, folder: Path, settings: Settings, cells: Sequence[Cell], redo: Sequence[str] = ()) -> None:
        self.folder, self.cells, self.redo = folder, cells, redo
        self.records = StageRecords(folder, kind=EVALUATION)
        self.settings = merged_settings(self.records, settings)
        self._declared = {cell.name: cell.writes for cell in cells}
        chosen = [
            name for given in redo for name in [cell.name for cell in cells if given in (cell.agent, cell.name)] or [given]
        ]
        others = [name for name in self.records.stages if name != "results"]
        self.invalid = self.records.find_invalid(self._declared, chosen, others)

    def prepare(self, replay_void: bool) -> None:
        """Write the settings, remove the rows of cells that are to be played again, and open those in which void episodes are to be."""
        for name, why in self.invalid.items():
            _log.warning("%s: is played again, since %s", name, why)
        self.records.settings = dict(self.settings)
        if self.redo:
            self.records.keep_results()
        self.records.clear(self.invalid, self._declared)
        path = self.folder / ROWS
        if self.invalid and path.exists():  # a changed row may have the label of no cell
            write_rows(path, (row for row in iter_rows(path) if _name_of(row) in self.records.stages))
        for name in self._declared if replay_void else ():
            self.records.reopen(name)
        write_json(self.folder / SETTINGS, self.settings)

    def left(self, agent: str, split: str) -> list[Cell]:
        """The cells of a policy on a split that are not done."""
        cells = [cell for cell in self.cells if (cell.agent, cell.split) == (agent, split)]
        return [cell for cell in cells if not self.records.is_done(cell.name)]

    @contextmanager
    def recorded(self, cell: Cell) -> Iterator[RowFile]:
        """The rows of a cell, whose inputs are recorded before its episodes are played, and the rows afterwards."""
        self.records.begin(cell.name, (), cell.inputs, cell.writes)
        yield RowFile(self.folder / ROWS, cell.label)
        self.records.finish(cell.name)

    def rows(self, metric: str) -> list[Row]:
        """The rows of the recorded cells by policy, split and seed, whatever the order in which they were played."""
        agents, splits = list(self.settings["policies"]), list(self.settings["tasks"])
        known = [row for row in read_evaluation(self.folder / ROWS, metric) if _name_of(row) in self.records.stages]
        return sorted(known, key=lambda row: (agents.index(row["agent"]), splits.index(row["split"]), row["seed"]))

    def count_rows(self, metric: str) -> Counter[str]:
        """Number of valid rows of the command's cells, by policy."""
        path = self.folder / ROWS
        if self.invalid:  # what cannot be read is removed with their rows
            rows = [row for _, row in complete_lines(path) if row is not None] if path.is_file() else []
        else:
            rows = read_evaluation(path, metric)
        agents = {cell.name: cell.agent for cell in self.cells if cell.name not in self.invalid}
        return Counter(agents[name] for name in map(_name_of, rows) if name in agents)

    def write_results(self, results: Mapping[str, Any]) -> None:
        """Write results.json and record its digest.

        Raises:
            ColBenchError: If the file has results of more episodes.
        """
        if self.records.is_as_written(RESULTS):
            refuse_fewer(self.folder / RESULTS, results)
        self.records.begin("results", (), (), (RESULTS,))
        write_json(self.folder / RESULTS, results)
        self.records.finish("results")


def merged_settings(records: StageRecords, given: Settings) -> Settings:
    """The settings of a folder with those given added.

    Args:
        records: The records of the folder.
        given: "evaluation": settings of all rows; "policies": settings of each policy; "tasks": source of each split.

    Raises:
        ValueError: If rows were made with another value of one of them.
    """
    before: Settings = {kind: records.settings.get(kind, {}) for kind in _KINDS}
    now: Settings = json.loads(json.dumps(given))
    for kind in _KINDS:
        for name, value in now[kind].items():
            if name in before[kind] and before[kind][name] != value:
                raise ValueError(
                    f"{records.folder} has another {name!r} of {kind}: {_shown(before[kind][name], value)}; give the same to resume, or "
                    "another `--output`."
                )
    return {kind: {**before[kind], **now[kind]} for kind in _KINDS}


def refuse_fewer(path: Path, results: Mapping[str, Any]) -> None:
    """Refuse to replace results by others of fewer episodes. A file that is no JSON object has no results.

    Raises:
        ColBenchError: Names the agent and the split that would have fewer.
    """
    now = _episodes_of(results)
    for cell, count in _episodes_of(read_json(path)).items():
        if now.get(cell, 0) < count:
            raise ColBenchError(
                f"{path} has results of {count} episodes of {cell[0]!r} on {cell[1]!r}, and there are rows of {now.get(cell, 0)}, so it is kept; "
                "restore the rows, or remove that file."
            )


def _episodes_of(results: Mapping[str, Any]) -> dict[tuple[str, str], int]:
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


def _name_of(row: Mapping[str, Any]) -> str:
    """Name of the cell that a row belongs to."""
    return f"{row.get('agent')} / {row.get('split')} / seed {row.get('seed')}"  # no comma: `--redo` takes several names


def without_address(human: Any) -> Any:
    """The specification of a simulated human without the address of its server and the name of its key, which may change."""
    if not isinstance(human, dict):
        return human
    return {name: value for name, value in human.items() if name not in ("base_url", "api_key_env")}


def _shown(before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        return ", ".join(f"{name} {str(before.get(name))[:80]!r} there, {str(now.get(name))[:80]!r} here" for name in names[:5])
    return f"{str(before)[:80]!r} there, {str(now)[:80]!r} here"
