"""Robustness: a thousand dialogues with a simulated human on a faulty server, while runners and the job itself are killed. Is anything lost?

    PYTHONPATH=. python benchmarks/faulty_server.py [--episodes 1000] [--dead_s 60] [--output benchmarks/results/faulty_server.json]

The episodes are played three times. First, without faults. Second, with a server that fails on a third of all requests: status 500, 429 with
Retry-After, a closed connection, half a reply, a slow reply, junk, an empty reply, wrong types. It always refuses the requests of some tasks, and
is down for a minute. Meanwhile runners of the sandbox are killed, and sometimes the job with all of its processes; the same command is then run
again to resume it. Third, the void episodes are replayed with `replay_void` and a server without faults.

The server's replies depend only on a request's seed, so the results must be identical, byte by byte. Exits with status 1 if they are not, if an
episode is missing, repeated or out of order, or if a void episode has no reason.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import sandboxes
from colbench_gym.dialogue import Dialogue
from colbench_gym.envs.vector import ColBenchVectorEnv
from colbench_gym.errors import ColBenchError
from colbench_gym.evaluation.rows import RowFile, is_void
from colbench_gym.files import append_rows, read_rows, write_json
from colbench_gym.tasks import Task, load_tasks
from sweetrl_agent.config.run import RunArguments
from sweetrl_agent.core.episode import Episode
from sweetrl_agent.core.policy import Utterance
from sweetrl_agent.rollouts import play as rollouts
from sweetrl_agent.rollouts.play import episodes_of
from sweetrl_agent.rollouts.player import RolloutPlayer, play_rows

OUTPUT = Path(__file__).parent / "results" / "faulty_server.json"
NUM_TASKS, NUM_ENVS, TURNS = 100, 50, 3
FAULTS = ("500", "429", "closed", "half", "slow", "junk", "empty", "types")
#: Share of requests that fail; share of tasks that the server always refuses; seconds between kills of runners, and of jobs.
FAULTY, REFUSED, RUNNER_S, JOB_S = 0.33, 2, 1.0, 25.0
TIMEOUT_S = 1.0
#: Maximal number of times that the job may stop by itself. More cannot be explained by a server that is down for a minute.
MOST_STOPS = 50
#: Status of a job that stopped by itself, with a reason.
STOPPED = 3


class Agent:
    """A scripted agent: it asks twice, then answers with a right program, a wrong one, or one that raises."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = {task.description: task for task in tasks}

    def generate(self, dialogues: Sequence[Dialogue], seeds: Sequence[int]) -> list[Utterance]:
        """One utterance a dialogue."""
        return [Utterance(self._words(dialogue, seed), [3], [-0.5]) for dialogue, seed in zip(dialogues, seeds, strict=True)]

    def _words(self, dialogue: Dialogue, seed: int) -> str:
        messages = list(dialogue)
        if len(messages) < 2 * TURNS - 1:
            return f"What about case {seed % 100}?"
        task = next(task for text, task in self._tasks.items() if text in messages[0]["content"])
        name = task.function_name
        bodies = (task.hidden.reference, f"def {name}(*values):\n    return 1", f"def {name}(*values):\n    return values[99]")
        return f"I WANT TO ANSWER:\n```python\n{bodies[seed % 3]}\n```"


