"""The embedded tasks are many, gradable, not to be guessed, and solved by asking."""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.dial import PRESETS
from colbench_gym.tasks.embedded import (
    SPLITS,
    description,
    embedded_tasks,
    families,
    family_of,
    make_task,
    reference_knowing,
)
from colbench_gym.tasks.task import BUDGET

CONSTANTS = {"None": None, "0": 0, "False": False, "[]": [], '""': ""}
ANSWER = "I WANT TO ANSWER:\n```python\n{}\n```"
SLOW = pytest.mark.slow


def _sample(tasks, count):
    """Tasks of all kinds among some, the same in every run."""
    return random.Random(0).sample(tasks, min(count, len(tasks)))


def test_there_are_enough_families(by_family, preset):
    names = {place: set(by_family(f"{place}?preset={preset}")) for place in SPLITS}
    assert len(names["train"]) >= 48 and names["test"] <= names["train"] and len(names["test"]) >= 0.95 * len(names["train"])
    assert len(names["unseen"]) >= 8 and not names["unseen"] & names["train"]
    assert len(names["novel"]) >= 8 and not names["novel"] & (names["train"] | names["unseen"])


def test_there_are_enough_tasks(preset):
    number = {split: len(embedded_tasks(f"{split}?preset={preset}")) for split in SPLITS}
    assert number["train"] >= 2000 and min(number["test"], number["unseen"], number["novel"]) >= 300


def test_there_are_enough_specifications(preset):
    """Different functions; two families that share topics may have tasks with the same one."""
    number = {split: len({task.hidden.reference for task in embedded_tasks(f"{split}?preset={preset}")}) for split in SPLITS}
    assert number["train"] >= 1400 and number["test"] >= 300


def test_no_family_is_without_choice(by_family, preset):
    assert min(map(len, by_family(f"train?preset={preset}").values())) >= 4


@pytest.mark.parametrize(
    "query",
    [
        "preset=easy",
        "preset=standard",
        "preset=hard",
        "topics=8&relevant=2",
        pytest.param("topics=12&relevant=5&wishes=1-5", marks=SLOW),
    ],
)
def test_no_specification_stands_in_two_splits(query):
    splits = defaultdict(set)
    for place in SPLITS:
        for task in embedded_tasks(f"{place}?{query}"):
            splits[task.hidden.reference, task.hidden.calls].add(place)
    shared = Counter(tuple(sorted(places)) for places in splits.values() if len(places) > 1)
    assert shared == {}


def test_no_specification_of_test_stands_in_train_at_another_preset():
    """Whoever trains at one preset and tests at another is not tested on what was trained on."""
    train, others = (
        {
            (task.hidden.reference, task.hidden.calls)
            for split in some
            for name in PRESETS
            for task in embedded_tasks(f"{split}?preset={name}")
        }
        for some in (["train"], ["test", "unseen", "novel"])
    )
    assert len(train & others) == 0


def test_no_task_stands_twice_in_a_split(preset):
    for place in SPLITS:
        tasks = embedded_tasks(f"{place}?preset={preset}")
        assert len({task.id for task in tasks}) == len(tasks)
        assert len({(task.description, task.hidden.reference) for task in tasks}) == len(tasks)


def test_tasks_have_the_shape_of_the_benchmark(everything, preset):
    for task in everything(preset):
        family, choice = family_of(task)
        function = ast.parse(task.hidden.reference).body
        assert len(function) == 1 and isinstance(function[0], ast.FunctionDef) and function[0].name == task.function_name
        assert task.signature == f"def {task.function_name}({ast.unparse(function[0].args)})"
        assert 3 <= len(task.hidden.reference.splitlines()) <= 30
        assert len(task.hidden.calls) == len(set(task.hidden.calls)) == 10
        assert task.description.endswith(f"The signature of the function is: {task.signature}")
        assert task.hidden.plain == family.reference((0,) * len(choice)) != task.hidden.reference
        assert make_task(family, choice, PRESETS[preset]) == task


