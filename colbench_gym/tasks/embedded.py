"""The embedded tasks: hand-written families, each with every hidden specification that its topics allow.

Splits:
    train: tasks of the seen families.
    test: other specifications of the same families, none of which stands in train.
    unseen: tasks of families that train never shows.

A split's tasks of one domain alone, such as ``train/billing``, are a smaller problem: three or four families.

Everything is built from the families in a fixed order: the same task has the same id on every machine.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Collection, Sequence
from functools import cache

from colbench_gym.tasks.families.family import Family
from colbench_gym.tasks.task import Fact, HiddenTask, Task

SPLITS = ("train", "test", "unseen")
SEEN_DOMAINS = (
    "billing", "fees", "inventory", "stock", "scheduling", "rosters",
    "text", "labels", "validation", "records", "scoring", "ranking",
)  # fmt: skip
UNSEEN_DOMAINS = ("travel", "metering", "library")
TEST_TASKS_PER_FAMILY = 8
TRAIN_TASKS_PER_FAMILY = 50
UNSEEN_TASKS_PER_FAMILY = 25


def families(seen: bool) -> tuple[Family, ...]:
    """The families of train and test (`seen`), or those of the unseen split."""
    return tuple(family for name in (SEEN_DOMAINS if seen else UNSEEN_DOMAINS) for family in _families_of(name))


@cache
def embedded_tasks(name: str) -> tuple[Task, ...]:
    """All tasks of a split or of a domain in it, families taking turns: the first n tasks are as mixed as the whole.

    Args:
        name: "train", "test", "unseen", or with a domain: "train/billing".

    Raises:
        ValueError: If the split or the domain is unknown.
    """
    split, _, domain = name.partition("/")
    if split not in SPLITS:
        raise ValueError(f"The embedded split must be one of {SPLITS}, got {split!r}.")
    domains = UNSEEN_DOMAINS if split == "unseen" else SEEN_DOMAINS
    if domain and domain not in domains:
        raise ValueError(f"The domain of {'embedded:' + name!r} must be one of {domains}, got {domain!r}.")
    columns = [_tasks_of(family, split) for part in ((domain,) if domain else domains) for family in _families_of(part)]
    longest = max(len(column) for column in columns)
    return tuple(column[i] for i in range(longest) for column in columns if i < len(column))


def make_task(family: Family, choice: Sequence[int]) -> Task:
    """The task of a family with option ``choice[i]`` on topic i."""
    facts = tuple(
        Fact(topic.name, topic.options[index].says, _keywords(topic.asks, topic.keywords), is_special=index > 0)
        for topic, index in zip(family.topics, choice, strict=True)
    )
    return Task(
        id=f"embedded/{family.name}/{''.join(map(str, choice))}",
        description=f"{family.request} The signature of the function is: {family.signature}",
        signature=family.signature,
        hidden=HiddenTask(family.reference(tuple(choice)), family.calls, facts),
    )


def family_of(task: Task) -> tuple[Family, tuple[int, ...]]:
    """The family of an embedded task and the option it takes on each topic.

    Raises:
        ValueError: If the task is not an embedded one.
    """
    source, _, rest = task.id.partition("/")
    name, _, digits = rest.partition("/")
    family = _families_by_name().get(name)
    if source != "embedded" or family is None:
        raise ValueError(f"Expected an embedded task, got {task.id!r}; only those know their family.")
    return family, tuple(map(int, digits))


def reference_knowing(task: Task, topics: Collection[str]) -> str:
    """What a programmer would write who was told of these topics only, and took the plain choice on all others."""
    family, choice = family_of(task)
    known = (index if topic.name in topics else 0 for topic, index in zip(family.topics, choice, strict=True))
    return family.reference(tuple(known))


def _families_of(domain: str) -> tuple[Family, ...]:
    module = importlib.import_module(f"colbench_gym.tasks.families.{domain}")
    found: tuple[Family, ...] = module.FAMILIES
    return found


@cache
def _families_by_name() -> dict[str, Family]:
    return {family.name: family for seen in (True, False) for family in families(seen)}


def _tasks_of(family: Family, split: str) -> list[Task]:
    choices = list(family.choices())
    random.Random(family.name).shuffle(choices)
    if split == "unseen":
        choices = choices[:UNSEEN_TASKS_PER_FAMILY]
    elif split == "test":
        choices = choices[:TEST_TASKS_PER_FAMILY]
    else:
        choices = choices[TEST_TASKS_PER_FAMILY:][:TRAIN_TASKS_PER_FAMILY]
    return [make_task(family, choice) for choice in choices]


def _keywords(asks: Sequence[str], keywords: Sequence[str]) -> tuple[str, ...]:
    words = [word.strip("?.,'").lower() for ask in asks for word in ask.split()]
    return tuple(dict.fromkeys((*keywords, *words)))
