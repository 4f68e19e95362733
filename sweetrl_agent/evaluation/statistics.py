"""Statistics of a comparison: intervals, paired differences, tests and power.

An experiment is a table of scores, one row per seed (a training run) and one column per task, with the same tasks for every seed. Tasks and
seeds are both samples, from a population of tasks and a population of runs. An interval for the *algorithm* must therefore include
both. An interval over tasks only holds for the trained agents: runs of one algorithm differ by several points. Both intervals are
reported, under different names.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colbench_gym.files import Row
from colbench_gym.scoring.intervals import difference_interval, sign_flip_p, wilson

Scores = NDArray[np.float64]
Interval = tuple[float, float]

LEVEL = 0.95
_RESAMPLES = 2_000


@dataclass(frozen=True)
class Components:
    """Variance components of a table of scores.

    Attributes:
        seed: Variance between runs.
        task: Variance between tasks.
        rest: Residual variance of one cell.
    """

    seed: float
    task: float
    rest: float

    def of_mean(self, seeds: int, tasks: int) -> float:
        """Variance of the mean of a table of `seeds` rows and `tasks` columns."""
        return self.seed / seeds + self.task / tasks + self.rest / (seeds * tasks)


def components(scores: Scores) -> Components:
    """Estimate the variances from the mean squares of a two-way table; negative estimates are 0.

    Args:
        scores: Shape (S, T), at least 2 x 2.

    Source: Searle, Casella & McCulloch, "Variance Components", 1992, chapter 4.
    """
    seeds, tasks = scores.shape
    between_seeds, between_tasks, rest = _mean_squares(scores)
    return Components(max(0.0, (between_seeds - rest) / tasks), max(0.0, (between_tasks - rest) / seeds), rest)


def algorithm_interval(scores: Scores) -> Interval:
    """95% interval of the mean over the populations of runs and tasks: Student's t with Satterthwaite's degrees of freedom.

    With one seed the variance between runs is unknown, and the interval is `agents_interval`.

    Args:
        scores: Shape (S, T): one row per seed, one column per task.

    Source: Satterthwaite, 1946, Biometrics Bulletin 2.
    """
    from scipy import stats  # takes a second to load

    seeds, tasks = scores.shape
    if seeds < 2 or tasks < 2:
        return agents_interval(scores)
    between_seeds, between_tasks, rest = _mean_squares(scores)
    # At least the variance of either source alone: the subtraction is an estimate and may be negative.
    variance = max(between_seeds + between_tasks - rest, between_seeds, between_tasks) / scores.size
    if variance == 0:
        return agents_interval(scores)
    parts = ((between_seeds, seeds - 1), (between_tasks, tasks - 1), (rest, (seeds - 1) * (tasks - 1)))
    freedom = (between_seeds + between_tasks - rest) ** 2 / sum(square**2 / df for square, df in parts)
    half = float(stats.t.ppf((1 + LEVEL) / 2, max(freedom, seeds - 1))) * math.sqrt(variance)
    centre = float(scores.mean())
    return centre - half, centre + half


def agents_interval(scores: Scores, seed: int = 0) -> Interval:
    """95% interval of the mean of the trained agents over the population of tasks: bootstrap over tasks.

    Args:
        scores: Shape (S, T).
        seed: Seed of the resampling.
    """
    from scipy import stats  # takes a second to load

    by_task = scores.mean(axis=0)
    if len(by_task) < 2 or np.ptp(by_task) == 0:
        return float(by_task.mean()), float(by_task.mean())
    resampled = stats.bootstrap(
        (by_task,), np.mean, n_resamples=_RESAMPLES, confidence_level=LEVEL, method="percentile", random_state=seed
    )
    return float(resampled.confidence_interval.low), float(resampled.confidence_interval.high)


def score_interval(scores: Scores, of: Callable[[Scores], Interval] = algorithm_interval) -> Interval:
    """95% interval of a mean of scores in [0, 1], by `of`; if no or all tasks were passed, Wilson's interval over the tasks.

    Without variation the other intervals would have width 0.
    """
    if scores.size and np.ptp(scores) == 0 and scores.flat[0] in (0.0, 1.0):
        return wilson(float(scores.flat[0]), scores.shape[1])
    return of(scores)


def share_difference_interval(differences: Scores) -> Interval:
    """95% interval of a mean difference of scores in [0, 1], by `algorithm_interval`; if all are equal, the one that allows for tasks of another kind."""
    if differences.size and np.ptp(differences) == 0:
        return difference_interval(differences.mean(axis=0).tolist())
    return algorithm_interval(differences)


def permutation_p(differences: Scores, seed: int = 0) -> float:
    """Two-sided p-value of "no difference between these agents", by random sign flips per task.

    Args:
        differences: Shape (S, T): score of one algorithm minus that of the other, on the same seed and task.
        seed: Seed of the permutations.
    """
    return sign_flip_p(differences.mean(axis=0), seed)


def power(difference: float, parts: Components, seeds: int, tasks: int) -> float:
    """Probability that `algorithm_interval` excludes 0, on the correct side, for a true paired difference.

    Args:
        difference: The true difference.
        parts: Variances of the paired differences.
        seeds: Number of runs per algorithm.
        tasks: Number of tasks.
    """
    from scipy import stats  # takes a second to load

    variance = parts.of_mean(seeds, tasks)
    if variance == 0:
        return 1.0
    expected = (parts.seed * tasks + parts.rest, parts.task * seeds + parts.rest, parts.rest)
    freedoms = (seeds - 1, tasks - 1, (seeds - 1) * (tasks - 1))
    freedom = (variance * seeds * tasks) ** 2 / sum(
        square**2 / max(df, 1) for square, df in zip(expected, freedoms, strict=True)
    )
    freedom = max(freedom, seeds - 1, 1)
    critical = float(stats.t.ppf((1 + LEVEL) / 2, freedom))
    return float(stats.nct.sf(critical, freedom, abs(difference) / math.sqrt(variance)))


def tasks_needed(difference: float, parts: Components, seeds: int, wanted: float = 0.8, most: int = 100_000) -> int | None:
    """Minimum number of tasks to detect a difference with `seeds` runs and the wanted power; None if none suffices or the difference is 0."""
    if seeds < 2 or difference == 0 or power(difference, parts, seeds, most) < wanted:
        return None
    return 2 + bisect_left(range(2, most), wanted, key=lambda tasks: power(difference, parts, seeds, tasks))


def task_table(rows: Mapping[int, Sequence[Mapping[str, Any]]], metric: str) -> Scores:
    """Table of one agent's episodes by seed, shape (S, T): means over a task's episodes. Tasks that are void or missing for a seed are excluded.

    Columns are sorted by task id, so that tables of the same tasks are aligned.

    Args:
        rows: Rows of episodes by seed, with "task_id", "outcome" and the metric.
        metric: Name of the metric.
    """
    cells: dict[str, dict[int, list[float]]] = {}
    for seed, of_seed in rows.items():
        for row in of_seed:
            if row["outcome"] != "void":
                cells.setdefault(row["task_id"], {}).setdefault(seed, []).append(float(row[metric]))
    kept = [cells[task] for task in sorted(cells) if len(cells[task]) == len(rows)]
    return np.array([[np.mean(by_seed[seed]) for by_seed in kept] for seed in rows]).reshape(len(rows), len(kept))


def cell_table(rows: Mapping[int, Sequence[Mapping[str, Any]]], cell: Mapping[str, Any], metric: str = "success") -> Scores:
    """`task_table` of the rows that have the values of `cell` in its columns."""
    return task_table({seed: [row for row in of_seed if cell.items() <= row.items()] for seed, of_seed in rows.items()}, metric)


def tasks_of(rows: Mapping[int, Sequence[Row]], cell: Mapping[str, Any]) -> set[str]:
    """Ids of the tasks that a cell, as in `cell_table`, has for every seed, void in none of its episodes."""
    by_seed = [[row for row in of_seed if cell.items() <= row.items()] for of_seed in rows.values()]
    void = {row["task_id"] for of_seed in by_seed for row in of_seed if row["outcome"] == "void"}
    return set.intersection(*({row["task_id"] for row in of_seed} for of_seed in by_seed)) - void


def on_same_tasks(rows: Mapping[int, Sequence[Row]], cells: Sequence[Mapping[str, Any]]) -> dict[int, list[Row]]:
    """The rows of the tasks that are `tasks_of` every cell; cells without any are ignored."""
    known = [tasks for cell in cells if (tasks := tasks_of(rows, cell))]
    kept = set.intersection(*known) if known else set()
    return {seed: [row for row in of_seed if row["task_id"] in kept] for seed, of_seed in rows.items()}


def score_of(scores: Scores) -> dict[str, Any]:
    """Mean success of a table in the format of results: "success", "ci95" over runs and tasks, "n" tasks, "seeds", and means "by_seed"."""
    low, high = score_interval(scores)
    return {
        "success": round(float(scores.mean()), 4),
        "ci95": [round(max(0.0, low), 4), round(min(1.0, high), 4)],
        "n": scores.shape[1],
        "seeds": scores.shape[0],
        "by_seed": [round(float(mean), 4) for mean in scores.mean(axis=1)],
    }


def _mean_squares(scores: Scores) -> tuple[float, float, float]:
    """Mean squares between seeds, between tasks, and of the residuals."""
    seeds, tasks = scores.shape
    mean = scores.mean()
    by_seed, by_task = scores.mean(axis=1, keepdims=True), scores.mean(axis=0)
    rest = scores - by_seed - by_task + mean
    return (
        float(tasks * ((by_seed - mean) ** 2).sum() / (seeds - 1)),
        float(seeds * ((by_task - mean) ** 2).sum() / (tasks - 1)),
        float((rest**2).sum() / ((seeds - 1) * (tasks - 1))),
    )
