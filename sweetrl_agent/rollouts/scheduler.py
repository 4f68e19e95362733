"""Schedules the dialogues of one shard for `play`.

A running episode is in one of three states: queued, with the agent (`speaking`), or with the environment (`waiting` for a reply or for scoring).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from colbench_gym.errors import AgentDownError, AgentError, ColBenchError, ScoringError
from sweetrl_agent.core.dialogues import VOID, DialogueEnvs
from sweetrl_agent.core.episode import Episode, EpisodeKey, Messages, Turn, shared_hidden
from sweetrl_agent.core.policy import ContinuousPolicy, InformedPolicy, Utterance
from sweetrl_agent.core.seeds import derive_seed

#: The simulator or the sandbox counts as down after this many consecutive failed episodes, of this many tasks (or of all tasks of the shard).
#: A server that fails occasionally, or on one task only, does not count as down.
MOST_FAILED, FAILED_TASKS = 10, 3
#: Finished episodes, by their keys.
Played = dict[EpisodeKey, Episode]


class WorldDownError(ColBenchError):
    """The simulated human or the sandbox has failed many times in a row.

    Attributes:
        played: Valid episodes that ended before.
    """

    def __init__(self, message: str, played: Played) -> None:
        super().__init__(message)
        self.played = played

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.played)


@dataclass(frozen=True)
class BestOf:
    """Best-of-N: every turn is the best of N candidates by a critic's score (arXiv:2503.15478, Figure 3a).

    With a critic that sees the hidden information, this is an analysis of the critic and not a deployable agent.

    Attributes:
        num_candidates: N.
        credit: Computes scores of candidates from the dialogue, the hidden information and the candidates.
    """

    num_candidates: int
    credit: Callable[[Messages, str, Sequence[str]], list[float]]


class _Speaker(Protocol):
    """Generates the agent's next utterances in numbered dialogues."""

    def ask(self, number: int, env: Any, seed: int) -> None:
        """Request the next utterance of a dialogue."""
        ...

    def step(self) -> list[tuple[int, Utterance]]:
        """Advance; returns finished utterances with the numbers of their dialogues."""
        ...

    def end(self, number: int) -> None:
        """Called when a dialogue has ended."""
        ...


class Alone:
    """The policy's own samples."""

    def __init__(self, policy: ContinuousPolicy) -> None:
        self.policy = policy

    def ask(self, number: int, env: Any, seed: int) -> None:
        """See `_Speaker`."""
        self.policy.add(number, env.messages, seed)

    def step(self) -> list[tuple[Any, Utterance]]:
        """See `_Speaker`."""
        return self.policy.step()

    def end(self, number: int) -> None:
        """See `_Speaker`."""
        self.policy.forget(number)


class Informed:
    """An oracle's utterances; only a policy that declares itself to be one gets the hidden information, or the reference."""

    def __init__(self, policy: InformedPolicy) -> None:
        self.policy = policy
        self._asked: list[tuple[int, Messages, str, int]] = []

    def ask(self, number: int, env: Any, seed: int) -> None:
        """See `_Speaker`."""
        self._asked.append((number, env.messages, self._hidden(env), seed))

    def _hidden(self, env: Any) -> str:
        if not getattr(self.policy, "uses_reference", False):
            return str(env.hidden_information)
        try:
            return str(env.reference)
        except AttributeError:
            raise ValueError(
                "This oracle hands in the environment's `reference`, and the environment has no such attribute."
            ) from None

    def step(self) -> list[tuple[int, Utterance]]:
        """See `_Speaker`."""
        asked, self._asked = self._asked, []
        numbers, dialogues, hidden, seeds = zip(*asked, strict=True)
        return list(zip(numbers, self.policy.generate_informed(dialogues, hidden, seeds), strict=True))

    def end(self, number: int) -> None:
        """Does nothing: there is no cache."""


@dataclass
class _Choice:
    """Candidates for a turn, as far as they are generated."""

    messages: Messages
    hidden: str
    candidates: dict[int, Utterance] = field(default_factory=dict)


class Best:
    """A critic's choice among several candidates, which are sampled concurrently; only the critic sees the hidden information."""

    def __init__(self, policy: ContinuousPolicy, best_of: BestOf) -> None:
        self.policy, self.best_of = policy, best_of
        self._choices: dict[int, _Choice] = {}

    def ask(self, number: int, env: Any, seed: int) -> None:
        """See `_Speaker`. For a given seed, the first candidates are the same for every N."""
        self._choices[number] = _Choice(env.messages, env.hidden_information)
        for i in range(self.best_of.num_candidates):
            self.policy.add((number, i), env.messages, derive_seed(seed, "candidate", i))

    def step(self) -> list[tuple[int, Utterance]]:
        """See `_Speaker`."""
        chosen = []
        name: Any
        for name, utterance in self.policy.step():
            self.policy.forget(name)
            number, i = name
            choice = self._choices[number]
            choice.candidates[i] = utterance
            if len(choice.candidates) == self.best_of.num_candidates:
                chosen.append((number, self._chosen(self._choices.pop(number))))
        return chosen

    def _chosen(self, choice: _Choice) -> Utterance:
        every = [choice.candidates[i] for i in range(len(choice.candidates))]
        own = [utterance for utterance in every if not utterance.error] or every[:1]
        credit = self.best_of.credit(choice.messages, choice.hidden, [utterance.text for utterance in own])
        return own[max(range(len(own)), key=credit.__getitem__)]

    def end(self, number: int) -> None:
        """Does nothing: candidates are dropped as soon as they are generated."""


