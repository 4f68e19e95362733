"""The report of a comparison: report.html, report.md and its charts, from results.json and the files of its seeds."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from colbench_gym.files import refuse_links_out, write_text
from sweetrl_agent.reporting.comparison_parts import parts
from sweetrl_agent.reporting.curves import ON_POLICY_COLUMNS, LearningChart, curves_part, learning_charts
from sweetrl_agent.reporting.dialogues import dialogues_data
from sweetrl_agent.reporting.page import markdown, page, setup_part
from sweetrl_agent.reporting.parts import CHARTS, Live, Part
from sweetrl_agent.reporting.run_folder import RunFolder
from sweetrl_agent.reporting.run_report import pages_part
from sweetrl_agent.reporting.scores import agent_colours

HTML, MARKDOWN = "report.html", "report.md"
Names = Mapping[str, str]


def write_comparison(
    folder: Path,
    algorithms: Names,
    critics: Names,
    columns: Names,
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
    made = _Report(folder, algorithms, critics, columns, is_against_paper)
    write_text(folder / HTML, made.page())
    _write_charts(folder, made.filed)
    write_text(folder / MARKDOWN, markdown(made.title, made.filed))
    return folder / HTML


def comparison_page(folder: Path, algorithms: Names, critics: Names, columns: Names, is_against_paper: bool, live: Live) -> str:
    """The report of a comparison that is watched, as a page; see `write_comparison`."""
    refuse_links_out(folder)
    return _Report(folder, algorithms, critics, columns, is_against_paper).page(live)


def unfinished_page(folder: Path, live: Live) -> str:
    """The page of a comparison without results that is watched: the curves of its seeds so far, and the settings of the first."""
    refuse_links_out(folder)
    first = RunFolder.read(seed_folders(folder)[0])
    curves = comparison_charts(folder, {"algorithms": ()}, {})
    return page(f"Comparison {folder.resolve().name}", {}, [curves_part(curves), setup_part(first)], live=live)


class _Report:
    """The parts of a comparison's report, and those of them with files of charts."""

    def __init__(self, folder: Path, algorithms: Names, critics: Names, columns: Names, is_against_paper: bool) -> None:
        self.results = results = json.loads((folder / "results.json").read_text())
        self.title = f"Comparison {folder.resolve().name}"
        scored = parts(results, algorithms, critics, columns, is_against_paper)
        curves = comparison_charts(folder, results, algorithms)
        first = RunFolder.read(seed_folders(folder)[0])
        first.evaluation = [row for row in first.evaluation if row.get("agent") in results["algorithms"]]
        first.results = {name: results[name] for name in ("metric", "failures") if name in results}
        self.dialogues = dialogues_data(first)
        dialogues = _dialogues_part(first, len(self.dialogues["dialogues"]))
        self.shown = [*scored, curves_part(curves), pages_part(first), dialogues, setup_part(first)]
        on_policy = [chart for chart in curves if chart.metrics and {*chart.metrics, *chart.axes} >= ON_POLICY_COLUMNS]
        filed = [Part("curves", "Learning curves of on-policy algorithms", charts=on_policy)] if on_policy else []
        self.filed = [*scored, *filed]

    def page(self, live: Live | None = None) -> str:
        """The report as a page; `live` is the part above it of a comparison that is watched."""
        facts = {"algorithms": str(len(self.results["algorithms"])), "seeds": ", ".join(self.results.get("ledger", ()))}
        data = {"colours": agent_colours(list(self.results["algorithms"])), **self.dialogues}
        return page(self.title, facts, [part for part in self.shown if part], data, live)


def seed_folders(folder: Path) -> list[Path]:
    """The run folders of a comparison's seeds, in the order of the seeds."""
    numbered = [path for path in folder.glob("seed_*") if path.name.removeprefix("seed_").isdigit()]
    return sorted(numbered, key=lambda path: int(path.name.removeprefix("seed_")))


def comparison_charts(
    folder: Path, results: Mapping[str, Any], titles: Names, without: Collection[str] = ()
) -> list[LearningChart]:
    """Learning curves of all seeds; `without` some stages."""
    runs = {
        path.name.replace("_", " "): [row for row in RunFolder.read_metrics(path) if row.get("stage") not in without]
        for path in seed_folders(folder)
    }
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
