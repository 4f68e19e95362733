"""Servers on the loopback interface that differ from OpenAI's API as the real ones do. Each difference is of the page or thread beside it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from colbench_gym.servers import dialect

#: A status and a body that refuse a request.
Refusal = tuple[int, Any]
OPENAI_FIELDS = {"model", "messages", "temperature", "top_p", "seed", "max_tokens", "max_completion_tokens"}


@dataclass(frozen=True)
class Kind:
    """A kind of server.

    Attributes:
        name: Its name in the table.
        source: Where its differences are described.
        owner: `owned_by` of its models; None if it lists none.
        thought: Field of a message with the thought.
        sampling: Fields of a request, besides temperature and seed, that `--engine server` sends and the server reads.
        refuse: What it answers to a request that it does not take; None for one that it takes.
        changes: What it refuses, in the words of `servers.dialect`.
        has_tokens: Whether it takes and returns tokens.
        fails_first: Whether its first reply is an error in a response of status 200.
    """

    name: str
    source: str
    owner: str | None
    thought: str
    sampling: tuple[str, ...]
    refuse: Callable[[dict[str, Any]], Refusal | None]
    changes: frozenset[str] = frozenset()
    has_tokens: bool = False
    fails_first: bool = False

    def __str__(self) -> str:
        return self.name.split(",")[0].replace(" ", "-")


def _roles(request: dict[str, Any]) -> list[str]:
    return [message["role"] for message in request.get("messages", [])]


def _takes_all(request: dict[str, Any]) -> None:
    return None


def _gemma_on_llama_cpp(request: dict[str, Any]) -> Refusal | None:
    if "system" in _roles(request):  # raised by the chat template
        return 500, {"error": {"code": 500, "message": "Jinja Exception: System role not supported", "type": "server_error"}}
    return None


def _mistral_on_sglang(request: dict[str, Any]) -> Refusal | None:
    roles = _roles(request)
    if any(role != ("user", "assistant")[i % 2] for i, role in enumerate(roles)):
        message = "Conversation roles must alternate user/assistant/user/assistant/..."
        return 400, {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}
    return None


def _mistral_on_lm_studio(request: dict[str, Any]) -> Refusal | None:
    if "system" in _roles(request):
        return 400, {"error": 'Error rendering prompt with jinja template: "Only user and assistant roles are supported!".'}
    return None


def _transformers(request: dict[str, Any]) -> Refusal | None:
    unexpected = {*request} - OPENAI_FIELDS - {"generation_config", "chat_template_kwargs", "stop"}
    return (422, {"detail": f"Unexpected fields in the request: {unexpected}"}) if unexpected else None


def _reasoning_model(request: dict[str, Any]) -> Refusal | None:
    def error(message: str, param: str | None, code: str | None) -> Refusal:
        return 400, {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}

    for name in request:
        if name not in OPENAI_FIELDS:
            return error(f"Unrecognized request argument supplied: {name}", None, None)
    if "max_tokens" in request:
        text = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        return error(text, "max_tokens", "unsupported_parameter")
    if request.get("temperature", 1) != 1:
        text = "Unsupported value: 'temperature' does not support 0.8 with this model. Only the default (1) value is supported."
        return error(text, "temperature", "unsupported_value")
    for name in ("top_p", "seed"):
        if name in request:
            return error(f"Unsupported parameter: '{name}' is not supported with this model.", name, "unsupported_parameter")
    if "system" in _roles(request):
        text = "Unsupported value: 'messages[0].role' does not support 'system' with this model."
        return error(text, "messages[0].role", "unsupported_value")
    return None


def _strict_provider(request: dict[str, Any]) -> Refusal | None:
    if any(not message["content"].strip() for message in request["messages"]):
        return 400, {
            "error": {"code": 400, "message": "Provider returned error: messages: text content blocks must be non-empty"}
        }
    if "seed" in request:
        return 422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}
    return None


WHOLE, OF_LLAMA_CPP = ("top_p", "top_k", "min_p", "repetition_penalty"), ("top_p", "top_k", "min_p", "repeat_penalty")
KINDS = (
    Kind(
        "vLLM", "https://docs.vllm.ai/en/latest/features/reasoning_outputs.html", "vllm", "reasoning", WHOLE, _takes_all,
        has_tokens=True,
    ),
    Kind(
        "SGLang, a model with strict alternation", "https://docs.sglang.io/docs/basic_usage/openai_api_completions", "sglang",
        "reasoning_content", WHOLE, _mistral_on_sglang, frozenset({dialect.IN_USER}),
    ),
    Kind(
        "llama.cpp, a model without system role", "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        "llamacpp", "reasoning_content", OF_LLAMA_CPP, _gemma_on_llama_cpp, frozenset({dialect.IN_USER}),
    ),
    Kind("Ollama", "https://github.com/ollama/ollama/issues/15288", "library", "reasoning", ("top_p",), _takes_all),
    Kind(
        "LM Studio, a model without system role", "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1054",
        "organization_owner", "reasoning_content", OF_LLAMA_CPP, _mistral_on_lm_studio, frozenset({dialect.IN_USER}),
    ),
    Kind(
        "transformers serve", "https://github.com/huggingface/transformers/blob/main/src/transformers/cli/serving/utils.py",
        "Qwen", "reasoning_content", ("top_p", "generation_config"), _transformers,
    ),
    Kind(
        "OpenAI, a reasoning model", "https://github.com/griptape-ai/ComfyUI-Griptape/issues/312", "system", "reasoning_content", (),
        _reasoning_model, frozenset({"max_tokens", "temperature", "seed", dialect.DEVELOPER}),
    ),
    Kind(
        "OpenRouter, a strict provider", "https://openrouter.ai/docs/api/reference/errors-and-debugging", None, "reasoning", ("top_p",),
        _strict_provider, frozenset({"seed", dialect.FILLED}), fails_first=True,
    ),
)  # fmt: skip


def table() -> str:
    """The table of the documentation."""
    head = "| server | agent, simulated human | `--engine server` | on-policy training | whole distribution | left out or replaced |\n|---|---|---|---|---|---|"
    return "\n".join([head, *map(_row, KINDS)])


def _row(kind: Kind) -> str:
    route = "tokens" if kind.has_tokens else "chat"
    whole = (
        "yes"
        if len(kind.sampling) > 2 or "generation_config" in kind.sampling
        else "only what the server's own `top_k` and penalties leave"
    )
    changes = ", ".join(f"`{change}`" if change.isidentifier() else change for change in sorted(kind.changes)) or "nothing"
    return f"| {kind.name} | yes | {route} | {'yes' if kind.has_tokens else 'no'} | {whole} | {changes} |"


class Imitation(ThreadingHTTPServer):
    """A running server.

    Attributes:
        kind: What it imitates.
        requests: Bodies of the requests, in order.
        taken: Those that it answered.
        is_processed: vLLM's `--logprobs-mode processed_logprobs`: a token that alone is allowed is certain. Its default is the model's log-probability.
    """

    daemon_threads = True

    def __init__(self, kind: Kind, say: Callable[[dict[str, Any]], str], tokenizer: Any = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.kind, self.say, self.tokenizer, self.is_processed = kind, say, tokenizer, False
        self.requests: list[dict[str, Any]] = []
        self.taken: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def answer(self, path: str, request: dict[str, Any]) -> Refusal:
        """Status and body of the response to a request."""
        with self.lock:
            self.requests.append(request)
            is_first = len(self.requests) == 1
        if self.kind.fails_first and is_first:
            return 200, {"error": {"code": 502, "message": "Provider returned error", "metadata": {"provider_name": "p"}}}
        if refused := self.kind.refuse(request):
            return refused
        with self.lock:
            self.taken.append(request)
        text, usage = self.say(request), {"prompt_tokens": 9, "completion_tokens": 5}
        if path.endswith("/chat/completions"):
            message = {"role": "assistant", "content": text, self.kind.thought: "Let me ask."}
            return 200, {"choices": [{"index": 0, "finish_reason": "stop", "message": message}], "usage": usage}
        assert self.kind.has_tokens and isinstance(request["prompt"], list)
        if (only := request.get("allowed_token_ids")) is not None:
            log_prob = 0.0 if self.is_processed else -19.43
            choice = {"finish_reason": "length", "text": "%", "token_ids": only, "logprobs": {"token_logprobs": [log_prob]}}
            return 200, {"choices": [choice], "usage": usage}
        ids = [*self.tokenizer(text, add_special_tokens=False)["input_ids"], self.tokenizer.eos_token_id]
        choice = {"finish_reason": "stop", "text": text, "token_ids": ids, "logprobs": {"token_logprobs": [-0.5] * len(ids)}}
        return 200, {"choices": [choice], "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    server: Imitation

    def do_GET(self) -> None:
        owner = self.server.kind.owner
        self._send(404 if owner is None else 200, {"object": "list", "data": [{"id": "m", "owned_by": owner}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._send(*self.server.answer(self.path, request))

    def _send(self, status: int, body: Any) -> None:
        encoded = b"\n\n" + json.dumps(body).encode()  # hosted servers send white space while they wait
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test output quiet."""


def asks(request: dict[str, Any]) -> str:
    """A model that always asks the same."""
    return "Two decimals?"


def talks(request: dict[str, Any]) -> str:
    """A model that asks once and then answers; as the simulated human, whose instructions name a solution, it replies."""
    if "Solution, for your eyes only" in json.dumps(request["messages"]):
        return "Yes, two decimals."
    has_asked = any(message["role"] == "assistant" for message in request["messages"])
    return "I WANT TO ANSWER:\ndef f():\n    return 1" if has_asked else "Two decimals?"


@contextmanager
def imitating(kind: Kind, say: Callable[[dict[str, Any]], str] = asks, tokenizer: Any = None) -> Iterator[Imitation]:
    """Run a server; what is remembered of its address is forgotten, since another test may get the same port."""
    server = Imitation(kind, say, tokenizer)
    for url, model in [*dialect._changes]:
        if url == server.url:
            del dialect._changes[url, model]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
