"""What a run is to an algorithm: its settings, tasks, environments, and the files of its folder. `trainers.run.Run` is one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from sweetrl_agent.core.callback import Callbacks
from sweetrl_agent.core.dialogues import DialogueEnvs
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.policy import Policy


class Run(Protocol):
    """A run in its folder.

    Attributes:
        config: All settings (`config.job.Config`).
        folder: Its folder.
        seed: Seed of the run.
        record: What is known of the environment.
        train: All training tasks.
        held_out: Tasks to measure on, by split.
        callbacks: What stages report to: `callbacks.tell("on_log", stage, step, values)` and the like.
    """

    config: Any
    folder: Path
    seed: int
    record: EnvironmentRecord
    train: tuple[Any, ...]
    held_out: dict[str, tuple[Any, ...]]
    callbacks: Callbacks

    @property
    def unchanged(self) -> dict[str, str]:
        """Folders of agents that have learnt nothing -> why; each of them is the initial policy."""
        ...

    @property
    def tasks(self) -> tuple[Any, ...]:
        """The training tasks that episodes are played on."""
        ...

    @property
    def initial_model(self) -> str:
        """Folder or hub name of the initial policy's model."""
        ...

    def path(self, name: str) -> Path:
        """A file or folder of the run."""
        ...

    def artifact(self, name: str, file: str) -> Path:
        """A file or folder that each critic or algorithm has; SWEET-RL's lies in the run folder itself."""
        ...

    def environment(self, tasks: Sequence[Any], num_envs: int, simulator: Any = None) -> DialogueEnvs:
        """Environments over some of its tasks, with another simulated human where one is given."""
        ...

    def load_policy(self, folder: str = "", response_prefix: str = "") -> Policy:
        """An agent by the folder of its model in the run folder; "" for the initial policy."""
        ...

    def mark_untrained(self, policy: str, why: str) -> None:
        """Record that the policy of a folder has learnt nothing, so that it is the initial policy; see `unchanged`."""
        ...

    def add_metrics(self, stage: str, rows: list[dict[str, Any]]) -> None:
        """Put a stage's metrics into `metrics.jsonl`, in place of earlier ones of the stage."""
        ...

    def reserve_browser_cores(self) -> AbstractContextManager[None]:
        """While pages are rendered, the model leaves the browsers their cores."""
        ...


def all_tasks(run: Run) -> tuple[Any, ...]:
    """The tasks of all splits."""
    return tuple(task for of_split in (run.train, *run.held_out.values()) for task in of_split)


def demonstrated_tasks(run: Run) -> tuple[Any, ...]:
    """The tasks of the environment's own demonstrations: those of the source that `demonstrations` names, else the training tasks."""
    source = run.config.task.demonstrations
    return tuple(run.record.load_tasks(source, run.config.task)) if source else run.train
