"""The code blocks of a Markdown text, as a reader of CommonMark sees them: fences, code by indentation, ``<pre>``, in lists and in quotes.

The block structure is read by markdown-it-py, with three differences to CommonMark. HTML is text, so that a fence below ``<details>`` is
a fence, other than ``<pre>`` and what a browser does not show: comments, ``<script>``, ``<style>`` and ``<template>`` hide what they hold. A line without the mark of a quote ends the quote.

The time is linear in the text. Quotes and lists that are nested more than `MAX_NESTING` deep hold no block, and no block starts or continues behind
the first `MAX_LINES` lines.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock

MAX_LINES, MAX_NESTING = 20_000, 20
_RULES = ["code", "fence", "blockquote", "hr", "list", "heading", "lheading", "paragraph"]
_UNSHOWN = "script|style|template"
_HTML = re.compile(
    rf"(?:</?(?!(?:pre|{_UNSHOWN})\b)[a-z][^<>]{{0,200}}>[ \t]{{0,8}}){{0,8}}<(pre|{_UNSHOWN})\b|<!--", re.IGNORECASE
)
_HIDDEN = re.compile(rf"<!--.*?(?:-->|\Z)|<({_UNSHOWN})\b.*?(?:</\1\b[^>]*>|\Z)", re.DOTALL | re.IGNORECASE)
#: Signs of code before a comment that starts within a line: it may be in a string.
_CODE_SIGNS = re.compile(r"[\"'`#=()]")
_PRE = re.compile(r"<pre\b[^>]*>(.*?)(?:</pre\b|\Z)", re.DOTALL | re.IGNORECASE)
_DRESS_OF_CODE = re.compile(r"</?(?:code|span|font)\b[^>]*>", re.IGNORECASE)
_FENCE_LINE = re.compile(r"[\s>]*(`{3,}|~{3,})[ \t]*$")
_DEEP_FENCE = re.compile(r"^((?: {0,3}>)*)( ?(?: {4}|\t| {1,3}\t)[ \t]*)(`{3,}|~{3,})[^`\n]*$", re.MULTILINE)
_INDENTED_CODE = re.compile(r"([ \t]+)(?:(?:async[ \t]+)?def|class|import|from|@)\b")
#: An unindented line of Python that indented ones follow.
OPENS_BLOCK = re.compile(
    r"\s*(?:@|(?:(?:async\s+)?(?:def|class|for|with)|if|elif|else|while|try|except|finally|match|case)\b.*:\s*(?:#.*)?$)"
)


@dataclass(frozen=True)
class CodeBlock:
    """A block of code, or HTML that is not shown, such as a comment.

    Attributes:
        text: Its content, without the indentation of the block; of ``<pre>``, without tags, entities and what is not shown.
        info: The info string of a fence, e.g. "python"; else "".
        kind: How it is marked.
        start: Its first line in the text, from 0: of a fence, the line of the fence.
        end: The line after its last one.
    """

    text: str
    info: str
    kind: Literal["fence", "indented", "pre", "hidden"]
    start: int
    end: int

    @property
    def language(self) -> str:
        """First word of the info string, in lower case."""
        return re.split(r"[\s,:{}]+", self.info.strip().lstrip("{.").lower(), maxsplit=1)[0]


def code_blocks(text: str) -> list[CodeBlock]:
    r"""The code blocks and the hidden parts of a text whose lines end in ``\n``, in order."""
    blocks: list[CodeBlock] = []
    if text.count("\n") > MAX_LINES:
        text = "\n".join(text.split("\n", MAX_LINES)[:MAX_LINES])
    for token in _parser().parse(text):
        start, end = token.map or (0, 0)
        if token.type == "fence":
            blocks.append(CodeBlock(token.content, token.info, "fence", start, end))
        elif token.type == "code_block":
            blocks.append(CodeBlock(token.content, "", "indented", start, end))
        elif token.type == "hidden":
            blocks.append(CodeBlock("", "", "hidden", start, end))
        elif token.type == "pre":
            inner = (_DRESS_OF_CODE.sub("", _HIDDEN.sub("", match.group(1))) for match in _PRE.finditer(token.content))
            blocks += (CodeBlock(html.unescape(code), "", "pre", start, end) for code in inner)
    return blocks


def lengthened(text: str, block: CodeBlock, most: int) -> Iterator[CodeBlock]:
    """The readings of a fence in which it ends at a later line that could end it: its code may itself hold lines of fences.

    Args:
        text: The whole text.
        block: A fence of the text.
        most: Maximal number of readings; the shortest come first.
    """
    lines = text.split("\n")
    opening = re.search(r"`{3,}|~{3,}", lines[block.start])
    if not opening:
        return
    mark = opening.group()[0]
    longer = mark * (1 + max(map(len, re.findall(rf"{mark}{{3,}}", text))))
    lines[block.start] = lines[block.start].replace(opening.group(), longer, 1)
    ends = [i for i in range(block.end, len(lines)) if (match := _FENCE_LINE.match(lines[i])) and match.group(1)[0] == mark]
    for end in ends[:most]:
        plain, lines[end] = lines[end], lines[end].replace(mark * 3, longer, 1)
        yield from (
            longer_block
            for longer_block in code_blocks("\n".join(lines))
            if longer_block.start == block.start and longer_block.kind == "fence"
        )
        lines[end] = plain


def without_hidden(text: str) -> str:
    """The text with blank lines for the HTML that is not shown."""
    hidden = [block for block in code_blocks(text) if block.kind == "hidden"] if _HIDDEN.search(text) else []
    lines = text.split("\n")
    for block in hidden:
        lines[block.start : block.end] = [""] * (block.end - block.start)
    return "\n".join(lines)


def unindented_fences(text: str) -> str:
    """The text with fences that are indented by four columns or more moved to the margin: below a line of prose, they are no code block."""
    if not _DEEP_FENCE.search(text):
        return text
    lines: list[str] = []
    opened: re.Match[str] | None = None
    for line in text.split("\n"):
        fence = _DEEP_FENCE.match(line) if opened is None else opened
        if fence is None:
            lines.append(line)
            continue
        quote, indent, mark = fence.group(1), fence.group(2), fence.group(3)
        rest = line.removeprefix(quote)
        rest = rest.removeprefix(indent) if rest.startswith(indent) else rest.lstrip(" \t")
        lines.append(quote + rest)
        is_end = opened is not None and rest.strip().startswith(mark) and not rest.strip().strip(mark[0])
        opened = None if is_end else fence
    return "\n".join(lines)


def unindented_code(text: str, name: str) -> str:
    """The text with indented lines of Python below a line of prose moved to the margin, and without prose before the function on its line."""
    lines, indent, is_prose = text.split("\n"), "", True
    for i, line in enumerate(lines):
        if indent and (line.startswith(indent) or not line.strip()):
            lines[i] = line.removeprefix(indent)
            continue
        start = _INDENTED_CODE.match(line) if is_prose else None
        indent = start.group(1) if start else ""
        lines[i] = line.removeprefix(indent)
        if line.strip() and not line[0].isspace():
            is_prose = not OPENS_BLOCK.match(line)
    return re.sub(
        rf"^[^\n\"'`#=():]{{1,80}}:[ \t*_]*(?=(?:async )?def {re.escape(name)}\b)", "", "\n".join(lines), flags=re.MULTILINE
    )


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    parser.core.ruler.enableOnly(["block"])
    parser.block.ruler.enableOnly(_RULES)
    parser.block.ruler.before("paragraph", "html", _html, {"alt": ["paragraph", "blockquote"]})
    parser.block.ruler.before("paragraph", "end of quote", _ends_quote, {"alt": ["blockquote"]})
    return parser


def _ends_quote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A rule of markdown-it-py: a line without the mark of a quote ends it. That it might be prose of the quote would take quadratic time."""
    return silent


