"""Learning curves: one chart per stage, with a choice of its logged metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sweetrl_agent.reporting.figures import number
from sweetrl_agent.reporting.markup import Html, missing, note, section, tag
from sweetrl_agent.reporting.run_folder import METRICS, Record, RunFolder

#: Words in the names of the metrics to show first, and of those to show last.
FIRST, LAST = ("loss", "accurac", "margin", "reward", "success"), ("learning_rate", "epoch", "runtime", "per_second", "flos")
MAX_METRICS_PER_STAGE = 40
MAX_POINTS, MIN_POINTS, POINTS_IN_ALL = 400, 20, 16_000

Point = tuple[float, float]


def curves_data(metrics: Sequence[Record]) -> list[dict[str, Any]]:
    """The curves as JSON data: the name and metrics of every stage, each metric with steps and values.

    Long curves are thinned by averaging neighbours; "mean_of" is the number of points per mean.
    """
    stages: dict[str, dict[str, list[Point]]] = {}
    for record in metrics:
        stage = stages.setdefault(str(record.get("stage", "training")), {})
        for name, raw in record.items():
            value = number(raw)
            if name in ("stage", "step") or value is None:
                continue
            curve = stage.setdefault(name, [])
            step = number(record.get("step"))
            curve.append((float(len(curve)) if step is None else step, value))
    ordered = {stage: sorted(curves, key=_rank)[:MAX_METRICS_PER_STAGE] for stage, curves in stages.items() if curves}
    num_curves = sum(map(len, ordered.values()))
    max_points = min(max(POINTS_IN_ALL // max(num_curves, 1), MIN_POINTS), MAX_POINTS)
    return [
        {"stage": stage, "metrics": [{"name": name, **_thinned(stages[stage][name], max_points)} for name in names]}
        for stage, names in ordered.items()
    ]


def curves_section(run: RunFolder) -> Html:
    """Empty charts, one per stage; the script draws the curves."""
    stages = curves_data(run.metrics)
    if not stages:
        return section("curves", "Learning curves", missing(run.trouble(METRICS)))
    charts = [_chart(i, stage) for i, stage in enumerate(stages)]
    text = "Point at a curve to read its values. Values that are not finite are skipped."
    return section("curves", "Learning curves", tag("div", *charts, class_="columns"), note(text))


def _chart(index: int, stage: dict[str, Any]) -> Html:
    names = [metric["name"] for metric in stage["metrics"]]
    options = [tag("option", name, value=str(i)) for i, name in enumerate(names)]
    choice = tag("select", *options, aria_label=f"Metric of {stage['stage']}")
    title = tag("div", tag("h3", stage["stage"]), choice, class_="chart-head")
    plot = tag("svg", class_="curve", height="200", role="img")
    return tag("figure", title, plot, tag("figcaption", class_="readout"), class_="chart", data_stage=str(index))


def _rank(name: str) -> tuple[int, int, str]:
    """Sort key: losses first, then accuracies and margins, then other metrics; the learning rate and the like last. "loss" precedes "eval_loss"."""
    if any(word in name for word in LAST):
        return (len(FIRST) + 1, 0, name)
    place = next((i for i, word in enumerate(FIRST) if word in name), len(FIRST))
    return (place, len(name) if place == 0 else 0, name)


def _thinned(curve: Sequence[Point], max_points: int) -> dict[str, Any]:
    size = -(-len(curve) // max_points)
    groups = [curve[i : i + size] for i in range(0, len(curve), size)]
    steps = [_short(group[-1][0]) for group in groups]
    values = [_short(sum(value / len(group) for _, value in group)) for group in groups]
    return {"steps": steps, "values": values, "mean_of": size}


def _short(value: float) -> float | int:
    rounded = float(f"{value:.6g}") if abs(value) < 1e5 else value
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
