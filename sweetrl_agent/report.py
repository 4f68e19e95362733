"""Reports from the files of runs: pages that open from disk and load nothing, an index of many runs, and single charts as files.

    python -m sweetrl_agent.report RUN_OR_COMPARISON [--open]                  writes report.html
    python -m sweetrl_agent.report FOLDER_OF_RUNS [--open]                     writes index.html, a table of all runs below the folder
    python -m sweetrl_agent.report RUN_OR_COMPARISON --chart NAME --output FILE.svg|FILE.png

Only files are read, so a report can be made at any time, also while the run is in progress or after a crash: a section says so if its file is
missing. Much of the content is written by models, so all text is escaped, and a content security policy allows only the report's own script.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from sandboxes.lists import split_lists
from sandboxes.logs import add_log_level, shown_logs
from sandboxes.programs import CommandParser, program_name, refuse
from sandboxes.sandbox import SandboxError
from sweetrl_agent.data.files import read_object, refuse_links_out
from sweetrl_agent.reporting.chart_file import chosen, comparison_chart_names, run_chart_names, write_chart
from sweetrl_agent.reporting.comparison import seed_folders, write_comparison
from sweetrl_agent.reporting.index import RUN_FILES, is_comparison, write_index
from sweetrl_agent.reporting.run_folder import RESULTS, refuse_changed
from sweetrl_agent.reporting.run_report import write_report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(split_lists(words, ["algorithms"], ["algorithms"]))
    if (options.output or options.algorithms or options.metric or options.x or options.title) and not options.chart:
        refuse("--output, --algorithms, --metric, --x and --title are for --chart; name a chart, or leave them out.")
    try:
        with shown_logs(options.log_level):
            path = _draw(options) if options.chart else _write(options.folder)
    except (ColBenchError, SandboxError, ValueError, OSError) as error:
        refuse(error)
    print(path)
    if options.open:
        webbrowser.open(path.resolve().as_uri())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog=program_name("sweetrl_agent.report"), description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", type=_path, help="folder of a run, of a comparison, or of many; with --chart also a comparison's results.json"
    )
    parser.add_argument("--open", action="store_true", help="open the page or the chart in the browser")
    parser.add_argument(
        "--chart",
        metavar="NAME",
        help="write this chart alone: scores, paired, curves, best_of_n, ...; an unknown name lists all",
    )
    parser.add_argument(
        "--output", type=_path, metavar="FILE", help="file of the chart, .svg or .png (default: charts/NAME.svg in the folder)"
    )
    parser.add_argument(
        "--algorithms", nargs="+", default=[], metavar="NAME", help="algorithms to show, in this order (default: all)"
    )
    parser.add_argument("--metric", default="", help="metric of learning curves (default: the first)")
    parser.add_argument(
        "--x", default="", help="axis of learning curves: step, episodes, environment_turns, generated_tokens, seconds, ..."
    )
    parser.add_argument("--title", default="", help="title of the chart")
    add_log_level(parser)
    return parser


def _write(folder: Path) -> Path:
    """The page of a folder: a report if it is a run or a comparison, else an index of those below it."""
    _refuse_changed(folder)
    if _is_comparison(folder):
        from sweetrl_agent.evaluation.costs import COLUMNS

        with _refusing_others(folder):
            return write_comparison(folder, *_titles(), COLUMNS, bool(read_object(folder / RESULTS).get("against")))
    is_run = any((folder / name).is_file() for name in RUN_FILES)
    return write_report(folder) if is_run else write_index(folder)


def _draw(options: Any) -> Path:
    source: Path = options.folder
    if source.is_dir():
        refuse_links_out(source)
        _refuse_changed(source)
    if _is_comparison(source):
        with _refusing_others(source):
            charts = comparison_chart_names(source, *_titles(), options.algorithms)
    elif options.algorithms:
        raise ValueError(f"`algorithms` are chosen from a comparison, and {str(source)!r} is none.")
    else:
        charts = run_chart_names(source)
    chart = chosen(charts, options.chart, options.title, options.metric, options.x)
    beside = source if source.is_dir() else source.parent
    return write_chart(chart, options.output or beside / "charts" / f"{options.chart}.svg")


def _refuse_changed(folder: Path) -> None:
    """Refuse files that are not as the run, or a seed of the comparison, wrote them."""
    for one in (folder, *seed_folders(folder)):
        refuse_changed(one)


def _is_comparison(source: Path) -> bool:
    path = source / RESULTS if source.is_dir() else source
    try:
        found = path.is_file() and is_comparison(read_object(path))
    except ColBenchError:  # a run's report says what is broken
        return False
    return found and (source.is_file() or bool(seed_folders(source)))


@contextlib.contextmanager
def _refusing_others(source: Path) -> Iterator[None]:
    """Files may come from anywhere: results that lack something are refused by one sentence."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"{source}: expected the results of a comparison of this version, got others ({type(error).__name__}: {error}); run it again."
        ) from error


def _titles() -> tuple[dict[str, str], dict[str, str]]:
    """Titles of algorithms and of critics."""
    from sweetrl_agent.algorithms.critics import CRITICS
    from sweetrl_agent.algorithms.registry import titles

    return titles(), {name: kind.title for name, kind in CRITICS.items()}


def _path(name: str) -> Path:
    if not name.strip():
        refuse("`folder` must be the folder of a run, got nothing; '.' is the current folder.")
    return Path(name)


if __name__ == "__main__":
    raise SystemExit(main())
