"""Texts that people wrote about the topics of families: cues for requests, and paraphrased questions.

The folder ``wordings`` has one JSON file per domain. It holds an example call for each family, cues and paraphrases for each topic, and
the decoys of the domain: topics that are plausible for all its families and never have a wish.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from colbench_gym.tasks.families.family import Family, Option, Topic


@cache
def read_wordings(domain: str) -> Mapping[str, Any]:
    """The file of a domain."""
    text = (resources.files("colbench_gym.tasks.families") / "wordings" / f"{domain}.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


def worded(family: Family, words: Mapping[str, Any]) -> Family:
    """A family with its example, and with cues and paraphrases of its topics."""
    return replace(family, example=words["example"], topics=tuple(worded_topics(family.topics, words["topics"])))


def worded_topics(topics: Iterable[Topic], words: Mapping[str, Any]) -> Iterable[Topic]:
    """Topics with their cues and paraphrases."""
    return (
        replace(topic, cues=tuple(words[topic.name]["cues"]), paraphrases=tuple(words[topic.name]["paraphrases"]))
        for topic in topics
    )


def decoys(domain: str) -> tuple[Topic, ...]:
    """Topics that never have a wish, the most common first."""
    return tuple(
        Topic(row["name"], tuple(row["asks"]), (Option(row["says"], {}),), paraphrases=tuple(row["paraphrases"]))
        for row in read_wordings(domain)["decoys"]
    )
