"""The report of a comparison: report.html, report.md and its charts, from results.json and the files of its seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from colbench_gym.files import refuse_links_out, write_text
from sweetrl_agent.reporting.comparison_parts import parts
from sweetrl_agent.reporting.curves import ON_POLICY_COLUMNS, LearningChart, curves_part, learning_charts
from sweetrl_agent.reporting.dialogues import dialogues_data
from sweetrl_agent.reporting.page import markdown, page, setup_part
from sweetrl_agent.reporting.parts import CHARTS, Part
from sweetrl_agent.reporting.run_folder import RunFolder
from sweetrl_agent.reporting.run_report import pages_part
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

    Raises:
        ValueError: If a link in the folder points out of it.
    """
    refuse_links_out(folder)
    results = json.loads((folder / "results.json").read_text())
    scored = parts(results, algorithms, critics, columns, is_against_paper)
    curves = comparison_charts(folder, results, algorithms)
    title = f"Comparison {folder.resolve().name}"
    first = RunFolder.read(seed_folders(folder)[0])
    first.evaluation = [row for row in first.evaluation if row.get("agent") in results["algorithms"]]
    first.results = {name: results[name] for name in ("metric", "failures") if name in results}
    dialogues = dialogues_data(first)
    shown = [
        *scored,
        curves_part(curves),
        pages_part(first),
        _dialogues_part(first, len(dialogues["dialogues"])),
        setup_part(first),
    ]
    facts = {"algorithms": str(len(results["algorithms"])), "seeds": ", ".join(results.get("ledger", ()))}
    data = {"colours": agent_colours(list(results["algorithms"])), **dialogues}
    write_text(folder / HTML, page(title, facts, [part for part in shown if part], data))
    on_policy = [chart for chart in curves if chart.metrics and {*chart.metrics, *chart.axes} >= ON_POLICY_COLUMNS]
    filed = [*scored, *([Part("curves", "Learning curves of on-policy algorithms", charts=on_policy)] if on_policy else [])]
    _write_charts(folder, filed)
    write_text(folder / MARKDOWN, markdown(title, filed))
    return folder / HTML


def seed_folders(folder: Path) -> list[Path]:
    """The run folders of a comparison's seeds, in the order of the seeds."""
    numbered = [path for path in folder.glob("seed_*") if path.name.removeprefix("seed_").isdigit()]
    return sorted(numbered, key=lambda path: int(path.name.removeprefix("seed_")))


def comparison_charts(folder: Path, results: Mapping[str, Any], titles: Mapping[str, str]) -> list[LearningChart]:
    """Learning curves of all seeds."""
    runs = {path.name.replace("_", " "): RunFolder.read_metrics(path) for path in seed_folders(folder)}
    return learning_charts(runs, titles, list(results["algorithms"]))


def _write_charts(folder: Path, filed: list[Part]) -> None:
    for earlier in (folder / CHARTS).glob("*.svg"):  # charts of an earlier report that this one may not have
        earlier.unlink()
    for path, chart in [item for part in filed for item in part.chart_files().items()]:
        (folder / CHARTS).mkdir(exist_ok=True)
        write_text(folder / path, chart.svg())


def _dialogues_part(run: RunFolder, num_shown: int) -> Part:
    text = (
        f"{num_shown} of the {len(run.evaluation)} dialogues of the first seed ({run.name}), those on tasks with advantages first, then "
        "some of each kind of failure. The advantages are those of every critic that has scored the dialogues, for the turns of all agents."
    )
    return Part("dialogues", "Dialogues", notes=[text], template="viewer.html.jinja")
