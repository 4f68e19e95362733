"""Hidden tests in detail: what was expected, what came, and verdicts that agree with the grader's."""

from __future__ import annotations

import pytest

from colbench_gym.errors import SandboxError
from colbench_gym.scoring.details import OUTCOMES, explain_answers, meaning
from colbench_gym.scoring.unit_tests import UnitTests
from sandboxes import Limits, Outcome

RIGHT = "def total(prices):\n    return round(sum(prices), 2) if prices else None"
ANSWERS = {
    "right": RIGHT,
    "nearly": RIGHT.replace(" if prices else None", ""),
    "raises": "def total(prices):\n    raise KeyError('evil\\n')",
    "named": "class X(Exception): pass\nX.__name__ = 'a\\n\\x1b[31m'\ndef total(prices):\n    raise X()",
    "broken": "def total(prices:",
    "object": "def total(prices):\n    return object()",
    "socket": "import socket\ndef total(prices):\n    return socket.socket()",
    "long": "def total(prices):\n    return ['<b>' * 100] * 100",
}


def test_details_agree_with_the_verdicts(sandbox, total_task):
    task, unit_tests = total_task(), UnitTests(sandbox)
    answers = [(task, answer) for answer in ANSWERS.values()]
    details = explain_answers(unit_tests, answers)
    scores = unit_tests.score_many(answers)
    assert [tuple(test.outcome for test in one.tests) for one in details] == [score.calls for score in scores]
    by_name = dict(zip(ANSWERS, details, strict=True))
    assert by_name["nearly"].source == ANSWERS["nearly"]
    last = by_name["nearly"].tests[-1]
    assert (last.call, last.expected, last.got, last.outcome) == ("total([])", "None", "0", "wrong") and last.seconds >= 0
    assert by_name["raises"].tests[0].got == "<KeyError>" and by_name["named"].tests[0].got == "<a\\n\\x1b[31m>"
    assert by_name["broken"].tests[0].got == "<SyntaxError>"
    long = by_name["long"].tests[0].got
    assert long.startswith("['<b><b>") and len(long) < 250
    for one in details:
        assert all(text.isprintable() for test in one.tests for text in (test.expected, test.got))


def test_a_missing_answer_has_no_tests(sandbox, total_task):
    task = total_task()
    empty, given, none = explain_answers(UnitTests(sandbox), [(task, " "), (task, RIGHT), (task, None)])
    assert empty.tests == none.tests == () and len(given.tests) == 10 and empty.source == ""


def test_a_reference_runs_once_for_answers_in_a_row(sandbox, total_task, humans):
    counting, task, other = humans.Counting(sandbox), total_task(), total_task("total/1")
    explain_answers(UnitTests(counting), [(task, RIGHT), (task, "def total(p): return 1"), (other, RIGHT)])
    assert len(counting.programs) == 5


def test_the_released_semantics_pass_nothing_where_the_reference_returns_none(sandbox, total_task):
    (one,) = explain_answers(UnitTests(sandbox, "released"), [(total_task(), RIGHT)])
    assert [test.outcome for test in one.tests] == ["passed"] * 9 + ["wrong"]


def test_an_endless_program_ends_at_the_limits_given(sandbox, total_task):
    limits = Limits(call_timeout_s=2.0, program_timeout_s=4.0)
    (one,) = explain_answers(UnitTests(sandbox, limits=limits), [(total_task(), "def total(p):\n    while True: pass")])
    assert {test.outcome for test in one.tests} == {"timeout"} and one.tests[0].got == "<timeout>"


def test_a_broken_sandbox_is_no_outcome(total_task, humans):
    with pytest.raises(SandboxError, match="^The daemon died"):
        explain_answers(UnitTests(humans.BrokenSandbox()), [(total_task(), RIGHT)])


def test_every_outcome_has_a_meaning():
    assert {outcome.value for outcome in Outcome} - {"ok"} <= {*OUTCOMES}
    assert meaning("exception:KeyError") == OUTCOMES["exception"] and meaning("new") == ""
