"""The base class of the ColBench environments: an episode is a dialogue that ends with an answer, which is scored.

This module implements the dialogue and its protocol, snapshots and void episodes, and keeps hidden information away from the
agent. A subclass defines how an answer is scored and adds its own capabilities.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self

import gymnasium as gym

from colbench_gym.dialogue import Dialogue
from colbench_gym.errors import ColBenchError, CostError, RenderModeError
from colbench_gym.generators import PrivateGenerators
from colbench_gym.outside_text import encodable
from colbench_gym.reasoning import AUTO, Reasoning
from colbench_gym.scoring.answer import AgentMessage, parse_message
from colbench_gym.simulators import Simulator
from colbench_gym.simulators import make as make_simulator
from colbench_gym.spaces import UnicodeText
from colbench_gym.tasks import Task, load_tasks
from colbench_gym.tasks.rows import OnError
from colbench_gym.tasks.task import PublicTask

VOID = "void"
#: Outcome of an episode whose answer was cut by the limit of tokens, and the metric that counts it.
ANSWER_CUT = "answer_cut"
#: Agent turns of an episode if neither the task nor the user sets a number. Source: ColBench.
MAX_TURNS = 10
#: Longer actions are cut to this number of characters: twice the largest page, so that a page that is too large is still detected.
MAX_ACTION_CHARS = 2_000_000
Metrics = dict[str, Any]
_SEED_RANGE = 2**31
_NO_LIMIT = 2**63


def turn_limit(task: PublicTask, max_turns: int | None = None) -> int:
    """Agent turns of an episode on a task: `max_turns` if it is given, else the task's own budget, else `MAX_TURNS`."""
    return max_turns or task.turns or MAX_TURNS


