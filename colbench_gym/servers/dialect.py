"""What a server refuses of a request, and the request without it.

Servers that speak OpenAI's API differ in the parameters and messages that they take. A refusal is recognized in the reply of status 400 or 422 (a chat
template's also in one of 500): by the fields `error.param` or `detail.loc`, else by the name of a parameter near words such as "not supported". The request
is then sent again without it. If that succeeds, the change is remembered for the server and model, for the whole process, and logged once.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from colbench_gym.servers.errors import RequestError

_log = logging.getLogger(__name__)
#: Changes besides the names of parameters: the system message under another role or in the first user message, messages of one role joined, and empty
#: messages replaced.
DEVELOPER, IN_USER, JOINED, FILLED = "system as developer", "system in user", "roles joined", "empty messages"
#: What is sent for an empty message.
NOTHING = "(no message)"
_LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
#: Parts of a request that are never left out.
_FIXED = {"model", "messages", "prompt", "stream"}
_SAID = {
    **{name: f"`{name}`: `{other}` is sent in its place" for name, other in _LIMITS.items()},
    "seed": "`seed`: requests go without it; its replies are not reproducible",
    "temperature": "`temperature`: requests go without it; it samples at its own",
    "generation_config": "`generation_config`: requests go without it; its own `top_k` and penalties apply",
    DEVELOPER: "a system message: the instructions are sent as the role `developer`",
    IN_USER: "a system message: the instructions are sent in front of the first user message",
    JOINED: "two messages of one role in a row: they are sent as one",
    FILLED: f"empty messages: {NOTHING!r} is sent in their place",
}
_REFUSED = re.compile(
    r"not (?:be )?(?:supported|permitted|allowed|available|enabled|accepted|implemented|compatible|recogni[sz]ed|a valid)|unsupported|unknown|unexpected|"
    r"unrecogni[sz]ed|(?:not|n't|only) support|extra (?:inputs|fields)|extra_forbidden|cannot find field|deprecated|additional propert|no longer|only the default"
)
#: Settings that switch a truncation off; a server may refuse such a value (text-generation-inference: "`top_p` must be > 0.0 and < 1.0").
_WHOLE = ("top_p", "top_k", "min_p", "repetition_penalty", "repeat_penalty")
#: Largest distance of a parameter's name from such words, and number of characters of a reply that are read.
_NEAR, _READ = 120, 4000
_changes: dict[tuple[str, str], frozenset[str]] = {}
_lock = threading.Lock()


def known_changes(url: str, model: str) -> frozenset[str]:
    """The changes that a server needs, as far as they are known."""
    return _changes.get((url, model), frozenset())


def remember(url: str, model: str, changes: frozenset[str]) -> None:
    """Remember changes with which a request has succeeded; logs those that are new."""
    with _lock:
        new = changes - known_changes(url, model)
        _changes[url, model] = known_changes(url, model) | new
    for change in sorted(new):
        what = _SAID.get(change, f"`{change}`: requests go without it; its own setting applies")
        _log.warning("The server at %s refuses %s (model %s).", url, what, model)


def adapted(request: Mapping[str, Any], changes: frozenset[str]) -> dict[str, Any]:
    """A request with the changes."""
    names = {name: _LIMITS[name] if name in changes and name in _LIMITS else name for name in request}
    body = {names[name]: value for name, value in request.items() if name in _LIMITS or name not in changes}
    messages = body.get("messages")
    if changes and messages:
        body["messages"] = _adapted_messages(messages, changes)
    return body


def refusal(error: RequestError, body: bytes, request: Mapping[str, Any]) -> str | None:
    """The change that a server asks for; None if it refuses nothing that can be changed.

    Args:
        error: The error of its response.
        body: The response's body.
        request: The request as it was sent.
    """
    if error.status not in (400, 422, 500) or error.is_too_long:
        return None
    with contextlib.suppress(RecursionError):  # of a reply that is nested as deeply as can be read
        try:
            reply = json.loads(body)
        except ValueError:
            reply = body.decode("utf-8", "replace")
        text, places = " ".join(_strings(reply))[:_READ].lower(), list(_places(reply))
        about_messages = _refused_messages(text, places, request.get("messages"))
        if error.status == 500:
            return about_messages
        return (
            _refused_place(text, places, request)
            or about_messages
            or _refused_parameter(text, request)
            or next((name for name in _WHOLE if name in request and re.search(rf"\b{name}\b.{{0,40}}\bmust be\b", text)), None)
        )
    return None


def _refused_place(text: str, places: list[str], request: Mapping[str, Any]) -> str | None:
    """The parameter that a reply names in a field."""
    names = [name for place in places if (name := place.split(".")[-1]) in request and name not in _FIXED]
    return names[0] if names and _REFUSED.search(text) else None


def _refused_parameter(text: str, request: Mapping[str, Any]) -> str | None:
    """The parameter whose name is nearest to words of refusal."""
    refused = [match.start() for match in _REFUSED.finditer(text)]
    near = {
        name: min(abs(match.start() - word) for word in refused)
        for name in request
        if refused and name not in _FIXED
        for match in re.finditer(rf"(?<!\w){name.replace('_', '_?')}(?!\w)", text)
    }
    nearest = min(near, key=near.__getitem__, default="")
    return nearest if nearest and near[nearest] <= _NEAR else None


def _refused_messages(text: str, places: list[str], messages: Any) -> str | None:
    if not messages:
        return None
    roles = [message["role"] for message in messages]
    is_about_roles = "alternat" in text or any(place.startswith("messages") and place.endswith("role") for place in places)
    if "alternat" in text and any(a == b for a, b in zip(roles, roles[1:], strict=False)):
        return JOINED
    is_about_system = ("system" in text or "developer instruction" in text) and _REFUSED.search(text)
    if roles[0] in ("system", "developer") and (is_about_roles or is_about_system or "only user and assistant" in text):
        is_offered = "developer" in text or "messages[0].role" in places
        return DEVELOPER if is_offered and roles[0] == "system" else IN_USER
    is_about_empty = re.search(r"empty|whitespace|have either content|at least 1 char|min_length|too_short", text)
    return FILLED if is_about_empty and any(map(_is_empty, messages)) else None


def _adapted_messages(messages: list[dict[str, Any]], changes: frozenset[str]) -> list[dict[str, Any]]:
    if FILLED in changes:
        messages = [{**message, "content": NOTHING} if _is_empty(message) else message for message in messages]
    if DEVELOPER in changes:
        messages = [{**message, "role": "developer"} if message["role"] == "system" else message for message in messages]
    if IN_USER in changes and messages[0]["role"] in ("system", "developer"):
        messages = [{**messages[0], "role": "user"}, *messages[1:]]
        if len(messages) > 1 and messages[1]["role"] == "user":
            messages = [_joined(*messages[:2]), *messages[2:]]
    if JOINED in changes:
        first, *rest = messages
        messages = [first]
        for message in rest:
            is_same = message["role"] == messages[-1]["role"]
            messages[-1:] = [_joined(messages[-1], message)] if is_same else [messages[-1], message]
    return messages


def _joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Two messages as one, of the second's role."""
    contents = [first["content"], second["content"]]
    if all(isinstance(content, str) for content in contents):
        return {**second, "content": "\n\n".join(contents)}
    parts = [[{"type": "text", "text": content}] if isinstance(content, str) else content for content in contents]
    return {**second, "content": sum(parts, [])}


def _is_empty(message: dict[str, Any]) -> bool:
    return isinstance(message["content"], str) and not message["content"].strip()


def _strings(value: Any) -> Iterator[str]:
    """All texts in a reply, without those that repeat the request."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in ("input", "body", "request"):
                yield from _strings(item)


def _places(value: Any) -> Iterator[str]:
    """The places in the request that a reply names: `param` of OpenAI's errors, `loc` of FastAPI's."""
    if isinstance(value, list):
        for item in value:
            yield from _places(item)
    elif isinstance(value, dict):
        if isinstance(value.get("param"), str):
            yield value["param"]
        if isinstance(value.get("loc"), list):
            yield ".".join(str(part) for part in value["loc"] if part != "body")
        for item in value.values():
            yield from _places(item)
