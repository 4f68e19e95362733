"""The embedded tasks are many, gradable, not to be guessed, and solved by asking."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from functools import cache

import pytest

from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.embedded import (
    SEEN_DOMAINS,
    SPLITS,
    UNSEEN_DOMAINS,
    embedded_tasks,
    families,
    family_of,
    make_task,
    reference_knowing,
)

CONSTANTS = {"None": None, "0": 0, "False": False, "[]": [], '""': ""}
ANSWER = "I WANT TO ANSWER:\n```python\n{}\n```"


@cache
def _values(source, calls):
    """What our own references return, run here: they are trusted, and it is quick. An exception stands for itself."""
    values = []
    code = compile(source, "<reference>", "exec")
    for call in calls:
        namespace = {}
        exec(code, namespace)
        try:
            values.append(eval(call, namespace))
        except Exception as error:
            values.append(type(error))
    return values


def _by_family(split):
    tasks = defaultdict(list)
    for task in embedded_tasks(split):
        tasks[family_of(task)[0].name].append(task)
    return tasks


def _all_tasks():
    return [task for split in SPLITS for task in embedded_tasks(split)]


def _sample(count):
    """Tasks of all splits and families, the same in every run."""
    tasks = _all_tasks()
    return tasks[:: max(1, len(tasks) // count)]


def test_there_are_enough_families_and_tasks():
    names = {split: set(_by_family(split)) for split in SPLITS}
    assert len(names["train"]) >= 40 and names["test"] == names["train"]
    assert len(names["unseen"]) >= 8 and not names["unseen"] & names["train"]
    assert len({task.hidden.reference for task in embedded_tasks("train")}) >= 2000
    assert len(embedded_tasks("test")) >= 300 and len(embedded_tasks("unseen")) >= 300


def test_no_task_stands_in_two_splits():
    references = [task.hidden.reference for task in _all_tasks()]
    assert len(set(references)) == len(references)
    assert len({task.id for task in _all_tasks()}) == len(references)


def test_tasks_have_the_shape_of_the_benchmark():
    for task in _all_tasks():
        family, choice = family_of(task)
        function = ast.parse(task.hidden.reference).body
        assert len(function) == 1 and isinstance(function[0], ast.FunctionDef) and function[0].name == task.function_name
        assert task.signature == f"def {task.function_name}({ast.unparse(function[0].args)})"
        assert 5 <= len(task.hidden.reference.splitlines()) <= 30
        assert len(task.hidden.calls) == len(set(task.hidden.calls)) == 10
        assert task.description.endswith(f"The signature of the function is: {task.signature}")
        assert 4 <= len(family.topics) <= 6 and len(task.hidden.facts) == len(family.topics)
        assert 2 <= sum(fact.is_special for fact in task.hidden.facts) <= 4
        assert all(fact.sentence.endswith(".") and len(fact.sentence.split()) <= 15 for fact in task.hidden.facts)
        assert make_task(family, choice) == task


@pytest.mark.parametrize("split", SPLITS)
def test_references_give_values(split):
    for task in embedded_tasks(split):
        assert not [value for value in _values(task.hidden.reference, task.hidden.calls) if isinstance(value, type)], task.id


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_constant_answer_passes_under_5_percent_of_the_tests(split, constant):
    passed = [
        value == CONSTANTS[constant]
        for task in embedded_tasks(split)
        for value in _values(task.hidden.reference, task.hidden.calls)
    ]
    assert sum(passed) / len(passed) < 0.05


@pytest.mark.parametrize("split", SPLITS)
def test_answering_without_asking_succeeds_on_under_10_percent(split):
    """Even an agent that knows how often each wish is made, and takes the most common one, hardly ever succeeds."""
    successes = []
    for tasks in _by_family(split).values():
        family, _ = family_of(tasks[0])
        choices = [family_of(task)[1] for task in tasks]
        common = tuple(Counter(options).most_common(1)[0][0] for options in zip(*choices, strict=True))
        for guess in (common, (0,) * len(common)):
            successes += [
                _values(family.reference(guess), task.hidden.calls) == _values(task.hidden.reference, task.hidden.calls)
                for task in tasks
            ]
            assert sum(successes[-len(tasks) :]) <= 1
    assert sum(successes) / len(successes) < 0.1 / 2  # of two guesses each


@pytest.mark.parametrize("split", SPLITS)
def test_every_fact_is_told_apart_by_the_calls(split):
    """A reference with any other option on any one topic fails a test."""
    for task in embedded_tasks(split):
        family, choice = family_of(task)
        values = _values(task.hidden.reference, task.hidden.calls)
        for i, topic in enumerate(family.topics):
            for option in set(range(len(topic.options))) - {choice[i]}:
                other = family.reference((*choice[:i], option, *choice[i + 1 :]))
                assert _values(other, task.hidden.calls) != values, (task.id, topic.name, option)


def test_every_fact_is_heard_by_asking(make_env):
    """Through the real environment, with every wording of every topic's question, on every task."""
    env = make_env(tasks=_all_tasks(), max_turns=10)
    for number, task in enumerate(_all_tasks()):
        family, _ = family_of(task)
        env.reset(seed=0, options={"task_id": task.id})
        for topic, fact in zip(family.topics, task.hidden.facts, strict=True):
            info = env.step(topic.asks[number % len(topic.asks)])[4]
            assert fact.sentence in info["messages"][-1]["content"], (task.id, topic.name)


