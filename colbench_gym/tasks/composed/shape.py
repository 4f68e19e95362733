"""Composition of families: a shape holds base functions and the steps that wishes add before and after their core.

A composed function runs its steps in one fixed order, those before the core on the input, those after it on the result. Two wishes
meet in a task only where a reader cannot mistake their order: either the later one's sentence says that it comes later ("the final
result"), or the order makes no difference to any of the ten calls.
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

#: Families of a shape that train shows, and those that it never shows. Their sets of relevant topics are all different.
TRAIN_FAMILIES, UNSEEN_FAMILIES = 96, 36
#: Decoys that are as usual as topics that can be special.
USUAL_DECOYS = 5


@dataclass(frozen=True)
class Base:
    """A function that wishes are added to.

    Attributes:
        name: Name of the function.
        request: What the person asks for, complete but for the wishes.
        signature: ``def name(arguments)``.
        core: Source of the lines in the middle. A name alone in braces would be taken for a slot, in an f-string, too.
        calls: Ten expressions that call the function, the hidden tests.
        example: One more call, which the request shows.
    """

    name: str
    request: str
    signature: str
    core: str
    calls: tuple[str, ...]
    example: str


@dataclass(frozen=True)
class Step:
    """A topic and its place among the steps of a function.

    Attributes:
        topic: Its options' code fills the slot of the topic's name.
        order: What the sentences say of the order: a later step with a larger number says that it comes later ("the final
            result"), an earlier one with a smaller number that it comes first ("first of all").
    """

    topic: Topic
    order: int = 0


@dataclass(frozen=True)
class Shape:
    """Base functions over the same kind of input, with all topics that can matter to them.

    Attributes:
        name: Also the domain of its families.
        bases: The functions.
        before: Steps on the input, in order.
        after: Steps on the result, in order.
        result: Name of the variable that is returned.
        opening: Lines of source before all steps, which get from the arguments what the steps before the core work on.
    """

    name: str
    bases: tuple[Base, ...]
    before: tuple[Step, ...]
    after: tuple[Step, ...]
    result: str = "result"
    opening: tuple[str, ...] = ()

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """All steps, in the order in which a function runs them, with what people wrote about their topics."""
        words = read_wordings(self.name)["topics"]
        steps = (*self.before, *self.after)
        topics = worded_topics((step.topic for step in steps), words)
        return tuple(replace(step, topic=topic) for step, topic in zip(steps, topics, strict=True))

    def families(self, dial: Dial, split: str) -> Iterator[Family]:
        """The composed families of "train" or "unseen" at a dial; the relevant topics of each are a set of its own.

        The sets are drawn at random, and every base has its share of them. Those of "unseen" hold topics and bases that train knows,
        in combinations that it does not.
        """
        sets = list(itertools.combinations(range(len(self.steps)), dial.relevant))
        random.Random(f"{self.name} {dial.relevant}").shuffle(sets)
        count = min(TRAIN_FAMILIES, len(sets) * 3 // 4) if dial.relevant > 1 else len(sets)
        own = sets[:count] if split == "train" else sets[count : count + UNSEEN_FAMILIES]
        shift = 0
        if dial.relevant == 1 and split != "train":
            # There is no new combination of one topic: what is new is the function that it is about.
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
        """What one usually asks about a base function, the most usual first; the last decoys only where a list is very long."""
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
    """A family of a shape: its wishes meet only where their order is clear."""

    shape: Shape = field(kw_only=True, repr=False, compare=False)
    base: Base = field(kw_only=True, repr=False, compare=False)

    def is_clear(self, choice: Choice) -> bool:
        """See `Family.is_clear`; also that no two wishes could be taken in the other order."""
        return super().is_clear(choice) and not any(self._can_be_swapped(choice, pair) for pair in self._doubtful(choice))

    def _doubtful(self, choice: Choice) -> list[tuple[str, str]]:
        """Pairs of chosen steps on the same side of the core whose sentences do not say which comes first."""
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
    """A topic whose plain choice needs no code, and whose wishes are pairs of a sentence and of the code of the step."""
    return Topic(name, asks, (Option(plain, {}), *(Option(says, {name: code}) for says, code in wishes)))
