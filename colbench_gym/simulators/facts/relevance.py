"""Rank the facts of a task by their relevance to a question: shared words, weighted by their rarity among the facts.

A word of the question counts fully if it is a keyword of a fact or occurs in its topic, in part if it occurs in the fact's sentence
or is a synonym of a keyword, and more if it is part of a parameter's name. Up to ties, a fact therefore always ranks first for a
question made of its own keywords. Ties go to the fact that contains the question's words next to each other.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from colbench_gym.simulators.understanding.stems import BLANKET, COMMON, GROUP, is_light, stems
from colbench_gym.tasks.task import Fact

SENTENCE_SHARE, SYNONYM_SHARE, PARAMETER_FACTOR, LIGHT_WEIGHT = 0.55, 0.6, 1.5, 0.02
COMMON_FACTOR, DEFINITION_FACTOR = 0.6, 0.75
MIN_SCORE, MIN_COVERAGE = 0.4, 0.18
SAID_FACTOR = 0.75

# Names that the facts of a reference give to parts of long expressions.
_NAME = re.compile(r"\b([Pp]art|[Cc]ondition|[Tt]ext|[Cc]ase) ([A-Z]|\d+)\b")
_DEFINITION = re.compile(r"(?:Part|Condition|Text|Case) (?:[A-Z]|\d+)\b")


@dataclass(frozen=True)
class Match:
    """How well a fact answers a question.

    Attributes:
        index: Index of the fact among the task's facts.
        score: Total weight of the shared words.
        covered: Stems of the question that the fact covers.
        is_exact: True if every word of the question with weight (or every word, if none has weight) is a keyword of the fact.
    """

    index: int
    score: float
    covered: frozenset[str]
    is_exact: bool


@dataclass(frozen=True)
class _Words:
    strong: frozenset[str]
    topic: frozenset[str]
    weak: frozenset[str]
    groups: frozenset[int]
    pairs: frozenset[tuple[str, str]]


def _read(fact: Fact) -> _Words:
    sequence = [word for keyword in fact.keywords for word in stems(keyword)]
    topic = frozenset(stems(fact.topic))
    strong = frozenset(sequence) | topic
    groups = frozenset(GROUP[word] for word in strong if word in GROUP)
    return _Words(strong, topic, frozenset(stems(fact.sentence)), groups, frozenset(pairwise(sequence)))


class FactIndex:
    """An index over the facts of one task. It is immutable, so threads can share it.

    Args:
        facts: The facts that the simulated human can state.
        parameters: Names of the function's parameters. Their words count more in a question.
        topic_share: Weight of a word in a fact's topic. A value above 1 helps to separate facts with broad keywords, such as facts
            derived from a reference.
    """

    def __init__(self, facts: Sequence[Fact], parameters: Collection[str] = (), topic_share: float = 1.0) -> None:
        self.facts = tuple(facts)
        self._topic_share = topic_share
        self._words = [_read(fact) for fact in self.facts]
        self._keywords = frozenset[str]().union(*(words.strong for words in self._words))
        self._parameters = {word for name in parameters for word in stems(name.replace("_", " "))}
        self._counts: Counter[str | int] = Counter()
        for words in self._words:
            self._counts.update(words.strong | words.weak)
            self._counts.update(words.groups)

    def weight(self, word: str) -> float:
        """Weight of a stem: its rarity among the facts, higher for parameter names, close to 0 for stop words."""
        is_blanket = word in BLANKET
        if is_light(word) or (is_blanket and word not in self._keywords):
            return LIGHT_WEIGHT
        count = self._counts[word] or self._counts[GROUP.get(word, -1)]
        rarity = math.log(1 + len(self.facts) / max(count, 1))
        if is_blanket or word in COMMON:
            return rarity * COMMON_FACTOR
        return rarity * (PARAMETER_FACTOR if word in self._parameters else 1.0)

    def ranking(self, question: Sequence[str], stated: Collection[int] = ()) -> list[Match]:
        """Facts that are relevant to a question, best first.

        Args:
            question: Stems of the question, in order.
            stated: Indices of the facts that were stated before. They rank lower, unless the question asks for exactly them.
        """
        weights = {word: self.weight(word) for word in question}
        pairs = set(pairwise(question))
        total = sum(self._known_weight(word, weight) for word, weight in weights.items())
        ranked: list[tuple[float, int, int, Match]] = []
        for index, words in enumerate(self._words):
            match = _match(index, words, weights, self._topic_share)
            shared_pairs = len(pairs & words.pairs)
            is_same_wording = match.is_exact and shared_pairs >= 0.6 * len(pairs)
            if not is_same_wording and (match.score < MIN_SCORE or match.score < MIN_COVERAGE * total):
                continue
            rank = match.score * (DEFINITION_FACTOR if _DEFINITION.match(self.facts[index].sentence) else 1.0)
            rank *= SAID_FACTOR if index in stated and not match.is_exact else 1.0
            ranked.append((-round(rank, 9), -shared_pairs, index, match))
        return [entry[-1] for entry in sorted(ranked, key=lambda entry: entry[:-1])]

    def definitions(self, text: str, stated: Collection[int] = ()) -> list[int]:
        """Indices of the facts that define the names in a text ("part A", "condition B"), facts not yet stated first."""
        names = {f"{kind.capitalize()} {letter}" for kind, letter in _NAME.findall(text)}
        indices = [
            index
            for index, fact in enumerate(self.facts)
            if (match := _DEFINITION.match(fact.sentence)) and match.group() in names and fact.sentence != text
        ]
        return sorted(indices, key=lambda index: index in stated)

    def _known_weight(self, word: str, weight: float) -> float:
        """Weight of a word in the coverage of a question. A word that occurs in no fact counts half."""
        is_known = self._counts[word] > 0 or self._counts[GROUP.get(word, -1)] > 0
        return weight if is_known else weight / 2


def _match(index: int, words: _Words, weights: dict[str, float], topic_share: float) -> Match:
    score = 0.0
    covered: set[str] = set()
    missing: list[float] = []
    for word, weight in weights.items():
        if word in words.strong:
            share = topic_share if word in words.topic else 1.0
        elif GROUP.get(word, -1) in words.groups:
            share = SYNONYM_SHARE
        else:
            share = SENTENCE_SHARE if word in words.weak else 0.0
        if share:
            score += share * weight
            covered.add(word)
        if share < 1.0:
            missing.append(weight)
    has_weight = max(weights.values(), default=0.0) > LIGHT_WEIGHT
    is_exact = max(missing, default=0.0) <= LIGHT_WEIGHT if has_weight else not missing
    return Match(index, score, frozenset(covered), is_exact and score > 0)
