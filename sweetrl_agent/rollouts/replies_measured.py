"""What the simulated human's replies give away while an agent is trained: the wishes that it hears, and code of the reference that leaks.

An agent that is rewarded for passing hidden tests can learn to extract the reference from a human played by a language model, which is told it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from colbench_gym.errors import ColBenchError
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.episode import Episode

LEAK, WISHES_HEARD = "leak", "wishes_heard"


class LeakError(ColBenchError):
    """The human's replies reveal more of the hidden code than `--max_leak` allows."""


def reply_means(record: EnvironmentRecord, episodes: Iterable[Episode], tasks: Mapping[str, Any]) -> dict[str, float]:
    """Means of "leak" and "wishes_heard" over the episodes that have them; none of an environment that measures neither.

    Args:
        record: The environment's record.
        episodes: Episodes; void ones are left out.
        tasks: Their tasks, by id.
    """
    values: dict[str, list[float]] = {LEAK: [], WISHES_HEARD: []}
    for episode in episodes:
        measured = {} if episode.is_void else record.measures(episode, tasks[episode.task_id])
        for name, known in values.items():
            if measured.get(name) is not None:
                known.append(float(measured[name]))
    return {name: sum(known) / len(known) for name, known in values.items() if known}


def refuse_leak(stage: str, means: Mapping[str, float], most: float) -> None:
    """End the run if the human leaks too much.

    Args:
        stage: What has been played.
        means: Result of `reply_means`.
        most: The largest mean share of the hidden code in an episode's replies.

    Raises:
        LeakError: If there is more.
    """
    if (leak := means.get(LEAK, 0.0)) > most:
        raise LeakError(
            f"{stage}: the replies of the simulated human reveal {leak:.1%} of the hidden code, and `--max_leak` is {most:.1%}: what the agent learns "
            "here is to extract the reference. Take another human, or one that is told a specification in place of the code; a higher `--max_leak` resumes the run."
        )
