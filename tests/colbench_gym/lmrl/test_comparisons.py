"""Questions about positions, numbers, ages and several conditions, asked in the game: every answer for three cities at least."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from colbench_gym.lmrl.guessing.asking import asker
from colbench_gym.lmrl.guessing.secret_table import load_table
from colbench_gym.lmrl.guessing.yes_no import understanding

FAR_SOUTH, NEAR_SOUTH = ["Sydney", "Buenos Aires", "Santiago"], ["Lima", "Jakarta", "Rio de Janeiro"]
FAR_NORTH, NEAR_NORTH = ["Berlin", "London", "Moscow"], ["Bogota", "Singapore", "Bangkok"]
FAR_EAST, NEAR_EAST = ["Tokyo", "Sydney", "Jakarta"], ["Berlin", "Moscow", "Cairo"]
FAR_WEST, NEAR_WEST = ["New York", "Lima", "Bogota"], ["Rio de Janeiro", "Madrid", "London"]
SOUTH, NORTH = [*FAR_SOUTH, *NEAR_SOUTH], [*FAR_NORTH, *NEAR_NORTH, "Tokyo"]
EAST, WEST = [*FAR_EAST, *NEAR_EAST, "Mumbai"], [*FAR_WEST, *NEAR_WEST]
EIGHT_MILLION, NOT_EIGHT_MILLION = ["New York", "London", "Bangkok", "Bogota"], ["Tokyo", "Sydney", "Mumbai", "Berlin"]
OLD, NEW = ["Tokyo", "Berlin", "London", "Moscow"], ["Sydney", "New York", "Houston", "Brasilia"]
BIG_CAPITALS, NO_BIG_CAPITALS = ["Tokyo", "London", "Moscow"], ["Sydney", "Mumbai", "New York", "Berlin", "Rome"]
COASTAL_CAPITALS, NO_COASTAL_CAPITALS = ["Tokyo", "Lima", "Jakarta"], ["Sydney", "Mumbai", "New York", "Berlin", "Madrid"]
QUESTIONS = [
    ("Is it more than 30 degrees south of the equator?", FAR_SOUTH, [*NEAR_SOUTH, *NORTH]),
    ("Is it at least 30 degrees south?", FAR_SOUTH, [*NEAR_SOUTH, *NORTH]),
    ("Is it over 30 degrees south?", FAR_SOUTH, [*NEAR_SOUTH, *NORTH]),
    ("Is it below 30 degrees south latitude?", FAR_SOUTH, [*NEAR_SOUTH, *NORTH]),
    ("Is it south of 30 degrees south?", FAR_SOUTH, [*NEAR_SOUTH, *NORTH]),
    ("Is it south of the equator by more than 30 degrees?", FAR_SOUTH, [*NEAR_SOUTH, *NORTH]),
    ("Is it 30 degrees or more south?", FAR_SOUTH, [*NEAR_SOUTH, *NORTH]),
    ("Is it about 35 degrees south of the equator?", FAR_SOUTH, [*NEAR_SOUTH, *NORTH]),
    ("Is it less than 30 degrees south of the equator?", NEAR_SOUTH, [*FAR_SOUTH, *NORTH]),
    ("Is it between 5 and 30 degrees south?", NEAR_SOUTH, [*FAR_SOUTH, *NORTH]),
    ("Is it more than 50 degrees north of the equator?", FAR_NORTH, [*NEAR_NORTH, *SOUTH]),
    ("Is it at least 50 degrees north?", FAR_NORTH, [*NEAR_NORTH, *SOUTH]),
    ("Is it further north than 50 degrees north?", FAR_NORTH, [*NEAR_NORTH, *SOUTH]),
    ("Is it less than 20 degrees north of the equator?", NEAR_NORTH, [*FAR_NORTH, *SOUTH]),
    ("Is it north of 30 degrees south?", [*NORTH, *NEAR_SOUTH], FAR_SOUTH),
    ("Is it more than 100 degrees east?", FAR_EAST, [*NEAR_EAST, *WEST]),
    ("Is it at least 100 degrees east of Greenwich?", FAR_EAST, [*NEAR_EAST, *WEST]),
    ("Is it less than 50 degrees east of the prime meridian?", NEAR_EAST, [*FAR_EAST, *WEST]),
    ("Is it over 70 degrees west?", FAR_WEST, [*NEAR_WEST, *EAST]),
    ("Is it west of 70 degrees west?", FAR_WEST, [*NEAR_WEST, *EAST]),
    ("Is it less than 50 degrees west of Greenwich?", NEAR_WEST, [*FAR_WEST, *EAST]),
    ("Is it within 10 degrees of the equator?", ["Jakarta", "Singapore", "Bogota"], [*FAR_NORTH, *FAR_SOUTH, "Lima", "Mumbai"]),
    ("Is it more than 40 degrees from the equator?", [*FAR_NORTH, "New York"], [*NEAR_NORTH, *SOUTH]),
    ("Is it between 10 degrees south and 20 degrees north?", ["Jakarta", "Mumbai", "Bogota"], ["Lima", "Delhi", *FAR_NORTH]),
    ("Is its longitude west of Greenwich?", WEST, EAST),
    ("Is it west of Greenwich?", WEST, EAST),
    ("Is it west of the prime meridian?", WEST, EAST),
    ("Is its longitude negative?", WEST, EAST),
    ("Is it east of the prime meridian?", EAST, WEST),
    ("Is it east of Greenwich?", EAST, WEST),
    ("Is its longitude positive?", EAST, WEST),
    ("Is it in the western hemisphere?", FAR_WEST, EAST),
    ("Is it north of the equator?", NORTH, SOUTH),
    ("Is it above the equator?", NORTH, SOUTH),
    ("Is it south of the equator?", SOUTH, NORTH),
    ("Is it below the equator?", SOUTH, NORTH),
    ("Is its latitude negative?", SOUTH, NORTH),
    ("Is it further south than the equator?", SOUTH, NORTH),
    ("Is it a national capital with more than five million people?", BIG_CAPITALS, NO_BIG_CAPITALS),
    ("Is it a capital with more than five million people?", BIG_CAPITALS, NO_BIG_CAPITALS),
    ("Does it have more than five million people and is it a capital?", BIG_CAPITALS, NO_BIG_CAPITALS),
    ("Is it a capital and on the coast?", COASTAL_CAPITALS, NO_COASTAL_CAPITALS),
    ("Isn't it a capital on the coast and with a port?", COASTAL_CAPITALS, ["Berlin", "Madrid", "Delhi"]),
    ("Is it a coastal city and the capital?", COASTAL_CAPITALS, NO_COASTAL_CAPITALS),
    ("Is it in Asia but not in China?", ["Tokyo", "Mumbai", "Jakarta"], ["Beijing", "Shanghai", "Hong Kong", "London"]),
    ("Is it a city in Asia with more than ten million people?", ["Tokyo", "Mumbai", "Jakarta"], ["Osaka", "Moscow", "Ankara"]),
    ("Does it have more than 5 million and less than 10 million people?", ["Sydney", "London", "Lima"], ["Tokyo", "Rome", "Berlin"]),
    ("Is it a capital and does it have between one and four million people?", ["Berlin", "Madrid", "Rome"], ["Tokyo", "Chicago", "Busan"]),
    ("Does the name start with B and end with N?", ["Berlin", "Busan"], ["Beijing", "London", "Tokyo"]),
    ("Is it older than 1000 years and a capital?", ["Seoul", "London", "Cairo"], ["Brasilia", "Istanbul", "Lima"]),
    ("Is it in the Middle East and landlocked?", ["Tehran", "Baghdad", "Ankara"], ["Istanbul", "Alexandria", "Madrid"]),
    ("Does the country share a border with China?", ["Mumbai", "Moscow", "Delhi"], ["London", "Tokyo", "Sydney"]),
    ("Is it in a country that borders China and India?", ["Yangon", "Lahore", "Karachi"], ["Moscow", "Dhaka", "Tokyo"]),
    ("Does it have about 8 million inhabitants?", EIGHT_MILLION, NOT_EIGHT_MILLION),
    ("Does it have around 8 million people?", EIGHT_MILLION, NOT_EIGHT_MILLION),
    ("Are there roughly 8 million inhabitants?", EIGHT_MILLION, NOT_EIGHT_MILLION),
    ("Is the population approximately 8 million?", EIGHT_MILLION, NOT_EIGHT_MILLION),
    ("Is the population close to 8 million?", EIGHT_MILLION, NOT_EIGHT_MILLION),
    ("Does it have more than about 8 million people?", ["Tokyo", "Mumbai", "Lima"], ["Sydney", "Berlin", "Bogota"]),
    ("Is it older than 500 years?", OLD, NEW),
    ("Is it more than 500 years old?", OLD, NEW),
    ("Is it older than five centuries?", OLD, NEW),
    ("Is it more than five centuries old?", OLD, NEW),
    ("Is it younger than 200 years?", ["Houston", "Brasilia", "Belo Horizonte"], [*OLD, "Sydney", "New York"]),
    ("Was it founded in the last 200 years?", ["Houston", "Brasilia", "Belo Horizonte"], [*OLD, "Sydney", "New York"]),
    ("Is it over a century old?", [*OLD, "Sydney", "Lima"], ["Brasilia"]),
    ("Was it founded about 480 years ago?", ["Lima", "Bogota", "Buenos Aires"], ["Sydney", "London", "Rome"]),
    ("Are there skyscrapers?", ["New York", "Tokyo", "Shanghai"], ["Havana", "Kinshasa", "Bogor"]),
    ("Are there skyscrapers and beaches?", ["New York", "Tokyo", "Sydney"], ["Beijing", "Havana", "Berlin"]),
    ("Do people use chopsticks?", ["Tokyo", "Beijing", "Seoul", "Taipei", "Singapore"], ["Mumbai", "Delhi", "Jakarta", "London"]),
    ("Do they eat a lot of rice?", ["Tokyo", "Mumbai", "Jakarta"], ["London", "Lima", "Moscow"]),
]  # fmt: skip


@pytest.mark.parametrize(("question", "yes", "no"), QUESTIONS)
def test_a_question_is_answered_as_it_is_meant(question, yes, no):
    env = gym.make("LMRL-GuessCity-v0")
    for answer, cities in (("Yes.\n", yes), ("No.\n", no)):
        for city in cities:
            env.reset(seed=0, options={"secret": city})
            assert env.step(question)[0] == answer, city
    env.close()


@pytest.mark.parametrize(
    ("question", "whole"),
    [
        ("Is it known for pizza and pasta?", "Is it known for pasta?"),
        ("Are there many bars and clubs?", "Are there many bars and clubs?"),
        ("Is it a city with more than five million people?", "Does it have more than five million people?"),
        ("Is it in a country with a king?", "Is it in a country that has a king?"),
        ("Okay, and is it a capital?", "Is it a capital?"),
    ],
)
def test_what_an_and_joins_may_be_one_condition(question, whole):
    found = understanding("cities")
    assert found.answers(whole).any() and (found.answers(question) == found.answers(whole)).all()


def test_objects_have_several_conditions_too():
    found = understanding("objects")
    both = found.answers("Is it an animal?") & found.answers("Is it bigger than a dog?")
    assert both.any() and (found.answers("Is it an animal and bigger than a dog?") == both).all()
    assert (found.answers("Do you eat it with a fork?") == found.answers("Do you eat it?")).mean() > 0.8


def test_what_is_only_understood_is_neither_asked_nor_hidden():
    table, env = load_table("cities"), gym.make("LMRL-GuessCity-v0").unwrapped
    (attribute,) = table.understood
    assert attribute.questions[0] not in asker("cities", tuple(range(100)))._questions
    env.reset(seed=0, options={"secret": "Tokyo"})
    assert attribute.truths[table.find("Tokyo")] and "chopsticks" not in env.hidden_information
    assert (understanding("cities").answers(attribute.questions[0]) == attribute.truths).all()
    assert np.count_nonzero(attribute.truths) == 30
