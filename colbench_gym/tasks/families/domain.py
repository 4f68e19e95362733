"""The domains of the embedded tasks. Each is a TOML file of this folder, and the only place where its families are described.

A topic is a table with these keys:
    name: Short name, one word.
    asks: Questions with which an agent may ask about it.
    options: A list of [sentence] or [sentence, code]. The first option is the plain choice, the others are wishes. The code fills the slot
        with the topic's name; a table instead of a text fills several slots: ``{ start = "0", rent = "bill += 2" }``.
    cues: Sentences for a request, which hint at the topic.
    paraphrases: Questions about it in the words of several people.

Questions and cues stand one or more on a line, with " | " between them.

The file of a *composed* domain has ``parameters``, ``opening``, ``result``, ``calls`` and ``example`` of its functions, ``[[bases]]`` (name,
request, core), and ``[[topics]]``, each with the ``side`` of the core on which its step stands and its ``order`` (see `Step`). The file of a
*written* domain has ``[[families]]`` (name, parameters, request, example, calls, body), each with its own ``[[families.topics]]``. Both have
``[[decoys]]``: topics that are plausible for all families of the domain and never have a wish, the most common first.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from colbench_gym.tasks.dial import Dial
from colbench_gym.tasks.families.composed import Base, ComposedDomain, Step
from colbench_gym.tasks.families.family import Family, Option, Topic


@dataclass(frozen=True)
class WrittenDomain:
    """A domain of families that were written one by one.

    Attributes:
        name: Name of the domain.
        whole: The families with all of their own topics and no decoys.
        decoys: Topics that never have a wish, the most common first.
    """

    name: str
    whole: tuple[Family, ...]
    decoys: tuple[Topic, ...]

    def families(self, dial: Dial, is_unseen: bool) -> tuple[Family, ...]:
        """The families that have enough topics for a dial. They are the same in every split."""
        fitted = (family.within(dial.topics, dial.relevant, self.decoys) for family in self.whole)
        return tuple(family for family in fitted if family is not None)

    @property
    def most_topics(self) -> tuple[int, int]:
        """The length of the longest topic list, and the largest number of relevant topics."""
        most = max(len(family.topics) for family in self.whole)
        return most + len(self.decoys), most


@cache
def read_domain(name: str) -> ComposedDomain | WrittenDomain:
    """The domain of a name, such as "figures" (composed) or "travel" (written)."""
    rows = tomllib.loads((resources.files(__package__) / f"{name}.toml").read_text(encoding="utf-8"))
    decoys = tuple(map(_topic, rows["decoys"]))
    if "families" in rows:
        return WrittenDomain(name, tuple(_family(row, name) for row in rows["families"]), decoys)
    steps = [(row["side"], Step(_topic(row), row.get("order", 0))) for row in rows["topics"]]
    return ComposedDomain(
        name=name,
        bases=tuple(_base(base, rows) for base in rows["bases"]),
        before=tuple(step for side, step in steps if side == "before"),
        after=tuple(step for side, step in steps if side == "after"),
        decoys=decoys,
        result=rows["result"],
        opening=rows.get("opening", ""),
    )


def read_phrases(text: str) -> tuple[str, ...]:
    """The phrases of a text that has one or more on a line, with " | " between them."""
    return tuple(phrase for line in text.splitlines() for phrase in line.split(" | "))


def _topic(row: Mapping[str, Any]) -> Topic:
    options = tuple(_option(row["name"], *option) for option in row["options"])
    return Topic(
        row["name"], read_phrases(row["asks"]), options, read_phrases(row.get("cues", "")), read_phrases(row["paraphrases"])
    )


def _option(topic: str, says: str, code: str | dict[str, str] = "") -> Option:
    slots = code if isinstance(code, dict) else {topic: code} if code else {}
    return Option(says, slots)


def _base(row: Mapping[str, Any], shared: Mapping[str, Any]) -> Base:
    name = row["name"]
    calls = tuple(f"{name}({arguments})" for arguments in shared["calls"])
    signature = f"def {name}({shared['parameters']})"
    return Base(name, row["request"], signature, row["core"], calls, f"{name}({shared['example']})")


def _family(row: Mapping[str, Any], domain: str) -> Family:
    name = row["name"]
    signature = f"def {name}({row['parameters']})"
    return Family(
        name=name,
        area=domain,
        request=row["request"],
        signature=signature,
        template=f"{signature}:\n{row['body']}",
        topics=tuple(map(_topic, row["topics"])),
        calls=tuple(f"{name}({arguments})" for arguments in row["calls"]),
        example=f"{name}({row['example']})",
    )
