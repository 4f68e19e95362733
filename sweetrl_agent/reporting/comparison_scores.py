"""Scores and paired differences of a comparison, and success over a setting: dot plots with every seed, a forest plot, line charts, and the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweetrl_agent.reporting.charts import PERCENT, POINTS, Chart, Line, Point, Row, dot_plot, line_chart
from sweetrl_agent.reporting.numbers import (
    NOTHING,
    Interval,
    measure,
    measure_interval,
    percent,
    percent_interval,
    plain,
    points,
    points_interval,
)
from sweetrl_agent.reporting.palette import LIGHT, colour
from sweetrl_agent.reporting.parts import Part, Table
from sweetrl_agent.reporting.scores import SHORTENED_NOTE, headline_of, metric_of, metric_title, shortened, success_means

Results = Mapping[str, Any]
Names = Mapping[str, str]
#: A mean: group, name, value, an object with "seeds" and "by_seed", and the 95% interval.
Mean = tuple[str, str, float, Mapping[str, Any], Interval]
#: Number of pairs on a split up to which one forest plot shows all; beyond it the first has the differences to the first algorithm.
MAX_PAIRS = 15
#: Maximum length of a dial's name under an axis; longer names are given in the notes.
MAX_NAME = 12
_HEAD = ("Success", "95%, algorithm", "Success by seed", "Tasks x seeds")
EXPLAINED = "Dot: mean. Line: 95% interval for the algorithm. Rings: seeds."


def scores_part(results: Results, titles: Names) -> Part:
    """Scores of every algorithm by split."""
    metric, title = metric_of(results), metric_title(results)
    counts = shortened([score for of in results["algorithms"].values() for score in of.values()])
    head = (
        "Algorithm", "Success", "95%, algorithm", "95%, trained agents", "Success by seed",
        title, "95%, algorithm", f"{title} by seed", "Tasks x seeds", *counts.values(),
    )  # fmt: skip
    splits: dict[str, list[tuple[str, ...]]] = {}
    means: list[Mean] = []
    main = headline_of(metric)
    for name, of in results["algorithms"].items():
        for split, score in of.items():
            shorter = (str(score.get(count, 0)) for count in counts)
            splits.setdefault(split, []).append((*_score(titles.get(name, name), score, metric), *shorter))
            seeds = {**score, "by_seed": score.get("by_seed" if main == "success" else "metric_by_seed", ())}
            means.append((split, titles.get(name, name), score[main], seeds, score["ci95"][main]))
    text = (
        f"Success: {success_means(results)}. 'Algorithm': the interval holds for other runs on other tasks of this kind (variance components, "
        "Student's t with Satterthwaite's degrees of freedom). 'Trained agents': for these agents on other tasks (bootstrap "
        "over tasks). In percent."
    )
    charts = [fractions_chart(main.capitalize(), means, colours_of(results, titles))] if splits else []
    notes = [text, *([SHORTENED_NOTE] if counts else []), *results.get("notes", ())]
    return Part("scores", "Success", [Table(head, rows, split) for split, rows in splits.items()], charts, notes)


def paired_part(results: Results, titles: Names) -> Part:
    """Paired differences of success, of every pair of algorithms and every split."""
    head = (
        "Difference", "Points of success", "95%, algorithm", "By seed", "p (Holm), trained agents", "Seeds ahead", "Tasks for power 0.8",
    )  # fmt: skip
    splits: dict[str, list[Mapping[str, Any]]] = {}
    for row in results["paired"]:
        splits.setdefault(row["split"], []).append(row)
    tables = [Table(head, [_pair(row, results, titles) for row in rows], split) for split, rows in splits.items()]
    metric = metric_of(results)
    of_metric = ("Difference", metric_title(results), "95%, algorithm", "95%, trained agents", "p (Holm), trained agents")
    tables += [
        Table(of_metric, [_pair_of_metric(row, metric, titles) for row in with_metric], f"{split}: {metric}")
        for split, rows in splits.items()
        if (with_metric := [row for row in rows if "of_metric" in row])
    ]
    text = (
        "Differences are paired by task and seed, which removes common variance. The interval holds for the algorithms (other runs, other "
        "tasks) and is wide with two or three seeds, since these give little information on the variance between runs. p: two-sided permutation "
        "test over tasks, corrected for all pairs of the split; it holds for the trained agents, so it may be small although the interval is wide. "
        "Last column: tasks needed with this number of seeds to detect a difference of this size with power 0.8; a dash if no number of "
        "tasks suffices with so few seeds, or if there is no difference."
    )
    return Part("paired", "Paired differences", tables, _forests(results, titles, splits), [text])


def algorithm_interval(score: Mapping[str, Any], bounds: Sequence[float]) -> Interval | None:
    """The algorithm's interval; None for one seed, which gives no information on the variance between runs."""
    return (bounds[0], bounds[1]) if score["seeds"] > 1 else None


