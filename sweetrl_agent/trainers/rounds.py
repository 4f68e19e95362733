"""A round of an algorithm that repeats the stages of an offline one: a run as those stages see it, in a folder of its own, from another policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from colbench_gym.files import Row, read_object, write_json
from sweetrl_agent.core.callback import Callbacks
from sweetrl_agent.core.dialogues import DialogueEnvs
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.policy import Policy
from sweetrl_agent.core.run import Run
from sweetrl_agent.data.files import timeless
from sweetrl_agent.models.loading import load_policy

#: Finished stages of a round with their metrics.
DONE = "round.json"


class Round:
    """A `core.run.Run` for the functions of stages. What it does not replace is the run's.

    The run's callbacks are not told of its stages, whose steps begin anew in every round; the algorithm tells them of the round.

    Args:
        run: The run.
        folder: Folder of the round's files in the run folder.
        seed: Seed of the round.
        tasks: The training tasks of the round.
        initial_model: Folder or hub name of the model that its stages take for the initial policy.
        algorithms: The algorithms whose stages it runs, by name, with their settings.
    """

    def __init__(
        self,
        run: Run,
        folder: str,
        seed: int,
        tasks: tuple[Any, ...],
        initial_model: str,
        algorithms: Mapping[str, Any],
    ) -> None:
        self.run, self.folder, self.seed, self.train = run, run.path(folder), seed, tasks
        self.config: Any = replace(run.config, algorithms=dict(algorithms))
        self.record: EnvironmentRecord = run.record
        self.callbacks = Callbacks()
        self.held_out = run.held_out
        self._initial_model = initial_model

    @property
    def unchanged(self) -> dict[str, str]:
        """See `Run`; none."""
        return {}

    @property
    def tasks(self) -> tuple[Any, ...]:
        """The training tasks of the round."""
        return self.train

    @property
    def initial_model(self) -> str:
        """See `Run`; that of the round."""
        return self._initial_model

    def path(self, name: str) -> Path:
        """A file or folder of the round."""
        return self.folder / name

    def artifact(self, name: str, file: str) -> Path:
        """See `Run`; in the round's folder."""
        return self.path(file) if name == "sweet" else self.path(name) / file

    def environment(self, tasks: Sequence[Any], num_envs: int, simulator: Any = None) -> DialogueEnvs:
        """See `Run`."""
        return self.run.environment(tasks, num_envs, simulator)

    def load_policy(self, folder: str = "", response_prefix: str = "") -> Policy:
        """See `Run`; "" is the round's initial policy."""
        place = str(self.path(folder)) if folder else self.initial_model
        return load_policy(place, self.initial_model, self.config.model, response_prefix)

    def reserve_browser_cores(self) -> AbstractContextManager[None]:
        """See `Run`."""
        return self.run.reserve_browser_cores()

    def mark_untrained(self, policy: str, why: str) -> None:
        """See `Run`."""
        self.run.mark_untrained(policy, why)

    # ---- progress ----------------------------------------------------------------------------------------------------------------

    def add_metrics(self, stage: str, rows: list[Row]) -> None:
        """Store the last of a stage's metrics with the round, without its time: equal rounds have equal files."""
        self._write({**self.done, stage: timeless(rows[-1])})

    @property
    def done(self) -> dict[str, Any]:
        """The finished stages, each with the last row of its metrics, {} for none."""
        return read_object(self.path(DONE))

    def is_done(self, stage: str) -> bool:
        """Whether a stage is finished."""
        return bool(self.done.get("finished", {}).get(stage))

    def finish(self, stage: str) -> None:
        """Record that a stage is finished."""
        self._write({**self.done, "finished": {**self.done.get("finished", {}), stage: True}})

    def _write(self, content: Row) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.path(DONE), content)
