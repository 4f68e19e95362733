"""The process of a program, as seen by its runner: a fork, three pipes, and its end."""

from __future__ import annotations

import os
import select
import time

from sandboxes.runner.candidate import RESULT_FD
from sandboxes.runner.walls import MAX_OPEN_FILES

TYPE_CHECKING = False  # see `sandboxes.frames`
if TYPE_CHECKING:
    from sandboxes.runner.buffers import Buffer

_SIGKILL = 9


class Child:
    """The process of a program, as seen by its runner. In the process itself, `pid` is 0.

    Args:
        null: File descriptor of /dev/null, the program's standard input.
        requests: File descriptor on which the host sends requests. If the host closes it, the runner ends, even while a program runs.
    """

    def __init__(self, null: int, requests: int) -> None:
        pipes = [os.pipe() for _ in range(3)]
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
        self._requests = requests
        self._poll = select.poll()
        # At first only wait for the end of the process (event mask 0). Most programs run for a millisecond, and a wake-up for each
        # result would take longer than to compute the results.
        for fd, events in ((self.result_fd, 0), (requests, 0), *((fd, select.POLLIN) for fd in self.output_fds)):
            self._poll.register(fd, events)

    def wait(self, until: float) -> tuple[bool, list[int]]:
        """Wait for the end of the process, for output or, at the latest, until a time of `time.monotonic`.

        Returns:
            Whether the process has ended, and the file descriptors with output.
        """
        has_ended, printed = False, []
        for fd, events in self._poll.poll(max(0.0, until - time.monotonic()) * 1000.0):
            if fd == self._requests:
                os._exit(0)  # the kernel kills the program with its runner
            elif fd == self.result_fd:
                has_ended = not events & select.POLLIN
            elif events & select.POLLIN:
                printed.append(fd)
            else:
                self._poll.unregister(fd)
        return has_ended, printed

    def read_results(self, buffer: Buffer) -> bool:
        """Append data from the result pipe to the buffer; False if there is none."""
        try:
            return bool(buffer.read_from(self.result_fd, buffer.room))
        except BlockingIOError:
            return False

    def expect_more(self, is_expected: bool) -> None:
        """Wake up for the rest of a partially received result: a pipe holds 64 KiB, and a result may be longer."""
        self._poll.modify(self.result_fd, select.POLLIN if is_expected else 0)

    def end(self) -> tuple[float, float]:
        """Kill the process and all its threads. Returns CPU seconds and peak MiB."""
        os.kill(self.pid, _SIGKILL)
        usage = os.wait4(self.pid, 0)[2]
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024.0

    def close(self) -> None:
        """Close the pipes."""
        for fd in (self.result_fd, *self.output_fds):
            os.close(fd)
