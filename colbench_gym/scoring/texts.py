"""Similarity of texts by their letters: Dice's coefficient, for two texts or for all pairs of two lists at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_CHAR_BITS = 21  # of a Unicode code point; three code points fit into 63 bits


@lru_cache(maxsize=2**14)  # only few texts of a page change between steps
def text_likeness(a: str, b: str) -> float:
    """Dice's coefficient of the letter bigrams of two texts, in [0, 1]. Ignores case and white space. Linear in their lengths.

    Source: Dice, 1945, Ecology 26.
    """
    a, b = _letters(a), _letters(b)
    if a == b:
        return 1.0
    if len(a) < 2 or len(b) < 2:
        return 0.0
    pairs_a, pairs_b = (Counter(zip(text, text[1:], strict=False)) for text in (a, b))
    return 2 * (pairs_a & pairs_b).total() / (pairs_a.total() + pairs_b.total())


def likeness_table(shown: Sequence[str], wanted: Sequence[str]) -> Floats:
    """`text_likeness` of each text with each wanted text, shape (own, wanted).

    The time grows with the number of common letter bigrams. It is at most the product of both numbers of texts and the longest length.
    """
    from scipy.sparse import csr_matrix

    texts = [_letters(text) for text in (*shown, *wanted)]
    rows, columns = _occurrences(texts)
    marks = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(texts), int(columns.max(initial=0)) + 1))
    shared = (marks[: len(shown)] @ marks[len(shown) :].T).toarray()
    totals = np.array([max(len(text) - 1, 0) for text in texts])
    sums = totals[: len(shown), None] + totals[None, len(shown) :]
    number: dict[str, int] = {}
    numbers = np.array([number.setdefault(text, len(number)) for text in texts])
    return np.where(numbers[: len(shown), None] == numbers[None, len(shown) :], 1.0, 2 * shared / np.maximum(sums, 1))


def _letters(text: str) -> str:
    return "".join(text.lower().split())


def _occurrences(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(text, feature) of each letter bigram. The n-th occurrence of a bigram in a text is a separate feature."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
    rows = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    is_inside = rows[1:] == rows[:-1]
    pairs, rows = ((codes[:-1] << _CHAR_BITS) | codes[1:])[is_inside], rows[1:][is_inside]
    order = np.lexsort((pairs, rows))
    pairs, rows = pairs[order], rows[order]
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (pairs[1:] != pairs[:-1]) | (rows[1:] != rows[:-1])
    places = np.arange(len(rows))
    times = places - np.maximum.accumulate(np.where(is_first, places, 0))
    _, columns = np.unique((pairs << _CHAR_BITS) | np.minimum(times, 2**_CHAR_BITS - 1), return_inverse=True)
    return rows, columns.astype(np.int64)
