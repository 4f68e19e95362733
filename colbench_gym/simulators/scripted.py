"""A human played by rules: it knows its facts and says the one that the question is about.

The reply follows from the task and the dialogue alone, takes well under a millisecond and needs no network, so that training
can be tested, debugged and benchmarked anywhere. Tasks of our own bring their facts; for rows of the real benchmark they
are read off the reference (`code_facts`). It is deliberately a plain speaker: one fact per thing asked, nothing unasked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from colbench_gym.dialogue import Dialogue
from colbench_gym.simulators.code_facts import facts_from_reference
from colbench_gym.simulators.questions import questions
from colbench_gym.simulators.relevance import FactIndex, Match
from colbench_gym.simulators.simulator import Simulator
from colbench_gym.simulators.wording import BLANKET, is_light, stems
from colbench_gym.tasks.task import Fact, Task

LEVELS = ("terse", "normal", "chatty")
UNKNOWN_REPLIES = (
    "I don't know about that, do what you think is best.",
    "I have no view on that.",
    "I can't say anything about that, sorry.",
)
BROAD_REPLIES = (
    "That is a broad question, please ask me about something specific.",
    "I would not know where to begin, so please ask about one point.",
)
NEUTRAL_REPLIES = ("Okay.", "I see.", "All right, go on.")
CACHED_TASKS, REFERENCE_TOPIC_SHARE = 512, 1.3  # some 50 kB each; the episodes of a task follow each other
_NAMED_SCORE, _AS_GOOD = 1000.0, 0.8
_TWO_THINGS = re.compile(r"\b(?:and|also|or how|or what|as well as|plus)\b|[&;]", re.IGNORECASE)
_ASKS_FOR_ALL = re.compile(
    r"\b(?:all|each|every|rules?|conditions?|criteria|categories|cases|steps|formula|exactly|how (?:do|does|is|are|should))\b",
    re.IGNORECASE,
)
_PARAMETER = re.compile(r"\(\s*(.*)\)", re.DOTALL)


class ScriptedHuman(Simulator):
    """A deterministic, instant human for tests, debugging and training without a model server.

    Args:
        level: How much it says. "terse": the one fact that bears most on the question. "normal": up to two, when the
            message clearly asks two things. "chatty": as normal, and where a sentence is left, a special wish that was
            neither asked for nor said before.

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
        index = _index(task.hidden.facts, task.hidden.reference, task.signature)
        heard = "\n".join(message.content for message in dialogue.messages if message.role == "user")
        said = {number for number, fact in enumerate(index.facts) if fact.sentence in heard}
        asked = questions(dialogue.messages[-1].content)
        turn = dialogue.num_turns
        if not asked:
            return NEUTRAL_REPLIES[turn % len(NEUTRAL_REPLIES)]
        answers = _answers(index, asked, said, 1 if self.level == "terse" else 2)
        if len(answers) == 1 and self.level != "terse":
            meant = index.definitions(index.facts[answers[0]].sentence, said)
            answers += [number for number in meant if number not in said][:1]
        sentences = [index.facts[number].sentence for number in answers]
        if not sentences and not all(map(_is_broad, asked)):
            sentences.append(UNKNOWN_REPLIES[turn % len(UNKNOWN_REPLIES)])
        if self.level == "chatty" and len(sentences) < 2:
            sentences.extend(_volunteered(index.facts, said | set(answers)))
        return " ".join(sentences) or BROAD_REPLIES[turn % len(BROAD_REPLIES)]


@lru_cache(maxsize=CACHED_TASKS)
def _index(facts: tuple[Fact, ...], reference: str, signature: str) -> FactIndex:
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


def _is_broad(question: str) -> bool:
    return all(is_light(word) or word in BLANKET for word in stems(question))


def _volunteered(facts: Sequence[Fact], known: set[int]) -> Iterator[str]:
    """The first special wish that was not said yet, if any."""
    for number, fact in enumerate(facts):
        if fact.is_special and number not in known:
            yield fact.sentence
            return


def _answers(index: FactIndex, asked: list[str], said: set[int], limit: int) -> list[int]:
    """Positions of the facts to say, in the order in which they were asked for, at most `limit`."""
    best: dict[int, tuple[float, int]] = {}
    for position, question in enumerate(asked):
        for order, number in enumerate(index.definitions(question, said)):
            best.setdefault(number, (_NAMED_SCORE - order, position))
        words = stems(question)
        ranking = index.ranking(words, said)
        if not ranking:
            continue
        chosen = [ranking[0], *_second(index, question, words, ranking, said)]
        for order, match in enumerate(chosen):
            rank = match.score * (0.5 if match.index in said else 1.0) / (1 + order)
            if rank > best.get(match.index, (0.0, 0))[0]:
                best[match.index] = (rank, position)
    picked = sorted(best, key=lambda number: -best[number][0])[:limit]
    return sorted(picked, key=lambda number: (best[number][1], -best[number][0]))


def _second(index: FactIndex, question: str, words: list[str], ranking: list[Match], said: set[int]) -> list[Match]:
    """The second fact that one question clearly asks for, if it does.

    That is so where "and" joins two things of which the first fact covers one, or where the question wants all the rules on
    a topic that has several.
    """
    first = ranking[0]
    if _TWO_THINGS.search(question):
        left = [word for word in words if word not in first.covered and not is_light(word)]
        rest = [match for match in index.ranking(left, said) if match.index != first.index] if left else []
        if rest:
            return rest[:1]
    if _ASKS_FOR_ALL.search(question):
        topic = index.facts[first.index].topic
        return [
            match
            for match in ranking[1:]
            if index.facts[match.index].topic == topic and match.index not in said and match.score >= _AS_GOOD * first.score
        ][:1]
    return []
