"""Sentences of sellers, understood. Those of HELD_OUT were written before they were tried: 26 of 30 were right at first sight."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from colbench_gym.lmrl.car_dealer.money import amounts
from colbench_gym.lmrl.car_dealer.talk import Heard, understand

SENTENCES = [
    ("Hello there! How can I help you today?", {"topics": ("needs",)}),
    (
        "I can offer you a Toyota SUV with a sunroof for $42,000.",
        {"brands": ("Toyota",), "types": ("SUV",), "features": ("sunroof",), "price": 42000},
    ),
    ("How about a Honda sedan for 25k?", {"brands": ("Honda",), "types": ("sedan",), "price": 25000}),
    (
        "We've got a lovely BMW convertible with heated leather seats at 42 thousand dollars.",
        {"brands": ("BMW",), "types": ("convertible",), "features": ("heated seats", "leather seats"), "price": 42000},
    ),
    (
        "This Audi is normally $55,000, but I can let you have it for $49,500.",
        {"brands": ("Audi",), "price": 49500, "msrp": 55000},
    ),
    ("The MSRP is $45,000. For you, $42,000.", {"price": 42000, "msrp": 45000}),
    ("What's your budget?", {"topics": ("budget",)}),
    ("How much are you looking to spend?", {"topics": ("budget",)}),
    ("Is your budget around $30,000?", {"budget": 30000, "topics": ("budget",)}),
    (
        "So you want a Toyota SUV with a sunroof and your budget is $50,000, right?",
        {
            "brands": ("Toyota",),
            "types": ("SUV",),
            "features": ("sunroof",),
            "budget": 50000,
            "topics": ("brand", "type", "features", "budget"),
        },
    ),
    ("Do you prefer a sedan or an SUV?", {"types": ("sedan", "SUV"), "topics": ("type",)}),
    ("Are there any must-have features?", {"topics": ("features",)}),
    (
        "It does not come with a sunroof, but it has a backup camera.",
        {"features": ("backup camera",), "without": ("sunroof",)},
    ),
    ("I can take $2,000 off.", {"discount": 2000}),
    ("I'll give you a 10% discount.", {"percent": 10.0}),
    ("Why not a Tesla Model 3 for forty-two thousand?", {"brands": ("Tesla",), "types": ("electric",), "price": 42000}),
    ("I can't go below $38,000.", {"price": 38000, "holds": True}),
    ("Sorry, I can't do $35,000.", {"holds": True}),
    ("Deal! It's yours.", {"agrees": True}),
    ("You said $38,000, but how about $40,000?", {"price": 40000}),
    ("It's only $499 a month with $5,000 down.", {}),
    ("It has 30,000 miles on it and costs $22,500.", {"price": 22500}),
    (
        "I have another Ford truck for $28k, a 2019 F-150.",
        {"brands": ("Ford",), "types": ("truck",), "price": 28000, "is_another": True},
    ),
    (
        "We don't have any Porsches, but I have a Lexus luxury sedan.",
        {"brands": ("Lexus",), "types": ("luxury", "sedan")},
    ),
    ("This is a great deal.", {}),
    ("I can come down from $45,000 to $43,000.", {"price": 43000}),
    ("The list price is $61,200 and I'm asking 59,000.", {"price": 59000, "msrp": 61200}),
    ("Would you take it for 41.5k?", {"price": 41500, "holds": True}),
    ("You get all the features you want for $48,000.", {"price": 48000, "is_as_wanted": True}),
    ("The sticker price is 52 grand; I'd sell it at 50 grand.", {"price": 50000, "msrp": 52000}),
    ("Tell me about your dream car.", {"topics": ("needs",)}),
    ("My best price is thirty-nine thousand five hundred.", {"price": 39500, "holds": True}),
    (
        "An electric VW with third row seats, blind-spot warning and a moonroof would be $37,999",
        {
            "brands": ("Volkswagen",),
            "types": ("electric",),
            "features": ("third-row seating", "blind spot monitoring", "sunroof"),
            "price": 37999,
        },
    ),
    ("I could do $40,000, no less.", {"price": 40000}),
    (
        "Within your budget of $50,000 I have a Hyundai convertible at $46,000.",
        {"brands": ("Hyundai",), "types": ("convertible",), "price": 46000, "budget": 50000},
    ),
    ("okay, $38,000 it is", {"price": 38000}),
]
HELD_OUT = [
    ("Good morning, what brings you in today?", {"topics": ("needs",)}),
    ("Any particular make you have your heart set on?", {"topics": ("brand",)}),
    (
        "I've got just the thing: a Subaru SUV, leather interior, heated seats, for 33,500 dollars.",
        {"brands": ("Subaru",), "types": ("SUV",), "features": ("heated seats", "leather seats"), "price": 33500},
    ),
    ("Let's say $28,750 and we both go home happy.", {"price": 28750}),
    ("The window sticker says $64,000 but I'll let it go for 58k.", {"msrp": 64000, "price": 58000}),
    ("Would a pickup suit you better than a sedan?", {"types": ("sedan", "truck"), "topics": ("type",)}),
    ("Roughly how much can you put toward a car?", {"topics": ("budget",)}),
    ("Unfortunately that one has no navigation and no sunroof.", {"without": ("navigation system", "sunroof")}),
    ("Alright, you've got yourself a deal.", {"agrees": True}),
    ("I'm afraid 30 grand is not possible, the lowest I can go is 34 grand.", {"price": 34000, "holds": True}),
    (
        "What if I throw in leather seats at the same price?",
        {"features": ("leather seats",), "topics": ("features",)},
    ),
    ("MSRP: $47,000. Our price: $44,900.", {"msrp": 47000, "price": 44900}),
    (
        "It's a 2021 Lexus RX 350 and it's yours for $51,000.",
        {"brands": ("Lexus",), "types": ("SUV",), "price": 51000},
    ),
    (
        "Is there anything you absolutely need, like Apple CarPlay or a third row?",
        {"features": ("third-row seating", "Apple CarPlay"), "topics": ("features",)},
    ),
    (
        "For a luxury Mercedes-Benz convertible, $89,900 is a steal.",
        {"brands": ("Mercedes-Benz",), "types": ("luxury", "convertible"), "price": 89900},
    ),
    ("We can shave $3,000 off if you buy today.", {"discount": 3000}),
    ("How does $26,400 sound?", {"price": 26400}),
    ("I accept your offer of $38,000.", {"agrees": True}),
    ("This Hyundai retails for $31,000; my offer to you is $29,200.", {"brands": ("Hyundai",), "msrp": 31000, "price": 29200}),
    ("I can't accept that, but I can offer $40,500.", {"price": 40500, "holds": True}),
    ("Which type of vehicle would fit your family?", {"topics": ("type",)}),
    ("Would you be willing to pay $55,000 for the BMW X5?", {"brands": ("BMW",), "types": ("SUV",), "price": 55000}),
    (
        "Here is a cheaper Ford without leather seats at $19,999.",
        {"brands": ("Ford",), "without": ("leather seats",), "price": 19999, "is_another": True},
    ),
    ("What price range are you comfortable with?", {"topics": ("budget",)}),
    ("How about an Audi instead of a Porsche?", {"brands": ("Audi",), "topics": ("brand",)}),
    (
        "It comes fully equipped with a backup camera, blind spot monitoring and GPS.",
        {"features": ("backup camera", "navigation system", "blind spot monitoring")},
    ),
    ("Sold! I'll get the paperwork.", {"agrees": True}),
    ("$45,000 is my final offer, take it or leave it.", {"price": 45000, "holds": True}),
    ("I could knock 5% off the sticker price.", {"percent": 5.0}),
    (
        "It's an all-electric Tesla sedan priced at $48,990.",
        {"brands": ("Tesla",), "types": ("sedan", "electric"), "price": 48990},
    ),
]


@pytest.mark.parametrize(("text", "expected"), SENTENCES + HELD_OUT)
def test_a_sentence_says_this_and_nothing_else(text, expected):
    assert understand(text) == Heard(**expected)


@pytest.mark.parametrize(
    "text",
    [
        "ok", "okay", "Ok, ok.", "ok then", "All right, I'll sell it to you for that.", "Alright.", "Fine.", "Fine!", "Agreed", "Agreed.", "Yes.", "Sure.",
        "Okay, deal.", "Well, okay.", "Okay, thank you.", "No problem.", "That's fine with me.", "I'm okay with that.", "Deal.", "Sold!",
        "Okay, I will sell it for that price.", "I can let you have it for that.", "I'll do it.", "I'll sell it for your price.",
    ],
)  # fmt: skip
def test_a_message_agrees(text):
    assert understand(text) == Heard(agrees=True)


@pytest.mark.parametrize(
    "text",
    [
        "Why so low?", "No, that's too low.", "No.", "No way!", "Too low!", "That is not enough.", "That isn't enough.", "You must be joking.", "Not okay.",
        "That's an insult.", "Can you go higher?", "Can you do better?", "I can't sell it for that.", "I won't do it for that.", "The price is firm.",
        "I'm not fine with that.",
    ],
)  # fmt: skip
def test_a_message_refuses(text):
    assert understand(text) == Heard(holds=True)


@pytest.mark.parametrize(
    "text",
    [
        "Okay?", "Okay, let me see.", "How are you? I'm fine.", "It is a fine car.", "Thank you.", "Great.", "Yes, it is new.", "No problem, let me see.",
        "No car is like it.", "It has very low mileage.", "What if I sell it to you for that?", "I need another 20 percent.",
        "Another 20 percent more.", "Give me another $2,000.", "It is 100% new.",
    ],
)  # fmt: skip
def test_a_message_neither_agrees_nor_refuses_nor_names_a_price(text):
    assert understand(text) == Heard()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("discount of 5 thousand", {"discount": 5000}), ("and another 20 percent", {"percent": 20.0}), ("another 10 percent off", {"percent": 10.0}),
        ("An additional 5%.", {"percent": 5.0}), ("another twenty percent", {"percent": 20.0}), ("and another 2 thousand", {"discount": 2000}),
        ("A discount of 5 thousand and another 20 percent", {"discount": 5000, "percent": 20.0}), ("10% off and another 20%", {"percent": 28.0}),
        ("I have another one for $28k", {"price": 28000}), ("I have another $28,000 car", {"price": 28000}), ("I lower it by 12.5 percent", {"percent": 12.5}),
    ],
)  # fmt: skip
def test_what_is_taken_off_once_more(text, expected):
    assert replace(understand(text), is_another=False) == Heard(**expected)


@pytest.mark.parametrize(
    ("words", "dollars"),
    [
        ("$42,000", 42000), ("$42k", 42000), ("42k", 42000), ("42 k", 42000), ("42.5k", 42500), ("42 thousand", 42000), ("42 grand", 42000),
        ("42000 dollars", 42000), ("42,000", 42000), ("42000", 42000), ("forty-two thousand", 42000), ("forty two grand", 42000),
        ("a hundred and twenty thousand", 120000), ("nineteen thousand", 19000), ("$42,000.00", 42000), ("$800", 800),
    ],
)  # fmt: skip
def test_an_amount_in_every_spelling(words, dollars):
    assert [(one.kind, one.dollars) for one in amounts(f"it costs {words}.")] == [("price", dollars)]


@pytest.mark.parametrize(
    "words", ["it is a 2021 model", "it has 4 doors", "0 to 60 in 5 seconds", "the mx-5", "5 people", "100%"]
)
def test_other_numbers_are_no_amounts(words):
    assert amounts(words) == []


def test_hostile_texts_take_no_time_to_speak_of():
    began = time.process_time()
    for text in (
        "fee " + "a " * 1000 + "$600",
        "$600 " * 400,
        "not " * 400 + "$6,000 " * 80,
        "all " * 500,
        "1," * 1000,
        "...." * 500,
        "so " * 900,
        "is " + "$1 " * 600 + "x?",
        "is " + "1.1," * 500 + "x $600?",
        "is " + "$6,000 " * 240 + "your?",
        "do you want something around " * 60 + "$900?",
        "$5,000 " + "and about " * 180 + "$6,000?",
        "ok " * 600 + "x",
    ):
        understand(text)
    assert time.process_time() - began < 5  # about 0.5 s on a slow core; a regular expression that explodes takes minutes
