"""What a message asks of a person whose topics are known by phrases: its points, each about a topic or about something else.

A message falls into questions, and a question into clauses where it clearly asks two things. All thresholds were chosen on
phrases left out of the index, and on phrases about topics of other families.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from colbench_gym.simulators.keyword_answers import is_broad
from colbench_gym.simulators.questions import Question, asked
from colbench_gym.simulators.topic_index import Phrases, topic_index
from colbench_gym.tasks.task import Fact

#: Scores from which a question is about a topic, and from which each half of a question is.
MATCH, MATCH_CLAUSE = 0.55, 0.55
#: Scores from which a topic wins over what the question looks like by its form.
WINS = {"blanket": 0.75, "example": 0.85, "argument": 0.8, "returned": 0.8, "malformed": 0.7}
MAX_QUESTIONS, MAX_CLAUSES, MAX_QUESTION_CHARS = 12, 6, 600

_CLAUSES = re.compile(
    r"\s*(?:,\s*)?\b(?:and also|and|also|as well as|plus|or (?=how|what|should|do|is))\b\s*|\s*;\s*|\s+&\s+", re.IGNORECASE
)
_POINTS_BACK = re.compile(r"\b(?:that|those|these|them|this|it|they|such|then|so)\b", re.IGNORECASE)
_VALUE = r"(?:tuples?|dict(?:ionar(?:y|ies))?s?|lists?|strings?|integers?|ints?|floats?|numbers?|texts?|pairs?|arrays?|objects?|booleans?|table)"
_FORM = r"(?:type|format|shape|structure|data ?type|look(?:s)? like)"
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (
            "blanket",
            r"\b(?:anything|something|what|who|any ?one) else\b|\b(?:tell|give|share|explain|describe|list)\b.*\b(?:everything|all (?:the |of |your |other )*(?:rules"
            r"|requirements|details|wishes|edge cases|special cases|cases|constraints|preferences|specifics|information|info))\b"
            r"|\bwhat (?:are|were) (?:all |the |your |other |any |exact |full |special |further )*(?:requirements|rules|details|constraints|specifications?|wishes|preferences)\b"
            r"|\b(?:any|more|other|further|additional|special|hidden) (?:other |more |further |special |additional |hidden )*(?:rules|requirements|details|constraints"
            r"|wishes|information|info|edge cases|special cases|preferences|considerations|exceptions to know|things)\b"
            r"|\bwhat (?:else )?(?:should|must|do) i (?:need to )?(?:know|be aware|watch out|consider|keep in mind)\b|\bshould (?:be aware|know)\b"
            r"|\beverything (?:i|we|you|that)\b|\btell me more\b|\bwhat do you want\W*$|\bhow should it work\W*$",
        ),
        (
            "example",
            r"(?<!for )(?<!such )\b(?:examples?|samples?)\b|\btypical (?:call|input|use)|\bwhat (?:would|does|do|will) a (?:\w+ )?call look|\bshow me (?:what|how) (?:a|an|the) \w+ looks?",
        ),
        (
            "malformed",
            r"\b(?:malformed|corrupt(?:ed)?|garbage|bad (?:input|data|values?)|wrong types?|invalid (?:input|data|values?|entries|entry|arguments?|types?|rows?|records?|\w+ such)|"
            r"exceptions?|(?:raise|throw)\b|(?:is|are|input)\s*n[o']t (?:a |valid)|isn't a |aren't |not a number|non-?numeric|None instead|unexpected (?:input|values?|types?|data)|"
            r"validate (?:the |your )?(?:input|data|arguments?)|input validation|ill-formed)",
        ),
        (
            "returned",
            rf"\b(?:return|output|result|answer|get back|give back|come back|comes back|hand back)\w*\b.*(?:{_FORM}|\b{_VALUE}\b)"
            rf"|\b{_FORM}\b.*\b(?:return|output|result|answer)|\b{_VALUE} (?:back|returned)\b"
            r"|\bwhat (?:should|does|do|will|must|shall) (?:the function|it|i|you(?:r)? (?:want|need|expect|like)?|your function)\b.{0,12}\b(?:return|output|give back)\W*$"
            r"|\bis the (?:result|output|return value|answer)\b.*\bin\b",
        ),
        (
            "argument",
            rf"\b(?:input|argument|parameter|params?|arg)s?\b.*(?:{_FORM}|\b{_VALUE}\b)|{_FORM}\b.*\b(?:input|argument|parameter|data|given|pass(?:ed)?)"
            rf"|\bwhat (?:is|are|does|do) .{{0,40}}{_FORM}|\b(?:what|which) (?:kind|sort|type)s? of (?:values?|data|input|object|arguments?)"
            rf"|\b(?:what|which) (?:data ?)?types? (?:is|are|does|do|has|have)\b"
            rf"|\bin (?:what|which) (?:form|format|shape|structure|type)\b",
        ),
    )
)
_VALUE_WORD = re.compile(rf"\b(?!numbers? (?:of|or)\b){_VALUE}\b", re.IGNORECASE)
_ASKS_TYPE = re.compile(
    r"^\W*(?:is|are|will|would|do|does|should)\b.{1,50}\b(?:tuples?|dict(?:ionar(?:y|ies))?s?|strings?|integers?|ints?|floats?|arrays?|booleans?)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:if|when|in case|empty|nothing|there (?:is|are) no)\b", re.IGNORECASE)
_ASKS_KIND = re.compile(r"^\W*(?:is|are|will|would|does|do|can|could|should)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Point:
    """One thing that a message asks.

    Attributes:
        kind: "topic", "blanket", "example", "argument", "returned", "malformed" or "unknown".
        text: The question, or the half of it.
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
    """What a message asks, in order, each topic and kind once; empty if it asks nothing.

    Where anything is understood, points that are not are left out.
    """
    found: dict[tuple[str, int], Point] = {}
    for question in asked(message)[:MAX_QUESTIONS]:
        for point in _points_of(question, phrases, parameters):
            found.setdefault((point.kind, point.topic), point)
    known = [point for point in found.values() if point.kind not in ("unknown", "blanket")]
    return known or list(found.values())


