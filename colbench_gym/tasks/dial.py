"""The dial: difficulty of the embedded tasks, as in ``embedded:train?topics=12&relevant=3&wishes=2&turns=6``, or a preset."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any

from sandboxes.named import nearest

#: Bounds given by the sizes of the topic pools.
MOST_TOPICS, MOST_RELEVANT = 20, 6
_COUNT = re.compile(r"[0-9]{1,9}")
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


@dataclass(frozen=True)
class Dial:
    """Difficulty settings of a source of embedded tasks.

    Attributes:
        topics: Number of topics on a family's list, i.e. topics that an agent might ask about.
        relevant: Number of topics that can have a wish in the family. The request has a cue for each.
        wishes: Minimal and maximal number of wishes in a task.
        turns: Agent turns of an episode, including the answer.
        points: Number of points in one message that the simulated human answers: 1 or 2.

    Raises:
        ValueError: If no task can have these numbers.
    """

    topics: int = 12
    relevant: int = 3
    wishes: tuple[int, int] = (2, 2)
    turns: int = 6
    points: int = 1

    def __post_init__(self) -> None:
        fewest, most = self.wishes
        for holds, bound in (
            (1 <= self.topics <= MOST_TOPICS, f"`topics` must be from 1 to {MOST_TOPICS}, got {self.topics}"),
            (1 <= self.relevant <= MOST_RELEVANT, f"`relevant` must be from 1 to {MOST_RELEVANT}, got {self.relevant}"),
            (self.relevant <= self.topics, f"`relevant` must be at most `topics`={self.topics}, got {self.relevant}"),
            (1 <= fewest <= most, f"`wishes` must be a number from 1 on, or a range such as 2-4, got {fewest}-{most}"),
            (most <= self.relevant, f"`wishes` must be at most `relevant`={self.relevant}, got {most}"),
            (self.turns >= most + 1, f"`turns` must be at least `wishes` + 1 = {most + 1}, got {self.turns}"),
            (self.turns <= 100, f"`turns` must be at most 100, got {self.turns}"),
            (self.points in (1, 2), f"`points` must be 1 or 2, got {self.points}"),
        ):
            if not holds:
                raise ValueError(f"No embedded task can have this dial: {bound}.")

    @property
    def name(self) -> str:
        """The name of the preset if the dial is one, else the dial as a query. Part of task ids."""
        return next((name for name, preset in PRESETS.items() if preset == self), self.query)

    @property
    def query(self) -> str:
        """The complete dial as a query, as it is written after a ``?``."""
        fewest, most = self.wishes
        wishes = str(most) if fewest == most else f"{fewest}-{most}"
        return f"topics={self.topics}&relevant={self.relevant}&wishes={wishes}&turns={self.turns}&points={self.points}"


PRESETS = {
    "easy": Dial(topics=5, relevant=5, wishes=(2, 4), turns=10, points=2),
    "standard": Dial(),
    "hard": Dial(topics=16, relevant=3, wishes=(2, 2), turns=7),
}
STANDARD = PRESETS["standard"]


def parse_dial(query: str) -> Dial:
    """Parse a query such as ``preset=hard`` or ``topics=16&turns=8``. Missing settings come from the preset, or from standard.

    Raises:
        ValueError: If a setting is unknown, not a number, repeated, or incompatible with the others.
    """
    given: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        if name not in _SETTINGS:
            raise ValueError(f"A dial may set {', '.join(_SETTINGS)}, got {name!r} in {query!r}.{nearest(name, _SETTINGS)}")
        if name in given:
            raise ValueError(f"A dial may set each number once, got {name!r} twice in {query!r}.")
        given[name] = value
    preset = given.pop("preset", "standard")
    if preset not in PRESETS:
        raise ValueError(f"`preset` must be one of {tuple(PRESETS)}, got {preset!r}.{nearest(preset, PRESETS)}")
    return replace(PRESETS[preset], **{name: _number(name, value) for name, value in given.items()})


_SETTINGS = ("preset", *(setting.name for setting in fields(Dial)))


def _number(name: str, value: str) -> Any:
    if name == "wishes" and (match := _RANGE.fullmatch(value)):
        return int(match[1]), int(match[2])
    if not _COUNT.fullmatch(value):
        raise ValueError(
            f"`{name}` of a dial must be a positive whole number{' or a range such as 2-4' * (name == 'wishes')}, got {value!r}."
        )
    return (int(value), int(value)) if name == "wishes" else int(value)
