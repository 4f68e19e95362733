"""The report of a run or of an evaluation: one page of parts, from the files of its folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from colbench_gym.files import refuse_links_out, write_text
from sweetrl_agent.reporting.costs import costs_part
from sweetrl_agent.reporting.curves import curves_part, learning_charts
from sweetrl_agent.reporting.dialogues import dialogues_data
from sweetrl_agent.reporting.failures import failures_part, wishes_part
from sweetrl_agent.reporting.numbers import NOTHING, duration, number
from sweetrl_agent.reporting.page import page, setup_part, text_of
from sweetrl_agent.reporting.parts import Live, Part, Share, Table
from sweetrl_agent.reporting.run_folder import (
    ADVANTAGES,
    EVALUATION,
    METRICS,
    OTHER_RESULTS,
    PAIRS,
    RESULTS,
    Pictures,
    RunFolder,
)
from sweetrl_agent.reporting.scores import agent_colours, differences_part, headline_part, scores_of, scores_part, use_part

REPORT = "report.html"
LEADING_OUTCOMES = ("passed", "wrong")
MAX_OUTCOMES = 12


def write_report(folder: Path) -> Path:
    """Write report.html to a run folder, replacing an older one.

    Args:
        folder: The run folder; any of its files may be missing.

    Returns:
        Path of the report.

    Raises:
        ValueError: If the folder does not exist, or a link in it points out of it: the report would then read or write files outside the run.
    """
    write_text(folder / REPORT, report_page(folder))
    return folder / REPORT


def report_page(folder: Path, live: Live | None = None) -> str:
    """The report as a page; `live` is the part above it of a run that is watched. See `write_report`."""
    refuse_links_out(folder)
    run = RunFolder.read(folder)
    try:
        return _page(run, live)
    except OTHER_RESULTS as error:
        if not run.results:
            raise
        run.results, run.troubles[RESULTS] = {}, f"{RESULTS} is not as a run of this version writes it: {error!r}."
        return _page(run, live)


def _page(run: RunFolder, live: Live | None) -> str:
    dialogues = dialogues_data(run)
    agents = [*scores_of(run.results), *(row["agent"] for row in run.evaluation)]
    data = {"colours": agent_colours(agents), **dialogues}
    return page(run.name, _facts(run), _parts(run, len(dialogues["dialogues"])), data, live)


def pages_part(run: RunFolder) -> Part | None:
    """Pictures of the agents' pages, one row per agent and task, below the reference page; None if the run has no pages."""
    tasks = [{**row, "rows": _pictures(row)} for row in run.pictures]
    text = "All pages of the agent, and the hidden reference page, which no agent sees. Long pages are cropped."
    return (
        Part("pages", "Pages, turn by turn", notes=[text], template="pages.html.jinja", content={"tasks": tasks})
        if tasks
        else None
    )


def _parts(run: RunFolder, num_dialogues: int) -> list[Part]:
    """All parts, most important first."""
    trained = not run.is_evaluation
    parts = [
        headline_part(run),
        scores_part(run),
        differences_part(run),
        use_part(run),
        _outcomes_part(run),
        failures_part(run.results),
        wishes_part(run.results),
        curves_part(learning_charts({run.name: run.metrics}), run.trouble(METRICS)) if trained else None,
        pages_part(run),
        _dialogues_part(run, num_dialogues),
        costs_part(run.results),
        _seconds_part(run) if trained else None,
        _pairs_part(run),
        setup_part(run),
        _troubles_part(run),
    ]
    return [part for part in parts if part]


def _facts(run: RunFolder) -> dict[str, str]:
    """The line below the title, with facts on the run."""
    facts = {
        "algorithm": run.results.get("algorithm"),
        "seed": run.results.get("seed"),
        "commit": run.versions.get("git_commit"),
        "machine": run.versions.get("machine"),
    }
    return {name: str(value)[:120] for name, value in facts.items() if value not in (None, "")}


