"""Environment records: what the trainer knows about an environment.

The trainer can train an agent in any Gymnasium environment with text observations and text actions. By default its observations are the user's
messages, the agent's actions are the assistant's, task i is `reset(seed=i)`, and the metric is the return. A record overrides these defaults: it is a
subclass of `EnvironmentRecord` in its own module, named by `--env_record my_package:RECORD`.

Capabilities of an environment are detected by its attributes. Hidden information has one source, the environment's
`hidden_information`: it is read before each turn and stored with the episode, once if it is the same for all turns.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import gymnasium as gym

import sandboxes
from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.trial import Act, Trial
from colbench_gym.generators import PrivateGenerators
from sandboxes.named import find_beside, where
from sweetrl_agent.core import contract
from sweetrl_agent.core.actions import DialogueActions, DiscreteDialogue
from sweetrl_agent.core.dialogues import DialogueEnvs, TextDialogue, TextDialogues
from sweetrl_agent.core.explanation import Explains
from sweetrl_agent.core.settings import is_file

if TYPE_CHECKING:
    from sweetrl_agent.core.critic import Critic
    from sweetrl_agent.core.episode import Episode, Messages

Demonstrations = list[list[dict[str, str]]]
#: Capability that an algorithm may require -> the environment's attribute that provides it.
CAPABILITIES: Mapping[str, str] = {
    "hidden": "hidden_information", "snapshot": "get_state", "anchor": "state_key", "verifier": "score_answer", "pages": "page",
    "discrete_actions": "discrete_actions", "redraw": "redraw_hidden",
}  # fmt: skip
#: Their names in messages.
CAPABILITY_NAMES: Mapping[str, str] = {
    "hidden": "hidden information (an attribute `hidden_information`)",
    "snapshot": "snapshots (methods `get_state` and `set_state`)",
    "anchor": "keys of its states (an attribute `state_key`)",
    "redraw": "new draws of what is hidden (a method `redraw_hidden`)",
    "alternatives": "alternatives to what is hidden (`alternatives` of its record)",
    "verifier": "a verifier (a method `score_answer`)",
    "pages": "pages (an attribute `page`)",
    "answer_prefix": "answers with a fixed prefix (`answer_prefix` of its record)",
    "discrete_actions": "discrete dialogue actions (an attribute `discrete_actions`)",
    "behaviour": "behaviour data with rewards (`behaviour_episodes` of its record, or episodes by `--demonstrations FILE`)",
}
#: Pre-tokenization of the tiny model's tokenizer: a token may span words, but not lines, numbers or sentences. A line of code or a stock phrase is a
#: few tokens.
PIECES = r"\n *|[0-9]+|[^\n0-9.?!]+[.?!]*|[.?!]+"
_SEEDS = re.compile(r"seeds:([0-9]{1,9})-([0-9]{1,9})(?:\[([0-9]{0,9}):([0-9]{0,9})\])?")
_MOST_SEEDS = 10_000_000
#: Defaults of settings for user-defined environments.
GENERIC_DEFAULTS: Mapping[str, Any] = {
    "tasks": "seeds:0-999", "test_tasks": "seeds:1000000-1000099", "unseen_tasks": "", "min_best": -1e9, "tiny_vocab_size": 600,
    "credit_tasks": 0,
}  # fmt: skip


@dataclass(frozen=True)
class SeedTask:
    """A task of an environment without named tasks: the episode that `reset(seed=seed)` starts."""

    seed: int

    @property
    def id(self) -> str:
        """The seed as decimal digits."""
        return str(self.seed)


class EnvironmentRecord(Explains):
    """What the trainer knows about an environment. The base class fits any text environment.

    Attributes:
        metric: Name of the metric, higher is better; any name other than "return" is looked up in the last `info` or in its
            "metrics".
        defaults: Defaults of settings that differ from the main job's and from `GENERIC_DEFAULTS`.
        pretrained_defaults: Further defaults with a pretrained model, such as `system_prompt`, which may contain example dialogues.
        success_means: Definition of success, for reports: "Success: {success_means}."
        waits: Its steps wait for other services, such as a model server; they are then played in threads, and in no trial episode.
        uses_global_generators: It may draw from the global generators of Python, NumPy or torch (`isolate_generators`).
        has_sandbox: It runs the agent's code in one of our sandboxes.
        has_pages: Its answers are web pages, which can be rendered.
        answer_prefix: Prefix of a message that is an answer; "" if the text of a message never ends a dialogue.
        simulators: Short names of simulated humans -> argument of `make_simulator`, for evaluation with several simulators.
        human_names: Names of simulated humans that `make_simulator` knows.
        hidden_noun: What the hidden information is, in one word, in the hint of a critic: "The {hidden_noun} that the person has in mind".
        pieces: Regular expression of the text that one token of the tiny model's tokenizer may span.
        max_token_length: Its longest token, in bytes.
    """

    metric: ClassVar[str] = "return"
    defaults: ClassVar[Mapping[str, Any]] = {}
    pretrained_defaults: ClassVar[Mapping[str, Any]] = {}
    success_means: ClassVar[str] = "the last info of the episode reports it or, without such a report, the return is above 0"
    waits: ClassVar[bool] = False
    uses_global_generators: ClassVar[bool] = True
    has_sandbox: ClassVar[bool] = False
    has_pages: ClassVar[bool] = False
    answer_prefix: ClassVar[str] = ""
    simulators: ClassVar[Mapping[str, Any]] = {}
    human_names: ClassVar[Sequence[str]] = ()
    hidden_noun: ClassVar[str] = "answer"
    pieces: ClassVar[str] = PIECES
    max_token_length: ClassVar[int] = 24

    def all_defaults(self, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Defaults of settings that differ from the main job's, with these keyword arguments of the environment."""
        return {**GENERIC_DEFAULTS, **self.defaults}

    def with_arguments(self, arguments: Mapping[str, Any]) -> Self:
        """The record of the environment with these keyword arguments; by default the same for all."""
        return self

    def with_hinted(self, share: float) -> Self:
        """The record with demonstrations of which a share is guided by the hidden information.

        Args:
            share: The share, from 0 to 1.

        Raises:
            ValueError: If the environment's demonstrations have no such share, as here.
        """
        raise ValueError(
            "`sft_hinted`: the demonstrations of this environment have no share that is guided by hidden information."
        )

    # ---- tasks ---------------------------------------------------------------------------------------------------------

    def load_tasks(self, source: str, given: Any) -> tuple[Any, ...]:
        """Load the tasks of a source: "seeds:0-999" gives one task per seed, both ends included.

        Args:
            source: Name of the source, with or without a slice.
            given: Any of tasks.

        Raises:
            ValueError: If the source is unknown.
        """
        match = _SEEDS.fullmatch(source)
        if not match or not 0 <= int(match[2]) - int(match[1]) < _MOST_SEEDS:
            raise ValueError(
                f"Tasks of {given.env} are given by seeds, such as 'seeds:0-999' or 'seeds:0-999[:50]', got {source!r}."
            )
        start, stop = (int(bound) if bound else None for bound in (match[3], match[4]))
        return tuple(SeedTask(seed) for seed in range(int(match[1]), int(match[2]) + 1)[start:stop])

    def full_name(self, source: str) -> str:
        """The full name of a source of tasks, with its defaults filled in."""
        return source

    def note(self, sources: Mapping[str, str]) -> str:
        """A note on a run's sources of tasks, by split, printed before the run starts; "" for none."""
        return ""

    def task_row(self, task: Any) -> dict[str, Any]:
        """A task as it is stored with a collected episode; {} if its id identifies it completely."""
        return {}

    def turn_limit(self, task: Any, given: Any) -> int | None:
        """Maximum number of agent turns of an episode on a task; None if unknown."""
        return given.max_turns or None

    # ---- episodes ------------------------------------------------------------------------------------------------------

    def make(self, given: Any) -> gym.Env[Any, Any]:
        """The environment, by `gym.make` ("package.module:Name-v0" imports the module first).

        Raises:
            ValueError: If no environment has that id, it refuses its arguments, or its observations or actions are not texts.
        """
        find_beside()
        try:
            env = gym.make(given.env, **given.keyword_arguments())
        except ColBenchError:
            raise
        except (gym.error.Error, ImportError, TypeError, ValueError) as error:
            raise ValueError(f"`env` {given.env!r} cannot be made: {error}") from None
        except Exception as error:  # an external environment may fail in any way
            raise ValueError(f"`env` {given.env!r} cannot be made ({where(error)}).") from error
        for what, name in (("observations", "observation_space"), ("actions", "action_space")):
            if not isinstance(space := getattr(env, name, None), gym.spaces.Text):
                env.close()
                raise ValueError(
                    f"`env` {given.env!r} must have text {what} (`gymnasium.spaces.Text`), got {space}; wrap it to convert them."
                )
        return env

    def environments(self, config: Any, tasks: Sequence[Any], num_envs: int, simulator: Any = None) -> DialogueEnvs:
        """Environments on the given tasks, for `rollouts.play`.

        Args:
            config: All settings.
            tasks: The tasks that will be played.
            num_envs: Number of environments.
            simulator: Simulated human to use; None for the one in the settings.
        """
        waits = self.waits and not self.isolates(config.task)  # a process has one state of its generators, whatever the thread
        return TextDialogues([self._dialogue(config, tasks) for _ in range(num_envs)], waits)

    def _dialogue(self, config: Any, tasks: Sequence[Any]) -> TextDialogue:
        given, seeds = config.task, {task.id: task.seed for task in tasks}
        if not self.isolates(given):
            return TextDialogue(self.make(given), seeds, self.metric, given.max_turns)
        generators = PrivateGenerators("environment")
        with generators.in_use():
            env = self.make(given)
        return TextDialogue(env, seeds, self.metric, given.max_turns, generators)

    def isolates(self, given: Any) -> bool:
        """Whether each dialogue has its own state of the global generators."""
        is_needed = self.uses_global_generators and not self.waits
        return given.isolate_generators == "true" or (given.isolate_generators == "auto" and is_needed)

    def measures(self, episode: Episode, task: Any) -> dict[str, Any]:
        """Further columns of an episode's row in `evaluation.jsonl`."""
        return {}

    def answer(self, text: str) -> str | None:
        """The answer in what the agent said, which holds no thoughts (`Turn.text`); None if it contains none."""
        return None

    def current_page(self, texts: Iterable[str]) -> str:
        """The page on display after these messages of the agent; "" before the first page, and for environments without pages."""
        return ""

    def transcript(self, messages: Messages, max_chars: int) -> str:
        """A dialogue as one text, for a model that judges it.

        Args:
            messages: The dialogue.
            max_chars: Maximum number of characters after the first message; the earliest are dropped.
        """
        raise NotImplementedError

    # ---- demonstrations, capabilities, oracles --------------------------------------------------------------------------

    def demonstrations(self, tasks: Sequence[Any], count: int, seed: int) -> Demonstrations:
        """Demonstrated dialogues for SFT of the tiny model, used if no file is given; by default those of `behaviour_episodes`.

        Args:
            tasks: The training tasks.
            count: Number of dialogues.
            seed: Seed of the run.
        """
        return [episode.messages for episode in self.behaviour_episodes(tasks, count, seed)]

    def behaviour_episodes(self, tasks: Sequence[Any], count: int, seed: int) -> list[Episode]:
        """Episodes of a behaviour policy with rewards and without tokens, for offline algorithms; arguments as `demonstrations`."""
        raise NotImplementedError

    def has_behaviour(self, given: Any) -> bool:
        """Whether there is behaviour data: of this record, or a file, whose rows are checked when they are read."""
        return type(self).behaviour_episodes is not EnvironmentRecord.behaviour_episodes or is_file(given.demonstrations)

    def pretrained_demonstrations(self, tasks: Sequence[Any], count: int, seed: int) -> Demonstrations:
        """As `demonstrations`, for SFT of a pretrained model, which needs fewer and other ones; by default the same."""
        return self.demonstrations(tasks, count, seed)

    def has_demonstrations(self, given: Any) -> bool:
        """Whether there are demonstrations for the training tasks of the settings."""
        methods = ("demonstrations", "behaviour_episodes")
        return any(getattr(type(self), method) is not getattr(EnvironmentRecord, method) for method in methods)

    def scripted_policy(self, name: str, config: Any) -> Any:
        """A scripted policy to compare with (a `core.policy.Policy`, or an `InformedPolicy`): "random" or "oracle"; None if it has none."""
        return None

    def check_tiny(self, given: Any) -> None:
        """Refuse the tiny model if the record has no demonstrations for its SFT.

        Raises:
            ValueError: If it has none for these tasks.
        """
        if not self.has_demonstrations(given):
            self.make(given).close()  # an environment that does not exist is refused for that
            raise ValueError(
                f"SFT of the tiny model needs demonstrations, and {given.env} has none: give a file by `--demonstrations FILE`, "
                "a record that has them by `--env_record`, or a pretrained chat model by `--model`."
            )

    def capabilities(self, config: Any) -> frozenset[str]:
        """The environment's capabilities, from `CAPABILITY_NAMES`."""
        with closing(self.make(config.task)) as env:
            capabilities = {name for name, attribute in CAPABILITIES.items() if contract.has(env.unwrapped, attribute)}
        kept = {
            "answer_prefix": bool(self.answer_prefix),
            "behaviour": self.has_behaviour(config.task),
            "alternatives": type(self).alternatives is not EnvironmentRecord.alternatives,
        }
        return frozenset(capabilities | {name for name, has_it in kept.items() if has_it})

    def agents(self, config: Any) -> tuple[str, ...]:
        """Names of the environment's agents, from its attribute `agents`; () if it does not name them."""
        with closing(self.make(config.task)) as env:
            return tuple(getattr(env.unwrapped, "agents", ()))

    def actions(self, config: Any) -> DialogueActions:
        """The discrete dialogue actions of an environment that supports them."""
        with closing(self.make(config.task)) as env:
            actions: DialogueActions = env.unwrapped.discrete_actions  # type: ignore[attr-defined]
            return actions

    @contextmanager
    def action_environments(self, config: Any, tasks: Sequence[Any], num_envs: int) -> Iterator[Sequence[gym.Env[Any, Any]]]:
        """Environments with discrete actions on the given tasks, for training; closed on exit. Their infos have the "messages" of the dialogue so far.

        Args:
            config: All settings.
            tasks: The tasks to draw from.
            num_envs: Number of environments.
        """
        actions, task_ids = self.actions(config), [task.id for task in tasks]
        with ExitStack() as stack:
            yield [
                stack.enter_context(closing(DiscreteDialogue(self._dialogue(config, tasks), actions, task_ids)))
                for _ in range(num_envs)
            ]

    def alternatives(self, hidden: str, tasks: Sequence[Any]) -> Sequence[str]:
        """What the hidden information of a task could have been instead, each with one thing that is different; () if that is not known.

        Args:
            hidden: The hidden information of one of the tasks.
            tasks: The tasks.
        """
        return ()

    def check_actions(self, config: Any) -> None:
        """Refuse tasks that its discrete actions do not cover.

        Raises:
            ValueError: Names the tasks.
        """

    def oracles(self, config: Any) -> Collection[str]:
        """Names of the oracles (`open_oracle`) of these tasks; none by default."""
        return ()

    def open_oracle(self, name: str, config: Any, tasks: Sequence[Any]) -> AbstractContextManager[Critic]:
        """An oracle of `oracles`: a critic that computes the exact advantage.

        Args:
            name: "exact", or "marginal" for its expectation without the hidden information.
            config: All settings.
            tasks: All tasks that it will be queried on.
        """
        raise NotImplementedError

    def level(self, source: str) -> str:
        """Difficulty of the tasks of a source, in one word, for the axis of a chart."""
        return source

    def human_server(self, human: Any) -> tuple[str | None, str] | None:
        """Address of a simulated human's model server (None for OpenAI's) and the environment variable with its key; None if it uses no server."""
        return None

    def check(self, config: Any) -> None:
        """Refuse settings that no run can work with.

        Raises:
            ValueError: If the environment cannot be made, or one of its settings is wrong.
        """
        self.make(config.task).close()

    def known_trial(self, config: Any) -> Trial | None:
        """What is known without a trial episode before a run (`rollouts.trial`); None if one is to be played."""
        return Trial(untried="its steps wait for other services") if self.waits else None

    def trial_agent(self, config: Any) -> Act | None:
        """Who speaks in the trial episode; None for demonstrations, or pieces of what the environment says itself."""
        return None

    def check_sandbox(self, spec: Any) -> None:
        """Refuse a sandbox that does not exist, by its name or mapping; raises the errors of `sandboxes.check_name`."""
        sandboxes.check_name(spec)

    def make_simulator(self, spec: Any) -> Any:
        """The simulated human of a specification.

        Raises:
            ValueError: If the environment has no simulated humans.
        """
        raise ValueError("This environment has no simulated humans to choose from: leave `simulator` out.")
