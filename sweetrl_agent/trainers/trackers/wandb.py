"""Weights & Biases, also offline (`WANDB_MODE=offline`, then `wandb sync wandb/offline-run-*`).

Its files lie where W&B puts them, in `wandb` of the current folder or of WANDB_DIR, and not in the run folder: they have links that lead out of
their folder, which a run folder must not have.
"""

from __future__ import annotations

import secrets
from typing import Any, ClassVar

from sweetrl_agent.core.callback import Values
from sweetrl_agent.data.run import Run
from sweetrl_agent.trainers.trackers.tracker import Tracker, environment_or


class WeightsAndBiases(Tracker):
    """One W&B run; its id is in the run folder, so that a resumed run is the same one. Seeds of a comparison are a group."""

    name: ClassVar[str] = "wandb"
    buffered_s: ClassVar[float] = 30.0  # it writes its file every 15 s

    def open(self, run: Run) -> None:
        """Open the run in the project of WANDB_PROJECT, by default "colbench-gym"."""
        import wandb

        self.kept.setdefault("id", secrets.token_hex(4))
        self._stages: set[str] = set()
        self._run: Any = wandb.init(
            project=environment_or("WANDB_PROJECT", "colbench-gym"),
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
