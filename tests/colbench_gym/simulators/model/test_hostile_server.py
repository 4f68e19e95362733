"""What a hostile or broken chat server can do: use up one request's time and one MiB, and nothing else."""

from __future__ import annotations

import contextlib
import gzip
import json
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colbench_gym.dialogue import Dialogue
from colbench_gym.errors import SimulatorError
from colbench_gym.servers.completion import Completion, read_completion
from colbench_gym.servers.errors import RequestError
from colbench_gym.simulators import make
from colbench_gym.simulators.model.openai import OpenAIHuman
from colbench_gym.tasks.task import HiddenTask, Task

from .chat_servers import Behaviour, Handler, Server, closes_half_way, returns, says, serving, url

pytest.importorskip("httpx", reason="needs the httpx package; run `pip install .[train]`")
TASK = Task("t", "I need a total.", "def total(lines)", HiddenTask("def total(lines): return sum(lines)", ()))
DIALOGUE = Dialogue().add("user", TASK.description).add("assistant", "")
KEY, PASSWORD = "sk-canary1234", "hunter2canary"
REPLY = json.dumps({"choices": [{"message": {"content": "Two decimals."}}]}).encode()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("CANARY_KEY", KEY)
    with serving() as server:
        yield server


def _human(server: Server, **settings: Any) -> OpenAIHuman:
    defaults: dict[str, Any] = {"base_url": url(server), "api_key_env": "CANARY_KEY", "max_retries": 0, "backoff_s": 0.01}
    return OpenAIHuman("m", **{**defaults, **settings})


def _failure(human: OpenAIHuman) -> tuple[str, str]:
    """Text of the error that a reply ends in, and its whole traceback."""
    with pytest.raises(SimulatorError) as caught:
        human.reply(TASK, DIALOGUE, 0)
    human.close()
    return str(caught.value), "".join(traceback.format_exception(caught.value))


def _drips(handler: Handler, parts: Iterator[bytes]) -> None:
    """Send a part every 20 ms, until the client goes."""
    with contextlib.suppress(OSError):
        for part in parts:
            handler.wfile.write(part)
            handler.wfile.flush()
            if handler.server.is_over.wait(0.02):
                break


def drips_its_body(handler: Handler) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {1000 + len(REPLY)}\r\n\r\n".encode()
    _drips(handler, (part for part in [head, *[b" "] * 1000, REPLY]))


def drips_its_headers(handler: Handler) -> None:
    tail = f"\r\nContent-Length: {len(REPLY)}\r\n\r\n".encode() + REPLY
    _drips(handler, (part for part in [b"HTTP/1.1 200 OK\r\nX-Long: ", *[b"a"] * 1000, tail]))


@pytest.mark.parametrize("behaviour", [drips_its_body, drips_its_headers])
def test_the_time_limit_is_that_of_the_whole_request(server: Server, behaviour: Behaviour) -> None:
    """The whole reply would take 20 s, and none of its parts 0.3 s."""
    server.script = [behaviour]
    assert "got a time-out at the last of 1 attempts" in _failure(_human(server, timeout_s=0.3))[0]


def floods(handler: Handler) -> None:
    """64 MiB of white space before the reply."""
    total = 64 * 2**20
    handler.send_response(200)
    handler.send_header("Content-Length", str(total + len(REPLY)))
    handler.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(64):
            handler.wfile.write(b" " * 2**20)
            handler.server.num_sent += 2**20
        handler.wfile.write(REPLY)


def test_a_reply_is_read_up_to_one_mib(server: Server) -> None:
    server.script = [floods]
    assert "got a reply of more than 1048576 bytes" in _failure(_human(server))[0]
    assert server.num_sent < 32 * 2**20  # what fits into the sockets' buffers


def test_a_reply_of_just_one_mib_is_read(server: Server) -> None:
    server.script = [returns(REPLY.rjust(2**20)), returns(REPLY.rjust(2**20 + 1))]
    human = _human(server)
    assert human.reply(TASK, DIALOGUE, 0) == "Two decimals."
    assert "more than 1048576 bytes" in _failure(human)[0]


