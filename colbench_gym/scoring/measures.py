"""What the replies of the simulated human gave away in a finished episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from colbench_gym.simulators.leak import leak_fraction
from colbench_gym.tasks.task import Task


def reply_measures(messages: Sequence[Mapping[str, str]], task: Task) -> dict[str, Any]:
    """Measures of a dialogue.

    Args:
        messages: The dialogue; the first message is the request.
        task: Its task, with the hidden information.

    Returns:
        "leak": the fraction of the hidden code that the simulated human leaked, in [0, 1]. "wishes_heard": the fraction of the task's
        special wishes that it stated literally; None for a task without special wishes.
    """
    said = "\n".join(message["content"] for message in messages[1:] if message["role"] == "user")
    special = [fact.sentence for fact in task.hidden.facts if fact.is_special]
    return {
        "leak": leak_fraction(said, task.hidden.reference, task.signature),
        "wishes_heard": sum(sentence in said for sentence in special) / len(special) if special else None,
    }
