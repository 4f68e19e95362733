"""A report as data: parts with tables, charts and notes, written both as HTML and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sweetrl_agent.reporting.line_chart import Line, line_chart, line_chart_file
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
class Chart:
    """A line chart with intervals over a numeric axis."""

    title: str
    x_label: str
    lines: Sequence[Line]
    is_log: bool = False
    x_names: Mapping[float, str] = field(default_factory=dict)


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
        charts = [line_chart(chart.title, chart.x_label, chart.lines, chart.is_log, chart.x_names) for chart in self.charts]
        tables = [t.html() for t in self.tables]
        shown = [tag("div", *charts, class_="columns")] if charts else []
        return section(self.identifier, self.title, *shown, *tables, *(note(text) for text in self.notes))

    def chart_files(self) -> dict[str, str]:
        """The charts as SVG files, by their paths relative to the report."""
        return {
            self._place(i): line_chart_file(chart.title, chart.x_label, chart.lines, chart.is_log, chart.x_names)
            for i, chart in enumerate(self.charts)
        }

    def _place(self, number: int) -> str:
        return f"{CHARTS}/{self.identifier}{f'_{number}' if number else ''}.svg"

    def markdown(self) -> str:
        """The part as Markdown, with links to the chart files; a chart's numbers are in its table."""
        blocks = [f"## {self.title}"]
        blocks += [f"![{chart.title}]({self._place(i)})" for i, chart in enumerate(self.charts)]
        for t in self.tables:
            lines = [_row(t.head), _row(["---"] * len(t.head)), *(_row(row) for row in t.rows)]
            blocks += [f"### {t.caption}", "\n".join(lines)] if t.caption else ["\n".join(lines)]
        return "\n\n".join([*blocks, *self.notes])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
