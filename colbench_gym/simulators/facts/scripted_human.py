"""A rule-based user simulator: it knows the task's facts and states the fact that a question is about.

The reply depends only on the task and the dialogue, takes about a millisecond and needs neither a model nor a network, so training can be
tested, debugged and benchmarked anywhere. The embedded tasks have facts with phrases, which are used to understand questions
(`understanding.asked_topics`). For rows of the real benchmark, facts are derived from the reference (`code_to_text.reference_facts`) and found by keywords. By
design it states one fact per question and volunteers nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from colbench_gym.dialogue import Dialogue
from colbench_gym.simulators.code_to_text.plain_answers import plain_answer
from colbench_gym.simulators.code_to_text.reference_facts import facts_from_reference
from colbench_gym.simulators.facts.keyword_answers import is_broad, keyword_answers
from colbench_gym.simulators.facts.relevance import FactIndex
from colbench_gym.simulators.simulator import Simulator
from colbench_gym.simulators.understanding.asked_topics import Point, points
from colbench_gym.simulators.understanding.questions import questions
from colbench_gym.tasks.task import Fact, Task

LEVELS = ("terse", "normal", "chatty")
UNKNOWN_REPLIES = (
    "I have no preference on that, do what you think is best.",
    "No preference there, do what is usual.",
    "I have no preference about that, it is up to you.",
)
BROAD_REPLIES = (
    "That is a broad question, please ask me about something specific.",
    "I would not know where to begin, so please ask about one point.",
)
NEUTRAL_REPLIES = ("Okay.", "I see.", "All right, go on.")
ONE_POINT_REMARK = "One thing at a time, please."
MAX_POINTS, MAX_REPLY_CHARS = 2, 400
CACHED_TASKS, REFERENCE_TOPIC_SHARE = 512, 1.3  # about 50 kB each; the episodes of a task follow each other
_PARAMETER = re.compile(r"\(\s*(.*)\)", re.DOTALL)


class ScriptedHuman(Simulator):
    """A deterministic, fast user simulator for tests, debugging and training without a model server.

    A message about two topics is answered with both facts, or only with the first one if the task allows one point per message
    (`Task.points`). A question about a topic without a wish is answered with "no preference", and a request for everything is refused.

    Args:
        level: Amount of information per reply. "terse": one fact. "normal": up to two, if the message clearly asks two questions.
            "chatty": as normal, plus a special wish that was neither asked for nor stated before, if there is room for a sentence.

    Raises:
        ValueError: If the level is unknown.
    """

    is_deterministic = True

    def __init__(self, level: str = "normal") -> None:
        if level not in LEVELS:
            raise ValueError(f"`level` must be 'terse', 'normal' or 'chatty', got {level!r}.")
        self.level = level

    def reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        """Answer the agent's last message; `seed` is ignored.

        Raises:
            ValueError: If the dialogue does not end with a message of the agent.
        """
        if not dialogue.messages or dialogue.messages[-1].role != "assistant":
            raise ValueError(
                "`dialogue` must end with a message of the agent; add the agent's message before asking for a reply."
            )
        message = dialogue.messages[-1].content
        heard = "\n".join(message.content for message in dialogue.messages if message.role == "user")
        if any(fact.phrases for fact in task.hidden.facts):
            facts: Sequence[Fact] = task.hidden.facts
            sentences = self._by_phrases(task, message, dialogue.num_turns)
        else:
            index = _keyword_index(task.hidden.facts, task.hidden.reference, task.signature)
            facts = index.facts
            sentences = self._by_keywords(index, message, heard, dialogue.num_turns)
        if sentences is None:
            return NEUTRAL_REPLIES[dialogue.num_turns % len(NEUTRAL_REPLIES)]
        if self.level == "chatty" and len(sentences) < MAX_POINTS:
            sentences.extend(_volunteered(facts, heard, sentences))
        return " ".join(sentences) or BROAD_REPLIES[dialogue.num_turns % len(BROAD_REPLIES)]

    def _by_phrases(self, task: Task, message: str, turn: int) -> list[str] | None:
        """Facts to state, found by the phrases of the topics; empty for a refusal, None if the message asks nothing."""
        asked = points(message, tuple(fact.phrases for fact in task.hidden.facts), parameter_names(task.signature))
        if not asked:
            return None
        answers = list(dict.fromkeys(filter(None, (_answer(task, point) for point in asked))))
        if not answers and any(point.kind != "blanket" for point in asked):
            return [UNKNOWN_REPLIES[turn % len(UNKNOWN_REPLIES)]]
        if task.points == 1 and len(answers) > 1:
            return [answers[0], ONE_POINT_REMARK]
        return _fitting(answers[: 1 if self.level == "terse" else MAX_POINTS])

    def _by_keywords(self, index: FactIndex, message: str, heard: str, turn: int) -> list[str] | None:
        """The same, found by the keywords of the facts."""
        asked = questions(message)
        if not asked:
            return None
        stated = {number for number, fact in enumerate(index.facts) if fact.sentence in heard}
        answers = keyword_answers(index, message, stated, 1 if self.level == "terse" else MAX_POINTS)
        if not answers and not all(map(is_broad, asked)):
            return [UNKNOWN_REPLIES[turn % len(UNKNOWN_REPLIES)]]
        return [index.facts[number].sentence for number in answers]


def _answer(task: Task, point: Point) -> str:
    if point.kind == "topic":
        return task.hidden.facts[point.topic].sentence
    return "" if point.kind in ("unknown", "blanket") else plain_answer(task, point.kind, point.text)


def _fitting(sentences: list[str]) -> list[str]:
    """The first sentences that fit into a reply."""
    kept = list(sentences)
    while len(kept) > 1 and len(" ".join(kept)) > MAX_REPLY_CHARS:
        kept.pop()
    return [sentence[:MAX_REPLY_CHARS] for sentence in kept]


@lru_cache(maxsize=CACHED_TASKS)
def _keyword_index(facts: tuple[Fact, ...], reference: str, signature: str) -> FactIndex:
    if facts:
        return FactIndex(facts, parameter_names(signature))
    return FactIndex(facts_from_reference(reference, signature), parameter_names(signature), REFERENCE_TOPIC_SHARE)


def parameter_names(signature: str) -> tuple[str, ...]:
    """Names of the parameters in ``def name(a, b: int = 3, *c)``, without defaults, annotations and stars."""
    match = _PARAMETER.search(signature)
    if match is None:
        return ()
    pieces: list[str] = [""]
    depth = 0
    for char in match.group(1):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += char
    names = (re.match(r"[\s*]*([^\W\d]\w*)", piece) for piece in pieces)
    return tuple(name.group(1) for name in names if name)


def _volunteered(facts: Sequence[Fact], heard: str, saying: Sequence[str]) -> Iterator[str]:
    """The first special wish that was not stated yet, if any."""
    for fact in facts:
        if fact.is_special and fact.sentence not in heard and fact.sentence not in saying:
            yield fact.sentence
            return
