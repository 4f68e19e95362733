"""Progress of a command on standard error, without further packages."""

from __future__ import annotations

import logging
import time
from typing import TextIO

REPORT_EVERY_S = 5.0


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
        now = time.monotonic()
        is_quiet = logging.getLogger("colbench_gym").level > logging.INFO
        if is_quiet or (done < self._total and now - self._last < self._every_s):
            return
        self._last = now
        rate = (done - self._before) / max(now - self._start, 1e-9)
        left = (
            f", {(self._total - done) / rate:.0f} s left" if rate and done < self._total else f" in {now - self._start:.1f} s"
        )
        shown = f"{rate:.0f}" if rate >= 1 else f"{rate:.2f}"
        text = f"{self._done_word} {done} of {self._total} {self._unit}, {shown} {self._unit}/s{left}"
        self._stream.write(f"\r{text}\x1b[K" + ("\n" if done == self._total else "") if self._stream.isatty() else text + "\n")
        self._stream.flush()