def _outcomes_part(run: RunFolder) -> Part:
    """Outcomes of the episodes of each agent: a table for each split."""
    counts: dict[str, dict[str, Counter[str]]] = {}
    for record in run.evaluation:
        counts.setdefault(record["split"], {}).setdefault(record["agent"], Counter())[record["outcome"]] += 1
    tables = [_outcomes_table(split, agents) for split, agents in counts.items()]
    text = "Episodes of evaluation.jsonl, including void ones, in percent of the agent's episodes on the split."
    return Part(
        "outcomes", "Outcomes", tables, notes=[text] if tables else [], missing="" if tables else run.trouble(EVALUATION)
    )


def _outcomes_table(split: str, agents: Mapping[str, Counter[str]]) -> Table:
    total: Counter[str] = sum(agents.values(), Counter())
    ordered = sorted(total, key=lambda outcome: (outcome not in LEADING_OUTCOMES, outcome != "passed", -total[outcome]))
    lines = {outcome: [outcome] for outcome in ordered[:MAX_OUTCOMES]}
    if rest := ordered[MAX_OUTCOMES:]:
        lines[f"{len(rest)} other outcomes"] = rest
    shares = {
        title: {agent: sum(count[name] for name in names) for agent, count in agents.items()} for title, names in lines.items()
    }
    rows = [(title, *(_share(count, agents[agent].total()) for agent, count in of.items())) for title, of in shares.items()]
    return Table(("Outcome", *agents), rows, split)


def _share(count: int, total: int) -> Share:
    return Share.of(count / total, f"{count} ({100 * count / total:.1f}%)")


def _seconds_part(run: RunFolder) -> Part:
    """Wall time of each stage, and the most memory that it had."""
    stages: dict[str, float] = run.results.get("seconds", {})
    if not stages:
        reason = f'{RESULTS} has no "seconds" of any stage.' if run.results else run.trouble(RESULTS)
        return Part("seconds", "Wall time", missing=reason)
    longest, total = max(stages.values()) or 1.0, sum(stages.values())
    peaks = {name: f"{peak / 1024:.1f} GiB" for name, value in run.peaks.items() if (peak := number(value)) is not None}
    rows = [
        (
            name,
            Share.of(s / longest, f"{duration(s)} ({100 * s / (total or 1.0):.0f}%)"),
            *((peaks.get(name, NOTHING),) if peaks else ()),
        )
        for name, s in stages.items()
    ]
    head = ("Stage", "Wall time", *(("Most memory",) if peaks else ()))
    return Part("seconds", "Wall time", [Table(head, rows)], notes=[f"All stages together: {duration(total)}."])


def _dialogues_part(run: RunFolder, num_shown: int) -> Part:
    if num_shown == 0:
        return Part("dialogues", "Dialogues", missing=run.trouble(EVALUATION))
    left_out = len(run.evaluation) - num_shown
    text = f"{num_shown} of the {len(run.evaluation)} dialogues of {EVALUATION} are in this file"
    text += f", {left_out} are left out" if left_out else ""
    text += "; those with advantages first, then others in the same episodes, some of each kind of failure, and further ones."
    text += f" No advantages: {run.trouble(ADVANTAGES)}" if ADVANTAGES in run.troubles else ""
    return Part("dialogues", "Dialogues", notes=[text], template="viewer.html.jinja")


def _pairs_part(run: RunFolder) -> Part | None:
    if not run.pairs and PAIRS not in run.troubles:
        return None  # the algorithm makes none
    rows = [(name, text_of(value)) for name, value in run.pairs.items()]
    tables = [Table(("Statistic", "Value"), rows)] if rows else []
    return Part("pairs", "Preference pairs", tables, missing="" if rows else run.trouble(PAIRS))


def _troubles_part(run: RunFolder) -> Part | None:
    return Part("troubles", "Missing or unreadable files", notes=[*run.troubles.values()]) if run.troubles else None


def _pictures(row: Pictures) -> dict[str, list[tuple[str, str]]]:
    """Captions and pictures of the reference and of every agent."""
    agents = {agent: [(f"page {i}", page) for i, page in enumerate(pages, 1)] for agent, pages in row["agents"].items()}
    return {"reference": [("hidden", row["wanted"])], **agents}
