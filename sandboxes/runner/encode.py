"""Encode the value of a call as typed JSON, without calling methods of the value.

A program may return a deceptive object: an `__eq__` that is always true, a `list` subclass with a different `__iter__`, a
`__class__` that is not its type. So the encoder only uses `type(value)`, and reads with the unbound methods of the built-in base
(`list.__iter__(value)`), which a subclass cannot override. Types that are not in the wire format are refused.

The wire format is documented in `sandboxes/values.py`. `tests/sandboxes/test_values.py` checks that both agree.
"""

from __future__ import annotations

import builtins
import math
import sys

from sandboxes import frames

TYPE_CHECKING = False  # see `sandboxes.frames`
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Encode = Callable[["_Encoder", Any, int], str]

_SAFE_INT = 1 << 53
_ESCAPES = {code: f"\\u{code:04x}" for code in range(32)} | {ord('"'): '\\"', ord("\\"): "\\\\"}
_mro_of = type.__dict__["__mro__"].__get__
_name_of = type.__dict__["__name__"].__get__
_BUILTIN_TYPES = {name: kind for name, kind in vars(builtins).items() if type(kind) is type} | {"NoneType": type(None)}


class TooLarge(Exception):
    """The value exceeds a budget: bytes, nodes, depth or digits."""


class Unsupported(Exception):
    """The value, or a part of it, has a type that is not in the wire format."""


def to_json(value: object, max_bytes: int) -> bytes:
    """Encode a value.

    Raises:
        TooLarge: If it exceeds a budget.
        Unsupported: If it has a type that is not in the wire format.
    """
    text = _Encoder(max_bytes).encode(value, 0).encode("utf-8")
    if len(text) > max_bytes:
        raise TooLarge
    return text


