"""Which fact bears on a question: shared words, weighted by how rare they are among the task's facts.

A word of the question counts fully where it is among a fact's keywords or in its topic, in part where it stands in the
fact's sentence or means the same as a keyword, and more where it is part of a parameter's name. A fact therefore always
wins a question made of its own keywords, up to ties; ties go to the fact that has the question's words side by side.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from colbench_gym.simulators.wording import BLANKET, COMMON, GROUP, is_light, stems
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
        index: Position of the fact among the task's facts.
        score: Summed weight of the words they share.
        covered: Stems of the question that the fact accounts for.
        is_exact: True where the fact has as keyword every word of the question that carries weight, or every word if none does.
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
    """The facts of one task, ready for questions. Immutable, so threads share it.

    Args:
        facts: What the person can say.
        parameters: Names of the function's parameters; their words count more in a question.
        topic_share: How much a word counts that is in a fact's topic. Above 1 it sets apart facts whose keywords are broad, as
            those read off a reference are.
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
        """Weight of a stem: its rarity over the facts, raised for parameter names; next to nothing for stop words."""
        is_blanket = word in BLANKET
        if is_light(word) or (is_blanket and word not in self._keywords):
            return LIGHT_WEIGHT
        count = self._counts[word] or self._counts[GROUP.get(word, -1)]
        rarity = math.log(1 + len(self.facts) / max(count, 1))
        if is_blanket or word in COMMON:
            return rarity * COMMON_FACTOR
        return rarity * (PARAMETER_FACTOR if word in self._parameters else 1.0)

    def ranking(self, question: Sequence[str], said: Collection[int] = ()) -> list[Match]:
        """Facts that bear on a question, best first.

        Args:
            question: Stems of the question, in order.
            said: Positions of facts the person has given already; they rank lower unless they are what is asked.
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
            rank *= SAID_FACTOR if index in said and not match.is_exact else 1.0
            ranked.append((-round(rank, 9), -shared_pairs, index, match))
        return [entry[-1] for entry in sorted(ranked, key=lambda entry: entry[:-1])]

    def definitions(self, text: str, said: Collection[int] = ()) -> list[int]:
        """Positions of the facts that say what the names in a text ("part A", "condition B") stand for, unsaid ones first."""
        names = {f"{kind.capitalize()} {letter}" for kind, letter in _NAME.findall(text)}
        found = [
            index
            for index, fact in enumerate(self.facts)
            if (match := _DEFINITION.match(fact.sentence)) and match.group() in names and fact.sentence != text
        ]
        return sorted(found, key=lambda index: index in said)

    def _known_weight(self, word: str, weight: float) -> float:
        """Weight of a word when asking how much of the question a fact covers; a word of no fact counts half."""
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
