"""Progress of a command: on standard error, and for `python -m sweetrl_agent.report --watch` in `progress.json` of its folder, while it works there."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from colbench_gym.files import write_json

PROGRESS = "progress.json"
REPORT_EVERY_S, WRITE_EVERY_S = 5.0, 2.0
#: Share of the items after which the rest of the time is estimated. Dialogues that are played at once end together, so the first say little.
LEAST_KNOWN = 0.25


class _File:
    """The file of this process; no file outside of a command that has one."""

    path: Path | None = None
    content: dict[str, Any]
    written: float

    @classmethod
    def write(cls) -> None:
        if cls.path is not None:
            cls.written = time.monotonic()
            with suppress(OSError):  # a run does not end for it
                write_json(cls.path, cls.content)


@contextmanager
def progress_file(folder: Path) -> Iterator[None]:
    """Keep `progress.json` in a folder for as long as the block runs. After an error it stays, and has the "error"."""
    before, _File.path, _File.content, _File.written = _File.path, folder / PROGRESS, {}, 0.0
    try:
        yield
    except BaseException as error:
        _File.content["error"] = str(error)[:2000] or type(error).__name__
        _File.write()
        raise
    else:
        (folder / PROGRESS).unlink(missing_ok=True)
    finally:
        _File.path = before


def tell_stage(stage: str, place: str = "") -> None:
    """Write that a stage begins; `place` is its place among the stages, such as "2 of 5"."""
    _File.content = {"stage": stage, "place": place, "since": time.time()}
    _File.write()


def tell_progress(**values: Any) -> None:
    """Note how far the stage is, and write it every few seconds: "what", "done", "total" and "unit", or "step" and "metrics"."""
    if _File.path is not None:
        _File.content |= values
        if time.monotonic() - _File.written >= WRITE_EVERY_S:
            _File.write()


class Progress:
    """Shows how many items are done: in place on a terminal, else as a line every few seconds.

    Args:
        total: Number of items.
        stream: Where to write.
        done_word: What happened to an item, such as "graded".
        unit: Name of the items.
        done: Items that were done before; the rate does not count them.
    """

    def __init__(self, total: int, stream: TextIO, done_word: str, unit: str, done: int = 0) -> None:
        self._total, self._stream, self._done_word, self._unit, self._before = total, stream, done_word, unit, done
        self._start = self._last = time.monotonic()
        self._every_s = 0.2 if stream.isatty() else REPORT_EVERY_S

    def show(self, done: int) -> None:
        """Report the number of items done so far, at most every few seconds, and at the end; nothing above the log level info."""
        tell_progress(what=self._done_word.rstrip(":"), done=done, total=self._total, unit=self._unit)
        now = time.monotonic()
        is_quiet = logging.getLogger("colbench_gym").level > logging.INFO
        if is_quiet or (done < self._total and now - self._last < self._every_s):
            return
        self._last = now
        rate = (done - self._before) / max(now - self._start, 1e-9)
        shown = f"{rate:.0f}" if rate >= 1 else f"{rate:.2f}"
        text = f"{self._done_word} {done} of {self._total} {self._unit}, {shown} {self._unit}/s"
        if done == self._total:
            text += f" in {now - self._start:.1f} s"
        elif rate and done - self._before >= LEAST_KNOWN * (self._total - self._before):
            text += f", {(self._total - done) / rate:.0f} s left"
        self._stream.write(f"\r{text}\x1b[K" + ("\n" if done == self._total else "") if self._stream.isatty() else text + "\n")
        self._stream.flush()
