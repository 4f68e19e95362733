"""Discrete actions for the frontend environment: a page as a list of design slots, which an agent improves step by step.

After the improvement heuristic of Müller and Vollenkemper (arXiv:2409.11933): do not construct a solution, but learn which local change to
make to one. There the objective is known; here it is hidden, and what the person says of the page is all that the agent has to go by.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colbench_gym.envs.colbench_env import MAX_TURNS, ColBenchEnv
from colbench_gym.scoring.pages import current_page
from colbench_gym.tasks.designs.design import SLOTS, Design, plain_design
from colbench_gym.tasks.designs.topics import TOPICS, Topic
from colbench_gym.wrappers.discrete_actions import DialogueActions, Messages, Observation, hashed_words, turns_gone

_WORDS = 192
_CHOICES = tuple((slot, option) for slot, options in SLOTS.items() for option in options)
_NOTE = "<!-- slots: "


class SlotActions(DialogueActions):
    """Set one slot of the page to one option and show it; the last page shown counts. Episodes are as long as the turns allow.

    What such an agent is given, and a language model is not: the slots and options that the embedded pages are made of, so that it writes
    no HTML and makes no error in it. It begins with what a designer would make unasked, and never sees the page in mind or the score.

    Actions: one for each option of each slot; one that is there already changes nothing. Observation: the options of its last page; which of its texts the person quoted;
    the turn; the words of the person's last reply, hashed.
    """

    discount = 0.5

    def __init__(self) -> None:
        self.count = len(_CHOICES)
        self.observation_size = len(_CHOICES) + _NUM_TEXTS + 1 + _WORDS

    def observe(self, messages: Messages) -> Observation:
        """See `DialogueActions.observe`."""
        design = design_so_far(messages)
        own = np.array([design[slot] == option for slot, option in _CHOICES], np.float32)
        reply = messages[-1]["content"] if len(messages) > 1 and messages[-1]["role"] == "user" else ""
        quoted = np.array([f'"{text}"' in reply for text in _texts(design.topic)], np.float32)
        return np.concatenate([own, quoted, turns_gone(messages, MAX_TURNS), hashed_words(reply, _WORDS)])

    def say(self, action: int, messages: Messages) -> str:
        """The page with one slot changed."""
        design = design_so_far(messages)
        slot, option = _CHOICES[action]
        return page_of(Design(design.topic, {**design.choices, slot: option}))

    def allowed(self, messages: Messages) -> NDArray[np.bool_]:
        """Options that the page does not have yet."""
        design = design_so_far(messages)
        return np.array([design[slot] != option for slot, option in _CHOICES])

    def potential(self, env: ColBenchEnv) -> float:
        """How much the page looks like the one in mind, in [0, 1]."""
        similarity: float = env.score_answer(page_of(design_so_far(env.messages)))["similarity"]
        return similarity


def page_of(design: Design) -> str:
    """The page's source, with a note of its slots that nobody sees on the page."""
    return f"{design.html()}\n{_NOTE}{' '.join(f'{slot}={option}' for slot, option in design.choices.items())} -->"


def design_so_far(messages: Messages) -> Design:
    """The design of the last page shown, read off its note; before the first page, what a designer would make unasked.

    Raises:
        ValueError: If the request is none of the embedded pages', or the last page was not made by these actions.
    """
    request = messages[0]["content"]
    topic = next((topic for topic in TOPICS if topic.name in request), None)
    if topic is None:
        raise ValueError("These actions are about the embedded pages of ColBench-Frontend-v0, whose slots are known.")
    page = current_page([message["content"] for message in messages if message["role"] == "assistant"])
    if not page:
        return plain_design(topic)
    _, has_note, note = page.rpartition(_NOTE)
    if not has_note:
        raise ValueError("Expected a page that these actions made, with a note of its slots.")
    return Design(topic, dict(pair.split("=") for pair in note.partition(" -->")[0].split()))


def _texts(topic: Topic) -> tuple[str, ...]:
    return (*topic.headlines, *topic.buttons)


_NUM_TEXTS = len(_texts(TOPICS[0]))
