"""A human of the user's own that draws from the global random generators, as a function of its seed again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from colbench_gym.dialogue import Dialogue
from colbench_gym.generators import PrivateGenerators
from colbench_gym.simulators.simulator import Simulator
from colbench_gym.tasks.task import Task


class IsolatedHuman(Simulator):
    """Another human, each of whose replies has a state of the global generators of its own, seeded by the reply's seed.

    Replies are given one at a time, in whatever threads they are asked for: there is one `random` in a process.

    Args:
        human: The other human, which is closed with this one.
    """

    def __init__(self, human: Simulator) -> None:
        self.human = human
        self.is_deterministic, self.needs_pictures, self.model = human.is_deterministic, human.needs_pictures, human.model
        self._turn = threading.Lock()

    def reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        """See `Simulator.reply`."""
        with self._turn, PrivateGenerators("reply", seed).in_use():
            return self.human.reply(task, dialogue, seed)

    def last_usage(self) -> tuple[int, int] | None:
        """See `Simulator.last_usage`."""
        return self.human.last_usage()

    def close(self) -> None:
        """See `Simulator.close`."""
        self.human.close()


def isolate_human(envs: Sequence[Any]) -> None:
    """Isolate the human that environments share. A model behind a server is left as it is: it draws from nothing here.

    Args:
        envs: The environments (`envs.colbench_env.ColBenchEnv`).
    """
    human = envs[0].simulator
    if not human.model:
        isolated = IsolatedHuman(human)
        for env in envs:
            env.simulator = isolated
