"""Processes: that they end with the one that started them, and leave a busy machine to others."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
#: How long an idle thread of OpenMP spins before it sleeps: turns of a loop for GNU's runtime, milliseconds for Intel's and LLVM's.
PATIENCE = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "1"}
#: All variables that say how OpenMP's threads wait.
WAITING = ("OMP_WAIT_POLICY", *PATIENCE)


def yield_idle_threads() -> None:
    """Let threads of OpenMP that wait for each other sleep soon, unless the user has set how they wait.

    At every barrier of a training step they spin, by default for so long that, beside another busy process, they take the core from the
    thread they wait for: the supervised stage then takes 18 times as long on two cores. Set before torch is loaded, and inherited by
    processes that are started from here.
    """
    if not os.environ.keys() & set(WAITING):
        os.environ.update(PATIENCE)


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, however it ends. Does nothing where there is no such call (not Linux)."""
    parent = os.getppid()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)
