"""Record and replay: exact values, foreign files, threads, processes, replay misses."""

from __future__ import annotations

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
from colbench_gym.simulators.model.reply_cache import ReplyCache, request_key


def _request(text: str = "hi", seed: int = 0) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], "temperature": 0.0, "seed": seed}


def test_what_is_recorded_is_replayed(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "deep" / "replies.jsonl")
    assert cache.get(_request()) is None
    cache.put(_request(), "a reply")
    cache.put(_request(), "another")
    assert cache.get(_request()) == ("a reply", None)
    assert cache.get(_request(seed=1)) is None
    assert ReplyCache(cache.path, "replay").get(_request()) == ("a reply", None)
    assert pickle.loads(pickle.dumps(cache)).get(_request()) == ("a reply", None)


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
    assert all(again.get(_request(f"{w} {n}")).reply == f"reply {w} {n}" for w in range(6) for n in range(10))


_WRITER = """
import sys
from colbench_gym.simulators.model.reply_cache import ReplyCache
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
    again = ReplyCache(path, "replay")
    assert all(again.get({"seed": n, "writer": w}).reply == f"{w} {n}" for w in "ab" for n in range(100))
    assert {again.get({"seed": n}).reply for n in range(100)} <= {"a", "b"}


def test_what_another_cache_has_added_is_found_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    one, other = ReplyCache(path), ReplyCache(path)
    assert one.put(_request("a"), "1") == ("1", None)
    assert other.get(_request("a")) == ("1", None)
    assert other.put(_request("b"), "2", (3, 4)) == ("2", (3, 4))
    assert one.put(_request("b"), "mine, later") == ("2", (3, 4))


@pytest.mark.parametrize(
    "content", [b'{"key": "a", "reply": "b"}\n' * 100, b"\x00" * 5000, None], ids=["JSONL", "zeros", "folder"]
)
def test_what_is_no_such_database_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "r.jsonl" if content else tmp_path
    if content:
        path.write_bytes(content)
    with pytest.raises(SimulatorError, match=f"^The recorded replies in '{path}' cannot be used .* pass another `cache` path"):
        ReplyCache(path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=80), st.integers(0, 2**31))
def test_replies_come_back_bit_for_bit(tmp_path: Path, reply: str, seed: int) -> None:
    path = tmp_path / "h.jsonl"
    path.unlink(missing_ok=True)
    ReplyCache(path).put(_request(reply, seed), reply)
    assert ReplyCache(path, "replay").get(_request(reply, seed)) == (reply, None)


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="^`mode` must be 'record' or 'replay', got 'write'\\.$"):
        ReplyCache(tmp_path / "r.jsonl", "write")  # type: ignore[arg-type]


def test_the_tokens_that_a_reply_took_are_kept_with_it(tmp_path):
    path = tmp_path / "cache.jsonl"
    cache = ReplyCache(path)
    cache.put({"a": 1}, "one", (12, 3))
    cache.put({"a": 2}, "two")
    again = ReplyCache(path, "replay")
    assert (again.get({"a": 1}), again.get({"a": 2})) == (("one", (12, 3)), ("two", None))
