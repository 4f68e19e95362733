"""The host's side of a runner: what it sends, and what it makes of every frame that a runner may say."""

from __future__ import annotations

import ast
import math
import struct
import subprocess
import sys
from types import SimpleNamespace

import pytest

from sandboxes import Limits, Outcome, Program, frames
from sandboxes.channel import RunnerError
from sandboxes.client import (
    ENVIRONMENT,
    PYTHON_FLAGS,
    RunnerClient,
    _short_fingerprint,
    boot_code,
    pack_request,
    runner_settings,
)

from .runs import Recorded

READY = b"3.11.7\n6\nmath\njson"
LIMITS = Limits(call_timeout_s=2.0, program_timeout_s=7.0, memory_mib=300, output_chars=8, value_bytes=256)
NOW = 1000.0
BROKEN = r"^It broke the protocol\.$"


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock of the host that stands still."""
    monkeypatch.setattr("sandboxes.client.time", SimpleNamespace(monotonic=lambda: NOW))


def blob(text):
    return frames.LENGTH.pack(len(text)) + text


def frame(kind, payload=b"", outcome="ok", wall_s=0.25):
    return frames.REPLY.pack(kind, len(payload), frames.OUTCOMES.index(outcome), wall_s) + payload


def done(cpu_s=0.5, peak_mib=20.0):
    return frame(frames.DONE, frames.USAGE.pack(cpu_s, peak_mib))


def client(stream=b"", chunk_bytes=1 << 16):
    return RunnerClient(Recorded(blob(READY) + stream, chunk_bytes), {"modules": ()})


def result(stream, calls=("f()",), chunk_bytes=1 << 16, limits=LIMITS):
    return client(stream, chunk_bytes).run(Program("", calls, limits))


@pytest.mark.parametrize("chunk_bytes", [1, 5, 1 << 16])
def test_a_program_has_a_result_for_each_call_its_output_and_its_usage(chunk_bytes):
    stream = (
        frame(frames.CALL, b"[1, 2]")
        + frame(frames.STDOUT, b"one ")
        + frame(frames.CALL, b"ValueError", "exception", 0.75)
        + frame(frames.STDERR, b"two")
        + frame(frames.STDOUT, b"three and four")
        + done()
    )
    outcome = result(stream, ("f()", "g()"), chunk_bytes)
    assert [(call.outcome, call.value, call.error, call.wall_s) for call in outcome.calls] == [
        (Outcome.OK, [1, 2], "", 0.25), (Outcome.EXCEPTION, None, "ValueError", 0.75),
    ]  # fmt: skip
    assert (outcome.stdout, outcome.stderr, outcome.cpu_s, outcome.peak_mib) == ("one thre", "two", 0.5, 20.0)


def test_programs_are_served_one_after_the_other_from_one_stream():
    runner = client(
        frame(frames.CALL, b"1") + done() + frame(frames.CALL, b"2") + done() + frame(frames.CALL, b"3") + done(), 50
    )
    programs = [Program("", ("f()",), LIMITS)] * 3
    for program in programs:
        runner.send(program, pack_request(program))
    assert [runner.receive().calls[0].value for _ in programs] == [1, 2, 3] and runner.num_served == 3


def test_a_runner_that_says_more_than_it_was_asked_is_refused():
    with pytest.raises(RunnerError, match=BROKEN):
        result(frame(frames.CALL, b"1") + done() + b"x")
    assert result(frame(frames.CALL, b"1") + done()).calls[0].value == 1


@pytest.mark.parametrize(
    "stream",
    [
        done(),  # without the call
        frame(frames.CALL, b"1") * 2 + done(),
        frame(frames.CALL, b"1") * 2,
        frame(b"X", b"1"),
        frame(frames.STDOUT),
        frame(frames.CALL, b"1") + frame(frames.DONE, b"x" * (frames.USAGE.size - 1)),
        frames.REPLY.pack(frames.CALL, 0, len(frames.OUTCOMES), 0.0),
        frames.REPLY.pack(frames.CALL, frames.MAX_NAME_BYTES + 1, 0, 0.0),
        frames.REPLY.pack(frames.CALL, 1, 0, -0.5) + b"1",
        frames.REPLY.pack(frames.CALL, 1, 0, math.inf) + b"1",
        frames.REPLY.pack(frames.CALL, 1, 0, math.nan) + b"1",
        frame(frames.CALL, b"1") + done(cpu_s=-1.0),
        frame(frames.CALL, b"1") + done(peak_mib=math.nan),
        frame(frames.CALL, b"1") + done(cpu_s=math.inf),
        frame(frames.STDOUT, b"x" * 33) + frame(frames.STDOUT, b"x"),
        frame(frames.STDERR, b"x" * 33) + frame(frames.STDERR, b"x"),
    ],
)
def test_what_is_not_in_the_protocol_is_refused(stream):
    with pytest.raises(RunnerError, match=BROKEN):
        result(stream)


def test_frames_up_to_the_bounds_are_taken():
    stream = (
        frame(frames.STDOUT, b"x" * 32) + frame(frames.STDOUT, b"x") + frame(frames.CALL, b"0", wall_s=0.0) + done(0.0, 0.0)
    )
    largest = result(stream)
    assert largest.stdout == "x" * 8 and largest.calls[0].wall_s == largest.cpu_s == largest.peak_mib == 0.0
    name = "é" * frames.MAX_NAME_CHARS
    (call,) = result(frame(frames.CALL, (name * 2).encode(), "exception") + done()).calls
    assert call.error == name and len((name * 2).encode()) == frames.MAX_NAME_BYTES
    long = Limits(output_chars=1000, value_bytes=16)
    assert result(frame(frames.STDOUT, b"x" * 4000) + frame(frames.CALL, b"1") + done(), limits=long).stdout == "x" * 1000
    with pytest.raises(RunnerError, match=BROKEN):
        result(frame(frames.STDOUT, b"x" * 4001) + frame(frames.CALL, b"1") + done(), limits=long)
    wide = Limits(output_chars=8, value_bytes=4000)
    value = b'"' + b"x" * 3998 + b'"'
    assert result(frame(frames.CALL, value) + done(), limits=wide).calls[0].value == "x" * 3998
    with pytest.raises(RunnerError, match=BROKEN):
        result(frame(frames.CALL, value + b" ") + done(), limits=wide)


def test_a_value_beyond_the_budget_of_its_program_keeps_its_time():
    value = frame(frames.CALL, b'"' + b"x" * 254 + b'"', wall_s=0.75)
    last = result(value * 17 + done(), ("f()",) * 17).calls[16]
    assert (last.outcome, last.value, last.wall_s) == (Outcome.OUTPUT_LIMIT, None, 0.75)


def test_only_the_fingerprints_of_short_values_are_remembered():
    _short_fingerprint.cache_clear()
    values = [b'"' + b"x" * count + b'"' for count in ((1 << 14) - 2, (1 << 14) - 1)]
    stream = b"".join(frame(frames.CALL, value) for value in values * 2)
    result(stream + done(), ("f()",) * 4, limits=Limits(value_bytes=1 << 15))
    known = _short_fingerprint.cache_info()
    assert (known.hits, known.misses) == (1, 1)


def test_values_that_the_encoder_does_not_make_are_the_programs_crash():
    calls = ("a()", "b()", "c()", "d()")
    stream = b"".join(
        frame(frames.CALL, payload, wall_s=0.5) for payload in (b"{", b'{"nothing": 1}', b"[" * 62 + b"]" * 62, b"1")
    )
    results = result(stream + done(), calls).calls
    assert [call.outcome for call in results] == [Outcome.CRASH, Outcome.CRASH, Outcome.OUTPUT_LIMIT, Outcome.OK]
    assert [call.wall_s for call in results] == [0.5] * 4 and [bool(call.fingerprint) for call in results] == [False] * 3 + [
        True
    ]


def test_a_fingerprint_does_not_depend_on_the_length_of_the_value():
    wide = Limits(value_bytes=1 << 17)
    for count in (3, 40_000):  # of which short ones are remembered
        padded = [b"[" + b"1," * count + tail for tail in (b"1]", b" 1]", b"2]")]
        first, same, other = (call.fingerprint for call in result(
            b"".join(frame(frames.CALL, payload) for payload in padded) + done(), ("f()",) * 3, limits=wide).calls)  # fmt: skip
        assert first == same != other


def test_text_that_is_not_utf_8_is_shown_as_far_as_it_is():
    stream = frame(frames.CALL, b"Bad\xff", "exception") + frame(frames.STDOUT, b"a\xffb") + done()
    shown = result(stream)
    assert (shown.calls[0].error, shown.stdout) == ("Bad\ufffd", "a\ufffdb")


def test_a_request_holds_the_program_and_its_limits():
    program = Program("x = 'é'", ("f(1)", "g()"), LIMITS, "released", seed=9)
    request = pack_request(program)
    header, body = request[: frames.REQUEST.size], request[frames.REQUEST.size :]
    assert frames.REQUEST.unpack(header) == (len(body), 2, 1, 9, 2.0, 7.0, 300, 32, 256)
    assert frames.unpack_texts(body, 3) == ["x = 'é'", "f(1)", "g()"]


def test_a_runner_receives_its_modules_and_settings_and_says_what_it_is():
    runner = client()
    (sent,) = runner.channel.sent
    (length,) = struct.unpack("!I", sent[:4])
    told = ast.literal_eval(sent[4:].decode())
    assert length == len(sent) - 4 and told["settings"] == {"modules": ()}
    assert {"sandboxes.frames", "sandboxes.files", "sandboxes.runner.supervisor"} < set(told["modules"])
    assert all(compile(source, name, "exec") for name, source in told["modules"].items())
    assert runner.ready == {"python": "3.11.7", "landlock": 6, "modules": ["math", "json"]}
    assert {*runner.channel.deadlines} == {NOW + 30.0} and runner.num_served == 0
    assert compile(boot_code(), "boot", "exec")


@pytest.mark.parametrize(
    ("greeting", "error"),
    [
        (b"", "It has ended."),
        (blob(b"3.11.7"), "It broke the protocol."),
        (blob(b"3.11.7\nsix"), "It broke the protocol."),
        (blob(b"3.11.7 6"), "It broke the protocol."),
        (blob(b"\xff\n6"), "It broke the protocol."),
        (frames.LENGTH.pack((1 << 16) + 1) + b"3.11.7\n6\n" + b"x" * (1 << 16), "It broke the protocol."),
    ],
)
def test_a_runner_that_does_not_start_is_closed_and_its_last_words_are_told(greeting, error):
    channel = Recorded(greeting)
    with pytest.raises(RunnerError, match=f"^The runner did not start: {error} no room left$"):
        RunnerClient(channel, {})
    assert channel.is_closed


def test_the_largest_greeting_is_taken():
    greeting = b"3.11.7\n6\n" + b"x" * ((1 << 16) - 9)
    assert RunnerClient(Recorded(blob(greeting)), {}).ready["modules"] == ["x" * ((1 << 16) - 9)]


@pytest.mark.parametrize(("count", "seconds"), [(1, 12.0), (3, 16.0), (9, 17.0)])
def test_a_runner_has_the_time_of_its_calls_or_of_its_program_and_ten_seconds_more(count, seconds):
    runner = client(frame(frames.CALL, b"1") * count + done())
    runner.channel.deadlines.clear()
    runner.run(Program("", ("f()",) * count, LIMITS))
    assert runner.channel.deadlines == [NOW + seconds]


def test_settings_have_the_names_that_a_runner_reads():
    settings = runner_settings(["math"], ["/usr"], ["/usr/share"], ["/packages"], 3, ["network"], 5)
    assert settings == {
        "modules": ("math",), "roots": ("/usr",), "hidden": ("/usr/share",), "package_parents": ("/packages",), "parent": 3,
        "omit_walls": ("network",), "max_processes": 5,
    }  # fmt: skip
    assert runner_settings() == {
        "modules": (), "roots": None, "hidden": (), "package_parents": (), "parent": 0, "omit_walls": (), "max_processes": 0,
    }  # fmt: skip


def test_a_runner_sees_no_other_environment_and_no_packages_of_the_user_or_the_site():
    told = "import os, sys; print(dict(os.environ), sys.flags.no_user_site, sys.flags.no_site, sys.flags.hash_randomization)"
    seen = subprocess.run([sys.executable, *PYTHON_FLAGS, "-c", told], env=ENVIRONMENT, capture_output=True, text=True)
    environment = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LANG": "C.UTF-8", "LD_BIND_NOW": "1", "MALLOC_ARENA_MAX": "1"}
    assert seen.stdout.strip() == f"{environment} 1 1 0"
