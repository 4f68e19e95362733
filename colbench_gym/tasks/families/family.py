"""Families of backend requests: one vague request, many hidden specifications.

A family is a function with *topics*: points on which the request is silent and that an agent might ask about. Each topic has
options; option 0 is what a programmer would do unasked (the plain choice), the others are special wishes. On a family's list a few
topics are *relevant*: they have special wishes, and the request announces each by a *cue*, a sentence from which a thoughtful reader would
suspect it. The others are plausible and never matter to this family.

The template is Python source with slots. A line that holds only ``{slot}`` is replaced by the option's lines at the same
indentation, or dropped where the option has none; ``{slot}`` inside a line is replaced in place.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

#: The option taken on each topic of a family.
Choice = tuple[int, ...]
_LINE_SLOT = re.compile(r"^(\s*)\{(\w+)\}\s*$")
_INLINE_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Option:
    """One choice on a topic.

    Attributes:
        says: What the person answers when asked: one plain sentence without code, from which the code follows.
        code: Slot name -> source that goes there. Slots that no chosen option fills are empty.
    """

    says: str
    code: dict[str, str] = field(hash=False)


@dataclass(frozen=True)
class Topic:
    """A point on which the request is silent.

    Attributes:
        name: Short name, e.g. "rounding".
        asks: Two or more ways in which an agent may ask about it, each a short question.
        options: Option 0 is the plain choice, the others are special wishes.
        cues: Sentences of a request that announce the topic, each enough by itself.
        paraphrases: Questions about the topic in other people's words, by which the scripted human recognises one.
    """

    name: str
    asks: tuple[str, ...]
    options: tuple[Option, ...]
    cues: tuple[str, ...] = ()
    paraphrases: tuple[str, ...] = ()

    def without_wishes(self) -> Topic:
        """The topic where nobody has a wish on it."""
        return replace(self, options=self.options[:1])


@dataclass(frozen=True)
class Family:
    """A request with its parameterised reference.

    Attributes:
        name: Unique name.
        area: Domain, e.g. "billing".
        request: What the person says first, without cues: one to three sentences, vague on purpose.
        signature: ``def name(arguments)``.
        template: Source of the reference, with slots.
        topics: The points on which the request is silent, in the order in which the function takes them up.
        calls: Ten expressions that call the function; together they tell every option of every topic apart.
        example: One more call, which shows what the arguments look like.
        defaults: Code of the slots of topics that are not on the list.
    """

    name: str
    area: str
    request: str
    signature: str
    template: str
    topics: tuple[Topic, ...]
    calls: tuple[str, ...]
    example: str = ""
    defaults: dict[str, str] = field(default_factory=dict, hash=False)

    @cached_property
    def relevant(self) -> tuple[int, ...]:
        """Positions of the topics that can be special."""
        return tuple(i for i, topic in enumerate(self.topics) if len(topic.options) > 1)

    @cached_property
    def cues(self) -> tuple[str, ...]:
        """A sentence for each relevant topic, in any order."""
        announced = [self.topics[i] for i in self.relevant if self.topics[i].cues]
        shuffled = random.Random(f"cues {self.name}").sample(announced, len(announced))
        return tuple(random.Random(f"{topic.name} {self.name}").choice(topic.cues) for topic in shuffled)

    def reference(self, choice: Choice) -> str:
        """Source of the function with option ``choice[i]`` on topic i."""
        slots: dict[str, str] = {}
        for topic, index in zip(self.topics, choice, strict=True):
            for slot, code in topic.options[index].code.items():
                if slot in slots:
                    raise ValueError(f"Family {self.name!r}: slot {slot!r} is filled by two topics; name them apart.")
                slots[slot] = code
        return _fill(self.template, {**self.defaults, **slots})

    def choices(self, wishes: tuple[int, int]) -> Iterator[Choice]:
        """Every clear choice with so many special wishes (at least, at most), in an order that looks random and is always the same."""
        fewest, most = wishes
        every = [choice for count in range(fewest, most + 1) for choice in self._choices(count)]
        random.Random(self.name).shuffle(every)
        return filter(self.is_clear, every)

    def _choices(self, count: int) -> Iterator[Choice]:
        """Every choice with so many special wishes."""
        for special in itertools.combinations(self.relevant, count):
            for options in itertools.product(*(range(1, len(self.topics[i].options)) for i in special)):
                chosen = dict(zip(special, options, strict=True))
                yield tuple(chosen.get(i, 0) for i in range(len(self.topics)))

    def is_clear(self, choice: Choice) -> bool:
        """True where every call has a value, and every special wish makes a difference to one of them."""
        values = self.values(choice)
        plainer = ((*choice[:i], 0, *choice[i + 1 :]) for i, option in enumerate(choice) if option)
        return values is not None and all(self.values(other) != values for other in plainer)

    def values(self, choice: Choice) -> tuple[Any, ...] | None:
        """What the ten calls give; None where one of them raises. Our own code, run here."""
        return _run(self.reference(choice), self.calls)

    def within(self, topics: int, relevant: int, decoys: tuple[Topic, ...]) -> Family | None:
        """The family with a list of another length, of which so many topics can be special; None where it has too few.

        Args:
            topics: Length of the list.
            relevant: Own topics that keep their wishes; the others are plain, on the list or, where that is full, off it.
            decoys: Topics without wishes to fill the list up with, the most usual first.
        """
        if relevant > len(self.topics) or topics > len(self.topics) + len(decoys):
            return None
        rng = random.Random(f"{self.name} {relevant}")
        own = rng.sample(self.topics, len(self.topics))
        kept, plain = own[:relevant], [topic.without_wishes() for topic in own[relevant:]]
        listed = [*kept, *plain, *decoys][:topics]
        left = plain[max(topics - relevant, 0) :]
        order = [topic.name for topic in (*self.topics, *decoys)]
        listed.sort(key=lambda topic: order.index(topic.name))
        code = {slot: source for topic in left for slot, source in topic.options[0].code.items()}
        return replace(self, topics=tuple(listed), defaults=code)


@lru_cache(maxsize=4096)
def _run(source: str, calls: tuple[str, ...]) -> tuple[Any, ...] | None:
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    try:
        return tuple(eval(_compiled(call), namespace) for call in calls)
    except Exception:  # an option that cannot be met beside another one: whatever it raises
        return None


@lru_cache(maxsize=4096)
def _compiled(call: str) -> Any:
    """A call's code: every reference of a family has the same ten."""
    return compile(call, "<call>", "eval")


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
