"""Episodes that never wait for each other: the agent speaks in some dialogues while humans reply and answers are graded in others.

A reply is taken up a fixed number of the agent's steps after it was asked for, waited for where it is not there yet. So which dialogues
speak together depends neither on how fast replies come nor on how many workers give them, and an episode comes out the same to the last bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from colbench_gym.errors import ColBenchError, ScoringError
from sweetrl_agent.core.dialogues import VOID
from sweetrl_agent.core.environment import DialogueEnvs
from sweetrl_agent.core.episode import Trajectory, Turn
from sweetrl_agent.core.policy import ContinuousPolicy, InRounds, Policy, Utterance
from sweetrl_agent.core.seeds import derive_seed
from sweetrl_agent.data.chat import Messages

#: Episodes that are played and saved together, as a multiple of the dialogues in flight. More of them leave slots empty less often, as they do
#: at a shard's end, and lose more work when the process is killed.
SHARD = 2
#: Steps of the agent after which a reply is taken up. A step is a token of a continuous policy.
REPLY_STEPS = 8
#: Episodes in a row that the world fails before it counts as down, and of how many tasks they must be (or of all that are played together): a
#: server that fails here and there, or refuses to talk about one task, does not get there.
MOST_FAILED, FAILED_TASKS = 10, 3


@dataclass(frozen=True)
class Episode:
    """An episode to be played: a task, and the how-many-th time it is."""

    task_id: str
    number: int = 0


#: Episodes that are over.
Played = dict[Episode, Trajectory]


class WorldDownError(ColBenchError):
    """The human or the sandbox has failed many times in a row.

    Attributes:
        played: The episodes that ended well before.
    """

    def __init__(self, message: str, played: Played) -> None:
        super().__init__(message)
        self.played = played

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.played)


@dataclass(frozen=True)
class BestOf:
    """Every turn is the best of several candidates by a critic's credit (arXiv:2503.15478, Figure 3a).

    A critic that is told the hidden information makes this an analysis of the critic and no agent that could be deployed.

    Attributes:
        num_candidates: N.
        credit: Credit of candidates, from the dialogue, the hidden information and the candidates.
    """

    num_candidates: int
    credit: Callable[[Messages, str, Sequence[str]], list[float]]


def episodes_of(task_ids: Sequence[str], per_task: int) -> list[Episode]:
    """`per_task` episodes of every task, in the order of the tasks."""
    return [Episode(task_id, number) for task_id in task_ids for number in range(per_task)]


def shard_size(num_envs: int) -> int:
    """Episodes that `play` yields together."""
    return SHARD * num_envs


def shards(episodes: Sequence[Episode], num_envs: int) -> list[Sequence[Episode]]:
    """The parts in which `play` plays episodes."""
    size = shard_size(num_envs)
    return [episodes[start : start + size] for start in range(0, len(episodes), size)]


@contextmanager
def player(
    load: Callable[[], Policy], environment: Callable[[], DialogueEnvs], seed: int, stage: str, **settings: Any
) -> Iterator[Callable[[Sequence[Episode]], list[Trajectory]]]:
    """What plays shards, for `workers.in_order`.

    Args:
        load: Loads the agent.
        environment: Makes the vector environment, closed at the end.
        seed: As in `play`, like the rest.
        stage: Its.
        **settings: Its others.
    """
    policy = load()
    with closing(environment()) as env:
        yield lambda episodes: next(play(policy, env, episodes, seed, stage, **settings))


def play(
    policy: Policy,
    env: DialogueEnvs,
    episodes: Sequence[Episode],
    seed: int,
    stage: str,
    best_of: BestOf | None = None,
    reply_steps: int = REPLY_STEPS,
    on_end: Callable[[], object] | None = None,
    known: Mapping[Episode, Trajectory] = MappingProxyType({}),
) -> Iterator[list[Trajectory]]:
    """Play all episodes, as many at a time as `env` has sub-environments, and yield each `shard_size` of them when they are over.

    An episode depends on (seed, stage, task, number) and on the policy, not on its neighbours.

    Args:
        policy: The agent. A continuous one speaks while humans reply; any other speaks in rounds.
        env: Environments over tasks that include those of the episodes.
        episodes: What to play.
        seed: Seed of the run.
        stage: Name that keeps apart the random numbers of, say, collection and evaluation.
        best_of: How every turn is chosen among several; None for the agent's first.
        reply_steps: Steps of a continuous policy after which a reply is taken up: about the time that a human takes, in tokens.
        on_end: Called when an episode is over, for progress.
        known: Episodes that have been played already, and are not played again.

    Raises:
        WorldDownError: If `MOST_FAILED` episodes in a row, of `FAILED_TASKS` tasks, are void because the human or the sandbox fails.
    """
    is_continuous = isinstance(policy, ContinuousPolicy)
    continuous = policy if isinstance(policy, ContinuousPolicy) else InRounds(policy)
    speaker = _Alone(continuous) if best_of is None else _Best(continuous, best_of)
    for own in shards(episodes, env.num_envs):
        shard = _Shard(speaker, env, own, seed, stage, reply_steps if is_continuous else 1, on_end, known)
        yield shard.play()


class _Speaker(Protocol):
    """What the agent says next in a dialogue, among dialogues that are told apart by a number."""

    def ask(self, number: int, env: Any, seed: int) -> None: ...

    def step(self) -> list[tuple[int, Utterance]]: ...

    def end(self, number: int) -> None: ...


class _Alone:
    """The agent's own words."""

    def __init__(self, policy: ContinuousPolicy) -> None:
        self.policy = policy

    def ask(self, number: int, env: Any, seed: int) -> None:
        self.policy.add(number, env.messages, seed)

    def step(self) -> list[tuple[Any, Utterance]]:
        return self.policy.step()

    def end(self, number: int) -> None:
        self.policy.forget(number)


