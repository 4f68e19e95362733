"""Episodes: the key of an episode, its turns, and the finished episode as a row that ColBench's own tools can read.

The row has ColBench's `task`, `dialogue_history`, `answer` and `reward`. For training it also has the metrics, and each turn's
tokens with their log-probabilities under the sampling distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from colbench_gym.errors import ColBenchError
from sweetrl_agent.core.dialogues import VOID

#: Chat messages: each has "role" ("user" or "assistant"; the first may be "system") and "content".
Messages = Sequence[dict[str, str]]
#: Hidden information: one text for all turns or, where the environment redraws it, a text for each turn.
Hidden = str | list[str]
SCHEMA = 3
#: Why a turn ended: the model ended it, or the limit of tokens did.
STOP, LENGTH = "stop", "length"


@dataclass(frozen=True)
class EpisodeKey:
    """Identifies an episode: its task, and its index within the task."""

    task_id: str
    index: int = 0


@dataclass(frozen=True)
class Turn:
    """One agent utterance.

    Attributes:
        text: What was said.
        token_ids: Tokens as sampled, those of the thought included; empty if the policy returns none.
        log_probs: Their log-probabilities under the sampling distribution, in nats. Written with six decimals; the last decimal depends
            on the machine and on the number of threads.
        reward: Reward of the environment's step for it.
        usage: Tokens that the model read and generated; None if they are not known.
        thought: What the model thought before, with its marks; "" if nothing. It is no part of the dialogue.
        finish_reason: `STOP`, `LENGTH`, or what else a server said.
    """

    text: str
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    reward: float = 0.0
    usage: tuple[int, int] | None = None
    thought: str = ""
    finish_reason: str = STOP


@dataclass(frozen=True)
class Episode:
    """A finished episode.

    Attributes:
        task_id: Id of the task.
        index: Index of the episode within its task.
        messages: The dialogue as chat messages; the first is the request.
        turns: The agent's turns as sampled, in order.
        metrics: "outcome", and unless the episode is void "success", "turns", "answered" and the environment's metric.
        reward: The return: the sum of the turns' rewards.
        hidden: What was hidden when each turn was taken: a text if it was the same for all turns, else a list; "" if the environment has none.
        error: Why the episode is void, for error messages. It may quote hidden information and is not written to rows.
    """

    task_id: str
    index: int
    messages: list[dict[str, str]]
    turns: list[Turn]
    metrics: dict[str, Any]
    reward: float
    hidden: Hidden = ""
    error: str = ""

    @property
    def is_void(self) -> bool:
        """Whether the environment failed. A void episode enters neither means nor pairs."""
        return bool(self.metrics["outcome"] == VOID)

    @property
    def key(self) -> EpisodeKey:
        """The key of the episode."""
        return EpisodeKey(self.task_id, self.index)

    @property
    def messages_with_thoughts(self) -> list[dict[str, str]]:
        """The dialogue with the "thought" of each message of the agent that has one, for training on it."""
        thoughts = iter([turn.thought for turn in self.turns])
        own = [next(thoughts, "") if message["role"] == "assistant" else "" for message in self.messages]
        return [
            {**message, "thought": thought} if thought else message for message, thought in zip(self.messages, own, strict=True)
        ]

    def prefix(self, turn: int) -> list[dict[str, str]]:
        """The dialogue that the agent saw before its turn `turn`, counted from 1: o_t of the paper."""
        return self.messages[: 2 * turn - 1]

    def hidden_at(self, turn: int) -> str:
        """What was hidden when the agent took its turn `turn`, counted from 1."""
        return self.hidden if isinstance(self.hidden, str) else self.hidden[turn - 1]

    @property
    def usage(self) -> tuple[int, int] | None:
        """Tokens that the agent's model read and generated in all turns; None if they are not known."""
        known = [turn.usage for turn in self.turns if turn.usage is not None]
        return (sum(u[0] for u in known), sum(u[1] for u in known)) if len(known) == len(self.turns) else None

    def to_row(
        self, task_row: dict[str, Any] | None = None, answer: str | None = None, with_usage: bool = False
    ) -> dict[str, Any]:
        """The episode as a JSON row.

        Args:
            task_row: The task as ColBench's row, for ColBench's tools.
            answer: The answer in the last turn; None for the whole text of that turn.
            with_usage: Whether turns have the tokens that the model read.
        """
        return {
            "schema": SCHEMA,
            "task_id": self.task_id,
            "episode": self.index,
            "task": task_row or {},
            "hidden_information": self.hidden,
            "dialogue_history": self.messages,
            "answer": answer if answer is not None else (self.messages[-1]["content"] if self.turns else ""),
            "reward": self.reward,
            "metrics": self.metrics,
            "turns": [
                {
                    "text": t.text,
                    "token_ids": t.token_ids,
                    "log_probs": [round(x, 6) for x in t.log_probs],
                    "reward": t.reward,
                    **({"usage": t.usage} if with_usage else {}),
                    **({"thought": t.thought} if t.thought else {}),
                    **({"finish_reason": t.finish_reason} if t.finish_reason != STOP else {}),
                }
                for t in self.turns
            ],
        }

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Episode:
        """Read an episode from its row.

        Raises:
            ColBenchError: If the row has another schema, or a field is missing or has another type.
        """
        if row.get("schema") != SCHEMA:
            raise ColBenchError(f"Expected a trajectory row of schema {SCHEMA}, got {row.get('schema')!r}; collect it again.")
        try:
            found = cls(
                _is(row["task_id"], str),
                _is(row["episode"], int),
                [{"role": _is(said["role"], str), "content": _is(said["content"], str)} for said in row["dialogue_history"]],
                [_turn(_is(turn, dict)) for turn in _is(row["turns"], list)],
                {**row["metrics"], "outcome": _is(row["metrics"]["outcome"], str)},
                _is(row["reward"], int, float),
                hidden=_hidden(row["hidden_information"], len(row["turns"])),
            )
        except (KeyError, TypeError) as error:
            raise ColBenchError(
                f"Expected a trajectory row of schema {SCHEMA}, got one with a field missing or of another type ({error}); collect it again."
            ) from None
        if len(found.messages) < len(found.turns):
            raise ColBenchError("Expected a trajectory row with a message for each turn, got fewer messages; collect it again.")
        return found


