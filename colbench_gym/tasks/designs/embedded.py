"""The embedded page tasks: a vague request and a hidden design.

Splits:
    train: designs of the seen layouts.
    test: other designs of the same layouts, none of which is in train.
    unseen: designs of layouts that do not occur in train.

Designs are drawn with a fixed seed: a task has the same id on every machine.
"""

from __future__ import annotations

import random
from functools import cache

from colbench_gym.tasks.designs.design import SLOTS, TRAIN_LAYOUTS, UNSEEN_LAYOUTS, Design
from colbench_gym.tasks.designs.topics import TOPICS, Topic
from colbench_gym.tasks.task import HiddenTask, Task
from sandboxes.named import nearest

SPLITS = ("train", "test", "unseen")
#: Number of designs of each topic and layout.
_COUNTS = {"train": 12, "test": 2, "unseen": 4}
#: Probability that a slot has its default option.
PLAIN = 0.4
_REQUESTS = (
    "I need a web page for {what} called {name}.",
    "Please make a page for {name}, {what}.",
    "We are {name}, {what}, and want a home page.",
)
_BY_KEY = {topic.key: topic for topic in TOPICS}


@cache
def embedded_designs(split: str) -> tuple[Task, ...]:
    """All tasks of a split, alternating between topics and layouts, so that the first n tasks are as mixed as the whole.

    Raises:
        ValueError: If the split is unknown.
    """
    if split not in SPLITS:
        raise ValueError(f"The embedded split must be one of {SPLITS}, got {split!r}.{nearest(split, SPLITS)}")
    layouts = UNSEEN_LAYOUTS if split == "unseen" else TRAIN_LAYOUTS
    cells = [(topic, layout) for topic in TOPICS for layout in layouts]
    random.Random(split).shuffle(cells)
    columns = [_designs(topic, layout, split) for topic, layout in cells]
    return tuple(make_task(column[i]) for i in range(_COUNTS[split]) for column in columns)


def make_task(design: Design) -> Task:
    """The task of a design."""
    topic = design.topic
    digits = "".join(str(options.index(design[slot])) for slot, options in SLOTS.items() if slot != "layout")
    request = _REQUESTS[len(topic.key) % len(_REQUESTS)].format(what=topic.what, name=topic.name)
    return Task(
        id=f"embedded/{topic.key}/{design['layout']}/{digits}",
        description=request,
        signature="",
        hidden=HiddenTask(design.html(), ()),
    )


def design_of(task: Task) -> Design:
    """The design of an embedded task.

    Raises:
        ValueError: If the task is not an embedded page.
    """
    source, *rest = task.id.split("/")
    if source != "embedded" or len(rest) != 3 or rest[0] not in _BY_KEY:
        raise ValueError(f"Expected an embedded page, got {task.id!r}; only those know their design.")
    key, layout, digits = rest
    slots = [slot for slot in SLOTS if slot != "layout"]
    choices = {slot: SLOTS[slot][int(digit)] for slot, digit in zip(slots, digits, strict=True)}
    return Design(_BY_KEY[key], {"layout": layout, **choices})


def _designs(topic: Topic, layout: str, split: str) -> list[Design]:
    """Distinct designs of a layout: those of test first, then those of train."""
    rng = random.Random(f"{topic.key}/{layout}")
    total = _COUNTS["unseen"] if split == "unseen" else _COUNTS["test"] + _COUNTS["train"]
    distinct: dict[tuple[str, ...], Design] = {}
    while len(distinct) < total:
        choices = {slot: options[0] if rng.random() < PLAIN else rng.choice(options) for slot, options in SLOTS.items()}
        design = Design(topic, {**choices, "layout": layout})
        distinct.setdefault(tuple(design.choices.values()), design)
    designs = list(distinct.values())
    return designs if split == "unseen" else designs[: _COUNTS["test"]] if split == "test" else designs[_COUNTS["test"] :]
