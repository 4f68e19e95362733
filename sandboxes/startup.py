"""How the process of a command starts, and how it ends when its user or its reader leaves. Nothing changes where the packages are imported as libraries.

A command is `python -m PACKAGE.MODULE` or one of the console scripts. This module is the first that the packages import, so its rules hold
while the others are imported. It imports only modules that the interpreter already has.

* `-OO` and `PYTHONOPTIMIZE=2` are refused: Transformers, the help texts and the list of environments read docstrings.
* Ctrl-C ends the process with status 130 and no traceback. During an import it ends at once: a half-imported module may turn the exception
  into another one. At any other time it is a `KeyboardInterrupt`, which the command handles.
* A standard stream that is closed (`<&- >&-`) is opened on the null device; otherwise the next file that is opened would get its number.
* If the reader of a pipe or socket has left (`| head`), the command ends quietly with status 141, as if SIGPIPE had ended it. SIGPIPE itself
  stays ignored: it would also end the process for a server or a runner that has left.
"""

from __future__ import annotations

import _thread
import atexit
import errno
import io
import os
import stat
import sys

TYPE_CHECKING = False  # as in `typing`
if TYPE_CHECKING:
    import signal
    from types import FrameType, TracebackType
    from typing import Any
else:
    import _signal as signal  # `signal` itself imports `enum`

INTERRUPTED, READER_LEFT, OUTPUT_LOST = 130, 141, 1
_LOST = "error: the output cannot be written: {}"
_PACKAGES = ("sandboxes", "colbench_gym", "sweetrl_agent")
_SCRIPTS = ("colbench-", "sweetrl-")
_MAIN_THREAD = _thread.get_ident()


def is_command() -> bool:
    """Whether this process was started as a command of the packages and is now importing them."""
    started = sys.argv[0] if sys.argv else ""
    if started == "-m":  # until the module is found
        return any(word.removeprefix("-m").split(".")[0] in _PACKAGES for word in sys.orig_argv[1:])
    return os.path.basename(started).startswith(_SCRIPTS)


def prepare() -> None:
    """Apply the rules of this module to this process."""
    if sys.flags.optimize > 1:
        sys.exit("error: the commands read docstrings, which -OO and PYTHONOPTIMIZE=2 remove; use -O at most")
    sys.excepthook = _excepthook
    if (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):  # not where a shell has started the command in the background
        signal.signal(signal.SIGINT, _interrupt)
    _open_closed_streams()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            setattr(sys, name, ending_with_reader(stream))
    atexit.register(_flush)  # registered first, so it runs last


def _interrupt(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


def _excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        raise SystemExit(INTERRUPTED)
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
        print(_LOST.format(error.strerror), file=sys.stderr)
        raise SystemExit(OUTPUT_LOST)
    sys.__excepthook__(kind, error, traceback)


def _open_closed_streams() -> None:
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


class _Pipe(io.FileIO):
    """A pipe or socket that ends the process where it has no reader."""

    def write(self, data: Any, /) -> int:
        """Write bytes; those of other threads are dropped where the reader has left.

        Raises:
            SystemExit: If the reader has left.
        """
        try:
            return super().write(data)
        except (BrokenPipeError, ConnectionResetError):
            if _thread.get_ident() == _MAIN_THREAD:
                raise SystemExit(READER_LEFT) from None
            return memoryview(data).nbytes


def ending_with_reader(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """The same text stream; on a pipe or socket, a write raises `SystemExit` where the reader has left."""
    mode = os.fstat(stream.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(_Pipe(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _flush() -> None:
    """Write what is left; the interpreter itself would report an error of this as an ignored exception."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit:
        os._exit(READER_LEFT)
    except OSError as error:
        print(_LOST.format(error.strerror), file=sys.stderr, flush=True)
        os._exit(OUTPUT_LOST)


if is_command():
    prepare()
