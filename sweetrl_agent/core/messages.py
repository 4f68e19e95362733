"""The leading message with an agent's instructions, and the part of a dialogue that an agent reads."""

from __future__ import annotations

from collections.abc import Sequence


def system_message(*parts: str) -> list[dict[str, str]]:
    """A leading system message of the parts that are not empty, an empty line between them; no message if all are empty."""
    content = "\n\n".join(part for part in parts if part)
    return [{"role": "system", "content": content}] if content else []


def as_read(messages: Sequence[dict[str, str]], history: int) -> list[dict[str, str]]:
    """What an agent reads of a dialogue before its next turn.

    Args:
        messages: The dialogue; the last message is the user's.
        history: Number of the latest earlier turns that it reads, each with the user's message before it; -1 for all. A leading system message
            is always read.
    """
    if history < 0:
        return list(messages)
    leading = [message for message in messages[:1] if message["role"] == "system"]
    return [*leading, *messages[len(leading) :][-2 * history - 1 :]]
