"""The runner: forks a process for every program, keeps its deadlines, passes its results on to the host.

A fork of this warm interpreter costs about a millisecond, a new interpreter twenty. The runner never looks into a program or
a value: it moves bytes between fixed buffers (`runner/buffers.py`) and wipes them after each program. Its memory, which the
next program inherits, therefore holds nothing of the previous one, although a reference and its rivals pass through the same
runner.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import platform
import sys
import time
from typing import Any, NamedTuple

from sandboxes import frames
from sandboxes.files import interpreter_files
from sandboxes.runner import candidate, encode
from sandboxes.runner.buffers import Buffer, Outbox, write_all
from sandboxes.runner.child import Child
from sandboxes.runner.walls import Walls, die_with_parent

_START_TIMEOUT_S = 10.0
_CHUNK_BYTES = 1 << 16
_FIRST_FREE_FD = 10
_ENVIRONMENT = ("PYTHONHASHSEED", "TZ", "LANG")
# Imported once, here, so that no program spends its time on them.
_WARM_MODULES = (
    "abc", "base64", "bisect", "calendar", "cmath", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions",
    "functools", "hashlib", "heapq", "itertools", "math", "multiprocessing", "operator", "queue", "random", "re", "statistics",
    "string", "textwrap", "threading", "time", "typing", "unicodedata", "_strptime",
)  # fmt: skip


class Request(NamedTuple):
    """Header of a request; see `frames.REQUEST`."""

    body_bytes: int
    num_calls: int
    call_timeout_s: float
    program_timeout_s: float
    memory_mib: int
    output_bytes: int
    value_bytes: int


class Zygote:
    """Serves requests, one at a time.

    Args:
        requests: File descriptor on which requests come.
        replies: File descriptor for the replies.
        null: File descriptor of /dev/null.
        walls: What to put around every program.
    """

    def __init__(self, requests: int, replies: int, null: int, walls: Walls) -> None:
        self._requests, self._null, self._walls = requests, null, walls
        self._outbox = Outbox(replies)
        self._header, self._body = Buffer(frames.REQUEST.size), Buffer(_CHUNK_BYTES)
        self._result, self._output = Buffer(_CHUNK_BYTES), Buffer(_CHUNK_BYTES)
        self._room: dict[bytes, int] = {}
        self._pid = os.getpid()

    def serve(self) -> None:
        """Serve until the host closes the pipe."""
        while self._header.fill_from(self._requests, frames.REQUEST.size):
            request = Request(*frames.REQUEST.unpack(self._header.view()))
            self._header.wipe()
            self._body.resize(request.body_bytes)
            if not self._body.fill_from(self._requests, request.body_bytes):
                return
            self._result.resize(frames.RESULT.size + max(request.value_bytes, frames.MAX_NAME_BYTES))
            self._run(request)
            self._body.wipe()
            self._outbox.flush()

    def _run(self, request: Request) -> None:
        self._room = {frames.STDOUT: request.output_bytes, frames.STDERR: request.output_bytes}
        deadline = time.monotonic() + request.program_timeout_s
        call, cpu_s, peak_mib = 0, 0.0, 0.0
        while call < request.num_calls and time.monotonic() < deadline:
            child = Child(self._null, self._requests)
            if child.pid == 0:
                self._become_program(request, call)
            call = self._supervise(child, request, call, deadline)
            child_cpu_s, child_peak_mib = child.end()
            cpu_s, peak_mib = cpu_s + child_cpu_s, max(peak_mib, child_peak_mib)
            for fd in child.output_fds:
                while self._read_output(child, fd):  # the writers are dead: what is left fits into a pipe
                    pass
            child.close()
            self._result.wipe()
        for _ in range(call, request.num_calls):
            self._outbox.put(frames.CALL, outcome=frames.TIMEOUT)
        self._outbox.put(frames.DONE, frames.USAGE.pack(cpu_s, peak_mib))

    def _become_program(self, request: Request, first: int) -> None:
        """Never returns: whatever happens, this process must not go on as a runner."""
        try:
            die_with_parent(self._pid)
            self._walls.confine_program(request.memory_mib, int(request.program_timeout_s) + 2)
            candidate.serve(bytes(self._body.view()), first, request.num_calls, request.value_bytes)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}"[:1000].encode("utf-8", "replace"))
        finally:
            os._exit(1)

    def _supervise(self, child: Child, request: Request, call: int, deadline: float) -> int:
        """Pass on the results of calls `call` and following; the number of the first one that is not settled."""
        if self._next_result(child, time.monotonic() + _START_TIMEOUT_S) != frames.READY:
            self._outbox.put(frames.CALL, outcome=frames.CRASH)
            return call + 1
        started = time.monotonic()
        while call < request.num_calls:
            outcome = self._next_result(child, min(started + request.call_timeout_s, deadline))
            now = time.monotonic()
            if outcome >= len(frames.OUTCOMES):
                outcome = self._broken()
            self._outbox.put(frames.CALL, self._result.view(frames.RESULT.size), outcome, now - started)
            call += 1
            started = now
            if outcome in (frames.TIMEOUT, frames.CRASH, frames.MEMORY):
                break
        return call

    def _next_result(self, child: Child, deadline: float) -> int:
        """Read one frame of the program into the result buffer; its outcome, or TIMEOUT or CRASH with nothing in the buffer."""
        self._result.wipe()
        while True:
            ready = child.ready_fds(deadline)
            for fd in ready:
                if fd != child.result_fd and not self._read_output(child, fd):
                    child.forget(fd)
            outcome = self._read_result(child.result_fd) if child.result_fd in ready else None
            if outcome is not None:
                return outcome
            if time.monotonic() >= deadline:
                self._result.wipe()
                return frames.TIMEOUT

    def _read_result(self, fd: int) -> int | None:
        """Read on in a frame: its outcome once it is complete, CRASH if it cannot be one, None while more is to come."""
        result, header_bytes = self._result, frames.RESULT.size
        try:
            if result.used < header_bytes and not result.read_from(fd, header_bytes - result.used):
                return self._broken()
            if result.used < header_bytes:
                return None
            outcome, length = frames.RESULT.unpack(result.view(0, header_bytes))
            missing = header_bytes + length - result.used
            if missing > result.room or (missing and not result.read_from(fd, missing)):
                return self._broken()
            return int(outcome) if result.used == header_bytes + length else None
        except BlockingIOError:
            return None

    def _broken(self) -> int:
        self._result.wipe()
        return frames.CRASH

    def _read_output(self, child: Child, fd: int) -> int:
        """Read what a program printed, pass on what the limit leaves of it; how much was read."""
        kind = frames.STDOUT if fd == child.output_fds[0] else frames.STDERR
        count = self._output.read_from(fd, _CHUNK_BYTES)
        kept = self._output.view(0, min(count, self._room[kind]))
        if kept:
            self._room[kind] -= len(kept)
            self._outbox.put(kind, kept)
        self._output.wipe()
        return count


def _ignore_forks(**handlers: object) -> None:
    """Stands in for `os.register_at_fork` while modules are loaded.

    What threading, random and logging do after a fork (new locks, new seeds) is for processes with several threads. The runner
    has one, and the handlers would touch 170 pages of memory in every program's process: a third of its cost.
    """


def _import_packages(names: list[str], parents: list[str]) -> list[str]:
    """Import what the operator allows, before there are walls; the names that worked."""
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # a runner that forks must have one thread
    found = []
    own_path = sys.path[:]
    sys.path += parents
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        found.append(name)
    if "numpy" in found:
        encode.support_numpy(sys.modules["numpy"])
        candidate.seeders["numpy"] = importlib.import_module("numpy.random").seed
    sys.path[:] = own_path
    return found


def _take_over_pipes() -> tuple[int, int, int]:
    """Move the host's pipes out of the way of programs and put /dev/null in their place; requests, replies, null."""
    null = os.open(os.devnull, os.O_RDWR)
    requests, replies, high_null = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD) for fd in (0, 1, null))
    for fd in (0, 1, candidate.RESULT_FD):
        os.dup2(high_null, fd)
    return requests, replies, high_null


