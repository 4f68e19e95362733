"""A policy on model servers: vLLM's, or any other with OpenAI's completions API (such as `transformers serve`)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import cycle
from pathlib import Path
from typing import Any

from colbench_gym.errors import ColBenchError
from colbench_gym.reasoning import AUTO
from sweetrl_agent.core.episode import STOP, Messages
from sweetrl_agent.core.messages import as_read, system_message
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.data.chat import Chat
from sweetrl_agent.policies.utterances import Utterances

#: Timeout of an utterance in seconds, including queueing, and number of retries.
TIMEOUT_S, RETRIES = 1200.0, 5
KEY_VARIABLE = "OPENAI_API_KEY"


class ServerPolicy:
    """A `ContinuousPolicy`: the servers batch requests and cache prefixes, and each utterance is returned as soon as it is finished.

    Dialogues are distributed over the servers that have the model. A vLLM server has it under the path that it was started with
    (`vllm serve PATH`). A vLLM server with the base model and VLLM_ALLOW_RUNTIME_LORA_UPDATING loads an adapter from its folder, which it must be
    able to read. vLLM returns tokens and log-probabilities (start it with `--logprobs-mode processed_logprobs` if the temperature is not 1); other
    servers return only the text.
    """

    def __init__(
        self,
        path: str,
        tokenizer: Any,
        urls: Sequence[str],
        max_new_tokens: int,
        temperature: float,
        concurrency: int,
        system_prompt: str = "",
        response_prefix: str = "",
        history: int = -1,
        reasoning: str = AUTO,
    ) -> None:
        """Find the servers that have the model.

        Args:
            path: Name of the model on the servers: a model folder, a hub name, or the folder of a LoRA adapter.
            tokenizer: The model's tokenizer, with a chat template.
            urls: Addresses of the servers, such as http://127.0.0.1:8000/v1; the key is read from $OPENAI_API_KEY.
            max_new_tokens: Maximum number of tokens of an utterance.
            temperature: Sampling temperature.
            concurrency: Maximum number of concurrent requests to all servers.
            system_prompt: Instructions before every dialogue.
            response_prefix: Prefix that is added to the prompt and starts every utterance.
            history: Earlier turns that the agent reads, as in `core.messages.as_read`; -1 for all.
            reasoning: How the model marks its thoughts, see `colbench_gym.reasoning.Reasoning`.

        Raises:
            ColBenchError: If a server does not answer, or none has the model; says how to start one.
            ImportError: If the openai package is missing.
        """
        self.name, self.chat, self.max_new_tokens, self.temperature = (
            _name(path),
            Chat(tokenizer, reasoning),
            max_new_tokens,
            temperature,
        )
        self.urls = urls
        self.instructions, self.response_prefix, self.history = system_message(system_prompt), response_prefix, history
        self._holding = _holding(path, self.name, [_Server(url) for url in urls])
        self._servers = cycle(self._holding)
        self._utterances = Utterances(tokenizer, reasoning, response_prefix)
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="server")
        self._asked: dict[Future[Utterance], Hashable] = {}

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

    def generate(self, dialogues: Sequence[Messages], seeds: Sequence[int]) -> list[Utterance]:
        """See `Policy`."""
        asked = [self._ask(dialogue, seed) for dialogue, seed in zip(dialogues, seeds, strict=True)]
        return [utterance.result() for utterance in asked]

    def add(self, name: Hashable, dialogue: Messages, seed: int) -> None:
        """See `ContinuousPolicy`."""
        self._asked[self._ask(dialogue, seed)] = name

    def step(self) -> list[tuple[Hashable, Utterance]]:
        """See `ContinuousPolicy`; blocks until an utterance is finished."""
        said, _ = wait(self._asked, return_when=FIRST_COMPLETED)
        return [(self._asked.pop(utterance), utterance.result()) for utterance in list(self._asked) if utterance in said]

    def forget(self, name: Hashable) -> None:
        """Does nothing: the servers manage their caches."""

    def _ask(self, dialogue: Messages, seed: int) -> Future[Utterance]:
        read = [*self.instructions, *as_read(dialogue, self.history)]
        prompt = self.chat.template.render(read) + self.chat.prefix_text(self.response_prefix)
        prompt_ids = self.chat.prompt(read) + self.chat.prefix(self.response_prefix)
        settings = {"max_tokens": self.max_new_tokens, "temperature": self.temperature, "seed": seed % 2**31}
        return self._threads.submit(self._answer, next(self._servers), prompt, prompt_ids, settings)

    def _answer(self, server: _Server, prompt: str, prompt_ids: list[int], settings: dict[str, Any]) -> Utterance:
        completion = server.complete(self.name, prompt, prompt_ids, self.chat, settings)
        choice, used = completion.choices[0], completion.usage
        probabilities = (choice.logprobs.token_logprobs if choice.logprobs else None) or []
        usage, extra, reason = (
            (used.prompt_tokens, used.completion_tokens) if used else None,
            choice.model_extra or {},
            choice.finish_reason,
        )
        if token_ids := extra.get("token_ids"):
            ends = {*self.chat.end_ids(), extra.get("stop_reason")}
            return self._utterances.from_tokens(token_ids, probabilities, prompt, ends, reason, usage)
        return self._utterances.from_text(choice.text, prompt, reason or STOP, log_probs=probabilities, usage=usage)


class _Server:
    """One server."""

    def __init__(self, url: str) -> None:
        import openai

        self.url, self._openai = url, openai
        self._client = openai.OpenAI(
            base_url=url, timeout=TIMEOUT_S, max_retries=RETRIES, api_key=os.environ.get(KEY_VARIABLE, "none")
        )
        models = self._models()
        self.is_vllm = any(model.owned_by == "vllm" for model in models)
        self.names = [model.id for model in models]

    def _models(self) -> list[Any]:
        """The models that it lists; [] if it lists none."""
        try:
            return list(self._client.with_options(max_retries=0).models.list())
        except self._openai.APIStatusError:
            return []
        except self._openai.OpenAIError as error:
            raise ColBenchError(
                f"No server answers at {self.url} ({error}); start it: `vllm serve MODEL --port PORT`, for adapters with --enable-lora."
            ) from None

    def holds(self, path: str, name: str) -> bool:
        """Whether it has the model or could load the adapter. Servers other than vLLM load models on request."""
        if not self.is_vllm or name in self.names:
            return True
        if name == path:
            return False
        try:
            self._client.post(
                "/load_lora_adapter", cast_to=str, body={"lora_name": name, "lora_path": str(Path(path).resolve())}
            )
        except self._openai.OpenAIError as error:
            if any(model.id == name for model in self._models()):  # another worker has loaded it already
                return True
            raise ColBenchError(
                f"The server at {self.url} does not load the adapter {path} ({error}); start it with the adapter's base, --enable-lora, "
                "and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment."
            ) from None
        return True

    def drop(self, name: str) -> None:
        """Unload an adapter; a server that cannot do so keeps it."""
        with contextlib.suppress(self._openai.OpenAIError):
            self._client.with_options(max_retries=0).post("/unload_lora_adapter", cast_to=str, body={"lora_name": name})

    def complete(self, name: str, prompt: str, prompt_ids: list[int], chat: Chat, settings: dict[str, Any]) -> Any:
        """Complete a prompt: a completion of OpenAI's completions API, with one choice."""
        # Servers default to the model's own generation settings, which truncate the distribution: set all of them.
        everything = {"top_p": 1.0, "top_k": -1 if self.is_vllm else 0, "repetition_penalty": 1.0}
        if self.is_vllm:  # token ids, not text: the chat template already contains the BOS token, which vLLM would add again
            extra = {**everything, "return_token_ids": True, "stop_token_ids": chat.end_ids()}
            own: dict[str, Any] = {"prompt": prompt_ids, "logprobs": 0, "extra_body": extra}
        else:
            ends = {"eos_token_id": chat.end_ids(), "pad_token_id": chat.tokenizer.pad_token_id}
            generation = {"do_sample": settings["temperature"] > 0, **everything, **ends}
            own = {"prompt": prompt, "extra_body": {"generation_config": json.dumps(generation)}}
        if chat.stop_texts:
            own["stop"] = chat.stop_texts
        try:
            return self._client.completions.create(model=name, **own, **settings)
        except self._openai.OpenAIError as error:
            has = f"it has {', '.join(self.names)}" if self.names else "it lists no models; does its address end in /v1?"
            raise ColBenchError(f"A request to the server at {self.url} for {name} failed ({has}): {error}") from None


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
    served = "; ".join(f"{server.url} has {', '.join(server.names)}" for server in servers)
    raise ColBenchError(
        f"None of the servers has {path} ({served}). Start one: `vllm serve {path} --port PORT`, add it to `--server_urls`, and run "
        "the same command again: the run resumes."
    )
