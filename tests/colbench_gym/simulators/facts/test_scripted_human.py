"""The scripted human: right topic for every family, levels, broad and unknown questions, speed."""

from __future__ import annotations

import pickle
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colbench_gym.dialogue import Dialogue
from colbench_gym.simulators import make
from colbench_gym.simulators.facts.scripted_human import (
    BROAD_REPLIES,
    LEVELS,
    MAX_REPLY_CHARS,
    NEUTRAL_REPLIES,
    ONE_POINT_REMARK,
    UNKNOWN_REPLIES,
    ScriptedHuman,
    parameter_names,
)
from colbench_gym.tasks.families.domain import read_domain
from colbench_gym.tasks.families.family import Family
from colbench_gym.tasks.task import Fact, HiddenTask, Task

FAMILIES = [family for domain in ("travel", "metering", "library") for family in read_domain(domain).whole]


def _facts(family: Family, option: int) -> tuple[Fact, ...]:
    facts = []
    for topic in family.topics:
        index = min(option, len(topic.options) - 1)
        facts.append(
            Fact(topic.name, topic.options[index].says, is_special=index > 0, phrases=(*topic.asks, *topic.paraphrases))
        )
    return tuple(facts)


FACTS = (
    Fact(
        "rounding",
        "Round the result to two decimals.",
        ("round", "decimals", "how", "should", "the", "result", "be", "rounded"),
    ),
    Fact("empty", "For empty input return zero.", ("empty", "what", "about", "empty", "input")),
    Fact("shipping", "Shipping is free.", ("shipping", "postage", "does", "shipping", "cost", "extra"), is_special=False),
)
TASK = Task("t", "I need the total of an order.", "def order_total(lines, unit_price=0)", HiddenTask("", (), FACTS))

PLAIN = "def order_total(lines, unit_price):\n    total = 0\n    for quantity, weight in lines:\n        total += quantity * unit_price\n    return total"
WORDED = tuple(
    replace(fact, keywords=(), phrases=phrases)
    for fact, phrases in zip(
        FACTS,
        (
            ("How should the result be rounded?", "Do you want any rounding?", "How many decimal places are needed?"),
            ("What about empty input?", "What do I do when there are no lines?", "Can the list have nothing in it?"),
            ("Does shipping cost extra?", "Should I add shipping?", "Who pays for postage?"),
        ),
        strict=True,
    )
)
WORDED_TASK = replace(
    TASK,
    signature="def order_total(lines, unit_price)",
    example="order_total([(2, 10.5), (1, 4)], 3)",
    hidden=HiddenTask(PLAIN + "  # round it", (), WORDED, plain=PLAIN),
)
TWO_TOPICS = "How should the result be rounded, and does shipping cost extra?"


def _ask(question: str, level: str = "normal", dialogue: Dialogue | None = None) -> str:
    start = dialogue or Dialogue().add("user", TASK.description)
    return ScriptedHuman(level).reply(TASK, start.add("assistant", question), seed=0)


def _ask_worded(question: str, level: str = "normal", task: Task = WORDED_TASK) -> str:
    return ScriptedHuman(level).reply(task, Dialogue().add("user", task.description).add("assistant", question), seed=0)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_topic_wins_for_its_own_asks(family: Family) -> None:
    for option in range(max(len(topic.options) for topic in family.topics)):
        facts = _facts(family, option)
        task = Task(family.name, family.request, family.signature, HiddenTask("", (), facts))
        for topic, fact in zip(family.topics, facts, strict=True):
            for ask in topic.asks:
                dialogue = Dialogue().add("user", family.request).add("assistant", ask)
                for level in ("terse", "normal"):
                    assert ScriptedHuman(level).reply(task, dialogue, 0) == fact.sentence, (topic.name, ask)
                chatty = ScriptedHuman("chatty").reply(task, dialogue, 0)
                added = chatty.removeprefix(fact.sentence).strip()
                assert chatty.startswith(fact.sentence)
                assert added == "" or added in {other.sentence for other in facts if other.is_special and other != fact}


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("What should I return if the list of lines is empty?", FACTS[1].sentence),
        ("Could you please specify the number of decimals you want?", FACTS[0].sentence),
        ("Thanks! Got it.\n\nDo customers pay for postage?", FACTS[2].sentence),
        ("I will round to two decimals. Is that right?", FACTS[0].sentence),
        ("Please tell me:\n1. rounding", FACTS[0].sentence),
    ],
)
def test_free_wording(question: str, sentence: str) -> None:
    assert _ask(question) == sentence


