"""Discrete actions for the frontend environment: a page is a list of design slots, and the agent changes one slot per step.

This follows the improvement heuristic of Müller and Vollenkemper (arXiv:2409.11933): the agent does not construct a solution but learns
which local change to make to an existing one. In their work the objective is known. Here it is hidden, and the agent only sees the
feedback of the simulated human.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from colbench_gym.envs.colbench_env import MAX_TURNS
from colbench_gym.scoring.pages import current_page
from colbench_gym.tasks.designs.design import SLOTS, Design, plain_design
from colbench_gym.tasks.designs.topics import TOPICS, Topic
from colbench_gym.wrappers.discrete_actions import DialogueActions, Messages, Observation, hashed_words, turns_gone

_WORDS = 192
_CHOICES = tuple((slot, option) for slot, options in SLOTS.items() for option in options)
_NOTE = "<!-- slots: "


class SlotActions(DialogueActions):
    """Set one slot of the page to one option and show the page. The last page shown is scored. Episodes use all turns.

    Unlike a language model, such an agent is given the slots and options of the embedded pages, so it writes no HTML and makes no
    errors in it. It starts from the default design of the topic, and never sees the reference page or the score.

    Actions: one for each option of each slot. Setting the current option again changes nothing. Observation: the options of the
    last page; which of its texts the human quoted; the fraction of turns used; the hashed words of the human's last reply.
    """

    discount = 0.5

    def __init__(self) -> None:
        self.count = len(_CHOICES)
        self.observation_size = len(_CHOICES) + _NUM_TEXTS + 1 + _WORDS

    def observe(self, messages: Messages) -> Observation:
        """See `DialogueActions.observe`."""
        design = design_so_far(messages)
        chosen = np.array([design[slot] == option for slot, option in _CHOICES], np.float32)
        reply = messages[-1]["content"] if len(messages) > 1 and messages[-1]["role"] == "user" else ""
        quoted = np.array([f'"{text}"' in reply for text in _texts(design.topic)], np.float32)
        return np.concatenate([chosen, quoted, turns_gone(messages, MAX_TURNS), hashed_words(reply, _WORDS)])

    def say(self, action: int, messages: Messages) -> str:
        """The page with one slot changed."""
        design = design_so_far(messages)
        slot, option = _CHOICES[action]
        return page_of(Design(design.topic, {**design.choices, slot: option}))

    def allowed(self, messages: Messages) -> NDArray[np.bool_]:
        """The options that the page does not have yet."""
        design = design_so_far(messages)
        return np.array([design[slot] != option for slot, option in _CHOICES])

    def potential(self, env: Any) -> float:
        """Similarity of the page to the reference page, in [0, 1]."""
        similarity: float = env.score_answer(page_of(design_so_far(env.messages)))["similarity"]
        return similarity


def page_of(design: Design) -> str:
    """The source of the page, with its slots in an HTML comment, which is not rendered."""
    return f"{design.html()}\n{_NOTE}{' '.join(f'{slot}={option}' for slot, option in design.choices.items())} -->"


def design_so_far(messages: Messages) -> Design:
    """The design of the last page shown, read from its comment; before the first page, the default design of the topic.

    Raises:
        ValueError: If the request is not from an embedded page task, or the last page was not made by these actions.
    """
    request = messages[0]["content"]
    topic = next((topic for topic in TOPICS if topic.name in request), None)
    if topic is None:
        raise ValueError("These actions only support the embedded page tasks of ColBench-Frontend-v0.")
    page = current_page([message["content"] for message in messages if message["role"] == "assistant"])
    if not page:
        return plain_design(topic)
    _, has_note, note = page.rpartition(_NOTE)
    if not has_note:
        raise ValueError("Expected a page that was made by these actions, with a comment that lists its slots.")
    return Design(topic, dict(pair.split("=") for pair in note.partition(" -->")[0].split()))


def _texts(topic: Topic) -> tuple[str, ...]:
    return (*topic.headlines, *topic.buttons)


_NUM_TEXTS = len(_texts(TOPICS[0]))
