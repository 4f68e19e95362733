"""Replay of an off-policy critic: the latest transitions of the policy's own episodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sweetrl_agent.core.episode import Episode, Messages, Turn


@dataclass(frozen=True)
class Transition:
    """A step (o_t, a_t, r_t, o_{t+1}) of an agent in an episode. An agent's next state is the one before its own next turn.

    Attributes:
        episode: The episode as this agent sees it (`Episode.view`).
        turn: Its turn, counted from 1.
    """

    episode: Episode
    turn: int

    @property
    def observation(self) -> Messages:
        """o_t: the dialogue before the turn."""
        return self.episode.prefix(self.turn)

    @property
    def action(self) -> Turn:
        """a_t with its reward r_t. Log-probabilities have six decimals, as in files."""
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
        views = [episode.view(agent) for episode in self._episodes for agent in episode.agents]
        self._transitions = [Transition(view, turn) for view in views for turn in range(1, len(view.turns) + 1)]

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
