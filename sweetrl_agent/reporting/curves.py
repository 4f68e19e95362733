"""Learning curves: a chart per stage, whose metric and axis the reader chooses, with a line for each seed behind the mean.

Axes are what an algorithm has spent by then: steps, episodes, agent turns, tokens or wall time, as far as the stage has logged them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweetrl_agent.reporting.chart import bounded, rounded_out, series_class, shortened, svg_file
from sweetrl_agent.reporting.figures import number, plain
from sweetrl_agent.reporting.markup import Html, clip, join, missing, note, section, tag
from sweetrl_agent.reporting.run_folder import METRICS, Record, RunFolder

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
#: Size of a file in pixels.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM, LEGEND = 560, 300, 70, 20, 48, 44, 20

Columns = dict[str, list[float | None]]


@dataclass(frozen=True)
class Series:
    """One line of a chart: the columns of each run of a stage, by the name of the run."""

    name: str
    colour: str
    runs: Mapping[str, Columns]


@dataclass(frozen=True)
class LearningChart:
    """A chart of learning curves.

    Attributes:
        title: Title above the chart.
        index: Its place among the charts of the page, by which the script finds its data.
        series: Its lines.
        mean_of: Number of logged rows that a point is the mean of, at most.
        metric: Metric of the file; "" for the first.
        x: Axis of the file, a key of `AXES`; "" for the first.
    """

    title: str
    index: int
    series: Sequence[Series]
    mean_of: int = 1
    metric: str = ""
    x: str = ""

    @property
    def name(self) -> str:
        """Name in files and on the command line."""
        return "" if self.title == ON_POLICY else re.sub(r"\W+", "_", self.title).strip("_")[:60]

    @property
    def axes(self) -> list[str]:
        """Axes that all runs have, the first of which is always there."""
        return [name for name in AXES if all(any(v is not None for v in c.get(name, ())) for c in self._columns())]

    @property
    def metrics(self) -> list[str]:
        """Metrics that some run has: losses first, then accuracies and margins, the learning rate and the like last."""
        names = dict.fromkeys(name for columns in self._columns() for name in columns if name not in AXES)
        return sorted(names, key=_rank)[:MAX_METRICS]

    def data(self) -> dict[str, Any]:
        """The chart as data of the script."""
        series = [
            {"name": s.name, "colour": s.colour, "runs": [{"name": name, "columns": c} for name, c in s.runs.items()]}
            for s in self.series
        ]
        return {"title": self.title, "axes": {n: AXES[n] for n in self.axes}, "series": series, "mean_of": self.mean_of}

    def html(self) -> Html:
        """See `Chart`: an empty plot with the choices of metric and axis; the script draws."""
        metric = _choice("metric", f"Metric of {self.title}", {name: name for name in self.metrics})
        axis = tag("label", "over ", _choice("axis", f"Axis of {self.title}", {name: AXES[name] for name in self.axes}))
        choices = tag("span", metric, " ", axis, class_="choices")
        head = tag("div", tag("h3", clip(self.title)), choices, class_="chart-head")
        plot = tag("svg", class_="plot curve", height="230", role="img")
        legend = _legend(self.series) if len(self.series) > 1 else []
        caption = tag("figcaption", tag("div", *legend, class_="legend"), tag("div", class_="readout"))
        return tag("figure", head, plot, caption, class_="chart", data_curve=str(self.index))

    def svg(self) -> Html:
        """See `Chart`: one metric over one axis, the mean of the runs in bold.

        Raises:
            ValueError: If the chart lacks the metric or the axis.
        """
        metric, x = _known("metric", self.metric, self.metrics), _known("x", self.x, self.axes)
        drawn = [(series, [_points(c, x, metric) for c in series.runs.values()]) for series in self.series]
        xs, ys = ([point[i] for _, lines in drawn for line in lines for point in line] for i in (0, 1))
        x_low, x_high, x_ticks = rounded_out(min(xs, default=0.0), max(xs, default=1.0), 5)
        y_low, y_high, y_ticks = rounded_out(min(ys, default=0.0), max(ys, default=1.0), 5)
        across = lambda value: LEFT + (WIDTH - LEFT - RIGHT) * (value - x_low) / (x_high - x_low)
        up = lambda value: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - y_low) / (y_high - y_low)
        marks = [_grid(value, up(value)) for value in y_ticks]
        marks += [tag("text", _short(v), x=_px(across(v)), y=str(HEIGHT - BOTTOM + 17), class_="middle") for v in x_ticks]
        marks.append(tag("text", AXES[x], x=str((WIDTH + LEFT - RIGHT) / 2), y=str(HEIGHT - 10), class_="middle"))
        for series, lines in drawn:
            paths = [_path([(across(a), up(b)) for a, b in line], "thin") for line in lines if len(lines) > 1]
            mean = [(across(a), up(b)) for a, b in _mean(lines)]
            marks.append(tag("g", *paths, _path(mean, ""), class_=series.colour))
        marks += _file_legend(self.series) if len(self.series) > 1 else []
        height = HEIGHT + (LEGEND * len(self.series) + 8 if len(self.series) > 1 else 0)
        return svg_file(f"{self.title}: {metric}", WIDTH, height, marks)

    def _columns(self) -> list[Columns]:
        return [columns for series in self.series for columns in series.runs.values()]


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
    series = {stage: Series((titles or {}).get(stage, stage), _colour(stage, known), of) for stage, of in thin.items()}
    charts = (
        [(ON_POLICY, [series[stage] for stage in on_policy], max(sizes[s] for s in on_policy))] if len(on_policy) > 1 else []
    )
    charts += [(stage, [series[stage]], sizes[stage]) for stage in thin]
    return [LearningChart(title, i, own, mean_of) for i, (title, own, mean_of) in enumerate(charts)]


def curves_section(
    charts: Sequence[LearningChart], trouble: str = f"{METRICS} contains nothing that can be shown here."
) -> Html:
    """The section of the page; `trouble` is shown in place of the charts where there are none."""
    if not charts:
        return section("curves", "Learning curves", missing(trouble))
    text = (
        "Choose a metric, and what it is drawn over; point at a curve to read its values. With several seeds, thin lines are the seeds and the "
        "bold line is their mean. Values that are not finite are skipped."
    )
    return section("curves", "Learning curves", tag("div", *(chart.html() for chart in charts), class_="charts"), note(text))


def run_charts(run: RunFolder) -> list[LearningChart]:
    """The charts of a single run."""
    return learning_charts({run.name: run.metrics})


def _columns_of(rows: Sequence[Record]) -> dict[str, Columns]:
    """Columns of each stage that has some metric; None where a row has no such number. Without a step, rows are counted."""
    stages: dict[str, list[dict[str, float]]] = {}
    for row in rows:
        own = stages.setdefault(str(row.get("stage", "training")), [])
        found = {name: value for name, raw in row.items() if name != "stage" and (value := number(raw)) is not None}
        if found.keys() - AXES.keys():
            own.append({**found, "step": found.get("step", float(len(own)))})
    names = {stage: dict.fromkeys(name for row in own for name in row) for stage, own in stages.items() if own}
    return {stage: {name: [row.get(name) for row in stages[stage]] for name in own} for stage, own in names.items()}


def _thinned(columns: Columns, size: int) -> Columns:
    def groups(values: list[float | None]) -> Iterable[list[float]]:
        return ([v for v in values[i : i + size] if v is not None] for i in range(0, len(values), size))

    return {
        name: [_rounded(of[-1] if name in AXES else sum(of) / len(of)) if of else None for of in groups(values)]
        for name, values in columns.items()
    }


def _points(columns: Columns, x: str, metric: str) -> list[tuple[float, float]]:
    pairs = zip(columns[x], columns.get(metric, ()), strict=False)
    return [(bounded(a), bounded(b)) for a, b in pairs if a is not None and b is not None]


def _mean(lines: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Means of the i-th points, as far as all lines have them."""
    return [tuple(sum(of) / len(of) for of in zip(*points, strict=True)) for points in zip(*lines, strict=False)]  # type: ignore[misc]


