r"""What of a model's text is thought, and what is speech.

A model that thinks writes its thoughts before its message, between marks: ``<think>`` and ``</think>``, ``[THINK]`` and ``[/THINK]``, or in a channel of
the Harmony format. Thoughts are never said: the other side, parsers, graders and critics get the speech only.

    * A thought begins at an opening mark, or at the start of the text if the prompt has opened it. It ends at the next closing mark of its kind; all
      other marks in it are thought.
    * A closing mark without an opening one ends a thought that began at the start of the text.
    * A thought that does not end goes to the end of the text: nothing is said behind it. ``<think/>`` is an empty thought.
    * Marks in angle brackets may be in upper case and hold white space and attributes (``<Think>``, ``< /think >``); all others are exact.
    * Outside of thoughts, marks in Markdown's code, in a docstring, on an indented line with a comment and within quotation marks on one line are text: a program may handle them. A code
      block that never ends is no code for a closing mark alone.
    * In the Harmony format, the channel "final" is speech, and so is a message without a channel.

Speech holds no thought: to part it once more changes nothing. The time is linear in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import itemgetter

AUTO, NONE = "auto", "none"
#: Opening and closing marks that are known, of: Qwen3, DeepSeek-R1 and many others; older fine-tunings; Magistral; Command A; Seed-OSS; Sky-T1; Kimi-VL;
#: Gemma's channel.
PAIRS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("◁think▷", "◁/think▷"),
    ("<|channel>", "<channel|>"),
)
#: Marks around speech, which are no part of it.
AROUND_SPEECH = ("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|begin_of_solution|>", "<|end_of_solution|>")
#: Marks of the Harmony format.
HARMONY = ("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>", "<|call|>")
#: Closing mark of a thought that a prompt in the Harmony format has opened.
_HARMONY_CLOSING = "<|channel|>final<|message|>"
_HARMONY_HEADER = re.compile(
    r"(?:<\|channel\|>|\A)\s{0,9}(\w{1,30})[^\n<]{0,200}\s{0,9}(?:<\|constrain\|>[^\n<]{0,100}\s{0,9})?<\|message\|>"
    r"|(?:<\|channel\|>(?s:(?!<\|(?:channel|message|start|end)\|>).){0,400})?<\|message\|>"
)
_HARMONY_BEGINS = re.compile(r"\s*(?:<\|(?:channel|message)\|>|<\|start\|>\s*assistant|\w{1,30}<\|message\|>)")
_HARMONY_END = re.compile(r"<\|(?:end|return|call|start|channel|message)\|>")
#: The same without its special tokens, which some servers leave out.
_BARE_HARMONY = re.compile(
    r"\A\s*(?:assistant)?(?:analysis|commentary).*?assistantfinal|\A\s*(?:assistant)?analysis(?=[A-Z]).*\Z", re.DOTALL
)
#: Marks of words in angle brackets, in any case.
_NAMES = "|".join(opening[1:-1] for opening, closing in PAIRS if closing == f"</{opening[1:]}")
_ATTRIBUTE = r"""\s{1,9}[\w-]{1,30}=(?:"[^"\n<>]*"|'[^'\n<>]*'|[\w.-]{1,30})"""
_ANGLE = rf"<[ \t]{{0,2}}/?[ \t]{{0,2}}(?i:{_NAMES})(?:{_ATTRIBUTE})*\s{{0,2}}/?\s{{0,2}}>"
_ANGLE_PARTS = re.compile(r"<\s*(/?)\s*([\w:]+).*?(/?)\s*>", re.DOTALL)
#: Name of an empty thought.
_EMPTY = "<think/>"
_FENCE = r"[ \t>]{0,8}(?P<fence>`{3,}(?=[^`\n]*\n)|~{3,})[^\n]*\n"
#: Where a code block begins; code within a line, an indented line with a comment, a docstring, and what stands between quotation marks on one line.
_CODE = re.compile(
    rf"^{_FENCE}|(?<!`)(?P<span>`{{1,3}})(?!`)[^\n]*?(?<!`)(?P=span)(?!`)"
    r"|^(?: {4}|\t)[^\n#]*(?<=[ \t])#[^\n]*|\"\"\"(?s:.*?)\"\"\"|\'\'\'(?s:.*?)\'\'\'"
    r"|(?<!\w)(?:[rbfuRBFU]{0,2}\"[^\"\n]*\"|[rbfuRBFU]{0,2}'[^'\n]*'|“[^“”\n]*”|‘[^‘’\n]*’|«[^«»\n]*»)(?!\w)",
    re.MULTILINE,
)
_FENCE_HERE = re.compile(_FENCE)
_FENCE_ENDS = re.compile(r"^[ \t>]{0,8}(`{3,}|~{3,})[ \t]*$", re.MULTILINE)
_BEHIND = re.compile(r"(?:\s|<\|START_RESPONSE\|>|<\|begin_of_solution\|>)*")
#: Characters at the end of a prompt in which an opening mark is looked for.
_TAIL = 200
#: A text whose thoughts hide more marks than so many times is thought as a whole.
_MOST_LAYERS = 8


