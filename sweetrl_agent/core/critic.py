"""What a critic is to the rest of the code: an opinion on what the agent might say next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sweetrl_agent.core.episode import Messages


class Critic(Protocol):
    """A critic of agent turns."""

    def rank(self, messages: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
        """Credit of candidates for the agent's next turn, higher is better; equal texts get equal credit.

        Args:
            messages: The dialogue that the agent sees; the last message is the human's.
            hidden: What the critic is told; "" for nothing.
            texts: The candidates.
        """
        ...

    def dialogue_advantages(self, messages: Messages, hidden: str) -> list[float]:
        """Credit of every agent turn of a dialogue, in order."""
        ...
