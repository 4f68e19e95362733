"""One sandbox, one tiny task and humans that misbehave, for all tests of the environment half."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import pytest

import colbench_gym  # noqa: F401
import sandboxes
from colbench_gym.dialogue import Dialogue
from colbench_gym.errors import SimulatorError
from colbench_gym.simulators import Simulator
from colbench_gym.tasks import Fact, HiddenTask, Task
from sandboxes import ExecutionResult, Program, Sandbox

REFERENCE = "def total(prices):\n    return round(sum(prices), 2) if prices else None"
CALLS = tuple(f"total({[i, i + 0.125, *range(i)]})" for i in range(9)) + ("total([])",)
FACTS = (
    Fact("rounding", "Round the total to two decimals.", ("round", "decimals")),
    Fact("empty", "For an empty list return nothing at all.", ("empty",)),
)
CANARY_NAME = "XQ7canaryZ9"
CANARY_CODE = f'def total(prices):\n    """{CANARY_NAME}"""\n    {CANARY_NAME} = 0\n    return sum(prices) + {CANARY_NAME}'
ANSWER = f"I WANT TO ANSWER:\n```python\n{REFERENCE}\n```"


class SlowHuman(Simulator):
    """Replies after a while, with what it was asked and the seed."""

    def __init__(self, seconds: float = 0.05) -> None:
        self.seconds = seconds
        self.is_closed = False

    def reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        time.sleep(self.seconds)
        return f"{task.id} {dialogue.messages[-1].content} {seed}"

    def close(self) -> None:
        self.is_closed = True


class TogetherHuman(Simulator):
    """Humans who reply as soon as so many have been asked, and none before."""

    def __init__(self, count: int) -> None:
        self.barrier = threading.Barrier(count)

    def reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        self.barrier.wait()
        return "It is so."


class MuteHuman(Simulator):
    """Fails when asked about anything that holds "boom", or always; the error quotes what it knows."""

    def __init__(self, always: bool = True) -> None:
        self.always = always

    def reply(self, task: Task, dialogue: Dialogue, seed: int) -> str:
        if self.always or "boom" in dialogue.messages[-1].content:
            raise SimulatorError(f"The server echoed its prompt: {task.hidden.reference}")
        return f"Okay {seed}."


class BrokenSandbox(Sandbox):
    """Can never run anything."""

    def run(self, programs: Any) -> list[ExecutionResult]:
        raise sandboxes.SandboxError(f"The daemon died over {programs[0].source}")

    def guarantees(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        """Nothing to end."""


class CountingSandbox(Sandbox):
    """Passes programs on and keeps them."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.programs: list[Program] = []

    def run(self, programs: Any) -> list[ExecutionResult]:
        self.programs.extend(programs)
        return self._sandbox.run(programs)

    def guarantees(self) -> dict[str, str]:
        return self._sandbox.guarantees()

    def close(self) -> None:
        """The sandbox is user-defined."""


def make_total(name: str = "total/0", reference: str = REFERENCE, calls: tuple[str, ...] = CALLS) -> Task:
    """A task about a total, with facts."""
    return Task(name, "I need the total of my prices.", "def total(prices)", HiddenTask(reference, calls, FACTS))


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """The embedded sandbox with two runners."""
    with sandboxes.make("embedded", workers=2) as sandbox:
        yield sandbox


@pytest.fixture
def make_env(sandbox: Sandbox) -> Iterator[Callable[..., gym.Env[str, str]]]:
    """Function: keyword arguments -> the environment through `gym.make`, on tasks about totals in the shared sandbox."""
    made: list[gym.Env[str, str]] = []

    def make(**arguments: Any) -> gym.Env[str, str]:
        defaults: dict[str, Any] = {"tasks": [make_total(f"total/{i}") for i in range(5)], "sandbox": sandbox}
        made.append(gym.make("ColBench-Backend-v0", **{**defaults, **arguments}))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.fixture
def humans() -> Any:
    """The misbehaving humans and sandboxes, by name."""
    return type(
        "Humans",
        (),
        {
            "Slow": SlowHuman,
            "Together": TogetherHuman,
            "Mute": MuteHuman,
            "BrokenSandbox": BrokenSandbox,
            "Counting": CountingSandbox,
        },
    )


@pytest.fixture
def total_task() -> Callable[..., Task]:
    """Function: id, reference, calls -> a task about a total."""
    return make_total


@pytest.fixture
def answer() -> str:
    """The right answer to a task about a total."""
    return ANSWER


@pytest.fixture
def canary_task() -> Task:
    """A task with the canary in every hidden field."""
    calls = tuple(f"total([{i}])  # {CANARY_NAME}" for i in range(10))
    facts = (Fact(f"topic {CANARY_NAME}", f"{CANARY_NAME} is the rule.", (CANARY_NAME.lower(),)),)
    return Task(
        "canary/0", "I need a total.", "def total(prices)", HiddenTask(CANARY_CODE, calls, facts, {"secret": CANARY_NAME})
    )
