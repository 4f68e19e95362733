"""The voting rule: answers agree where their programs behave alike, on inputs that anybody can make."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.scoring.vote import NUM_INPUTS, inputs_of, plurality, vote
from colbench_gym.tasks.embedded import embedded_tasks, family_of, one_wish_apart
from colbench_gym.tasks.task import HiddenTask, Task


@pytest.fixture(scope="module")
def unit_tests(sandbox):
    return UnitTests(sandbox)


@pytest.mark.parametrize(
    ("keys", "chosen"), [("abb", 1), ("aab", 0), ("ab", 0), ("abcb", 1), ([None, "a"], 1), ([None, None, "a"], 2), ([None], 0)]
)
def test_the_first_of_the_most_frequent_is_chosen_and_none_is_no_vote(keys, chosen):
    assert plurality(keys) == chosen


def test_programs_that_behave_alike_agree_whatever_their_text(unit_tests):
    task = embedded_tasks("test")[0]
    right, other = task.hidden.reference, task.hidden.plain
    renamed = right.replace("result", "outcome")
    answers = [other, f"```python\n{right}\n```", f"Here it is:\n\n{renamed}", "I do not know.", "I do not know."]
    assert renamed != right and vote(task, answers, unit_tests) == 1
    assert vote(task, [other, right], unit_tests) == 0


def test_answers_without_a_value_have_no_vote_unless_all_are_so(unit_tests):
    task = embedded_tasks("test")[0]
    broken = "def total(values):\n    return missing"
    assert vote(task, [broken, broken, task.hidden.plain], unit_tests) == 2
    assert vote(task, [broken, "def total(values:"], unit_tests) == 0


def test_nothing_hidden_is_used(unit_tests):
    task = embedded_tasks("test")[0]
    blind = replace(task, hidden=HiddenTask("", ()))
    answers = [*one_wish_apart(task)[:3], task.hidden.reference, task.hidden.reference]
    assert vote(blind, answers, unit_tests) == vote(task, answers, unit_tests) == 3
    assert inputs_of(blind, answers) == inputs_of(task, answers) and not {*inputs_of(task, answers)} & {*task.hidden.calls}


def test_a_task_without_an_example_is_decided_by_equal_programs(unit_tests):
    task = Task("row/0", "A total.", "def total(prices)", hidden=HiddenTask("def total(prices): ...", ("total([])",)))
    assert inputs_of(task) == ()
    assert (
        vote(
            task,
            [
                "def total(prices):\n    return 1",
                "```python\ndef total(prices):\n    return 2\n```",
                "def total(prices):\n    return 2",
            ],
            unit_tests,
        )
        == 1
    )


@pytest.mark.parametrize("example", ["total([1.0, 2.0], rate=3)", "total(values=[1.0, 2.0], rate=3)"])
def test_arguments_by_name_are_varied_too(unit_tests, example):
    task = replace(embedded_tasks("test")[0], signature="def total(values, rate)", example=example)
    plain, right, same = (
        f"def total(values, rate):\n    return {code}" for code in ("sum(values)", "sum(values) * rate", "rate * sum(values)")
    )
    assert len({*inputs_of(task)}) > NUM_INPUTS / 2 and vote(task, [plain, right, same], unit_tests) == 1


@pytest.mark.parametrize("source", ["def f(x:", "x = " + "9" * 5000, f"x = {'1' * 40!r}", "x = 1e999", "x = 0x" + "f" * 5000])
def test_constants_of_any_program_are_no_trouble(source):
    task = embedded_tasks("test")[0]
    assert len(inputs_of(task, [source])) == NUM_INPUTS and all(len(call) < 1000 for call in inputs_of(task, [source]))


@pytest.mark.parametrize(("split", "least"), [("train", 0.95), ("test", 0.97), ("unseen", 0.97)])
def test_one_wish_makes_a_difference_on_the_inputs(split, least):
    """The share of programs with another choice on one topic whose values differ; the programs are our own, so they run here."""
    told_apart = []
    for task in embedded_tasks(split)[::40]:
        family, choice = family_of(task)
        for i in family.relevant:
            for option in {*range(len(family.topics[i].options))} - {choice[i]}:
                other = (*choice[:i], option, *choice[i + 1 :])
                if family.values(other) != family.values(choice):
                    calls = inputs_of(task, [task.hidden.reference, family.reference(other)])
                    told_apart.append(_values(task.hidden.reference, calls) != _values(family.reference(other), calls))
    assert len(told_apart) > 30 and sum(told_apart) / len(told_apart) >= least


def _values(source, calls):
    space, values = {}, []
    exec(source, space)
    for call in calls:
        try:
            values.append(repr(eval(call, space)))
        except Exception as error:
            values.append(type(error).__name__)
    return values
