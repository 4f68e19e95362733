"""What the trainer knows of an environment: its record.

Any Gymnasium environment whose observations and actions are texts can be trained, with nothing else: the chat is made of its observations (the
user's side) and the agent's actions, task i is `reset(seed=i)`, and the return is the metric. What the trainer may know beyond that is a
record: a subclass of `EnvironmentRecord`, in a file of its own, named by `--env_record my_package:RECORD`.

What an environment can do (its capabilities) is found by attribute, on the environment itself. Hidden information has one source, the
environment's `hidden_information`: it is read once per episode and stored with the episode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import gymnasium as gym

from sweetrl_agent.core.actions import DialogueActions, DiscreteDialogue
from sweetrl_agent.core.dialogues import TextDialogue, TextDialogues
from sweetrl_agent.core.named import find_beside, where

if TYPE_CHECKING:
    from sweetrl_agent.core.critic import Critic
    from sweetrl_agent.core.episode import Episode, Messages

Demonstrations = list[list[dict[str, str]]]
#: Capability that an algorithm may require -> attribute of an environment that has it.
CAPABILITIES: Mapping[str, str] = {
    "hidden": "hidden_information", "snapshot": "get_state", "anchor": "state_key", "verifier": "score_answer", "pages": "page",
    "discrete_actions": "discrete_actions",
}  # fmt: skip
#: What messages call them.
CAPABILITY_NAMES: Mapping[str, str] = {
    "hidden": "hidden information (an attribute `hidden_information`)",
    "snapshot": "snapshots (methods `get_state` and `set_state`)",
    "anchor": "keys of its states (an attribute `state_key`)",
    "verifier": "a verifier (a method `score_answer`)",
    "pages": "pages (an attribute `page`)",
    "answer_prefix": "answers that begin with known words (`answer_prefix` of its record)",
    "discrete_actions": "discrete dialogue actions (an attribute `discrete_actions`)",
}
#: What a token of the tiny model's tokenizer may span: words, but not lines, numbers or sentences. A line of code or a stock phrase becomes a few.
PIECES = r"\n *|[0-9]+|[^\n0-9.?!]+[.?!]*|[.?!]+"
_SEEDS = re.compile(r"seeds:([0-9]{1,9})-([0-9]{1,9})(?:\[([0-9]{0,9}):([0-9]{0,9})\])?")
_MOST_SEEDS = 10_000_000
#: Turns of the episode that is played before a run, to see that one can be.
MOST_TRIED = 100
#: Settings whose defaults are others for an environment that is not ours.
GENERIC_DEFAULTS: Mapping[str, Any] = {
    "tasks": "seeds:0-999", "test_tasks": "seeds:1000000-1000099", "unseen_tasks": "", "min_best": -1e9, "tiny_vocab_size": 600,
    "credit_tasks": 0,
}  # fmt: skip


class TaskSettings(Protocol):
    """Settings of tasks, human and sandbox; `config.TaskArguments` says what each is."""

    env: str
    tasks: str
    max_turns: int
    on_error: str
    sandbox: str

    def keyword_arguments(self) -> dict[str, Any]:
        """More arguments of the environment."""
        ...

    def simulator_spec(self) -> Any:
        """The simulated human that is asked for."""
        ...


class Settings(Protocol):
    """All settings of a run (`config.Config`), of which a record reads those of tasks."""

    @property
    def task(self) -> TaskSettings:
        """Those of tasks."""
        ...


class Task(Protocol):
    """What an episode is about."""

    @property
    def id(self) -> str:
        """Its name, the same in every run."""
        ...


@dataclass(frozen=True)
class SeedTask:
    """A task of an environment that names none: what `reset(seed=seed)` begins."""

    seed: int

    @property
    def id(self) -> str:
        """The seed, in digits."""
        return str(self.seed)


class DialogueEnvs(Protocol):
    """Environments as `rollouts.play` steps them, each at its own pace.

    Each of `envs` has `reset(seed=, options={"task_id": ...})`, `prepare()` and the attributes `messages`, `hidden_information` ("" for none),
    `metrics` of the finished episode ("outcome", "success", "turns", "answered" and the record's metric) and `world_error`.
    """

    num_envs: int

    @property
    def envs(self) -> Sequence[Any]:
        """The environments."""
        ...

    def submit(self, i: int, action: str) -> Future[tuple[Any, float, bool, bool, dict[str, Any]]]:
        """Say one action in environment i: a future of what its `step` returns."""
        ...

    def close(self) -> Any:
        """Close all of them."""
        ...


class EnvironmentRecord:
    """What the trainer knows of an environment; as it stands, what holds for any text environment.

    Attributes:
        metric: Name of the number that tells better episodes from worse; any other than "return" is looked for in the last `info`, itself or
            its "metrics".
        defaults: Settings whose defaults are others than the main job's, and than `GENERIC_DEFAULTS`.
        success_means: When an episode is a success, for reports: "Success: {success_means}."
        waits: Its steps wait for others, such as a model server: they are played in threads.
        has_sandbox: It runs what the agent writes in a sandbox of ours.
        has_pages: Its answers are pages, which can be looked at.
        answer_prefix: What a message begins with that is an answer; "" where no message ends a dialogue by its words.
        simulators: Short names of simulated humans -> what `make_simulator` takes, for evaluation with several.
        pieces: Regular expression of what a token of the tiny model's tokenizer may span.
        max_token_length: Longest token of it, in bytes.
    """

    metric: ClassVar[str] = "return"
    defaults: ClassVar[Mapping[str, Any]] = {}
    success_means: ClassVar[str] = "the last info of the episode says so; where it says nothing, the return is above 0"
    waits: ClassVar[bool] = False
    has_sandbox: ClassVar[bool] = False
    has_pages: ClassVar[bool] = False
    answer_prefix: ClassVar[str] = ""
    simulators: ClassVar[Mapping[str, Any]] = {}
    pieces: ClassVar[str] = PIECES
    max_token_length: ClassVar[int] = 24

    def all_defaults(self) -> dict[str, Any]:
        """Settings whose defaults are others than the main job's."""
        return {**GENERIC_DEFAULTS, **self.defaults}

    # ---- tasks ---------------------------------------------------------------------------------------------------------

    def load_tasks(self, source: str, given: TaskSettings) -> tuple[Any, ...]:
        """The tasks that a name stands for: "seeds:0-999" for those of these seeds, both included.

        Args:
            source: The name, with or without a slice.
            given: The settings of tasks.

        Raises:
            ValueError: If it stands for none.
        """
        match = _SEEDS.fullmatch(source)
        if not match or not 0 <= int(match[2]) - int(match[1]) < _MOST_SEEDS:
            raise ValueError(
                f"Tasks of {given.env} are named by their seeds, such as 'seeds:0-999' or 'seeds:0-999[:50]', got {source!r}."
            )
        start, stop = (int(bound) if bound else None for bound in (match[3], match[4]))
        return tuple(SeedTask(seed) for seed in range(int(match[1]), int(match[2]) + 1)[start:stop])

    def full_name(self, source: str) -> str:
        """The name of a source of tasks with all that it stands for."""
        return source

    def note(self, sources: Mapping[str, str]) -> str:
        """What to say of a run's sources of tasks, by split, before it begins; "" for nothing."""
        return ""

    def task_row(self, task: Any) -> dict[str, Any]:
        """A task as it is stored with a collected episode; {} where its id says it all."""
        return {}

    def turn_limit(self, task: Any, given: TaskSettings) -> int | None:
        """Agent turns of an episode on a task at most; None where nobody knows."""
        return given.max_turns or None

    # ---- episodes ------------------------------------------------------------------------------------------------------

    def make(self, given: TaskSettings) -> gym.Env[Any, Any]:
        """The environment, by `gym.make` ("package.module:Name-v0" imports the module first).

        Raises:
            ValueError: If there is none of that name, it refuses its arguments, or its observations or actions are no texts.
        """
        find_beside()
        try:
            env = gym.make(given.env, **given.keyword_arguments())
        except (gym.error.Error, ImportError, TypeError) as error:
            raise ValueError(f"`env` {given.env!r} cannot be made: {error}") from None
        for what, space in (("observations", env.observation_space), ("actions", env.action_space)):
            if not isinstance(space, gym.spaces.Text):
                env.close()
                raise ValueError(
                    f"`env` {given.env!r} must have {what} that are texts (`gymnasium.spaces.Text`), got {space}; put a wrapper around it."
                )
        return env

    def environments(self, config: Settings, tasks: Sequence[Any], num_envs: int, simulator: Any = None) -> DialogueEnvs:
        """Environments over some tasks, for `rollouts.play`.

        Args:
            config: All settings.
            tasks: The tasks that will be asked for.
            num_envs: How many.
            simulator: Another simulated human than that of the settings; None for that one.
        """
        seeds = {task.id: task.seed for task in tasks}
        return TextDialogues(
            [TextDialogue(self.make(config.task), seeds, self.metric, config.task.max_turns) for _ in range(num_envs)],
            self.waits,
        )

    def measures(self, episode: Episode, task: Any) -> dict[str, Any]:
        """Further columns of an episode's row in `evaluation.jsonl`."""
        return {}

    def answer(self, text: str) -> str | None:
        """The answer in what the agent said; None where it hands none in."""
        return None

    def current_page(self, texts: Iterable[str]) -> str:
        """The page that is shown after the agent has said these; "" before the first, and where there are no pages."""
        return ""

    def transcript(self, messages: Messages, max_chars: int) -> str:
        """A dialogue as one text, as a model that judges it may read it.

        Args:
            messages: The dialogue.
            max_chars: Characters after the first message at most; what is left out is earliest.
        """
        raise NotImplementedError

    # ---- what else is known ---------------------------------------------------------------------------------------------

    def demonstrations(self, tasks: Sequence[Any], count: int, seed: int) -> Demonstrations:
        """Dialogues on tasks that teach a tiny model to converse; asked for where no file of them is given.

        Args:
            tasks: The training tasks.
            count: How many dialogues.
            seed: Of the run.
        """
        raise NotImplementedError

    def check_tiny(self, given: TaskSettings) -> None:
        """Refuse the tiny model where the record has no demonstrations for it.

        Raises:
            ValueError: If it has none for these tasks.
        """
        if type(self).demonstrations is EnvironmentRecord.demonstrations:
            raise ValueError(
                f"The tiny model learns to converse from dialogues, and none are known for {given.env}: give some by `--demonstrations FILE`, "
                "or a pretrained chat model by `--model`."
            )

    def capabilities(self, config: Settings) -> frozenset[str]:
        """What the environment can do, of `CAPABILITY_NAMES`."""
        with closing(self.make(config.task)) as env:
            bare = env.unwrapped
            found = {
                name
                for name, attribute in CAPABILITIES.items()
                if hasattr(type(bare), attribute) or hasattr(bare, attribute)  # a property may have no value before `reset`
            }
        return frozenset(found | ({"answer_prefix"} if self.answer_prefix else set()))

    def actions(self, config: Settings) -> DialogueActions:
        """The discrete dialogue actions of an environment that has them."""
        with closing(self.make(config.task)) as env:
            found: DialogueActions = env.unwrapped.discrete_actions  # type: ignore[attr-defined]
            return found

    @contextmanager
    def action_environments(
        self, config: Settings, tasks: Sequence[Any], num_envs: int
    ) -> Iterator[Sequence[gym.Env[Any, Any]]]:
        """Environments of discrete actions over some tasks, for training; closed at the end.

        Args:
            config: All settings.
            tasks: The tasks that are drawn from.
            num_envs: How many.
        """
        actions, seeds = self.actions(config), {task.id: task.seed for task in tasks}
        with ExitStack() as stack:
            yield [
                stack.enter_context(
                    closing(
                        DiscreteDialogue(
                            TextDialogue(self.make(config.task), seeds, self.metric, config.task.max_turns),
                            actions,
                            list(seeds),
                        )
                    )
                )
                for _ in range(num_envs)
            ]

    def check_actions(self, config: Settings) -> None:
        """Refuse tasks that its discrete actions are not made for.

        Raises:
            ValueError: Says which.
        """

    def has_exact_advantage(self, config: Settings) -> bool:
        """Whether the exact advantage of a turn is known for these tasks."""
        return False

    def open_oracle(self, name: str, config: Settings, tasks: Sequence[Any]) -> AbstractContextManager[Critic]:
        """A critic that knows the exact advantage; asked for where `has_exact_advantage`.

        Args:
            name: "exact", or "marginal" for what can be expected without the hidden information.
            config: All settings.
            tasks: All tasks that it will be asked about.
        """
        raise NotImplementedError

    def level(self, source: str) -> str:
        """How hard the tasks of a source are, in a word, for the axis of a chart."""
        return source

    def human_server(self, human: Any) -> tuple[str | None, str] | None:
        """Address of the server that a simulated human asks (None for OpenAI's), and the variable with its key; None without a server."""
        return None

    def check(self, config: Settings) -> None:
        """Refuse what no run could work with; where steps do not wait for others, one episode is played to see it.

        Raises:
            ValueError: If the environment cannot be made, a setting of it is wrong, or an episode of the first task fails.
        """
        with closing(self.make(config.task)) as env:
            if not self.waits:
                env.action_space.seed(0)
                self._try_an_episode(config, lambda: str(env.action_space.sample()))

    def _try_an_episode(self, config: Settings, act: Callable[[], str]) -> None:
        tasks = self.load_tasks(config.task.tasks, config.task)[:1]
        with closing(self.environments(config, tasks, 1)) as tried:
            try:
                tried.envs[0].reset(seed=0, options={"task_id": tasks[0].id})
                for _ in range(MOST_TRIED):
                    _, _, terminated, truncated, _ = tried.submit(0, act()).result()
                    if terminated or truncated:
                        break
            except Exception as error:  # an environment of somebody else's may fail in any way
                raise ValueError(
                    f"`env` {config.task.env!r} fails in an episode of random actions ({where(error)})."
                ) from error

    def make_simulator(self, spec: Any) -> Any:
        """The simulated human from what was asked for.

        Raises:
            ValueError: If the environment has none.
        """
        raise ValueError("This environment has no simulated human of ours: leave `simulator` out.")
