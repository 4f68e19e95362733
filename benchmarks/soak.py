"""Soak test: many programs in one process, one in twenty of them hostile. Does memory stay constant, and is every verdict right?

    python benchmarks/soak.py [--backend embedded|docker] [--programs 100000] [--workers 2]

Exits with status 1 if a verdict is wrong, the host's memory grows by 50 MB or more after the first tenth, the last tenth is more than 10%
slower than the first, or a process or a container is left behind.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import sandboxes
from sandboxes import Limits, Outcome, Program

LIMITS = Limits(call_timeout_s=0.2, program_timeout_s=2.0, memory_mib=256)
HOSTILE_EVERY = 20
WINDOWS = 10
#: Hostile programs: body of `run`, and the permitted outcomes of its call.
HOSTILE: list[tuple[str, tuple[Outcome, ...]]] = [
    ("import os; return os.fork()", (Outcome.FORBIDDEN,)),
    ("import os; os._exit(0)", (Outcome.CRASH,)),
    ("import os; os.write(3, b'x' * 5000)", (Outcome.CRASH,)),
    ("import os; os.closerange(0, 64)", (Outcome.CRASH,)),
    ("import os; os.kill(os.getppid(), 9)", (Outcome.FORBIDDEN,)),
    ("import socket; return socket.create_connection(('127.0.0.1', 80))", (Outcome.FORBIDDEN,)),
    ("open('/tmp/x', 'w')", (Outcome.FORBIDDEN,)),
    ("return open('/etc/passwd').read()", (Outcome.FORBIDDEN, Outcome.EXCEPTION)),
    ("return [0] * 10**12", (Outcome.MEMORY,)),
    ("return 'x' * 2_000_000", (Outcome.OUTPUT_LIMIT,)),
    ("print('x' * 100_000); return 1", (Outcome.OK,)),
    ("raise SystemExit(0)", (Outcome.EXCEPTION,)),
    ("return type('E', (), {'__eq__': lambda *_: True})()", (Outcome.NOT_SERIALISABLE,)),
    ("return (lambda f: f(f))(lambda f: f(f))", (Outcome.EXCEPTION, Outcome.CRASH)),
    ("import ctypes; ctypes.string_at(0)", (Outcome.CRASH,)),
    ("import threading; threading.Thread(target=lambda: [0 for _ in iter(int, 1)], daemon=True).start(); return 1", (Outcome.OK,)),
    ("\n    while True: pass", (Outcome.TIMEOUT,)),
]  # fmt: skip


def program(number: int) -> tuple[Program, tuple[Outcome, ...], object]:
    """Program `number`, the permitted outcomes of its first call, and the expected value, if any."""
    if number % HOSTILE_EVERY == 0:
        text, expected = HOSTILE[number // HOSTILE_EVERY % len(HOSTILE)]
        return Program(f"def run():\n    {text}", ("run()",), LIMITS), expected, None
    source = f"def add(xs):\n    total = {number}\n    for x in xs:\n        total += x\n    return total"
    return Program(source, tuple(f"add([{i}, {number}])" for i in range(10)), LIMITS), (Outcome.OK,), 2 * number


def resident_mb() -> float:
    """Resident memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def children() -> list[int]:
    """Running child processes of this process, including zombies."""
    return [int(child) for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()]


def containers() -> set[str]:
    """Containers of all sandboxes on this machine."""
    from sandboxes.containers import LABEL, connect

    client = connect()
    try:
        return {container.id for container in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)}
    finally:
        client.close()


def left_containers(before: set[str]) -> set[str]:
    """Containers that still exist after the daemon has had ten seconds to remove them."""
    deadline = time.monotonic() + 10.0
    while (left := containers() - before) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def main() -> int:
    """Run, print a line for each tenth, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="embedded")
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    wrong, rates, sizes = 0, [], []
    before = set(children())
    containers_before = containers() if given.backend == "docker" else set()
    with sandboxes.make(given.backend, workers=given.workers) as sandbox:
        print("programs  per s  resident MB  processes  wrong", flush=True)
        for window in range(WINDOWS):
            numbers = range(window * given.programs // WINDOWS, (window + 1) * given.programs // WINDOWS)
            started = time.perf_counter()
            for start in range(numbers.start, numbers.stop, 500):
                batch = [program(number) for number in range(start, min(start + 500, numbers.stop))]
                for (_, expected, value), result in zip(batch, sandbox.run([p for p, _, _ in batch]), strict=True):
                    call = result.calls[0]
                    wrong += call.outcome not in expected or (value is not None and call.value != value)
            rates.append(len(numbers) / (time.perf_counter() - started))
            sizes.append(resident_mb())
            print(f"{numbers.stop:8}  {rates[-1]:5.0f}  {sizes[-1]:11.1f}  {len(children()):9}  {wrong:5}", flush=True)
    left = set(children()) - before
    left_in_docker = left_containers(containers_before) if given.backend == "docker" else set()
    failures = [
        *([f"{wrong} wrong verdicts"] if wrong else []),
        *([f"grew by {sizes[-1] - sizes[0]:.0f} MB"] if sizes[-1] - sizes[0] >= 50 else []),
        *([f"{rates[-1] / rates[0]:.0%} of the first rate"] if rates[-1] < 0.9 * rates[0] else []),
        *([f"left processes {sorted(left)}"] if left else []),
        *([f"left containers {sorted(left_in_docker)}"] if left_in_docker else []),
    ]
    print("failed: " + "; ".join(failures) if failures else "passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
