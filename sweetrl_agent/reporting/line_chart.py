"""Line charts of success over a setting: means with 95% intervals, and every seed behind them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sweetrl_agent.reporting.chart import rounded_out, series_class, shortened, svg_file, text_width
from sweetrl_agent.reporting.figures import Interval
from sweetrl_agent.reporting.markup import Html, clip, join, tag

#: Pixels of the plot with its y axis, and of the margins beside and above it. A page shows it somewhat larger or smaller.
WIDTH, HEIGHT, LEFT, RIGHT, TOP = 390, 210, 48, 14, 12
#: Greatest width of a file, for long names in its legend.
MAX_WIDTH = 560
#: Most pixels between two lines at one x; pixels from a mean to its seeds; height of a row of labels, of a row of the legend and of a file's title.
BESIDE, ASIDE, LABELS, ROW, HEAD = 12, 4, 15, 20, 36


@dataclass(frozen=True)
class Point:
    """One mean: y in [0, 1], its 95% interval (none where it is unknown), and the values of the seeds."""

    x: float
    y: float
    bounds: Interval | None = None
    seeds: Sequence[float] = ()


@dataclass(frozen=True)
class Line:
    """One line of the chart, in the given colour (see `series_class`)."""

    name: str
    points: Sequence[Point]
    colour: int


@dataclass(frozen=True)
class LineChart:
    """A line chart: y in percent from 0, x linear or log2. Lines are drawn beside each other, so that intervals do not overlap.

    Attributes:
        title: Title above the chart.
        x_label: Label of the x axis.
        lines: The lines.
        is_log: Logarithmic x axis, base 2.
        x_names: Labels for values of x instead of numbers.
        name: See `Chart`.
    """

    title: str
    x_label: str
    lines: Sequence[Line]
    is_log: bool = False
    x_names: Mapping[float, str] = field(default_factory=dict)
    name: str = ""

    def html(self) -> Html:
        """See `Chart`; the legend is text of the page."""
        height, marks = self._marks()
        view = tag("svg", tag("title", self.title), *marks, viewBox=f"0 0 {WIDTH} {height}", role="img", class_="plot lines")
        legend = [
            tag(
                "span",
                tag("svg", _sample(0, 8), class_=f"plot {series_class(line.colour)}", width="26", height="16"),
                " ",
                clip(line.name),
            )
            for line in self.lines
        ]
        return tag("figure", tag("h3", self.title), view, tag("figcaption", *legend, class_="legend"), class_="chart")

    def svg(self) -> Html:
        """See `Chart`; the legend is below the plot."""
        longest = max((text_width(text, 13) for text in (self.title, *(line.name for line in self.lines))), default=0.0)
        height, marks = self._marks()
        width, legend = min(max(WIDTH, LEFT + 50 + longest), MAX_WIDTH), []
        for i, line in enumerate(self.lines):
            y = HEAD + height + ROW * i + 8
            name = tag("text", shortened(line.name, 13, width - LEFT - 50), x=str(LEFT + 36), y=str(y + 5), class_="name")
            legend.append(join([name, tag("g", _sample(LEFT, y), class_=series_class(line.colour))]))
        plot = tag("g", *marks, transform=f"translate(0 {HEAD})")
        return svg_file(self.title, width, HEAD + height + ROW * len(self.lines) + 8, [plot, *legend])

    def _marks(self) -> tuple[int, list[Html]]:
        """Height of the plot with its axes, and its marks."""
        axes = _Axes.of(self)
        marks = [_grid(value, axes.y(value)) for value in axes.y_ticks]
        rows, texts = axes.x_texts(self.x_names)
        y = HEIGHT + 20 + LABELS * rows
        marks += [*texts, tag("text", self.x_label, x=str((WIDTH + LEFT - RIGHT) / 2), y=str(y), class_="middle")]
        for i, line in enumerate(self.lines):
            aside = axes.beside * (i - (len(self.lines) - 1) / 2)
            marks.append(tag("g", *_line(line, axes, aside), class_=series_class(line.colour)))
        return y + 8, marks


@dataclass(frozen=True)
class _Axes:
    """Places of values in the plot, in pixels."""

    places: Mapping[float, float]
    beside: float
    y_top: float
    y_ticks: Sequence[float]

    @classmethod
    def of(cls, chart: LineChart) -> _Axes:
        xs = sorted({point.x for line in chart.lines for point in line.points}) or [0.0]
        at = {x: math.log2(x) if chart.is_log and x > 0 else x for x in xs}
        low, span = at[xs[0]], (at[xs[-1]] - at[xs[0]]) or 1.0
        margin = ASIDE + BESIDE * min(len(chart.lines), 6) / 2
        width = WIDTH - LEFT - RIGHT - 2 * margin
        places = {x: LEFT + margin + (width * (at[x] - low) / span if len(xs) > 1 else width / 2) for x in xs}
        gaps = [places[b] - places[a] for a, b in zip(xs, xs[1:], strict=False)]
        beside = min([BESIDE, *(0.8 * gap / len(chart.lines) for gap in gaps)])
        values = [v for line in chart.lines for p in line.points for v in (p.y, *(p.bounds or ()), *p.seeds)]
        _, top, y_ticks = rounded_out(0.0, min(max([0.05, *values]), 1.0), 5)
        return cls(places, beside, top, y_ticks)

    def y(self, value: float) -> float:
        return HEIGHT - (HEIGHT - TOP) * min(max(value, 0.0), self.y_top) / self.y_top

    def x_texts(self, names: Mapping[float, str]) -> tuple[int, list[Html]]:
        """Labels of the x axis in one or two rows, and the number of rows; those that would still overlap others are left out."""
        ends, made = [0.0, 0.0], []
        for x, place in self.places.items():
            text = names.get(x, f"{x:g}")
            half = text_width(text, 13) / 2
            row = next((i for i, end in enumerate(ends) if place - half > end + 4), None)
            if row is None:
                continue
            ends[row] = place + half
            made.append(tag("text", text, x=_px(place), y=str(HEIGHT + 18 + LABELS * row), class_="middle"))
        return 1 + (ends[1] > 0), made


def _grid(value: float, y: float) -> Html:
    line = tag("line", x1=str(LEFT), x2=str(WIDTH - RIGHT), y1=_px(y), y2=_px(y), class_="grid")
    return join([line, tag("text", f"{100 * value:.3g}%", x=str(LEFT - 6), y=_px(y + 4), class_="end")])


def _line(line: Line, axes: _Axes, aside: float) -> list[Html]:
    """The path through the means; at each, a whisker to the left of the seeds."""
    at = [(axes.places[point.x] + aside, point) for point in line.points]
    path = " ".join(f"{'L' if i else 'M'}{_px(x)} {_px(axes.y(point.y))}" for i, (x, point) in enumerate(at))
    marks = [tag("path", d=path)] if len(at) > 1 else []
    for x, point in at:
        if point.bounds:
            low, high = (_px(axes.y(bound)) for bound in point.bounds)
            marks.append(tag("line", x1=_px(x), x2=_px(x), y1=low, y2=high, class_="whisker"))
        marks += [tag("circle", cx=_px(x + ASIDE), cy=_px(axes.y(seed)), r="2.2", class_="seed") for seed in point.seeds]
        marks.append(tag("circle", cx=_px(x), cy=_px(axes.y(point.y)), r="3.8", class_="mean"))
    return marks


def _sample(x: float, y: float) -> Html:
    """A piece of the line for the legend."""
    return tag("line", x1=_px(x), x2=_px(x + 26), y1=_px(y), y2=_px(y), class_="sample")


def _px(value: float) -> str:
    return f"{value:.1f}"
