"""The page in what an agent says: a whole page, or edits of its last one.

A page is the first fenced block that holds a tag, or the text from its first tag to its last. With edits, an utterance may instead hold one
or more blocks of this form, each of which replaces the first occurrence of its first part in the last page:

    <<<<<<< SEARCH
    <h1>Old</h1>
    =======
    <h1>New</h1>
    >>>>>>> REPLACE

An utterance is read once from its beginning to its end. Of its edits the first `MAX_EDITS` count. A page that edits have made longer than a
browser make_worker (`sandboxes.pages.page.MAX_CHARS`) is edited no further: it is too large until the agent shows a whole new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from sandboxes.pages.page import MAX_CHARS

MAX_EDITS = 100
_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_TAG = re.compile(
    r"<(?:!doctype|html|head|body|link|style|div|main|header|nav|section|article|h[1-6]|p|img|table|form|ul|ol|span|a)\b",
    re.IGNORECASE,
)
_SEARCH, _DIVIDER, _REPLACE = "<<<<<<< SEARCH\n", "\n=======\n", ">>>>>>> REPLACE"


def extract_page(text: str) -> str:
    """The page in a text, "" where there is none."""
    for match in _FENCE.finditer(text):
        if _TAG.search(match.group(1)):
            return match.group(1).strip()
    first = _TAG.search(text)
    return text[first.start() : text.rfind(">") + 1].strip() if first else ""


def apply_edits(page: str, text: str) -> str | None:
    """The page after the edits in a text; None where the text holds none. An edit whose first part is not in the page does nothing."""
    edits = list(islice(_edits(text), MAX_EDITS))
    if not edits:
        return None
    for old, new in edits:
        if len(page) > MAX_CHARS:
            break
        if old:
            page = page.replace(old, new, 1)
    return page


def _edits(text: str) -> Iterator[tuple[str, str]]:
    """The parts (old, new) of the edits in a text, in order."""
    end = 0
    while (start := text.find(_SEARCH, end)) >= 0:
        start += len(_SEARCH)
        divider = text.find(_DIVIDER, start)
        new = divider + len(_DIVIDER)
        end = text.find(_REPLACE, new) if divider >= 0 else -1
        if end < 0:
            return
        yield text[start:divider], text[new:end].removesuffix("\n")


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
