"""Registry of algorithms, by name. To add one, write a module with a class and add a line here, or name it on the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import Field, asdict, field, fields, make_dataclass
from functools import cache
from typing import Any

from sweetrl_agent.algorithms.critics import CRITICS, SWEET
from sweetrl_agent.algorithms.discrete import DQN, PPO, RandomActions
from sweetrl_agent.algorithms.grpo import GRPO
from sweetrl_agent.algorithms.mtdpo import MultiTurnDPO
from sweetrl_agent.algorithms.reinforce import Reinforce
from sweetrl_agent.algorithms.rft import RejectionFineTuning
from sweetrl_agent.algorithms.sweet import Sweet
from sweetrl_agent.algorithms.turn_ppo import TurnPPO
from sweetrl_agent.core.algorithm import START, Algorithm
from sweetrl_agent.core.environment import CAPABILITY_NAMES
from sweetrl_agent.core.named import load_named
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
        RandomActions(), PPO(), DQN(),
        Sweet(SWEET), *(Sweet(name) for name in CRITICS if name != SWEET),
    )
}  # fmt: skip
_OURS = frozenset(ALGORITHMS)


def find_algorithm(named: str) -> Algorithm:
    """Find the algorithm of a name or "package.module:Class"; raises the errors of `register`."""
    return ALGORITHMS[register(named)]


def register(named: str, setting: str = "algorithm") -> str:
    """Return the name of a registered algorithm; a class "package.module:Class" is registered first.

    Args:
        named: A name, or "package.module:Class".
        setting: Name of the setting, for errors.

    Raises:
        ValueError: If there is no such algorithm, or its name is already used by another.
    """
    if ":" not in named:
        if named not in ALGORITHMS:
            raise ValueError(f"`{setting}` must be one of {tuple(ALGORITHMS)}, or 'package.module:Class', got {named!r}.")
        return named
    found = load_named(setting, named)
    if not (isinstance(found, type) and issubclass(found, Algorithm)):
        raise ValueError(f"`{setting}` must name an `Algorithm` of `sweetrl_agent`, got {named!r}.")
    name = str(found.name)
    if not name.isidentifier() or type(ALGORITHMS.get(name, found())) is not found:
        raise ValueError(f"The `name` of {named!r} must be an identifier that no other algorithm has, got {name!r}.")
    ALGORITHMS.setdefault(name, found())
    return name


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
    others = [type(one) for name, one in ALGORITHMS.items() if name not in _OURS]
    return _restored, ([f"{other.__module__}:{other.__qualname__}" for other in others], asdict(settings))


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
        ValueError: Names the algorithm and the missing capabilities.
    """
    for name in names:
        missing = [CAPABILITY_NAMES[need] for need in sorted(ALGORITHMS[name].requires - set(capabilities))]
        if missing:
            raise ValueError(f"{name!r} requires an environment with {' and '.join(missing)}, which {env} does not have.")


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
