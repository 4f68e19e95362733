"""What was asked, heard and written down: the links between a task's wishes and an answer, by agent and split.

The numbers are in "wishes" of results.json: a list of agent, split, n, questions, heard and written, with heard_ci95 and written_ci95.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweetrl_agent.reporting.explanations import clipped
from sweetrl_agent.reporting.figures import NOTHING, interval, number, percent, percent_interval, plain
from sweetrl_agent.reporting.markup import Html
from sweetrl_agent.reporting.parts import Part, Table, html_of

Row = Mapping[str, Any]
_HEAD = ("Agent", "Episodes", "Questions", "Wishes heard", "Of these written down")
_NOTE = (
    "An agent must ask about a task's wishes, hear them, and write them down. Questions are turns before the answer; a wish is heard if the human states it, "
    "and written down if the answer does it in a hidden test that depends on it, whatever else is wrong. Shares are means over episodes, with 95% intervals "
    "in percent (bootstrap over tasks); the last is over the episodes that heard a wish. Void episodes are left out."
)


def wishes_section(results: Mapping[str, Any]) -> Html:
    """The section of a run's report; empty if nothing is known."""
    return html_of(wishes_part(results))


def wishes_part(results: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> Part | None:
    """The table of what was asked, heard and written down, one per split; None if nothing is known.

    Args:
        results: Content of results.json.
        titles: Titles of the agents, if they have any.
    """
    found = results.get("wishes")
    rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
    if not rows:
        return None
    tables = [
        Table(
            _HEAD,
            [_cells(row, titles or {}) for row in rows if str(row.get("split")) == split],
            clipped(split, 80),
        )
        for split in dict.fromkeys(str(row.get("split")) for row in rows)
    ]
    return Part("wishes", "What was asked, heard and written down", tables, notes=[_NOTE])


def _cells(row: Row, titles: Mapping[str, str]) -> tuple[str, ...]:
    agent = str(row.get("agent"))
    return (
        clipped(titles.get(agent, agent), 80),
        plain(number(row.get("n"))),
        plain(number(row.get("questions")), digits=3),
        *(_share(row, name) for name in ("heard", "written")),
    )


def _share(row: Row, name: str) -> str:
    share = number(row.get(name))
    return NOTHING if share is None else f"{percent(share)} {percent_interval(interval(row.get(f'{name}_ci95')))}"
