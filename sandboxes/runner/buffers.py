"""Buffers for programs, values and output in the runner. No fork of the runner inherits what a program returned or printed.

Results and output are kept in blocks that the kernel leaves out of every fork (`MADV_DONTFORK`), so a reply may wait in the runner
while the next program starts. Only the text of a program is inherited: by the process of this program, which the text is for. Data
is only copied between memoryviews, and all buffers are wiped: an intermediate `bytes` object, or an old text, would leave its
contents in memory that later programs inherit.
"""

from __future__ import annotations

import mmap
import os

from sandboxes import frames

_OUTBOX_BYTES = 1 << 16
#: Blocks that no fork inherits. They are never freed: a fork has other things at their addresses, which freeing them would remove.
_blocks: list[mmap.mmap] = []


def _uninherited(size: int) -> mmap.mmap:
    """A block of memory that is missing in all forks of this process."""
    block = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.madvise(mmap.MADV_DONTFORK)
    _blocks.append(block)
    return block


class Buffer:
    """A block of memory that is filled from the front.

    Args:
        size: Number of bytes at first.
        is_inherited: Whether forks inherit its contents.
    """

    def __init__(self, size: int, is_inherited: bool = False) -> None:
        self._allocate = bytearray if is_inherited else _uninherited
        self._memory = memoryview(self._allocate(size))
        self.used = 0

    @property
    def room(self) -> int:
        """Number of bytes that still fit."""
        return len(self._memory) - self.used

    def hold(self, size: int) -> None:
        """Grow to at least `size` bytes, and to twice the size at least: what `_blocks` keeps is then in total as large as the last block.

        The buffer is small before that, because an inherited one adds to the cost of every fork.
        """
        if len(self._memory) < size:
            smaller, self._memory = self._memory, memoryview(self._allocate(max(size, 2 * len(self._memory))))
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

    def claim(self, count: int) -> memoryview:
        """A view of the next `count` free bytes, to write to. They must be free, and count as filled from now on."""
        self.used += count
        return self._memory[self.used - count : self.used]

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
        if frames.REPLY.size + len(payload) > self._buffer.room:
            self.flush()
        frames.REPLY.pack_into(self._buffer.claim(frames.REPLY.size), 0, kind, len(payload), outcome, wall_s)
        if len(payload) <= self._buffer.room:
            self._buffer.claim(len(payload))[:] = payload
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
