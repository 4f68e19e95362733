"""OpenAIHuman against real servers on the loopback interface, well and ill behaved."""

from __future__ import annotations

import gc
import json
import pickle
import random
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from colbench_gym.dialogue import Dialogue
from colbench_gym.errors import SimulatorError
from colbench_gym.simulators import make
from colbench_gym.simulators.model.openai import OpenAIHuman
from colbench_gym.tasks.task import HiddenTask, Task
from sandboxes.extras import pip_install

from .chat_servers import Behaviour, Handler, Server, closes_half_way, fails, hangs, returns, says, serving, url

pytest.importorskip("httpx", reason="needs the httpx package; run `pip install .[train]`")
TASK = Task("t", "I need a total.", "def total(lines)", HiddenTask("def total(lines): return sum(lines)", ()))
DIALOGUE = Dialogue().add("user", TASK.description).add("assistant", "What about {reference} rounding?")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as server:
        yield server


def _human(server: Server, **settings: Any) -> OpenAIHuman:
    defaults: dict[str, Any] = {"base_url": url(server), "timeout_s": 60.0, "max_retries": 2, "backoff_s": 0.01}
    return OpenAIHuman("m", **{**defaults, **settings})


def test_the_request_holds_reference_dialogue_and_settings(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    human = _human(server, api_key_env="MY_KEY", temperature=0.5, max_tokens=9)
    assert human.reply(TASK, DIALOGUE, seed=2**40 + 7) == "Two decimals."
    request = server.requests[0]
    assert request["model"] == "m"
    assert (request["temperature"], request["max_tokens"], request["seed"]) == (0.5, 9, 7)
    system, user = (message["content"] for message in request["messages"])
    assert TASK.hidden.reference in system
    assert '\n\nHuman: "I need a total."\nAgent: "What about {reference} rounding?"\n\n' in user
    assert server.keys == ["Bearer secret"]
    assert not human.is_deterministic


def test_a_reply_is_stripped_of_its_speaker(server: Server) -> None:
    server.script = [says("  Human: yes.\n"), says('Human: "yes, \\"a\\"" '), says('"N/A"'), says('Human: "a" or "b"')]
    human = _human(server)
    assert [human.reply(TASK, DIALOGUE, 0) for _ in range(4)] == ["yes.", 'yes, "a"', '"N/A"', '"a" or "b"']


def test_connections_are_kept(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "protocol_version", "HTTP/1.1")
    human = _human(server)
    assert [human.reply(TASK, DIALOGUE, seed) for seed in range(5)] == ["Two decimals."] * 5
    assert server.num_connections == 1
    human.close()


def test_closing_ends_what_is_under_way(server: Server) -> None:
    server.script = [hangs]
    human = _human(server, max_retries=0)
    failures: list[str] = []

    def ask() -> None:
        with pytest.raises(SimulatorError) as caught:
            human.reply(TASK, Dialogue().add("user", TASK.description), 0)
        failures.append(str(caught.value))

    thread = threading.Thread(target=ask)
    thread.start()
    assert server.is_asked.wait(60)
    human.close()
    thread.join()
    assert "got a closed connection" in failures[0]


def test_a_human_that_nobody_holds_leaves_no_thread(server: Server) -> None:
    before = set(threading.enumerate())
    human = _human(server)
    human.reply(TASK, DIALOGUE, 0)
    (thread,) = [thread for thread in set(threading.enumerate()) - before if thread.name == "chat server"]
    del human
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "failure",
    [
        fails(500), fails(503), fails(408), fails(429), hangs, closes_half_way, says(""), says(None), says(" \n"), returns(b"{oops"),
        returns(b"[]"), returns(b"{}"), returns(b'{"choices": []}'), returns(b'{"choices": [{}]}'), returns(b"null"),
        returns(b"<html>hello</html>", "text/html"), returns(b'{"choices": "none"}'), returns(b'{"choices": [{"message": {"content": 3}}]}'),
        returns(b"\xff\xfe"), returns(b""),
    ],
)  # fmt: skip
def test_passing_failures_are_retried(server: Server, failure: Behaviour) -> None:
    server.script = [failure, failure, says("At last.")]
    human = _human(server, timeout_s=2.0 if failure is hangs else 60.0)
    assert human.reply(TASK, DIALOGUE, 0) == "At last."
    assert len(server.requests) == 3
    assert server.requests[0] == server.requests[1] == server.requests[2]


@pytest.mark.parametrize(
    ("failure", "got"),
    [
        (fails(500), "status 500"),
        (hangs, "a time-out"),
        (returns(b"{}"), "a malformed reply (no choices)"),
    ],
)
def test_the_last_failure_is_an_error_that_says_all(server: Server, failure: Behaviour, got: str) -> None:
    server.script = [failure]
    with pytest.raises(SimulatorError) as caught:
        _human(server, max_retries=1, timeout_s=0.2 if failure is hangs else 60.0).reply(TASK, DIALOGUE, 0)
    assert str(caught.value) == (
        f"Expected a reply from model 'm' at '{url(server)}', got {got} at the last of 3 attempts; "
        f"check that the server is up, or raise `timeout_s` or `max_retries`."
    )
    # The last without what the agent said. A server that hangs may not have read them all when the human gives up.
    assert failure is hangs or len(server.requests) == 3


