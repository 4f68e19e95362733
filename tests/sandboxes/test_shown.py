"""Values as text for people: as Python writes them, cut, printable, and at once whatever the wire stands for."""

import datetime as dt
import json
import math
from collections import deque
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxes.runner.encode import to_json  # in a test only: a host must not load it
from sandboxes.shown import CUT, shown, shown_apart


def wire(value):
    return json.loads(to_json(value, 1 << 20))


@pytest.mark.parametrize(
    "value",
    [None, True, -3, 1 << 60, -(10**30), 0.1, math.inf, "a'b\n\x1b[31m", "\u202eevil", [], [1, [2.5, "x"]], (), (1,), (1, 2), {1: [2]}, {},
     {3}, frozenset({"a"}), set(), frozenset(), b"\x00a", bytearray(b"b"), range(0, 9, 2), deque([1, 2])],
)  # fmt: skip
def test_a_value_is_shown_as_python_writes_it(value):
    assert shown(wire(value)) == repr(value)


def test_others_are_readable():
    assert shown(wire(math.nan)) == "nan" and shown(wire("\ud800")) == "'\\ud800'"
    assert shown(wire(Decimal("1.50"))) == "Decimal('1.50')" and shown(wire(Fraction(3, 2))) == "Fraction(3, 2)"
    assert shown(wire(dt.date(2024, 2, 29))) == "date('2024-02-29')" and shown(wire(dt.timedelta(1, 2))) == "timedelta(1, 2, 0)"
    assert shown(wire(1 + 2j)) == "complex(1.0, 2.0)" and shown(wire(int)) == "<class 'int'>"


def test_a_set_reads_the_same_in_every_process():
    words = [f"w{i}" for i in range(9)]
    assert shown({"set": words}) == shown({"set": words[::-1]}) == "{" + ", ".join(map(repr, words)) + "}"


def test_long_values_are_cut_with_a_remark():
    assert shown(["x" * 500] * 500, 20) == "['" + "x" * 18 + CUT
    assert shown({"int": "0x" + "f" * 100_000}, 10) == "0xffffffff" + CUT  # in decimal this would take quadratic time
    assert len(shown({"set": [[i] for i in range(5_000)]})) <= 200 + len(CUT)
    nested = 1
    for _ in range(50_000):
        nested = [nested]
    assert shown(nested) == "[" * 200 + CUT


@pytest.mark.parametrize(
    "forged", [{}, {"a": 1, "b": 2}, {"int": None}, {"dict": 3}, {"set": 1}, {"str": "zz"}, {"tuple": None}, {"complex": 1}, {"bytes": 7}]
)  # fmt: skip
def test_a_forged_wire_is_no_error(forged):
    assert "<not a value>" in shown([forged])


def test_values_that_begin_alike_are_shown_where_they_differ():
    a, b = [0] * 300 + [1, 5], [0] * 300 + [2, 5]
    left, right = shown_apart(a, b, 60)
    assert left.startswith("... 0, 0") and left.endswith("1, 5]") and right.endswith("2, 5]") and left != right
    assert shown_apart([1], [2]) == ("[1]", "[2]")
    assert shown_apart("y" * 9_000, "y" * 9_000 + "z", 20) == ("'" + "y" * 19 + CUT,) * 2  # they differ too far behind


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["int", "str", "set", "dict", "tuple", "range", "float", "x"]), inner),
)  # fmt: skip


@given(anything)
def test_anything_gives_one_short_printable_line(value):
    text = shown(value, 50)
    assert len(text) <= 50 + len(CUT) and text.isprintable()
