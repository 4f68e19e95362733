"""Dot plots: a row for each mean, with its interval and every seed behind it. Forest plots are dot plots of differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from sweetrl_agent.reporting.chart import CHARACTER, bounded, rounded_out, shortened, svg_file, text_width
from sweetrl_agent.reporting.figures import MINUS, Interval
from sweetrl_agent.reporting.markup import Html, clip, folded, tag

#: Pixels of a row, of a group's title and of the axis; heights in a row of the mean and of the seeds, of which those that would cover others are lower.
ROW, GROUP, AXIS, MEAN_Y, SEEDS_Y = 30, 26, 26, 9, (18, 23, 28)
#: Share of the axis that a ring covers.
RING = 0.018
#: Pixels of a file: margin, space below the title, width of the plot, greatest width of names.
MARGIN, TOP, PLOT, MAX_NAMES = 14, 40, 310, 420


@dataclass(frozen=True)
class Row:
    """One mean.

    Attributes:
        name: Name of the row.
        value: The mean.
        text: The mean in words, with its unit.
        bounds: Its 95% interval, if known.
        seeds: The values of the seeds.
        colour: CSS class of the colour: "series-0", ...
    """

    name: str
    value: float
    text: str
    bounds: Interval | None
    seeds: Sequence[float]
    colour: str


@dataclass(frozen=True)
class Group:
    """Rows under a title."""

    title: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class DotPlot:
    """A dot plot, of which all groups share an axis.

    Attributes:
        title: Title above the chart.
        groups: The groups, of which each has a row.
        tick: Text of a number on the axis.
        explained: What dot, line and rings are.
        summary: Title of a fold that the page has the chart in; "" for none.
        name: See `Chart`.
    """

    title: str
    groups: Sequence[Group]
    tick: Callable[[float], str]
    explained: str = ""
    summary: str = ""
    name: str = ""

    @property
    def axis(self) -> tuple[float, float, list[float]]:
        """Both ends of the axis, which has 0 on it, and the numbers to mark."""
        rows = [row for group in self.groups for row in group.rows]
        values = [0.0, *(bounded(v) for row in rows for v in (row.value, *(row.bounds or ()), *row.seeds))]
        return rounded_out(min(values), max(values), 6)

    def html(self) -> Html:
        """See `Chart`: rows of text and plot, which become narrower with the window."""
        low, high, marks = self.axis
        rows = []
        for group in self.groups:
            rows += [tag("div", clip(group.title), class_="group")] if group.title else []
            rows += [_html_row(row, low, high, marks) for row in group.rows]
        texts = [
            tag("text", self.tick(mark), x=_share(mark, low, high), y="14", class_=_anchor(mark, low, high)) for mark in marks
        ]
        axis = tag("svg", *texts, class_="plot", height="20", aria_hidden="true")
        rows.append(tag("div", tag("span", class_="label"), axis, tag("span", class_="value"), class_="dot-row"))
        caption = [tag("figcaption", self.explained, class_="note")] if self.explained else []
        made = tag("figure", tag("h3", self.title), *rows, *caption, class_="chart dots")
        return folded(self.summary, made) if self.summary else made

    def svg(self) -> Html:
        """See `Chart`: names to the left of the plot, means to the right."""
        low, high, marks = self.axis
        rows = [row for group in self.groups for row in group.rows]
        names = min(max(text_width(row.name, 13) for row in rows), MAX_NAMES)
        left = MARGIN + names + 16
        right = left + PLOT
        width = right + 16 + max(text_width(row.text, 13) for row in rows) + MARGIN
        place = lambda value: left + PLOT * (bounded(value) - low) / (high - low)
        drawn, y = [], float(TOP)
        for group in self.groups:
            if group.title:
                drawn.append(tag("text", group.title, x=f"{MARGIN}", y=f"{y + 17:g}", class_="group"))
                y += GROUP
            bottom = y + ROW * len(group.rows)
            drawn += [
                tag("line", x1=_px(place(m)), x2=_px(place(m)), y1=_px(y), y2=_px(bottom), class_=_line(m)) for m in marks
            ]
            for row in group.rows:
                name = tag("text", shortened(row.name, 13, names), x=_px(left - 12), y=_px(y + MEAN_Y + 5), class_="name end")
                text = tag("text", row.text, x=_px(right + 14), y=_px(y + MEAN_Y + 5), class_="name")
                drawn += [name, text, tag("g", *_marks(row, y, lambda v: _px(place(v)), high - low), class_=row.colour)]
                y += ROW
        drawn += [tag("text", self.tick(m), x=_px(place(m)), y=_px(y + 16), class_="middle") for m in marks]
        y += AXIS
        for words in wrap(self.explained, int((width - 2 * MARGIN) / (CHARACTER * 12))):
            drawn.append(tag("text", words, x=f"{MARGIN}", y=_px(y + 16)))
            y += 16
        return svg_file(self.title, width, y + 14, drawn)


def axis_percent(value: float) -> str:
    """A fraction on an axis: 0.2 as "20%"."""
    return f"{100 * value:.3g}%".replace("-", MINUS)


def _html_row(row: Row, low: float, high: float, marks: Sequence[float]) -> Html:
    def place(value: float) -> str:
        return _share(value, low, high)

    grid = [tag("line", x1=place(m), x2=place(m), y1="0", y2=str(ROW), class_=_line(m)) for m in marks]
    title = tag("title", f"{row.name}: {row.text}")
    plot = tag(
        "svg",
        title,
        *grid,
        tag("g", *_marks(row, 0, place, high - low), class_=row.colour),
        class_="plot",
        role="img",
        height=str(ROW),
    )
    label = tag("span", clip(row.name), class_="label", title=clip(row.name))
    return tag("div", label, plot, tag("span", row.text, class_="value"), class_="dot-row")


def _marks(row: Row, top: float, place: Callable[[float], str], span: float) -> list[Html]:
    y = _px(top + MEAN_Y)
    seeds = zip(sorted(row.seeds), _levels(row.seeds, RING * span), strict=True)
    made = [tag("circle", cx=place(seed), cy=_px(top + SEEDS_Y[level]), r="2.4", class_="seed") for seed, level in seeds]
    if row.bounds:
        made.append(tag("line", x1=place(row.bounds[0]), x2=place(row.bounds[1]), y1=y, y2=y, class_="whisker"))
    return [*made, tag("circle", cx=place(row.value), cy=y, r="4.5", class_="mean")]


def _levels(seeds: Sequence[float], width: float) -> list[int]:
    """The line that each ring is on, in order of their values: the first on which it covers no other, or the last."""
    ends, levels = [float("-inf")] * len(SEEDS_Y), []
    for seed in sorted(seeds):
        levels.append(next((i for i, end in enumerate(ends) if seed >= end), len(ends) - 1))
        ends[levels[-1]] = seed + width
    return levels


def _line(mark: float) -> str:
    return "zero" if mark == 0 else "grid"


def _anchor(mark: float, low: float, high: float) -> str:
    return "" if mark == low else "end" if mark == high else "middle"


def _share(value: float, low: float, high: float) -> str:
    return f"{100 * (bounded(value) - low) / (high - low):.2f}%"


def _px(value: float) -> str:
    return f"{value:.1f}"
