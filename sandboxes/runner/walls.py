"""The walls around a program, from the kernel alone: capabilities, Landlock, resource limits, seccomp.

`Walls.confine_runner` is called once, before the first program; what it takes away (capabilities, all files but the
interpreter's, TCP) every later process inherits. `Walls.confine_program` is called in the process of each program before any
byte of it runs, and takes away the rest: memory, signals to the runner, and all system calls that are not listed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
from collections.abc import Collection, Iterable, Iterator

from sandboxes.runner.syscalls import build_filter

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_SECCOMP_MODE_FILTER = 2
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_VERSION_FLAG = _LANDLOCK_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_NETWORK_TCP, _SCOPE_ALL = 3, 3
_CAPABILITY_VERSION_3 = 0x20080522

_MIB = 1 << 20
_MAX_STACK_BYTES = 8 * _MIB
MAX_OPEN_FILES = 64

_libc = ctypes.CDLL(None, use_errno=True)


def _check(status: int, what: str) -> int:
    if status < 0:
        raise OSError(ctypes.get_errno(), f"{what} failed: {os.strerror(ctypes.get_errno())}")
    return status


def _prctl(option: int, value: int, pointer: object = 0) -> None:
    _check(_libc.prctl(option, value, pointer, 0, 0), f"prctl {option}")


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that started it ends.

    Args:
        parent: Expected parent process; one that has gone already leaves nothing to wait for.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def landlock_version() -> int:
    """Version of Landlock in this kernel, 0 where there is none."""
    return max(0, int(_libc.syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION_FLAG)))


def readable_paths(roots: Iterable[str], hidden: Collection[str]) -> Iterator[str]:
    """Cover `roots` by paths that leave out the `hidden` ones: Landlock can allow a tree, but not except a branch of it."""
    for root in roots:
        if root in hidden or not os.path.exists(root):
            continue
        if not any(path.startswith(root + os.sep) for path in hidden):
            yield root
            continue
        yield from readable_paths((os.path.join(root, name) for name in sorted(os.listdir(root))), hidden)


class Walls:
    """The walls of one runner.

    Args:
        roots: Trees and files that programs may read.
        hidden: Directories under `roots` that they may not. The directories that hold these can be listed, for the import
            system looks for modules there.
        omit: Walls to leave out. For tests of the self-test, which must then refuse.
    """

    def __init__(self, roots: Collection[str], hidden: Collection[str], omit: Collection[str]) -> None:
        self._roots, self._hidden = roots, hidden
        self._listable = {os.path.dirname(path) for path in hidden}
        self._omit = frozenset(omit)
        self.landlock = 0 if "landlock" in omit else landlock_version()
        code = build_filter()
        self._filter = ctypes.create_string_buffer(code, len(code))
        self._program = struct.pack("@HP", len(code) // 8, ctypes.addressof(self._filter))

    def confine_runner(self) -> None:
        """Give up, for this process and all that it forks, what no program needs."""
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # out of memory, the kernel should take a program rather than the training run
        os.chdir("/")
        for kind, limit in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_STACK, _MAX_STACK_BYTES)):
            _limit(kind, limit)
        _limit(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _prctl(_PR_SET_DUMPABLE, 0)
        _drop_capabilities()
        if self.landlock:
            self._restrict_files()

    def confine_program(self, memory_mib: int, cpu_s: int) -> None:
        """Put up the walls that the runner itself cannot live behind. Nothing untrusted may have run before.

        Args:
            memory_mib: Address space of the process.
            cpu_s: CPU time of the process: a second line behind the runner's deadlines.
        """
        if "rlimits" not in self._omit:
            _limit(resource.RLIMIT_AS, memory_mib * _MIB)
            _limit(resource.RLIMIT_CPU, cpu_s)
        if self.landlock >= 6:
            self._restrict(struct.pack("QQQ", 0, 0, _SCOPE_ALL))
        if "seccomp" not in self._omit:
            _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(self._program))

    def _restrict_files(self) -> None:
        rights = {1: 13, 2: 14, 3: 15, 4: 15}.get(self.landlock, 16)  # how many kinds of access this version knows
        attributes = struct.pack("QQQ", (1 << rights) - 1, _NETWORK_TCP, _SCOPE_ALL)
        size = 8 if self.landlock < 4 else 16 if self.landlock < 6 else 24
        allowed = dict.fromkeys(readable_paths(self._roots, self._hidden), _READ_FILE | _READ_DIR)
        allowed |= dict.fromkeys((path for path in self._listable if os.path.isdir(path)), _READ_DIR)
        self._restrict(attributes[:size], allowed)

    def _restrict(self, attributes: bytes, allowed: dict[str, int] | None = None) -> None:
        ruleset = _check(_libc.syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0), "landlock_create_ruleset")
        try:
            for path, rights in (allowed or {}).items():
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
                try:
                    rights = rights if os.path.isdir(path) else rights & ~_READ_DIR
                    rule = struct.pack("=Qi", rights, fd)
                    _check(_libc.syscall(_LANDLOCK_ADD, ruleset, _LANDLOCK_PATH_BENEATH, rule, 0), f"landlock_add_rule {path}")
                finally:
                    os.close(fd)
            _check(_libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0), "landlock_restrict_self")
        finally:
            os.close(ruleset)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _drop_capabilities() -> None:
    # Root without capabilities is an ordinary user who happens to own many files; Landlock deals with those.
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")