class Handler(BaseHTTPRequestHandler):
    """Replies according to the request's seed, or fails as the server requires."""

    server: Server

    def do_POST(self) -> None:
        """One completion."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fault = self.server.fault(request)
        text = f"For case {request['seed'] % 7}, return {request['seed'] % 11}."
        body = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
        with contextlib.suppress(OSError):  # the client was killed
            self._reply(fault, body)

    def _reply(self, fault: str, body: bytes) -> None:
        if fault == "closed":
            self.connection.close()
            return
        if fault == "slow":
            self.server.over.wait(3 * TIMEOUT_S)
        status = {"500": 500, "429": 429, "refused": 400}.get(fault, 200)
        bodies = {"junk": b"<html>\xff", "empty": b"", "types": b'{"choices": [{"message": {"content": ["a"]}}]}'}
        body = bodies.get(fault, body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if fault == "429":
            self.send_header("Retry-After", "0.1")
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if fault == "half" else body)
        if fault == "half":
            self.connection.close()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


class Server(ThreadingHTTPServer):
    """A chat server.

    Args:
        port: Port to listen on; 0 for any port.
        refused: Words of prompts that it refuses.
        is_faulty: Whether a third of its requests fail.

    Attributes:
        served: Number of replies of each kind.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, port: int = 0, refused: Sequence[str] = (), is_faulty: bool = False) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.refused, self.is_faulty = refused, is_faulty
        self.served: Counter[str] = Counter()
        self.over = threading.Event()
        self._random, self._lock = random.Random(0), threading.Lock()

    def fault(self, request: dict[str, Any]) -> str:
        """The kind of failure for a request; "" for none."""
        with self._lock:
            fault = self._random.choice(FAULTS) if self.is_faulty and self._random.random() < FAULTY else ""
            prompt = json.dumps(request["messages"])
            if any(json.dumps(text)[1:-1] in prompt for text in self.refused):
                fault = "refused"
            self.served[fault or "well"] += 1
            return fault

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore killed clients, which are expected here."""


@contextmanager
def serving(**settings: Any) -> Iterator[Server]:
    """A server in a thread."""
    server = Server(**settings)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def play(path: Path, address: str, num_episodes: int, is_again: bool) -> int:
    """The job: play the missing episodes of the file. Returns the exit status. Reasons of void episodes go into a second file."""
    tasks = load_tasks("embedded:train[:100]")
    episodes = episodes_of([task.id for task in tasks], num_episodes // NUM_TASKS)
    human = {"name": "openai", "model": "m", "base_url": address, "timeout_s": TIMEOUT_S, "backoff_s": 0.02, "max_retries": 5}
    agent = Agent(tasks)

    @contextmanager
    def player(**given: Any) -> Iterator[Callable[[Any], list[Episode]]]:
        with sandboxes.make("embedded", workers=2) as sandbox:
            env = ColBenchVectorEnv(num_envs=NUM_ENVS, autoreset_mode="disabled", tasks=tasks, sandbox=sandbox, simulator=human)
            with closing(env):
                yield lambda shard: noted(next(rollouts.play(agent, env, shard, 0, "collect", **given)))

    def noted(trajectories: list[Episode]) -> list[Episode]:
        void = [{"task_id": t.task_id, "episode": t.index, "why": t.error} for t in trajectories if t.is_void]
        append_rows(path.with_suffix(".void.jsonl"), void)
        return trajectories

    settings = RunArguments(max_void=0.5, replay_void=is_again)
    try:
        play_rows(RowFile(path), episodes, RolloutPlayer(player, NUM_ENVS, Episode.to_row, settings), path.stem)
    except ColBenchError as error:
        print(error)
        return STOPPED
    return 0


def job(path: Path, address: str, arguments: argparse.Namespace, is_again: bool = False) -> subprocess.Popen[str]:
    """Start the job in its own process group, so that it can be killed as a whole."""
    command = [sys.executable, __file__, "--episodes", str(arguments.episodes), "--job", str(path), address, str(int(is_again))]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def runners(process: int) -> list[int]:
    """Child processes of a process: the sandbox's runners."""
    with contextlib.suppress(OSError):
        return [
            int(child)
            for task in Path(f"/proc/{process}/task").iterdir()
            for child in (task / "children").read_text(encoding="ascii").split()
        ]
    return []


