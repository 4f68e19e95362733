"""Values as data: canonical texts agree with Python's ==, and nothing hostile gets through or stops the host."""

import datetime as dt
import enum
import json
import math
import sys
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxes import frames
from sandboxes.runner.encode import TooLarge, Unsupported, to_json  # in a test only: a host must not load it
from sandboxes.values import MalformedValue, OversizedValue, canonical

from .runs import decode

MAX_BYTES = 1 << 20
UTC, CET = dt.UTC, dt.timezone(dt.timedelta(hours=1))
NOON = dt.datetime(2024, 2, 29, 12)

# Few and close together, so that random pairs are often equal across types.
ATOMS = [
    None, True, False, 0, 1, -1, 2, 1 << 53, (1 << 53) + 1, 10**30, -(10**400), 0.0, -0.0, 1.0, 0.5, 0.1, float(1 << 53), 1e300,
    math.inf, -math.inf, 1 + 0j, 0.5 + 0j, 1 + 2j, complex(0, -0.0), Decimal(1), Decimal("1.0"), Decimal("0.5"), Decimal("0.1"),
    Decimal("1e400"), Decimal("-Infinity"), Fraction(1), Fraction(1, 2), Fraction(1, 10), "", "a", "1", "é", "\ud83d\ude00", "😀",
    "\\ud83d", "a:b", "'1:a'", b"", b"a", dt.date(2024, 2, 29), NOON, NOON.replace(tzinfo=UTC), dt.datetime.min.replace(tzinfo=CET),
    NOON.replace(hour=13, tzinfo=CET), dt.time(12), dt.time(12, tzinfo=UTC), dt.time(13, tzinfo=CET), dt.timedelta(1),
    dt.timedelta(hours=24), range(0), range(5, 0), range(3), range(0, 3, 1), range(0, 1, 9), range(10**30), int, bool, type(None),
]  # fmt: skip
MUTABLE_ATOMS = [bytearray(b"a"), bytearray()]

