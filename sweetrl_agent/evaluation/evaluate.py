"""Evaluation of agents: episodes on held-out tasks, means with 95% intervals, void episodes counted separately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from colbench_gym.agents.agent import agent_turns
from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.summary import COUNTS, links, summarize
from sweetrl_agent.core.dialogues import VOID
from sweetrl_agent.core.environment import EnvironmentRecord
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.policy import Policy
from sweetrl_agent.data.files import EVALUATION, Row, read_rows
from sweetrl_agent.data.run import Run
from sweetrl_agent.rollouts import play
from sweetrl_agent.rollouts.episode_files import EpisodeFile
from sweetrl_agent.rollouts.play import episodes_of
from sweetrl_agent.rollouts.scheduler import BestOf

__all__ = ["episode_row", "evaluate_agent", "links", "read_evaluation", "record", "summarize"]
#: Fields of a row besides the metric.
NUMBERS = ("success", "turns", "answered")


def evaluate_agent(run: Run, agent: str, load: Callable[[], Policy], stage: str = "evaluate") -> None:
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
    run.callbacks.evaluate(stage, sum(row["outcome"] != VOID for row in rows), results)


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
    load: Callable[[], Policy],
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
    said = " ".join(str(value) for value in label.values() if value not in stage.split())
    environment = partial(run.environment, tasks, size, simulator)
    settings = (
        run.config.run if best_of is None else replace(run.config.run, ray_workers=0)
    )  # an open critic cannot be sent to workers
    player = partial(play.player, load, environment, run.seed, stage, best_of=best_of)
    file = EpisodeFile(path, lambda t: episode_row(t, by_id[t.task_id], run.record), label)
    with run.beside_browsers():
        file.play(episodes, size, player, settings, f"{stage}: {said}")


def read_evaluation(path: Path, metric: str) -> list[Row]:
    """Read the rows of an `evaluation.jsonl`, and check that all rows that are not void have the required numbers.

    Raises:
        ColBenchError: If a row lacks a number or is malformed; a kill alone does not cause this.
    """
    rows = read_rows(path, EVALUATION)
    for row in rows:
        numbers = (*NUMBERS, metric, *(["leak"] if "leak" in row else ()))
        strange = [name for name in numbers if not isinstance(row.get(name), int | float)]
        if strange and row["outcome"] != VOID:
            raise ColBenchError(
                f"{path}: expected a number for {strange[0]} in the row of {row['agent']}, {row['split']}, {row['task_id']}, "
                f"got {row.get(strange[0])!r:.60}; restore or remove the file."
            )
    return rows


def episode_row(episode: Episode, task: Any, record: EnvironmentRecord) -> Row:
    """The row of an episode in `evaluation.jsonl`, without its label."""
    metrics = episode.metrics
    replies = [message["content"] for message in episode.messages[1:] if message["role"] == "user"]
    return {
        "task_id": episode.task_id,
        "episode": episode.index,
        "outcome": metrics["outcome"],
        **({"void_reason": episode.void_reason} if episode.is_void else {}),
        "success": metrics.get("success"),
        record.metric: metrics.get(record.metric),
        "turns": metrics["turns"],
        "answered": metrics.get("answered"),
        **{name: metrics[name] for name in COUNTS if name in metrics},
        "reply_chars": _mean([len(reply) for reply in replies]) if replies else 0.0,
        **record.measures(episode, task),
        "hidden_information": episode.hidden,
        "dialogue_history": episode.messages,
        **agent_turns(episode.turns),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
