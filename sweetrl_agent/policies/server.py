"""A policy on model servers: vLLM's, which take and return tokens, or any other with OpenAI's chat completions."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from colbench_gym.errors import AgentDownError, AgentError, ColBenchError
from colbench_gym.outside_text import encodable, printable
from colbench_gym.servers.chat_server import CHAT, TEXT, ChatServer, checked_url, read_key, with_retries
from colbench_gym.servers.completion import Completion
from colbench_gym.servers.errors import RequestError
from sweetrl_agent.core.agents import ConcurrentPolicy
from sweetrl_agent.core.episode import LENGTH, Messages
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.policies.utterances import Speaker
from sweetrl_agent.policies.vllm import SAMPLED_LOG_PROBS

#: Timeout of an utterance in seconds, including queueing; number of retries, and longest wait before the first of them, in seconds.
TIMEOUT_S, RETRIES, BACKOFF_S = 1200.0, 5, 0.5
KEY_VARIABLE = "OPENAI_API_KEY"
#: Maximal size of a reply: some 100 bytes for each token that the model read or generated.
MAX_REPLY_BYTES = 2**25
VLLM = "vllm"
#: Settings that sample from the whole distribution, in the names of each kind of server (`owned_by` of its models). By default servers take the model's
#: generation settings, which truncate the distribution. Sources: docs.vllm.ai/en/latest/serving/openai_compatible_server.html, docs.sglang.io/docs/basic_usage/sampling_params,
#: github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md, lmstudio.ai/docs/developer/openai-compat/chat-completions.
_WHOLE = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
_WHOLE_OF_LLAMA_CPP = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0}
SAMPLING: Mapping[str, Mapping[str, Any]] = {
    VLLM: _WHOLE, "sglang": _WHOLE, "llamacpp": _WHOLE_OF_LLAMA_CPP, "me": _WHOLE_OF_LLAMA_CPP, "organization_owner": _WHOLE_OF_LLAMA_CPP,
}  # fmt: skip


class ServerPolicy(ConcurrentPolicy):
    """A policy on servers that batch requests and cache prefixes; each utterance is returned as soon as it is finished.

    Dialogues are distributed over the servers that have the model. A vLLM server names it by the path of `vllm serve PATH`. A vLLM server with the base
    model and VLLM_ALLOW_RUNTIME_LORA_UPDATING loads an adapter from its folder, which it must be able to read. vLLM takes the prompt as tokens and returns
    tokens and log-probabilities (see `check_log_probs`). Other servers get the dialogue as chat messages, apply their own template, and return only the
    text. That suffices for evaluation, and for algorithms that do not train on sampled tokens.

    A request that fails after all retries gives one utterance with an `error`. A server that is down, or refuses every request, raises `AgentDownError`.
    """

    def __init__(self, path: str, speaker: Speaker, urls: Sequence[str], concurrency: int) -> None:
        """Find the servers that have the model.

        Args:
            path: Name of the model on the servers: a model folder, a hub name, or the folder of a LoRA adapter.
            speaker: How the model speaks.
            urls: Addresses of the servers, such as http://127.0.0.1:8000/v1; the key is read from $OPENAI_API_KEY.
            concurrency: Maximum number of concurrent requests to all servers.

        Raises:
            ColBenchError: If a server does not answer, or none has the model; says how to start one.
            ImportError: If the httpx package is missing.
        """
        super().__init__(concurrency)
        self.name, self.speaker, self.urls = _name(path), speaker, urls
        self._holding = _holding(path, self.name, [_Server(url) for url in urls])
        is_vllm = all(server.is_vllm for server in self._holding)
        if speaker.response_prefix and not is_vllm:  # other servers begin every message themselves
            raise ColBenchError(
                f"Messages that start with {speaker.response_prefix.strip()!r} need servers that take prompts as tokens; use vLLM servers, or `--engine transformers`."
            )
        self._servers = cycle(self._holding)
        self._is_closed = threading.Event()

    def load_weights(self, path: str) -> None:
        """See `RenewablePolicy`: the servers load the adapter under a new name and unload the previous one."""
        before, dropped = self.name, self._holding
        self.name = _name(path)
        if self.name == before:
            return
        self._holding = _holding(path, self.name, [_Server(url) for url in self.urls])
        self._servers = cycle(self._holding)
        for server in dropped:
            server.drop(before)

    def request(self, dialogue: Messages, seed: int) -> Callable[[], Utterance]:
        """See `ConcurrentPolicy`."""
        return partial(self._answer, next(self._servers), dialogue, seed % 2**31)

    def close(self) -> None:
        """Fail the requests in flight."""
        self._is_closed.set()
        for server in self._holding:
            server.close()

    def _answer(self, server: _Server, dialogue: Messages, seed: int) -> Utterance:
        speaker, chat = self.speaker, self.speaker.chat
        settings = {"max_tokens": speaker.max_new_tokens, "temperature": speaker.temperature, "seed": seed}
        prompt: list[int] = []
        if server.is_vllm:
            prompt = speaker.prompt(dialogue)
            request: dict[str, Any] = {
                "prompt": prompt,
                "logprobs": 0,
                "return_token_ids": True,
                "stop_token_ids": chat.end_ids(),
            }
            route = TEXT
        else:
            request, route = {"messages": chat.template.placed(speaker.read(dialogue))}, CHAT
            if switches := chat.template.switches:
                request["chat_template_kwargs"] = dict(switches)
        if chat.stop_texts:
            request["stop"] = chat.stop_texts
        sampling = server.sampling or self._sampling_of_transformers()
        ask = partial(server.complete, {"model": self.name, **request, **settings, **sampling}, route)
        try:
            completion = with_retries(ask, f"{server.url} {seed}", RETRIES, BACKOFF_S, self._is_closed)
        except RequestError as error:
            what = error.with_advice(KEY_VARIABLE)
            message = f"A request to the server at {server.url} for {self.name} failed ({server.has}): {what}."
            if error.is_for_all:
                raise AgentDownError(message) from None
            return Utterance("", error=AgentError(message, f"the agent's server: {what}"))
        end = speaker.utterances.prompt_end(prompt) if prompt else ""
        if (
            not end and completion.finish_reason == LENGTH and not completion.thought
        ):  # a thought that the limit cut has no closing mark
            end = chat.template.render(speaker.read(dialogue))
        return self._utterance(completion, prompt, end)

    def _sampling_of_transformers(self) -> dict[str, Any]:
        """Settings that the server of transformers reads; other servers ignore them, or refuse them once."""
        speaker = self.speaker
        ends = {"eos_token_id": speaker.chat.end_ids(), "pad_token_id": speaker.tokenizer.pad_token_id}
        settings = {"do_sample": speaker.temperature > 0, "top_p": 1.0, "top_k": 0, "repetition_penalty": 1.0, **ends}
        return {"top_p": 1.0, "generation_config": json.dumps(settings)}

    def _utterance(self, reply: Completion, prompt: list[int], end: str) -> Utterance:
        if reply.token_ids:
            ends = self.speaker.chat.end_ids()
            return self.speaker.utterances.from_tokens(
                reply.token_ids, reply.log_probs, prompt, ends, reply.finish_reason, reply.usage
            )
        text, thought = encodable(reply.text), encodable(reply.thought)
        return self.speaker.utterances.from_text(text, end, reply.finish_reason, thought, usage=reply.usage)


class _Server:
    """A server and its models."""

    def __init__(self, url: str) -> None:
        self.url = checked_url(url)
        self._server = ChatServer(self.url, read_key(KEY_VARIABLE), TIMEOUT_S, MAX_REPLY_BYTES)
        self.complete, self.close = self._server.complete, self._server.close
        models = self._models()
        owners = {owner for _, owner in models}
        self.is_vllm, self.names = VLLM in owners, [name for name, _ in models]
        self.sampling = next((SAMPLING[owner] for owner in owners if owner in SAMPLING), None)

    @property
    def has(self) -> str:
        """Its models, for messages."""
        return f"it has {_list(self.names)}" if self.names else "it lists no models; does its address end in /v1?"

    def _models(self) -> list[tuple[str, str]]:
        """Name and owner of the models that it lists; [] if it lists none."""
        try:
            return self._server.models()
        except RequestError as error:
            if error.status is not None:
                return []
            raise ColBenchError(
                f"No server answers at {self.url} ({error}); start it: `vllm serve MODEL --port PORT`, for adapters with --enable-lora."
            ) from None

    def holds(self, path: str, name: str) -> bool:
        """Whether it has the model or could load the adapter. Servers other than vLLM load models on request, or have a single one.

        Raises:
            ColBenchError: If it cannot load an adapter.
        """
        is_adapter = name != path
        if is_adapter and not self.is_vllm:
            raise no_tokens(self.url)
        if not self.is_vllm or name in self.names:
            return True
        if not is_adapter:
            return False
        try:
            self._server.call("/load_lora_adapter", {"lora_name": name, "lora_path": str(Path(path).resolve())})
        except RequestError as error:
            if name in dict(self._models()):  # another worker has loaded it already
                return True
            raise ColBenchError(
                f"The server at {self.url} does not load the adapter {path} ({error}); start it with the adapter's base, --enable-lora, "
                "--max-lora-rank of at least `lora_r`, and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment."
            ) from None
        return True

    def drop(self, name: str) -> None:
        """Unload an adapter; a server that cannot do so keeps it."""
        with contextlib.suppress(RequestError):
            self._server.call("/unload_lora_adapter", {"lora_name": name})


def _name(path: str) -> str:
    """Name of a model on servers: its path; for an adapter with a hash of its files, since its folder may change while a server runs."""
    files = sorted(Path(path).glob("adapter_*"))
    if not files:
        return path
    return f"{path}-{hashlib.sha256(b''.join(file.read_bytes() for file in files)).hexdigest()[:12]}"


def _holding(path: str, name: str, servers: list[_Server]) -> list[_Server]:
    holding = [server for server in servers if server.holds(path, name)]
    if holding:
        return holding
    served = "; ".join(f"{server.url} has {_list(server.names)}" for server in servers)
    raise ColBenchError(
        f"None of the servers has {path} ({served}). Start one: `vllm serve {path} --port PORT`, add it to `--server_urls`, and run "
        "the same command again: the run resumes."
    )


def no_tokens(url: str) -> ColBenchError:
    """The error for a server that lacks vLLM's adapters and tokens."""
    return ColBenchError(
        f"The server at {url} is not vLLM's: it loads no adapters and returns no tokens, which on-policy training needs. Use vLLM servers, or "
        "`--engine transformers`."
    )


