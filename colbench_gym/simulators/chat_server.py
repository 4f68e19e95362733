"""HTTP requests to an untrusted chat server.

The effects of the server are bounded. A request takes at most `timeout_s` from the name lookup to the last byte, however slowly the
bytes arrive. A reply has at most `MAX_REPLY_BYTES` and must not be compressed. It is JSON, and each of its parts is checked. Redirects are
not followed, so the key and the prompt are only sent to the given address. Cookies are not kept. An error contains no text from the
server, which may echo a key or the prompt: only the status and those of `KNOWN_WORDS` that occur in the reply.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import random
import ssl
import threading
import time
import weakref
from collections.abc import Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sandboxes.extras import pip_install

if TYPE_CHECKING:
    import httpx

OPENAI_URL = "https://api.openai.com/v1"
MAX_REPLY_BYTES = 2**20
MAX_RETRY_AFTER_S = 300.0
MAX_BACKOFF_S = 30.0
#: Largest number of tokens of a request that is believed.
MAX_TOKENS = 10**9
#: Words that an error message repeats if they occur in the server's reply.
KNOWN_WORDS = (
    "context length",
    "max_tokens",
    "temperature",
    "seed",
    "image",
    "does not exist",
    "quota",
    "rate limit",
    "content",
)

#: Prompt and generated tokens of a completion.
Usage = tuple[int, int]
#: Status, headers and body of a response.
Exchange = tuple[int, Mapping[str, str], bytes]


class RequestError(Exception):
    """A request without a reply.

    Attributes:
        status: Status of the HTTP response; None without a response.
        is_unread: True if the server was not reached, so that it cannot have read the request.
        is_passing: True if the same request may succeed later.
        wait_s: Seconds to wait, as requested by the server; None without such a request.
    """

    def __init__(
        self,
        what: str,
        status: int | None = None,
        is_unread: bool = False,
        is_passing: bool = True,
        wait_s: float | None = None,
    ) -> None:
        super().__init__(what)
        self.status, self.is_unread, self.is_passing, self.wait_s = status, is_unread, is_passing, wait_s


def checked_url(base_url: str) -> str:
    """The address of an API without a trailing slash.

    Raises:
        ValueError: If it is not an address, or could contain a password. The message does not repeat the address.
    """
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        parts = urlsplit(base_url)
        is_plain = base_url.isascii() and base_url.isprintable() and not set(" @?#\\") & set(base_url)
        if is_plain and parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return base_url.rstrip("/")
    raise ValueError(
        "`base_url` must be http:// or https:// with a host, an optional port and a path, without user, password, query or fragment; "
        "pass a key in the environment variable that `api_key_env` names. (The value is not repeated here: it may contain a password.)"
    )


def read_key(variable: str) -> str:
    """The key in an environment variable, stripped of white space; "" if the variable is not set.

    Raises:
        ValueError: If `variable` is not a variable name, or the key cannot be sent. The message repeats neither.
    """
    if not isinstance(variable, str) or not variable.isidentifier():
        raise ValueError("`api_key_env` must be the name of an environment variable that holds the key, not the key itself.")
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ValueError(f"The environment variable {variable} must hold a key of visible ASCII characters.")
    return key


class ChatServer:
    """One OpenAI-compatible server. `ask` is thread-safe; connections are kept open and shared.

    Args:
        base_url: Address of the API, as returned by `checked_url`.
        key: Sent to this address as a bearer token.
        timeout_s: Time limit of a whole request, in seconds.

    Raises:
        ImportError: If the httpx package is not installed.
    """

    def __init__(self, base_url: str, key: str, timeout_s: float) -> None:
        try:
            import httpx
        except ImportError as error:
            raise ImportError(f"`simulator='openai'` needs the httpx package: `{pip_install('[train]')}`.") from error
        self._httpx = httpx
        self._url, self._timeout_s = f"{base_url}/chat/completions", timeout_s
        self._headers = {
            "Authorization": f"Bearer {key or 'none'}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        self._lock = threading.Lock()
        self._connections: _Connections | None = None

    def ask(self, request: Mapping[str, Any]) -> str:
        """The text of a chat completion as the server sent it. It may be empty and may contain lone surrogates.

        Raises:
            RequestError: If the server sent no chat completion.
        """
        return self.complete(request)[0]

    def complete(self, request: Mapping[str, Any]) -> tuple[str, Usage | None]:
        """The text of a chat completion as in `ask`, and the tokens that the server counted; None if it reports none.

        Raises:
            RequestError: If the server sent no chat completion.
        """
        status, headers, body = self._post(json.dumps(request).encode("ascii"))
        if not 200 <= status < 300:
            raise _status_error(status, headers, body)
        text = completion_text(body)
        if text is None:
            raise RequestError("a malformed reply")
        return text, completion_usage(body)

    def close(self) -> None:
        """Close the connections. Pending requests fail. A second call does nothing."""
        with self._lock:
            if self._connections is not None:
                self._connections.close()
            self._connections = None

    def _post(self, content: bytes) -> Exchange:
        with self._lock:  # so that no request starts on connections that `close` has ended
            if self._connections is None or self._connections.process != os.getpid():
                self._connections = _Connections(self._httpx)
            exchange = self._connections.begin(self._exchange(self._connections.client, content))
        try:
            return exchange.result()
        except TimeoutError:
            raise RequestError("a time-out") from None
        except CancelledError:
            raise RequestError("a closed connection") from None
        except (self._httpx.ConnectError, self._httpx.ProxyError, self._httpx.UnsupportedProtocol) as error:
            raise RequestError(f"a connection error ({_system_text(error)})", is_unread=True) from None
        except (self._httpx.HTTPError, self._httpx.StreamError, self._httpx.InvalidURL, ValueError) as error:
            # ValueError: httpx reads the target of a redirect that it does not follow
            raise RequestError(f"a connection error ({_system_text(error)})") from None
        finally:
            exchange.cancel()  # if this thread was interrupted

    async def _exchange(self, client: httpx.AsyncClient, content: bytes) -> Exchange:
        async with (
            asyncio.timeout(self._timeout_s),
            client.stream("POST", self._url, content=content, headers=self._headers) as response,
        ):
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise RequestError("a malformed reply (compressed, which was not asked for)", response.status_code)
            body = bytearray()
            async for part in response.aiter_raw():
                body += part
                if len(body) > MAX_REPLY_BYTES:
                    raise RequestError(f"a reply of more than {MAX_REPLY_BYTES} bytes", response.status_code)
            return response.status_code, response.headers, bytes(body)


class _NoCookies(CookieJar):
    """A cookie jar that stays empty."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        """Ignore all cookies."""


class _Connections:
    """A client and its event loop, which runs in a thread so that a request can be cancelled at any point.

    The thread ends with `close`, or when this object is collected.
    """

    def __init__(self, module: Any) -> None:
        self.process = os.getpid()
        self.client: httpx.AsyncClient = module.AsyncClient(
            timeout=None,
            follow_redirects=False,
            cookies=_NoCookies(),
            limits=module.Limits(max_connections=None, max_keepalive_connections=100),
        )
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=_serve, args=(self._loop, self.client), name="chat server", daemon=True).start()
        self.close = weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)
        self.close.atexit = False

    def begin(self, work: Coroutine[Any, Any, Exchange]) -> Future[Exchange]:
        """Start a coroutine in the event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)