@dataclass(frozen=True)
class Reply:
    """A model's text in its parts.

    Attributes:
        speech: What is said, without white space around it; "" if nothing is.
        thought: What is not said, with its marks and the white space behind them, as it stands in the text; "" if nothing.
        is_unfinished: Whether the last thought goes to the end of the text.
    """

    speech: str
    thought: str = ""
    is_unfinished: bool = False


@dataclass(frozen=True)
class Reasoning:
    """How a model marks its thoughts: the setting `reasoning`.

    Attributes:
        setting: "auto" for all marks that are known; "none" for a model whose whole text is speech; or the model's own opening and closing mark with a
            blank between them, such as "<plan> </plan>".

    Raises:
        ValueError: If the setting is none of these.
    """

    setting: str = AUTO

    def __post_init__(self) -> None:
        if not isinstance(self.setting, str) or (
            self.setting not in (AUTO, NONE) and not len(self.setting.split()) == len({*self.setting.split()}) == 2
        ):
            raise ValueError(
                "`reasoning` must be 'auto', 'none', or an opening and a closing mark with a blank between them, such as '<think> </think>', "
                f"got {self.setting!r}."
            )

    @cached_property
    def pairs(self) -> dict[str, str]:
        """The closing mark of each opening mark."""
        if self.setting in (AUTO, NONE):
            return dict(PAIRS) if self.setting == AUTO else {}
        opening, closing = self.setting.split()
        return {opening: closing}

    def is_mark(self, token: str) -> bool:
        """Whether a token is one of the marks, so that it is kept where a text is decoded without its special tokens."""
        is_of_format = self.setting == AUTO and token in (*AROUND_SPEECH, *HARMONY)
        return is_of_format or (bool(self.pairs) and self._mark.fullmatch(token.strip()) is not None)

    def opened_by(self, prompt: str) -> str:
        """The closing mark of a thought that a prompt opens at its end, as DeepSeek-R1's template does; "" if it opens none."""
        end = prompt[-_TAIL:].rstrip()
        if self.setting == AUTO and (headers := [*_HARMONY_HEADER.finditer(end)]) and headers[-1].end() == len(end):
            return "" if _is_said(headers[-1]) else _HARMONY_CLOSING
        last = [mark for mark in self._mark.finditer(end) if mark.end() == len(end)] if self.pairs else []
        return self.pairs.get(self._name(last[0]), "") if last else ""

    def closes_first(self, text: str) -> bool:
        """Whether the first mark in a text is a closing one: the thought before it was opened by the prompt."""
        mark = self._mark.search(text) if self.pairs else None
        return mark is not None and self._name(mark) not in (*self.pairs, _EMPTY)

    def speech(self, text: str) -> str:
        """What is said of a text that may hold thoughts; the text as it is if it holds none."""
        reply = self.split(text)
        return reply.speech if reply.thought else text

    def split(self, text: str, opened: str = "", writes_code: bool = True) -> Reply:
        """The parts of a model's text.

        Args:
            text: The text as generated, with its marks.
            opened: Closing mark of a thought that the prompt has opened, as `opened_by` returns it.
            writes_code: Whether marks in code and within quotation marks may be text. Of a speaker who writes no code, every mark is one.
        """
        if self.setting == NONE:
            return Reply(text.strip())
        thought, is_unfinished = "", False
        for _ in range(_MOST_LAYERS):
            reply = self._outermost(_without_frame(text), opened, writes_code)
            thought, is_unfinished = thought + reply.thought, is_unfinished or reply.is_unfinished
            if not reply.thought:
                return Reply(reply.speech, thought, is_unfinished)
            text, opened = reply.speech, ""
        return Reply("", thought + text, is_unfinished=True)

    def _outermost(self, text: str, opened: str, writes_code: bool) -> Reply:
        """The parts of a text by its outermost marks; the speech may hold further ones, made by what stood around a thought."""
        if self.setting == AUTO and opened in ("", _HARMONY_CLOSING):
            if opened or _is_harmony(text):
                return _split_harmony(text)
            if match := _BARE_HARMONY.match(text):
                return Reply(text[match.end() :].strip(), match[0], is_unfinished=not match[0].endswith("assistantfinal"))
        thoughts, speech, start, closing = list[slice](), list[slice](), 0, opened
        for mark in self._marks_in(text, opened, writes_code):
            name, end = self._name(mark), _BEHIND.match(text, mark.end()).end()  # type: ignore[union-attr]
            if not closing and name in self.pairs:  # a thought begins
                speech.append(slice(start, mark.start()))
                start, closing = mark.start(), self.pairs[name]
                continue
            if closing:  # it ends
                thoughts.append(slice(start, end))
            elif name == _EMPTY:
                speech.append(slice(start, mark.start()))
                thoughts.append(slice(mark.start(), end))
            else:  # a closing mark alone: all before it is thought
                thoughts, speech = [slice(0, end)], []
            start, closing = end, ""
        (thoughts if closing else speech).append(slice(start, len(text)))
        return Reply("".join(map(text.__getitem__, speech)).strip(), "".join(map(text.__getitem__, thoughts)), bool(closing))

    def _marks_in(self, text: str, closing: str, writes_code: bool) -> Iterator[re.Match[str]]:
        """The marks that begin or end a thought, in order; the first one ends a thought if `closing` is its mark."""
        code, opened_in_code = _Code(text), -1
        for mark in self._mark.finditer(text):
            name = self._name(mark)
            if closing and name != closing:
                continue
            if writes_code and not closing and code.reach(mark.start()):
                opened_in_code = mark.start() if name in self.pairs else opened_in_code
                if name in self.pairs or code.is_closed or opened_in_code >= code.start:
                    continue
            yield mark
            closing = "" if closing else self.pairs.get(name, "")
            if not closing:  # speech begins, on a line of its own
                code.begin_line(_BEHIND.match(text, mark.end()).end())  # type: ignore[union-attr]

    def _name(self, mark: re.Match[str]) -> str:
        """A mark as `pairs` has it; `_EMPTY` for an empty thought."""
        if self.setting != AUTO or mark[0] in self._exact:
            return mark[0]
        before, name, behind = _ANGLE_PARTS.fullmatch(mark[0]).groups()  # type: ignore[union-attr]
        return _EMPTY if behind and not before else f"<{before}{name.lower()}>"

    @cached_property
    def _exact(self) -> frozenset[str]:
        return frozenset((*self.pairs, *self.pairs.values()))

    @cached_property
    def _mark(self) -> re.Pattern[str]:
        return re.compile("|".join([*map(re.escape, sorted(self._exact)), *([_ANGLE] if self.setting == AUTO else [])]))


