"""Which sandbox runs on which operating system, and what to do on the others."""

from __future__ import annotations

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
