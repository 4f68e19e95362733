"""Values that a forged frame claims and that would cost the host more than their size: refused before they are rebuilt."""

import bisect
import json
from decimal import Decimal
from fractions import Fraction

import pytest

from sandboxes import Outcome, Program, frames
from sandboxes.atoms import OversizedValue
from sandboxes.client import _call_result
from sandboxes.embedded import EmbeddedSandbox
from sandboxes.runner.encode import TooLarge, to_json
from sandboxes.values import MalformedValue, canonical, parse

MAX_BYTES = 1 << 26
HASH_MODULUS = (1 << 61) - 1  # integers this far apart have one hash
LONG = {"int": "0x" + "f" * 66_000}  # digits whose square is over the budget of work


def claim(payload):
    """What the host makes of a frame that claims this value."""
    return _call_result(Outcome.OK, payload if isinstance(payload, bytes) else json.dumps(payload).encode(), 0.0)


@pytest.mark.parametrize(
    "parts",
    [
        [0, [1], -1000],
        [0, [1] * 100_000, -100_000],
        [0, [9] * 400_000, -400_000],
        [1, [], "F"],
        [0, [1], 10**18],
        {"0": 1},
        5,
        None,
    ],
    ids=lambda parts: repr(parts)[:20],
)
def test_a_decimal_is_a_text(parts):
    """`Decimal` also takes a list of sign, digits and exponent, whose length says nothing: this took up to 24 s."""
    with pytest.raises(MalformedValue):
        canonical({"decimal": parts})
    assert claim({"decimal": parts}).outcome is Outcome.CRASH


FORGERY = """
import os, struct
def f(head, item, count, tail):
    payload = (head + item * count + tail).encode()
    frame = struct.pack("!BdI", 0, 0.0, len(payload)) + payload
    while frame:
        frame = frame[os.write(3, frame):]
    os._exit(0)
"""


def test_a_program_that_forges_its_frame_gets_an_outcome():
    forgeries = {
        ('{"decimal":[0,[1', ",1", 400_000, "],-400000]}"): Outcome.CRASH,
        ("[0", ',{"decimal":"1E-4096"}', 40_000, "]"): Outcome.OUTPUT_LIMIT,
        ("[", "[", 500_000, ""): Outcome.OUTPUT_LIMIT,
        ("9", "9", 4_000, ""): Outcome.CRASH,
        ("[1", ",1", 10, "]"): Outcome.OK,
    }
    with EmbeddedSandbox(workers=1) as sandbox:
        for parts, outcome in forgeries.items():
            result, other = sandbox.run([Program(FORGERY, (f"f{parts}",)), Program("", ("1",))])
            assert result.calls[0].outcome is outcome, parts
            assert other.calls[0].value == 1


TEXT_ATOMS = ["int", "str", "bytes", "bytearray", "decimal", "type", "datetime", "date", "time"]


@pytest.mark.parametrize("tag", TEXT_ATOMS)
@pytest.mark.parametrize("body", [[], [1] * 1000, {}, {"int": [1] * 1000}, None, True, 1.5], ids=lambda body: repr(body)[:16])
def test_what_is_written_as_text_is_nothing_else(tag, body):
    with pytest.raises(MalformedValue):
        canonical({tag: body})


@pytest.mark.parametrize(
    "bomb",
    [
        [{"decimal": "1." + "1" * 8190}] * 100,  # ratios of long integers
        [{"decimal": "0." + "0" * 4000 + "1" * 4100}] * 100,
        [{"decimal": "1e4096"}] * 257,
        [{"decimal": "1e-4096"}] * 257,
        [{"fraction": [{"int": "0x" + "f" * 4096}, {"int": "0x" + "e" * 4096}]}] * 300,
        [{"range": [0, LONG, 3]}],
        [{"range": [LONG, 0, LONG]}],
        [{"range": [0, {"int": "0x" + "f" * 20_000}, {"int": "0x" + "3" * 10_000}]}] * 20,
        {"range": [{"int": "0x" + "f" * 100_000}, {"int": "-0x" + "f" * 100_000}, {"int": "0x3"}]},
        {"tuple": [{"frozenset": [{"decimal": "1e4000"}] * 300}]},
    ],
    ids=range(10),
)
def test_numbers_that_take_quadratic_time_share_one_budget(bomb):
    with pytest.raises(OversizedValue, match="^Expected shorter decimals, fractions and ranges"):
        canonical(bomb)
    assert claim(bomb).outcome is Outcome.OUTPUT_LIMIT


