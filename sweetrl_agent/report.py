"""Reports from the files of runs: pages that open from disk and load nothing, an index of many runs, and single charts as files.

    python -m sweetrl_agent.report RUN_OR_COMPARISON [--open]                  writes report.html
    python -m sweetrl_agent.report FOLDER_OF_RUNS [--open]                     writes index.html, a table of all runs below the folder
    python -m sweetrl_agent.report RUN_OR_COMPARISON --watch [--port N]         shows it in the browser while it works; Ctrl-C ends that
    python -m sweetrl_agent.report RUN_OR_COMPARISON --chart NAME --output FILE.svg|FILE.png

Only files are read, so a report can be made at any time, also while the run is in progress or after a crash: a section says so if its file is
missing. Much of the content is written by models, so all text is escaped, and a content security policy allows only the report's own script.
"""

from __future__ import annotations

import argparse
import sys
import webbrowser
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from colbench_gym.errors import ColBenchError
from sandboxes.lists import split_lists
from sandboxes.logs import add_log_level, shown_logs
from sandboxes.programs import program_name, refuse
from sweetrl_agent.config.command_line import exit_status


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    return exit_status(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(split_lists(words, ["algorithms"], ["algorithms"]))
    if (options.output or options.algorithms or options.metric or options.x or options.title) and not options.chart:
        refuse("--output, --algorithms, --metric, --x and --title are for --chart; name a chart, or leave them out.")
    if options.watch and options.chart or options.port is not None and not options.watch:
        refuse("`--port` is for --watch, and --chart is not; leave one of them out.")
    if options.watch:
        return _watch(options)
    from sweetrl_agent.reporting.pages import write_chart_of, write_page  # needs packages; `--help` needs none

    try:
        with shown_logs(options.log_level):
            path = write_chart_of(options.folder, options, _names) if options.chart else write_page(options.folder, _names)
    except (ColBenchError, ValueError, OSError) as error:
        refuse(error)
    print(path)
    if options.open:
        webbrowser.open(path.resolve().as_uri())
    return 0


def _watch(options: argparse.Namespace) -> int:
    """Serve the page of the folder until Ctrl-C."""
    from sweetrl_agent.reporting.watch import make_server

    try:
        server = make_server(options.folder, options.port or 0, _names)
    except ValueError as error:
        refuse(error)
    with server, suppress(KeyboardInterrupt):
        address = f"http://127.0.0.1:{server.server_port}/"
        print(f"{options.folder}: {address} (Ctrl-C ends it)", flush=True)
        if options.open:
            webbrowser.open(address)
        server.serve_forever()
    return 0


def _port(text: str) -> int:
    if not (text.isdecimal() and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"must be from 0 to 65535, got {text[:20]!r}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program_name("sweetrl_agent.report"), description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", type=_path, help="folder of a run, of a comparison, or of many; with --chart also a comparison's results.json"
    )
    parser.add_argument("--open", action="store_true", help="open the page or the chart in the browser")
    parser.add_argument(
        "--watch", action="store_true", help="show the run while it works, on a page that keeps itself up to date"
    )
    parser.add_argument("--port", type=_port, metavar="N", help="port of --watch on 127.0.0.1 (default: a free one)")
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


def _names() -> tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]]:
    from sweetrl_agent.algorithms.critics import CRITICS
    from sweetrl_agent.algorithms.registry import titles
    from sweetrl_agent.evaluation.costs import COLUMNS

    return titles(), {name: kind.title for name, kind in CRITICS.items()}, COLUMNS


def _path(name: str) -> Path:
    if not name.strip():
        refuse("`folder` must be the folder of a run, got nothing; '.' is the current folder.")
    return Path(name)


if __name__ == "__main__":
    raise SystemExit(main())
