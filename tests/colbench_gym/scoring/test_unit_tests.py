"""Hidden tests: verdicts, their semantics, and references that cannot be graded."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from colbench_gym.errors import SandboxError
from colbench_gym.scoring import unit_tests as module
from colbench_gym.scoring.unit_tests import UnitTests, public_outcome
from sandboxes import CallResult, ExecutionResult, Limits, Outcome

CALLS = ("total([1])", "total([2, 3])")


@pytest.fixture
def score(sandbox, total_task):
    """Function: reference, answer, semantics -> score of two calls."""

    def score(reference, answer, semantics="module", calls=CALLS):
        return UnitTests(sandbox, semantics).score(total_task("t", reference, calls), answer)

    return score


REFERENCE = "def total(p):\n    return sum(p) * 0.5"


@pytest.mark.parametrize(
    ("answer", "outcome", "calls"),
    [
        (REFERENCE, "passed", ("passed", "passed")),
        ("def total(p): return 0.5", "wrong", ("passed", "wrong")),
        (
            "def total(p): return 0.5 if p == [1] else 1 / 0",
            "exception:ZeroDivisionError",
            ("passed", "exception:ZeroDivisionError"),
        ),
        (
            "import math\nHALF = 0.5\ndef f(p): return f(p[1:]) + p[0] * HALF if p else 0\ndef total(p): return f(p)",
            "passed",
            ("passed",) * 2,
        ),
        ("def other(p): return 1", "exception:NameError", ("exception:NameError",) * 2),
        (
            "class Any:\n    def __eq__(self, o): return True\ndef total(p): return Any()",
            "not_serialisable",
            ("not_serialisable",) * 2,
        ),
        (None, "no_answer", ("no_answer",) * 2),
        (" \n", "no_answer", ("no_answer",) * 2),
    ],
)
def test_verdicts(score, answer, outcome, calls):
    got = score(REFERENCE, answer)
    passed = calls.count("passed")
    assert (got.outcome, got.calls, got.tests_passed, got.success) == (outcome, calls, passed / 2, int(passed == 2))
    assert got.reason == ""


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("def total(p): return p[1]", "'total([1])' gives no value (IndexError)"),
        ("def total(p): import bs4", "'total([1])' gives no value (ModuleNotFoundError)"),
        ("def total(p): return object()", "'total([1])' gives no value (not_serialisable)"),
        ("def total(p):\n    import random\n    return random.random()", "'total([1])' gives two values in two runs"),
        ("import random\nx = random.random()\ndef total(p):\n    return x", "'total([1])' gives two values in two runs"),
        (
            "import statistics as s\ndef total(p):\n    return s.NormalDist().samples(1)",
            "'total([1])' gives two values in two runs",
        ),
        (
            "def total(p):\n    import numpy\n    return float(numpy.random.random())",
            "'total([1])' gives two values in two runs",
        ),
        ("def total(p):\n    import time\n    return time.time()", "'total([1])' gives two values in two runs"),
        ("def total(p):\n    while len(p) > 1: pass\n    return 1", "'total([2, 3])' gives no value (timeout)"),
        (
            "def total(p):\n    import math\n    math.seen = getattr(math, 'seen', 0) + 1\n    return math.seen",
            "'total([1])' gives two values in two runs",
        ),
    ],
)
def test_a_reference_that_cannot_be_graded(score, reference, reason):
    got = score(reference, "def total(p): return 1")
    assert (got.outcome, got.tests_passed, got.success, got.reason) == ("ungradable", 0.0, 0, reason)


@pytest.mark.parametrize("semantics", ["module", "released"])
def test_a_seeded_reference_is_gradable(score, semantics):
    reference = "def total(p):\n    import random\n    random.seed(p[0])\n    return random.random()"
    assert score(reference, reference, semantics).success == 1


def test_odd_calls_keep_their_meaning(score):
    calls = ("total([1]), 'random'", " total([2])  # random", "[total([x]) for x in (1, 2)] # random")
    assert score(REFERENCE, REFERENCE, calls=calls).success == 1


@pytest.mark.parametrize(
    ("reference", "answer", "module_calls", "released_calls"),
    [
        # a top-level import and a helper are invisible to the released grader
        (REFERENCE, "import math\ndef total(p): return math.fsum(p) / 2", ("passed",) * 2, ("exception:NameError",) * 2),
        (REFERENCE, "def h(p): return sum(p) / 2\ndef total(p): return h(p)", ("passed",) * 2, ("exception:NameError",) * 2),
        # its list of words, in prose as well
        (REFERENCE, f"# never exit()\n{REFERENCE}", ("passed",) * 2, ("forbidden",) * 2),
        # its cutting of fences
        (REFERENCE, f"```Python\n{REFERENCE}\n```", ("passed",) * 2, ("exception:NameError",) * 2),
        (REFERENCE, f"{REFERENCE}\nThis is it.", ("passed",) * 2, ("exception:SyntaxError",) * 2),
        # None and NaN
        ("def total(p): return None if p[1:] else 1", "def total(p): return None if p[1:] else 1", ("passed",) * 2, ("passed", "wrong")),
        ("def total(p): return float('nan')", "def total(p): return float('nan')", ("passed",) * 2, ("wrong",) * 2),
        # equality is Python's
        (REFERENCE.replace("0.5", "1"), "def total(p): return float(sum(p))", ("passed",) * 2, ("passed",) * 2),
        (REFERENCE, "def total(p): return True if p[1:] else 0.5", ("passed", "wrong"), ("passed", "wrong")),
        ("def total(p): return p", "def total(p): return tuple(p)", ("wrong",) * 2, ("wrong",) * 2),
    ],
)  # fmt: skip
def test_semantics_differ_where_documented(score, reference, answer, module_calls, released_calls):
    assert score(reference, answer).calls == module_calls
    assert score(reference, answer, "released").calls == released_calls


def test_the_released_grader_scores_references_that_fail(score):
    got = score("def total(p):\n    return p[1]", "def total(p):\n    return p[1]", "released")
    assert (got.outcome, got.calls) == ("exception:IndexError", ("exception:IndexError", "passed"))
    assert got.reason == "'total([1])' gives no value (IndexError)"
    got = score("def total(p):\n    return None", "def total(p):\n    return None", "released")
    assert (got.outcome, got.reason) == ("wrong", "'total([1])' gives None, which passes nothing")
    got = score("def total(p):\n    return float('nan')", "def total(p):\n    return float('nan')", "released")
    assert got.reason == "'total([1])' gives NaN, which equals nothing"
    reference = "def total(p):\n    import random\n    return random.random()"
    assert score(reference, reference, "released").calls == ("wrong", "wrong")


def test_a_reference_runs_only_once_for_all_threads(sandbox, humans, total_task):
    counting = humans.Counting(sandbox)
    grader, task = UnitTests(counting), total_task()
    with ThreadPoolExecutor(8) as threads:
        scores = list(threads.map(lambda i: grader.score(task, f"{task.hidden.reference}\n# {i}"), range(16)))
    assert all(score.success for score in scores)
    assert len(counting.programs) == 16 + 1


@pytest.mark.parametrize(
    ("reference", "runs"),
    [
        ("def total(p):\n    return round(sum(p), 2)", 1),
        ("import math\ndef total(p):\n    return math.fsum(p)", 2),
        ("def total(p):\n    return hash(str(p)) * 0", 2),
        ("def total(p):\n    return list(set(p))", 2),
        ("def total(p):\n    return str(map(str, p))[:17]", 2),
        ("def total(p):\n    return total.__name__", 2),
    ],
)
def test_a_reference_that_may_vary_runs_twice(sandbox, humans, total_task, reference, runs):
    counting = humans.Counting(sandbox)
    UnitTests(counting).score(total_task(reference=reference), reference)
    assert len(counting.programs) == runs


def test_the_same_answer_to_the_same_task_runs_once(sandbox, humans, total_task):
    counting = humans.Counting(sandbox)
    grader, one, other = UnitTests(counting), total_task("one"), total_task("other", "def total(p): return 1", CALLS)
    wrong = "def total(p): return 2"
    batch = [(one, wrong), (other, wrong), (one, wrong), (one, f"```python\n{wrong}\n```")]
    first = grader.score_many(batch)
    assert len(counting.programs) == 4
    assert grader.score_many(batch[::-1]) == first[::-1]
    assert len(counting.programs) == 4


def test_what_a_busy_machine_may_have_caused_is_run_again(sandbox, humans, total_task):
    counting, task = humans.Counting(sandbox), total_task("t", REFERENCE, CALLS[:1])
    grader = UnitTests(counting, limits=Limits(call_timeout_s=2.0))
    for _ in range(2):
        assert grader.score(task, "def total(p):\n    while True: pass").outcome == "timeout"
    assert len(counting.programs) == 1 + 2


@pytest.mark.parametrize("outcome", [Outcome.MEMORY, Outcome.CRASH, Outcome.TIMEOUT])
def test_a_reference_that_the_machine_ended_is_run_again_for_a_later_answer(sandbox, humans, total_task, outcome):
    counting, task = humans.Counting(sandbox), total_task("t", REFERENCE, CALLS[:1])
    stream, left = counting.stream, [2]

    def failing(programs):
        for program, result in zip(programs, stream(programs), strict=True):
            is_ended = program.source == REFERENCE and left[0] > 0
            left[0] -= is_ended
            yield ExecutionResult((CallResult(outcome),)) if is_ended else result

    counting.stream = failing
    grader, right = UnitTests(counting), "def total(p):\n    return sum(p) / 2"
    assert grader.score(task, right).outcome == "ungradable"
    assert grader.score(task, right).success == 1
    left[0] = 100
    slow = total_task("slow", REFERENCE, CALLS[1:])
    before = len(counting.programs)
    for i in range(5):
        assert grader.score(slow, f"{right} + {i}").outcome == "ungradable"
    assert len(counting.programs) - before == 5 + 2 * module.MOST_TRIES, (
        "in the end it counts as a reference that cannot be run"
    )


def test_the_name_of_an_exception_says_nothing_to_the_agent():
    assert public_outcome("exception:'largest([12.25, -5])'") == public_outcome("exception:Mine") == "exception:other"
    assert [public_outcome(name) for name in ("exception:KeyError", "passed", "timeout")] == [
        "exception:KeyError",
        "passed",
        "timeout",
    ]


def test_the_caches_are_bounded(sandbox, total_task, monkeypatch):
    monkeypatch.setattr(module, "CACHED_REFERENCES", 3)
    monkeypatch.setattr(module, "CACHED_SCORES", 2)
    grader = UnitTests(sandbox)
    tasks = [total_task(str(i), f"def total(p): return {i}", CALLS) for i in range(8)]
    assert all(score.success for score in grader.score_many([(task, task.hidden.reference) for task in tasks]))
    assert (len(grader._expected), len(grader._scores)) == (3, 2)


def test_a_batch_keeps_its_order(sandbox, total_task):
    task = total_task("t", REFERENCE, CALLS)
    answers = [REFERENCE, None, "def total(p): return 0.5", REFERENCE]
    scores = UnitTests(sandbox).score_many([(task, answer) for answer in answers])
    assert [score.tests_passed for score in scores] == [1.0, 0.0, 0.5, 1.0]


def test_a_sandbox_that_fails_is_no_verdict_and_is_asked_again(sandbox, humans, total_task):
    task = total_task("t", REFERENCE, CALLS)
    grader = UnitTests(humans.BrokenSandbox())
    with pytest.raises(SandboxError, match=f"^The daemon died over {re.escape(REFERENCE)}"):
        grader.score(task, REFERENCE)
    grader.sandbox = sandbox
    assert grader.score(task, REFERENCE).success == 1


def test_unknown_semantics_are_refused(sandbox):
    with pytest.raises(ValueError, match=r"^`semantics` must be 'module' or 'released', got 'mine'\.$"):
        UnitTests(sandbox, "mine")
