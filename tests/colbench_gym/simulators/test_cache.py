"""Record and replay: exact values, torn lines, threads, replay misses."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colbench_gym.errors import SimulatorError
from colbench_gym.simulators.cache import MAX_LINE_BYTES, ReplyCache, request_key


def _request(text: str = "hi", seed: int = 0) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], "temperature": 0.0, "seed": seed}


def test_what_is_recorded_is_replayed(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "deep" / "replies.jsonl")
    assert cache.get(_request()) is None
    cache.put(_request(), "a reply")
    cache.put(_request(), "another")
    assert cache.get(_request()) == "a reply"
    assert cache.get(_request(seed=1)) is None
    assert ReplyCache(cache.path, "replay").get(_request()) == "a reply"
    assert len(pickle.loads(pickle.dumps(cache))) == 1


def test_the_key_is_over_the_whole_request_in_any_order() -> None:
    request = _request()
    assert request_key(request) == request_key(dict(reversed(list(request.items()))))
    assert request_key(request) != request_key({**request, "temperature": 0.1})
    assert len(request_key(request)) == 64


def test_a_replay_miss_names_key_and_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    ReplyCache(path).put(_request(), "x")
    key = request_key(_request("other"))
    expected = f"Expected a recorded reply for request {key} in {str(path)!r}, found none; run once with cache_mode='record'"
    with pytest.raises(SimulatorError, match="^" + re.escape(expected)):
        ReplyCache(path, "replay").get(_request("other"))
    with pytest.raises(
        SimulatorError, match="^Expected recorded replies in .* found no such file; run once with cache_mode='record'"
    ):
        ReplyCache(tmp_path / "none.jsonl", "replay")


def test_off_reads_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    ReplyCache(path).put(_request(), "x")
    before = path.read_bytes()
    off = ReplyCache(path, "off")
    off.put(_request("new"), "y")
    assert off.get(_request()) is None
    assert path.read_bytes() == before


@pytest.mark.parametrize("torn", [b'{"key": "ab', b'{"key": "ab", "reply": "x"}', b"\xff\xfe"])
def test_a_torn_last_line_is_cut(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "r.jsonl"
    ReplyCache(path).put(_request("one"), "1")
    path.write_bytes(path.read_bytes() + torn)
    cache = ReplyCache(path)
    assert len(cache) == 1
    cache.put(_request("two"), "2")
    assert [json.loads(line)["reply"] for line in path.read_bytes().splitlines()] == ["1", "2"]


def test_a_damaged_line_inside_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b'{"key": 1}\n')
    with pytest.raises(
        SimulatorError, match="^Expected a JSON object with key and reply in line 1 of .* remove the line or use another"
    ):
        ReplyCache(path)


def test_threads_share_a_cache(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "r.jsonl")

    def write(worker: int) -> None:
        for number in range(10):
            cache.put(_request(f"{worker} {number}"), f"reply {worker} {number}")

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = ReplyCache(cache.path, "replay")
    assert len(again) == 60
    assert all(again.get(_request(f"{w} {n}")) == f"reply {w} {n}" for w in range(6) for n in range(10))


_WRITER = """
import sys
from colbench_gym.simulators.cache import ReplyCache
cache = ReplyCache(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(100):
    cache.put({"seed": number, "writer": sys.argv[2]}, f"{sys.argv[2]} {number}")
    cache.put({"seed": number}, sys.argv[2])
"""


def test_processes_share_a_file(tmp_path: Path) -> None:
    """Each has replies of its own, and both have one to a hundred requests: the first stays."""
    path = tmp_path / "r.jsonl"
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, path, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for name in "ab"
    ]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
    for writer in writers:
        writer.communicate(b"go\n")
        assert writer.returncode == 0
    assert path.read_bytes().count(b"\n") == 300
    again = ReplyCache(path, "replay")
    assert all(again.get({"seed": n, "writer": w}) == f"{w} {n}" for w in "ab" for n in range(100))
    assert {again.get({"seed": n}) for n in range(100)} <= {"a", "b"}


def test_what_another_cache_has_added_is_found_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    one, other = ReplyCache(path), ReplyCache(path)
    assert one.put(_request("a"), "1") == "1"
    assert other.get(_request("a")) == "1"
    assert other.put(_request("b"), "2") == "2"
    assert one.put(_request("b"), "mine, later") == "2"
    one.put(_request("c"), "3")
    assert [json.loads(line)["reply"] for line in path.read_bytes().splitlines()] == ["1", "2", "3"]


def test_a_torn_line_of_another_writer_is_cut_once(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    one, other = ReplyCache(path), ReplyCache(path)
    one.put(_request("a"), "1")
    with path.open("ab") as file:
        file.write(b'{"key": "ab')
    other.put(_request("b"), "2")
    one.put(_request("c"), "3")
    assert [json.loads(line)["reply"] for line in path.read_bytes().splitlines()] == ["1", "2", "3"]


_KEY = "0" * 64


@pytest.mark.parametrize(
    "line",
    [
        b'{"key": "%s", "reply": 7}' % _KEY.encode(),
        b'{"key": "%s", "reply": ["a"]}' % _KEY.encode(),
        b'{"key": "%s", "reply": null}' % _KEY.encode(),
        b'{"key": "%s", "reply": {"a": "b"}}' % _KEY.encode(),
        b'{"key": "%s", "reply": "a", "more": 1}' % _KEY.encode(),
        b'{"key": "%s"}' % _KEY.encode(),
        b'{"key": "short", "reply": "a"}',
        b'{"key": "%s", "reply": "a"}' % (b"g" * 64),
        b'{"key": ["a"], "reply": "a"}',
        b'{"key": {}, "reply": "a"}',
        b'["key", "reply"]',
        b'"key reply"',
        b"7",
        b"",
        b"\xff\xfe",
        b"\x00" * 100,
        b"[" * 100_000,
        b'{"key": "%s", "reply": ' % _KEY.encode() + b"9" * 10_000 + b"}",
        b'{"key": "%s", "reply": "%s"}' % (_KEY.encode(), b"a" * (MAX_LINE_BYTES + 1)),
    ],
    ids=range(19),
)
def test_an_entry_of_another_form_is_an_error_that_names_the_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "r.jsonl"
    ReplyCache(path).put(_request(), "x")
    good = path.read_bytes()
    path.write_bytes(good + line + b"\n" + good)
    with pytest.raises(SimulatorError, match="^Expected a JSON object with key and reply in line 2 of ") as caught:
        ReplyCache(path)
    assert len(str(caught.value)) < 1000


def test_a_file_that_has_become_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    cache = ReplyCache(path)
    cache.put(_request(), "x")
    path.write_bytes(b"")
    with pytest.raises(SimulatorError, match="^Expected .* to have grown only, "):
        cache.put(_request("new"), "y")
    assert path.read_bytes() == b""


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SimulatorError, match="^Expected to read replies from .* pass another `cache` path"):
        ReplyCache(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400) | st.recursive(st.text() | st.integers(), lambda inner: st.dictionaries(
    st.sampled_from(["key", "reply", "x"]), inner)).map(lambda value: json.dumps(value).encode() + b"\n"))  # fmt: skip
def test_any_file_is_read_or_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(data)
    with contextlib.suppress(SimulatorError):
        cache = ReplyCache(path)
        assert cache.get(_request()) is None
        cache.put(_request(), "x")
        assert ReplyCache(path, "replay").get(_request()) == "x"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=80), st.integers(0, 2**31))
def test_replies_come_back_bit_for_bit(tmp_path: Path, reply: str, seed: int) -> None:
    path = tmp_path / "h.jsonl"
    path.unlink(missing_ok=True)
    ReplyCache(path).put(_request(reply, seed), reply)
    assert ReplyCache(path, "replay").get(_request(reply, seed)) == reply


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="^`mode` must be 'record', 'replay' or 'off', got 'write'\\.$"):
        ReplyCache(tmp_path / "r.jsonl", "write")  # type: ignore[arg-type]


def test_the_tokens_that_a_reply_took_are_kept_with_it(tmp_path):
    path = tmp_path / "cache.jsonl"
    cache = ReplyCache(path)
    cache.put({"a": 1}, "one", (12, 3))
    cache.put({"a": 2}, "two")
    again = ReplyCache(path, "replay")
    assert (again.usage({"a": 1}), again.usage({"a": 2}), again.get({"a": 1})) == ((12, 3), None, "one")
    assert list(json.loads(path.read_text().splitlines()[1])) == ["key", "reply"]


@pytest.mark.parametrize("usage", ["[1]", "[1, -2]", "[1, true]", '"many"', "{}"])
def test_a_line_with_other_tokens_is_refused(usage, tmp_path):
    (tmp_path / "cache.jsonl").write_text(f'{{"key": "{"0" * 64}", "reply": "a", "usage": {usage}}}\n')
    with pytest.raises(SimulatorError, match="Expected a JSON object with key and reply in line 1"):
        ReplyCache(tmp_path / "cache.jsonl")
