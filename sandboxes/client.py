"""The host's side of one runner: boot it, send programs, read results, and give up a runner that misbehaves."""

from __future__ import annotations

import functools
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandboxes import frames, values
from sandboxes.channel import Channel, RunnerError
from sandboxes.sandbox import MAX_LARGEST_VALUES, CallResult, ExecutionResult, Limits, Outcome, Program

_START_TIMEOUT_S = 30.0
_GRACE_S = 10.0  # allowed delay on a busy machine before a runner counts as hung
_MAX_READY_BYTES = 1 << 16
_SHORT_BYTES = 1 << 14
_PACKAGE = Path(__file__).parent
_MODULES = {f"sandboxes.{name}": _PACKAGE / f"{name}.py" for name in ("frames", "files")} | {
    f"sandboxes.runner.{name}": _PACKAGE / "runner" / f"{name}.py"
    for name in ("buffers", "encode", "syscalls", "walls", "program", "program_process", "supervisor")
}
_OUTCOMES = [Outcome(name) for name in frames.OUTCOMES]

ENVIRONMENT = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LANG": "C.UTF-8", "LD_BIND_NOW": "1", "MALLOC_ARENA_MAX": "1"}
"""All that a runner sees of the environment. A fixed hash seed makes the order of sets repeatable. What the dynamic linker looks
up at the start, it need not look up again in every program's process. An arena for each thread would use up the address space."""

PYTHON_FLAGS = ("-s", "-S")
"""No user site, no site-packages. Not -I, which ignores PYTHONHASHSEED; nor -P, which Python 3.10 does not know."""


def boot_code() -> str:
    """The program that turns an interpreter into a runner. It reads the remaining code from standard input."""
    return (_PACKAGE / "runner" / "boot.py").read_bytes().decode()


def runner_settings(
    modules: Sequence[str] = (),
    roots: Sequence[str] | None = None,
    hidden: Sequence[str] = (),
    package_parents: Sequence[str] = (),
    parent: int = 0,
    omit_walls: Sequence[str] = (),
    max_processes: int = 0,
) -> dict[str, Any]:
    """Settings that a runner receives at its start.

    Args:
        modules: Modules to load before the first program. Missing ones are skipped.
        roots: Trees and files that programs may read (`sandboxes.interpreter.find_interpreter`). None if the runner has another file
            system than the host, as in a container; it then finds the files of its interpreter itself.
        hidden: Directories below the roots that programs may not read.
        package_parents: Directories that contain the packages among the modules.
        parent: Process id of the parent with which the runner should end; 0 if this is ensured otherwise.
        omit_walls: Walls to omit, from `sandboxes.runner.walls.WALLS`. For tests.
        max_processes: Maximal number of processes and threads of the runner's user; 0 for no limit. Set it only if no other process
            has this user, i.e. in a user namespace.
    """
    return {
        "modules": tuple(modules), "roots": None if roots is None else tuple(roots), "hidden": tuple(hidden),
        "package_parents": tuple(package_parents), "parent": parent, "omit_walls": tuple(omit_walls), "max_processes": max_processes,
    }  # fmt: skip