def test_no_server_at_all() -> None:
    human = OpenAIHuman("m", base_url="http://127.0.0.1:9/v1", max_retries=1, backoff_s=0.01)
    with pytest.raises(SimulatorError) as caught:
        human.reply(TASK, DIALOGUE, 0)
    assert str(caught.value) == (
        "Expected a reply from model 'm' at 'http://127.0.0.1:9/v1', got a connection error (Connection refused) at the last of "
        "2 attempts; start the server, or correct its address."
    )


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (400, "the server refuses the request: check the name of the model and what the server's log says"),
        (401, "set the environment variable OPENAI_API_KEY to a valid key"),
        (403, "set the environment variable OPENAI_API_KEY to a key that may use the model"),
        (307, "redirects are not followed: give the address that it redirects to"),
        (404, "check the address (it usually ends in /v1) and the name of the model"),
    ],
)
def test_other_statuses_are_not_retried(server: Server, status: int, advice: str) -> None:
    server.script = [fails(status)]
    with pytest.raises(SimulatorError) as caught:
        _human(server).reply(TASK, DIALOGUE, 0)
    assert str(caught.value) == (
        f"Expected a reply from model 'm' at '{url(server)}', got status {status} at the last of 2 attempts; {advice}."
    )
    assert len(server.requests) == 2  # the second without what the agent said


def test_retry_after_is_honoured(server: Server) -> None:
    server.script = [fails(429, Retry_After="0.4"), fails(429, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"), says("Fine.")]
    start = time.monotonic()
    assert _human(server, max_retries=3).reply(TASK, DIALOGUE, 0) == "Fine."
    assert time.monotonic() - start >= 0.4


def test_unreadable_retry_after_is_left_aside(server: Server) -> None:
    server.script = [fails(429, Retry_After="soon"), fails(429, Retry_After="nan"), says("Fine.")]
    assert _human(server).reply(TASK, DIALOGUE, 0) == "Fine."


def test_concurrency_is_bounded(server: Server) -> None:
    running, most = [0], [0]

    def slow(handler: Handler) -> None:
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


def test_recorded_replies_need_no_server(server: Server, tmp_path: Path) -> None:
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


def test_pickling_closing_and_the_global_random_state(server: Server) -> None:
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
        ({"max_dialogue_chars": 0}, "`max_dialogue_chars` must be at least 1, got 0."),
        ({"timeout_s": 0.0}, "`timeout_s` must be more than 0, got 0.0."),
        ({"cache_mode": "replay"}, "`cache_mode='replay'` needs a `cache`; pass the file of recorded replies."),
        (
            {"base_url": None, "api_key_env": "COLBENCH_NO_SUCH_KEY"},
            "`base_url` None means OpenAI's own API, which needs a key; set the environment variable COLBENCH_NO_SUCH_KEY.",
        ),
    ],
)
def test_bad_arguments_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        OpenAIHuman("m", **{"base_url": "http://127.0.0.1:9/v1", **settings})
    assert str(caught.value) == text


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ImportError) as caught:
        OpenAIHuman("m", base_url="http://127.0.0.1:9/v1")
    assert str(caught.value) == f"A model server needs the httpx package: `{pip_install('[train]')}`."


LEAK = "The solution is def total(lines): return sum(lines)"


@pytest.mark.parametrize(
    "text",
    [
        f"<think>{LEAK}</think>Yes, a fee of 7.",
        f"<think>\n{LEAK}\n</think>\n\nHuman: Yes, a fee of 7.",
        f"{LEAK}</think>Yes, a fee of 7.",
        f"<Think>{LEAK}< /think >Yes, a fee of 7.",
        f"[THINK]{LEAK}[/THINK]Yes, a fee of 7.",
        f"<|channel|>analysis<|message|>{LEAK}<|end|><|start|>assistant<|channel|>final<|message|>Yes, a fee of 7.",
        f"analysisSo, {LEAK}.assistantfinalYes, a fee of 7.",
    ],
)
def test_the_agent_does_not_hear_what_the_human_thinks(server: Server, text: str) -> None:
    server.script = [says(text)]
    assert _human(server).reply(TASK, DIALOGUE, 0) == "Yes, a fee of 7."


@pytest.mark.parametrize("around", ["```\n{}\n```\n", "`{}` ", "> {} ", "'{}' "])
def test_a_human_writes_no_code_in_which_a_mark_would_be_text(server: Server, around: str) -> None:
    server.script = [says(f"{around.format(f'Hm. <think>{LEAK}</think>')}Yes, a fee of 7.")]
    reply = _human(server).reply(TASK, DIALOGUE, 0)
    assert "def total" not in reply and reply.endswith("Yes, a fee of 7.")


