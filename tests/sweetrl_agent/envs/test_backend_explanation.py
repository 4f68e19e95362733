"""Kinds of failure of function tasks, decided from what was said; explanations that know which wish a test is about."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from colbench_gym.dialogue import Dialogue
from colbench_gym.scoring.answer import ANSWER_MARKER
from colbench_gym.scoring.measures import turns_heard
from colbench_gym.simulators import make
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.embedded import family_of, reference_knowing
from colbench_gym.tasks.rows import row_from_task, task_from_row
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.core.explanation import WishCounts
from sweetrl_agent.envs.backend_exact_credit import open_oracle
from sweetrl_agent.envs.backend_explanation import KINDS, explain, failure, turns_asked, wish_counts

TASK = next(task for task in load_tasks("embedded:test[:40]") if sum(fact.is_special for fact in task.hidden.facts) == 2)
FAMILY, CHOICE = family_of(TASK)
TURNS = TASK.turns
WISHES = [topic for topic, option in zip(FAMILY.topics, CHOICE, strict=True) if option]
PLAIN = [topic for topic, option in zip(FAMILY.topics, CHOICE, strict=True) if not option]


def talk(*asks, answer=TASK.hidden.reference, marker=f"{ANSWER_MARKER}\n", task=TASK):
    """A dialogue with the scripted human: these messages, then an answer."""
    human, dialogue = make("scripted"), Dialogue().add("user", task.description)
    for text in asks:
        dialogue = dialogue.add("assistant", text)
        dialogue = dialogue.add("user", human.reply(task, dialogue, 0))
    return dialogue.add("assistant", marker + answer).to_dicts()


def row(messages, outcome="wrong", success=0, answered=1):
    """The row of a dialogue in evaluation.jsonl, as far as kinds need it."""
    turns = sum(message["role"] == "assistant" for message in messages)
    return {"outcome": outcome, "success": success, "answered": answered, "turns": turns, "dialogue_history": messages}


def kind(messages, task=TASK, states_wishes=True, **of):
    return failure(row(messages, **of), task, TURNS, states_wishes)


def asks(topics):
    return [topic.asks[0] for topic in topics]


def test_the_kind_is_what_went_wrong_first():
    both, one = asks(WISHES), asks(WISHES[:1])
    padded = asks(PLAIN)[: TASK.turns - 2]
    names = tuple(topic.name for topic in WISHES)
    assert kind(talk(*both), success=1, outcome="passed").kind == "passed"
    assert kind(talk(*both)).kind == "wrong_code" and kind(talk(*both)).unheard == ()
    assert kind(talk(*both), outcome="exception:KeyError").kind == kind(talk(*both), outcome="timeout").kind == "does_not_run"
    early = kind(talk(*one))
    assert (early.kind, early.about, early.wishes) == ("answered_early", names[1:], names)
    never = kind(talk(*one, *padded))
    assert (never.kind, never.about, never.unheard) == ("never_asked", names[1:], names[1:])
    assert kind(talk(*one, *padded), outcome="void", success=None, answered=None).kind == "void"
    assert kind(talk(*both, marker=""), answered=0).kind == "no_answer"
    assert kind(talk(), outcome="exception:SyntaxError").kind == kind(talk(), outcome="no_answer").kind == "not_parsed"
    assert kind(talk(answer="x = 3"), outcome="exception:NameError").kind == "not_parsed"
    assert kind(talk(*both, answer=f"{TASK.signature}:\n    return y"), outcome="exception:NameError").kind == "does_not_run"


def test_who_asks_two_things_at_once_is_told_one():
    two = f"{WISHES[0].asks[0]} {WISHES[1].asks[0].upper()}"
    found = kind(talk(two, *asks(PLAIN)[: TASK.turns - 2]))
    assert TASK.points == 1 and found.kind == "asked_in_vain" and len(found.about) == 1


def test_turns_of_wishes_are_those_of_question_and_reply():
    messages = talk(PLAIN[0].asks[0], WISHES[1].asks[0], WISHES[1].asks[0])
    special = [fact for fact in TASK.hidden.facts if fact.is_special]
    assert turns_heard(special, messages) == turns_asked(special, messages) == [None, 2]


def test_with_another_human_wishes_decide_nothing():
    """A model says the same in its own words: what was heard is then unknown."""
    messages = talk(*asks(PLAIN)[: TASK.turns - 1])
    assert kind(messages).kind == "never_asked" and kind(messages, states_wishes=False).kind == "wrong"
    assert kind(messages, states_wishes=False).wishes == ()


def test_a_row_without_wishes_has_its_own_kinds():
    task = task_from_row(row_from_task(TASK), Path("rows.jsonl"), 1)
    assert not task.hidden.facts
    assert kind(talk(task=TASK), task=task).kind == "answered_early"
    assert kind(talk("Why?"), task=task).kind == "wrong" and kind(talk("Why?"), task=task, outcome="memory").kind == "fails"


def test_every_kind_is_declared():
    assert len({one.name for one in KINDS}) == len(KINDS) and all(one.title and one.means.endswith(".") for one in KINDS)


@pytest.fixture(scope="module")
def explained():
    """Explanations of dialogues that end with these answers, by name."""
    known = WISHES[1].name
    answers = {
        "right": TASK.hidden.reference,
        "deaf": reference_knowing(TASK, {known}),
        "hostile": f"{TASK.signature}:\n    return '</script><img src=x onerror=alert(1)>' * 99",
        "broken": "def (:",
    }
    rows = {name: row(talk(*asks(WISHES[:1]), answer=answer), success=int(name == "right")) for name, answer in answers.items()}
    return dict(zip(rows, explain([(one, TASK) for one in rows.values()], "embedded", "module", 0, True), strict=True))


def test_a_test_names_the_wishes_that_it_depends_on(explained):
    tests = explained["deaf"]["tests"]
    assert len(tests) == 10 and {test["outcome"] for test in tests} == {"passed", "wrong"}
    for test in tests:  # what ignores a wish fails exactly the tests that depend on it
        assert (test["outcome"] == "wrong") == (WISHES[0].name in test["wishes"])


def test_it_says_what_a_wrong_program_does_instead(explained):
    (note,) = explained["deaf"]["notes"]
    assert note == f"In all tests the program does what the reference would do without the wish on {WISHES[0].name}."
    assert explained["right"]["notes"] == explained["hostile"]["notes"] == []
    assert explained["broken"]["notes"] == ["The program does not parse: invalid syntax, line 1."]


def test_values_of_programs_are_short_texts(explained):
    test = explained["hostile"]["tests"][0]
    assert test["got"].startswith("'</script><img") and test["got"].endswith("[cut]") and test["outcome"] == "wrong"
    assert explained["broken"]["tests"][0]["got"] == "<SyntaxError>" and "compile" in explained["broken"]["tests"][0]["meaning"]


def test_wishes_come_with_turns(explained):
    first, second = (wish for wish in explained["right"]["wishes"] if wish["is_special"])
    assert (first["topic"], first["asked"], first["heard"]) == (WISHES[0].name, 1, 1)
    assert (second["topic"], second["asked"], second["heard"]) == (WISHES[1].name, None, None)


def test_exact_advantages_are_the_oracles(explained):
    messages = talk(*asks(WISHES[:1]))
    with open_oracle("exact", [TASK], "embedded", 0) as oracle:
        expected = oracle.dialogue_advantages(messages, TASK.hidden.reference)
    assert explained["right"]["advantages"]["exact"] == pytest.approx(expected, abs=1e-4)


def test_a_row_has_the_facts_of_its_reference():
    task = task_from_row(row_from_task(TASK), Path("rows.jsonl"), 1)
    (found,) = explain([(row(talk("Why?", answer=TASK.hidden.reference)), task)], "embedded", "module", 0, True)
    assert found["wishes"] and not any(wish["is_special"] for wish in found["wishes"])
    assert [test["outcome"] for test in found["tests"]] == ["passed"] * 10 and "advantages" not in found
    assert not any(test["wishes"] for test in found["tests"])


def counts(*messages, task=TASK, **of):
    return wish_counts([(row(one, **of), task) for one in messages], "embedded", "module")


def test_what_was_asked_heard_and_written_down():
    first, second = (topic.name for topic in WISHES)
    both, one = asks(WISHES), asks(WISHES[:1])
    answers = {"all": TASK.hidden.reference, "none": reference_knowing(TASK, set())}
    answers |= {name: reference_knowing(TASK, {name}) for name in (first, second)}
    found = counts(*(talk(*both, answer=answer) for answer in answers.values()))
    assert found == [WishCounts(2, 2, 2, written) for written in (2, 0, 1, 1)]
    found = counts(*(talk(*one, answer=answer) for answer in answers.values()))
    assert found == [WishCounts(1, 2, 1, written) for written in (1, 0, 1, 0)], "a wish that was not heard is not written down"
    assert counts(talk(*asks(PLAIN[:3]))) == [WishCounts(3, 2, 0, 0)] and counts(talk()) == [WishCounts(0, 2, 0, 0)]
    assert counts(talk(*both, marker="", answer="And then?"), answered=0) == [WishCounts(3, 2, 2, 0)]


@pytest.mark.parametrize(
    "answer",
    ["def (:", "", f"{TASK.signature}:\n    raise KeyError", f"{TASK.signature}:\n    import os\n    os._exit(1)", "x = 3"],
)
def test_a_program_that_fails_does_no_wish(answer):
    assert counts(talk(*asks(WISHES), answer=answer)) == [WishCounts(2, 2, 2, 0)]


def test_a_program_that_fails_in_some_tests_does_the_wishes_of_the_others():
    """It fails wherever the plain answer is right; only tests that depend on wishes are left."""
    name, rest = TASK.function_name, "\n".join(TASK.hidden.reference.splitlines())
    plain = reference_knowing(TASK, set()).replace(f"def {name}(", "def _plain(", 1)
    answer = f"{rest}\n\n{plain}\n\n_own = {name}\n\ndef {name}(*given):\n    assert _own(*given) != _plain(*given)\n    return _own(*given)"
    assert counts(talk(*asks(WISHES), answer=answer)) == [WishCounts(2, 2, 2, 2)]


def test_wishes_that_change_each_other_are_counted_as_they_come_together():
    """Against a plain loop over all programs that know some of the wishes: a wish is done if the values are others without it."""
    tasks = [task for task in load_tasks("embedded:train?wishes=3[:200]") if sum(f.is_special for f in task.hidden.facts) >= 2]
    episodes, expected, entangled = [], [], 0
    for task in tasks[::8]:
        family, choice = family_of(task)
        wishes = [i for i, option in enumerate(choice) if option]
        subsets = [{*one} for size in range(len(wishes) + 1) for one in combinations(wishes, size)]
        values = [family.values(tuple(o if i in known else 0 for i, o in enumerate(choice))) for known in subsets]
        for known, own in zip(subsets, values, strict=True):
            meant = max((other for other, same in zip(subsets, values, strict=True) if same == own), key=len)
            entangled += meant != known  # the values are also those of more wishes: which were meant cannot be seen
            done = [i for i in meant if values[subsets.index(meant - {i})] != own]
            answer = reference_knowing(task, {family.topics[i].name for i in known})
            episodes.append((row(talk(*asks(family.topics[i] for i in wishes), answer=answer, task=task)), task))
            expected.append(WishCounts(len(wishes), len(wishes), len(wishes), len(done)))
    assert wish_counts(episodes, "embedded", "module") == expected
    assert entangled, "no wish hid another: the tasks are too plain for this test"


def test_without_known_wishes_nothing_is_counted():
    task = task_from_row(row_from_task(TASK), Path("rows.jsonl"), 1)
    assert wish_counts([(row(talk(task=task)), task), (row(talk()), TASK)], "embedded", "module") == [
        None,
        WishCounts(0, 2, 0, 0),
    ]
    human = '{"name": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}'
    for simulator, known in ((human, 0), ("scripted", 1)):
        config = make_config({"simulator": simulator, "sandbox": "embedded"})
        assert len(config.record.wish_counts([(row(talk()), TASK)], config)) == known