def _serve(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
    """Run the loop until it is stopped, then cancel pending requests and close the connections."""
    asyncio.set_event_loop(loop)
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(client.aclose())
    loop.close()


def completion_text(body: bytes) -> str | None:
    """Text of a chat completion, "" if its content is null; None if the body is not a chat completion."""
    try:
        content = json.loads(body)["choices"][0]["message"].get("content")
    except (ValueError, RecursionError, TypeError, LookupError, AttributeError):
        return None
    if content is None:
        return ""
    return content if isinstance(content, str) else None


def completion_usage(body: bytes) -> Usage | None:
    """Prompt and generated tokens of a chat completion; None if it has none, or numbers that cannot be true."""
    try:
        usage = json.loads(body)["usage"]
        found = usage["prompt_tokens"], usage["completion_tokens"]
    except (ValueError, RecursionError, TypeError, LookupError):
        return None
    return found if all(type(count) is int and 0 <= count <= MAX_TOKENS for count in found) else None


def pause_s(error: RequestError, retries: int, backoff_s: float, jitter: random.Random) -> float:
    """Seconds to wait before a request is sent again: exponential back-off with jitter, or what the server asks for.

    Args:
        error: Why it failed.
        retries: Retries before this one.
        backoff_s: Longest wait before the first retry, in seconds; it doubles with each further one, up to `MAX_BACKOFF_S`.
        jitter: Source of the jitter.
    """
    backoff: float = min(backoff_s * 2.0**retries, MAX_BACKOFF_S) * jitter.uniform(0.5, 1.0)
    return backoff if error.wait_s is None else max(backoff, error.wait_s)


def _status_error(status: int, headers: Mapping[str, str], body: bytes) -> RequestError:
    text = body.decode("utf-8", "replace").lower()
    words = ", ".join(word for word in KNOWN_WORDS if word in text)
    what = f"status {status} (its body mentions {words})" if words else f"status {status}"
    is_passing = status >= 500 or status in (408, 429)
    return RequestError(what, status, is_passing=is_passing, wait_s=_retry_after(headers.get("retry-after")))


def _system_text(error: BaseException) -> str:
    """The operating system's description of an error, else the name of its type. The error's own text may quote the server."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return cause.reason or type(cause).__name__
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno) if cause.errno > 0 else cause.strerror or type(cause).__name__
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


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
