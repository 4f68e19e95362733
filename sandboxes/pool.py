"""A sandbox with a pool of runners, independent of how they are isolated: threads, replacement, forks and copies of the host."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sandboxes.channel import RunnerError
from sandboxes.client import RunnerClient, pack_request
from sandboxes.frames import MAX_REQUEST_BYTES
from sandboxes.sandbox import CallResult, ExecutionResult, Outcome, Program, Sandbox, SandboxError

#: Maximal number of attempts for a program, each in a new runner, before its calls count as crashed; and for the start of a runner.
ATTEMPTS = 3
#: Modules that programs import often and that take long to import.
LIBRARY = (
    "abc", "array", "base64", "bisect", "calendar", "cmath", "collections", "contextlib", "copy", "ctypes", "dataclasses", "datetime",
    "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "inspect", "io", "itertools", "json", "logging", "math",
    "multiprocessing", "operator", "queue", "random", "re", "signal", "statistics", "string", "textwrap", "threading", "time", "typing",
    "unicodedata", "uuid", "_strptime",
)  # fmt: skip
#: Modules to load -> a runner that has loaded those of them that exist.
Launch = Callable[[tuple[str, ...]], RunnerClient]
#: Number of programs sent to a runner at a time (one runs, the others wait), and maximal size of a waiting program in bytes.
_AHEAD, _MAX_AHEAD_BYTES = 8, 1 << 13
_CLOSED = "The sandbox has been closed; make a new one."


def start(launch: Launch, modules: tuple[str, ...]) -> RunnerClient:
    """Start a runner. If it ends, hangs or is killed at its launch, it is started again, `ATTEMPTS` times in total.

    Raises:
        RunnerError: If all attempts fail.
        SandboxError: As `launch` does.
    """
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(RunnerError):
            return launch(modules)
    return launch(modules)


class PooledSandbox(Sandbox):
    """Runs programs in runners that are kept warm.

    A copy (pickled, deep-copied, or in a forked process) has the same settings and runners of its own, which start when it
    first runs a program.

    The cost of a fork grows with the size of the process. So programs that name one of the `packages` run in runners that have loaded
    them, programs with other imports in runners that have loaded common modules, and all others in plain runners.

    Args:
        workers: Number of programs that run at the same time, each in its own runner.
        packages: Packages that programs may import besides the standard library, by top-level name.
        launch: Starts a runner that has loaded the given modules (as far as they exist) and has passed the test of its walls. It raises
            RunnerError if the runner fails (it is then started again), and SandboxError if another one would fail too. It must be
            picklable.
        recycle_after: Number of programs after which a runner is replaced; 0 for never.

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
        # One pool per process that has used this object. A forked child has its parent's entry, but must not use it.
        self._pools: dict[int, _Pool] = {}
        self._is_closed = False
        self._finalizer = weakref.finalize(self, _close_own_pool, self._pools)

    def _pool(self) -> _Pool:
        if self._is_closed:
            raise SandboxError(_CLOSED)
        pool = self._pools.get(os.getpid())
        if pool is None:
            # No lock: a lock held by another thread during the fork would never be released.
            pool = self._pools.setdefault(os.getpid(), _Pool(self._workers, self._launch, self._recycle_after))
            for pid in [pid for pid in self._pools if pid != os.getpid()]:
                self._pools.pop(pid).abandon()
            if self._is_closed:  # by another thread, which has not seen the new pool
                _close_own_pool(self._pools)
                raise SandboxError(_CLOSED)
        return pool

    def run(self, programs: Sequence[Program]) -> list[ExecutionResult]:
        """Run every program in a process of its own; see `Sandbox.run`. A program may be 8 MiB, calls included."""
        return list(self.stream(programs))

    def stream(self, programs: Sequence[Program]) -> Iterator[ExecutionResult]:
        """Yield results as they come; see `Sandbox.stream`."""
        jobs = deque(_Job(program, self._modules_for(program)) for program in programs)
        waiting = deque(job for job in jobs if not job.future.done())
        self._pool().serve(waiting)
        try:
            while jobs:  # results are not kept after they are yielded
                yield jobs.popleft().future.result()
        finally:
            waiting.clear()

    def _modules_for(self, program: Program) -> tuple[str, ...]:
        """Modules to load before the program runs. This is a guess: a program can also import modules that are not loaded."""
        text = "\n".join((program.source, *program.calls))
        if any(name in text for name in self._packages):
            return (*LIBRARY, *self._packages)
        return LIBRARY if "import" in text or program.semantics == "released" else ()

    def _ready(self) -> dict[str, Any]:
        """The startup report of a runner with all packages, and the packages that exist. Starts such a runner if necessary."""
        ready = self._pool().warm_up((*LIBRARY, *self._packages))
        return ready | {"packages": [name for name in self._packages if name in ready["modules"]]}

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


class _Job:
    """A program to run, and the future of its result.

    Args:
        program: The program.
        modules: Modules that the runner should have loaded.

    Attributes:
        attempts: Number of runners that have failed on it.
        is_alone: True if a runner has failed while the job was sent: it is then never sent together with other jobs.
    """

    def __init__(self, program: Program, modules: tuple[str, ...]) -> None:
        self.program, self.modules = program, modules
        self.request = pack_request(program)
        self.attempts, self.is_alone = 0, False
        self.future: Future[ExecutionResult] = Future()
        if not program.calls:
            self.future.set_result(ExecutionResult(()))
        elif len(self.request) > MAX_REQUEST_BYTES:
            self.end(Outcome.OUTPUT_LIMIT)

    def end(self, outcome: Outcome) -> None:
        """Set the outcome of all calls without a result of a runner."""
        self.future.set_result(ExecutionResult((CallResult(outcome),) * len(self.program.calls)))


