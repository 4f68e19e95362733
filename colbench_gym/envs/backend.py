"""ColBench-Backend-v0: write a Python function in a dialogue with a simulated human who knows what it should do."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import sandboxes
from colbench_gym.envs.colbench_env import ColBenchEnv, Metrics
from colbench_gym.errors import SandboxError, ScoringError
from colbench_gym.reasoning import AUTO
from colbench_gym.scoring.unit_tests import UNGRADABLE, UnitTests
from colbench_gym.simulators import Simulator
from colbench_gym.tasks import Task
from colbench_gym.tasks.rows import OnError
from sandboxes import Sandbox

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
    Characters beyond 2,000,000 are cut, and lone surrogates are replaced by U+FFFD. `colbench_gym.simulators.openai`
    documents which part of an utterance is sent to a language model that plays the human.

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
    ended the episode), "turns". The metrics of a void episode: "outcome" ("void"), "reason" (the kind of failure), "turns".

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
    * `reasoning`: how the agent's model marks its thoughts, which are no part of the dialogue and never graded: "auto" for all marks that are known, "none"
      for a model whose whole text is speech, or its own marks, such as "<plan> </plan>"; see `colbench_gym.reasoning`.
    * `render_mode`: "ansi" for the transcript.

    ## Version history
    * v0: first version.
    """

    metric = "tests_passed"
    success_means = "the answer passes every hidden test"

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
        self._grader = _Grader(sandbox, semantics, reasoning=reasoning)
        self._owns_grader = True

    def score_answer(self, text: str) -> Metrics:
        """Run the hidden tests on an answer (with or without a code fence) to the current task. The episode continues."""
        score = self.unit_tests.score(self.task, text)
        if score.outcome == UNGRADABLE:
            raise ScoringError(f"Task {self.task.id!r} cannot be graded: {score.reason}.")
        return {"success": score.success, "tests_passed": score.tests_passed, "outcome": score.outcome}

    @property
    def unit_tests(self) -> UnitTests:
        """The grader. The first access starts the sandbox."""
        return self._grader.started()

    @property
    def has_grader(self) -> bool:
        """True once answers can be graded without starting a sandbox."""
        return self._grader.has_started

    def prepare(self) -> None:
        """See `ColBenchEnv.prepare`; starts the sandbox."""
        self._grader.started()

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
        self,
        sandbox: str | Mapping[str, Any] | Sandbox,
        semantics: Literal["module", "released"],
        workers: int = 1,
        reasoning: str = AUTO,
    ) -> None:
        self.sandbox, self.semantics, self.workers, self.reasoning = sandbox, semantics, workers, reasoning
        self._lock = threading.Lock()
        self._own_sandbox: Sandbox | None = None
        self._unit_tests: UnitTests | None = None

    @property
    def has_started(self) -> bool:
        return self._unit_tests is not None

    def started(self) -> UnitTests:
        with self._lock:
            if self._unit_tests is None:
                sandbox = self.sandbox
                if not isinstance(sandbox, Sandbox):
                    try:
                        sandbox = self._own_sandbox = sandboxes.make(sandbox, workers=self.workers)
                    except sandboxes.SandboxError as error:
                        raise SandboxError(str(error)) from error
                self._unit_tests = UnitTests(sandbox, self.semantics, reasoning=self.reasoning)
            return self._unit_tests

    def close(self) -> None:
        with self._lock:
            if self._own_sandbox is not None:
                self._own_sandbox.close()
            self._own_sandbox = self._unit_tests = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.sandbox, self.semantics, self.workers, self.reasoning)
