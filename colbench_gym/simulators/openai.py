"""A model behind an OpenAI-compatible server plays the human.

The model sees the reference and the dialogue, so it can answer what is asked; the prompt below keeps it a person who talks and
does not write code. Whatever goes wrong outside the agent's control ends in a `SimulatorError` after bounded retries, never in
a made-up reply.
"""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from colbench_gym.dialogue import Dialogue
from colbench_gym.errors import SimulatorError
from colbench_gym.simulators.cache import CacheMode, ReplyCache
from colbench_gym.simulators.simulator import Simulator
from colbench_gym.tasks.task import Task

PROMPT = """\
You play a person who asked a programming assistant for a Python function. You know exactly what the function must do, \
because you have the finished solution below. The assistant cannot see it.

Solution, for your eyes only:
{reference}

How to answer the assistant's last message:
- Speak as that person would in a chat: plain everyday words, at most two sentences.
- Answer only what was asked, and only with what the solution says. Give names, values and texts exactly as they stand in it.
- If the solution does not settle the question, say that you do not know or do not mind.
- Never write code, never quote lines of the solution, never mention that a solution exists."""
REQUEST = "The conversation so far:\n\n{transcript}\n\nWrite the human's next reply and nothing else."

MAX_BACKOFF_S, MAX_RETRY_AFTER_S = 30.0, 300.0
_RETRIED_STATUSES = (408, 429)
_ADVICE = {
    401: "set the environment variable {env} to a valid key",
    403: "set the environment variable {env} to a key that may use the model",
    404: "check `base_url` (it usually ends in /v1) and `model`",
}
_OTHER_ADVICE = "check `model`, `max_tokens` and the model's context length"


