"""Extract the page from an agent's utterance, as a reader of Markdown would: a whole page, or edits of its last page.

A page is the *last* fence that is one: whole documents (``<!doctype>``, ``<html>``, ``<body>``) go before fragments, and both before tags in
a fence of another language. A fence whose first element ends only behind it continues to the later end of a fence where it has ended, for a page may
hold fences. Fences of CSS go into a page without a ``<style>``. Without such a fence, the page is the text from the first tag to the last,
without the marks of a quote. The first tag begins a line, or its element ends: a tag that prose mentions (``the `<button>` ``, "I used a <div>") begins
no page. Code by ``<pre>``, with entities instead of tags, is a page if there is no other.
`colbench_gym.scoring.markdown` says what a fence is; invisible characters do not matter to it.

With edits enabled, an utterance may instead contain one or more blocks of this form. Each replaces the first occurrence of its SEARCH part in the
last page:

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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from colbench_gym.scoring.markdown import CodeBlock, code_blocks, lengthened, unindented_fences
from colbench_gym.scoring.unseen import INVISIBLE, visible
from sandboxes.pages.page import MAX_CHARS

MAX_EDITS = 100
#: Maximal number of later ends that are tried for a page that its fence does not hold whole, and maximal length of such a text.
_MOST_ENDS, _MOST_CHARS = 6, 200_000
_TAG = re.compile(
    r"<(?:!doctype|html|head|body|link|style|div|main|header|nav|section|article|footer|aside|button|h[1-6]|p|img|table|form|ul|ol|span|a)\b",
    re.IGNORECASE,
)
#: Any whole tag, in a fence that says it is one of HTML.
_ANY_TAG = re.compile(r"<[a-z][a-z0-9-]*(?:\s[^<>]*)?>", re.IGNORECASE)
#: An element without an end tag that shows something.
_VOID = re.compile(r"<(?:img|link)\b[^<>=]*+=[^<>]*+>", re.IGNORECASE)
_END_TAG = re.compile(r"</([a-z][a-z0-9]*)", re.IGNORECASE)
_WHOLE_TAG = re.compile(r"<[/a-z!][^<>]*>", re.IGNORECASE)
_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)[^`\n]+\1(?!`)")
_LINE_START = re.compile(r"(?:[^\w\n<]|\d{1,2}[.)])*\Z")
_LINE_END = re.compile(r"[*_.!)\"']*+[ \t]*+(?:\n|\Z)")
_DOCUMENT = re.compile(r"<(?:!doctype|html|body)\b", re.IGNORECASE)
_FIRST_ELEMENT = re.compile(r"<([a-z][a-z0-9]*)\b", re.IGNORECASE)
_HEAD_END = re.compile(r"</head\s*>|(?=<body\b)", re.IGNORECASE)
_STYLE = re.compile(r"<style\b", re.IGNORECASE)
_HTML = ("html", "htm", "xhtml", "svg")
_OTHER_LANGUAGES = frozenset(
    [
        "css",
        "scss",
        "less",
        "js",
        "javascript",
        "jsx",
        "ts",
        "typescript",
        "python",
        "py",
        "bash",
        "sh",
        "shell",
        "json",
        "diff",
        "markdown",
        "md",
        "text",
        "txt",
    ]
)
#: Characters before a tag on its line that are looked at.
_MOST_BEFORE = 100
_MARKUP = re.compile(r"`{3}|~{3}|<pre\b", re.IGNORECASE)
_FENCE_LINE = re.compile(r"^[^\w\n<]*(?:`{3}|~{3}).*$", re.MULTILINE)
#: The end of a fence on the line of the last tag.
_GLUED = re.compile(r"(?<=>)[ \t]*(?:`{3,}|~{3,})[ \t]*$", re.MULTILINE)
_QUOTE = re.compile(r"^(?: {0,3}>)+ ?", re.MULTILINE)
_UNSEEN_ENDS = re.compile(rf"\A[\s{INVISIBLE}]+|[\s{INVISIBLE}]+\Z")
_BEGUN = re.compile(r"^<<<<<<< SEARCH[ \t]*\r?$", re.MULTILINE)
_SEARCH, _DIVIDER, _REPLACE = re.compile(r"<<<<<<< SEARCH[ \t]*\n"), re.compile(r"\n=======[ \t]*\n"), ">>>>>>> REPLACE"


def extract_page(text: str) -> str:
    """The page in a text; "" if there is none."""
    lines = text = re.sub("\r\n?", "\n", text)
    if not _MARKUP.search(text):
        return _bare(text)
    if not lines.isascii():
        lines = _FENCE_LINE.sub(lambda match: visible(match.group()), lines)
    blocks: list[CodeBlock] = []
    for reading in dict.fromkeys([lines, unindented_fences(lines), visible(lines)]):
        blocks = _flat(code_blocks(reading))
        if chosen := _last_page([block for block in blocks if block.kind == "fence"]):
            return _styled(_whole(reading, chosen), blocks)
    escaped = _last_page([block for block in blocks if block.kind == "pre"])
    if escaped and not _DOCUMENT.search(text) and (_DOCUMENT.search(escaped.text) or not _TAG.search(text)):
        return _trimmed(escaped.text)
    if any(block.language == "css" for block in blocks):
        kept = lines.split("\n")
        for block in blocks:
            if block.kind == "fence":
                kept[block.start : block.end] = [""] * (block.end - block.start)
        text = "\n".join(kept)
    if page := _bare(text):
        return _styled(page, blocks)
    small = [block for block in blocks if block.kind == "fence" and block.language in _HTML and _ANY_TAG.search(block.text)]
    return _styled(_trimmed(small[-1].text), blocks) if small else ""


def _flat(blocks: Sequence[CodeBlock]) -> list[CodeBlock]:
    """Code blocks, with those inside of a fence of Markdown, or of an indented block, in its place."""
    flat: list[CodeBlock] = []
    for block in blocks:
        is_outer = block.kind == "indented" or block.language in ("markdown", "md")
        inner = code_blocks(block.text) if is_outer and _MARKUP.search(block.text) else []
        flat += [replace(inner_block, start=block.start, end=block.end) for inner_block in inner] or [block]
    return flat


def _last_page(blocks: Sequence[CodeBlock]) -> CodeBlock | None:
    """The last block that is a page, of those that are one most clearly."""
    ranks = [(_rank(block), i) for i, block in enumerate(blocks)]
    rank, i = max(ranks, default=(0, 0))
    return blocks[i] if rank else None


def _rank(block: CodeBlock) -> int:
    if not _TAG.search(block.text):
        return 0
    return 1 if block.language in _OTHER_LANGUAGES else 3 if _DOCUMENT.search(block.text) else 2


def _whole(text: str, block: CodeBlock) -> str:
    """The page of a fence, with what follows its end if its first element ends there, and without what follows an end behind its last tag."""
    first = _FIRST_ELEMENT.search(block.text)
    if first and len(text) <= _MOST_CHARS and not _has_ended(block.text, first.group(1)):
        for longer in lengthened(text, block, _MOST_ENDS):
            if _has_ended(longer.text, first.group(1)):
                return _trimmed(longer.text)
    end = _GLUED.search(block.text)
    if first and end and _has_ended(block.text[: end.start()], first.group(1)):
        return _trimmed(block.text[: end.start()])
    return _trimmed(block.text)


def _has_ended(page: str, element: str) -> bool:
    page, element = page.lower(), element.lower()
    return len(re.findall(rf"<{element}\b", page)) <= page.count(f"</{element}")


def _styled(page: str, blocks: Sequence[CodeBlock]) -> str:
    """A page with the CSS that stands in fences of its own, unless it has a style."""
    sheets = [
        block.text for block in blocks if block.kind == "fence" and block.language == "css" and not _TAG.search(block.text)
    ]
    if not page or not sheets or _STYLE.search(page):
        return page
    head = _HEAD_END.search(page)
    at = head.start() if head else 0
    return f"{page[:at]}<style>\n{''.join(sheets)}</style>\n{page[at:]}"


def _bare(text: str) -> str:
    """The text from the first tag of a page to the last tag, without the marks of a quote if the first stands in one."""
    first, spoken = _first_tag(text)
    if first and _QUOTE.match(text, text.rfind("\n", 0, first.start()) + 1):
        text = _QUOTE.sub("", text)
        first, spoken = _first_tag(text)
    if not first:
        return ""
    end = max((tag.end() for tag in _WHOLE_TAG.finditer(spoken, first.start())), default=len(text))
    return text[first.start() : end].strip()


def _first_tag(text: str) -> tuple[re.Match[str] | None, str]:
    """Where a page begins, and the text with blanks for code spans of prose: at a document, at a tag that begins a line, or at an element that ends.

    A colon before a tag begins a line too. Where there is no such tag, spans that hold a whole element and end their line count as well.
    """
    for holds in (_holds_page, _holds_element):
        spoken = _SPAN.sub(lambda span, holds=holds: span.group() if holds(span, text) else " " * len(span.group()), text)  # type: ignore[misc]
        ends = {end[1].lower(): end.start() for end in _END_TAG.finditer(spoken)}
        for tag in _TAG.finditer(spoken):
            start = max(text.rfind("\n", max(0, tag.start() - _MOST_BEFORE), tag.start()) + 1, tag.start() - _MOST_BEFORE)
            before = spoken[start : tag.start()]
            is_ended = ends.get(tag.group()[1:].lower(), -1) > tag.start() or _VOID.match(spoken, tag.start())
            if is_ended or _DOCUMENT.match(tag.group()) or _LINE_START.match(before) or before.rstrip().endswith(":"):
                return tag, spoken
    return None, spoken


def _holds_page(span: re.Match[str], text: str) -> bool:
    """Whether a code span is a page: a whole document, or a whole element that has its line for itself or ends the text."""
    before, after = text[max(0, span.start() - 1) : span.start()], text[span.end() : span.end() + 2].lstrip(" ")
    is_apart = after == "" or (before in ("", "\n") and after.startswith("\n"))
    return _holds_element(span, text) and (is_apart or _DOCUMENT.search(span.group()) is not None)


def _holds_element(span: re.Match[str], text: str) -> bool:
    """Whether a code span holds a whole document, or a whole element that ends its line."""
    first = _TAG.search(span.group())
    if first is None or not (_DOCUMENT.match(first.group()) or _LINE_END.match(text, span.end())):
        return False
    name = first.group()[1:].lower()
    return _has_ended(span.group()[first.start() :], "html" if name == "!doctype" else name)


def _trimmed(page: str) -> str:
    return _UNSEEN_ENDS.sub("", page)


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
    text, end = re.sub("\r\n?", "\n", text), 0
    while search := _SEARCH.search(text, end):
        divider = _DIVIDER.search(text, search.end())
        end = text.find(_REPLACE, divider.end()) if divider else -1
        if divider is None or end < 0:
            return
        yield text[search.end() : divider.start()], text[divider.end() : end].removesuffix("\n")


def _page_beside_edits(text: str) -> str:
    """The page of a text with marks of edits that are none: a document before the first mark, or the last fence that is a page and no edit; "" if there is none."""
    text = re.sub("\r\n?", "\n", text)
    begun = _BEGUN.search(text)
    if begun and _DOCUMENT.search(text, 0, begun.start()):
        return extract_page(text)
    blocks = [
        block for block in _flat(code_blocks(text)) if block.kind == "fence" and not block.text.lstrip().startswith("<<<<<<<")
    ]
    chosen = _last_page(blocks)
    return _trimmed(chosen.text) if chosen else ""


def current_page(utterances: Iterable[str], has_edits: bool = False) -> str:
    """The page after a sequence of utterances; "" if no page was shown yet.

    Args:
        utterances: Utterances of the agent, in order.
        has_edits: Apply blocks of edits. If False, only whole pages count.
    """
    page = ""
    for text in utterances:
        edited = apply_edits(page, text) if has_edits else None
        if edited is None and has_edits and _BEGUN.search(text):  # what is no edit is no page either
            edited = _page_beside_edits(text) or page
        page = edited if edited is not None else extract_page(text) or page
    return page
