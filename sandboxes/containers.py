"""Containers with one runner each: their restrictions, the communication with them, and their removal."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, NotFound

from sandboxes.channel import MAX_ERROR_CHARS, Channel
from sandboxes.client import ENVIRONMENT, PYTHON_FLAGS, boot_code
from sandboxes.prerequisites import knock

LABEL = "colbench-gym.sandbox"
#: Exceptions of the communication with a daemon: docker's own errors, and those of requests (an OSError).
DAEMON_ERRORS = (DockerException, OSError)
_OWNER = f"{LABEL}.owner"
#: Header of each frame of a container's output: the stream and the length.
HEADER = struct.Struct("!BxxxI")
STDOUT = 1
#: Maximal number of processes and threads of a container.
MAX_PROCESSES = 128
_API_TIMEOUT_S = 60
_NOTHING: Mapping[str, Any] = {}


def connect() -> docker.DockerClient:
    """A client of the daemon that the environment specifies (DOCKER_HOST etc.), like the docker command line.

    Raises:
        DockerException, OSError: If no daemon answers.
    """
    knock()
    return docker.from_env(timeout=_API_TIMEOUT_S)


class ContainerChannel(Channel):
    """The standard streams of a container, over the daemon's attach socket.

    The container's standard input closes with the socket, the runner ends with its input, and the daemon removes a container that
    has ended. So a killed host leaves no container behind.

    Args:
        image: Image with a Python interpreter as its entry point.
        memory_mib: Memory of the container in MiB, without swap.
        cpus: Number of CPUs that it may use; 0 for all.
        runtime: OCI runtime, such as "runsc"; None for the daemon's default.
        changes: Settings that override those of `lock_down`. For tests, which omit one wall.

    Raises:
        DockerException, OSError: If the daemon fails.
    """

    def __init__(
        self, image: str, memory_mib: int, cpus: float, runtime: str | None, changes: Mapping[str, Any] = _NOTHING
    ) -> None:
        self._client = connect()
        self._errors, self._pending = b"", bytearray()
        self._container: Any = None
        self._wrapped: Any = None
        self._socket: Any = None
        try:
            self._container = self._client.containers.create(
                image, [*PYTHON_FLAGS, "-c", boot_code()], **{**lock_down(memory_mib, cpus, runtime), **changes}
            )
            self._wrapped, self._socket = attach(self._client, self._container.id)
            self._watch(self._socket.fileno(), self._socket.fileno())
            self._container.start()
        except BaseException:
            self.close()
            raise

    def receive(self, deadline: float) -> bytes:
        """See `Channel.receive`."""
        while True:
            self._pending += super().receive(deadline)
            if payload := self._take_frames():
                return payload

    def _take_frames(self) -> bytes:
        """The standard output in the complete frames of the daemon's stream. The end of standard error is stored separately."""
        output, start = [], 0
        while len(self._pending) - start >= HEADER.size:
            stream, length = HEADER.unpack_from(self._pending, start)
            end = start + HEADER.size + length
            if end > len(self._pending):
                break
            payload = bytes(self._pending[start + HEADER.size : end])
            if stream == STDOUT:
                output.append(payload)
            else:
                self._errors = (self._errors + payload)[-MAX_ERROR_CHARS:]
            start = end
        del self._pending[:start]
        return b"".join(output)

    def last_words(self) -> str:
        """See `Channel.last_words`."""
        return self._errors.decode("utf-8", "replace").strip()

    @property
    def container_id(self) -> str:
        """Id of the container."""
        return str(self._container.id)

    def kill(self) -> None:
        """See `Channel.kill`. The container ends with its input; `close` removes one that does not."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """See `Channel.close`."""
        self.abandon()
        if self._container is not None:
            with contextlib.suppress(*DAEMON_ERRORS):  # without a daemon the container is left to the reaper
                knock()
                self._container.remove(force=True, v=True)
        self._client.close()

    def abandon(self) -> None:
        """See `Channel.abandon`."""
        for end in (self._wrapped, self._socket):
            if end is not None:
                end.close()


def attach(client: docker.DockerClient, container_id: str) -> tuple[Any, socket.socket]:
    """The standard streams of a container, as the wrapper of docker's SDK (which must be kept and closed) and as the raw socket.

    Data read from the socket is framed, see `HEADER`.
    """
    wrapped = client.api.attach_socket(container_id, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    return wrapped, getattr(wrapped, "_sock", wrapped)


def lock_down(memory_mib: int, cpus: float, runtime: str | None) -> dict[str, Any]:
    """Arguments of `containers.create` for a container that has only memory, CPUs and its standard streams."""
    return {
        "stdin_open": True,
        "auto_remove": True,
        "network_mode": "none",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges=true"],
        "user": "65534:65534",
        "pids_limit": MAX_PROCESSES,
        "mem_limit": f"{memory_mib}m",
        "memswap_limit": f"{memory_mib}m",
        "nano_cpus": int(cpus * 1e9),
        "ulimits": [docker.types.Ulimit(name="core", soft=0, hard=0), docker.types.Ulimit(name="nofile", soft=256, hard=256)],
        "tmpfs": {"/tmp": "size=1m,noexec,nosuid,nodev"},
        "log_config": docker.types.LogConfig(type="none"),
        "init": False,  # the runner is process 1; an init process would also hold its standard input, and could be read
        "stop_signal": "SIGKILL",  # process 1 ignores signals without a handler
        "ipc_mode": "none",
        "hostname": "sandbox",
        "working_dir": "/",
        "environment": ENVIRONMENT,
        "labels": {LABEL: "1", _OWNER: json.dumps([_machine(), os.getpid(), _start_time(os.getpid())])},
        "runtime": runtime,
    }


def reap(client: docker.DockerClient) -> list[str]:
    """Remove containers of processes of this machine that have ended. Returns the ids of the removed containers.

    Such containers only exist if the daemon was killed as well, so that it could not remove them.
    """
    removed = []
    for container in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
        if _is_gone(container.labels.get(_OWNER, "")):
            with contextlib.suppress(NotFound, APIError):
                container.remove(force=True, v=True)
                removed.append(str(container.id))
    return removed


def _is_gone(owner: str) -> bool:
    """True for a process of this machine that has ended, also if another process has its id now."""
    try:
        machine, pid, started = json.loads(owner)
        if machine != _machine():
            return False
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (ValueError, TypeError, PermissionError):
        return False
    return bool(started) and _start_time(pid) != started


def _machine() -> str:
    """Id of this machine and boot. Process ids are only comparable within one boot of one machine."""
    with contextlib.suppress(OSError):
        return f"{socket.gethostname()}/{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}"
    return socket.gethostname()


def _start_time(pid: int) -> str:
    """When a process started, in clock ticks since boot; "" if unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
