"""The embedded backend: runner processes isolated by the Linux kernel, without a daemon or anything to install."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from sandboxes.channel import PipeChannel, RunnerError
from sandboxes.client import ENVIRONMENT, PYTHON_FLAGS, RunnerClient, boot_code, runner_settings
from sandboxes.interpreter import BUBBLEWRAP, Interpreter, bubblewrap_command, counts_by_namespace, find_interpreter
from sandboxes.pool import PooledSandbox, start
from sandboxes.prerequisites import require_system
from sandboxes.sandbox import SandboxError
from sandboxes.self_test import check_walls

#: Maximal number of processes and threads of a runner and its program, if the kernel counts them per user namespace.
_MAX_PROCESSES = 256


class EmbeddedSandbox(PooledSandbox):
    """Runs programs in runner processes behind Landlock, seccomp and resource limits, and in bubblewrap if it works here.

    Args:
        workers: Number of runner processes, each of which runs one program at a time.
        packages: Packages that programs may import besides the standard library, if this interpreter has them. A program must name
            the package. Top-level names; list the dependencies of a package before it.
        bubblewrap: Whether to run the runners in bubblewrap. By default if /usr/bin/bwrap works.

    Raises:
        ValueError: If `workers` is not positive.
        SandboxError: If a wall is missing on this machine. The message names it and says what to do.
    """

    name = "embedded"

    def __init__(self, workers: int = 2, packages: Sequence[str] = ("numpy",), bubblewrap: bool | None = None) -> None:
        require_system(self.name)
        super().__init__(workers, packages, _Launcher(packages, bubblewrap))

    def guarantees(self) -> dict[str, str]:
        """The guarantees on this machine: wall -> mechanism."""
        ready = self._ready()
        landlock = f"Landlock version {ready['landlock']}" if ready["landlock"] else ""
        namespaces = "bubblewrap namespaces" if ready["bubblewrap"] else ""
        files = ", ".join(filter(None, (landlock, namespaces)))
        return {
            "files": f"read-only standard library, nothing else ({files}, seccomp)",
            "network": ", ".join(filter(None, ("seccomp", namespaces, landlock if ready["landlock"] >= 4 else ""))),
            "processes": "one, with threads (seccomp)",
            "signals": ", ".join(filter(None, ("seccomp", namespaces, landlock if ready["landlock"] >= 6 else ""))),
            "other programs": f"not readable ({'no /proc, ' if ready['bubblewrap'] else ''}runner not dumpable, sealed pipes)",
            "system calls": "allow-list (seccomp)",
            "memory": "address space of the one process (RLIMIT_AS)",
            "time": "deadlines kept by the runner, watchdog in the host",
            "python": ready["python"],
            "packages": ", ".join(ready["packages"]) or "none",
        }


class UnsafeSandbox(PooledSandbox):
    """Runs programs in separate processes with time and memory limits, without any isolation. Never use it for untrusted programs.

    Args:
        workers: Number of runner processes.
    """

    name = "unsafe-no-isolation"

    def __init__(self, workers: int = 2) -> None:
        require_system(self.name)
        packages = ("numpy",)
        launch = _Launcher(
            packages, bubblewrap=False, omit_walls=("landlock", "runner filter", "program filter"), is_checked=False
        )
        super().__init__(workers, packages, launch)

    def guarantees(self) -> dict[str, str]:
        """Only limits, no isolation."""
        return {"isolation": "NONE: programs have the rights of this process", "python": self._ready()["python"]}


class _Launcher:
    """Starts runners and tests the walls of each. Remembers whether bubblewrap works here.

    Args:
        packages: As for `EmbeddedSandbox`.
        bubblewrap: As for `EmbeddedSandbox`.
        omit_walls: Walls of the runner to omit, from `sandboxes.runner.walls.WALLS`. For tests.
        is_checked: Whether runners must pass the self-test.
        wrap: Builds the command line of bubblewrap. For tests, which omit one of its walls.
    """

    def __init__(
        self,
        packages: Sequence[str],
        bubblewrap: bool | None,
        omit_walls: Sequence[str] = (),
        is_checked: bool = True,
        wrap: Callable[[Interpreter], list[str]] = bubblewrap_command,
    ) -> None:
        self._interpreter = find_interpreter(tuple(packages))
        self._bubblewrap = bubblewrap
        self._omit_walls = tuple(omit_walls)
        self._is_checked = is_checked
        self._wrap = wrap

    def __call__(self, modules: tuple[str, ...]) -> RunnerClient:
        """Start a runner that has loaded `modules`."""
        if self._bubblewrap is None:
            try:
                runner = start(lambda modules: self._start(modules, with_bubblewrap=True), modules)
            except (RunnerError, SandboxError):
                self._bubblewrap = False  # not installed or not allowed here: only the walls of the runner itself are used
            else:
                self._bubblewrap = True
                return runner
        return self._start(modules, self._bubblewrap)

    def _start(self, modules: tuple[str, ...], with_bubblewrap: bool) -> RunnerClient:
        interpreter = self._interpreter
        wrapper = self._wrap(interpreter) if with_bubblewrap else []
        settings = runner_settings(
            modules,
            interpreter.roots,
            hidden=() if with_bubblewrap else interpreter.hidden,  # bubblewrap mounts nothing there
            package_parents=interpreter.package_parents,
            parent=0 if with_bubblewrap else os.getpid(),  # bubblewrap watches the host itself
            omit_walls=self._omit_walls,
            max_processes=_MAX_PROCESSES if with_bubblewrap and counts_by_namespace() else 0,
        )
        try:
            command = [*wrapper, interpreter.executable, *PYTHON_FLAGS, "-c", boot_code()]
            channel = PipeChannel(command, ENVIRONMENT, is_wrapped=with_bubblewrap)
            runner = RunnerClient(channel, settings)
            runner.ready["bubblewrap"] = with_bubblewrap
            if self._is_checked:
                check_walls(runner)
        except (RunnerError, OSError) as error:
            kind = RunnerError if isinstance(error, RunnerError) else SandboxError  # a missing command is not retried
            raise kind(f"{error} (bubblewrap: {BUBBLEWRAP if with_bubblewrap else 'not used'})") from error
        return runner
