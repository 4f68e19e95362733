"""Episodes that never wait for each other: the agent speaks in some dialogues while humans reply and answers are graded in others.

A reply is taken up a fixed number of the agent's steps after it was asked for, waited for where it is not there yet. So which dialogues
speak together depends neither on how fast replies come nor on how many workers give them, and an episode comes out the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import MappingProxyType
from typing import Any

from sweetrl_agent.core.environment import DialogueEnvs
from sweetrl_agent.core.episode import Episode, EpisodeKey
from sweetrl_agent.core.policy import ContinuousPolicy, InRounds, Policy
from sweetrl_agent.rollouts.scheduler import Alone, Best, BestOf, Shard

#: Episodes that are played and saved together, as a multiple of the dialogues in flight. More of them leave slots empty less often, as they do
#: at a shard's end, and lose more work when the process is killed.
SHARD = 2
#: Steps of the agent after which a reply is taken up. A step is a token of a continuous policy.
REPLY_STEPS = 8


def episodes_of(task_ids: Sequence[str], per_task: int) -> list[EpisodeKey]:
    """`per_task` episodes of every task, in the order of the tasks."""
    return [EpisodeKey(task_id, index) for task_id in task_ids for index in range(per_task)]


def shard_size(num_envs: int) -> int:
    """Episodes that `play` yields together."""
    return SHARD * num_envs


def shards(episodes: Sequence[EpisodeKey], num_envs: int) -> list[Sequence[EpisodeKey]]:
    """The parts in which `play` plays episodes."""
    size = shard_size(num_envs)
    return [episodes[start : start + size] for start in range(0, len(episodes), size)]


@contextmanager
def player(
    load: Callable[[], Policy], environment: Callable[[], DialogueEnvs], seed: int, stage: str, **settings: Any
) -> Iterator[Callable[[Sequence[EpisodeKey]], list[Episode]]]:
    """What plays shards, for `workers.ordered_map`.

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
    episodes: Sequence[EpisodeKey],
    seed: int,
    stage: str,
    best_of: BestOf | None = None,
    reply_steps: int = REPLY_STEPS,
    on_end: Callable[[], object] | None = None,
    known: Mapping[EpisodeKey, Episode] = MappingProxyType({}),
) -> Iterator[list[Episode]]:
    """Play all episodes, as many at a time as `env` has sub-environments, and yield each `shard_size` of them when they are over.

    An episode depends on (seed, stage, task, index) and on the policy, not on its neighbours.

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
    speaker = Alone(continuous) if best_of is None else Best(continuous, best_of)
    for own in shards(episodes, env.num_envs):
        shard = Shard(speaker, env, own, seed, stage, reply_steps if is_continuous else 1, on_end, known)
        yield shard.play()
