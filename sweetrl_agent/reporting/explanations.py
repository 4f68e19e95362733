"""Explanations of episodes as data of the dialogue viewer: checked, clipped and complete enough to read.

Everything in an explanation may come from a hostile program, page or file: every value is checked for its type, and every text is clipped with
a note. The viewer sets it as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from sweetrl_agent.reporting.figures import number

#: Maximum number of items of each list; lines of a diff, of each side.
MAX_WISHES, MAX_TESTS, MAX_NOTES, MAX_BLOCKS, MAX_LINES = 40, 40, 5, 60, 120
MAX_TEXT_CHARS, MAX_SOURCE_CHARS, MAX_LINE_CHARS, MAX_PICTURE_CHARS = 400, 20_000, 200, 200_000
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
#: Marks of the lines of a diff: in both, only in the reference, only in the answer, and a note.
SAME, WANTED, GOT, NOTE = " ", "-", "+", "?"
Diff = list[tuple[str, str]]


def explanation(found: Mapping[str, Any], is_success: bool) -> dict[str, Any]:
    """An explanation for the viewer.

    Args:
        found: A line of explanations.jsonl.
        is_success: Whether the episode is a success: the reference is then shown alone.

    Returns:
        "wishes", "tests", "notes", "diff" and "pages", each only if there is something to show.
    """
    parts = {
        "wishes": _items(found.get("wishes"), _wish, MAX_WISHES),
        "tests": _items(found.get("tests"), _test, MAX_TESTS),
        "notes": [clipped(text) for text in _list(found.get("notes"))[:MAX_NOTES]],
        "diff": diff(found.get("reference"), None if is_success else found.get("answer")),
        "pages": _pages(found.get("pages")),
    }
    return {name: part for name, part in parts.items() if part}


def diff(reference: object, answer: object) -> Diff:
    """The lines of two texts, marked; the reference alone if there is no answer, [] without a reference."""
    if not isinstance(reference, str):
        return []
    both = [("the reference", reference), ("the answer", answer if isinstance(answer, str) and answer.strip() else reference)]
    wanted, got = (_lines(text) for _, text in both)
    found: Diff = []
    for kind, i, i_end, j, j_end in SequenceMatcher(None, wanted, got, autojunk=False).get_opcodes():
        if kind == "equal":
            found += [(SAME, line) for line in wanted[i:i_end]]
        else:
            found += [(WANTED, line) for line in wanted[i:i_end]] + [(GOT, line) for line in got[j:j_end]]
    cut = [name for name, text in both if _is_long(text)]
    return [*found, *([(NOTE, f"[{' and '.join(cut)}: only the first {MAX_LINES} lines are shown]")] if cut else [])]


def clipped(value: object, max_chars: int = MAX_TEXT_CHARS) -> str:
    """A value as text, clipped with a note."""
    text = value if isinstance(value, str) else repr(value)[: max_chars + 1]
    return text if len(text) <= max_chars else f"{text[:max_chars]}... [{len(text) - max_chars} more characters]"


def texts(value: object, most: int = MAX_WISHES) -> list[str]:
    """A list of short texts, such as topics; anything else is dropped."""
    return [clipped(text, 80) for text in _list(value)[:most] if isinstance(text, str)]


def _is_long(text: str) -> bool:
    return len(text) > MAX_SOURCE_CHARS or text.count("\n") >= MAX_LINES


def _lines(text: str) -> list[str]:
    return [clipped(line, MAX_LINE_CHARS) for line in text[:MAX_SOURCE_CHARS].split("\n")[:MAX_LINES]]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _items(value: object, item: Callable[[Mapping[str, Any]], dict[str, Any]], most: int) -> list[dict[str, Any]]:
    return [item(one) for one in _list(value)[:most] if isinstance(one, dict)]


def _wish(wish: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "topic": clipped(wish.get("topic", "?"), 80),
        "sentence": clipped(wish.get("sentence", "")),
        "is_special": wish.get("is_special") is True,
        "asked": _turn(wish.get("asked")),
        "heard": _turn(wish.get("heard")),
    }


def _turn(value: object) -> int | None:
    return value if type(value) is int and 0 < value < 10_000 else None


def _test(test: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {name: clipped(test.get(name, "?")) for name in ("call", "expected", "got", "outcome", "meaning")}
    return {**found, "seconds": number(test.get("seconds")), "wishes": texts(test.get("wishes"))}


def _pages(value: object) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    score = value.get("score")
    size = [number(value.get(name)) or 0.0 for name in ("width", "height")]
    return {
        "wanted": _picture(value.get("wanted")),
        "got": _picture(value.get("got")),
        "width": min(max(size[0], 1), 2000),
        "height": min(max(size[1], 1), 4000),
        "score": {clipped(k, 40): number(v) for k, v in list(score.items())[:10]} if isinstance(score, dict) else {},
        "blocks": [block for block in _items(value.get("blocks"), _block, MAX_BLOCKS) if len(block["box"]) == 4],
        "differences": _items(value.get("differences"), _difference, MAX_BLOCKS),
    }


def _picture(value: object) -> str:
    is_picture = isinstance(value, str) and len(value) <= MAX_PICTURE_CHARS and _BASE64.fullmatch(value)
    return str(value) if is_picture else ""


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    box = [number(side) for side in _list(block.get("box"))[:4]]
    return {
        "side": "wanted" if block.get("side") == "wanted" else "got",
        "what": clipped(block.get("what", "?"), 80),
        "text": clipped(block.get("text", ""), 120),
        "box": [min(max(side, -10_000), 10_000) for side in box if side is not None],
    }


def _difference(one: Mapping[str, Any]) -> dict[str, Any]:
    turns: Sequence[Any] = _list(one.get("turns"))[:20]
    return {"sentence": clipped(one.get("sentence", "")), "turns": [turn for turn in map(_turn, turns) if turn is not None]}
