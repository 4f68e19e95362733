"""A browser in a container: isolation of pages by a Docker daemon.

Playwright starts this module as if it were the browser and communicates over the pipes 3 and 4. The module starts a restricted container
and forwards the messages. The container ends with its input, so it always ends with this process.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sandboxes
from sandboxes.pages.chromium import BROWSER_IMAGE, make_executable
from sandboxes.sandbox import SandboxError

WAY_OUT = "Start a daemon, then `pip install docker` and `python -m sandboxes build browser`; or use 'embedded' on Linux."
MEMORY_MIB = 3072
_FROM_PLAYWRIGHT, _TO_PLAYWRIGHT = 3, 4
_CHUNK = 1 << 16


def write_docker_launcher(folder: Path) -> Path:
    """Write a script that starts the browser in a container; for `Browser(launcher=write_docker_launcher)`.

    Raises:
        SandboxError: If there is no daemon or no image. The message says what to do.
    """
    if reason := sandboxes.docker_lacks(BROWSER_IMAGE):
        raise SandboxError(f"Pages cannot be rendered in Docker: {reason}. {WAY_OUT}")
    root = Path(__file__).parents[2]
    path = folder / "browser"
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(root))} exec {shlex.quote(sys.executable)} -m sandboxes.pages.container {BROWSER_IMAGE} "$@"\n'
    )
    return make_executable(path)


def main(arguments: Sequence[str]) -> int:
    """Run the browser of an image with arguments, until Playwright or the browser closes the connection."""
    from sandboxes.containers import attach, connect, lock_down

    image, *flags = arguments
    client = connect()
    settings = lock_down(MEMORY_MIB, cpus=2.0, runtime=None) | {
        "init": True,  # the browser's processes leave children behind
        "pids_limit": 512,
        "tmpfs": {"/tmp": "size=512m,mode=1777,nosuid,nodev"},
        "working_dir": "/tmp",
        "environment": {"HOME": "/tmp", "LANG": "C.UTF-8"},
    }
    del settings["ulimits"]
    container = client.containers.create(image, [*flags, "--no-sandbox"], **settings)
    _wrapped, link = attach(client, container.id)  # the wrapper must live as long as the socket
    container.start()
    threading.Thread(target=_pass_on, args=(link,), daemon=True).start()
    try:
        _pass_back(link)
    finally:
        with contextlib.suppress(Exception):  # it removes itself when it ends
            container.remove(force=True)
    return 0


def _pass_on(link: socket.socket) -> None:
    """Forward Playwright's commands to the container. When they end, the container ends."""
    with contextlib.suppress(OSError):
        while data := os.read(_FROM_PLAYWRIGHT, _CHUNK):
            link.sendall(data)
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)


def _pass_back(link: socket.socket) -> None:
    """Forward the container's standard output to Playwright, without the daemon's frame headers."""
    from sandboxes.containers import HEADER, STDOUT

    with contextlib.suppress(OSError):
        while header := _exactly(link, HEADER.size):
            stream, length = HEADER.unpack(header)
            payload: Any = memoryview(_exactly(link, length))
            while stream == STDOUT and payload:
                payload = payload[os.write(_TO_PLAYWRIGHT, payload) :]


def _exactly(link: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = link.recv(count - len(data))
        if not part:
            return b""
        data += part
    return bytes(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
