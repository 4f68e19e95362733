"""OpenAIHuman against real servers on the loopback interface, well and ill behaved."""

from __future__ import annotations

import json
import pickle
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from colbench_gym.dialogue import Dialogue
from colbench_gym.errors import SimulatorError
from colbench_gym.simulators import make
from colbench_gym.simulators.openai import OpenAIHuman
from colbench_gym.tasks.task import HiddenTask, Task

pytest.importorskip("openai", reason="needs the openai package; run `pip install colbench-gym[train]`")
TASK = Task("t", "I need a total.", "def total(lines)", HiddenTask("def total(lines): return sum(lines)", ()))
DIALOGUE = Dialogue().add("user", TASK.description).add("assistant", "What about {reference} rounding?")
Behaviour = Callable[["_Handler"], None]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.requests.append(json.loads(body))
            self.server.keys.append(self.headers["Authorization"])
            behaviour = self.server.script.pop(0) if len(self.server.script) > 1 else self.server.script[0]
        behaviour(self)

    def send(self, status: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test output quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: list[Behaviour] = [says("Two decimals.")]
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.lock = threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is what some tests are about."""


def says(content: str | None) -> Behaviour:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
    body = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).encode()
    return lambda handler: handler.send(200, body)


def fails(status: int, **headers: str) -> Behaviour:
    return lambda handler: handler.send(status, b'{"error": {"message": "no luck"}}', **headers)


def returns(body: bytes, kind: str = "application/json") -> Behaviour:
    return lambda handler: handler.send(200, body, kind)


def hangs(handler: _Handler) -> None:
    time.sleep(0.6)


def closes_half_way(handler: _Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    handler.connection.close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def _url(server: _Server) -> str:
    return f"http://127.0.0.1:{server.server_port}/v1"


def _human(server: _Server, **settings: Any) -> OpenAIHuman:
    defaults: dict[str, Any] = {"base_url": _url(server), "timeout_s": 0.3, "max_retries": 2, "backoff_s": 0.01}
    return OpenAIHuman("m", **{**defaults, **settings})


def test_the_request_holds_reference_dialogue_and_settings(server: _Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    human = _human(server, api_key_env="MY_KEY", temperature=0.5, max_tokens=9)
    assert human.reply(TASK, DIALOGUE, seed=2**40 + 7) == "Two decimals."
    request = server.requests[0]
    assert request["model"] == "m"
    assert (request["temperature"], request["max_tokens"], request["seed"]) == (0.5, 9, 7)
    system, user = (message["content"] for message in request["messages"])
    assert TASK.hidden.reference in system
    assert DIALOGUE.transcript() in user
    assert server.keys == ["Bearer secret"]
    assert not human.is_deterministic


def test_a_reply_is_stripped_of_its_speaker(server: _Server) -> None:
    server.script = [says("  Human: yes.\n")]
    assert _human(server).reply(TASK, DIALOGUE, 0) == "yes."


@pytest.mark.parametrize(
    "failure",
    [
        fails(500), fails(503), fails(408), fails(429), hangs, closes_half_way, says(""), says(None), says(" \n"), returns(b"{oops"),
        returns(b"[]"), returns(b"{}"), returns(b'{"choices": []}'), returns(b'{"choices": [{}]}'), returns(b"null"),
        returns(b"<html>hello</html>", "text/html"), returns(b'{"choices": "none"}'), returns(b'{"choices": [{"message": {"content": 3}}]}'),
        returns(b"\xff\xfe"), returns(b""),
    ],
)  # fmt: skip
def test_passing_failures_are_retried(server: _Server, failure: Behaviour) -> None:
    server.script = [failure, failure, says("At last.")]
    assert _human(server).reply(TASK, DIALOGUE, 0) == "At last."
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("failure", "got"),
    [
        (fails(500), "status 500"),
        (hangs, "a time-out"),
        (says(""), "an empty reply"),
        (returns(b"{}"), "a malformed reply"),
    ],
)
def test_the_last_failure_is_an_error_that_says_all(server: _Server, failure: Behaviour, got: str) -> None:
    server.script = [failure]
    with pytest.raises(SimulatorError) as caught:
        _human(server, max_retries=1, timeout_s=0.2).reply(TASK, DIALOGUE, 0)
    assert str(caught.value) == (
        f"Expected a reply from model 'm' at '{_url(server)}/', got {got} at the last of 2 attempts; "
        f"check that the server is up, or raise `timeout_s` or `max_retries`."
    )
    assert len(server.requests) == 2


def test_no_server_at_all() -> None:
    human = OpenAIHuman("m", base_url="http://127.0.0.1:9/v1", max_retries=1, backoff_s=0.01, timeout_s=0.5)
    with pytest.raises(
        SimulatorError, match=r"^Expected a reply from model 'm' at 'http://127\.0\.0\.1:9/v1/', got a connection error \("
    ):
        human.reply(TASK, DIALOGUE, 0)


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (400, "check `model`, `max_tokens` and the model's context length"),
        (401, "set the environment variable OPENAI_API_KEY to a valid key"),
        (403, "set the environment variable OPENAI_API_KEY to a key that may use the model"),
        (404, "check `base_url` (it usually ends in /v1) and `model`"),
    ],
)
def test_other_statuses_fail_at_once(server: _Server, status: int, advice: str) -> None:
    server.script = [fails(status)]
    with pytest.raises(SimulatorError) as caught:
        _human(server).reply(TASK, DIALOGUE, 0)
    assert (
        str(caught.value) == f"Expected a reply from model 'm' at '{_url(server)}/', got status {status} (no luck); {advice}."
    )
    assert len(server.requests) == 1


def test_retry_after_is_honoured(server: _Server) -> None:
    server.script = [fails(429, Retry_After="0.4"), fails(429, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"), says("Fine.")]
    start = time.monotonic()
    assert _human(server, max_retries=3).reply(TASK, DIALOGUE, 0) == "Fine."
    assert 0.4 <= time.monotonic() - start < 2.0


def test_unreadable_retry_after_is_left_aside(server: _Server) -> None:
    server.script = [fails(429, Retry_After="soon"), fails(429, Retry_After="nan"), says("Fine.")]
    assert _human(server).reply(TASK, DIALOGUE, 0) == "Fine."


def test_concurrency_is_bounded(server: _Server) -> None:
    running, most = [0], [0]

    def slow(handler: _Handler) -> None:
        with server.lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with server.lock:
            running[0] -= 1
        says("ok")(handler)

    server.script = [slow]
    human = _human(server, max_concurrency=2, timeout_s=10)
    threads = [threading.Thread(target=human.reply, args=(TASK, DIALOGUE, number)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.requests) == 8
    assert most[0] <= 2


def test_recorded_replies_need_no_server(server: _Server, tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    recorder = _human(server, cache=path)
    assert [recorder.reply(TASK, DIALOGUE, seed) for seed in (1, 2, 1)] == ["Two decimals."] * 3
    assert len(server.requests) == 2
    replayer = make(
        {"name": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "cache": path, "cache_mode": "replay"}
    )
    assert replayer.reply(TASK, DIALOGUE, 2) == "Two decimals."
    assert replayer.is_deterministic
    with pytest.raises(SimulatorError, match="^Expected a recorded reply for request [0-9a-f]{64} in "):
        replayer.reply(TASK, DIALOGUE, 3)


def test_pickling_closing_and_the_global_random_state(server: _Server) -> None:
    server.script = [fails(500), says("ok")]
    state = random.getstate()
    human = pickle.loads(pickle.dumps(_human(server)))
    assert human.reply(TASK, DIALOGUE, 0) == "ok"
    assert random.getstate() == state
    human.close()
    human.close()
    with pytest.raises(
        SimulatorError, match="^Expected an open simulator, got one after close\\(\\); build a new OpenAIHuman\\.$"
    ):
        human.reply(TASK, DIALOGUE, 0)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"max_tokens": 0}, "`max_tokens` must be at least 1, got 0."),
        ({"max_concurrency": 0}, "`max_concurrency` must be at least 1, got 0."),
        ({"temperature": -1.0}, "`temperature` must be at least 0, got -1.0."),
        ({"max_retries": -1}, "`max_retries` must be at least 0, got -1."),
        ({"timeout_s": 0.0}, "`timeout_s` must be more than 0, got 0.0."),
        ({"cache_mode": "replay"}, "`cache_mode='replay'` needs a `cache`; pass the file of recorded replies."),
        (
            {"base_url": None, "api_key_env": "COLBENCH_NO_SUCH_KEY"},
            "`base_url` None means OpenAI itself and needs a key; set the environment variable COLBENCH_NO_SUCH_KEY.",
        ),
    ],
)
def test_bad_arguments_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        OpenAIHuman("m", **{"base_url": "http://127.0.0.1:9/v1", **settings})
    assert str(caught.value) == text


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError) as caught:
        OpenAIHuman("m", base_url="http://127.0.0.1:9/v1")
    assert str(caught.value) == "`simulator='openai'` needs the openai package; run `pip install colbench-gym[train]`."
