"""Registry of algorithms, by name. To add one, write a module with a class and add a line here, or name it on the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import Field, asdict, field, fields, make_dataclass
from functools import cache
from typing import Any

from sandboxes.named import load_class, load_named, name_and_arguments, nearest, spec_of, unknown
from sweetrl_agent.algorithms.bc import BehaviourCloning
from sweetrl_agent.algorithms.critics import CRITICS, SWEET
from sweetrl_agent.algorithms.discrete import DQN, PPO, RandomActions
from sweetrl_agent.algorithms.filtered_bc import FilteredBC
from sweetrl_agent.algorithms.grpo import GRPO
from sweetrl_agent.algorithms.ilql import ILQL
from sweetrl_agent.algorithms.mc import MonteCarlo
from sweetrl_agent.algorithms.mtdpo import MultiTurnDPO
from sweetrl_agent.algorithms.online_filtered_bc import OnlineFilteredBC
from sweetrl_agent.algorithms.own_critics import SPECS, register_critic
from sweetrl_agent.algorithms.reinforce import Reinforce
from sweetrl_agent.algorithms.rft import RejectionFineTuning
from sweetrl_agent.algorithms.sweet import Sweet
from sweetrl_agent.algorithms.token_ppo import TokenPPO
from sweetrl_agent.algorithms.turn_ppo import TurnPPO
from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.environment import CAPABILITY_NAMES
from sweetrl_agent.core.on_policy import OnPolicyAlgorithm
from sweetrl_agent.core.run import Run


class InitialPolicy(Algorithm):
    """The initial policy without further training."""

    name, title, shared, policy, stages = "zero_shot", "Zero-shot", START, "", {}


class SingleTurn(InitialPolicy):
    """The initial policy, forced to answer in its first turn by the environment's answer prefix as response prefix."""

    name, title, requires = "single_turn", "Single turn (no questions)", frozenset({"answer_prefix"})

    def response_prefix(self, run: Run) -> str:
        """See `Algorithm`."""
        return run.record.answer_prefix


#: Note on agents with discrete actions, shown in every comparison with other agents.
ON_DISCRETE = (
    "Agents with discrete actions are not language models: they choose from a menu written for the environment (on the embedded tasks questions and "
    "a programmed answer from the replies; on pages their slots). They measure the value of choosing well, not of writing well."
)
ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        SingleTurn(), InitialPolicy(), RejectionFineTuning(), MultiTurnDPO(), Reinforce(), GRPO(), TurnPPO(),
        BehaviourCloning(), FilteredBC(), MonteCarlo(), ILQL(),
        RandomActions(), PPO(), DQN(),
        TokenPPO(), OnlineFilteredBC(),
        Sweet(SWEET), *(Sweet(name) for name in CRITICS if name != SWEET),
    )
}  # fmt: skip
_OURS = frozenset(ALGORITHMS)


def find_algorithm(named: str, critic: str = SWEET) -> Algorithm:
    """Find the algorithm of a name or "package.module:Class", with another critic for SWEET-RL.

    Raises:
        ValueError: As `register` and `register_critic`; if another algorithm is given a critic.
    """
    name = register(named)
    if critic == SWEET:
        return ALGORITHMS[name]
    if name != SWEET:
        raise ValueError(f"`critic` is a setting of `--algorithm sweet`, got `--algorithm {name}`; leave out one of them.")
    return ALGORITHMS[register_own_critic(critic)]


def register_own_critic(named: str, setting: str = "critic") -> str:
    """`own_critics.register_critic`, and SWEET-RL with this critic as an algorithm of the same name."""
    name = register_critic(named, setting)
    ALGORITHMS.setdefault(name, Sweet(name))
    return name


