"""The dialogue type that all packages share: an ordered sequence of messages.

Roles are those of chat templates: "user" is the (simulated) human, "assistant" is the agent. A dialogue is immutable, so
environment snapshots, cache keys of simulators and trajectories can hold it without copying.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Role = Literal["user", "assistant"]
SPEAKERS: dict[str, str] = {"user": "Human", "assistant": "Agent"}


@dataclass(frozen=True)
class Message:
    """One utterance."""

    role: Role
    content: str

    def __post_init__(self) -> None:
        if self.role not in SPEAKERS:
            raise ValueError(f"`role` must be 'user' or 'assistant', got {self.role!r}.")


@dataclass(frozen=True)
class Dialogue:
    """A sequence of messages that starts with the human's request."""

    messages: tuple[Message, ...] = ()

    @classmethod
    def from_dicts(cls, messages: Iterable[Mapping[str, str]]) -> Dialogue:
        """Build a dialogue from chat messages. Keys other than role and content are dropped."""
        return cls(tuple(Message(m["role"], m["content"]) for m in messages))  # type: ignore[arg-type]

    def add(self, role: Role, content: str) -> Dialogue:
        """Return the dialogue with one more message."""
        return Dialogue((*self.messages, Message(role, content)))

    def to_dicts(self) -> list[dict[str, str]]:
        """Chat messages, ready for a chat template."""
        return [{"role": m.role, "content": m.content} for m in self.messages]

    @property
    def num_turns(self) -> int:
        """Number of agent utterances so far."""
        return sum(m.role == "assistant" for m in self.messages)

    def transcript(self) -> str:
        """The dialogue as text: one paragraph per message, each with its speaker in front."""
        return "\n\n".join(f"{SPEAKERS[m.role]}: {m.content}" for m in self.messages)
