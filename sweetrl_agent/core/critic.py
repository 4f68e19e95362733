"""The interface of a critic: it scores candidates for the agent's next turn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from sweetrl_agent.core.episode import Hidden, Messages


def all_advantages(critic: Critic, messages: Messages, hidden: Hidden) -> list[float]:
    """Advantage of every agent turn of a dialogue, each with what was hidden when it was taken.

    Args:
        critic: The critic.
        messages: The dialogue.
        hidden: `Episode.hidden`.
    """
    if isinstance(hidden, str):
        return critic.dialogue_advantages(messages, hidden)
    ends = [i + 2 for i, message in enumerate(messages) if message["role"] == "assistant"]  # with the reply to the turn
    return [critic.dialogue_advantages(messages[:end], at_turn)[-1] for end, at_turn in zip(ends, hidden, strict=True)]


class Reply(str):
    """What the other side says to a candidate: a text, "" where the candidate ends the episode.

    Attributes:
        reward: Reward of the environment's step.
        success: Whether the episode that the candidate ends is a success; None if it does not end it, or this is not known.
    """

    reward: float = 0.0
    success: bool | None = None

    @classmethod
    def of(cls, text: str, reward: float, success: bool | None) -> Reply:
        """A reply with what its step has returned."""
        reply = cls(text)
        reply.reward, reply.success = reward, success
        return reply


class Critic(Protocol):
    """A critic of agent turns.

    A critic of your own is a subclass that defines `rank`. It is named by `--critic my_package:MyCritic`, or with keyword arguments of
    its constructor by `--critic '{"name": "my_package:MyCritic", "weight": 2}'`, and SWEET-RL trains an actor with it. It may also have:

        name: Its name in files and reports; by default its class's name and its arguments.
        title: Its title in reports; by default its name.
        uses_hidden: Whether it sees the hidden information; True by default. If False, `hidden` is always "".
        requires: Required capabilities of the environment besides, from `core.environment.CAPABILITY_NAMES`. One that requires "snapshot"
            defines `rank(messages, hidden, texts, replies)`: what the other side says to each candidate, a `Reply`; of a recorded dialogue a text.
        train(run, folder): Trains it on files of the run folder, such as outcome_pairs.jsonl, and writes `folder` (a `Path`).
        load(run, folder): Called once before it scores, for example to read what `train` has written.
        close(): Called when it has scored.
    """

    @abstractmethod
    def rank(self, messages: Messages, hidden: str, texts: Sequence[str]) -> list[float]:
        """Scores of candidates for the agent's next turn; higher is better, equal texts get equal scores.

        Args:
            messages: The dialogue as the agent sees it; the last message is the user's.
            hidden: Hidden information that the critic sees, as it is at this turn; "" for none.
            texts: The candidates.
        """
        ...

    def dialogue_advantages(self, messages: Messages, hidden: str) -> list[float]:
        """Advantage of every agent turn of a dialogue, in order; by default its score as the only candidate of its turn."""
        turns = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        rank: Any = self.rank
        replies = [([messages[i + 1]["content"]] if i + 1 < len(messages) else [""],) for i in turns]
        more = replies if "snapshot" in getattr(self, "requires", ()) else [()] * len(turns)
        return [rank(messages[:i], hidden, [messages[i]["content"]], *reply)[0] for i, reply in zip(turns, more, strict=True)]
