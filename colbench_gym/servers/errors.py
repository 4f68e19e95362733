"""Why a request to a model server has no reply, in our own words.

A server may echo a key or the prompt, so a message contains no text from it: only the status, and those of `KNOWN_WORDS` that occur in its reply.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER_S = 300.0
#: Words that an error message repeats if they occur in the server's reply.
KNOWN_WORDS = (
    "context length",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "logprobs",
    "system",
    "alternate",
    "image",
    "does not exist",
    "quota",
    "rate limit",
    "content",
)
#: What servers write if a dialogue is longer than the model's context.
_TOO_LONG = (
    "context length",
    "context_length",
    "context window",
    "context size",
    "context_size",
    "maximum context",
    "prompt is too long",
    "max_model_len",
)
#: What hosted servers write if their filter refuses a prompt.
_FILTERED = (
    "content_filter", "content management policy", "content_policy", "responsibleaipolicyviolation", "flagged_input", "was flagged",
    "data_inspection_failed",
)  # fmt: skip
_ADVICE = {
    401: "set the environment variable {env} to a valid key",
    402: "add credit to the account of the key in {env}",
    403: "set the environment variable {env} to a key that may use the model",
    404: "check the address (it usually ends in /v1) and the name of the model",
    405: "check the address (it usually ends in /v1)",
}


class RequestError(Exception):
    """A request without a reply.

    Attributes:
        status: Status of the HTTP response, or of an error object in a response of status 200; None without either.
        is_unread: True if the server was not reached, so that it cannot have read the request.
        is_passing: True if the same request may succeed later.
        wait_s: Seconds to wait, as requested by the server; None without such a request.
        is_too_long: True if the dialogue is longer than the model's context.
        is_filtered: True if a content filter refuses the dialogue.
        advice: What to do where a reply came that is none; "" where the kind of failure says it.
        attempts: Number of attempts that failed, this one included.
    """

    def __init__(
        self,
        what: str,
        status: int | None = None,
        is_unread: bool = False,
        is_passing: bool = True,
        wait_s: float | None = None,
        is_too_long: bool = False,
        is_filtered: bool = False,
        advice: str = "",
    ) -> None:
        super().__init__(what)
        self.status, self.is_unread, self.is_passing, self.wait_s = status, is_unread, is_passing, wait_s
        self.is_too_long, self.is_filtered, self.advice, self.attempts = is_too_long, is_filtered, advice, 1

    @property
    def is_for_all(self) -> bool:
        """True if the server would refuse every other request as well: no server, a refused key, an address or a model that is not there."""
        return self.is_unread or self.status in _ADVICE or self.is_redirect

    @property
    def is_redirect(self) -> bool:
        """True if the server wants another address to be asked."""
        return self.status is not None and 300 <= self.status < 400

    def with_advice(self, key_variable: str) -> str:
        """What failed, after how many attempts, and what to do about it.

        Args:
            key_variable: Environment variable with the key.
        """
        return f"{self} at the last of {self.attempts} attempts; {self._advice(key_variable)}"

    def _advice(self, key_variable: str) -> str:
        if self.advice:
            return self.advice
        if self.is_unread:
            return "start the server, or correct its address"
        if self.is_redirect:
            return "redirects are not followed: give the address that it redirects to"
        if self.is_too_long:
            return "the dialogue is too long for the model: serve it with a longer context, or allow fewer turns or tokens"
        if self.status is not None and not self.is_passing:
            refused = "the server refuses the request: check the name of the model and what the server's log says"
            return _ADVICE.get(self.status, refused).format(env=key_variable)
        return "check that the server is up, or raise `timeout_s` or `max_retries`"


def status_error(status: int, headers: Mapping[str, str], body: bytes) -> RequestError:
    """The error of a response with this status and body, or with an error object of this status in its body."""
    text = body.decode("utf-8", "replace").lower()
    words = ", ".join(word for word in KNOWN_WORDS if word in text)
    is_too_long = any(word in text for word in _TOO_LONG)
    return RequestError(
        f"status {status} (its body mentions {words})" if words else f"status {status}",
        status,
        is_passing=(status >= 500 or status in (408, 409, 425, 429)) and not is_too_long,
        wait_s=_retry_after(headers.get("retry-after")),
        is_too_long=is_too_long,
        is_filtered=status in (400, 403, 451) and not is_too_long and any(word in text for word in _FILTERED),
    )


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait according to a Retry-After header, at most `MAX_RETRY_AFTER_S`; None without a readable header."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None