def seed_text(by_seed: Sequence[float], metric: str = "success") -> str:
    """Values of the seeds for a cell, without units."""
    return " ".join(measure(metric, value).rstrip("%") for value in by_seed) or NOTHING


def fractions_chart(title: str, means: Sequence[Mean], colours: Mapping[str, int]) -> Chart:
    """A dot plot of fractions.

    Args:
        title: Title above the chart.
        means: The rows, in any order of the groups.
        colours: Number of each name's colour.
    """
    groups: dict[str, list[Row]] = {}
    for group, name, mean, score, bounds in means:
        seeds = score.get("by_seed", ()) if score["seeds"] > 1 else ()
        row = Row(name, mean, percent(mean), algorithm_interval(score, bounds), seeds, colour(colours.get(name, 0)))
        groups.setdefault(group, []).append(row)
    return dot_plot(title, groups, PERCENT, EXPLAINED)


def colours_of(results: Results, titles: Names) -> dict[str, int]:
    """Number of the colour of each algorithm, by its title: the same in all charts."""
    return {titles.get(name, name): i for i, name in enumerate(results["algorithms"])}


def _score(title: str, score: Mapping[str, Any], metric: str) -> tuple[str, ...]:
    return (
        title,
        percent(score["success"]),
        percent_interval(algorithm_interval(score, score["ci95"]["success"])),
        percent_interval(score["ci95_agents"]["success"]),
        seed_text(score["by_seed"]),
        measure(metric, score[metric]),
        measure_interval(metric, algorithm_interval(score, score["ci95"][metric])),
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
        points_interval(algorithm_interval(row, row["ci95"])),
        " ".join(map(points, _by_seed(row, results))),
        f"{row['p_holm']:.4f}",
        f"{row['seeds_ahead']} of {row['seeds']}",
        NOTHING if row["tasks_for_80"] is None else str(row["tasks_for_80"]),
    )


def _pair_of_metric(row: Mapping[str, Any], metric: str, titles: Names) -> tuple[str, ...]:
    difference = row["of_metric"]
    return (
        f"{titles.get(row['a'], row['a'])} minus {titles.get(row['b'], row['b'])}",
        measure(metric, difference["difference"]),
        measure_interval(metric, algorithm_interval(row, difference["ci95"])),
        measure_interval(metric, (difference["ci95_agents"][0], difference["ci95_agents"][1])),
        f"{difference['p_holm']:.4f}",
    )


def _forests(results: Results, titles: Names, splits: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Chart]:
    """One forest plot of all pairs; if these are many, one of the differences to the first algorithm, and one of all in a fold."""
    every: dict[str, list[Row]] = {}
    first: dict[str, list[Row]] = {}
    for split, pairs in splits.items():
        for reference in dict.fromkeys(row["b"] for row in pairs):
            title = f"{split}: minus {titles.get(reference, reference)}"
            every[title] = [_forest_row(row, results, titles) for row in pairs if row["b"] == reference]
            if reference == pairs[0]["b"]:
                first[title] = every[title]
    most = max(map(len, splits.values()))
    title, explained = "Differences of success, in points", f"{EXPLAINED} Blue and orange: the interval excludes 0."
    if most <= MAX_PAIRS:
        return [dot_plot(title, every, POINTS, explained)]
    fold = f"All differences ({most} on each split)"
    return [dot_plot(title, first, POINTS, explained), dot_plot(title, every, POINTS, explained, "all", fold)]