def test_what_the_person_knows_is_what_was_chosen(everything, preset):
    for task in everything(preset):
        family, choice = family_of(task)
        for topic, option, fact in zip(family.topics, choice, task.hidden.facts, strict=True):
            assert (fact.topic, fact.sentence, fact.is_special) == (topic.name, topic.options[option].says, option > 0)
            assert len(fact.phrases) == len(topic.asks) + len(topic.paraphrases) >= 10


def test_first_messages_say_everything_but_the_wishes(everything, preset):
    dial = PRESETS[preset]
    for task in everything(preset):
        family, _ = family_of(task)
        assert task.description == description(family, dial)
        assert BUDGET.format(dial.turns) in task.description and f"{task.example}." in task.description
        assert ("one question at a time" in task.description) == (dial.points == 1)
        assert all(part in task.description for part in (family.request, *family.cues))
        assert not any(fact.sentence in task.description for fact in task.hidden.facts)


@pytest.mark.parametrize("place", SPLITS)
def test_references_give_values(values, place, preset):
    for task in embedded_tasks(f"{place}?preset={preset}"):
        found = values(task.hidden.reference, task.hidden.calls)
        assert not [value for value in found if isinstance(value, type)], task.id


@pytest.mark.parametrize("place", SPLITS)
@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_constant_answer_passes_under_5_percent_of_the_tests(values, place, constant):
    passed = [
        value == CONSTANTS[constant]
        for task in embedded_tasks(place)
        for value in values(task.hidden.reference, task.hidden.calls)
    ]
    assert sum(passed) / len(passed) < 0.05


@pytest.mark.parametrize("place", SPLITS)
def test_answering_without_asking_succeeds_on_under_10_percent(values, by_family, place, preset):
    """Even an agent that knows what the family's other tasks wish, and takes what is most common there, hardly ever succeeds."""
    known = by_family(f"{place.replace('test', 'train')}?preset={preset}")
    successes = {"plain": [], "common": []}
    for name, tasks in by_family(f"{place}?preset={preset}").items():
        for task in tasks:
            family, choice = family_of(task)
            others = [family_of(other)[1] for other in known.get(name, ()) if other.id != task.id] or [(0,) * len(choice)]
            common = tuple(Counter(options).most_common(1)[0][0] for options in zip(*others, strict=True))
            expected = values(task.hidden.reference, task.hidden.calls)
            successes["plain"].append(values(task.hidden.plain, task.hidden.calls) == expected)
            successes["common"].append(values(family.reference(common), task.hidden.calls) == expected)
    assert sum(successes["plain"]) == 0
    assert sum(successes["common"]) < 0.1 * len(successes["common"])


@pytest.mark.parametrize(
    "query", ["preset=standard", pytest.param("preset=easy", marks=SLOW), pytest.param("preset=hard", marks=SLOW)]
)
@pytest.mark.parametrize("place", SPLITS)
def test_every_special_wish_makes_a_difference_to_a_test(values, place, query):
    """Whoever misses one of the wishes fails."""
    for task in embedded_tasks(f"{place}?{query}"):
        family, choice = family_of(task)
        expected = values(task.hidden.reference, task.hidden.calls)
        for i in filter(choice.__getitem__, range(len(choice))):
            other = family.reference((*choice[:i], 0, *choice[i + 1 :]))
            assert values(other, task.hidden.calls) != expected, (task.id, family.topics[i].name)


@pytest.mark.parametrize("place", ["test", "unseen", "novel", pytest.param("train", marks=SLOW)])
def test_a_wish_taken_for_another_one_hardly_ever_passes(values, place):
    """Another wish in place of the one meant fails, but for one in a hundred; a wish that nobody has fails mostly."""
    instead, besides = [], []
    for task in embedded_tasks(place):
        family, choice = family_of(task)
        expected = values(task.hidden.reference, task.hidden.calls)
        for i in family.relevant:
            for option in set(range(1, len(family.topics[i].options))) - {choice[i]}:
                other = values(family.reference((*choice[:i], option, *choice[i + 1 :])), task.hidden.calls)
                (instead if choice[i] else besides).append(other == expected)
    assert sum(instead) < 0.01 * len(instead) and sum(besides) < 0.1 * len(besides)


