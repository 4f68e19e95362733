"""TensorBoard: event files in the folder `tensorboard` of the run folder."""

from __future__ import annotations

from typing import Any, ClassVar

import yaml

from sweetrl_agent.core.callback import Values
from sweetrl_agent.data.run import Run
from sweetrl_agent.trainers.trackers.tracker import Tracker


class TensorBoard(Tracker):
    """`tensorboard --logdir RUN_FOLDER` shows it; for a comparison, its folder shows all seeds."""

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
