"""Record of ColBench-Backend-v0: functions, scored by hidden unit tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from colbench_gym.envs.backend import BackendEnv
from colbench_gym.envs.colbench_env import ColBenchEnv
from colbench_gym.simulators import SIMULATORS, Simulator, make
from colbench_gym.tasks import Task
from colbench_gym.tasks.embedded import dial_of_source, one_wish_apart, with_dial
from colbench_gym.wrappers.discrete_actions import DialogueActions
from colbench_gym.wrappers.question_actions import QuestionActions
from sweetrl_agent.core.critic import Critic
from sweetrl_agent.core.environment import Demonstrations
from sweetrl_agent.core.explanation import Failure, FailureKind, WishCounts
from sweetrl_agent.envs import backend_explanation
from sweetrl_agent.envs.colbench import ColBenchRecord


class BackendRecord(ColBenchRecord):
    """Record of ColBench-Backend-v0; the exact advantage is known on the embedded tasks."""

    env: ClassVar[type[ColBenchEnv]] = BackendEnv
    metric: ClassVar[str] = BackendEnv.metric
    hidden_noun: ClassVar[str] = "function"
    human_names: ClassVar[Sequence[str]] = tuple(SIMULATORS)
    failure_kinds: ClassVar[tuple[FailureKind, ...]] = backend_explanation.KINDS
    success_means: ClassVar[str] = BackendEnv.success_means
    pretrained_defaults: ClassVar[Mapping[str, Any]] = {"system_prompt": "benchmark", "max_new_tokens": 160}

    def full_name(self, source: str) -> str:
        """The name with the full dial (difficulty) of embedded tasks."""
        return with_dial(source)

    def note(self, sources: Mapping[str, str]) -> str:
        """A note if evaluation uses embedded tasks and training does not, or at another dial."""
        measured = [split for split, name in sources.items() if split != "train" and name.startswith("embedded:")]
        if measured and not sources.get("train", "embedded:").startswith("embedded:"):
            return (
                f"note: training is on {sources['train']}, evaluation ({', '.join(measured)}) on embedded tasks; "
                '`--test_tasks "" --unseen_tasks ""` keeps a fifth of your tasks for it'
            )
        dials = {split: dial_of_source(name).name for split, name in sources.items() if name.startswith("embedded:")}
        others = [f"{split} {dial}" for split, dial in dials.items() if "train" in dials and dial != dials["train"]]
        return f"note: training is on dial {dials['train']}, evaluation on another ({', '.join(others)})" if others else ""

    def demonstrations(self, tasks: Sequence[Task], count: int, seed: int) -> Demonstrations:
        """See `EnvironmentRecord`."""
        from sweetrl_agent.envs.backend_demonstrations import TINY, demonstrations

        return demonstrations(tasks, make("scripted"), count, seed, self.guided(TINY))

    def pretrained_demonstrations(self, tasks: Sequence[Task], count: int, seed: int) -> Demonstrations:
        """See `EnvironmentRecord`."""
        from sweetrl_agent.envs.backend_demonstrations import PRETRAINED, demonstrations

        return demonstrations(tasks, make("scripted"), count, seed, self.guided(PRETRAINED))

    def capabilities(self, config: Any) -> frozenset[str]:
        """See `EnvironmentRecord`; other tasks of the family are known on the embedded tasks only."""
        capabilities = super().capabilities(config)
        return capabilities | {"alternatives"} if config.task.tasks.startswith("embedded:") else capabilities - {"redraw"}

    def oracles(self, config: Any) -> Collection[str]:
        """See `EnvironmentRecord`; of the embedded tasks only."""
        return ("exact", "marginal") if config.task.tasks.startswith("embedded:") else ()

    def open_oracle(self, name: str, config: Any, tasks: Sequence[Task]) -> AbstractContextManager[Critic]:
        """See `EnvironmentRecord`."""
        from sweetrl_agent.envs.backend_exact_credit import open_oracle

        return open_oracle(name, tasks, config.task.sandbox_spec(), config.task.max_turns)

    def alternatives(self, hidden: str, tasks: Sequence[Task]) -> Sequence[str]:
        """See `EnvironmentRecord`: programs of the family that differ in one wish; of the embedded tasks only."""
        task = next((task for task in tasks if task.hidden.reference == hidden), None)
        return one_wish_apart(task) if task is not None and task.id.startswith("embedded/") else ()

    def level(self, source: str) -> str:
        """The name of the dial."""
        return dial_of_source(source).name

    def failure(self, row: Mapping[str, Any], task: Task, config: Any) -> Failure:
        """See `Explains`."""
        return backend_explanation.failure(row, task, self.turn_limit(task, config.task), states_wishes(config))

    def wish_counts(self, episodes: Sequence[tuple[Mapping[str, Any], Task]], config: Any) -> list[WishCounts | None]:
        """See `Explains`; known on the embedded tasks, with a human who states wishes word for word."""
        if not states_wishes(config):
            return []
        semantics = config.task.keyword_arguments().get("semantics", "module")
        return backend_explanation.wish_counts(episodes, config.task.sandbox_spec(), semantics)

    def explain(self, episodes: Sequence[tuple[Mapping[str, Any], Task]], config: Any) -> list[dict[str, Any]]:
        """See `Explains`; answers and references run in the sandbox of the settings."""
        semantics = config.task.keyword_arguments().get("semantics", "module")
        return backend_explanation.explain(
            episodes, config.task.sandbox_spec(), semantics, config.task.max_turns, states_wishes(config)
        )

    def make_simulator(self, spec: Any) -> Simulator:
        """See `ColBenchRecord`."""
        return make(spec)

    def actions(self, config: Any) -> DialogueActions:
        """Questions about the topics of the dial, and an answer from the replies."""
        return QuestionActions(dial_of_source(config.task.tasks))


def states_wishes(config: Any) -> bool:
    """Whether the simulated human is the scripted one, which states wishes word for word."""
    spec = config.task.simulator_spec()
    return (spec.get("name") if isinstance(spec, Mapping) else spec) == "scripted"
