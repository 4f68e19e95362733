"""Families of backend requests: one vague request, many hidden specifications.

A family is a hand-written function with *topics*: points on which the request is silent and the person has an opinion.
Each topic has options; option 0 is what a programmer would do unasked (the plain choice), the others are special wishes.
A task of the family picks special wishes on two to four topics and leaves the rest plain, so which topics matter cannot be
guessed from the request.

The template is Python source with slots. A line that holds only ``{slot}`` is replaced by the option's lines at the same
indentation, or dropped where the option has none; ``{slot}`` inside a line is replaced in place.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

MIN_SPECIAL, MAX_SPECIAL = 2, 4
_LINE_SLOT = re.compile(r"^(\s*)\{(\w+)\}\s*$")
_INLINE_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Option:
    """One choice on a topic.

    Attributes:
        says: What the person answers when asked: one plain sentence of at most 15 words, no code.
        code: Slot name -> source that goes there. Slots that no chosen option fills are empty.
    """

    says: str
    code: dict[str, str]


@dataclass(frozen=True)
class Topic:
    """A point on which the request is silent.

    Attributes:
        name: Short name, e.g. "rounding".
        asks: Two or more ways in which an agent may ask about it, each a short question.
        options: Option 0 is the plain choice, the others are special wishes.
        keywords: Extra lower-case words by which a question about the topic is recognised; words of `asks` count anyway.
    """

    name: str
    asks: tuple[str, ...]
    options: tuple[Option, ...]
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """A hand-written request with its parameterised reference.

    Attributes:
        name: Unique name; also the name of the function.
        area: Line of business, e.g. "billing".
        request: What the person says first: one or two sentences, vague on purpose.
        signature: ``def name(arguments)``.
        template: Source of the reference, with slots.
        topics: The points on which the request is silent.
        calls: Ten expressions that call the function; together they tell every option of every topic apart.
    """

    name: str
    area: str
    request: str
    signature: str
    template: str
    topics: tuple[Topic, ...]
    calls: tuple[str, ...]

    def reference(self, choice: tuple[int, ...]) -> str:
        """Source of the function with option ``choice[i]`` on topic i."""
        slots: dict[str, str] = {}
        for topic, index in zip(self.topics, choice, strict=True):
            for slot, code in topic.options[index].code.items():
                if slot in slots:
                    raise ValueError(f"Family {self.name!r}: slot {slot!r} is filled by two topics; name them apart.")
                slots[slot] = code
        return _fill(self.template, slots)

    def choices(self) -> Iterator[tuple[int, ...]]:
        """Every choice with `MIN_SPECIAL` to `MAX_SPECIAL` special wishes, in a fixed order."""
        for choice in itertools.product(*(range(len(topic.options)) for topic in self.topics)):
            if MIN_SPECIAL <= sum(index > 0 for index in choice) <= MAX_SPECIAL:
                yield choice


def _fill(template: str, slots: dict[str, str]) -> str:
    lines: list[str] = []
    for line in template.strip("\n").split("\n"):
        match = _LINE_SLOT.match(line)
        if match is None:
            lines.append(_INLINE_SLOT.sub(lambda m: slots.get(m.group(1), ""), line))
            continue
        indent, slot = match.groups()
        code = slots.get(slot, "")
        lines.extend(indent + part for part in code.strip("\n").split("\n") if code.strip())
    return "\n".join(lines)