def check_log_probs(server: ChatServer, model: str) -> None:
    """Check that a vLLM server returns log-probabilities under its sampling distribution.

    If only one token is allowed, its probability is 1 under the sampling distribution. By default vLLM returns log-probabilities of the model without
    temperature. Their values look alike, and training would weight its tokens wrongly.

    Args:
        server: The server.
        model: A model that it has.

    Raises:
        ColBenchError: If it returns others; says how to start the server.
    """
    request = {
        "prompt": [1],
        "max_tokens": 1,
        "temperature": 1.0,
        "seed": 0,
        "logprobs": 0,
        "return_token_ids": True,
        "allowed_token_ids": [0],
    }
    with contextlib.suppress(RequestError):  # a server that does not answer is refused elsewhere
        log_probs = server.complete({"model": model, **request}, TEXT).log_probs
        if log_probs and log_probs[0] < -1e-3:
            raise ColBenchError(
                f"The server at {server.url} returns log-probabilities of the model without the temperature; on-policy training needs those of what it "
                f"samples: start it with `--logprobs-mode {SAMPLED_LOG_PROBS}`, or set `--temperature 1`."
            )


def _list(names: Sequence[str]) -> str:
    """Names that a server lists, as far as they fit into a message."""
    return printable(", ".join(names))[:200]
