"""REINFORCE with a leave-one-out baseline over turns (RLOO; Ahmadian et al., arXiv:2402.14740), on-policy.

    1. In every iteration the current agent plays G episodes of each of P training tasks.
    2. Every turn's advantage is the episode's return less the mean return of the other G - 1 episodes of the task.
    3. One step along the policy gradient; the human's words are read and never scored.

It needs nothing of the environment beyond episodes, and plays as many of them as the other algorithms collect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sweetrl_agent.run import Run
from sweetrl_agent.trainers.policy_gradient import OnPolicy, train_on_policy
from sweetrl_agent.trajectory import Trajectory


def leave_one_out(returns: Sequence[float]) -> list[float]:
    """Each return less the mean of the others; 0 for a return without others."""
    others = len(returns) - 1
    return [value - (sum(returns) - value) / others if others else 0.0 for value in returns]


def credit(trajectories: Sequence[Trajectory]) -> list[list[float]]:
    """Advantages of every turn of every trajectory; trajectories of a task are a group."""
    groups: dict[str, list[int]] = defaultdict(list)
    for i, trajectory in enumerate(trajectories):
        groups[trajectory.task_id].append(i)
    advantages: list[list[float]] = [[] for _ in trajectories]
    for group in groups.values():
        for i, advantage in zip(group, leave_one_out([trajectories[i].reward for i in group]), strict=True):
            advantages[i] = [advantage] * len(trajectories[i].turns)
    return advantages


def train(run: Run) -> None:
    """Episodes on the training tasks -> reinforce/agent/."""
    config = run.config.baselines
    train_on_policy(
        run,
        "reinforce",
        credit,
        OnPolicy(
            learning_rate=config.reinforce_learning_rate,
            iterations=config.reinforce_iterations,
            tasks=config.reinforce_tasks,
            group=config.reinforce_group,
            micro_batch=config.reinforce_micro_batch,
        ),
    )
