"""The interface of a critic: it scores candidates for the agent's next turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sweetrl_agent.core.episode import Messages


class Critic(Protocol):
    """A critic of agent turns."""

    def rank(self, messages: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
        """Scores of candidates for the agent's next turn; higher is better, equal texts get equal scores.

        Args:
            messages: The dialogue as the agent sees it; the last message is the user's.
            hidden: Hidden information that the critic sees; "" for none.
            texts: The candidates.
        """
        ...

    def dialogue_advantages(self, messages: Messages, hidden: str) -> list[float]:
        """Advantage of every agent turn of a dialogue, in order."""
        ...