class OpenAIHuman(Simulator):
    """Asks a chat model for the human's reply.

    Connection errors, time-outs, status 408, 429 and 5xx, malformed and empty replies are tried again with exponential
    back-off and jitter; a ``Retry-After`` header is honoured. Any other status in the 400s is an error at once.

    Args:
        model: Name of the model at the server.
        base_url: Address of the API, e.g. ``http://127.0.0.1:8000/v1``; None for OpenAI itself.
        api_key_env: Environment variable that holds the key; it may be unset for a server of your own.
        temperature: Sampling temperature.
        max_tokens: Most tokens of a reply.
        timeout_s: Time limit of one request, in seconds.
        max_retries: Tries after the first.
        max_concurrency: Most requests at a time, over all threads that share this object.
        cache: File of recorded replies, or None.
        cache_mode: "record", "replay" or "off"; see `ReplyCache`.
        backoff_s: Longest wait before the first retry, in seconds; doubles with each further one up to 30 s.

    Raises:
        ImportError: If the openai package is not installed.
        ValueError: If an argument is out of range, `cache_mode` is "replay" without a `cache`, or OpenAI itself is asked for
            without a key.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        temperature: float = 0.0,
        max_tokens: int = 256,
        timeout_s: float = 60.0,
        max_retries: int = 5,
        max_concurrency: int = 32,
        cache: str | os.PathLike[str] | None = None,
        cache_mode: CacheMode = "record",
        backoff_s: float = 0.5,
    ) -> None:
        self._settings = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        _check_at_least(1, max_tokens=max_tokens, max_concurrency=max_concurrency)
        _check_at_least(0, temperature=temperature, max_retries=max_retries, backoff_s=backoff_s)
        if not timeout_s > 0:
            raise ValueError(f"`timeout_s` must be more than 0, got {timeout_s!r}.")
        self.model, self.temperature, self.max_tokens = model, temperature, max_tokens
        self.max_retries, self.backoff_s, self.api_key_env = max_retries, backoff_s, api_key_env
        self.is_deterministic = cache is not None and cache_mode == "replay"
        self._cache = _open_cache(cache, cache_mode)
        self._slots = threading.BoundedSemaphore(max_concurrency)
        self._is_closed = False
        try:
            import openai
        except ImportError as error:
            raise ImportError(
                "`simulator='openai'` needs the openai package; run `pip install colbench-gym[train]`."
            ) from error
        self._openai = openai
        key = os.environ.get(api_key_env)
        if not key and base_url is None and not self.is_deterministic:
            raise ValueError(
                f"`base_url` None means OpenAI itself and needs a key; set the environment variable {api_key_env}."
            )
        self._client = openai.OpenAI(api_key=key or "none", base_url=base_url, timeout=timeout_s, max_retries=0)
        self.base_url = str(self._client.base_url)

    def reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        """Ask the model, or the cache.

        Raises:
            SimulatorError: If the server refuses the request, the retries are used up, a replayed reply is missing, or the
                simulator is closed.
        """
        if self._is_closed:
            raise SimulatorError("Expected an open simulator, got one after close(); build a new OpenAIHuman.")
        request = self.request(task, dialogue, seed)
        cached = self._cache.get(request) if self._cache is not None else None
        if cached is not None:
            return cached
        text = self._ask(request)
        if self._cache is not None:
            self._cache.put(request, text)
        return text

    def request(self, task: Task, dialogue: Dialogue, seed: int) -> dict[str, Any]:
        """The whole request as the server gets it, which is also the cache's key."""
        return {
            "model": self.model,
            "messages": [
                {"role": "system", "content": PROMPT.replace("{reference}", task.hidden.reference)},
                {"role": "user", "content": REQUEST.replace("{transcript}", dialogue.transcript())},
            ],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": int(seed) % 2**31,
        }

    def close(self) -> None:
        """Close the connections; a second call does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._client.close()

    def _ask(self, request: Mapping[str, Any]) -> str:
        jitter = random.Random(f"{request['seed']} {request['messages']}")
        failure = ""
        for attempt in range(self.max_retries + 1):
            wait_s: float | None = None
            try:
                with self._slots:
                    response = self._client.chat.completions.create(**request)
                text = _text_of(response)
                if text:
                    return text
                failure = "an empty reply" if text == "" else "a malformed reply"
            except self._openai.APIStatusError as error:
                self._raise_if_final(error)
                failure = f"status {error.status_code}"
                wait_s = _retry_after(error.response.headers)
            except self._openai.APITimeoutError:
                failure = "a time-out"
            except self._openai.APIConnectionError as error:
                failure = f"a connection error ({error.__cause__ or error})"
            except (self._openai.APIError, ValueError) as error:
                failure = f"a malformed reply ({type(error).__name__})"
            if attempt < self.max_retries:
                backoff = min(self.backoff_s * 2**attempt, MAX_BACKOFF_S) * jitter.uniform(0.5, 1.0)
                time.sleep(backoff if wait_s is None else max(backoff, wait_s))
        raise SimulatorError(
            f"Expected a reply from model {self.model!r} at {self.base_url!r}, got {failure} at the last of "
            f"{self.max_retries + 1} attempts; check that the server is up, or raise `timeout_s` or `max_retries`."
        )

    def _raise_if_final(self, error: Any) -> None:
        """Raise for a status that no retry will change."""
        status = error.status_code
        if status >= 500 or status in _RETRIED_STATUSES:
            return
        advice = _ADVICE.get(status, _OTHER_ADVICE).replace("{env}", self.api_key_env)
        raise SimulatorError(
            f"Expected a reply from model {self.model!r} at {self.base_url!r}, got status {status} ({_message_of(error)}); {advice}."
        ) from error

    def __getstate__(self) -> dict[str, Any]:
        return dict(self._settings)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _check_at_least(least: int, **values: float) -> None:
    for name, value in values.items():
        if not value >= least:
            raise ValueError(f"`{name}` must be at least {least}, got {value!r}.")


def _open_cache(path: str | os.PathLike[str] | None, mode: CacheMode) -> ReplyCache | None:
    if path is None and mode == "replay":
        raise ValueError("`cache_mode='replay'` needs a `cache`; pass the file of recorded replies.")
    return None if path is None else ReplyCache(path, mode)


def _text_of(response: Any) -> str | None:
    """Text of a chat completion; None if the response is not one. Servers that call themselves compatible vary widely."""
    choices = getattr(response, "choices", None)
    if not isinstance(choices, list) or not choices:
        return None
    content = getattr(getattr(choices[0], "message", None), "content", "")
    if content is not None and not isinstance(content, str):
        return None
    return (content or "").strip().removeprefix("Human:").strip()


def _message_of(error: Any) -> str:
    body = error.body if isinstance(error.body, Mapping) else {}
    return str(body.get("message") or error.message)[:200]


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a Retry-After header asks to wait, at most `MAX_RETRY_AFTER_S`; None without a readable one."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None
