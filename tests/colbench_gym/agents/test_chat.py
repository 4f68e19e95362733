"""A model behind a chat server as the agent: what it asks, what it does about failures, and what a hostile server can do."""

from __future__ import annotations

import json
import pickle
import socket
import traceback

import pytest

from colbench_gym.agents.chat import ChatAgent, Sampling, split_name
from colbench_gym.errors import AgentDownError, AgentError
from colbench_gym.servers.completion import MAX_TOKENS, read_completion
from tests.colbench_gym.simulators.model.chat_servers import fails, hangs, returns, says, serving, url

pytest.importorskip("httpx", reason="needs the httpx package; run `pip install .[train]`")
KEY = "sk-canary1234"
MESSAGES = [{"role": "user", "content": "I need a total."}]


def completion(text, prompt_tokens=11, completion_tokens=5):
    body = {
        "choices": [{"message": {"content": text}}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens},
    }
    return returns(json.dumps(body).encode())


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("CANARY_KEY", KEY)
    with serving() as server:
        yield server


def make(server, **settings):
    return ChatAgent(
        "m", url(server), Sampling(**{"api_key_env": "CANARY_KEY", "max_retries": 1, "backoff_s": 0.01, **settings})
    )


def test_it_sends_the_dialogue_and_its_settings_and_returns_text_and_tokens(server):
    server.script = [completion("Rounded?")]
    said = make(server, system_prompt="Ask first.", temperature=0.5, max_new_tokens=7).say(MESSAGES, 2**31 + 3)
    assert (said.text, said.prompt_tokens, said.generated_tokens) == ("Rounded?", 11, 5)
    assert server.requests == [
        {
            "model": "m", "temperature": 0.5, "max_tokens": 7, "seed": 3,
            "messages": [{"role": "system", "content": "Ask first."}, *MESSAGES],
        }
    ]  # fmt: skip
    assert server.keys == [f"Bearer {KEY}"]


def test_a_server_that_counts_no_tokens_and_one_that_says_nothing(server):
    server.script = [says("Hi \ud800"), says(None)]
    agent = make(server)
    assert agent.say(MESSAGES, 0).prompt_tokens is None
    assert agent.say(MESSAGES, 0).text == ""
    server.script = [says("a \ud800 b")]
    assert agent.say(MESSAGES, 0).text == "a \ufffd b"


def test_what_passes_is_tried_again(server):
    server.script = [fails(503), completion("Yes.")]
    assert make(server).say(MESSAGES, 0).text == "Yes."
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("behaviour", "advice"),
    [
        (fails(500), "check that the server is up"),
        (fails(400), "the server refuses the request: check the name of the model"),
        (returns(b"{}"), "check that the server is up"),
        (hangs, "check that the server is up"),
    ],
    ids=["500", "400", "malformed", "slow"],
)
def test_a_dialogue_in_which_the_server_fails_is_void(server, behaviour, advice):
    server.script = [behaviour]
    with pytest.raises(AgentError, match=rf"^Expected a message from model 'm' at 'http://127.0.0.1:.*attempts; {advice}"):
        make(server, timeout_s=0.2 if behaviour is hangs else 60.0).say(MESSAGES, 0)


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "set the environment variable CANARY_KEY"),
        (404, "check the address"),
        (302, "give the address that it redirects to"),
    ],
)
def test_a_server_that_refuses_everything_ends_the_evaluation(server, status, advice):
    server.script = [fails(status)]
    with pytest.raises(AgentDownError, match=advice):
        make(server).say(MESSAGES, 0)
    assert len(server.requests) == 1


def test_a_server_that_is_not_there_ends_the_evaluation(server):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}/v1"
        with pytest.raises(AgentDownError, match="start the server, or correct its address"):
            ChatAgent("m", address, Sampling(max_retries=0)).say(MESSAGES, 0)


def test_no_error_holds_what_the_server_said(server):
    def echo(handler):
        text = f"{handler.headers['Authorization']} \x1b[2J"
        handler.send(400, json.dumps({"error": {"message": text}}).encode())

    server.script = [echo]
    with pytest.raises(AgentError) as caught:
        make(server).say(MESSAGES, 0)
    whole = "".join(traceback.format_exception(caught.value))
    assert KEY not in whole and "\x1b" not in whole


@pytest.mark.parametrize(
    "usage", [None, [], {}, {"prompt_tokens": 1}, {"prompt_tokens": True, "completion_tokens": 1}, {"prompt_tokens": -1, "completion_tokens": 1},
              {"prompt_tokens": "9", "completion_tokens": 1}, {"prompt_tokens": 3, "completion_tokens": 0}, {"prompt_tokens": 0, "completion_tokens": 1},
              {"total_tokens": 9, "prompt_tokens": 3}, {"prompt_tokens": MAX_TOKENS + 1, "completion_tokens": 1}, {"prompt_tokens": 1e9, "completion_tokens": 1}],
)  # fmt: skip
def test_token_counts_that_cannot_be_true_are_unknown(usage):
    body = {"choices": [{"message": {"content": "Hi."}}], "usage": usage}
    assert read_completion(json.dumps(body).encode()).usage is None
    body["usage"] = {"prompt_tokens": 3, "completion_tokens": 1}
    assert read_completion(json.dumps(body).encode()).usage == (3, 1)
    body |= {"choices": [{"message": {"content": ""}}], "usage": {"prompt_tokens": 3, "completion_tokens": 0}}
    assert read_completion(json.dumps(body).encode()).usage == (3, 0)


def test_names_of_servers():
    assert split_name("openai:org/m:8b@http://127.0.0.1:8000/v1/") == ("org/m:8b", "http://127.0.0.1:8000/v1")
    assert split_name("openai:gpt") == ("gpt", "https://api.openai.com/v1")
    for wrong in ("openai:@http://a/v1", "openai:m@http://user:pw@a/v1", "openai:"):
        with pytest.raises(ValueError, match="without user"):
            split_name(wrong)


def test_openais_own_api_needs_a_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ValueError, match="^OpenAI's own API needs a key; set the environment variable OPENAI_API_KEY"):
        ChatAgent("gpt")


def test_the_key_is_in_no_copy(server):
    agent = make(server)
    assert KEY.encode() not in pickle.dumps(agent)
    assert pickle.loads(pickle.dumps(agent)).say(MESSAGES, 0).text == "Two decimals."


def test_thoughts_are_beside_the_message(server):
    body = {"choices": [{"message": {"content": "</think>Rounded?", "reasoning_content": "Hm."}, "finish_reason": "length"}]}
    server.script = [completion("<think>a</think>\n\nRounded?"), returns(json.dumps(body).encode()), completion("<think>a")]
    agent = make(server)
    assert [(said.text, said.thought) for said in (agent.say(MESSAGES, 0) for _ in range(3))] == [
        ("Rounded?", "<think>a</think>\n\n"), ("Rounded?", "Hm.</think>"), ("", "<think>a"),
    ]  # fmt: skip
    server.script = [returns(json.dumps(body).encode()), completion("<think>a")]
    assert agent.say(MESSAGES, 0).finish_reason == "length"
    assert make(server, reasoning="none").say(MESSAGES, 0).text == "<think>a"