def disturb(path: Path, arguments: argparse.Namespace, refused: Sequence[str]) -> dict[str, Any]:
    """Play against the faulty server until the job succeeds. Returns statistics of the faults."""
    rng, happened, served, port = random.Random(1), Counter[str](), Counter[str](), 0
    reasons: list[str] = []
    is_done, was_dead = False, False
    while not is_done:
        if happened["jobs stopped by themselves"] > MOST_STOPS:
            raise SystemExit(f"Expected the job to resume, got {MOST_STOPS} stops: {reasons[-1]}")
        with serving(port=port, refused=refused, is_faulty=True) as server:
            port = server.server_port
            address = f"http://127.0.0.1:{port}/v1"
            running = job(path, address, arguments)
            began, lives_s = time.monotonic(), JOB_S * rng.uniform(0.5, 1.5)
            while running.poll() is None and (was_dead or len(read_rows(path)) < arguments.episodes // 3):
                time.sleep(RUNNER_S)
                if pids := runners(running.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(rng.choice(pids), signal.SIGKILL)
                        happened["runners killed"] += 1
                if time.monotonic() - began > lives_s and happened["jobs killed"] < 4:
                    os.killpg(running.pid, signal.SIGKILL)
                    happened["jobs killed"] += 1
        served += server.served
        if running.poll() is None:  # the server has just died
            was_dead, dead_until = True, time.monotonic() + arguments.dead_s
            while True:
                output = running.communicate()[0]
                if running.returncode != STOPPED:
                    raise SystemExit(
                        f"Expected the job to stop where nothing listens, got status {running.returncode}: {output}"
                    )
                happened["jobs stopped by themselves"] += 1
                reasons.append(output.strip())
                if time.monotonic() > dead_until:
                    break
                running = job(path, address, arguments)
        else:
            output = running.communicate()[0]
            is_done = running.returncode == 0
            if running.returncode == STOPPED:
                happened["jobs stopped by themselves"] += 1
                reasons.append(output.strip())
            elif running.returncode not in (0, -signal.SIGKILL):
                raise SystemExit(f"Expected the job to end well, got status {running.returncode}: {output}")
    return {**happened, "replies": dict(sorted(served.items())), "stopped because": reasons[:1]}


def main() -> int:
    """Play, compare and write the results. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1000, help=f"dialogues, a multiple of {NUM_TASKS}")
    parser.add_argument("--dead_s", type=float, default=60.0, help="seconds for which the server is down")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument(
        "--job", nargs=3, metavar=("FILE", "ADDRESS", "AGAIN"), help="play into a file: what this command starts"
    )
    arguments = parser.parse_args()
    if arguments.job:
        file, address, is_again = arguments.job
        return play(Path(file), address, arguments.episodes, is_again == "1")
    tasks = load_tasks("embedded:train[:100]")
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        quiet, path = Path(folder, "undisturbed.jsonl"), Path(folder, "disturbed.jsonl")
        with serving() as server:
            address = f"http://127.0.0.1:{server.server_port}/v1"
            if job(quiet, address, arguments).wait():
                raise SystemExit("The undisturbed job failed.")
            undisturbed_s, began = time.monotonic() - began, time.monotonic()
        disturbed = disturb(path, arguments, [task.hidden.reference for task in tasks[:REFUSED]])
        disturbed_s = time.monotonic() - began
        rows, why = read_rows(path), read_rows(path.with_suffix(".void.jsonl"))
        expected = [
            (episode.task_id, episode.index) for episode in episodes_of([t.id for t in tasks], arguments.episodes // NUM_TASKS)
        ]
        void = [(row["task_id"], row["episode"]) for row in rows if is_void(row)]
        explained = {(row["task_id"], row["episode"]) for row in why if row["why"]}
        valid_same = [a for a in rows if not is_void(a)] == [
            b for b in read_rows(quiet) if (b["task_id"], b["episode"]) not in set(void)
        ]
        with serving() as server:
            status = job(path, f"http://127.0.0.1:{server.server_port}/v1", arguments, is_again=True).wait()
        checks = {
            "every episode once, in order": [(row["task_id"], row["episode"]) for row in rows] == expected,
            "every void episode has a reason": explained >= set(void),
            "void episodes are those of refused tasks": {task for task, _ in void} == {task.id for task in tasks[:REFUSED]},
            "all others equal the undisturbed ones": valid_same,
            "after void ones were played again, the same bytes": status == 0 and path.read_bytes() == quiet.read_bytes(),
        }
        outcomes = Counter(row["metrics"]["outcome"] for row in read_rows(quiet))
    write_json(
        arguments.output,
        {
            "command": "python benchmarks/faulty_server.py",
            "episodes": len(expected),
            "outcomes": dict(outcomes.most_common()),
            "seconds": {"undisturbed": round(undisturbed_s, 1), "disturbed": round(disturbed_s, 1)},
            "void": len(void),
            "happened": disturbed,
            "checks": checks,
            "python": platform.python_version(),
        },
    )
    print(arguments.output.read_text(encoding="utf-8"))
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
