"""Locks on open files, which the kernel releases when their process ends for any reason. Windows has none of these: nothing is locked there."""

from __future__ import annotations

from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: Whether this system locks files.
HAS_LOCKS = fcntl is not None


def lock(file: int | IO[bytes], is_shared: bool = False, waits: bool = True) -> None:
    """Lock an open file or folder until it is closed.

    Args:
        file: The file, or its descriptor.
        is_shared: Whether others may hold a shared lock too.
        waits: Whether to wait for others.

    Raises:
        BlockingIOError: If another process holds it, and `waits` is False.
        OSError: If it cannot be locked.
    """
    if HAS_LOCKS:
        kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
        fcntl.flock(file, kind if waits else kind | fcntl.LOCK_NB)