@dataclass
class _Live:
    """A running episode in a sub-environment."""

    number: int
    key: EpisodeKey
    place: int
    seed: int
    turns: list[Turn] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)


class Shard:
    """A set of episodes that are played and saved together."""

    def __init__(
        self,
        speaker: _Speaker,
        env: DialogueEnvs,
        keys: Sequence[EpisodeKey],
        seed: int,
        stage: str,
        reply_steps: int,
        on_end: Callable[[], object] | None,
        known: Mapping[EpisodeKey, Episode],
    ) -> None:
        self.speaker, self.env, self.seed, self.stage = speaker, env, seed, stage
        self.reply_steps, self.on_end = reply_steps, on_end
        self.queue = deque((number, key) for number, key in enumerate(keys) if key not in known)
        self.free = deque(range(env.num_envs))
        self.speaking: dict[int, _Live] = {}
        self.waiting: deque[tuple[int, _Live, Future[Any]]] = (
            deque()
        )  # with the step at which the reply is processed, ascending
        self.played: dict[int, Episode] = {number: known[key] for number, key in enumerate(keys) if key in known}
        self.num_tasks = len({key.task_id for key in keys})
        self.failed: list[str] = []  # tasks of the latest consecutive failed episodes

    def play(self) -> list[Episode]:
        """Play all episodes; returns them in the given order."""
        self.env.envs[0].prepare()
        step = 0
        try:
            while self.queue or self.speaking or self.waiting:
                if not self.speaking and self.waiting:
                    step = max(step, self.waiting[0][0])
                self._take_up_replies(step)
                self._begin_episodes()
                if self.speaking:
                    for number, utterance in self.speaker.step():
                        self._say(self.speaking.pop(number), utterance, step)
                    step += 1
        except AgentDownError as error:
            raise WorldDownError(str(error), self._valid()) from None
        finally:
            for _, _, reply in self.waiting:  # after an error: no step may still be running when this returns
                if not reply.cancel():
                    reply.exception()
        return [self.played[number] for number in sorted(self.played)]

    def _begin_episodes(self) -> None:
        while self.queue and self.free:
            number, key = self.queue.popleft()
            seed = derive_seed(self.seed, self.stage, key.task_id, key.index)
            live = _Live(number, key, self.free.popleft(), seed)
            self.env.envs[live.place].reset(seed=seed, options={"task_id": key.task_id})
            self._ask(live)

    def _ask(self, live: _Live) -> None:
        self.speaking[live.number] = live
        live.hidden.append(self.env.envs[live.place].hidden_information)
        self.speaker.ask(live.number, self.env.envs[live.place], derive_seed(live.seed, "turn", len(live.turns) + 1))

    def _say(self, live: _Live, utterance: Utterance, step: int) -> None:
        if utterance.error:
            human_usage = getattr(self.env.envs[live.place], "human_usage", {})
            self._finish(live, {"outcome": VOID, "turns": len(live.turns), **human_usage}, AgentError(utterance.error))
            return
        said = utterance
        live.turns.append(Turn(said.text, said.token_ids, said.log_probs, 0.0, said.usage, said.thought, said.finish_reason))
        due = (
            -(-(step + self.reply_steps) // self.reply_steps) * self.reply_steps
        )  # in one batch: prefilling prompts together is faster
        self.waiting.append((due, live, self.env.submit(live.place, utterance.text)))

    def _take_up_replies(self, step: int) -> None:
        while self.waiting and self.waiting[0][0] <= step:
            _, live, reply = self.waiting.popleft()
            _, reward, terminated, truncated, _ = reply.result()
            live.turns[-1] = replace(live.turns[-1], reward=float(reward))
            if terminated or truncated:
                self._end(live)
            else:
                self._ask(live)

    def _end(self, live: _Live) -> None:
        env = self.env.envs[live.place]
        self._finish(live, env.metrics, env.world_error)

    def _finish(self, live: _Live, metrics: dict[str, Any], error: Exception | None) -> None:
        env = self.env.envs[live.place]
        self.played[live.number] = Episode(
            task_id=live.key.task_id,
            index=live.key.index,
            messages=env.messages,
            turns=live.turns,
            metrics=metrics,
            reward=sum((turn.reward for turn in live.turns), 0.0),
            hidden=shared_hidden(live.hidden[: len(live.turns) or 1]),
            error=str(error) if metrics["outcome"] == VOID else "",
        )
        self.speaker.end(live.number)
        self.free.append(live.place)
        if self.on_end is not None:
            self.on_end()
        self._stop_where_the_world_is_down(metrics, error, live.key.task_id)

    def _valid(self) -> Played:
        """Finished episodes that are not void."""
        return {t.key: t for t in self.played.values() if not t.is_void}

    def _stop_where_the_world_is_down(self, metrics: dict[str, Any], error: Exception | None, task_id: str) -> None:
        if metrics["outcome"] != VOID:
            self.failed.clear()
        elif not isinstance(error, ScoringError):  # a scoring error is a fault of the task
            self.failed.append(task_id)
        if len(self.failed) >= MOST_FAILED and len({*self.failed}) >= min(FAILED_TASKS, self.num_tasks):
            well = self._valid()
            raise WorldDownError(
                f"{len(self.failed)} episodes in a row are void. The last error: {str(error).rstrip('.')}. The stage stops, since other "
                f"episodes would fail too; the {len(well)} valid ones since the last save are kept. Fix it, and give the same command to resume.",
                well,
            )
