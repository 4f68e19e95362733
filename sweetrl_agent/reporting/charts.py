"""Charts as Vega-Lite specifications: means with intervals and seeds, by row or over a setting. Vega draws them in pages, vl-convert in files.

Vega-Lite and not matplotlib: the reader chooses the metrics of learning curves, and charts take the width of the page; one package without
dependencies has both the script for pages and SVG and PNG. It is bundled into the page, which loads nothing; its expressions are interpreted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from textwrap import wrap
from typing import Any

from colbench_gym.errors import ColBenchError
from sandboxes.extras import pip_install
from sweetrl_agent.reporting.numbers import Interval
from sweetrl_agent.reporting.palette import NUM_COLOURS, colour, dark_rules

Spec = dict[str, Any]
#: Largest number on an axis: files may hold numbers beyond any scale.
LARGEST = 1e100
#: Width of a chart file in pixels, and height of a row of a dot plot.
WIDTH, ROW = 560, 42
#: Share of a dot plot's axis that a ring covers; lines of rings below a mean, and their distance in rows.
RING, LEVELS, LEVEL = 0.025, 3, 0.13
#: Distance of two lines at one setting, as a share of the axis.
BESIDE = 0.02
#: Dashes of the lines beyond the last colour, and beyond twice as many.
DASHES = ([1, 0], [7, 4], [2, 3])
#: Formats of a fraction and of a difference of fractions on an axis, as expressions of Vega.
PERCENT = "format(100 * datum.value, '.3~g') + '%'"
POINTS = "datum.value == 0 ? '0' : format(100 * datum.value, '+.3~g')"


@dataclass(frozen=True)
class Chart:
    """A chart of a report.

    Attributes:
        title: Title above the chart.
        spec: Its specification, without title and width.
        name: Name in files and on the command line, after that of its part; "" for the part's only or first chart.
        explained: What its marks are, in words below it.
        summary: Title of the fold that holds it in the page; "" for none.
    """

    title: str
    spec: Spec
    name: str = ""
    explained: str = ""
    summary: str = ""

    def of(self, metric: str, x: str) -> Chart:
        """The chart of another metric over another axis: learning curves alone have some.

        Raises:
            ValueError: If one is asked for.
        """
        if metric or x:
            raise ValueError(f"`metric` and `x` are for learning curves (named curves...), got the chart {self.title!r}.")
        return self

    def page_spec(self) -> Spec:
        """The specification for a page: as wide as its figure, on the page's ground."""
        return {**self.spec, "width": "container", "background": None, "autosize": {"type": "fit-x", "contains": "padding"}}

    def file_spec(self) -> Spec:
        """The specification for a file, with its title and a ground of its own."""
        words = wrap(self.explained, 84)
        config = {**self.spec["config"], "legend": {**self.spec["config"]["legend"], "labelLimit": WIDTH - 120}}
        return {
            **self.spec,
            "config": config,
            "width": WIDTH,
            "padding": 14,
            "title": {"text": self.title, "subtitle": words, "offset": 14},
        }

    def svg(self) -> str:
        """The chart as an SVG file, readable in light and dark mode."""
        head, mark, body = converter().vegalite_to_svg(self.file_spec()).partition(">")
        return f"{head}{mark}<style>{dark_rules()}</style>{body}\n"

    def png(self, scale: float = 2.0) -> bytes:
        """The chart in light mode as PNG, with `scale` pixels for each pixel of the SVG."""
        return bytes(converter().vegalite_to_png(self.file_spec(), scale=scale))


@dataclass(frozen=True)
class Row:
    """One mean of a dot plot.

    Attributes:
        name: Name of the row.
        value: The mean.
        text: The mean in words, with its unit.
        bounds: Its 95% interval, if known.
        seeds: The values of the seeds.
        colour: Its colour in the light scheme.
    """

    name: str
    value: float
    text: str
    bounds: Interval | None
    seeds: Sequence[float]
    colour: str


def dot_plot(
    title: str, groups: Mapping[str, Sequence[Row]], tick: str, explained: str, name: str = "", summary: str = ""
) -> Chart:
    """A row for each mean, with its interval and every seed below it; the rows of each group stand under its title, and all share an axis.

    Forest plots are dot plots of differences. Names stand above their marks, so that a narrow window shows both.
    """
    data: dict[str, list[Spec]] = {"groups": [], "means": [], "seeds": []}
    count = 0
    for group, rows in groups.items():
        if group:
            data["groups"].append({"y": count, "name": group})
            count += 1
        for row in rows:
            low, high = map(bounded, row.bounds or (row.value, row.value))
            words = {
                "name": row.name,
                "text": row.text,
                "colour": row.colour,
                "tip": ": ".join(filter(None, (group, row.name, row.text))),
            }
            data["means"].append({"y": count, "x": bounded(row.value), "low": low, "high": high, **words})
            seeds = ({"y": count, "x": bounded(seed), "colour": row.colour, "tip": f"{row.name}: a seed"} for seed in row.seeds)
            data["seeds"] += seeds
            count += 1
    limits = [0.0, *(row[key] for row in data["means"] for key in ("low", "x", "high")), *(seed["x"] for seed in data["seeds"])]
    _set_levels(data["seeds"], RING * (max(limits) - min(limits)))
    spec = filled("dot_plot", data)
    spec["height"] = ROW * count + 8
    spec["encoding"]["y"]["scale"]["domain"] = [count - 0.35, -0.5]
    spec["layer"][3]["encoding"]["x"]["axis"]["labelExpr"] = tick
    return Chart(title, spec, name, explained, summary)


