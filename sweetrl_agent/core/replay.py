"""Replay of an off-policy critic: the latest transitions of the policy's own episodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sweetrl_agent.core.episode import Episode, Messages, Turn


@dataclass(frozen=True)
class Transition:
    """A step (o_t, a_t, r_t, o_{t+1}) of an agent in an episode. An agent's next state is the one before its own next turn.

    Attributes:
        episode: The episode as this agent sees it (`Episode.view`).
        turn: Its turn, counted from 1.
        reward: r_t: the rewards of all agents' turns from this one until the agent's next one.
    """

    episode: Episode
    turn: int
    reward: float = 0.0

    @property
    def observation(self) -> Messages:
        """o_t: the dialogue before the turn."""
        return self.episode.prefix(self.turn)

    @property
    def action(self) -> Turn:
        """a_t. Log-probabilities have six decimals, as in files."""
        return self.episode.turns[self.turn - 1]

    @property
    def following(self) -> Messages | None:
        """o_{t+1}; None after the last turn."""
        return self.episode.prefix(self.turn + 1) if self.turn < len(self.episode.turns) else None

    @property
    def hidden(self) -> str:
        """What was hidden when the turn was taken."""
        return self.episode.hidden_at(self.turn)


class Replay:
    """The latest transitions, in whole episodes: the earliest episode goes as soon as the others have enough transitions.

    Args:
        capacity: Number of transitions; 0 keeps none.
    """

    def __init__(self, capacity: int = 0) -> None:
        self.capacity = capacity
        self._episodes: list[Episode] = []
        self._transitions: list[Transition] = []

    def add(self, episodes: Iterable[Episode]) -> None:
        """Add the episodes of an iteration, as they are read from files: a resumed run has the same numbers."""
        if not self.capacity:
            return
        self._episodes += [Episode.from_row(episode.to_row()) for episode in episodes]
        first, kept = len(self._episodes), 0
        while first and kept < self.capacity:
            first, kept = first - 1, kept + len(self._episodes[first - 1].turns)
        self._episodes = self._episodes[first:]
        self._transitions = [step for episode in self._episodes for agent in episode.agents for step in _steps(episode, agent)]

    @property
    def transitions(self) -> Sequence[Transition]:
        """All transitions, the earliest first."""
        return self._transitions

    def sample(self, count: int, seed: int) -> list[Transition]:
        """Draw transitions uniformly, with replacement; the same seed draws the same.

        Raises:
            ValueError: If there is none.
        """
        if not self._transitions:
            raise ValueError("The replay has no transition to draw: its algorithm's `Config` needs a field `replay` above 0.")
        return [self._transitions[i] for i in np.random.default_rng(seed).integers(len(self._transitions), size=count)]

    def __len__(self) -> int:
        """Number of transitions."""
        return len(self._transitions)


def _steps(episode: Episode, agent: str) -> Iterator[Transition]:
    view, places = episode.view(agent), episode.places(agent)
    for turn, (start, end) in enumerate(pairwise([*places, None]), 1):
        yield Transition(view, turn, sum(taken.reward for taken in episode.turns[start:end]))
