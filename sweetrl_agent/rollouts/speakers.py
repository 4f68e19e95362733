"""Who speaks in the dialogues of a shard: a policy, an oracle, a critic's choice among candidates, or one of these for each agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from colbench_gym.errors import ColBenchError
from colbench_gym.seeds import derive_seed
from sweetrl_agent.core.dialogues import AGENT, speaks_as
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import (
    BatchAdapter,
    ContinuousPolicy,
    InformedPolicy,
    Policies,
    Policy,
    SearchingPolicy,
    Utterance,
)
from sweetrl_agent.rollouts.replies import replies_to


@dataclass(frozen=True)
class BestOf:
    """Best-of-N: every turn is the best of N candidates by a critic's score (arXiv:2503.15478, Figure 3a).

    With a critic that sees the hidden information, this is an analysis of the critic and not a deployable agent.

    Attributes:
        num_candidates: N.
        credit: Computes scores of candidates from the dialogue, the hidden information, the candidates, and the replies to them.
        has_replies: Whether it gets the other side's reply to each candidate, of an environment with snapshots; () otherwise.
    """

    num_candidates: int
    credit: Callable[[Messages, str, Sequence[str], Sequence[str]], list[float]]
    has_replies: bool = False


class Speaker(Protocol):
    """Generates the agent's next utterances in numbered dialogues."""

    def ask(self, number: int, env: Any, seed: int) -> None:
        """Request the next utterance of a dialogue."""
        ...

    def step(self) -> list[tuple[int, Utterance]]:
        """Advance; returns finished utterances with the numbers of their dialogues."""
        ...

    def end(self, number: int) -> None:
        """Called when a dialogue has ended."""
        ...


class PolicySampler:
    """The policy's own samples."""

    def __init__(self, policy: ContinuousPolicy) -> None:
        self.policy = policy

    def ask(self, number: int, env: Any, seed: int) -> None:
        """See `Speaker`."""
        self.policy.add(number, env.messages, seed)

    def step(self) -> list[tuple[Any, Utterance]]:
        """See `Speaker`."""
        return self.policy.step()

    def end(self, number: int) -> None:
        """See `Speaker`."""
        self.policy.forget(number)


class OracleSampler:
    """An oracle's utterances; only a policy that declares itself to be one gets the hidden information, or the reference."""

    def __init__(self, policy: InformedPolicy) -> None:
        self.policy = policy
        self._asked: list[tuple[int, Messages, str, int]] = []

    def ask(self, number: int, env: Any, seed: int) -> None:
        """See `Speaker`."""
        self._asked.append((number, env.messages, self._hidden(env), seed))

    def _hidden(self, env: Any) -> str:
        if not getattr(self.policy, "uses_reference", False):
            return str(env.hidden_information)
        try:
            return str(env.reference)
        except AttributeError:
            raise ValueError(
                "This oracle hands in the environment's `reference`, and the environment has no such attribute."
            ) from None

    def step(self) -> list[tuple[int, Utterance]]:
        """See `Speaker`."""
        asked, self._asked = self._asked, []
        numbers, dialogues, hidden, seeds = zip(*asked, strict=True)
        return list(zip(numbers, self.policy.generate_informed(dialogues, hidden, seeds), strict=True))

    def end(self, number: int) -> None:
        """Does nothing: there is no cache."""


class SearchSampler:
    """Utterances of a policy that searches in the environments."""

    def __init__(self, policy: SearchingPolicy) -> None:
        self.policy = policy
        self._asked: list[tuple[int, Any, int]] = []

    def ask(self, number: int, env: Any, seed: int) -> None:
        """See `Speaker`."""
        self._asked.append((number, env, seed))

    def step(self) -> list[tuple[int, Utterance]]:
        """See `Speaker`."""
        asked, self._asked = self._asked, []
        numbers, envs, seeds = zip(*asked, strict=True)
        return list(zip(numbers, self.policy.generate_in(envs, seeds), strict=True))

    def end(self, number: int) -> None:
        """Does nothing: there is no cache."""


@dataclass
class _Choice:
    """Candidates for a turn, as far as they are generated."""

    messages: Messages
    hidden: str
    env: Any
    candidates: dict[int, Utterance] = field(default_factory=dict)


