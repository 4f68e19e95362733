"""Policies that ask: the expert by information gain, and the mixture that our data sets come from. They see the answers and not the secret."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from colbench_gym.lmrl.guessing.secret_table import SecretTable
from colbench_gym.lmrl.guessing.yes_no import understanding

#: With at most this many candidates, a guess is worth more than a question that halves them.
FEW = 2
Candidates = NDArray[np.int64]


@dataclass(frozen=True)
class Habits:
    """How a player of the data sets plays. Each episode draws whether it is attentive.

    Attributes:
        attentive: Probability that an episode's player asks useful questions; the others ask at random.
        choices: Questions that an attentive player compares in a turn; the one is asked that splits the candidates most evenly.
        first_guess: Turn, counted from 1, from which the player may guess.
        guesses: Probability of a guess in each turn from then on; a player with few candidates always guesses then.
    """

    attentive: float
    choices: int
    first_guess: int
    guesses: float


class Asker:
    """Questions, and what their answers leave.

    Args:
        name: The table, "objects" or "cities".
        allowed: Indices of the secrets that are in the game.
    """

    def __init__(self, name: str, allowed: Sequence[int]) -> None:
        self._understanding = understanding(name)
        self.table: SecretTable = self._understanding.table
        self._allowed = np.array(allowed)
        self._questions = tuple(attribute.questions[0] for attribute in self.table.attributes)
        self._truths = np.array([attribute.truths for attribute in self.table.attributes])
        self._row = {question: i for i, question in reversed(list(enumerate(self._questions)))}

    def candidates(self, answered: Sequence[tuple[str, bool]]) -> Candidates:
        """Indices of the secrets that contradict the fewest answers.

        Args:
            answered: Questions and their answers so far.
        """
        wrong = np.zeros(len(self.table.secrets), int)
        for question, answer in answered:
            row = self._row.get(question)
            truths = self._truths[row] if row is not None else self._understanding.answers(question)
            wrong += truths != answer
        wrong = wrong[self._allowed]
        return np.asarray(self._allowed[wrong == wrong.min()])

    def best(self, answered: Sequence[tuple[str, bool]]) -> str:
        """The question with the largest information gain: it splits the candidates most evenly. A guess if they are few, or alike."""
        left = self.candidates(answered)
        unevenness = self._unevenness(left)
        if len(left) <= FEW or unevenness.min() == len(left):
            return self.guess(int(left[0]))
        return self._questions[int(unevenness.argmin())]

    def typical(self, answered: Sequence[tuple[str, bool]], habits: Habits, is_attentive: bool, rng: random.Random) -> str:
        """The question of a player of the data sets."""
        turn, left = len(answered) + 1, self.candidates(answered)
        if turn >= habits.first_guess and (len(left) <= FEW or rng.random() < habits.guesses):
            return self.guess(int(rng.choice(list(left))))
        offered = rng.sample(range(len(self._questions)), habits.choices if is_attentive else 1)
        unevenness = self._unevenness(left)
        return self._questions[min(offered, key=lambda i: unevenness[i])]

    def guess(self, index: int) -> str:
        """The question that guesses a secret."""
        return f"Is it {self.table.secrets[index].in_words}?"

    def _unevenness(self, left: Candidates) -> NDArray[np.int64]:
        """For each question, the candidates with one answer minus those with the other, as an absolute number."""
        return np.asarray(np.abs(2 * self._truths[:, left].sum(axis=1) - len(left)))


@lru_cache(maxsize=4)
def asker(name: str, allowed: tuple[int, ...]) -> Asker:
    """The questions about a table, built once."""
    return Asker(name, allowed)
