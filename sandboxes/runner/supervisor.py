"""The runner: it forks a process for every program, enforces the deadlines, and forwards results to the host.

A fork of this warm interpreter takes about a millisecond, a new interpreter twenty. The runner never inspects a program or a
value: it moves bytes between buffers (`runner/buffers.py`).

Invariant: when a program starts, its address space holds no source, call, value, output or exception name of any earlier or later
program, although a reference and the answers pass through the same runner. Three things ensure it. What a program returns and prints is
in memory that no fork inherits. The text of a program is wiped before the next request is read. And the process of a program leaves
the runner's frames, objects included, before it runs the program (`Supervisor.serve`). Sizes and times of earlier replies are numbers, some
of which may remain in freed memory.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import sys
import time

from sandboxes import frames
from sandboxes.files import interpreter_files
from sandboxes.runner import program
from sandboxes.runner.buffers import Buffer, Outbox, write_all
from sandboxes.runner.program_process import Child
from sandboxes.runner.walls import Walls, die_with_parent

TYPE_CHECKING = False  # see `sandboxes.frames`
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_START_TIMEOUT_S = 10.0
_FIRST_LOOK_S, _LAST_LOOK_S, _LOOKS_PER_CALL = 0.01, 0.05, 20
_CHUNK_BYTES = 1 << 16
_FIRST_FREE_FD = 10
_ENVIRONMENT = ("PYTHONHASHSEED", "TZ", "LANG")
_REHEARSALS = 20
#: Number of programs with results that are sent together: half of those that the host sends ahead, so that it refills the queue meanwhile.
_HELD = 4
#: Loaded module -> module with its global generator.
_GENERATORS = {"random": "random", "numpy": "numpy.random"}


class Request:
    """Header of a request, with the fields of `frames.REQUEST`."""

    def __init__(self, header: memoryview) -> None:
        (
            self.body_bytes, self.num_calls, self.semantics, self.seed, self.call_timeout_s, self.program_timeout_s,
            self.memory_mib, self.output_bytes, self.value_bytes,
        ) = frames.REQUEST.unpack(header)  # fmt: skip


class Supervisor:
    """Serves requests, one at a time.

    Args:
        requests: File descriptor of the requests.
        replies: File descriptor of the replies.
        null: File descriptor of /dev/null.
        walls: The walls around every program.
    """

    def __init__(self, requests: int, replies: int, null: int, walls: Walls) -> None:
        self._requests, self._null, self._walls = requests, null, walls
        self._outbox = Outbox(replies)
        self._incoming = select.poll()
        self._incoming.register(requests, select.POLLIN)
        self._header, self._body = Buffer(frames.REQUEST.size), Buffer(_CHUNK_BYTES, is_inherited=True)
        self._result, self._output = Buffer(_CHUNK_BYTES), Buffer(_CHUNK_BYTES)
        self._room: dict[bytes, int] = {}

    def serve(self) -> tuple[Request, int, memoryview] | None:
        """Serve until the host closes the pipe. Results of short programs are sent together while further programs are waiting.

        Returns:
            In the runner, None. In each process that it forks: the request, the index of the first call to evaluate, and the texts. The
            process returns here at once, so that none of the runner's objects is left in it.
        """
        held = 0
        while self._header.fill_from(self._requests, frames.REQUEST.size):
            request = Request(self._header.view())
            self._header.wipe()
            self._body.hold(request.body_bytes)
            if not self._body.fill_from(self._requests, request.body_bytes):
                return None
            first = self._run(request)
            if first is not None:
                return request, first, self._body.view()
            self._body.wipe()
            held += 1
            if held == _HELD or not self._incoming.poll(0):
                self._outbox.flush()
                held = 0
        return None

    def _run(self, request: Request) -> int | None:
        """Run a program. Returns None; in the process of the program, the index of the first call to evaluate."""
        self._room = {frames.STDOUT: request.output_bytes, frames.STDERR: request.output_bytes}
        deadline = time.monotonic() + request.program_timeout_s
        call, cpu_s, peak_mib = 0, 0.0, 0.0
        while call < request.num_calls and time.monotonic() < deadline:
            child = Child(self._null, self._requests)
            if child.pid == 0:
                return call
            call = self._supervise(child, request, call, deadline)
            child_cpu_s, child_peak_mib = child.kill()
            cpu_s, peak_mib = cpu_s + child_cpu_s, max(peak_mib, child_peak_mib)
            for fd in child.output_fds:
                while self._read_output(child, fd):  # the writers have ended: the rest fits into a pipe
                    pass
            child.close()
            fcntl.fcntl(self._null, fcntl.F_SETFL, 0)  # else its flags could pass information from one program to the next
            self._result.wipe()
        for _ in range(call, request.num_calls):
            self._outbox.put(frames.CALL, outcome=frames.TIMEOUT)
        self._outbox.put(frames.DONE, frames.USAGE.pack(cpu_s, peak_mib))
        return None

    def _supervise(self, child: Child, request: Request, call: int, deadline: float) -> int:
        """Forward the results from call `call` on. Returns the index of the first call without a result.

        The runner checks the progress of a program at growing intervals, at most a twentieth of the time limit of a call. So a call
        exceeds its limit by at most this much before it is stopped.
        """
        started = seen = time.monotonic()
        is_ready, look_s = False, _FIRST_LOOK_S
        last_look_s = min(_LAST_LOOK_S, request.call_timeout_s / _LOOKS_PER_CALL)
        while True:
            late = min(seen + request.call_timeout_s, deadline) if is_ready else seen + _START_TIMEOUT_S
            printed = child.wait(min(late, time.monotonic() + look_s))
            if not child.has_ended:  # a slow program: results of earlier programs must not wait for it
                self._outbox.flush()
            for fd in printed:
                self._read_output(child, fd)
            now, look_s, has_come = time.monotonic(), min(2.0 * look_s, last_look_s), False
            for outcome, wall_s, payload in self._results(child, request.value_bytes):
                has_come, look_s = True, _FIRST_LOOK_S
                if outcome == frames.READY and not is_ready:
                    is_ready = True
                    continue
                if outcome >= len(frames.OUTCOMES) or not is_ready:
                    outcome, payload = frames.CRASH, payload[:0]
                self._outbox.put(frames.CALL, payload, outcome, wall_s if 0.0 <= wall_s <= now - started else now - started)
                call += 1
                if call == request.num_calls or outcome in (frames.TIMEOUT, frames.CRASH, frames.MEMORY):
                    return call
            if has_come:
                seen = time.monotonic()  # again, because the host may have been slow to read the results
            if child.has_ended or (now >= late and not has_come):
                outcome = frames.TIMEOUT if is_ready and not child.has_ended else frames.CRASH
                self._outbox.put(frames.CALL, outcome=outcome, wall_s=max(0.0, now - seen))
                return call + 1

    def _results(self, child: Child, value_bytes: int) -> Iterator[tuple[int, float, memoryview]]:
        """Outcome, wall seconds and payload of the received results; a crash in place of an impossible result."""
        result, header_bytes = self._result, frames.RESULT.size
        while child.read_results(result):
            start = 0
            while result.used - start >= header_bytes:
                outcome, wall_s, length = frames.RESULT.unpack(result.view(start, start + header_bytes))
                end = start + header_bytes + length
                if length > max(value_bytes, frames.MAX_NAME_BYTES):
                    yield frames.CRASH, 0.0, result.view(0, 0)
                    return
                if end > result.used:
                    break
                yield outcome, wall_s, result.view(start + header_bytes, end)
                start = end
            result.discard(start)
            if result.used >= header_bytes:
                result.hold(header_bytes + length)
            child.expect_more(result.used > 0)

    def _read_output(self, child: Child, fd: int) -> int:
        """Read output of a program and forward it up to the limit. Returns the number of bytes read."""
        kind = frames.STDOUT if fd == child.output_fds[0] else frames.STDERR
        count = self._output.read_from(fd, _CHUNK_BYTES)
        kept = self._output.view(0, min(count, self._room[kind]))
        if kept:
            self._room[kind] -= len(kept)
            self._outbox.put(kind, kept)
        self._output.wipe()
        return count


def _ignore_forks(**handlers: object) -> None:
    """Replaces `os.register_at_fork` while modules are loaded.

    The fork handlers of threading, random and logging (new locks, new seeds) are for processes with several threads. The runner
    has one thread, and the handlers would touch 170 pages of memory in every program's process: a third of its cost.
    """


def _load(names: list[str], parents: list[str]) -> list[str]:
    """Load modules in advance, so that programs need no time for it. Returns the names of those that exist."""
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # a runner that forks must have one thread
    loaded = []
    own_path = sys.path[:]
    sys.path += parents
    for name in names:
        try:
            __import__(name)
        except ImportError:
            continue
        loaded.append(name)
    sys.path[:] = own_path
    for name, module in _GENERATORS.items():
        if name in loaded:
            __import__(module)  # numpy loads its generators lazily
            program.seeders.append(sys.modules[module].seed)
    return loaded


def _rehearse() -> None:
    """Run the code of a program's process once, so that Python fills its caches for this code before the fork.

    Otherwise every program would have to copy the memory pages of these caches.
    """
    body = frames.pack_texts(("def f(x):\n    return [x, 'a', 1.5, None, True, (x,), {x: 2}]", *["f(1)"] * 3))
    for _ in range(_REHEARSALS):
        program.serve(frames.unpack_texts(memoryview(body), 4), 0, 0, 0, 1 << 16)
    del sys.modules["program"]


def _take_over_pipes(walls: Walls) -> tuple[int, int, int]:
    """Move the host's pipes to other descriptors and replace them by /dev/null. Returns requests, replies, null."""
    for fd in (0, 1):
        walls.seal(fd)
    null = os.open(os.devnull, os.O_RDWR)
    requests, replies, high_null = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD) for fd in (0, 1, null))
    for fd in (0, 1, program.RESULT_FD):
        os.dup2(high_null, fd)
    return requests, replies, high_null


