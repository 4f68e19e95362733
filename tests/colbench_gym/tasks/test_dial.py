"""The dial sets how hard the embedded tasks are, and says which settings no task can have."""

from __future__ import annotations

import re

import pytest

from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.dial import MOST_RELEVANT, MOST_TOPICS, PRESETS, STANDARD, Dial, parse_dial
from colbench_gym.tasks.embedded import dial_of, dial_of_source, embedded_tasks, family_of


def test_the_presets():
    assert {
        "easy": Dial(topics=5, relevant=5, wishes=(2, 4), turns=10, points=2),
        "standard": Dial(topics=12, relevant=3, wishes=(2, 2), turns=6, points=1),
        "hard": Dial(topics=16, relevant=3, wishes=(2, 2), turns=7, points=1),
    } == PRESETS
    assert parse_dial("") == STANDARD == PRESETS["standard"]


@pytest.mark.parametrize(
    ("query", "dial"),
    [
        ("preset=hard", PRESETS["hard"]),
        ("topics=8", Dial(topics=8)),
        ("topics=8&turns=5", Dial(topics=8, turns=5)),
        ("turns=5&topics=8", Dial(topics=8, turns=5)),
        ("wishes=1-3", Dial(wishes=(1, 3))),
        ("wishes=3&points=2", Dial(wishes=(3, 3), points=2)),
        ("preset=easy&wishes=5", Dial(topics=5, relevant=5, wishes=(5, 5), turns=10, points=2)),
        ("points=2&preset=hard", Dial(topics=16, turns=7, points=2)),
        (f"topics={MOST_TOPICS}&relevant={MOST_RELEVANT}&wishes=1-{MOST_RELEVANT}&turns=7", Dial(20, 6, (1, 6), 7)),
        ("topics=1&relevant=1&wishes=1&turns=2", Dial(1, 1, (1, 1), 2)),
    ],
)
def test_what_a_query_leaves_out_is_the_presets(query, dial):
    assert parse_dial(query) == dial


@pytest.mark.parametrize(
    ("query", "bound"),
    [
        ("topics=0", "`topics` must be from 1 to 20, got 0"),
        ("topics=21", "`topics` must be from 1 to 20, got 21"),
        ("topics=100000", "`topics` must be from 1 to 20, got 100000"),
        ("relevant=0", "`relevant` must be from 1 to 6, got 0"),
        ("relevant=7", "`relevant` must be from 1 to 6, got 7"),
        ("topics=2", "`relevant` must be at most `topics`=2, got 3"),
        ("wishes=0", "`wishes` must be a number from 1 on, or a range such as 2-4, got 0-0"),
        ("wishes=3-2", "`wishes` must be a number from 1 on, or a range such as 2-4, got 3-2"),
        ("wishes=4", "`wishes` must be at most `relevant`=3, got 4"),
        ("wishes=2-4", "`wishes` must be at most `relevant`=3, got 4"),
        ("turns=2", "`turns` must be at least `wishes` + 1 = 3, got 2"),
        ("turns=0", "`turns` must be at least `wishes` + 1 = 3, got 0"),
        ("turns=101", "`turns` must be at most 100, got 101"),
        ("points=0", "`points` must be 1 or 2, got 0"),
        ("points=3", "`points` must be 1 or 2, got 3"),
    ],
)
def test_an_impossible_dial_is_an_error_that_names_the_bound(query, bound):
    with pytest.raises(ValueError, match=f"^{re.escape(f'No embedded task can have this dial: {bound}.')}$"):
        load_tasks(f"embedded:train?{query}")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("colour=3", "A dial may set preset, topics, relevant, wishes, turns, points, got 'colour' in 'colour=3'."),
        ("topics=8&=3", "A dial may set preset, topics, relevant, wishes, turns, points, got '' in 'topics=8&=3'."),
        ("turns=5&topics=8&turns=5", "A dial may set each number once, got 'turns' twice in 'turns=5&topics=8&turns=5'."),
        ("preset=easy&preset=hard", "A dial may set each number once, got 'preset' twice in 'preset=easy&preset=hard'."),
        ("preset=insane", "`preset` must be one of ('easy', 'standard', 'hard'), got 'insane'."),
        ("preset", "`preset` must be one of ('easy', 'standard', 'hard'), got ''."),
        ("topics=many", "`topics` of a dial must be a positive whole number, got 'many'."),
        ("topics=1.5", "`topics` of a dial must be a positive whole number, got '1.5'."),
        ("topics=-3", "`topics` of a dial must be a positive whole number, got '-3'."),
        ("topics=٣", "`topics` of a dial must be a positive whole number, got '٣'."),
        ("turns=", "`turns` of a dial must be a positive whole number, got ''."),
        ("turns=1-3", "`turns` of a dial must be a positive whole number, got '1-3'."),
        ("wishes=few", "`wishes` of a dial must be a positive whole number or a range such as 2-4, got 'few'."),
        ("wishes=1-2-3", "`wishes` of a dial must be a positive whole number or a range such as 2-4, got '1-2-3'."),
    ],
)
def test_a_query_that_is_no_dial_is_refused(query, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        load_tasks(f"embedded:train?{query}")


@pytest.mark.parametrize(
    ("place", "query", "bounds"),
    [
        ("novel/travel", "topics=20&relevant=3&wishes=2&turns=6&points=1", (17, 5)),
        ("novel/library", "topics=12&relevant=6&wishes=2&turns=6&points=1", (17, 5)),
    ],
)
def test_a_dial_at_which_no_family_of_a_domain_has_tasks_is_refused(place, query, bounds):
    topics, relevant = bounds
    text = (
        f"No family of 'embedded:{place}' has tasks at the dial {query!r}: `topics` can be at most {topics} there and "
        f"`relevant` at most {relevant}; within these, ask for fewer `wishes`."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        load_tasks(f"embedded:{place}?{query}")


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("", "standard"),
        ("preset=hard", "hard"),
        ("topics=16&turns=7", "hard"),
        ("topics=8&turns=5", "topics=8&relevant=3&wishes=2&turns=5&points=1"),
        ("wishes=1-3", "topics=12&relevant=3&wishes=1-3&turns=6&points=1"),
    ],
)
def test_the_id_of_a_task_holds_its_dial(query, name):
    for task in load_tasks(f"embedded:test?{query}[:20]"):
        assert task.id.startswith(f"embedded/{name}/")
        assert dial_of(task) == parse_dial(query)
        family, choice = family_of(task)
        assert task.id == f"embedded/{name}/{family.name}/{''.join(map(str, choice))}"


