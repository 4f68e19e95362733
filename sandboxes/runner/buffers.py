"""Buffers for programs, values and output in the runner, which can be wiped.

Data is only copied between memoryviews: an intermediate `bytes` object would leave its contents in freed memory.
"""

from __future__ import annotations

import os

from sandboxes import frames

_OUTBOX_BYTES = 1 << 16


class Buffer:
    """A block of memory that is filled from the front."""

    def __init__(self, size: int) -> None:
        self._memory = memoryview(bytearray(size))
        self.used = 0

    @property
    def room(self) -> int:
        """Number of bytes that still fit."""
        return len(self._memory) - self.used

    def hold(self, size: int) -> None:
        """Grow to at least `size` bytes. The buffer is small before that, because its size adds to the cost of every fork."""
        if len(self._memory) < size:
            smaller, self._memory = self._memory, memoryview(bytearray(size))
            self._memory[: self.used] = smaller[: self.used]
            smaller[: self.used] = bytes(self.used)

    def view(self, start: int = 0, stop: int | None = None) -> memoryview:
        """A view of the filled part, without a copy."""
        return self._memory[start : self.used if stop is None else stop]

    def discard(self, count: int) -> None:
        """Drop `count` bytes at the front, and wipe the memory that becomes free."""
        rest = self.used - count
        self._memory[:rest] = self._memory[count : self.used]
        self._memory[rest : self.used] = bytes(count)
        self.used = rest

    def append(self, data: bytes | memoryview) -> None:
        """Append bytes, which must fit."""
        self._memory[self.used : self.used + len(data)] = data
        self.used += len(data)

    def read_from(self, fd: int, count: int) -> int:
        """Read up to `count` bytes from a file descriptor, once; 0 at its end."""
        count = os.readv(fd, [self._memory[self.used : self.used + count]])
        self.used += count
        return count

    def fill_from(self, fd: int, size: int) -> bool:
        """Read until the buffer has `size` bytes; False if the file descriptor ends before."""
        while self.used < size:
            if not self.read_from(fd, size - self.used):
                return False
        return True

    def wipe(self) -> None:
        """Overwrite the contents and start from the front."""
        self._memory[: self.used] = bytes(self.used)
        self.used = 0


class Outbox:
    """Collects reply frames and writes them to the host in few large pieces.

    Args:
        fd: Where to write.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = Buffer(_OUTBOX_BYTES)

    def put(self, kind: bytes, payload: bytes | memoryview = b"", outcome: int = 0, wall_s: float = 0.0) -> None:
        """Queue one frame; see `frames.REPLY`."""
        header = frames.REPLY.pack(kind, len(payload), outcome, wall_s)
        if len(header) + len(payload) > self._buffer.room:
            self.flush()
        self._buffer.append(header)
        if len(payload) <= self._buffer.room:
            self._buffer.append(payload)
        else:
            self.flush()
            write_all(self._fd, payload)

    def flush(self) -> None:
        """Write the queued frames and wipe them."""
        write_all(self._fd, self._buffer.view())
        self._buffer.wipe()


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write all bytes to a blocking file descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
