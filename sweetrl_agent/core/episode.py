"""Episodes: the key of an episode, its turns, and the finished episode as a row that ColBench's own tools can read.

The row has ColBench's `task`, `dialogue_history`, `answer` and `reward`. For training it also has the metrics, and each turn's
tokens with their log-probabilities under the sampling distribution.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NotRequired

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from colbench_gym.errors import ColBenchError
from colbench_gym.seeds import episode_seed
from sweetrl_agent.core.dialogues import AGENT, VOID, view_of

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

    def seed(self, seed: int, stage: str) -> int:
        """Seed of the episode in a stage of a run with a seed."""
        return episode_seed(seed, stage, self.task_id, self.index)


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
        agent: Name of the agent that took it.
    """

    text: str
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    reward: float = 0.0
    usage: tuple[int, int] | None = None
    thought: str = ""
    finish_reason: str = STOP
    agent: str = AGENT

    @property
    def num_tokens(self) -> int:
        """Tokens that were sampled, or that a server says it has sampled; 0 if neither is known."""
        return len(self.token_ids) or (self.usage[1] if self.usage else 0)

    @property
    def is_cut(self) -> bool:
        """Whether the limit of tokens cut it."""
        return self.finish_reason == LENGTH


@dataclass(frozen=True)
class Episode:
    """A finished episode.

    Attributes:
        task_id: Id of the task.
        index: Index of the episode within its task.
        messages: The dialogue as chat messages; the first is the request. Where there are several agents, a message of another than `AGENT`, or to
            it, has its name as "agent": `view` has what one of them sees.
        turns: The turns of all agents as sampled, in order.
        metrics: "outcome", and unless the episode is void "success", "turns", "answered" and the environment's metric.
        reward: The return: the sum of the turns' rewards.
        hidden: What was hidden when each turn was taken: a text if it was the same for all turns, else a list; "" if the environment has none.
        error: Why the episode is void, for error messages. It may quote hidden information and is not written to rows.
        void_reason: The same in known words (`colbench_gym.errors.ColBenchError.reason`), for rows and screens; "" if the episode is not void.
        states: Snapshots of the environment before each turn, where they were asked for; not written to rows.
        keys: Keys of the environment's state before each turn (`state_key`), where they were asked for; hashable, not written to rows.
    """

    task_id: str
    index: int
    messages: list[dict[str, str]]
    turns: list[Turn]
    metrics: dict[str, Any]
    reward: float
    hidden: Hidden = ""
    error: str = ""
    void_reason: str = ""
    states: list[Any] = field(default_factory=list, repr=False, compare=False)
    keys: list[Hashable] = field(default_factory=list, repr=False, compare=False)

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
        thought_of = [next(thoughts, "") if message["role"] == "assistant" else "" for message in self.messages]
        return [
            {**message, "thought": thought} if thought else message
            for message, thought in zip(self.messages, thought_of, strict=True)
        ]

    @property
    def messages_to_imitate(self) -> list[dict[str, Any]]:
        """`messages_with_thoughts`, where the turns that the limit of tokens cut are marked as "cut": to imitate them is not to end there."""
        cut = iter([turn.is_cut for turn in self.turns])
        return [
            {**message, "cut": True} if message["role"] == "assistant" and next(cut, False) else message
            for message in self.messages_with_thoughts
        ]

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents that took turns, in the order of their first turns."""
        return tuple(dict.fromkeys(turn.agent for turn in self.turns))

    def places(self, agent: str) -> list[int]:
        """Indices of an agent's turns in `turns`."""
        return [place for place, turn in enumerate(self.turns) if turn.agent == agent]

    def view(self, agent: str) -> Episode:
        """The episode as one of its agents sees it: its messages, its turns and what was hidden at them; the whole episode if it is the only agent."""
        if self.agents == (AGENT,) == (agent,):
            return self
        places = self.places(agent)
        hidden = self.hidden if isinstance(self.hidden, str) or not places else shared_hidden([self.hidden[i] for i in places])
        return replace(
            self,
            messages=view_of(self.messages, agent),
            turns=[replace(self.turns[i], agent=AGENT) for i in places],
            hidden=hidden,
        )

    def prefix(self, turn: int) -> list[dict[str, str]]:
        """The dialogue that the agent saw before turn `turn`, counted from 1: o_t of the paper."""
        agent = self.turns[turn - 1].agent if turn <= len(self.turns) else AGENT
        seen = view_of(self.messages, agent)
        own_turns = [i for i, message in enumerate(seen) if message["role"] == "assistant"]
        return seen[: dict(enumerate(own_turns)).get(sum(earlier.agent == agent for earlier in self.turns[: turn - 1]))]

    def until(self, turn: int, last: Turn) -> Episode:
        """The episode up to turn `turn`, counted from 1, with another last turn: a fresh action in the state before it."""
        fresh = replace(last, agent=self.turns[turn - 1].agent)
        named = {} if fresh.agent == AGENT else {"agent": fresh.agent}
        before = [i for i, message in enumerate(self.messages) if message["role"] == "assistant"][turn - 1]
        return replace(
            self,
            messages=[*self.messages[:before], {"role": "assistant", "content": last.text, **named}],
            turns=[*self.turns[: turn - 1], fresh],
            hidden=self.hidden if isinstance(self.hidden, str) else self.hidden[:turn],
        )

    def hidden_at(self, turn: int) -> str:
        """What was hidden when the agent took its turn `turn`, counted from 1."""
        return self.hidden if isinstance(self.hidden, str) else self.hidden[turn - 1]

    @property
    def usage(self) -> tuple[int, int] | None:
        """Tokens that the agent's model read and generated in all turns; None if they are not known."""
        known = [turn.usage for turn in self.turns if turn.usage is not None]
        return (sum(u[0] for u in known), sum(u[1] for u in known)) if len(known) == len(self.turns) else None

    def to_row(self, task_row: dict[str, Any] | None = None, answer: str | None = None) -> dict[str, Any]:
        """The episode as a JSON row.

        Args:
            task_row: The task as ColBench's row, for ColBench's tools.
            answer: The answer in the last turn; None for the whole text of that turn.
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
                    **({"thought": t.thought} if t.thought else {}),
                    **({"finish_reason": t.finish_reason} if t.finish_reason != STOP else {}),
                    **({"agent": t.agent} if t.agent != AGENT else {}),
                    **({"usage": list(t.usage)} if t.usage and any(t.usage) and not t.token_ids else {}),
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
            valid: Any = _ROW.validate_python(row, strict=True)
        except ValidationError as error:
            problem = error.errors()[0]
            raise _broken(f"{'.'.join(map(str, problem['loc']))!r}: {problem['msg']}") from None
        messages, turns, hidden = valid["dialogue_history"], valid["turns"], valid["hidden_information"]
        if not isinstance(valid["metrics"].get("outcome"), str):
            raise _broken("'metrics.outcome'")
        if isinstance(hidden, list) and len(hidden) != len(turns):
            raise _broken(f"{len(hidden)} texts of hidden information for {len(turns)} turns")
        if len(messages) < len(turns):
            raise ColBenchError("Expected a trajectory row with a message for each turn, got fewer messages; collect it again.")
        return cls(
            valid["task_id"],
            valid["episode"],
            messages,
            [Turn(**{**turn, "usage": tuple(turn["usage"]) if "usage" in turn else None}) for turn in turns],
            valid["metrics"],
            valid["reward"],
            hidden,
        )


@dataclass(frozen=True, kw_only=True)
class BranchKey(EpisodeKey):
    """Identifies a fresh continuation of an episode: environment and policy have other random numbers than in the episode and in other continuations.

    Attributes:
        episode: The episode, with the `states` that it went through.
        turn: The first turn that is played anew, counted from 1.
        number: Number of the continuation.
        redraws: Whether what is hidden is drawn anew, from what agrees with the dialogue before that turn (capability *redraw*).
    """

    turn: int
    number: int
    redraws: bool = False
    episode: Episode = field(compare=False, repr=False)

    def seed(self, seed: int, stage: str) -> int:
        """See `EpisodeKey`."""
        return episode_seed(seed, stage, self.task_id, self.index, self.turn, self.number)


def shared_hidden(by_turn: Sequence[str]) -> Hidden:
    """Hidden information of turns as an episode has it: one text if all are equal, else all."""
    return by_turn[0] if len({*by_turn}) == 1 else list(by_turn)


class _MessageRow(TypedDict):
    role: str
    content: str
    agent: NotRequired[str]


class _TurnRow(TypedDict):
    text: str
    token_ids: list[int]
    log_probs: list[int | float]
    reward: int | float
    thought: NotRequired[str]
    finish_reason: NotRequired[str]
    agent: NotRequired[str]
    usage: NotRequired[list[int]]


class _Row(TypedDict):
    task_id: str
    episode: int
    dialogue_history: list[_MessageRow]
    turns: list[_TurnRow]
    metrics: dict[str, Any]
    reward: int | float
    hidden_information: str | list[str]


_ROW = TypeAdapter(_Row)


def _broken(problem: str) -> ColBenchError:
    return ColBenchError(
        f"Expected a trajectory row of schema {SCHEMA}, got one with a field missing or of another type ({problem}); collect it again."
    )
