"""The index of a folder of runs: one page with a row for each run and each algorithm of a comparison, made from the files below the folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from colbench_gym.errors import ColBenchError
from sweetrl_agent.data.files import refuse_links_out, write_text
from sweetrl_agent.reporting.figures import NOTHING, Interval, interval, measure, measure_interval, number
from sweetrl_agent.reporting.markup import Html, clip, join, note, section, tag
from sweetrl_agent.reporting.page import fill_page
from sweetrl_agent.reporting.run_folder import CONFIG, EVALUATION, METRICS, RESULTS, Record, RunFolder, refuse_changed
from sweetrl_agent.reporting.scores import headline_of, metric_of, read_scores

INDEX, REPORT = "index.html", "report.html"
#: A folder with one of these files is a run or a comparison.
RUN_FILES = (RESULTS, CONFIG, METRICS, EVALUATION)
#: Columns before those of the splits.
HEAD = ("Run", "Algorithm", "Environment", "Seed", "Date")
#: Limits of the search, since a folder may hold anything.
MAX_RUNS, MAX_DEPTH = 2_000, 6


@dataclass(frozen=True)
class Line:
    """One agent of a run or a comparison.

    Attributes:
        agent: Algorithm or, in a run, the initial or the trained policy.
        seeds: Seeds, as text.
        scores: Text and 95% interval of the main score, by split.
    """

    agent: str
    seeds: str
    scores: Mapping[str, tuple[str, str]]


@dataclass(frozen=True)
class Entry:
    """A run or a comparison below the folder.

    Attributes:
        place: Its path relative to the folder, with "/".
        kind: "run" or "comparison".
        environment: Id of the environment.
        date: When its results, or else its latest file, were written: UTC, to the minute.
        lines: Its agents; empty before it has results.
        has_report: Whether there is a report to open.
        state: Why it has no results; "" if it has some.
    """

    place: str
    kind: str
    environment: str
    date: str
    lines: Sequence[Line]
    has_report: bool
    state: str


def write_index(folder: Path) -> Path:
    """Write index.html to a folder of runs, replacing an older one.

    Returns:
        Path of the index.

    Raises:
        ValueError: If the folder does not exist, or has no run below it.
    """
    if not folder.is_dir():
        raise ValueError(
            f"`folder` must be a run, a comparison, or a folder with some below it; got {str(folder)!r}, which is not a folder."
        )
    for name in (INDEX, f"{INDEX}.part"):
        if (folder / name).is_symlink():
            raise ValueError(
                f"{str(folder / name)!r} is a symbolic link, and the index would be written where it leads; remove it."
            )
    entries = read_entries(folder)
    if not entries:
        refuse_links_out(folder)  # the more important trouble of a folder that may have been meant as a run
        raise ValueError(
            f"`folder` must be a run, a comparison, or a folder with some below it; {str(folder)!r} has none: no {', '.join(RUN_FILES)} "
            "in it or below."
        )
    splits = list(dict.fromkeys(split for entry in entries for line in entry.lines for split in line.scores))
    facts = join([tag("span", "runs and comparisons ", tag("strong", str(len(entries))))])
    text = (
        "Newest first. A row for each algorithm of a comparison, and for the initial and the trained policy of a run. Intervals are 95%, in "
        "percent: over tasks for a run, over seeds and tasks for a comparison. Choose a column's title to sort by it. Dates are UTC."
    )
    search = tag(
        "label",
        "Show ",
        Html('<input type="search" id="search" placeholder="algorithm, environment, folder" autocomplete="off">'),
    )
    sections = section("runs", "Runs", tag("div", search, class_="filters"), _table(entries, splits), note(text))
    title = f"Runs in {folder.resolve().name}"
    page = fill_page(title, facts, sections, {"curves": [], "colours": {}, "dialogues": [], "agents": []})
    write_text(folder / INDEX, page)
    return folder / INDEX


def read_entries(folder: Path) -> list[Entry]:
    """The runs and comparisons below a folder, newest first; links are not followed."""
    found = [_entry(path, folder) for path, _ in zip(_run_folders(folder), range(MAX_RUNS), strict=False)]
    return sorted(found, key=lambda entry: (entry.date, entry.place), reverse=True)


def is_comparison(results: Mapping[str, Any]) -> bool:
    """Whether these are the results of a comparison and not of a run."""
    return isinstance(results.get("algorithms"), dict)


def _run_folders(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        inside = {name for name in names if not Path(place, name).is_symlink()}
        is_comparison_begun = any(re.fullmatch(r"seed_\d+", name) for name in folders)
        if depth > 0 and (inside & set(RUN_FILES) or is_comparison_begun):
            yield Path(place)
            folders.clear()  # the seeds of a comparison, and the models of a run
        folders[:] = sorted(name for name in folders if depth < MAX_DEPTH and not name.startswith("."))


def _entry(path: Path, folder: Path) -> Entry:
    seeds = sorted(p for p in path.glob("seed_*") if p.is_dir() and not p.is_symlink())
    results, state = _object(path, RESULTS), ""
    try:
        refuse_changed(path, [RESULTS])
    except ColBenchError:
        results, state = {}, f"{RESULTS} has changed"
    compares = is_comparison(results) or bool(seeds)
    settings = results.get("settings") if isinstance(results.get("settings"), dict) else None
    config = settings or _settings(seeds[0] if seeds else path)
    lines = _comparison_lines(results) if is_comparison(results) else _run_lines(results, config)
    return Entry(
        path.relative_to(folder).as_posix(), "comparison" if compares else "run", str(config.get("env", "")) or NOTHING,
        _date(path), lines, (path / REPORT).is_file(), state or ("" if results else "not finished"),
    )  # fmt: skip


def _run_lines(results: Record, config: Mapping[str, Any]) -> list[Line]:
    metric = metric_of(results)
    algorithm = str(results.get("algorithm") or config.get("algorithm", "") or NOTHING)
    seed = results.get("seed", config.get("seed", NOTHING))
    agents: dict[str, dict[str, tuple[str, str]]] = {}
    for score in read_scores(results):
        text = measure(headline_of(metric), score.headline), measure_interval(headline_of(metric), score.headline_bounds)
        agents.setdefault(score.agent, {})[score.split] = text
    names = {"trained": algorithm, "initial": f"{algorithm}: initial policy"}
    return [Line(names.get(agent, agent), str(seed), scores) for agent, scores in agents.items()] or [
        Line(algorithm, str(seed), {})
    ]


def _comparison_lines(results: Record) -> list[Line]:
    name = headline_of(metric_of(results))
    ledger = results.get("ledger")
    lines = []
    for algorithm, of in results["algorithms"].items():
        splits = {str(split): score for split, score in of.items() if isinstance(score, dict)} if isinstance(of, dict) else {}
        counts = {str(score["seeds"]) for score in splits.values() if number(score.get("seeds")) is not None}
        seeds = ", ".join(map(str, ledger)) if isinstance(ledger, dict) else f"{max(counts, default=NOTHING)} seeds"
        scores = {
            split: (measure(name, number(score.get(name))), measure_interval(name, _bounds(score, name)))
            for split, score in splits.items()
        }
        lines.append(Line(str(algorithm), seeds, scores))
    return lines


def _bounds(score: Mapping[str, Any], name: str) -> Interval | None:
    bounds = score.get("ci95")
    return interval(bounds.get(name)) if isinstance(bounds, dict) and score.get("seeds") != 1 else None


def _table(entries: Sequence[Entry], splits: Sequence[str]) -> Html:
    cells = [tag("th", tag("button", clip(name), type="button"), scope="col") for name in (*HEAD, *splits)]
    rows = [row for entry in entries for row in _rows(entry, splits)]
    body = tag("table", tag("thead", tag("tr", *cells)), tag("tbody", *rows), class_="runs")
    return tag("div", body, class_="scroll", tabindex="0")


def _rows(entry: Entry, splits: Sequence[str]) -> list[Html]:
    name = clip(entry.place)
    place = f"{quote(entry.place)}/{REPORT}"
    link = Html(f'<a href="{place}">{join([name])}</a>') if entry.has_report else name
    state = f", {entry.state}" if entry.state else ""
    lines = entry.lines or [Line(NOTHING, NOTHING, {})]
    return [
        tag(
            "tr",
            tag("th", link, " ", tag("span", f"{entry.kind}{state}", class_="quiet"), scope="row"),
            *(
                tag("td", tag("span", clip(text)), data_title=title)
                for title, text in zip(HEAD[1:], (line.agent, entry.environment, line.seeds, entry.date), strict=True)
            ),
            *(_score(split, line.scores.get(split)) for split in splits),
        )
        for line in lines
    ]


def _score(split: str, text: tuple[str, str] | None) -> Html:
    value, bounds = text or (NOTHING, NOTHING)
    interval_ = tag("span", bounds if bounds != NOTHING else "", class_="quiet")
    return tag("td", tag("span", value, " ", interval_), data_title=clip(split))


def _object(path: Path, name: str) -> Record:
    if (path / name).is_symlink():
        return {}
    return RunFolder(path.name).read_object(path / name)


def _settings(path: Path) -> dict[str, str]:
    """The top level settings of config.yaml that are one word or number: enough for a table, without running a parser on what is not ours."""
    try:
        text = (
            (path / CONFIG).read_text(encoding="utf-8", errors="replace")[:60_000] if not (path / CONFIG).is_symlink() else ""
        )
    except OSError:
        return {}
    return {name: value.strip("'\"") for name, value in re.findall(r"^(\w+): *(\S+) *$", text, re.MULTILINE)}


def _date(path: Path) -> str:
    names = [RESULTS] if (path / RESULTS).is_file() else [*RUN_FILES, *(p.name for p in path.glob("seed_*"))]
    times = [(path / name).stat().st_mtime for name in names if (path / name).exists()]
    return datetime.fromtimestamp(max(times, default=0.0), UTC).strftime("%Y-%m-%d %H:%M")
