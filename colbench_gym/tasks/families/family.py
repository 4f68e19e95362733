"""Families of backend requests: one vague request, many hidden specifications.

A family is a function with *topics*: points that the request leaves open and that an agent might ask about. Each topic has options.
Option 0 is the default that a programmer would implement (the plain choice), the others are special wishes. A few topics on a family's
list are *relevant*: they have special wishes, and the request hints at each with a *cue*, a sentence from which an attentive reader can
infer the topic. The others are plausible but never matter in this family.

The template is Python source with slots. A line that only contains ``{slot}`` is replaced by the option's lines at the same
indentation, or removed if the option has none; ``{slot}`` inside a line is replaced in place.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

#: Index of the chosen option for each topic of a family.
Choice = tuple[int, ...]
_LINE_SLOT = re.compile(r"^(\s*)\{(\w+)\}\s*$")
_INLINE_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Option:
    """One option of a topic.

    Attributes:
        says: The simulated human's answer to a question about the topic: one plain sentence without code that determines the code.
        code: Slot name -> source for the slot. Slots that no chosen option fills are empty.
    """

    says: str
    code: dict[str, str] = field(hash=False)


@dataclass(frozen=True)
class Topic:
    """A point that the request leaves open.

    Attributes:
        name: Short name, e.g. "rounding".
        asks: Two or more short questions with which an agent may ask about it.
        options: Option 0 is the plain choice, the others are special wishes.
        cues: Sentences for the request that hint at the topic. Each is sufficient by itself.
        paraphrases: Questions about the topic in the words of several people. The scripted human uses them to recognize new ones.
    """

    name: str
    asks: tuple[str, ...]
    options: tuple[Option, ...]
    cues: tuple[str, ...] = ()
    paraphrases: tuple[str, ...] = ()

    def without_wishes(self) -> Topic:
        """The topic with its plain choice only."""
        return replace(self, options=self.options[:1])


@dataclass(frozen=True)
class Family:
    """A request and its parameterized reference.

    Attributes:
        name: Unique name.
        area: Domain, e.g. "travel".
        request: First message of the simulated human without cues: one to three sentences, vague on purpose.
        signature: ``def name(arguments)``.
        template: Source of the reference, with slots.
        topics: The points that the request leaves open, in the order in which the function handles them.
        calls: Ten expressions that call the function. Together they distinguish all options of every topic.
        example: An additional call, which shows the format of the arguments.
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
        """Indices of the topics that have special wishes."""
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
                    raise ValueError(f"Family {self.name!r}: slot {slot!r} is filled by two topics; rename one of them.")
                slots[slot] = code
        return _fill(self.template, {**self.defaults, **slots})

    def choices(self, wishes: tuple[int, int], is_wanted: Callable[[str], bool] | None = None) -> Iterator[Choice]:
        """Every clear choice with a number of special wishes in the range (minimum, maximum), in a fixed pseudo-random order.

        Args:
            wishes: The range.
            is_wanted: Whether a function, given by its source, is wanted. It is asked first, since that takes less time than the calls.
        """
        fewest, most = wishes
        every = [choice for count in range(fewest, most + 1) for choice in self._choices(count)]
        random.Random(self.name).shuffle(every)
        wanted: Iterable[Choice] = (
            every if is_wanted is None else (choice for choice in every if is_wanted(self.reference(choice)))
        )
        return filter(self.is_clear, wanted)

    def _choices(self, count: int) -> Iterator[Choice]:
        """Every choice with `count` special wishes."""
        for special in itertools.combinations(self.relevant, count):
            for options in itertools.product(*(range(1, len(self.topics[i].options)) for i in special)):
                chosen = dict(zip(special, options, strict=True))
                yield tuple(chosen.get(i, 0) for i in range(len(self.topics)))

    def is_clear(self, choice: Choice) -> bool:
        """True if every call returns a value, and every special wish changes the value of at least one call."""
        values = self.values(choice)
        plainer = ((*choice[:i], 0, *choice[i + 1 :]) for i, option in enumerate(choice) if option)
        return values is not None and all(self.values(other) != values for other in plainer)

    def values(self, choice: Choice) -> tuple[Any, ...] | None:
        """The values of the ten calls; None if one of them raises. This runs trusted code, outside the sandbox."""
        return _run(self.reference(choice), self.calls)

    def within(self, topics: int, relevant: int, decoys: tuple[Topic, ...]) -> Family | None:
        """The family with another number of topics and relevant topics; None if it has too few.

        Args:
            topics: Length of the topic list.
            relevant: Number of own topics that keep their wishes. The others become plain; they are dropped if the list is full.
            decoys: Topics without wishes to fill the list, the most common first.
        """
        if relevant > len(self.topics) or topics > len(self.topics) + len(decoys):
            return None
        rng = random.Random(f"{self.name} {relevant}")
        shuffled = rng.sample(self.topics, len(self.topics))
        kept, plain = shuffled[:relevant], [topic.without_wishes() for topic in shuffled[relevant:]]
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
    except Exception:  # two options are incompatible; any exception may show it
        return None


@lru_cache(maxsize=4096)
def _compiled(call: str) -> Any:
    """The compiled code of a call. Cached, because all references of a family have the same ten calls."""
    return compile(call, "<call>", "eval")


def _fill(template: str, slots: dict[str, str]) -> str:
    pieces: list[str] = []
    for indent, parts in _parse(template):
        if indent is None:
            pieces.append("".join([slots.get(part, "") if i % 2 else part for i, part in enumerate(parts)]))
        elif (code := slots.get(parts[0], "")).strip():
            pieces.append(indent + code.strip("\n").replace("\n", f"\n{indent}"))
    return "\n".join(pieces)


@lru_cache(maxsize=4096)
def _parse(template: str) -> tuple[tuple[str | None, tuple[str, ...]], ...]:
    """The pieces of a template: the indentation and slot of a line that is a slot; None and the texts and slots in turn of all lines up to the next."""
    pieces: list[tuple[str | None, tuple[str, ...]]] = []
    for is_slot, lines in itertools.groupby(template.strip("\n").split("\n"), key=lambda line: bool(_LINE_SLOT.match(line))):
        if is_slot:
            pieces += ((match[1], (match[2],)) for match in map(_LINE_SLOT.match, lines) if match)
        else:
            pieces.append((None, tuple(_INLINE_SLOT.split("\n".join(lines)))))
    return tuple(pieces)
