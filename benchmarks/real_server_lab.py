"""Processes of `real_servers.py`: a server, and our commands beside it."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import real_server_checks as checks

ROOT = Path(__file__).resolve().parents[1]
Found = dict[str, Any]
#: Seconds within which a server must answer and a command must end.
START_S, LIMIT_S = 900, 3600


class Server:
    """A process that serves a model.

    Attributes:
        url: Address of its API.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process, self._host = process, f"http://127.0.0.1:{port}"
        self.url = f"{self._host}/v1"

    def wait(self) -> None:
        """Wait until it answers.

        Raises:
            RuntimeError: If it does not.
        """
        limit = time.monotonic() + START_S
        while self._process.poll() is None and time.monotonic() < limit:
            with contextlib.suppress(OSError):
                checks.request(self.url, "/models")  # in any way: the server of transformers fails without a cache of the hub
                return
            time.sleep(0.5)
        raise RuntimeError(f"The server at {self.url} did not start; see the log.")

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it with its children; they are a session of their own."""
        end(self._process, how)


class Lab:
    """What the parts share.

    Attributes:
        given: The arguments of the command line.
        folder: Scratch folder.
    """

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self.given, self.folder = given, folder
        self._log = given.log.open("a")

    def say(self, text: str) -> None:
        """Write a line to the log and the screen."""
        for stream in (self._log, sys.stdout):
            stream.write(f"{datetime.now(UTC):%H:%M:%S} {text}\n")
            stream.flush()

    def start(self, command: Sequence[str], **more: str) -> subprocess.Popen[bytes]:
        """Start a process in a session of its own; what it prints goes to the log."""
        self.say("$ " + " ".join(command))
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "HF_HUB_OFFLINE": "1",
            "NO_PROXY": "127.0.0.1",
            "OMP_NUM_THREADS": "1",
        }
        return subprocess.Popen(command, env=environment | more, stdout=self._log, stderr=self._log, start_new_session=True)

    def user(self, module: str, *words: str, python: str = sys.executable, **more: str) -> Found:
        """Run one of our commands to its end; returns its exit status."""
        process = self.start([python, "-m", f"sweetrl_agent.{module}", *words], **more)
        try:
            status = process.wait(LIMIT_S)
        finally:
            end(process)
        self.say(f"exit status {status}")
        return {"exit": status}

    @contextmanager
    def server(self, command: Sequence[str], port: int, **more: str) -> Iterator[Server]:
        """Run a server until the block ends."""
        server = Server(self.start(command, **more), port)
        try:
            server.wait()
            yield server
        finally:
            server.end()


def end(process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGTERM) -> None:
    """End a process with its children, by their session."""
    if process.poll() is None:
        os.killpg(process.pid, how)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