def _turn(row: dict[str, Any]) -> Turn:
    usage = row.get("usage")
    return Turn(
        _is(row["text"], str),
        _all(row["token_ids"], int),
        _all(row["log_probs"], int, float),
        _is(row["reward"], int, float),
        None if usage is None else tuple(_all(usage, int)),
        _is(row.get("thought", ""), str),
        _is(row.get("finish_reason", STOP), str),
    )


def shared_hidden(by_turn: Sequence[str]) -> Hidden:
    """Hidden information of turns as an episode has it: one text if all are equal, else all."""
    return by_turn[0] if len({*by_turn}) == 1 else list(by_turn)


def _hidden(value: Any, num_turns: int) -> Hidden:
    if not isinstance(value, list):
        return str(_is(value, str))
    if len(_all(value, str)) != num_turns:
        raise TypeError(f"{len(value)} texts of hidden information for {num_turns} turns")
    return value


def _is(value: Any, *types: type) -> Any:
    """Return the value if its type is exactly one of these.

    Raises:
        TypeError: If it is not.
    """
    if type(value) not in types:
        raise TypeError(f"{type(value).__name__} for {types[-1].__name__}")
    return value


def _all(values: Any, *types: type) -> Any:
    """Return the list if the type of every item is exactly one of these. Checks the set of types at once, since lists of tokens are long.

    Raises:
        TypeError: If an item has another type, or the value is not a list.
    """
    if strange := {*map(type, _is(values, list))} - {*types}:
        raise TypeError(f"{strange.pop().__name__} for {types[-1].__name__} in a list")
    return values
