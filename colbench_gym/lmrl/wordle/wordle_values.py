"""The greedy information gain policy of Wordle, and its exact values.

The policy guesses the word that tells most about the secret among those that agree with all replies: with c words left by a reply of n before it, the
expected log(n / c) is highest, and the first such word of the list is taken. Its value with t tries left and the set S known is exact, for secrets are
uniform on S:

    Q(S, t, guess) = sum over replies p of |S_p| / |S| (0 if p is all green, else -1 + V(S_p, t - 1)),    V(S, t) = Q(S, t, greedy(S)),    V(S, 0) = 0,

and an invalid guess has Q = its reward + V(S, t - 1). To draw the secret anew from S before each guess, as LMRL-Gym does, changes nothing here: S is what
an agent knows, a uniform draw from it is a draw from the agent's posterior, so replies have the same distribution as with one secret for the whole episode.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from colbench_gym.lmrl.wordle.rules import NUM_REPLIES, ORIGINAL, SOLVED, Knowledge, Rules, reply_number, rules_of

#: Tries of the original.
TRIES = 6
#: A guess and its reply, as texts.
Turn = tuple[str, str]
# Gains are sums of logarithms; equal ones differ by rounding errors.
_DIGITS = 9


class GreedyValues:
    """The policy and its values for one list; computed once for each state.

    Attributes:
        rules: The list and its replies.
        invalid_reward: Reward of an invalid guess.
        tries: Tries of an episode.
    """

    def __init__(self, rules: Rules, invalid_reward: float, tries: int) -> None:
        """Set up an empty cache."""
        self.rules, self.invalid_reward, self.tries = rules, invalid_reward, tries
        self._guesses = dict[Knowledge, int]()
        self._values = dict[tuple[Knowledge, int], float]()

    def guess(self, knowledge: Knowledge) -> int:
        """The policy's guess."""
        if knowledge not in self._guesses:
            words = np.array(knowledge)
            unknown = [self._remaining(words, guess) for guess in knowledge]
            self._guesses[knowledge] = knowledge[unknown.index(min(unknown))]
        return self._guesses[knowledge]

    def value(self, knowledge: Knowledge, tries: int) -> float:
        """V: expected return of the policy with `tries` left."""
        if tries <= 0:
            return 0.0
        if (knowledge, tries) not in self._values:
            self._values[knowledge, tries] = self.q_value(knowledge, tries, self.guess(knowledge))
        return self._values[knowledge, tries]

    def q_value(self, knowledge: Knowledge, tries: int, guess: int | None) -> float:
        """Q: expected return of a guess, after which the policy continues.

        Args:
            knowledge: The words that agree with all replies.
            tries: Tries left, this one included.
            guess: Position of the guess in the list; None for an invalid one.
        """
        if guess is None:
            return self.invalid_reward + self.value(knowledge, tries - 1)
        parts = self.rules.split(knowledge, guess)
        total = sum(len(part) * (self.value(part, tries - 1) - 1) for reply, part in parts.items() if reply != SOLVED)
        return total / len(knowledge)

    def advantages(self, turns: Sequence[Turn], texts: Iterable[str], is_exact: bool = False) -> list[float]:
        """Q - V of messages after a dialogue.

        Args:
            turns: Guesses and replies so far. A reply that is not five colors is one to an invalid guess.
            texts: Candidates for the agent's next message.
            is_exact: How candidates are read, see `Rules.read`.

        Raises:
            ValueError: If no word agrees with the replies, or no try is left.
        """
        tries = self.tries - len(turns)
        if tries < 1:
            raise ValueError(f"Expected fewer than {self.tries} turns, got {len(turns)}; there is no try left.")
        knowledge = self.knowledge(turns)
        value = self.value(knowledge, tries)
        return [self.q_value(knowledge, tries, self.rules.read(text, is_exact)) - value for text in texts]

    def knowledge(self, turns: Sequence[Turn]) -> Knowledge:
        """The words that agree with a dialogue's replies; arguments and errors as in `advantages`."""
        known = self.rules.all
        for text, answer in turns:
            guess, reply = self.rules.read(text), reply_number(answer)
            if guess is not None and reply is not None:
                known = self.rules.agreeing(known, guess, reply)
        if not known:
            raise ValueError(
                f"Expected replies with which a word of the list agrees, got {list(turns)!r}; check `words` and `feedback`."
            )
        return known

    def _remaining(self, words: np.ndarray[tuple[int], np.dtype[np.int64]], guess: int) -> float:
        """N times the expected logarithm of the number of words that a guess leaves."""
        replies = np.frombuffer(self.rules.replies(guess), dtype=np.uint8)[words]
        counts = [count for count in np.bincount(replies, minlength=NUM_REPLIES).tolist() if count > 1]
        return round(math.fsum(count * math.log(count) for count in counts), _DIGITS)


def turns_of(messages: Iterable[Mapping[str, str]]) -> list[Turn]:
    """Guesses and replies of a chat: each message of the assistant with the user's next one."""
    turns, guess = list[Turn](), None
    for message in messages:
        if message["role"] == "assistant":
            guess = message["content"]
        elif message["role"] == "user" and guess is not None:
            turns.append((guess, message["content"]))
            guess = None
    return turns


@lru_cache(maxsize=16)
def values_of(rules: Rules, invalid_reward: float = -1.0, tries: int = TRIES) -> GreedyValues:
    """The values of a game; shared by all games with the same rules."""
    return GreedyValues(rules, invalid_reward, tries)


def exact_advantages(
    messages: Iterable[Mapping[str, str]],
    texts: Iterable[str],
    words: str | Sequence[str] = "431",
    feedback: str = ORIGINAL,
    invalid_reward: float = -1.0,
    max_turns: int = TRIES,
    faithful: bool = False,
) -> list[float]:
    """Exact advantage Q - V of candidates for the agent's next message, for the greedy policy, from a chat's messages alone: the oracle of critics.

    Args:
        messages: The dialogue so far, with "role" and "content"; a system message is not read.
        texts: The candidates.
        words: As in the environment, like the arguments after it.
        feedback: Rule of replies.
        invalid_reward: Reward of an invalid guess.
        max_turns: Tries of an episode.
        faithful: Whether a guess in capital letters is invalid.

    Raises:
        ValueError: If no word agrees with the replies, or no try is left.
    """
    return values_of(rules_of(words, feedback), invalid_reward, max_turns).advantages(
        turns_of(messages), texts, is_exact=faithful
    )


def dialogue_advantages(
    messages: Sequence[Mapping[str, str]], hidden: str, texts: Sequence[str], arguments: Mapping[str, Any]
) -> list[float]:
    """`exact_advantages` as the trainer's records of games call it.

    Args:
        messages: The dialogue so far.
        hidden: Hidden information; not used: the advantage is that of an agent that sees the replies only.
        texts: The candidates.
        arguments: Keyword arguments of the environment; those without a part in the values are ignored.
    """
    known = ("words", "feedback", "invalid_reward", "max_turns", "faithful")
    return exact_advantages(messages, texts, **{name: arguments[name] for name in known if name in arguments})
