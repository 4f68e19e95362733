"""Types of the texts and numbers in a report's files, and explanations of episodes for the dialogue viewer.

Everything in an explanation may come from a hostile program, page or file: types are checked once, where a line is read, and every text is clipped
with a note. The viewer sets it as text.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from functools import partial
from operator import itemgetter
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from sweetrl_agent.reporting.parts import clip

#: Lines of a diff, of each side, and their length.
MAX_LINES, MAX_LINE_CHARS, MAX_SOURCE_CHARS = 120, 200, 20_000
#: Marks of the lines of a diff: in both, only in the reference, only in the answer, and a note.
SAME, WANTED, GOT, NOTE = " ", "-", "+", "?"
Diff = list[tuple[str, str]]


def _clipped(most: int) -> AfterValidator:
    return AfterValidator(partial(clip, most=most))


def _first(most: int) -> AfterValidator:
    return AfterValidator(itemgetter(slice(most)))


Finite = Annotated[float, Field(allow_inf_nan=False)]
Turn = Annotated[int, Field(gt=0, lt=10_000)]
Text = Annotated[str, _clipped(8_000)]
Short = Annotated[str, _clipped(400)]
Name = Annotated[str, _clipped(200)]
Topic = Annotated[str, _clipped(80)]
Topics = Annotated[list[Topic], _first(40)]
#: JPEG in base64; "" if there is none.
Picture = Annotated[str, Field(pattern="^[A-Za-z0-9+/]*={0,2}$", max_length=200_000)]
#: The advantage of each turn, with four digits.
Advantages = list[Annotated[Finite, AfterValidator(lambda value: float(f"{value:.4g}"))] | None]


class Wish(BaseModel):
    """A wish of the task, with the turns in which the agent asked about it and heard it."""

    topic: Topic = "?"
    sentence: Short = ""
    is_special: bool = False
    asked: Turn | None = None
    heard: Turn | None = None


class Test(BaseModel):
    """A hidden test, and the topics that it depends on."""

    call: Short = "?"
    expected: Short = "?"
    got: Short = "?"
    outcome: Short = "?"
    meaning: Short = "?"
    seconds: Finite | None = None
    wishes: Topics = []


class Block(BaseModel):
    """A block of a page that differs: x, y, width and height on the picture of its side."""

    side: Literal["wanted", "got"]
    what: Topic = "?"
    text: Annotated[str, _clipped(120)] = ""
    box: tuple[Finite, Finite, Finite, Finite]


class Feedback(BaseModel):
    """What the human says on a difference that is left, and the turns in which it was said."""

    sentence: Short = ""
    turns: Annotated[list[Turn], _first(20)] = []


class Pages(BaseModel):
    """Pictures of the hidden page and the agent's last one."""

    wanted: Picture = ""
    got: Picture = ""
    width: Annotated[Finite, Field(gt=0)]
    height: Annotated[Finite, Field(gt=0)]
    score: dict[Topic, Finite | None] = {}
    blocks: Annotated[list[Block], _first(60)] = []
    differences: Annotated[list[Feedback], _first(60)] = []


class Explanation(BaseModel):
    """A line of explanations.jsonl; see `core.explanation.Explains.explain`."""

    agent: Name
    split: Name
    task_id: Name
    episode: int
    wishes: Annotated[list[Wish], _first(40)] = []
    tests: Annotated[list[Test], _first(40)] = []
    notes: Annotated[list[Short], _first(5)] = []
    reference: str | None = None
    answer: str | None = None
    pages: Pages | None = None
    advantages: dict[Name, Advantages] = {}

    def shown(self, is_success: bool) -> dict[str, Any]:
        """The explanation for the viewer.

        Args:
            is_success: Whether the episode is a success: the reference is then shown alone.

        Returns:
            "wishes", "tests", "notes", "diff" and "pages", each only if there is something to show.
        """
        parts = self.model_dump(include={"wishes", "tests", "notes", "pages"})
        parts["diff"] = diff(self.reference, None if is_success else self.answer)
        return {name: part for name, part in parts.items() if part}


def diff(reference: str | None, answer: str | None) -> Diff:
    """The lines of two texts, marked; the reference alone if there is no answer, [] without a reference."""
    if reference is None:
        return []
    both = {"the reference": reference, "the answer": answer if answer and answer.strip() else reference}
    wanted, got = (
        [clip(line, MAX_LINE_CHARS) for line in text[:MAX_SOURCE_CHARS].split("\n")[:MAX_LINES]] for text in both.values()
    )
    lines: Diff = []
    for kind, i, i_end, j, j_end in SequenceMatcher(None, wanted, got, autojunk=False).get_opcodes():
        if kind == "equal":
            lines += [(SAME, line) for line in wanted[i:i_end]]
        else:
            lines += [(WANTED, line) for line in wanted[i:i_end]] + [(GOT, line) for line in got[j:j_end]]
    cut = [name for name, text in both.items() if len(text) > MAX_SOURCE_CHARS or text.count("\n") >= MAX_LINES]
    return [*lines, *([(NOTE, f"[{' and '.join(cut)}: only the first {MAX_LINES} lines are shown]")] if cut else [])]
