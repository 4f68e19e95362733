"""What an algorithm is to the trainer: a class with its settings beside it, what it requires of the environment, and its stages.

`train --algorithm` and `compare --algorithms` take registered names and "my_package.module:Class" alike. A setting `rate` of an
algorithm `mine` is `--mine_rate` on the command line and in YAML files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from sweetrl_agent.core.policy import Policy
    from sweetrl_agent.core.run import Run

#: Stages that come before an algorithm's own: those of every language model, and of those that learn from collected dialogues.
START, COLLECTED = ("sft",), ("sft", "collect", "pairs")


@dataclass(frozen=True)
class NoSettings:
    """Of an algorithm without settings of its own."""


class Algorithm:
    """A way to train an agent. What it learns is in the folder `policy` of the run folder when its stages are done.

    Attributes:
        name: Of its stage, its folder and its settings: letters, digits and underscores.
        title: Its name for people.
        Config: Dataclass of its settings, each made by `core.settings.setting`.
        requires: Capabilities of the environment, of `core.environment.CAPABILITY_NAMES`.
        shared: Stages before its own: `START`, or `COLLECTED` for trajectories and pairs.
        critic: The critic that it trains its agent by, of `critics.CRITICS`; "" for none.
        prefix: What the names of its settings begin with on the command line; None for its name and "_".
        engines: What may sample from its agent, of `ModelArguments.engine`.
        is_discrete: Its agent is no language model and chooses discrete dialogue actions.
    """

    name: str = ""
    title: str = ""
    Config: ClassVar[type] = NoSettings
    requires: frozenset[str] = frozenset()
    shared: tuple[str, ...] = COLLECTED
    critic: str = ""
    prefix: str | None = None
    engines: tuple[str, ...] = ("transformers", "vllm", "server")
    is_discrete: bool = False

    @property
    def policy(self) -> str:
        """Folder of its agent in the run folder; "" for the initial policy itself."""
        return f"{self.name}/agent"

    @property
    def stages(self) -> Mapping[str, Callable[[Run], None]]:
        """What it does beyond what is shared, in order, by names that are unique in a run folder; the first is the algorithm's name."""
        return {self.name: self.train}

    def train(self, run: Run) -> None:
        """The one stage of an algorithm that has no more of them: reads files of the run folder, writes `policy`.

        Args:
            run: Its folder, tasks, environments and settings; `settings(run)` are the algorithm's own.
        """
        raise NotImplementedError

    def settings(self, run: Run) -> Any:
        """Its own settings in a run."""
        return self.settings_in(run.config.algorithms)

    def settings_in(self, flat: Any) -> Any:
        """Its own among the settings of all algorithms, each of which stands there after its algorithm's prefix."""
        return self.Config(**{one.name: getattr(flat, f"{self.setting_prefix}{one.name}") for one in fields(self.Config)})

    @property
    def setting_prefix(self) -> str:
        """What the names of its settings begin with."""
        return f"{self.name}_" if self.prefix is None else self.prefix

    def refuse_engine(self, model: Any) -> None:
        """Refuse what cannot sample from its agent.

        Args:
            model: The settings of the model.

        Raises:
            ValueError: Names both.
        """
        if model.engine not in self.engines:
            allowed = " or ".join(f"`--engine {one}`" for one in self.engines)
            raise ValueError(f"{self.name!r} takes {allowed}, got {model.engine!r}.")

    def plan(self, run: Run) -> list[str]:
        """What `--dry_run` says of its stages, a line each.

        Raises:
            ValueError: If its trainers refuse a setting.
        """
        return []

    def response_prefix(self, run: Run) -> str:
        """What its agent's every message begins with; "" for nothing."""
        return ""

    def load(self, run: Run) -> Policy:
        """Its agent, which is the initial policy where it has learnt nothing."""
        return run.load_policy("" if self.policy in run.unchanged else self.policy, self.response_prefix(run))

    def loader(self, run: Run) -> Callable[[], Policy]:
        """A function that loads its agent, for `evaluation.record`."""
        return partial(self.load, run)
