"""What a server's reply to a request says, in any of the forms that servers send.

Contents are a text, null or a list of parts; thoughts are in a field of their own or in parts; a refusal is a field or a part. A reply without content is
never silently an empty message: `Completion.finish_reason` names why there is none. What is no completion at all raises a `RequestError`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from colbench_gym.servers.errors import RequestError, status_error

#: Why a completion ended: the model ended it; the limit of tokens cut it; a filter withheld the rest; the model refused; it called a tool, and none was
#: offered; it ended without a word; the server gives a reason that is not known here.
STOP, LENGTH, FILTER, REFUSAL, TOOLS, EMPTY, UNKNOWN = (
    "stop", "length", "content_filter", "refusal", "tool_calls", "empty", "unknown",
)  # fmt: skip
#: Other names that servers have for them; None: the server does not say.
_REASONS: Mapping[str | None, str] = {
    None: STOP, "stop": STOP, "eos": STOP, "eos_token": STOP, "stop_sequence": STOP, "end_turn": STOP, "complete": STOP, "completed": STOP,
    "length": LENGTH, "max_tokens": LENGTH, "model_length": LENGTH, "max_length": LENGTH, "max_output_tokens": LENGTH, "max_new_tokens": LENGTH,
    "content_filter": FILTER, "safety": FILTER, "recitation": FILTER, "blocklist": FILTER, "prohibited_content": FILTER, "sensitive": FILTER,
    "refusal": REFUSAL, "tool_calls": TOOLS, "tool_use": TOOLS, "function_call": TOOLS,
}  # fmt: skip
#: Reasons of a server that failed while it generated.
_FAILED = ("error", "abort", "aborted", "cancelled", "canceled", "insufficient_system_resource", "network_error")
#: How a line of a stream of events begins.
_EVENTS = (b"data:", b"event:", b"id:", b"retry:", b":")
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
#: Largest number of tokens that is believed.
MAX_TOKENS = 10**9
#: Prompt and generated tokens of a completion.
Usage = tuple[int, int]


@dataclass(frozen=True)
class Completion:
    """A model's reply.

    Attributes:
        text: The message as the server sent it; with a refusal, its words. It may be empty and may contain lone surrogates. Thoughts that the server does
            not take out are part of it (`colbench_gym.reasoning`).
        thought: What the server sent as thought, beside the message; "" if nothing.
        finish_reason: `STOP`, `LENGTH`, `FILTER`, `REFUSAL`, `TOOLS`, `EMPTY` or `UNKNOWN`. It is not `STOP` if the text is empty.
        usage: Prompt and generated tokens; None if the server reports none, or numbers that cannot be true.
        token_ids: The generated tokens; empty if the server returns none.
        log_probs: Their log-probabilities; empty if the server returns none, else as many.
    """

    text: str
    thought: str = ""
    finish_reason: str = STOP
    usage: Usage | None = None
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)


def read_completion(body: bytes) -> Completion:
    """The completion in the body of a response of status 200, from the chat or the text route.

    Raises:
        RequestError: If it has none; says what it is in its place.
    """
    reply = _reply(body)
    choices = reply.get("choices")
    if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
        raise _malformed("no choices")
    choice = choices[0]
    if choice.get("error"):
        raise _error_object(choice["error"], body)
    reason = finish_reason(choice.get("finish_reason"))
    if "message" in choice or "text" not in choice:
        text, thought, reason = _message(choice.get("message"), reason)
    elif isinstance(choice["text"], str):
        text, thought = choice["text"], ""
    else:
        raise _malformed("its text is none")
    if not text.strip() and reason in (STOP, UNKNOWN):
        reason = EMPTY
    return Completion(text, thought, reason, _usage(reply.get("usage"), bool(text)), *_tokens(choice))


def usage_of(body: bytes) -> Usage | None:
    """The tokens that a reply reports, also one that is no completion; None if it reports none."""
    try:
        return _usage(_reply(body).get("usage"), has_text=False)
    except RequestError:
        return None


def finish_reason(given: Any) -> str:
    """The reason that a server, or a framework that asks one, gives for the end of a message, in our own words; `STOP` for None.

    Raises:
        RequestError: If it says that the server failed.
    """
    word = given.lower().partition(":")[0].strip() if isinstance(given, str) else None
    if word in _FAILED:
        raise RequestError("a reply that the server broke off")
    return _REASONS.get(word or None, UNKNOWN)


def _reply(body: bytes) -> dict[str, Any]:
    body = body.removeprefix(b"\xef\xbb\xbf")
    start = body[:100].lstrip().lower()
    if start.startswith(b"<"):
        raise _malformed("a web page; an API's address usually ends in /v1")
    try:
        reply = _joined_stream(body) if start.startswith(_EVENTS) else json.loads(body)
    except (ValueError, RecursionError):
        raise _malformed("not JSON") from None
    if not isinstance(reply, dict):
        raise _malformed("no object")
    if reply.get("error") or reply.get("object") == "error":
        raise _error_object(reply.get("error") or reply, body)
    return reply


def _joined_stream(body: bytes) -> dict[str, Any]:
    """The completion in a stream of events, which some servers send without being asked for one."""
    joined: dict[str, Any] = {}
    pieces: dict[str, list[Any]] = {}
    for line in body.splitlines():
        event = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or event in (b"", b"[DONE]"):
            continue
        part = json.loads(event)
        if not isinstance(part, dict) or part.get("error"):
            return part if isinstance(part, dict) else {}
        joined |= {"usage": part["usage"]} if part.get("usage") else {}
        choices = part.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        delta = choice.get("delta") or choice.get("message") or {"content": choice.get("text")}
        for name, piece in delta.items() if isinstance(delta, dict) else ():
            if isinstance(piece, str | list):
                pieces.setdefault(name, []).append(piece)
        if choice.get("finish_reason"):
            joined["choices"] = [{"finish_reason": choice["finish_reason"]}]
    for choice in joined.get("choices", ()):
        choice["message"] = {name: _whole(parts) for name, parts in pieces.items()}
    return joined


def _whole(pieces: list[Any]) -> Any:
    """A field of a message from its pieces: a text, or a list of parts if some pieces are lists."""
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    return [part for piece in pieces for part in ([{"type": "text", "text": piece}] if isinstance(piece, str) else piece)]


def _message(message: Any, reason: str) -> tuple[str, str, str]:
    """Text, thought and finish reason of a chat message."""
    if not isinstance(message, dict):
        raise _malformed("no message")
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": "" if content is None else content}]
    if not all(isinstance(part, dict) for part in parts):
        raise _malformed("its content is no text")
    text = "".join(_text(part.get("text")) for part in parts if part.get("type", "text") in ("text", "output_text"))
    thought = next((message[name] for name in _THOUGHTS if message.get(name) and isinstance(message[name], str)), "")
    thought = thought or "".join(
        _thought(part.get("thinking") or part.get("text")) for part in parts if part.get("type") in ("thinking", "reasoning")
    )
    refusals = [message.get("refusal"), *(part.get("refusal") for part in parts)]
    refusal = "".join(words for words in refusals if isinstance(words, str))
    if refusal:
        return text or refusal, thought, REFUSAL
    if not text and (message.get("tool_calls") or message.get("function_call")):
        return "", thought, TOOLS
    if "content" not in message and not thought and reason in (STOP, UNKNOWN):
        raise _malformed("a message without content")
    return text, thought, reason


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise _malformed("its content is no text")
    return text


def _thought(thought: Any) -> str:
    """Text of a thinking part: a text, or a list of parts with one."""
    if isinstance(thought, list):
        return "".join(_thought(part.get("text")) for part in thought if isinstance(part, dict))
    return thought if isinstance(thought, str) else ""


def _usage(usage: Any, has_text: bool) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    read, generated = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if (
        type(read) is not int
        or type(generated) is not int
        or not (0 < read <= MAX_TOKENS and has_text <= generated <= MAX_TOKENS)
    ):
        return None
    return read, generated


def _tokens(choice: dict[str, Any]) -> tuple[list[int], list[float]]:
    """The generated tokens of a choice of the text route, and their log-probabilities; [] for what the server does not return."""
    ids, reported = choice.get("token_ids") or [], choice.get("logprobs")
    log_probs = (reported.get("token_logprobs") if isinstance(reported, dict) and ids else None) or []
    if not (isinstance(ids, list) and all(type(x) is int and 0 <= x <= MAX_TOKENS for x in ids)):
        raise _malformed("its tokens are no numbers")
    if not (isinstance(log_probs, list) and all(type(x) in (int, float) and abs(x) <= sys.float_info.max for x in log_probs)):
        raise _malformed("its log-probabilities are no numbers")
    if log_probs and len(log_probs) != len(ids):
        raise _malformed("its tokens and log-probabilities differ in number")
    return ids, [float(x) for x in log_probs]


def _error_object(error: Any, body: bytes) -> RequestError:
    """The error of an error object in a response of status 200; without a status of its own, it counts as a failure of the server."""
    code = str(error.get("code")) if isinstance(error, dict) and isinstance(error.get("code"), int | str) else ""
    return status_error(int(code) if re.fullmatch("[45][0-9]{2}", code) else 500, {}, body)


def _malformed(what: str) -> RequestError:
    return RequestError(f"a malformed reply ({what})")
