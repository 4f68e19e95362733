"""The leading message with an agent's instructions, and the part of a dialogue that an agent reads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile


def system_message(*parts: str) -> list[dict[str, str]]:
    """A leading system message of the parts that are not empty, an empty line between them; no message if all are empty."""
    content = "\n\n".join(part for part in parts if part)
    return [{"role": "system", "content": content}] if content else []


#: What a critic that must not see replies reads in their place.
NO_REPLY = "Noted."


def without_replies(messages: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """A dialogue in which every user's message but the first reads `NO_REPLY`: what was asked, without what was replied."""
    request = next((i for i, message in enumerate(messages) if message["role"] == "user"), 0)
    return [
        {**message, "content": NO_REPLY} if message["role"] == "user" and i > request else message
        for i, message in enumerate(messages)
    ]


def as_read(messages: Sequence[dict[str, str]], history: int) -> list[dict[str, str]]:
    """What an agent reads of a dialogue before its next turn.

    Args:
        messages: The dialogue; the last message is the user's.
        history: Number of the latest earlier turns that it reads, each with the user's messages before it; -1 for all. Leading system messages
            are always read: the agent's instructions, and what an environment begins with.
    """
    if history < 0:
        return list(messages)
    leading = list(takewhile(lambda message: message["role"] == "system", messages))
    rest = messages[len(leading) :]
    turns = [i for i, message in enumerate(rest) if message["role"] == "assistant"]
    return [*leading, *rest[turns[-history - 1] + 1 if len(turns) > history else 0 :]]
