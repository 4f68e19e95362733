"""Classify a text by topic and kind of question, using example questions that people wrote about each of them."""

from __future__ import annotations

import tomllib
from functools import cache, lru_cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from colbench_gym.simulators.understanding.word_vectors import Vectors, text_vectors
from colbench_gym.tasks.families.domain import read_phrases

#: The score of a topic combines its nearest phrase and, with this weight, the mean of its nearest few phrases.
MEAN_SHARE, NEAREST = 0.5, 3
CACHED_TOPICS, CACHED_INDICES = 4096, 1024
#: Classes of a text besides the topics. "statement": it asks nothing; "none": a subject on which nobody has a preference.
KINDS = ("argument", "example", "returned", "malformed", "blanket", "statement", "none")

Phrases = tuple[tuple[str, ...], ...]
Scores = NDArray[np.float64]


class TopicIndex:
    """An index over the topics of a task and the kinds of question. It is immutable, so threads can share it.

    Args:
        phrases: For each topic, example questions about it.
    """

    def __init__(self, phrases: Phrases) -> None:
        groups = [*map(_vectors, phrases), *map(_vectors, _kind_phrases())]
        ends = np.cumsum([len(group) for group in groups])
        self._vectors = np.concatenate(groups)
        self._rows = [slice(end - len(group), end) for group, end in zip(groups, ends, strict=True)]

    def scores(self, texts: list[str]) -> Scores:
        """Scores of each text for each topic, then for each of `KINDS`, in [-1, 1], shape (texts, topics + kinds)."""
        likeness = text_vectors(texts) @ self._vectors.T
        scores = np.full((len(texts), len(self._rows)), -1.0)
        for number, rows in enumerate(self._rows):
            if rows.start < rows.stop:
                nearest = np.partition(likeness[:, rows], -min(NEAREST, rows.stop - rows.start), axis=1)[:, -NEAREST:]
                scores[:, number] = (1 - MEAN_SHARE) * nearest.max(axis=1) + MEAN_SHARE * nearest.mean(axis=1)
        return scores


@lru_cache(maxsize=CACHED_INDICES)
def topic_index(phrases: Phrases) -> TopicIndex:
    """The index of a task's phrases, built once."""
    return TopicIndex(phrases)


@lru_cache(maxsize=CACHED_TOPICS)
def _vectors(phrases: tuple[str, ...]) -> Vectors:
    return text_vectors(phrases)


@cache
def _kind_phrases() -> Phrases:
    texts = tomllib.loads((resources.files(__package__) / "question_kinds.toml").read_text(encoding="utf-8"))
    return tuple(read_phrases(texts[kind]) for kind in KINDS)
