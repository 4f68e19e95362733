"""Experiment trackers: TensorBoard, Weights & Biases and MLflow, one tracker run for a run folder, metrics named `stage/name`.

The callbacks of transformers are not used: each opens a run of its own for every trainer, names everything `train/...`, closes the
run when the trainer ends, and knows no loop without a `Trainer`. Most stages here have none (on-policy algorithms, Stable-Baselines3,
collection, evaluation). `Tracker` is a `Callback`, to which all stages report alike; a tracker adds how a number is written.

The step of a metric counts within its stage. The highest step that was written of every metric is in `trackers.json` of the run folder. A resumed run
repeats points that the tracker has; they are skipped, since the same settings and seed give the same numbers. A step is noted after its point is
written, so a kill repeats at most the last points; W&B keeps points in memory for up to half a minute, and a kill loses them. TensorBoard's
`purge_step` is not used: it deletes the later steps of all stages, and every stage starts at step 1.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import yaml

from colbench_gym.errors import ColBenchError
from colbench_gym.files import read_object, read_rows, write_json
from colbench_gym.generators import preserve_rng_state
from sweetrl_agent.config.reading import flat
from sweetrl_agent.core.callback import Callback, Values, numbers
from sweetrl_agent.core.run import Run
from sweetrl_agent.data.files import METRICS

#: File of the run folder with the ids of tracker runs and the steps that they have.
FILE = "trackers.json"
#: Limits of MLflow's REST API: parameters per call, and characters of a value.
MAX_PARAMS, MAX_CHARS = 100, 6000
_log = logging.getLogger(__name__)


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
        self._steps: dict[str, int] = {}  # of every metric, the last one that was written

    def prepare(self) -> None:
        """Prepare what the seeds of a comparison share, before they start side by side."""

    @abstractmethod
    def open(self, run: Run) -> None:
        """Open the tracker's run, or the one of `kept` again."""

    @abstractmethod
    def write(self, stage: str, step: int, values: Values) -> None:
        """Write numbers, named `stage/name`, at a step."""

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
        self.kept = dict(kept) if isinstance(kept, Mapping) else {}
        steps = self.kept.pop("steps", {})
        self._steps = {name: int(step) for name, step in steps.items()} if isinstance(steps, Mapping) else {}
        self._is_lost = False
        try:
            with preserve_rng_state():
                self.open(run)
        except Exception as error:  # libraries of trackers raise many unrelated types
            raise ColBenchError(
                f"The tracker {self.name!r} cannot be opened ({_text_of(error)}); correct its settings, or leave it out of `--report_to`."
            ) from error
        self._keep(run)
        for row in read_rows(run.path("metrics.jsonl"), METRICS):
            if isinstance(row.get("step"), int):
                self._write(run, str(row["stage"]), row["step"], numbers(row))

    def on_run_end(self, run: Run, error: BaseException | None) -> None:
        """Close the tracker."""
        with preserve_rng_state(), self._surviving():
            self.close(error)

    def on_stage_end(self, run: Run, stage: str, values: Values) -> None:
        """Write the stage's time and memory."""
        self._write(run, stage, 0, values)

    def on_log(self, run: Run, stage: str, step: int, values: Values) -> None:
        """Write metrics."""
        self._write(run, stage, step, values)

    def on_evaluate(self, run: Run, stage: str, step: int, values: Values) -> None:
        """Write results."""
        self._write(run, stage, step, values)

    def _write(self, run: Run, stage: str, step: int, values: Values) -> None:
        """Write what the tracker lacks, and note it in the run folder."""
        stage = stage.replace(" ", "_")
        new = {name: value for name, value in values.items() if self._steps.get(f"{stage}/{name}", -1) < step}
        if new and not self._is_lost:
            with preserve_rng_state(), self._surviving():
                self.write(stage, step, new)
        if new and not self._is_lost:
            self._steps |= {f"{stage}/{name}": step for name in new}
            self._keep(run)

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """A tracker that fails, for example because its server is down, does not end the run: it gets nothing more until the run resumes."""
        try:
            yield
        except Exception as error:  # as above
            if not self._is_lost:
                _log.warning("The tracker %r has failed (%s). The run continues without it.", self.name, _text_of(error))
            self._is_lost = True

    def _keep(self, run: Run) -> None:
        """Note ids and steps in the run folder."""
        write_json(run.path(FILE), {**read_object(run.path(FILE)), self.name: {**self.kept, "steps": self._steps}})


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