class _Code:
    """The code in a text, region by region: `start` to `end`. `is_closed` is False for a code block that goes to the end of the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        ends = [(end[1], end.start(), end.end()) for end in _FENCE_ENDS.finditer(text)]
        #: Of each sign: starts and ends of the lines that may end a code block, and the longest fence from each on.
        self._ends = {sign: [end for end in ends if end[0][0] == sign] for sign in "`~"}
        self._longest = {
            sign: list(accumulate((len(end[0]) for end in reversed(ends)), max))[::-1] for sign, ends in self._ends.items()
        }
        self.start = self.end = 0
        self.is_closed = True
        self._take(_CODE.search(text))

    def reach(self, place: int) -> bool:
        """Whether a place is in code. Places must not decrease."""
        while self.end <= place < len(self._text) and self.start < len(self._text):
            self._take(_CODE.search(self._text, self.end))
        return self.start <= place

    def begin_line(self, place: int) -> None:
        """Go to a place that begins a line and is in no code before it."""
        if fence := _FENCE_HERE.match(self._text, place):
            self._take(fence)
        elif self.start < place:
            self._take(_CODE.search(self._text, place))

    def _take(self, match: re.Match[str] | None) -> None:
        self.start = self.end = len(self._text)
        if match is None:
            return
        self.start, self.end, self.is_closed = match.start(), match.end(), True
        if fence := match["fence"]:
            self.end = self._end_of(fence, match.end())
            self.is_closed, self.end = self.end >= 0, self.end if self.end >= 0 else len(self._text)

    def _end_of(self, fence: str, place: int) -> int:
        """End of a code block whose text begins at a place; -1 if it has none."""
        ends, longest = self._ends[fence[0]], self._longest[fence[0]]
        i = bisect_left(ends, place, key=itemgetter(1))
        if i == len(ends) or longest[i] < len(fence):
            return -1
        while len(ends[i][0]) < len(fence):
            i += 1
        return ends[i][2]


def _without_frame(text: str) -> str:
    """A text without the marks around speech and white space at its ends."""
    text = text[_BEHIND.match(text).end() :].rstrip()  # type: ignore[union-attr]
    end = len(text)
    while mark := next((mark for mark in AROUND_SPEECH if text.endswith(mark, 0, end)), ""):
        end -= len(mark)
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end]


def _is_harmony(text: str) -> bool:
    """Whether a text is in the Harmony format: it begins so, or has a header outside of code."""
    if _HARMONY_BEGINS.match(text):
        return True
    code = _Code(text)
    return any(not code.reach(header.start()) for header in _HARMONY_HEADER.finditer(text))


def _is_said(header: re.Match[str]) -> bool:
    """Whether what follows a header is speech: of the channel "final", or of none. A header that cannot be read is of a thought."""
    return header[1] == "final" or header[0] == "<|message|>"


def _split_harmony(text: str) -> Reply:
    """The parts of a text in the Harmony format: the channel "final" is said, and a message without a channel."""
    speech, thoughts, start = list[str](), list[str](), 0
    for header in _HARMONY_HEADER.finditer(text):
        if not _is_said(header):
            continue
        thoughts.append(text[start : header.end()])
        start = end.start() if (end := _HARMONY_END.search(text, header.end())) else len(text)
        speech.append(text[header.end() : start])
    rest = _HARMONY_END.sub("", text[start:])
    if not speech or rest.strip():
        thoughts.append(text[start:])
    return Reply("\n".join(speech).strip(), "".join(thoughts), is_unfinished=not speech)