def main(settings: dict[str, Any]) -> None:
    """Set the runner up and serve. Called by `runner/boot.py`, with the settings that `sandboxes.client` sends."""
    if settings["parent"]:
        die_with_parent(settings["parent"])
    register_at_fork, os.register_at_fork = os.register_at_fork, _ignore_forks
    for name in _WARM_MODULES:
        importlib.import_module(name)
    candidate.seeders["random"] = sys.modules["random"].seed
    packages = _import_packages(settings["packages"], settings["package_parents"])
    os.register_at_fork = register_at_fork
    for name in set(os.environ) - set(_ENVIRONMENT):
        del os.environ[name]
    roots, hidden = settings["roots"], settings["hidden"]
    if roots is None:  # in a container the host does not know what there is
        roots, hidden = interpreter_files()
        roots += [path for path in settings["package_parents"] if os.path.isdir(path)]
    walls = Walls(roots, hidden, settings["omit_walls"])
    requests, replies, null = _take_over_pipes()
    walls.confine_runner()
    os.dup2(null, 2)  # until here the host wants to hear of errors
    ready = json.dumps({"python": platform.python_version(), "landlock": walls.landlock, "packages": packages}).encode()
    write_all(replies, frames.LENGTH.pack(len(ready)) + ready)
    gc.collect()
    gc.freeze()
    Zygote(requests, replies, null, walls).serve()
