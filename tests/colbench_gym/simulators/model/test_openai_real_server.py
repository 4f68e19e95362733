"""OpenAIHuman against a real server on the loopback interface: `transformers serve` with a real small model."""

from __future__ import annotations

import http.client
import importlib.util
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import colbench_gym  # noqa: F401
from colbench_gym.dialogue import Dialogue
from colbench_gym.errors import SimulatorError
from colbench_gym.simulators.model.openai import OpenAIHuman
from colbench_gym.tasks import Task, load_tasks

MODEL = os.environ.get("COLBENCH_TEST_MODEL", "")
KEY = "COLBENCH_TEST_KEY"  # Not OPENAI_API_KEY, so that a tester's own key stays out of it.
START_S, STOP_S, REPLY_S = 240.0, 30.0, 240.0  # Bounds for a loaded machine, not what it takes.
NUM_REQUESTS = 8
QUESTION = "What should happen with values that are negative, zero or missing?"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not MODEL,
        reason="needs a model folder in the environment variable COLBENCH_TEST_MODEL; "
        "`python benchmarks/fetch_test_models.py models --model smollm2` makes models/smollm2-135m-instruct",
    ),
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("httpx", "transformers", "fastapi", "uvicorn")),
        reason="needs httpx and the server of transformers; run `pip install .[train] transformers[serving]`",
    ),
]


@dataclass(frozen=True)
class _Server:
    process: subprocess.Popen[bytes]
    url: str

    def human(self, **settings: Any) -> OpenAIHuman:
        return OpenAIHuman(**{**self.settings(), **settings})

    def settings(self) -> dict[str, Any]:
        """Arguments of an OpenAIHuman that talks to this server; requests queue there, hence the long time limit."""
        return {"model": _model(), "base_url": self.url, "api_key_env": KEY, "max_tokens": 48, "timeout_s": REPLY_S}


def _model() -> str:
    """Full path of the model's folder, by which the server knows it too."""
    folder = Path(MODEL).expanduser().resolve()
    if not (folder / "config.json").is_file():
        pytest.fail(f"Expected a model folder with config.json in COLBENCH_TEST_MODEL, got {MODEL!r}.")
    return str(folder)


@contextmanager
def _serving(folder: Path) -> Iterator[_Server]:
    """A server in a process of its own, ready when this yields and ended by its own pid."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", _model()]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    log = folder / "server.log"
    with open(log, "wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, "HF_HUB_OFFLINE": "1"}
        )
    try:
        _wait_until_ready(process, port, log)
        yield _Server(process, f"http://127.0.0.1:{port}/v1")
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return once the server says that it is healthy, which it does with the model loaded."""
    end = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < end:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
        finally:
            connection.close()
    pytest.fail(
        f"Expected a server on port {port} within {START_S:.0f} s, exit status {process.poll()}; its log ends:\n"
        f"{log.read_text(errors='replace')[-3000:]}"
    )


