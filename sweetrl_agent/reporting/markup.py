"""HTML that cannot be injected into: text is escaped unless it is `Html`, and `Html` is only made here.

Everything that a run folder holds is untrusted, for models wrote much of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape

MAX_CELL_CHARS = 500


class Html(str):
    """Markup that is safe to put into a page as it is."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: str) -> Html:
    """An element. Children that are plain strings are escaped.

    Args:
        name: Name of the element; one that has an end tag.
        children: Text (`str`) and markup (`Html`).
        attributes: By name, with "_" for "-" and an "_" at the end where Python reserves the word: `class_`.
    """
    opening = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{opening}>{join(children)}</{name}>")


def join(parts: Iterable[str]) -> Html:
    """Parts one after the other; those that are plain strings are escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], class_: str = "") -> Html:
    """A table that scrolls by itself where the window is narrow; every row starts with the cell that names it."""
    body = [tag("tr", tag("th", clip(row[0]), scope="row"), *(tag("td", clip(cell)) for cell in row[1:])) for row in rows]
    header = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head)))
    return tag("div", tag("table", header, tag("tbody", *body), class_=class_), class_="scroll", tabindex="0")


def section(identifier: str, title: str, *children: str) -> Html:
    """A titled part of the page."""
    return tag("section", tag("h2", title), *children, id=identifier)


def missing(text: str) -> Html:
    """What a section says in place of what it cannot show."""
    return tag("p", text, class_="missing")


def note(text: str) -> Html:
    """A remark in small print."""
    return tag("p", text, class_="note")


def folded(title: str, *children: str) -> Html:
    """A part that is closed until the reader opens it."""
    return tag("details", tag("summary", title), *children)


def bar(label: str, fraction: float, value: str, class_: str = "") -> Html:
    """A line of a bar chart.

    Args:
        label: What the bar measures.
        fraction: Length of the bar, in [0, 1].
        value: What the bar amounts to, in words.
        class_: Further CSS class(es), which pick the colour.
    """
    fill = tag("span", class_="fill", style=f"width:{100 * min(max(fraction, 0.0), 1.0):.2f}%")
    parts = (
        tag("span", clip(label), class_="label", title=clip(label)),
        tag("span", fill, class_="track"),
        tag("span", value, class_="value"),
    )
    return tag("div", *parts, class_=f"bar {class_}".rstrip())


def embedded_json(value: object) -> Html:
    """JSON that can stand inside a <script> element: no "<", ">" or "&" is left in it.

    Raises:
        ValueError: If there is a NaN or an infinity in it, which browsers do not read.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(text)


def clip(text: str) -> str:
    """Text cut to the length of a cell; markup stays whole."""
    if isinstance(text, Html) or len(text) <= MAX_CELL_CHARS:
        return text
    return f"{text[:MAX_CELL_CHARS]}… ({len(text) - MAX_CELL_CHARS} more characters)"