def test_levels_differ_in_how_much_they_say() -> None:
    two = "How should the result be rounded? And what about empty input?"
    assert _ask(two, "terse") in {FACTS[0].sentence, FACTS[1].sentence}
    assert _ask(two, "normal") == f"{FACTS[0].sentence} {FACTS[1].sentence}"
    assert _ask("Does shipping cost extra?", "chatty") == f"{FACTS[2].sentence} {FACTS[0].sentence}"
    assert _ask("How do I round, and what about shipping?") == f"{FACTS[0].sentence} {FACTS[2].sentence}"


def test_broad_questions_get_nothing_unless_chatty() -> None:
    for question in ("Anything else?", "Can you tell me more?", "Are there any other requirements?", "What about edge cases?"):
        assert _ask(question, "terse") in BROAD_REPLIES
        assert _ask(question, "normal") in BROAD_REPLIES
        assert _ask(question, "chatty") == FACTS[0].sentence


def test_chatty_never_repeats_itself() -> None:
    dialogue = Dialogue().add("user", TASK.description)
    heard = []
    for _ in range(3):
        heard.append(_ask("Anything else?", "chatty", dialogue))
        dialogue = dialogue.add("assistant", "Anything else?").add("user", heard[-1])
    assert heard[:2] == [FACTS[0].sentence, FACTS[1].sentence]
    assert heard[2] in BROAD_REPLIES


def test_unknown_topics_and_statements() -> None:
    assert _ask("Which database engine hosts the warehouse?") in UNKNOWN_REPLIES
    assert _ask("Here is my plan.\n```python\nx = 1 if True else 2  # empty?\n```") in NEUTRAL_REPLIES
    assert _ask("def order_total(lines):\n    return round(sum(lines), 2)") in NEUTRAL_REPLIES
    assert _ask("") in NEUTRAL_REPLIES


def test_facts_of_a_reference_are_said_and_explained() -> None:
    reference = (
        "def price(age, member, day):\n"
        "    if age >= 18 and not member and day not in ('saturday', 'sunday', 'monday') and age < 65 and day != 'holiday':\n"
        "        return 20\n"
        "    return 12.5\n"
    )
    task = Task("r", "What does a ticket cost?", "def price(age, member, day)", HiddenTask(reference, ()))
    dialogue = Dialogue().add("user", task.description).add("assistant", "When is the price 20?")
    first = ScriptedHuman("terse").reply(task, dialogue, 0)
    assert first == "When condition A holds, the answer is 20."
    dialogue = dialogue.add("user", first).add("assistant", "What is condition A?")
    assert ScriptedHuman("terse").reply(task, dialogue, 0).startswith("Condition A needs that the age is at least 18")


def test_replies_ignore_the_seed_and_survive_pickling() -> None:
    human = make({"name": "scripted", "level": "chatty"})
    dialogue = Dialogue().add("user", TASK.description).add("assistant", "Any rounding?")
    replies = {human.reply(TASK, dialogue, seed) for seed in range(5)} | {
        pickle.loads(pickle.dumps(human)).reply(TASK, dialogue, 1)
    }
    assert len(replies) == 1
    assert human.is_deterministic


def test_a_reply_takes_well_under_a_millisecond_of_the_processor() -> None:
    dialogue = Dialogue().add("user", TASK.description).add("assistant", "How should the result be rounded? " * 3)
    human = ScriptedHuman()
    human.reply(TASK, dialogue, 0)
    times = []
    for _ in range(200):
        start = time.process_time()
        human.reply(TASK, dialogue, 0)
        times.append(time.process_time() - start)
    assert sorted(times)[20] < 1e-3  # a low quantile: a busy machine slows the processor's time, too


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="^`level` must be 'terse', 'normal' or 'chatty', got 'loud'\\.$"):
        ScriptedHuman("loud")
    with pytest.raises(ValueError, match="^`dialogue` must end with a message of the agent; add the agent's message"):
        ScriptedHuman().reply(TASK, Dialogue().add("user", "Hi"), 0)


