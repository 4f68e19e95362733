"""The host's side of one runner: boots it, sends programs, reads results, and gives it up when it misbehaves."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandboxes import frames, values
from sandboxes.channel import Channel, RunnerError
from sandboxes.sandbox import CallResult, ExecutionResult, Limits, Outcome, Program

_START_TIMEOUT_S = 30.0
_GRACE_S = 10.0  # what a runner may be late on a busy machine before it counts as hung
_MAX_READY_BYTES = 1 << 16
_READY_KEYS = {"python", "landlock", "packages"}
_PACKAGE = Path(__file__).parent
_MODULES = {f"sandboxes.{name}": _PACKAGE / f"{name}.py" for name in ("frames", "files")} | {
    f"sandboxes.runner.{name}": _PACKAGE / "runner" / f"{name}.py"
    for name in ("buffers", "encode", "syscalls", "walls", "candidate", "child", "zygote")
}
_OUTCOMES = [Outcome(name) for name in frames.OUTCOMES]

ENVIRONMENT = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LANG": "C.UTF-8"}
"""All that a runner sees of the environment. A fixed hash seed makes the order of sets repeatable."""

PYTHON_FLAGS = ("-s", "-S", "-P")
"""No user site, no site-packages, no current directory on the path. Not -I, which ignores PYTHONHASHSEED."""


def boot_code() -> str:
    """The program that an interpreter must be given to become a runner; it takes the rest from standard input."""
    return (_PACKAGE / "runner" / "boot.py").read_text("utf-8")


class RunnerClient:
    """A running runner; serves one program at a time.

    Args:
        channel: To an interpreter that runs `boot_code()`. It is closed with this object, and where this raises.
        settings: Settings of `sandboxes.runner.zygote.main`.

    Raises:
        RunnerError: If the runner does not start; says what it wrote on standard error.
    """

    def __init__(self, channel: Channel, settings: Mapping[str, Any]) -> None:
        self.channel = channel
        self.num_served = 0
        self._received = bytearray()
        try:
            self.ready = self._boot(settings)
        except RunnerError as error:
            last_words = channel.last_words()
            channel.close()
            raise RunnerError(f"The runner did not start: {error} {last_words}".strip()) from None
        except BaseException:
            channel.close()
            raise

    def _boot(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        deadline = time.monotonic() + _START_TIMEOUT_S
        modules = {name: path.read_text("utf-8") for name, path in _MODULES.items()}
        blob = json.dumps({"modules": modules, "settings": settings}).encode()
        self.channel.send(frames.LENGTH.pack(len(blob)) + blob, deadline)
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
            RunnerError: If the runner fails; its channel must be closed then.
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
        self.channel.send(header + body, deadline)
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
                self.num_served += 1
                return ExecutionResult(tuple(calls), out, err, *frames.USAGE.unpack(payload))
            else:
                raise RunnerError("It broke the protocol.")

    def _receive(self, count: int, deadline: float) -> bytes:
        while len(self._received) < count:
            self._received += self.channel.receive(deadline)
        data = bytes(self._received[:count])
        del self._received[:count]
        return data


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
