"""Which topics a question is about, by the phrases in which other people asked about each of them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from colbench_gym.simulators.word_vectors import text_vectors

#: What a topic scores: its nearest phrase, and in this part the mean of its nearest few.
MEAN_SHARE, NEAREST = 0.5, 3
CACHED_INDICES = 1024

Phrases = tuple[tuple[str, ...], ...]


class TopicIndex:
    """The topics of a task, ready for questions. Immutable, so threads share it.

    Args:
        phrases: For each topic, questions about it.
    """

    def __init__(self, phrases: Phrases) -> None:
        self._vectors = text_vectors([phrase for topic in phrases for phrase in topic])
        ends = np.cumsum([len(topic) for topic in phrases], dtype=np.int64)
        self._topics = [slice(end - len(topic), end) for topic, end in zip(phrases, ends, strict=True)]

    def scores(self, texts: list[str]) -> NDArray[np.float64]:
        """How much each text is about each topic, from -1 to 1, shape (texts, topics)."""
        likeness = text_vectors(texts) @ self._vectors.T
        found = np.full((len(texts), len(self._topics)), -1.0)
        for number, rows in enumerate(self._topics):
            nearest = np.sort(likeness[:, rows], axis=1)[:, -NEAREST:]
            if nearest.shape[1]:
                found[:, number] = (1 - MEAN_SHARE) * nearest[:, -1] + MEAN_SHARE * nearest.mean(axis=1)
        return found


@lru_cache(maxsize=CACHED_INDICES)
def topic_index(phrases: Phrases) -> TopicIndex:
    """The index of a task's phrases, built once."""
    return TopicIndex(phrases)
