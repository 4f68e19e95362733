r"""What of a model's text is thought, and what is speech.

A model that thinks writes its thoughts before its message, between marks: ``<think>`` and ``</think>``, ``[THINK]`` and ``[/THINK]``, or in a channel of
the Harmony format. Thoughts are never said: the other side, parsers, graders and critics get the speech only.

    * A thought begins at an opening mark, or at the start of the text if the prompt has opened it. It ends at the next closing mark of its kind.
    * A closing mark without an opening one ends a thought that began at the start of the text.
    * A thought that does not end goes to the end of the text: nothing is said behind it.
    * Outside of thoughts, marks in Markdown's code and marks beside a quotation mark are text: a program may handle them. The start of the text is the
      exception: there, a mark is a mark.

The time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

AUTO, NONE = "auto", "none"
#: Opening and closing marks that are known, of: Qwen3, DeepSeek-R1 and many others; older fine-tunings; Magistral; Command A; Seed-OSS; Sky-T1; Kimi-VL;
#: Gemma's channel.
PAIRS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<seed:think>", "</seed:think>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("◁think▷", "◁/think▷"),
    ("<|channel>", "<channel|>"),
)
#: Marks around speech, which are no part of it.
AROUND_SPEECH = ("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|begin_of_solution|>", "<|end_of_solution|>")
#: Marks of the Harmony format.
HARMONY = ("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>", "<|call|>")
_HARMONY_HEADER = re.compile(r"<\|channel\|>\s*(\w+)[^\n]{0,200}?<\|message\|>")
_HARMONY_END = re.compile(r"<\|(?:end|return|call|start)\|>")
#: The same without its special tokens, which some servers leave out.
_BARE_HARMONY = re.compile(r"\A\s*analysis(?=[A-Z\W]).*?assistantfinal|\A\s*analysis(?=[A-Z]).*\Z", re.DOTALL)
_CODE = re.compile(
    r"^[ \t>]{0,8}(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t>]{0,8}\1[`~]*[ \t]*$|\Z)|(?<!`)(`+)(?!`)[^\n]*?(?<!`)\2(?!`)",
    re.DOTALL | re.MULTILINE,
)
_QUOTES = {*"'\"`“”‘’«»"}
_SPACE = re.compile(r"\s*")


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
        if self.setting not in (AUTO, NONE) and not len(self.setting.split()) == len({*self.setting.split()}) == 2:
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

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """All marks: tokens that are kept where a text is decoded without its special tokens."""
        return (*self.pairs, *self.pairs.values(), *((*AROUND_SPEECH, *HARMONY) if self.setting == AUTO else ()))

    def is_mark(self, token: str) -> bool:
        """Whether a token is one of the marks, so that it is kept where a text is decoded without its special tokens."""
        return token in self.marks

    def opened_by(self, prompt: str) -> str:
        """The closing mark of a thought that a prompt opens at its end, as DeepSeek-R1's template does; "" if it opens none."""
        text = prompt.rstrip()
        return next((closing for opening, closing in self.pairs.items() if text.endswith(opening)), "")

    def split(self, text: str, opened: str = "") -> Reply:
        """The parts of a model's text.

        Args:
            text: The text as generated, with its marks.
            opened: Closing mark of a thought that the prompt has opened, as `opened_by` returns it.
        """
        if self.setting == AUTO and not opened:
            if _HARMONY_HEADER.search(text):
                return _split_harmony(text)
            if match := _BARE_HARMONY.match(text):
                return Reply(text[match.end() :].strip(), match[0], is_unfinished=not match[0].endswith("assistantfinal"))
        thoughts, speech, start, closing = list[slice](), list[slice](), 0, opened
        for mark in self._marks_in(text, opened):
            if mark[0] in self.pairs and not closing:  # a thought begins
                speech.append(slice(start, mark.start()))
                start, closing = mark.start(), self.pairs[mark[0]]
                continue
            end = mark.end() + len(_SPACE.match(text, mark.end())[0])  # type: ignore[index]
            if closing:  # it ends
                thoughts.append(slice(start, end))
            else:  # a closing mark alone: all before it is thought
                thoughts, speech = [slice(0, end)], []
            start, closing = end, ""
        (thoughts if closing else speech).append(slice(start, len(text)))
        return Reply(_said("".join(map(text.__getitem__, speech))), "".join(map(text.__getitem__, thoughts)), bool(closing))

    def _marks_in(self, text: str, closing: str) -> Iterator[re.Match[str]]:
        """The marks that begin or end a thought, in order; the first one ends a thought if `closing` is its mark."""
        if not self.pairs:
            return
        first, code = len(text) - len(text.lstrip()), _CODE.search(text)
        for mark in self._mark.finditer(text):
            if closing:
                if mark[0] == closing:
                    yield mark
                    closing = ""
                    if code and code.start() < mark.end():  # speech is read from here
                        code = _CODE.search(text, mark.end())
                continue
            while code and code.end() <= mark.start():
                code = _CODE.search(text, code.end())
            is_quoted = {text[mark.start() - 1 : mark.start()], text[mark.end() : mark.end() + 1]} & _QUOTES
            if mark.start() <= first or not (is_quoted or (code and code.start() <= mark.start())):
                yield mark
                closing = self.pairs.get(mark[0], "")

    @cached_property
    def _mark(self) -> re.Pattern[str]:
        return re.compile("|".join(re.escape(mark) for mark in (*self.pairs, *self.pairs.values())))


def _said(text: str) -> str:
    text = text.strip()
    for mark in AROUND_SPEECH:
        text = text.removeprefix(mark).removesuffix(mark).strip()
    return text


def _split_harmony(text: str) -> Reply:
    """The parts of a text in the Harmony format: only the channel "final" is said."""
    speech, thoughts, start = [], [], 0
    for header in _HARMONY_HEADER.finditer(text):
        if header[1] != "final":
            continue
        end = _HARMONY_END.search(text, header.end())
        thoughts.append(text[start : header.end()])
        start = end.start() if end else len(text)
        speech.append(text[header.end() : start])
    if not speech:
        return Reply("", text, is_unfinished=True)
    return Reply("".join(speech).strip(), "".join(thoughts))
