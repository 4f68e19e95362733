"""What the scripted oracle makes of questions: guesses, comparisons, letters, names, "not", and likeness to examples."""

from __future__ import annotations

import math

import numpy as np
import pytest

from colbench_gym.lmrl.guessing import attribute_index
from colbench_gym.lmrl.guessing.attribute_index import AttributeIndex
from colbench_gym.lmrl.guessing.comparisons import number
from colbench_gym.lmrl.guessing.secret_table import SecretTable, load_table, plain
from colbench_gym.lmrl.guessing.yes_no import understanding
from colbench_gym.simulators.understanding.stems import stem
from colbench_gym.simulators.understanding.word_vectors import text_vectors


def named(table, question):
    """Names of the secrets for which the answer is yes."""
    secrets = load_table(table).secrets
    return {secrets[i].name for i in np.flatnonzero(understanding(table).answers(question))}


def where(table, holds):
    """Names of the secrets whose measures fulfil a condition: the slow way."""
    return {secret.name for secret in load_table(table).secrets if holds(secret.measures)}


def test_tables_have_the_size_of_the_originals():
    assert len(load_table("objects").secrets) == 158 and len({secret.group for secret in load_table("objects").secrets}) == 17
    assert len(load_table("cities").secrets) == 100


@pytest.mark.parametrize("table", ["objects", "cities"])
def test_what_our_policies_ask_is_understood_as_it_is_meant(table):
    for attribute in load_table(table).attributes:
        assert (understanding(table).answers(attribute.questions[0]) == attribute.truths).all(), attribute.questions[0]


@pytest.mark.parametrize("table", ["objects", "cities"])
def test_secrets_differ_in_some_attribute_but_for_a_few(table):
    columns = np.array([attribute.truths for attribute in load_table(table).attributes]).T
    assert len({tuple(column) for column in columns}) >= len(columns) - 6


@pytest.mark.parametrize(
    ("question", "guessed"),
    [
        ("Is it a dog?", ["Dog"]),
        ("is it dogs", ["Dog"]),
        ("Could it be a pair of scissors?", ["Scissors"]),
        ("My guess is the sofa, is that right?", ["Couch"]),
        ("Is it a knife or a fork?", ["Knife", "Fork"]),
        ("Is it a canvas painting?", ["Painting"]),
        ("Is it an orange?", ["Orange"]),
        ("Is it orange?", []),
        ("Is it bigger than a car?", []),
        ("Is it made of paper?", []),
        ("Do cats like it?", []),
        ("", []),
    ],
)
def test_guesses_name_objects_and_say_nothing_else(question, guessed):
    assert [load_table("objects").secrets[i].name for i in understanding("objects").guesses(question)] == guessed


@pytest.mark.parametrize(
    ("question", "holds"),
    [
        ("Is it bigger than a car?", lambda m: m["cm"] > 450),
        ("Is it smaller than a car?", lambda m: m["cm"] < 450),
        ("Is it not bigger than a car?", lambda m: not m["cm"] > 450),
        ("Is it heavier than ten kg?", lambda m: m["kg"] > 10),
        ("Does it weigh less than 2 pounds?", lambda m: m["kg"] < 2 * 0.4536),
        ("Is it longer than 3 feet?", lambda m: m["cm"] > 3 * 30.48),
        ("Is it longer than a meter?", lambda m: m["cm"] > 100),
        ("Does it cost more than a thousand dollars?", lambda m: m.get("usd", 0) > 1000),
        ("Is it worth more than $50?", lambda m: m.get("usd", 0) > 50),
        ("Would it fit in a shoebox?", lambda m: m["cm"] <= 33),
        ("Is it about the size of a car?", lambda m: 225 <= m["cm"] <= 900),
    ],
)
def test_objects_are_compared(question, holds):
    assert named("objects", question) == where("objects", holds)


