"""Split an agent's message into single questions, without code.

Agents write free text: prose, numbered lists, code blocks, polite phrases. The scripted human only needs the sentences that
ask for an answer.
"""

from __future__ import annotations

import re

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


def questions(message: str) -> list[str]:
    """The questions of a message, in order; empty if it asks nothing.

    A question is a sentence that ends in a question mark or asks for something ("please specify ..."). A bare request for
    confirmation ("Is that right?") includes the sentence before it, which states what is to be confirmed. The items of a list that
    follows a request ("Please tell me: ...") are questions as well.
    """
    asked: list[str] = []
    previous, is_list = "", False
    for sentence in _sentences(message):
        is_point = is_list and sentence[0] in "-*•0123456789"
        if sentence.endswith("?"):
            asked.append(f"{previous} {sentence}" if _CONFIRMATION.search(sentence) else sentence)
        elif is_point or _REQUEST.search(sentence):
            asked.append(sentence)
        is_list = is_point or sentence.endswith(":")
        previous = sentence
    return asked


def prose(message: str) -> str:
    """The message without code, on one line."""
    return " ".join(_sentences(_ABBREVIATION.sub("such as", message[-MAX_MESSAGE_CHARS:]), keeps_questions=True))


def _sentences(message: str, keeps_questions: bool = False) -> list[str]:
    text = _FENCE.sub("\n", message[-MAX_MESSAGE_CHARS:])
    prose = "\n".join(
        line for line in text.splitlines() if not _CODE_LINE.match(line) or (keeps_questions and line.rstrip().endswith("?"))
    )
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
