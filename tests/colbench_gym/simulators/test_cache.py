"""Record and replay: exact values, torn lines, threads, replay misses."""

from __future__ import annotations

import json
import pickle
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colbench_gym.errors import SimulatorError
from colbench_gym.simulators.cache import ReplyCache, request_key


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


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=80), st.integers(0, 2**31))
def test_replies_come_back_bit_for_bit(tmp_path: Path, reply: str, seed: int) -> None:
    path = tmp_path / "h.jsonl"
    path.unlink(missing_ok=True)
    ReplyCache(path).put(_request(reply, seed), reply)
    assert ReplyCache(path, "replay").get(_request(reply, seed)) == reply


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="^`mode` must be 'record', 'replay' or 'off', got 'write'\\.$"):
        ReplyCache(tmp_path / "r.jsonl", "write")  # type: ignore[arg-type]
