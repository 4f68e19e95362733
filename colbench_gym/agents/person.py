"""A person at the terminal as the agent."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from colbench_gym.agents.agent import Agent, Messages, Said
from colbench_gym.errors import AgentDownError
from colbench_gym.outside_text import printable

HOW = "An empty line sends. Start your answer with I WANT TO ANSWER: and put a program or page in a ``` fence."


def read_message(lines: Iterable[str]) -> str | None:
    """Read up to an empty line outside a code fence, or to the end of the input. None if the input is empty."""
    kept: list[str] = []
    for line in lines:
        line = line.rstrip("\r\n")
        is_in_fence = sum(part.count("```") for part in kept) % 2 == 1
        if line.strip() or is_in_fence:
            kept.append(line)
        elif kept:
            break
    return "\n".join(kept) if kept else None


class PersonAgent(Agent):
    """Shows the human's last message and reads the agent's from the terminal. Control characters of the human's text are escaped.

    Args:
        lines: Lines of the person; None for the terminal's.
        output: Prints one text.
    """

    is_sequential = True

    def __init__(self, lines: Iterable[str] | None = None, output: Callable[[str], Any] = print) -> None:
        self._lines = iter(lines if lines is not None else (sys.stdin or ()))
        self._output = output

    def say(self, messages: Messages, seed: int, hidden: str = "") -> Said:
        """Ask the person; `seed` is not used.

        Raises:
            AgentDownError: If the input has ended.
        """
        if len(messages) <= 1:
            self._output(f"\n--- a new dialogue. {HOW}")
        self._output(f"\nHuman: {printable(messages[-1]['content'])}\n")
        message = read_message(self._lines)
        if message is None:
            raise AgentDownError(
                "Expected a message from the person, got the end of the input; the same command resumes with this dialogue."
            )
        return Said(message)
