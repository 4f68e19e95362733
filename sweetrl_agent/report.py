"""Write the report of a run: one HTML file that opens from disk and loads no resources.

    python -m sweetrl_agent.report RUN_FOLDER [--open]

The report reads only files of the run folder, so it can be made at any time, also while the run is in progress or after a crash:
a section says so if its file is missing. Much of its content is written by models, so all text is escaped, and a content
security policy allows only the report's own script.
"""

from __future__ import annotations

import argparse
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from sandboxes.logs import add_log_level, shown_logs
from sandboxes.programs import program_name
from sweetrl_agent.reporting.run_report import write_report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(prog=program_name("sweetrl_agent.report"), description="Write the report of a run.")
    parser.add_argument("run_folder", type=_folder, help="the folder of the run; report.html is written into it")
    parser.add_argument("--open", action="store_true", help="open the report in the browser")
    add_log_level(parser)
    options = parser.parse_args(arguments)
    try:
        with shown_logs(options.log_level):
            path = write_report(options.run_folder)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(path)
    if options.open:
        webbrowser.open(path.resolve().as_uri())
    return 0


def _folder(name: str) -> Path:
    if not name.strip():
        raise argparse.ArgumentTypeError("expected the folder of a run, got nothing; '.' is the current folder")
    return Path(name)


if __name__ == "__main__":
    raise SystemExit(main())
