"""Requests to a chat server that is not trusted, over HTTP.

What the server can do is bounded. A request takes at most `timeout_s` from looking up the name to the last byte, however slowly the
bytes come. A reply has at most `MAX_REPLY_BYTES` and is not compressed; it is JSON whose parts are checked one by one. Redirects are not followed, so the
key and the prompt go to the address that was given and nowhere else. Cookies are not kept. An error holds no text of the server's,
which may echo a key or the prompt: only the status, and which of `KNOWN_WORDS` the reply mentions.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
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

if TYPE_CHECKING:
    import httpx

OPENAI_URL = "https://api.openai.com/v1"
MAX_REPLY_BYTES = 2**20
MAX_RETRY_AFTER_S = 300.0
#: Words that are said of an error where the server's reply has them.
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

#: Status, headers and body of a response.
Exchange = tuple[int, Mapping[str, str], bytes]


class RequestError(Exception):
    """A request without a reply.

    Attributes:
        status: Of the HTTP response; None without one.
        is_unread: The server was not reached, so that it cannot have read the request.
        is_passing: The same request may succeed later.
        wait_s: Seconds that the server asks to wait; None where it does not.
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
    """The address of an API without a slash at its end.

    Raises:
        ValueError: If it is no address, or could hold a password. The text does not repeat the address.
    """
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        parts = urlsplit(base_url)
        is_plain = base_url.isascii() and base_url.isprintable() and not set(" @?#\\") & set(base_url)
        if is_plain and parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return base_url.rstrip("/")
    raise ValueError(
        "`base_url` must be http:// or https:// with a host, an optional port and a path, without user, password, query or fragment; "
        "give a key by the environment variable that `api_key_env` names. (What came is not repeated: it may hold a password.)"
    )


def read_key(variable: str) -> str:
    """The key in an environment variable, white space around it left out; "" where it is not set.

    Raises:
        ValueError: If it is no name of a variable, or the key cannot be sent. The text does not repeat either.
    """
    if not isinstance(variable, str) or not variable.isidentifier():
        raise ValueError("`api_key_env` must be the name of an environment variable that holds the key, not the key itself.")
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ValueError(f"The environment variable {variable} must hold a key of visible ASCII characters.")
    return key


class ChatServer:
    """One OpenAI-compatible server. `ask` may be called from many threads at once; connections are kept and shared.

    Args:
        base_url: Address of the API, as from `checked_url`.
        key: Sent to that address as a bearer token.
        timeout_s: Time limit of one request as a whole, in seconds.

    Raises:
        ImportError: If the httpx package is not installed.
    """

    def __init__(self, base_url: str, key: str, timeout_s: float) -> None:
        try:
            import httpx
        except ImportError as error:
            raise ImportError("`simulator='openai'` needs the httpx package; run `pip install colbench-gym[train]`.") from error
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
        """The text of a chat completion as the server sent it, which may be empty and hold lone surrogates.

        Raises:
            RequestError: If there is none.
        """
        status, headers, body = self._post(json.dumps(request).encode("ascii"))
        if not 200 <= status < 300:
            raise _status_error(status, headers, body)
        text = completion_text(body)
        if text is None:
            raise RequestError("a malformed reply")
        return text

    def close(self) -> None:
        """Close the connections; requests under way fail. A second call does nothing."""
        with self._lock:
            if self._connections is not None:
                self._connections.close()
            self._connections = None

    def _post(self, content: bytes) -> Exchange:
        with self._lock:  # so that nothing is begun on connections that `close` has ended
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
            exchange.cancel()  # where this thread was interrupted

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
    """Takes none."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        """Leave them."""


class _Connections:
    """A client and the event loop that it works in, in a thread: there a request can be ended at any point.

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
        """Start to work in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)


def _serve(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
    """Run the loop until it is stopped, then end what is under way and close the connections."""
    asyncio.set_event_loop(loop)
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(client.aclose())
    loop.close()


def completion_text(body: bytes) -> str | None:
    """Text of a chat completion, "" where it says that there is none; None if the body is no chat completion."""
    try:
        content = json.loads(body)["choices"][0]["message"].get("content")
    except (ValueError, RecursionError, TypeError, LookupError, AttributeError):
        return None
    if content is None:
        return ""
    return content if isinstance(content, str) else None


def _status_error(status: int, headers: Mapping[str, str], body: bytes) -> RequestError:
    text = body.decode("utf-8", "replace").lower()
    words = ", ".join(word for word in KNOWN_WORDS if word in text)
    what = f"status {status} (its body mentions {words})" if words else f"status {status}"
    is_passing = status >= 500 or status in (408, 429)
    return RequestError(what, status, is_passing=is_passing, wait_s=_retry_after(headers.get("retry-after")))


def _system_text(error: BaseException) -> str:
    """What the system says of an error, else the name of its type; the text of the error itself may quote the server."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return cause.reason or type(cause).__name__
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno) if cause.errno > 0 else cause.strerror or type(cause).__name__
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


def _retry_after(value: str | None) -> float | None:
    """Seconds that a Retry-After header asks to wait, at most `MAX_RETRY_AFTER_S`; None without a readable one."""
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
