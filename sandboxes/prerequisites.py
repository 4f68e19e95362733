"""What a sandbox needs of this machine: its operating system, and for Docker a daemon that answers, which is asked without Docker's SDK."""

from __future__ import annotations

import os
import socket
import sys

from sandboxes.sandbox import SandboxError

_WSL = "run everything in WSL2 (`wsl --install`), which is Linux"
_DOCKER = "start Docker, then `pip install docker` and `python -m sandboxes build`, and take the sandbox 'docker'"


def unsupported(backend: str) -> str:
    """Why this operating system cannot run a sandbox, and what to do, in one sentence; "" if it can.

    Args:
        backend: "embedded", "docker" or "unsafe-no-isolation". The first and the last start their runners by the Linux kernel. The second
            talks to its containers over a Unix socket with `select.poll`, which Windows lacks.
    """
    if sys.platform.startswith("linux") or (backend == "docker" and sys.platform != "win32"):
        return ""
    needs, advice = ("Linux or macOS", _WSL) if backend == "docker" else ("Linux", _WSL if sys.platform == "win32" else _DOCKER)
    return f"The sandbox {backend!r} needs {needs}, got {sys.platform!r}: {advice}."


def require_system(backend: str) -> None:
    """Refuse a sandbox that this operating system cannot run.

    Raises:
        SandboxError: Says what to do.
    """
    if why := unsupported(backend):
        raise SandboxError(why)


def address() -> str:
    """Address of the daemon: DOCKER_HOST, or the system's default socket."""
    return os.environ.get("DOCKER_HOST") or ("" if sys.platform == "win32" else "unix:///var/run/docker.sock")


def knock() -> None:
    """Connect to the daemon's Unix socket and disconnect. Does nothing if the daemon has another kind of address.

    It is also called before every connection of the SDK, which does not close the socket of a failed attempt.

    Raises:
        OSError: If no daemon is listening.
    """
    host = address()
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(host.removeprefix("unix://"))