class RunnerClient:
    """A started runner, which runs one program at a time.

    Args:
        channel: Channel to an interpreter that runs `boot_code()`. It is closed with this object, and if the constructor raises.
        settings: A value of `runner_settings`.

    Raises:
        RunnerError: If the runner does not start. The message has the end of its standard error.
    """

    def __init__(self, channel: Channel, settings: Mapping[str, Any]) -> None:
        self.channel = channel
        self.num_served = 0
        self._sent: deque[Program] = deque()
        self._received, self._start = bytearray(), 0  # received bytes, and how many of them are read
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
        modules = {name: path.read_bytes().decode() for name, path in _MODULES.items()}
        blob = repr({"modules": modules, "settings": dict(settings)}).encode()
        self.channel.send(frames.LENGTH.pack(len(blob)) + blob, deadline)
        (length,) = frames.LENGTH.unpack(self._receive(frames.LENGTH.size, deadline))
        if length > _MAX_READY_BYTES:
            raise RunnerError("It broke the protocol.")
        try:
            python, landlock, *loaded = self._receive(length, deadline).decode().split("\n")
            return {"python": python, "landlock": int(landlock), "modules": loaded}
        except ValueError:
            raise RunnerError("It broke the protocol.") from None

    def run(self, program: Program) -> ExecutionResult:
        """Run one program; raises as `send` and `receive` do."""
        self.send(program, pack_request(program))
        return self.receive()

    def send(self, program: Program, request: bytes) -> None:
        """Send a program and its `pack_request` to the runner. Programs sent ahead wait in the channel, not in the runner.

        Raises:
            RunnerError: If the runner fails. Its channel must then be closed.
        """
        self._sent.append(program)
        self.channel.send(request, time.monotonic() + _allowed_s(program))

    def receive(self) -> ExecutionResult:
        """The result of the first sent program that has none yet; raises as `send` does."""
        program = self._sent.popleft()
        # The watchdog. The runner itself enforces the limits; this handles a runner that a program has stopped or broken.
        return self._read_result(len(program.calls), program.limits, time.monotonic() + _allowed_s(program))

    def _read_result(self, num_calls: int, limits: Limits, deadline: float) -> ExecutionResult:
        calls: list[CallResult] = []
        printed = {frames.STDOUT: bytearray(), frames.STDERR: bytearray()}
        longest = max(limits.value_bytes, 4 * limits.output_chars, frames.MAX_NAME_BYTES)
        left = MAX_LARGEST_VALUES * limits.value_bytes
        while True:
            self._await(frames.REPLY.size, deadline)
            kind, length, outcome, wall_s = frames.REPLY.unpack_from(self._received, self._start)
            if length > longest or outcome >= len(_OUTCOMES) or not 0.0 <= wall_s < math.inf:
                raise RunnerError("It broke the protocol.")
            self._start += frames.REPLY.size
            payload = self._receive(length, deadline)
            if kind == frames.CALL and len(calls) < num_calls:
                left -= length
                calls.append(
                    _call_result(_OUTCOMES[outcome], payload, wall_s)
                    if left >= 0
                    else CallResult(Outcome.OUTPUT_LIMIT, wall_s=wall_s)
                )
            elif kind in printed and payload and len(printed[kind]) <= 4 * limits.output_chars:
                printed[kind] += payload  # empty frames are refused: there could be infinitely many
            elif (
                kind == frames.DONE
                and len(calls) == num_calls
                and length == frames.USAGE.size
                and (self._sent or self._start == len(self._received))  # nothing beyond the requested results
            ):
                out, err = (text.decode(errors="replace")[: limits.output_chars] for text in printed.values())
                usage = frames.USAGE.unpack(payload)
                if not all(0.0 <= used < math.inf for used in usage):
                    raise RunnerError("It broke the protocol.")
                self.num_served += 1
                return ExecutionResult(tuple(calls), out, err, *usage)
            else:
                raise RunnerError("It broke the protocol.")

    def _receive(self, count: int, deadline: float) -> bytes:
        self._await(count, deadline)
        start, self._start = self._start, self._start + count
        return bytes(self._received[start : self._start])

    def _await(self, count: int, deadline: float) -> None:
        """Wait until `count` unread bytes are available."""
        if self._start + count > len(self._received):
            del self._received[: self._start]
            self._start = 0
            while len(self._received) < count:
                self._received += self.channel.receive(deadline)


def pack_request(program: Program) -> bytes:
    """The bytes of a request to run a program; see `sandboxes.frames`."""
    limits = program.limits
    body = frames.pack_texts((program.source, *program.calls))
    header = frames.REQUEST.pack(
        len(body),
        len(program.calls),
        frames.SEMANTICS.index(program.semantics),
        program.seed,
        limits.call_timeout_s,
        limits.program_timeout_s,
        limits.memory_mib,
        4 * limits.output_chars,  # bytes of UTF-8
        limits.value_bytes,
    )
    return header + body


def _allowed_s(program: Program) -> float:
    """How long a runner may take over a program before it counts as hung."""
    return min(program.limits.program_timeout_s, program.limits.call_timeout_s * len(program.calls)) + _GRACE_S


def _call_result(outcome: Outcome, payload: bytes, wall_s: float) -> CallResult:
    if outcome is not Outcome.OK:
        return CallResult(outcome, error=payload.decode(errors="replace")[: frames.MAX_NAME_CHARS], wall_s=wall_s)
    try:
        value = values.parse(payload)
        fingerprint = _short_fingerprint(payload) if len(payload) <= _SHORT_BYTES else values.fingerprint(value)
        return CallResult(outcome, value, fingerprint, wall_s=wall_s)
    except values.OversizedValue:
        return CallResult(Outcome.OUTPUT_LIMIT, wall_s=wall_s)
    except values.MalformedValue:
        # The encoder does not produce this, so the program has tampered with its own frames.
        return CallResult(Outcome.CRASH, wall_s=wall_s)


@functools.lru_cache(maxsize=4_000)
def _short_fingerprint(payload: bytes) -> str:
    """Fingerprint of a short payload. Cached, because different answers to a task mostly return the same values."""
    return values.fingerprint(values.parse(payload))
