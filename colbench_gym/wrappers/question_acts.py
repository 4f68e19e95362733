"""Acts for the backend environment: ask about a topic, or hand in the function."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from colbench_gym.envs.backend import MAX_TURNS
from colbench_gym.scoring.answer import ANSWER_MARKER
from colbench_gym.tasks.embedded import families
from colbench_gym.tasks.families.family import Family
from colbench_gym.wrappers.acts import Acts, Messages, Observation, hashed_words, turns_gone

_WORDS = 64


class QuestionActs(Acts):
    """Ask about one of the topics on which an embedded request is silent, or answer.

    What such an agent is given, and a language model is not: the list of topics of the request's family, ready-made questions, and a
    programmer who writes what was heard without an error (the plain choice where nothing was). What is left to it is *what to ask and
    when to stop*; its success says what asking well is worth, not how well it writes.

    Acts: 0 .. topics - 1 ask, the last answers. Observation: for every topic, whether it was asked and whether a wish was heard; the
    turn; the words of the request, hashed.
    """

    def __init__(self) -> None:
        self.topics = max(len(family.topics) for family in _families())
        self.count = self.topics + 1
        self.observation_size = 2 * self.topics + 1 + _WORDS

    def observe(self, messages: Messages) -> Observation:
        """See `Acts.observe`."""
        family, said = _family_of(messages), _said(messages)
        asked, heard = np.zeros(self.topics, np.float32), np.zeros(self.topics, np.float32)
        for i, topic in enumerate(family.topics):
            asked[i] = _was_asked(family, i, messages)
            heard[i] = any(option.says in said for option in topic.options)
        request = hashed_words(messages[0]["content"], _WORDS)
        return np.concatenate([asked, heard, turns_gone(messages, MAX_TURNS), request])

    def say(self, act: int, messages: Messages) -> str:
        """A question, each time in other words while there are any; or the function."""
        family = _family_of(messages)
        if act < len(family.topics):
            asks = family.topics[act].asks
            return asks[sum(message["content"] in asks for message in messages) % len(asks)]
        said = _said(messages)
        choice = (next((i for i, option in enumerate(topic.options) if option.says in said), 0) for topic in family.topics)
        return f"{ANSWER_MARKER}\n{family.reference(tuple(choice))}"

    def allowed(self, messages: Messages) -> NDArray[np.bool_]:
        """Topics not asked about yet, and the answer."""
        family = _family_of(messages)
        own = [i < len(family.topics) and not _was_asked(family, i, messages) for i in range(self.topics)]
        return np.array([*own, True])


def _was_asked(family: Family, topic: int, messages: Messages) -> bool:
    return any(message["role"] == "assistant" and message["content"] in family.topics[topic].asks for message in messages)


def _said(messages: Messages) -> str:
    return "\n".join(message["content"] for message in messages[1:] if message["role"] == "user")


@cache
def _families() -> tuple[Family, ...]:
    return (*families(True), *families(False))


@cache
def _by_signature() -> dict[str, Family]:
    return {family.signature: family for family in _families()}


def _family_of(messages: Messages) -> Family:
    signature = messages[0]["content"].rpartition("is: ")[2]
    if signature not in _by_signature():
        raise ValueError("These acts are about the embedded tasks of ColBench-Backend-v0, whose topics are known.")
    return _by_signature()[signature]
