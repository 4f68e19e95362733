"""Values of untrusted programs as short text, for people.

A value is shown from its wire (`sandboxes.values`), as Python would write it, without building the value: a wire of a few bytes can stand for
thousands of digits. The text is cut, printable and the same in every process: the elements of a set are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Characters of a value that are shown, and appended where text is left out.
MAX_CHARS, CUT = 200, "... [cut]"
#: Elements of a set that are sorted; the others are left out.
MAX_SORTED = 200
#: Hexadecimal digits of an integer that is shown in decimal: decimal text takes quadratic time.
_MAX_HEX = 60
#: Characters before the first difference of two long values.
_BEFORE = 40
_BRACKETS = {"tuple": ("(", ")"), "set": ("{", "}"), "frozenset": ("frozenset({", "})"), "deque": ("deque([", "])"), "dict": ("{", "}")}  # fmt: skip
_FLOATS = ("nan", "inf", "-inf")
#: Everything that indexing, conversion and unpacking raise for a wire that is not one.
_MALFORMED = (TypeError, ValueError, LookupError, AttributeError)


def shown(wire: Any, max_chars: int = MAX_CHARS) -> str:
    """A value as Python would write it, cut after `max_chars` characters.

    Args:
        wire: Typed JSON, parsed. May come from a hostile program.
        max_chars: Maximum number of characters, without the remark that text is left out.

    Returns:
        One line of printable text, which may contain letters that are not ASCII.
    """
    parts: list[str] = []
    length = 0
    try:
        for part in _parts(wire, max_chars):
            parts.append(part)
            length += len(part)
            if length > max_chars:
                break
    except (*_MALFORMED, RecursionError):
        parts.append("<not a value>")
    text = "".join(parts)
    return text if len(text) <= max_chars else text[:max_chars] + CUT


def shown_apart(a: Any, b: Any, max_chars: int = MAX_CHARS) -> tuple[str, str]:
    """Two values as text. If they begin alike for too long, both texts start shortly before their first difference.

    Args:
        a: Wire of one value.
        b: Wire of the other.
        max_chars: As in `shown`.
    """
    texts = shown(a, max_chars), shown(b, max_chars)
    if texts[0] != texts[1] and _first_difference(*texts) < max_chars - _BEFORE:
        return texts
    longer = shown(a, 20 * max_chars), shown(b, 20 * max_chars)
    if longer[0] == longer[1]:
        return texts
    start = max(_first_difference(*longer) - _BEFORE, 0)
    ends = (text[start:] for text in longer)
    left, right = (f"{'...' if start else ''}{end[:max_chars]}{CUT if len(end) > max_chars else ''}" for end in ends)
    return left, right


def _first_difference(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _parts(wire: Any, room: int) -> Iterator[str]:
    """The text of a value in pieces, left to right. `room` bounds the work on texts that cannot be shown in full."""
    if isinstance(wire, str):
        yield repr(wire[: room + 1])
    elif isinstance(wire, list):
        yield from _items(wire, "[", "]", room)
    elif not isinstance(wire, dict):
        yield repr(wire)  # None, a truth value or a short number
    else:
        ((tag, body),) = wire.items()
        yield from _tagged(tag, body, room)


def _tagged(tag: str, body: Any, room: int) -> Iterator[str]:
    if tag in ("set", "frozenset"):
        opening, closing = _BRACKETS[tag] if body else (f"{tag}(", ")")
        whole = sorted(shown(item, room) for item in body[:MAX_SORTED])
        yield f"{opening}{', '.join(whole)}{', ...' if len(body) > MAX_SORTED else ''}{closing}"
    elif tag == "dict":
        yield from _entries(body, room)
    elif tag in _BRACKETS:
        opening, closing = _BRACKETS[tag]
        yield from _items(body, opening, ",)" if tag == "tuple" and len(body) == 1 else closing, room)
    else:
        yield _atom(tag, body, room)


def _items(items: list[Any], opening: str, closing: str, room: int) -> Iterator[str]:
    yield opening
    for i, item in enumerate(items):
        yield ", " if i else ""
        yield from _parts(item, room)
    yield closing


def _entries(pairs: list[Any], room: int) -> Iterator[str]:
    yield "{"
    for i, (key, value) in enumerate(pairs):
        yield ", " if i else ""
        yield from _parts(key, room)
        yield ": "
        yield from _parts(value, room)
    yield "}"


def _atom(tag: str, body: Any, room: int) -> str:
    if tag == "int":
        return _integer(body, room)
    if tag == "float" and body in _FLOATS:
        return str(body)
    if tag == "str":
        return repr(bytes.fromhex(body[: 8 * room]).decode("utf-8", "surrogatepass" if len(body) <= 8 * room else "replace"))
    if tag in ("bytes", "bytearray"):
        raw = repr(bytes.fromhex(body[: 2 * room]))
        return raw if tag == "bytes" else f"bytearray({raw})"
    if tag == "complex":
        return f"complex({', '.join(str(part['float'])[:10] if isinstance(part, dict) else repr(part) for part in body)})"
    if tag in ("fraction", "range", "timedelta"):
        name = {"fraction": "Fraction", "range": "range", "timedelta": "timedelta"}[tag]
        return f"{name}({', '.join(_integer(part, room) for part in body)})"
    if tag == "type":
        return f"<class {str(body)[:room]!r}>"
    return f"{'Decimal' if tag == 'decimal' else str(tag)[:room]}({str(body)[:room]!r})"


def _integer(body: Any, room: int) -> str:
    """An integer; in hexadecimal if it is long."""
    text = body["int"] if isinstance(body, dict) else body
    if isinstance(text, int):
        return str(text)
    return str(int(text, 16)) if len(text) <= _MAX_HEX else str(text)[: room + 1]
