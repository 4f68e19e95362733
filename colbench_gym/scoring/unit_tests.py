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
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import chain, islice

from colbench_gym.errors import SandboxError
from colbench_gym.scoring.answer import extract_program, extract_program_released
from colbench_gym.tasks.task import Task
from sandboxes import CallResult, ExecutionResult, Limits, Outcome, Program, Sandbox
from sandboxes import SandboxError as SandboxFailure
from sandboxes.sandbox import Semantics
from sandboxes.values import fingerprint

#: What is remembered, some 3 kB a reference and 1.5 kB a verdict: episodes of a task are near each other, and a reference is soon run anew.
CACHED_REFERENCES = 2_000
CACHED_SCORES = 10_000
PASSED, WRONG, UNGRADABLE = "passed", "wrong", "ungradable"
#: Outcomes that a busy machine may cause, so that they say nothing of the next run.
_PASSING = {Outcome.TIMEOUT.value, Outcome.MEMORY.value, Outcome.CRASH.value}
#: Words by which a program may come to know more than what it is given.
_VARYING = re.compile(
    r"\b(?:import|id|hash|repr|object|class|set|frozenset|open|exec|eval|compile|globals|locals|vars|dir|memoryview)\b|__"
)
#: A task, by the hash of its reference and calls, and the source of a program that answers it.
_Question = tuple[bytes, str]
RELEASED_FORBIDDEN = (
    "import os", "from os", "import sys", "from sys", "sudo", "transformers", "exit(", "quit(", "argparse",
)  # fmt: skip


