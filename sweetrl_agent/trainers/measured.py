"""What an iteration of on-policy training measures of its episodes: means, and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.rows import LEAST_EPISODES
from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.episode import Episode


def plain(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics as numbers of Python: a checkpoint with those of numpy or torch cannot be restored."""
    return {name: np.asarray(value).item() for name, value in metrics.items()}


def means_of(episodes: Sequence[Episode]) -> dict[str, float]:
    """Mean return, mean number of turns and, if all episodes have it, mean success."""
    count = max(len(episodes), 1)
    means = {
        "return": sum(episode.reward for episode in episodes) / count,
        "turns": sum(len(episode.turns) for episode in episodes) / count,
    }
    if all("success" in episode.metrics for episode in episodes):
        means["success"] = sum(float(episode.metrics["success"]) for episode in episodes) / count
    return means


def refuse_void(played: Sequence[Episode], counts: Counter[bool], max_void: float) -> list[Episode]:
    """The episodes of an iteration that are not void.

    Args:
        played: All of them.
        counts: How many episodes of this command are void and not, which those of the iteration are added to.
        max_void: Largest share of void ones.

    Raises:
        ColBenchError: If the share is larger, from `LEAST_EPISODES` episodes on, or all of the iteration are void and that is not allowed.
    """
    valid = [episode for episode in played if not episode.is_void]
    counts.update(episode.is_void for episode in played)
    is_above = counts.total() >= LEAST_EPISODES and counts[True] > max_void * counts.total()
    if is_above or (not valid and max_void < 1):
        why = next(
            (f" The last: {episode.void_reason.rstrip('.')}." for episode in reversed(played) if episode.void_reason), ""
        )
        raise ColBenchError(
            f"{counts[True]} of {counts.total()} episodes are void: the simulator or the sandbox failed. `--max_void` allows {max_void:.0%}.{why} "
            "Fix it and give the same command, which goes on with this iteration, or allow more."
        )
    return valid


def by_agent(cost: str, amounts: Iterable[tuple[str, int]]) -> Counter[str]:
    """A cost of each agent of a team, as "AGENT/COST"; that of a single agent, which has no name, is the cost of all and left out.

    Args:
        cost: Name of the cost.
        amounts: Names of agents with amounts.
    """
    sums = Counter[str]()
    for agent, amount in amounts:
        if agent != AGENT:
            sums[f"{agent}/{cost}"] += amount
    return sums


def costs_of(played: Sequence[Episode], known: Sequence[int] = ()) -> Counter[str]:
    """Costs of episodes, and those of each agent (`by_agent`); of continuations without the turns that were `known` before."""
    new = [episode.turns[known[i] if known else 0 :] for i, episode in enumerate(played)]
    spoken = [(turn.agent, turn.num_tokens) for turns in new for turn in turns]
    costs = Counter(
        {"episodes": len(played), "environment_turns": len(spoken), "generated_tokens": sum(tokens for _, tokens in spoken)}
    )
    costs += by_agent("episodes", ((agent, 1) for turns in new for agent in dict.fromkeys(turn.agent for turn in turns)))
    costs += by_agent("environment_turns", ((agent, 1) for agent, _ in spoken))
    return costs + by_agent("generated_tokens", spoken)
