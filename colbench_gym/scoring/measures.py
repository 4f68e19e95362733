"""What the replies of the simulated human gave away in a finished episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from colbench_gym.scoring.leak import leak_fraction
from colbench_gym.tasks.task import Fact, Task


def turns_heard(facts: Sequence[Fact], messages: Sequence[Mapping[str, str]]) -> list[int | None]:
    """For each fact, the turn of the agent, from 1, whose reply states it first; None if none does."""
    replies = [message["content"] for message in messages[1:] if message["role"] == "user"]
    return [next((turn for turn, text in enumerate(replies, 1) if fact.sentence in text), None) for fact in facts]


def reply_measures(messages: Sequence[Mapping[str, str]], task: Task) -> dict[str, Any]:
    """Measures of a dialogue.

    Args:
        messages: The dialogue; the first message is the request.
        task: Its task, with the hidden information.

    Returns:
        "leak": the fraction of the hidden code that the simulated human leaked, in [0, 1]. "points_stated": how many of the points that the request
        leaves open it stated, special wishes and plain choices; None for a task without such points. "wishes_heard": the fraction of the task's
        special wishes that it stated literally; None for a task without special wishes.
    """
    replies = "\n".join(message["content"] for message in messages[1:] if message["role"] == "user")
    facts = task.hidden.facts
    stated = [turn is not None for turn in turns_heard(facts, messages)]
    special = [is_stated for fact, is_stated in zip(facts, stated, strict=True) if fact.is_special]
    return {
        "leak": leak_fraction(replies, task.hidden.reference, task.signature),
        "points_stated": sum(stated) if facts else None,
        "wishes_heard": sum(special) / len(special) if special else None,
    }
