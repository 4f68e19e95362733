"""Limits of time hold whatever a program does to the channel of its results. What it tries comes first, before its runner looks."""

import pytest

from sandboxes import Limits, Outcome, Program

#: Less than the time that a runner allows for the start of a process, which must not become the limit of a call.
CALL_TIMEOUT_S = 0.2
TIMEOUT, CRASH = Outcome.TIMEOUT, Outcome.CRASH
FRAME = "(bytes([{}]) + bytes(8) + ({}).to_bytes(4, 'big'))"
#: What a program tries -> outcomes of a call that then sleeps for too long.
ATTEMPTS = {
    "open it again to read": ("os.read(os.open('/proc/self/fd/3', os.O_RDONLY | os.O_NONBLOCK), 4096)", TIMEOUT),
    "open it again by the thread": ("os.read(os.open('/proc/thread-self/fd/3', os.O_RDONLY | os.O_NONBLOCK), 4096)", TIMEOUT),
    "open it again to read for ever": (
        "fd = os.open('/proc/self/fd/3', os.O_RDONLY)\n import threading\n"
        " def swallow():\n  while True: os.read(fd, 4096)\n threading.Thread(target=swallow, daemon=True).start()", TIMEOUT),
    "open it again to write": ("os.write(os.open('/proc/self/fd/3', os.O_WRONLY), b'x')", TIMEOUT),
    "read from it": ("os.set_blocking(3, False); os.read(3, 4096)", TIMEOUT),
    "wait for something from it": ("os.read(3, 1)", TIMEOUT),
    "receive from it": ("import _socket; _socket.socket(fileno=os.dup(3)).recv(4096, _socket.MSG_DONTWAIT | _socket.MSG_PEEK)", TIMEOUT),
    "receive out-of-band data": ("import _socket; _socket.socket(fileno=os.dup(3)).recv(1, _socket.MSG_OOB)", TIMEOUT),
    "send out-of-band data": ("import _socket; _socket.socket(fileno=os.dup(3)).send(b'x', _socket.MSG_OOB)", TIMEOUT),
    "duplicate it": ("[os.dup(3) for _ in range(64)]", TIMEOUT),
    "put another in its place": ("os.dup(3); os.dup2(1, 3)", TIMEOUT),
    "put the output in its place": ("os.dup2(1, 3)", CRASH),
    "close it": ("os.close(3)", CRASH),
    "shut it down": ("import _socket; _socket.socket(fileno=os.dup(3)).shutdown(_socket.SHUT_RDWR)", CRASH),
    "shut down what it writes": ("import _socket; _socket.socket(fileno=os.dup(3)).shutdown(_socket.SHUT_WR)", CRASH),
    "shut down what it reads": ("import _socket; _socket.socket(fileno=os.dup(3)).shutdown(_socket.SHUT_RD)", TIMEOUT),
    "fill it": ("os.set_blocking(3, False)\n while True: os.write(3, bytes([255]) * 4096)", CRASH),
    "fill it with a long frame": (f"os.write(3, {FRAME.format(0, 1 << 20)})\n while True: os.write(3, b'1' * 4096)", TIMEOUT, CRASH),
    "write half a header": (f"os.write(3, {FRAME.format(0, 9)}[:5])", TIMEOUT),
    "write half a payload": (f"os.write(3, {FRAME.format(0, 9)} + b'1')", TIMEOUT),
    "write in drops": (f"os.write(3, {FRAME.format(0, 1 << 16)})\n import time\n while True: os.write(3, b'1'); time.sleep(.01)", TIMEOUT),
    "say ready again": (f"os.write(3, {FRAME.format(255, 0)})", CRASH),
    "print without end": ("while True: os.write(1, bytes(4096))", TIMEOUT),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_call_has_its_time_and_no_more(name, sandbox):
    attempt, *expected = ATTEMPTS[name]
    source = f"import os\ntry:\n {attempt}\nexcept OSError: pass\ndef run():\n import time\n time.sleep(9)\n return 1"
    limits = Limits(CALL_TIMEOUT_S if TIMEOUT in expected else 60.0, 120.0)  # the limit must not come before a crash
    (result,) = sandbox.run([Program(source, ("run()", "run()"), limits)])
    for call in result.calls:
        assert call.outcome in expected, (call, result.stderr)
        assert call.outcome is CRASH or call.wall_s >= CALL_TIMEOUT_S


def test_a_program_has_its_time_and_no_more(sandbox):
    limits = Limits(CALL_TIMEOUT_S, 5.0)
    (result,) = sandbox.run([Program("import time", ("time.sleep(9)",) * 100, limits)])
    assert {call.outcome for call in result.calls} == {TIMEOUT}
    begun = [call for call in result.calls if call.wall_s]
    assert sum(call.wall_s for call in begun) >= limits.call_timeout_s
    assert len(begun) <= limits.program_timeout_s / limits.call_timeout_s
