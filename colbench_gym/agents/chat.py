"""A model behind an OpenAI-compatible chat server as an agent.

Only the chat completions route is used, with text in and text out: the server needs neither token log-probabilities nor a tokenizer here.
What a server can do is bounded as for the simulated human (`colbench_gym.servers.chat_server`): time and size of a reply, no redirects,
and no text of the server in an error.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from colbench_gym.agents.agent import Agent, Messages, Said
from colbench_gym.agents.prompts import PROMPTS
from colbench_gym.errors import AgentDownError, AgentError
from colbench_gym.outside_text import encodable
from colbench_gym.reasoning import AUTO, Reasoning
from colbench_gym.servers.chat_server import OPENAI_URL, ChatServer, checked_url, read_key, with_retries
from colbench_gym.servers.completion import Completion
from colbench_gym.servers.errors import RequestError
from colbench_gym.simulators.model.reply_cache import request_key

PREFIX = "openai:"


def split_name(name: str) -> tuple[str, str]:
    """Model and address of "openai:MODEL@URL"; without "@URL", OpenAI's own address.

    Raises:
        ValueError: If the model is missing, or the address is not one or could contain a password.
    """
    model, at, url = name.removeprefix(PREFIX).rpartition("@") if "@http" in name else (name.removeprefix(PREFIX), "", "")
    if not model:
        raise ValueError(
            "`policies` names a server as openai:MODEL@http://HOST:PORT/v1, without user or password; the model is missing."
        )
    return model, checked_url(url) if at else OPENAI_URL


@dataclass(frozen=True)
class Sampling:
    """How a chat model is asked.

    Attributes:
        system_prompt: First message of every dialogue: a name of `agents.prompts`, or a text; "" for none.
        temperature: Sampling temperature.
        max_new_tokens: Maximal number of tokens of a message.
        api_key_env: Environment variable with the key. It may be unset for a server of your own.
        timeout_s: Time limit of a whole request, in seconds.
        max_retries: Maximal number of retries of a request.
        reasoning: How the model marks thoughts that the server leaves in its messages, see `colbench_gym.reasoning.Reasoning`.
        backoff_s: Longest wait before the first retry, in seconds; doubles with each further one, up to 30 s.
    """

    system_prompt: str = ""
    temperature: float = 0.8
    max_new_tokens: int = 1024
    api_key_env: str = "OPENAI_API_KEY"
    timeout_s: float = 120.0
    max_retries: int = 5
    reasoning: str = AUTO
    backoff_s: float = 0.5


class ChatAgent(Agent):
    """Asks a chat server for every message.

    Time-outs, status 408, 429 and 5xx, connection errors and malformed replies are retried with exponential back-off; a ``Retry-After``
    header is honoured. What then still fails makes the episode void. A server that cannot be reached, redirects, or answers 401, 403 or 404
    ends the evaluation. A reply without text is an empty message, whose finish reason names why
    (`colbench_gym.servers.completion`). What the server refuses of a request is left out or replaced once (`colbench_gym.servers.dialect`).

    Args:
        model: Name of the model on the server.
        base_url: Address of the API, without password and query.
        sampling: How it is asked.

    Raises:
        ImportError: If the httpx package is not installed.
        ValueError: If OpenAI's own API is used without a key.
    """

    def __init__(self, model: str, base_url: str = OPENAI_URL, sampling: Sampling | None = None) -> None:
        asked = self.sampling = sampling or Sampling()
        key = read_key(asked.api_key_env)
        if not key and base_url == OPENAI_URL:
            raise ValueError(
                f"OpenAI's own API needs a key; set the environment variable {asked.api_key_env}, or give `@http://...`."
            )
        self.model, self.base_url = model, base_url
        self._instructions = [{"role": "system", "content": asked.system_prompt}] if asked.system_prompt else []
        self._request = {"model": model, "temperature": asked.temperature, "max_tokens": asked.max_new_tokens}
        self._server = ChatServer(base_url, key, asked.timeout_s)
        self._reasoning, self._is_closed = Reasoning(asked.reasoning), threading.Event()

    def say(self, messages: Messages, seed: int, hidden: str = "") -> Said:
        """See `Agent.say`."""
        completion = self._completed({**self._request, "seed": seed % 2**31, "messages": [*self._instructions, *messages]})
        reply = self._reasoning.split(encodable(completion.text))
        text = reply.speech if reply.thought else encodable(completion.text)
        read, generated = completion.usage or (None, None)
        return Said(text, read, generated, encodable(completion.thought) + reply.thought, completion.finish_reason)

    def close(self) -> None:
        """Close the connections; requests under way fail."""
        self._is_closed.set()
        self._server.close()

    def _completed(self, request: Mapping[str, Any]) -> Completion:
        ask, sampling = partial(self._server.complete, request), self.sampling
        try:
            return with_retries(ask, request_key(request), sampling.max_retries, sampling.backoff_s, self._is_closed)
        except RequestError as error:
            kind = AgentDownError if error.is_for_all else AgentError
            why = error.with_advice(sampling.api_key_env)
            message = f"Expected a message from model {self.model!r} at {self.base_url!r}, got {why}."
            raise kind(message, f"the agent's server: {why}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model, self.base_url, self.sampling)


def chat_agent(text: str, sampling: Sampling) -> ChatAgent:
    """The agent of "openai:MODEL@URL"."""
    model, url = split_name(text)
    prompt = PROMPTS.get(sampling.system_prompt, sampling.system_prompt)
    return ChatAgent(model, url, replace(sampling, system_prompt=prompt))


def short_name(text: str) -> str:
    """Short name of a policy, without colons, which separate a file from an agent elsewhere."""
    if text.startswith(PREFIX):
        return split_name(text)[0].replace(":", "-")
    return text.rpartition(":")[2]