@dataclass(frozen=True)
class Point:
    """One mean of a line chart: y in [0, 1], its 95% interval (none where it is unknown), and the values of the seeds."""

    x: float
    y: float
    bounds: Interval | None = None
    seeds: Sequence[float] = ()


@dataclass(frozen=True)
class Line:
    """One line of a line chart, in the `index`-th colour."""

    name: str
    points: Sequence[Point]
    index: int


def line_chart(title: str, label: str, lines: Sequence[Line], is_log: bool = False, names: Sequence[str] = ()) -> Chart:
    """Success over a setting: means with intervals, and every seed. Lines stand beside each other, so that intervals do not overlap.

    Args:
        title: Title of the chart.
        label: Label of the x axis.
        lines: The lines.
        is_log: Logarithmic x axis.
        names: Names of the settings 0, 1, ... in place of numbers.
    """
    settings = {point.x: math.log2(point.x) if is_log else point.x for line in lines for point in line.points}
    labels = {x: names[int(x)] if names else f"{x:g}" for x in settings}
    width = max(settings.values(), default=1.0) - min(settings.values(), default=0.0)
    data: dict[str, list[Spec]] = {"means": [], "seeds": []}
    for i, line in enumerate(lines):
        aside = BESIDE * width * (i - (len(lines) - 1) / 2)
        for point in line.points:
            place = {"x": settings[point.x] + aside, "series": line.name}
            low, high = point.bounds or (point.y, point.y)
            tip = f"{line.name}, {label} {labels[point.x]}: {100 * point.y:.1f}%"
            data["means"].append({**place, "y": point.y, "low": low, "high": high, "tip": tip})
            data["seeds"] += ({**place, "y": seed, "tip": f"{line.name}: a seed"} for seed in point.seeds)
    spec = filled("line_chart", data, {line.name: line.index for line in lines})
    spec["params"] = [{"name": "places", "value": [*settings.values()]}, {"name": "labels", "value": [*labels.values()]}]
    spec["encoding"]["x"] |= {"title": label, "axis": {**spec["encoding"]["x"]["axis"], "values": [*settings.values()]}}
    return Chart(title, spec)


def filled(name: str, data: Mapping[str, Sequence[Spec]], series: Mapping[str, int] | None = None) -> Spec:
    """The specification in a file of this package, with its data.

    Args:
        name: Name of the file.
        data: Rows of each of its data sets.
        series: Number of the colour of each series; None where rows have their colours.
    """
    spec: Spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "config": _read("config"),
        **_read(name),
        "datasets": dict(data),
    }
    if series is not None:
        legend = spec["encoding"]["color"]["legend"] if len(series) > 1 else None
        domain, indices = list(series), list(series.values())
        spec["encoding"]["color"] |= {"legend": legend, "scale": {"domain": domain, "range": list(map(colour, indices))}}
        dashes = {"domain": domain, "range": [DASHES[i // NUM_COLOURS % len(DASHES)] for i in indices]}
        for layer in (spec["layer"][0], *spec["layer"][1].get("layer", [])[:1]):
            layer["encoding"]["strokeDash"] |= {"legend": legend, "scale": dashes}
    return spec


def converter() -> Any:
    """The module that draws charts in files, and bundles the script that draws them in pages.

    Raises:
        ColBenchError: If it is not installed.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise ColBenchError(f"Reports need the package vl-convert-python: `{pip_install('vl-convert-python')}`.") from error
    return vl_convert


def _read(name: str) -> Spec:
    spec: Spec = json.loads(files("sweetrl_agent.reporting").joinpath("specs", f"{name}.json").read_text(encoding="utf-8"))
    return spec


def bounded(value: float) -> float:
    """The value, or the largest that an axis can have."""
    return min(max(value, -LARGEST), LARGEST)


def _set_levels(seeds: Sequence[Spec], width: float) -> None:
    """Move each ring to the first line below its mean on which it covers no other, or to the last."""
    ends: dict[tuple[int, int], float] = {}
    for seed in sorted(seeds, key=lambda seed: float(seed["x"])):
        row = seed["y"]
        level = next((i for i in range(LEVELS) if ends.get((row, i), -LARGEST * 2) <= seed["x"]), LEVELS - 1)
        ends[row, level] = seed["x"] + width
        seed["y"] = row + LEVEL * (level + 1.2)
