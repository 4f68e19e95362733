"""The Docker backend: warm, restricted containers with one runner each, and the same inner walls as the embedded backend."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from docker.errors import APIError, ImageNotFound

from sandboxes.channel import RunnerError
from sandboxes.client import RunnerClient, runner_settings
from sandboxes.containers import DAEMON_ERRORS, MAX_PROCESSES, ContainerChannel, connect, reap
from sandboxes.images import PACKAGES_DIRECTORY, default_image
from sandboxes.pool import ATTEMPTS, PooledSandbox
from sandboxes.prerequisites import address
from sandboxes.sandbox import SandboxError
from sandboxes.self_test import check_walls

_NOTHING: Mapping[str, Any] = {}
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 3.0


class DockerSandbox(PooledSandbox):
    """Runs programs in containers without network, capabilities, a writable disk or another user's processes.

    If the daemon dies during a batch, the sandbox waits for it and resumes the batch in new containers.

    Args:
        workers: Number of programs that run at the same time, each in its own container.
        image: Image to use; by default the image that `python -m sandboxes build` makes for this Python version.
        packages: Packages of the image that programs may import besides the standard library. A program must name the package. List
            the dependencies of a package before it.
        runtime: OCI runtime that the daemon knows, such as "runsc" (gVisor); None for its default.
        memory_mib: Memory of a container in MiB, without swap. A program's `Limits.memory_mib` should leave room for its runner.
        recycle_after: Number of programs after which a container is replaced.
        patience_s: How long to wait for a daemon that does not answer, in seconds.

    Raises:
        ValueError: If `workers` is not positive.
        SandboxError: If there is no daemon or no image, or a wall is missing. The message says what to do.
    """

    name = "docker"

    def __init__(
        self,
        workers: int = 2,
        image: str | None = None,
        packages: Sequence[str] = ("numpy",),
        runtime: str | None = None,
        memory_mib: int = 1024,
        recycle_after: int = 2000,
        patience_s: float = 60.0,
    ) -> None:
        launch = _Launcher(image or default_image(), runtime, memory_mib, patience_s)
        super().__init__(workers, packages, launch, recycle_after)

    def guarantees(self) -> dict[str, str]:
        """The guarantees on this machine: wall -> mechanism."""
        ready = self._ready()
        landlock = f"Landlock version {ready['landlock']}, " if ready["landlock"] else ""
        return {
            "files": f"read-only image that holds nothing but an interpreter ({landlock}seccomp)",
            "network": "none (container), seccomp",
            "processes": f"one, with threads (seccomp); {ready['processes']}",
            "signals": "seccomp, process namespace of the container",
            "other programs": "not readable (runner is process 1 and not dumpable, sealed pipes)",
            "system calls": "allow-list (seccomp), no capabilities, no new privileges",
            "memory": f"address space of the one process (RLIMIT_AS); {ready['memory']}",
            "time": "deadlines kept by the runner, watchdog in the host",
            "python": ready["python"],
            "packages": ", ".join(ready["packages"]) or "none",
            "image": ready["image"],
            "runtime": ready["runtime"],
        }


def limits_of(info: Mapping[str, Any], memory_mib: int) -> dict[str, str]:
    """The guarantees for a container's memory and processes, as text for people. They apply to each program: a container runs one at a time.

    Args:
        info: The daemon's description of itself (`docker info`). It silently ignores limits that it cannot enforce, except CPUs.
        memory_mib: Memory of the container in MiB.
    """
    by = f"(cgroup version {info.get('CgroupVersion', '1')})"
    swap = "without swap" if info.get("SwapLimit") else "and swap without limit"
    memory = f"{memory_mib} MiB {swap} in the container {by}"
    processes = f"{MAX_PROCESSES} in the container {by}"
    return {
        "memory": memory if info.get("MemoryLimit") else "the container has no limit: no memory cgroup",
        "processes": processes if info.get("PidsLimit") else "threads have no limit: no cgroup of processes",
    }


class _Launcher:
    """Starts containers and tests the walls of each runner.

    Args:
        image: See `DockerSandbox`.
        runtime: See `DockerSandbox`.
        memory_mib: See `DockerSandbox`.
        patience_s: See `DockerSandbox`.
        omit_walls: Walls of the runner to omit, from `sandboxes.runner.walls.WALLS`. For tests.
        changes: Settings of the container to override. For tests, which omit one of its walls.
        is_checked: Whether runners must pass the self-test.
    """

    def __init__(
        self,
        image: str,
        runtime: str | None,
        memory_mib: int,
        patience_s: float,
        omit_walls: Sequence[str] = (),
        changes: Mapping[str, Any] = _NOTHING,
        is_checked: bool = True,
    ) -> None:
        self._image, self._runtime = image, runtime
        self._memory_mib, self._patience_s = memory_mib, patience_s
        self._omit_walls, self._changes, self._is_checked = tuple(omit_walls), changes, is_checked
        self._has_worked = False
        self._limits: dict[str, str] = {}
        self._cpus = 0.0
        self._reaped_by = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __call__(self, modules: tuple[str, ...]) -> RunnerClient:
        """Start a runner that has loaded `modules`. If the daemon has worked before, wait for it to come back.

        A container that fails at its launch is started again, `ATTEMPTS` times in total.
        """
        deadline = time.monotonic() + (self._patience_s if self._has_worked else 0.0)
        pause_s, attempt = _FIRST_PAUSE_S, 0
        while True:
            attempt += 1
            try:
                runner = self._start(modules)
            except (*DAEMON_ERRORS, RunnerError) as error:
                may_recover = isinstance(error, RunnerError) and attempt < ATTEMPTS
                if isinstance(error, ImageNotFound) or (time.monotonic() >= deadline and not may_recover):
                    raise explain(error, self._image) from error
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                self._has_worked = True
                return runner

    def _start(self, modules: tuple[str, ...]) -> RunnerClient:
        self._prepare()
        channel = ContainerChannel(self._image, self._memory_mib, self._cpus, self._runtime, self._changes)
        runner = RunnerClient(
            channel, runner_settings(modules, package_parents=(PACKAGES_DIRECTORY,), omit_walls=self._omit_walls)
        )
        runner.ready |= {"image": self._image, "runtime": self._runtime or "default"} | self._limits
        if self._is_checked:
            # An image contains no data of the user, so programs may read it if the kernel has no Landlock.
            check_walls(runner, tolerated=() if runner.ready["landlock"] else ("read /etc/passwd",))
        return runner

    def _prepare(self) -> None:
        """Once per process: find the possible limits and the number of CPUs, and remove containers of killed hosts."""
        with self._lock:
            if self._reaped_by == os.getpid():
                return
            with contextlib.closing(connect()) as client:
                info = client.info()
                self._limits = limits_of(info, self._memory_mib)
                # Two if available: with one, the quota stops the runner while its program runs.
                self._cpus = float(min(2, int(info.get("NCPU", 1)))) if info.get("CpuCfsQuota") else 0.0
                reap(client)
            self._reaped_by = os.getpid()


def missing(image: str | None = None) -> str:
    """What the Docker backend lacks here: a daemon or the image; "" if nothing is missing."""
    image = image or default_image()
    try:
        with contextlib.closing(connect()) as client:
            client.images.get(image)
    except ImageNotFound:
        return f"Docker has no image {image!r}"
    except DAEMON_ERRORS:
        return f"no Docker daemon answers at {address() or 'its usual place'}"
    return ""


def explain(error: Exception, image: str = "") -> SandboxError:
    """The error for a failure of Docker, with advice."""
    text = str(error).strip()
    if isinstance(error, ImageNotFound):
        way_out = "Build it: `python -m sandboxes build`" if image == default_image() else f"Get it: `docker pull {image}`"
        return SandboxError(f"There is no image {image!r}. {way_out}.")
    if "no space left" in text.lower():
        return SandboxError(f"Docker's disk is full ({text}). Make room (`docker system prune`), then run this again.")
    if isinstance(error, RunnerError):
        return SandboxError(f"A container of {image!r} cannot serve: {text} Build it anew: `python -m sandboxes build`.")
    if isinstance(error, APIError) and "runtime" in text:
        return SandboxError(
            f"Docker refuses: {text}. Register the runtime with the daemon (`daemon.json`), or leave `runtime` out."
        )
    if isinstance(error, APIError):
        return SandboxError(f"Docker refuses: {text}.")
    reason = text.splitlines()[0][:200] if text else "no reason given"
    start = "Start it (`systemctl start docker`, or `dockerd` as root)" if sys.platform == "linux" else "Start Docker Desktop"
    return SandboxError(
        f"No Docker daemon answers at {address() or 'its usual place'} ({reason}). {start}, or set DOCKER_HOST; or use sandbox='embedded' on Linux."
    )