hashables = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)),
    max_leaves=4,
)
values = st.recursive(
    st.one_of(hashables, st.sampled_from(MUTABLE_ATOMS), st.text(), st.integers(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(deque),
        st.sets(hashables, max_size=3),
        st.dictionaries(hashables, inner, max_size=3),
    ),
    max_leaves=8,
)
Point = namedtuple("Point", "x y")


class Colour(enum.IntEnum):
    RED = 1


def wire(value):
    return json.loads(to_json(value, MAX_BYTES))


def equal(a, b, nan_equal=False):
    return canonical(a, nan_equal) == canonical(b, nan_equal)


@settings(max_examples=400)
@given(values, values)
def test_equal_agrees_with_python(a, b):
    assert equal(wire(a), wire(b)) == (a == b)


@pytest.mark.parametrize("container", [lambda x: x, lambda x: [x], lambda x: {"k": (x,)}])
def test_equal_agrees_with_python_on_all_pairs_of_atoms(container):
    atoms = [container(atom) for atom in ATOMS + MUTABLE_ATOMS]
    texts = [canonical(wire(atom)) for atom in atoms]
    wrong = [
        (a, b) for a, s in zip(atoms, texts, strict=True) for b, t in zip(atoms, texts, strict=True) if (a == b) != (s == t)
    ]
    assert wrong == []


@settings(max_examples=300)
@given(values)
def test_decode_gives_the_value_back(value):
    back = decode(wire(value))
    assert back == value and type(back) is type(value)


def test_nan_equals_nothing_unless_asked():
    nan = wire([math.nan])
    assert not equal(nan, nan)
    assert equal(nan, nan, nan_equal=True)
    assert equal(wire(math.nan), wire(Decimal("NaN")), nan_equal=True)
    assert not equal(wire(complex(math.nan, 1)), wire(complex(math.nan, 1)))
    assert not equal(wire(Decimal("sNaN")), wire(Decimal("sNaN")))


def test_subclasses_cross_as_their_base():
    assert equal(wire(Point(1, 2)), wire((1, 2)))
    assert equal(wire(Counter("aab")), wire({"a": 2, "b": 1}))
    assert equal(wire(OrderedDict(b=1, a=2)), wire(defaultdict(int, a=2, b=1)))
    assert equal(wire(Colour.RED), wire(1.0))


def test_a_lying_object_is_taken_for_what_it_is():
    class LyingList(list):
        __eq__ = lambda self, other: True
        __iter__ = lambda self: iter([1, 2, 3])
        __len__ = lambda self: 3
        __class__ = dict

    class LyingInt(int):
        __int__ = __index__ = lambda self: 42

    class LyingStr(str):
        __str__ = lambda self: "forty-two"

    assert wire(LyingList([7])) == [7]
    assert wire(LyingInt(7)) == 7
    assert wire(LyingStr("seven")) == "seven"


@pytest.mark.parametrize(
    "value", [object(), len, iter([]), (x for x in ()), Colour, [{1: object()}], enum.Enum("E", "A").A, math]
)
def test_other_types_do_not_cross(value):
    with pytest.raises(Unsupported):
        to_json(value, MAX_BYTES)


def nested(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


def endless():
    value = []
    value.append(value)
    return value


def shared():
    value = [0]
    for _ in range(43):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    "value",
    [nested(61), endless(), shared(), "x" * (MAX_BYTES + 1), [0] * 50_001, 1 << 400_001, Decimal("1e99999"), Fraction(1, 1 << 20_000),
     bytes(MAX_BYTES), ["x" * 1000] * 2000],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_encoder_refuses_what_is_too_large(value):
    with pytest.raises(TooLarge):
        to_json(value, MAX_BYTES)


@pytest.mark.parametrize(
    "value",
    [nested(60), [0] * 49_999, 1 << 399_999, Decimal("1e4096"), Fraction(1, 1 << 16_000)],
    ids=lambda value: type(value).__name__,
)
def test_what_the_encoder_passes_the_host_accepts(value):
    assert equal(wire(value), wire(value))


@pytest.mark.parametrize(
    "bad",
    [
        {}, {"a": 1, "b": 2}, {"object": 1}, {"int": 1.5}, {"int": "zz"}, {"int": None}, {"int": "0x" + "f" * 200_000}, {"float": "0x1"},
        {"float": []}, math.nan, math.inf, {"str": "zz"}, {"str": "ff"}, {"tuple": {}}, {"tuple": "ab"}, {"dict": [[1]]}, {"dict": [1]},
        {"dict": {"a": 1}}, {"set": [[1]]}, {"set": [{"dict": []}]}, {"set": [{"tuple": [[]]}]}, {"set": [{"bytearray": ""}]},
        {"dict": [[{"deque": []}, 1]]}, {"bytes": 3}, {"complex": [1.0]}, {"complex": [1, 2]}, {"decimal": "x"}, {"decimal": "1e999999"},
        {"decimal": 1}, {"fraction": [1, 0]}, {"fraction": [1]}, {"range": [0, 1, 0]}, {"datetime": "soon"}, {"date": 5},
        {"timedelta": [10**12, 0, 0]}, {"type": "Colour"}, {"type": []}, nested(61), [0] * 50_001, object(), b"", (1,),
    ],
)  # fmt: skip
def test_malformed_wires_are_refused(bad):
    with pytest.raises(MalformedValue):
        canonical(bad)


@pytest.mark.parametrize("text", ["1E+4096", "1E-4096"])
def test_a_short_wire_has_no_long_text(text):
    """Both sides count what a decimal's exponent stands for: a MiB of wire gave 130 MiB of text."""
    assert len(canonical([{"decimal": text}] * 255)) < 2 << 20
    with pytest.raises(OversizedValue):
        canonical([{"decimal": text}] * 256)
    to_json([Decimal(text)] * 255, MAX_BYTES)
    with pytest.raises(TooLarge):
        to_json([Decimal(text)] * 256, MAX_BYTES)


def test_fractions_of_numpy_integers_cross():
    numpy = pytest.importorskip("numpy")
    assert equal(wire(Fraction(numpy.int64(1), numpy.int64(2))), wire(0.5))


def test_a_library_that_a_program_has_broken_does_not_stand_in_the_way(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert wire(Counter("aab")) == {"dict": [["a", 2], ["b", 1]]}


def test_budgets_are_those_of_the_protocol():
    with pytest.raises(OversizedValue, match=f"^Expected a depth of at most {frames.MAX_DEPTH}.$"):
        canonical(nested(100))
    with pytest.raises(OversizedValue, match=f"^Expected at most {frames.MAX_NODES} nodes.$"):
        canonical([0] * frames.MAX_NODES)
