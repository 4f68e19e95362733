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
        "leak": the fraction of the hidden code that the simulated human leaked, in [0, 1]. "wishes_heard": the fraction of the task's
        special wishes that it stated literally; None for a task without special wishes.
    """
    replies = "\n".join(message["content"] for message in messages[1:] if message["role"] == "user")
    special = [fact for fact in task.hidden.facts if fact.is_special]
    heard = [turn for turn in turns_heard(special, messages) if turn is not None]
    return {
        "leak": leak_fraction(replies, task.hidden.reference, task.signature),
        "wishes_heard": len(heard) / len(special) if special else None,
    }
