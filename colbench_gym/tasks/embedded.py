"""The embedded tasks: families of requests at a dial. Each family has many tasks, which differ in their hidden specification.

Splits, in the order of their distance from train:
    train: tasks of the seen families.
    test: other specifications of the same families. Their functions do not occur in train, for any family at any dial.
    unseen: families that do not occur in train: new combinations of topics and base functions that do occur in train.
    novel: base functions that do not occur in train, with topics of their own (and a few common ones, such as rounding). This split is
        for pretrained models.

All splits except novel consist of families that are composed of a base function and wishes, in the domains ``figures`` and ``entries``. Novel
has the composed domain ``texts`` and the written domains ``travel``, ``metering`` and ``library``. `colbench_gym.tasks.families.domain` says
what a domain is.

A name may set the dial of `colbench_gym.tasks.dial`: ``train?preset=hard``, ``test/figures?topics=8&turns=5``. Tasks are built in a fixed
order: a name gives the same tasks on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from functools import cache, lru_cache, partial
from itertools import islice

from colbench_gym.tasks.dial import STANDARD, Dial, parse_dial
from colbench_gym.tasks.families.domain import read_domain
from colbench_gym.tasks.families.family import Choice, Family
from colbench_gym.tasks.task import BUDGET, Fact, HiddenTask, Task
from sandboxes.named import nearest

#: The domains of each split.
SPLITS: dict[str, tuple[str, ...]] = {
    "train": ("figures", "entries"),
    "test": ("figures", "entries"),
    "unseen": ("figures", "entries"),
    "novel": ("travel", "metering", "library", "texts"),
}
#: One in this number of functions is reserved for test, and as many for unseen.
FUNCTION_SHARES = 5
#: Maximal number of alternatives of a task, for the time that finding them takes.
MOST_ALTERNATIVES = 300
#: Maximal number of tasks of a family in each split.
TASKS_PER_FAMILY = {"test": 2, "train": 11, "unseen": 6, "novel": 6}


@cache
def embedded_tasks(name: str) -> tuple[Task, ...]:
    """All tasks of a split or of one of its domains, alternating between families, so that the first n tasks are as mixed as the whole.

    Args:
        name: "train", "test", "unseen" or "novel", optionally with a domain ("train/figures") and a dial ("train?preset=hard").

    Raises:
        ValueError: If the split or the domain is unknown, the dial is impossible, or no family has tasks at it.
    """
    place, _, query = name.partition("?")
    split, _, domain = place.partition("/")
    if split not in SPLITS:
        raise ValueError(f"The embedded split must be one of {tuple(SPLITS)}, got {split!r}.{nearest(split, SPLITS)}")
    known = SPLITS[split]
    if domain and domain not in known:
        raise ValueError(
            f"The domain of {'embedded:' + name!r} must be one of {known}, got {domain!r}.{nearest(domain, known)}"
        )
    dial = parse_dial(query)
    chosen = (domain,) if domain else known
    columns = [
        [make_task(family, choice, dial) for choice in _choices(family, split, dial)]
        for family in families(split, dial, chosen)
    ]
    longest = max(map(len, columns), default=0)
    if not longest:
        topics, relevant = (max(bounds) for bounds in zip(*(read_domain(name).most_topics for name in chosen), strict=True))
        raise ValueError(
            f"No family of {'embedded:' + place!r} has tasks at the dial {dial.query!r}: `topics` can be at most {topics} there and "
            f"`relevant` at most {relevant}; within these, ask for fewer `wishes`."
        )
    return tuple(column[i] for i in range(longest) for column in columns if i < len(column))


def families(split: str, dial: Dial = STANDARD, of: tuple[str, ...] = ()) -> tuple[Family, ...]:
    """The families of a split, or of some domains, at a dial."""
    return tuple(family for domain in of or SPLITS[split] for family in _families_of(domain, dial, split == "unseen"))


def make_task(family: Family, choice: Choice, dial: Dial = STANDARD) -> Task:
    """The task of a family with option ``choice[i]`` on topic i."""
    facts = tuple(
        Fact(
            topic.name,
            topic.options[index].says,
            is_special=index > 0,
            phrases=(*topic.asks, *topic.paraphrases),
        )
        for topic, index in zip(family.topics, choice, strict=True)
    )
    return Task(
        id=f"embedded/{dial.name}/{family.name}/{''.join(map(str, choice))}",
        description=description(family, dial),
        signature=family.signature,
        hidden=HiddenTask(family.reference(choice), family.calls, facts, plain=family.reference((0,) * len(choice))),
        example=family.example,
        turns=dial.turns,
        points=dial.points,
    )


def description(family: Family, dial: Dial) -> str:
    """The first message of a family's simulated human at a dial. It is the same for all tasks of the family."""
    patience = " I take one question at a time." if dial.points == 1 else ""
    parts = [
        family.request,
        *family.cues,
        f"A call looks like this: {family.example}.",
        f"{BUDGET.format(dial.turns)}{patience}",
        f"The signature of the function is: {family.signature}",
    ]
    return " ".join(parts)