@pytest.mark.parametrize(
    ("question", "holds"),
    [
        ("Does it have more than five million people?", lambda m: m["people"] > 5e6),
        ("Is the population under 500,000?", lambda m: m["people"] < 5e5),
        ("Is it between one and two million people?", lambda m: 1e6 <= m["people"] <= 2e6),
        ("Is it bigger than London?", lambda m: m["people"] > 8.9e6),
        ("Is it north of Rome?", lambda m: m["latitude"] > 41.9),
        ("Is it further south than Tokyo?", lambda m: m["latitude"] < 35.7),
        ("Is it west of London?", lambda m: m["longitude"] < -0.1),
        ("Is its latitude above 40 degrees north?", lambda m: m["latitude"] > 40),
        ("Is it higher than 2000 meters?", lambda m: m["altitude"] > 2000),
        ("Was it founded before 1500?", lambda m: m["founded"] < 1500),
        ("Was it founded in the 16th century?", lambda m: 1500 <= m["founded"] < 1600),
        ("Is it more than 300 years old?", lambda m: m["founded"] < 1724),
        ("Was it founded after the 15th century?", lambda m: m["founded"] > 1500),
        ("Is it less than 300 years old?", lambda m: m["founded"] > 1724),
        ("Is it younger than Rome?", lambda m: m["founded"] > -753),
        ("Is it below 30 m?", lambda m: m["altitude"] < 30),
        ("Is it south of the equator?", lambda m: m["latitude"] <= 0),
    ],
)
def test_cities_are_compared(question, holds):
    assert named("cities", question) == where("cities", holds)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1,500", 1500), ("two million", 2e6), ("2.5 million", 2.5e6), ("10m people", 1e7), ("half a million", 5e5), ("twenty-five thousand", 25e3),
     ("a hundred", 100), ("a dog", None)],
)  # fmt: skip
def test_numbers(text, value):
    found = number(text)
    assert (found and found[0]) == value


def test_a_not_turns_the_answer_around_and_a_negative_question_does_not():
    objects = {secret.name for secret in load_table("objects").secrets}
    metal = named("objects", "Is it made of metal?")
    assert metal and named("objects", "Is it not made of metal?") == objects - metal
    assert named("objects", "Isn't it made of metal?") == metal == named("objects", "It's not made of metal, is it?")
    assert named("objects", "Is it something you can't eat?") == objects - named("objects", "Can you eat it?")


def test_names_of_places_and_languages_must_occur():
    assert (
        named("cities", "Do they speak Spanish there?") > {"Madrid", "Lima"} > named("cities", "Is it in Spain?") == {"Madrid"}
    )
    assert named("cities", "Was it a Spanish colony?") > {"Lima", "Havana"} and "Madrid" not in named(
        "cities", "Was it ruled by Spain?"
    )
    assert named("cities", "Is it in Sweden?") == set()
    assert named("cities", "Is it in Asia or Africa?") == named("cities", "Is it in Asia?") | named(
        "cities", "Is it in Africa?"
    )
    assert named("cities", "Is it a European capital?") == named("cities", "Is it in Europe?") & named(
        "cities", "Is it a capital?"
    )
    assert named("cities", "Is it on the east coast of the United States?") == {"New York"}


def test_letters_of_the_name():
    assert named("objects", "Does it start with the letter B?") == {
        s.name for s in load_table("objects").secrets if s.name[0] == "B"
    }
    assert named("cities", "Does the city's name have more than ten letters?") == {
        secret.name for secret in load_table("cities").secrets if sum(map(str.isalpha, secret.name)) > 10
    }
    assert "Hong Kong" in named("cities", "Does the name consist of two words?")


def test_what_is_not_understood_is_answered_with_no_also_with_a_not():
    for question in ("asdf qwer", "", "?!", "Is it political?", "Is it not political?"):
        assert named("objects", question) == set()


