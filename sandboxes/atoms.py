"""Atomic values (numbers, text, bytes, dates and times): parsing and canonical text. See `sandboxes.values`."""

from __future__ import annotations

import builtins
import datetime
import decimal
import fractions
import math
import re
from collections.abc import Callable
from typing import Any

from sandboxes import frames

Number = int | float | decimal.Decimal | fractions.Fraction

_TYPES = {name: kind for name, kind in vars(builtins).items() if isinstance(kind, type)} | {"NoneType": type(None)}
_EPOCH = datetime.datetime.min
_FINE_OFFSET = re.compile(r"(.*)([+-])(\d\d):(\d\d):(\d\d)\.(\d{6})", re.ASCII)
_MICROSECOND = datetime.timedelta(microseconds=1)
_INFINITE = (math.inf, -math.inf)
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_PARSE_ERRORS = (ValueError, TypeError, ArithmeticError, AttributeError, LookupError)


class MalformedValue(ValueError):
    """The wire could not have been produced by the encoder, or it exceeds a budget."""


class OversizedValue(MalformedValue):
    """The wire exceeds a budget of `sandboxes.frames`: its value is too large, or takes too long to rebuild."""


class Budget:
    """The remaining budget of one value. Everything is charged before it is built.

    Each method raises OversizedValue if the remaining budget is too small.
    """

    def __init__(self) -> None:
        self._nodes, self._chars, self._work = frames.MAX_NODES, frames.MAX_TEXT_CHARS, frames.MAX_NUMBER_WORK

    def spend_nodes(self, count: int) -> None:
        """Charge for values, including the parts of a number."""
        self._nodes -= count
        if self._nodes < 0:
            raise OversizedValue(f"Expected at most {frames.MAX_NODES} nodes.")

    def spend_text(self, chars: int) -> None:
        """Charge for characters of canonical text."""
        self._chars -= chars
        if self._chars < 0:
            raise OversizedValue(f"Expected a value of at most {frames.MAX_TEXT_CHARS} characters over all levels of nesting.")

    def spend_work(self, digits: int) -> None:
        """Charge for a number that takes quadratic time to rebuild."""
        self._work -= digits * digits
        if self._work < 0:
            raise OversizedValue(
                "Expected shorter decimals, fractions and ranges: "
                f"the squares of their numbers of digits may add up to {frames.MAX_NUMBER_WORK}."
            )


def split_tag(wire: Any) -> tuple[str, Any]:
    """Tag and body of an object with one key."""
    if not isinstance(wire, dict) or len(wire) != 1:
        raise MalformedValue("Expected a JSON value or an object with one key.")
    ((tag, body),) = wire.items()
    if not isinstance(tag, str):
        raise MalformedValue("Expected a text as key.")
    return tag, body


def parse_atom(tag: str, body: Any, budget: Budget) -> Any:
    """The Python value of an atom.

    Raises:
        MalformedValue: If it is malformed, or exceeds the remaining budget.
    """
    if tag not in _PARSERS:
        raise MalformedValue(f"Unknown tag {tag[:40]!r}.")
    if isinstance(body, list):
        budget.spend_nodes(len(body))
    try:
        return _PARSERS[tag](body, budget)
    except MalformedValue:
        raise
    except _PARSE_ERRORS as error:
        raise MalformedValue(f"Malformed {tag!r}: {type(error).__name__}.") from None


def number_text(value: Number | complex, nan: str) -> str:
    """Text of an exact number. It is the same for 1, 1.0, True, 1+0j, Decimal(1) and Fraction(1).

    Args:
        value: The number, of any size that a wire may have.
        nan: Text for NaN.
    """
    if isinstance(value, complex):
        real = number_text(value.real, nan)
        return real if value.imag == 0 else f"{real}+{number_text(value.imag, nan)}j"
    if value.is_nan() if isinstance(value, decimal.Decimal) else isinstance(value, float) and math.isnan(value):
        return nan  # first, because a signalling NaN cannot be compared
    if value in _INFINITE:
        return "inf" if value > 0 else "-inf"
    numerator, denominator = value.as_integer_ratio()
    if numerator.bit_length() > frames.MAX_INT_BITS:
        raise OversizedValue(f"Expected an integer of at most {frames.MAX_INT_BITS} bits.")
    # Hexadecimal: decimal text takes quadratic time, and Python refuses it beyond 4,300 digits.
    return f"{numerator:x}" if denominator == 1 else f"{numerator:x}/{denominator:x}"


def atom_text(value: Any, nan: str) -> str:
    """Canonical text of an atom's Python value.

    Args:
        value: A value of `parse_atom`.
        nan: Text for NaN.
    """
    if isinstance(value, (int, float, complex, decimal.Decimal, fractions.Fraction)):
        return number_text(value, nan)
    if isinstance(value, str):
        escaped = value.encode("unicode_escape").decode("ascii")
        return f"'{len(escaped)}:{escaped}'"
    if isinstance(value, (bytes, bytearray)):
        return f"bytes:{value.hex()}"
    if isinstance(value, type):
        return f"type:{value.__name__}"
    if isinstance(value, range):
        # Ranges are equal if their elements are, which the first two and the last determine. No len(): sys.maxsize limits it.
        fixed = [*value[:1], *value[1:2], *value[-1:]]
        return f"range({','.join(number_text(number, nan) for number in fixed)})"
    if isinstance(value, datetime.timedelta):
        return f"timedelta:{value // _MICROSECOND}"
    return _moment_text(value)


