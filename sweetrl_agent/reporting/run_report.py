"""The report of a run: one page of sections, from the files of its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sweetrl_agent.data.files import refuse_links_out, write_text
from sweetrl_agent.reporting.bars import outcomes_section, seconds_section
from sweetrl_agent.reporting.curves import LearningChart, curves_section, run_charts
from sweetrl_agent.reporting.dialogues import dialogues_data
from sweetrl_agent.reporting.evaluation_parts import differences_section, use_section
from sweetrl_agent.reporting.failures import failures_section
from sweetrl_agent.reporting.figures import number, plain
from sweetrl_agent.reporting.markup import Html, join, missing, note, section, table, tag
from sweetrl_agent.reporting.page import fill_page, resource, setup_section
from sweetrl_agent.reporting.pages import pages_section
from sweetrl_agent.reporting.run_folder import ADVANTAGES, EVALUATION, METRICS, PAIRS, RunFolder
from sweetrl_agent.reporting.scores import agent_colours, headline_section, read_scores, scores_section
from sweetrl_agent.reporting.wishes import wishes_section

REPORT = "report.html"


def write_report(folder: Path) -> Path:
    """Write report.html to a run folder, replacing an older one.

    Args:
        folder: The run folder; any of its files may be missing.

    Returns:
        Path of the report.

    Raises:
        ValueError: If the folder does not exist, or a link in it points out of it: the report would then read or write files outside the run.
    """
    refuse_links_out(folder)
    run = RunFolder.read(folder)
    dialogues = dialogues_data(run)
    agents = [*(score.agent for score in read_scores(run.results)), *(str(r.get("agent", "?")) for r in run.evaluation)]
    colours = agent_colours(agents)
    curves = run_charts(run)
    page = fill_page(
        run.name,
        _facts(run),
        _sections(run, colours, curves, len(dialogues["dialogues"])),
        {"curves": [chart.data() for chart in curves], "colours": colours, **dialogues},
    )
    write_text(folder / REPORT, page)
    return folder / REPORT


def _sections(run: RunFolder, colours: Mapping[str, str], curves: Sequence[LearningChart], num_dialogues: int) -> Html:
    """All sections, most important first."""
    return join(
        [
            headline_section(run, colours),
            scores_section(run),
            differences_section(run),
            use_section(run),
            outcomes_section(run, colours),
            failures_section(run.results),
            wishes_section(run.results),
            Html("") if run.is_evaluation else curves_section(curves, run.trouble(METRICS)),
            pages_section(run),
            _dialogues_section(run, num_dialogues),
            Html("") if run.is_evaluation else seconds_section(run),
            _pairs_section(run),
            setup_section(run),
            _troubles_section(run),
        ]
    )


def _facts(run: RunFolder) -> Html:
    """The line below the title, with facts on the run."""
    facts = {
        "algorithm": run.results.get("algorithm"),
        "seed": run.results.get("seed"),
        "commit": run.versions.get("git_commit"),
        "machine": run.versions.get("machine"),
    }
    known = [(name, str(value)) for name, value in facts.items() if value not in (None, "")]
    return join(tag("span", f"{name} ", tag("strong", value[:120])) for name, value in known)


def _dialogues_section(run: RunFolder, num_shown: int) -> Html:
    if num_shown == 0:
        return section("dialogues", "Dialogues", missing(run.trouble(EVALUATION)))
    left_out = len(run.evaluation) - num_shown
    text = f"{num_shown} of the {len(run.evaluation)} dialogues of {EVALUATION} are in this file"
    text += f", {left_out} are left out" if left_out else ""
    text += "; those with advantages first, then others in the same episodes, some of each kind of failure, and further ones."
    text += f" No advantages: {run.trouble(ADVANTAGES)}" if ADVANTAGES in run.troubles else ""
    return section("dialogues", "Dialogues", note(text), Html(resource("viewer.html")))


def _pairs_section(run: RunFolder) -> Html:
    if not run.pairs and PAIRS not in run.troubles:
        return Html("")  # the algorithm makes none
    rows = [(name, _cell(value)) for name, value in run.pairs.items()]
    content = table(("Statistic", "Value"), rows, "pairs") if rows else missing(run.trouble(PAIRS))
    return section("pairs", "Preference pairs", content)


def _troubles_section(run: RunFolder) -> Html:
    if not run.troubles:
        return Html("")
    return section("troubles", "Missing or unreadable files", tag("ul", *(tag("li", text) for text in run.troubles.values())))


def _cell(value: object) -> str:
    figure = number(value)
    return str(value) if figure is None else plain(figure, digits=6)
