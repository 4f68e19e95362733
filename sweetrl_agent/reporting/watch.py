"""The report of a run that works, as a page on the loopback interface that keeps itself up to date.

The files of the run are only read. The page is made again when they have changed, at most every `REMAKE_S` seconds, since the run needs the machine more. Only
GET of the page and of its status is answered, and only to a browser that names this machine as the host: the page of another site cannot read it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from colbench_gym.errors import ColBenchError
from colbench_gym.stage_records import FILE
from sweetrl_agent.reporting.comparison import seed_folders
from sweetrl_agent.reporting.index import read_entries
from sweetrl_agent.reporting.live import live_lines
from sweetrl_agent.reporting.page import page
from sweetrl_agent.reporting.pages import Names, live_page
from sweetrl_agent.reporting.parts import Live, Part
from sweetrl_agent.reporting.run_folder import ADVANTAGES, CONFIG, OTHER_RESULTS, SHOWN, VERSIONS

REMAKE_S = 10.0
LOOPBACK = "127.0.0.1"
_HOSTS = (LOOPBACK, "localhost", "::1")


class Watch:
    """The page of a folder, made when it is asked for and out of date.

    Args:
        folder: Folder of a run, an evaluation or a comparison, which need not exist.
        names: See `reporting.pages.Names`.
        clock: Seconds, for the age of a page.
    """

    def __init__(self, folder: Path, names: Names, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder, self.names, self.clock = folder, names, clock
        self._lock = threading.Lock()
        self._count, self._start = 0, time.time_ns()
        self._seen: object = None
        self._state, self._made, self._version, self._html = "", 0.0, "", ""

    def status(self) -> dict[str, Any]:
        """The version of the page, "" if it is out of date, and the sentences on the progress."""
        with self._lock:
            state, lines = live_lines(self.folder)
            return {"version": self._version if self._is_fresh(state) else "", "lines": lines}

    def html(self) -> str:
        """The page. Where it cannot be made, it says why, and is out of date."""
        with self._lock:
            state, lines = live_lines(self.folder)
            if not self._is_fresh(state):
                self._make(state, lines)
            return self._html

    def _is_fresh(self, state: str) -> bool:
        if not self._version or state != self._state:
            return False
        return self.clock() - self._made < REMAKE_S or self._seen == _snapshot(self.folder)

    def _make(self, state: str, lines: list[str]) -> None:
        self._seen, self._state = (
            _snapshot(self.folder),
            state,
        )  # before the files are read: a change meanwhile is seen the next time
        self._count += 1
        live = Live(lines, f"{self._start}-{self._count}")
        try:
            self._html, self._version = live_page(self.folder, self.names, live), live.version
        except (ColBenchError, OSError, RecursionError, *OTHER_RESULTS) as error:
            text = f"The report cannot be made now; the next refresh tries again. {type(error).__name__}: {error}"
            self._html = page(self.folder.resolve().name, {}, [Part("report", "Report", missing=text)], live=live)
            self._version = ""
        self._made = self.clock()


def _snapshot(folder: Path) -> list[tuple[str, int, int]]:
    """The files that the page shows, with their times and sizes."""
    stamps = []
    for place in (folder, *seed_folders(folder)):
        for path in (*(place / name for name in (*SHOWN, CONFIG, VERSIONS, FILE)), *sorted(place.glob(f"*/{ADVANTAGES}"))):
            try:
                stat = path.stat()
            except OSError:
                continue
            stamps.append((str(path), stat.st_mtime_ns, stat.st_size))
    return stamps


class _Handler(BaseHTTPRequestHandler):
    """Answers GET of the page and of its status; everything else is 404."""

    timeout = 10  # seconds, for a client that does not finish its request

    def __init__(self, watched: Watch, *args: Any) -> None:
        self.watched = watched
        super().__init__(*args)

    def do_GET(self) -> None:
        if not _is_loopback(self.headers.get("Host", "")):
            self._say(403, "text/plain", "This page is for browsers of this machine: open it by http://127.0.0.1.")
        elif self.path == "/":
            self._say(200, "text/html", self.watched.html())
        elif self.path == "/status.json":
            self._say(200, "application/json", json.dumps(self.watched.status()))
        else:
            self._refuse()

    def _refuse(self) -> None:
        self._say(404, "text/plain", "Not found.")

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse

    def _say(self, status: int, kind: str, text: str) -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"), ("X-Frame-Options", "DENY")):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is for the address."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a browser that goes away is no error."""


def _is_loopback(host: str) -> bool:
    try:
        return urlsplit(f"//{host}").hostname in _HOSTS
    except ValueError:
        return False


def make_server(folder: Path, port: int, names: Names) -> ThreadingHTTPServer:
    """A server of the page of a folder, on the loopback interface.

    Args:
        folder: As in `Watch`.
        port: Port to listen at; 0 for a free one.
        names: As in `Watch`.

    Raises:
        ValueError: If the folder has several runs, or the port is taken.
    """
    if folder.is_dir() and not seed_folders(folder) and not (folder / FILE).exists() and (runs := read_entries(folder)):
        raise ValueError(
            f"`--watch` takes one run or comparison, and {str(folder)!r} has {len(runs)}, such as {runs[0].place!r}: name one."
        )
    try:
        return _Server((LOOPBACK, port), partial(_Handler, Watch(folder, names)))
    except OSError as error:
        raise ValueError(f"`--port` must be a free port, got {port}: {error.strerror}.") from None