def test_an_index_scores_as_a_plain_loop_does():
    groups = (("Is it green?", "Is its color green?"), ("Can you eat it?", "Is it food?", "Is it tasty?", "Do people eat it?"))
    phrases = [text for group in groups for text in group]
    split = [list(dict.fromkeys(stem(word) for word in plain(text).rstrip("?").split())) for text in phrases]
    counts = {word: sum(word in words for words in split) for words in split for word in words}
    weight = {word: math.log(1 + len(phrases) / n) - math.log(2) for word, n in counts.items()}
    question = "do people eat green things"
    asked = [stem(word) for word in question.split()]
    unknown = attribute_index.UNKNOWN_SHARE * math.log(1 + len(phrases))
    total = sum(weight.get(word, unknown) for word in asked)
    vectors = text_vectors([question, *phrases])
    scores, start = [], 0
    for group in groups:
        likeness = sorted((float(vectors[0] @ vectors[1 + start + i]) for i in range(len(group))), reverse=True)
        words = max(
            sum(weight[word] for word in asked if word in split[start + i])
            / math.sqrt(total * sum(weight[w] for w in split[start + i]))
            for i in range(len(group))
        )
        near = likeness[:3]
        scores.append(
            attribute_index.TEXT_SHARE * (near[0] + sum(near) / len(near)) / 2 + (1 - attribute_index.TEXT_SHARE) * words
        )
        start += len(group)
    found = AttributeIndex(groups).scores(question)
    assert (found >= np.array(scores) - 1e-6).all()  # words that are close count besides
    assert found[0] == pytest.approx(scores[0], abs=1e-6)


def test_tables_say_what_is_wrong_with_them():
    with pytest.raises(ValueError, match="Expected the name of one of the 158 secrets \\(object\\), got 'unicorn'"):
        load_table("objects").find("unicorn")
    row = {"name": "round", "says": "is round", "questions": ["Is it round?"], "yes": ["@Balls"]}
    content = {
        "kind": "object",
        "references": {},
        "secrets": [{"names": ["Ball"], "group": "Toys", "cm": 20}],
        "attributes": [row],
    }
    with pytest.raises(ValueError, match="Expected a name or a group of the table in attribute 'round', got '@Balls'"):
        SecretTable(content)


def test_neither_nor_is_the_opposite_of_either():
    for first, second in (("a fruit", "a vegetable"), ("an animal", "a plant")):
        either = named("objects", f"Is it {first} or {second}?")
        neither = named("objects", f"Is it neither {first} nor {second}?")
        assert either and neither and not either & neither
        assert len(either | neither) == len(load_table("objects").secrets)


@pytest.mark.parametrize(("question", "letters", "at"), [
    ("Does its name start with a vowel?", "AEIOU", 0), ("Does its name begin with a consonant?", "BCDFGHJKLMNPQRSTVWXYZ", 0), ("Is its last letter a vowel?", "aeiou", -1),
    ("Does its name start with a or b?", "A", 0), ("Does it start with the letter A?", "A", 0), ("Does the name start with an a?", "A", 0),
])  # fmt: skip
def test_vowels_are_no_letter_a(question, letters, at):
    names = {secret.name for secret in load_table("objects").secrets}
    assert named("objects", question) == {name for name in names if name[at] in letters}


def test_what_you_eat_is_edible():
    assert "Apple" in named("objects", "Do you eat it?") and "Fork" not in named("objects", "Do you eat it?")


def test_a_size_without_a_direction_is_about_as_large():
    long, longer = named("objects", "Is it 5 feet long?"), named("objects", "Is it longer than 8 feet?")
    assert not {"Banana", "Pencil"} & long and long and not long & longer


@pytest.mark.parametrize(("question", "has", "lacks"), [
    ("Do you wear it on your two feet?", "Shoes", "Monitor"), ("Is it a heavy one?", "Car", "Football"), ("Is it 10 inches or larger?", "Car", "Spoon"),
    ("Does it weigh 5 pounds or more?", "Car", "Spoon"), ("Do people eat with it?", "Fork", "Apple"), ("Do you use it to eat?", "Spoon", "Banana"),
])  # fmt: skip
def test_a_number_in_passing_is_no_size(question, has, lacks):
    assert has in named("objects", question) and lacks not in named("objects", question)
