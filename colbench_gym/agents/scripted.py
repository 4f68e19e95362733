"""Scripted agents on ColBench's environments: an uninformed one and an oracle, the two ends of a scale.

Their menus (`colbench_gym.wrappers`) know the topics, or the slots of a page, of the embedded tasks. Real rows have no menu: there the
uninformed agent asks general questions.
"""

from __future__ import annotations

import re

import numpy as np

from colbench_gym.agents.agent import Agent, Messages, Said
from colbench_gym.agents.menu import MenuAgent, uniform
from colbench_gym.envs.colbench_env import MAX_TURNS
from colbench_gym.scoring.answer import ANSWER_MARKER
from colbench_gym.tasks.embedded import dial_of_source
from colbench_gym.wrappers.discrete_actions import DialogueActions
from colbench_gym.wrappers.question_actions import QuestionActions

BACKEND, FRONTEND = "ColBench-Backend-v0", "ColBench-Frontend-v0"
_QUESTIONS = (
    "What exactly should the result be?",
    "What do the arguments look like? Can you give an example?",
    "What should happen if an argument is empty or missing?",
    "Should anything be rounded, sorted or left out?",
    "Are there limits or special cases that I should know?",
    "What should happen with values that are not valid?",
)
_SIGNATURE = re.compile(r"def\s+\w+\s*\([^\n]*\)")


def menu_of(env_id: str, source: str) -> DialogueActions | None:
    """The discrete actions of a source of tasks; None for real rows, which have none.

    Args:
        env_id: Id of the environment.
        source: Name of the source, such as "embedded:test?preset=hard[:100]".
    """
    if not source.startswith("embedded:"):
        return None
    if env_id == BACKEND:
        return QuestionActions(dial_of_source(source))
    from colbench_gym.wrappers.slot_actions import SlotActions

    return SlotActions()


class RandomQuestions(Agent):
    """Asks about topics of the list at random, one a message and none twice, and in its last turn hands in what it heard.

    Args:
        actions: The questions.
        max_turns: Agent turns of an episode; 0 for the dial's.
    """

    def __init__(self, actions: QuestionActions, max_turns: int = 0) -> None:
        self.actions, self.max_turns = actions, max_turns or actions.dial.turns

    def say(self, messages: Messages, seed: int, hidden: str = "") -> Said:
        """See `Agent.say`."""
        answer, open_topics = self.actions.count - 1, np.flatnonzero(self.actions.allowed(messages)[:-1])
        is_last = _turn(messages) >= self.max_turns or not len(open_topics)
        action = answer if is_last else int(np.random.default_rng(seed).choice(open_topics))
        return Said(self.actions.say(action, messages))


class GeneralQuestions(Agent):
    """Asks general questions at random, and in its last turn hands in a function that returns nothing, or an empty page.

    Args:
        env_id: Id of the environment.
        max_turns: Agent turns of an episode; 0 for the benchmark's.
    """

    def __init__(self, env_id: str, max_turns: int = 0) -> None:
        self.env_id, self.max_turns = env_id, max_turns or MAX_TURNS

    def say(self, messages: Messages, seed: int, hidden: str = "") -> Said:
        """See `Agent.say`."""
        if _turn(messages) < self.max_turns:
            return Said(_QUESTIONS[int(np.random.default_rng(seed).integers(len(_QUESTIONS)))])
        signatures = _SIGNATURE.findall(messages[0]["content"])
        program = f"{signatures[-1] if signatures else 'def answer()'}:\n    return None"
        return Said(f"{ANSWER_MARKER}\n{program if self.env_id == BACKEND else '<html><body></body></html>'}")


class OracleAgent(Agent):
    """Hands in the reference in its first turn: the upper bound of the score."""

    uses_hidden = uses_reference = True

    def say(self, messages: Messages, seed: int, hidden: str = "") -> Said:
        """See `Agent.say`."""
        return Said(f"{ANSWER_MARKER}\n{hidden}")


def random_agent(env_id: str, source: str, max_turns: int) -> Agent:
    """The uninformed agent for a source of tasks: random questions, random slots of a page, or general questions on real rows."""
    menu = menu_of(env_id, source)
    if menu is None:
        return GeneralQuestions(env_id, max_turns)
    return RandomQuestions(menu, max_turns) if isinstance(menu, QuestionActions) else MenuAgent(menu, uniform)


def _turn(messages: Messages) -> int:
    """Number of the agent's next turn, from 1."""
    return 1 + sum(message["role"] == "assistant" for message in messages)
