"""What all charts share: a form for the page and one for a file, axes with round numbers, and the frame of an SVG file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.resources import files
from typing import Protocol

from sweetrl_agent.reporting.markup import Html, tag
from sweetrl_agent.reporting.palette import NUM_COLOURS, resolved

#: Width of a character in ems, on average in a wide font (DejaVu Sans): estimates of a text's width are rather too large.
CHARACTER = 0.62
#: Largest number on an axis.
LARGEST = 1e100


class Chart(Protocol):
    """A chart of a report."""

    @property
    def title(self) -> str:
        """Title above the chart."""
        ...

    @property
    def name(self) -> str:
        """Name in files and on the command line, after that of its part; "" for the part's only or first chart."""
        ...

    def html(self) -> Html:
        """The chart as part of a page."""
        ...

    def svg(self) -> Html:
        """The chart as an SVG file of its own, readable in light and dark mode."""
        ...


def colour_class(index: int) -> str:
    """CSS class of the `index`-th colour; they begin again after the last."""
    return f"series-{index % NUM_COLOURS}"


def series_class(index: int) -> str:
    """CSS classes of the `index`-th series: a colour, and a dash for those beyond the last colour."""
    return f"{colour_class(index)} dash-{index // NUM_COLOURS}"


def ticks(low: float, high: float, count: int) -> list[float]:
    """At most `count` + 1 round numbers that divide the range from `low` to `high`, which must be larger than `low`."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def rounded_out(low: float, high: float, count: int) -> tuple[float, float, list[float]]:
    """A range with round ends around `low` to `high`, and round numbers from one end to the other, some `count` of them."""
    if high <= low:
        low, high = low - (abs(low) * 0.1 or 0.05), high + (abs(high) * 0.1 or 0.05)
    found = ticks(low, high, count)
    step = found[1] - found[0] if len(found) > 1 else high - low
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    marks = [float(f"{i * step:.12g}") for i in range(first, last + 1)]
    return marks[0], marks[-1], marks


def bounded(value: float) -> float:
    """The value, or the largest that an axis can have: files may hold numbers beyond any scale."""
    return min(max(value, -LARGEST), LARGEST)


def text_width(text: str, size: float) -> float:
    """Estimated width of a text in pixels, for a font of `size` pixels."""
    return CHARACTER * size * len(text)


def shortened(text: str, size: float, width: float) -> str:
    """The text, cut where it would be wider than `width` pixels."""
    most = max(int(width / (CHARACTER * size)), 1)
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def svg_file(title: str, width: float, height: float, marks: Sequence[Html]) -> Html:
    """An SVG file with its own ground and colours, for the light and the dark scheme."""
    style = resolved(files("sweetrl_agent.reporting").joinpath("charts.css").read_text(encoding="utf-8"))
    ground = tag("rect", class_="ground", width=f"{width:g}", height=f"{height:g}", rx="6")
    head = tag("text", shortened(title, 15, width - 28), x="14", y="26", class_="head")
    return tag(
        "svg", tag("title", title), tag("style", Html(f"\n{style}\n")), ground, head, *marks, xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}", width=f"{width:g}", height=f"{height:g}", role="img", class_="plot",
    )  # fmt: skip