@pytest.mark.parametrize(
    ("source", "query"),
    [
        ("embedded:train", ""),
        ("embedded:train[:5]", ""),
        ("embedded:test/figures?topics=8&turns=5", "topics=8&turns=5"),
        ("embedded:novel?preset=hard[3:]", "preset=hard"),
        ("rows.jsonl[:3]", ""),
        ("hub:somebody/something?topics=8", ""),
    ],
)
def test_the_dial_in_the_name_of_a_source(source, query):
    assert dial_of_source(source) == parse_dial(query)


def test_splits_and_domains_and_slices_take_a_dial():
    whole = embedded_tasks("train?topics=8&turns=5")
    assert load_tasks("embedded:train?topics=8&turns=5[3:9]") == whole[3:9]
    assert embedded_tasks("train?turns=5&topics=8") == whole
    assert embedded_tasks("train?") == embedded_tasks("train") == embedded_tasks("train?preset=standard")
    domain = load_tasks("embedded:test/figures?topics=8&turns=5")
    assert {family_of(task)[0].area for task in domain} == {"figures"}
    assert {(len(task.hidden.facts), task.turns) for task in domain} == {(8, 5)}


@pytest.mark.parametrize(
    "query",
    ["", "preset=easy", "preset=hard", "topics=20&relevant=6&wishes=1-2&turns=3", "relevant=1&topics=1&wishes=1&points=2"],
)
def test_every_task_is_as_its_dial_says(query):
    dial = parse_dial(query)
    for split in ("test", "unseen", "novel"):
        for task in embedded_tasks(f"{split}?{query}"):
            family, choice = family_of(task)
            assert len(family.topics) == len(task.hidden.facts) == dial.topics
            assert len(family.relevant) == len(family.cues) == dial.relevant
            assert dial.wishes[0] <= sum(fact.is_special for fact in task.hidden.facts) <= dial.wishes[1]
            assert {i for i, option in enumerate(choice) if option} <= set(family.relevant)
            assert (task.turns, task.points) == (dial.turns, dial.points)
