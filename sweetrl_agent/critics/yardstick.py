"""The exact advantage as a critic: what the best critic could do with the same candidates and the same loss."""

from __future__ import annotations

from collections.abc import Sequence

from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks import Task
from sweetrl_agent.chat import Messages
from sweetrl_agent.exact_credit import exact_advantages


class ExactCritic:
    """Ranks by `exact_credit`. It knows the tasks; what it is told is how it finds the one that is meant."""

    def __init__(self, tasks: Sequence[Task], unit_tests: UnitTests, max_turns: int = 10) -> None:
        """Know these embedded tasks; `unit_tests` grades candidates that are answers."""
        self.tasks = {(task.description, task.hidden.reference): task for task in tasks}
        self.unit_tests, self.max_turns = unit_tests, max_turns

    def rank(self, messages: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
        """Exact advantages of candidates for the next agent turn; see `Critic`."""
        return exact_advantages(self._task(messages, hidden), messages, texts, self.unit_tests, self.max_turns)

    def dialogue_advantages(self, messages: Messages, hidden: str) -> list[float]:
        """Exact advantage of every agent turn of a dialogue, in order."""
        task = self._task(messages, hidden)
        turns = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        return [
            exact_advantages(task, messages[:i], [messages[i]["content"]], self.unit_tests, self.max_turns)[0] for i in turns
        ]

    def _task(self, messages: Messages, hidden: str) -> Task:
        try:
            return self.tasks[messages[0]["content"], hidden]
        except KeyError:
            raise ValueError("Expected the dialogue and reference of one of the critic's tasks, got another's.") from None