def test_a_compressed_reply_is_not_unpacked(server: Server) -> None:
    bomb = gzip.compress(REPLY.rjust(2**26))
    assert len(bomb) < 2**17
    server.script = [lambda handler: handler.send(200, bomb, Content_Encoding="gzip")]
    assert "got a malformed reply" in _failure(_human(server))[0]


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices":' + b"[" * 500_000,
        b'{"a":' * 200_000,
        b'{"choices":' + b"[" * 400_000 + b"]" * 400_000 + b"}",
        b'{"choices":[{"message":{"content":' + b"[" * 5_000 + b"]" * 5_000 + b"}}]}",
        b'{"choices": ' + b"9" * 10_000 + b"}",
        b'{"choices": [{"message": "a"}]}',
        b'{"choices": [[]]}',
        b'{"choices": [{"message": {"content": ["a"]}}]}',
        b"\xff" * 1000,
        b"1e999",
    ],
    ids=["lists", "objects", "closed", "content", "digits", "message", "choice", "parts", "bytes", "infinity"],
)  # fmt: skip
def test_a_reply_that_is_no_completion_is_an_error(server: Server, body: bytes) -> None:
    server.script = [returns(body)]
    assert "got a malformed reply" in _failure(_human(server))[0]


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(alphabet=st.characters(exclude_categories=[])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "text",
                    "type",
                    "delta",
                    "reasoning",
                    "refusal",
                    "finish_reason",
                    "error",
                    "code",
                    "usage",
                    "",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
)


@given(_JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=300), st.integers(0, 300))
def test_any_body_has_a_completion_or_a_reason(body: bytes, cut: int) -> None:
    for part in (
        body,
        body[:cut],
        b'{"choices": [{"message": ' + body + b"}]}",
        b'{"choices": [' + body + b"]}",
        b"data: " + body,
    ):
        try:
            completion = read_completion(part)
        except RequestError as error:
            assert str(error).isascii() and "\n" not in str(error)
        else:
            assert (
                isinstance(completion, Completion) and isinstance(completion.text, str) and isinstance(completion.thought, str)
            )
            assert completion.text.strip() or completion.finish_reason != "stop"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_redirect_is_not_followed(server: Server, status: int, host: str) -> None:
    with serving() as other:
        target = f"http://{host}:{other.server_port}/v1/chat/completions"
        server.script = [lambda handler: handler.send(status, b"", Location=target)]
        assert f"got status {status}" in _failure(_human(server))[0]
        assert (other.requests, other.keys, other.num_gets) == ([], [], 0)
    assert server.keys == [f"Bearer {KEY}"] * len(server.requests)


@pytest.mark.parametrize("target", ["http://[::1/", "//[", "http://a:99999999/", "http://a\xa0b/", "\xff", "a:b:c"])
def test_a_redirect_to_no_address_is_an_error(server: Server, target: str) -> None:
    server.script = [lambda handler: handler.send(302, b"", Location=target)]
    assert "got status 302" in (text := _failure(_human(server))[0]) or "got a connection error" in text


def test_cookies_are_not_kept(server: Server) -> None:
    cookie = lambda handler: handler.send(200, REPLY, Set_Cookie="a=b; Path=/")
    server.script = [cookie, cookie]
    human = _human(server)
    assert [human.reply(TASK, DIALOGUE, seed) for seed in (0, 1)] == ["Two decimals."] * 2
    assert server.cookies == [None, None]
    human.close()


def echoes_the_key(status: int) -> Behaviour:
    def echo(handler: Handler) -> None:
        text = f"No such key: {handler.headers['Authorization']}, password {PASSWORD}\x1b[2J"
        handler.send(status, json.dumps({"error": {"message": text, "code": KEY, "type": text}}).encode())

    return echo


def breaks_the_protocol(handler: Handler) -> None:
    with contextlib.suppress(OSError):
        handler.wfile.write(f"{handler.headers['Authorization']} {PASSWORD}\x1b[2J\r\n\r\n".encode())


