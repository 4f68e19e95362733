"""`team:RUN+AGENT=POLICY`: a team in which some agents speak by other policies than their run's, as a policy of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field

from sweetrl_agent.core.dialogues import speaks_as
from sweetrl_agent.evaluation.model_policies import ModelSpec, member_policy

PREFIX = "team:"


@dataclass(frozen=True)
class TeamSpec(ModelSpec):
    """A team. Kind, place and settings are those of `base`.

    Attributes:
        base: Policy of all agents that are not named.
        named: Name and policy of each other agent.
    """

    base: ModelSpec = field(default_factory=lambda: ModelSpec("", "", "model"))
    named: tuple[tuple[str, ModelSpec], ...] = ()

    @property
    def parts(self) -> tuple[ModelSpec, ...]:
        """See `ModelSpec`."""
        return tuple(dict.fromkeys([self.base, *(policy for _, policy in self.named)]))

    def policy_of(self, agent: str) -> ModelSpec:
        """The policy of an agent."""
        named = dict(self.named)
        return named.get(speaks_as(agent, named), self.base)


def team_policy(text: str) -> TeamSpec | None:
    """A team: "team:RUN+AGENT=POLICY", with as many agents as wanted; each policy is named like one of its own.

    Raises:
        ValueError: If an agent is missing or named twice, or a policy is none.
    """
    if not text.startswith(PREFIX):
        return None
    first, *others = text.removeprefix(PREFIX).split("+")
    pairs = [(agent, policy) for agent, _, policy in (other.partition("=") for other in others)]
    agents = [agent for agent, _ in pairs]
    if not first or not pairs or not all(map(all, pairs)) or len({*agents}) < len(agents):
        raise ValueError(
            "`policies`: a team is a run and the policies of other agents, each named once, as in team:runs/malt+verifier=runs/malt:initial, "
            f"got {text[:200]!r}."
        )
    base, *policies = (member_policy(name) for name in (first, *(name for _, name in pairs)))
    named = tuple(zip(agents, policies, strict=True))
    name = PREFIX + "+".join([base.name, *(f"{agent}={policy.name}" for agent, policy in named)])
    return TeamSpec(name, text, base.kind, base.place, base.which, base.settings, base, named)
