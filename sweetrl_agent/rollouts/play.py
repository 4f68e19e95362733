"""Asynchronous rollouts: the agent generates in some dialogues while others wait for user replies or for scoring.

A reply is processed a fixed number of the agent's steps after its request; if it has not arrived by then, the agent waits. The composition of
batches therefore depends neither on the speed of replies nor on the number of workers, and episodes are bitwise reproducible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from sweetrl_agent.core.dialogues import DialogueEnvs
from sweetrl_agent.core.episode import Episode, EpisodeKey
from sweetrl_agent.core.policy import Policies
from sweetrl_agent.rollouts.scheduler import Shard
from sweetrl_agent.rollouts.speakers import BestOf, speaker_of

#: Episodes per shard (played and saved together), as a multiple of the concurrent dialogues. Larger shards leave slots idle less often, which
#: happens at a shard's end, and lose more work when the process is killed.
SHARD = 2
#: Steps of the agent after which a reply is processed. A step is a token of a continuous policy.
REPLY_STEPS = 8


def episodes_of(task_ids: Sequence[str], per_task: int) -> list[EpisodeKey]:
    """Keys of `per_task` episodes of every task, in the order of the tasks."""
    return [EpisodeKey(task_id, index) for task_id in task_ids for index in range(per_task)]


def shard_size(num_envs: int) -> int:
    """Episodes that `play` yields together."""
    return SHARD * num_envs


def shards(episodes: Sequence[EpisodeKey], num_envs: int) -> list[Sequence[EpisodeKey]]:
    """Split episodes into the shards that `play` yields."""
    size = shard_size(num_envs)
    return [episodes[start : start + size] for start in range(0, len(episodes), size)]


@contextmanager
def player(
    load: Callable[[], Policies], environment: Callable[[], DialogueEnvs], seed: int, stage: str, **settings: Any
) -> Iterator[Callable[[Sequence[EpisodeKey]], list[Episode]]]:
    """A worker factory that plays shards, for `workers.ordered_map`.

    Args:
        load: Loads the policies.
        environment: Makes the environments, which are closed at the end.
        seed: As in `play`.
        stage: As in `play`.
        **settings: Further arguments of `play`.
    """
    policies = load()
    with closing(environment()) as env:
        yield lambda episodes: next(play(policies, env, episodes, seed, stage, **settings))


def play(
    policies: Policies,
    env: DialogueEnvs,
    episodes: Sequence[EpisodeKey],
    seed: int,
    stage: str,
    best_of: BestOf | None = None,
    reply_steps: int = REPLY_STEPS,
    on_end: Callable[[], object] | None = None,
    keeps_states: bool = False,
    keeps_keys: bool = False,
) -> Iterator[list[Episode]]:
    """Play all episodes, as many concurrently as `env` has sub-environments; yields shards of `shard_size` finished episodes.

    An episode depends on (seed, stage, task, index) and on the policy, not on other episodes.

    Args:
        policies: The policy, or the policy of each agent by its name. A continuous policy generates while other dialogues wait; any other generates
            in rounds.
        env: Environments on tasks that include those of the episodes.
        episodes: Keys of the episodes, or of continuations of episodes (`BranchKey`).
        seed: Seed of the run.
        stage: Name that separates the random numbers of, for example, collection and evaluation.
        best_of: Chooses every turn among several candidates; None for the policy's first sample.
        reply_steps: Steps of a continuous policy after which a reply is processed: about the latency of a reply, in tokens.
        on_end: Called when an episode ends, for progress.
        keeps_states: Whether episodes keep a snapshot of the environment before each turn.
        keeps_keys: Whether episodes keep the key of the environment's state before each turn.

    Raises:
        ServiceDownError: If `MOST_FAILED` consecutive episodes, of `FAILED_TASKS` tasks, are void because the simulator or the sandbox failed.
    """
    speaker, is_continuous = speaker_of(policies, best_of)
    for keys in shards(episodes, env.num_envs):
        steps = reply_steps if is_continuous else 1
        yield Shard(speaker, env, keys, seed, stage, steps, on_end, keeps_states, keeps_keys).play()
