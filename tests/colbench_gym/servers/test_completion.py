"""Every form of a reply is a completion that says what it is, or an error that names what came in its place."""

from __future__ import annotations

import json

import pytest

from colbench_gym.servers.completion import Completion, read_completion
from colbench_gym.servers.errors import RequestError

TEXT = "Two decimals?"


def body(message=None, reason="stop", **more):
    choice = {"index": 0, "finish_reason": reason, **({} if message is None else {"message": message})}
    return json.dumps({"choices": [choice], **more}).encode()


def stream(*parts, end=b"data: [DONE]\n\n"):
    events = [b": comment\n\n", *(b"data: " + json.dumps(part).encode() + b"\n\n" for part in parts)]
    return b"".join(events) + end


def delta(reason=None, **fields):
    return {"choices": [{"delta": fields, "finish_reason": reason}]}


@pytest.mark.parametrize(
    ("reply", "text", "thought", "reason"),
    [
        (body({"content": TEXT}), TEXT, "", "stop"),
        (body({"content": TEXT}, None), TEXT, "", "stop"),
        (body({"content": TEXT}, 7), TEXT, "", "stop"),
        (body({"content": TEXT}, "eos_token"), TEXT, "", "stop"),
        (body({"content": TEXT}, "a reason of its own"), TEXT, "", "unknown"),
        (body({"content": TEXT}, "length"), TEXT, "", "length"),
        (body({"content": TEXT}, "MAX_TOKENS"), TEXT, "", "length"),
        (body({"content": TEXT}, "model_length"), TEXT, "", "length"),
        (body({"content": TEXT}, "content_filter"), TEXT, "", "content_filter"),
        (body({"content": None}, "length"), "", "", "length"),
        (body({"role": "assistant"}, "length"), "", "", "length"),
        (body({"content": None}, "content_filter"), "", "", "content_filter"),
        (body({"role": "assistant"}, "content_filter: SAFETY"), "", "", "content_filter"),
        (body({"content": None, "refusal": "I cannot."}), "I cannot.", "", "refusal"),
        (body({"content": [{"type": "refusal", "refusal": "I cannot."}]}), "I cannot.", "", "refusal"),
        (body({"content": None, "refusal": None}), "", "", "empty"),
        (body({"content": None, "tool_calls": [{"id": "1"}]}, "tool_calls"), "", "", "tool_calls"),
        (body({"tool_calls": [{"id": "1"}]}), "", "", "tool_calls"),
        (body({"content": None, "function_call": {"name": "f"}}), "", "", "tool_calls"),
        (body({"content": ""}), "", "", "empty"),
        (body({"content": " \n"}), " \n", "", "empty"),
        (body({"content": None}), "", "", "empty"),
        (body({"content": [{"type": "text", "text": "Two "}, {"type": "text", "text": "decimals?"}]}), TEXT, "", "stop"),
        (body({"content": []}), "", "", "empty"),
        (body({"content": TEXT, "reasoning_content": "Hm."}), TEXT, "Hm.", "stop"),
        (body({"content": TEXT, "reasoning": "Hm.", "reasoning_content": None}), TEXT, "Hm.", "stop"),
        (body({"content": TEXT, "reasoning": {"effort": 1}, "thinking": "Hm."}), TEXT, "Hm.", "stop"),
        (body({"content": "", "reasoning": "Hm."}, "length"), "", "Hm.", "length"),
        (body({"reasoning": "Hm."}), "", "Hm.", "empty"),
        (body({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": TEXT}]}), TEXT, "Hm.", "stop"),
        (body({"content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": TEXT}]}), TEXT, "Hm.", "stop"),
        (body({"content": [{"type": "image_url", "image_url": {}}, {"type": "text", "text": TEXT}]}), TEXT, "", "stop"),
        (body({"content": TEXT}, error=None), TEXT, "", "stop"),
        (b"\n\n  " + body({"content": TEXT}), TEXT, "", "stop"),
        (stream(delta(role="assistant"), delta(reasoning="Hm."), delta(content="Two "), delta("stop", content="decimals?")), TEXT, "Hm.", "stop"),
        (stream({}, delta(role="assistant", content=""), delta("stop", content=TEXT)), TEXT, "", "stop"),
        (b"\xef\xbb\xbfretry: 9\nid: 1\ndata:\n\n" + stream(delta(content="Two "), delta("stop"), delta(content="decimals?")), TEXT, "", "stop"),
        (stream(delta("stop", content=TEXT)).replace(b"\n", b"\r"), TEXT, "", "stop"),
        (stream(delta(content=[{"type": "thinking", "thinking": "Hm."}]), delta(content=[{"type": "text", "text": "Two "}]), delta("stop", content="decimals?")), TEXT, "Hm.", "stop"),
        (stream({"choices": [{"text": "Two "}]}, {"choices": [{"text": "decimals?", "finish_reason": "stop"}]}), TEXT, "", "stop"),
        (stream({"choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}]}), TEXT, "", "stop"),
        (stream(delta(tool_calls=[{"id": "1"}]), delta("tool_calls")), "", "", "tool_calls"),
        (b"\xef\xbb\xbf" + body({"content": [{"text": TEXT}]}), TEXT, "", "stop"),
        (b'{"choices": [{"text": "Two decimals?", "finish_reason": "stop"}]}', TEXT, "", "stop"),
        (b'{"choices": [{"text": "", "finish_reason": "length"}]}', "", "", "length"),
    ],
)  # fmt: skip
def test_a_reply_is_read_in_every_form(reply, text, thought, reason):
    found = read_completion(reply)
    assert (found.text, found.thought, found.finish_reason) == (text, thought, reason)


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        (b'{"choices": []}', "a malformed reply (no choices)"),
        (b'{"choices": null}', "a malformed reply (no choices)"),
        (b'{"choices": {"0": 1}}', "a malformed reply (no choices)"),
        (b'{"choices": ["a"]}', "a malformed reply (no choices)"),
        (b'{"object": "chat.completion"}', "a malformed reply (no choices)"),
        (body(), "a malformed reply (no message)"),
        (body("a"), "a malformed reply (no message)"),
        (body({"role": "assistant"}), "a malformed reply (a message without content)"),
        (body({"content": 3}), "a malformed reply (its content is no text)"),
        (body({"content": False}), "a malformed reply (its content is no text)"),
        (body({"content": {"text": "a"}}), "a malformed reply (its content is no text)"),
        (body({"content": ["a"]}), "a malformed reply (its content is no text)"),
        (body({"content": [{"type": "text", "text": 3}]}), "a malformed reply (its content is no text)"),
        (body({"content": "half a"}, "error"), "a reply that the server broke off"),
        (body({"content": "half a"}, "abort"), "a reply that the server broke off"),
        (b"<!DOCTYPE html><html>Welcome</html>", "a malformed reply (a web page; an API's address usually ends in /v1)"),
        (b"Welcome", "a malformed reply (not JSON)"),
        (b"", "a malformed reply (not JSON)"),
        (b'["a"]', "a malformed reply (no object)"),
        (b'{"choices": [{"text": null}]}', "a malformed reply (its text is none)"),
        (b'{"choices": [{"text": "a", "token_ids": [1], "logprobs": {"token_logprobs": [-1, -1]}}]}', "a malformed reply (its tokens and log-probabilities differ in number)"),
        (b'{"choices": [{"text": "a", "token_ids": ["a"]}]}', "a malformed reply (its tokens are no numbers)"),
        (b'{"choices": [{"text": "a", "token_ids": [1%s]}]}' % (b"0" * 400), "a malformed reply (its tokens are no numbers)"),
        (b'{"choices": [{"text": "a", "token_ids": [1], "logprobs": {"token_logprobs": [-1%s]}}]}' % (b"0" * 400), "a malformed reply (its log-probabilities are no numbers)"),
        (stream(delta("stop", content=["a"])), "a malformed reply (its content is no text)"),
        (b'{"choices": [{"text": "a", "token_ids": [1], "logprobs": {"token_logprobs": [null]}}]}', "a malformed reply (its log-probabilities are no numbers)"),
        (b'{"choices": [{"text": "a", "token_ids": [1], "logprobs": {"token_logprobs": [NaN]}}]}', "a malformed reply (its log-probabilities are no numbers)"),
        (stream(delta(content="half"), end=b""), "a malformed reply (no choices)"),
        (stream({"error": {"message": "down", "code": 503}}), "status 503"),
    ],
)  # fmt: skip
def test_what_is_no_completion_is_named(reply, what):
    with pytest.raises(RequestError) as caught:
        read_completion(reply)
    assert str(caught.value) == what and caught.value.is_passing


@pytest.mark.parametrize(
    ("error", "status", "is_passing"),
    [
        ({"message": "slow down", "code": 429}, 429, True),
        ({"message": "no such model", "code": "404"}, 404, False),
        ({"message": "down", "code": "server_error"}, 500, True),
        ({"message": "a" * 9, "code": "9" * 5000}, 500, True),
        ("Unexpected endpoint", 500, True),
        ({"code": None}, 500, True),
    ],
)
def test_an_error_object_in_a_good_response_is_an_error_with_its_own_status(error, status, is_passing):
    for reply in (
        {"error": error},
        {"error": error, "choices": [{"message": {"content": ""}}]},
        {"choices": [{"error": error}]},
    ):
        with pytest.raises(RequestError, match=rf"^status {status}( \(its body mentions [a-z ,_]+\))?$") as caught:
            read_completion(json.dumps(reply).encode())
        assert (caught.value.status, caught.value.is_passing) == (status, is_passing)


def test_tokens_come_with_or_without_log_probabilities():
    reply = {"choices": [{"text": "a", "token_ids": [5, 2], "logprobs": {"token_logprobs": [-0.5, -1]}}]}
    assert read_completion(json.dumps(reply).encode()) == Completion("a", token_ids=[5, 2], log_probs=[-0.5, -1.0])
    reply["choices"][0]["logprobs"] = None
    assert read_completion(json.dumps(reply).encode()) == Completion("a", token_ids=[5, 2])
