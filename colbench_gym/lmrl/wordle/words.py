"""The word lists of Wordle, and how one is named.

The lists of LMRL-Gym are not shipped: they are the lists of Wordle itself and random subsets of it (the New York Times has owned the game since 2022), and
LMRL-Gym's MIT licence cannot grant what is not its author's. Ours have the same sizes and come from SCOWL, whose terms allow redistribution with its
notices; these are in `words.json`. The original's own files are read by their path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

#: Names of our lists, by their numbers of words; each is the beginning of the next. The original has lists of the same sizes.
SIZES = ("236", "431", "826", "2315")
#: Letters of a word.
LENGTH = 5
_WORD = re.compile(f"[a-z]{{{LENGTH}}}")


def load_words(words: str | Sequence[str]) -> tuple[str, ...]:
    """The words of a list, in its order.

    Args:
        words: A name of `SIZES`; the path of a file with a word a line, of which those of five letters are taken, as in the original; or the words.

    Raises:
        ValueError: If the name is unknown, or the words are not distinct words of five lower-case letters.
    """
    if not isinstance(words, str):
        return _checked(tuple(words))
    if words in SIZES:
        return _shipped()[: int(words)]
    path = Path(words)
    if not path.is_file():
        raise ValueError(
            f"`words` must be one of {', '.join(SIZES)}, the path of a file with a word a line, or a list, got {words!r}."
        )
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    return _checked(tuple(line for line in lines if len(line) == LENGTH))


def _checked(words: tuple[str, ...]) -> tuple[str, ...]:
    for word in words:
        if not isinstance(word, str) or not _WORD.fullmatch(word):
            raise ValueError(f"`words` must have {LENGTH} lower-case letters each, got {word!r}.")
    if not words or len(set(words)) < len(words):
        raise ValueError(
            f"`words` must be at least one word and no word twice, got {len(words)} words, {len(set(words))} of them distinct."
        )
    return words


@cache
def _shipped() -> tuple[str, ...]:
    text = files("colbench_gym.lmrl.wordle").joinpath("words.json").read_text("utf-8")
    return tuple(word for line in json.loads(text)["words"] for word in line.split())
