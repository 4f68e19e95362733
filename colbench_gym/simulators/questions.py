"""What an agent asks: its message cut into single questions, with code left out.

Agents write freely: prose, numbered lists, code blocks, politeness. All that matters to the scripted human is which
sentences want an answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_MESSAGE_CHARS = 6000
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CODE_LINE = re.compile(
    r"^\s*(?:def \w+\s*\(|class \w+\s*[:(]|return\b(?!.*\?\s*$)|import \w|from \w+ import|(?:if|elif|for|while|with|try|else)\b.*:\s*$"
    r"|[\w.\[\]'\"]+\s*[-+*/]?=(?!=)|[#@]|(?:>>>|\.\.\.)\s)"
)
_SENTENCE_END = re.compile(r"(?<=[?!.:;])\s+|\n+")
_REQUEST = re.compile(
    r"\b(?:please|tell me|let me know|clarify|specify|explain|describe|elaborate|(?:can|could|would|will) you (?!like me)"
    r"|i(?: would|'d) like to know|i(?: also)? need to know|wonder(?:ing)?|ask)\b",
    re.IGNORECASE,
)
_CONFIRMATION = re.compile(
    r"^\W*(?:and |so )?(?:is|does|would|will|are|am|do|did) (?:that|this|it|these|those|you|i|we)\b.{0,40}"
    r"\b(?:right|correct|correctly|ok|okay|fine|accurate|sound|work|agree|enough|understand|understood)\b",
    re.IGNORECASE,
)
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e)\.", re.IGNORECASE)
_UNMARKED = re.compile(
    r"^\W*(?:and |also |so |or |then |\d+[.):] *)*(?:how|what|which|who|when|where|is|are|should|shall|do|does|did|can|could|may|might|must|will|would|any)\b"
    r"|^\W*(?:give|show|provide|say|name|list|confirm|advise)\b"
    r"|\b(?:whether|(?:not|un)(?: sure|sure|clear|certain)|curious|need to know|want to know|(?:don't|do not) know (?:if|how|what|which)|question is)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Question:
    """A question of a message.

    Attributes:
        text: The sentence that asks.
        before: The sentence before it where that asks nothing: what "those" and "then" may point back to.
    """

    text: str
    before: str = ""


def questions(message: str) -> list[str]:
    """Cut a message into what it asks, in order; empty if it asks nothing.

    A question is a sentence that ends in a question mark or asks for something ("please specify ..."). A bare request for
    confirmation ("Is that right?") takes the sentence before it along, which holds what is to be confirmed; the points of a
    list that a request announces ("Please tell me: ...") are questions too.
    """
    return [question.text for question in _asked(_sentences(message), has_unmarked=False)]


def asked(message: str) -> list[Question]:
    """The same with what stands before each question, and with sentences that ask without a question mark."""
    return _asked(_sentences(_ABBREVIATION.sub("for example", message[-MAX_MESSAGE_CHARS:])), has_unmarked=True)


def _asked(sentences: list[str], has_unmarked: bool) -> list[Question]:
    found: list[Question] = []
    previous, is_list, has_asked = "", False, False
    for sentence in sentences:
        is_point = is_list and sentence[0] in "-*•0123456789"
        before, has_asked = "" if has_asked else previous, True
        if sentence.endswith("?"):
            found.append(Question(f"{previous} {sentence}") if _CONFIRMATION.search(sentence) else Question(sentence, before))
        elif is_point or _REQUEST.search(sentence) or (has_unmarked and _UNMARKED.search(sentence)):
            found.append(Question(sentence, before))
        else:
            has_asked = False
        is_list = is_point or sentence.endswith(":")
        previous = sentence
    return found


def _sentences(message: str) -> list[str]:
    text = _FENCE.sub("\n", message[-MAX_MESSAGE_CHARS:])
    prose = "\n".join(line for line in text.splitlines() if not _CODE_LINE.match(line))
    parts = (part.strip(" \t*_\"'()") for part in _SENTENCE_END.split(prose))
    return _join_numbers([part for part in parts if part])


def _join_numbers(parts: list[str]) -> list[str]:
    """Put the "1." of a numbered list back before its sentence."""
    joined: list[str] = []
    number = ""
    for part in parts:
        if re.fullmatch(r"\d{1,2}[.):]?", part):
            number = f"{part} "
            continue
        joined.append(number + part)
        number = ""
    return joined