def _html(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A rule of markdown-it-py: ``<pre>`` and what is not shown, after other tags or none, each to the line that ends it."""
    if state.is_code_block(start):
        return False
    begin = state.bMarks[start] + state.tShift[start]
    element, column = _opening(state.src[begin : state.eMarks[start]])
    ending, column = ("</" + element if element.isalpha() else "-->"), begin + column
    is_open = element in ("", "pre", "<!--") or column <= _last(state, ending)
    if not element or not is_open or silent:
        return element != "" and is_open
    line = start
    while line < end:
        if line > start and state.sCount[line] < state.blkIndent and not state.isEmpty(line):
            break
        line += 1
        if ending in state.src[column : state.eMarks[line - 1]].lower():
            break
        column = state.bMarks[line]
    token = state.push("pre" if element == "pre" else "hidden", "", 0)
    token.content, token.map, state.line = state.getLines(start, line, state.blkIndent, True), [start, line], line
    return True


def _last(state: StateBlock, ending: str) -> int:
    """Where an ending stands last in the whole text."""
    if ending not in state.env:
        state.env[ending] = state.src.lower().rfind(ending)
    return int(state.env[ending])


def _opening(line: str) -> tuple[str, int]:
    """The element that starts on a line, "<!--" for a comment and "...<!--" for one after prose, and where its content does; "" if none does."""
    if match := _HTML.match(line):
        return (match.group(1) or "<!--").lower(), match.end()
    at = line.rfind("<!--")
    is_comment = at > 0 and "-->" not in line[at:] and not _CODE_SIGNS.search(line[:at])
    return ("...<!--", at + 4) if is_comment else ("", 0)
