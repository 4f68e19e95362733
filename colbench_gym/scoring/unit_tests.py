"""Hidden unit tests: an answer passes a test where its value equals the reference's.

Reference and answer run in the sandbox, never together; values are compared here, as data. What a reference returns is
computed once and kept.

Two semantics:
    module: the program is a module, as a Python programmer expects: imports, helpers and recursion work. NaN equals NaN.
    released: the verdicts of ColBench's released grader, for comparison with published numbers: local scope, its list of
        forbidden words, its cutting of fences, and no test passed where the reference gives None.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from colbench_gym.errors import SandboxError
from colbench_gym.scoring.answer import extract_program, extract_program_released
from colbench_gym.tasks.task import Task
from sandboxes import CallResult, ExecutionResult, Limits, Outcome, Program, Sandbox
from sandboxes import SandboxError as SandboxFailure
from sandboxes.sandbox import Semantics
from sandboxes.values import equal

PASSED, WRONG, UNGRADABLE = "passed", "wrong", "ungradable"
RELEASED_FORBIDDEN = (
    "import os", "from os", "import sys", "from sys", "sudo", "transformers", "exit(", "quit(", "argparse",
)  # fmt: skip


@dataclass(frozen=True)
class Score:
    """Verdict on one answer.

    Attributes:
        tests_passed: Fraction of the hidden tests passed, in [0, 1].
        success: 1 where all are passed, else 0.
        outcome: "passed", "wrong", "ungradable" (the reference itself fails, so no verdict), or what went wrong with most of
            the tests not passed: "timeout", "memory", "forbidden", "crash", "no_answer", "exception:TypeError", ...
        calls: "passed", "wrong" or the outcome of each call.
        reason: Where ungradable, which call of the reference failed and how; else "".
    """

    tests_passed: float
    success: int
    outcome: str
    calls: tuple[str, ...]
    reason: str = ""


class UnitTests:
    """Grades answers to tasks in a sandbox. Safe to call from several threads."""

    def __init__(self, sandbox: Sandbox, semantics: Semantics = "module", limits: Limits | None = None) -> None:
        """Grade in `sandbox` under the given semantics and limits."""
        if semantics not in ("module", "released"):
            raise ValueError(f"`semantics` must be 'module' or 'released', got {semantics!r}.")
        self.sandbox, self.semantics, self.limits = sandbox, semantics, limits or Limits()
        self._references: dict[tuple[str, tuple[str, ...]], ExecutionResult] = {}
        self._lock = threading.Lock()

    def score(self, task: Task, answer: str | None) -> Score:
        """Grade one answer; None is an answer never given."""
        return self.score_many([(task, answer)])[0]

    def score_many(self, answers: Sequence[tuple[Task, str | None]]) -> list[Score]:
        """Grade a batch of (task, answer), the verdicts in the same order.

        Raises:
            SandboxError: If the sandbox itself failed; never because of what a program did.
        """
        references = self._reference_results([task for task, _ in answers])
        programs = [self._program(task, answer) for task, answer in answers]
        results = iter(self._run([program for program in programs if program is not None]))
        return [
            self._verdict(task, reference, next(results) if program is not None else None, answer)
            for (task, answer), reference, program in zip(answers, references, programs, strict=True)
        ]

    def _program(self, task: Task, answer: str | None) -> Program | None:
        if answer is None or not answer.strip():
            return None
        if self.semantics == "released":
            if any(word in answer for word in RELEASED_FORBIDDEN):
                return None
            source = extract_program_released(answer)
        else:
            source = extract_program(answer)
        return Program(source, task.hidden.calls, self.limits, self.semantics)

    def _reference_results(self, tasks: Sequence[Task]) -> list[ExecutionResult]:
        keys = [(task.hidden.reference, task.hidden.calls) for task in tasks]
        with self._lock:
            missing = list(dict.fromkeys(key for key in keys if key not in self._references))
        found = self._run([Program(source, calls, self.limits, self.semantics) for source, calls in missing])
        with self._lock:
            self._references.update(zip(missing, found, strict=True))
            return [self._references[key] for key in keys]

    def _run(self, programs: Sequence[Program]) -> list[ExecutionResult]:
        if not programs:
            return []
        try:
            return self.sandbox.run(programs)
        except SandboxFailure as error:
            raise SandboxError(f"The sandbox failed while grading: {error}") from error

    def _verdict(self, task: Task, reference: ExecutionResult, result: ExecutionResult | None, answer: str | None) -> Score:
        num_calls = len(task.hidden.calls)
        if self.semantics == "module":
            reason = _reference_failure(task, reference)
            if reason:
                return Score(0.0, 0, UNGRADABLE, (UNGRADABLE,) * num_calls, reason)
        if result is None:
            outcome = "no_answer" if answer is None or not answer.strip() else "forbidden"
            return Score(0.0, 0, outcome, (outcome,) * num_calls)
        calls = tuple(
            self._call_verdict(expected, got) for expected, got in zip(reference.calls, result.calls, strict=True)
        )
        passed = calls.count(PASSED)
        failures = Counter(call for call in calls if call != PASSED)
        outcome = failures.most_common(1)[0][0] if failures else PASSED
        return Score(passed / num_calls, int(passed == num_calls), outcome, calls)

    def _call_verdict(self, expected: CallResult, got: CallResult) -> str:
        if got.outcome is not Outcome.OK:
            return f"exception:{got.error}" if got.outcome is Outcome.EXCEPTION else got.outcome.value
        if self.semantics == "released":
            # The released grader turns a failed reference into None and lets None pass nothing.
            is_equal = expected.outcome is Outcome.OK and expected.value is not None and equal(expected.value, got.value)
        else:
            is_equal = equal(expected.value, got.value, nan_equal=True)
        return PASSED if is_equal else WRONG


def _reference_failure(task: Task, reference: ExecutionResult) -> str:
    for call, result in zip(task.hidden.calls, reference.calls, strict=True):
        if result.outcome is not Outcome.OK:
            how: Any = result.error or result.outcome.value
            return f"the reference gives no value for {call!r}: {how}"
    return ""
