"""HTML that is safe against injection: text is escaped unless it is `Html`, and `Html` is only made here.

All content of a run folder is untrusted, since much of it is written by models.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape

MAX_CELL_CHARS = 500


class Html(str):
    """Markup that can be put into a page without escaping."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: str) -> Html:
    """An element. Children that are plain strings are escaped.

    Args:
        name: Name of an element with an end tag.
        children: Text (`str`) and markup (`Html`).
        attributes: Attributes by name, with "_" for "-" and a trailing "_" for reserved words of Python: `class_`.
    """
    opening = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{opening}>{join(children)}</{name}>")


def join(parts: Iterable[str]) -> Html:
    """Concatenate parts; plain strings are escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], class_: str = "") -> Html:
    """A table that scrolls horizontally in narrow windows; the first cell of a row is its header."""
    body = [tag("tr", tag("th", clip(row[0]), scope="row"), *(tag("td", clip(cell)) for cell in row[1:])) for row in rows]
    header = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head)))
    return tag("div", tag("table", header, tag("tbody", *body), class_=class_), class_="scroll", tabindex="0")


def section(identifier: str, title: str, *children: str) -> Html:
    """A titled part of the page."""
    return tag("section", tag("h2", title), *children, id=identifier)


def missing(text: str) -> Html:
    """A message in place of content that a section cannot show."""
    return tag("p", text, class_="missing")


def note(text: str) -> Html:
    """A note in small print."""
    return tag("p", text, class_="note")


def folded(title: str, *children: str) -> Html:
    """A collapsed part that the reader can open."""
    return tag("details", tag("summary", title), *children)


def bar(label: str, fraction: float, value: str, class_: str = "") -> Html:
    """A row of a bar chart.

    Args:
        label: Label of the bar.
        fraction: Length of the bar, in [0, 1].
        value: Value of the bar as text.
        class_: Further CSS classes, for the colour.
    """
    fill = tag("span", class_="fill", style=f"width:{100 * min(max(fraction, 0.0), 1.0):.2f}%")
    parts = (
        tag("span", clip(label), class_="label", title=clip(label)),
        tag("span", fill, class_="track"),
        tag("span", value, class_="value"),
    )
    return tag("div", *parts, class_=f"bar {class_}".rstrip())


def embedded_json(value: object) -> Html:
    """JSON that is safe inside a <script> element: "<", ">" and "&" are escaped.

    Raises:
        ValueError: If it contains NaN or infinity, which browsers cannot parse.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(text)


def clip(text: str) -> str:
    """Text truncated to the length of a cell; markup is not truncated."""
    if isinstance(text, Html) or len(text) <= MAX_CELL_CHARS:
        return text
    return f"{text[:MAX_CELL_CHARS]}… ({len(text) - MAX_CELL_CHARS} more characters)"
