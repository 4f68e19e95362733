"""Discrete actions for the backend environment: ask about a topic, or hand in the function."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colbench_gym.scoring.answer import ANSWER_MARKER
from colbench_gym.tasks.dial import STANDARD, Dial, parse_dial
from colbench_gym.tasks.embedded import all_families, description
from colbench_gym.tasks.families.family import Family
from colbench_gym.tasks.task import BUDGET
from colbench_gym.wrappers.discrete_actions import DialogueActions, Messages, Observation, hashed_words, turns_gone

_WORDS = 64
_BEFORE_BUDGET = BUDGET.partition("{}")[0]


class QuestionActions(DialogueActions):
    """Ask about one of the topics of the family of an embedded task, or answer.

    Unlike a language model, such an agent is given the list of topics, ready-made questions, and a program writer that implements
    the wishes heard so far without an error (and the plain choice where no wish was heard). The agent only learns *what to ask and
    when to stop*. Its success measures the value of good questions, not the ability to write programs.

    Actions: 0 .. topics - 1 ask about a topic, the last one answers. Observation: for every topic, whether it was asked about and
    whether a wish was heard; the fraction of turns used; the hashed words of the request.

    Args:
        dial: Dial of the tasks that the actions are used on, or its text in a source of tasks: "preset=hard", "topics=8&relevant=4".
    """

    def __init__(self, dial: Dial | str = STANDARD) -> None:
        self.dial = dial = parse_dial(dial) if isinstance(dial, str) else dial
        self._by_request = {_request(description(family, dial)): family for family in all_families(dial)}
        self.topics = dial.topics
        self.count = self.topics + 1
        self.observation_size = 2 * self.topics + 1 + _WORDS

    def observe(self, messages: Messages) -> Observation:
        """See `DialogueActions.observe`."""
        family, replies = self._family_of(messages), _said(messages)
        asked, heard = np.zeros(self.topics, np.float32), np.zeros(self.topics, np.float32)
        for i, topic in enumerate(family.topics):
            asked[i] = _was_asked(family, i, messages)
            heard[i] = any(option.says in replies for option in topic.options)
        request = hashed_words(messages[0]["content"], _WORDS)
        return np.concatenate([asked, heard, turns_gone(messages, self.dial.turns), request])

    def say(self, action: int, messages: Messages) -> str:
        """A question, rephrased at each repetition while unused phrasings are left; or the answer with the function."""
        family = self._family_of(messages)
        if action < len(family.topics):
            asks = family.topics[action].asks
            return asks[sum(message["content"] in asks for message in messages) % len(asks)]
        replies = _said(messages)
        choice = (next((i for i, option in enumerate(topic.options) if option.says in replies), 0) for topic in family.topics)
        return f"{ANSWER_MARKER}\n{family.reference(tuple(choice))}"

    def allowed(self, messages: Messages) -> NDArray[np.bool_]:
        """The topics that were not asked about yet, and the answer."""
        family = self._family_of(messages)
        is_open = [i < len(family.topics) and not _was_asked(family, i, messages) for i in range(self.topics)]
        return np.array([*is_open, True])

    def _family_of(self, messages: Messages) -> Family:
        family = self._by_request.get(_request(messages[0]["content"]))
        if family is None:
            raise ValueError(
                f"These actions only support embedded tasks of ColBench-Backend-v0 with the dial {self.dial.name!r}; give `QuestionActions` "
                'the dial of your tasks, as in QuestionActions("preset=hard"), or take the actions of the environment, `env.unwrapped.discrete_actions`.'
            )
        return family


def _request(text: str) -> str:
    """The part of the first message that identifies the family."""
    return text.partition(_BEFORE_BUDGET)[0]


def _was_asked(family: Family, topic: int, messages: Messages) -> bool:
    return any(message["role"] == "assistant" and message["content"] in family.topics[topic].asks for message in messages)


def _said(messages: Messages) -> str:
    return "\n".join(message["content"] for message in messages[1:] if message["role"] == "user")