def _parse_moment(kind: Any, body: str) -> Any:
    """A datetime or time from its ISO text. Python 3.11 misreads offsets of less than a second."""
    if not (match := _FINE_OFFSET.fullmatch(body)):
        return kind.fromisoformat(body)
    hours, minutes, seconds, microseconds = map(int, match.group(3, 4, 5, 6))
    offset = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=microseconds)
    zone = datetime.timezone(-offset if match.group(2) == "-" else offset)
    return kind.fromisoformat(match.group(1)).replace(tzinfo=zone)


def _moment_text(value: datetime.datetime | datetime.date | datetime.time) -> str:
    kind = type(value).__name__
    offset = value.utcoffset() if isinstance(value, (datetime.datetime, datetime.time)) else None
    if offset is None:
        return f"{kind}:{value.isoformat()}"
    if isinstance(value, datetime.time):
        passed = datetime.datetime.combine(_EPOCH.date(), value.replace(tzinfo=None)) - _EPOCH
    else:
        assert isinstance(value, datetime.datetime)
        passed = value.replace(tzinfo=None) - _EPOCH
    # By hand, because a conversion to UTC can leave the range of years.
    return f"{kind}@{(passed - offset) // _MICROSECOND}"


def _untag(body: Any, expected: str) -> Any:
    tag, body = split_tag(body) if isinstance(body, dict) else (expected, body)
    if tag != expected:
        raise MalformedValue(f"Expected {expected!r}, got {tag[:40]!r}.")
    return body


def _text(body: Any, max_chars: int) -> str:
    if not isinstance(body, str):
        raise MalformedValue("Expected a text.")
    if len(body) > max_chars:
        raise OversizedValue(f"Expected at most {max_chars} characters.")
    return body


def _parse_int(body: Any) -> int:
    body = _untag(body, "int")
    if isinstance(body, int) and not isinstance(body, bool):
        return body
    return int(_text(body, frames.MAX_INT_BITS // 4 + len("-0x")), 16)


def _parse_float(body: Any) -> float:
    body = _untag(body, "float")
    return body if isinstance(body, float) else _FLOATS[body]


def _parse_parts(body: Any, parse: Callable[[Any], Any], count: int) -> list[Any]:
    if not isinstance(body, list) or len(body) != count:
        raise MalformedValue(f"Expected a list of {count}.")
    return [parse(part) for part in body]


def _parse_decimal(body: Any, budget: Budget) -> decimal.Decimal:
    # Only text: `Decimal` would also accept a list of sign, digits and exponent.
    body = _text(body, 2 * frames.MAX_DECIMAL_DIGITS)
    value = decimal.Decimal(body)
    exponent = abs(value.adjusted())
    if exponent > frames.MAX_DECIMAL_DIGITS:
        raise OversizedValue(f"Expected an exponent of at most {frames.MAX_DECIMAL_DIGITS}.")
    budget.spend_work(len(body) + exponent)  # at least the digits of both integers of its ratio
    return value


def _parse_fraction(body: Any, budget: Budget) -> fractions.Fraction:
    numerator, denominator = _parse_parts(body, _parse_int, 2)
    bits = max(numerator.bit_length(), denominator.bit_length())
    if bits > frames.MAX_FRACTION_BITS:
        raise OversizedValue(f"Expected at most {frames.MAX_FRACTION_BITS} bits.")
    budget.spend_work(bits // 4)
    return fractions.Fraction(numerator, denominator)


def _parse_range(body: Any, budget: Budget) -> range:
    parts = _parse_parts(body, _parse_int, 3)
    budget.spend_work(max(part.bit_length() for part in parts) // 4)
    return range(*parts)


def _linear(parse: Callable[[Any], Any]) -> Callable[[Any, Budget], Any]:
    """Wrap a parser that takes linear time and needs no budget."""
    return lambda body, budget: parse(body)


_PARSERS: dict[str, Callable[[Any, Budget], Any]] = {
    "int": _linear(_parse_int),
    "float": _linear(_parse_float),
    "str": _linear(lambda body: bytes.fromhex(body).decode("utf-8", "surrogatepass")),
    "bytes": _linear(bytes.fromhex),
    "bytearray": _linear(bytearray.fromhex),
    "complex": _linear(lambda body: complex(*_parse_parts(body, _parse_float, 2))),
    "decimal": _parse_decimal,
    "fraction": _parse_fraction,
    "range": _parse_range,
    "type": _linear(lambda body: _TYPES[body]),
    "datetime": _linear(lambda body: _parse_moment(datetime.datetime, body)),
    "date": _linear(datetime.date.fromisoformat),
    "time": _linear(lambda body: _parse_moment(datetime.time, body)),
    "timedelta": _linear(lambda body: datetime.timedelta(*_parse_parts(body, _parse_int, 3))),
}
