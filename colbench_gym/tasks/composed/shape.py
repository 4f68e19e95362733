"""Composition of families: a shape has base functions, and steps that wishes add before and after the core of a function.

A composed function runs its steps in a fixed order: steps before the core work on the input, steps after it on the result. A task
combines two wishes only if their order is unambiguous: either the sentence of the later one says that it comes later ("the final
result"), or the order does not change the result of any of the ten calls.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from colbench_gym.tasks.dial import Dial
from colbench_gym.tasks.families.family import Choice, Family, Option, Topic
from colbench_gym.tasks.families.wordings import decoys, read_wordings, worded_topics

#: Numbers of families of a shape in train and in unseen. Their sets of relevant topics are all different.
TRAIN_FAMILIES, UNSEEN_FAMILIES = 96, 36
#: Number of decoys that are as common as topics that can be special.
USUAL_DECOYS = 5


@dataclass(frozen=True)
class Base:
    """A base function, which wishes modify.

    Attributes:
        name: Name of the function.
        request: The simulated human's request, complete except for the wishes.
        signature: ``def name(arguments)``.
        core: Source of the lines in the middle. A single name in braces is read as a slot, even in an f-string.
        calls: Ten expressions that call the function: the hidden tests.
        example: An additional call, which the request shows.
    """

    name: str
    request: str
    signature: str
    core: str
    calls: tuple[str, ...]
    example: str


@dataclass(frozen=True)
class Step:
    """A topic and its position among the steps of a function.

    Attributes:
        topic: The topic. The code of its options fills the slot with the topic's name.
        order: Order that the sentences express: a later step with a larger number says that it comes later ("the final
            result"), an earlier step with a smaller number says that it comes first ("first of all").
    """

    topic: Topic
    order: int = 0


@dataclass(frozen=True)
class Shape:
    """Base functions over the same kind of input, with all topics that can be relevant for them.

    Attributes:
        name: Name of the shape, and the domain of its families.
        bases: The functions.
        before: Steps on the input, in order.
        after: Steps on the result, in order.
        result: Name of the variable that is returned.
        opening: Lines of source before all steps, which compute the input of the first steps from the arguments.
    """

    name: str
    bases: tuple[Base, ...]
    before: tuple[Step, ...]
    after: tuple[Step, ...]
    result: str = "result"
    opening: tuple[str, ...] = ()

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """All steps in the order in which a function runs them, with the cues and paraphrases of their topics."""
        words = read_wordings(self.name)["topics"]
        steps = (*self.before, *self.after)
        topics = worded_topics((step.topic for step in steps), words)
        return tuple(replace(step, topic=topic) for step, topic in zip(steps, topics, strict=True))

    def families(self, dial: Dial, split: str) -> Iterator[Family]:
        """The composed families of "train" or "unseen" at a dial. Each family has a different set of relevant topics.

        The sets are drawn at random and distributed over the bases. The families of "unseen" combine topics and bases of train in
        ways that do not occur in train.
        """
        sets = list(itertools.combinations(range(len(self.steps)), dial.relevant))
        random.Random(f"{self.name} {dial.relevant}").shuffle(sets)
        count = min(TRAIN_FAMILIES, len(sets) * 3 // 4) if dial.relevant > 1 else len(sets)
        own = sets[:count] if split == "train" else sets[count : count + UNSEEN_FAMILIES]
        shift = 0
        if dial.relevant == 1 and split != "train":
            # A single topic cannot form a new combination. What is new in unseen is the base function that it is combined with.
            own, shift = sets[:UNSEEN_FAMILIES], 1
        for number, relevant in enumerate(own):
            yield self._family(self.bases[(number + shift) % len(self.bases)], relevant, dial)

    def _family(self, base: Base, relevant: tuple[int, ...], dial: Dial) -> Family:
        topics = [step.topic for step in self.steps]
        name = "+".join([base.name, *(topics[i].name for i in relevant)])
        usual = [topic.without_wishes() for topic in self._usual(base) if topic not in [topics[i] for i in relevant]]
        listed = [*(topics[i] for i in relevant), *usual[: dial.topics - len(relevant)]]
        order = [topic.name for topic in (*topics, *decoys(self.name))]
        listed.sort(key=lambda topic: order.index(topic.name))
        return ComposedFamily(
            name=name,
            area=self.name,
            request=base.request,
            signature=base.signature,
            template=self._template(base, [step.topic.name for step in self.steps]),
            topics=tuple(listed),
            calls=base.calls,
            example=base.example,
            shape=self,
            base=base,
        )

    def _usual(self, base: Base) -> list[Topic]:
        """Common topics of a base function, the most common first. The last decoys are only used in very long lists."""
        others = decoys(self.name)
        usual = [*(step.topic for step in self.steps), *others[:USUAL_DECOYS]]
        return [*random.Random(f"usual {base.name}").sample(usual, len(usual)), *others[USUAL_DECOYS:]]

    def _template(self, base: Base, slots: list[str]) -> str:
        before = [name for name in slots if name in {step.topic.name for step in self.before}]
        after = [name for name in slots if name not in before]
        core = base.core.split("\n")
        lines = [
            *self.opening,
            *(f"{{{name}}}" for name in before),
            *core,
            *(f"{{{name}}}" for name in after),
            f"return {self.result}",
        ]
        return "\n".join([f"{base.signature}:", *(f"    {line}" for line in lines)])


@dataclass(frozen=True)
class ComposedFamily(Family):
    """A family of a shape. Its tasks combine wishes only if their order is unambiguous."""

    shape: Shape = field(kw_only=True, repr=False, compare=False)
    base: Base = field(kw_only=True, repr=False, compare=False)

    def is_clear(self, choice: Choice) -> bool:
        """See `Family.is_clear`. In addition, no two wishes may be ambiguous in their order."""
        return super().is_clear(choice) and not any(self._can_be_swapped(choice, pair) for pair in self._doubtful(choice))

    def _doubtful(self, choice: Choice) -> list[tuple[str, str]]:
        """Pairs of chosen steps on the same side of the core with sentences that do not determine their order."""
        chosen = {topic.name for topic, option in zip(self.topics, choice, strict=True) if option}
        return [
            (a.topic.name, b.topic.name)
            for side in (self.shape.before, self.shape.after)
            for a, b in itertools.combinations([step for step in side if step.topic.name in chosen], 2)
            if a.order >= b.order
        ]

    def _can_be_swapped(self, choice: Choice, pair: tuple[str, str]) -> bool:
        names = [step.topic.name for step in self.shape.steps]
        first, second = map(names.index, pair)
        names[first], names[second] = names[second], names[first]
        swapped = replace(self, template=self.shape._template(self.base, names))
        return swapped.values(choice) != self.values(choice)


def wish_topic(name: str, asks: tuple[str, ...], plain: str, *wishes: tuple[str, str]) -> Topic:
    """A topic with a plain choice that needs no code, and with wishes given as pairs of a sentence and the code of the step."""
    return Topic(name, asks, (Option(plain, {}), *(Option(says, {name: code}) for says, code in wishes)))
