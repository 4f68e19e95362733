"""Collab (Chakraborty et al., arXiv:2503.21720): at every step of decoding, the agent speaks whose continuation promises the highest value. Nothing is trained.

The agents pi_1 ... pi_K are language models with one tokenizer, pi_ref is a reference. In a state s, the dialogue and the agent's utterance as far as it is decoded:

1. Agent j has options z: its `p` likeliest tokens (the paper), or `m` samples of a chunk of N tokens or of a whole utterance (ours).
2. J_j(s, z) = Q^{pi_j}(s, z) - alpha KL(pi_j || pi_ref at s), where Q^{pi_j}(s, z) is the expected return if z is said and agent j goes on.
3. z_j = argmax_z J_j(s, z), j* = argmax_j J_j(s, z_j); of equal ones the first. z_{j*} is appended; repeat until the utterance ends.

KL(pi_j || pi_ref at s) does not depend on z. It weighs agents against each other; with one agent alpha has no effect.

Q (`collab_values`) is by rollouts in the simulator, by a critic of utterances, by the implicit reward of a DPO'd adapter, or a vote without values. A score with
rollouts has had simulator access. A critic that sees the hidden information is an oracle: its score is an upper bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweetrl_agent.algorithms.collab_values import (
    IMPLICIT,
    ROLLOUT,
    Values,
    access,
    open_values,
    required,
    sources,
    trained_source,
)
from sweetrl_agent.algorithms.initial import InitialPolicy
from sweetrl_agent.core.algorithm import Algorithm
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.policy import Policy, Utterance
from sweetrl_agent.core.run import Run
from sweetrl_agent.core.settings import require, setting
from sweetrl_agent.policies.collab import UTTERANCE, Draft, MixedAgent, Option, language_model_agents


@dataclass(frozen=True)
class CollabConfig:
    """Settings of Collab."""

    agents: list[str] = setting(
        ("initial",),
        "Agents that are mixed: algorithms that the same run has trained, and `initial`. `evaluate` names them in the policy, collab:RUN1+RUN2.",
    )
    granularity: str = setting(
        UTTERANCE, "What is chosen at a time: token, chunk:N (of N tokens), or utterance; token in the paper."
    )
    alpha: float = setting(
        0.01, "Weight of KL(pi_j || pi_ref), in rewards per nat, without effect for a single agent; 1 in the paper, per token."
    )
    p: int = setting(10, "Options of each agent with `granularity` token: its likeliest tokens; 10 in the paper.", least=1)
    m: int = setting(4, "Samples of each agent with `granularity` chunk or utterance.", least=1)
    q: str = setting(
        ROLLOUT,
        "Q: rollout (asks the simulator), archer or archer_offline (its critic of utterances), mtdpo (the implicit reward of its adapter), a critic of SWEET-RL "
        "such as no_hidden or sweet (an oracle), or vote (how many samples say the same, no value).",
    )
    rollouts: int = setting(
        1,
        "Continuations of an option by which Q is estimated, to the end of the episode, or for a critic of the utterance.",
        least=1,
    )
    horizon: int = setting(
        0, "Turns after the present one at which a rollout is broken off, without further reward; 0 for never."
    )

    def __post_init__(self) -> None:
        """Refuse an unknown granularity or source of Q, and no agents."""
        if not re.fullmatch(r"token|utterance|chunk:[1-9]\d{0,5}", self.granularity):
            raise ValueError(f"`granularity` must be token, utterance or chunk:N, such as chunk:16, got {self.granularity!r}.")
        require("q", self.q, sources())
        if not self.agents or len({*self.agents}) < len(self.agents):
            raise ValueError(f"`agents` must name different agents, at least one, got {self.agents}.")
        if Collab.name in self.agents:
            raise ValueError(f"`agents` must name agents to be mixed, and {Collab.name!r} is the mixture.")


def choose(options: Sequence[Option], q: Sequence[float], alpha: float) -> Option:
    """Step 3 for one draft.

    Args:
        options: The options of all agents.
        q: Q of each.
        alpha: Weight of the divergence.
    """
    best: dict[int, tuple[float, Option]] = {}  # z_j with its Q: the divergence is the same for all z of an agent
    for option, value in zip(options, q, strict=True):
        if option.agent not in best or value > best[option.agent][0]:
            best[option.agent] = value, option
    return max(best.values(), key=lambda of_agent: of_agent[0] - alpha * of_agent[1].divergence)[1]


class CollabPolicy:
    """A mixture of agents; see the module's docstring.

    Args:
        agents: The agents, numbered from 0.
        config: The settings; their `agents` have no effect.
        values: Q.
        reference: pi_ref; None only with `alpha` 0.
    """

    def __init__(
        self, agents: Sequence[MixedAgent], config: CollabConfig, values: Values, reference: MixedAgent | None = None
    ) -> None:
        self.agents, self.config, self.values = agents, config, values
        self.reference = reference if config.alpha else None

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """See `Policy.generate`; refuses where Q needs the environment."""
        if access(self.config.q):
            raise TypeError(
                f"A mixture with `q` {self.config.q!r} needs the environments of its dialogues: call `generate_in`."
            )
        return self.decode([Draft(dialogue, "", seed) for dialogue, seed in zip(dialogues, seeds, strict=True)])

    def generate_in(self, envs: Sequence[Any], seeds: Sequence[int]) -> list[Utterance]:
        """See `core.policy.SearchingPolicy`."""
        return self.decode(
            [Draft(list(env.messages), env.hidden_information, seed, env) for env, seed in zip(envs, seeds, strict=True)]
        )

    def decode(self, drafts: Sequence[Draft]) -> list[Utterance]:
        """Steps 1 to 3 for all drafts at once, until the last has ended."""
        config = self.config
        while going := [draft for draft in drafts if draft.utterance is None]:
            options = [
                z for agent in self.agents for z in agent.options(going, config.granularity, config.p, config.m, self.reference)
            ]
            q = self.values(options)
            for draft in going:
                mine = [i for i, z in enumerate(options) if z.draft is draft]
                draft.append(choose([options[i] for i in mine], [q[i] for i in mine], config.alpha))
        return [draft.result() for draft in drafts]


def mixture(policies: Mapping[str, Any], load_reference: Callable[[], Policy], run: Run, config: CollabConfig) -> CollabPolicy:
    """The mixture of policies by their names, with Q of a run. Raises the errors of `language_model_agents` and `open_values`.

    Args:
        policies: The policies.
        load_reference: Loads pi_ref, which is needed for the divergence and for implicit rewards.
        run: The run.
        config: The settings.
    """
    needed = {"the reference": load_reference()} if config.alpha or config.q == IMPLICIT else {}
    agents = language_model_agents({**policies, **needed})
    agents, reference = agents[: len(policies)], agents[-1] if needed else None
    return CollabPolicy(agents, config, open_values(run, config, agents, reference), reference)


class Collab(InitialPolicy):
    """Collab; see the module's docstring."""

    name, Config, engines = "collab", CollabConfig, ("transformers",)

    @property
    def title(self) -> str:  # type: ignore[override]
        """Its name, with what Q has access to."""
        return f"Collab ({more})" if (more := access(self.config.q)) else "Collab"

    @property
    def requires(self) -> frozenset[str]:  # type: ignore[override]
        """What Q requires."""
        return required(self.config.q)

    @property
    def algorithms_needed(self) -> tuple[str, ...]:
        """The agents, and what Q is trained by."""
        return tuple(dict.fromkeys(name for name in (*self.config.agents, *trained_source(self.config.q)) if name != "initial"))

    def refuse_needed(self, other: Algorithm) -> None:
        """See `Algorithm`; what is mixed is one language model."""
        has_own = other.is_discrete or type(other).load is not Algorithm.load
        if other.name in self.config.agents and (has_own or len(other.folders) > 1):
            kind = "chooses what it says in another way" if has_own else "trains several agents"
            raise ValueError(f"`agents` must name algorithms whose agent is one language model, and {other.name!r} {kind}.")

    def load_initial(self, run: Run) -> Policy:
        """The initial policy alone."""
        return run.load_policy()

    def load(self, run: Run) -> Any:
        """The mixture."""
        trained: Mapping[str, Any] = run.config.algorithms
        agents = {name: run.load_policy() if name == "initial" else trained[name].load(run) for name in self.config.agents}
        return mixture(agents, run.load_policy, run, self.config)
