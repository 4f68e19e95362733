"""The seccomp filters: an allow-list of system calls, as classic BPF, for x86_64 and aarch64.

There are two filters, and the stricter verdict applies. The long filter is set once, in the runner, and every program's process
inherits it. The short filter is set in the program's process and forbids the calls that only the runner needs (`_FOR_RUNNER`). It is
short because each instruction of a filter costs time at every start of a program.

A call that is not listed fails with EPERM, which a program sees as PermissionError. A filter can check the register arguments
of a call, so calls that are only safe in one form are only allowed in that form:

    clone        threads, never processes            open, openat   read-only
    fcntl        flags and copies; not F_SETOWN and F_SETSIG, which send a signal of choice to a process of choice
    ioctl        what `open` and `setblocking` ask   prlimit64      read one's own limits
    socketpair   streams between own threads (asyncio's wake-up); a datagram socket could address daemons of the host
    sendto, recvfrom   without out-of-band data, a part of the kernel that attacks have used
"""

from __future__ import annotations

import os
import struct

_LOAD, _AND, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _ARGUMENTS_OFFSET = 0, 4, 16
_X32_BIT = 0x40000000

_CLONE_THREAD = 0x10000
_NOT_READ_ONLY = 0o1 | 0o2 | 0o100 | 0o1000 | 0o20000000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, __O_TMPFILE
_FCNTL = (0, 1, 2, 3, 4, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC
_IOCTL = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX
_PRCTL = (15, 16)  # PR_SET_NAME, PR_GET_NAME
_AF_UNIX = _SOCK_STREAM = _MSG_OOB = 1

# name: (x86_64, aarch64); None where the architecture has no such call.
_ALLOWED: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "futex": (202, 98), "mmap": (9, 222), "munmap": (11, 215), "brk": (12, 214),
    "mprotect": (10, 226), "mremap": (25, 216), "madvise": (28, 233), "close": (3, 57), "lseek": (8, 62),
    "fstat": (5, 80), "stat": (4, None), "lstat": (6, None), "newfstatat": (262, 79), "statx": (332, 291),
    "getdents64": (217, 61), "pread64": (17, 67), "readv": (19, 65), "writev": (20, 66), "preadv": (295, 69),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "nanosleep": (35, 101),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "getrandom": (318, 278),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136),
    "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132), "pause": (34, None),
    "alarm": (37, None), "getitimer": (36, 102), "setitimer": (38, 103), "restart_syscall": (219, 128),
    "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None),
    "readlinkat": (267, 78), "getcwd": (79, 17), "chdir": (80, 49), "umask": (95, 166), "statfs": (137, 43),
    "fstatfs": (138, 44), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "pipe": (22, None),
    "pipe2": (293, 59), "close_range": (436, 436), "poll": (7, None), "ppoll": (271, 73), "select": (23, None),
    "pselect6": (270, 72), "epoll_create": (213, None), "epoll_create1": (291, 20), "epoll_ctl": (233, 21),
    "epoll_wait": (232, None), "epoll_pwait": (281, 22), "eventfd2": (290, 19), "shutdown": (48, 210), "getsockname": (51, 204), "getpeername": (52, 205),
    "getsockopt": (55, 209), "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173), "getpgrp": (111, None),
    "getpgid": (121, 155), "getsid": (124, 156), "getuid": (102, 174), "getgid": (104, 176), "geteuid": (107, 175),
    "getegid": (108, 177), "getresuid": (118, 148), "getresgid": (120, 150), "getgroups": (115, 158),
    "getrlimit": (97, 163), "getrusage": (98, 165), "getpriority": (140, 141), "uname": (63, 160), "sysinfo": (99, 179),
    "getcpu": (309, 168), "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "membarrier": (324, 283),
    "rseq": (334, 293), "set_robust_list": (273, 99), "set_tid_address": (218, 96), "wait4": (61, 260),
    "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip

_CONDITIONAL: dict[str, tuple[int | None, int | None]] = {
    "openat": (257, 56), "open": (2, None), "fcntl": (72, 25), "ioctl": (16, 29), "socketpair": (53, 199),
    "sendto": (44, 206), "recvfrom": (45, 207),
}  # fmt: skip

#: Calls that the runner needs and a program must not use. The first three have a form that a program may use.
_FOR_RUNNER: dict[str, tuple[int | None, int | None]] = {
    "clone": (56, 220), "prctl": (157, 167), "prlimit64": (302, 261), "kill": (62, 129), "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
}  # fmt: skip

# glibc tries the newer call first and falls back only on ENOSYS.
_ABSENT: dict[str, tuple[int | None, int | None]] = {"clone3": (435, 435), "openat2": (437, 437)}


#: Machine -> column of the tables, and the kernel's constant for the architecture.
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

Instruction = tuple[int, int, int, int]


def _return(action: int) -> Instruction:
    return (_RETURN, 0, 0, action)


def _load_argument(index: int, high: bool = False) -> Instruction:
    # Both architectures are little-endian: the low half of the 64-bit register comes first.
    return (_LOAD, 0, 0, _ARGUMENTS_OFFSET + 8 * index + (4 if high else 0))


