"""Turn the value of a call into typed JSON, without asking the value.

A program may return an object that lies: an `__eq__` that is always true, a `list` whose `__iter__` yields something else, a
`__class__` that is not its type. So the encoder looks at `type(value)` only, and reads through the unbound methods of the
built-in base (`list.__iter__(value)`), which a subclass cannot override. What is left out of the wire format is refused.

The wire format is documented in `sandboxes/values.py`. `tests/sandboxes/test_values.py` holds the two against each other.
"""

from __future__ import annotations

import builtins
import collections
import datetime
import decimal
import fractions
import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from sandboxes import frames

_SAFE_INT = 1 << 53
_to_text = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_mro_of = type.__dict__["__mro__"].__get__
_name_of = type.__dict__["__name__"].__get__
_BUILTIN_TYPES = {name: kind for name, kind in vars(builtins).items() if type(kind) is type} | {"NoneType": type(None)}


class TooLarge(Exception):
    """The value is over a budget: bytes, nodes, depth or digits."""


class Unsupported(Exception):
    """The value, or something in it, is of a type that does not cross."""


def to_json(value: object, max_bytes: int) -> bytes:
    """Encode a value.

    Raises:
        TooLarge: If it is over a budget.
        Unsupported: If a type in it does not cross.
    """
    text = _to_text(_Encoder(max_bytes).encode(value, 0)).encode("ascii")
    if len(text) > max_bytes:
        raise TooLarge
    return text


def support_numpy(numpy: Any) -> None:
    """Let numpy's scalars cross as the Python numbers and strings that they equal."""
    item = numpy.generic.item

    def encode_scalar(encoder: _Encoder, value: Any, depth: int) -> Any:
        plain = item(value)
        if type(plain) not in (bool, int, float, complex, str, bytes):
            raise Unsupported
        return encoder.encode(plain, depth)

    _ENCODERS[numpy.generic] = encode_scalar


class _Encoder:
    def __init__(self, max_bytes: int) -> None:
        self._nodes = frames.MAX_NODES
        self._characters = max_bytes

    def encode(self, value: Any, depth: int) -> Any:
        self._nodes -= 1
        if self._nodes < 0 or depth > frames.MAX_DEPTH:
            raise TooLarge
        kind = type(value)
        if value is None or kind is bool:
            return value
        encode = _ENCODERS.get(kind)
        if encode is None:
            encode = next((_ENCODERS[base] for base in _mro_of(kind) if base in _ENCODERS), None)
        if encode is None:
            raise Unsupported
        return encode(self, value, depth)

    def items(self, values: Iterable[Any], depth: int) -> list[Any]:
        return [self.encode(value, depth + 1) for value in values]

    def spend(self, characters: int) -> None:
        """Take from the budget before the text is built, so that a huge value never is."""
        self._characters -= characters
        if self._characters < 0:
            raise TooLarge


def _encode_int(encoder: _Encoder, value: int, depth: int) -> Any:
    value = int.__int__(value)
    if -_SAFE_INT < value < _SAFE_INT:
        return value
    if value.bit_length() > frames.MAX_INT_BITS:
        raise TooLarge
    encoder.spend(value.bit_length() // 4)
    return {"int": hex(value)}


def _encode_float(encoder: _Encoder, value: float, depth: int) -> Any:
    value = float.__float__(value)
    return value if math.isfinite(value) else {"float": repr(value)}


def _encode_str(encoder: _Encoder, value: str, depth: int) -> Any:
    value = str.__str__(value)
    encoder.spend(len(value))
    if value.isascii():
        return value
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        # JSON would join two lone surrogates into one character.
        return {"str": value.encode("utf-8", "surrogatepass").hex()}
    return value


def _encode_bytes(encoder: _Encoder, value: bytes, depth: int) -> Any:
    encoder.spend(2 * bytes.__len__(value))
    return {"bytes": bytes.hex(value)}


def _encode_bytearray(encoder: _Encoder, value: bytearray, depth: int) -> Any:
    encoder.spend(2 * bytearray.__len__(value))
    return {"bytearray": bytearray.hex(value)}


def _encode_dict(encoder: _Encoder, value: dict[Any, Any], depth: int) -> Any:
    return {"dict": [encoder.items(pair, depth) for pair in dict.items(value)]}


def _encode_complex(encoder: _Encoder, value: complex, depth: int) -> Any:
    real, imaginary = complex.__dict__["real"].__get__(value), complex.__dict__["imag"].__get__(value)
    return {"complex": [_encode_float(encoder, real, depth), _encode_float(encoder, imaginary, depth)]}


def _encode_timedelta(encoder: _Encoder, value: datetime.timedelta, depth: int) -> Any:
    fields = datetime.timedelta.__dict__
    return {"timedelta": [fields[name].__get__(value) for name in ("days", "seconds", "microseconds")]}


def _encode_decimal(encoder: _Encoder, value: decimal.Decimal, depth: int) -> Any:
    if abs(decimal.Decimal.adjusted(value)) > frames.MAX_DECIMAL_DIGITS:
        raise TooLarge
    text = decimal.Decimal.__str__(value)
    if len(text) > 2 * frames.MAX_DECIMAL_DIGITS:
        raise TooLarge
    encoder.spend(len(text))
    return {"decimal": text}


def _encode_fraction(encoder: _Encoder, value: Any, depth: int) -> Any:
    parts = (value._numerator, value._denominator)
    if any(int.bit_length(part) > frames.MAX_FRACTION_BITS for part in parts):
        raise TooLarge
    return {"fraction": encoder.items(parts, depth)}


def _encode_range(encoder: _Encoder, value: range, depth: int) -> Any:
    return {"range": encoder.items((value.start, value.stop, value.step), depth)}


def _encode_type(encoder: _Encoder, value: type, depth: int) -> Any:
    name = _name_of(value)
    # By identity: a program can give its class any name.
    if _BUILTIN_TYPES.get(name) is not value:
        raise Unsupported
    return {"type": name}


def _tagged(tag: str, iterate: Callable[[Any], Iterable[Any]]) -> Callable[[_Encoder, Any, int], Any]:
    return lambda encoder, value, depth: {tag: encoder.items(iterate(value), depth)}


def _isoformat(tag: str, isoformat: Callable[[Any], str]) -> Callable[[_Encoder, Any, int], Any]:
    return lambda encoder, value, depth: {tag: isoformat(value)}


_ENCODERS: dict[type, Callable[[_Encoder, Any, int], Any]] = {
    int: _encode_int,
    float: _encode_float,
    str: _encode_str,
    list: lambda encoder, value, depth: encoder.items(list.__iter__(value), depth),
    tuple: _tagged("tuple", tuple.__iter__),
    dict: _encode_dict,
    set: _tagged("set", set.__iter__),
    frozenset: _tagged("frozenset", frozenset.__iter__),
    collections.deque: _tagged("deque", collections.deque.__iter__),
    bytes: _encode_bytes,
    bytearray: _encode_bytearray,
    complex: _encode_complex,
    range: _encode_range,
    type: _encode_type,
    decimal.Decimal: _encode_decimal,
    fractions.Fraction: _encode_fraction,
    datetime.datetime: _isoformat("datetime", datetime.datetime.isoformat),
    datetime.date: _isoformat("date", datetime.date.isoformat),
    datetime.time: _isoformat("time", datetime.time.isoformat),
    datetime.timedelta: _encode_timedelta,
}
