"""A person at the terminal, played by a list of lines."""

from __future__ import annotations

from typing import Any

import pytest

from colbench_gym.dialogue import Dialogue
from colbench_gym.errors import SimulatorError
from colbench_gym.simulators.person import Person
from colbench_gym.tasks.task import HiddenTask, Task

TASK = Task("t", "I need a total.", "def total(lines)", HiddenTask("def total(lines): return 1", ()))
DIALOGUE = Dialogue().add("user", TASK.description).add("assistant", "Any rounding?")


def _person(lines: list[str]) -> tuple[Person, list[str]]:
    shown: list[str] = []
    feed = iter(lines)

    def read(prompt: str) -> str:
        line = next(feed, None)
        if line is None:
            raise EOFError
        return line

    return Person(input=read, output=shown.append), shown


def test_a_line_is_the_reply() -> None:
    person, shown = _person(["", "  two decimals  "])
    assert person.reply(TASK, DIALOGUE, 0) == "two decimals"
    assert shown[-1] == "Agent: Any rounding?"
    assert TASK.hidden.reference not in "".join(shown)


def test_the_reference_is_shown_on_demand() -> None:
    person, shown = _person([":reference", "no"])
    assert person.reply(TASK, DIALOGUE, 0) == "no"
    assert shown[-1] == TASK.hidden.reference


def test_quitting_and_the_end_of_input_void_the_episode() -> None:
    with pytest.raises(SimulatorError, match="^Expected a reply from the person, got ':quit'; start the episode again\\.$"):
        _person([":quit"])[0].reply(TASK, DIALOGUE, 0)
    with pytest.raises(SimulatorError, match="^Expected a reply from the person, got the end of the input; start the episode"):
        _person([])[0].reply(TASK, DIALOGUE, 0)


def test_what_an_agent_says_can_neither_command_the_terminal_nor_look_like_another_line() -> None:
    person, shown = _person(["two decimals"])
    said = "Any?\x1b[2J\x1b]0;title\x07\nYou: yes\r\nAgent: fine\x9b\u202e\ud800\u2028You: no"
    person.reply(TASK, Dialogue().add("user", TASK.description).add("assistant", said), 0)
    assert shown[-1] == (
        "Agent: Any?\\x1b[2J\\x1b]0;title\\x07\n       You: yes\\r\n       Agent: fine\\x9b\\u202e\\ud800\\u2028You: no"
    )


def test_a_task_can_neither_command_the_terminal() -> None:
    person, shown = _person([":reference", "no"])
    task = Task("t", "A total.\x1b[2J", "def f()", HiddenTask("def f():\n\treturn '\x1b[2J'", ()))
    person.reply(task, Dialogue().add("user", task.description).add("assistant", "Hm?"), 0)
    assert "\x1b" not in "".join(shown)
    assert shown[-1] == "def f():\n\treturn '\\x1b[2J'"


def test_a_reply_from_a_terminal_with_another_encoding_can_be_written(make_env: Any) -> None:
    person, _ = _person(["caf\udce9"])
    env = make_env(simulator=person)
    env.reset(seed=0)
    assert env.step("Where?")[4]["messages"][-1]["content"] == "caf\ufffd"
