"""A report as data: parts with tables, charts and notes, written both as HTML and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sweetrl_agent.reporting.chart import Chart
from sweetrl_agent.reporting.markup import Html, folded, join, note, section, table, tag

MAX_OPEN_ROWS = 20
#: Folder of the chart files.
CHARTS = "charts"


@dataclass(frozen=True)
class Table:
    """A table with a head; the first cell of a row is its header."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def html(self) -> Html:
        """The table as HTML; long tables are collapsed."""
        body = table(self.head, self.rows)
        if len(self.rows) > MAX_OPEN_ROWS:
            return folded(f"{self.caption} ({len(self.rows)} rows)".lstrip(), body)
        return join([tag("h3", self.caption), body]) if self.caption else body


@dataclass(frozen=True)
class Part:
    """A titled part of a report."""

    identifier: str
    title: str
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    notes: Sequence[str] = field(default_factory=tuple)

    def html(self) -> Html:
        """The part as a section of the page."""
        tables = [t.html() for t in self.tables]
        shown = [tag("div", *(chart.html() for chart in self.charts), class_="charts")] if self.charts else []
        return section(self.identifier, self.title, *shown, *tables, *(note(text) for text in self.notes))

    def named_charts(self) -> dict[str, Chart]:
        """The charts by their names in files and on the command line, such as "paired" and "paired_all"."""
        part = self.identifier.replace("-", "_")
        return {f"{part}_{chart.name}" if chart.name else part: chart for chart in self.charts}

    def chart_files(self) -> dict[str, str]:
        """The charts as SVG files, by their paths relative to the report."""
        return {_place(name): chart.svg() for name, chart in self.named_charts().items()}

    def markdown(self) -> str:
        """The part as Markdown, with links to the chart files; a chart's numbers are in its table."""
        blocks = [f"## {self.title}"]
        blocks += [f"![{chart.title}]({_place(name)})" for name, chart in self.named_charts().items()]
        for t in self.tables:
            lines = [_row(t.head), _row(["---"] * len(t.head)), *(_row(row) for row in t.rows)]
            blocks += [f"### {t.caption}", "\n".join(lines)] if t.caption else ["\n".join(lines)]
        return "\n\n".join([*blocks, *self.notes])


def html_of(part: Part | None) -> Html:
    """A part as HTML; empty if there is none."""
    return part.html() if part else Html("")


def _place(name: str) -> str:
    return f"{CHARTS}/{name}.svg"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
