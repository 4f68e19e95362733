"""Base class of the records of ColBench's environments."""

from __future__ import annotations

import copy
import inspect
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from colbench_gym.agents.scripted import OracleAgent, random_agent
from colbench_gym.dialogue import Dialogue
from colbench_gym.envs.colbench_env import ColBenchEnv, turn_limit
from colbench_gym.envs.vector import ColBenchVectorEnv, isolate_human
from colbench_gym.errors import SandboxError
from colbench_gym.evaluation.human_trial import few_questions, known_trial
from colbench_gym.evaluation.trial import Act, Trial
from colbench_gym.reasoning import NONE
from colbench_gym.scoring.answer import ANSWER_MARKER, parse_message
from colbench_gym.scoring.measures import reply_measures
from colbench_gym.scoring.pages import current_page
from colbench_gym.simulators import Simulator
from colbench_gym.simulators.facts.scripted_human import LEVELS
from colbench_gym.simulators.model.openai import OpenAIHuman
from colbench_gym.simulators.model.transcript import transcript
from colbench_gym.tasks import Task
from colbench_gym.tasks.rows import OnError, row_from_task
from colbench_gym.wrappers.discrete_actions import DialogueActions, DiscreteActions
from sandboxes import system_lacks
from sandboxes.named import name_and_arguments, nearest, where
from sweetrl_agent.core.agents import AgentPolicy, Oracle
from sweetrl_agent.core.environment import CAPABILITIES, EnvironmentRecord
from sweetrl_agent.core.settings import require_file

if TYPE_CHECKING:
    from sweetrl_agent.core.episode import Episode, Messages

#: Arguments of an environment that are settings, and so not allowed in `env_kwargs`.
_GIVEN = frozenset(("tasks", "simulator", "sandbox", "max_turns", "on_error", "render_mode"))
#: Processes or browsers that score answers while the agent generates.
SANDBOX_WORKERS = 2


