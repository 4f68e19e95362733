"""python -m colbench_gym.play, with a pipe for a player."""

from __future__ import annotations

import subprocess
import sys

import gymnasium as gym
import pytest

from colbench_gym.play import play, read_message
from colbench_gym.simulators import Simulator
from colbench_gym.tasks import HiddenTask, Task, load_tasks

TASK = load_tasks("embedded:test")[0]


def _run(text, *arguments):
    command = [sys.executable, "-m", "colbench_gym.play", "--task-id", TASK.id, *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("one\n\ntwo\nthree\n\n", ["one", "two\nthree"]),
        ("\n\none\n\n\n\ntwo", ["one", "two"]),
        ("a\n```python\nx\n\ny\n```\n\nb\n", ["a\n```python\nx\n\ny\n```", "b"]),
        ("```\nx\n\n", ["```\nx\n"]),
        ("\n \n", []),
    ],
)
def test_an_empty_line_outside_a_fence_sends(text, messages):
    lines = iter(text.splitlines(keepends=True))
    assert list(iter(lambda: read_message(lines), None)) == messages


def test_an_episode_from_a_pipe():
    reference = TASK.hidden.reference.replace("\n", "\n\n")
    result = _run(f"What about rounding?\n\nI WANT TO ANSWER:\n```python\n{reference}\n```\n\n")
    assert result.returncode == 0, result.stderr
    assert f"Human: {TASK.description}\n" in result.stdout
    fact = next(fact for fact in TASK.hidden.facts if fact.topic == "rounding")
    assert f"Human: {fact.sentence}" in result.stdout
    assert result.stdout.endswith("Tests passed: 100%. Outcome: passed, after 2 turns.\n")


def test_the_turn_limit_ends_it():
    result = _run("no idea\n\n", "--max-turns", "1")
    assert result.stdout.endswith("Tests passed: 0%. Outcome: exception:SyntaxError, after 1 turns.\n")


def test_input_that_ends_early_gives_no_result():
    result = _run("What about rounding?\n")
    assert result.returncode == 1
    assert result.stdout.endswith("The input ended before the episode did; there is no result.\n")


def test_wrong_arguments_and_failures_of_the_world_are_said_in_one_line():
    result = _run("", "--tasks", "nowhere.jsonl")
    assert result.returncode == 2 and "Expected a JSONL file of tasks at 'nowhere.jsonl', found none" in result.stderr
    result = _run("", "--tasks", "embedded:unseen")
    assert (
        result.returncode == 1
        and f"error: `task_id` must be the id of one of the {len(load_tasks('embedded:unseen'))} tasks, got {TASK.id!r}."
        in result.stderr
    )
    result = _run("hello\n\n", "--simulator", '{"name": "person"}')  # the pipe is empty when the person is asked
    assert result.returncode == 1 and "error: Expected a reply from the person" in result.stderr
    assert "Traceback" not in result.stderr


def test_what_the_human_says_cannot_command_the_terminal(capsys):
    class Rude(Simulator):
        def reply(self, task, dialogue, seed):
            return "Two\x1b[2J decimals.\r\u202e"

    task = Task("t", "A total.\x1b[2J", "def f()", HiddenTask("def f(): ...", ()))
    with gym.make("ColBench-Backend-v0", tasks=[task], simulator=Rude()) as env:
        play(env, iter(["Rounding?", ""]), 0, None)
    assert capsys.readouterr().out == "Human: A total.\\x1b[2J\n\n\nHuman: Two\\x1b[2J decimals.\\r\\u202e\n\n"


def _game(text, *arguments):
    command = [sys.executable, "-m", "colbench_gym.play", "--env", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def test_a_game_takes_a_line_as_a_message():
    env = gym.make("LMRL-Maze-v0", max_turns=40)
    env.reset(seed=3)
    said, total, is_over = [], 0.0, False
    while not is_over:
        said.append(env.unwrapped.expert_action())
        _, reward, is_over, _, _ = env.step(said[-1])
        total += reward
    result = _game("\n\n".join(said) + "\n", "LMRL-Maze-v0", "--seed", "3", "--max-turns", "40")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("Every line is a message.\n\nThe goal is at position 8, 6.")
    assert result.stdout.endswith(f"[reward 0]\n\nReturn: {total:g}. Won, after {len(said)} turns.\n")
    cut = _game("move up\n", "LMRL-Maze-v0", "--seed", "3")
    assert cut.returncode == 1 and "The input ended before the episode did" in cut.stdout


def test_a_game_refuses_what_only_dialogues_have():
    result = _game("", "LMRL-Wordle-v0", "--simulator", "person")
    assert result.returncode == 2 and "LMRL-Wordle-v0 has no --simulator" in result.stderr
