"""The host's side of one runner: starts it, sends programs, reads results, and kills it when it misbehaves."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandboxes import frames, values
from sandboxes.sandbox import CallResult, ExecutionResult, Limits, Outcome, Program

_START_TIMEOUT_S = 30.0
_GRACE_S = 10.0  # what a runner may be late on a busy machine before it counts as hung
_CHUNK_BYTES = 1 << 18
_MAX_READY_BYTES = 1 << 16
_MAX_ERROR_CHARS = 2000
_READY_KEYS = {"python", "landlock", "packages"}
_PACKAGE = Path(__file__).parent
_MODULES = {"sandboxes.frames": _PACKAGE / "frames.py"} | {
    f"sandboxes.runner.{name}": _PACKAGE / "runner" / f"{name}.py"
    for name in ("buffers", "encode", "syscalls", "walls", "candidate", "child", "zygote")
}
_OUTCOMES = [Outcome(name) for name in frames.OUTCOMES]

ENVIRONMENT = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LANG": "C.UTF-8"}
"""All that a runner sees of the environment. A fixed hash seed makes the order of sets repeatable."""

PYTHON_FLAGS = ("-s", "-S", "-P")
"""No user site, no site-packages, no current directory on the path. Not -I, which ignores PYTHONHASHSEED."""


class RunnerError(Exception):
    """A runner did not start, died, hung or broke the protocol. Its user replaces it."""


class RunnerProcess:
    """A running runner; serves one program at a time.

    Start it from a thread that outlives it: the kernel kills it when that thread ends, so that it never outlives the host.

    Args:
        command: The wrapper and the interpreter, to which the flags and the boot code are added.
        settings: Settings of `sandboxes.runner.zygote.main`.

    Raises:
        RunnerError: If it does not start; says what it wrote on standard error.
    """

    def __init__(self, command: Sequence[str], settings: Mapping[str, Any]) -> None:
        boot = (_PACKAGE / "runner" / "boot.py").read_text("utf-8")
        self._process = subprocess.Popen(
            [*command, *PYTHON_FLAGS, "-c", boot],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            bufsize=0,
            start_new_session=True,  # the terminal's Ctrl-C is for the host
        )
        assert self._process.stdin is not None and self._process.stdout is not None and self._process.stderr is not None
        self._stdin, self._stdout, self._stderr = self._process.stdin, self._process.stdout, self._process.stderr
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe.fileno(), False)
        self._received = bytearray()
        try:
            self.ready = self._boot(settings)
        except RunnerError as error:
            # Without blocking: a process that it started may still hold the other end.
            last_words = (self._stderr.read() or b"").decode("utf-8", "replace")[-_MAX_ERROR_CHARS:].strip()
            self.close()
            raise RunnerError(f"The runner did not start: {error} {last_words}".strip()) from None
        except BaseException:
            self.close()
            raise

    def _boot(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        deadline = time.monotonic() + _START_TIMEOUT_S
        modules = {name: path.read_text("utf-8") for name, path in _MODULES.items()}
        blob = json.dumps({"modules": modules, "settings": settings}).encode()
        self._send(frames.LENGTH.pack(len(blob)) + blob, deadline)
        (length,) = frames.LENGTH.unpack(self._receive(frames.LENGTH.size, deadline))
        if length > _MAX_READY_BYTES:
            raise RunnerError("It broke the protocol.")
        try:
            ready = json.loads(self._receive(length, deadline))
        except ValueError:
            raise RunnerError("It broke the protocol.") from None
        if not isinstance(ready, dict) or not ready.keys() >= _READY_KEYS:
            raise RunnerError("It broke the protocol.")
        return ready

    def run(self, program: Program) -> ExecutionResult:
        """Run one program.

        Raises:
            RunnerError: If the runner fails; it must be closed then.
        """
        limits = program.limits
        body = json.dumps({"source": program.source, "calls": program.calls, "semantics": program.semantics}).encode()
        if len(body) > frames.MAX_REQUEST_BYTES:
            return ExecutionResult((CallResult(Outcome.OUTPUT_LIMIT),) * len(program.calls))
        header = frames.REQUEST.pack(
            len(body),
            len(program.calls),
            limits.call_timeout_s,
            limits.program_timeout_s,
            limits.memory_mib,
            4 * limits.output_chars,  # bytes of UTF-8
            limits.value_bytes,
        )
        # The watchdog. The runner keeps the limits itself; this is for a runner that a program has stopped or broken.
        allowed_s = min(limits.program_timeout_s, limits.call_timeout_s * len(program.calls)) + _GRACE_S
        deadline = time.monotonic() + allowed_s
        self._send(header + body, deadline)
        return self._read_result(len(program.calls), limits, deadline)

    def _read_result(self, num_calls: int, limits: Limits, deadline: float) -> ExecutionResult:
        calls: list[CallResult] = []
        printed = {frames.STDOUT: bytearray(), frames.STDERR: bytearray()}
        longest = max(limits.value_bytes, 4 * limits.output_chars, frames.MAX_NAME_BYTES)
        while True:
            kind, length, outcome, wall_s = frames.REPLY.unpack(self._receive(frames.REPLY.size, deadline))
            if length > longest or outcome >= len(_OUTCOMES):
                raise RunnerError("It broke the protocol.")
            payload = self._receive(length, deadline)
            if kind == frames.CALL and len(calls) < num_calls:
                calls.append(_call_result(_OUTCOMES[outcome], payload, wall_s))
            elif kind in printed and len(printed[kind]) <= 4 * limits.output_chars:
                printed[kind] += payload
            elif kind == frames.DONE and len(calls) == num_calls and length == frames.USAGE.size and not self._received:
                out, err = (bytes(text).decode("utf-8", "replace")[: limits.output_chars] for text in printed.values())
                return ExecutionResult(tuple(calls), out, err, *frames.USAGE.unpack(payload))
            else:
                raise RunnerError("It broke the protocol.")

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        poll = select.poll()
        poll.register(self._stdin, select.POLLOUT)
        while view:
            if not poll.poll(_milliseconds_until(deadline)):
                raise RunnerError("It does not read.")
            try:
                view = view[os.write(self._stdin.fileno(), view) :]
            except BlockingIOError:
                continue
            except OSError:
                raise RunnerError("It has ended.") from None

    def _receive(self, count: int, deadline: float) -> bytes:
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        while len(self._received) < count:
            if not poll.poll(_milliseconds_until(deadline)):
                raise RunnerError("It does not answer.")
            try:
                chunk = os.read(self._stdout.fileno(), _CHUNK_BYTES)
            except BlockingIOError:
                continue
            if not chunk:
                raise RunnerError("It has ended.")
            self._received += chunk
        data = bytes(self._received[:count])
        del self._received[:count]
        return data

    @property
    def pid(self) -> int:
        """Process id of the runner, or of the wrapper around it."""
        return self._process.pid

    def kill(self) -> None:
        """Kill the runner and all its programs; whoever waits for a result gets `RunnerError`. Safe from any thread."""
        self._process.kill()

    def close(self) -> None:
        """Kill it and free what it held. A second call does nothing."""
        self._process.kill()
        self._process.wait()
        self._close_pipes()

    def abandon(self) -> None:
        """Let go of it in a forked copy of the host, whose child it is not."""
        self._process.returncode = 0  # else subprocess would warn about, and wait for, a process of the parent
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self._stdin, self._stdout, self._stderr):
            pipe.close()


def _milliseconds_until(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic()) * 1000.0


def _call_result(outcome: Outcome, payload: bytes, wall_s: float) -> CallResult:
    if outcome is not Outcome.OK:
        return CallResult(outcome, error=payload.decode("utf-8", "replace")[: frames.MAX_NAME_CHARS], wall_s=wall_s)
    try:
        value = json.loads(payload)
        values.canonical(value)
    except (ValueError, RecursionError):
        # Not what the encoder makes, so the program has tampered with its own frames.
        return CallResult(Outcome.CRASH, wall_s=wall_s)
    return CallResult(outcome, value, wall_s=wall_s)
