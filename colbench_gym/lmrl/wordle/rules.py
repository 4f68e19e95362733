"""The rules of Wordle on one list: replies to guesses, and the words that agree with them.

Words are meant by their position in the list. A *reply* is one letter for each letter of the guess: g (green, right place), y (yellow, elsewhere in the
secret), b (black). It is computed as a number, base 3 with b = 0, y = 1, g = 2. What an agent knows is a set of words, those that agree with all replies,
as a tuple in the order of the list; nothing else of the dialogue matters but the tries that are left.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from colbench_gym.lmrl.wordle.words import LENGTH, load_words

#: Rules of replies: LMRL-Gym's, and Wordle's own.
ORIGINAL, STANDARD = "original", "standard"
COLORS = "byg"
NUM_REPLIES = len(COLORS) ** LENGTH
#: The reply to a right guess.
SOLVED = NUM_REPLIES - 1
#: Positions in the list of the words that agree with all replies, ascending.
Knowledge = tuple[int, ...]
_REPLY = re.compile(rf"\s*(?:[a-z]:)?([{COLORS}])" * LENGTH + r"\s*")


class Rules:
    """The replies of one list of words.

    Attributes:
        words: The list.
        feedback: "original": a letter that occurs anywhere in the secret is yellow if it is not green, however often it was guessed. "standard": it is yellow
            at most as often as the secret has it beside the green ones, from the left.
        all: Knowledge before the first guess.
    """

    def __init__(self, words: Sequence[str], feedback: str = ORIGINAL) -> None:
        """Set up the rules; replies are computed for a guess when it is first made."""
        if feedback not in (ORIGINAL, STANDARD):
            raise ValueError(f"`feedback` must be {ORIGINAL!r} or {STANDARD!r}, got {feedback!r}.")
        self.words, self.feedback = tuple(words), feedback
        self.all: Knowledge = tuple(range(len(self.words)))
        self._positions = {word: position for position, word in enumerate(self.words)}
        self._letters = np.array([list(word.encode()) for word in self.words], dtype=np.uint8)
        self._replies: dict[int, bytes] = {}

    def position(self, word: str) -> int | None:
        """Position of a word in the list; None if it is not there."""
        return self._positions.get(word)

    def read(self, text: str, is_exact: bool = False) -> int | None:
        """Position of the word that a message guesses, with or without spaces between its letters; None if the guess is invalid.

        Args:
            text: The message.
            is_exact: Whether case matters, and other white space within the word, as in the original.
        """
        return self.position(text.strip().replace(" ", "") if is_exact else "".join(text.split()).lower())

    def replies(self, guess: int) -> bytes:
        """Number of the reply to a guess for each word as the secret, N bytes."""
        if guess not in self._replies:
            self._replies[guess] = self._compute(self._letters[guess]).tobytes()
        return self._replies[guess]

    def agreeing(self, knowledge: Knowledge, guess: int, reply: int) -> Knowledge:
        """The words of `knowledge` for which a guess has this reply."""
        replies = self.replies(guess)
        return tuple(word for word in knowledge if replies[word] == reply)

    def split(self, knowledge: Knowledge, guess: int) -> dict[int, Knowledge]:
        """What is known after a guess, by the number of its reply."""
        replies, parts = self.replies(guess), dict[int, list[int]]()
        for word in knowledge:
            parts.setdefault(replies[word], []).append(word)
        return {reply: tuple(part) for reply, part in parts.items()}

    def _compute(self, guess: Any) -> Any:
        """Numbers of the replies to the letters of a guess, shape (5,), for all secrets: shape (N,)."""
        green = self._letters == guess
        unmatched = np.where(green & (self.feedback == STANDARD), 0, self._letters)
        replies = np.zeros(len(self.words), dtype=np.uint8)
        for place, letter in enumerate(guess):
            where = unmatched == letter
            is_yellow = where.any(axis=1) & ~green[:, place]
            if self.feedback == STANDARD:
                rows = np.flatnonzero(is_yellow)
                unmatched[rows, where[rows].argmax(axis=1)] = 0
            replies = replies * 3 + 2 * green[:, place] + is_yellow
        return replies.astype(np.uint8)


def reply_text(reply: int, guess: str = "") -> str:
    """A reply as five letters with spaces between them ("b y g b b"), or behind the letters of the guess ("t:b r:y a:g c:b e:b")."""
    colors = [COLORS[reply // 3**place % 3] for place in reversed(range(LENGTH))]
    return " ".join([f"{letter}:{color}" for letter, color in zip(guess, colors, strict=True)] if guess else colors)


def reply_number(text: str) -> int | None:
    """The number of a reply in either form; None if the text is none."""
    match = _REPLY.fullmatch(text)
    return None if match is None else sum(COLORS.index(c) * 3**place for place, c in enumerate(reversed(match.groups())))


@lru_cache(maxsize=16)
def _rules(words: tuple[str, ...], feedback: str) -> Rules:
    return Rules(words, feedback)


def rules_of(words: str | Sequence[str], feedback: str = ORIGINAL) -> Rules:
    """The rules of a list (see `load_words`); shared by all games with this list, for replies are computed once."""
    return _rules(load_words(words), feedback)
