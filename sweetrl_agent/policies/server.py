"""A policy on servers that hold the agent's model: vLLM's, or any other with OpenAI's completions (`transformers serve`)."""

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
from sweetrl_agent.core.episode import Messages
from sweetrl_agent.core.messages import system_message
from sweetrl_agent.core.policy import Utterance

#: Seconds that an utterance may take with all its waiting for others, and tries after the first.
TIMEOUT_S, RETRIES = 1200.0, 5
KEY_VARIABLE = "OPENAI_API_KEY"


class ServerPolicy:
    """A `ContinuousPolicy`: the servers batch what is asked for and keep prefixes, and a dialogue goes on as soon as its utterance is there.

    Of the servers named, those that hold the model share the dialogues. A vLLM server holds it under the path that it was started with
    (`vllm serve PATH`); one with the base and VLLM_ALLOW_RUNTIME_LORA_UPDATING is given an adapter's folder, which it must be able to read.
    vLLM gives tokens and log-probabilities (start it with `--logprobs-mode processed_logprobs` where the temperature is not 1); of other
    servers there is the text alone.
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
    ) -> None:
        """Find the servers that hold the model.

        Args:
            path: Model folder, hub name, or folder of a LoRA adapter, by which the servers know it.
            tokenizer: The model's; has the chat template.
            urls: Addresses of the servers, such as http://127.0.0.1:8000/v1; a key is taken from $OPENAI_API_KEY.
            max_new_tokens: Tokens of one utterance at most.
            temperature: Sampling temperature.
            concurrency: Requests at a time, over all servers.
            system_prompt: Instructions before every dialogue.
            response_prefix: What every utterance begins with, which is put there and continued.

        Raises:
            ColBenchError: If a server does not answer, or none holds the model; says how to start one.
            ImportError: If the openai package is missing.
        """
        self.name, self.tokenizer, self.max_new_tokens, self.temperature = _name(path), tokenizer, max_new_tokens, temperature
        self.urls = urls
        self.instructions, self.response_prefix = system_message(system_prompt), response_prefix
        self._holding = _holding(path, self.name, [_Server(url) for url in urls])
        self._servers = cycle(self._holding)
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="server")
        self._asked: dict[Future[Utterance], Hashable] = {}

    def load_weights(self, path: str) -> None:
        """See `RenewablePolicy`: the servers are given the adapter under a new name, and drop the one before."""
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
        """See `ContinuousPolicy`; waits until something is said."""
        said, _ = wait(self._asked, return_when=FIRST_COMPLETED)
        return [(self._asked.pop(utterance), utterance.result()) for utterance in list(self._asked) if utterance in said]

    def forget(self, name: Hashable) -> None:
        """The servers forget for themselves."""

    def _ask(self, dialogue: Messages, seed: int) -> Future[Utterance]:
        prompt = self.tokenizer.apply_chat_template([*self.instructions, *dialogue], tokenize=False, add_generation_prompt=True)
        settings = {"max_tokens": self.max_new_tokens, "temperature": self.temperature, "seed": seed % 2**31}
        return self._threads.submit(self._answer, next(self._servers), prompt + self.response_prefix, settings)

    def _answer(self, server: _Server, prompt: str, settings: dict[str, Any]) -> Utterance:
        choice = server.complete(self.name, prompt, self.tokenizer, settings)
        probabilities = choice.logprobs.token_logprobs if choice.logprobs else []
        return Utterance(
            (self.response_prefix + choice.text).strip(), (choice.model_extra or {}).get("token_ids") or [], probabilities or []
        )


class _Server:
    """One address."""

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
        """What it has now; nothing for one that does not say."""
        try:
            return list(self._client.with_options(max_retries=0).models.list())
        except self._openai.APIStatusError:
            return []
        except self._openai.OpenAIError as error:
            raise ColBenchError(
                f"No server answers at {self.url} ({error}); start it: `vllm serve MODEL --port PORT`, for adapters with --enable-lora."
            ) from None

    def holds(self, path: str, name: str) -> bool:
        """True where it has the model, and where an adapter could be given to it. Others than vLLM load what they are asked for."""
        if not self.is_vllm or name in self.names:
            return True
        if name == path:
            return False
        try:
            self._client.post(
                "/load_lora_adapter", cast_to=str, body={"lora_name": name, "lora_path": str(Path(path).resolve())}
            )
        except self._openai.OpenAIError as error:
            if any(model.id == name for model in self._models()):  # another worker was there first
                return True
            raise ColBenchError(
                f"The server at {self.url} does not take the adapter {path} ({error}); start it with the adapter's base, --enable-lora, "
                "and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment."
            ) from None
        return True

    def drop(self, name: str) -> None:
        """Let it forget an adapter; one that cannot keeps it."""
        with contextlib.suppress(self._openai.OpenAIError):
            self._client.with_options(max_retries=0).post("/unload_lora_adapter", cast_to=str, body={"lora_name": name})

    def complete(self, name: str, prompt: str, tokenizer: Any, settings: dict[str, Any]) -> Any:
        """What comes after a prompt: a choice of OpenAI's completions."""
        # Servers fall back on the generation settings that a model comes with, which cut the distribution: say all of them.
        everything = {"top_p": 1.0, "top_k": -1 if self.is_vllm else 0, "repetition_penalty": 1.0}
        if self.is_vllm:  # token ids, not text: a chat template already holds the begin token that it would add once more
            ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
            own = {"prompt": ids, "logprobs": 0, "extra_body": {**everything, "return_token_ids": True}}
        else:
            ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
            generation = {"do_sample": settings["temperature"] > 0, **everything, **ends}
            own = {"prompt": prompt, "extra_body": {"generation_config": json.dumps(generation)}}
        try:
            return self._client.completions.create(model=name, **own, **settings).choices[0]
        except self._openai.OpenAIError as error:
            has = f"it has {', '.join(self.names)}" if self.names else "it names no models; does its address end in /v1?"
            raise ColBenchError(f"The server at {self.url} refuses or fails when asked for {name} ({has}): {error}") from None


def _name(path: str) -> str:
    """What servers call a model: its path; for an adapter with what is in it, since a folder may be trained anew while a server runs."""
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
        f"None of the servers holds {path} ({served}). Start one: `vllm serve {path} --port PORT`, name it in `--server_urls`, and run "
        "this again: it goes on where it is."
    )
