"""Demonstrations: mediocre on purpose, and blind to what is hidden unless they say so."""

from __future__ import annotations

import numpy as np
import pytest

from colbench_gym.scoring.answer import ANSWER_MARKER
from colbench_gym.simulators import make
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.embedded import family_of
from sweetrl_agent.core.hint import hint_message
from sweetrl_agent.envs.backend_demonstrations import MOST_PLAIN, Demonstrator, demonstrations

TASKS = load_tasks("embedded:train[:20]")
COUNT = 200


def _demonstrations(**settings):
    simulator = make("scripted")
    return demonstrations(TASKS, simulator, COUNT, 0, Demonstrator(**settings))


def _answers_rightly(task, dialogue):
    return dialogue[-1]["content"] == f"{ANSWER_MARKER}\n{task.hidden.reference}"


@pytest.fixture(scope="module")
def blind():
    """Dialogues that are led by nothing hidden, with their tasks."""
    return [(TASKS[i % 20], d) for i, d in enumerate(_demonstrations(hinted_fraction=0.0, exercise_fraction=0.0))]


def test_the_same_seed_gives_the_same_dialogues():
    assert _demonstrations() == _demonstrations()
    assert demonstrations(TASKS, make("scripted"), 5, 1) != demonstrations(TASKS, make("scripted"), 5, 0)


def test_a_blind_dialogue_holds_no_hidden_code(blind):
    for task, dialogue in blind:
        assert [message["role"] for message in dialogue] == ["user", "assistant"] * (len(dialogue) // 2)
        heard = "\n".join(message["content"] for message in dialogue if message["role"] == "user")
        assert not [line for line in task.hidden.reference.splitlines()[1:] if len(line.strip()) > 12 and line.strip() in heard]
        assert all(ANSWER_MARKER not in message["content"] for message in dialogue[:-1])
        assert dialogue[-1]["content"].startswith(ANSWER_MARKER)


def test_a_blind_demonstrator_is_mediocre(blind):
    right = sum(_answers_rightly(task, dialogue) for task, dialogue in blind) / len(blind)
    assert 0.02 < right < 0.8, "with nothing right or all right there is nothing to learn"


def _topics_asked(task, dialogue):
    family, _ = family_of(task)
    questions = [m["content"] for m in dialogue if m["role"] == "assistant"][:-1]
    return [next(j for j, topic in enumerate(family.topics) if question in topic.asks) for question in questions]


def test_every_turn_but_the_last_asks_about_another_random_topic_of_the_list(blind):
    orders = [_topics_asked(task, dialogue) for task, dialogue in blind]
    assert all(len(order) == len(set(order)) == 5 for order in orders)
    asked = np.array([[topic in order for topic in range(12)] for order in orders])
    assert asked.mean(axis=0) == pytest.approx(np.full(12, 5 / 12), abs=0.12)  # three standard errors and more


def test_topics_are_asked_about_in_the_order_of_the_function(blind):
    for task, dialogue in blind:
        places = _topics_asked(task, dialogue)
        assert places == sorted(places)


def test_where_all_topics_could_be_asked_the_number_of_questions_varies():
    tasks = load_tasks("embedded:train?preset=easy[:20]")
    dialogues = demonstrations(tasks, make("scripted"), COUNT, 0, Demonstrator(hinted_fraction=0.0, exercise_fraction=0.0))
    assert {(len(dialogue) - 2) // 2 for dialogue in dialogues} == set(range(6))


def test_a_hinted_dialogue_covers_what_matters_among_as_many_others_as_usual():
    for i, dialogue in enumerate(_demonstrations(hinted_fraction=1.0, exercise_fraction=0.0)):
        _, choice = family_of(TASKS[i % 20])
        order = _topics_asked(TASKS[i % 20], dialogue)
        assert len(order) == 5 and {j for j, option in enumerate(choice) if option} <= set(order)


def test_a_hinted_demonstrator_says_so_and_answers_rightly():
    for i, dialogue in enumerate(_demonstrations(hinted_fraction=1.0, exercise_fraction=0.0)):
        task = TASKS[i % 20]
        assert dialogue[:1] == hint_message(task.hidden.reference, noun="function")
        assert _answers_rightly(task, dialogue)


def test_an_exercise_says_wishes_in_the_request_and_answers_with_these_alone():
    plain_answers = 0
    for i, dialogue in enumerate(_demonstrations(exercise_fraction=1.0)):
        task = TASKS[i % 20]
        request, answer = dialogue
        family, choice = family_of(task)
        said = [fact for fact in task.hidden.facts if fact.sentence in request["content"].split("\n")[1:]]
        assert sum(not fact.is_special for fact in said) <= MOST_PLAIN
        known = {fact.topic for fact in said}
        expected = family.reference(tuple(c if t.name in known else 0 for t, c in zip(family.topics, choice, strict=True)))
        assert answer["content"] == f"{ANSWER_MARKER}\n{expected}"
        plain_answers += expected == task.hidden.plain
    assert 0 < plain_answers < COUNT / 5


def test_the_shares_are_as_asked():
    dialogues = _demonstrations(hinted_fraction=0.4, exercise_fraction=0.5)
    hinted = sum(dialogue[0]["role"] == "system" for dialogue in dialogues) / COUNT
    assert 0.1 < hinted < 0.3  # 0.2 of all
