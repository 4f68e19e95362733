"""Composition of families: a domain has base functions, and steps that wishes add before and after the core of a function.

A composed function runs its steps in a fixed order: steps before the core work on the input, steps after it on the result. A task
combines two wishes only if their order is unambiguous: either the sentence of the later one says that it comes later ("the final
result"), or the order does not change the result of any of the ten calls.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from colbench_gym.tasks.dial import Dial
from colbench_gym.tasks.families.family import Choice, Family, Topic

#: Numbers of families of a domain in train and in unseen. Their sets of relevant topics are all different.
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
class ComposedDomain:
    """Base functions over the same kind of input, with all topics that can be relevant for them.

    Attributes:
        name: Name of the domain.
        bases: The functions.
        before: Steps on the input, in order.
        after: Steps on the result, in order.
        decoys: Topics that never have a wish, the most common first.
        result: Name of the variable that is returned.
        opening: Source before all steps, which computes the input of the first step from the arguments; may be empty.
    """

    name: str
    bases: tuple[Base, ...]
    before: tuple[Step, ...]
    after: tuple[Step, ...]
    decoys: tuple[Topic, ...] = ()
    result: str = "result"
    opening: str = ""

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in the order in which a function runs them."""
        return (*self.before, *self.after)

    @property
    def most_topics(self) -> tuple[int, int]:
        """The length of the longest topic list, and the largest number of relevant topics."""
        return len(self.steps) + len(self.decoys), len(self.steps)

    def families(self, dial: Dial, is_unseen: bool) -> Iterator[Family]:
        """The composed families at a dial, of "unseen" or of the other splits. Each family has a different set of relevant topics.

        The sets are drawn at random and distributed over the bases. The families of "unseen" combine topics and bases of train in
        ways that do not occur in train.
        """
        sets = list(itertools.combinations(range(len(self.steps)), dial.relevant))
        random.Random(f"{self.name} {dial.relevant}").shuffle(sets)
        count = min(TRAIN_FAMILIES, len(sets) * 3 // 4) if dial.relevant > 1 else len(sets)
        chosen = sets[count : count + UNSEEN_FAMILIES] if is_unseen else sets[:count]
        shift = 0
        if dial.relevant == 1 and is_unseen:
            # A single topic cannot form a new combination. What is new in unseen is the base function that it is combined with.
            chosen, shift = sets[:UNSEEN_FAMILIES], 1
        for number, relevant in enumerate(chosen):
            yield self.family(self.bases[(number + shift) % len(self.bases)], relevant, dial)

    def family(self, base: Base, relevant: tuple[int, ...], dial: Dial) -> ComposedFamily:
        """The family of a base function with the relevant topics at these indices of `steps`."""
        topics = [step.topic for step in self.steps]
        name = "+".join([base.name, *(topics[i].name for i in relevant)])
        usual = [topic.without_wishes() for topic in self._usual(base) if topic not in [topics[i] for i in relevant]]
        listed = [*(topics[i] for i in relevant), *usual[: dial.topics - len(relevant)]]
        order = [topic.name for topic in (*topics, *self.decoys)]
        listed.sort(key=lambda topic: order.index(topic.name))
        return ComposedFamily(
            name=name,
            area=self.name,
            request=base.request,
            signature=base.signature,
            template=self.template(base, [step.topic.name for step in self.steps]),
            topics=tuple(listed),
            calls=base.calls,
            example=base.example,
            domain=self,
            base=base,
        )

    def _usual(self, base: Base) -> list[Topic]:
        """Common topics of a base function, the most common first. The last decoys are only used in very long lists."""
        usual = [*(step.topic for step in self.steps), *self.decoys[:USUAL_DECOYS]]
        return [*random.Random(f"usual {base.name}").sample(usual, len(usual)), *self.decoys[USUAL_DECOYS:]]

    def template(self, base: Base, slots: list[str]) -> str:
        """Source of a base function with a slot for each step, in the given order on each side of the core."""
        before = [name for name in slots if name in {step.topic.name for step in self.before}]
        after = [name for name in slots if name not in before]
        lines = [
            *self.opening.splitlines(),
            *(f"{{{name}}}" for name in before),
            *base.core.split("\n"),
            *(f"{{{name}}}" for name in after),
            f"return {self.result}",
        ]
        return "\n".join([f"{base.signature}:", *(f"    {line}" for line in lines)])


@dataclass(frozen=True)
class ComposedFamily(Family):
    """A family of a domain. Its tasks combine wishes only if their order is unambiguous."""

    domain: ComposedDomain = field(kw_only=True, repr=False, compare=False)
    base: Base = field(kw_only=True, repr=False, compare=False)

    def is_clear(self, choice: Choice) -> bool:
        """See `Family.is_clear`. In addition, no two wishes may be ambiguous in their order."""
        return super().is_clear(choice) and not any(self._can_be_swapped(choice, pair) for pair in self._doubtful(choice))

    def _doubtful(self, choice: Choice) -> list[tuple[str, str]]:
        """Pairs of chosen steps on the same side of the core with sentences that do not determine their order."""
        chosen = {topic.name for topic, option in zip(self.topics, choice, strict=True) if option}
        return [
            (a.topic.name, b.topic.name)
            for side in (self.domain.before, self.domain.after)
            for a, b in itertools.combinations([step for step in side if step.topic.name in chosen], 2)
            if a.order >= b.order
        ]

    def _can_be_swapped(self, choice: Choice, pair: tuple[str, str]) -> bool:
        names = [step.topic.name for step in self.domain.steps]
        first, second = map(names.index, pair)
        names[first], names[second] = names[second], names[first]
        swapped = replace(self, template=self.domain.template(self.base, names))
        return swapped.values(choice) != self.values(choice)