@dataclass(frozen=True)
class Score:
    r"""Verdict on one answer.

    Attributes:
        tests_passed: Fraction of the hidden tests passed, in [0, 1].
        success: 1 where all are passed, else 0.
        outcome: "passed", "wrong", "ungradable" (the reference itself fails, so no verdict), or what went wrong with most of
            the tests not passed: "timeout", "memory", "forbidden", "crash", "no_answer", "exception:TypeError", ... A program can
            give its exception any name: one that is no plain identifier is quoted and escaped, as in "exception:'x\n1'".
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
    addresses or on unseeded random numbers are found out. One that imports nothing, names nothing by which it could come to know of
    these, and shows no address runs once.
    """

    def __init__(self, sandbox: Sandbox, semantics: Semantics = "module", limits: Limits | None = None) -> None:
        """Grade in `sandbox` under the given semantics and limits."""
        if semantics not in ("module", "released"):
            raise ValueError(f"`semantics` must be 'module' or 'released', got {semantics!r}.")
        self.sandbox, self.semantics, self.limits = sandbox, semantics, limits or Limits()
        self._expected: OrderedDict[bytes, Future[Expected]] = OrderedDict()
        self._scores: OrderedDict[_Question, Score] = OrderedDict()
        self._lock = threading.Lock()

    def score(self, task: Task, answer: str | None) -> Score:
        """Grade one answer; None is an answer never given."""
        return self.score_many([(task, answer)])[0]

    def score_many(self, answers: Sequence[tuple[Task, str | None]]) -> list[Score]:
        """Grade a batch of (task, answer), the verdicts in the same order.

        Raises:
            SandboxError: If the sandbox itself failed; never because of what a program did.
        """
        keys = {id(task): _key(task) for task, _ in answers}
        different = {(id(task), answer): (task, answer) for task, answer in answers}
        programs = {name: self._program(*pair) for name, pair in different.items()}
        asked = {(keys[name[0]], program.source): program for name, program in programs.items() if program}
        claimed, expected = self._claim({keys[id(task)]: task for task, _ in answers})
        try:
            scores = self._scores_of(asked, claimed, expected)
        except BaseException as error:
            self._give_up({key: expected[key] for key in claimed}, error)
            raise
        verdicts = []
        for task, answer in answers:
            key, program = keys[id(task)], programs[id(task), answer]
            score = scores[key, program.source] if program else self._verdict(expected[key].result(), None, answer)
            verdicts.append(score)
        return verdicts

    def _scores_of(
        self, asked: Mapping[_Question, Program], claimed: Mapping[bytes, Task], expected: Mapping[bytes, Future[Expected]]
    ) -> dict[_Question, Score]:
        """Run what has no score yet, together with the references that nobody has run; verdicts are found while others run."""
        scores = self._known_scores(asked)
        own = [Program(task.hidden.reference, task.hidden.calls, self.limits, self.semantics) for task in claimed.values()]
        own_names = dict.fromkeys((key, program.source) for key, program in zip(claimed, own, strict=True))
        to_run = {name: program for name, program in asked.items() if name not in scores and name not in own_names}
        twice = [i for i, program in enumerate(own) if _may_vary(program)]
        results = self._stream([*own, *(_again(own[i]) for i in twice), *to_run.values()])
        first = self._settle(claimed, expected, own, twice, results)
        new = {
            name: self._verdict(expected[name[0]].result(), result)
            for name, result in chain(zip(own_names, first, strict=True), zip(to_run, results, strict=True))
            if name in asked
        }
        self._remember(new)
        return scores | new

    def _known_scores(self, keys: Iterable[_Question]) -> dict[_Question, Score]:
        with self._lock:
            known = {key: self._scores[key] for key in keys if key in self._scores}
            for key in known:
                self._scores.move_to_end(key)
        return known

    def _remember(self, scores: dict[_Question, Score]) -> None:
        with self._lock:
            self._scores |= {key: score for key, score in scores.items() if not _PASSING & set(score.calls)}
            while len(self._scores) > CACHED_SCORES:
                self._scores.popitem(last=False)
            # Not one that is being found out: who waits for it must be told if that fails.
            while len(self._expected) > CACHED_REFERENCES and next(iter(self._expected.values())).done():
                self._expected.popitem(last=False)

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

    def _claim(self, tasks: Mapping[bytes, Task]) -> tuple[dict[bytes, Task], dict[bytes, Future[Expected]]]:
        """Tasks whose references are ours to run, for nobody has begun to; and what the references of all tasks will have given."""
        claimed: dict[bytes, Task] = {}
        with self._lock:
            for key, task in tasks.items():
                if key not in self._expected:
                    self._expected[key], claimed[key] = Future(), task
                self._expected.move_to_end(key)
            futures = {key: self._expected[key] for key in tasks}
        return claimed, futures

    def _give_up(self, own: Mapping[bytes, Future[Expected]], error: BaseException) -> None:
        """Let others run the references that we have claimed, and tell those who wait for them."""
        failed = {key: future for key, future in own.items() if not future.done()}
        with self._lock:
            for key in failed:
                self._expected.pop(key, None)
        for future in failed.values():
            future.set_exception(error)

    def _settle(
        self,
        claimed: Iterable[bytes],
        expected: Mapping[bytes, Future[Expected]],
        references: Sequence[Program],
        twice: Sequence[int],
        results: Iterator[ExecutionResult],
    ) -> list[ExecutionResult]:
        """Take the runs of references from the front of the results, all first ones and the second ones of some; the first runs."""
        programs = [*references, *(_again(references[i]) for i in twice)]
        runs, shown = [], []
        for i, result in enumerate(islice(results, len(programs))):
            if i < len(references) and i not in twice and _shows_address(result):
                shown.append(i)
            runs.append(self._kept(result))
        # A busy machine can make a call late once; a reference that is late again is too slow to grade by.
        late = [i for i, result in enumerate(runs) if any(call.outcome is Outcome.TIMEOUT for call in result.calls)]
        for i, again in zip(late, self._stream([programs[i] for i in late]), strict=True):
            runs[i] = self._kept(again)
        first, second = runs[: len(references)], dict(zip(twice, runs[len(references) :], strict=True))
        second |= dict(zip(shown, map(self._kept, self._stream([_again(references[i]) for i in shown])), strict=True))
        for i, (key, program) in enumerate(zip(claimed, references, strict=True)):
            other = second[i].calls[::-1] if i in second else first[i].calls
            expected[key].set_result(self._expect(program.calls, first[i].calls, other))
        return first

    def _kept(self, result: ExecutionResult) -> ExecutionResult:
        """A reference's result without its values where their hashes are enough: those of a batch together could fill the memory."""
        if self.semantics == "released":
            return result
        return replace(result, calls=tuple(replace(call, value=None) for call in result.calls))

    def _expect(self, calls: Sequence[str], first: Sequence[CallResult], second: Sequence[CallResult]) -> Expected:
        reasons = [self._failure(a, b) for a, b in zip(first, second, strict=True)]
        # The released grader runs the reference again for each answer, so one that varies is compared with another run.
        fingerprints = (
            self._fingerprint(b) if b.outcome is Outcome.OK and (b.value is not None or self.semantics == "module") else ""
            for b in second
        )
        failures = (f"{call!r:.200} gives {reason}" for call, reason in zip(calls, reasons, strict=True) if reason)
        return Expected(tuple(fingerprints), next(failures, ""))

    def _failure(self, first: CallResult, second: CallResult) -> str:
        """Why no answer can be compared with a call of the reference, given two runs of it; "" where one can."""
        for result in (first, second):
            if result.outcome is not Outcome.OK:
                return f"no value ({_plain(result.error) if result.error else result.outcome.value})"
        if self._fingerprint(first, nan_equal=True) != self._fingerprint(second, nan_equal=True):
            return "two values in two runs"
        if self.semantics == "released":
            if second.value is None:
                return "None, which passes nothing"
            if self._fingerprint(first) != self._fingerprint(second):
                return "NaN, which equals nothing"
        return ""

    # ---- verdicts -----------------------------------------------------------------------------------------------------

    def _stream(self, programs: Sequence[Program]) -> Iterator[ExecutionResult]:
        try:
            yield from self.sandbox.stream(programs)
        except SandboxFailure as error:
            raise SandboxError(f"The sandbox failed while grading: {error}") from error

    def _verdict(self, expected: Expected, result: ExecutionResult | None, answer: str | None = None) -> Score:
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
            return f"exception:{_plain(got.error)}" if got.outcome is Outcome.EXCEPTION else got.outcome.value
        return PASSED if fingerprint and fingerprint == self._fingerprint(got) else WRONG

    def _fingerprint(self, result: CallResult, nan_equal: bool | None = None) -> str:
        """Hash of a value; equal where the values are. By default NaN equals itself in module semantics only."""
        nan_equal = self.semantics == "module" if nan_equal is None else nan_equal
        return result.fingerprint if nan_equal else fingerprint(result.value, nan_equal=False)


def _plain(name: str) -> str:
    """The name of an exception; in quotes where it could pass for something else in a line of results."""
    return name if name.isascii() and name.isidentifier() else ascii(name)


def _may_vary(program: Program) -> bool:
    """Whether a value may depend on more than the program's text: on a module, or on where things lie in memory. A guess to the safe side."""
    return program.semantics != "module" or any(_VARYING.search(text) for text in (program.source, *program.calls))


def _shows_address(result: ExecutionResult) -> bool:
    """Whether a value holds a text such as "<map object at 0x7f...>"."""
    return any(" at 0x" in repr(call.value) for call in result.calls)


def _again(program: Program) -> Program:
    """The program with its calls in reverse and other random numbers."""
    return replace(program, calls=program.calls[::-1], seed=1)


def _key(task: Task) -> bytes:
    return hashlib.sha256(repr((task.hidden.reference, task.hidden.calls)).encode("utf-8", "backslashreplace")).digest()
