"""What a message asks of a person whose topics are known by phrases: its points, each about a topic or of another kind.

A message is taken as a whole; it has two points where cutting it in two at a comma, a full stop or an "and" gives two parts that
are clearly about different things. Less is asked of a cut between two questions. Topics compete with kinds of question such as "an example, please" and with things on which
nobody has an opinion. The thresholds were chosen on a development set of questions in people's own words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from colbench_gym.simulators.questions import prose
from colbench_gym.simulators.topic_index import KINDS, Phrases, Scores, topic_index
from colbench_gym.tasks.task import Fact

#: Scores from which a message is about a topic, and of another kind; what is taken off a kind's score, so that a topic on the same wins.
MATCH, MATCH_KIND, KIND_COST = 0.45, 0.55, 0.04
#: Score from which each part of a message is about a topic, and how far its second topic must be off; the same for two questions.
MATCH_PART, MARGIN_PART = 0.6, 0.1
MATCH_QUESTION, MARGIN_QUESTION = 0.55, 0.0
#: How much less than the best topic of the whole the two questions may score on average.
LOSS_QUESTION = 0.02
#: What the whole message must score on both topics, and from which score on a part is about a topic whatever the whole is about.
MATCH_WHOLE, SURE = 0.35, 0.75
#: Below this score a message is about a topic only if nothing else comes so close.
PLAIN, CLOSE = 0.6, 0.03
#: How much better than the whole message two parts must be of which one is not about a topic.
GAIN_KIND = 0.15
MAX_CUTS, MAX_CHARS = 10, 1500
#: Texts whose points are kept: some 2,300 questions in one wording about the topics of the families in training, and agents' own wordings.
CACHED_TEXTS = 8192
#: Kinds that are no second point.
POINTLESS = {"blanket", "statement", "none"}

_CUT = re.compile(
    r"(?<=[?!.;:,])\s+|\s+(?=(?:and|or|also|plus|but|as well as|then)\b)|\s+&\s+|\s+(?:-+|->)\s+|\s+(?=\(?\w\)\s|\d\.\s)|\n+",
    re.IGNORECASE,
)
_LEAD = (
    r"(?:\W|\b(?:and|also|plus|then|but|or|second(?:ly)?|next|further(?:more)?|on top of that|besides|apart from that|separately|"
    r"another (?:thing|one|question)|one more(?: thing)?|same for|\d|[ab])\b)*"
)
_QUESTION = (
    r"(?:how|what|which|whose?|when|where|why|is|isn|are|aren|do|does|did|don|doesn|should|shouldn|shall|can|could|may|might|will|would|must|"
    r"has|have|any)\b"
)
_HEAD, _TAIL = re.compile(rf"\?\W*$|\b{_QUESTION}", re.IGNORECASE), re.compile(_LEAD + _QUESTION, re.IGNORECASE)
_ASKS = re.compile(r"\?|\b(?:how|what|which|who|whether|please|tell me|let me know|need to know)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Point:
    """One thing that a message asks.

    Attributes:
        kind: "topic", "blanket", "example", "argument", "returned", "malformed" or "unknown".
        text: The message, or the part of it.
        topic: Position of the topic; -1 for the other kinds.
    """

    kind: str
    text: str
    topic: int = -1


def asked_topics(facts: Sequence[Fact], message: str, parameters: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of the topics that a message is about, in the order in which it asks; the same for all tasks with these phrases.

    Args:
        facts: What the person knows, with phrases.
        message: What the agent says.
        parameters: Names of the function's parameters.
    """
    found = points(message, tuple(fact.phrases for fact in facts), parameters)
    return tuple(facts[point.topic].topic for point in found if point.kind == "topic")


def points(message: str, phrases: Phrases, parameters: Sequence[str] = ()) -> list[Point]:
    """What a message asks, at most two things, in order; empty if it asks nothing."""
    text = prose(message)[-MAX_CHARS:]
    return list(_points(text, phrases, tuple(parameters))) if any(map(str.isalnum, text)) else []


