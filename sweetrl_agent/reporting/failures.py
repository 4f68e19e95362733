"""Why episodes fail, in numbers: the kinds of failure of every agent, and the wishes that it never hears.

The numbers are in "failures" of results.json: "kinds" (name, title, means), "rows" (agent, split, kind, count, n, share, ci95) and "wishes" (agent,
split, topic, unheard, n).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sweetrl_agent.reporting.explanations import clipped
from sweetrl_agent.reporting.figures import NOTHING, interval, number, percent, percent_interval, plain
from sweetrl_agent.reporting.markup import Html
from sweetrl_agent.reporting.parts import Part, Table, html_of

#: Topics in the table of unheard wishes: the most frequent ones.
MAX_TOPICS = 15
Row = Mapping[str, Any]
_NOTE = (
    "Every episode has one kind. Shares are of the episodes with a score, with 95% intervals in percent (Wilson's; where tasks repeat, a bootstrap over "
    "tasks, which holds for the trained agents); the share of void episodes is of all."
)
_WISHES = "Wishes that the human never stated in the dialogue, of the episodes whose task has a wish on the topic."


def kinds_of(results: Mapping[str, Any]) -> list[dict[str, str]]:
    """The kinds of failure of a run, in order: "name", "title" and "means"; [] if its environment tells none apart."""
    return [{name: clipped(kind.get(name, "?")) for name in ("name", "title", "means")} for kind in _rows(results, "kinds")]


def failures_section(results: Mapping[str, Any]) -> Html:
    """The section of a run's report; empty if there are no kinds."""
    return html_of(failures_part(results))


def failures_part(results: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> Part | None:
    """The tables of kinds and of unheard wishes, one of each per split; None if there are no kinds.

    Args:
        results: Content of results.json.
        titles: Titles of the agents, if they have any.
    """
    rows, wishes, kinds = _rows(results, "rows"), _rows(results, "wishes"), kinds_of(results)
    if not rows or not kinds:
        return None
    tables: list[Table] = []
    for split in dict.fromkeys(str(row.get("split")) for row in rows):
        own = [row for row in rows if str(row.get("split")) == split]
        present = [kind for kind in kinds if any(row.get("kind") == kind["name"] and row.get("count") for row in own)]
        tables.append(_table("Kind", [(k["name"], k["title"]) for k in present], own, "kind", _share, titles or {}, split))
    for split in dict.fromkeys(str(row.get("split")) for row in wishes):
        own = [row for row in wishes if str(row.get("split")) == split]
        topics = _most_frequent(own)
        caption = f"{split}: wishes that were never heard"
        tables.append(_table("Topic", [(t, t) for t in topics], own, "topic", _unheard, titles or {}, caption))
    used = {str(row.get("kind")) for row in rows if row.get("count")}
    meanings = [f"{kind['title'].capitalize()}: {kind['means']}" for kind in kinds if kind["name"] in used]
    return Part("failures", "Why episodes fail", tables, notes=[_NOTE, *([_WISHES] if wishes else []), *meanings])


def _table(
    what: str, lines: Sequence[tuple[str, str]], rows: Sequence[Row], field: str, cell: Callable[[Row | None], str], titles: Mapping[str, str], caption: str
) -> Table:  # fmt: skip
    """A table with one line per kind or topic and one column per agent."""
    agents = list(dict.fromkeys(str(row.get("agent")) for row in rows))
    cells = {(str(row.get("agent")), str(row.get(field))): row for row in rows}
    head = (what, *(clipped(titles.get(agent, agent), 80) for agent in agents))
    return Table(
        head, [(title, *(cell(cells.get((agent, name))) for agent in agents)) for name, title in lines], clipped(caption, 80)
    )


def _share(row: Row | None) -> str:
    if row is None or not row.get("count"):
        return "0" if row else NOTHING
    share = f"{plain(number(row.get('count')))}: {percent(number(row.get('share')))}"
    return f"{share} {percent_interval(interval(row.get('ci95')))}"


def _unheard(row: Row | None) -> str:
    if row is None:
        return NOTHING
    count, n = number(row.get("unheard")), number(row.get("n"))
    return NOTHING if count is None or not n else f"{plain(count)} of {plain(n)} ({percent(count / n)})"


def _most_frequent(rows: Sequence[Row]) -> list[str]:
    counts: dict[str, float] = {}
    for row in rows:
        topic = clipped(row.get("topic", "?"), 80)
        counts[topic] = counts.get(topic, 0.0) + (number(row.get("unheard")) or 0.0)
    return sorted(counts, key=lambda topic: -counts[topic])[:MAX_TOPICS]


def _rows(results: Mapping[str, Any], name: str) -> list[Row]:
    found = results.get("failures")
    rows = found.get(name) if isinstance(found, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