def nested(value, tag, depth):
    for _ in range(depth):
        value = {tag: [value]}
    return value


@pytest.mark.parametrize(
    "bomb",
    [
        nested([1e308] * 45_000, "tuple", 50),  # eight characters of wire, 256 of text, and copied at every level
        nested({"tuple": [5e-324] * 45_000}, "frozenset", 50),
        nested("x" * 1_000_000, "frozenset", 55),
        nested([{"decimal": "1e280"}] * 49_000, "tuple", 2),
    ],
    ids=range(4),
)
def test_the_text_of_a_value_has_a_budget_over_all_its_levels(bomb):
    with pytest.raises(OversizedValue, match=f"^Expected a value of at most {frames.MAX_TEXT_CHARS} characters"):
        canonical(bomb)
    assert claim(bomb).outcome is Outcome.OUTPUT_LIMIT


@pytest.mark.parametrize(
    "bomb",
    [
        [0] * frames.MAX_NODES,
        [{"complex": [1.0, 1.0]}] * 20_000,
        {"timedelta": [0] * frames.MAX_NODES},
        {"int": [0] * frames.MAX_NODES},
        {"type": ["int"] * frames.MAX_NODES},
        {"range": [{"int": "0x1"}] * frames.MAX_NODES},
    ],
    ids=range(6),
)
def test_the_parts_of_numbers_are_nodes_too(bomb):
    with pytest.raises(OversizedValue, match=f"^Expected at most {frames.MAX_NODES} nodes"):
        canonical(bomb)
    assert claim(bomb).outcome is Outcome.OUTPUT_LIMIT


@pytest.mark.parametrize(
    "wire",
    [
        {"set": [{"int": hex(i * HASH_MODULUS)} for i in range(10_000)]},
        {"frozenset": [{"fraction": [{"int": hex(i * HASH_MODULUS)}, 1]} for i in range(10_000)]},
        {"dict": [[{"decimal": str(i * HASH_MODULUS)}, 0] for i in range(10_000)]},
        {"dict": [[{"tuple": [{"int": hex(i * HASH_MODULUS)}]}, 0] for i in range(10_000)]},
    ],
    ids=["set", "frozenset", "dict", "tuples"],
)
def test_colliding_hashes_are_texts_like_others(wire):
    """10,000 fractions of one hash would take half a minute to become a set: a host builds none."""
    assert claim(wire).outcome is Outcome.OK


@pytest.mark.parametrize("tag", ["set", "frozenset"])
def test_a_signalling_nan_cannot_be_hashed(tag):
    for wire in ({tag: [{"decimal": "sNaN"}]}, {"dict": [[{"tuple": [{"decimal": "-sNaN12"}]}, 1]]}):
        with pytest.raises(MalformedValue):
            canonical(wire)
    assert canonical({"decimal": "sNaN"}, nan_equal=True) == "nan"


@pytest.mark.parametrize(
    "payload",
    [
        b"9" * 18,
        b"[" + b"1" * 4000 + b"]",
        b"-" + b"9" * 17,
        "[1]".encode("utf-16"),
        b"\xff",
        b"",
        b"[1] 2",
        b"[" * 100_000,
        b'"\xed\xa0\x80"',
    ],
    ids=lambda payload: repr(payload[:12]),
)
def test_json_that_an_encoder_does_not_write_is_no_value(payload):
    """Integers of many digits take quadratic time; the interpreter's own limit on them can be switched off."""
    with pytest.raises(MalformedValue):
        parse(payload)
    assert claim(payload).outcome in (Outcome.CRASH, Outcome.OUTPUT_LIMIT)


@pytest.mark.parametrize(
    "value",
    [
        Decimal("1E+4096"),
        Decimal("1E-4096"),
        Decimal("0." + "3" * 8100),
        Fraction((1 << 15_000) + 1, 3**9000),
        range(0, 10**1000, 7),
    ],
    ids=["large", "small", "long", "fraction", "range"],
)
def test_inside_and_outside_keep_the_same_budget_of_work(value):
    """What the encoder passes, the host accepts, so that a program that is no forger learns that its value is too large."""
    most = bisect.bisect_left(range(1, 1 << 15), True, key=lambda count: is_refused([value] * count))
    wire = json.loads(to_json(value, MAX_BYTES))
    canonical([wire] * most)
    with pytest.raises(OversizedValue):
        canonical([wire] * (most + 1))


def is_refused(value):
    try:
        to_json(value, MAX_BYTES)
    except TooLarge:
        return True
    return False
