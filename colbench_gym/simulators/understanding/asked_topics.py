"""Understand the questions in a message, for facts with phrases: find its points, each about a topic or of another kind.

A message is first classified as a whole. It has two points if splitting it at a comma, a full stop or an "and" gives two parts that
are clearly about different subjects. The thresholds are lower for a split between two questions. Topics compete with kinds of question
such as "an example, please" and with subjects on which nobody has a preference. The thresholds were chosen on a development set of
questions that people wrote.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from colbench_gym.simulators.understanding.questions import prose
from colbench_gym.simulators.understanding.topic_index import KINDS, Phrases, Scores, topic_index

#: Minimal scores of a topic and of another kind; the penalty on the scores of kinds, so that a topic wins against a kind with the same score.
MATCH, MATCH_KIND, KIND_COST = 0.45, 0.55, 0.04
#: Minimal score of the best class of each part of a split message, and its minimal margin over the second best; the same for two questions.
MATCH_PART, MARGIN_PART = 0.6, 0.1
MATCH_QUESTION, MARGIN_QUESTION = 0.55, 0.0
#: How far the mean score of two questions may be below the best score of the whole message.
LOSS_QUESTION = 0.02
#: Minimal score of the whole message for the class of each part; a part with at least the second value does not need it.
MATCH_WHOLE, SURE = 0.35, 0.75
#: Below this score, a message is only about a topic if its margin over the second best class is at least the second value.
PLAIN, CLOSE = 0.6, 0.03
#: How far the mean score of two parts must be above that of the whole message if one part is not about a topic.
GAIN_KIND = 0.15
MAX_CUTS, MAX_CHARS = 10, 1500
#: Size of the cache of texts: about 2,300 questions (one wording per topic of the training families) and the agents' own wordings.
CACHED_TEXTS = 8192
#: Kinds that never count as one of two points.
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
    """One question of a message.

    Attributes:
        kind: "topic", "blanket", "example", "argument", "returned", "malformed" or "unknown".
        text: The message, or the relevant part of it.
        topic: Index of the topic; -1 for the other kinds.
    """

    kind: str
    text: str
    topic: int = -1


def points(message: str, phrases: Phrases, parameters: Sequence[str] = ()) -> list[Point]:
    """The points of a message, at most two, in order; empty if it asks nothing."""
    text = prose(message)[-MAX_CHARS:]
    return list(_points(text, phrases, tuple(parameters))) if any(map(str.isalnum, text)) else []


@lru_cache(maxsize=CACHED_TEXTS)
def _points(text: str, phrases: Phrases, parameters: tuple[str, ...]) -> Sequence[Point]:
    """The points of a message's prose. Cached, because agents often repeat the same questions in the same few wordings."""
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
    """Scores of each text for each topic and kind. In questions about arguments, a parameter's name counts like the word "argument"."""
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
    """Index of the split that gives two points; -1 if there is none."""
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