@dataclass
class _Choice:
    """Candidates for a turn, as far as they are said."""

    messages: Messages
    hidden: str
    candidates: dict[int, Utterance] = field(default_factory=dict)


class _Best:
    """A critic's choice among several candidates, which are said side by side; only the critic is told what is hidden."""

    def __init__(self, policy: ContinuousPolicy, best_of: BestOf) -> None:
        self.policy, self.best_of = policy, best_of
        self._choices: dict[int, _Choice] = {}

    def ask(self, number: int, env: Any, seed: int) -> None:
        """The first candidates of a seed are the same for every N."""
        self._choices[number] = _Choice(env.messages, env.hidden_information)
        for i in range(self.best_of.num_candidates):
            self.policy.add((number, i), env.messages, derive_seed(seed, "candidate", i))

    def step(self) -> list[tuple[int, Utterance]]:
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
        own = [choice.candidates[i] for i in range(len(choice.candidates))]
        credit = self.best_of.credit(choice.messages, choice.hidden, [utterance.text for utterance in own])
        return own[max(range(len(own)), key=credit.__getitem__)]

    def end(self, number: int) -> None:
        """Nothing is kept: candidates are forgotten when they are said."""


@dataclass
class _Live:
    """An episode under way in a sub-environment."""

    number: int
    episode: Episode
    place: int
    seed: int
    turns: list[Turn] = field(default_factory=list)
    reward: float = 0.0


class _Shard:
    """Episodes that are played together."""

    def __init__(
        self,
        speaker: _Speaker,
        env: DialogueEnvs,
        episodes: Sequence[Episode],
        seed: int,
        stage: str,
        reply_steps: int,
        on_end: Callable[[], object] | None,
        known: Mapping[Episode, Trajectory],
    ) -> None:
        self.speaker, self.env, self.seed, self.stage = speaker, env, seed, stage
        self.reply_steps, self.on_end = reply_steps, on_end
        self.queue = deque((number, episode) for number, episode in enumerate(episodes) if episode not in known)
        self.free = deque(range(env.num_envs))
        self.speaking: dict[int, _Live] = {}
        self.waiting: deque[tuple[int, _Live, Future[Any]]] = deque()  # the step at which the reply is taken up, ascending
        self.played: dict[int, Trajectory] = {number: known[own] for number, own in enumerate(episodes) if own in known}
        self.num_tasks = len({episode.task_id for episode in episodes})
        self.failed: list[str] = []  # tasks of the episodes in a row in which the world failed

    def play(self) -> list[Trajectory]:
        """All episodes, in their order."""
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
        finally:
            for _, _, reply in self.waiting:  # where something failed: none may still be at work afterwards
                if not reply.cancel():
                    reply.exception()
        return [self.played[number] for number in sorted(self.played)]

    def _begin_episodes(self) -> None:
        while self.queue and self.free:
            number, episode = self.queue.popleft()
            live = _Live(
                number, episode, self.free.popleft(), derive_seed(self.seed, self.stage, episode.task_id, episode.number)
            )
            self.env.envs[live.place].reset(seed=live.seed, options={"task_id": episode.task_id})
            self._ask(live)

    def _ask(self, live: _Live) -> None:
        self.speaking[live.number] = live
        self.speaker.ask(live.number, self.env.envs[live.place], derive_seed(live.seed, "turn", len(live.turns) + 1))

    def _say(self, live: _Live, utterance: Utterance, step: int) -> None:
        live.turns.append(Turn(utterance.text, utterance.token_ids, utterance.log_probs))
        due = (
            -(-(step + self.reply_steps) // self.reply_steps) * self.reply_steps
        )  # together, for prompts are best read together
        self.waiting.append((due, live, self.env.submit(live.place, utterance.text)))

    def _take_up_replies(self, step: int) -> None:
        while self.waiting and self.waiting[0][0] <= step:
            _, live, reply = self.waiting.popleft()
            _, reward, terminated, truncated, _ = reply.result()
            live.reward += float(reward)
            if terminated or truncated:
                self._end(live)
            else:
                self._ask(live)

    def _end(self, live: _Live) -> None:
        env = self.env.envs[live.place]
        self.played[live.number] = Trajectory(
            task_id=live.episode.task_id,
            episode=live.episode.number,
            messages=env.messages,
            turns=live.turns,
            metrics=env.metrics,
            reward=live.reward,
            hidden=env.hidden_information,
            error=str(env.world_error) if env.metrics["outcome"] == VOID else "",
        )
        self.speaker.end(live.number)
        self.free.append(live.place)
        if self.on_end is not None:
            self.on_end()
        self._stop_where_the_world_is_down(env, live.episode.task_id)

    def _stop_where_the_world_is_down(self, env: Any, task_id: str) -> None:
        if env.metrics["outcome"] != VOID:
            self.failed.clear()
        elif not isinstance(env.world_error, ScoringError):  # that one is the task's
            self.failed.append(task_id)
        if len(self.failed) >= MOST_FAILED and len({*self.failed}) >= min(FAILED_TASKS, self.num_tasks):
            well = {Episode(t.task_id, t.episode): t for t in self.played.values() if not t.is_void}
            raise WorldDownError(
                f"{len(self.failed)} episodes in a row are void, the last for this: {str(env.world_error).rstrip('.')}. The stage stops here, for the others would "
                f"fail too; the {len(well)} that ended well since the last save are kept. Mend it, and give the same command to go on.",
                well,
            )
