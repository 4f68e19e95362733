"""Scores and paired differences of a comparison: dot plots with every seed, a forest plot, and the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweetrl_agent.reporting.chart import colour_class
from sweetrl_agent.reporting.dot_plot import DotPlot, Group, Row, axis_percent
from sweetrl_agent.reporting.figures import (
    NOTHING,
    Interval,
    measure,
    measure_interval,
    percent,
    percent_interval,
    points,
)
from sweetrl_agent.reporting.parts import Part, Table
from sweetrl_agent.reporting.scores import headline_of, metric_of, metric_title, success_means

Results = Mapping[str, Any]
Names = Mapping[str, str]
#: Number of pairs on a split up to which one forest plot shows all; beyond it the first has the differences to the first algorithm.
MAX_PAIRS = 15
EXPLAINED = "Dot: mean. Line: 95% interval for the algorithm. Rings: seeds."


def scores_part(results: Results, titles: Names) -> Part:
    """Scores of every algorithm by split."""
    splits = dict.fromkeys(split for of in results["algorithms"].values() for split in of)
    title = metric_title(results)
    head = (
        "Algorithm", "Success", "95%, algorithm", "95%, trained agents", "Success by seed",
        title, "95%, algorithm", f"{title} by seed", "Tasks x seeds",
    )  # fmt: skip
    tables = [
        Table(
            head,
            [
                _score(titles.get(name, name), of[split], metric_of(results))
                for name, of in results["algorithms"].items()
                if split in of
            ],
            split,
        )
        for split in splits
    ]
    text = (
        f"Success: {success_means(results)}. 'Algorithm': the interval holds for other runs on other tasks of this kind (variance components, "
        "Student's t with Satterthwaite's degrees of freedom). 'Trained agents': for these agents on other tasks (bootstrap "
        "over tasks). In percent."
    )
    charts = [_scores_chart(results, titles, list(splits))] if splits else []
    return Part("scores", "Success", tables, charts, [text, *results.get("notes", ())])


def paired_part(results: Results, titles: Names) -> Part:
    """Paired differences of success, of every pair of algorithms and every split."""
    head = (
        "Difference", "Points of success", "95%, algorithm", "By seed", "p (Holm), trained agents", "Seeds ahead", "Tasks for power 0.8",
    )  # fmt: skip
    splits = dict.fromkeys(row["split"] for row in results["paired"])
    tables = [
        Table(head, [_pair(row, results, titles) for row in results["paired"] if row["split"] == split], split)
        for split in splits
    ]
    metric = metric_of(results)
    tables += [
        Table(
            ("Difference", metric_title(results), "95%, algorithm", "95%, trained agents", "p (Holm), trained agents"),
            [_pair_of_metric(row, metric, titles) for row in rows],
            f"{split}: {metric}",
        )
        for split in splits
        if (rows := [row for row in results["paired"] if row["split"] == split and "of_metric" in row])
    ]
    text = (
        "Differences are paired by task and seed, which removes common variance. The interval holds for the algorithms (other runs, other "
        "tasks) and is wide with two or three seeds, since these give little information on the variance between runs. p: two-sided permutation "
        "test over tasks, corrected for all pairs of the split; it holds for the trained agents, so it may be small although the interval is wide. "
        "Last column: tasks needed with this number of seeds to detect a difference of this size with power 0.8; a dash if no number of "
        "tasks suffices with so few seeds, or if there is no difference."
    )
    return Part("paired", "Paired differences", tables, _forests(results, titles, list(splits)), [text])


def ends(score: Mapping[str, Any], bounds: Sequence[float]) -> Interval | None:
    """The algorithm's interval; None for one seed, which gives no information on the variance between runs."""
    return (bounds[0], bounds[1]) if score["seeds"] > 1 else None


def seed_text(by_seed: Sequence[float], metric: str = "success") -> str:
    """Values of the seeds for a cell, without units."""
    return " ".join(measure(metric, value).rstrip("%") for value in by_seed) or NOTHING


