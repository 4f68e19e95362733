"""Static word vectors: a text is the normalised sum of its words' vectors, so that like questions lie close together.

The table was distilled from a small sentence encoder and trained so that phrases about one topic lie closer to each other than to those about other
topics of the same family. Each vector's length is the weight of its word. No model is needed at run time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
_CONTRACTION = re.compile(r"[’'](?:s|re|ve|ll|d|m)\b")
_NOT = re.compile(r"n[’']t\b")
_TOKEN = re.compile(r"[a-z]+|\d+|[%@$€#&]")
#: Stands for every number but zero.
NUMBER = "7"
#: An unknown word may lose so many letters at its end, and must keep so many.
MAX_ENDING, MIN_BEGINNING = 5, 5


def tokens(text: str) -> list[str]:
    """The different words of a text in order: lower case, no contractions, all numbers but zero alike."""
    plain = _CONTRACTION.sub("", _NOT.sub(" not", text.lower()))
    return list(dict.fromkeys(NUMBER if word.isdigit() and word != "0" else word for word in _TOKEN.findall(plain)))


def text_vectors(texts: Sequence[str]) -> Vectors:
    """Unit vectors of texts, shape (texts, size); zero for a text without a known word."""
    table = _table()[1]
    vectors = np.zeros((len(texts), table.shape[1]), np.float32)
    for number, text in enumerate(texts):
        known = [row for word in tokens(text) if (row := _row(word)) >= 0]
        if known:
            vectors[number] = table[known].sum(axis=0)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9), np.float32)


@lru_cache(maxsize=65536)
def _row(word: str) -> int:
    """Row of a word, or of the longest known beginning of it ("capital" for "capitalizing"); -1 for an unknown word."""
    rows = _table()[0]
    endings = range(len(word), max(len(word) - MAX_ENDING, MIN_BEGINNING) - 1, -1)
    return next((rows[word[:end]] for end in (len(word), *endings) if word[:end] in rows), -1)


@cache
def _table() -> tuple[dict[str, int], Vectors]:
    """Row of each word, and the vectors."""
    with (resources.files("colbench_gym.simulators") / "word_vectors.npz").open("rb") as file:
        stored = np.load(file)
        words = bytes(stored["words"]).decode().split()
        vectors = stored["directions"].astype(np.float32) * stored["scales"].astype(np.float32)[:, None]
    return {word: row for row, word in enumerate(words)}, vectors
