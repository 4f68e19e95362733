"""The interface of an algorithm: a class with its settings, the capabilities it requires of the environment, and its stages.

`train --algorithm` and `compare --algorithms` accept registered names and "my_package.module:Class". A setting `rate` of an
algorithm `mine` is `--mine.rate` on the command line; in YAML files and in Python it stands in the mapping `mine`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sweetrl_agent.core.dialogues import AGENT
from sweetrl_agent.core.policy import Policies, one_or_each

if TYPE_CHECKING:
    from sweetrl_agent.core.run import Run
    from sweetrl_agent.core.work import Lengths, Work

#: Shared stages before an algorithm's own: `START` for every language model, `COLLECTED` for algorithms that learn from collected dialogues.
START, COLLECTED = ("sft",), ("sft", "collect", "pairs")


@dataclass(frozen=True)
class NoSettings:
    """Settings of an algorithm that has none."""


def load_policies(run: Run, folders: Mapping[str, str], response_prefix: str = "") -> Policies:
    """Load the policies of agents from folders of a run, each folder once.

    Args:
        run: The run.
        folders: Folder of each agent; "" for the initial policy.
        response_prefix: Text that every message starts with.
    """
    loaded = {folder: run.load_policy(folder, response_prefix) for folder in dict.fromkeys(folders.values())}
    return one_or_each({agent: loaded[folder] for agent, folder in folders.items()})


class Algorithm:
    """Trains one or several agents. After its stages, the trained policies are in the folders `policies` of the run folder.

    Attributes:
        name: Name of its stage, its folder and its settings: letters, digits and underscores.
        title: Its name in reports.
        Config: Dataclass of its settings, each made with `core.settings.setting`.
        config: Its settings, an instance of `Config`.
        requires: Required capabilities of the environment, from `core.environment.CAPABILITY_NAMES`.
        shared: Stages before its own: `START`, or `COLLECTED` for trajectories and pairs.
        collects: Whether its own stages collect episodes and pairs by the settings of collection, without the stages for it.
        critic: The critic that its agent is trained with, from `critics.CRITICS`; "" for none.
        engines: Engines that can sample from its agent, from `ModelArguments.engine`.
        packages: Optional packages that it needs, as (module, argument of `sandboxes.extras.pip_install`).
        is_discrete: Its agent chooses discrete dialogue actions and writes no text of its own.
        is_ordered: Its agents speak in the order of `policies`.
    """

    name: str = ""
    title: str = ""
    Config: ClassVar[type] = NoSettings
    requires: frozenset[str] = frozenset()
    shared: tuple[str, ...] = COLLECTED
    critic: str = ""
    engines: tuple[str, ...] = ("transformers", "vllm", "server")
    packages: tuple[tuple[str, str], ...] = ()
    is_discrete: bool = False
    is_ordered: bool = False
    collects: bool = False

    def __init__(self, config: Any = None) -> None:
        """Store the settings; None for the defaults."""
        self.config = self.Config() if config is None else config

    def with_config(self, config: Any) -> Self:
        """The algorithm with other settings."""
        other = copy.copy(self)
        other.config = config
        return other

    def first_stage(self, setting: str) -> str:
        """The first stage with files that one of its settings affects; the setting may change until that stage has started."""
        return self.name

    @property
    def policies(self) -> Mapping[str, str]:
        """Folder of each agent's trained policy in the run folder, by the agent's name; agents with the same folder share it.

        "" is the initial policy, for an agent that is not trained; {} if none is.
        """
        return {AGENT: f"{self.name}/agent"}

    def settings_for(self, agents: Sequence[str]) -> str:
        """Settings, as words of a command, with which it trains the agents of these names; "" if there are none."""
        return ""

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of trained policies, each once."""
        return tuple(dict.fromkeys(filter(None, self.policies.values())))

    @property
    def has_model(self) -> bool:
        """Whether its agent uses the initial policy's model: of the agents with discrete actions, those that start from it."""
        return not self.is_discrete or "sft" in self.shared

    @property
    def algorithms_needed(self) -> tuple[str, ...]:
        """Algorithms, critics of SWEET-RL among them, whose files it uses: the same run must have trained them before its evaluation."""
        return ()

    def refuse_needed(self, other: Algorithm) -> None:
        """Refuse, by a ValueError, an algorithm of the run that it uses (`algorithms_needed`) and cannot use."""

    @property
    def module(self) -> str:
        """Name of the module whose code trains it: a change of that module is a change of its stages' inputs."""
        return type(self).__module__

    @property
    def stages(self) -> Mapping[str, Callable[[Run], None]]:
        """Its own stages, in order, by names that are unique in a run folder; the first is the algorithm's name."""
        return {self.name: self.train}

    def train(self, run: Run) -> None:
        """The stage of an algorithm that has only one: reads files of the run folder, writes `policies`.

        Args:
            run: The run: folder, tasks and environments. The algorithm's settings are in `config`.
        """
        raise NotImplementedError

    def refuse_model(self, model: Any) -> None:
        """Refuse settings of the model that it cannot train with, and an engine that cannot sample from its agent.

        Args:
            model: Settings of the model.

        Raises:
            ValueError: If there is one; names it and what is allowed.
        """
        if model.engine not in self.engines:
            allowed = " or ".join(f"`--engine {engine}`" for engine in self.engines)
            raise ValueError(f"{self.name!r} takes {allowed}, got {model.engine!r}.")

    @property
    def without_effect(self) -> Sequence[str]:
        """Its settings that differ from their defaults and have no effect with the others, which a run warns of."""
        return ()

    def plan(self, run: Run) -> list[str]:
        """Lines that `--dry_run` prints on its stages, one per stage.

        Raises:
            ValueError: If one of its trainers refuses a setting.
        """
        return []

    def work(self, run: Run, lengths: Lengths) -> Mapping[str, Work]:
        """The work of its own stages, by their names, for the forecast; a stage that is not in it has no forecast.

        Args:
            run: The run; what earlier stages have written may be counted.
            lengths: Sizes of an average dialogue.
        """
        return {}

    def response_prefix(self, run: Run) -> str:
        """Response prefix: text that every message of its agent starts with; "" for none."""
        return ""

    def load_initial(self, run: Run) -> Policies:
        """Load the policy that its training starts from, which `train` evaluates beside the trained one."""
        return load_policies(run, {AGENT: ""})

    def load(self, run: Run) -> Policies:
        """Load its trained policy, or those of its agents by their names; the initial policy where training changed nothing."""
        folders = {agent: "" if folder in run.unchanged else folder for agent, folder in self.policies.items()}
        return load_policies(run, folders or {AGENT: ""}, self.response_prefix(run))

    def loader(self, run: Run) -> Callable[[], Policies]:
        """A function that loads its trained policies, for `evaluation.record`."""
        return partial(self.load, run)