def _scores_chart(results: Results, titles: Names, splits: Sequence[str]) -> DotPlot:
    metric = headline_of(metric_of(results))
    seeds = "by_seed" if metric == "success" else "metric_by_seed"
    groups = [
        Group(
            split,
            [
                Row(
                    titles.get(name, name), score[metric], percent(score[metric]), ends(score, score["ci95"][metric]),
                    score.get(seeds, ()) if score["seeds"] > 1 else (), colour_class(i),
                )
                for i, (name, of) in enumerate(results["algorithms"].items())
                if (score := of.get(split))
            ],
        )
        for split in splits
    ]  # fmt: skip
    return DotPlot(metric.capitalize(), groups, axis_percent, EXPLAINED)


def _score(title: str, score: Mapping[str, Any], metric: str) -> tuple[str, ...]:
    return (
        title,
        percent(score["success"]),
        percent_interval(ends(score, score["ci95"]["success"])),
        percent_interval(score["ci95_agents"]["success"]),
        seed_text(score["by_seed"]),
        measure(metric, score[metric]),
        measure_interval(metric, ends(score, score["ci95"][metric])),
        seed_text(score.get("metric_by_seed", ()), metric),
        f"{score['n']} x {score['seeds']}",
    )


def _by_seed(row: Mapping[str, Any], results: Results) -> list[float]:
    """Differences of the seeds: all algorithms are scored on the same tasks, so the difference of means is the mean difference."""
    a, b = (results["algorithms"][row[side]][row["split"]]["by_seed"] for side in ("a", "b"))
    return [x - y for x, y in zip(a, b, strict=True)]


def _pair(row: Mapping[str, Any], results: Results, titles: Names) -> tuple[str, ...]:
    return (
        f"{titles.get(row['a'], row['a'])} minus {titles.get(row['b'], row['b'])}",
        points(row["difference"]),
        _points_interval(ends(row, row["ci95"])),
        " ".join(map(points, _by_seed(row, results))),
        f"{row['p_holm']:.4f}",
        f"{row['seeds_ahead']} of {row['seeds']}",
        NOTHING if row["tasks_for_80"] is None else str(row["tasks_for_80"]),
    )


def _pair_of_metric(row: Mapping[str, Any], metric: str, titles: Names) -> tuple[str, ...]:
    own = row["of_metric"]
    return (
        f"{titles.get(row['a'], row['a'])} minus {titles.get(row['b'], row['b'])}",
        measure(metric, own["difference"]),
        measure_interval(metric, ends(row, own["ci95"])),
        measure_interval(metric, (own["ci95_agents"][0], own["ci95_agents"][1])),
        f"{own['p_holm']:.4f}",
    )


def _forests(results: Results, titles: Names, splits: Sequence[str]) -> list[DotPlot]:
    """One forest plot of all pairs; if these are many, one of the differences to the first algorithm, and one of all in a fold."""
    references = {split: dict.fromkeys(row["b"] for row in results["paired"] if row["split"] == split) for split in splits}
    most = max(sum(row["split"] == split for row in results["paired"]) for split in splits)
    title, said = "Differences of success, in points", f"{EXPLAINED} Blue and orange: the interval excludes 0."
    every = [_forest_group(results, titles, split, b) for split in splits for b in references[split]]
    if most <= MAX_PAIRS:
        return [DotPlot(title, every, _axis_points, said)]
    first = [_forest_group(results, titles, split, next(iter(references[split]))) for split in splits]
    fold = f"All differences ({most} on each split)"
    return [DotPlot(title, first, _axis_points, said), DotPlot(title, every, _axis_points, said, fold, "all")]


def _forest_group(results: Results, titles: Names, split: str, reference: str) -> Group:
    found = [row for row in results["paired"] if (row["split"], row["b"]) == (split, reference)]
    return Group(f"{split}: minus {titles.get(reference, reference)}", [_forest_row(row, results, titles) for row in found])


def _forest_row(row: Mapping[str, Any], results: Results, titles: Names) -> Row:
    bounds = ends(row, row["ci95"])
    colour = "quiet" if bounds is None or bounds[0] <= 0 <= bounds[1] else "positive" if bounds[0] > 0 else "negative"
    text = points(row["difference"])
    seeds = _by_seed(row, results) if row["seeds"] > 1 else ()
    return Row(titles.get(row["a"], row["a"]), row["difference"], text, bounds, seeds, f"series-{colour}")


def _points_interval(bounds: Interval | None) -> str:
    return NOTHING if bounds is None else f"[{points(bounds[0])}, {points(bounds[1])}]"


def _axis_points(value: float) -> str:
    return points(value).removesuffix(".0") if value else "0"
