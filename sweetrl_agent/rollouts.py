"""Episodes in batches: the agent speaks in all dialogues at once, all humans reply at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from colbench_gym.envs.vector import ColBenchVectorEnv
from colbench_gym.tasks.rows import row_from_task
from sweetrl_agent.policies.policy import Policy
from sweetrl_agent.seeds import derive_seed
from sweetrl_agent.trajectory import Trajectory, Turn


@dataclass(frozen=True)
class Episode:
    """An episode to be played: a task, and the how-many-th time it is."""

    task_id: str
    number: int = 0


def episodes_of(task_ids: Sequence[str], per_task: int) -> list[Episode]:
    """`per_task` episodes of every task, in the order of the tasks."""
    return [Episode(task_id, number) for task_id in task_ids for number in range(per_task)]


def play(
    policy: Policy, env: ColBenchVectorEnv, episodes: Sequence[Episode], seed: int, stage: str, keep_tasks: bool = False
) -> Iterator[list[Trajectory]]:
    """Play all episodes, as many at a time as `env` has sub-environments, and yield each batch when it is over.

    An episode depends on (seed, stage, task, number) and on the policy, not on its neighbours; `env` must be one with
    ``autoreset_mode="disabled"``.

    Args:
        policy: The agent.
        env: Vector environment over tasks that include those of the episodes.
        episodes: What to play.
        seed: Seed of the run.
        stage: Name that keeps apart the random numbers of, say, collection and evaluation.
        keep_tasks: Keep the whole task, hidden half included, in the trajectories.
    """
    for start in range(0, len(episodes), env.num_envs):
        yield _play_batch(policy, env, episodes[start : start + env.num_envs], seed, stage, keep_tasks)


def _play_batch(
    policy: Policy, env: ColBenchVectorEnv, episodes: Sequence[Episode], seed: int, stage: str, keep_tasks: bool
) -> list[Trajectory]:
    count = len(episodes)
    is_used = [i < count for i in range(env.num_envs)]
    seeds = [derive_seed(seed, stage, e.task_id, e.number) for e in episodes]
    env.reset(
        seed=seeds + [0] * (env.num_envs - count),
        options={"reset_mask": is_used, "task_id": [e.task_id for e in episodes] + [None] * (env.num_envs - count)},
    )
    envs = env.envs[:count]
    turns: list[list[Turn]] = [[] for _ in episodes]
    rewards = [0.0] * count
    live = list(range(count))
    while live:
        messages = [envs[i].messages for i in live]
        utterances = policy.generate(messages, [derive_seed(seeds[i], "turn", len(turns[i]) + 1) for i in live])
        actions = [""] * env.num_envs
        for i, utterance in zip(live, utterances, strict=True):
            turns[i].append(Turn(utterance.text, utterance.token_ids, utterance.log_probs))
            actions[i] = utterance.text
        _, step_rewards, terminated, truncated, _ = env.step(actions)
        for i in live:
            rewards[i] += float(step_rewards[i])
        live = [i for i in live if not (terminated[i] or truncated[i])]
    return [
        Trajectory(
            task_id=episode.task_id,
            episode=episode.number,
            messages=envs[i].messages,
            turns=turns[i],
            metrics=envs[i].metrics,
            reward=rewards[i],
            task_row=row_from_task(envs[i].task) if keep_tasks else {},
        )
        for i, episode in enumerate(episodes)
    ]