def echoes_in_a_header(handler: Handler) -> None:
    handler.send(302, b"", Location=f"http://{PASSWORD}:{KEY}@[")


@pytest.mark.parametrize(
    "behaviour",
    [*map(echoes_the_key, (200, 302, 400, 401, 403, 404, 429, 500)), breaks_the_protocol, echoes_in_a_header, closes_half_way],
)
def test_no_error_holds_what_the_server_said(server: Server, behaviour: Behaviour) -> None:
    server.script = [behaviour]
    text, whole = _failure(_human(server))
    for secret in (KEY, PASSWORD, "\x1b"):
        assert secret not in text and secret not in whole


def test_an_error_says_which_known_words_the_body_has(server: Server) -> None:
    body = b'{"error": {"message": "The maximum Context Length is 4096 tokens; reduce the length or max_tokens."}}'
    server.script = [lambda handler: handler.send(400, body)]
    assert "got status 400 (its body mentions context length, max_tokens)" in _failure(_human(server))[0]


@pytest.mark.parametrize(
    "address",
    [
        "http://user:hunter2canary@127.0.0.1:9/v1",
        "http://:hunter2canary@127.0.0.1:9/v1",
        "http://user:pa/hunter2canary@127.0.0.1:9/v1",
        "http://127.0.0.1:9/v1?key=hunter2canary",
        "http://127.0.0.1:9/v1#hunter2canary",
        "ftp://hunter2canary/v1",
        "//hunter2canary",
        "hunter2canary",
        "http://",
        "http://[::1/hunter2canary",
        "http://hunter2canary:99999/v1",
        "http://hunter2canary\u2100/v1",
        "http://a b/hunter2canary",
        "http://127.0.0.1:9/v1\nhunter2canary",
    ],
)
def test_an_address_with_a_password_is_refused_and_not_repeated(address: Any) -> None:
    with pytest.raises(ValueError, match="^`base_url` must be http:// or https:// with a host, an optional port") as caught:
        make({"name": "openai", "model": "m", "base_url": address})
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


def test_an_address_of_another_type_is_refused_and_a_password_in_it_not_repeated() -> None:
    for address, got in ((7, "7"), ([f"http://u:{PASSWORD}@h/v1"], "list")):
        with pytest.raises(ValueError, match=f"^`base_url` must be text or None, got {got}.$"):
            make({"name": "openai", "model": "m", "base_url": address})


def test_a_wrong_argument_does_not_repeat_the_others() -> None:
    with pytest.raises(ValueError, match="^The 'openai' simulator takes model, base_url") as caught:
        make({"name": "openai", "model": "m", "base_url": f"http://u:{PASSWORD}@h/v1", "api_key": KEY})
    assert PASSWORD not in str(caught.value) and KEY not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-canary\n1234", "sk-\u20ac", "sk-\x00", "\udcff"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("CANARY_KEY", key.replace("\x00", "\x01"))
    with pytest.raises(ValueError, match="^The environment variable CANARY_KEY must hold a key of visible ASCII") as caught:
        OpenAIHuman("m", base_url="http://127.0.0.1:9/v1", api_key_env="CANARY_KEY")
    assert "sk-" not in str(caught.value)


def test_white_space_around_a_key_is_left_out(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_KEY", f" {KEY}\n")
    human = _human(server)
    human.reply(TASK, DIALOGUE, 0)
    human.close()
    assert server.keys == [f"Bearer {KEY}"]


def test_a_key_in_place_of_its_variable_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="^`api_key_env` must be the name of an environment variable") as caught:
        OpenAIHuman("m", base_url="http://127.0.0.1:9/v1", api_key_env=KEY)
    assert KEY not in str(caught.value)


def test_a_lone_surrogate_in_a_reply_is_replaced(server: Server) -> None:
    server.script = [says("one \ud800 two \U0001f600")]
    human = _human(server)
    assert human.reply(TASK, DIALOGUE, 0) == "one \ufffd two \U0001f600"
    human.close()
