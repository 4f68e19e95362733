"""HTTP requests to an untrusted model server.

The effects of the server are bounded. A request takes at most `timeout_s` from the name lookup to the last byte, however slowly the
bytes arrive. A reply has at most `max_reply_bytes` and must not be compressed. It is JSON, and each of its parts is checked
(`completion`). Redirects are not followed, so the key and the prompt are only sent to the given address. Cookies are not kept. An error
contains no text from the server (`errors`). What the server refuses of a request is left out or replaced (`dialect`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import ssl
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from colbench_gym.servers import usage
from colbench_gym.servers.completion import FILTER, Completion, read_completion, usage_of
from colbench_gym.servers.dialect import DEVELOPER, IN_USER, adapted, known_changes, refusal, remember
from colbench_gym.servers.errors import RequestError, status_error
from sandboxes.extras import pip_install

if TYPE_CHECKING:
    import httpx

OPENAI_URL = "https://api.openai.com/v1"
MAX_REPLY_BYTES = 2**20
MAX_BACKOFF_S = 30.0
#: Routes of a chat completion and of a text completion.
CHAT, TEXT = "/chat/completions", "/completions"

#: Status, headers and body of a response.
Exchange = tuple[int, Mapping[str, str], bytes]


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
    """One OpenAI-compatible server. Requests are thread-safe; connections are kept open and shared.

    Args:
        base_url: Address of the API, as returned by `checked_url`.
        key: Sent to this address as a bearer token.
        timeout_s: Time limit of a whole request, in seconds.
        max_reply_bytes: Maximal size of a reply.

    Raises:
        ImportError: If the httpx package is not installed.
    """

    def __init__(self, base_url: str, key: str, timeout_s: float, max_reply_bytes: int = MAX_REPLY_BYTES) -> None:
        try:
            import httpx
        except ImportError as error:
            raise ImportError(f"A model server needs the httpx package: `{pip_install('[train]')}`.") from error
        self._httpx, self.url, self._timeout_s = httpx, base_url, timeout_s
        self._max_reply_bytes = max_reply_bytes
        self._headers = {
            "Authorization": f"Bearer {key or 'none'}",
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        self._lock = threading.Lock()
        self._connections: _Connections | None = None

    def complete(self, request: Mapping[str, Any], route: str = CHAT) -> Completion:
        """A completion. What the server refuses of the request is left out or replaced once, and remembered.

        Args:
            request: The body of the request.
            route: `CHAT` or `TEXT`.

        Raises:
            RequestError: If the server sent no completion.
            CostError: If `--max_cost` allows no request.
        """
        meter = usage.current()
        if meter is not None:
            meter.check(request["model"])
        changes = tried = known_changes(self.url, request["model"])
        while True:
            sent = adapted(request, changes)
            status, headers, body = self._fetch(route, sent)
            try:
                completion = read_completion(_successful(status, headers, body))
            except RequestError as error:
                if meter is not None and (used := usage_of(body)):  # a reply of no use is paid too
                    meter.count(request["model"], used)
                if error.is_filtered:
                    return Completion("", finish_reason=FILTER)
                change = refusal(error, body, sent)
                if change is None or change in tried:
                    raise
                tried, changes = tried | {change}, (changes - {DEVELOPER} if change == IN_USER else changes) | {change}
                continue
            remember(self.url, request["model"], changes)
            if meter is not None:
                meter.count(request["model"], completion.usage)
            return completion

    def models(self) -> list[tuple[str, str]]:
        """Name and owner of each model that the server lists; [] if it answers otherwise. vLLM, SGLang and llama.cpp name themselves as the owner.

        Raises:
            RequestError: If it refuses, or does not answer.
        """
        try:
            listed = json.loads(self.call("/models"))["data"]
            return [(str(model["id"]), str(model.get("owned_by", ""))) for model in listed]
        except (ValueError, RecursionError, TypeError, LookupError, AttributeError):
            return []

    def call(self, route: str, content: Any = None) -> bytes:
        """The body of a successful response.

        Args:
            route: Path behind the address, such as "/models".
            content: What is posted as JSON; None for a GET request.

        Raises:
            RequestError: If there is none.
        """
        return _successful(*self._fetch(route, content))

    def close(self) -> None:
        """Close the connections. Pending requests fail. A second call does nothing."""
        with self._lock:
            if self._connections is not None:
                self._connections.close()
            self._connections = None

    def _fetch(self, route: str, posted: Any) -> Exchange:
        content = None if posted is None else json.dumps(posted).encode("ascii")
        with self._lock:  # so that no request starts on connections that `close` has ended
            if self._connections is None or self._connections.process != os.getpid():
                self._connections = _Connections(self._httpx)
            exchange = self._connections.begin(self._exchange(self._connections.client, route, content))
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

    async def _exchange(self, client: httpx.AsyncClient, route: str, content: bytes | None) -> Exchange:
        async with (
            asyncio.timeout(self._timeout_s),
            client.stream(
                "GET" if content is None else "POST", self.url + route, content=content, headers=self._headers
            ) as response,
        ):
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise RequestError("a malformed reply (compressed, which was not asked for)", response.status_code)
            body = bytearray()
            async for part in response.aiter_raw():
                body += part
                if len(body) > self._max_reply_bytes:
                    raise RequestError(f"a reply of more than {self._max_reply_bytes} bytes", response.status_code)
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
        self._pending: weakref.WeakSet[Future[Exchange]] = weakref.WeakSet()
        threading.Thread(target=_serve, args=(self._loop, self.client, self._pending), name="chat server", daemon=True).start()
        self.close = weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)
        self.close.atexit = False

    def begin(self, work: Coroutine[Any, Any, Exchange]) -> Future[Exchange]:
        """Start a coroutine in the event loop."""
        exchange = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._pending.add(exchange)
        return exchange


def _serve(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient, pending: weakref.WeakSet[Future[Exchange]]) -> None:
    """Run the loop until it is stopped, then cancel pending requests and close the connections.

    A request cancels the tasks that it has started. Cancelled from here, one that has not begun would leave a coroutine that is never
    awaited, which is a warning.
    """
    asyncio.set_event_loop(loop)
    loop.run_forever()
    for exchange in list(pending):
        exchange.cancel()
    loop.run_until_complete(asyncio.gather(*asyncio.all_tasks(loop), return_exceptions=True))
    loop.run_until_complete(client.aclose())
    loop.close()


def with_retries(
    ask: Callable[[], Completion], key: str, max_retries: int, backoff_s: float, is_closed: threading.Event
) -> Completion:
    """A completion; failures that may pass are retried.

    Args:
        ask: Requests it once.
        key: What the jitter of the waits is drawn from.
        max_retries: Maximal number of retries.
        backoff_s: See `pause_s`.
        is_closed: Ends the wait.

    Raises:
        RequestError: The last failure; says after how many attempts.
    """
    jitter, retries = random.Random(key), 0
    while True:
        try:
            return ask()
        except RequestError as error:
            error.attempts = retries + 1
            if not error.is_passing or retries >= max_retries or is_closed.wait(pause_s(error, retries, backoff_s, jitter)):
                raise
        retries += 1


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


def _successful(status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    if not 200 <= status < 300:
        raise status_error(status, headers, body)
    return body


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