class TensorBoard(Tracker):
    """Event files in the folder `tensorboard` of the run folder. `tensorboard --logdir` shows it; for a comparison, its folder shows all seeds."""

    name: ClassVar[str] = "tensorboard"

    def open(self, run: Run) -> None:
        """Open a further event file; TensorBoard shows the files of a folder as one run."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(run.path("tensorboard")))
        if not self.kept:
            settings = yaml.safe_dump(run.config.settings(), sort_keys=False)
            self._writer.add_text("settings", "    " + settings.replace("\n", "\n    "))
            self.kept = {"folder": "tensorboard"}

    def write(self, stage: str, step: int, values: Values) -> None:
        """See `Tracker`."""
        for name, value in values.items():
            self._writer.add_scalar(f"{stage}/{name}", value, step)
        self._writer.flush()

    def close(self, error: BaseException | None) -> None:
        """See `Tracker`."""
        self._writer.close()


class WeightsAndBiases(Tracker):
    """One W&B run; its id is in the run folder, so that a resumed run is the same one. Seeds of a comparison are a group.

    It also works offline (`WANDB_MODE=offline`, then `wandb sync wandb/offline-run-*`). Its files lie where W&B puts them, in `wandb` of the current
    folder or of WANDB_DIR, and not in the run folder: they have links that lead out of their folder, which a run folder must not have.
    """

    name: ClassVar[str] = "wandb"

    def open(self, run: Run) -> None:
        """Open the run in the project of WANDB_PROJECT, by default "colbench-gym"."""
        import wandb

        self.kept.setdefault("id", secrets.token_hex(4))
        self._stages: set[str] = set()
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "colbench-gym",
            name=self.run_name,
            group=self.group or None,
            id=str(self.kept["id"]),
            resume="allow",
            config=run.config.settings(),
            settings=wandb.Settings(console="off"),  # it would replace the terminal's streams
        )

    def write(self, stage: str, step: int, values: Values) -> None:
        """Log with the stage's own step as x-axis: W&B's global step may not decrease, and every stage starts at 1."""
        if stage not in self._stages:
            self._run.define_metric(f"{stage}/step", hidden=True)
            self._run.define_metric(f"{stage}/*", step_metric=f"{stage}/step")
            self._stages.add(stage)
        self._run.log({f"{stage}/step": step, **{f"{stage}/{name}": value for name, value in values.items()}})

    def close(self, error: BaseException | None) -> None:
        """See `Tracker`."""
        self._run.finish(exit_code=0 if error is None else 1)


class MLflow(Tracker):
    """One MLflow run; its id is in the run folder. A comparison is an experiment, and its seeds are the runs in it.

    Its server is that of MLFLOW_TRACKING_URI, by default the file `mlflow.db` of the run folder or of the comparison's folder.
    """

    name: ClassVar[str] = "mlflow"

    def open(self, run: Run) -> None:
        """Create the run in the experiment of MLFLOW_EXPERIMENT_NAME, by default the comparison or "colbench-gym"; or open it again."""
        experiment = self._experiment(self.group)
        if "run_id" in self.kept:
            self._client.update_run(self.kept["run_id"], status="RUNNING")
            return
        from mlflow.entities import Param

        tags = {"group": self.group} if self.group else {}
        self.kept["run_id"] = self._client.create_run(experiment, run_name=self.run_name, tags=tags).info.run_id
        params = [Param(name, str(value)[:MAX_CHARS]) for name, value in flat(run.config.settings()).items()]
        for start in range(0, len(params), MAX_PARAMS):
            self._client.log_batch(self.kept["run_id"], params=params[start : start + MAX_PARAMS])

    def prepare(self) -> None:
        """Create the database and the experiment: two processes that do this at once disturb each other."""
        self._experiment(self.root.resolve().name)

    def _experiment(self, group: str) -> str:
        """Connect, and return the id of the experiment, created if there is none, of a comparison, or "" for none."""
        from mlflow import MlflowClient

        where = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{self.root.resolve()}/mlflow.db"
        self._client: Any = MlflowClient(tracking_uri=where)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or group or "colbench-gym"
        known = self._client.get_experiment_by_name(name)
        return str(self._client.create_experiment(name) if known is None else known.experiment_id)

    def write(self, stage: str, step: int, values: Values) -> None:
        """See `Tracker`."""
        from mlflow.entities import Metric

        now = round(time.time() * 1000)
        metrics = [Metric(f"{stage}/{name}", value, now, step) for name, value in values.items()]
        self._client.log_batch(self.kept["run_id"], metrics=metrics)

    def close(self, error: BaseException | None) -> None:
        """See `Tracker`."""
        status = "FINISHED" if error is None else "FAILED" if isinstance(error, Exception) else "KILLED"
        self._client.set_terminated(self.kept["run_id"], status)


#: Trackers by their name in `--report_to`; each imports its library on use.
TRACKERS: dict[str, type[Tracker]] = {kind.name: kind for kind in (TensorBoard, WeightsAndBiases, MLflow)}


def make_trackers(names: Sequence[str], root: Path) -> list[Tracker]:
    """The trackers of `report_to`.

    Args:
        names: Names from `TRACKERS`, or "none".
        root: Folder of the run, or of the comparison that it belongs to.
    """
    return [TRACKERS[name](root) for name in names if name != "none"]
