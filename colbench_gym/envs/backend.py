"""ColBench-Backend-v0: write a Python function in a dialogue with a simulated human who knows what it should do."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np

import sandboxes
from colbench_gym.dialogue import Dialogue
from colbench_gym.envs.colbench_env import ColBenchEnv, Metrics
from colbench_gym.errors import ScoringError
from colbench_gym.outside_text import encodable
from colbench_gym.reasoning import AUTO
from colbench_gym.scoring.unit_tests import UNGRADABLE, UnitTests, public_outcome
from colbench_gym.simulators import Simulator
from colbench_gym.tasks import Task
from colbench_gym.tasks.dial import Dial
from colbench_gym.tasks.embedded import alternatives, dial_of, family_of, make_task, task_of
from colbench_gym.tasks.rows import OnError
from sandboxes import Sandbox
from sandboxes.arguments import typed
from sandboxes.sandbox import Semantics

MAX_REPLY_CHARS = 400


class BackendEnv(ColBenchEnv):
    """Write a Python function that passes 10 hidden tests, in a dialogue with a simulated human.

    ## Description
    The simulated human asks for a function and leaves the request vague. They know more than they say, so the agent should
    ask. Source: ColBench, arXiv:2503.15478, section 3.

    ## Observation
    Text: the transcript so far. `info["messages"]` holds the same as chat messages, ready for a chat template.

    ## Action
    Text: one utterance. ``I WANT TO ANSWER:`` starts the final answer, a Python program as a reader of Markdown would take it. Text
    before ``OUTPUT:`` and what a model thinks between ``<think>`` and ``</think>`` or other marks is the agent's private thought: the simulated human never sees it, and it is not in the next observation.
    `colbench_gym.scoring.message` has the rules of both markers, `colbench_gym.scoring.answer` that of the program.
    Characters beyond 2,000,000 are cut, and lone surrogates are replaced by U+FFFD. `colbench_gym.simulators.model.openai`
    documents which part of an utterance is sent to a language model that plays the human.

    `step_cut` is `step` for a message that the limit of tokens cut: an answer in it is not graded, and the outcome is "answer_cut".

    ## Reward
    0 before the last step. At the last step, with `reward="success"`: 1 if all tests pass, else 0. With
    `reward="tests_passed"`: the fraction of tests passed.

    ## Episode end
    *Terminated* by an answer, or by the turn limit; then the last message is graded as it is. *Truncated* only if something
    outside the agent's control failed (the simulator, the sandbox, or a reference that cannot be graded). Such an episode is
    void: its metrics have neither success nor tests_passed. The error is in the attribute `world_error` and not in `info`,
    because its text may quote hidden information. With `on_world_error="raise"` the `ColBenchError` is raised instead.

    ## Info
    "task_id" (a name that reveals no hidden information), "turn" (agent turns so far), "messages"; at the end "metrics":
    "success" (0/1), "tests_passed" (in [0, 1]), "outcome" ("passed", "wrong", "timeout", ...), "answered" (0 if the turn limit
    ended the episode), "turns"; "answer_cut" (1) where `step_cut` ended it. The metrics of a void episode: "outcome" ("void"), "reason" (the kind of failure), "turns".

    ## Arguments
    * `tasks`: "embedded:train" (or "test", "unseen", "novel"; with a dial: "embedded:train?preset=hard", see `colbench_gym.tasks.dial`),
      a path to rows (.jsonl, .json, .jsonl.gz, .parquet), "hub:OWNER/DATASET", or "package.module:function", each with an optional slice; or a sequence of tasks.
    * `simulator`: "scripted", "openai", "person", "package.module:Class", or a mapping with such a "name" and arguments; or a `Simulator`.
    * `sandbox`: "auto", "embedded", "docker", "package.module:Class", or a mapping with such a "name" and arguments (see
      `sandboxes.make`); or a `Sandbox`, which the caller has to close.
    * `semantics`: "module" or "released", see `colbench_gym.scoring.unit_tests`.
    * `reward`: "success" for 1 if all hidden tests pass, "tests_passed" for the fraction of tests passed.
    * `max_turns`: agent turns of an episode. None for the task's own budget, which the request of an embedded task states, or
      ten, as in the benchmark, if the task has none.
    * `max_reply_chars`: longer replies of the simulated human are cut. Default: 400, as in the benchmark.
    * `on_error`: "raise" an error for a row that is not a valid task, or "skip" it.
    * `on_world_error`: "void" an episode in which the simulator or the sandbox failed (`env.unwrapped.world_error` then holds the
      error), or "raise" the error.
    * `reasoning`: how the agent's model marks its thoughts, which are not part of the dialogue and never graded: "auto" for all known marks, "none"
      for a model whose whole text is speech, or its own marks, such as "<plan> </plan>"; see `colbench_gym.reasoning`.
    * `render_mode`: "ansi" for the transcript.
    """

    metric = "tests_passed"
    success_means = "the answer passes every hidden test"

    @typed
    def __init__(
        self,
        tasks: str | Sequence[Task] = "embedded:train",
        simulator: str | Mapping[str, Any] | Simulator = "scripted",
        sandbox: str | Mapping[str, Any] | Sandbox = "auto",
        semantics: Literal["module", "released"] = "module",
        reward: Literal["success", "tests_passed"] = "success",
        max_turns: int | None = None,
        max_reply_chars: int = MAX_REPLY_CHARS,
        on_error: OnError = "raise",
        on_world_error: Literal["void", "raise"] = "void",
        render_mode: str | None = None,
        reasoning: str = AUTO,
    ) -> None:
        """Build the environment. The class documents the arguments. The sandbox starts with the first answer."""
        if reward not in ("success", "tests_passed"):
            raise ValueError(f"`reward` must be 'success' or 'tests_passed', got {reward!r}.")
        if semantics not in ("module", "released"):
            raise ValueError(f"`semantics` must be 'module' or 'released', got {semantics!r}.")
        if not isinstance(sandbox, Sandbox):
            sandboxes.check_name(sandbox)
        super().__init__(tasks, simulator, max_turns, max_reply_chars, on_error, on_world_error, render_mode, reasoning)
        self.sandbox, self.semantics, self.reward = sandbox, semantics, reward
        self._grader = _Grader(sandbox, semantics, reasoning)
        self._owns_grader = True

    def score_answer(self, text: str) -> Metrics:
        """Run the hidden tests on an answer (with or without a code fence) to the current task. The episode continues."""
        score = self.unit_tests.score(self.task, text)
        if score.outcome == UNGRADABLE:
            raise ScoringError(f"Task {self.task.id!r} cannot be graded: {score.reason}.")
        return {"success": score.success, "tests_passed": score.tests_passed, "outcome": public_outcome(score.outcome)}

    @property
    def unit_tests(self) -> UnitTests:
        """The grader. The first access starts the sandbox."""
        return self._grader.started()

    def prepare(self) -> None:
        """See `ColBenchEnv.prepare`; starts the sandbox."""
        self._grader.started()

    @property
    def discrete_actions(self) -> Any:
        """The menu of its tasks for `wrappers.DiscreteActions`: questions about the topics of their dial, and an answer from the replies.

        Raises:
            AttributeError: If the tasks are not embedded tasks of one dial.
        """
        from colbench_gym.wrappers.question_actions import QuestionActions

        is_embedded = all(task.id.startswith("embedded/") for task in self.tasks)
        dials = {dial_of(task) for task in self.tasks} if is_embedded else set[Dial]()
        if len(dials) != 1:
            raise AttributeError('Discrete actions are made for embedded tasks of one dial, such as tasks="embedded:train".')
        return QuestionActions(*dials)

    def redraw_hidden(self, seed: int) -> None:
        """Go on with another task of the family, on an embedded task (capability *redraw*).

        It is drawn from the tasks of the family, dial and split (`tasks.embedded.alternatives`) that agree with the dialogue: whose facts that the human
        has stated are the same and, with a human whose replies depend on task and dialogue alone, for which it would have said the same.

        Args:
            seed: Seed of the draw.

        Raises:
            ValueError: If the task is not an embedded task.
        """
        (family, choice), dial = family_of(self.task), dial_of(self.task)
        stated = [i for i, fact in enumerate(self.task.hidden.facts) if any(fact.sentence in reply for reply in self.replies)]
        agreeing = [other for other in alternatives(self.task) if all(other[i] == choice[i] for i in stated)]
        for place in np.random.default_rng(seed).permutation(len(agreeing)):
            other = self._with_limit(make_task(family, agreeing[place], dial))
            if agreeing[place] == choice or self._agrees(other):
                self._task = other
                return

    def _agrees(self, task: Task) -> bool:
        """Whether the episode so far may be one of another task."""
        return self._says_the_same(task, self._dialogue)

    def _says_the_same(self, task: Task, dialogue: Dialogue) -> bool:
        """Whether the human would have given the replies of a dialogue on another task; true if that cannot be known."""
        if not self.simulator.is_deterministic or self.simulator.model:
            return True
        messages = dialogue.messages
        return all(
            encodable(self._reply(task, Dialogue(messages[:i]), 0)[: self.max_reply_chars]) == message.content
            for i, message in enumerate(messages)
            if i and message.role == "user"
        )

    def _task_of(self, task_id: str) -> Task:
        return super()._task_of(task_id) if task_id in self._index else self._with_limit(task_of(task_id))

    def share(self, other: Self, workers: int) -> None:
        """See `ColBenchEnv.share`; also shares the processes of the sandbox and the cached results of the references."""
        super().share(other, workers)
        self._grader, self._owns_grader = other._grader, other is self
        self._grader.workers = workers

    def close(self) -> None:
        """End the processes of the sandbox and of the simulator if this environment owns them. A second call does nothing."""
        super().close()
        if self._owns_grader:
            self._grader.close()

    def _reward(self, metrics: Metrics) -> float:
        return float(metrics[self.reward])


class _Grader:
    """Unit tests in a sandbox that starts with the first answer. A pickled copy starts a sandbox of its own."""

    def __init__(
        self, sandbox: str | Mapping[str, Any] | Sandbox, semantics: Semantics, reasoning: str, workers: int = 1
    ) -> None:
        self.sandbox, self.semantics, self.reasoning, self.workers = sandbox, semantics, reasoning, workers
        self._lock = threading.Lock()
        self._unit_tests: UnitTests | None = None

    def started(self) -> UnitTests:
        with self._lock:
            if self._unit_tests is None:
                given = self.sandbox
                sandbox = given if isinstance(given, Sandbox) else sandboxes.make(given, workers=self.workers)
                self._unit_tests = UnitTests(sandbox, self.semantics, reasoning=self.reasoning)
            return self._unit_tests

    def close(self) -> None:
        with self._lock:
            if self._unit_tests is not None and not isinstance(self.sandbox, Sandbox):
                self._unit_tests.sandbox.close()
            self._unit_tests = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.sandbox, self.semantics, self.reasoning, self.workers)
