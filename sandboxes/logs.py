"""What the commands show of `logging`: a handler on our own loggers, never on the root logger.

Imported as libraries, the packages configure no logging. A command, and `run_train` from Python where nobody has configured logging, shows
the messages of its packages for as long as it runs.
"""

from __future__ import annotations

import argparse
import logging
import os
import stat
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

#: Names of the levels of `--log_level`, from the one that shows most.
LEVELS = ("debug", "info", "warning", "error")
#: The loggers of the three packages.
PACKAGES = ("sandboxes", "colbench_gym", "sweetrl_agent")


def add_log_level(parser: argparse.ArgumentParser) -> None:
    """Add `--log_level` to a command."""
    parser.add_argument(
        "--log_level", "--log-level", choices=LEVELS, default="info", help="least level of the messages (default: %(default)s)"
    )


class _Lines(logging.Formatter):
    """A message as plain text; with its level from warnings on, with its logger for debugging, and with the time in a file."""

    def __init__(self, has_times: bool) -> None:
        super().__init__()
        self._has_times = has_times

    def format(self, record: logging.LogRecord) -> str:
        text = visible(super().format(record))
        if record.levelno != logging.INFO:
            text = f"{record.levelname.lower() if record.levelno > logging.INFO else record.name}: {text}"
        return f"{self.formatTime(record, '%Y-%m-%d %H:%M:%S')} {text}" if self._has_times else text


@contextmanager
def shown_logs(level: str, stream: str | TextIO = "stdout", always: bool = True) -> Iterator[None]:
    """Show the messages of our packages while the block runs.

    Args:
        level: A name from `LEVELS`.
        stream: "stdout", "stderr" or an open stream. In a file, each message has its time.
        always: False leaves everything as it is where the caller has configured logging already.
    """
    if not always and is_configured():
        yield
        return
    loggers = [logging.getLogger(name) for name in PACKAGES]
    before = [logger.level for logger in loggers]
    screen: TextIO = getattr(sys, stream) if isinstance(stream, str) else stream
    handler = logging.StreamHandler(screen)
    handler.setFormatter(_Lines(_is_file(screen)))
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(level.upper())
    try:
        yield
    finally:
        for logger, old in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(old)


def is_configured(names: Sequence[str] = PACKAGES) -> bool:
    """Whether the root logger or a logger of ours has a handler that does something."""
    loggers = [logging.getLogger(), *map(logging.getLogger, names)]
    return any(not isinstance(handler, logging.NullHandler) for logger in loggers for handler in logger.handlers)


def _is_file(stream: TextIO) -> bool:
    with suppress(OSError, ValueError, AttributeError):
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    return False


def visible(text: str) -> str:
    r"""Messages may quote servers and programs: characters that a terminal would obey are escaped, as in ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(
        c if c in "\n\t" or c.isprintable() or unicodedata.category(c) == "Zs" else c.encode("unicode_escape").decode()
        for c in text
    )
