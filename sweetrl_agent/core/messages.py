"""Leading messages: an agent's instructions, and a critic's hidden information. What of a dialogue an agent reads."""

from __future__ import annotations

from collections.abc import Sequence

#: Hidden information in front of a critic's dialogue. The wording is ours; the paper conditions on the reference, arXiv:2503.15478 eq. 3.
HINT = "The {what} that the person has in mind, which the agent cannot see:\n{hidden}"


def system_message(*parts: str) -> list[dict[str, str]]:
    """A leading system message of the parts that are not empty, an empty line between them; no message if all are empty."""
    content = "\n\n".join(part for part in parts if part)
    return [{"role": "system", "content": content}] if content else []


def hint_message(hidden: str, instructions: str = "", noun: str = "answer") -> list[dict[str, str]]:
    """The leading message of a critic: the agent's instructions, then the hidden information; either may be empty.

    Args:
        hidden: The hidden information.
        instructions: The agent's system prompt.
        noun: What it is, `EnvironmentRecord.hidden_noun`.
    """
    hint = HINT.format(what=noun, hidden=hidden) if hidden else ""
    return system_message(instructions, hint)


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
