"""Hidden unit tests: an answer passes a test where its value equals the reference's.

Reference and answer run in the sandbox, never together; values are compared here, as data. What a reference returns is
computed once and its fingerprint kept, and the same answer to the same task is run once.

Two semantics:
    module: the program is a module, as a Python programmer expects: imports, helpers and recursion work. NaN equals NaN.
    released: the verdicts of ColBench's released grader, for comparison with published numbers: local scope, its list of
        forbidden words, its cutting of fences, and no test passed where the reference gives None.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from colbench_gym.errors import SandboxError
from colbench_gym.scoring.answer import extract_program, extract_program_released
from colbench_gym.tasks.task import Task
from sandboxes import CallResult, ExecutionResult, Limits, Outcome, Program, Sandbox
from sandboxes import SandboxError as SandboxFailure
from sandboxes.sandbox import Semantics
from sandboxes.values import MalformedValue, canonical

CACHED_REFERENCES = 20_000
CACHED_SCORES = 100_000
PASSED, WRONG, UNGRADABLE = "passed", "wrong", "ungradable"
#: Outcomes that a busy machine may cause, so that they say nothing of the next run.
_PASSING = {Outcome.TIMEOUT.value, Outcome.MEMORY.value, Outcome.CRASH.value}
_GENERATORS = (("random", ""), ("numpy", ".random"))
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
        reason: Where the reference is not gradable, which of its calls has no value that can be compared, and why; else "".
            Quotes the hidden tests, so it is not for actors.
    """

    tests_passed: float
    success: int
    outcome: str
    calls: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True)
class Expected:
    """What a reference returns.

    Attributes:
        fingerprints: Hash of the value of each call; "" for a call that no answer can pass.
        reason: Why the task is not gradable; "" where it is.
    """

    fingerprints: tuple[str, ...]
    reason: str


