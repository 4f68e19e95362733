"""The work of a stage, in parts that can be timed: episodes, sampled utterances, and passes of a model.

An algorithm states the work of its stages (`Algorithm.work`). `trainers.forecast` turns it into times of this machine, `trainers.gpu_plan` into times and
memory of a named GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

#: Share of the most possible outcome pairs, and of the episodes that a filter may keep, that a forecast expects before they are known.
EXPECTED_SHARE = 0.5


@dataclass(frozen=True)
class Lengths:
    """Sizes of an average dialogue of a run.

    Attributes:
        turns: The agent's turns.
        request: Tokens of the first message, the agent's instructions included.
        agent: Tokens of a turn of the agent.
        reply: Tokens of a reply.
        hidden: Tokens of the hidden information; 0 without any.
        source: Where they are from, in a few words.
    """

    turns: float
    request: float
    agent: float
    reply: float
    hidden: float
    source: str

    @property
    def dialogue(self) -> float:
        """Tokens of a whole dialogue; the last turn has no reply."""
        return self.request + self.turns * self.agent + (self.turns - 1) * self.reply

    @property
    def prefix(self) -> float:
        """Tokens before an average turn."""
        return self.request + (self.turns - 1) / 2 * (self.agent + self.reply)

    @property
    def spoken(self) -> float:
        """Tokens of the agent in a dialogue."""
        return self.turns * self.agent

    def as_trained(self, history: int) -> Lengths:
        """The lengths of what is one row in training: the dialogue, or for an agent that reads only some turns a single turn.

        Args:
            history: As in `core.messages.as_read`; -1 for all turns.
        """
        return self if history < 0 else replace(self, turns=1, request=self.request + history * (self.agent + self.reply))


@dataclass(frozen=True)
class Playing:
    """Episodes of the environment, without the agent.

    Attributes:
        episodes: Their number.
        turns: Turns of each.
        at_once: Episodes in flight, which matters where steps wait for a service.
    """

    episodes: float
    turns: float
    at_once: int = 1


@dataclass(frozen=True)
class Sampling:
    """Utterances of the agent.

    Attributes:
        count: Their number.
        tokens: Sampled tokens of each.
        unread: Tokens of the prompt of each that no cache has.
        context: Tokens before each.
        at_once: Utterances that are sampled together.
    """

    count: float
    tokens: float
    unread: float
    context: float
    at_once: int


@dataclass(frozen=True)
class Passes:
    """Passes of the model over whole sequences.

    Attributes:
        kind: "read" for the forward pass alone, "train" with the backward pass.
        count: Their number.
        rows: Sequences of each.
        tokens: Tokens of each sequence.
        scored: Tokens of each sequence with logits.
        steps: Optimizer steps in all.
    """

    kind: Literal["read", "train"]
    count: float
    rows: int
    tokens: float
    scored: float
    steps: float = 0


Part = Playing | Sampling | Passes


@dataclass(frozen=True)
class Work:
    """The work of a stage.

    Attributes:
        text: Its amount in words, such as "450 episodes"; "" for none.
        parts: What it consists of; () for a stage that takes no time to speak of.
        not_timed: Why no time can be given; "" if `parts` is all of the work.
    """

    text: str = ""
    parts: tuple[Part, ...] = ()
    not_timed: str = ""


def episodes(count: float, lengths: Lengths, at_once: int) -> tuple[Part, ...]:
    """The parts of playing episodes with the agent.

    Args:
        count: Number of episodes.
        lengths: Sizes of a dialogue.
        at_once: Dialogues in flight.
    """
    rows = max(1, int(min(at_once, count)))
    unread = (lengths.request + (lengths.turns - 1) * lengths.reply) / lengths.turns
    return (
        Playing(count, lengths.turns, rows),
        Sampling(count * lengths.turns, lengths.agent, unread, lengths.prefix, rows),
    )


def training(rows: float, batch: int, micro_batch: int, epochs: float, tokens: float, scored: float, sides: int = 1) -> Part:
    """Training on rows of equal length.

    Args:
        rows: Number of rows, pairs for example.
        batch: Rows of an optimizer step.
        micro_batch: Rows of a pass.
        epochs: Epochs.
        tokens: Tokens of a sequence.
        scored: Tokens of a sequence with logits.
        sides: Sequences of a row: 2 for pairs.
    """
    each = min(micro_batch, batch)
    return Passes("train", rows * epochs / each, sides * each, tokens, scored, rows * epochs / batch)


def reading(rows: float, micro_batch: int, tokens: float, scored: float, sides: int = 1) -> Part:
    """A forward pass over every row, such as the reference's; arguments as in `training`."""
    return Passes("read", rows / micro_batch, sides * micro_batch, tokens, scored)
