"""The amount of work of a stage, and how fast something does it.

An algorithm states the work of its stages (`Algorithm.work`). `trainers.speeds` measures the speeds of this machine, `trainers.gpu_plan` assumes those of named
GPUs, and `trainers.resources` derives the memory.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isnan, nan

#: Share of the most possible outcome pairs, and of the episodes that a filter may keep, that a forecast expects before they are known.
EXPECTED_SHARE = 0.5
#: Prompts that are read in one pass of sampling.
_PROMPTS = 8


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

    def rows(self, dialogues: float, history: int) -> tuple[float, float, float]:
        """The rows of training on dialogues: their number, the tokens of each, and its tokens with logits.

        Args:
            dialogues: Number of dialogues.
            history: As in `core.messages.as_read`. A dialogue is one row with -1, else each of its turns is one.
        """
        if history < 0:
            return dialogues, self.dialogue, self.spoken
        return dialogues * self.turns, self.request + history * (self.agent + self.reply) + self.agent, self.agent


@dataclass(frozen=True)
class Work:
    """The work of a stage. The sum of two has the amounts of both, and the larger size of what is done together.

    Attributes:
        text: Its amount in words, such as "450 episodes"; "" for none.
        not_timed: Why no time can be given; "" if the amounts are known.
        episodes, turns: Episodes of the environment, and their turns.
        utterances, sampled, prompts: Utterances of the agent, their tokens, and the tokens of their prompts that no cache has.
        reads, read: Forward passes over whole sequences, and their tokens.
        trainings, trained, steps: Forward and backward passes, their tokens, and optimizer steps.
        at_once: Dialogues in flight.
        models: Models that speak or learn and are in memory together: those of a team.
        pass_tokens, pass_scored: Tokens of a pass, and those of them with logits.
    """

    text: str = ""
    not_timed: str = ""
    episodes: float = 0.0
    turns: float = 0.0
    utterances: float = 0.0
    sampled: float = 0.0
    prompts: float = 0.0
    reads: float = 0.0
    read: float = 0.0
    trainings: float = 0.0
    trained: float = 0.0
    steps: float = 0.0
    at_once: int = 1
    models: int = 1
    pass_tokens: float = 0.0
    pass_scored: float = 0.0

    def __add__(self, other: Work) -> Work:
        values = {field.name: (getattr(self, field.name), getattr(other, field.name)) for field in fields(self)}
        largest = ("at_once", "models", "pass_tokens", "pass_scored")
        return Work(**{name: max(pair) if name in largest else pair[0] + pair[1] for name, pair in values.items()})

    @property
    def is_played(self) -> bool:
        """Whether the agent speaks or acts, rather than only learns."""
        return bool(self.episodes or self.sampled)

    @property
    def has_amounts(self) -> bool:
        """Whether there is anything to do that takes time."""
        return bool(self.is_played or self.read or self.trained)


def episodes(count: float, lengths: Lengths, at_once: int, has_model: bool = True) -> Work:
    """Episodes of the environment.

    Args:
        count: Number of episodes.
        lengths: Sizes of a dialogue.
        at_once: Dialogues in flight.
        has_model: Whether a language model plays them.
    """
    turns, rows = count * lengths.turns, max(1, int(min(at_once, count)))
    if not has_model:
        return Work(episodes=count, turns=turns, at_once=rows)
    prompts = count * (lengths.request + (lengths.turns - 1) * lengths.reply)
    return Work(
        episodes=count, turns=turns, utterances=turns, sampled=count * lengths.spoken, prompts=prompts, at_once=rows
    )  # fmt: skip


def reading(rows: float, micro_batch: int, tokens: float, scored: float, sides: int = 1) -> Work:
    """Forward passes over all rows; arguments as in `training`."""
    size = sides * micro_batch
    return Work(reads=rows / micro_batch, read=rows * sides * tokens, pass_tokens=size * tokens, pass_scored=size * scored)


def training(
    rows: float, tokens: float, scored: float, batch: int, micro_batch: int, epochs: float, sides: int = 1, reads: float = 0.0
) -> Work:
    """Training on rows of equal length.

    Args:
        rows: Number of rows, pairs for example.
        tokens: Tokens of a sequence.
        scored: Tokens of a sequence with logits.
        batch: Rows of an optimizer step.
        micro_batch: Rows of a pass.
        epochs: Epochs.
        sides: Sequences of a row: 2 for pairs.
        reads: Forward passes over each row besides, such as the reference's.
    """
    each, seen = min(micro_batch, batch), rows * epochs
    trained = Work(trainings=seen / each, trained=seen * sides * tokens, steps=seen / batch)
    return trained + reading(rows * reads, each, tokens, scored, sides)


@dataclass(frozen=True)
class Line:
    """Seconds of something: so many of each call, and so many of each token. NaN if they are not known."""

    call: float = 0.0
    token: float = 0.0

    def seconds(self, calls: float, tokens: float) -> float:
        """Seconds of calls with so many tokens in all."""
        return calls * self.call + tokens * self.token if tokens else 0.0


UNKNOWN = Line(nan, nan)


@dataclass(frozen=True)
class Speeds:
    """How fast something does work.

    Attributes:
        read, train: Passes.
        sample: One token in each dialogue in flight.
        prompt: Passes over prompts before sampling.
        step_s: Seconds of an optimizer step.
        reset_s, turn_s: Seconds of the environment.
        waits: Whether its turns wait for a service, all in flight at once.
        basis: What these rest on, in words.
    """

    read: Line = UNKNOWN
    train: Line = UNKNOWN
    sample: Line = UNKNOWN
    prompt: Line = Line()
    step_s: float = 0.0
    reset_s: float = 0.0
    turn_s: float = 0.0
    waits: bool = False
    basis: str = ""

    def seconds(self, work: Work) -> float | None:
        """Seconds of work; None if they are not known."""
        total = (work.episodes * self.reset_s + work.turns * self.turn_s) / (work.at_once if self.waits else 1)
        total += self.sample.seconds(work.sampled / work.at_once, work.sampled) + self.read.seconds(work.reads, work.read)
        total += self.prompt.seconds(work.utterances / _PROMPTS, work.prompts) + work.steps * self.step_s
        total += self.train.seconds(work.trainings, work.trained)
        return None if work.not_timed or isnan(total) else total