class _Encoder:
    def __init__(self, max_bytes: int) -> None:
        self._nodes = frames.MAX_NODES
        self._characters = max_bytes
        self._work = frames.MAX_NUMBER_WORK

    def encode(self, value: Any, depth: int) -> str:
        self._nodes -= 1
        if self._nodes < 0 or depth > frames.MAX_DEPTH:
            raise TooLarge
        kind = type(value)
        if value is None:
            return "null"
        if kind is bool:
            return "true" if value else "false"
        return (_ENCODERS.get(kind) or _encoder_of(kind))(self, value, depth)

    def items(self, values: Iterable[Any], depth: int) -> str:
        return f"[{','.join([self.encode(value, depth + 1) for value in values])}]"

    def spend(self, characters: int) -> None:
        """Charge the budget before the text is built, so that the text of a huge value is never built."""
        self._characters -= characters
        if self._characters < 0:
            raise TooLarge

    def spend_work(self, digits: int) -> None:
        """Charge the budget with the host's cost of rebuilding a number of `digits` digits."""
        self._work -= digits * digits
        if self._work < 0:
            raise TooLarge

    def parts(self, values: tuple[Any, ...], depth: int) -> str:
        """The integers of a fraction or a range. Those of a fraction may be numpy integers, which are never long."""
        self.spend_work(max((part.bit_length() for part in values if type(part) is int), default=0) // 4)
        return self.items(values, depth)


def _encoder_of(kind: type) -> Encode:
    """The encoder of a type that is not in the table: that of a base in the table, or of a type of a library that is loaded by now."""
    for (module, name), encode in _LIBRARY_ENCODERS.items():
        candidate = getattr(sys.modules.get(module), name, None)
        if candidate is not None:
            _ENCODERS.setdefault(candidate, encode)
    for base in _mro_of(kind):
        if base in _ENCODERS:
            return _ENCODERS[base]
    raise Unsupported


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _encode_int(encoder: _Encoder, value: int, depth: int) -> str:
    value = int.__int__(value)
    if -_SAFE_INT < value < _SAFE_INT:
        return int.__repr__(value)
    if value.bit_length() > frames.MAX_INT_BITS:
        raise TooLarge
    encoder.spend(value.bit_length() // 4)
    return f'{{"int":"{value:#x}"}}'


def _encode_float(encoder: _Encoder, value: float, depth: int) -> str:
    text = float.__repr__(value)
    return text if math.isfinite(float.__float__(value)) else f'{{"float":"{text}"}}'


def _encode_str(encoder: _Encoder, value: str, depth: int) -> str:
    value = str.__str__(value)
    encoder.spend(len(value))
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            # JSON would join two lone surrogates into one character.
            return f'{{"str":"{value.encode("utf-8", "surrogatepass").hex()}"}}'
    return _quote(value)


def _encode_bytes(encoder: _Encoder, value: bytes, depth: int) -> str:
    encoder.spend(2 * bytes.__len__(value))
    return f'{{"bytes":"{bytes.hex(value)}"}}'


def _encode_bytearray(encoder: _Encoder, value: bytearray, depth: int) -> str:
    encoder.spend(2 * bytearray.__len__(value))
    return f'{{"bytearray":"{bytearray.hex(value)}"}}'


def _encode_dict(encoder: _Encoder, value: dict[Any, Any], depth: int) -> str:
    return f'{{"dict":[{",".join([encoder.items(pair, depth) for pair in dict.items(value)])}]}}'


def _encode_complex(encoder: _Encoder, value: complex, depth: int) -> str:
    real, imaginary = complex.__dict__["real"].__get__(value), complex.__dict__["imag"].__get__(value)
    return f'{{"complex":{encoder.items((real, imaginary), depth)}}}'


def _encode_range(encoder: _Encoder, value: range, depth: int) -> str:
    return f'{{"range":{encoder.parts((value.start, value.stop, value.step), depth)}}}'


def _encode_type(encoder: _Encoder, value: type, depth: int) -> str:
    name = _name_of(value)
    # By identity: a program can give its class any name.
    if _BUILTIN_TYPES.get(name) is not value:
        raise Unsupported
    return f'{{"type":"{name}"}}'


def _tagged(tag: str, iterate: Callable[[Any], Iterable[Any]]) -> Encode:
    return lambda encoder, value, depth: f'{{"{tag}":{encoder.items(iterate(value), depth)}}}'


_ENCODERS: dict[type, Encode] = {
    int: _encode_int,
    float: _encode_float,
    str: _encode_str,
    list: lambda encoder, value, depth: encoder.items(list.__iter__(value), depth),
    tuple: _tagged("tuple", tuple.__iter__),
    dict: _encode_dict,
    set: _tagged("set", set.__iter__),
    frozenset: _tagged("frozenset", frozenset.__iter__),
    bytes: _encode_bytes,
    bytearray: _encode_bytearray,
    complex: _encode_complex,
    range: _encode_range,
    type: _encode_type,
}

# ---- types of modules that a runner may not have loaded --------------------------------------------------------------------


def _encode_timedelta(encoder: _Encoder, value: Any, depth: int) -> str:
    fields = sys.modules["datetime"].timedelta.__dict__
    return (
        f'{{"timedelta":{encoder.items([fields[name].__get__(value) for name in ("days", "seconds", "microseconds")], depth)}}}'
    )


def _encode_decimal(encoder: _Encoder, value: Any, depth: int) -> str:
    decimal = sys.modules["decimal"].Decimal
    text, exponent = decimal.__str__(value), abs(decimal.adjusted(value))
    if exponent > frames.MAX_DECIMAL_DIGITS or len(text) > 2 * frames.MAX_DECIMAL_DIGITS:
        raise TooLarge
    encoder.spend(len(text))
    encoder.spend_work(len(text) + exponent)
    return f'{{"decimal":{_quote(text)}}}'


def _encode_fraction(encoder: _Encoder, value: Any, depth: int) -> str:
    parts = (value._numerator, value._denominator)
    if any(type(part) is int and part.bit_length() > frames.MAX_FRACTION_BITS for part in parts):  # numpy's are never long
        raise TooLarge
    return f'{{"fraction":{encoder.parts(parts, depth)}}}'


def _encode_numpy_scalar(encoder: _Encoder, value: Any, depth: int) -> str:
    """Encode it as the equal Python number or string."""
    plain = sys.modules["numpy"].generic.item(value)
    if type(plain) not in (bool, int, float, complex, str, bytes):
        raise Unsupported
    return encoder.encode(plain, depth)


def _moment(name: str) -> Encode:
    return lambda encoder, value, depth: f'{{"{name}":{_quote(getattr(sys.modules["datetime"], name).isoformat(value))}}}'


_LIBRARY_ENCODERS: dict[tuple[str, str], Encode] = {
    ("collections", "deque"): _tagged("deque", lambda value: sys.modules["collections"].deque.__iter__(value)),
    ("decimal", "Decimal"): _encode_decimal,
    ("fractions", "Fraction"): _encode_fraction,
    ("datetime", "datetime"): _moment("datetime"),
    ("datetime", "date"): _moment("date"),
    ("datetime", "time"): _moment("time"),
    ("datetime", "timedelta"): _encode_timedelta,
    ("numpy", "generic"): _encode_numpy_scalar,
}
