"""A dialogue as text for a prompt: one unforgeable line per message, within a budget of characters."""

from __future__ import annotations

from colbench_gym.dialogue import SPEAKERS, Dialogue, Message
from colbench_gym.outside_text import quoted

#: Marks the end of a truncated message, and replaces omitted messages.
CUT, LEFT_OUT = "(the rest is left out)", "(earlier messages are left out)"


def transcript(dialogue: Dialogue, max_chars: int) -> str:
    """The dialogue with every message quoted, see `colbench_gym.outside_text.quoted`.

    Args:
        dialogue: A dialogue. It starts with the human's request, which is never truncated.
        max_chars: Maximal number of characters of all other messages together, counted before quoting. The newest have precedence: a
            message that does not fit is truncated, and earlier ones are omitted. With 0, the text contains only the request.
    """
    newest_first: list[str] = []
    messages, left = dialogue.messages[1:], max_chars
    for message in reversed(messages):
        if left <= 0 and newest_first:
            newest_first.append(LEFT_OUT)
            break
        newest_first.append(_line(message, left))
        left -= len(message.content)
    request = [_line(message, len(message.content)) for message in dialogue.messages[:1]]
    return "\n".join([*request, *reversed(newest_first)])


def _line(message: Message, max_chars: int) -> str:
    line = f"{SPEAKERS[message.role]}: {quoted(message.content[:max_chars])}"
    return line if len(message.content) <= max_chars else f"{line} {CUT}"
