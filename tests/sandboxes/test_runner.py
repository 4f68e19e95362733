"""The runner from outside: what it remembers, what it leaves over, what its filter and its files are."""

import os
import struct
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sandboxes import Program, frames
from sandboxes.embedded import EmbeddedSandbox
from sandboxes.interpreter import find_interpreter
from sandboxes.runner import supervisor, syscalls  # in a test only: a host must not load them


def test_the_runner_forgets_the_previous_program(embedded, descendants):
    """A program inherits the runner's memory, so it must hold nothing of the programs before: no source, value or output."""
    secret = f"the-secret-of-the-previous-program-{os.getpid()}"
    source = f"import json\njson.left_behind = 1\ndef run():\n    print({secret!r})\n    return [{secret!r}, 'x' * 200_000 + {secret!r}]"
    embedded.run([Program(source, ("run()", f"len({secret!r})")), Program("", ("1",))])
    searched = 0
    for runner in descendants(os.getpid()):
        memory = read_memory(runner)
        searched += len(memory)
        assert secret.encode() not in memory
    if not searched:
        pytest.skip("Reading a runner's memory takes root.")


def test_no_process_is_left_over(use_bubblewrap, descendants):
    before = set(descendants(os.getpid()))  # other tests' sandboxes
    with EmbeddedSandbox(workers=1, bubblewrap=use_bubblewrap) as sandbox:
        sandbox.run([Program("import os\ndef run(): os._exit(1)", ("run()",) * 3), Program("", ("1",))])
        started = set(descendants(os.getpid())) - before
        states = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] for pid in started]
        assert started and "Z" not in states
        assert len(started) <= 6  # a runner for programs that import, a plain one, and bubblewrap twice around each
    assert not set(descendants(os.getpid())) - before


def test_when_memory_runs_out_the_kernel_takes_a_runner_first(embedded, descendants):
    runners = {pid for runner in embedded._pool()._runners for pid in (runner.channel.pid, *descendants(runner.channel.pid))}
    assert runners and {Path(f"/proc/{pid}/oom_score_adj").read_text() for pid in runners} == {"1000\n"}


class SlowChild:
    """A program's process whose results come at given times of a clock that only waiting moves."""

    def __init__(self, results):
        self.now, self._results, self.has_ended = 0.0, results, False

    def wait(self, until):
        self.now = max(self.now, until)
        return []

    def read_results(self, buffer):
        come = [result for when, result in self._results if when <= self.now]
        self._results = self._results[len(come) :]
        for result in come:
            buffer.claim(len(result))[:] = result
        return bool(come)

    def expect_more(self, is_expected):
        assert not is_expected


@pytest.mark.parametrize(
    ("times", "outcomes", "host_s"),
    [
        ([0.995, 1.99, 2.98], ["ok", "ok", "ok"], 0.0),  # each within its second, and each just before the runner looks for it
        ([0.2, 1.6], ["ok", "timeout"], 0.0),
        ([0.001, 0.002, 0.003], ["ok", "ok", "ok"], 0.0),
        ([1.2], ["timeout"], 0.0),
        ([0.9, 2.0, 4.5], ["ok", "ok", "ok"], 1.5),  # while the host takes a result, the next call may have to wait for it
    ],
)
def test_a_call_has_its_time_whenever_the_one_before_has_ended(monkeypatch, times, outcomes, host_s):
    def frame(outcome, wall_s=0.001, payload=b"1"):
        return frames.RESULT.pack(outcome, wall_s, len(payload)) + payload

    child = SlowChild([(0.0, frame(frames.READY, payload=b"")), *((when, frame(frames.OK)) for when in times)])
    monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: child.now))
    runner, settled = supervisor.Supervisor(0, 1, 2, walls=None), []

    def put(kind, payload=b"", outcome=0, wall_s=0.0):
        child.now += host_s
        settled.append((frames.OUTCOMES[outcome], wall_s))

    runner._outbox = SimpleNamespace(put=put, flush=lambda: None)
    request = SimpleNamespace(call_timeout_s=1.0, num_calls=3, value_bytes=100)
    assert runner._supervise(child, request, 0, deadline=10.0) == len(outcomes)
    assert [outcome for outcome, _ in settled] == outcomes
    assert [wall_s for outcome, wall_s in settled if outcome == "ok"] == [0.001] * outcomes.count("ok")
    assert all(1.0 <= wall_s <= 1.05 for outcome, wall_s in settled if outcome == "timeout")


