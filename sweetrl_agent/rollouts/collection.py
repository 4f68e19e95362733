"""Stages that offline algorithms share: collected trajectories and outcome pairs.

Each function is a stage: it reads files of the run folder and writes its own files, whole or in complete batches.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import Any

from colbench_gym.agents.agent import CUT_TURNS, SILENT_TURNS
from colbench_gym.errors import ColBenchError, TaskError
from colbench_gym.evaluation.rows import RowFile
from colbench_gym.files import Row, iter_rows, write_json, write_rows
from sweetrl_agent.core.dialogues import AGENT, VOID
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.run import Run
from sweetrl_agent.data.pairs import outcome_pairs
from sweetrl_agent.models.loading import load_policy
from sweetrl_agent.rollouts import play
from sweetrl_agent.rollouts.play import episodes_of
from sweetrl_agent.rollouts.player import RolloutPlayer, play_rows
from sweetrl_agent.rollouts.replies_measured import LEAK, refuse_leak, reply_means

_log = logging.getLogger(__name__)


class NothingToLearnError(TaskError):
    """The collected data has no training signal. The main job stops; in a comparison the trained policy is then the initial policy."""


def collect(run: Run) -> None:
    """Collect K trajectories of every training task into trajectories.jsonl."""
    episodes = episodes_of([task.id for task in run.tasks], run.config.collect.trajectories_per_task)
    batch = run.config.model.generation_batch
    load = partial(load_policy, run.initial_model, run.initial_model, run.config.model)
    worker = partial(play.player, load, partial(run.environment, run.tasks, batch), run.seed, "collect")
    by_id = {task.id: task for task in run.tasks}
    with run.reserve_browser_cores():
        file = RowFile(run.path("trajectories.jsonl"))
        play_rows(file, episodes, RolloutPlayer(worker, batch, partial(_row, run, by_id), run.config.run), "collect")
    _report(run, file)
    if lost := lost_turns(run):
        _log.warning("collect:%s", lost)


def _report(run: Run, file: RowFile) -> None:
    """Tell the callbacks the means over the collected episodes that are not void; ends the run if the human leaks too much."""
    every = [row["metrics"] for row in file.rows()]
    valid = [metrics for metrics in every if metrics["outcome"] != VOID]
    names = [
        name for name in dict.fromkeys(("success", run.record.metric, "turns", "answered")) if all(name in m for m in valid)
    ]
    means = {name: sum(float(metrics[name]) for metrics in valid) / len(valid) for name in names if valid}
    given_away = reply_means(run.record, iter_trajectories(run), {task.id: task for task in run.tasks})
    counts = {"episodes": len(every), "void": len(every) - len(valid)}
    run.add_metrics("collect", [{"stage": "collect", "step": len(valid), **means, **given_away}])
    run.callbacks.tell("on_log", "collect", len(valid), {**means, **given_away, **counts})
    if LEAK in given_away:
        _log.info(
            "collect: the replies reveal %.1f%% of the hidden code (`--max_leak` %g)",
            100 * given_away[LEAK],
            run.config.run.max_leak,
        )
    refuse_leak("collect", given_away, run.config.run.max_leak)


def _row(run: Run, tasks: Mapping[str, Any], episode: Episode) -> Row:
    answer = run.record.answer(episode.turns[-1].text) if episode.turns else None
    return episode.to_row(run.record.task_row(tasks[episode.task_id]), answer)


def pair_outcomes(run: Run) -> None:
    """Make outcome_pairs.jsonl from trajectories.jsonl."""
    config, metric, path = run.config.collect, run.record.metric, run.path("outcome_pairs.jsonl")
    seen = _Seen(metric)
    write_rows(path, (
        row
        for _, group in groupby(iter_of_one_agent(run), key=lambda t: t.task_id)
        for row in seen.pairs(outcome_pairs(seen.trajectories(list(group)), config.min_best, config.min_difference, metric))
    ))  # fmt: skip
    if not seen.counts["outcome_pairs"]:
        path.unlink()
        if config.min_best <= 0:
            raise NothingToLearnError(
                f"No task has two trajectories of different {metric}, so there is nothing to learn from. Start another run with more tasks, "
                f"more trajectories per task, more SFT, or a better model.{lost_turns(run)}"
            )
        lower = "Lower `--min_best` and resume this run, or start" if 0 < seen.best < config.min_best else "Start"
        raise NothingToLearnError(
            f"No task has a trajectory that passes {config.min_best:.0%} of its tests and a worse one (the best passes "
            f"{seen.best:.0%}), so there is nothing to learn from. {lower} another run with more tasks, more SFT, or a better model."
            f"{lost_turns(run)}"
        )
    write_json(run.path("pairs_summary.json"), seen.summary())
    run.callbacks.tell("on_log", "pairs", seen.counts["outcome_pairs"], seen.summary())


def iter_of_one_agent(run: Run) -> Iterator[Episode]:
    """As `iter_trajectories`, of an environment of one agent.

    Raises:
        TaskError: If an episode has several agents; names them.
    """
    for episode in iter_trajectories(run):
        if episode.agents not in ((), (AGENT,)):
            raise TaskError(
                f"Pairs and candidates are of one agent, and {run.config.task.env} has {', '.join(episode.agents)}: take an on-policy algorithm."
            )
        yield episode


def lost_turns(run: Run) -> str:
    """A sentence, after a blank, on collected turns that were cut or said nothing; "" where either is less than a tenth of all."""
    counts = Counter[str]()
    for episode in iter_trajectories(run):
        counts.update(
            {name: int(episode.metrics.get(name, 0)) for name in (SILENT_TURNS, CUT_TURNS)} | {"turns": len(episode.turns)}
        )
    turns, silent, cut = counts["turns"], counts[SILENT_TURNS], counts[CUT_TURNS]
    if not turns or 10 * max(silent, cut) < turns:
        return ""
    advice = "raise `--max_new_tokens`" if 10 * cut >= turns else "what the model only thinks is no message"
    return f" Of {turns} collected turns, {silent} said nothing and {cut} were cut by the limit of tokens: {advice}."


def iter_trajectories(run: Run) -> Iterator[Episode]:
    """Iterate over the collected trajectories; those of a task are consecutive."""
    path = run.path("trajectories.jsonl")
    for number, row in enumerate(iter_rows(path), 1):
        try:
            episode = Episode.from_row(row)
        except ColBenchError as error:
            raise ColBenchError(f"{path}, row {number}: {error}") from None
        yield episode


class _Seen:
    """Counts trajectories and pairs while they are streamed."""

    def __init__(self, metric: str) -> None:
        self.metric, self.best = metric, 0.0
        self.counts: Counter[str] = Counter()

    def trajectories(self, of_task: list[Episode]) -> list[Episode]:
        valid = [t for t in of_task if not t.is_void]
        successes = sum(int(t.metrics["success"]) for t in valid)
        self.counts.update(
            trajectories=len(of_task), void=len(of_task) - len(valid), successes=successes, turns=sum(len(t.turns) for t in valid),
            tasks_with_a_success=int(successes > 0),
        )  # fmt: skip
        self.best = max([self.best, *(float(t.metrics[self.metric]) for t in valid)])
        return of_task

    def pairs(self, rows: list[Row]) -> list[Row]:
        self.counts["outcome_pairs"] += len(rows)
        return rows

    def summary(self) -> dict[str, Any]:
        counts = self.counts
        valid = max(counts["trajectories"] - counts["void"], 1)
        return {
            "trajectories": counts["trajectories"],
            "void": counts["void"],
            "success": round(counts["successes"] / valid, 4),
            "turns": round(counts["turns"] / valid, 2),
            "tasks_with_a_success": counts["tasks_with_a_success"],
            "outcome_pairs": counts["outcome_pairs"],
        }
