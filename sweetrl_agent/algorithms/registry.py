"""Registry of algorithms, by name. To add one, write a module with a class and add a line here, or name it on the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields, replace
from typing import Any

from sandboxes.named import load_class, load_named, name_and_arguments, spec_of
from sweetrl_agent.algorithms.archer import Archer
from sweetrl_agent.algorithms.archer_offline import ArcherOffline
from sweetrl_agent.algorithms.at_grpo import ATGRPO
from sweetrl_agent.algorithms.bc import BehaviourCloning
from sweetrl_agent.algorithms.bidirectional import Bidirectional
from sweetrl_agent.algorithms.collab import Collab
from sweetrl_agent.algorithms.critic_settings import SWEET
from sweetrl_agent.algorithms.critics import CRITICS
from sweetrl_agent.algorithms.discrete import DQN, PPO, RandomActions
from sweetrl_agent.algorithms.filtered_bc import FilteredBC
from sweetrl_agent.algorithms.gigpo import GiGPO
from sweetrl_agent.algorithms.grpo import GRPO
from sweetrl_agent.algorithms.igpo import IGPO
from sweetrl_agent.algorithms.ilql import ILQL
from sweetrl_agent.algorithms.infopo import InfoPO
from sweetrl_agent.algorithms.initial import InitialPolicy, SingleTurn
from sweetrl_agent.algorithms.linvit import Linvit
from sweetrl_agent.algorithms.malt import MALT
from sweetrl_agent.algorithms.maporl import MAPoRL
from sweetrl_agent.algorithms.mc import MonteCarlo
from sweetrl_agent.algorithms.mtdpo import MultiTurnDPO
from sweetrl_agent.algorithms.online_filtered_bc import OnlineFilteredBC
from sweetrl_agent.algorithms.own_critics import SPECS, register_critic
from sweetrl_agent.algorithms.reinforce import Reinforce
from sweetrl_agent.algorithms.rft import RejectionFineTuning
from sweetrl_agent.algorithms.slinvit import Slinvit
from sweetrl_agent.algorithms.sweet import Sweet
from sweetrl_agent.algorithms.sweet_online import SweetOnline
from sweetrl_agent.algorithms.token_ppo import TokenPPO
from sweetrl_agent.algorithms.turn_ppo import TurnPPO
from sweetrl_agent.algorithms.vineppo import VinePPO
from sweetrl_agent.core.algorithm import Algorithm
from sweetrl_agent.core.environment import CAPABILITY_NAMES
from sweetrl_agent.core.registry import Registry
from sweetrl_agent.core.settings import default_of
from sweetrl_agent.trainers.on_policy import OnPolicyAlgorithm

#: Note on agents with discrete actions, shown in every comparison with other agents.
ON_DISCRETE = (
    "Agents with discrete actions are not language models: they choose from a menu written for the environment (on the embedded tasks questions and "
    "a programmed answer from the replies; on pages their slots). They measure the value of choosing well, not of writing well."
)
ALGORITHMS: Registry[Algorithm] = Registry(
    "algorithm",
    {
        algorithm.name: algorithm
        for algorithm in (
            SingleTurn(), InitialPolicy(), RejectionFineTuning(), MultiTurnDPO(), Reinforce(), GRPO(), TurnPPO(),
            BehaviourCloning(), FilteredBC(), MonteCarlo(), ILQL(),
            RandomActions(), PPO(), DQN(), Linvit(), Slinvit(), Collab(), Bidirectional(),
            TokenPPO(), OnlineFilteredBC(), GiGPO(), VinePPO(), InfoPO(), IGPO(), Archer(), ArcherOffline(), SweetOnline(),
            MALT(), MAPoRL(), ATGRPO(),
            Sweet(SWEET), *(Sweet(name) for name in CRITICS if name != SWEET),
        )
    },
)  # fmt: skip


def register_own_critic(named: str, setting: str) -> str:
    """`own_critics.register_critic`, and SWEET-RL with this critic as an algorithm of the same name."""
    name = register_critic(named, setting)
    ALGORITHMS.setdefault(name, Sweet(name))
    return name


def specification(name: str) -> str:
    """What names a registered algorithm in a file of settings: its name, or the class of a user-defined algorithm or critic."""
    kind = type(ALGORITHMS[name])
    is_ours = kind.__module__.startswith("sweetrl_agent.")
    return SPECS.get(name) or (name if is_ours else f"{kind.__module__}:{kind.__qualname__}")


def register(named: str, setting: str = "algorithm") -> str:
    """Return the name of a registered algorithm; a class "package.module:Class" is registered first.

    Args:
        named: A name, "package.module:Class" of an `Algorithm`, or that of a `Critic` (also as JSON with arguments), which SWEET-RL is
            then trained with.
        setting: Name of the setting, for errors.

    Raises:
        ValueError: If there is no such algorithm, the class lacks a method, or its name is already used by another.
    """
    given, arguments = name_and_arguments(setting, spec_of(setting, named))
    if ":" in given and _is_critic(load_named(setting, given)):
        return register_own_critic(named, setting)
    if arguments:
        raise ValueError(f"`{setting}` {given!r}: give its settings as `--{given}.SETTING VALUE`, got {sorted(arguments)}.")
    if ":" not in given:
        return ALGORITHMS.find(given, setting).name
    expected = "an `Algorithm` of `sweetrl_agent`"
    kind = load_class(setting, given, expected, base=Algorithm)
    if lacking := _lacking(kind):
        raise ValueError(f"`{setting}` must name {expected}, got {given!r}, which has no method {lacking!r}.")
    name = str(kind.name)
    if not name.isidentifier() or type(ALGORITHMS.get(name, kind())) is not kind:
        raise ValueError(f"The `name` of {named!r} must be an identifier that no other algorithm has, got {name!r}.")
    ALGORITHMS.setdefault(name, kind())
    return name


def _is_critic(kind: Any) -> bool:
    return isinstance(kind, type) and not issubclass(kind, Algorithm) and callable(getattr(kind, "rank", None))


def _lacking(kind: Any) -> str:
    """The method that a class of an algorithm must override and does not; "" if none is missing."""
    on_policy: Any = OnPolicyAlgorithm
    if issubclass(kind, on_policy):
        choices = ("credit", "learn", "train")
        return "" if any(getattr(kind, method) is not getattr(on_policy, method) for method in choices) else "credit"
    base: Any = Algorithm
    return "train" if kind.train is base.train and kind.stages is base.stages else ""


def titles() -> dict[str, str]:
    """Titles of the algorithms, for reports."""
    return {name: algorithm.title for name, algorithm in ALGORITHMS.items()}


def scaled(algorithms: Iterable[Algorithm]) -> list[Algorithm]:
    """The algorithms that learn from collected trajectories, and hence can be trained on fewer."""
    return [algorithm for algorithm in algorithms if "collect" in algorithm.shared]


def _asking(algorithm: Algorithm, missing: Collection[str]) -> str:
    """What requires capabilities: the algorithm's name, with the setting without which it would not."""
    for field in fields(algorithm.config):
        changed = getattr(algorithm.config, field.name) != (default := default_of(field))
        if changed and not algorithm.with_config(replace(algorithm.config, **{field.name: default})).requires & {*missing}:
            return f"`{algorithm.name}.{field.name}` of {algorithm.name!r}"
    return repr(algorithm.name)


def refuse_missing(algorithms: Iterable[Algorithm], capabilities: Collection[str], env: str) -> None:
    """Refuse algorithms that require capabilities that the environment lacks.

    Raises:
        ValueError: Names all these algorithms and the missing capabilities.
    """
    lacks = {algorithm: sorted(algorithm.requires - set(capabilities)) for algorithm in algorithms}
    sentences = [
        f"{_asking(algorithm, missing)} requires an environment with {' and '.join(CAPABILITY_NAMES[need] for need in missing)}"
        for algorithm, missing in lacks.items()
        if missing
    ]
    if sentences:
        raise ValueError(f"{'; '.join(sentences)}, which {env} does not have.")
