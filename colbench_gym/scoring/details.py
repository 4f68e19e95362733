"""What happened in each hidden test of an answer: the call, the expected value, what the answer returned, the outcome and the time.

Verdicts (`scoring.unit_tests`) keep no values. To explain one, the reference and the answer run once more, in the sandbox, and their values
are turned into short text. The text quotes the hidden tests: it is for people and must not reach an actor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from colbench_gym.outside_text import encodable
from colbench_gym.scoring.faults import fault
from colbench_gym.scoring.unit_tests import PASSED, UNGRADABLE, UnitTests
from colbench_gym.tasks.task import Task
from sandboxes import CallResult, ExecutionResult, Outcome, Program
from sandboxes.shown import CUT, MAX_CHARS, shown, shown_apart

#: Meaning of each outcome of a hidden test or an answer; "exception:NAME" is found under "exception".
OUTCOMES: Mapping[str, str] = {
    "passed": "the value equals the value of the reference",
    "wrong": "the program returned another value than the reference",
    "exception": "the program raised an exception, whose type is named; SyntaxError: it does not compile",
    "timeout": "the call, or all calls together, took too long",
    "memory": "the program needed more memory than it may have",
    "output_limit": "the value, or all values together, are too large",
    "crash": "the program ended its process",
    "forbidden": "the program did something that the sandbox refuses, such as opening a socket",
    "not_serialisable": "the value is of a type that is not compared, such as a generator or an object of the program's own class",
    "no_answer": "the row or the dialogue has no answer",
    UNGRADABLE: "the reference itself gives no value, or not the same one twice; the row has no score",
    "malformed": "the row is not a task or a trajectory; it has no score",
}


def meaning(outcome: str) -> str:
    """What an outcome means; "" if it is unknown."""
    return OUTCOMES.get(outcome.partition(":")[0], "")


@dataclass(frozen=True)
class TestDetails:
    """One hidden test. All texts are clipped.

    Attributes:
        call: The expression that is evaluated.
        expected: The value of the reference; an outcome in angle brackets if it has none.
        got: The same of the answer.
        outcome: "passed", "wrong" or another outcome of `OUTCOMES`.
        seconds: Wall time of the answer's call, including the execution of its source.
        fingerprint: Hash of the answer's value; "" without a value.
    """

    __test__ = False  # not a test of pytest

    call: str
    expected: str
    got: str
    outcome: str
    seconds: float
    fingerprint: str


@dataclass(frozen=True)
class AnswerDetails:
    """An answer in detail.

    Attributes:
        source: The program in the answer; "" if there is none.
        tests: The hidden tests, in order; empty if there is no program.
        fault: What the author of the agent should change, where the answer itself shows it (`colbench_gym.scoring.faults`); else "".
    """

    source: str
    tests: tuple[TestDetails, ...]
    fault: str = ""


def explain_answers(unit_tests: UnitTests, answers: Sequence[tuple[Task, str | None]]) -> list[AnswerDetails]:
    """Run answers and their references once more, and keep what each call returned.

    Args:
        unit_tests: The grader; only its sandbox, its semantics and its limits are used.
        answers: Tasks and answers to them; None for a missing answer.

    Raises:
        SandboxError: If the sandbox itself failed; never because of what a program did.
    """
    return list(iter_details(unit_tests, answers))


def iter_details(unit_tests: UnitTests, answers: Sequence[tuple[Task, str | None]]) -> Iterator[AnswerDetails]:
    """Like `explain_answers`, one answer after the other. The answers to one task should follow each other: its reference then runs once."""
    programs: list[Program] = []
    plan: list[tuple[Task, str | None, Program | None, bool]] = []
    last: Task | None = None
    for task, answer in answers:
        program = unit_tests.program(task, answer)
        is_new = program is not None and task is not last
        if is_new:
            programs.append(Program(task.hidden.reference, task.hidden.calls, unit_tests.limits, unit_tests.semantics))
            last = task
        programs += [program] if program else []
        plan.append((task, answer, program, is_new))
    results = unit_tests.sandbox.stream(programs)
    reference = ExecutionResult(())
    for task, answer, program, is_new in plan:
        reference = next(results) if is_new else reference
        if program is None:
            yield AnswerDetails("", ())
            continue
        tests = _tests(unit_tests, task, reference, next(results))
        what_is_wrong = fault(task, answer, program.source, [test.outcome for test in tests])
        yield AnswerDetails(encodable(program.source), tests, encodable(what_is_wrong))


def _tests(unit_tests: UnitTests, task: Task, reference: ExecutionResult, result: ExecutionResult) -> tuple[TestDetails, ...]:
    runs = zip(task.hidden.calls, reference.calls, result.calls, strict=True)
    return tuple(_test(unit_tests, *run) for run in runs)


def _test(unit_tests: UnitTests, call: str, expected: CallResult, got: CallResult) -> TestDetails:
    outcome = unit_tests.outcome(expected, got)
    if expected.outcome is Outcome.OK and got.outcome is Outcome.OK and outcome != PASSED:
        texts = shown_apart(expected.value, got.value)
    else:
        texts = _text(expected), _text(got)
    clipped = call if len(call) <= MAX_CHARS else call[:MAX_CHARS] + CUT
    return TestDetails(clipped, *texts, outcome, round(got.wall_s, 4), got.fingerprint)


def _text(result: CallResult) -> str:
    """What a call returned, or how it ended."""
    if result.outcome is Outcome.OK:
        return shown(result.value)
    return f"<{ascii(result.error)[1:-1] if result.error else result.outcome.value}>"
