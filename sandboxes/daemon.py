"""Check whether a Docker daemon is listening, without Docker's SDK."""

from __future__ import annotations

import os
import socket
import sys


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