class UnitTests:
    """Grades answers to tasks in a sandbox. Safe to call from several threads.

    A reference is gradable if every call gives a value that leaves the sandbox, and twice the same: it runs in two processes,
    the second time with its calls in reverse and another random seed, so that values that depend on the clock, on memory
    addresses or on unseeded random numbers are found out.
    """

    def __init__(self, sandbox: Sandbox, semantics: Semantics = "module", limits: Limits | None = None) -> None:
        """Grade in `sandbox` under the given semantics and limits."""
        if semantics not in ("module", "released"):
            raise ValueError(f"`semantics` must be 'module' or 'released', got {semantics!r}.")
        self.sandbox, self.semantics, self.limits = sandbox, semantics, limits or Limits()
        self._expected: OrderedDict[bytes, Future[Expected]] = OrderedDict()
        self._scores: OrderedDict[tuple[bytes, str], Score] = OrderedDict()
        self._lock = threading.Lock()

    def score(self, task: Task, answer: str | None) -> Score:
        """Grade one answer; None is an answer never given."""
        return self.score_many([(task, answer)])[0]

    def score_many(self, answers: Sequence[tuple[Task, str | None]]) -> list[Score]:
        """Grade a batch of (task, answer), the verdicts in the same order.

        Raises:
            SandboxError: If the sandbox itself failed; never because of what a program did.
        """
        task_keys = [_key(task) for task, _ in answers]
        references = self._references([task for task, _ in answers], task_keys)
        programs = [self._program(task, answer) for task, answer in answers]
        keys = [(key, program.source if program else "") for key, program in zip(task_keys, programs, strict=True)]
        scores = self._known_scores(keys)
        to_run = {key: program for key, program in zip(keys, programs, strict=True) if program and key not in scores}
        results = dict(zip(to_run, self._run(list(to_run.values())), strict=True))
        verdicts = []
        for (_, answer), expected, program, key in zip(answers, references, programs, keys, strict=True):
            if program is None:
                verdicts.append(self._verdict(expected, None, answer))
                continue
            if key not in scores:
                scores[key] = self._verdict(expected, results[key], answer)
            verdicts.append(scores[key])
        self._remember({key: scores[key] for key in results})
        return verdicts

    def _known_scores(self, keys: Sequence[tuple[bytes, str]]) -> dict[tuple[bytes, str], Score]:
        with self._lock:
            known = {key: self._scores[key] for key in keys if key in self._scores}
            for key in known:
                self._scores.move_to_end(key)
        return known

    def _remember(self, scores: dict[tuple[bytes, str], Score]) -> None:
        with self._lock:
            self._scores |= {key: score for key, score in scores.items() if not _PASSING & set(score.calls)}
            while len(self._scores) > CACHED_SCORES:
                self._scores.popitem(last=False)

    def _program(self, task: Task, answer: str | None) -> Program | None:
        if answer is None or not answer.strip():
            return None
        if self.semantics == "released":
            if any(word in answer for word in RELEASED_FORBIDDEN):
                return None
            source = extract_program_released(answer)
        else:
            source = extract_program(answer, task.function_name)
        return Program(source, task.hidden.calls, self.limits, self.semantics)

    # ---- references ---------------------------------------------------------------------------------------------------

    def _references(self, tasks: Sequence[Task], keys: Sequence[bytes]) -> list[Expected]:
        """What the references return; each runs once, however many threads ask at the same time."""
        missing: dict[bytes, Task] = {}
        with self._lock:
            for key, task in zip(keys, tasks, strict=True):
                if key not in self._expected:
                    self._expected[key], missing[key] = Future(), task
                self._expected.move_to_end(key)
            futures = {key: self._expected[key] for key in keys}
            while len(self._expected) > CACHED_REFERENCES:
                self._expected.popitem(last=False)
        try:
            found = self._run_references(list(missing.values()))
        except BaseException as error:
            with self._lock:
                for key in missing:
                    self._expected.pop(key, None)
            for key in missing:
                futures[key].set_exception(error)
            raise
        for key, expected in zip(missing, found, strict=True):
            futures[key].set_result(expected)
        return [futures[key].result() for key in keys]

    def _run_references(self, tasks: Sequence[Task]) -> list[Expected]:
        first = [Program(task.hidden.reference, task.hidden.calls, self.limits, self.semantics) for task in tasks]
        second = [
            replace(program, calls=tuple(_reseeded(call, program.source) for call in reversed(program.calls)))
            for program in first
        ]
        results = self._run([*first, *second])
        # A busy machine can make a call late once; a reference that is late again is too slow to grade by.
        late = [i for i, result in enumerate(results) if any(call.outcome is Outcome.TIMEOUT for call in result.calls)]
        for i, again in zip(late, self._run([[*first, *second][i] for i in late]), strict=True):
            results[i] = again
        runs = zip(tasks, results[: len(tasks)], results[len(tasks) :], strict=True)
        return [self._expect(task.hidden.calls, a.calls, b.calls[::-1]) for task, a, b in runs]

    def _expect(self, calls: Sequence[str], first: Sequence[CallResult], second: Sequence[CallResult]) -> Expected:
        reasons = [self._failure(a, b) for a, b in zip(first, second, strict=True)]
        # The released grader runs the reference again for each answer, so one that varies is compared with another run.
        fingerprints = (
            self._fingerprint(b) if b.outcome is Outcome.OK and (b.value is not None or self.semantics == "module") else ""
            for b in second
        )
        failures = (f"{call!r} gives {reason}" for call, reason in zip(calls, reasons, strict=True) if reason)
        return Expected(tuple(fingerprints), next(failures, ""))

    def _failure(self, first: CallResult, second: CallResult) -> str:
        """Why no answer can be compared with a call of the reference, given two runs of it; "" where one can."""
        for result in (first, second):
            if result.outcome is not Outcome.OK:
                return f"no value ({result.error or result.outcome.value})"
        if self._fingerprint(first, nan_equal=True) != self._fingerprint(second, nan_equal=True):
            return "two values in two runs"
        if self.semantics == "released":
            if second.value is None:
                return "None, which passes nothing"
            if self._fingerprint(first) != self._fingerprint(second):
                return "NaN, which equals nothing"
        return ""

    # ---- verdicts -----------------------------------------------------------------------------------------------------

    def _run(self, programs: Sequence[Program]) -> list[ExecutionResult]:
        if not programs:
            return []
        try:
            return self.sandbox.run(programs)
        except SandboxFailure as error:
            raise SandboxError(f"The sandbox failed while grading: {error}") from error

    def _verdict(self, expected: Expected, result: ExecutionResult | None, answer: str | None) -> Score:
        num_calls = len(expected.fingerprints)
        if self.semantics == "module" and expected.reason:
            return Score(0.0, 0, UNGRADABLE, (UNGRADABLE,) * num_calls, expected.reason)
        if result is None:
            outcome = "no_answer" if answer is None or not answer.strip() else "forbidden"
            return Score(0.0, 0, outcome, (outcome,) * num_calls, expected.reason)
        calls = tuple(
            self._call_verdict(fingerprint, got) for fingerprint, got in zip(expected.fingerprints, result.calls, strict=True)
        )
        passed = calls.count(PASSED)
        failures = Counter(call for call in calls if call != PASSED)
        outcome = failures.most_common(1)[0][0] if failures else PASSED
        return Score(passed / num_calls, int(passed == num_calls), outcome, calls, expected.reason)

    def _call_verdict(self, fingerprint: str, got: CallResult) -> str:
        if got.outcome is not Outcome.OK:
            return f"exception:{got.error}" if got.outcome is Outcome.EXCEPTION else got.outcome.value
        return PASSED if fingerprint and fingerprint == self._fingerprint(got) else WRONG

    def _fingerprint(self, result: CallResult, nan_equal: bool | None = None) -> str:
        """Hash of a value; equal where the values are. By default NaN equals itself in module semantics only."""
        try:
            text = canonical(result.value, self.semantics == "module" if nan_equal is None else nan_equal)
        except MalformedValue:
            return ""
        return hashlib.sha256(text.encode()).hexdigest()


def _key(task: Task) -> bytes:
    return hashlib.sha256(repr((task.hidden.reference, task.hidden.calls)).encode("utf-8", "backslashreplace")).digest()


def _reseeded(call: str, source: str) -> str:
    """The call as an expression that first seeds the standard generators otherwise than the sandbox does."""
    seeds = [f"__import__({name!r}){attribute}.seed(1)" for name, attribute in _GENERATORS if name in source + call]
    return f"({', '.join(seeds)}, ({call.strip()}\n))[-1]" if seeds else call
