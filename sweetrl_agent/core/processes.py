"""Child processes end with their parent, idle OpenMP threads yield the CPU, and freed memory goes back to the system."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
#: How long an idle OpenMP thread spins before it sleeps: loop iterations for GNU's runtime, milliseconds for Intel's and LLVM's.
PATIENCE = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "1"}
#: All environment variables that set how OpenMP threads wait.
WAITING = ("OMP_WAIT_POLICY", *PATIENCE)


def yield_idle_threads() -> None:
    """Make waiting OpenMP threads sleep soon, unless the user has set how they wait.

    By default they spin at every barrier of a training step. If another process is busy, the spinning threads take the core from the
    thread that they wait for: SFT then takes 18 times as long on two cores. Call this before torch is loaded; child processes inherit
    the setting.
    """
    if not os.environ.keys() & set(WAITING):
        os.environ.update(PATIENCE)


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends for any reason. Does nothing on systems other than Linux.

    Args:
        parent: Id of the parent. If it has ended already, this process ends at once.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def return_freed_memory() -> None:
    """Return freed memory to the system. With another C library than glibc, nothing happens.

    glibc keeps freed blocks of up to 32 MiB, and the weights of a pretrained model are such: of a model of 3 GiB that was freed, 2.4 GiB stayed.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
