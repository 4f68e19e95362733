"""Learning curves: a chart per stage, whose metric and axis the reader chooses, with a line for each seed behind the mean.

Axes are what an algorithm has spent by then: steps, episodes, agent turns, tokens or wall time, as far as the stage has logged them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sweetrl_agent.reporting.charts import Chart, Spec, bounded, filled
from sweetrl_agent.reporting.numbers import number
from sweetrl_agent.reporting.parts import Part, clip
from sweetrl_agent.reporting.run_folder import METRICS, Record

#: Axes by the names of their columns in metrics.jsonl and timings.jsonl, in the order of the choice.
AXES = {
    "step": "steps",
    "episodes": "episodes",
    "environment_turns": "agent turns",
    "generated_tokens": "generated tokens",
    "num_input_tokens_seen": "trained tokens",
    "seconds": "wall time in s",
}
#: Words in the names of the metrics to show first, and of those to show last.
FIRST, LAST = (
    ("return", "success", "loss", "accurac", "margin", "reward"),
    ("learning_rate", "epoch", "runtime", "per_second", "flos"),
)
MAX_METRICS = 40
MAX_POINTS, MIN_POINTS, NUMBERS_IN_ALL = 400, 20, 40_000
#: Title of the chart of all on-policy algorithms, and the columns by which it knows them.
ON_POLICY, ON_POLICY_COLUMNS = "On-policy algorithms", {"return", "environment_turns"}
NOTE = (
    "Choose a metric, and what it is drawn over; point at a curve to read its values. With several seeds, thin lines are the seeds and the "
    "bold line is their mean. Values that are not finite are skipped."
)

Columns = dict[str, list[float | None]]


@dataclass(frozen=True)
class Series:
    """One line of a chart, in the `index`-th colour: the columns of each run of a stage, by the name of the run."""

    name: str
    index: int
    runs: Mapping[str, Columns]


@dataclass(frozen=True)
class LearningChart(Chart):
    """A chart of learning curves; the reader of a page chooses its metric and axis, a file has one of each.

    Attributes:
        series: Its lines.
        metric: Metric of the file; "" for the first.
        x: Axis of the file, a key of `AXES`; "" for the first.
    """

    spec: Spec = field(default_factory=dict)
    series: Sequence[Series] = ()
    metric: str = ""
    x: str = ""

    @property
    def axes(self) -> list[str]:
        """Axes that all runs have, the first of which is always there."""
        return [name for name in AXES if all(any(v is not None for v in c.get(name, ())) for c in self._columns())]

    @property
    def metrics(self) -> list[str]:
        """Metrics that some run has: losses first, then accuracies and margins, the learning rate and the like last."""
        names = dict.fromkeys(name for columns in self._columns() for name in columns if name not in AXES)
        return sorted(names, key=metric_rank)[:MAX_METRICS]

    def of(self, metric: str, x: str) -> Chart:
        """See `Chart`.

        Raises:
            ValueError: If the chart lacks the metric or the axis.
        """
        for setting, name, known in (("metric", metric, self.metrics), ("x", x, self.axes)):
            if name and name not in known:
                raise ValueError(f"`{setting}` must be one of {', '.join(known)}, got {name!r}.")
        return replace(self, metric=metric, x=x)

    def page_spec(self) -> Spec:
        """See `Chart`; metric and axis are chosen by inputs of the page."""
        metrics, axes = self.metrics, self.axes
        labels = {"metric": list(map(clip, metrics)), "over": [AXES[name] for name in axes]}
        numbers = {"metric": list(range(len(metrics))), "over": list(range(len(metrics), len(metrics) + len(axes)))}
        params = [
            {
                "name": name,
                "value": numbers[name][0],
                "bind": {"input": "select", "name": name, "options": numbers[name], "labels": texts},
            }
            for name, texts in labels.items()
        ]
        return Chart(self.title, self._spec(params, [*metrics, *axes])).page_spec()

    def file_spec(self) -> Spec:
        """See `Chart`: one metric over one axis."""
        metric, x = self.metric or self.metrics[0], self.x or self.axes[0]
        spec = self._spec([{"name": name, "value": i} for i, name in enumerate(("metric", "over"))], [metric, x])
        spec["encoding"]["x"]["title"] = AXES[x]
        return Chart(f"{self.title}: {metric}", spec, explained=self.explained).file_spec()

    def _columns(self) -> list[Columns]:
        return [columns for series in self.series for columns in series.runs.values()]

    def _spec(self, params: list[Spec], names: Sequence[str]) -> Spec:
        """The specification, whose rows have the values of `names` by number."""
        rows = [
            {"series": series.name, "run": run, "values": [None if v is None else bounded(v) for v in values]}
            for series in self.series
            for run, columns in series.runs.items()
            for values in zip(*(columns.get(name, [None] * len(columns["step"])) for name in names), strict=True)
        ]
        spec = filled("learning_curves", {"rows": rows}, {series.name: series.index for series in self.series})
        spec["params"] = [*params, {"name": "num_series", "value": len(self.series)}]
        return spec


def learning_charts(
    runs: Mapping[str, Sequence[Record]], titles: Mapping[str, str] | None = None, algorithms: Sequence[str] = ()
) -> list[LearningChart]:
    """Charts of all stages, and first one of all on-policy algorithms, if there are several.

    Long curves are thinned: metrics are means of neighbouring rows, axes the last of these rows.

    Args:
        runs: Rows of metrics of each run, by its name, such as "seed 0".
        titles: Titles of stages.
        algorithms: Algorithms of a comparison, whose colours the curves have.
    """
    stages: dict[str, dict[str, Columns]] = {}
    for run, rows in runs.items():
        for stage, columns in _columns_of(rows).items():
            stages.setdefault(stage, {})[run] = columns
    width = max(sum(len(columns) for of in stages.values() for columns in of.values()), 1)
    most = min(max(NUMBERS_IN_ALL // width, MIN_POINTS), MAX_POINTS)
    sizes = {stage: -(-max(len(c["step"]) for c in of.values()) // most) for stage, of in stages.items()}
    thin = {stage: {run: _thinned(c, sizes[stage]) for run, c in of.items()} for stage, of in stages.items()}
    on_policy = [stage for stage, of in thin.items() if all(c.keys() >= ON_POLICY_COLUMNS for c in of.values())]
    known = list(algorithms) or ["", *on_policy]  # without a comparison's colours, the first line has the second
    series = {
        stage: Series(clip((titles or {}).get(stage, stage)), known.index(stage) if stage in known else 1, of)
        for stage, of in thin.items()
    }
    groups = {ON_POLICY: on_policy} if len(on_policy) > 1 else {}
    groups |= {stage: [stage] for stage in thin}
    return [
        _chart(title, [series[stage] for stage in members], max(map(sizes.__getitem__, members)))
        for title, members in groups.items()
    ]


def curves_part(charts: Sequence[Chart], trouble: str = f"{METRICS} contains nothing that can be shown here.") -> Part:
    """The part of the page; `trouble` is shown in place of the charts where there are none."""
    return Part("curves", "Learning curves", charts=charts, notes=[NOTE] if charts else [], missing="" if charts else trouble)


def _chart(title: str, series: Sequence[Series], mean_of: int) -> LearningChart:
    name = "" if title == ON_POLICY else re.sub(r"\W+", "_", title).strip("_")[:60]
    runs = max(len(of.runs) for of in series)
    words = [
        f"Mean of {runs} runs." if runs > 1 else "",
        f"Each point is the mean of up to {mean_of} logged rows." if mean_of > 1 else "",
    ]
    return LearningChart(clip(title), name=name, explained=" ".join(filter(None, words)), series=series)


def _columns_of(rows: Sequence[Record]) -> dict[str, Columns]:
    """Columns of each stage that has some metric; None where a row has no such number. Without a step, rows are counted."""
    stages: dict[str, list[dict[str, float]]] = {}
    for row in rows:
        logged = stages.setdefault(str(row.get("stage", "training")), [])
        numbers = {name: value for name, raw in row.items() if name != "stage" and (value := number(raw)) is not None}
        if numbers.keys() - AXES.keys():
            logged.append({**numbers, "step": numbers.get("step", float(len(logged)))})
    names = {stage: dict.fromkeys(name for row in logged for name in row) for stage, logged in stages.items() if logged}
    return {stage: {name: [row.get(name) for row in stages[stage]] for name in columns} for stage, columns in names.items()}


def _thinned(columns: Columns, size: int) -> Columns:
    def groups(values: list[float | None]) -> Iterable[list[float]]:
        return ([v for v in values[i : i + size] if v is not None] for i in range(0, len(values), size))

    return {
        name: [_rounded(of[-1] if name in AXES else sum(of) / len(of)) if of else None for of in groups(values)]
        for name, values in columns.items()
    }


def metric_rank(name: str) -> tuple[int, int, str]:
    """Sort key of metrics, the most important first; "loss" precedes "eval_loss"."""
    if any(word in name for word in LAST):
        return (len(FIRST) + 1, 0, name)
    place = next((i for i, word in enumerate(FIRST) if word in name), len(FIRST))
    return (place, len(name) if place < len(FIRST) else 0, name)


def _rounded(value: float) -> float | int:
    rounded = float(f"{value:.6g}") if abs(value) < 1e5 else value
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
