"""Values of untrusted programs as data. They are compared as text, never as the objects that they claim to be.

A value leaves a sandbox as typed JSON ("wire"):

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
    built-in class            {"type": "int"}                               by identity; not a program's own classes

A subclass is encoded as its built-in base (Counter as dict, namedtuple as tuple, IntEnum as int), numpy scalars as the equal Python
numbers. Other types are not supported.

`canonical` maps a wire to a text, such that two texts are equal if and only if Python's `==` holds for the values, with three
exceptions: two OrderedDicts are equal in any order, a Counter keeps its zeros, and an aware datetime is its instant. It never
builds a set or a dict of the value, because deliberately colliding hashes would stall the trusted process.

A wire may be forged and cost far more than its size: a few characters that represent thousands of digits, a ratio of long
integers, text that is copied at many levels of nesting. So a value has budgets of nodes, depth, text and work
(`sandboxes.frames`), which are charged before anything is built. A value that exceeds one is refused as `OversizedValue`.
"""

from __future__ import annotations

import decimal
import hashlib
import json
import math
import secrets
from typing import Any

from sandboxes import frames
from sandboxes.atoms import Budget, MalformedValue, OversizedValue, atom_text, number_text, parse_atom, split_tag
from sandboxes.runner.encode import TooLarge, Unsupported, to_json

__all__ = ["MalformedValue", "OversizedValue", "canonical", "fingerprint", "fingerprint_of", "parse"]

_MAX_INT_CHARS = len("-9007199254740992")
_MAX_OWN_BYTES = 1 << 20
_UNHASHABLE = ("dict", "set", "bytearray", "deque")
_CONTAINERS = ("tuple", "set", "frozenset", "deque", "dict")


def parse(payload: bytes) -> Any:
    """Parse the wire in a payload, which may come from a hostile program. It takes at most about 30 times the payload's memory.

    Raises:
        MalformedValue: If it is not JSON in UTF-8, or has a decimal integer that the wire format writes in hexadecimal.
    """
    try:
        return _JSON.decode(payload.decode("utf-8"))
    except MalformedValue:
        raise
    except RecursionError:
        raise OversizedValue(f"Expected a depth of at most {frames.MAX_DEPTH}.") from None
    except ValueError as error:
        raise MalformedValue(f"Malformed JSON: {type(error).__name__}.") from None


def canonical(wire: Any, nan_equal: bool = False) -> str:
    """Text of a value; equal texts mean equal values.

    Args:
        wire: Typed JSON, parsed. May come from a hostile program.
        nan_equal: Whether NaN equals NaN. By default it equals nothing, not even itself in another call of this function.

    Returns:
        ASCII text, about as long as the wire.

    Raises:
        MalformedValue: If it is not the wire of a value.
        OversizedValue: If it exceeds one of the budgets in `sandboxes.frames`.
    """
    return _Canonical(nan_equal).text(wire, 0, hashable=False)


def fingerprint(wire: Any, nan_equal: bool = True) -> str:
    """SHA-256 of the canonical text, in hexadecimal; arguments and errors as for `canonical`."""
    return hashlib.sha256(canonical(wire, nan_equal).encode()).hexdigest()


def fingerprint_of(value: object) -> str:
    """The fingerprint of a trusted value, the same as a sandbox returns for an equal value of a program.

    Raises:
        ValueError: If the value has an unsupported type.
    """
    try:
        return fingerprint(json.loads(to_json(value, _MAX_OWN_BYTES)))
    except (TooLarge, Unsupported) as error:
        raise ValueError(f"Expected a value that crosses from a sandbox, got {type(value).__name__}.") from error


class _Canonical:
    def __init__(self, nan_equal: bool) -> None:
        # Random, so that the text differs between calls and processes.
        self._nan = "nan" if nan_equal else f"nan#{secrets.token_hex(8)}"
        self._budget = Budget()

    def text(self, wire: Any, depth: int, hashable: bool) -> str:
        """Text of one node. `hashable` is True for an element of a set or a key of a dict."""
        self._budget.spend_nodes(1)
        if depth > frames.MAX_DEPTH:
            raise OversizedValue(f"Expected a depth of at most {frames.MAX_DEPTH}.")
        text = self._text(wire, depth, hashable)
        self._budget.spend_text(len(text))
        return text

    def _text(self, wire: Any, depth: int, hashable: bool) -> str:
        if wire is None:
            return "None"
        if isinstance(wire, float) and not math.isfinite(wire):
            raise MalformedValue('Expected a finite JSON number or {"float": ...}.')
        if isinstance(wire, (int, float)):
            return number_text(wire, "")
        if isinstance(wire, str):
            return atom_text(wire, "")
        if isinstance(wire, list):
            return self._container("list", wire, depth, hashable)
        tag, body = split_tag(wire)
        if tag in _CONTAINERS:
            return self._container(tag, body, depth, hashable)
        if hashable and tag in _UNHASHABLE:
            raise MalformedValue(f"A {tag} cannot be hashed.")
        atom = parse_atom(tag, body, self._budget)
        if hashable and isinstance(atom, decimal.Decimal) and atom.is_snan():
            raise MalformedValue("A signalling NaN cannot be hashed.")
        return atom_text(atom, self._nan)

    def _container(self, tag: str, body: Any, depth: int, hashable: bool) -> str:
        if hashable and tag not in ("tuple", "frozenset"):
            raise MalformedValue(f"A {tag} cannot be hashed.")
        if not isinstance(body, list):
            raise MalformedValue(f"Expected a list in {tag!r}.")
        if tag == "dict":
            return f"dict({','.join(self._entries(body, depth + 1))})"
        if tag in ("set", "frozenset"):
            return f"set({','.join(sorted({self.text(item, depth + 1, True) for item in body}))})"
        return f"{tag}({','.join([self.text(item, depth + 1, hashable) for item in body])})"

    def _entries(self, pairs: list[Any], depth: int) -> list[str]:
        entries = []
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                raise MalformedValue("Expected pairs in 'dict'.")
            entries.append(f"{self.text(pair[0], depth, True)}:{self.text(pair[1], depth, False)}")
        return sorted(entries)


def _short_int(text: str) -> int:
    # Longer integers are encoded in hexadecimal, because decimal text takes quadratic time.
    if len(text) > _MAX_INT_CHARS:
        raise MalformedValue(f"Expected an integer of at most {_MAX_INT_CHARS} characters.")
    return int(text)


_JSON = json.JSONDecoder(parse_int=_short_int)
