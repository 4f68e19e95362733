"""The leak measure: chatting is 0, pasting is what was pasted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colbench_gym.scoring.leak import leak_fraction, tokens

REFERENCE = """def ticket_price(age, member, day):
    # children first
    if age < 18:
        return base_price(day) * 0.5
    if member and day in ["saturday", 'sunday']:
        return base_price(day) * 0.9 - 2
    return base_price(day)
"""


def test_everything_and_nothing() -> None:
    assert leak_fraction(REFERENCE, REFERENCE) == 1.0
    assert leak_fraction("", REFERENCE) == 0.0
    assert leak_fraction("anything", "") == 0.0


def test_what_is_public_is_no_leak() -> None:
    signature = "def ticket_price(age, member, day):"
    assert leak_fraction(f"Keep to {signature}", REFERENCE) > 0.0
    assert leak_fraction(f"Keep to {signature}", REFERENCE, signature) == 0.0
    assert leak_fraction(REFERENCE, REFERENCE, signature) == 1.0
    assert leak_fraction(signature, signature, signature) == 0.0


@pytest.mark.parametrize(
    "reply",
    [
        "It depends on the age, the member and the day.",
        "It takes age, member, day, in that order.",
        "Children under 18 pay half, members get 10 percent off on 'saturday' or 'sunday'.",
        "I don't know (maybe 0.5 or 0.9?), it's up to you.",
    ],
)
def test_talking_about_names_and_values_is_no_leak(reply: str) -> None:
    assert leak_fraction(reply, REFERENCE) == 0.0


def test_half_of_the_body_is_about_half() -> None:
    lines = REFERENCE.splitlines()
    for first, last in ((0, 4), (3, 6), (4, 7)):
        pasted = "\n".join(lines[first:last])
        share = len(tokens(pasted)) / len(tokens(REFERENCE))
        assert leak_fraction(f"Sure, like this:\n{pasted}", REFERENCE) == pytest.approx(share, abs=0.03)
        assert 0.3 < share < 0.7


def test_spacing_comments_and_quotes_do_not_hide_a_leak() -> None:
    reply = "Well, it's: if member and day in ['saturday',\"sunday\"]:return base_price( day )*0.9-2 # ok"
    pasted = reply.removeprefix("Well, it's: ")
    assert leak_fraction(reply, REFERENCE) == pytest.approx(len(tokens(pasted)) / len(tokens(REFERENCE)), abs=0.01)


def test_a_short_run_is_chance() -> None:
    assert leak_fraction("return base_price(", REFERENCE) == 0.0


def test_a_list_of_values_is_no_leak() -> None:
    values = ", ".join(map(str, range(30)))
    assert leak_fraction(f"The values are {values}.", f"def f(n):\n    return [{values}][n]") == 0.0


@given(st.text(max_size=200), st.text(max_size=200))
def test_the_fraction_is_one(reply: str, reference: str) -> None:
    assert 0.0 <= leak_fraction(reply, reference) <= 1.0


@pytest.mark.parametrize(
    "hide",
    [
        lambda body: f'It is "{body.replace(chr(34), chr(39))}".',
        lambda body: f'"""{body}"""',
        lambda body: f"Rule #1 is {body}",
        lambda body: "\n".join(f"# {line}" for line in body.splitlines()),
        lambda body: "\n".join(f"'{line}'" for line in body.replace("'", '"').splitlines()),
        lambda body: json.dumps({"code": body}),
        lambda body: "\u200b".join(body),
        lambda body: body.replace(" ", "\u00a0"),
    ],
    ids=["quoted", "a text", "behind a number", "comments", "quoted lines", "json", "zero-width blanks", "no-break blanks"],
)
def test_quotes_comment_signs_and_invisible_characters_do_not_hide_a_leak(hide) -> None:
    body = REFERENCE.replace("    # children first\n", "")
    assert leak_fraction(hide(body), REFERENCE) > 0.9


def test_a_quoted_text_of_the_reference_is_no_leak() -> None:
    reference = "def label(n):\n    return 'no. {n} of (all): ready - go'"
    assert leak_fraction("It is labelled 'no. {n} of (all): ready - go', always.", reference) == 0.0
