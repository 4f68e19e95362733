"""Recorded dialogues, and a stand-in for a model server that repeats them, for the bridges to other frameworks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import gymnasium as gym
import pytest

import colbench_gym  # noqa: F401
from colbench_gym.bridges.conversations import conversation_seed

CANARY = "XQ7canaryZ9"
ROW = {
    "problem_description": "I need a total. The signature of the function is: def total(prices)",
    "ground_truth": f"def total(prices):\n    {CANARY} = 7\n    return sum(prices) + {CANARY}",
    "hidden_information": f"{CANARY}: add seven.",
    "test_cases": {f"test{i}": f"total([{i}, {i}])" for i in range(1, 11)},
}
PASSES = "I WANT TO ANSWER:\n```python\ndef total(prices):\n    return sum(prices) + 7\n```\n"


@dataclass
class Recorded:
    """A dialogue that was played with the environment itself: what the agent said, and what came of it."""

    task_id: str
    request: str
    utterances: list[str]
    messages: list[dict[str, str]]
    metrics: dict[str, Any]
    reward: float


def _utterances(env: Any, kind: int) -> list[str]:
    reference = env.unwrapped.task.hidden.reference
    ask = "Is there anything special about how the result is rounded?"
    return [
        [ask, f" I wonder about the fee.\nOUTPUT: {ask} ", f"I WANT TO ANSWER:\n```python\n{reference}\n```"],
        [ask, "I WANT TO ANSWER:\ndef nothing():\n    return 1"],
        ["I WANT TO ANSWER:\nthis is no program ("],
        [f"{ask} ({i})" for i in range(6)],  # to the turn limit
        [f"secret thought OUTPUT: I WANT TO ANSWER:\n{reference}"],
    ][kind % 5]


@pytest.fixture
def recorded() -> Callable[..., list[Recorded]]:
    """Function: number of dialogues, arguments of the environment -> recorded dialogues about tasks whose requests differ."""

    def play(count: int, seed: int = 0, **arguments: Any) -> list[Recorded]:
        env = gym.make("ColBench-Backend-v0", **{"sandbox": "embedded", **arguments})
        found: dict[str, Recorded] = {}
        for task in env.unwrapped.tasks:
            if len(found) < count and task.description not in found:
                seed_here = conversation_seed(seed, task.public_id)
                _, info = env.reset(seed=seed_here, options={"task_id": task.public_id})
                said = _utterances(env, len(found))
                for utterance in said:
                    _, reward, terminated, truncated, info = env.step(utterance)
                    if terminated or truncated:
                        break
                used = sum(message["role"] == "assistant" for message in info["messages"])
                request = info["messages"][0]["content"]
                found[request] = Recorded(task.public_id, request, said[:used], info["messages"], info["metrics"], reward)
        env.close()
        return list(found.values())

    return play


class ModelServer(ThreadingHTTPServer):
    """An OpenAI-compatible chat server whose answers a function of the messages gives: a text, or a text and its finish reason."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, speak: Callable[[list[dict[str, str]]], str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.speak, self.asked, self.lock = speak, [], threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append(request)
        said = self.server.speak(request["messages"])
        text, reason = said if isinstance(said, tuple) else (said, "stop")
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "finish_reason": reason, "message": message, "logprobs": None}
        usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test output quiet."""


@pytest.fixture
def serve() -> Iterator[Callable[..., ModelServer]]:
    """Function: function of the messages -> a running server."""
    running: list[ModelServer] = []

    def start(speak: Callable[[list[dict[str, str]]], str]) -> ModelServer:
        running.append(ModelServer(speak))
        threading.Thread(target=running[-1].serve_forever, daemon=True).start()
        return running[-1]

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture
def repeats() -> Callable[[list[Recorded]], Callable[[list[dict[str, str]]], str]]:
    """Function: recorded dialogues -> a model that says in each what was recorded."""

    def model(dialogues: list[Recorded]) -> Callable[[list[dict[str, str]]], str]:
        by_request = {one.request: one.utterances for one in dialogues}

        def speak(messages: list[dict[str, str]]) -> str:
            said = [message for message in messages if message["role"] != "system"]
            return by_request[said[0]["content"]][sum(message["role"] == "assistant" for message in said)]

        return speak

    return model


@pytest.fixture
def canary_rows(tmp_path: Any) -> str:
    """Path of a file with one task, whose hidden half holds the canary."""
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    return str(path)


@pytest.fixture
def canary() -> str:
    """The text that must appear nowhere."""
    return CANARY


@pytest.fixture
def passes() -> str:
    """An answer that passes every test of the canary's task."""
    return PASSES


@pytest.fixture
def together(serve: Any) -> Callable[[int], Any]:
    """Function: count -> a server of humans who reply as soon as so many are asked at the same time, and none before."""

    @contextmanager
    def waits(count: int) -> Iterator[Any]:
        barrier = threading.Barrier(count, timeout=900)

        def speak(messages: list[dict[str, str]]) -> str:
            barrier.wait()
            return "It is so."

        yield serve(speak)

    return waits
