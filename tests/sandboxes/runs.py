"""How most tests run a program: one call, and what became of it."""

import time
from collections import deque
from dataclasses import replace

from sandboxes import Limits, Program
from sandboxes.atoms import Budget, parse_atom, split_tag
from sandboxes.channel import Channel, RunnerError

_CONTAINERS = {"tuple": tuple, "set": set, "frozenset": frozenset, "deque": deque, "dict": dict}


#: For calls that end by themselves: a busy machine must not end them.
PATIENT = Limits(call_timeout_s=60.0, program_timeout_s=120.0)


def wait_until(condition, seconds=120.0):
    """Whether a condition holds within a time that no machine needs."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def run_one(sandbox, source, call, semantics="module", **limits):
    """The result of the only call of a program."""
    (result,) = sandbox.run([Program(source, (call,), replace(PATIENT, **limits), semantics)])
    return result.calls[0]


def decode(wire):
    """The Python value of a wire. A host compares wires instead: a hostile program can make a set or dict very slow to build."""
    if isinstance(wire, list):
        return [decode(item) for item in wire]
    if not isinstance(wire, dict):
        return wire
    tag, body = split_tag(wire)
    return _CONTAINERS[tag](decode(body)) if tag in _CONTAINERS else parse_atom(tag, body, Budget())


class Recorded(Channel):
    """A runner whose output was recorded: it comes in chunks, and then the runner ends. Keeps what it is sent, and the deadlines."""

    def __init__(self, stream, chunk_bytes=1 << 16):
        self.stream, self.chunk_bytes, self.sent, self.deadlines, self.is_closed = stream, chunk_bytes, [], [], False

    def send(self, data, deadline):
        self.sent.append(bytes(data))
        self.deadlines.append(deadline)

    def receive(self, deadline):
        self.deadlines.append(deadline)
        chunk, self.stream = self.stream[: self.chunk_bytes], self.stream[self.chunk_bytes :]
        if not chunk:
            raise RunnerError("It has ended.")
        return chunk

    def last_words(self):
        return "no room left"

    def close(self):
        self.is_closed = True

    kill = abandon = close