def _succeeds_by_asking(env, task):
    family, _ = family_of(task)
    env.reset(seed=0, options={"task_id": task.id})
    for topic in family.topics:
        info = env.step(topic.asks[0])[4]
    heard = " ".join(message["content"] for message in info["messages"][1:] if message["role"] == "user")
    known = {fact.topic for fact in task.hidden.facts if fact.sentence in heard}
    return env.step(ANSWER.format(reference_knowing(task, known)))[4]["metrics"]["success"] == 1


def test_an_agent_that_asks_all_succeeds(make_env):
    env = make_env(tasks=_all_tasks())
    assert all(_succeeds_by_asking(env, task) for task in _sample(250))


@pytest.mark.slow
def test_an_agent_that_asks_all_succeeds_on_every_task(make_env):
    env = make_env(tasks=_all_tasks())
    assert all(_succeeds_by_asking(env, task) for task in _all_tasks())


def _are_perfect(sandbox, tasks):
    scores = UnitTests(sandbox).score_many([(task, task.hidden.reference) for task in tasks])
    return [task.id for task, score in zip(tasks, scores, strict=True) if score.calls != ("passed",) * 10] == []


def test_references_pass_their_own_tests_in_the_sandbox(sandbox):
    assert _are_perfect(sandbox, _sample(200))


@pytest.mark.slow
def test_all_references_pass_their_own_tests_in_the_sandbox(sandbox):
    assert _are_perfect(sandbox, _all_tasks())


def test_what_was_not_heard_is_taken_as_plain():
    task = embedded_tasks("test")[0]
    family, choice = family_of(task)
    topics = [topic.name for topic in family.topics]
    assert reference_knowing(task, topics) == task.hidden.reference
    assert reference_knowing(task, ()) == family.reference((0,) * len(choice))
    assert reference_knowing(task, topics[:1]) == family.reference((choice[0], *[0] * (len(choice) - 1)))


def test_only_embedded_tasks_know_their_family(total_task):
    with pytest.raises(ValueError, match=r"^Expected an embedded task, got 'total/0'; only those know their family\.$"):
        family_of(total_task())


def test_any_prefix_of_a_split_mixes_all_families():
    first = embedded_tasks("train")[: len(families(seen=True))]
    assert len({family_of(task)[0].name for task in first}) == len(families(seen=True))


@pytest.mark.parametrize("split", SPLITS)
def test_the_domains_share_a_split_out(split):
    domains = UNSEEN_DOMAINS if split == "unseen" else SEEN_DOMAINS
    parts = [load_tasks(f"embedded:{split}/{domain}") for domain in domains]
    assert all(len({task.id.split("/")[1] for task in part}) in (3, 4, 5) for part in parts)
    assert sorted(task.id for part in parts for task in part) == sorted(task.id for task in load_tasks(f"embedded:{split}"))


def test_the_tasks_are_the_same_on_every_machine():
    first = [task.id for split in SPLITS for task in load_tasks(f"embedded:{split}[:2]")]
    assert first == [
        "embedded/invoice_total/12010",
        "embedded/late_fee/01001",
        "embedded/invoice_total/12011",
        "embedded/late_fee/20010",
        "embedded/trip_fare/12001",
        "embedded/luggage_fee/10010",
    ]
