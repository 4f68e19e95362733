"""Dialogues with the hidden information in front of them, as a critic reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.messages import hint_message
from sweetrl_agent.data.chat import EncodedDialogue, encode_dialogue


def encode_hinted(
    messages: Messages, hidden: Sequence[str], instructions: str, noun: str, tokenizer: Any
) -> list[EncodedDialogue]:
    """Encode a dialogue behind its hint. Where the environment redraws what it hides, every turn has a dialogue of its own, whose last turn it is.

    Args:
        messages: The dialogue.
        hidden: The hidden information: one text for all turns, or one for each.
        instructions: The agent's system prompt.
        noun: `EnvironmentRecord.hidden_noun`.
        tokenizer: Tokenizer with the chat template.

    Returns:
        One dialogue; or one for each turn, in which the tokens of that turn have the turn id 1, and all others 0.

    Raises:
        ValueError: As `encode_dialogue`, or if there are several texts but not one for each turn.
    """
    if len(hidden) == 1:
        return [encode_dialogue([*hint_message(hidden[0], instructions, noun), *messages], tokenizer)]
    ends = [i + 1 for i, message in enumerate(messages) if message["role"] == "assistant"]
    dialogues = [
        encode_dialogue([*hint_message(own, instructions, noun), *messages[:end]], tokenizer)
        for end, own in zip(ends, hidden, strict=True)
    ]
    return [
        EncodedDialogue(dialogue.token_ids, [int(turn == number) for turn in dialogue.turn_ids])
        for number, dialogue in enumerate(dialogues, 1)
    ]
