"""What all trackers share: names, steps, and resuming without duplicates.

A metric is called `stage/name`, and its step counts within the stage. The highest step that was written of every metric is in `trackers.json` of
the run folder. A resumed run repeats points that the tracker has; they are skipped, since the same settings and seed give the same
numbers. A point is written before its step is noted, so a kill can at most repeat the last one. TensorBoard's `purge_step` is not used: it
deletes the later steps of all stages, and every stage starts at step 1.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from sweetrl_agent.core.callback import Callback, Values, numbers
from sweetrl_agent.core.generators import untouched_generators
from sweetrl_agent.data.files import METRICS, read_object, read_rows, write_json
from sweetrl_agent.data.run import Run

#: File of the run folder with the ids of tracker runs and the steps that they have.
FILE = "trackers.json"


class Tracker(Callback):
    """Writes all numbers of a run to an experiment tracker.

    Attributes:
        name: Its name in `--report_to`.
        root: Folder of the run, or of the comparison that the run belongs to.
        kept: What it remembers in the run folder between processes, such as the id of its run.
    """

    name: ClassVar[str]

    def __init__(self, root: Path) -> None:
        """Store the folder; nothing is opened."""
        self.root = root
        self.kept: dict[str, Any] = {}
        self._steps: dict[str, int] = {}

    @abstractmethod
    def open(self, run: Run) -> None:
        """Open the tracker's run, or the one of `kept` again."""

    @abstractmethod
    def write(self, stage: str, step: int, values: Values) -> None:
        """Write numbers, named `stage/name`, at a step, so that they survive a kill of this process."""

    @abstractmethod
    def close(self, error: BaseException | None) -> None:
        """Close the tracker's run."""

    @property
    def group(self) -> str:
        """Name of the comparison that the run belongs to; "" for none."""
        return "" if self._folder == self.root else self.root.resolve().name

    @property
    def run_name(self) -> str:
        """Name of the tracker's run: the run folder's, or that of a comparison's seed, such as "compare/seed_0"."""
        root = self.root.resolve()
        return self._folder.resolve().relative_to(root.parent).as_posix()

    def on_run_begin(self, run: Run) -> None:
        """Open the tracker, and add what metrics.jsonl has and the tracker lacks: it may be new to the run."""
        self._folder = run.folder
        kept = read_object(run.path(FILE)).get(self.name)
        kept = dict(kept) if isinstance(kept, Mapping) else {}
        steps = kept.pop("steps", {})
        self.kept, self._steps = kept, {name: int(step) for name, step in steps.items()} if isinstance(steps, Mapping) else {}
        with untouched_generators():
            self.open(run)
        self._keep(run)
        for row in read_rows(run.path("metrics.jsonl"), METRICS):
            if isinstance(row.get("step"), int):
                self._note(run, str(row["stage"]), row["step"], numbers(row))

    def on_run_end(self, run: Run, error: BaseException | None) -> None:
        """Close the tracker."""
        with untouched_generators():
            self.close(error)

    def on_stage_end(self, run: Run, stage: str, values: Values) -> None:
        """Write the stage's time and memory."""
        self._note(run, stage, 0, values)

    def on_log(self, run: Run, stage: str, step: int, values: Values) -> None:
        """Write metrics."""
        self._note(run, stage, step, values)

    def on_evaluate(self, run: Run, stage: str, step: int, values: Values) -> None:
        """Write results."""
        self._note(run, stage, step, values)

    def _note(self, run: Run, stage: str, step: int, values: Values) -> None:
        stage = stage.replace(" ", "_")
        new = {name: value for name, value in values.items() if self._steps.get(f"{stage}/{name}", -1) < step}
        if new:
            with untouched_generators():
                self.write(stage, step, new)
            self._steps |= {f"{stage}/{name}": step for name in new}
            self._keep(run)

    def _keep(self, run: Run) -> None:
        """Note ids and steps in the run folder."""
        write_json(run.path(FILE), {**read_object(run.path(FILE)), self.name: {**self.kept, "steps": self._steps}})


def environment_or(variable: str, default: str) -> str:
    """An environment variable that configures a tracker's library, or a default where it is unset or empty."""
    return os.environ.get(variable) or default
