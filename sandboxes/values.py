"""Values of untrusted programs, as data: compared as text, never as the objects that they claim to be.

A value crosses from inside a sandbox as typed JSON ("wire"):

    Python                    wire                                          notes
    ------------------------  --------------------------------------------  ------------------------------------------------
    None, bool, str, list     null, true/false, "text", [...]
    int                       12, {"int": "-0x1f"}                          hexadecimal from 2**53 on
    float                     1.5, {"float": "nan" | "inf" | "-inf"}
    str with lone surrogates  {"str": "<hex of UTF-8, surrogatepass>"}      JSON would join two of them
    tuple, set, frozenset,    {"tuple": [...]}, {"set": [...]},
      deque                     {"frozenset": [...]}, {"deque": [...]}      a deque's maxlen is not kept
    dict                      {"dict": [[key, value], ...]}
    bytes, bytearray          {"bytes": "<hex>"}, {"bytearray": "<hex>"}
    complex                   {"complex": [real, imaginary]}                two wire floats
    Decimal, Fraction         {"decimal": "1.50"}, {"fraction": [3, 2]}     two wire integers
    range                     {"range": [start, stop, step]}
    datetime, date, time      {"datetime": "<ISO>"}, {"date": ...}, {"time": ...}
    timedelta                 {"timedelta": [days, seconds, microseconds]}
    built-in class            {"type": "int"}                               by identity; a program's own classes do not cross

A subclass crosses as its built-in base (Counter as dict, namedtuple as tuple, IntEnum as int), numpy's scalars as the Python
numbers they equal. Everything else does not cross.

`canonical` maps a wire to a text such that two texts are equal exactly where Python's `==` holds between the values, with
three differences: two OrderedDicts are equal in any order, a Counter keeps its zeros, and an aware datetime is its instant. It
never builds a set or a dict of the value: hashes that collide on purpose would stop the trusted process.
"""

from __future__ import annotations

import builtins
import datetime
import decimal
import fractions
import math
import secrets
from collections import deque
from collections.abc import Callable
from typing import Any

from sandboxes import frames

_MAX_DECODED_KEYS = 10_000
_TYPES = {name: kind for name, kind in vars(builtins).items() if isinstance(kind, type)} | {"NoneType": type(None)}
_EPOCH = datetime.datetime.min
_MICROSECOND = datetime.timedelta(microseconds=1)
_PARSE_ERRORS = (ValueError, TypeError, ArithmeticError, AttributeError)


class MalformedValue(ValueError):
    """The wire is not one that an encoder makes, or it is over a budget."""


def canonical(wire: Any, nan_equal: bool = False) -> str:
    """Text of a value; equal texts mean equal values.

    Args:
        wire: Typed JSON, parsed. May come from a hostile program.
        nan_equal: Whether NaN equals NaN. By default it equals nothing, not even itself in a second call.

    Returns:
        ASCII text, about as long as the wire.

    Raises:
        MalformedValue: If it is not a value's wire or over the budgets in `sandboxes.frames`.
    """
    return _Canonical(nan_equal).text(wire, 0, hashable=False)


def equal(a: Any, b: Any, nan_equal: bool = False) -> bool:
    """Whether two wires stand for values that are equal in Python; False where one is malformed."""
    try:
        return canonical(a, nan_equal) == canonical(b, nan_equal)
    except MalformedValue:
        return False


def decode(wire: Any) -> Any:
    """Rebuild the Python value, for display and tests. Never compare with it: use `equal`.

    Raises:
        MalformedValue: If the wire is malformed, or has more than 10,000 elements of sets and keys of dicts, whose hashes may
            have been made to collide.
    """
    canonical(wire)
    if _count_hashed(wire) > _MAX_DECODED_KEYS:
        raise MalformedValue(f"Expected at most {_MAX_DECODED_KEYS} set elements and dict keys.")
    return _decode(wire)