def _take(waiting: deque[_Job]) -> _Job | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


def _take_ahead(waiting: deque[_Job], modules: tuple[str, ...]) -> _Job | None:
    """The next job, if it suits a runner with these modules and fits into the pipe even while the runner does not read."""
    following = _take(waiting)
    if following is None or (
        following.modules == modules and len(following.request) <= _MAX_AHEAD_BYTES and not following.is_alone
    ):
        return following
    waiting.appendleft(following)
    return None


def _fail(waiting: deque[_Job], error: BaseException | None = None) -> None:
    """Set an error on the waiting jobs, which will not run."""
    while job := _take(waiting):
        job.future.set_exception(error or SandboxError(_CLOSED))


class _OwnRunners(threading.local):
    """The runners of the current thread."""

    def __init__(self) -> None:
        self.by_modules: dict[tuple[str, ...], RunnerClient] = {}


class _Pool:
    """Threads of one process, each with its own runners."""

    def __init__(self, workers: int, launch: Launch, recycle_after: int) -> None:
        self._launch, self._recycle_after = launch, recycle_after
        # A runner may die with the thread that started it, so threads live as long as their runners.
        self._num_threads = workers
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="sandbox")
        self._own = _OwnRunners()
        self._lock = threading.Lock()
        self._runners: set[RunnerClient] = set()
        self._is_closed = False
        self._ready: dict[tuple[str, ...], dict[str, Any]] = {}

    def serve(self, waiting: deque[_Job]) -> None:
        """Let the threads process the waiting jobs."""
        try:
            for _ in range(min(self._num_threads, len(waiting))):
                self._threads.submit(self._work, waiting).add_done_callback(
                    lambda task: _fail(waiting) if task.cancelled() else None
                )
        except RuntimeError:  # shut down, by `close` in another thread or by the end of the interpreter
            raise SandboxError(_CLOSED) from None

    def warm_up(self, modules: tuple[str, ...]) -> dict[str, Any]:
        """Start a runner with these modules if there has been none yet, and return its startup report."""
        if modules not in self._ready:
            self._threads.submit(self._runner, modules).result()
        return self._ready[modules]

    def _work(self, waiting: deque[_Job]) -> None:
        """Take jobs until none is waiting. Several threads share the queue."""
        while job := _take(waiting):
            self._work_from(job, waiting)

    def _work_from(self, job: _Job, waiting: deque[_Job]) -> None:
        """Run a job and the jobs behind it that suit the same runner. They are sent ahead, so that the runner need not wait."""
        modules, sent = job.modules, deque([job])
        try:
            runner = self._runner(modules)
            runner.send(job.program, job.request)
            while sent:
                is_fresh = runner.num_served + len(sent) != self._recycle_after
                # Not the last jobs: they would wait behind a program that hangs while another runner is idle.
                ahead = 0 if job.is_alone else min(_AHEAD, len(waiting) // self._num_threads)
                if len(sent) < ahead and is_fresh and (following := _take_ahead(waiting, modules)):
                    sent.append(following)
                    runner.send(following.program, following.request)
                else:
                    result = runner.receive()
                    sent.popleft().future.set_result(result)
        except RunnerError:
            sent[0].attempts += 1
            if sent[0].attempts == ATTEMPTS:
                sent.popleft().end(Outcome.CRASH)
            for lost in sent:  # it is unknown on which of them the runner failed
                lost.is_alone = True
            waiting.extendleft(reversed(sent))
            self._discard(runner, modules)
        except BaseException as error:
            _fail(sent, error)
            _fail(waiting, error)
            if modules in self._own.by_modules:  # else the start of a runner failed
                self._discard(self._own.by_modules[modules], modules)
        else:
            if runner.num_served == self._recycle_after:
                self._discard(runner, modules)

    def _runner(self, modules: tuple[str, ...]) -> RunnerClient:
        runner = self._own.by_modules.get(modules)
        if runner is None:
            try:
                runner = start(self._launch_unless_closed, modules)
            except RunnerError as error:
                raise SandboxError(str(error)) from error
            with self._lock:
                self._runners.add(runner)
                is_late = self._is_closed
            self._own.by_modules[modules], self._ready[modules] = runner, runner.ready
            if is_late:
                self._discard(runner, modules)
        if self._is_closed:
            raise SandboxError(_CLOSED)
        return runner

    def _launch_unless_closed(self, modules: tuple[str, ...]) -> RunnerClient:
        if self._is_closed:
            raise SandboxError(_CLOSED)
        return self._launch(modules)

    def _discard(self, runner: RunnerClient, modules: tuple[str, ...]) -> None:
        del self._own.by_modules[modules]
        with self._lock:
            self._runners.discard(runner)
        with contextlib.suppress(OSError):  # a failure to clean up a runner must not affect the next program
            runner.channel.close()

    def close(self) -> None:
        """Kill all runners; programs that are running raise SandboxError."""
        with self._lock:
            self._is_closed = True
            runners = list(self._runners)
        for runner in runners:
            runner.channel.kill()
        # The garbage collector may close an unused sandbox in any thread, including this pool's own.
        self._threads.shutdown(wait=not self._own.by_modules, cancel_futures=True)
        for runner in runners:
            runner.channel.close()

    def abandon(self) -> None:
        """Release a pool that belongs to the process from which this one was forked."""
        for runner in list(self._runners):
            runner.channel.abandon()


def _close_own_pool(pools: dict[int, _Pool]) -> None:
    pool = pools.pop(os.getpid(), None)
    if pool is not None:
        pool.close()
