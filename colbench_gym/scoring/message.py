r"""The markers in an agent's message: what is its private thought, what the simulated human hears, and what its answer is.

    * ``I WANT TO ANSWER:`` starts the answer: everything after its first occurrence, also after a second one. In upper case and with its
      colon it counts wherever it stands, as in the benchmark, unless it is quoted within a sentence (``I begin with 'I WANT TO ANSWER:'.``).
      In any letter case it counts at the start of a line, and at the start of a sentence if the line ends with its colon. It may be dressed as
      Markdown does, in bold or italics, as a heading, a quote, a list item or code, in tags. Its colon may stand after blanks, may be a full-width
      one, and may be missing where the line ends or code follows. A sentence that continues ("I want to answer questions") is no marker.
    * ``OUTPUT:`` ends the agent's private thought: everything up to its first occurrence is dropped and never reaches the simulated human.
      It counts outside of code: not in a code block, in ``code``, in an open docstring, or within a line after a line of code. Behind an answer
      marker it counts only if another answer marker follows, or if no code is in the message: what stands behind the answer's code is no thought.
      Without one it does not count between a block of code and a block of its output that ends the message.

Invisible characters are ignored in both. What a model thinks between marks such as ``<think>`` and ``</think>`` (`colbench_gym.reasoning`) is no part
of its message: no marker in it counts. The time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from colbench_gym.reasoning import AUTO, Reasoning
from colbench_gym.scoring.markdown import code_blocks
from colbench_gym.scoring.unseen import INVISIBLE, visible

ANSWER_MARKER = "I WANT TO ANSWER:"
THOUGHT_MARKER = "OUTPUT:"
_GAP = f"[{INVISIBLE}]*"
_BETWEEN = r"(?:[^\w\n]|_){1,8}"
_WORDS = re.compile(_BETWEEN.join(map(_GAP.join, re.findall(r"\w+", ANSWER_MARKER))) + r"(?![^\W_])", re.IGNORECASE)
#: What may dress the start of a line or a sentence: signs, tags, the number of a list item.
_DRESS = re.compile(r"(?:[^\w\n]|_|</?[A-Za-z]\w{0,9}>|\d{1,2}[.)])*\Z")
_SENTENCE = re.compile(r"[.!?:;,…)\]][^\w\n]*\Z")
_CLOSING = r"[ \t*_~`\"'”’»)\]\\" + INVISIBLE + "]"
_COLON = re.compile(rf"({_CLOSING}*)[:：]")
_LINE_END = re.compile(r"(?:[^\w\n<?]|_)*(?:</[A-Za-z]\w{0,9}>(?:[^\w\n<?]|_)*){0,3}$", re.MULTILINE)
_DASH = re.compile(r"[ \t]*(?:[-–—]+(?=[ \t])|[.!](?=\s))")
_CLOSING_TAGS = re.compile(r"(?:</\w{1,10}>)*")
_CODE_FOLLOWS = re.compile(r"[ \t]*(?=`{3}|~{3})")
_BREAK = re.compile("\r\n?|\n")
_THOUGHT_DRESS = re.compile(r"[ \t]{0,3}[#>*_~`\"" + INVISIBLE + r"]*[ \t]{0,3}[*_~`\"" + INVISIBLE + r"]*\Z")
_MOST_DRESS = 100
_QUOTES = "'\"`“”‘’«»"
_THOUGHT_END = re.compile(r"(?<![^\W_])" + _GAP.join(THOUGHT_MARKER))
#: A line of code, of a program or a page, or a code block.
_CODE = re.compile(
    r"^[ \t>]*(?:(?:async[ \t]+)?def[ \t]+\w+|class[ \t]+\w+[ \t]*[:(]|@\w|import[ \t]+[\w.]+[ \t]*$|from[ \t]+[\w.]+[ \t]+import\b|\w+[ \t]*=[^=]"
    r"|</?[a-z!])|`{3}|~{3}|\blambda\b",
    re.MULTILINE | re.IGNORECASE,
)


_ONE_BLOCK = re.compile(r"[ \t*_]*+\s*+(?P<fence>`{3,}+|~{3,}+)[^\n]*\n(?P<body>(?:(?!`{3}|~{3})[^\n]*\n)*+)(?P=fence)\s*+")
#: Words as in a sentence, or a question.
_SPEECH = re.compile(r"\?|[A-Za-z]{2,}(?: [a-z]{2,}){2}")
_BLOCK_ENDS = re.compile(r"(?:`{3}|~{3})[\s*_#]*\Z")


@dataclass(frozen=True)
class AgentMessage:
    """The parts of an agent's message.

    Attributes:
        thought: What the model thought between its marks, and the text before ``OUTPUT:``; never shown to the simulated human.
        utterance: The rest, as the simulated human sees it.
        answer: Text after the answer marker; None if the agent did not answer.
    """

    thought: str
    utterance: str
    answer: str | None


def parse_message(text: str, reasoning: str = AUTO) -> AgentMessage:
    """Split an agent's message into its parts by the rules of the module.

    Args:
        text: The message as the model wrote it.
        reasoning: How the model marks its thoughts, see `colbench_gym.reasoning.Reasoning`; "none" if it does not.
    """
    reply = Reasoning(reasoning).split(text)
    text = reply.speech
    end = _end_of_thought(text)
    thought = reply.thought + ("" if end is None else text[: end.start()].strip())
    utterance = (text if end is None else text[end.end() :]).strip()
    marker = next(_markers(utterance), None)
    return AgentMessage(thought, utterance, None if marker is None else _unindented(utterance[marker[1] :]))


def without_marker(text: str) -> str:
    """A text without an answer marker that it begins with."""
    start = len(text) - len(text.lstrip())
    head = text[start : start + 4 * _MOST_DRESS]
    if head.isascii() and "answer" not in head.lower():
        return text
    marker = next(_markers(head), None)
    if marker is None or _DRESS.match(text[start : start + marker[0]]) is None:
        return text
    return _unindented(text[start + marker[1] :])


def _unindented(answer: str) -> str:
    """The answer without blank space around it, except for the indentation of its first line where that starts below the marker."""
    first, _, rest = answer.partition("\n")
    return answer.strip() if first.strip() else re.sub(r"\A(?:[ \t\r]*\n)+", "", rest).rstrip()


def _markers(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of every answer marker."""
    for words in _WORDS.finditer(text):
        start = max(text.rfind("\n", 0, words.start()) + 1, words.start() - _MOST_DRESS)
        before = text[start : words.start()]
        is_at_start = text[start - 1 : start] in ("", "\n") and _DRESS.match(before) is not None
        is_upper = visible(words.group()).isupper()
        colon = _COLON.match(text, words.end())
        end = colon.end() if colon else words.end()
        if colon and (is_at_start or (is_upper and not _is_quoted(text, words.start(), end))):
            yield words.start(), _after(text, end, before)
        elif (is_at_start or (colon and _SENTENCE.search(before))) and (
            following := _CODE_FOLLOWS.match(text, end) or _LINE_END.match(text, end) or (is_upper and _DASH.match(text, end))
        ):
            yield words.start(), following.end()


