"""The process of one program: evaluates its calls and sends one frame for each.

As soon as the program's source runs, everything in this process may be under the program's control, including this module.
Nothing here is trusted afterwards: a frame can only claim a value, and the host compares values itself.
"""

from __future__ import annotations

import builtins
import os
import sys
import time
import types

from sandboxes import frames
from sandboxes.runner import encode

TYPE_CHECKING = False  # see `sandboxes.frames`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

RESULT_FD = 3
_WALL_ERRORS = frozenset((1, 13, 30))  # EPERM, EACCES, EROFS
_mro_of = type.__dict__["__mro__"].__get__
_name_of = type.__dict__["__name__"].__get__
_errno_of = OSError.__dict__["errno"].__get__
_stdout, _stderr = sys.stdout, sys.stderr
_reserve = [bytes(4 << 20)]  # freed to report that memory has run out; untouched `bytes` take no physical memory

seeders: list[Callable[[int], Any]] = []
"""Functions that are called with the program's seed before every call, so that a program that draws from a global generator answers
alike twice."""


def serve(texts: list[str], first: int, semantics: int, seed: int, value_bytes: int) -> None:
    """Evaluate the calls from index `first` on. Each call writes a frame to `RESULT_FD`.

    Args:
        texts: The source, then all calls.
        first: Index of the first call to evaluate.
        semantics: Index into `frames.SEMANTICS`.
        seed: Seed of the global generators.
        value_bytes: Maximal size of an encoded value.
    """
    _send(frames.READY, 0.0, b"")
    calls = texts[1 + first :]
    try:
        code = compile(texts[0], "<program>", "exec", dont_inherit=True)
    except BaseException as error:
        failure = _classify(error)
        for _ in calls:
            _send(failure[0], 0.0, failure[1])
        return
    for call in calls:
        started = time.monotonic()
        outcome, payload = _evaluate(code, call, frames.SEMANTICS[semantics], seed, value_bytes)
        _flush()
        _send(outcome, time.monotonic() - started, payload)
        if outcome == frames.MEMORY:
            return  # the runner continues in a new process, without any effects of this call


def _evaluate(code: types.CodeType, call: str, semantics: str, seed: int, value_bytes: int) -> tuple[int, bytes]:
    try:
        for seed_generator in seeders:
            seed_generator(seed)
        expression = compile(call.lstrip(" \t"), "<call>", "eval", dont_inherit=True)
        module_globals, module_locals = _namespaces(semantics)
        exec(code, module_globals, module_locals)
        value = eval(expression, module_globals, module_locals)
        return frames.OK, encode.to_json(value, value_bytes)
    except BaseException as error:
        return _classify(error)


def _namespaces(semantics: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fresh globals and locals: one dict as for a module, or two as in ColBench's released grader, with the names that leak there."""
    if semantics == "released":
        import multiprocessing
        import queue
        import signal

        leaked = {"multiprocessing": multiprocessing, "signal": signal, "Empty": queue.Empty}
        return {"__name__": "program", "__builtins__": builtins, **leaked}, {}
    # The module is registered, because dataclasses, enum and typing look up a class's module by name.
    module = sys.modules["program"] = types.ModuleType("program")
    return module.__dict__, module.__dict__


def _classify(error: BaseException) -> tuple[int, bytes]:
    """Outcome and type name of an exception. Never its text, because `__str__` may be code of the program."""
    kind = type(error)
    bases = _mro_of(kind)
    if kind is encode.TooLarge:
        return frames.OUTPUT_LIMIT, b""
    if kind is encode.Unsupported:
        return frames.NOT_SERIALISABLE, b""
    if MemoryError in bases:
        _reserve.clear()
        return frames.MEMORY, b"MemoryError"
    name = _name_of(kind)[: frames.MAX_NAME_CHARS].encode("utf-8", "replace")
    number = _errno_of(error) if OSError in bases else None
    if type(number) is int and number in _WALL_ERRORS:
        return frames.FORBIDDEN, name
    return frames.EXCEPTION, name


def _flush() -> None:
    for stream in (_stdout, _stderr):
        try:
            stream.flush()
        except BaseException:
            continue  # the program has closed or broken the stream, so nothing is left to flush


def _send(outcome: int, wall_s: float, payload: bytes) -> None:
    data = frames.RESULT.pack(outcome, wall_s, len(payload)) + payload
    while data:
        data = data[os.write(RESULT_FD, data) :]
