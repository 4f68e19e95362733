"""A report as data: parts with tables, charts and notes. Templates write them as HTML, and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweetrl_agent.reporting.charts import Chart

MAX_CELL_CHARS = 500
#: Folder of the chart files.
CHARTS = "charts"


class Share(str):
    """Text of a cell that is shown beside a bar of `share` of the cell's width."""

    share: float

    @classmethod
    def of(cls, share: float, text: str) -> Share:
        """A cell; `share` is cut to [0, 1]."""
        cell = cls(text)
        cell.share = min(max(share, 0.0), 1.0)
        return cell


@dataclass(frozen=True)
class Table:
    """A table with a head; the first cell of a row is its header."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    is_folded: bool = False


@dataclass(frozen=True)
class Card:
    """A change in large print: title, difference in points with its interval, and whether it is "better", "worse" or "unsure"."""

    title: str
    difference: str
    bounds: str
    verdict: str


@dataclass(frozen=True)
class Part:
    """A titled part of a report.

    Attributes:
        identifier: Its anchor in the page.
        title: Its title.
        tables: Its tables.
        charts: Its charts, above the tables.
        notes: What its numbers mean.
        cards: The main changes, above all else.
        missing: Why there is nothing to show; "" if there is something.
        texts: Long texts by title, each in a fold.
        template: Template of what else it has, such as the viewer of dialogues.
        content: Values for this template.
    """

    identifier: str
    title: str
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    notes: Sequence[str] = ()
    cards: Sequence[Card] = ()
    missing: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    template: str = ""
    content: Mapping[str, Any] = field(default_factory=dict)

    def named_charts(self) -> dict[str, Chart]:
        """The charts by their names in files and on the command line, such as "paired" and "paired_all"."""
        part = self.identifier.replace("-", "_")
        return {f"{part}_{chart.name}" if chart.name else part: chart for chart in self.charts}

    def chart_files(self) -> dict[str, Chart]:
        """The charts by the paths of their files relative to the report."""
        return {f"{CHARTS}/{name}.svg": chart for name, chart in self.named_charts().items()}


@dataclass(frozen=True)
class Live:
    """The part of a page that `watch` serves above the report.

    Attributes:
        lines: Sentences on the progress.
        version: Version of the page; see `page.page`.
    """

    lines: Sequence[str]
    version: str

    @property
    def part(self) -> Part:
        """The part of the page."""
        return Part("live", "Progress", template="live.html.jinja", content={"lines": self.lines})


def clip(text: str, most: int = MAX_CELL_CHARS) -> str:
    """Text truncated to the length of a cell, or another one, with a note."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"
