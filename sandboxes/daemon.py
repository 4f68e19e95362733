"""Whether a Docker daemon listens, asked without Docker's SDK."""

from __future__ import annotations

import os
import socket
import sys


def address() -> str:
    """Where the daemon is expected: DOCKER_HOST, or the socket of the system."""
    return os.environ.get("DOCKER_HOST") or ("" if sys.platform == "win32" else "unix:///var/run/docker.sock")


def knock() -> None:
    """Connect to the daemon's Unix socket and leave again; do nothing where the daemon is reached in another way.

    Also before every connection of the SDK, which forgets to close the socket of an attempt that fails.

    Raises:
        OSError: If nobody listens.
    """
    host = address()
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(host.removeprefix("unix://"))
