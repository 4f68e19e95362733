"""What an iteration of on-policy training measures of its episodes: means, and costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sweetrl_agent.core.episode import Episode


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


def costs_of(played: Sequence[Episode], known: Sequence[int] = ()) -> Counter[str]:
    """Costs of episodes; of continuations without the turns that were `known` before."""
    turns = [turn for i, episode in enumerate(played) for turn in episode.turns[known[i] if known else 0 :]]
    tokens = sum(len(turn.token_ids) for turn in turns)
    return Counter({"episodes": len(played), "environment_turns": len(turns), "generated_tokens": tokens})
