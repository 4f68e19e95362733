"""The walls around a program, enforced by the kernel: capabilities, Landlock, resource limits, seccomp, an unreadable runner.

`Walls.confine_runner` is called once, before the first program. Every later process inherits its restrictions: no capabilities, no
files except the interpreter's, no TCP, few system calls. `Walls.confine_program` is called in the process of each program before any
of its code runs, and restricts the rest: memory, signals to the runner, and the system calls that only the runner needs.

Requests wait in the runner's standard input while another program runs. Two walls prevent that program from opening it through
/proc, with or without Landlock: the runner is not dumpable, so only a process with CAP_SYS_PTRACE may open its file descriptors; and
its pipes have mode 0 (`Walls.seal`), so no process without CAP_DAC_OVERRIDE can open them again.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct

from sandboxes.runner.syscalls import program_filter, runner_filter

TYPE_CHECKING = False  # see `sandboxes.frames`
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_SECCOMP_MODE_FILTER = 2
_SIGKILL = 9
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_VERSION_FLAG = _LANDLOCK_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_NETWORK_TCP, _SCOPE_ALL = 3, 3
_CAPABILITY_VERSION_3 = 0x20080522

_MIB = 1 << 20
_MAX_STACK_BYTES = 8 * _MIB
MAX_OPEN_FILES = 64
_FILE_TYPE, _FIFO = 0o170000, 0o010000

_LIMITS = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0, "RLIMIT_STACK": _MAX_STACK_BYTES, "RLIMIT_NOFILE": MAX_OPEN_FILES}
WALLS = (
    "capabilities", "landlock", "landlock scopes", "no new privileges", "not dumpable", "program filter", "runner filter",
    "sealed pipes", "RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_NPROC", *_LIMITS,
)  # fmt: skip
"""Names of the walls, as `Walls` takes them to leave one out."""

_libc = ctypes.CDLL(None, use_errno=True)
_SCOPE_RULES = struct.pack("QQQ", 0, 0, _SCOPE_ALL)
_NOTHING: Mapping[str, int] = {}


def _check(status: int, what: str) -> int:
    if status < 0:
        raise OSError(ctypes.get_errno(), f"{what} failed: {os.strerror(ctypes.get_errno())}")
    return status


def _prctl(option: int, value: int, pointer: object = 0) -> None:
    if _libc.prctl(option, value, pointer, 0, 0) < 0:
        _check(-1, f"prctl {option}")


def die_with_parent(parent: int) -> None:
    """Make the kernel kill this process when the thread that started it ends.

    Args:
        parent: Id of the expected parent process. If it has ended already, this process ends at once.
    """
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def landlock_version() -> int:
    """Version of Landlock in this kernel; 0 without Landlock."""
    return max(0, int(_libc.syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION_FLAG)))


def readable_paths(roots: Iterable[str], hidden: Collection[str]) -> Iterator[str]:
    """Cover `roots` with paths that do not contain the `hidden` ones: Landlock can allow a tree, but not exclude a subtree."""
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
        hidden: Directories under `roots` that they may not read. Their parent directories can be listed, because the import
            system searches them for modules.
        omit: Walls to omit, from `WALLS`. For tests: another wall must then hold, or the self-test must fail.
        max_processes: Maximal number of processes and threads of the user; 0 for no limit, if the kernel would count those of
            other processes too.

    Raises:
        ValueError: If a wall to omit is unknown.
    """

    def __init__(self, roots: Collection[str], hidden: Collection[str], omit: Collection[str], max_processes: int) -> None:
        if unknown := sorted(set(omit) - set(WALLS)):
            raise ValueError(f"`omit` must name walls of {WALLS}, got {unknown}.")
        self._roots, self._hidden, self._max_processes = roots, hidden, max_processes
        self._listable = {os.path.dirname(path) for path in hidden}
        self._omit = frozenset(omit)
        self.landlock = 0 if "landlock" in omit else landlock_version()
        self._runner_filter, self._program_filter = _Filter(runner_filter()), _Filter(program_filter())

    def confine_runner(self) -> None:
        """Drop all rights that no program needs, for this process and all its forks."""
        try:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("1000")  # if memory runs out, the kernel should kill a program rather than the training run
        except OSError:
            pass
        os.chdir("/")
        for name, limit in _LIMITS.items():
            self._limit(name, limit)
        if self._max_processes:
            self._limit("RLIMIT_NPROC", self._max_processes)
        if self._has("no new privileges"):
            _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        if self._has("not dumpable"):
            _prctl(_PR_SET_DUMPABLE, 0)
        if self._has("capabilities"):
            _drop_capabilities()
        if self.landlock:
            self._restrict_files()
        if self._has("runner filter"):
            self._runner_filter.set()

    def seal(self, fd: int) -> None:
        """Prevent processes from opening a pipe of the host again through /proc. Open descriptors continue to work.

        Does nothing for other files (such as a terminal, which outlives the runner) or files of another user. The self-test
        checks whether the remaining walls suffice.
        """
        if self._has("sealed pipes") and os.fstat(fd).st_mode & _FILE_TYPE == _FIFO:
            try:
                os.fchmod(fd, 0)
            except OSError:
                return

    def confine_program(self, memory_mib: int, cpu_s: int) -> None:
        """Set the walls under which the runner itself could not work. No untrusted code may have run before.

        Args:
            memory_mib: Maximal address space of the process.
            cpu_s: Maximal CPU time of the process, in addition to the runner's deadlines.
        """
        self._limit("RLIMIT_AS", memory_mib * _MIB)
        self._limit("RLIMIT_CPU", cpu_s)
        if self.landlock >= 6 and self._has("landlock scopes"):
            _restrict(_SCOPE_RULES)
        if self._has("program filter"):
            self._program_filter.set()

    def _has(self, wall: str) -> bool:
        return wall not in self._omit

    def _limit(self, name: str, value: int) -> None:
        """Set a limit of `resource` by name, permanently. An existing lower limit is kept."""
        if self._has(name):
            kind = getattr(resource, name)
            _, hard = resource.getrlimit(kind)
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (value, value))

    def _restrict_files(self) -> None:
        rights = {1: 13, 2: 14, 3: 15, 4: 15}.get(self.landlock, 16)  # number of access rights in this version
        attributes = struct.pack("QQQ", (1 << rights) - 1, _NETWORK_TCP, _SCOPE_ALL)
        size = 8 if self.landlock < 4 else 16 if self.landlock < 6 else 24
        allowed = dict.fromkeys(readable_paths(self._roots, self._hidden), _READ_FILE | _READ_DIR)
        allowed |= dict.fromkeys((path for path in self._listable if os.path.isdir(path)), _READ_DIR)
        _restrict(attributes[:size], allowed)


