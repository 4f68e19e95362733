"""Success over a setting, as line charts and tables: best-of-N, training trajectories, and dials of the tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweetrl_agent.reporting.comparison_scores import Names, Results, ends, seed_text
from sweetrl_agent.reporting.figures import NOTHING, percent, percent_interval, plain
from sweetrl_agent.reporting.line_chart import Line, LineChart, Point
from sweetrl_agent.reporting.parts import Part, Table

#: Maximum length of a dial's name under an axis; longer names are given in the notes.
MAX_NAME = 12


def best_of_part(results: Results, titles: Names) -> Part:
    """Best-of-N per turn with every critic."""
    text = "The initial policy; every turn is the critic's best of N. Critics with hidden information use it at test time; an agent must not."
    colours = {name: i for i, name in enumerate(dict.fromkeys(row["critic"] for row in results["best_of_n"]), 1)}
    return _curves(
        Part("best-of-n", "Best-of-N per turn (as Figure 3a)", notes=[text]), results["best_of_n"], ("critic", "candidates"), titles, colours,
        LineChart("Success by candidates per turn", "candidates per turn (N)", (), is_log=True),
    )  # fmt: skip


def scaling_part(results: Results, titles: Names) -> Part:
    """Success by the number of training trajectories."""
    text = "The same initial policy; the first n trajectories of each seed."
    colours = {name: i for i, name in enumerate(results["algorithms"])}
    return _curves(
        Part("scaling", "Data scaling (as Figure 3b)", notes=[text]), results["scaling"], ("algorithm", "trajectories"), titles, colours,
        LineChart("Success by training trajectories", "trajectories", ()),
    )  # fmt: skip


def dials_part(results: Results, titles: Names) -> Part:
    """Success on tasks of other dials."""
    rows = results["dials"]
    names = {float(i): row["name"] if len(row["name"]) <= MAX_NAME else f"dial {i + 1}" for i, row in enumerate(rows)}
    colours = {name: i for i, name in enumerate(results["algorithms"])}
    algorithms = dict.fromkeys(name for row in rows for name in row["algorithms"])
    lines = [
        Line(
            titles.get(name, name),
            [_point(float(i), own["success"], own, own["ci95"]["success"]) for i, own in found],
            colours.get(name, len(colours)),
        )
        for name in algorithms
        if len(found := [(i, row["algorithms"][name]) for i, row in enumerate(rows) if name in row["algorithms"]]) > 1
    ]
    head = ("Dial", "Algorithm", "Success", "95%, algorithm", "Success by seed", "Tasks x seeds")
    cells = [
        (
            names[float(i)],
            titles.get(name, name),
            percent(own["success"]),
            percent_interval(ends(own, own["ci95"]["success"])),
            seed_text(own["by_seed"]),
            f"{own['n']} x {own['seeds']}",
        )
        for i, row in enumerate(rows)
        for name, own in row["algorithms"].items()
    ]
    notes = [": ".join(dict.fromkeys((names[float(i)], row["name"], f"{row['tasks']}."))) for i, row in enumerate(rows)]
    chart = LineChart("Success on test tasks", "dial of the tasks", lines, x_names=names)
    return Part("dials", "When does turn-level credit help?", [Table(head, cells)], [chart], notes)


def _curves(
    part: Part,
    found: Sequence[Mapping[str, Any]],
    by: tuple[str, str],
    titles: Names,
    colours: Mapping[str, int],
    chart: LineChart,
) -> Part:
    """The part with a line and rows of the table for each value of the first column, over the second."""
    series, x = by
    names = dict.fromkeys(row[series] for row in found)
    lines = [
        Line(
            titles.get(name, name),
            [_point(row[x], row["success"], row, row["ci95"]) for row in found if row[series] == name],
            colours.get(name, 0),
        )
        for name in names
    ]
    head = (
        series.capitalize(),
        chart.x_label[0].upper() + chart.x_label[1:],
        "Success",
        "95%, algorithm",
        "Success by seed",
        "Tasks x seeds",
    )
    cells = [
        (
            titles.get(row[series], row[series]),
            plain(float(row[x])),
            percent(row["success"]),
            percent_interval(ends(row, row["ci95"])),
            seed_text(row.get("by_seed", ())) or NOTHING,
            f"{row['n']} x {row['seeds']}",
        )
        for row in found
    ]
    drawn = LineChart(chart.title, chart.x_label, lines, chart.is_log)
    return Part(part.identifier, part.title, [Table(head, cells)], [drawn], part.notes)


def _point(x: float, y: float, score: Mapping[str, Any], bounds: Sequence[float]) -> Point:
    return Point(float(x), y, ends(score, bounds), score.get("by_seed", ()) if score["seeds"] > 1 else ())
