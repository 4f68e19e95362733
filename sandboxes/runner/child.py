"""The process of a program, from its runner's side: a fork, three pipes, an end."""

from __future__ import annotations

import os
import select
import signal
import time

from sandboxes.runner.candidate import RESULT_FD
from sandboxes.runner.walls import MAX_OPEN_FILES


class Child:
    """The process of a program, from the runner's side; in the process itself, `pid` is 0.

    Args:
        null: File descriptor of /dev/null, the program's standard input.
        requests: File descriptor on which the host sends requests. When the host goes, so does the runner, program or not.
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
        self._poll = select.poll()
        for fd in (self.result_fd, *self.output_fds):
            self._poll.register(fd, select.POLLIN)
        self._requests = requests
        self._poll.register(requests, 0)  # 0: of interest is only that the other end was closed

    def ready_fds(self, deadline: float) -> list[int]:
        """Wait until something can be read; nothing at the deadline."""
        ready = [fd for fd, _ in self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000.0)]
        if self._requests in ready:
            os._exit(0)  # the kernel kills the program with its runner
        return ready

    def forget(self, fd: int) -> None:
        """Stop waiting for a file descriptor that has ended."""
        self._poll.unregister(fd)

    def end(self) -> tuple[float, float]:
        """Kill the process and all its threads; CPU seconds and peak MiB."""
        os.kill(self.pid, signal.SIGKILL)
        usage = os.wait4(self.pid, 0)[2]
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024.0

    def close(self) -> None:
        """Close the pipes."""
        for fd in (self.result_fd, *self.output_fds):
            os.close(fd)