def _asks_for_all(env, task, number=0):
    """Ask about every topic, one a turn; what was heard last each time."""
    env.reset(seed=0, options={"task_id": task.id})
    for topic in family_of(task)[0].topics:
        yield env.step(topic.asks[number % len(topic.asks)])[4]["messages"]


def _is_heard_by_asking(env, tasks):
    for number, task in enumerate(tasks):
        for fact, messages in zip(task.hidden.facts, _asks_for_all(env, task, number), strict=True):
            assert fact.sentence in messages[-1]["content"], (task.id, messages[-2:])


def test_every_fact_is_heard_by_asking(make_env, everything, preset):
    """Through the real environment, with every wording of a topic's own question."""
    tasks = _sample(everything(preset), 150)
    _is_heard_by_asking(make_env(tasks=tasks, max_turns=30), tasks)


@pytest.mark.slow
def test_every_fact_is_heard_by_asking_on_every_task(make_env, everything, preset):
    tasks = everything(preset)
    _is_heard_by_asking(make_env(tasks=tasks, max_turns=30), tasks)


def _succeeds_by_asking(env, task):
    *_, messages = _asks_for_all(env, task)
    heard = " ".join(message["content"] for message in messages[1:] if message["role"] == "user")
    known = {fact.topic for fact in task.hidden.facts if fact.sentence in heard}
    return env.step(ANSWER.format(reference_knowing(task, known)))[4]["metrics"]["success"] == 1


def test_an_agent_that_asks_all_succeeds(make_env, everything, preset):
    tasks = _sample(everything(preset), 80)
    env = make_env(tasks=tasks, max_turns=30)
    assert [task.id for task in tasks if not _succeeds_by_asking(env, task)] == []


@pytest.mark.slow
def test_an_agent_that_asks_all_succeeds_on_every_task(make_env, everything):
    tasks = everything()
    env = make_env(tasks=tasks, max_turns=30)
    assert [task.id for task in tasks if not _succeeds_by_asking(env, task)] == []


def test_a_person_with_time_for_one_question_answers_the_first(make_env):
    """At the standard dial a message on two topics gets one fact, at the easy one it gets both."""
    for preset, answered in (("standard", 1), ("easy", 2)):
        tasks = load_tasks(f"embedded:test?preset={preset}[:20]")
        env = make_env(tasks=tasks)
        facts = []
        for task in tasks:
            family, _ = family_of(task)
            env.reset(seed=0, options={"task_id": task.id})
            one, two = family.relevant[:2]
            said = env.step(f"{family.topics[one].asks[0]} {family.topics[two].asks[0]}")[4]["messages"][-1]["content"]
            facts.append([task.hidden.facts[i].sentence in said for i in (one, two)])
        assert facts == [[True, answered == 2]] * len(tasks)


def _are_perfect(sandbox, tasks):
    scores = UnitTests(sandbox).score_many([(task, task.hidden.reference) for task in tasks])
    return [task.id for task, score in zip(tasks, scores, strict=True) if score.calls != ("passed",) * 10] == []


def test_references_pass_their_own_tests_in_the_sandbox(sandbox, everything, preset):
    assert _are_perfect(sandbox, _sample(everything(preset), 100))


@pytest.mark.slow
def test_all_references_pass_their_own_tests_in_the_sandbox(sandbox, everything, preset):
    assert _are_perfect(sandbox, everything(preset))


def test_what_was_not_heard_is_taken_as_plain():
    task = embedded_tasks("test")[0]
    family, choice = family_of(task)
    topics = [topic.name for topic in family.topics]
    first = next(i for i, option in enumerate(choice) if option)
    assert reference_knowing(task, topics) == task.hidden.reference
    assert reference_knowing(task, ()) == family.reference((0,) * len(choice)) == task.hidden.plain
    assert reference_knowing(task, [topics[first]]) == family.reference(tuple(o * (i == first) for i, o in enumerate(choice)))


