"""The exact advantage as a critic: an upper bound for critics with the same candidates and the same loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sandboxes
from colbench_gym.reasoning import NONE
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks import Task
from sweetrl_agent.core.critic import Critic
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.envs.backend_exact_credit import marginal_advantages, task_advantages

Advantages = Callable[[Task, Messages, Sequence[str], UnitTests, int], list[float]]
ADVANTAGES: Mapping[str, Advantages] = {"exact": task_advantages, "marginal": marginal_advantages}


@contextmanager
def open_oracle(name: str, tasks: Sequence[Task], sandbox: Any, max_turns: int) -> Iterator[Oracle]:
    """Open an oracle of `ADVANTAGES`, with a sandbox for candidates that are answers."""
    with sandboxes.make(sandbox) as opened:
        yield Oracle(tasks, UnitTests(opened, reasoning=NONE), ADVANTAGES[name], max_turns)


class Oracle(Critic):
    """Ranks by `envs.backend_exact_credit`. It knows the tasks, and finds the task of a dialogue by the hidden information.

    Args:
        tasks: Embedded tasks.
        unit_tests: Scores candidates that are answers.
        advantages: `task_advantages` or `marginal_advantages`.
        max_turns: Maximum number of agent turns; 0 for each task's own limit.
    """

    def __init__(
        self, tasks: Sequence[Task], unit_tests: UnitTests, advantages: Advantages = task_advantages, max_turns: int = 0
    ) -> None:
        self.tasks = {(task.description, task.hidden.reference): task for task in tasks}
        self.unit_tests, self.advantages, self.max_turns = unit_tests, advantages, max_turns

    def rank(self, messages: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
        """Exact advantages of candidates for the next agent turn; see `Critic`."""
        return self.advantages(self._task(messages, hidden), messages, texts, self.unit_tests, self.max_turns)

    def _task(self, messages: Messages, hidden: str) -> Task:
        try:
            return self.tasks[messages[0]["content"], hidden]
        except KeyError:
            raise ValueError(
                "Expected the dialogue and reference of one of the critic's tasks, got those of another task."
            ) from None
