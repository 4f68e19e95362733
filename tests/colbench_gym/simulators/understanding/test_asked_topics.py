"""What a message asks: topics by their phrases, other kinds by their form, and nothing where nothing is asked."""

from __future__ import annotations

import pytest

from colbench_gym.simulators.understanding.asked_topics import points
from colbench_gym.simulators.understanding.questions import MAX_MESSAGE_CHARS, prose
from colbench_gym.simulators.understanding.topic_index import TopicIndex, topic_index
from colbench_gym.simulators.understanding.word_vectors import text_vectors, tokens
from colbench_gym.tasks.task import Fact

PHRASES = {
    "rounding": (
        "How should the result be rounded?", "Do you want any rounding?", "How many decimal places do you need?",
        "Should the total be exact to the cent?", "May I cut off the digits behind the comma?",
    ),
    "discount": (
        "Is there a discount on large invoices?", "Do big orders get a discount?", "Is anything taken off for good customers?",
        "Do we give a rebate from some amount on?", "Are larger purchases cheaper?",
    ),
    "shipping": (
        "Does shipping cost extra?", "Should I add shipping?", "Who pays for the delivery?", "Is there a charge for postage?",
        "Do I put freight on top?",
    ),
    "cap": (
        "Is there an upper limit?", "Should the result be capped?", "What is the most a customer ever pays?",
        "Does the total stop at some maximum?", "Can the bill grow as high as it likes?",
    ),
}  # fmt: skip
FACTS = tuple(Fact(topic, f"A sentence about {topic}.", phrases=phrases) for topic, phrases in PHRASES.items())


def asked_topics(facts, message):
    """Names of the topics that a message asks about, in order."""
    asked = points(message, tuple(fact.phrases for fact in facts))
    return tuple(facts[point.topic].topic for point in asked if point.kind == "topic")


@pytest.mark.parametrize(
    ("message", "topics"),
    [
        ("To how many digits do I round?", ("rounding",)),
        ("Tell me who pays the postage, please", ("shipping",)),
        ("Should customers with big invoices get something off the price?", ("discount",)),
        ("is there some maximum a customer pays", ("cap",)),
        ("Got it.\n\nDo you give discounts? Do I add shipping?", ("discount", "shipping")),
        ("Is there a maximum, and do you want the sum rounded?", ("cap", "rounding")),
        ("The parcels are sent by post. Does the customer pay for that?", ("shipping",)),
        ("Which editor do your developers like?", ()),
        ("Anything else I should know?", ()),
        ("Thanks, I will write it now.", ()),
        ("", ()),
    ],
)
def test_topics_of_a_message(message: str, topics: tuple[str, ...]) -> None:
    assert asked_topics(FACTS, message) == topics


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Anything else?", "blanket"),
        ("What are the requirements?", "blanket"),
        ("Tell me everything.", "blanket"),
        ("What should I know?", "blanket"),
        ("Are there any other special cases?", "blanket"),
        ("Could you show me an example call?", "example"),
        ("Give me a sample input.", "example"),
        ("Is lines a list or a dict?", "argument"),
        ("What does the input look like?", "argument"),
        ("Are the lines floats or integers?", "argument"),
        ("What type does the function return?", "returned"),
        ("What should the output look like?", "returned"),
        ("What should happen with malformed input?", "malformed"),
        ("Do I raise an exception on invalid data?", "malformed"),
        ("Which editor do your developers like?", "unknown"),
    ],
)
def test_kinds_of_a_question(message: str, kind: str) -> None:
    assert [point.kind for point in points(message, tuple(PHRASES.values()), ("lines",))] == [kind]


def test_a_topic_of_its_own_wins_over_the_form_of_a_question() -> None:
    phrases = (
        *PHRASES.values(),
        (
            "Should I raise an exception on invalid data?",
            "Do I raise an exception when the data is invalid?",
            "Is an exception raised on bad data?",
        ),
    )
    assert [point.topic for point in points("Do I raise an exception on invalid data?", phrases)] == [4]


