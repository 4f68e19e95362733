"""Static word vectors: the vector of a text is the normalised sum of its words' vectors, so that similar questions are close.

The table was distilled from a small sentence encoder and trained so that phrases about one topic are closer to each other than to phrases
about other topics of the same family (``benchmarks/word_vectors.py``). The length of a vector is the weight of its word. Symbols, such
as a negative number or an empty list, count as words of their own. No model is needed at run time.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
_CONTRACTION = re.compile(r"[’'](?:s|re|ve|ll|d|m)\b")
_NOT = re.compile(r"n[’']t\b")
_TOKEN = re.compile(r"[a-z]+|\d+|[%@$€#&+]")
_CAPITALS = re.compile(r"\b(?!VAT|OK|ID|URL|CSV|API|ISO|GDPR|EUR|USD|UTC|JSON|SQL)[A-Z]{2,}\b")
#: Token for every number except zero.
NUMBER = "7"
#: Symbols and their meanings. The vector of a meaning is the initial vector in training.
SIGNS: dict[str, tuple[str, str]] = {
    "<minus>": (r"(?<![\w)\]])[-−]\s?\d", "negative number below zero"),
    "<digits>": (r"\d[.,]\d{3,}", "many decimal places"),
    "<decimal>": (r"\d\.\d", "decimal number with a fraction"),
    "<thousands>": (r"(?<![.\d])\d{4,}|\d,\d{3}\b", "very large number"),
    "<blank>": (r"(?<!\w)(?:'\s*'|\"\s*\")(?!\w)", "empty string or blank text"),
    "<padded>": (r"(?<!\w)['\"](?:\s+\w|\w[^'\"]{0,30}\s{2,}['\"]|\w+\s['\"])", "surrounding spaces"),
    "<nothing>": (r"\[\s*\]|\{\s*\}", "empty list"),
    "<none>": (r"\bNone\b(?! of)|\bNaN\b|\bnull\b", "None, not a value"),
    "<tuple>": (r"\(\s*['\"\d(-][^()\n]{0,40},", "a tuple"),
    "<list>": (r"\[\s*['\"\d(-]", "a list"),
    "<capitals>": (_CAPITALS.pattern, "capital letters"),
    "<accent>": ("[À-ÖØ-öø-ɏ]", "letters with accents"),
    "<arrow>": (r"->|=>|→", "becomes"),
}
_SIGNS = {name: re.compile(pattern) for name, (pattern, _) in SIGNS.items()}
#: Token for a text that has the same word in small and in capital letters.
CASING = "<casing>"
#: Maximal number of letters removed from the end of an unknown word, and minimal number left; minimal and maximal length of a misspelt word.
MAX_ENDING, MIN_BEGINNING = 5, 5
MIN_MISSPELT, MAX_MISSPELT = 5, 16
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def tokens(text: str) -> list[str]:
    """The distinct words of a text in order: lower case, no contractions, one token for all numbers except zero; then its symbols."""
    plain = _CONTRACTION.sub("", _NOT.sub(" not", text.lower()))
    if not plain.isascii():
        plain = unicodedata.normalize("NFKD", plain)
        plain = "".join(char for char in plain if not unicodedata.combining(char))
    words = [NUMBER if word.isdigit() and word != "0" else word for word in _TOKEN.findall(plain)]
    return list(dict.fromkeys([*words, *_signs(text)]))


def _signs(text: str) -> Iterator[str]:
    yield from (name for name, pattern in _SIGNS.items() if pattern.search(text))
    if _casings(set(re.findall(r"[A-Za-z]{3,}", text))):
        yield CASING


def _casings(written: set[str]) -> bool:
    """True if a word occurs in two casings. A short word counts only if one of them is all capitals: else it may start a sentence."""
    by_word: dict[str, set[str]] = {}
    for word in written:
        by_word.setdefault(word.lower(), set()).add(word)
    return any(len(ways) > 1 and (word.upper() in ways or len(word) > 4) for word, ways in by_word.items())


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
    """Row of a word, of its longest known prefix ("capital" for "capitalizing"), or of a word at edit distance 1; -1 if unknown."""
    rows = _table()[0]
    endings = range(len(word), max(len(word) - MAX_ENDING, MIN_BEGINNING) - 1, -1)
    candidates = (word[:end] for end in (len(word), *endings))
    row = next((rows[candidate] for candidate in candidates if candidate in rows), -1)
    if row >= 0 or not MIN_MISSPELT <= len(word) <= MAX_MISSPELT:
        return row
    return next((rows[candidate] for candidate in _one_letter_off(word) if candidate in rows), -1)


def _one_letter_off(word: str) -> Iterator[str]:
    """Words at edit distance 1: two letters swapped, one missing, one added, one replaced."""
    halves = [(word[:cut], word[cut:]) for cut in range(len(word) + 1)]
    yield from (head + tail[1] + tail[0] + tail[2:] for head, tail in halves if len(tail) > 1)
    yield from (head + letter + tail for head, tail in halves for letter in _LETTERS)
    yield from (head + tail[1:] for head, tail in halves if tail)
    yield from (head + letter + tail[1:] for head, tail in halves if tail for letter in _LETTERS)


@cache
def _table() -> tuple[dict[str, int], Vectors]:
    """Row of each word, and the vectors."""
    with (resources.files(__package__) / "word_vectors.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        words = bytes(stored["words"]).decode().split()
        vectors = stored["directions"].astype(np.float32) * stored["scales"].astype(np.float32)[:, None]
    return {word: row for row, word in enumerate(words)}, vectors
