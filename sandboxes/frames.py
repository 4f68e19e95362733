"""What the host and a runner say to each other. With `files.py` the only module that both sides load.

A runner is never trusted. Everything it sends is length-capped before it is read, and a value stays opaque text until the
host parses it as data. The sequence on the runner's standard input and output is:

    host -> runner   blob: {"modules": {name: source}, "settings": {...}}        once, read by `runner/boot.py`
    runner -> host   blob: {"python": ..., "landlock": ..., "packages": [...]}    once, when it can serve
    host -> runner   REQUEST header, then JSON {"source", "calls", "semantics"}   one per program
    runner -> host   REPLY frames: CALL for every call, STDOUT and STDERR chunks, then DONE

A blob is JSON text behind its length (`LENGTH`). Between a program's process and its runner runs one pipe of RESULT frames.
"""

from __future__ import annotations

import struct

LENGTH = struct.Struct("!I")
"""Bytes that follow."""

REQUEST = struct.Struct("!IIddIIQ")
"""Body bytes, number of calls, seconds per call, seconds per program, MiB, bytes kept per output stream, bytes per value."""

REPLY = struct.Struct("!cIBd")
"""Kind, payload bytes, outcome (index into `OUTCOMES`), wall seconds."""

USAGE = struct.Struct("!dd")
"""Payload of DONE: CPU seconds, peak resident MiB."""

RESULT = struct.Struct("!BI")
"""Outcome (index into `OUTCOMES`, or READY), payload bytes. The payload is JSON for "ok", else the exception type's name."""

CALL, STDOUT, STDERR, DONE = b"C", b"O", b"E", b"D"
READY = 255

OUTCOMES = ("ok", "exception", "timeout", "memory", "output_limit", "crash", "forbidden", "not_serialisable")
OK, EXCEPTION, TIMEOUT, MEMORY, OUTPUT_LIMIT, CRASH, FORBIDDEN, NOT_SERIALISABLE = range(len(OUTCOMES))

MAX_REQUEST_BYTES = 8 << 20
"""Largest body of a request."""

MAX_NAME_CHARS = 80
MAX_NAME_BYTES = 4 * MAX_NAME_CHARS
"""Largest name of an exception's type, in UTF-8."""

MAX_NODES = 50_000
MAX_DEPTH = 60
MAX_INT_BITS = 400_000
MAX_FRACTION_BITS = 16_384
MAX_DECIMAL_DIGITS = 4_096
"""Budgets of one value, kept by the encoder inside and by `sandboxes.values` outside."""
