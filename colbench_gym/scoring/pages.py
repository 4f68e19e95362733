"""Extract the page from an agent's utterance: a whole page, or edits of its last page.

A page is the first fenced block that contains a tag, or else the text from the first tag to the last. With edits enabled, an utterance
may instead contain one or more blocks of this form. Each replaces the first occurrence of its SEARCH part in the last page:

    <<<<<<< SEARCH
    <h1>Old</h1>
    =======
    <h1>New</h1>
    >>>>>>> REPLACE

An utterance is read once, in linear time. Only its first `MAX_EDITS` edits count. A page that edits have made longer than a browser
accepts (`sandboxes.pages.page.MAX_CHARS`) is not edited further: it stays too large until the agent shows a whole new page.
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
    """The page in a text; "" if there is none."""
    for match in _FENCE.finditer(text):
        if _TAG.search(match.group(1)):
            return match.group(1).strip()
    first = _TAG.search(text)
    return text[first.start() : text.rfind(">") + 1].strip() if first else ""


def apply_edits(page: str, text: str) -> str | None:
    """The page after the edits in a text; None if the text has no edits. An edit does nothing if its SEARCH part is not in the page."""
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
    """The page after a sequence of utterances; "" if no page was shown yet.

    Args:
        utterances: Utterances of the agent, in order.
        has_edits: Apply blocks of edits. If False, only whole pages count.
    """
    page = ""
    for text in utterances:
        edited = apply_edits(page, text) if has_edits else None
        page = edited if edited is not None else extract_page(text) or page
    return page
