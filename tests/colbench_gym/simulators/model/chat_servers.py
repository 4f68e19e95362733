"""A chat server on the loopback interface whose answers a test writes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    server: Server
    asked: dict[str, Any]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.asked = json.loads(body)
            self.server.requests.append(self.asked)
            self.server.keys.append(self.headers["Authorization"])
            self.server.cookies.append(self.headers["Cookie"])
            behaviour = self.server.script.pop(0) if len(self.server.script) > 1 else self.server.script[0]
        self.server.is_asked.set()
        behaviour(self)

    def do_GET(self) -> None:
        self.server.num_gets += 1
        self.send(200, b"{}")

    def send(self, status: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test output quiet."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Behaviour] = [says("Two decimals.")]
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.cookies: list[str | None] = []
        self.num_connections = self.num_gets = self.num_sent = 0
        self.is_asked = threading.Event()
        self.is_over = threading.Event()
        self.lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.num_connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is what some tests are about."""


def says(content: str | None, finish_reason: str = "stop") -> Behaviour:
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": content}}
    body = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).encode()
    return lambda handler: handler.send(200, body)


def fails(status: int, **headers: str) -> Behaviour:
    return lambda handler: handler.send(status, b'{"error": {"message": "no luck"}}', **headers)


def returns(body: bytes, kind: str = "application/json") -> Behaviour:
    return lambda handler: handler.send(200, body, kind)


def hangs(handler: Handler) -> None:
    handler.server.is_over.wait()


def closes_half_way(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    handler.connection.close()


@contextmanager
def serving() -> Iterator[Server]:
    """A server in a thread; its handlers end with the process."""
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.is_over.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def counting() -> Iterator[Server]:
    """A server that says "Yes." to all, and reports nine prompt tokens and a generated one."""
    body = {"choices": [{"message": {"content": "Yes."}}], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    with serving() as server:
        server.script = [returns(json.dumps(body).encode())]
        yield server


def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_port}/v1"
