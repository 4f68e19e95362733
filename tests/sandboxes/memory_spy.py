"""What a program's memory holds of other programs: found by the program itself, and by root from outside while it runs.

Every spy has a mark of its own, which is in its source, its values, its output and the name of its exception. A spy looks for the marks
of others by frames, by the garbage collector, and in the raw memory around all objects that it knows. Then it waits for a signal:
meanwhile `Watcher` reads all of its memory from outside.
"""

import contextlib
import os
import re
import secrets
import signal
import threading
from pathlib import Path

import pytest

from sandboxes import Limits, Program
from sandboxes.client import PYTHON_FLAGS

PREFIX = b"ISOLATION"
LIMITS = Limits(call_timeout_s=60.0, program_timeout_s=120.0)
#: What a spy blocks to show that it waits. (The kernel shows a signal that is waited for, SIGCONT, as not blocked.)
_WAITS = 1 << (signal.SIGURG - 1)
_FLAGS = b"\0".join(flag.encode() for flag in PYTHON_FLAGS)

_SOURCE = """
import ctypes, gc, re, signal, sys

MARK = "ISOLATION-{token}-{index}."
PATTERN = re.compile(b"ISO" b"LATION-{token}-([0-9]+)[.]")

def objects():
    gc.unfreeze()
    seen, left = {{}}, [sys.modules, *gc.get_objects()]
    frame = sys._getframe()
    while frame:
        left += [frame, frame.f_locals, frame.f_globals]
        frame = frame.f_back
    while left:
        thing = left.pop()
        if id(thing) not in seen and type(thing).__name__ != "mmap":
            seen[id(thing)] = thing
            left += gc.get_referents(thing)
    return seen

def marks():
    seen, found = objects(), set()
    for thing in seen.values():
        if type(thing) is str:
            found.update(PATTERN.findall(thing.encode("utf-8", "replace")))
        elif type(thing) in (bytes, bytearray):
            found.update(PATTERN.findall(thing))
    for page in {{address & -4096 for address in seen}}:
        found.update(PATTERN.findall(ctypes.string_at(page, 4096)))
    return sorted(map(int, found - {{b"{index}"}}))

def spy():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCONT])
    print(MARK)
    found = marks()
    if {is_watched}:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
        signal.sigtimedwait([signal.SIGCONT], 30)
    return found

def value():
    return MARK * {length}

def fail():
    raise type(MARK, (Exception,), {{}})
"""
CALLS = ("spy()", "value()", "fail()")


def spies(count, length=1, is_hidden=False, is_watched=True):
    """Programs that look for each other, and the pattern of their marks.

    Args:
        count: Number of programs.
        length: How often the mark is in a value.
        is_hidden: Whether the text shows that it imports something, which decides what kind of runner it gets.
        is_watched: Whether the programs wait for a `Watcher`.
    """
    token = secrets.token_hex(4)
    programs = []
    for index in range(count):
        source = _SOURCE.format(token=token, index=index, length=length, is_watched=is_watched)
        if is_hidden:
            source = f"# ISOLATION-{token}-{index}.\nexec(bytes.fromhex({source.encode().hex()!r}).decode(), globals())"
        programs.append(Program(source, CALLS, LIMITS))
    return programs, re.compile(PREFIX + b"-" + token.encode() + rb"-([0-9]+)\.")


class Watcher:
    """Context manager that reads the memory of the spies of a batch while they wait, and wakes them up.

    Attributes:
        found: The indices of the marks in the memory of each process, by process id.
    """

    def __init__(self, pattern):
        self._pattern, self._ends = pattern, threading.Event()
        self.found = {}
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        if os.geteuid():
            pytest.skip("Reading a program's memory takes root.")
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ends.set()
        self._thread.join()

    def _watch(self):
        while not self._ends.wait(0.002):
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError):
                    if self._is_waiting(pid) and self._pattern.search(memory := read_memory(pid)):
                        self.found[pid] = {int(index) for index in self._pattern.findall(memory)}
                        os.kill(int(pid), signal.SIGCONT)

    @staticmethod
    def _is_waiting(pid):
        process = Path("/proc", pid)
        blocked = process.joinpath("status").read_bytes().partition(b"SigBlk:")[2].split()
        is_of_a_runner = (
            _FLAGS in process.joinpath("cmdline").read_bytes()
        )  # other processes may be large, and block signals too
        return is_of_a_runner and blocked and int(blocked[0], 16) & _WAITS


def read_memory(pid):
    """All memory of a process that can be read."""
    spans = []
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines():
            span, rights = line.split()[:2]
            start, stop = (int(end, 16) for end in span.split(b"-"))
            if rights.startswith(b"r") and start < 1 << 47:
                with contextlib.suppress(OSError):  # of the kernel's own, such as [vvar]
                    memory.seek(start)
                    spans.append(memory.read(stop - start))
    return b"\n".join(spans)


def assert_isolated(run, programs, pattern):
    """Run spies, and assert that each of them, and root who reads their memory, finds no mark but its own.

    Args:
        run: Function: programs -> results.
        programs: The spies.
        pattern: The pattern of their marks.
    """
    with Watcher(pattern) as watcher:
        results = run(programs)
    assert [result.calls[0].value for result in results] == [[]] * len(programs), results[0]
    assert sorted(watcher.found.values(), key=min) == [{index} for index in range(len(programs))]
    for index, result in enumerate(results):  # what they left for each other to find
        assert f"-{index}." in result.stdout and f"-{index}." in result.calls[1].value and f"-{index}." in result.calls[2].error
