"""Byte channels between the host and one runner: pipes to a local process. `sandboxes.containers` has the socket to a container."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

_CHUNK_BYTES = 1 << 16  # a larger buffer would need a memory mapping for every read
MAX_ERROR_CHARS = 2000
_WRAPPER_ENDS_S = 2.0


class RunnerError(Exception):
    """A runner did not start, died, hung or broke the protocol. The caller replaces it."""


class Channel(ABC):
    """Both directions of the communication with one runner. Deadlines are times of `time.monotonic`, in seconds."""

    def _watch(self, writable: int, readable: int) -> None:
        """Set the file descriptors to write to and to read from, and make them non-blocking."""
        self._write_fd, self._read_fd = writable, readable
        self._writable, self._readable = select.poll(), select.poll()
        self._writable.register(writable, select.POLLOUT)
        self._readable.register(readable, select.POLLIN)
        for fd in (writable, readable):
            os.set_blocking(fd, False)

    def send(self, data: bytes, deadline: float) -> None:
        """Send all bytes.

        Raises:
            RunnerError: If the runner has ended, or does not read until the deadline.
        """
        view = memoryview(data)
        while view:
            if not self._writable.poll(_milliseconds_until(deadline)):
                raise RunnerError("It does not read.")
            try:
                view = view[os.write(self._write_fd, view) :]
            except BlockingIOError:
                continue
            except OSError:
                raise RunnerError("It has ended.") from None

    def receive(self, deadline: float) -> bytes:
        """Wait for bytes and return those available, at least one.

        Raises:
            RunnerError: If the runner has ended, or sends nothing until the deadline.
        """
        while True:
            if not self._readable.poll(_milliseconds_until(deadline)):
                raise RunnerError("It does not answer.")
            try:
                chunk = os.read(self._read_fd, _CHUNK_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                chunk = b""
            if not chunk:
                raise RunnerError("It has ended.")
            return chunk

    @abstractmethod
    def last_words(self) -> str:
        """The end of the runner's standard error, for the message of a startup error."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the runner and all its programs. Waiting callers get `RunnerError`. Thread-safe; a second call does nothing."""

    @abstractmethod
    def close(self) -> None:
        """Kill the runner and free its resources. A second call does nothing."""

    @abstractmethod
    def abandon(self) -> None:
        """Release the channel in a forked copy of the host, which does not own it."""


class PipeChannel(Channel):
    """Pipes to a process on this machine.

    Start it from a thread that outlives it: the kernel kills the process when that thread ends, so it never outlives the host.

    Args:
        command: The process to start.
        environment: The complete environment of the process.
        is_wrapped: True if the process is a wrapper, which starts the runner and waits for it.

    Raises:
        OSError: If the command cannot be started.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], is_wrapped: bool = False) -> None:
        self._is_wrapped, self._is_killed = is_wrapped, False
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            bufsize=0,
            start_new_session=True,  # the terminal's Ctrl-C is for the host
        )
        assert self._process.stdin is not None and self._process.stdout is not None and self._process.stderr is not None
        self._stdin, self._stdout, self._stderr = self._process.stdin, self._process.stdout, self._process.stderr
        self._watch(self._stdin.fileno(), self._stdout.fileno())
        os.set_blocking(self._stderr.fileno(), False)

    def last_words(self) -> str:
        """See `Channel.last_words`. Without waiting: a process that it started may still hold the other end."""
        return (self._stderr.read() or b"").decode("utf-8", "replace")[-MAX_ERROR_CHARS:].strip()

    @property
    def pid(self) -> int:
        """Process id of the runner, or of the wrapper around it."""
        return self._process.pid

    def kill(self) -> None:
        """See `Channel.kill`."""
        if self._is_killed:
            return
        self._is_killed = True
        # Kill the children of a wrapper first. The wrapper then reaps them and leaves nothing to process 1, which may not reap.
        for pid in (self._is_wrapped and self._inner_processes()) or [self._process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            self._process.wait(_WRAPPER_ENDS_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """See `Channel.close`."""
        self.kill()
        self._close_pipes()

    def _inner_processes(self) -> list[int]:
        pid = self._process.pid
        try:
            return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        except OSError:  # it has ended, or this kernel does not list children
            return []

    def abandon(self) -> None:
        """See `Channel.abandon`."""
        self._is_killed, self._process.returncode = (
            True,
            0,
        )  # else subprocess would warn about, and wait for, a process of the parent
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self._stdin, self._stdout, self._stderr):
            pipe.close()


def _milliseconds_until(deadline: float) -> float:
    """Time left for a poll."""
    return max(0.0, deadline - time.monotonic()) * 1000.0
