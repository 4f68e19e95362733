"""The hint: hidden information in front of a critic's dialogue. `data.chat.encode_hinted` (training) and `critics.advantage` (ranking) place it."""

from __future__ import annotations

from sweetrl_agent.core.messages import system_message

#: Hidden information in front of a critic's dialogue. The wording is ours; the paper conditions on the reference, arXiv:2503.15478 eq. 3.
HINT = "The {what} that the person has in mind, which the agent cannot see:\n{hidden}"


def hint_message(hidden: str, instructions: str = "", noun: str = "answer") -> list[dict[str, str]]:
    """The leading message of a critic: the agent's instructions, then the hidden information; either may be empty.

    Args:
        hidden: The hidden information.
        instructions: The agent's system prompt.
        noun: What it is, `EnvironmentRecord.hidden_noun`.
    """
    hint = HINT.format(what=noun, hidden=hidden) if hidden else ""
    return system_message(instructions, hint)