def test_only_embedded_tasks_know_their_family(total_task):
    with pytest.raises(ValueError, match=r"^Expected an embedded task, got 'total/0'; only those know their family\.$"):
        family_of(total_task())


def test_any_prefix_of_a_split_mixes_all_families(preset):
    number = len(families("train", PRESETS[preset]))
    assert len({family_of(task)[0].name for task in embedded_tasks(f"train?preset={preset}")[:number]}) == number


@pytest.mark.parametrize("split", SPLITS)
def test_the_domains_share_a_split_out(split):
    parts = [load_tasks(f"embedded:{split}/{domain}") for domain in SPLITS[split]]
    assert all(len({family_of(task)[0].name for task in part}) >= 3 for part in parts)
    assert sorted(task.id for part in parts for task in part) == sorted(task.id for task in load_tasks(f"embedded:{split}"))


def test_with_other_turns_the_request_says_them(preset, total_task):
    for task in embedded_tasks(f"test?preset={preset}")[:50]:
        other = task.with_turns(3)
        assert other.turns == 3 and other.description == task.description.replace(BUDGET.format(task.turns), BUDGET.format(3))
        assert BUDGET.format(3) in other.description and BUDGET.format(task.turns) not in other.description
        assert task.with_turns(task.turns) is task and other.with_turns(task.turns) == task
    assert total_task().with_turns(3) is not None and total_task().with_turns(3) == total_task()


@pytest.mark.parametrize(
    "source", ["embedded:test", "embedded:test?preset=easy", "embedded:novel?preset=hard", "embedded:test?turns=3"]
)
def test_an_episode_has_the_turns_that_the_request_says(make_env, source):
    env = make_env(tasks=load_tasks(f"{source}[:3]"))
    _, info = env.reset(seed=0)
    turns = env.unwrapped.task.turns
    assert BUDGET.format(turns) in info["messages"][0]["content"]
    assert [env.step("Hello.")[2] for _ in range(turns)] == [False] * (turns - 1) + [True]


def test_max_turns_is_what_the_request_says(make_env):
    env = make_env(tasks=load_tasks("embedded:test[:3]"), max_turns=2)
    observation, info = env.reset(seed=0)
    assert BUDGET.format(2) in info["messages"][0]["content"] and BUDGET.format(6) not in observation
    assert [env.step("Hello.")[2] for _ in range(2)] == [False, True]


def _everything():
    names = ("train", "test", "unseen", "novel", "test/figures?preset=easy")
    return "".join(f"{task}\n{task.hidden}\n" for name in names for task in load_tasks(f"embedded:{name}"))


def test_the_tasks_are_the_same_in_every_process():
    """In this one, whose hashes of texts differ too."""
    program = f"from colbench_gym.tasks import load_tasks\n{inspect.getsource(_everything)}\nprint(_everything(), end='')"
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    there = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True).stdout
    here = _everything().encode()
    assert hashlib.sha256(there).hexdigest() == hashlib.sha256(here).hexdigest() and len(here) > 1_000_000


def test_the_tasks_are_the_same_on_every_machine():
    first = [task.id for split in SPLITS for task in load_tasks(f"embedded:{split}[:2]")]
    assert first == [
        "embedded/standard/total+negative+rounding+text/000000110000",
        "embedded/standard/average+unmeasured+tax+text/020030000000",
        "embedded/standard/total+negative+rounding+text/003000030000",
        "embedded/standard/average+unmeasured+tax+text/000030001000",
        "embedded/standard/total+unit+tax+fee/000310000000",
        "embedded/standard/average+unmeasured+unit+duplicate/030020000000",
        "embedded/standard/trip_fare/100010000000",
        "embedded/standard/luggage_fee/100010000000",
    ]
