"""Find the attribute that a question is about: likeness to the example questions of each attribute.

Two measures are added. The word vectors with which the simulated human of ColBench understands questions compare whole texts, as its `TopicIndex`
does. They know what is similar, but were trained on questions about programs. So the words are also compared one by one: a word of the question
counts by its rarity among the examples, fully if it has the stem of a word of the example, in part if its vector is close.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colbench_gym.simulators.understanding.stems import stem
from colbench_gym.simulators.understanding.topic_index import MEAN_SHARE, NEAREST
from colbench_gym.simulators.understanding.word_vectors import text_vectors

#: Share of whole texts in a score; the rest is that of words.
TEXT_SHARE = 0.4
#: Minimal likeness of two words that counts, and its weight.
CLOSE, CLOSE_SHARE = 0.5, 0.8
#: Weight of words that no example has, as a share of that of the rarest word.
UNKNOWN_SHARE = 0.6

_WORD = re.compile(r"[a-z0-9]+")
Scores = NDArray[np.float64]


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(text.lower().replace("'s", ""))))


class AttributeIndex:
    """Scores of attributes for a text. Immutable, so that threads can share it.

    Args:
        questions: Examples of questions about each attribute.
    """

    def __init__(self, questions: Sequence[tuple[str, ...]]) -> None:
        phrases = [text for group in questions for text in group]
        texts = [_words(text) for text in phrases]
        sizes = np.array([len(group) for group in questions])
        self._texts = text_vectors(phrases)
        # Row i: the places of the examples of attribute i, filled up with a place beyond the last one.
        self._owned = np.full((len(questions), max(int(sizes.max(initial=1)), NEAREST)), len(phrases))
        self._owned[np.arange(self._owned.shape[1]) < sizes[:, None]] = np.arange(len(phrases))
        self._nearest = np.minimum(sizes, NEAREST)
        stems = [[stem(word) for word in words] for words in texts]
        counts = Counter(word for words in stems for word in set(words))
        self._place = {word: i for i, word in enumerate(sorted(counts))}
        shown = {stem(word): word for words in texts for word in words}
        self._vectors = text_vectors([shown[word] for word in self._place])
        self._rarest = math.log(1 + len(texts))
        self._weights = np.array([math.log(1 + len(texts) / counts[word]) - math.log(2) for word in self._place])
        self._rows = np.full((len(texts), max(map(len, stems), default=1)), len(self._place))
        for row, words in zip(self._rows, stems, strict=True):
            row[: len(words)] = [self._place[word] for word in words]
        padded = np.append(self._weights, 0.0)
        self._totals = padded[self._rows].sum(axis=1)

    def scores(self, text: str) -> Scores:
        """Scores of a text for each attribute, in [-1, 1], shape (attributes,)."""
        by_text = np.append(np.asarray(text_vectors([text])[0] @ self._texts.T, np.float64), 0.0)[self._owned]
        by_text[self._owned == len(self._texts)] = -np.inf
        best = np.sort(by_text, axis=1)[:, -NEAREST:]
        mean = np.where(np.isfinite(best), best, 0.0).sum(axis=1) / self._nearest
        by_words = np.append(self._word_scores(_words(text)), 0.0)[self._owned].max(axis=1)
        return np.asarray(
            TEXT_SHARE * ((1 - MEAN_SHARE) * best[:, -1] + MEAN_SHARE * mean) + (1 - TEXT_SHARE) * by_words, np.float64
        )

    def _word_scores(self, words: list[str]) -> Scores:
        """Shared words of a text and each example: their weight over the geometric mean of both texts' weights; shape (examples,)."""
        if not words:
            return np.zeros(len(self._rows))
        likeness = np.asarray(text_vectors(words) @ self._vectors.T, np.float64)
        likeness = np.where(likeness >= CLOSE, CLOSE_SHARE * likeness, 0.0)
        weights = np.full(len(words), UNKNOWN_SHARE * self._rarest)
        for i, word in enumerate(words):
            place = self._place.get(stem(word))
            if place is not None:
                likeness[i] = 0.0
                likeness[i, place] = 1.0
                weights[i] = self._weights[place]
        padded = np.append(likeness, np.zeros((len(words), 1)), axis=1)
        totals = padded[:, self._rows].max(axis=2)
        shared = weights @ totals
        return np.asarray(shared / np.sqrt(np.maximum(weights.sum() * self._totals, 1e-9)), np.float64)
