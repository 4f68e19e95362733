"""Two thousand gradings while everything under them is being killed: the verdicts are those of an undisturbed run."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

import sandboxes
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks import load_tasks
from sandboxes import Sandbox

pytestmark = [
    pytest.mark.slow,
    # As in tests/sandboxes/test_docker_daemon.py.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
NUM_ANSWERS = 2_000


class Troubled(Sandbox):
    """Passes programs on to a sandbox; before it yields certain results, something bad happens to what it runs on.

    Args:
        sandbox: The sandbox.
        troubles: Number of a result -> what happens then.
    """

    def __init__(self, sandbox, troubles):
        self._sandbox, self._troubles = sandbox, dict(troubles)
        self.happened = []

    def run(self, programs):
        return list(self.stream(programs))

    def stream(self, programs):
        for number, result in enumerate(self._sandbox.stream(programs)):
            if trouble := self._troubles.pop(number, None):
                trouble()
                self.happened.append(number)
            yield result

    def guarantees(self):
        return self._sandbox.guarantees()

    def close(self):
        self._sandbox.close()


def answer_to(task, number):
    """Right, wrong, half right, raising, printing or malformed, and unlike every other answer."""
    reference, name = task.hidden.reference, task.function_name
    answers = (
        f"{reference}\n# {number}",
        f"def {name}(*values):\n    return {number}",
        f"{reference}\n_all = {name}\ndef {name}(*values):\n    return _all(*values) if len(repr(values)) % 2 else {number}",
        f"def {name}(*values):\n    raise KeyError({number})",
        f"import math\n{reference}\nprint({number}, math.pi)",
        f"def {name}(*values) return {number}",
    )
    return answers[number % len(answers)]


@pytest.fixture(scope="module")
def answers():
    tasks = load_tasks("embedded:test")
    return [(tasks[number % len(tasks)], answer_to(tasks[number % len(tasks)], number)) for number in range(NUM_ANSWERS)]


@pytest.fixture(scope="module")
def undisturbed(answers):
    with sandboxes.make("embedded") as sandbox:
        scores = UnitTests(sandbox).score_many(answers)
    kinds = Counter(score.outcome for score in scores)
    assert kinds["passed"] >= NUM_ANSWERS // 4 and kinds["wrong"] >= NUM_ANSWERS // 4
    assert kinds["exception:KeyError"] == kinds["exception:SyntaxError"] == NUM_ANSWERS // 6
    return scores


def differences(answers, scores, undisturbed):
    return [(answer, a, b) for (_, answer), a, b in zip(answers, scores, undisturbed, strict=True) if a != b]


def status(pid):
    return dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())


def test_processes_of_the_embedded_sandbox_killed_at_random(answers, undisturbed, descendants):
    others, rng, killed = set(descendants(os.getpid())), random.Random(0), []

    def is_program(pid):
        return Path(f"/proc/{status(pid)['PPid']}/comm").read_text().startswith("python") and status(pid)["PPid"] != str(
            os.getpid()
        )

    def kill_one():
        while True:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # has ended meanwhile
                pid = rng.choice(sorted(set(descendants(os.getpid())) - others))
                if not is_program(pid):  # a program that is killed from outside looks like one that has crashed
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    return

    with Troubled(sandboxes.make("embedded"), dict.fromkeys(range(40, NUM_ANSWERS, 80), kill_one)) as sandbox:
        scores = UnitTests(sandbox).score_many(answers)
    assert len(killed) == len(set(killed)) == 25
    assert differences(answers, scores, undisturbed) == []
    assert set(descendants(os.getpid())) == others


@pytest.mark.docker
def test_containers_runners_the_daemon_and_its_disk(answers, undisturbed, daemon):
    def kill_containers():
        for container in client.containers.list():
            container.kill()

    def kill_runners():
        for container in client.containers.list():
            for process in container.top()["Processes"]:
                with contextlib.suppress(ProcessLookupError):  # went with another one, or was a program
                    os.kill(int(process[1]), signal.SIGKILL)

    def kill_daemon():
        daemon.kill()
        time.sleep(1.0)
        daemon.start()

    def restart_daemon():
        daemon.stop()
        daemon.start()

    def fill_disk():
        filler = daemon.fill_disk()
        kill_containers()
        time.sleep(3.0)
        filler.unlink()

    troubles = {200: kill_containers, 400: kill_runners, 600: kill_daemon, 1000: restart_daemon, 1400: fill_disk}
    client = daemon.connect()
    try:
        with Troubled(sandboxes.make("docker"), troubles) as sandbox:
            scores = UnitTests(sandbox).score_many(answers)
        assert sandbox.happened == sorted(troubles)
        assert differences(answers, scores, undisturbed) == []
        deadline = time.monotonic() + 20
        while (left := client.containers.list(all=True, ignore_removed=True)) and time.monotonic() < deadline:
            sandboxes.make("docker", workers=1).close()  # whoever comes next sweeps up what a killed daemon could not
            time.sleep(0.2)
        assert left == []
    finally:
        client.close()