def run_filter(code, machine_audit, number, arguments):
    """What a classic BPF program says of a system call: a plain interpreter of the few instructions that the filter uses."""
    data = struct.pack("<IIQ6Q", number, machine_audit, 0, *arguments)
    position, accumulator = 0, 0
    while True:
        operation, on_true, on_false, k = struct.unpack_from("HBBI", code, 8 * position)
        position += 1
        if operation == 0x06:
            return k
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, k)
        elif operation == 0x54:
            accumulator &= k
        else:
            truth = {0x15: accumulator == k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}[operation]
            position += on_true if truth else on_false


ALLOW, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x80000000, 0x50001, 0x50026


@pytest.mark.parametrize("machine", sorted(syscalls.ARCHITECTURES))
def test_the_filter_says_what_its_tables_say(machine):
    column, audit = syscalls.ARCHITECTURES[machine]
    filters = [syscalls.runner_filter(machine), syscalls.program_filter(machine)]

    def verdict(number, *arguments, codes=filters, audit=audit):
        arguments += (0,) * (6 - len(arguments))
        verdicts = (run_filter(code, audit, number, arguments) for code in codes)
        return min(
            verdicts, key=lambda verdict: (verdict ^ KILL) & 0xFFFFFFFF
        )  # as the kernel: signed, so that to kill comes first

    def in_runner(number, *arguments):
        return verdict(number, *arguments, codes=filters[:1])

    allowed = {numbers[column] for numbers in syscalls._ALLOWED.values()}
    only_runner = {name: numbers[column] for name, numbers in syscalls._FOR_RUNNER.items()}
    conditional = {name: numbers[column] for name, numbers in syscalls._CONDITIONAL.items()} | only_runner
    for number in set(range(600)) - set(conditional.values()):
        assert verdict(number) == (ENOSYS if number in (435, 437) else ALLOW if number in allowed else EPERM), number
        assert in_runner(number) == verdict(number)
    for name, number in only_runner.items():
        assert in_runner(number, 17) == ALLOW
        assert verdict(number, 17) == EPERM, name
    for code in filters:
        assert verdict(0x40000000, codes=[code]) == verdict(0xFFFFFFFF, codes=[code]) == KILL
        assert verdict(39, codes=[code], audit=0x40000003) == KILL
    assert verdict(conditional["clone"], 0x50F00) == ALLOW and verdict(conditional["clone"], 17) == EPERM
    assert verdict(conditional["openat"], 0, 0, 0o2000000) == ALLOW
    assert {verdict(conditional["openat"], 0, 0, flags) for flags in (1, 2, 0o100, 0o1000, 0o20200000)} == {EPERM}
    assert verdict(conditional["prlimit64"], 0, 7, 0, 1) == ALLOW
    assert {verdict(conditional["prlimit64"], *arguments) for arguments in ((1,), (0, 7, 1), (0, 7, 1 << 32), (1 << 32,))} == {
        EPERM
    }
    assert verdict(conditional["socketpair"], 1, 0o2000001) == ALLOW
    assert {verdict(conditional["socketpair"], *arguments) for arguments in ((1, 2), (1, 5), (2, 1))} == {EPERM}
    for name in ("sendto", "recvfrom"):
        assert verdict(conditional[name], 3, 0, 1, 0x4000) == ALLOW and verdict(conditional[name], 3, 0, 1, 0x4001) == EPERM
    assert verdict(conditional["fcntl"], 3, 1030) == ALLOW and verdict(conditional["fcntl"], 3, 8) == EPERM


def test_standard_library_is_readable_and_site_packages_are_not_in_the_list():
    interpreter = find_interpreter(())
    assert any(os.__file__.startswith(root) for root in interpreter.roots)
    assert all(os.path.basename(path) in ("site-packages", "dist-packages") for path in interpreter.hidden)
    assert sys.prefix == sys.base_prefix or not any(sys.prefix.startswith(root) for root in interpreter.roots)


def read_memory(pid):
    spans = []
    try:
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                span, rights = line.split()[:2]
                if rights.startswith("rw"):
                    start, stop = (int(end, 16) for end in span.split("-"))
                    memory.seek(start)
                    spans.append(memory.read(stop - start))
    except OSError:
        return b""
    return b"\n".join(spans)
