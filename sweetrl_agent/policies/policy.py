"""What an agent is to the rest of the code: dialogues in, utterances out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sweetrl_agent.chat import Messages


@dataclass(frozen=True)
class Utterance:
    """One sampled utterance.

    Attributes:
        text: What the agent says, special tokens removed.
        token_ids: Tokens as sampled, the end-of-turn token included where it was reached.
        log_probs: Log-probability of each token under the sampling distribution, in nats; empty where the policy gives none.
    """

    text: str
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)


class Policy(Protocol):
    """An agent."""

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """Sample the next utterance of every dialogue.

        Args:
            dialogues: Chat messages that the agent may see; the last is the human's.
            seeds: One per dialogue; the same dialogue and seed give the same utterance.
        """
        ...


def sample_each(policy: Policy, dialogues: Sequence[Messages], seeds: Sequence[Sequence[int]]) -> list[list[Utterance]]:
    """Several next utterances of every dialogue, one for each of its seeds, generated together."""
    wanted = [(dialogue, seed) for dialogue, own in zip(dialogues, seeds, strict=True) for seed in own]
    said = iter(policy.generate([dialogue for dialogue, _ in wanted], [seed for _, seed in wanted]))
    return [[next(said) for _ in own] for own in seeds]
