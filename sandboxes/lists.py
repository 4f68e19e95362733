"""Lists on a command line: the values are separated by blanks, as words of their own, or by commas."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

_OPEN, _CLOSE = "([{", ")]}"


def listed(text: str, splits_blanks: bool = False) -> list[str]:
    """The values in one word of a list: "a,b" and "[a, b]" are two, JSON, "embedded:test[:9]" and the name of a file are one.

    Args:
        text: The word.
        splits_blanks: Whether blanks separate too, as in a quoted "0 1 2"; paths may contain them.
    """
    if _exists(text):
        return [text]
    text = text.strip()
    if text[:1] == "[" and text[-1:] == "]":
        text = text[1:-1]
    parts, depth, is_quoted = [""], 0, False
    for character in text:
        is_quoted ^= character == '"'
        if not is_quoted:
            depth += (character in _OPEN) - (character in _CLOSE)
        if depth == 0 and not is_quoted and (character == "," or (splits_blanks and character.isspace())):
            parts.append("")
        else:
            parts[-1] += character
    if depth or is_quoted:  # a bracket or quote of a name
        return [text]
    return [part.strip() for part in parts if part.strip()] or [text]


def split_lists(words: Sequence[str], lists: Collection[str], splits_blanks: Collection[str] = ()) -> list[str]:
    """The words of a command line with one value in each word of its lists.

    Args:
        words: The words.
        lists: Names of the options that take lists, with underscores.
        splits_blanks: Those of them whose values contain no blanks outside of JSON.
    """
    split: list[str] = []
    name = ""
    for word in words:
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            name = option[2:].replace("-", "_")
            values = listed(value, name in splits_blanks) if equals and name in lists else []
            split += [option, *values] if len(values) > 1 else [word]
        else:
            split += listed(word, name in splits_blanks) if name in lists else [word]
    return split


def refuse_list(name: str, text: str, advice: str) -> None:
    """Refuse several values in a setting that takes one.

    Raises:
        ValueError: Names the values and what to do.
    """
    if len(values := listed(text)) > 1:
        raise ValueError(f"`{name}` takes one value, got {' and '.join(map(repr, values))}: {advice}.")


def _exists(text: str) -> bool:
    try:
        return os.path.exists(text)
    except ValueError:  # a NUL
        return False