def _known(setting: str, name: str, known: Sequence[str]) -> str:
    if name and name not in known:
        raise ValueError(f"`{setting}` must be one of {', '.join(known)}, got {name!r}.")
    return name or known[0]


def _choice(name: str, label: str, options: Mapping[str, str]) -> Html:
    return tag(
        "select", *(tag("option", clip(text), value=value) for value, text in options.items()), name=name, aria_label=label
    )


def _colour(stage: str, algorithms: Sequence[str]) -> str:
    return series_class(algorithms.index(stage)) if stage in algorithms else "series-1"


def _legend(series: Sequence[Series]) -> list[Html]:
    sample = tag("line", x1="0", x2="26", y1="8", y2="8", class_="sample")
    return [
        tag("span", tag("svg", sample, class_=f"plot {s.colour}", width="26", height="16"), " ", clip(s.name)) for s in series
    ]


def _file_legend(series: Sequence[Series]) -> list[Html]:
    made = []
    for i, s in enumerate(series):
        y = HEIGHT + LEGEND * i + 4
        sample = tag("line", x1=str(LEFT), x2=str(LEFT + 26), y1=str(y), y2=str(y), class_="sample")
        name = tag("text", shortened(s.name, 13, WIDTH - LEFT - 50), x=str(LEFT + 36), y=str(y + 5), class_="name")
        made.append(join([tag("g", sample, class_=s.colour), name]))
    return made


def _path(points: Sequence[tuple[float, float]], class_: str) -> Html:
    if len(points) == 1:
        return tag("circle", cx=_px(points[0][0]), cy=_px(points[0][1]), r="3.5", class_="mean")
    return tag("path", d=" ".join(f"{'L' if i else 'M'}{_px(x)} {_px(y)}" for i, (x, y) in enumerate(points)), class_=class_)


def _grid(value: float, y: float) -> Html:
    line = tag("line", x1=str(LEFT), x2=str(WIDTH - RIGHT), y1=_px(y), y2=_px(y), class_="grid")
    return join([line, tag("text", _short(value), x=str(LEFT - 8), y=_px(y + 4), class_="end")])


def _short(value: float) -> str:
    """A number of an axis: 1500 as "1.5k"."""
    for power, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= power:
            return f"{plain(value / power)}{unit}"
    return plain(value)


def _rank(name: str) -> tuple[int, int, str]:
    """Sort key; "loss" precedes "eval_loss"."""
    if any(word in name for word in LAST):
        return (len(FIRST) + 1, 0, name)
    place = next((i for i, word in enumerate(FIRST) if word in name), len(FIRST))
    return (place, len(name) if place < len(FIRST) else 0, name)


def _rounded(value: float) -> float | int:
    rounded = float(f"{value:.6g}") if abs(value) < 1e5 else value
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _px(value: float) -> str:
    return f"{value:.1f}"