@pytest.fixture(scope="module", autouse=True)
def _environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.delenv(KEY, raising=False)
        yield


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Server]:
    with _serving(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def tasks() -> tuple[Task, ...]:
    """Tasks with different requests, so that replies that got mixed up would show."""
    return load_tasks(f"embedded:test[:{NUM_REQUESTS}]")


def _dialogue(task: Task) -> Dialogue:
    return Dialogue().add("user", task.description).add("assistant", QUESTION)


def _reply_all(human: OpenAIHuman, tasks: tuple[Task, ...]) -> list[str]:
    return [human.reply(task, _dialogue(task), seed) for seed, task in enumerate(tasks)]


def test_a_reply_in_the_environment_keeps_the_benchmarks_limit(server: _Server, tasks: tuple[Task, ...]) -> None:
    """256 tokens are some 1,000 characters, so that the model may say more than the limit."""
    simulator = {"name": "openai", **server.settings(), "max_tokens": 256}
    env = gym.make("ColBench-Backend-v0", tasks=tasks, simulator=simulator)
    try:
        env.reset(seed=0, options={"task_id": tasks[0].id})
        observation, reward, terminated, truncated, info = env.step(QUESTION)
        said = info["messages"][-1]
        whole = env.unwrapped.simulator.reply(tasks[0], _dialogue(tasks[0]), 0)  # type: ignore[attr-defined]
    finally:
        env.close()
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert said["role"] == "user"
    assert 0 < len(said["content"]) <= 400
    assert observation.endswith(said["content"])
    assert said["content"] == whole[:400]  # The server is greedy at temperature 0, whatever the seed.


def test_a_replayed_reply_is_the_recorded_one_bit_for_bit(server: _Server, tasks: tuple[Task, ...], tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    some = tasks[:3]
    recorder = server.human(cache=path)
    recorded = _reply_all(recorder, some)
    assert _reply_all(recorder, some) == recorded
    recorder.close()
    written = path.read_bytes()
    for _ in range(2):
        replayer = server.human(cache=path, cache_mode="replay", base_url="http://127.0.0.1:9/v1", max_retries=0)
        replayed = _reply_all(replayer, some)
        assert [text.encode() for text in replayed] == [text.encode() for text in recorded]
        with pytest.raises(SimulatorError, match=r"^Expected a recorded reply for request [0-9a-f]{64} in "):
            replayer.reply(some[0], _dialogue(some[0]), seed=99)
        replayer.close()
    assert path.read_bytes() == written


def test_concurrent_requests_each_get_their_own_reply(server: _Server, tasks: tuple[Task, ...], tmp_path: Path) -> None:
    human = server.human(cache=tmp_path / "replies.jsonl", max_concurrency=NUM_REQUESTS)
    gate = threading.Barrier(NUM_REQUESTS, timeout=REPLY_S)

    def ask(seed: int) -> str:
        gate.wait()
        return human.reply(tasks[seed], _dialogue(tasks[seed]), seed)

    with ThreadPoolExecutor(NUM_REQUESTS) as pool:
        together = list(pool.map(ask, range(NUM_REQUESTS)))
    human.close()
    alone = server.human()
    assert together == _reply_all(alone, tasks)
    alone.close()
    assert len(set(together)) > 1
    replayer = server.human(cache=tmp_path / "replies.jsonl", cache_mode="replay", base_url="http://127.0.0.1:9/v1")
    assert _reply_all(replayer, tasks) == together
    replayer.close()


def test_a_server_that_dies_in_mid_run_is_an_error_that_says_what_to_do(tasks: tuple[Task, ...], tmp_path: Path) -> None:
    with _serving(tmp_path) as server:
        human = server.human(max_retries=1, backoff_s=0.1)
        with ThreadPoolExecutor(NUM_REQUESTS) as pool:
            futures: list[Future[str]] = [
                pool.submit(human.reply, task, _dialogue(task), seed) for seed, task in enumerate(tasks)
            ]
            wait(futures, timeout=REPLY_S, return_when=FIRST_COMPLETED)
            server.process.kill()
            server.process.wait(STOP_S)
        human.close()
        errors = [error for error in (future.exception() for future in futures) if error is not None]
        assert 0 < len(errors) < NUM_REQUESTS  # One reply came before the kill; the server answers one after the other.
        for error in errors:
            assert isinstance(error, SimulatorError)
            assert re.fullmatch(
                rf"Expected a reply from model '{re.escape(_model())}' at '{re.escape(server.url)}', got a connection error "
                r"\(.+\) at the last of [23] attempts; check that the server is up, or raise `timeout_s` or `max_retries` in the JSON of `simulator`\.",
                str(error),
            )
        env = gym.make(
            "ColBench-Backend-v0",
            tasks=tasks,
            simulator={"name": "openai", **server.settings(), "max_retries": 0},
            on_world_error="void",
        )
        env.reset(seed=0)
        _, reward, terminated, truncated, info = env.step(QUESTION)
        env.close()
        assert (reward, terminated, truncated) == (0.0, False, True)
        assert info["metrics"]["outcome"] == "void"
        assert info["metrics"]["reason"].startswith("SimulatorError: ")
