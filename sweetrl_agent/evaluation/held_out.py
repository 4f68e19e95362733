"""Evaluation of a run's agents on its held-out tasks, with the rows and the summary of `colbench_gym.evaluation`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from colbench_gym.evaluation.rows import Key, RowFile, episode_row, read_evaluation
from colbench_gym.evaluation.summary import summarize
from colbench_gym.files import Row
from sweetrl_agent.core.dialogues import VOID
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.policy import Policies
from sweetrl_agent.rollouts import play
from sweetrl_agent.rollouts.play import episodes_of
from sweetrl_agent.rollouts.player import RolloutPlayer, play_rows
from sweetrl_agent.rollouts.speakers import BestOf
from sweetrl_agent.trainers.run import Run


def evaluate_agent(run: Run, agent: str, load: Callable[[], Policies], stage: str = "evaluate") -> None:
    """Play an agent's episodes on every held-out split into evaluation.jsonl. All agents use the same seeds.

    Args:
        run: The run.
        agent: Name of the agent in the file.
        load: Loads its policy.
        stage: Name under which its results are reported to callbacks and trackers.
    """
    policy, path = load if run.config.run.ray_workers else cache(load), run.path("evaluation.jsonl")
    for split, tasks in run.held_out.items():
        record(run, path, {"agent": agent, "split": split}, tasks, policy, f"evaluate {split}")
    rows = [row for row in read_evaluation(path, run.record.metric) if row["agent"] == agent]
    results: dict[str, float] = {}
    for split in run.held_out:
        results |= _named(split, summarize([row for row in rows if row["split"] == split], run.record.metric))
    run.callbacks.tell("on_evaluate", stage, sum(row["outcome"] != VOID for row in rows), results)


def _named(split: str, summary: dict[str, Any]) -> dict[str, float]:
    """The numbers of `summarize` for callbacks: "test/success", "test/success_low" and "test/success_high" (its 95% interval), "test/n", ..."""
    flat = {**summary, **summary.get("links", {})}
    for name, (low, high) in summary["ci95"].items():
        flat |= {f"{name}_low": low, f"{name}_high": high}
    return {f"{split}/{name}": value for name, value in flat.items() if isinstance(value, int | float)}


def record(
    run: Run,
    path: Path,
    label: Row,
    tasks: Sequence[Any],
    load: Callable[[], Policies],
    stage: str,
    simulator: Any = None,
    best_of: BestOf | None = None,
) -> None:
    """Play episodes and append a row for each. Complete batches that are already in the file are not played again.

    Args:
        run: The run.
        path: File of the rows.
        label: Fields that identify these rows in the file; added to each.
        tasks: The tasks, played `eval_episodes` times each.
        load: Loads the policy; called only if episodes are left to play.
        stage: Name that the episodes' seeds are derived from; the same for agents that are compared.
        simulator: Simulated human to use; None for the run's own.
        best_of: Best-of-N with a critic; None for the policy alone.
    """
    by_id = {task.id: task for task in tasks}
    episodes = episodes_of(list(by_id), run.config.evaluation.eval_episodes)
    size = min(run.config.model.generation_batch, len(episodes))
    values = " ".join(str(value) for value in label.values() if value not in stage.split())
    # An open critic cannot be sent to workers.
    settings = run.config.run if best_of is None else replace(run.config.run, ray_workers=0)
    worker = partial(play.player, load, partial(run.environment, tasks, size, simulator), run.seed, stage, best_of=best_of)
    player = RolloutPlayer(worker, size, lambda episode: row_of(episode, by_id[episode.task_id], run.record), settings)
    with run.reserve_browser_cores():
        play_rows(RowFile(path, label), episodes, player, f"{stage}: {values}")


def row_of(episode: Episode, task: Any, record: EnvironmentRecord) -> Row:
    """The row of an episode in `evaluation.jsonl`, without its label."""
    return episode_row(
        Key(episode.task_id, episode.index), episode.metrics, episode.messages, episode.turns, metric=record.metric,
        measures=record.measures(episode, task), hidden=episode.hidden, void_reason=episode.void_reason,
    )  # fmt: skip
