"""Why episodes fail, in numbers: the kinds of failure of every agent, the wishes that it never hears, and what it asked, heard and wrote down.

The numbers are in results.json. "failures": "kinds" (name, title, means), "rows" (agent, split, kind, count, n, share, ci95) and "wishes" (agent,
split, topic, unheard, n). "wishes": agent, split, n, questions, heard and written, with heard_ci95 and written_ci95.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sweetrl_agent.reporting.numbers import NOTHING, percent, percent_interval, plain
from sweetrl_agent.reporting.parts import Part, Table

#: Topics in the table of unheard wishes: the most frequent ones.
MAX_TOPICS = 15
Row = Mapping[str, Any]
Names = Mapping[str, str]
_NOTE = (
    "Every episode has one kind. Shares are of the episodes with a score, with 95% intervals in percent (Wilson's; where tasks repeat, a bootstrap over "
    "tasks, which holds for the trained agents); the share of void episodes is of all."
)
_UNHEARD = "Wishes that the human never stated in the dialogue, of the episodes whose task has a wish on the topic."
_WISHES = (
    "An agent must ask about a task's wishes, hear them, and write them down. Questions are turns before the answer; a wish is heard if the human states it, "
    "and written down if the answer does it in a hidden test that depends on it, whatever else is wrong. Shares are means over episodes, with 95% intervals "
    "in percent (bootstrap over tasks); the last is over the episodes that heard a wish. Void episodes are left out."
)


def kinds_of(results: Row) -> list[dict[str, str]]:
    """The kinds of failure of a run, in order: "name", "title" and "means"; [] if its environment tells none apart."""
    return list(results.get("failures", {}).get("kinds", ()))


def failures_part(results: Row, titles: Names | None = None) -> Part | None:
    """The tables of kinds and of unheard wishes, one of each per split; None if there are no kinds.

    Args:
        results: Content of results.json.
        titles: Titles of the agents, if they have any.
    """
    failures, names = results.get("failures"), titles or {}
    if not failures:
        return None
    used = {row["kind"] for row in failures["rows"] if row["count"]}
    kinds = {kind["name"]: kind for kind in failures["kinds"] if kind["name"] in used}
    tables: list[Table] = []
    for split, rows in _by_split(failures["rows"]).items():
        present = {row["kind"] for row in rows if row["count"]}
        lines = {name: kind["title"] for name, kind in kinds.items() if name in present}
        tables.append(_table("Kind", lines, rows, _share, names, split))
    for split, rows in _by_split(failures["wishes"]).items():
        counts: Counter[str] = Counter()
        for row in rows:
            counts[row["topic"]] += row["unheard"]
        topics = {topic: topic for topic, _ in counts.most_common(MAX_TOPICS)}
        tables.append(_table("Topic", topics, rows, _unheard, names, f"{split}: wishes that were never heard"))
    meanings = [f"{kind['title'].capitalize()}: {kind['means']}" for kind in kinds.values()]
    return Part("failures", "Why episodes fail", tables, notes=[_NOTE, *([_UNHEARD] if failures["wishes"] else []), *meanings])


def wishes_part(results: Row, titles: Names | None = None) -> Part | None:
    """The table of what was asked, heard and written down, one per split; None if nothing is known.

    Args:
        results: Content of results.json.
        titles: Titles of the agents, if they have any.
    """
    head = ("Agent", "Episodes", "Questions", "Wishes heard", "Of these written down")
    tables = [
        Table(head, [_wishes(row, titles or {}) for row in rows], split)
        for split, rows in _by_split(results.get("wishes", ())).items()
    ]
    return Part("wishes", "What was asked, heard and written down", tables, notes=[_WISHES]) if tables else None


def _by_split(rows: Sequence[Row]) -> dict[str, list[Row]]:
    splits: dict[str, list[Row]] = {}
    for row in rows:
        splits.setdefault(row["split"], []).append(row)
    return splits


def _table(
    what: str, lines: Names, rows: Sequence[Row], cell: Callable[[Row | None], str], titles: Names, caption: str
) -> Table:
    """A table with one line per kind or topic and one column per agent."""
    agents = list(dict.fromkeys(row["agent"] for row in rows))
    cells = {(row["agent"], row[what.lower()]): row for row in rows}
    shown = [(title, *(cell(cells.get((agent, name))) for agent in agents)) for name, title in lines.items()]
    return Table((what, *(titles.get(agent, agent) for agent in agents)), shown, caption)


def _share(row: Row | None) -> str:
    if row is None or not row["count"]:
        return "0" if row else NOTHING
    return f"{plain(row['count'])}: {percent(row['share'])} {percent_interval(row['ci95'])}"


def _unheard(row: Row | None) -> str:
    return f"{plain(row['unheard'])} of {plain(row['n'])} ({percent(row['unheard'] / row['n'])})" if row else NOTHING


def _wishes(row: Row, titles: Names) -> tuple[str, ...]:
    shares = [
        NOTHING if row[name] is None else f"{percent(row[name])} {percent_interval(row[f'{name}_ci95'])}"
        for name in ("heard", "written")
    ]
    return titles.get(row["agent"], row["agent"]), plain(row["n"]), plain(row["questions"], digits=3), *shares
