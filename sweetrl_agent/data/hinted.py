"""Dialogues with the hidden information in front of them, as a critic reads them."""

from __future__ import annotations

from collections.abc import Sequence

from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.messages import hint_message
from sweetrl_agent.data.chat import Chat, EncodedDialogue


def encode_hinted(messages: Messages, hidden: Sequence[str], instructions: str, noun: str, chat: Chat) -> list[EncodedDialogue]:
    """Encode a dialogue behind its hint. Where the environment redraws what it hides, every turn has a dialogue of its own, whose last turn it is.

    Args:
        messages: The dialogue; a critic reads no thoughts.
        hidden: The hidden information: one text for all turns, or one for each.
        instructions: The agent's system prompt.
        noun: `EnvironmentRecord.hidden_noun`.
        chat: The critic's tokenizer and template.

    Returns:
        All turns in order, as `Chat.sequences`.

    Raises:
        ValueError: As `Chat.sequences`, or if there are several texts but not one for each turn.
    """
    said = [{"role": message["role"], "content": message["content"]} for message in messages]
    if len(hidden) == 1:
        return chat.sequences([*hint_message(hidden[0], instructions, noun), *said])
    ends = [i + 1 for i, message in enumerate(said) if message["role"] == "assistant"]
    return [
        chat.last_turn([*hint_message(own, instructions, noun), *said[:end]]) for end, own in zip(ends, hidden, strict=True)
    ]
