"""The interface of an agent: the dialogue in, the next message out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Chat messages that an agent may see; the last is the human's.
Messages = Sequence[dict[str, str]]


@dataclass(frozen=True)
class Said:
    """One message of an agent.

    Attributes:
        text: The message.
        prompt_tokens: Tokens that its model read; None if unknown, 0 for an agent without a model.
        generated_tokens: Tokens that its model generated; likewise.
    """

    text: str
    prompt_tokens: int | None = 0
    generated_tokens: int | None = 0


class Agent(ABC):
    """Base class of agents. `say` is called from several threads at once, unless the agent is sequential.

    Attributes:
        uses_hidden: It sees the hidden information: an oracle, the upper bound of a score and no competitor.
        uses_reference: It sees the environment's `reference`, the answer to the task, in place of the hidden information.
        is_sequential: One dialogue at a time, such as a person.
    """

    uses_hidden: bool = False
    uses_reference: bool = False
    is_sequential: bool = False

    @abstractmethod
    def say(self, messages: Messages, seed: int, hidden: str = "") -> Said:
        """The next message.

        Args:
            messages: The dialogue so far.
            seed: Seed of this message; the same dialogue and seed should give the same message.
            hidden: The hidden information or the reference if the agent uses it, else "".

        Raises:
            AgentError: If the agent cannot speak in this dialogue. The episode is then void.
            AgentDownError: If it cannot speak in any.
        """

    def close(self) -> None:
        """Release connections. A second call does nothing."""


class FunctionAgent(Agent):
    """A function of the user's own: chat messages in, the next message out. Its tokens are not known.

    Args:
        function: The function.
    """

    def __init__(self, function: Callable[[list[dict[str, str]]], str]) -> None:
        self.function = function

    def say(self, messages: Messages, seed: int, hidden: str = "") -> Said:
        """See `Agent.say`.

        Raises:
            TypeError: If the function does not return a text.
        """
        text = self.function([dict(message) for message in messages])
        if not isinstance(text, str):
            raise TypeError(f"A policy must return the next message as a text, got {type(text).__name__}.")
        return Said(text, None, None)
