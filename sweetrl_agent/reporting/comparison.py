"""The report of a comparison: report.html, report.md and its charts, from results.json and the first seed's files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from sweetrl_agent.data.files import write_text
from sweetrl_agent.reporting.comparison_parts import parts
from sweetrl_agent.reporting.curves import curves_data, curves_section
from sweetrl_agent.reporting.dialogues import dialogues_data
from sweetrl_agent.reporting.markup import Html, join, note, section, tag
from sweetrl_agent.reporting.page import fill_page, resource, setup_section
from sweetrl_agent.reporting.pages import pages_section
from sweetrl_agent.reporting.parts import CHARTS
from sweetrl_agent.reporting.run_folder import RunFolder
from sweetrl_agent.reporting.scores import agent_colours

HTML, MARKDOWN = "report.html", "report.md"


def write_comparison(
    folder: Path,
    algorithms: Mapping[str, str],
    critics: Mapping[str, str],
    columns: Mapping[str, str],
    is_against_paper: bool = False,
) -> Path:
    """Write report.html, and report.md with its charts as files in a subfolder.

    Args:
        folder: Folder of the comparison, with results.json.
        algorithms: Titles of algorithms.
        critics: Titles of critics.
        columns: Meaning of each column of the ledger.
        is_against_paper: Show the paper's numbers next to ours.

    Returns:
        Path of report.html.
    """
    results = json.loads((folder / "results.json").read_text())
    made = parts(results, algorithms, critics, columns, is_against_paper)
    first = RunFolder.read(min(folder.glob("seed_*"), key=lambda path: int(path.name.removeprefix("seed_"))))
    first.evaluation = [row for row in first.evaluation if row.get("agent") in results["algorithms"]]
    first.results = {name: results[name] for name in ("metric", "failures") if name in results}
    dialogues = dialogues_data(first)
    colours = agent_colours(list(results["algorithms"]))
    title = f"Comparison {folder.resolve().name}"
    page = fill_page(
        title,
        _facts(results),
        join(
            [part.html() for part in made]
            + [
                curves_section(first),
                pages_section(first),
                _dialogues_section(first, len(dialogues["dialogues"])),
                setup_section(first),
            ]
        ),
        {"curves": curves_data(first.metrics), "colours": colours, **dialogues},
    )
    write_text(folder / HTML, page)
    for earlier in (folder / CHARTS).glob("*.svg"):  # charts of an earlier report that this one may not have
        earlier.unlink()
    for name, chart in [item for part in made for item in part.chart_files().items()]:
        (folder / CHARTS).mkdir(exist_ok=True)
        write_text(folder / name, chart)
    write_text(folder / MARKDOWN, "\n\n".join([f"# {title}", *(part.markdown() for part in made)]) + "\n")
    return folder / HTML


def _facts(results: Mapping[str, dict[str, object]]) -> Html:
    seeds = ", ".join(results["ledger"])
    return join(
        [
            tag("span", "algorithms ", tag("strong", str(len(results["algorithms"])))),
            tag("span", "seeds ", tag("strong", seeds)),
        ]
    )


def _dialogues_section(run: RunFolder, num_shown: int) -> Html:
    text = (
        f"{num_shown} of the {len(run.evaluation)} dialogues of the first seed ({run.name}), those on tasks with advantages first, then "
        "some of each kind of failure. The advantages are those of every critic that has scored the dialogues, for the turns of all agents."
    )
    return section("dialogues", "Dialogues", note(text), Html(resource("viewer.html")))