def _restrict(attributes: bytes, allowed: Mapping[str, int] = _NOTHING) -> None:
    """Put this process behind a Landlock ruleset.

    Args:
        attributes: `struct landlock_ruleset_attr` with the forbidden access rights.
        allowed: Paths, with the access rights that are allowed there.
    """
    ruleset = _libc.syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0)
    if ruleset < 0:
        _check(-1, "landlock_create_ruleset")
    for path, rights in allowed.items():
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rights = rights if os.path.isdir(path) else rights & ~_READ_DIR
            rule = struct.pack("=Qi", rights, fd)
            _check(_libc.syscall(_LANDLOCK_ADD, ruleset, _LANDLOCK_PATH_BENEATH, rule, 0), f"landlock_add_rule {path}")
        finally:
            os.close(fd)
    if _libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) < 0:
        _check(-1, "landlock_restrict_self")
    os.close(ruleset)


class _Filter:
    """A seccomp filter that is ready to be set.

    Args:
        code: Array of `struct sock_filter`.
    """

    def __init__(self, code: bytes) -> None:
        self._code = ctypes.create_string_buffer(code, len(code))
        self._program = ctypes.c_char_p(struct.pack("@HP", len(code) // 8, ctypes.addressof(self._code)))

    def set(self) -> None:
        """Apply the filter to this process and all its forks."""
        _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, self._program)


def _drop_capabilities() -> None:
    # Root without capabilities is an ordinary user that owns many files. Landlock protects these.
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")
