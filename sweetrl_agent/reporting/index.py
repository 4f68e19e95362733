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

import yaml

from colbench_gym.errors import ColBenchError
from colbench_gym.files import refuse_links_out, write_text
from sweetrl_agent.reporting.numbers import NOTHING, measure, measure_interval
from sweetrl_agent.reporting.page import page
from sweetrl_agent.reporting.parts import Part
from sweetrl_agent.reporting.run_folder import (
    CONFIG,
    EVALUATION,
    MAX_CONFIG_CHARS,
    METRICS,
    OTHER_RESULTS,
    RESULTS,
    Record,
    RunFolder,
    refuse_changed,
)
from sweetrl_agent.reporting.scores import headline_of, metric_of, scores_of

INDEX, REPORT = "index.html", "report.html"
#: A folder with one of these files is a run or a comparison.
RUN_FILES = (RESULTS, CONFIG, METRICS, EVALUATION)
#: Columns before those of the splits.
HEAD = ("Run", "Algorithm", "Environment", "Seed", "Date")
#: Limits of the search, since a folder may hold anything.
MAX_RUNS, MAX_DEPTH = 2_000, 6
_EXPECTED = "`folder` must be a run, a comparison, or a folder with some below it"


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
        lines: Its agents; a line of dashes before it has results.
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

    @property
    def link(self) -> str:
        """Relative address of its report."""
        return f"{quote(self.place)}/{REPORT}"


def write_index(folder: Path) -> Path:
    """Write index.html to a folder of runs, replacing an older one.

    Returns:
        Path of the index.

    Raises:
        ValueError: If the folder does not exist, or has no run below it.
    """
    if not folder.is_dir():
        raise ValueError(f"{_EXPECTED}; got {str(folder)!r}, which is not a folder.")
    for path in (folder / INDEX, folder / f"{INDEX}.part"):
        if path.is_symlink():
            raise ValueError(f"{str(path)!r} is a symbolic link, so no index is written there; remove it.")
    entries = read_entries(folder)
    if not entries:
        refuse_links_out(folder)  # the more important trouble of a folder that may have been meant as a run
        raise ValueError(f"{_EXPECTED}; {str(folder)!r} has none: no {', '.join(RUN_FILES)} in it or below.")
    splits = list(dict.fromkeys(split for entry in entries for line in entry.lines for split in line.scores))
    text = (
        "Newest first. A row for each algorithm of a comparison, and for the initial and the trained policy of a run. Intervals are 95%, in "
        "percent: over tasks for a run, over seeds and tasks for a comparison. Choose a column's title to sort by it. Dates are UTC."
    )
    content = {"head": (*HEAD, *splits), "splits": splits, "entries": entries}
    runs = Part("runs", "Runs", notes=[text], template="runs.html.jinja", content=content)
    facts = {"runs and comparisons": str(len(entries))}
    write_text(folder / INDEX, page(f"Runs in {folder.resolve().name}", facts, [runs]))
    return folder / INDEX


def read_entries(folder: Path) -> list[Entry]:
    """The runs and comparisons below a folder, newest first; links are not followed."""
    entries = [_entry(path, folder) for path, _ in zip(_run_folders(folder), range(MAX_RUNS), strict=False)]
    return sorted(entries, key=lambda entry: (entry.date, entry.place), reverse=True)


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
    results = {} if (path / RESULTS).is_symlink() else RunFolder(path.name).read_object(path / RESULTS)
    config, state = _settings(seeds[0] if seeds else path), "" if results else "not finished"
    lines = _lines({}, config)
    try:
        refuse_changed(path, [RESULTS])
        config |= results.get("settings", {})
        lines = _lines(results, config)
    except ColBenchError:
        state = f"{RESULTS} has changed"
    except OTHER_RESULTS:
        state = f"{RESULTS} is of another version"
    return Entry(
        path.relative_to(folder).as_posix(), "comparison" if is_comparison(results) or seeds else "run", str(config.get("env", NOTHING)),
        _date(path), lines, (path / REPORT).is_file(), state,
    )  # fmt: skip


def _lines(results: Record, config: Mapping[str, Any]) -> list[Line]:
    name = headline_of(metric_of(results))
    algorithm = str(results.get("algorithm", config.get("algorithm", NOTHING)))
    seeds = ", ".join(results["ledger"]) if results.get("ledger") else str(results.get("seed", config.get("seed", NOTHING)))
    titles = {} if is_comparison(results) else {"trained": algorithm, "initial": f"{algorithm}: initial policy"}
    lines = [
        Line(titles.get(agent, agent), seeds, {split: _score(name, score) for split, score in scores.items()})
        for agent, scores in scores_of(results).items()
    ]
    return lines or [Line(algorithm, seeds, {})]


def _score(name: str, score: Mapping[str, Any]) -> tuple[str, str]:
    """A score and its interval as text; one seed of a comparison has none."""
    bounds = score["ci95"].get(name) if score.get("seeds") != 1 else None
    return measure(name, score[name]), measure_interval(name, bounds) if bounds else ""


def _settings(path: Path) -> Record:
    """The settings in config.yaml that are one word or number, as text; {} if the file is missing, large, or no YAML."""
    try:
        is_read = not (path / CONFIG).is_symlink() and (path / CONFIG).stat().st_size < MAX_CONFIG_CHARS
        settings = yaml.load((path / CONFIG).read_text(encoding="utf-8"), yaml.BaseLoader) if is_read else {}
        return {name: value for name, value in settings.items() if isinstance(value, str)}
    except (OSError, *OTHER_RESULTS, RecursionError, yaml.YAMLError):
        return {}


def _date(path: Path) -> str:
    names = [RESULTS] if (path / RESULTS).is_file() else [*RUN_FILES, *(p.name for p in path.glob("seed_*"))]
    times = [(path / name).stat().st_mtime for name in names if (path / name).exists()]
    return datetime.fromtimestamp(max(times, default=0.0), UTC).strftime("%Y-%m-%d %H:%M")
