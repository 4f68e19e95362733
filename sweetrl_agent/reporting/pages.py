"""Pages of a few dialogues, turn by turn, next to the reference page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sweetrl_agent.reporting.markup import Html, clip, join, note, section, tag
from sweetrl_agent.reporting.run_folder import RunFolder

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def pages_section(run: RunFolder) -> Html:
    """One row of pictures per agent and task; empty if the run has no pages."""
    shown = [row for row in run.pictures if isinstance(row, dict)]
    if not shown:
        return Html("")
    text = "All pages of the agent, and the hidden reference page, which no agent sees. Long pages are cropped."
    return section("pages", "Pages, turn by turn", note(text), *(_task(row) for row in shown))


def _task(row: dict[str, Any]) -> Html:
    agents = row.get("agents")
    rows = [
        _row(str(agent), ((f"page {i}", picture) for i, picture in enumerate(own, 1)))
        for agent, own in (agents.items() if isinstance(agents, dict) else ())
        if isinstance(own, list)
    ]
    wanted = _row("reference", [("hidden", row.get("wanted"))])
    title = tag("p", tag("strong", clip(str(row.get("task_id", "?")))), " ", clip(str(row.get("request", ""))))
    return tag("div", title, wanted, *rows, class_="pages")


def _row(name: str, pictures: Iterable[tuple[str, object]]) -> Html:
    figures = [
        tag("figure", Html(f'<img alt="" src="data:image/jpeg;base64,{picture}">'), tag("figcaption", caption))
        for caption, picture in pictures
        if isinstance(picture, str) and _BASE64.fullmatch(picture)
    ]
    inside = join(figures) if figures else tag("p", "no page", class_="missing")
    return tag("div", tag("h3", clip(name)), tag("div", inside, class_="filmstrip", tabindex="0"))