class _Canonical:
    def __init__(self, nan_equal: bool) -> None:
        self._nan_equal = nan_equal
        self._nodes = frames.MAX_NODES

    def text(self, wire: Any, depth: int, hashable: bool) -> str:
        """Text of one node; `hashable` where it is the element of a set or the key of a dict."""
        self._nodes -= 1
        if self._nodes < 0 or depth > frames.MAX_DEPTH:
            raise MalformedValue(f"Expected at most {frames.MAX_NODES} nodes and depth {frames.MAX_DEPTH}.")
        if wire is None:
            return "None"
        if isinstance(wire, (bool, int)):
            return _number(int(wire))
        if isinstance(wire, float):
            if not math.isfinite(wire):
                raise MalformedValue('Expected a finite JSON number, or {"float": ...}.')
            return _number(wire)
        if isinstance(wire, str):
            return _quoted(wire)
        if isinstance(wire, list):
            _refuse_if(hashable, "list")
            return f"[{','.join(self._texts(wire, depth, False))}]"
        return self._tagged(wire, depth, hashable)

    def _tagged(self, wire: Any, depth: int, hashable: bool) -> str:
        tag, body = _tag_of(wire)
        _refuse_if(hashable and tag in ("dict", "set", "bytearray", "deque"), tag)
        if tag == "tuple":
            return f"({','.join(self._texts(body, depth, hashable))})"
        if tag == "deque":
            return f"deque[{','.join(self._texts(body, depth, False))}]"
        if tag in ("set", "frozenset"):
            return "{%s}" % ",".join(sorted(set(self._texts(body, depth, True))))
        if tag == "dict":
            return "dict{%s}" % ",".join(self._entries(body, depth))
        try:
            return self._atom(tag, body)
        except _PARSE_ERRORS as error:
            raise MalformedValue(f"Malformed {tag!r}: {type(error).__name__}.") from None

    def _texts(self, wires: Any, depth: int, hashable: bool) -> list[str]:
        if not isinstance(wires, list):
            raise MalformedValue(f"Expected a list, got {type(wires).__name__}.")
        return [self.text(wire, depth + 1, hashable) for wire in wires]

    def _entries(self, body: Any, depth: int) -> list[str]:
        if not isinstance(body, list):
            raise MalformedValue("Expected a list of pairs.")
        entries = {}
        for pair in body:
            if not isinstance(pair, list) or len(pair) != 2:
                raise MalformedValue("Expected a list of pairs.")
            entries[self.text(pair[0], depth + 1, True)] = self.text(pair[1], depth + 1, False)
        if len(entries) != len(body):
            raise MalformedValue("A key occurs twice.")
        return [f"{key}:{entries[key]}" for key in sorted(entries)]

    def _atom(self, tag: str, body: Any) -> str:
        value = _ATOMS[tag](body) if tag in _ATOMS else _unknown(tag)
        if isinstance(value, decimal.Decimal) and value.is_nan():
            return self._nan()
        if isinstance(value, complex) and value.imag == 0:
            value = value.real
        if isinstance(value, complex):
            parts = (value.real, value.imag)
            return f"complex({','.join(self._nan() if math.isnan(part) else _number(part) for part in parts)})"
        if isinstance(value, float) and math.isnan(value):
            return self._nan()
        if isinstance(value, (int, float, decimal.Decimal, fractions.Fraction)) and not isinstance(value, bool):
            return _number(value)
        return _atom_text(value)

    def _nan(self) -> str:
        return "nan" if self._nan_equal else f"nan#{secrets.token_hex(8)}"


def _refuse_if(condition: bool, tag: str) -> None:
    if condition:
        raise MalformedValue(f"A {tag} cannot be hashed.")


def _unknown(tag: str) -> Any:
    raise MalformedValue(f"Unknown tag {tag[:40]!r}.")


def _tag_of(wire: Any) -> tuple[str, Any]:
    if not isinstance(wire, dict) or len(wire) != 1:
        raise MalformedValue("Expected a JSON value or an object with one key.")
    return next(iter(wire.items()))


def _number(value: int | float | decimal.Decimal | fractions.Fraction) -> str:
    """Text of the exact rational: 1, 1.0, True, Decimal(1) and Fraction(1) are one number."""
    if isinstance(value, (float, decimal.Decimal)) and not math.isfinite(value):
        return "inf" if value > 0 else "-inf"
    numerator, denominator = value.as_integer_ratio()
    if numerator.bit_length() > frames.MAX_INT_BITS:
        raise MalformedValue(f"Expected an integer of at most {frames.MAX_INT_BITS} bits.")
    # Hexadecimal: decimal text takes quadratic time, and Python refuses it beyond 4,300 digits.
    return f"{numerator:x}" if denominator == 1 else f"{numerator:x}/{denominator:x}"


def _quoted(text: str) -> str:
    escaped = text.encode("unicode_escape").decode("ascii")
    return f"'{len(escaped)}:{escaped}'"


