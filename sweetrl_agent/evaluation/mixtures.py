"""`collab:RUN1+RUN2`, a mixture of agents (`algorithms.collab`) as a policy of an evaluation: its name, and the run that its Q is from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from colbench_gym.evaluation.policies import PolicySpec
from sweetrl_agent.algorithms.collab import CollabConfig
from sweetrl_agent.algorithms.collab_values import ROLLOUT, VOTE, access, is_there
from sweetrl_agent.core.settings import Section, build
from sweetrl_agent.evaluation.model_policies import ModelSpec, member_policy
from sweetrl_agent.trainers.run import Run

PREFIX = "collab:"
#: Settings of all mixtures of an evaluation: those of `collab` but its agents, which the policy names.
SETTINGS = Section(
    "collab",
    "How the agents of policies collab:RUN1+RUN2 are mixed.",
    {f"collab.{setting.name}": setting for setting in fields(CollabConfig) if setting.name != "agents"},
)


@dataclass(frozen=True)
class MixtureSpec(ModelSpec):
    """A mixture of agents. Kind, place and settings are those of the first.

    Attributes:
        agents: The agents.
        config: How they are mixed.
    """

    agents: tuple[ModelSpec, ...] = ()
    config: CollabConfig = field(default_factory=CollabConfig, compare=False)

    @property
    def parts(self) -> tuple[ModelSpec, ...]:
        """See `ModelSpec`."""
        return self.agents

    @property
    def sampled_with(self) -> dict[str, Any]:
        """What its rows depend on beyond its agents."""
        return {"collab": {name: value for name, value in asdict(self.config).items() if name != "agents"}}


def mixture_policy(text: str, config: CollabConfig) -> MixtureSpec | None:
    """A mixture: "collab:RUN1+RUN2", where each agent is named like a policy of its own.

    Raises:
        ValueError: If an agent is missing, named twice, or no policy.
    """
    if not text.startswith(PREFIX):
        return None
    names = text.removeprefix(PREFIX).split("+")
    if not all(names) or len({*names}) < len(names):
        raise ValueError(f"`policies`: a mixture names different agents, as in collab:runs/a+runs/b:rft, got {text[:200]!r}.")
    agents = tuple(map(member_policy, names))
    name, first = PREFIX + "+".join(agent.name for agent in agents), agents[0]
    return MixtureSpec(name, text, first.kind, first.place, first.which, first.settings, agents, config)


def labelled(spec: PolicySpec) -> PolicySpec:
    """A policy whose name in the results also says what its Q has had access to and an agent has not."""
    label = access(spec.config.q) if isinstance(spec, MixtureSpec) else ""
    return replace(spec, name=f"{spec.name} ({label})") if label else spec


def mixture_config(settings: Mapping[str, Any]) -> CollabConfig:
    """How agents are mixed, from the settings of the command by full name."""
    given = {name.removeprefix(PREFIX[:-1] + "."): value for name, value in settings.items() if name in SETTINGS.settings}
    return build(CollabConfig, given, lambda name: f"collab.{name}")


def refuse_unused(settings: Mapping[str, Any], policies: Sequence[PolicySpec]) -> None:
    """Refuse settings of mixtures without a mixture.

    Raises:
        ValueError: If there are some.
    """
    given = [name for name in settings if name in SETTINGS.settings]
    if given and not any(isinstance(spec, MixtureSpec) for spec in policies):
        raise ValueError(f"`{given[0]}` is for a mixture: name one, such as collab:RUN1+RUN2, or leave it out.")


def run_of_values(spec: MixtureSpec, open_run: Callable[[ModelSpec, str], Run]) -> Run | None:
    """The run that Q is from: the first of the agents' that has it; None if Q needs none.

    Args:
        spec: The mixture.
        open_run: Opens the run of an agent with an algorithm.

    Raises:
        ValueError: If none has it.
    """
    q = spec.config.q
    if q in (ROLLOUT, VOTE):
        return None
    runs = [open_run(agent, q) for agent in spec.agents if agent.kind == "run"]
    found = next((run for run in runs if is_there(run, q)), None)
    if found is None:
        raise ValueError(
            f"`collab.q` {q!r} needs a run that has trained it, and {spec.text!r} has none: mix an agent of such a run, or choose another `collab.q`."
        )
    return found
