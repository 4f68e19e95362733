"""Episodes of several agents as the rows of one trained policy: the views of the agents that it speaks for, and numbers of turns to and fro."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sweetrl_agent.core.episode import Episode

Column = Sequence[Sequence[float]]


@dataclass(frozen=True)
class View:
    """What one agent sees of an episode.

    Attributes:
        row: Index of the episode.
        agent: Name of the agent.
        places: Indices of the agent's turns among all turns of the episode.
        episode: The episode as the agent sees it.
    """

    row: int
    agent: str
    places: list[int]
    episode: Episode

    def ends(self, episodes: Sequence[Episode]) -> bool:
        """Whether the agent took the last turn of its episode, one of these."""
        return self.places[-1] == len(episodes[self.row].turns) - 1


def views_of(episodes: Sequence[Episode], agents: Collection[str] | None) -> list[View]:
    """The views of some agents (None for all), episode after episode; an agent without a turn has none."""
    return [
        View(row, agent, episode.places(agent), episode.view(agent))
        for row, episode in enumerate(episodes)
        for agent in episode.agents
        if agents is None or agent in agents
    ]


def select(column: Column, episodes: Sequence[Episode], views: Sequence[View], per_token: bool) -> list[list[float]]:
    """Numbers of all turns (or action tokens) of episodes -> those of views; [] if there are none."""
    if not column:
        return []
    return [
        [value for place in view.places for value in column[view.row][_bounds(episodes[view.row], place, per_token)]]
        for view in views
    ]


def at_turns(column: Column, episodes: Sequence[Episode], turns: Sequence[int], per_token: bool) -> list[Sequence[float]]:
    """The numbers of one turn of each episode, counted from 1, or of its action tokens."""
    return [
        values[_bounds(episode, turn - 1, per_token)] for values, episode, turn in zip(column, episodes, turns, strict=True)
    ]


def merge(columns: Sequence[tuple[Sequence[View], Column]], episodes: Sequence[Episode], per_token: bool) -> list[list[float]]:
    """Numbers of views -> those of all turns (or action tokens) of episodes, 0 for turns in none of the views; [] if there are none."""
    parts: list[dict[int, Sequence[float]]] = [{} for _ in episodes]
    for views, column in columns:
        for view, values in zip(views, column, strict=bool(column)):
            start = 0
            for place in view.places:
                size = _size(episodes[view.row], place, per_token)
                parts[view.row][place] = values[start : start + size]
                start += size
    if not any(parts):
        return []
    return [
        [
            value
            for place in range(len(episode.turns))
            for value in of_turns.get(place) or [0.0] * _size(episode, place, per_token)
        ]
        for episode, of_turns in zip(episodes, parts, strict=True)
    ]


def _size(episode: Episode, place: int, per_token: bool) -> int:
    return len(episode.turns[place].token_ids) if per_token else 1


def _bounds(episode: Episode, place: int, per_token: bool) -> slice:
    if not per_token:
        return slice(place, place + 1)
    start = sum(len(turn.token_ids) for turn in episode.turns[:place])
    return slice(start, start + len(episode.turns[place].token_ids))
