"""Episodes in batches: the agent speaks in all dialogues at once, all humans reply at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from colbench_gym.envs.colbench_env import ColBenchEnv
from colbench_gym.envs.vector import ColBenchVectorEnv
from colbench_gym.tasks.rows import row_from_task
from sweetrl_agent.chat import Messages
from sweetrl_agent.policies.policy import Policy, Utterance, sample_each
from sweetrl_agent.seeds import derive_seed
from sweetrl_agent.trajectory import Trajectory, Turn


@dataclass(frozen=True)
class Episode:
    """An episode to be played: a task, and the how-many-th time it is."""

    task_id: str
    number: int = 0


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

    def generate(
        self, policy: Policy, dialogues: Sequence[Messages], seeds: Sequence[int], hidden: Sequence[str]
    ) -> list[Utterance]:
        """The next utterance of every dialogue. The first candidates of a seed are the same for every N."""
        own_seeds = [[derive_seed(seed, "candidate", i) for i in range(self.num_candidates)] for seed in seeds]
        chosen = []
        for dialogue, told, own in zip(dialogues, hidden, sample_each(policy, dialogues, own_seeds), strict=True):
            credit = self.credit(dialogue, told, [utterance.text for utterance in own])
            chosen.append(own[max(range(len(own)), key=credit.__getitem__)])
        return chosen


def episodes_of(task_ids: Sequence[str], per_task: int) -> list[Episode]:
    """`per_task` episodes of every task, in the order of the tasks."""
    return [Episode(task_id, number) for task_id in task_ids for number in range(per_task)]


def play(
    policy: Policy,
    env: ColBenchVectorEnv,
    episodes: Sequence[Episode],
    seed: int,
    stage: str,
    keep_tasks: bool = False,
    best_of: BestOf | None = None,
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
        best_of: How every turn is chosen among several; None for the agent's first.
    """
    for start in range(0, len(episodes), env.num_envs):
        yield _play_batch(policy, env, episodes[start : start + env.num_envs], seed, stage, keep_tasks, best_of)


def _play_batch(
    policy: Policy,
    env: ColBenchVectorEnv,
    episodes: Sequence[Episode],
    seed: int,
    stage: str,
    keep_tasks: bool,
    best_of: BestOf | None,
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
        turn_seeds = [derive_seed(seeds[i], "turn", len(turns[i]) + 1) for i in live]
        utterances = _speak(policy, [envs[i] for i in live], turn_seeds, best_of)
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


def _speak(policy: Policy, envs: Sequence[ColBenchEnv], seeds: Sequence[int], best_of: BestOf | None) -> list[Utterance]:
    """What the agent says in each of these dialogues; only a critic's choice is told what is hidden."""
    messages = [env.messages for env in envs]
    if best_of is None:
        return policy.generate(messages, seeds)
    return best_of.generate(policy, messages, seeds, [env.hidden_information for env in envs])
