"""Group-relative advantages: episodes of a task are compared with each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from sweetrl_agent.core.episode import Episode


def groups_of(episodes: Sequence[Episode]) -> list[list[int]]:
    """Indices of the episodes of each task.

    Raises:
        ValueError: If every task has one episode, its first: then there is nothing to compare. That others are void is not known here.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for i, episode in enumerate(episodes):
        groups[episode.task_id].append(i)
    if len(groups) == len(episodes) > 1 and not any(episode.index for episode in episodes):
        raise ValueError("Advantages within a group compare episodes of a task: set the algorithm's `group` to 2 or more.")
    return list(groups.values())


def in_groups(episodes: Sequence[Episode], advantage: Callable[[Sequence[float]], list[float]]) -> list[list[float]]:
    """Advantage of every turn of every episode: one value per episode, computed from the returns of all episodes of its task.

    Args:
        episodes: Episodes in any order; those of a task form a group.
        advantage: Maps the returns of a group to the advantages of its episodes.

    Raises:
        ValueError: As `groups_of`.
    """
    advantages: list[list[float]] = [[] for _ in episodes]
    for group in groups_of(episodes):
        for i, value in zip(group, advantage([episodes[i].reward for i in group]), strict=True):
            advantages[i] = [value] * len(episodes[i].turns)
    return advantages


def discounted(rewards: Sequence[float], gamma: float) -> list[float]:
    """The sum of the rewards of every turn and of those after it, discounted by gamma per turn."""
    sums: list[float] = []
    for reward in reversed(rewards):
        sums.insert(0, reward + gamma * sums[0] if sums else reward)
    return sums
