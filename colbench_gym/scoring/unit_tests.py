"""Hidden unit tests: an answer passes a test if its return value equals the value of the reference.

Reference and answer run in the sandbox, in separate processes. Their values are compared here, as data. The values of a
reference are computed once and cached as fingerprints, and an answer to a task is run only once.

Two semantics:
    module: the program is a module, as a Python programmer expects: imports, helpers and recursion work. NaN equals NaN.
    released: the verdicts of ColBench's released grader, for comparison with published numbers: local scope, its list of
        forbidden words, its extraction of fenced code, and a test never passes if the reference returns None.
"""

from __future__ import annotations

import builtins
import hashlib
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import chain, islice

from colbench_gym.reasoning import AUTO, Reasoning
from colbench_gym.scoring.answer import extract_program, extract_program_released, without_thoughts
from colbench_gym.tasks.task import Task
from sandboxes import CallResult, ExecutionResult, Limits, Outcome, Program, Sandbox
from sandboxes.sandbox import Semantics
from sandboxes.values import fingerprint

#: Sizes of the caches: about 3 kB per reference and 1.5 kB per verdict. Small caches suffice: episodes of a task follow each other closely.
CACHED_REFERENCES = 2_000
CACHED_SCORES = 10_000
PASSED, WRONG, UNGRADABLE = "passed", "wrong", "ungradable"
#: Outcomes that a busy machine may cause. They are not cached, because another run may end differently.
#: How often a reference is begun that runs out of time or memory, or crashes; each time it is run twice.
MOST_TRIES = 3
_PASSING = {Outcome.TIMEOUT.value, Outcome.MEMORY.value, Outcome.CRASH.value}
_EXCEPTIONS = {name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)}
#: Words that may let the result of a program depend on more than its arguments.
_VARYING = re.compile(
    r"\b(?:import|id|hash|repr|object|class|set|frozenset|open|exec|eval|compile|globals|locals|vars|dir|memoryview)\b|__"
)
#: Cache key of a verdict: hash of a task's reference and calls, and the source of the answer's program.
_Question = tuple[bytes, str]
RELEASED_FORBIDDEN = (
    "import os", "from os", "import sys", "from sys", "sudo", "transformers", "exit(", "quit(", "argparse",
)  # fmt: skip


@dataclass(frozen=True)
class Score:
    r"""Verdict on one answer.

    Attributes:
        tests_passed: Fraction of the hidden tests passed, in [0, 1].
        success: 1 if all tests are passed, else 0.
        outcome: "passed", "wrong", "ungradable" (the reference itself fails, so there is no verdict), or the most frequent outcome
            of the failed tests: "timeout", "memory", "forbidden", "crash", "no_answer", "exception:TypeError", ... A program can
            give its exception any name: a name that is not a plain identifier is quoted and escaped, as in "exception:'x\n1'".
        calls: "passed", "wrong" or another outcome, for each call.
        reason: If the reference is not gradable: the call that has no comparable value, and why; else "".
            It quotes the hidden tests, so it must not reach an actor.
    """

    tests_passed: float
    success: int
    outcome: str
    calls: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True)
class Expected:
    """The values that a reference returns.

    Attributes:
        fingerprints: Hash of the value of each call; "" for a call that no answer can pass.
        reason: Why the task is not gradable; "" if it is.
    """

    fingerprints: tuple[str, ...]
    reason: str


