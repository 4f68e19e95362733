"""What all algorithms share after their start: collected trajectories and outcome pairs.

Each function is a stage: it reads files of the run folder and writes its own, whole or in complete batches.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from typing import Any

from tqdm import tqdm

from colbench_gym.errors import TaskError
from sweetrl_agent.files import Row, append_rows, read_rows, whole_batches, write_json, write_rows
from sweetrl_agent.models import load_policy
from sweetrl_agent.pairs import outcome_pairs
from sweetrl_agent.rollouts import episodes_of, play, shard_size
from sweetrl_agent.run import Run
from sweetrl_agent.trajectory import Trajectory


def collect(run: Run) -> None:
    """K trajectories of every training task -> trajectories.jsonl."""
    path = run.path("trajectories.jsonl")
    episodes = episodes_of([task.id for task in run.tasks], run.config.collect.trajectories_per_task)
    batch = run.config.model.generation_batch
    done = whole_batches(path, len(read_rows(path)), shard_size(batch), len(episodes))
    if done == len(episodes):
        return
    policy = load_policy(run.start_model, run.start_model, run.config.model)
    with (
        closing(run.environment(run.tasks, batch)) as env,
        tqdm(total=len(episodes), initial=done, desc="collect", unit="episode") as bar,
    ):
        for trajectories in play(policy, env, episodes[done:], run.seed, "collect", keep_tasks=True):
            append_rows(path, (trajectory.to_row() for trajectory in trajectories))
            bar.update(len(trajectories))


def pair_outcomes(run: Run) -> None:
    """trajectories.jsonl -> outcome_pairs.jsonl."""
    trajectories = load_trajectories(run)
    config, grade = run.config.collect, run.world.grade
    rows = outcome_pairs(trajectories, config.min_best, config.min_difference, grade)
    if not rows:
        best = max((float(t.metrics[grade]) for t in trajectories if not t.is_void), default=0.0)
        lower = "Lower `--min_best` and go on in this folder, or start" if run.config.collect.min_best > 0 else "Start"
        raise TaskError(
            f"No task has a trajectory that passes {run.config.collect.min_best:.0%} of its tests and a worse one (the best passes "
            f"{best:.0%}), so there is nothing to learn from. {lower} another run with more tasks, more imitation, or a better model."
        )
    write_rows(run.path("outcome_pairs.jsonl"), rows)
    write_json(run.path("pairs_summary.json"), _summary(trajectories, rows))


def load_trajectories(run: Run) -> list[Trajectory]:
    """The collected trajectories."""
    return [Trajectory.from_row(row) for row in read_rows(run.path("trajectories.jsonl"))]


def _summary(trajectories: list[Trajectory], rows: list[Row]) -> dict[str, Any]:
    valid = [t for t in trajectories if not t.is_void]
    successes: dict[str, int] = defaultdict(int)
    for trajectory in valid:
        successes[trajectory.task_id] += int(trajectory.metrics["success"])
    return {
        "trajectories": len(trajectories),
        "void": len(trajectories) - len(valid),
        "success": round(sum(successes.values()) / max(len(valid), 1), 4),
        "turns": round(sum(len(t.turns) for t in valid) / max(len(valid), 1), 2),
        "tasks_with_a_success": sum(count > 0 for count in successes.values()),
        "outcome_pairs": len(rows),
    }
