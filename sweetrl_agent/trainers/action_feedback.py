"""Advice on actions of a menu and feedback on it: their advantages by state, and what a teacher learns from: preferences, weighted imitations, examples in its prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from colbench_gym.files import Row
from sweetrl_agent.core.actions import DialogueActions
from sweetrl_agent.core.episode import Messages

#: How a student takes a proposal (`trainers.advised_student`).
FEATURE, PRIOR = "feature", "prior"
#: An action of the student: the dialogue before it, the teacher's log-probabilities there, the action, and its advantage by GAE.
Step = tuple[Messages, NDArray[np.float64], int, float]
#: Largest weight of an imitated action, as in advantage-weighted regression (arXiv:1910.00177, section 5).
LARGEST_WEIGHT = 20.0
#: Characters of a state in an example.
_SHOWN_CHARS = 300


def advice_of(log_probs: NDArray[np.float64], form: str) -> NDArray[np.float32]:
    """What is appended to observations, shape (N, count): log-probabilities, or the one-hot vectors of the most likely actions."""
    if form == PRIOR:
        return log_probs.astype(np.float32)
    return np.eye(log_probs.shape[1], dtype=np.float32)[log_probs.argmax(axis=1)]


@dataclass
class Played:
    """What a round of the student has played.

    Attributes:
        returns: Return of every finished episode.
        turns: Turns of every finished episode.
        steps: Its actions, whose advantages are the student's feedback.
    """

    returns: list[float] = field(default_factory=list)
    turns: list[float] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class StateFeedback:
    """Feedback in a state of the student.

    Attributes:
        messages: A dialogue in that state.
        advantages: Mean advantage of every action that was tried there, by action.
        visits: How often each was tried.
        log_probs: The teacher's log-probabilities of all actions when the dialogue was played.
    """

    messages: Messages
    advantages: dict[int, float]
    visits: dict[int, int]
    log_probs: Sequence[float]


def rows_of(steps: Iterable[Step], actions: DialogueActions) -> list[Row]:
    """Feedback of a round, a row for each state: dialogues with the same observation are the same state to the student.

    Args:
        steps: Actions of the student with their advantages.
        actions: The menu.
    """
    rows: dict[bytes, Row] = {}
    for messages, log_probs, action, advantage in steps:
        new = {"messages": list(messages), "log_probs": [round(float(x), 6) for x in log_probs], "sums": {}, "visits": {}}
        row = rows.setdefault(actions.observe(messages).tobytes(), new)
        row["sums"][str(action)] = row["sums"].get(str(action), 0.0) + advantage
        row["visits"][str(action)] = row["visits"].get(str(action), 0) + 1
    return list(rows.values())


def pooled(rows: Iterable[Row], actions: DialogueActions, least_visits: int = 1) -> list[StateFeedback]:
    """The rows of several rounds by state: means over all visits, and the latest dialogue with its log-probabilities.

    Args:
        rows: Rows of `rows_of`, those of earlier rounds first.
        actions: The menu.
        least_visits: Actions that were tried less often are left out.
    """
    sums: dict[bytes, Row] = {}
    for row in rows:
        state = sums.setdefault(actions.observe(row["messages"]).tobytes(), {"sums": {}, "visits": {}})
        state["messages"], state["log_probs"] = row["messages"], row["log_probs"]
        for column in ("sums", "visits"):
            for action, value in row[column].items():
                state[column][int(action)] = state[column].get(int(action), 0) + value
    return [
        StateFeedback(
            state["messages"],
            {a: state["sums"][a] / count for a, count in state["visits"].items() if count >= least_visits},
            state["visits"],
            state["log_probs"],
        )
        for state in sums.values()
    ]


def preferences(
    feedback: Iterable[StateFeedback], actions: DialogueActions, least_difference: float = 0.0, per_state: int = 4
) -> list[Row]:
    """Pairs of each state: the action with the highest advantage, and of those that are worse the ones that the teacher would most likely propose.

    Args:
        feedback: The feedback.
        actions: The menu.
        least_difference: An action counts as worse if its advantage is lower by at least that much, and lower at all.
        per_state: Largest number of pairs of a state.

    Returns:
        Rows with "prompt" (messages), "chosen" and "rejected" (texts).
    """
    rows: list[Row] = []
    for state in feedback:
        best = max(state.advantages, key=lambda action: state.advantages[action], default=-1)
        gaps = {action: state.advantages[best] - advantage for action, advantage in state.advantages.items()}
        worse = [action for action, gap in gaps.items() if gap > 0 and gap >= least_difference]
        for proposed in sorted(worse, key=lambda action: -state.log_probs[action])[:per_state]:
            texts = {"chosen": actions.say(best, state.messages), "rejected": actions.say(proposed, state.messages)}
            if texts["chosen"] != texts["rejected"]:
                rows.append({"prompt": list(state.messages), **texts})
    return rows


def imitations(feedback: Sequence[StateFeedback], actions: DialogueActions, temperature: float, seed: int) -> list[Messages]:
    """As many dialogues as there are tried actions, drawn with weights exp(A / (temperature * sd(A))); each ends with its action.

    Args:
        feedback: The feedback.
        actions: The menu.
        temperature: Temperature, in standard deviations of all advantages.
        seed: Seed of the draws.
    """
    tried = [(state, action, advantage) for state in feedback for action, advantage in state.advantages.items()]
    if not tried:
        return []
    advantages = np.array([advantage for _, _, advantage in tried])
    spread = temperature * (advantages.std() or 1.0)
    weights = np.exp(np.minimum(advantages / spread, np.log(LARGEST_WEIGHT)))
    drawn = np.random.default_rng(seed).choice(len(tried), len(tried), p=weights / weights.sum())
    return [
        [*state.messages, {"role": "assistant", "content": actions.say(action, state.messages)}]
        for state, action, _ in (tried[i] for i in drawn)
    ]


def note(feedback: Sequence[StateFeedback], messages: Messages, actions: DialogueActions, count: int) -> str:
    """Examples of good and bad proposals for the teacher's prompt: of the states most like this one; "" without any.

    The likeness of two states is the share of words that their last messages have in common (Jaccard's index). Of each state, the best action
    is shown if its advantage is above 0, and the worst if it is below 0.

    Args:
        feedback: The feedback.
        messages: The dialogue now.
        actions: The menu.
        count: Largest number of examples.
    """
    words = _words(messages)
    lines: list[str] = []
    for state in sorted(feedback, key=lambda state: -_likeness(words, _words(state.messages))):
        for action in dict.fromkeys(_extremes(state.advantages)):
            advantage = state.advantages[action]
            heard, text = (
                " ".join(part.split())[:_SHOWN_CHARS]
                for part in (state.messages[-1]["content"], actions.say(action, state.messages))
            )
            lines.append(f'To "{heard}", your proposal "{text}" was {"good" if advantage > 0 else "bad"} ({advantage:+.2f}).')
        if len(lines) >= count:
            break
    return "\n".join(["Earlier proposals and what they were worth:", *lines[:count]]) if lines[:count] else ""


def _extremes(advantages: dict[int, float]) -> list[int]:
    """The best action if it is good, and the worst if it is bad."""
    ranked = sorted(advantages, key=lambda action: -advantages[action])
    return (
        [
            action
            for action, is_shown in ((ranked[0], advantages[ranked[0]] > 0), (ranked[-1], advantages[ranked[-1]] < 0))
            if is_shown
        ]
        if ranked
        else []
    )


def _words(messages: Messages) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", messages[-1]["content"].lower()))


def _likeness(words: frozenset[str], others: frozenset[str]) -> float:
    return len(words & others) / max(len(words | others), 1)
