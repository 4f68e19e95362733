"""The oracles: against the known answerer played out, by hand on a task, and that they refuse what they cannot know."""

from __future__ import annotations

import random

import pytest

import sandboxes
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks import Task, load_tasks
from colbench_gym.tasks.embedded import family_of, make_task
from sweetrl_agent.envs.backend_exact_credit import STOP, has_fixed_length, marginal_advantages, task_advantages, value

REPLY = {"role": "user", "content": "I have no preference."}


@pytest.fixture(scope="module")
def unit_tests():
    with sandboxes.make("embedded", workers=1) as sandbox:
        yield UnitTests(sandbox)


@pytest.fixture(scope="module")
def task():
    """A standard task: two special wishes among twelve topics, six turns."""
    return load_tasks("embedded:train[:1]")[0]


@pytest.fixture(scope="module")
def request_(task):
    return [{"role": "user", "content": task.description}]


def _played_out(special, plain, turns_left, stop, rng):
    """One dialogue of the known answerer, turn by turn."""
    while True:
        if turns_left == 1 or special + plain == 0 or rng.random() < stop:
            return special == 0
        if rng.random() < special / (special + plain):
            special -= 1
        else:
            plain -= 1
        turns_left -= 1


@pytest.mark.parametrize("state", [(2, 3, 10), (1, 0, 3), (4, 1, 5), (0, 5, 10), (3, 2, 3), (2, 10, 6)])
@pytest.mark.parametrize("stop", [STOP, 0.0])
def test_the_value_is_the_known_answerers_success(state, stop):
    rng = random.Random(0)
    n = 20_000
    played = sum(_played_out(*state, stop, rng) for _ in range(n)) / n
    assert value(*state, stop) == pytest.approx(played, abs=0.012)  # more than three standard errors


def test_a_dialogue_in_which_nothing_can_be_said_any_more_is_worth_nothing():
    assert value(0, 0, 0) == 0.0 and value(1, 0, 1) == 0.0 and value(0, 3, 1) == 1.0


@pytest.mark.parametrize(
    ("topics", "turns", "fixed"), [(12, 6, True), (12, 12, True), (12, 13, False), (5, 10, False), (5, 1, False)]
)
def test_the_answerer_asks_in_every_turn_where_that_leaves_topics_out(topics, turns, fixed):
    assert has_fixed_length(topics, turns) == fixed


def _fact(task, wanted):
    """Position and a question about the first fact for which `wanted` holds."""
    place = next(i for i, fact in enumerate(task.hidden.facts) if wanted(i, fact))
    return place, task.hidden.facts[place].phrases[0]


def test_the_oracle_of_the_task_knows_its_wishes(task, request_, unit_tests):
    _, useful_ask = _fact(task, lambda _, fact: fact.is_special)
    _, useless_ask = _fact(task, lambda _, fact: not fact.is_special)
    texts = [useful_ask, useless_ask, "Hello there.", f"I WANT TO ANSWER:\n{task.signature}:\n    return None"]
    texts.append(f"I WANT TO ANSWER:\n{task.hidden.reference}")
    useful, useless, idle, wrong, right = task_advantages(task, request_, texts, unit_tests)
    before = value(2, 10, 6, 0.0)
    assert right == pytest.approx(1 - before) and wrong == pytest.approx(-before)
    assert useful == pytest.approx(value(1, 10, 5, 0.0) - before) and useless == pytest.approx(value(2, 9, 5, 0.0) - before)
    assert idle == pytest.approx(value(2, 10, 5, 0.0) - before)
    assert right > useful > 0 > useless > idle > wrong


def test_the_marginal_oracle_credits_what_is_relevant_not_what_turns_out_special(task, request_, unit_tests):
    family, choice = family_of(task)
    relevant = [i for i in family.relevant if choice[i] == 0]
    asks = [_fact(task, lambda i, _: i == relevant[0])[1], _fact(task, lambda i, _: choice[i] > 0)[1]]
    asks.append(_fact(task, lambda i, _: i not in family.relevant)[1])
    by_task = task_advantages(task, request_, asks, unit_tests)
    by_family = marginal_advantages(task, request_, asks, unit_tests)
    assert by_task[1] > by_task[0] == by_task[2]  # this task has no wish on the first
    assert min(by_family[:2]) > 0 > by_family[2]  # but others of the family have


def test_what_was_said_narrows_what_the_marginal_oracle_thinks_possible(task, request_, unit_tests):
    """With both wishes heard the reference is right for sure; before, it is one of many guesses."""
    family, choice = family_of(task)
    answer = f"I WANT TO ANSWER:\n{task.hidden.reference}"
    every = list(family.choices((2, 2)))
    (early,) = marginal_advantages(task, request_, [answer], unit_tests)
    expected = sum(family.values(other) == family.values(choice) for other in every) / len(every)
    assert early == pytest.approx(expected - value(2, 10, 6, 0.0))
    heard = list(request_)
    for i in family.relevant:
        heard += [{"role": "assistant", "content": "?"}, {"role": "user", "content": task.hidden.facts[i].sentence}]
    (late,) = marginal_advantages(task, heard, [answer], unit_tests)
    assert late == 0.0  # it is right, and so is who asks on


def test_the_marginal_advantage_of_a_question_is_the_mean_of_the_tasks(task, request_, unit_tests):
    """Over all tasks of the family, each of which the oracle of the task knows."""
    family, _ = family_of(task)
    ask = _fact(task, lambda i, _: i in family.relevant)[1]
    every = [make_task(family, choice) for choice in family.choices((2, 2))]
    mean = sum(task_advantages(one, request_, [ask], unit_tests)[0] for one in every) / len(every)
    assert marginal_advantages(task, request_, [ask], unit_tests)[0] == pytest.approx(mean)


@pytest.mark.parametrize("advantages", [task_advantages, marginal_advantages])
def test_on_the_last_turn_everything_is_graded(task, request_, unit_tests, advantages):
    messages = [*request_, *[{"role": "assistant", "content": "Hello."}, REPLY] * 5]
    question, answer = advantages(task, messages, ["Any rounding?", task.hidden.reference], unit_tests)
    assert question == 0.0  # the known answerer fails here too
    assert answer == 1.0 if advantages is task_advantages else 0 < answer < 0.1
    longer = advantages(task.with_turns(10), messages, ["Hello there."], unit_tests, 10)
    assert longer[0] < 0  # no topic is asked about, in a turn that might have been used


def test_a_task_whose_facts_are_not_known_is_refused(unit_tests):
    row = Task("row", "I need f.", "def f()")
    for advantages in (task_advantages, marginal_advantages):
        with pytest.raises(ValueError, match=r"^Expected an embedded task with known facts, got 'row'\.$"):
            advantages(row, [{"role": "user", "content": "I need f."}], ["?"], unit_tests)