@pytest.mark.parametrize("message", ["Hello!", "Thanks, that helps.", "I will write it now.", "```python\nx = 1\n```", "?!"])
def test_a_message_that_asks_nothing_has_no_points(message: str) -> None:
    assert points(message, tuple(PHRASES.values())) == []


def test_a_message_has_at_most_two_points_and_the_same_each_time() -> None:
    message = "Is there a discount? Do I add shipping? Should the result be capped? How should the result be rounded?"
    found = points(message, tuple(PHRASES.values()))
    assert 1 <= len(found) <= 2
    assert points(message, tuple(PHRASES.values())) == found


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        ("What about -3?", "<minus>"),
        ("212-555", ""),
        ("It comes to 1.23456", "<digits>"),
        ("a price of 10.5", "<decimal>"),
        ("5400 screws", "<thousands>"),
        ("What about '' there?", "<blank>"),
        ("What about []?", "<nothing>"),
        ("Can it be None?", "<none>"),
        ("None of them?", ""),
        ("like ('cups', -3)", "<tuple>"),
        ("in CAPITALS", "<capitals>"),
        ("Hammer or HAMMER?", "<casing>"),
        ("José", "<accent>"),
    ],
)
def test_what_signs_mean_is_a_word(text: str, sign: str) -> None:
    found = {token for token in tokens(text) if token[0] == "<"}
    assert sign in found if sign else not found


def test_endings_accents_and_misspelt_words_are_understood() -> None:
    vectors = text_vectors(["discount", "discuont", "disscount", "résult", "result"])
    assert (vectors[0] == vectors[1]).all() and (vectors[0] == vectors[2]).all() and (vectors[3][:3] != 0).any()


def test_what_topics_a_question_is_about_does_not_depend_on_the_wish() -> None:
    others = tuple(Fact(fact.topic, "Something else.", is_special=False, phrases=fact.phrases) for fact in FACTS)
    message = "Is there a rebate, and is postage added?"
    assert asked_topics(FACTS, message) == asked_topics(others, message) == ("discount", "shipping")


def test_no_topics_match_nothing() -> None:
    assert points("How do I round?", ())[0].kind != "topic"
    assert points("How do I round?", ((), ()))[0].kind != "topic"
    assert asked_topics((), "How do I round?") == ()


def test_every_phrase_is_found_by_itself() -> None:
    index = TopicIndex(tuple(PHRASES.values()))
    for number, phrases in enumerate(PHRASES.values()):
        assert (index.scores(list(phrases)).argmax(axis=1) == number).all()


def test_an_index_is_built_once() -> None:
    phrases = tuple(PHRASES.values())
    assert topic_index(phrases) is topic_index(tuple(tuple(list(topic)) for topic in phrases))


def test_vectors_have_unit_length_or_none() -> None:
    vectors = text_vectors(["How should I round?", "", "zzqx"])
    assert (vectors**2).sum(axis=1).round(5).tolist() == [1.0, 0.0, 0.0]
    assert tokens("What's the 2nd number, 0 or 17? Don't know.") == [
        "what",
        "the",
        "7",
        "nd",
        "number",
        "0",
        "or",
        "do",
        "not",
        "know",
    ]


def test_long_messages_cost_no_more_than_the_last_part() -> None:
    tail = " Is there a discount?"
    assert len(prose("and so on; " * 100_000 + tail)) <= MAX_MESSAGE_CHARS
    assert asked_topics(FACTS, "?" * 200_000 + "\n" + tail) == ("discount",)
    for hostile in (
        "( " * 50_000,
        "what " * 50_000,
        "and " * 50_000 + "?",
        "a" * 300_000 + "?",
        "tell all " * 40_000,
        "is it \n" * 40_000,
    ):
        assert len(points(hostile, tuple(PHRASES.values()), ("lines",))) <= 12
