"""Demonstrations: mediocre on purpose, and blind to what is hidden unless they say so."""

from __future__ import annotations

import pytest

from colbench_gym.scoring.answer import ANSWER_MARKER
from colbench_gym.simulators import make
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.embedded import family_of, reference_knowing
from sweetrl_agent.chat import hint_message
from sweetrl_agent.imitation import LONGEST_TALK, Demonstrator, demonstrations

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


def test_topics_are_worked_through_in_their_order():
    demonstrator = Demonstrator(questions=(0, 0, 0, 0, 0, 1))
    firsts = set()
    for i in range(COUNT):
        family, _ = family_of(TASKS[i % 20])
        dialogue = demonstrator.dialogue(TASKS[i % 20], make("scripted"), i)
        questions = [m["content"] for m in dialogue if m["role"] == "assistant"][:-1]
        order = [next(j for j, topic in enumerate(family.topics) if question in topic.asks) for question in questions]
        if dialogue[0]["role"] != "system":
            assert order == [(order[0] + j) % 5 for j in range(5)]
            firsts.add(order[0])
    assert firsts == set(range(5))


def test_a_hinted_demonstrator_says_so_and_answers_rightly():
    for i, dialogue in enumerate(_demonstrations(hinted_fraction=1.0, exercise_fraction=0.0)):
        task = TASKS[i % 20]
        assert dialogue[:1] == hint_message(task.hidden.reference)
        assert _answers_rightly(task, dialogue)


def test_exercises_are_a_request_and_its_answer():
    for dialogue in _demonstrations(exercise_fraction=1.0, talk_fraction=0.0):
        assert [message["role"] for message in dialogue] == ["user", "assistant"]
        assert dialogue[1]["content"].startswith(ANSWER_MARKER)


def test_a_long_talk_is_read_and_only_its_right_answer_imitated():
    lengths = set()
    for i, dialogue in enumerate(_demonstrations(exercise_fraction=1.0, talk_fraction=1.0)):
        *talk, answer = dialogue
        assert all(message["weight"] == 0 for message in talk) and "weight" not in answer
        assert [message["role"] for message in talk] == ["user", *["assistant", "user"] * (len(talk) // 2)]
        family, choice = family_of(TASKS[i % 20])
        heard = " ".join(message["content"] for message in talk[2::2])
        known = {t.name for t, index in zip(family.topics, choice, strict=True) if t.options[index].says in heard}
        assert answer["content"] == f"{ANSWER_MARKER}\n{reference_knowing(TASKS[i % 20], known)}"
        lengths.add(len(talk) // 2 + 1)
    assert max(lengths) == LONGEST_TALK and min(lengths) >= 5


def test_the_shares_are_as_asked():
    dialogues = _demonstrations(hinted_fraction=0.4, exercise_fraction=0.5)
    hinted = sum(dialogue[0]["role"] == "system" for dialogue in dialogues) / COUNT
    assert 0.1 < hinted < 0.3  # 0.2 of all
