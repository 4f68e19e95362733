"""Select the facts that answer a message, for facts with keywords and without phrases: facts derived from a reference."""

from __future__ import annotations

import re

from colbench_gym.simulators.facts.relevance import FactIndex, Match
from colbench_gym.simulators.understanding.questions import questions
from colbench_gym.simulators.understanding.stems import BLANKET, is_light, stems

_NAMED_SCORE, _AS_GOOD = 1000.0, 0.8
_TWO_THINGS = re.compile(r"\b(?:and|also|or how|or what|as well as|plus)\b|[&;]", re.IGNORECASE)
_ASKS_FOR_ALL = re.compile(
    r"\b(?:all|each|every|rules?|conditions?|criteria|categories|cases|steps|formula|exactly|how (?:do|does|is|are|should))\b",
    re.IGNORECASE,
)


def keyword_answers(index: FactIndex, message: str, stated: set[int], limit: int) -> list[int]:
    """Indices of the facts to state, in the order of the questions.

    Args:
        index: The facts.
        message: The agent's message.
        stated: Indices of the facts that were stated before.
        limit: Maximal number of facts. If it is not reached, the definition of a name such as "part A" in the fact is added.
    """
    answers = _answers(index, questions(message), stated, limit)
    if len(answers) == 1 and limit > 1:
        meant = index.definitions(index.facts[answers[0]].sentence, stated)
        answers += [number for number in meant if number not in stated][:1]
    return answers


def is_broad(question: str) -> bool:
    """True for a question without a specific subject: "Anything else?", "What are the requirements?"."""
    return all(is_light(word) or word in BLANKET for word in stems(question))


def _answers(index: FactIndex, asked: list[str], stated: set[int], limit: int) -> list[int]:
    """Indices of at most `limit` facts to state, in the order of the questions."""
    best: dict[int, tuple[float, int]] = {}
    for position, question in enumerate(asked):
        for order, number in enumerate(index.definitions(question, stated)):
            best.setdefault(number, (_NAMED_SCORE - order, position))
        words = stems(question)
        ranking = index.ranking(words, stated)
        if not ranking:
            continue
        chosen = [ranking[0], *_second(index, question, words, ranking, stated)]
        for order, match in enumerate(chosen):
            rank = match.score * (0.5 if match.index in stated else 1.0) / (1 + order)
            if rank > best.get(match.index, (0.0, 0))[0]:
                best[match.index] = (rank, position)
    picked = sorted(best, key=lambda number: -best[number][0])[:limit]
    return sorted(picked, key=lambda number: (best[number][1], -best[number][0]))


def _second(index: FactIndex, question: str, words: list[str], ranking: list[Match], stated: set[int]) -> list[Match]:
    """The second fact that a single question clearly asks for, if any.

    A question asks for a second fact if "and" joins two subjects and the first fact covers only one of them, or if it asks for all
    rules of a topic that has several.
    """
    first = ranking[0]
    if _TWO_THINGS.search(question):
        left = [word for word in words if word not in first.covered and not is_light(word)]
        rest = [match for match in index.ranking(left, stated) if match.index != first.index] if left else []
        if rest:
            return rest[:1]
    if _ASKS_FOR_ALL.search(question):
        topic = index.facts[first.index].topic
        return [
            match
            for match in ranking[1:]
            if index.facts[match.index].topic == topic and match.index not in stated and match.score >= _AS_GOOD * first.score
        ][:1]
    return []