def _one_of(argument: int, values: tuple[int, ...]) -> list[Instruction]:
    body = [_load_argument(argument)]
    for value in values:
        body += [(_JUMP_EQUAL, 0, 1, value), _return(_ALLOW)]
    return [*body, _return(_EPERM)]


def _any_bit(argument: int, mask: int, then: int, otherwise: int) -> list[Instruction]:
    return [_load_argument(argument), (_JUMP_ANY_BIT, 0, 1, mask), _return(then), _return(otherwise)]


def _zero(*arguments: int) -> list[Instruction]:
    body = []
    for argument in arguments:
        for high in (False, True):
            body += [_load_argument(argument, high), (_JUMP_EQUAL, 1, 0, 0), _return(_EPERM)]
    return [*body, _return(_ALLOW)]


def _unix_stream() -> list[Instruction]:
    domain = [_load_argument(0), (_JUMP_EQUAL, 1, 0, _AF_UNIX), _return(_EPERM)]
    kind = [_load_argument(1), (_AND, 0, 0, 0xF), (_JUMP_EQUAL, 1, 0, _SOCK_STREAM), _return(_EPERM), _return(_ALLOW)]
    return domain + kind


def _conditions() -> dict[str, list[Instruction]]:
    return {
        "clone": _any_bit(0, _CLONE_THREAD, then=_ALLOW, otherwise=_EPERM),
        "open": _any_bit(1, _NOT_READ_ONLY, then=_EPERM, otherwise=_ALLOW),
        "openat": _any_bit(2, _NOT_READ_ONLY, then=_EPERM, otherwise=_ALLOW),
        "fcntl": _one_of(1, _FCNTL),
        "ioctl": _one_of(1, _IOCTL),
        "prctl": _one_of(0, _PRCTL),
        "prlimit64": _zero(0, 2),
        "socketpair": _unix_stream(),
        "sendto": _any_bit(3, _MSG_OOB, then=_EPERM, otherwise=_ALLOW),
        "recvfrom": _any_bit(3, _MSG_OOB, then=_EPERM, otherwise=_ALLOW),
    }


def _intervals(by_number: dict[int, list[Instruction]], otherwise: int) -> list[tuple[int, list[Instruction]]]:
    """Split the range of all call numbers into intervals with the same rule: (first number, rule), in order."""
    cuts = sorted({0, *by_number, *(number + 1 for number in by_number)})
    steps = [(cut, by_number.get(cut, [_return(otherwise)])) for cut in cuts] + [(_X32_BIT, [_return(_KILL_PROCESS)])]
    return [step for i, step in enumerate(steps) if i == 0 or step[1] != steps[i - 1][1]]


def _search(intervals: list[tuple[int, list[Instruction]]]) -> list[Instruction]:
    """Find the interval of the loaded number by binary search.

    When a filter is set, the kernel runs it once for every possible call number. A chain of comparisons would cost 0.15 ms
    at the start of every program.
    """
    if len(intervals) == 1:
        return intervals[0][1]  # ends in a return, so it may overwrite the loaded number
    middle = len(intervals) // 2
    left, right = _search(intervals[:middle]), _search(intervals[middle:])
    return [(_JUMP_GREATER_EQUAL, len(left), 0, intervals[middle][0]), *left, *right]


def runner_filter(machine: str | None = None) -> bytes:
    """The long filter, as an array of `struct sock_filter`.

    Args:
        machine: Machine name as in `os.uname`; this machine by default.

    Raises:
        OSError: If the tables do not have the machine.
    """
    bodies = {name: [_return(_ALLOW)] for name in (*_ALLOWED, *_FOR_RUNNER)} | {name: [_return(_ENOSYS)] for name in _ABSENT}
    conditions = {name: body for name, body in _conditions().items() if name in _CONDITIONAL}
    return _assemble(_ALLOWED | _FOR_RUNNER | _CONDITIONAL | _ABSENT, bodies | conditions, _EPERM, machine)


def program_filter(machine: str | None = None) -> bytes:
    """The short filter; arguments and errors as for `runner_filter`."""
    bodies = {name: [_return(_EPERM)] for name in _FOR_RUNNER}
    conditions = {name: body for name, body in _conditions().items() if name in _FOR_RUNNER}
    return _assemble(_FOR_RUNNER, bodies | conditions, _ALLOW, machine)


def _assemble(
    table: dict[str, tuple[int | None, int | None]], bodies: dict[str, list[Instruction]], otherwise: int, machine: str | None
) -> bytes:
    machine = machine or os.uname().machine
    if machine not in ARCHITECTURES:
        raise OSError(f"No system call table for {machine!r}: expected one of {sorted(ARCHITECTURES)}.")
    column, audit = ARCHITECTURES[machine]
    by_number = {number: bodies[name] for name, numbers in table.items() if (number := numbers[column]) is not None}
    code: list[Instruction] = [(_LOAD, 0, 0, _ARCHITECTURE_OFFSET), (_JUMP_EQUAL, 1, 0, audit), _return(_KILL_PROCESS)]
    code += [(_LOAD, 0, 0, _NUMBER_OFFSET), *_search(_intervals(by_number, otherwise))]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)