@lru_cache(maxsize=CACHED_TEXTS)
def _points(text: str, phrases: Phrases, parameters: tuple[str, ...]) -> Sequence[Point]:
    """The same of a message's prose. Kept, for agents ask the same again and again: about one topic of a family in a few wordings."""
    cuts = [(text[: cut.start()], text[cut.end() :]) for cut in _CUT.finditer(text)]
    cuts = [cut for cut in cuts if min(len(part.split()) for part in cut) > 1][-MAX_CUTS:]
    texts = [text, *(head for head, _ in cuts), *(tail for _, tail in cuts)]
    scores = _scores(texts, phrases, parameters)
    if _ASKS.search(text):
        scores[:, _column("statement")] = -1.0
    whole, heads, tails = scores[0], scores[1 : 1 + len(cuts)], scores[1 + len(cuts) :]
    two = _best_cut(whole, heads, tails, [bool(_HEAD.search(head) and _TAIL.match(tail)) for head, tail in cuts])
    if two >= 0:
        return [_point(part, row) for part, row in zip(cuts[two], (heads[two], tails[two]), strict=True)]
    point = _point(text, whole)
    return [] if point.kind == "statement" else [point]


def _scores(texts: list[str], phrases: Phrases, parameters: Sequence[str]) -> Scores:
    """What each text scores on each topic and kind. For questions about arguments, a parameter's name is as good as "argument"."""
    index = topic_index(phrases)
    scores = index.scores(texts)
    named = re.compile(rf"\b(?:{'|'.join(map(re.escape, parameters))})\b") if parameters else None
    if named and named.search(texts[0]):
        unnamed = index.scores([named.sub("argument", texts[0])])[0]
        scores[0, _column("argument")] = max(scores[0, _column("argument")], unnamed[_column("argument")])
    scores[:, -len(KINDS) :] -= KIND_COST
    return scores


def _column(kind: str) -> int:
    return KINDS.index(kind) - len(KINDS)


def _best_cut(whole: Scores, heads: Scores, tails: Scores, are_questions: Sequence[bool]) -> int:
    """Position of the cut that gives two points; -1 if none does."""
    num_topics = len(whole) - len(KINDS)
    best, number = -1.0, -1
    for i, parts in enumerate(zip(heads, tails, strict=True)):
        tops = [int(part.argmax()) for part in parts]
        kinds = {KINDS[top - num_topics] for top in tops if top >= num_topics}
        mean = float(sum(part[top] for part, top in zip(parts, tops, strict=True))) / 2
        gain = GAIN_KIND if kinds else -LOSS_QUESTION if are_questions[i] else 0.0
        is_better = mean >= max(best, whole.max() + gain)
        if tops[0] == tops[1] or kinds & POINTLESS or not is_better:
            continue
        if all(
            _is_clear(part, top, are_questions[i]) and (whole[top] >= MATCH_WHOLE or part[top] >= SURE)
            for part, top in zip(parts, tops, strict=True)
        ):
            best, number = mean, i
    return number


def _is_clear(scores: Scores, top: int, is_question: bool) -> bool:
    match, margin = (MATCH_QUESTION, MARGIN_QUESTION) if is_question else (MATCH_PART, MARGIN_PART)
    return bool(scores[top] >= max(match, margin + np.partition(scores, -2)[-2]))


def _point(text: str, scores: Scores) -> Point:
    best = int(scores.argmax())
    kind = (*("topic",) * (len(scores) - len(KINDS)), *KINDS)[best]
    if kind == "topic":
        is_doubtful = scores[best] < PLAIN and scores[best] - np.partition(scores, -2)[-2] < CLOSE
        return Point("unknown", text) if is_doubtful or scores[best] < MATCH else Point("topic", text, best)
    return Point("unknown" if kind == "none" or scores[best] < MATCH_KIND - KIND_COST else kind, text)