def _forest_row(row: Mapping[str, Any], results: Results, titles: Names) -> Row:
    bounds = algorithm_interval(row, row["ci95"])
    shade = "quiet" if bounds is None or bounds[0] <= 0 <= bounds[1] else "positive" if bounds[0] > 0 else "negative"
    seeds = _by_seed(row, results) if row["seeds"] > 1 else ()
    return Row(titles.get(row["a"], row["a"]), row["difference"], points(row["difference"]), bounds, seeds, LIGHT[shade])


def best_of_part(results: Results, titles: Names) -> Part:
    """Best-of-N per turn with every critic."""
    text = "The initial policy; every turn is the critic's best of N. Critics with hidden information use it at test time; an agent must not."
    rows = [(row["critic"], row["candidates"], row) for row in results["best_of_n"]]
    colours = {titles.get(name, name): i for i, name in enumerate(dict.fromkeys(name for name, _, _ in rows), 1)}
    table, lines = _curves(("Critic", "Candidates per turn (N)"), rows, titles, colours)
    chart = line_chart("Success by candidates per turn", "candidates per turn (N)", lines, is_log=True)
    return Part("best-of-n", "Best-of-N per turn (as Figure 3a)", [table], [chart], [text])


def scaling_part(results: Results, titles: Names) -> Part:
    """Success by the number of training trajectories."""
    text = "The same initial policy; the first n trajectories of each seed."
    rows = [(row["algorithm"], row["trajectories"], row) for row in results["scaling"]]
    table, lines = _curves(("Algorithm", "Trajectories"), rows, titles, colours_of(results, titles))
    chart = line_chart("Success by training trajectories", "trajectories", lines)
    return Part("scaling", "Data scaling (as Figure 3b)", [table], [chart], [text])


def dials_part(results: Results, titles: Names) -> Part:
    """Success on tasks of other dials."""
    dials = results["dials"]
    names = [dial["name"] if len(dial["name"]) <= MAX_NAME else f"dial {i + 1}" for i, dial in enumerate(dials)]
    rows = [
        (name, i, {**score, "ci95": score["ci95"]["success"]})
        for i, dial in enumerate(dials)
        for name, score in dial["algorithms"].items()
    ]
    counts = {name: sum(of == name for of, _, _ in rows) for name, _, _ in rows}
    _, lines = _curves(("", ""), [row for row in rows if counts[row[0]] > 1], titles, colours_of(results, titles))
    cells = [(names[i], titles.get(name, name), *_cells(score)) for name, i, score in rows]
    notes = [
        ": ".join(dict.fromkeys((name, dial["name"], f"{dial['tasks']}."))) for name, dial in zip(names, dials, strict=True)
    ]
    chart = line_chart("Success on test tasks", "dial of the tasks", lines, names=names)
    return Part("dials", "When does turn-level credit help?", [Table(("Dial", "Algorithm", *_HEAD), cells)], [chart], notes)


def _curves(
    head: tuple[str, str], rows: Sequence[tuple[str, float, Mapping[str, Any]]], titles: Names, colours: Mapping[str, int]
) -> tuple[Table, list[Line]]:
    """A table with a row for each name and setting, and a line for each name."""
    cells = [(titles.get(name, name), plain(float(x)), *_cells(score)) for name, x, score in rows]
    means: dict[str, list[Point]] = {}
    for name, x, score in rows:
        seeds = score.get("by_seed", ()) if score["seeds"] > 1 else ()
        point = Point(float(x), score["success"], algorithm_interval(score, score["ci95"]), seeds)
        means.setdefault(titles.get(name, name), []).append(point)
    lines = [Line(title, points_of, colours.get(title, len(colours))) for title, points_of in means.items()]
    return Table((*head, *_HEAD), cells), lines


def _cells(score: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        percent(score["success"]),
        percent_interval(algorithm_interval(score, score["ci95"])),
        seed_text(score.get("by_seed", ())) or NOTHING,
        f"{score['n']} x {score['seeds']}",
    )
