"""What all trackers share: names, steps, and resuming without duplicates.

A metric is called `stage/name`, and its step counts within the stage. The highest step that was written of every metric is in `trackers.json` of
the run folder. A resumed run repeats points that the tracker has; they are skipped, since the same settings and seed give the same
numbers. A step is noted once its point is safe, so a kill loses no point, and can at most repeat those of the last moment (of the last
half minute for W&B, which buffers that long). TensorBoard's `purge_step` is not used: it deletes the later steps of all stages, and every
stage starts at step 1.
"""

from __future__ import annotations

import logging
import math
import os
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from colbench_gym.errors import ColBenchError
from colbench_gym.generators import preserve_rng_state
from sweetrl_agent.core.callback import Callback, Values, numbers
from sweetrl_agent.data.files import METRICS, read_object, read_rows, write_json
from sweetrl_agent.data.run import Run

#: File of the run folder with the ids of tracker runs and the steps that they have.
FILE = "trackers.json"
_log = logging.getLogger(__name__)


class Tracker(Callback):
    """Writes all numbers of a run to an experiment tracker.

    Attributes:
        name: Its name in `--report_to`.
        buffered_s: Seconds for which its library may keep a point in memory, where a kill loses it.
        root: Folder of the run, or of the comparison that the run belongs to.
        kept: What it remembers in the run folder between processes, such as the id of its run.
    """

    name: ClassVar[str]
    buffered_s: ClassVar[float] = 0.0

    def __init__(self, root: Path) -> None:
        """Store the folder; nothing is opened."""
        self.root = root
        self.kept: dict[str, Any] = {}
        self._steps: dict[str, int] = {}  # of every metric, the last one that was written ...
        self._safe: dict[str, int] = {}  # ... and the last one that a kill cannot lose
        self._buffered: deque[tuple[float, dict[str, int]]] = deque()

    def prepare(self) -> None:
        """Prepare what the seeds of a comparison share, before they start side by side."""

    @abstractmethod
    def open(self, run: Run) -> None:
        """Open the tracker's run, or the one of `kept` again."""

    @abstractmethod
    def write(self, stage: str, step: int, values: Values) -> None:
        """Write numbers, named `stage/name`, at a step; after `buffered_s` they survive a kill of this process."""

    @abstractmethod
    def close(self, error: BaseException | None) -> None:
        """Close the tracker's run."""

    @property
    def group(self) -> str:
        """Name of the comparison that the run belongs to; "" for none."""
        return "" if self._folder.resolve() == self.root.resolve() else self.root.resolve().name

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
        self.kept, self._safe = kept, {name: int(step) for name, step in steps.items()} if isinstance(steps, Mapping) else {}
        self._steps = dict(self._safe)
        self._is_lost = False
        try:
            with preserve_rng_state():
                self.open(run)
        except Exception as error:  # libraries of trackers raise many unrelated types
            raise ColBenchError(
                f"The tracker {self.name!r} cannot be opened ({_said(error)}); correct its settings, or leave it out of `--report_to`."
            ) from error
        self._keep(run)
        for row in read_rows(run.path("metrics.jsonl"), METRICS):
            if isinstance(row.get("step"), int):
                self._note(run, str(row["stage"]), row["step"], numbers(row))

    def on_run_end(self, run: Run, error: BaseException | None) -> None:
        """Close the tracker."""
        with preserve_rng_state(), self._surviving():
            self.close(error)
        if not self._is_lost:
            self._keep(run, is_closed=True)

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
        if new and not self._is_lost:
            with preserve_rng_state(), self._surviving():
                self.write(stage, step, new)
        if new and not self._is_lost:
            written = {f"{stage}/{name}": step for name in new}
            self._steps |= written
            self._buffered.append((time.monotonic(), written))
            self._keep(run)

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """A tracker that fails, for example because its server is down, does not end the run: it gets nothing more until the run resumes."""
        try:
            yield
        except Exception as error:  # as above
            if not self._is_lost:
                _log.warning("The tracker %r has failed (%s). The run continues without it.", self.name, _said(error))
            self._is_lost = True

    def _keep(self, run: Run, is_closed: bool = False) -> None:
        """Note ids, and the steps of points that are safe, in the run folder."""
        safe_before = math.inf if is_closed else time.monotonic() - self.buffered_s
        while self._buffered and self._buffered[0][0] <= safe_before:
            self._safe |= self._buffered.popleft()[1]
        write_json(run.path(FILE), {**read_object(run.path(FILE)), self.name: {**self.kept, "steps": self._safe}})


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def environment_or(variable: str, default: str) -> str:
    """An environment variable that configures a tracker's library, or a default where it is unset or empty."""
    return os.environ.get(variable) or default
