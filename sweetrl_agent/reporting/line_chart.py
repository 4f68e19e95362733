"""Line charts with 95% intervals, as static SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sweetrl_agent.reporting.markup import Html, join, tag

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 10, 40
#: Pixels between lines drawn side by side, and margin beside them; height of a row of the legend.
BESIDE, NAMED_MARGIN, ROW = 7, 32, 18
#: Colours of the page's light theme (`report.css`), by number.
COLOURS = ("#7d8590", "#0072b2", "#d55e00", "#009e73", "#b3589a", "#a07800")
NUM_COLOURS = len(COLOURS)
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#62676f}.head{font-size:14px;font-weight:600;fill:#1d1f23}.name{fill:#1d1f23}"
    ".x{text-anchor:middle}.y{text-anchor:end}.grid{stroke:#dcdee2}path{fill:none;stroke-width:2}.sample{stroke-width:2}"
    ".whisker{stroke-width:1.5;opacity:.6}.dash-1 path,.dash-1 .sample{stroke-dasharray:6 4}.dash-2 path,.dash-2 .sample{stroke-dasharray:2 3}"
    + "".join(
        f".colour-{i} path,.colour-{i} line{{stroke:{colour}}}.colour-{i} circle{{fill:{colour}}}"
        for i, colour in enumerate(COLOURS)
    )
)


@dataclass(frozen=True)
class Line:
    """One line: points (x, y, (low, high)), y in [0, 1]."""

    name: str
    points: Sequence[tuple[float, float, tuple[float, float]]]


def line_chart(
    title: str, x_label: str, lines: Sequence[Line], is_log: bool = False, x_names: Mapping[float, str] = MappingProxyType({})
) -> Html:
    """A line chart: y in percent from 0, x linear or log2, a whisker at every point, and a legend below.

    Args:
        title: Title above the chart.
        x_label: Label of the x axis.
        lines: The lines.
        is_log: Logarithmic x axis, base 2.
        x_names: Tick labels for values of x instead of numbers. Lines are then drawn side by side, so that whiskers do not overlap.
    """
    marks = _marks(x_label, lines, is_log, x_names)
    view = tag("svg", tag("title", title), *marks, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", class_="lines")
    legend = [
        tag("span", tag("i", ""), line.name, class_=f"colour-{i % NUM_COLOURS} dash-{i // NUM_COLOURS}")
        for i, line in enumerate(lines)
    ]
    return tag("figure", tag("h3", title), view, tag("figcaption", *legend, class_="legend"), class_="chart")


def line_chart_file(
    title: str, x_label: str, lines: Sequence[Line], is_log: bool = False, x_names: Mapping[float, str] = MappingProxyType({})
) -> Html:
    """The chart as a standalone SVG file for Markdown, with title, legend and colours."""
    legend = []
    for i, line in enumerate(lines):
        y = str(HEIGHT + ROW * i + 8)
        sample = tag("line", x1=str(LEFT), x2=str(LEFT + 24), y1=y, y2=y, class_="sample")
        name = tag("text", line.name, x=str(LEFT + 32), y=str(int(y) + 4), class_="name")
        legend.append(tag("g", sample, name, class_=f"colour-{i % NUM_COLOURS} dash-{i // NUM_COLOURS}"))
    height = HEIGHT + ROW * len(lines) + 8
    head = tag("text", title, x=str(LEFT), y="-8", class_="head")
    ground = tag("rect", "", x="0", y="-28", width=str(WIDTH), height=str(height + 28), fill="#fff")
    drawn = [ground, head, *_marks(x_label, lines, is_log, x_names), *legend]
    return tag("svg", tag("title", title), tag("style", Html(_STYLE)), *drawn, xmlns="http://www.w3.org/2000/svg",
               viewBox=f"0 -28 {WIDTH} {height + 28}", width=str(WIDTH), role="img")  # fmt: skip


def _marks(x_label: str, lines: Sequence[Line], is_log: bool, x_names: Mapping[float, str]) -> list[Html]:
    xs = sorted({x for line in lines for x, _, _ in line.points})
    top = max((high for line in lines for _, _, (_, high) in line.points), default=1.0)
    steps = max(math.ceil(10 * min(top, 1.0)), 1)  # grid lines every ten points, or every twenty if that were too many
    steps, step = (math.ceil(steps / 2), 0.2) if steps > 5 else (steps, 0.1)
    top = steps * step
    place = {x: (math.log2(x) if is_log else x) for x in xs}
    low, high = min(place.values(), default=0.0), max(place.values(), default=1.0)
    span, margin = (high - low) or 1.0, NAMED_MARGIN if x_names else 0

    def x_of(x: float) -> float:
        return LEFT + margin + (WIDTH - LEFT - RIGHT - 2 * margin) * (place[x] - low) / span

    def y_of(y: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(max(y, 0.0), top) / top

    marks = [_grid(step * i, y_of(step * i)) for i in range(steps + 1)]
    marks += [tag("text", x_names.get(x, f"{x:g}"), x=f"{x_of(x):.1f}", y=str(HEIGHT - BOTTOM + 16), class_="x") for x in xs]
    marks.append(tag("text", x_label, x=str((WIDTH + LEFT) / 2), y=str(HEIGHT - 6), class_="x"))
    for number, line in enumerate(lines):
        aside = BESIDE * (number - (len(lines) - 1) / 2) if x_names else 0.0
        marks.append(_line(number, [(x_of(x) + aside, y_of(y), y_of(a), y_of(b)) for x, y, (a, b) in line.points]))
    return marks


def _grid(value: float, y: float) -> Html:
    line = tag("line", x1=str(LEFT), x2=str(WIDTH - RIGHT), y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid")
    return join([line, tag("text", f"{100 * value:.0f}%", x=str(LEFT - 6), y=f"{y + 4:.1f}", class_="y")])


def _line(number: int, points: Sequence[tuple[float, float, float, float]]) -> Html:
    """Points are (x, y, low, high) in pixels."""
    path = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y, _, _) in enumerate(points))
    whiskers = [
        tag("line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=f"{low:.1f}", y2=f"{high:.1f}", class_="whisker")
        for x, _, low, high in points
    ]
    dots = [tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r="3.5") for x, y, _, _ in points]
    return tag("g", tag("path", d=path), *whiskers, *dots, class_=f"colour-{number % NUM_COLOURS} dash-{number // NUM_COLOURS}")
