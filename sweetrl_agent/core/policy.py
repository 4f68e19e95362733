"""What an agent is to the rest of the code: dialogues in, utterances out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from sweetrl_agent.core.episode import Messages


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


class RenewablePolicy(Policy, Protocol):
    """An agent on an engine with weights of its own, which can be replaced by those of a model in training."""

    def load_weights(self, path: str) -> None:
        """Sample from the weights in a folder from now on: a whole model, or an adapter on the same base.

        Args:
            path: The folder; it may have been written anew since it was read last.
        """
        ...


@runtime_checkable
class ContinuousPolicy(Policy, Protocol):
    """An agent that need not be waited for: dialogues are given to it at any time, and what it says in each comes when it is said."""

    def add(self, name: Hashable, dialogue: Messages, seed: int) -> None:
        """Ask for the next utterance of a dialogue.

        Args:
            name: The dialogue's, the same for all its turns: what was read of it need not be read again.
            dialogue: Its messages.
            seed: As in `generate`.
        """
        ...

    def step(self) -> list[tuple[Hashable, Utterance]]:
        """Go on a little in all dialogues that were asked for; the names and utterances of those that ended their turn."""
        ...

    def forget(self, name: Hashable) -> None:
        """Give up what is kept of a dialogue."""
        ...


class InRounds:
    """Any policy as a continuous one: a step says everything that was asked for."""

    def __init__(self, policy: Policy) -> None:
        """Wrap a policy."""
        self.policy = policy
        self._asked: dict[Hashable, tuple[Messages, int]] = {}

    def add(self, name: Hashable, dialogue: Messages, seed: int) -> None:
        """See `ContinuousPolicy`."""
        self._asked[name] = (dialogue, seed)

    def step(self) -> list[tuple[Hashable, Utterance]]:
        """See `ContinuousPolicy`."""
        asked, self._asked = self._asked, {}
        said = self.policy.generate([dialogue for dialogue, _ in asked.values()], [seed for _, seed in asked.values()])
        return list(zip(asked, said, strict=True))

    def forget(self, name: Hashable) -> None:
        """Nothing is kept."""

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """See `Policy`."""
        return self.policy.generate(dialogues, seeds)


def sample_each(policy: Policy, dialogues: Sequence[Messages], seeds: Sequence[Sequence[int]]) -> list[list[Utterance]]:
    """Several next utterances of every dialogue, one for each of its seeds, generated together."""
    wanted = [(dialogue, seed) for dialogue, own in zip(dialogues, seeds, strict=True) for seed in own]
    said = iter(policy.generate([dialogue for dialogue, _ in wanted], [seed for _, seed in wanted]))
    return [[next(said) for _ in own] for own in seeds]
