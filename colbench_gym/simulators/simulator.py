"""The contract of a simulated human.

A simulator is a function of (task, dialogue, seed) and keeps no state between replies, so that an environment is restored by
restoring its dialogue, many environments can share one simulator, and replies can be cached by their arguments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from colbench_gym.dialogue import Dialogue
from colbench_gym.tasks.task import Task


class Simulator(ABC):
    """Plays the human. `reply` is called from several threads at once."""

    #: True where equal arguments always give equal replies, on every machine.
    is_deterministic: bool = False
    #: On pages: False where boxes are enough to reply; then pictures need not be made.
    needs_pictures: bool = True

    @abstractmethod
    def reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        """Answer the agent's last message.

        Args:
            task: The whole task; the human knows the hidden half.
            dialogue: Everything said so far; the last message is the agent's, its private thought removed.
            seed: Seed of this reply, drawn by the environment; equal seeds and arguments may be expected to give equal replies.

        Returns:
            The reply, not yet cut to the benchmark's limit of characters.

        Raises:
            SimulatorError: If no reply could be had. The episode is void then, not failed.
        """

    def close(self) -> None:
        """Release connections and processes. A second call does nothing."""