def split(named: str, setting: str) -> tuple[str, dict[str, Any]]:
    """Split an algorithm's specification into the name that `register` takes and settings by their flat names.

    The arguments of an algorithm are its settings: {"name": "grpo", "clip": 0.1} is `--algorithm grpo --grpo_clip 0.1`. Those of a critic
    stay with its name, since it has no flags.

    Raises:
        ValueError: As `register`; if the algorithm has no such setting.
    """
    spec = spec_of(setting, named)
    name, arguments = name_and_arguments(setting, spec)
    if not arguments or (":" in name and _is_critic(load_named(setting, name))):
        return named if arguments else name, {}
    algorithm = ALGORITHMS[register(name, setting)]
    known = [one.name for one in fields(algorithm.Config)]
    for one in arguments:
        if one not in known:
            raise ValueError(
                f"`{setting}`: {name!r} has the settings {', '.join(known) or '(none)'}, got {one!r}.{nearest(one, known)}"
            )
    return name, {f"{algorithm.setting_prefix}{one}": value for one, value in arguments.items()}


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
        raise ValueError(f"`{setting}` {given!r}: give its settings as flags, got {sorted(arguments)}.")
    if ":" not in given:
        if given not in ALGORITHMS:
            raise unknown(setting, given, ALGORITHMS)
        return given
    kind = "an `Algorithm` of `sweetrl_agent`"
    found = load_class(setting, given, kind, base=Algorithm)
    if lacking := _lacking(found):
        raise ValueError(f"`{setting}` must name {kind}, got {given!r}, which has no method {lacking!r}.")
    name = str(found.name)
    if not name.isidentifier() or type(ALGORITHMS.get(name, found())) is not found:
        raise ValueError(f"The `name` of {named!r} must be an identifier that no other algorithm has, got {name!r}.")
    ALGORITHMS.setdefault(name, found())
    return name


def _is_critic(found: Any) -> bool:
    return isinstance(found, type) and not issubclass(found, Algorithm) and callable(getattr(found, "rank", None))


def _lacking(found: Any) -> str:
    """The method that a class of an algorithm must override and does not; "" if none is missing."""
    on_policy: Any = OnPolicyAlgorithm
    if issubclass(found, on_policy):
        choices = ("advantages", "credit", "token_credit", "learn", "train", "loop")
        return "" if any(getattr(found, one) is not getattr(on_policy, one) for one in choices) else "advantages"
    base: Any = Algorithm
    return "train" if found.train is base.train and found.stages is base.stages else ""


def settings_class() -> type:
    """A dataclass with the settings of all registered algorithms, each name prefixed by its algorithm."""
    return _settings_class(tuple(ALGORITHMS))


@cache
def _settings_class(names: tuple[str, ...]) -> type:
    return make_dataclass(
        "AlgorithmArguments",
        [(name, one.type, field(default=one.default, metadata=one.metadata)) for name, one in _flat(names).items()],
        namespace={"__doc__": "Settings of single algorithms.", "__reduce__": _reduced},
    )


def _flat(names: Iterable[str]) -> dict[str, Field[Any]]:
    """Settings of some algorithms, by their names on the command line; algorithms with the same prefix share settings."""
    return {f"{ALGORITHMS[name].setting_prefix}{one.name}": one for name in names for one in fields(ALGORITHMS[name].Config)}


def _reduced(settings: Any) -> tuple[Any, ...]:
    """Pickle settings together with external algorithms' classes, which the unpickling process registers."""
    others = [
        SPECS.get(name) or f"{type(one).__module__}:{type(one).__qualname__}"
        for name, one in ALGORITHMS.items()
        if name not in _OURS
    ]
    return _restored, (others, asdict(settings))


def _restored(others: Sequence[str], settings: dict[str, Any]) -> Any:
    for other in others:
        register(other)
    return settings_class()(**settings)


def titles() -> dict[str, str]:
    """Titles of the algorithms, for reports."""
    return {name: algorithm.title for name, algorithm in ALGORITHMS.items()}


def scaled(algorithms: Sequence[str]) -> list[str]:
    """The algorithms that learn from collected trajectories, and hence can be trained on fewer."""
    return [name for name in algorithms if "collect" in ALGORITHMS[name].shared]


def refuse_missing(names: Iterable[str], capabilities: Collection[str], env: str) -> None:
    """Refuse algorithms that require capabilities that the environment lacks.

    Raises:
        ValueError: Names all these algorithms and the missing capabilities.
    """
    lacks = {name: sorted(ALGORITHMS[name].requires - set(capabilities)) for name in names}
    found = [
        f"{name!r} requires an environment with {' and '.join(CAPABILITY_NAMES[need] for need in missing)}"
        for name, missing in lacks.items()
        if missing
    ]
    if found:
        raise ValueError(f"{'; '.join(found)}, which {env} does not have.")


def setting_owners() -> dict[str, str]:
    """Flat names of settings that affect only a single algorithm's stage -> the algorithm."""
    return {setting: name for name in ALGORITHMS if ALGORITHMS[name].setting_prefix for setting in _flat([name])}


def check_settings(flat: Any) -> None:
    """Check settings by the dataclasses of their algorithms.

    Raises:
        ValueError: If a dataclass refuses its settings.
    """
    for algorithm in ALGORITHMS.values():
        algorithm.settings_in(flat)