class ColBenchRecord(EnvironmentRecord):
    """An environment of `colbench_gym`: tasks with hidden information, a simulated human, discrete actions for the embedded tasks.

    Attributes:
        env: Class of the environment.
        hinted: Share of demonstrations that are guided by the hidden information; None for the demonstrator's own.
    """

    env: ClassVar[type[ColBenchEnv]]
    hinted: float | None = None
    defaults: ClassVar[Mapping[str, Any]] = {}
    max_token_length: ClassVar[int] = 96
    uses_global_generators: ClassVar[bool] = False
    has_sandbox: ClassVar[bool] = True
    answer_prefix: ClassVar[str] = f"{ANSWER_MARKER}\n"
    simulators: ClassVar[Mapping[str, Any]] = {level: {"name": "scripted", "level": level} for level in LEVELS}

    def all_defaults(self, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The record's own defaults only: the main job's defaults already suit our environments."""
        return dict(self.defaults)

    def with_hinted(self, share: float) -> Self:
        """See `EnvironmentRecord`."""
        other = copy.copy(self)
        other.hinted = share
        return other

    def guided(self, demonstrator: Any) -> Any:
        """A demonstrator (a data class with `hinted_fraction`) that guides the record's share of dialogues; None for its own."""
        return demonstrator if self.hinted is None else replace(demonstrator, hinted_fraction=self.hinted)

    def has_demonstrations(self, given: Any) -> bool:
        """See `EnvironmentRecord`; only the embedded tasks have them."""
        return given.tasks.startswith("embedded:")

    def check_tiny(self, given: Any) -> None:
        """See `EnvironmentRecord`.

        Raises:
            ValueError: If the tasks are not embedded ones.
        """
        if not self.has_demonstrations(given):
            require_file("tasks", given.tasks)
            raise ValueError(
                f"SFT of the tiny model is available on the embedded tasks only, got `tasks`={given.tasks!r}; "
                "give dialogues with `--demonstrations`, or a pretrained chat model with `--model`."
            )

    def load_tasks(self, source: str, given: Any) -> tuple[Task, ...]:
        """See `EnvironmentRecord`; the environment parses the names and their slices."""
        on_error: OnError = given.on_error  # type: ignore[assignment]
        tasks = self.env.load_tasks(source, on_error)
        return tuple(task.with_turns(given.max_turns) for task in tasks) if given.max_turns else tasks

    def task_row(self, task: Task) -> dict[str, Any]:
        """The task as ColBench's row."""
        return row_from_task(task)

    def turn_limit(self, task: Task, given: Any) -> int:
        """See `EnvironmentRecord`."""
        return turn_limit(task, given.max_turns)

    def environments(self, config: Any, tasks: Sequence[Task], num_envs: int, simulator: Any = None) -> ColBenchVectorEnv:
        """See `EnvironmentRecord`."""
        envs = ColBenchVectorEnv(
            num_envs=num_envs,
            autoreset_mode="disabled",
            env_class=self.env,
            tasks=tasks,
            simulator=simulator or config.task.simulator_spec(),
            max_turns=config.task.max_turns or None,
            sandbox_workers=SANDBOX_WORKERS,
            sandbox=config.task.sandbox_spec(),
            **{**_reasoning(config), **config.task.keyword_arguments()},
        )
        if config.task.isolate_generators == "true":
            isolate_human(envs.envs)
        return envs

    def measures(self, episode: Episode, task: Task) -> dict[str, Any]:
        """Fraction of the hidden code that the simulated human leaked, and fraction of the task's special wishes that it stated."""
        return reply_measures(episode.messages, task)

    def answer(self, text: str) -> str | None:
        """See `EnvironmentRecord`."""
        return parse_message(text, NONE).answer

    def current_page(self, texts: Iterable[str]) -> str:
        """See `EnvironmentRecord`."""
        return current_page(texts)

    def transcript(self, messages: Messages, max_chars: int) -> str:
        """See `EnvironmentRecord`; a message cannot forge a line of it."""
        return transcript(Dialogue.from_dicts(list(messages)), max_chars)

    def human_server(self, human: Any) -> tuple[str | None, str] | None:
        """See `EnvironmentRecord`; None for a human with recorded replies."""
        return (human.base_url, human.api_key_env) if isinstance(human, OpenAIHuman) and not human.is_deterministic else None

    def capabilities(self, config: Any) -> frozenset[str]:
        """See `EnvironmentRecord`; determined from the class, without making an environment."""
        return frozenset(
            {name for name, attribute in CAPABILITIES.items() if hasattr(self.env, attribute)}
            | {"discrete_actions", "answer_prefix"}
            | ({"behaviour"} if self.has_behaviour(config.task) else set())
        )

    def agents(self, config: Any) -> tuple[str, ...]:
        """See `EnvironmentRecord`; there is one agent, which has no name."""
        return ()

    def check(self, config: Any) -> None:
        """Make and close the simulated human, and check the environment's other arguments.

        Raises:
            ValueError: If a name or an argument is wrong.
            ImportError: If a package of the simulated human is missing.
            SandboxError: If this operating system has no such sandbox.
        """
        known = set(inspect.signature(self.env).parameters) - _GIVEN
        if unknown := sorted(set(config.task.keyword_arguments()) - known):
            raise ValueError(
                f"`env_kwargs` of {config.task.env} may contain {sorted(known)}, got {unknown}.{nearest(unknown[0], known)}"
            )
        if why := system_lacks(config.task.sandbox_spec()):
            raise SandboxError(why)
        try:
            spec = config.task.simulator_spec()
            name, _ = ("", {}) if isinstance(spec, Simulator) else name_and_arguments("simulator", spec)
            with closing(self.make_simulator(spec)) as human:
                if human.is_deterministic and ":" in name:
                    self._try_a_reply(human, name, config)
        except TypeError as error:
            raise ValueError(f"An argument of `simulator` is of a wrong type: {error}.") from None

    def _try_a_reply(self, human: Simulator, name: str, config: Any) -> None:
        """Ask a user-defined simulated human for one reply, so that an error shows before anything is trained."""
        task = self.load_tasks(config.task.tasks, config.task)[0]
        dialogue = Dialogue().add("user", task.description).add("assistant", "What should it do?")
        try:
            reply = human.reply(task, dialogue, 0)
        except Exception as error:  # a user-defined class may fail in any way
            raise ValueError(f"`simulator` {name!r} fails to reply ({where(error)}).") from error
        if not isinstance(reply, str):
            kind = type(human).__name__
            raise ValueError(f"`reply` of the simulator {kind!r} must return a text, got {type(reply).__name__}.")

    def known_trial(self, config: Any) -> Trial | None:
        """See `EnvironmentRecord`."""
        with closing(self.make_simulator(config.task.simulator_spec())) as human:
            return known_trial(human, config.task.simulator_spec(), config.task.sandbox_spec())

    def trial_agent(self, config: Any) -> Act:
        """See `EnvironmentRecord`."""
        return few_questions(config.task.env, config.task.sandbox_spec())

    @abstractmethod
    def make_simulator(self, spec: Any) -> Simulator:
        """Make the simulated human of a specification, as the environment does."""

    def scripted_policy(self, name: str, config: Any) -> Any:
        """See `EnvironmentRecord`: random questions or slots (general questions on real rows), and the hidden reference at once."""
        if name == "oracle":
            return Oracle(OracleAgent())
        return (
            AgentPolicy(random_agent(config.task.env, config.task.tasks, config.task.max_turns)) if name == "random" else None
        )

    def check_actions(self, config: Any) -> None:
        """See `EnvironmentRecord`; the actions cover only the embedded tasks.

        Raises:
            ValueError: If the tasks are not embedded ones.
        """
        given: Any = config.task
        sources = [source for source in (given.tasks, given.test_tasks, given.unseen_tasks, given.novel_tasks) if source]
        if not all(source.startswith("embedded:") for source in sources):
            raise ValueError(f"Discrete actions are made for the embedded tasks of {given.env}, got {sources}.")

    @abstractmethod
    def actions(self, config: Any) -> DialogueActions:
        """The discrete dialogue actions, for agents that are not language models."""

    def action_arguments(self, config: Any, stack: ExitStack) -> dict[str, Any]:
        """Arguments of the environment for training with discrete actions. The stack closes their resources."""
        return {"sandbox": config.task.sandbox_spec()}

    @contextmanager
    def action_environments(self, config: Any, tasks: Sequence[Task], num_envs: int) -> Iterator[list[DiscreteActions]]:
        """Environments with discrete actions on the given tasks, which share a scorer; closed on exit."""
        with ExitStack() as stack:
            arguments = self.action_arguments(config, stack)
            make: Any = self.env
            envs = [
                make(tasks=tasks, simulator=config.task.simulator_spec(), max_turns=config.task.max_turns or None, **arguments)
                for _ in range(num_envs)
            ]
            for env in envs:
                env.share(envs[0], workers=2)
                stack.callback(env.close)
            actions = self.actions(config)
            yield [DiscreteActions(env, actions) for env in envs]


def _reasoning(config: Any) -> dict[str, str]:
    """How the agent's model marks its thoughts; the environment's own default where no model is set."""
    model = getattr(config, "model", None)
    return {} if model is None else {"reasoning": model.reasoning}
