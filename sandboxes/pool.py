"""A sandbox over a pool of runners, whatever the runners live in: threads, replacement, forks and copies of the host."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

from sandboxes.channel import RunnerError
from sandboxes.client import RunnerClient
from sandboxes.sandbox import CallResult, ExecutionResult, Outcome, Program, Sandbox, SandboxError

#: How often a program is tried, each time in a new runner, before its calls count as crashed.
ATTEMPTS = 3
#: Packages to load -> a runner that has loaded those of them that there are.
Launch = Callable[[tuple[str, ...]], RunnerClient]
_CLOSED = "The sandbox has been closed; make a new one."


class PooledSandbox(Sandbox):
    """Runs programs in runners that are kept warm.

    A copy (pickled, deep-copied, or in a forked process) has the same settings and runners of its own, which start when it
    first runs a program.

    Programs that name one of the `packages` run in runners that have loaded them; all others in plain ones, for a fork costs by
    the size of what is forked.

    Args:
        workers: Programs that run at the same time, each in a runner of its own.
        packages: What programs may import beside the standard library, by top-level name.
        launch: Starts a runner that has loaded the packages it is given and proved its walls, or raises SandboxError. Must be
            picklable.
        recycle_after: Programs after which a runner is replaced by a new one; 0 for never.

    Raises:
        ValueError: If `workers` is not positive.
        SandboxError: If no runner can be started.
    """

    def __init__(self, workers: int, packages: Sequence[str], launch: Launch, recycle_after: int = 0) -> None:
        if workers < 1:
            raise ValueError(f"`workers` must be at least 1, got {workers!r}.")
        self._workers, self._packages, self._launch, self._recycle_after = workers, tuple(packages), launch, recycle_after
        self._open()
        self._pool().warm_up(())

    def _open(self) -> None:
        # One pool for each process that has used this object: a forked child has its parent's entry and must not use it.
        self._pools: dict[int, _Pool] = {}
        self._is_closed = False
        self._finalizer = weakref.finalize(self, _close_own_pool, self._pools)

    def _pool(self) -> _Pool:
        if self._is_closed:
            raise SandboxError(_CLOSED)
        pool = self._pools.get(os.getpid())
        if pool is None:
            # No lock: one that another thread held during the fork would never be released.
            pool = self._pools.setdefault(os.getpid(), _Pool(self._workers, self._launch, self._recycle_after))
            for pid in [pid for pid in self._pools if pid != os.getpid()]:
                self._pools.pop(pid).abandon()
        return pool

    def run(self, programs: Sequence[Program]) -> list[ExecutionResult]:
        """Run every program in a process of its own; see `Sandbox.run`. A program may be 8 MiB, calls included."""
        pool = self._pool()
        futures = [pool.submit(program, self._packages_for(program)) for program in programs]
        try:
            return [future.result() for future in futures]
        except CancelledError:
            raise SandboxError(_CLOSED) from None
        finally:
            for future in futures:
                future.cancel()

    def _packages_for(self, program: Program) -> tuple[str, ...]:
        texts = (program.source, *program.calls)
        return self._packages if any(name in text for name in self._packages for text in texts) else ()

    def _ready(self) -> dict[str, Any]:
        """What a runner with all packages said of itself when it started; starts one if there is none."""
        return self._pool().warm_up(self._packages)

    def close(self) -> None:
        """End all runners of the sandbox. A second call does nothing."""
        self._is_closed = True
        self._finalizer()

    def __getstate__(self) -> dict[str, Any]:
        names = ("_workers", "_packages", "_launch", "_recycle_after", "_is_closed")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._open()
        self.__dict__.update(state)


class _OwnRunners(threading.local):
    """The runners of the thread that asks."""

    def __init__(self) -> None:
        self.by_packages: dict[tuple[str, ...], RunnerClient] = {}


class _Pool:
    """Threads of one process, each with runners of its own."""

    def __init__(self, workers: int, launch: Launch, recycle_after: int) -> None:
        self._launch, self._recycle_after = launch, recycle_after
        # A runner may die with the thread that started it, so threads and runners live equally long.
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="sandbox")
        self._own = _OwnRunners()
        self._lock = threading.Lock()
        self._runners: set[RunnerClient] = set()
        self._is_closed = False
        self._ready: dict[tuple[str, ...], dict[str, Any]] = {}

    def submit(self, program: Program, packages: tuple[str, ...]) -> Future[ExecutionResult]:
        try:
            return self._threads.submit(self._run, program, packages)
        except RuntimeError:  # shut down, by `close` in another thread or by the end of the interpreter
            raise SandboxError(_CLOSED) from None

    def warm_up(self, packages: tuple[str, ...]) -> dict[str, Any]:
        """Start a runner with these packages if there has been none yet, and say what it reported."""
        if packages not in self._ready:
            self._threads.submit(self._runner, packages).result()
        return self._ready[packages]

    def _run(self, program: Program, packages: tuple[str, ...]) -> ExecutionResult:
        if not program.calls:
            return ExecutionResult(())
        for _ in range(ATTEMPTS):
            runner = self._runner(packages)
            try:
                result = runner.run(program)
            except RunnerError:
                self._discard(runner, packages)
                continue
            if runner.num_served == self._recycle_after:
                self._discard(runner, packages)
            return result
        return ExecutionResult((CallResult(Outcome.CRASH),) * len(program.calls))

    def _runner(self, packages: tuple[str, ...]) -> RunnerClient:
        runner = self._own.by_packages.get(packages)
        if runner is None:
            runner = self._launch(packages)
            with self._lock:
                self._runners.add(runner)
                is_late = self._is_closed
            self._own.by_packages[packages], self._ready[packages] = runner, runner.ready
            if is_late:
                self._discard(runner, packages)
        if self._is_closed:
            raise SandboxError(_CLOSED)
        return runner

    def _discard(self, runner: RunnerClient, packages: tuple[str, ...]) -> None:
        del self._own.by_packages[packages]
        with self._lock:
            self._runners.discard(runner)
        runner.channel.close()

    def close(self) -> None:
        """Kill all runners; programs that are running raise SandboxError."""
        with self._lock:
            self._is_closed = True
            runners = list(self._runners)
        for runner in runners:
            runner.channel.kill()
        # The garbage collector may end a forgotten sandbox in any thread, this pool's own included.
        self._threads.shutdown(wait=not self._own.by_packages, cancel_futures=True)
        for runner in runners:
            runner.channel.close()

    def abandon(self) -> None:
        """Let go of a pool that belongs to the process from which this one was forked."""
        for runner in list(self._runners):
            runner.channel.abandon()


def _close_own_pool(pools: dict[int, _Pool]) -> None:
    pool = pools.pop(os.getpid(), None)
    if pool is not None:
        pool.close()
