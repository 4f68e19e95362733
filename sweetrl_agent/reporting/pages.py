"""The page or the chart that belongs to a folder: of a run, of a comparison, or of many."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from colbench_gym.files import read_object, refuse_links_out
from sweetrl_agent.reporting.chart_file import chosen, comparison_chart_names, run_chart_names, write_chart
from sweetrl_agent.reporting.comparison import comparison_page, seed_folders, unfinished_page, write_comparison
from sweetrl_agent.reporting.index import RUN_FILES, is_comparison, write_index
from sweetrl_agent.reporting.page import page
from sweetrl_agent.reporting.parts import Live
from sweetrl_agent.reporting.run_folder import RESULTS, refuse_changed
from sweetrl_agent.reporting.run_report import report_page, write_report

#: Gives the titles of algorithms and of critics by name, and the columns of the table of costs; called for comparisons alone, since it imports torch.
Names = Callable[[], tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]]]


def write_page(folder: Path, names: Names) -> Path:
    """Write the page of a folder: a report if it is a run or a comparison, else an index of those below it.

    Args:
        folder: The folder.
        names: See `Names`.

    Returns:
        Path of the page.

    Raises:
        ColBenchError, ValueError: If its files were changed, or are not of this version.
    """
    _refuse_changed(folder)
    if _is_comparison(folder):
        with _refusing_others(folder):
            return write_comparison(folder, *names(), bool(read_object(folder / RESULTS).get("against")))
    is_run = any((folder / name).is_file() for name in RUN_FILES)
    return write_report(folder) if is_run else write_index(folder)


def live_page(folder: Path, names: Names, live: Live) -> str:
    """The page of a run, an evaluation or a comparison that is watched; nothing is written.

    Args:
        folder: The folder, which need not exist.
        names: See `Names`.
        live: The part above the report.

    Raises:
        ColBenchError, ValueError: As `write_page`.
    """
    _refuse_changed(folder)
    if _is_comparison(folder):
        with _refusing_others(folder):
            return comparison_page(folder, *names(), bool(read_object(folder / RESULTS).get("against")), live)
    if seed_folders(folder):
        return unfinished_page(folder, live)
    is_run = any((folder / name).is_file() for name in RUN_FILES)
    return report_page(folder, live) if is_run else page(folder.resolve().name, {}, [], live=live)


def write_chart_of(source: Path, options: Any, names: Names) -> Path:
    """Write one chart of a run or of a comparison.

    Args:
        source: The folder, or a comparison's results.json.
        options: Options of the command line: `chart`, `output`, `algorithms`, `title`, `metric` and `x`.
        names: See `Names`.

    Returns:
        Path of the chart.

    Raises:
        ColBenchError, ValueError: If its files were changed or are not of this version, or there is no such chart.
    """
    if source.is_dir():
        refuse_links_out(source)
        _refuse_changed(source)
    if _is_comparison(source):
        with _refusing_others(source):
            charts = comparison_chart_names(source, *names()[:2], options.algorithms)
    elif options.algorithms:
        raise ValueError(f"`algorithms` are chosen from a comparison, and {str(source)!r} is none.")
    else:
        charts = run_chart_names(source)
    chart = chosen(charts, options.chart, options.title, options.metric, options.x)
    beside = source if source.is_dir() else source.parent
    return write_chart(chart, options.output or beside / "charts" / f"{options.chart}.svg")


def _refuse_changed(folder: Path) -> None:
    """Refuse files that are not as the run, or a seed of the comparison, wrote them."""
    for checked in (folder, *seed_folders(folder)):
        refuse_changed(checked)


def _is_comparison(source: Path) -> bool:
    path = source / RESULTS if source.is_dir() else source
    try:
        has_results = path.is_file() and is_comparison(read_object(path))
    except ColBenchError:  # a run's report says what is broken
        return False
    return has_results and (source.is_file() or bool(seed_folders(source)))


@contextlib.contextmanager
def _refusing_others(source: Path) -> Iterator[None]:
    """Files may come from anywhere: results that lack something are refused by one sentence."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"{source}: expected the results of a comparison of this version, got others ({type(error).__name__}: {error}); run it again."
        ) from error
