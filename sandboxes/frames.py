"""The protocol between the host and a runner. Only this module and `files.py` are loaded by both sides.

A runner is never trusted. The length of everything it sends is checked before it is read, and a value stays opaque text until
the host parses it as data. The sequence on the runner's standard input and output is:

    host -> runner   blob: {"modules": {name: source}, "settings": {...}}, a Python literal   once, read by `runner/boot.py`
    runner -> host   blob: Python version, Landlock version, loaded modules, a line each      once, when it can serve
    host -> runner   REQUEST header, then body: source and calls                              one per program
    runner -> host   REPLY frames: CALL for every call, STDOUT and STDERR chunks, then DONE

A blob is preceded by its length (`LENGTH`). A program's process sends RESULT frames to its runner over a
socket.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False  # `typing` would triple the memory that each program's process inherits
if TYPE_CHECKING:
    from collections.abc import Sequence

LENGTH = struct.Struct("!I")
"""Bytes that follow."""

REQUEST = struct.Struct("!IIBIddIIQ")
"""Body bytes, number of calls, semantics (index into `SEMANTICS`), seed, seconds per call, seconds per program, MiB, bytes kept
per output stream, bytes per value."""

SEMANTICS = ("module", "released")

REPLY = struct.Struct("!cIBd")
"""Kind, payload bytes, outcome (index into `OUTCOMES`), wall seconds."""

USAGE = struct.Struct("!dd")
"""Payload of DONE: CPU seconds, peak resident MiB."""

RESULT = struct.Struct("!BdI")
"""Outcome (index into `OUTCOMES`, or READY), wall seconds of the call, payload bytes. The payload is JSON for "ok", else the
exception type's name."""

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
MAX_NUMBER_WORK = 1 << 32
"""Budgets of one value, kept by the encoder inside and by `sandboxes.values` outside. The last one is for all decimals, fractions and
ranges together, which take quadratic time to rebuild: the sum of the squares of their numbers of digits."""

MAX_TEXT_CHARS = 1 << 25
"""Characters that `sandboxes.values` builds for one value, over all levels of nesting."""


def pack_texts(texts: Sequence[str]) -> bytes:
    """The body of a request: the number of UTF-8 bytes of each text, then the texts. Lone surrogates are preserved."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return struct.pack(f"!{len(encoded)}I", *map(len, encoded)) + b"".join(encoded)


def unpack_texts(body: bytes | memoryview, count: int) -> list[str]:
    """The texts in the body of a request."""
    texts, start = [], 4 * count
    for length in struct.unpack_from(f"!{count}I", body):
        texts.append(str(body[start : start + length], "utf-8", "surrogatepass"))
        start += length
    return texts