class UnitTests:
    """Grades answers to tasks in a sandbox. Thread-safe.

    A reference is gradable if every call returns a value that can leave the sandbox, and returns the same value twice. It runs in two
    processes, the second time with its calls in reverse order and another random seed. This detects values that depend on the clock,
    on memory addresses or on unseeded random numbers. A reference runs only once if it imports nothing, uses no name that gives access
    to these, and returns no memory address.
    """

    def __init__(
        self, sandbox: Sandbox, semantics: Semantics = "module", limits: Limits | None = None, reasoning: str = AUTO
    ) -> None:
        """Grade in `sandbox` under the given semantics and limits.

        Args:
            sandbox: Runs the programs.
            semantics: "module", or "released" for the verdicts of the released grader, which knows no thoughts.
            limits: Limits of a program.
            reasoning: How models mark their thoughts, see `colbench_gym.reasoning.Reasoning`: they are no part of an answer.
        """
        if semantics not in ("module", "released"):
            raise ValueError(f"`semantics` must be 'module' or 'released', got {semantics!r}.")
        self.sandbox, self.semantics, self.limits = sandbox, semantics, limits or Limits()
        self.reasoning = Reasoning(reasoning).setting
        self._expected: OrderedDict[bytes, Future[Expected]] = OrderedDict()
        self._unfinished: Counter[bytes] = Counter()
        self._scores: OrderedDict[_Question, Score] = OrderedDict()
        self._lock = threading.Lock()

    def score(self, task: Task, answer: str | None) -> Score:
        """Grade one answer; None stands for a missing answer."""
        return self.score_many([(task, answer)])[0]

    def score_many(self, answers: Sequence[tuple[Task, str | None]]) -> list[Score]:
        """Grade a batch of (task, answer). The verdicts have the same order.

        Raises:
            SandboxError: If the sandbox itself failed; never because of what a program did.
        """
        if self.semantics == "module":
            answers = [(task, answer and without_thoughts(answer, self.reasoning)) for task, answer in answers]
        keys = {id(task): _key(task) for task, _ in answers}
        different = {(id(task), answer): (task, answer) for task, answer in answers}
        programs = {name: self.program(*pair) for name, pair in different.items()}
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
            verdicts.append(scores[key, program.source] if program else self._verdict(expected[key].result(), None, answer))
        return verdicts

    def _scores_of(
        self, asked: Mapping[_Question, Program], claimed: Mapping[bytes, Task], expected: Mapping[bytes, Future[Expected]]
    ) -> dict[_Question, Score]:
        """Run the programs without a cached score and the references that have not run yet. Verdicts are computed while others run."""
        scores = self._known_scores(asked)
        references = [
            Program(task.hidden.reference, task.hidden.calls, self.limits, self.semantics) for task in claimed.values()
        ]
        own_names = dict.fromkeys((key, program.source) for key, program in zip(claimed, references, strict=True))
        to_run = {name: program for name, program in asked.items() if name not in scores and name not in own_names}
        twice = [i for i, program in enumerate(references) if _may_vary(program)]
        results = self.sandbox.stream([*references, *(_again(references[i]) for i in twice), *to_run.values()])
        first = self._settle(claimed, expected, references, twice, results)
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
            self._scores |= {
                key: score for key, score in scores.items() if key[0] in self._expected and not _PASSING & set(score.calls)
            }
            while len(self._scores) > CACHED_SCORES:
                self._scores.popitem(last=False)
            # A reference that is still running stays: threads that wait for it must learn if it fails.
            while len(self._expected) > CACHED_REFERENCES and next(iter(self._expected.values())).done():
                self._expected.popitem(last=False)

    def program(self, task: Task, answer: str | None) -> Program | None:
        """The program in an answer, with the hidden tests as its calls; None if there is none, or the semantics forbid one of its words."""
        if answer is None or not answer.strip():
            return None
        if self.semantics == "released":
            if any(word in answer for word in RELEASED_FORBIDDEN):
                return None
            source = extract_program_released(answer)
        else:
            source = extract_program(answer, task.function_name, self.reasoning, task.hidden.calls)
        return Program(source, task.hidden.calls, self.limits, self.semantics)

    # ---- references ---------------------------------------------------------------------------------------------------

    def _claim(self, tasks: Mapping[bytes, Task]) -> tuple[dict[bytes, Task], dict[bytes, Future[Expected]]]:
        """Claim the references that no thread has started, and return their tasks; also the futures of all tasks' references."""
        claimed: dict[bytes, Task] = {}
        with self._lock:
            for key, task in tasks.items():
                if key not in self._expected:
                    self._expected[key], claimed[key] = Future(), task
                self._expected.move_to_end(key)
            futures = {key: self._expected[key] for key in tasks}
        return claimed, futures

    def _give_up(self, claimed: Mapping[bytes, Future[Expected]], error: BaseException) -> None:
        """Release the references that this call has claimed, and pass the error to the threads that wait for them."""
        failed = {key: future for key, future in claimed.items() if not future.done()}
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
        """Take the runs of the references from the front of the results: all first runs, then some second runs. Returns the first runs."""
        programs = [*references, *(_again(references[i]) for i in twice)]
        runs, shown = [], []
        for i, result in enumerate(islice(results, len(programs))):
            # A text such as "<map object at 0x7f...>" differs from run to run.
            if i < len(references) and i not in twice and any(" at 0x" in repr(call.value) for call in result.calls):
                shown.append(i)
            runs.append(self._kept(result))
        # A busy machine can delay a call once, or take a program's memory. A reference that ends so again is not graded with now.
        late = [i for i, result in enumerate(runs) if _may_pass(result)]
        for i, again in zip(late, self.sandbox.stream([programs[i] for i in late]), strict=True):
            runs[i] = self._kept(again)
        first, second = runs[: len(references)], dict(zip(twice, runs[len(references) :], strict=True))
        second |= dict(zip(shown, map(self._kept, self.sandbox.stream([_again(references[i]) for i in shown])), strict=True))
        for i, (key, program) in enumerate(zip(claimed, references, strict=True)):
            other = second[i].calls[::-1] if i in second else first[i].calls
            expected[key].set_result(self._expect(program.calls, first[i].calls, other))
            if _may_pass(first[i]) or (i in second and _may_pass(second[i])):
                with self._lock:
                    self._unfinished[key] += 1
                    if self._unfinished[key] < MOST_TRIES:
                        self._expected.pop(key, None)  # a later answer runs it again
        return first

    def _kept(self, result: ExecutionResult) -> ExecutionResult:
        """A reference's result without its values if their hashes suffice: the values of a whole batch could fill the memory."""
        if self.semantics == "released":
            return result
        return replace(result, calls=tuple(replace(call, value=None) for call in result.calls))

    def outcome(self, expected: CallResult, got: CallResult) -> str:
        """Outcome of one hidden test, given what the reference and the answer returned: "passed", "wrong", ... as in `Score.calls`."""
        return self._call_verdict(self._expected_fingerprint(expected), got)

    def _expected_fingerprint(self, result: CallResult) -> str:
        """Fingerprint of a reference's value; "" if no answer can equal it."""
        is_comparable = result.outcome is Outcome.OK and (result.value is not None or self.semantics == "module")
        return self._fingerprint(result) if is_comparable else ""

    def _expect(self, calls: Sequence[str], first: Sequence[CallResult], second: Sequence[CallResult]) -> Expected:
        reasons = [self._failure(a, b) for a, b in zip(first, second, strict=True)]
        # The released grader runs the reference again for each answer, so a varying reference is compared with another run of itself.
        fingerprints = map(self._expected_fingerprint, second)
        failures = (f"{call!r:.200} gives {reason}" for call, reason in zip(calls, reasons, strict=True) if reason)
        return Expected(tuple(fingerprints), next(failures, ""))

    def _failure(self, first: CallResult, second: CallResult) -> str:
        """Why a call of the reference cannot be compared with answers, given two runs of it; "" if it can."""
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
        """Hash of a value; equal for equal values. By default NaN equals itself in module semantics only."""
        nan_equal = self.semantics == "module" if nan_equal is None else nan_equal
        return result.fingerprint if nan_equal else fingerprint(result.value, nan_equal=False)


def _plain(name: str) -> str:
    """The name of an exception, quoted unless it is a plain identifier, so that it cannot imitate other parts of a result line."""
    return name if name.isascii() and name.isidentifier() else ascii(name)


def public_outcome(outcome: str) -> str:
    """An outcome without the name that a program has given its exception, which may say anything: "exception:other" unless it is one of Python's own."""
    kind, _, name = outcome.partition(":")
    return outcome if not name or name in _EXCEPTIONS else f"{kind}:other"


def _may_pass(result: ExecutionResult) -> bool:
    """Whether another run may end differently, on a machine with more time or memory left."""
    return any(call.outcome.value in _PASSING for call in result.calls)


def _may_vary(program: Program) -> bool:
    """Whether a value may depend on more than the program's text, e.g. on a module or on memory addresses. A conservative guess."""
    return program.semantics != "module" or any(_VARYING.search(text) for text in (program.source, *program.calls))


def _again(program: Program) -> Program:
    """The program with its calls in reverse order and another random seed."""
    return replace(program, calls=program.calls[::-1], seed=1)


def _key(task: Task) -> bytes:
    return hashlib.sha256(repr((task.hidden.reference, task.hidden.calls)).encode("utf-8", "backslashreplace")).digest()