@pytest.mark.parametrize(
    "text",
    [f"<think>{LEAK}", f"<think>{LEAK}</think>", f"{LEAK}</think>", f"[THINK]{LEAK}", f"<|channel|>analysis<|message|>{LEAK}"],
)
def test_a_human_that_only_thinks_is_asked_again_and_then_fails(server: Server, text: str) -> None:
    server.script = [says(text), says("Yes.")]
    assert _human(server).reply(TASK, DIALOGUE, 0) == "Yes."
    server.script = [says(text)] * 9
    with pytest.raises(SimulatorError) as caught:
        _human(server, max_retries=1).reply(TASK, DIALOGUE, 0)
    assert "def total" not in str(caught.value)


def test_a_thought_without_an_opening_mark_that_is_cut_is_none_of_the_humans_words(server: Server) -> None:
    cut = {"choices": [{"message": {"content": LEAK}, "finish_reason": "length"}]}
    server.script = [says(f"{LEAK}</think>Yes."), returns(json.dumps(cut).encode()), says("No.")]
    human = _human(server)
    assert [human.reply(TASK, DIALOGUE, seed) for seed in (0, 1)] == ["Yes.", "No."]


@pytest.mark.parametrize("whole", ["Yes.", "<think>hm</think>Yes."])
def test_a_cut_reply_is_the_humans_only_if_whole_replies_show_that_no_thought_comes_first(server: Server, whole: str) -> None:
    cut = returns(json.dumps({"choices": [{"message": {"content": LEAK}, "finish_reason": "length"}]}).encode())
    server.script = [cut]
    human = _human(server, max_retries=0)
    with pytest.raises(
        SimulatorError, match=r"got a reply that `max_tokens` cut, which may be a thought at .*; raise `max_tokens` of the"
    ):
        human.reply(TASK, DIALOGUE, 0)
    server.script = [says(whole), cut, says(f"{LEAK}</think>Yes."), cut, says("No.")]
    assert [human.reply(TASK, DIALOGUE, seed) for seed in range(4)] == ["Yes.", LEAK, "Yes.", "No."]


def test_a_cut_reply_is_the_humans_if_its_whole_text_is_speech_or_the_server_has_parted_the_thought(server: Server) -> None:
    body = {"choices": [{"message": {"content": "Well, the fee", "reasoning_content": LEAK}, "finish_reason": "length"}]}
    server.script = [returns(json.dumps(body).encode())]
    assert _human(server).reply(TASK, DIALOGUE, 0) == "Well, the fee"
    del body["choices"][0]["message"]["reasoning_content"]  # type: ignore[attr-defined]
    server.script = [returns(json.dumps(body).encode())]
    assert _human(server, reasoning="none").reply(TASK, DIALOGUE, 0) == "Well, the fee"


def test_marks_of_a_human_can_be_named(server: Server) -> None:
    server.script = [says("<think>Yes."), says("<plan>no</plan>Yes.")]
    assert _human(server, reasoning="none").reply(TASK, DIALOGUE, 0) == "<think>Yes."
    human = make({"name": "openai", "model": "m", "base_url": url(server), "reasoning": "<plan> </plan>"})
    assert human.reply(TASK, DIALOGUE, 0) == "Yes."


ADVICE = {
    "model": "read what the model replies: it may be the wrong one to play the human",
    "tokens": "raise `max_tokens` of the simulated human, or switch its thoughts off",
    "server": "check that the server is up, or raise `timeout_s` or `max_retries`",
}


@pytest.mark.parametrize(
    ("message", "reason", "got", "advice"),
    [
        ({"content": None, "refusal": "I cannot."}, "stop", "a refusal", "model"),
        ({"content": "Well,"}, "content_filter", "a reply that the server's content filter withholds", "model"),
        ({"content": None, "reasoning": "The solution is def total"}, "length", "an empty reply, cut by `max_tokens` while it was thinking", "tokens"),
        ({"content": None, "tool_calls": [{"id": "1"}]}, "tool_calls", "an empty reply, but a call of a tool", "model"),
        ({"content": None}, "stop", "an empty reply", "model"),
        ({"content": f"<think>{LEAK}"}, "length", "a thought that does not end", "tokens"),
        ({"content": {"text": "a"}}, "stop", "a malformed reply (its content is no text)", "server"),
        ({"content": "half a"}, "error", "a reply that the server broke off", "server"),
    ],
)  # fmt: skip
def test_what_is_no_reply_is_named_and_retried(
    server: Server, message: dict[str, Any], reason: str, got: str, advice: str
) -> None:
    choice = {"message": message, "finish_reason": reason}
    server.script = [returns(json.dumps({"choices": [choice]}).encode())]
    with pytest.raises(SimulatorError) as caught:
        _human(server, max_retries=1).reply(TASK, DIALOGUE, 0)
    assert caught.value.reason == f"the simulated human's server: {got} at the last of 3 attempts; {ADVICE[advice]}"
