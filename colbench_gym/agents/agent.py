"""The interface of an agent: the dialogue in, the next message out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from colbench_gym.reasoning import AUTO, Reasoning
from colbench_gym.servers.completion import LENGTH, STOP

SILENT_TURNS, CUT_TURNS, SIMULATED_TURNS = "silent_turns", "cut_turns", "simulated_turns"
#: Key of a row with what is known of the agent's turns beside what was said.
AGENT_TURNS = "agent_turns"

#: Chat messages that an agent may see; the last is the human's.
Messages = Sequence[dict[str, str]]


@dataclass(frozen=True)
class Said:
    """One message of an agent.

    Attributes:
        text: The message: the speech of `colbench_gym.reasoning`. "" if the agent only thought.
        prompt_tokens: Tokens that its model read; None if unknown, 0 for an agent without a model.
        generated_tokens: Tokens that its model generated; likewise.
        thought: What its model thought; "" if nothing.
        finish_reason: Why it ended: `STOP`, `LENGTH` if the limit of tokens cut it, or what else a server says (`colbench_gym.servers.completion`).
    """

    text: str
    prompt_tokens: int | None = 0
    generated_tokens: int | None = 0
    thought: str = ""
    finish_reason: str = STOP


class Turn(Protocol):
    """What is counted of a turn: `Said`, or a turn of a rollout."""

    @property
    def text(self) -> str:
        """What was said."""
        ...

    @property
    def thought(self) -> str:
        """What was thought."""
        ...

    @property
    def finish_reason(self) -> str:
        """Why it ended."""
        ...


def turn_counts(turns: Sequence[Turn]) -> dict[str, int]:
    """Metrics of an episode's turns: "silent_turns" that said nothing, and "cut_turns" that the limit of tokens cut; only those that are not 0."""
    silent = sum(not turn.text.strip() and (bool(turn.thought) or turn.finish_reason != STOP) for turn in turns)
    cut = sum(turn.finish_reason == LENGTH for turn in turns)
    return {name: count for name, count in ((SILENT_TURNS, silent), (CUT_TURNS, cut)) if count}


def agent_turns(turns: Sequence[Turn]) -> dict[str, list[dict[str, str]]]:
    """ "agent_turns" of a row: the "thought" and the "finish_reason" of each turn, without those that are "" or `STOP`; {} if no turn has any."""
    rows = [
        {
            **({"thought": turn.thought} if turn.thought else {}),
            **({"finish_reason": turn.finish_reason} if turn.finish_reason != STOP else {}),
        }
        for turn in turns
    ]
    return {AGENT_TURNS: rows} if any(rows) else {}


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
        reasoning: How a model behind it marks its thoughts, see `colbench_gym.reasoning.Reasoning`.
    """

    def __init__(self, function: Callable[[list[dict[str, str]]], str], reasoning: str = AUTO) -> None:
        self.function, self.reasoning = function, Reasoning(reasoning)

    def say(self, messages: Messages, seed: int, hidden: str = "") -> Said:
        """See `Agent.say`.

        Raises:
            TypeError: If the function does not return a text.
        """
        text = self.function([dict(message) for message in messages])
        if not isinstance(text, str):
            raise TypeError(f"A policy must return the next message as a text, got {type(text).__name__}.")
        reply = self.reasoning.split(text)
        return Said(reply.speech if reply.thought else text, None, None, reply.thought)
