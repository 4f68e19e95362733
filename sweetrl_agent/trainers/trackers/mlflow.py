"""MLflow: the server of MLFLOW_TRACKING_URI, by default the file `mlflow.db` of the run folder or of the comparison's folder."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from sweetrl_agent.core.callback import Values
from sweetrl_agent.data.run import Run
from sweetrl_agent.trainers.trackers.tracker import Tracker, environment_or

#: Limits of MLflow's REST API: parameters per call, and characters of a value.
MAX_PARAMS, MAX_CHARS = 100, 6000


class MLflow(Tracker):
    """One MLflow run; its id is in the run folder. A comparison is an experiment, and its seeds are the runs in it."""

    name: ClassVar[str] = "mlflow"

    def open(self, run: Run) -> None:
        """Create the run in the experiment of MLFLOW_EXPERIMENT_NAME, by default the comparison or "colbench-gym"; or open it again."""
        self._connect()
        if "run_id" in self.kept:
            self._client.update_run(self.kept["run_id"], status="RUNNING")
            return
        experiment = self._experiment(self.group)
        tags = {"group": self.group} if self.group else {}
        self.kept["run_id"] = self._client.create_run(experiment, run_name=self.run_name, tags=tags).info.run_id
        self._write_settings(run.config.settings())

    def prepare(self) -> None:
        """Create the database and the experiment: two processes that do this at once disturb each other."""
        self._connect()
        self._experiment(self.root.resolve().name)

    def _connect(self) -> None:
        from mlflow import MlflowClient

        where = environment_or("MLFLOW_TRACKING_URI", f"sqlite:///{self.root.resolve()}/mlflow.db")
        self._client: Any = MlflowClient(tracking_uri=where)

    def _experiment(self, group: str) -> str:
        """Id of the experiment of a comparison, or "" for none; another process may create it at the same time."""
        from mlflow.exceptions import MlflowException

        name = environment_or("MLFLOW_EXPERIMENT_NAME", group or "colbench-gym")
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name))
            except MlflowException:
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        return str(found.experiment_id)

    def _write_settings(self, settings: dict[str, Any]) -> None:
        from mlflow.entities import Param

        params = [Param(name, str(value)[:MAX_CHARS]) for name, value in settings.items()]
        for start in range(0, len(params), MAX_PARAMS):
            self._client.log_batch(self.kept["run_id"], params=params[start : start + MAX_PARAMS])

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