def family_of(task: Task) -> tuple[Family, Choice]:
    """The family of an embedded task, and its option for each topic.

    Raises:
        ValueError: If the task is not an embedded task.
    """
    source, _, rest = task.id.partition("/")
    dial, _, rest = rest.partition("/")
    name, _, digits = rest.partition("/")
    if source != "embedded" or not digits:
        raise ValueError(f"Expected an embedded task, got {task.id!r}; only those know their family.")
    return _families_by_name(dial_of(task))[name], tuple(map(int, digits))


def task_of(task_id: str) -> Task:
    """The embedded task with an id, also one that no split contains because its family has too many.

    Raises:
        ValueError: If it is no id of an embedded task.
    """
    bare = Task(task_id, "", "", HiddenTask("", ()))
    return make_task(*family_of(bare), dial_of(bare))


def alternatives(task: Task) -> tuple[Choice, ...]:
    """What the specification of an embedded task may be for one who knows its family, dial and split: choices of options, at most `MOST_ALTERNATIVES`.

    Functions of other splits are left out: training draws no function that tests use.

    Raises:
        ValueError: If the task is not an embedded task.
    """
    family, choice = family_of(task)
    split = "" if family.area in SPLITS["novel"] else _split_of(family.reference(choice))
    known = _alternatives(family, dial_of(task).wishes, split)
    return known if choice in known else (*known, choice)


@lru_cache(maxsize=1024)
def _alternatives(family: Family, wishes: tuple[int, int], split: str) -> tuple[Choice, ...]:
    return tuple(islice(family.choices(wishes, partial(_is_of, split) if split else None), MOST_ALTERNATIVES))


def dial_of(task: Task) -> Dial:
    """The dial of an embedded task."""
    name = task.id.split("/")[1]
    return parse_dial(name if "=" in name else f"preset={name}")


def dial_of_source(name: str) -> Dial:
    """The dial in the name of a source, with or without a slice; the standard dial for sources without one."""
    query = name.partition("[")[0].partition("?")[2]
    return parse_dial(query if name.startswith("embedded:") else "")


def with_dial(name: str) -> str:
    """The name of a source with its complete dial, for records of results. Names of non-embedded sources are unchanged.

    ``embedded:train?preset=hard[:50]`` -> ``embedded:train?topics=16&relevant=3&wishes=2&turns=7&points=1[:50]``
    """
    if not name.startswith("embedded:"):
        return name
    place, bracket, end = name.partition("[")
    return f"{place.partition('?')[0]}?{dial_of_source(name).query}{bracket}{end}"


def reference_knowing(task: Task, topics: Collection[str]) -> str:
    """The program of a programmer who knows the wishes on these topics only, with the plain choice on all other topics."""
    family, choice = family_of(task)
    known = (index if topic.name in topics else 0 for topic, index in zip(family.topics, choice, strict=True))
    return family.reference(tuple(known))


def one_wish_apart(task: Task) -> tuple[str, ...]:
    """The programs of the task's family with another option on one topic."""
    family, choice = family_of(task)
    return tuple(
        family.reference((*choice[:i], option, *choice[i + 1 :]))
        for i, topic in enumerate(family.topics)
        for option in range(len(topic.options))
        if option != choice[i]
    )


@cache
def _families_of(domain: str, dial: Dial, is_unseen: bool) -> tuple[Family, ...]:
    return tuple(read_domain(domain).families(dial, is_unseen))


def all_families(dial: Dial = STANDARD) -> tuple[Family, ...]:
    """The families of all splits at a dial."""
    return tuple(family for split in ("train", "unseen", "novel") for family in families(split, dial))


@cache
def _families_by_name(dial: Dial) -> dict[str, Family]:
    return {family.name: family for family in all_families(dial)}


def _choices(family: Family, split: str, dial: Dial) -> Iterator[Choice]:
    """The choices of a family's tasks in a split. A function occurs in one split only, for any family and dial."""
    is_wanted = None if split == "novel" else partial(_is_of, split)
    return islice(family.choices(dial.wishes, is_wanted), TASKS_PER_FAMILY[split])


def _is_of(split: str, reference: str) -> bool:
    return _split_of(reference) == split


def _split_of(reference: str) -> str:
    """The split of a function. It depends on the function only: a test function of one family must not be in train for another."""
    share = int.from_bytes(hashlib.sha256(reference.encode()).digest()[:4], "big") % FUNCTION_SHARES
    return ("test", "unseen")[share] if share < 2 else "train"
