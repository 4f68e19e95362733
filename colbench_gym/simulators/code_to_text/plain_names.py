"""Names and constants in plain words, and the few rules of English grammar that the sentences need."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_UNCOUNTED = ("ss", "us", "is", "as")


def plain_name(name: str) -> str:
    """An identifier as words: "hair_color" and "hairColor" become "hair color"."""
    return " ".join(_CAMEL.sub(" ", name).replace("_", " ").lower().split()) or "it"


def the(name: str) -> str:
    """An identifier as a noun: "the hair color". Identifiers of one or two letters stay as they are."""
    words = plain_name(name)
    return words if len(words) <= 2 else f"the {words}"


def quoted(text: str) -> str:
    """A string constant as it is, in quotes, with line breaks and the empty string put in words."""
    if not text:
        return "an empty text"
    if not text.strip(" "):
        return "a space" if len(text) == 1 else f"{len(text)} spaces"
    pieces = [f'"{piece}"' if "'" in piece else f"'{piece}'" for piece in text.replace("\t", " ").splitlines() if piece]
    if not pieces:
        return "a line break"
    ending = ", then a line break" if text.endswith("\n") else ""
    return ", then a line break, then ".join(pieces) + ending


def number(value: complex) -> str:
    """A number without a sign character."""
    if isinstance(value, (int, float)) and value < 0:
        return f"minus {-value!r}"
    return repr(value).replace("+", " plus ")


def joined(parts: Sequence[str], last: str = "and") -> str:
    """An enumeration: "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def is_plural(noun: str) -> bool:
    """Whether a noun phrase is plural; a guess from its last letters."""
    head = re.split(r" of | in | for | with | from | as | plus ", noun, maxsplit=1)[0]
    return head.startswith("the ") and head.endswith("s") and not head.endswith(_UNCOUNTED)


def be(noun: str) -> str:
    """ "is" or "are", to follow the noun phrase."""
    return "are" if is_plural(noun) else "is"


def ordinal(index: int) -> str:
    """Position in a sequence as a word: 0 is "first", -1 is "last"."""
    words = {0: "first", 1: "second", 2: "third", 3: "fourth", 4: "fifth", -1: "last", -2: "second to last"}
    return words.get(index, f"number {index + 1}" if index >= 0 else f"number {-index} from the end")


def capitalised(sentence: str) -> str:
    """The sentence with a capital first letter. A quoted text at its start stays as it is."""
    return sentence[:1].upper() + sentence[1:]
