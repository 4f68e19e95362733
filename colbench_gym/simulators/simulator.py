"""The interface of a user simulator.

A simulator is a function of (task, dialogue, seed) and keeps no state between replies. So restoring the dialogue restores the
environment, many environments can share one simulator, and replies can be cached by their arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from colbench_gym.dialogue import Dialogue
from colbench_gym.tasks.task import Task


class Simulator(ABC):
    """Base class of user simulators. `reply` is called from several threads at once."""

    #: True if equal arguments always give equal replies, on every machine.
    is_deterministic: bool = False
    #: For page tasks: False if the simulator only needs the boxes of a page, so that no pictures have to be made.
    needs_pictures: bool = True
    #: Name of the model that plays the human; "" if none does.
    model: str = ""

    @abstractmethod
    def reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        """Answer the agent's last message.

        Args:
            task: The whole task with its hidden information.
            dialogue: The dialogue so far. The last message is the agent's, without its private thought.
            seed: Seed of this reply, drawn by the environment. Equal seeds and arguments should give equal replies.

        Returns:
            The reply, not yet cut to the benchmark's limit of characters.

        Raises:
            SimulatorError: If there is no reply. The episode is then void, not failed.
        """

    def last_usage(self) -> tuple[int, int] | None:
        """Prompt and generated tokens of the last reply in this thread; None if they are not known, or no model plays the human."""
        return None

    def close(self) -> None:
        """Release connections and processes. A second call does nothing."""
