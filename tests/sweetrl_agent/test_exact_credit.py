"""The exact advantage: against the known answerer played out, by hand on a task, and that it refuses what it cannot know."""

from __future__ import annotations

import random

import pytest

import sandboxes
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks import Task, load_tasks
from sweetrl_agent.exact_credit import STOP, dialogue_value, exact_advantages, value


@pytest.fixture(scope="module")
def unit_tests():
    with sandboxes.make("embedded", workers=1) as sandbox:
        yield UnitTests(sandbox)


@pytest.fixture(scope="module")
def task():
    """An embedded task with two special wishes."""
    return next(t for t in load_tasks("embedded:train[:60]") if sum(fact.is_special for fact in t.hidden.facts) == 2)


def _played_out(special, plain, turns_left, rng):
    """One dialogue of the known answerer, turn by turn."""
    while True:
        if turns_left == 1 or special + plain == 0 or rng.random() < STOP:
            return special == 0
        if rng.random() < special / (special + plain):
            special -= 1
        else:
            plain -= 1
        turns_left -= 1


@pytest.mark.parametrize("state", [(2, 3, 10), (1, 0, 3), (4, 1, 5), (0, 5, 10), (3, 2, 3), (1, 4, 2)])
def test_the_value_is_the_known_answerers_success(state):
    rng = random.Random(0)
    n = 20_000
    played = sum(_played_out(*state, rng) for _ in range(n)) / n
    assert value(*state) == pytest.approx(played, abs=0.012)  # more than three standard errors


def test_a_dialogue_in_which_nothing_can_be_said_any_more_is_worth_nothing():
    assert value(0, 0, 0) == 0.0 and value(1, 0, 1) == 0.0 and value(0, 3, 1) == 1.0


def test_questions_that_bring_special_wishes_to_light_are_worth_most(task, unit_tests):
    request = [{"role": "user", "content": task.description}]
    special = next(fact for fact in task.hidden.facts if fact.is_special)
    plain = next(fact for fact in task.hidden.facts if not fact.is_special)
    useful, useless, idle, wrong, right = exact_advantages(
        task,
        request,
        [
            f"What about {special.topic}: {' '.join(special.keywords)}?",
            f"What about {plain.topic}: {' '.join(plain.keywords)}?",
            "Hello there.",
            f"I WANT TO ANSWER:\n{task.signature}:\n    return None",
            f"I WANT TO ANSWER:\n{task.hidden.reference}",
        ],
        unit_tests,
    )
    before = dialogue_value(task, request, 10)
    assert before == value(2, len(task.hidden.facts) - 2, 10)
    assert right == pytest.approx(1 - before) and wrong == pytest.approx(-before)
    assert right > useful > useless > idle > wrong
    assert idle == 0  # it takes a turn of which there are enough


def test_on_the_last_turn_everything_is_graded(task, unit_tests):
    turn = [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "Okay."}]
    messages = [{"role": "user", "content": task.description}, *turn * 9]
    question, answer = exact_advantages(task, messages, ["Any rounding?", task.hidden.reference], unit_tests)
    assert (question, answer) == (0.0, 1.0)  # the known answerer fails here too


def test_a_task_whose_facts_are_not_known_is_refused(unit_tests):
    row = Task("row", "I need f.", "def f()")
    with pytest.raises(ValueError, match=r"^Expected an embedded task, whose facts are known, got 'row'\.$"):
        exact_advantages(row, [{"role": "user", "content": "I need f."}], ["?"], unit_tests)
