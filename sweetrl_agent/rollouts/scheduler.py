"""Schedules the dialogues of one shard for `play`.

A running episode is in one of three states: queued, with the agent (`speaking`), or with the environment (`waiting` for a reply or for scoring).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from colbench_gym.agents.agent import SIMULATED_TURNS, turn_counts
from colbench_gym.errors import AgentDownError, ColBenchError, CostError, ScoringError, reason_of
from colbench_gym.seeds import turn_seed
from sweetrl_agent.core.dialogues import AGENT, VOID, DialogueEnvs
from sweetrl_agent.core.episode import BranchKey, Episode, EpisodeKey, Turn, shared_hidden
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.rollouts.speakers import Speaker

#: The simulator or the sandbox counts as down after this many consecutive failed episodes, of this many tasks (or of all tasks of the shard).
#: A server that fails occasionally, or on one task only, does not count as down.
MOST_FAILED, FAILED_TASKS = 10, 3
#: Finished episodes, by their keys.
Played = dict[EpisodeKey, Episode]


class ServiceDownError(ColBenchError):
    """The simulated human or the sandbox has failed many times in a row, the agent cannot speak, or `--max_cost` is reached.

    Attributes:
        played: Valid episodes that ended before.
    """

    def __init__(self, message: str, played: Played) -> None:
        super().__init__(message)
        self.played = played

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.played)


@dataclass
class _Live:
    """A running episode in a sub-environment."""

    number: int
    key: EpisodeKey
    place: int
    seed: int
    turns: list[Turn] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)
    keys: list[Hashable] = field(default_factory=list)
    simulated_turns: int = 0

    def resume(self, branch: BranchKey, env: Any) -> None:
        """Put the environment into the state before the branch's turn, reseeded, and take over the turns before it.

        Where the branch redraws what is hidden, the earlier turns keep what was hidden then.
        """
        before, episode = branch.turn - 1, branch.episode
        if len(episode.states) <= before:
            raise ValueError(
                'Continuations of an episode begin at its snapshots: the algorithm must have "snapshot" in `requires`.'
            )
        env.set_state(episode.states[before], reseed=self.seed)
        if branch.redraws:
            env.redraw_hidden(turn_seed(self.seed, 0))  # no turn has the number 0
        self.turns, self.states = list(episode.turns[:before]), list(episode.states[:before])
        self.keys = list(episode.keys[:before])
        self.hidden = [episode.hidden_at(turn) for turn in range(1, branch.turn)]


class Shard:
    """A set of episodes that are played and saved together."""

    def __init__(
        self,
        speaker: Speaker,
        env: DialogueEnvs,
        keys: Sequence[EpisodeKey],
        seed: int,
        stage: str,
        reply_steps: int,
        on_end: Callable[[], object] | None,
        keeps_states: bool = False,
        keeps_keys: bool = False,
    ) -> None:
        self.speaker, self.env, self.seed, self.stage = speaker, env, seed, stage
        self.reply_steps, self.on_end, self.keeps_states = reply_steps, on_end, keeps_states
        self.keeps_keys = keeps_keys
        self.queue = deque(enumerate(keys))
        self.free = deque(range(env.num_envs))
        self.speaking: dict[int, _Live] = {}
        self.waiting: deque[tuple[int, _Live, Future[Any]]] = (
            deque()
        )  # with the step at which the reply is processed, ascending
        self.played: dict[int, Episode] = {}
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
        except (AgentDownError, CostError) as error:
            raise ServiceDownError(str(error), self._valid()) from None
        finally:
            for _, _, reply in self.waiting:  # after an error: no step may still be running when this returns
                if not reply.cancel():
                    reply.exception()
        return [self.played[number] for number in sorted(self.played)]

    def _begin_episodes(self) -> None:
        while self.queue and self.free:
            number, key = self.queue.popleft()
            live = _Live(number, key, self.free.popleft(), key.seed(self.seed, self.stage))
            env = self.env.envs[live.place]
            env.reset(seed=live.seed, options={"task_id": key.task_id})
            if isinstance(key, BranchKey):
                live.resume(key, env)
            self._ask(live)

    def _ask(self, live: _Live) -> None:
        env = self.env.envs[live.place]
        self.speaking[live.number] = live
        live.hidden.append(env.hidden_information)
        if self.keeps_states:
            live.states.append(env.get_state())
        if self.keeps_keys:
            live.keys.append(env.state_key)
        self.speaker.ask(live.number, env, turn_seed(live.seed, len(live.turns) + 1))

    def _say(self, live: _Live, utterance: Utterance, step: int) -> None:
        if utterance.error:
            human_usage = getattr(self.env.envs[live.place], "human_usage", {})
            self._finish(live, {"outcome": VOID, "turns": len(live.turns), **human_usage}, utterance.error)
            return
        agent = getattr(self.env.envs[live.place], "agent", AGENT)
        live.turns.append(
            Turn(
                utterance.text,
                utterance.token_ids,
                utterance.log_probs,
                usage=utterance.usage,
                thought=utterance.thought,
                finish_reason=utterance.finish_reason,
                agent=agent,
            )
        )
        live.simulated_turns += utterance.simulated_turns
        due = (
            -(-(step + self.reply_steps) // self.reply_steps) * self.reply_steps
        )  # in one batch: prefilling prompts together is faster
        self.waiting.append((due, live, self.env.submit(live.place, utterance.text, utterance.is_cut)))

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
        simulated = {SIMULATED_TURNS: live.simulated_turns} if live.simulated_turns else {}
        self._finish(live, {**env.metrics, **turn_counts(live.turns), **simulated}, env.world_error)

    def _finish(self, live: _Live, metrics: dict[str, Any], error: Exception | None) -> None:
        env = self.env.envs[live.place]
        self.played[live.number] = Episode(
            task_id=live.key.task_id,
            index=live.key.index,
            messages=list(getattr(env, "all_messages", env.messages)),
            turns=live.turns,
            metrics=metrics,
            reward=sum((turn.reward for turn in live.turns), 0.0),
            hidden=shared_hidden(live.hidden[: len(live.turns) or 1]),
            error=str(error) if metrics["outcome"] == VOID else "",
            void_reason=reason_of(error) if metrics["outcome"] == VOID else "",
            states=live.states[: len(live.turns)],
            keys=live.keys[: len(live.turns)],
        )
        self.speaker.end(live.number)
        self.free.append(live.place)
        if self.on_end is not None:
            self.on_end()
        self._raise_if_service_down(metrics, error, live.key.task_id)

    def _valid(self) -> Played:
        """Finished episodes that are not void."""
        return {t.key: t for t in self.played.values() if not t.is_void}

    def _raise_if_service_down(self, metrics: dict[str, Any], error: Exception | None, task_id: str) -> None:
        if metrics["outcome"] != VOID:
            self.failed.clear()
        elif not isinstance(error, ScoringError):  # a scoring error is a fault of the task
            self.failed.append(task_id)
        if len(self.failed) >= MOST_FAILED and len({*self.failed}) >= min(FAILED_TASKS, self.num_tasks):
            well = self._valid()
            raise ServiceDownError(
                f"{len(self.failed)} episodes in a row are void. The last error: {str(error).rstrip('.')}. The stage stops, since other "
                f"episodes would fail too; the {len(well)} valid ones since the last save are kept. Fix it, and give the same command to resume.",
                well,
            )
