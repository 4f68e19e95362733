"""Which change a refusal asks for, in the wordings of many servers; what is no refusal changes nothing, and only what has helped is remembered."""

from __future__ import annotations

import json
import logging

import pytest

from colbench_gym.agents.chat import ChatAgent, Sampling
from colbench_gym.errors import AgentError, SimulatorError
from colbench_gym.servers.dialect import DEVELOPER, FILLED, IN_USER, JOINED, NOTHING, adapted, known_changes, refusal
from colbench_gym.servers.errors import status_error
from tests.colbench_gym.simulators.model.chat_servers import says, serving, url

REQUEST = {
    "model": "m", "temperature": 0.8, "max_tokens": 9, "seed": 3, "top_p": 1.0, "top_k": -1, "generation_config": "{}",
    "messages": [{"role": "system", "content": "Ask."}, {"role": "user", "content": "Hi."}],
}  # fmt: skip
EMPTY = {
    **REQUEST,
    "messages": [*REQUEST["messages"], {"role": "assistant", "content": ""}, {"role": "user", "content": "What?"}],
}
TWICE = {**REQUEST, "messages": [*REQUEST["messages"], {"role": "user", "content": "Anybody?"}]}


def openai(message, param=None, code=None):
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def fastapi(*loc, kind="extra_forbidden", msg="Extra inputs are not permitted"):
    return {"detail": [{"type": kind, "loc": ["body", *loc], "msg": msg, "input": {"seed": 3, "temperature": 0.8}}]}


@pytest.mark.parametrize(
    ("status", "reply", "change"),
    [
        (400, openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "max_tokens", "unsupported_parameter"), "max_tokens"),
        (400, {"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "code": "invalid_request_body"}}, "max_tokens"),
        (400, openai("Unsupported value: 'temperature' does not support 0.8 with this model. Only the default (1) value is supported.", "temperature", "unsupported_value"), "temperature"),
        (400, openai("`temperature` is deprecated for this model."), "temperature"),
        (400, openai("Unrecognized request argument supplied: top_k"), "top_k"),
        (400, openai("property 'seed' is unsupported"), "seed"),
        (400, [{"error": {"code": 400, "message": 'Invalid JSON payload received. Unknown name "seed": Cannot find field.', "status": "INVALID_ARGUMENT"}}], "seed"),
        (400, openai("Argument not supported on this model: topP"), "top_p"),
        (422, fastapi("seed"), "seed"),
        (422, {"detail": "Unexpected fields in the request: {'top_k'}"}, "top_k"),
        (400, {"object": "error", "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'top_k'), 'msg': 'Extra inputs are not permitted', 'input': -1}]", "code": 400}, "top_k"),
        (400, {"error": "got an unexpected keyword argument 'generation_config'"}, "generation_config"),
        (400, openai("Unsupported value: 'messages[0].role' does not support 'system' with this model.", "messages[0].role", "unsupported_value"), DEVELOPER),
        (422, {"error": "Input validation error: `top_p` must be > 0.0 and < 1.0", "error_type": "validation"}, "top_p"),
        (400, openai("System role not supported"), IN_USER),
        (500, openai("Jinja Exception: System role not supported"), IN_USER),
        (400, {"error": 'Error rendering prompt with jinja template: "Only user and assistant roles are supported!".'}, IN_USER),
        (400, openai("Conversation roles must alternate user/assistant/user/assistant/..."), IN_USER),
        (422, fastapi("messages", 0, "role", kind="literal_error", msg="Input should be 'user' or 'assistant'"), IN_USER),
    ],
)  # fmt: skip
def test_a_refusal_is_recognized(status, reply, change):
    text = json.dumps(reply).encode()
    assert refusal(status_error(status, {}, text), text, REQUEST) == change


@pytest.mark.parametrize(
    ("status", "reply"),
    [
        (400, openai("This model's maximum context length is 4096 tokens; please reduce the length of the messages or max_tokens.", "max_tokens", "context_length_exceeded")),
        (400, openai("max_tokens is too large: 100000. This model has at most 4096 completion tokens.", "max_tokens", "invalid_value")),
        (400, openai("max_tokens=9000 cannot be greater than max_model_len=2048. Please request fewer output tokens. (parameter=max_tokens, value=9000)", "max_tokens", 400)),
        (400, openai("temperature must be between 0 and 1", "temperature", "decimal_above_max_value")),
        (400, openai("The model `m` is not supported here")),
        (400, openai("no luck")),
        (400, "<html>Bad request</html>"),
        (400, [[[[]]]]),
        (401, openai("Unsupported parameter: 'seed'", "seed", "unsupported_parameter")),
        (429, openai("seed is not supported")),
        (500, openai("Unsupported parameter: 'seed'", "seed")),
        (422, fastapi("prompt", kind="missing", msg="Field required")),
    ],
)  # fmt: skip
def test_other_errors_change_nothing(status, reply):
    text = json.dumps(reply).encode()
    assert refusal(status_error(status, {}, text), text, REQUEST) is None


def test_a_reply_nested_as_deeply_as_can_be_read_changes_nothing():
    for text in (b"[" * 900 + b"]" * 900, b'{"a":' * 900 + b"1" + b"}" * 900, b"[" * 10**5):
        assert refusal(status_error(400, {}, text), text, REQUEST) is None


@pytest.mark.parametrize("text", ["text content blocks must be non-empty", "Assistant message must have either content or tool_calls", "content should have at least 1 character"])  # fmt: skip
def test_a_server_that_refuses_an_empty_message_gets_another(text):
    reply = json.dumps(openai(text)).encode()
    assert refusal(status_error(400, {}, reply), reply, EMPTY) == FILLED
    assert refusal(status_error(400, {}, reply), reply, REQUEST) is None
    assert adapted(EMPTY, frozenset({FILLED}))["messages"][2] == {"role": "assistant", "content": NOTHING}


def test_two_messages_of_a_role_become_one():
    reply = json.dumps(openai("After the optional system message, conversation roles must alternate user/assistant")).encode()
    assert refusal(status_error(400, {}, reply), reply, TWICE) == JOINED
    assert adapted(TWICE, frozenset({JOINED}))["messages"] == [
        REQUEST["messages"][0],
        {"role": "user", "content": "Hi.\n\nAnybody?"},
    ]


def test_a_changed_request_keeps_everything_else():
    assert adapted(REQUEST, frozenset()) == REQUEST
    changed = adapted(REQUEST, frozenset({"max_tokens", "seed", IN_USER}))
    rest = {name: value for name, value in REQUEST.items() if name not in ("max_tokens", "seed", "messages")}
    assert changed == {**rest, "max_completion_tokens": 9, "messages": [{"role": "user", "content": "Ask.\n\nHi."}]}
    assert adapted({"max_completion_tokens": 9}, frozenset({"max_completion_tokens"})) == {"max_tokens": 9}
    assert adapted(REQUEST, frozenset({DEVELOPER}))["messages"][0] == {"role": "developer", "content": "Ask."}
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}
    parts = adapted({"messages": [REQUEST["messages"][0], picture]}, frozenset({IN_USER}))["messages"]
    assert parts == [{"role": "user", "content": [{"type": "text", "text": "Ask."}, *picture["content"]]}]


