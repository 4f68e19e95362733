"""The process of a program, as seen by its runner: a fork, a socket for its results, two pipes for its output, and its end."""

from __future__ import annotations

import ctypes
import os
import select
import time

from sandboxes.runner.program import RESULT_FD
from sandboxes.runner.walls import MAX_OPEN_FILES

TYPE_CHECKING = False  # see `sandboxes.frames`
if TYPE_CHECKING:
    from sandboxes.runner.buffers import Buffer

_SIGKILL = 9
_AF_UNIX = _SOCK_STREAM = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _socket_pair() -> tuple[int, int]:
    """Two connected sockets, one to read from and one to write to.

    A program can open a pipe of its own again through /proc, read its own frames, and so take them from the runner. The kernel opens
    no socket by a path.
    """
    ends = (ctypes.c_int * 2)()
    if _libc.socketpair(_AF_UNIX, _SOCK_STREAM, 0, ends) < 0:
        raise OSError(ctypes.get_errno(), f"socketpair failed: {os.strerror(ctypes.get_errno())}")
    return ends[0], ends[1]


class Child:
    """The process of a program, as seen by its runner. In the process itself, `pid` is 0.

    Args:
        null: File descriptor of /dev/null, the program's standard input.
        requests: File descriptor on which the host sends requests. If the host closes it, the runner ends, even while a program runs.

    Attributes:
        pid: Its process id.
        has_ended: True if it has closed its end of the socket, as at its end. No further result can come.
    """

    def __init__(self, null: int, requests: int) -> None:
        pipes = [_socket_pair(), os.pipe(), os.pipe()]
        self.pid = os.fork()
        if self.pid == 0:
            # All sources are above 3: `main` keeps 0 to 3 taken.
            for target, fd in enumerate((null, pipes[1][1], pipes[2][1], pipes[0][1])):
                os.dup2(fd, target)
            os.closerange(RESULT_FD + 1, MAX_OPEN_FILES)
            return
        for _, write_end in pipes:
            os.close(write_end)
        self.result_fd, *self.output_fds = (read_end for read_end, _ in pipes)
        os.set_blocking(self.result_fd, False)
        self.has_ended = False
        self._requests = requests
        self._poll = select.poll()
        # At first only wait for the end of the process (event mask 0). Most programs run for a millisecond, and a wake-up for each
        # result would take longer than to compute the results.
        for fd, events in ((self.result_fd, 0), (requests, 0), *((fd, select.POLLIN) for fd in self.output_fds)):
            self._poll.register(fd, events)

    def wait(self, until: float) -> list[int]:
        """Wait for the end of the process, for output or, at the latest, until a time of `time.monotonic`.

        Returns:
            The file descriptors with output.
        """
        printed = []
        for fd, events in self._poll.poll(max(0.0, until - time.monotonic()) * 1000.0):
            if fd == self._requests:
                os._exit(0)  # the kernel kills the program with its runner
            elif fd == self.result_fd:
                self.has_ended |= bool(events & select.POLLHUP)
            elif events & select.POLLIN:
                printed.append(fd)
            else:
                self._poll.unregister(fd)
        return printed

    def read_results(self, buffer: Buffer) -> bool:
        """Append data from the socket to the buffer; False if there is none."""
        try:
            count = buffer.read_from(self.result_fd, buffer.room)
        except BlockingIOError:
            return False
        self.has_ended |= not count
        return bool(count)

    def expect_more(self, is_expected: bool) -> None:
        """Wake up for the rest of a partially received result, which may be longer than the socket's buffer."""
        self._poll.modify(self.result_fd, select.POLLIN if is_expected else 0)

    def kill(self) -> tuple[float, float]:
        """Kill the process and all its threads. Returns CPU seconds and peak MiB."""
        os.kill(self.pid, _SIGKILL)
        usage = os.wait4(self.pid, 0)[2]
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024.0

    def close(self) -> None:
        """Close the runner's ends."""
        for fd in (self.result_fd, *self.output_fds):
            os.close(fd)
