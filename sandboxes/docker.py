"""The Docker backend: warm, locked-down containers, one runner in each, behind the same inner walls as the embedded backend."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound

from sandboxes.channel import RunnerError
from sandboxes.client import RunnerClient, runner_settings
from sandboxes.containers import DAEMON_ERRORS, MAX_PROCESSES, ContainerChannel, connect, reap
from sandboxes.daemon import address
from sandboxes.images import PACKAGES_DIRECTORY, default_image
from sandboxes.pool import ATTEMPTS, PooledSandbox
from sandboxes.sandbox import SandboxError
from sandboxes.self_test import check_walls

_NOTHING: Mapping[str, Any] = {}
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 3.0


class DockerSandbox(PooledSandbox):
    """Runs programs in containers without network, capabilities, a writable disk or another user's processes.

    A daemon that dies in the middle of a batch is waited for; the batch then goes on in new containers.

    Args:
        workers: Programs that run at the same time, each in a container of its own.
        image: Image to use; by default the one that `python -m sandboxes build` makes for this Python version.
        packages: Packages of the image that programs which name them may import beside the standard library. What a package
            itself imports must be listed before it.
        runtime: OCI runtime that the daemon knows, such as "runsc" (gVisor); None for its default.
        memory_mib: Memory of a container, without swap: a program's `Limits.memory_mib` should leave room for its runner.
        recycle_after: Programs after which a container is replaced.
        patience_s: How long to wait for a daemon that has gone away, in seconds.

    Raises:
        ValueError: If `workers` is not positive.
        SandboxError: If there is no daemon or no image, or a wall is missing; says what to do.
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
        """What holds here: wall -> how."""
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


@dataclass(frozen=True)
class Cgroups:
    """What a daemon can limit by cgroup, of version 1 or 2. It drops the limits that it cannot keep, all but that of CPUs, silently.

    A container runs one program at a time, so its limits are those of each program.

    Attributes:
        version: Of the cgroups.
        memory: Whether it can limit memory,
        swap: swap,
        processes: processes and threads,
        cpus: CPU time.
    """

    version: str = "?"
    memory: bool = False
    swap: bool = False
    processes: bool = False
    cpus: bool = False

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> Cgroups:
        """Read what a daemon says of itself (`docker info`)."""
        keys = ("MemoryLimit", "SwapLimit", "PidsLimit", "CpuCfsQuota")
        return cls(str(info.get("CgroupVersion", "1")), *(bool(info.get(key)) for key in keys))

    def guarantees(self, memory_mib: int) -> dict[str, str]:
        """What holds of a container's memory and processes, for people."""
        by = f"(cgroup version {self.version})"
        swap = "without swap" if self.swap else "and swap without limit"
        memory = (
            f"{memory_mib} MiB {swap} in the container {by}" if self.memory else "the container has no limit: no memory cgroup"
        )
        processes = (
            f"{MAX_PROCESSES} in the container {by}" if self.processes else "threads have no limit: no cgroup of processes"
        )
        return {"memory": memory, "processes": processes}


class _Launcher:
    """Starts containers and has each runner prove its walls.

    Args:
        image: As for `DockerSandbox`, and so are the next three.
        runtime: See there.
        memory_mib: See there.
        patience_s: See there.
        omit_walls: Walls of the runner to leave out, of `sandboxes.runner.walls.WALLS`. For tests.
        changes: Settings of the container to replace. For tests, which leave one of its walls out.
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
        self._cgroups, self._cpus = Cgroups(), 0.0
        self._reaped_by = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __call__(self, modules: tuple[str, ...]) -> RunnerClient:
        """Start a runner that has loaded `modules`; a daemon that has served before is given time to come back.

        A container that fails at its launch is started again in any case, `ATTEMPTS` times in all.
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
        runner.ready |= {"image": self._image, "runtime": self._runtime or "default"}
        runner.ready |= self._cgroups.guarantees(self._memory_mib)
        if self._is_checked:
            # An image holds nothing of its user: a kernel without Landlock may let a program read it.
            check_walls(runner, tolerated=() if runner.ready["landlock"] else ("read /etc/passwd",))
        return runner

    def _prepare(self) -> None:
        """Once in a process: learn what can be limited and how many CPUs there are, and remove what killed hosts have left behind."""
        with self._lock:
            if self._reaped_by == os.getpid():
                return
            client = connect()
            try:
                info = client.info()
                self._cgroups = Cgroups.of(info)
                # Two where there are two: on one, the quota stops the runner while its program runs.
                self._cpus = float(min(2, int(info.get("NCPU", 1)))) if self._cgroups.cpus else 0.0
                reap(client)
            finally:
                client.close()
            self._reaped_by = os.getpid()


def missing(image: str | None = None) -> str:
    """What Docker lacks here to serve: a daemon or the image; "" where both are there."""
    try:
        client = connect()
    except DAEMON_ERRORS:
        return f"no Docker daemon answers at {address() or 'its usual place'}"
    try:
        client.images.get(image or default_image())
    except DAEMON_ERRORS:
        return f"Docker has no image {image or default_image()!r}"
    finally:
        client.close()
    return ""


def client_or_error() -> docker.DockerClient:
    """A client of the daemon.

    Raises:
        SandboxError: If none answers; says what to do.
    """
    try:
        return connect()
    except DAEMON_ERRORS as error:
        raise explain(error) from error


def explain(error: Exception, image: str = "") -> SandboxError:
    """What went wrong with Docker, and the way out."""
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