def refuses(message, when):
    return lambda handler: (
        handler.send(400, json.dumps(openai(message)).encode()) if when(handler.asked) else says("Hi.")(handler)
    )


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as server:
        yield server


def make(server, model):
    return ChatAgent(model, url(server), Sampling(max_retries=0, backoff_s=0.01))


def test_what_is_learned_is_said_once_for_all_clients_of_a_server_and_model(server, caplog):
    server.script = [refuses("'seed' is not supported", lambda asked: "seed" in asked)]
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert make(server, "once").say(REQUEST["messages"], 3).text == "Hi."
    assert caplog.messages == [
        f"The server at {url(server)} refuses `seed`: requests go without it; its replies are not reproducible (model once)."
    ]
    assert len(server.requests) == 4 and known_changes(url(server), "another") == frozenset()


def test_a_server_that_refuses_everything_ends_in_one_sentence_and_is_not_remembered(server, caplog):
    server.script = [
        refuses("'seed', 'temperature' and 'max_tokens' are not supported; system role not supported", lambda asked: True)
    ]
    with pytest.raises(AgentError) as caught, caplog.at_level(logging.WARNING):
        make(server, "never").say(REQUEST["messages"], 3)
    assert (
        "got status 400 (its body mentions max_tokens, temperature, seed, system) at the last of 1 attempts; the server refuses"
        in str(caught.value)
    )
    assert len(server.requests) <= 8 and not caplog.messages and not known_changes(url(server), "never")


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 9 tokens; reduce max_tokens",
        "max_tokens=9000 cannot be greater than max_model_len=2048. Please request fewer output tokens.",
    ],
)
def test_a_dialogue_that_is_too_long_is_said_and_only_that(text, server):
    server.script = [refuses(text, lambda asked: True)]
    with pytest.raises(AgentError, match="the dialogue is too long for the model: serve it with a longer context"):
        make(server, "short").say(REQUEST["messages"], 3)
    assert len(server.requests) == 1


def test_text_of_the_agent_that_a_server_repeats_leaves_nothing_out(server):
    echo = lambda handler: handler.send(400, json.dumps(openai(f"Bad: {handler.asked['messages']}")).encode())
    server.script = [echo]
    with pytest.raises(AgentError):
        make(server, "echo").say([{"role": "user", "content": "'temperature' is not supported"}], 3)
    assert not known_changes(url(server), "echo")


@pytest.mark.parametrize("status", [400, 403])
def test_a_dialogue_that_a_filter_refuses_is_an_outcome_of_the_agent_and_an_error_of_the_human(server, status):
    from colbench_gym.dialogue import Dialogue
    from colbench_gym.simulators.model.openai import OpenAIHuman
    from colbench_gym.tasks.task import HiddenTask, Task

    server.script = [
        lambda handler: handler.send(status, json.dumps({"error": {"code": "content_filter", "message": "no"}}).encode())
    ]
    completion = make(server, "filter")._server.complete(REQUEST)
    assert (completion.text, completion.finish_reason) == ("", "content_filter")
    task = Task("t", "I need a total.", "def total(lines)", HiddenTask("def total(lines): return sum(lines)", ()))
    human = OpenAIHuman("filter", base_url=url(server), max_retries=1, backoff_s=0.01)
    with pytest.raises(SimulatorError, match="a reply that the server's content filter withholds at the last of") as caught:
        human.reply(task, Dialogue().add("user", task.description), 0)
    assert caught.value.reason.startswith("the simulated human's server: a reply that the server's content filter withholds")