class ColBenchEnv(gym.Env[str, str]):
    """An agent talks with a simulated human for as many turns as the task allows; then its answer is scored.

    `colbench_gym.envs.backend.BackendEnv` has the manual.

    Attributes:
        metric: Name of the metric that tells better answers from worse, in [0, 1].
        success_means: When an episode is a success, in words.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}
    metric: str
    success_means: str

    def __init__(
        self,
        tasks: str | Sequence[Task],
        simulator: str | Mapping[str, Any] | Simulator,
        max_turns: int | None,
        max_reply_chars: int,
        on_error: OnError,
        on_world_error: Literal["void", "raise"],
        render_mode: str | None,
        reasoning: str = AUTO,
    ) -> None:
        """Check the arguments and load the tasks."""
        if max_turns is not None and max_turns < 1:
            raise ValueError(f"`max_turns` must be positive, or None for the task's own budget, got {max_turns!r}.")
        if max_reply_chars < 1:
            raise ValueError(f"`max_reply_chars` must be positive, got {max_reply_chars!r}.")
        if on_world_error not in ("void", "raise"):
            raise ValueError(f"`on_world_error` must be 'void' or 'raise', got {on_world_error!r}.")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise RenderModeError(f"`render_mode` must be None or one of {self.metadata['render_modes']}, got {render_mode!r}.")
        self._reasoning, self._is_cut = Reasoning(reasoning), False
        self.tasks = self.load_tasks(tasks, on_error)
        self.simulator = self._make_simulator(simulator)
        self._owns_simulator = not isinstance(simulator, Simulator)
        self.max_turns, self.max_reply_chars, self.on_world_error = max_turns, max_reply_chars, on_world_error
        self.render_mode = render_mode
        self.observation_space = UnicodeText(max_length=_NO_LIMIT)  # a whole dialogue
        self.action_space = UnicodeText(max_length=MAX_ACTION_CHARS)
        self._task: Task | None = None
        self._dialogue = Dialogue()
        self._metrics: Metrics | None = None
        #: The error that voided the most recent void episode, if any. Its text may quote hidden information: for people and logs only.
        self.world_error: ColBenchError | None = None
        self._human_tokens: tuple[int, int] | None = None
        #: Held while the human replies, if it is isolated (`isolate_human`).
        self._human_lock: threading.Lock | None = None

    @cached_property
    def _index(self) -> dict[str, int]:
        """Position of each task by its id and by its public id. Built on first use, so that environments that share tasks share it."""
        return {name: i for i, task in enumerate(self.tasks) for name in (task.id, task.public_id)}

    # ---- what a subclass defines --------------------------------------------------------------------------------------

    @staticmethod
    def load_tasks(source: str | Sequence[Task], on_error: OnError = "raise") -> tuple[Task, ...]:
        """Load the tasks of a source, in the format of this environment."""
        return load_tasks(source, on_error)

    def _make_simulator(self, spec: str | Mapping[str, Any] | Simulator) -> Simulator:
        return make_simulator(spec)

    @abstractmethod
    def score_answer(self, text: str) -> Metrics:
        """Score an answer to the current task without ending the episode (capability *verifier*).

        Returns:
            Metrics of the answer: at least "outcome" and "success".

        Raises:
            ColBenchError: If something outside the agent's control failed.
        """

    @abstractmethod
    def _reward(self, metrics: Metrics) -> float:
        """The reward of a finished episode with the given metrics."""

    # ---- Gymnasium ----------------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode on the task of ``options={"task_id": ...}`` (from `info`, or a `Task.id`), or on a randomly drawn one.

        Raises:
            ValueError: If an option or the task is unknown.
        """
        super().reset(seed=seed)
        options = options or {}
        unknown = set(options) - {"task_id"}
        if unknown:
            raise ValueError(f"`options` may hold 'task_id', got {sorted(unknown)!r}.")
        task_id = options.get("task_id")
        if task_id is None:
            self._begin(self._take(int(self.np_random.integers(len(self.tasks)))))
        elif task_id in self._index:
            self._begin(self._take(self._index[task_id]))
        else:
            raise ValueError(f"`task_id` must be the id of one of the {len(self.tasks)} tasks, got {task_id!r}.")
        self._human_tokens = (0, 0) if self.simulator.model else None
        return self._observation(), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say `action` to the simulated human. With the answer marker, or in the last turn, it is the answer and ends the episode.

        Characters beyond `MAX_ACTION_CHARS` are cut. Lone surrogates, which files and servers do not accept, are replaced by U+FFFD,
        both in the action and in the reply.

        Raises:
            TypeError: If the action is not a string.
            RuntimeError: If no episode is under way.
            ColBenchError: With on_world_error="raise", if something outside the agent's control failed. The episode is then in
                its state before the step, and the step can be repeated.
        """
        if not isinstance(action, str):
            raise TypeError(f"`action` must be a string, got {type(action).__name__}; the action is the agent's utterance.")
        if self._task is None or self._metrics is not None:
            raise RuntimeError("Expected an episode under way; call `reset` before `step`.")
        message = self.parsed(action)
        dialogue_before, rng_before = self._dialogue, self.np_random.bit_generator.state
        self._dialogue = self._dialogue.add("assistant", message.utterance)
        is_last = self._dialogue.num_turns >= self.turn_limit
        try:
            if message.answer is not None or is_last:
                return self._finish(message)
            reply = self._ask(self._task)
            self._count_human_tokens()
        except ColBenchError as error:
            if self.on_world_error == "raise" or isinstance(error, CostError):
                self._dialogue, self.np_random.bit_generator.state = dialogue_before, rng_before
                raise
            return self._void(error)
        self._dialogue = self._dialogue.add("user", encodable(reply[: self.max_reply_chars]))
        return self._observation(), 0.0, False, False, self._info()

    def step_cut(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """As `step`, of a message that was cut by the limit of tokens (capability *cut*): it is heard as far as it goes, and no answer.

        Where it would end the episode, what would be graded is not whole. The episode is then a failure with outcome "answer_cut", and its metrics have
        "answer_cut": 1.
        """
        self._is_cut = True
        try:
            return self.step(action)
        finally:
            self._is_cut = False

    def parsed(self, action: str) -> AgentMessage:
        """The parts of an action: its thought, what the simulated human hears, and its answer."""
        return parse_message(encodable(str(action[:MAX_ACTION_CHARS])), self._reasoning.setting)  # a plain string, not numpy's

    def share(self, other: Self, workers: int) -> None:
        """Use the tasks, the simulator and the grader of another environment, which stays responsible for closing them.

        Args:
            other: An environment made with the same arguments. The environment that owns the shared objects passes itself.
            workers: Number of grading processes for all of them, if none has started yet.
        """
        if other is not self:
            self.tasks, self._index = other.tasks, other._index
            if self._owns_simulator:
                self.simulator.close()
            self.simulator, self._owns_simulator = other.simulator, False

    def prepare(self) -> None:
        """Start the grader if it has not started, so that a missing one is reported before many episodes begin.

        Raises:
            ColBenchError: If the grader cannot be started.
        """

    def close(self) -> None:
        """Close the simulator if this environment owns it. A second call does nothing."""
        if self._owns_simulator:
            self.simulator.close()

    def render(self) -> str | None:
        """The transcript, with render_mode="ansi"."""
        return self._observation() if self.render_mode == "ansi" else None

    # ---- capabilities beyond Gymnasium --------------------------------------------------------------------------------

    @property
    def task(self) -> Task:
        """The task of the episode with its hidden information: for simulators, graders and reports, never for an actor."""
        if self._task is None:
            raise RuntimeError("Expected an episode; call `reset` first.")
        return self._task

    @property
    def task_or_none(self) -> Task | None:
        """The task of the episode; None before the first `reset`."""
        return self._task

    @property
    def turn_limit(self) -> int:
        """Agent turns of the episode; see the function of the same name."""
        return turn_limit(self.task, self.max_turns)

    @property
    def messages(self) -> list[dict[str, str]]:
        """The dialogue so far as chat messages: everything that an actor may see."""
        return self._dialogue.to_dicts()

    @property
    def num_turns(self) -> int:
        """Agent turns so far."""
        return self._dialogue.num_turns

    @property
    def replies(self) -> list[str]:
        """What the human has said so far, without the request."""
        return [message.content for message in self._dialogue.messages[1:] if message.role == "user"]

    @property
    def metrics(self) -> Metrics:
        """Metrics of the finished episode, with `human_usage`; {} before its end."""
        return {} if self._metrics is None else {**self._metrics, **self.human_usage}

    @property
    def human_usage(self) -> dict[str, int]:
        """Tokens so far of the model that plays the human, "human_prompt_tokens" and "human_generated_tokens"; {} if they are unknown.

        They are for the cost of an evaluation and not in `info`: the first depends on the length of the hidden reference.
        """
        if self._human_tokens is None:
            return {}
        return {"human_prompt_tokens": self._human_tokens[0], "human_generated_tokens": self._human_tokens[1]}

    @property
    def hidden_information(self) -> str:
        """Privileged information: a critic may use it in training, an actor never (capability *hidden*).

        It is the row's `hidden_information` if the task was read from a row that has one, else the reference.
        """
        return str(self.task.hidden.row.get("hidden_information") or self.task.hidden.reference)

    @property
    def reference(self) -> str:
        """The task's program or page: what an oracle hands in."""
        return self.task.hidden.reference

    @property
    def state_key(self) -> tuple[str, int, tuple[int | str, ...]]:
        """A hashable key of the agent's knowledge: task, turn and what the human has said (capability *anchor*).

        The last part holds the numbers of the facts that the human has stated so far. For a task without facts, it holds the
        distinct replies in alphabetical order.
        """
        heard, facts = self.replies, self.task.hidden.facts
        stated: tuple[int | str, ...] = tuple(i for i, fact in enumerate(facts) if any(fact.sentence in text for text in heard))
        return self.task.id, self.num_turns, stated if facts else tuple(sorted(set(heard)))

    def get_state(self) -> dict[str, Any]:
        """A JSON-serializable snapshot of the episode, without hidden information (capability *snapshot*)."""
        return {
            "task_id": self.task.id,
            "messages": self._dialogue.to_dicts(),
            "metrics": None if self._metrics is None else dict(self._metrics),
            "rng": self.np_random.bit_generator.state,
            **({} if self.task.id in self._index else {"redrawn": True}),
        }

    def set_state(self, state: Mapping[str, Any], reseed: int | None = None) -> tuple[str, dict[str, Any]]:
        """Return to a snapshot.

        Args:
            state: A value of `get_state`, of this environment or of another one over the same tasks.
            reseed: None replays the future exactly; a seed keeps the past and samples a new future.

        Returns:
            Observation and info of the restored state.
        """
        if state["task_id"] not in self._index and not state.get("redrawn"):
            raise ValueError(f"The snapshot is of task {state['task_id']!r}, which is not among this environment's tasks.")
        super().reset(seed=reseed)
        if reseed is None:
            self.np_random.bit_generator.state = state["rng"]
        self._task = self._task_of(state["task_id"])
        self._dialogue = Dialogue.from_dicts(state["messages"])
        self._metrics = None if state["metrics"] is None else dict(state["metrics"])
        return self._observation(), self._info()

    # ---- internals ----------------------------------------------------------------------------------------------------

    def _begin(self, task: Task) -> None:
        """Start an episode on a task."""
        self._task, self._metrics = task, None
        self._dialogue = Dialogue().add("user", task.description)

    def _ask(self, task: Task) -> str:
        """The simulated human's reply to the dialogue so far."""
        return self._reply(task, self._dialogue, int(self.np_random.integers(_SEED_RANGE)))

    def _reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        if self._human_lock is None:
            reply = self.simulator.reply(task, dialogue, seed)
        else:
            with self._human_lock, PrivateGenerators("reply", seed).in_use():
                reply = self.simulator.reply(task, dialogue, seed)
        if not isinstance(reply, str):
            kind = type(self.simulator).__name__
            raise TypeError(f"`reply` of the simulator {kind!r} must return a text, got {type(reply).__name__}.")
        return reply

    def _count_human_tokens(self) -> None:
        usage = self.simulator.last_usage()
        if self._human_tokens is not None:
            self._human_tokens = usage and (self._human_tokens[0] + usage[0], self._human_tokens[1] + usage[1])

    def _take(self, place: int) -> Task:
        return self._with_limit(self.tasks[place])

    def _with_limit(self, task: Task) -> Task:
        """A task. Its request states `max_turns` if that argument was given."""
        return task.with_turns(self.max_turns) if self.max_turns else task

    def _task_of(self, task_id: str) -> Task:
        """The task of a snapshot."""
        return self._take(self._index[task_id])

    def _finish(self, message: AgentMessage) -> tuple[str, float, bool, bool, dict[str, Any]]:
        answered = message.answer is not None
        cut = {"success": 0, self.metric: 0.0, "outcome": ANSWER_CUT, ANSWER_CUT: 1}
        metrics = cut if self._is_cut else self._score_last(message)
        self._metrics = {**metrics, "answered": int(answered), "turns": self.num_turns}
        return self._observation(), self._reward(self._metrics), True, False, self._info()

    def _score_last(self, message: AgentMessage) -> Metrics:
        """Metrics of the message that ended the episode. The dialogue already holds this message."""
        return self.score_answer(message.answer if message.answer is not None else message.utterance)

    def _void(self, error: ColBenchError) -> tuple[str, float, bool, bool, dict[str, Any]]:
        # The error text stays out of `info`: a server's error may echo its prompt, a grader's error quotes the hidden tests.
        reason = f"{type(error).__name__}: the episode has no score; `env.unwrapped.world_error` says why."
        self.world_error = error
        self._metrics = {"outcome": VOID, "reason": reason, "turns": self.num_turns}
        return self._observation(), 0.0, False, True, self._info()

    def _observation(self) -> str:
        return Dialogue.from_dicts(self.messages).transcript()

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {
            "task_id": self.task.public_id,
            "turn": self.num_turns,
            "messages": self.messages,
        }
        if self._metrics is not None:
            info["metrics"] = dict(self._metrics)
        return info
