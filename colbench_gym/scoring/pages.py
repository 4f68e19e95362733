"""The page in what an agent says: a whole page, or edits of its last one.

A page is the first fenced block that holds a tag, or the text from its first tag to its last. With edits, an utterance may instead hold one
or more blocks of this form, each of which replaces the first occurrence of its first part in the last page:

    <<<<<<< SEARCH
    <h1>Old</h1>
    =======
    <h1>New</h1>
    >>>>>>> REPLACE
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_TAG = re.compile(
    r"<(?:!doctype|html|head|body|link|style|div|main|header|nav|section|article|h[1-6]|p|img|table|form|ul|ol|span|a)\b",
    re.IGNORECASE,
)
_EDIT = re.compile(r"<{7} SEARCH\n(.*?)\n={7}\n(.*?)\n?>{7} REPLACE", re.DOTALL)


def extract_page(text: str) -> str:
    """The page in a text, "" where there is none."""
    for match in _FENCE.finditer(text):
        if _TAG.search(match.group(1)):
            return match.group(1).strip()
    first = _TAG.search(text)
    return text[first.start() : text.rfind(">") + 1].strip() if first else ""


def apply_edits(page: str, text: str) -> str | None:
    """The page after the edits in a text; None where the text holds none. An edit whose first part is not in the page does nothing."""
    edits = _EDIT.findall(text)
    if not edits:
        return None
    for old, new in edits:
        if old:
            page = page.replace(old, new, 1)
    return page


def current_page(utterances: Iterable[str], has_edits: bool = False) -> str:
    """The page after what an agent has said, "" before the first.

    Args:
        utterances: The agent's, in order.
        has_edits: Take blocks of edits for what they are; else only whole pages count.
    """
    page = ""
    for text in utterances:
        edited = apply_edits(page, text) if has_edits else None
        page = edited if edited is not None else extract_page(text) or page
    return page
