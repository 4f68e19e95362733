"""The bytes between the host and one runner: pipes to a process here; `sandboxes.containers` has the socket to a container."""

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

_CHUNK_BYTES = 1 << 16  # more would be a mapping of its own for every read
MAX_ERROR_CHARS = 2000
_WRAPPER_ENDS_S = 2.0


class RunnerError(Exception):
    """A runner did not start, died, hung or broke the protocol. Its user replaces it."""


class Channel(ABC):
    """Both directions of the talk with one runner. Deadlines are on the clock of `time.monotonic`, in seconds."""

    def _watch(self, writable: int, readable: int) -> None:
        """Take the file descriptors that bytes go to and come from; they do not block from now on."""
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
        """Wait for bytes and return those that are there, at least one.

        Raises:
            RunnerError: If the runner has ended, or says nothing until the deadline.
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
        """The end of what the runner wrote on standard error, for the message of an error at its start."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the runner and all its programs; whoever waits for it gets `RunnerError`. Safe from any thread; a second call does nothing."""

    @abstractmethod
    def close(self) -> None:
        """Kill it and free what it held. A second call does nothing."""

    @abstractmethod
    def abandon(self) -> None:
        """Let go of it in a forked copy of the host, to which it does not belong."""


class PipeChannel(Channel):
    """Pipes to a process of this machine.

    Start it from a thread that outlives it: the kernel kills it when that thread ends, so that it never outlives the host.

    Args:
        command: The process to start.
        environment: All that it sees of the environment.
        is_wrapped: Whether it is a wrapper, which starts the runner and waits for it.

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
        # What a wrapper has started goes first: so the wrapper reaps it, and leaves nothing to process 1, which may not reap.
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
        except OSError:  # it has ended, or this kernel does not tell
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