class BestOfNSampler:
    """A critic's choice among several candidates, which are sampled concurrently; only the critic sees the hidden information."""

    def __init__(self, policy: ContinuousPolicy, best_of: BestOf) -> None:
        self.policy, self.best_of = policy, best_of
        self._choices: dict[int, _Choice] = {}

    def ask(self, number: int, env: Any, seed: int) -> None:
        """See `Speaker`. For a given seed, the first candidates are the same for every N."""
        self._choices[number] = _Choice(env.messages, env.hidden_information, env)
        for i in range(self.best_of.num_candidates):
            self.policy.add((number, i), env.messages, derive_seed(seed, "candidate", i))

    def step(self) -> list[tuple[int, Utterance]]:
        """See `Speaker`."""
        chosen = []
        name: Any
        for name, utterance in self.policy.step():
            self.policy.forget(name)
            number, i = name
            choice = self._choices[number]
            choice.candidates[i] = utterance
            if len(choice.candidates) == self.best_of.num_candidates:
                chosen.append((number, self._chosen(self._choices.pop(number))))
        return chosen

    def _chosen(self, choice: _Choice) -> Utterance:
        every = [choice.candidates[i] for i in range(len(choice.candidates))]
        valid = [utterance for utterance in every if not utterance.error] or every[:1]
        texts = [utterance.text for utterance in valid]
        replies = replies_to(choice.env, texts, [utterance.is_cut for utterance in valid]) if self.best_of.has_replies else ()
        scores = self.best_of.credit(choice.messages, choice.hidden, texts, replies)
        return valid[max(range(len(valid)), key=scores.__getitem__)]

    def end(self, number: int) -> None:
        """Does nothing: candidates are dropped as soon as they are generated."""


class AgentSampler:
    """A speaker for each agent of an environment with several; a policy that speaks for two samples for both in one batch.

    Args:
        speakers: The speakers, by the agents' names.
    """

    def __init__(self, speakers: Mapping[str, Speaker]) -> None:
        self.speakers = speakers
        self._each = list({id(speaker): speaker for speaker in speakers.values()}.values())
        self._num_asked = Counter[int]()

    def ask(self, number: int, env: Any, seed: int) -> None:
        """See `Speaker`.

        Raises:
            ColBenchError: If there is no policy for the agent that the environment names.
        """
        agent = getattr(env, "agent", AGENT)
        speaker = self.speakers.get(speaks_as(agent, self.speakers))
        if speaker is None:
            raise ColBenchError(
                f"The environment names the agent {agent!r}, and the policies are those of {', '.join(self.speakers)}."
            )
        speaker.ask(number, env, seed)
        self._num_asked[id(speaker)] += 1

    def step(self) -> list[tuple[int, Utterance]]:
        """See `Speaker`."""
        spoken = []
        for speaker in self._each:
            if self._num_asked[id(speaker)]:
                utterances = speaker.step()
                self._num_asked[id(speaker)] -= len(utterances)
                spoken += utterances
        return spoken

    def end(self, number: int) -> None:
        """See `Speaker`."""
        for speaker in self._each:
            speaker.end(number)


def speaker_of(policies: Policies, best_of: BestOf | None = None) -> tuple[Speaker, bool]:
    """The speaker of a policy or of each agent's policy, and whether one of them is continuous.

    Args:
        policies: One policy for all agents, or one for each.
        best_of: Chooses every turn among several candidates; None for the policy's first sample.
    """
    if not isinstance(policies, Mapping):
        return _speaker(policies, best_of), isinstance(policies, ContinuousPolicy)
    made = {id(policy): _speaker(policy, best_of) for policy in policies.values()}
    is_continuous = any(isinstance(policy, ContinuousPolicy) for policy in policies.values())
    return AgentSampler({agent: made[id(policy)] for agent, policy in policies.items()}), is_continuous


def _speaker(policy: Policy, best_of: BestOf | None) -> Speaker:
    if isinstance(policy, InformedPolicy):
        return OracleSampler(policy)
    if isinstance(policy, SearchingPolicy):
        return SearchSampler(policy)
    continuous = policy if isinstance(policy, ContinuousPolicy) else BatchAdapter(policy)
    return PolicySampler(continuous) if best_of is None else BestOfNSampler(continuous, best_of)
