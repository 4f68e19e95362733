"""Runs a module as another operating system would: `python tests/other_system.py win32 MODULE WORD...`.

The modules of the standard library are loaded first, for they ask the real system; then what the other system lacks is taken away.
"""

from __future__ import annotations

import asyncio  # noqa: F401
import concurrent.futures.process  # noqa: F401
import ctypes
import multiprocessing.connection
import multiprocessing.context
import multiprocessing.heap
import multiprocessing.popen_spawn_posix
import multiprocessing.shared_memory
import multiprocessing.synchronize  # noqa: F401
import os
import platform
import runpy
import select
import shutil
import signal
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import urllib.request  # noqa: F401
import uuid  # noqa: F401
import webbrowser  # noqa: F401

#: Neither Windows nor macOS has these names of `os`.
LINUX = (
    "memfd_create", "sched_getaffinity", "sched_setaffinity", "pipe2", "eventfd", "pidfd_open", "posix_fadvise", "unshare", "setns",
)  # fmt: skip
#: macOS has these, Windows not.
POSIX = (
    "fork", "forkpty", "wait4", "waitid", "uname", "geteuid", "getuid", "getegid", "getgid", "getpgid", "killpg", "setsid", "setpgid", "O_DIRECTORY",
    "O_NONBLOCK", "O_CLOEXEC", "register_at_fork", "statvfs", "fchmod", "chown", "mkfifo", "nice", "sysconf", "getloadavg", "openpty",
)  # fmt: skip
#: Modules that Windows lacks.
MODULES = ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "syslog", "readline")
SIGNALS = ("SIGKILL", "SIGALRM", "SIGPIPE", "SIGHUP", "SIGUSR1", "SIGCHLD", "setitimer", "pthread_sigmask")


def become(name: str) -> None:
    """Take away what the system has not. `/proc` is still there: it is read only where a file that is missing is expected."""
    is_windows = name == "win32"
    if is_windows:
        usage = shutil.disk_usage(".")  # which does without `statvfs` there
        shutil.disk_usage = lambda path: usage
    for module in MODULES if is_windows else ():
        sys.modules[module] = None  # type: ignore[assignment]
    lost = {os: (*LINUX, *(POSIX if is_windows else ()))}
    if is_windows:
        lost |= {signal: SIGNALS, select: ("poll",)}
    for module, names in lost.items():
        for one in names:
            if hasattr(module, one):
                delattr(module, one)
    if is_windows:
        real_library = ctypes.CDLL

        class Library(real_library):  # type: ignore[misc, valid-type]
            def __init__(self, name, *more, **others):
                if name is None:
                    raise TypeError("argument of type 'NoneType' is not iterable")
                super().__init__(name, *more, **others)

        ctypes.CDLL = Library  # type: ignore[misc]
    platform.system = lambda: "Windows" if is_windows else "Darwin"
    sys.platform = name


if __name__ == "__main__":
    system, module, *words = sys.argv[1:]
    if module.startswith("sweetrl_agent."):  # these load their libraries by the name of the real system
        import datasets  # noqa: F401
        import transformers.trainer  # noqa: F401
        import trl  # noqa: F401
    become(system)
    sys.argv = ["-m", *words]  # as while the interpreter looks for the module of `-m`
    sys.orig_argv = [sys.executable, "-m", module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