def _points_of(question: Question, phrases: Phrases, parameters: Sequence[str]) -> list[Point]:
    text = question.text[-MAX_QUESTION_CHARS:]
    whole = _point(text, phrases, parameters)
    clauses = [clause for clause in _CLAUSES.split(text) if len(clause.split()) > 1][:MAX_CLAUSES]
    if len(clauses) > 1:
        halves = [_point(clause, phrases, parameters, MATCH_CLAUSE) for clause in clauses]
        topics = list({half.topic: half for half in halves if half.kind == "topic"}.values())
        if len(topics) > 1:
            return topics[:2]
    if whole.kind in ("unknown", "blanket") and question.before and _POINTS_BACK.search(text):
        wider = _point(f"{question.before[-MAX_QUESTION_CHARS:]} {text}", phrases, parameters)
        return [wider if wider.kind == "topic" else whole]
    return [whole]


def _point(text: str, phrases: Phrases, parameters: Sequence[str], least: float = MATCH) -> Point:
    scores = topic_index(phrases).scores([text])[0]
    best = int(scores.argmax()) if len(scores) else -1
    score = float(scores[best]) if len(scores) else -1.0
    form = _form(text, parameters)
    if score >= max(WINS.get(form, 0.0), least):
        return Point("topic", text, best)
    return Point(form or "unknown", text)


def _form(text: str, parameters: Sequence[str]) -> str:
    """What a question asks by its form alone; empty if that does not tell."""
    named = re.compile(rf"\b(?:{'|'.join(map(re.escape, parameters))})\b", re.IGNORECASE) if parameters else None
    rest = named.sub("it", text) if named else text
    for kind, pattern in _FORMS:
        if pattern.search(rest) and not (kind == "returned" and _CONDITION.search(text)):
            return kind
    if _ASKS_TYPE.search(text) or (rest != text and _ASKS_KIND.search(text) and _VALUE_WORD.search(text)):
        return "argument"
    return "blanket" if is_broad(text) else ""
