"""The embedded tasks: families of requests at a dial. Each family has many tasks, which differ in their hidden specification.

Splits, in the order of their distance from train:
    train: tasks of the seen families.
    test: other specifications of the same families. Their functions do not occur in train, for any family at any dial.
    unseen: families that do not occur in train: new combinations of topics and base functions that do occur in train.
    novel: base functions that do not occur in train, with topics of their own (and a few common ones, such as rounding). This split is
        for pretrained models.

All splits except novel consist of composed families of the domains ``figures`` and ``entries``. Novel has the composed domain ``texts``
and the hand-written domains ``travel``, ``metering`` and ``library``. The other hand-written families are in separate domains:
``train/written`` has all of them, ``train/billing`` those of one trade. They are 43 different functions with a handful of tasks each at
the standard dial, which are too few for a model to learn from scratch.

A name may set the dial of `colbench_gym.tasks.dial`: ``train?preset=hard``, ``test/billing?topics=8&turns=5``. Tasks are built in a fixed
order: a name gives the same tasks on every machine.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Collection, Iterator
from functools import cache
from itertools import islice

from colbench_gym.tasks.composed.entries import ENTRIES
from colbench_gym.tasks.composed.figures import FIGURES
from colbench_gym.tasks.composed.shape import Shape
from colbench_gym.tasks.composed.texts import TEXTS
from colbench_gym.tasks.dial import STANDARD, Dial, parse_dial
from colbench_gym.tasks.families.family import Choice, Family
from colbench_gym.tasks.families.wordings import decoys, read_wordings, worded
from colbench_gym.tasks.task import BUDGET, Fact, HiddenTask, Task
from sandboxes.named import nearest

SHAPES: dict[str, Shape] = {shape.name: shape for shape in (FIGURES, ENTRIES, TEXTS)}
COMPOSED_DOMAINS = ("figures", "entries")
WRITTEN_DOMAINS = (
    "billing", "fees", "inventory", "stock", "scheduling", "rosters",
    "text", "labels", "validation", "records", "scoring", "ranking",
)  # fmt: skip
SPLITS: dict[str, tuple[str, ...]] = {
    "train": COMPOSED_DOMAINS,
    "test": COMPOSED_DOMAINS,
    "unseen": COMPOSED_DOMAINS,
    "novel": ("travel", "metering", "library", "texts"),
}
#: Domains that are only available by name.
WRITTEN = "written"
#: One in this number of functions is reserved for test, and as many for unseen.
FUNCTION_SHARES = 5
#: Maximal number of tasks of a family in each split.
TASKS_PER_FAMILY = {"test": 2, "train": 11, "unseen": 6, "novel": 6}


@cache
def embedded_tasks(name: str) -> tuple[Task, ...]:
    """All tasks of a split or of one of its domains, alternating between families, so that the first n tasks are as mixed as the whole.

    Args:
        name: "train", "test", "unseen" or "novel", optionally with a domain ("train/billing") and a dial ("train?preset=hard").

    Raises:
        ValueError: If the split or the domain is unknown, the dial is impossible, or no family has tasks at it.
    """
    place, _, query = name.partition("?")
    split, _, domain = place.partition("/")
    if split not in SPLITS:
        raise ValueError(f"The embedded split must be one of {tuple(SPLITS)}, got {split!r}.{nearest(split, SPLITS)}")
    known = domains(split)
    if domain and domain not in known:
        raise ValueError(
            f"The domain of {'embedded:' + name!r} must be one of {tuple(known)}, got {domain!r}.{nearest(domain, known)}"
        )
    dial = parse_dial(query)
    asked = known[domain] if domain else SPLITS[split]
    own = families(split, dial, asked)
    columns = [[make_task(family, choice, dial) for choice in _choices(family, split, dial)] for family in own]
    longest = max(map(len, columns), default=0)
    if not longest:
        topics, relevant = (max(bounds) for bounds in zip(*map(_longest, asked), strict=True))
        raise ValueError(
            f"No family of {'embedded:' + place!r} has tasks at the dial {dial.query!r}: `topics` can be at most {topics} there and "
            f"`relevant` at most {relevant}; within these, ask for fewer `wishes`."
        )
    return tuple(column[i] for i in range(longest) for column in columns if i < len(column))


def domains(split: str) -> dict[str, tuple[str, ...]]:
    """The domains of a split by name, including names of groups of domains."""
    single: dict[str, tuple[str, ...]] = {domain: (domain,) for domain in SPLITS[split]}
    if split not in ("train", "test"):
        return single
    return {**single, WRITTEN: WRITTEN_DOMAINS, **{domain: (domain,) for domain in WRITTEN_DOMAINS}}


def families(split: str, dial: Dial = STANDARD, of: tuple[str, ...] = ()) -> tuple[Family, ...]:
    """The families of a split, or of some domains, at a dial."""
    return tuple(family for domain in of or SPLITS[split] for family in _families_of(domain, split, dial))


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


@cache
def _families_of(domain: str, split: str, dial: Dial) -> tuple[Family, ...]:
    if domain in SHAPES:
        return tuple(SHAPES[domain].families(dial, "unseen" if split == "unseen" else "train"))
    fitted = (family.within(dial.topics, dial.relevant, decoys(domain)) for family in written_families(domain))
    return tuple(family for family in fitted if family is not None)


def _longest(domain: str) -> tuple[int, int]:
    """The longest topic list of a domain's families, and the largest number of topics that can be relevant in one of them."""
    own = SHAPES[domain].steps if domain in SHAPES else max((family.topics for family in written_families(domain)), key=len)
    return len(own) + len(decoys(domain)), len(own)


@cache
def written_families(domain: str) -> tuple[Family, ...]:
    """The hand-written families of a domain with all of their own topics and no others."""
    module = importlib.import_module(f"colbench_gym.tasks.families.{domain}")
    words = read_wordings(domain)["families"]
    return tuple(worded(family, words[family.name]) for family in module.FAMILIES)


def all_families(dial: Dial = STANDARD) -> tuple[Family, ...]:
    """Every family at a dial."""
    of_splits = (family for split in ("train", "unseen", "novel") for family in families(split, dial))
    return (*of_splits, *families("train", dial, WRITTEN_DOMAINS))


@cache
def _families_by_name(dial: Dial) -> dict[str, Family]:
    return {family.name: family for family in all_families(dial)}


def _choices(family: Family, split: str, dial: Dial) -> Iterator[Choice]:
    """The choices of a family's tasks in a split. A function occurs in one split only, for any family and dial."""
    clear = family.choices(dial.wishes)
    if split != "novel":
        clear = (choice for choice in clear if _split_of(family.reference(choice)) == split)
    return islice(clear, TASKS_PER_FAMILY[split])


def _split_of(reference: str) -> str:
    """The split of a function. It depends on the function only: a test function of one family must not be in train for another."""
    share = int.from_bytes(hashlib.sha256(reference.encode()).digest()[:4], "big") % FUNCTION_SHARES
    return ("test", "unseen")[share] if share < 2 else "train"