def _atom_text(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, (bytes, bytearray)):
        return f"bytes:{value.hex()}"
    if isinstance(value, type):
        return f"type:{value.__name__}"
    if isinstance(value, range):
        # Ranges are equal where their elements are.
        shown = (len(value), *value[:1], *(value[1:2] and (value.step,)))
        return f"range({','.join(map(_number, shown))})"
    if isinstance(value, datetime.timedelta):
        return f"timedelta:{value // _MICROSECOND}"
    return _moment_text(value)


def _moment_text(value: datetime.datetime | datetime.date | datetime.time) -> str:
    kind = type(value).__name__
    offset = None if type(value) is datetime.date else value.utcoffset()  # type: ignore[union-attr]
    if offset is None:
        return f"{kind}:{value.isoformat()}"
    if isinstance(value, datetime.time):
        passed = datetime.datetime.combine(_EPOCH.date(), value.replace(tzinfo=None)) - _EPOCH
    else:
        passed = value.replace(tzinfo=None) - _EPOCH  # type: ignore[call-arg, operator]
    # By hand, because a conversion to UTC can leave the range of years.
    return f"{kind}@{(passed - offset) // _MICROSECOND}"


def _parse_int(body: Any) -> int:
    if isinstance(body, dict):
        tag, body = _tag_of(body)
        if tag != "int":
            raise MalformedValue("Expected an integer.")
    if isinstance(body, int) and not isinstance(body, bool):
        return body
    if not isinstance(body, str) or len(body) > frames.MAX_INT_BITS // 4 + 4:
        raise MalformedValue(f"Expected hexadecimal text of at most {frames.MAX_INT_BITS} bits.")
    return int(body, 16)


def _parse_float(body: Any) -> float:
    if isinstance(body, dict):
        tag, body = _tag_of(body)
        if tag != "float":
            raise MalformedValue("Expected a float.")
    if isinstance(body, float):
        return body
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[body] if body in ("nan", "inf", "-inf") else _unknown("float")


def _parse_decimal(body: str) -> decimal.Decimal:
    if len(body) > 2 * frames.MAX_DECIMAL_DIGITS:
        raise MalformedValue(f"Expected at most {2 * frames.MAX_DECIMAL_DIGITS} characters.")
    value = decimal.Decimal(body)
    if abs(value.adjusted()) > frames.MAX_DECIMAL_DIGITS:
        raise MalformedValue(f"Expected an exponent of at most {frames.MAX_DECIMAL_DIGITS}.")
    return value


def _parse_fraction(body: Any) -> fractions.Fraction:
    numerator, denominator = map(_parse_int, body)
    if max(numerator.bit_length(), denominator.bit_length()) > frames.MAX_FRACTION_BITS:
        raise MalformedValue(f"Expected at most {frames.MAX_FRACTION_BITS} bits.")
    return fractions.Fraction(numerator, denominator)


def _parse_timedelta(body: Any) -> datetime.timedelta:
    days, seconds, microseconds = map(_parse_int, body)
    return datetime.timedelta(days, seconds, microseconds)


_ATOMS: dict[str, Callable[[Any], Any]] = {
    "int": _parse_int,
    "float": _parse_float,
    "str": lambda body: bytes.fromhex(body).decode("utf-8", "surrogatepass"),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "complex": lambda body: complex(*map(_parse_float, body)),
    "decimal": _parse_decimal,
    "fraction": _parse_fraction,
    "range": lambda body: range(*map(_parse_int, body)),
    "type": lambda body: _TYPES[body] if body in _TYPES else _unknown("type"),
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": _parse_timedelta,
}


def _count_hashed(wire: Any) -> int:
    if isinstance(wire, list):
        return sum(map(_count_hashed, wire))
    if not isinstance(wire, dict):
        return 0
    tag, body = _tag_of(wire)
    own = len(body) if tag in ("set", "frozenset", "dict") else 0
    return own + (_count_hashed(body) if tag not in _ATOMS else 0)


def _decode(wire: Any) -> Any:
    if isinstance(wire, list):
        return [_decode(item) for item in wire]
    if not isinstance(wire, dict):
        return wire
    tag, body = _tag_of(wire)
    if tag in _ATOMS:
        return _ATOMS[tag](body)
    containers: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset, "dict": dict, "deque": deque}
    return containers[tag](_decode(body))
