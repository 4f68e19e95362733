"""The interface of an algorithm: a class with its settings, the capabilities it requires of the environment, and its stages.

`train --algorithm` and `compare --algorithms` accept registered names and "my_package.module:Class". A setting `rate` of an
algorithm `mine` is `--mine_rate` on the command line and `mine_rate` in YAML files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from sweetrl_agent.core.policy import Policy
    from sweetrl_agent.core.run import Run
    from sweetrl_agent.core.work import Lengths, Work

#: Shared stages before an algorithm's own: `START` for every language model, `COLLECTED` for algorithms that learn from collected dialogues.
START, COLLECTED = ("sft",), ("sft", "collect", "pairs")


@dataclass(frozen=True)
class NoSettings:
    """Settings of an algorithm that has none."""


class Algorithm:
    """Trains an agent. After its stages, the trained policy is in the folder `policy` of the run folder.

    Attributes:
        name: Name of its stage, its folder and its settings: letters, digits and underscores.
        title: Its name in reports.
        Config: Dataclass of its settings, each made with `core.settings.setting`.
        requires: Required capabilities of the environment, from `core.environment.CAPABILITY_NAMES`.
        shared: Stages before its own: `START`, or `COLLECTED` for trajectories and pairs.
        critic: The critic that its agent is trained with, from `critics.CRITICS`; "" for none.
        prefix: Prefix of its settings on the command line; None for its name and "_".
        engines: Engines that can sample from its agent, from `ModelArguments.engine`.
        packages: Optional packages that it needs, as (module, argument of `sandboxes.extras.pip_install`).
        is_discrete: Its agent chooses discrete dialogue actions and is not a language model.
    """

    name: str = ""
    title: str = ""
    Config: ClassVar[type] = NoSettings
    requires: frozenset[str] = frozenset()
    shared: tuple[str, ...] = COLLECTED
    critic: str = ""
    prefix: str | None = None
    engines: tuple[str, ...] = ("transformers", "vllm", "server")
    packages: tuple[tuple[str, str], ...] = ()
    is_discrete: bool = False

    @property
    def policy(self) -> str:
        """Folder of its trained policy in the run folder; "" for the initial policy itself."""
        return f"{self.name}/agent"

    @property
    def module(self) -> str:
        """Name of the module whose code trains it: a change of that module is a change of its stages' inputs."""
        return type(self).__module__

    @property
    def stages(self) -> Mapping[str, Callable[[Run], None]]:
        """Its own stages, in order, by names that are unique in a run folder; the first is the algorithm's name."""
        return {self.name: self.train}

    def train(self, run: Run) -> None:
        """The stage of an algorithm that has only one: reads files of the run folder, writes `policy`.

        Args:
            run: The run: folder, tasks, environments and settings; `settings(run)` gives the algorithm's own settings.
        """
        raise NotImplementedError

    def settings(self, run: Run) -> Any:
        """The algorithm's settings in a run."""
        return self.settings_in(run.config.algorithms)

    def settings_in(self, flat: Any) -> Any:
        """The algorithm's settings, taken from the flat settings of all algorithms, where each name starts with its algorithm's prefix."""
        return self.Config(**{one.name: getattr(flat, f"{self.setting_prefix}{one.name}") for one in fields(self.Config)})

    @property
    def setting_prefix(self) -> str:
        """Prefix of the names of its settings."""
        return f"{self.name}_" if self.prefix is None else self.prefix

    def refuse_model(self, model: Any) -> None:
        """Refuse settings of the model that it cannot train with, and an engine that cannot sample from its agent.

        Args:
            model: Settings of the model.

        Raises:
            ValueError: If there is one; names it and what is allowed.
        """
        if model.engine not in self.engines:
            allowed = " or ".join(f"`--engine {one}`" for one in self.engines)
            raise ValueError(f"{self.name!r} takes {allowed}, got {model.engine!r}.")

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

    def load(self, run: Run) -> Policy:
        """Load its trained policy; the initial policy if training changed nothing."""
        return run.load_policy("" if self.policy in run.unchanged else self.policy, self.response_prefix(run))

    def loader(self, run: Run) -> Callable[[], Policy]:
        """A function that loads its trained policy, for `evaluation.record`."""
        return partial(self.load, run)