def test_parameter_names() -> None:
    assert parameter_names("def f(a, b: dict[str, int] = {}, *c, d=(1, 2), **e)") == ("a", "b", "c", "d", "e")
    assert parameter_names("def f()") == ()
    assert parameter_names("") == ()


@settings(max_examples=150)
@given(st.text(max_size=400), st.sampled_from(LEVELS))
def test_any_message_gets_a_short_reply(message: str, level: str) -> None:
    reply = _ask(message, level)
    assert 0 < len(reply) <= 400


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("To how many decimals shall I round?", FACTS[0].sentence),
        ("If the list is empty, what then?", FACTS[1].sentence),
        ("Is there a cost for shipping or postage?", FACTS[2].sentence),
        (TWO_TOPICS, f"{FACTS[0].sentence} {FACTS[2].sentence}"),
        ("Do I add shipping? Any rounding? And empty input?", f"{FACTS[2].sentence} {FACTS[0].sentence}"),
        ("Could you give me an example?", "A call looks like this: order_total([(2, 10.5), (1, 4)], 3)."),
        (
            "Is lines a list or a dict?",
            "The argument lines is a list of pairs of a number and a number (quantity, weight), for example [(2, 10.5), (1, 4)].",
        ),
        ("What type is unit_price?", "The argument unit_price is a number, for example 3."),
        ("What type does the function return?", "The function returns a number."),
        ("What about malformed data?", "Bad input is not checked for, and no errors are raised."),
        ("I will write it now.", NEUTRAL_REPLIES[1]),
    ],
)
def test_replies_by_phrases(question: str, reply: str) -> None:
    assert _ask_worded(question) == reply


def test_no_wish_leaks_by_phrases() -> None:
    for level in ("terse", "normal"):
        assert _ask_worded("Which database engine hosts the warehouse?", level) in UNKNOWN_REPLIES
        for question in ("Anything else?", "What are the requirements?", "Tell me everything.", "What should I know?"):
            assert _ask_worded(question, level) in BROAD_REPLIES
    assert _ask_worded("Anything else?", "chatty") == FACTS[0].sentence
    assert _ask_worded("Tell me everything.", "chatty") == FACTS[0].sentence


def test_one_fact_when_terse_or_when_the_person_takes_one_point_at_a_time() -> None:
    assert _ask_worded(TWO_TOPICS, "terse") == FACTS[0].sentence
    patient = replace(WORDED_TASK, points=1)
    assert _ask_worded(TWO_TOPICS, task=patient) == f"{FACTS[0].sentence} {ONE_POINT_REMARK}"
    assert _ask_worded("Do I add shipping? How is it rounded?", "chatty", patient) == f"{FACTS[2].sentence} {ONE_POINT_REMARK}"
    assert _ask_worded("Do I add shipping?", task=patient) == FACTS[2].sentence


def test_without_an_example_the_arguments_are_described() -> None:
    bare = replace(WORDED_TASK, example="")
    assert (
        _ask_worded("Could you give me an example?", task=bare)
        == "The lines input is a list. The unit price input is a number."
    )
    assert (
        _ask_worded("Could you give me an example?", task=replace(bare, hidden=replace(bare.hidden, plain="")))
        in UNKNOWN_REPLIES
    )


@settings(max_examples=100)
@given(st.text(max_size=400), st.sampled_from(LEVELS), st.sampled_from((1, 2)))
def test_any_message_gets_a_short_reply_by_phrases(message: str, level: str, points: int) -> None:
    assert 0 < len(_ask_worded(message, level, replace(WORDED_TASK, points=points))) <= MAX_REPLY_CHARS


def test_a_reply_by_phrases_is_quick() -> None:
    _ask_worded(TWO_TOPICS)
    start = time.process_time()
    for _ in range(100):
        _ask_worded(TWO_TOPICS)
    assert time.process_time() - start < 1.0
