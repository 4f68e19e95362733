"""One chart of a run or a comparison as an SVG or PNG file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from colbench_gym.files import read_object, write_text
from sweetrl_agent.reporting.charts import Chart
from sweetrl_agent.reporting.comparison import comparison_charts
from sweetrl_agent.reporting.comparison_parts import parts
from sweetrl_agent.reporting.curves import learning_charts
from sweetrl_agent.reporting.parts import Part
from sweetrl_agent.reporting.run_folder import RESULTS, RunFolder
from sweetrl_agent.reporting.scores import headline_chart


def comparison_chart_names(
    source: Path, titles: Mapping[str, str], critics: Mapping[str, str], only: Sequence[str] = ()
) -> dict[str, Chart]:
    """The charts of a comparison by name.

    Args:
        source: Folder of the comparison, or its results.json.
        titles: Titles of algorithms.
        critics: Titles of critics.
        only: Algorithms to show, in this order; all if empty.

    Raises:
        ColBenchError: If results.json is not a JSON object.
        ValueError: If `only` has an algorithm that the comparison lacks.
    """
    folder, path = (source, source / RESULTS) if source.is_dir() else (source.parent, source)
    everything = read_object(path)
    results = _selected(everything, only)
    made = parts(results, titles, critics, {}, False)
    if source.is_dir() and (
        curves := comparison_charts(folder, results, titles, everything["algorithms"].keys() - results["algorithms"].keys())
    ):
        made.append(Part("curves", "Learning curves", charts=curves))
    return {name: chart for part in made for name, chart in part.named_charts().items()}


def run_chart_names(folder: Path) -> dict[str, Chart]:
    """The charts of a run by name: its scores and learning curves."""
    run = RunFolder.read(folder)
    scores = headline_chart(run.results)
    charts = [Part("scores", "Scores", charts=[scores])] if scores else []
    charts.append(Part("curves", "Learning curves", charts=learning_charts({run.name: run.metrics})))
    return {name: chart for part in charts for name, chart in part.named_charts().items()}


def chosen(charts: Mapping[str, Chart], name: str, title: str = "", metric: str = "", x: str = "") -> Chart:
    """One of the charts, as it is asked for.

    Args:
        charts: The charts by name.
        name: Name of the chart.
        title: Another title; "" for its own.
        metric: Metric of learning curves; "" for the first.
        x: Axis of learning curves; "" for steps.

    Raises:
        ValueError: If there is no such chart, or it takes no `metric` and `x`.
    """
    if name not in charts:
        raise ValueError(f"`chart` must be one of {', '.join(charts) or 'no charts: there are no results'}; got {name!r}.")
    chart = charts[name].of(metric, x)
    return replace(chart, title=title) if title else chart


def write_chart(chart: Chart, path: Path) -> Path:
    """Write a chart as an SVG or PNG file, by the file's suffix.

    Raises:
        ValueError: If the suffix is another one.
    """
    if path.suffix not in (".svg", ".png"):
        raise ValueError(f"`output` must end in .svg or .png, got {str(path)!r}.")
    if path.suffix == ".svg":
        write_text(path, chart.svg())
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chart.png())
    return path


def _selected(results: dict[str, Any], only: Collection[str]) -> dict[str, Any]:
    """The results of some algorithms alone."""
    if not only:
        return results
    lacks = [name for name in only if name not in results["algorithms"]]
    if lacks:
        raise ValueError(
            f"`algorithms` must be of this comparison, {', '.join(results['algorithms'])}; got {', '.join(lacks)}."
        )
    kept: dict[str, Any] = {"algorithms": {name: results["algorithms"][name] for name in only}}
    kept["paired"] = [row for row in results["paired"] if row["a"] in only and row["b"] in only]
    kept["scaling"] = [row for row in results.get("scaling", ()) if row["algorithm"] in only]
    dials = results.get("dials", ())
    kept["dials"] = [{**row, "algorithms": {n: s for n, s in row["algorithms"].items() if n in only}} for row in dials]
    return {**results, **kept}
