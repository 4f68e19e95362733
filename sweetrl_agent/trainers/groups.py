"""Advantages of episodes beside the others of their task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from sweetrl_agent.core.episode import Episode


def in_groups(episodes: Sequence[Episode], advantage: Callable[[Sequence[float]], list[float]]) -> list[list[float]]:
    """One number for every turn of every episode: the episode's own, from the returns of all episodes of its task.

    Args:
        episodes: In any order; those of a task are a group.
        advantage: Of each episode of a group, from their returns.

    Raises:
        ValueError: If no task has two episodes: then there is nothing to compare.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for i, episode in enumerate(episodes):
        groups[episode.task_id].append(i)
    if episodes and max(map(len, groups.values())) < 2:
        raise ValueError("Advantages within a group compare episodes of a task: set the algorithm's `group` to 2 or more.")
    found: list[list[float]] = [[] for _ in episodes]
    for group in groups.values():
        for i, value in zip(group, advantage([episodes[i].reward for i in group]), strict=True):
            found[i] = [value] * len(episodes[i].turns)
    return found