def _is_quoted(text: str, start: int, end: int) -> bool:
    """Whether a marker within a sentence is quoted, and the sentence continues."""
    is_between = start > 0 and end < len(text) and text[start - 1] in _QUOTES and text[end] in _QUOTES
    return is_between and text[end + 1 : end + 100].partition("\n")[0].strip() != ""


def _after(text: str, end: int, before: str) -> int:
    """End of a marker with what closes its dress, given what stands before it on its line."""
    rest = _LINE_END.match(text, end)
    if rest and "```" not in rest.group() and "~~~" not in rest.group():
        return rest.end()
    signs = set(before) & set("*_~`\"'") | {pair[1] for pair in ("“”", "‘’", "«»", "()", "[]") if pair[0] in before}
    while text[end : end + 1] in signs:
        end += 1
    return _CLOSING_TAGS.match(text, end).end()  # type: ignore[union-attr]


# ---- thoughts ---------------------------------------------------------------------------------------------------------------


def _end_of_thought(text: str) -> re.Match[str] | None:
    """The first thought marker that counts."""
    if not _THOUGHT_END.search(text):
        return None
    mark = next(_outside_code(text), None)
    answers = [start for start, _ in _markers(text)]
    has_code = bool(answers) and _CODE.search(text, answers[0]) is not None
    if mark and not answers and _is_shown_output(text, mark):
        return None
    return None if mark and has_code and mark.start() > answers[-1] else mark


def _is_shown_output(text: str, mark: re.Match[str]) -> bool:
    """Whether a mark stands between a block of code and a block of what the code prints, which ends the message."""
    shown = _ONE_BLOCK.fullmatch(text, mark.end())
    is_output = shown is not None and not any(pattern.search(shown["body"]) for pattern in (_SPEECH, _CODE))
    return is_output and _BLOCK_ENDS.search(text[max(0, mark.start() - _MOST_DRESS) : mark.start()]) is not None


def _outside_code(text: str) -> Iterator[re.Match[str]]:
    """The thought markers outside of code."""
    in_blocks = {line for block in code_blocks(re.sub("\r\n?", "\n", text)) for line in range(block.start, block.end)}
    first_code = code.start() if (code := _CODE.search(text)) else len(text)
    line, position, line_start, ticks, quotes = 0, 0, 0, 0, [0, 0]
    for mark in _THOUGHT_END.finditer(text):
        between = text[position : mark.start()]
        *breaks, rest = _BREAK.split(between)
        if breaks:
            line, ticks, line_start = line + len(breaks), 0, mark.start() - len(rest)
        ticks += rest.count("`")
        quotes = [count + between.count(sign) for count, sign in zip(quotes, ('"""', "'''"), strict=True)]
        position = mark.start()
        is_at_start = (
            position - line_start < _MOST_DRESS
            and _THOUGHT_DRESS.match(text, line_start, position) is not None
            and not (text[line_start].isspace() and first_code < position)
        )
        is_open = any(count % 2 for count in quotes) or _is_quoted(text, position, mark.end())
        if (
            line not in in_blocks
            and not (ticks % 2 and not is_at_start)
            and not is_open
            and (is_at_start or position < first_code)
        ):
            yield mark
