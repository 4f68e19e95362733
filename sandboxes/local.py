"""The embedded backend: walls of the Linux kernel around runner processes, no daemon, nothing to install."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

from sandboxes.interpreter import BUBBLEWRAP, bubblewrap_command, find_interpreter
from sandboxes.process import RunnerError, RunnerProcess
from sandboxes.sandbox import CallResult, ExecutionResult, Outcome, Program, Sandbox, SandboxError
from sandboxes.self_test import check_walls

_ATTEMPTS = 2
_CLOSED = "The sandbox has been closed; make a new one."


class EmbeddedSandbox(Sandbox):
    """Runs programs in runner processes behind Landlock, seccomp and resource limits, in bubblewrap where that works.

    A copy (pickled, deep-copied, or in a forked process) has the same settings and runners of its own, which start when it
    first runs a program.

    Args:
        workers: Runner processes, each of which serves one program at a time.
        packages: Packages that programs may import beside the standard library, where this interpreter has them installed.
            Top-level names; what a package itself imports must be listed before it.
        bubblewrap: Whether to put bubblewrap around the runners. By default where /usr/bin/bwrap works.

    Raises:
        ValueError: If `workers` is not positive.
        SandboxError: If a wall is missing on this machine; names it and says what to do.
    """

    name = "embedded"

    def __init__(self, workers: int = 2, packages: Sequence[str] = ("numpy",), bubblewrap: bool | None = None) -> None:
        if workers < 1:
            raise ValueError(f"`workers` must be at least 1, got {workers!r}.")
        if not sys.platform.startswith("linux"):
            raise SandboxError(f"The embedded sandbox needs Linux, got {sys.platform!r}. Use sandbox='docker' here.")
        self._workers, self._packages, self._bubblewrap = workers, tuple(packages), bubblewrap
        self._open()
        self._pool().warm_up()

    def _open(self) -> None:
        # One pool for each process that has used this object: a forked child has its parent's entry and must not use it.
        self._pools: dict[int, _Pool] = {}
        self._is_closed = False
        self._launch = _Launcher(self._packages, self._bubblewrap)
        self._finalizer = weakref.finalize(self, _close_own_pool, self._pools)

    def _pool(self) -> _Pool:
        if self._is_closed:
            raise SandboxError(_CLOSED)
        pool = self._pools.get(os.getpid())
        if pool is None:
            # No lock: one that another thread held during the fork would never be released.
            pool = self._pools.setdefault(os.getpid(), _Pool(self._workers, self._launch))
            for pid in [pid for pid in self._pools if pid != os.getpid()]:
                self._pools.pop(pid).abandon()
        return pool

    def run(self, programs: Sequence[Program]) -> list[ExecutionResult]:
        """Run every program in a process of its own; see `Sandbox.run`. A program may be 8 MiB, calls included."""
        pool = self._pool()
        futures = [pool.submit(program) for program in programs]
        try:
            return [future.result() for future in futures]
        except CancelledError:
            raise SandboxError(_CLOSED) from None
        finally:
            for future in futures:
                future.cancel()

    def guarantees(self) -> dict[str, str]:
        """What holds on this machine: wall -> how."""
        ready = self._pool().warm_up()
        landlock = f"Landlock version {ready['landlock']}" if ready["landlock"] else ""
        namespaces = "bubblewrap namespaces" if ready["bubblewrap"] else ""
        files = ", ".join(filter(None, (landlock, namespaces)))
        return {
            "files": f"read-only standard library, nothing else ({files}, seccomp)",
            "network": ", ".join(filter(None, ("seccomp", namespaces, landlock if ready["landlock"] >= 4 else ""))),
            "processes": "one, with threads (seccomp)",
            "signals": ", ".join(filter(None, ("seccomp", namespaces, landlock if ready["landlock"] >= 6 else ""))),
            "system calls": "allow-list (seccomp)",
            "memory": "address space of the one process (RLIMIT_AS)",
            "time": "deadlines kept by the runner, watchdog in the host",
            "python": ready["python"],
            "packages": ", ".join(ready["packages"]) or "none",
        }

    def close(self) -> None:
        """End all processes of the sandbox. A second call does nothing."""
        self._is_closed = True
        self._finalizer()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "workers": self._workers,
            "packages": self._packages,
            "bubblewrap": self._bubblewrap,
            "is_closed": self._is_closed,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._workers, self._packages, self._bubblewrap = state["workers"], state["packages"], state["bubblewrap"]
        self._open()
        self._is_closed = state["is_closed"]


class _Launcher:
    """Starts runners and has each prove its walls. Remembers whether bubblewrap works here.

    Args:
        packages: As for `EmbeddedSandbox`.
        bubblewrap: As for `EmbeddedSandbox`.
        omit_walls: Walls to leave out, of "landlock", "seccomp" and "rlimits". For tests: the self-test must then refuse.
    """

    def __init__(self, packages: Sequence[str], bubblewrap: bool | None, omit_walls: Sequence[str] = ()) -> None:
        self._interpreter = find_interpreter(packages)
        self._bubblewrap = bubblewrap
        self._omit_walls = tuple(omit_walls)

    def __call__(self) -> RunnerProcess:
        if self._bubblewrap is None:
            try:
                runner = self._start(with_bubblewrap=True)
            except SandboxError:
                self._bubblewrap = False  # not installed or not allowed here: the walls of the runner itself must do
            else:
                self._bubblewrap = True
                return runner
        return self._start(self._bubblewrap)

    def _start(self, with_bubblewrap: bool) -> RunnerProcess:
        interpreter = self._interpreter
        wrapper = bubblewrap_command(interpreter) if with_bubblewrap else []
        settings = {
            "roots": interpreter.roots,
            "hidden": interpreter.hidden,
            "listable": interpreter.listable,
            "packages": interpreter.packages,
            "package_parents": interpreter.package_parents,
            "parent": 0 if with_bubblewrap else os.getpid(),  # bubblewrap watches the host itself
            "omit_walls": self._omit_walls,
        }
        try:
            runner = RunnerProcess([*wrapper, interpreter.executable], settings)
        except (RunnerError, OSError) as error:
            raise SandboxError(f"{error} (bubblewrap: {BUBBLEWRAP if with_bubblewrap else 'not used'})") from error
        try:
            check_walls(runner)
            runner.ready["bubblewrap"] = with_bubblewrap
        except RunnerError as error:
            runner.close()
            raise SandboxError(f"The runner failed its self-test: {error}") from error
        except BaseException:
            runner.close()
            raise
        return runner


class _Pool:
    """Threads of one process, each with a runner of its own."""

    def __init__(self, workers: int, launch: Callable[[], RunnerProcess]) -> None:
        self._launch = launch
        # A runner dies with the thread that started it, so threads and runners live equally long.
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="sandbox")
        self._own = threading.local()
        self._lock = threading.Lock()
        self._runners: set[RunnerProcess] = set()
        self._is_closed = False
        self._ready: dict[str, Any] = {}

    def submit(self, program: Program) -> Future[ExecutionResult]:
        try:
            return self._threads.submit(self._run, program)
        except RuntimeError:  # shut down, by `close` in another thread or by the end of the interpreter
            raise SandboxError(_CLOSED) from None

    def warm_up(self) -> dict[str, Any]:
        """Start a runner if there is none yet, and say what runners report."""
        if not self._ready:
            self._threads.submit(self._runner).result()
        return self._ready

    def _run(self, program: Program) -> ExecutionResult:
        if not program.calls:
            return ExecutionResult(())
        for _ in range(_ATTEMPTS):
            runner = self._runner()
            try:
                return runner.run(program)
            except RunnerError:
                self._discard(runner)
        return ExecutionResult((CallResult(Outcome.CRASH),) * len(program.calls))

    def _runner(self) -> RunnerProcess:
        runner: RunnerProcess | None = getattr(self._own, "runner", None)
        if runner is None:
            runner = self._launch()
            with self._lock:
                self._runners.add(runner)
                is_late = self._is_closed
            self._own.runner, self._ready = runner, runner.ready
            if is_late:
                self._discard(runner)
        if self._is_closed:
            raise SandboxError(_CLOSED)
        return runner

    def _discard(self, runner: RunnerProcess) -> None:
        self._own.runner = None
        with self._lock:
            self._runners.discard(runner)
        runner.close()

    def close(self) -> None:
        """Kill all runners; programs that are running raise SandboxError."""
        with self._lock:
            self._is_closed = True
            runners = list(self._runners)
        for runner in runners:
            runner.kill()
        # The garbage collector may end a forgotten sandbox in any thread, this pool's own included.
        self._threads.shutdown(wait=not hasattr(self._own, "runner"), cancel_futures=True)
        for runner in runners:
            runner.close()

    def abandon(self) -> None:
        """Let go of a pool that belongs to the process from which this one was forked."""
        for runner in list(self._runners):
            runner.abandon()


def _close_own_pool(pools: dict[int, _Pool]) -> None:
    pool = pools.pop(os.getpid(), None)
    if pool is not None:
        pool.close()