def main(settings: dict[str, Any]) -> None:
    """Set the runner up and serve. Called by `runner/boot.py`, with the settings that `sandboxes.client` sends."""
    if settings["parent"]:
        die_with_parent(settings["parent"])
    register_at_fork, os.register_at_fork = os.register_at_fork, _ignore_forks
    modules = _load(settings["modules"], settings["package_parents"])
    os.register_at_fork = register_at_fork
    for name in set(os.environ) - set(_ENVIRONMENT):
        del os.environ[name]
    roots, hidden = settings["roots"], settings["hidden"]
    if roots is None:  # in a container the host does not know the files
        roots, hidden = interpreter_files()
        roots += [path for path in settings["package_parents"] if os.path.isdir(path)]
    walls = Walls(roots, hidden, settings["omit_walls"], settings["max_processes"])
    requests, replies, null = _take_over_pipes(walls)
    walls.confine_runner()
    os.dup2(null, 2)  # up to here, errors are reported to the host
    _rehearse()
    python = ".".join(map(str, sys.version_info[:3]))
    ready = "\n".join((python, str(walls.landlock), *modules)).encode()
    write_all(replies, frames.LENGTH.pack(len(ready)) + ready)
    runner = os.getpid()
    gc.collect()
    gc.freeze()
    program = Supervisor(requests, replies, null, walls).serve()
    if program is not None:
        _become_program(*program, walls, runner)
    os._exit(0)


def _become_program(request: Request, first: int, body: memoryview, walls: Walls, runner: int) -> None:
    """Run a program in this process. Never returns: it must not continue as a runner, whatever happens."""
    try:
        die_with_parent(runner)
        walls.confine_program(request.memory_mib, int(request.program_timeout_s) + 2)
        texts = frames.unpack_texts(body, 1 + request.num_calls)
        program.serve(texts, first, request.semantics, request.seed, request.value_bytes)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}"[:1000].encode("utf-8", "replace"))
    finally:
        os._exit(1)
