"""The interface of a policy: dialogues in, utterances out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from colbench_gym.errors import AgentError
from sweetrl_agent.core.episode import LENGTH, STOP, Messages


@dataclass(frozen=True)
class Utterance:
    """One sampled utterance.

    Attributes:
        text: What is said, special tokens removed: the speech of `colbench_gym.reasoning`. "" if the model only thought.
        token_ids: Tokens as sampled, those of the thought and the end-of-turn token included.
        log_probs: Log-probability of each token under the sampling distribution, in nats; empty if the policy returns none.
        usage: Tokens that the model read and generated; None if they are not known, (0, 0) for a policy without a model.
        error: Why there is no utterance; the episode is then void. None if there is one.
        thought: What the model thought, with its marks; "" if nothing.
        finish_reason: Why it ended: `STOP`, `LENGTH` if the limit of tokens cut it, or what else a server says.
        simulated_turns: Turns that a search took in the simulator before it.
    """

    text: str
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    usage: tuple[int, int] | None = None
    error: AgentError | None = None
    thought: str = ""
    finish_reason: str = STOP
    simulated_turns: int = 0

    @property
    def num_tokens(self) -> int:
        """Tokens that were sampled, or that a server says it has sampled; 0 if neither is known."""
        return len(self.token_ids) or (self.usage[1] if self.usage else 0)

    @property
    def is_cut(self) -> bool:
        """Whether the limit of tokens cut it."""
        return self.finish_reason == LENGTH


class Policy(Protocol):
    """An agent."""

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """Sample the next utterance of every dialogue.

        Args:
            dialogues: Chat messages that the agent may see; the last is the user's.
            seeds: One per dialogue; the same dialogue and seed give the same utterance.
        """
        ...


#: One policy for all agents, or one for each, by the agent's name.
Policies = Policy | Mapping[str, Policy]


def one_or_each(policies: Mapping[str, Policy]) -> Policies:
    """The policy that speaks for all agents, if it is the same object for all; else the policy of each, by its name."""
    first, *others = policies.values()
    return policies if any(other is not first for other in others) else first


@runtime_checkable
class InformedPolicy(Protocol):
    """An oracle: it sees the hidden information. Its score is an upper bound; it takes no part in training or comparison.

    With an attribute `uses_reference` that is true it sees the environment's `reference` in its place: the answer to the task.
    """

    def generate_informed(self, dialogues: Sequence[Messages], hidden: Sequence[str], seeds: Sequence[int]) -> list[Utterance]:
        """The next utterance of every dialogue, as `Policy.generate`.

        Args:
            dialogues: Chat messages; the last is the user's.
            hidden: What is hidden in each episode at this turn; "" if the environment has none.
            seeds: One per dialogue.
        """
        ...


@runtime_checkable
class SearchingPolicy(Policy, Protocol):
    """A policy that searches in the environments of its dialogues before it speaks: what it says has had simulator access."""

    def generate_in(self, envs: Sequence[Any], seeds: Sequence[int]) -> list[Utterance]:
        """The next utterance of every dialogue.

        Args:
            envs: Sub-environments with snapshots, each in an episode that is not over; their states are the same afterwards.
            seeds: One per dialogue.
        """
        ...


class RenewablePolicy(Policy, Protocol):
    """A policy on an engine that holds its own copy of the weights, which can be replaced by those of the model in training."""

    def load_weights(self, path: str) -> None:
        """Replace the weights by those in a folder: a full model, or an adapter of the same base model.

        Args:
            path: The folder; its files may have changed since the last call.
        """
        ...


@runtime_checkable
class ContinuousPolicy(Policy, Protocol):
    """A policy with continuous batching: dialogues are added at any time, and each utterance is returned as soon as it is finished."""

    def add(self, name: Hashable, dialogue: Messages, seed: int) -> None:
        """Request the next utterance of a dialogue.

        Args:
            name: Name of the dialogue, the same for all its turns, so that its cache can be reused.
            dialogue: Its messages.
            seed: As in `generate`.
        """
        ...

    def step(self) -> list[tuple[Hashable, Utterance]]:
        """Advance all requested dialogues; returns the names and utterances of those that finished their turn."""
        ...

    def forget(self, name: Hashable) -> None:
        """Drop the cache of a dialogue."""
        ...


class BatchAdapter:
    """Any policy as a `ContinuousPolicy`: one step generates all requested utterances."""

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
        utterances = self.policy.generate([dialogue for dialogue, _ in asked.values()], [seed for _, seed in asked.values()])
        return list(zip(asked, utterances, strict=True))

    def forget(self, name: Hashable) -> None:
        """Does nothing: there is no cache."""

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """See `Policy`."""
        return self.policy.generate(dialogues, seeds)


def sample_each(policy: Policy, dialogues: Sequence[Messages], seeds: Sequence[Sequence[int]]) -> list[list[Utterance]]:
    """Sample several next utterances of every dialogue, one per seed, in one batch.

    Raises:
        AgentError: If one of them has an error.
    """
    wanted = [(dialogue, seed) for dialogue, of_dialogue in zip(dialogues, seeds, strict=True) for seed in of_dialogue]
    utterances = policy.generate([dialogue for dialogue, _ in wanted], [seed for _, seed in wanted])
    for utterance in utterances:
        if utterance.error:
            raise utterance.error
    sampled = iter(utterances)
    return [[next(sampled) for _ in of_dialogue] for of_dialogue in seeds]
