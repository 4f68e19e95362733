"""What is hidden stays hidden: a canary in the hidden half appears nowhere that an actor can look."""

from __future__ import annotations

import json
import logging

import gymnasium as gym
import pytest

from colbench_gym.tasks import HiddenTask, Task
from tests.colbench_gym.conftest import CANARY_CODE, CANARY_NAME

CANARY, CODE = CANARY_NAME, CANARY_CODE


def _look(env, *steps):
    return "".join(map(repr, (*steps, env, env.unwrapped, env.spec, str(env), env.unwrapped.__class__)))


@pytest.mark.parametrize("end", ["answered", "turn limit", "simulator", "sandbox", "ungradable"])
def test_the_canary_is_nowhere_to_be_seen(make_env, humans, canary_task, end, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    if end == "ungradable":
        hidden = HiddenTask(CODE.replace("return", "raise ValueError"), canary_task.hidden.calls)
        canary_task = Task(canary_task.id, canary_task.description, canary_task.signature, hidden)
    arguments = {"tasks": [canary_task], "render_mode": "ansi", "max_turns": 4}
    if end == "simulator":
        arguments["simulator"] = humans.Mute(always=False)
    if end == "sandbox":
        arguments["sandbox"] = humans.BrokenSandbox()
    env = make_env(**arguments)
    seen = [_look(env, env.reset(seed=0))]
    for action in ("Is there a limit?", "What is the weather?", "boom", "I WANT TO ANSWER: def total(p): return 1"):
        if end == "turn limit":
            action = action.removeprefix("I WANT TO ANSWER:")
        step = env.step(action)
        seen += [_look(env, step), repr(env.render()), json.dumps(env.unwrapped.get_state()), repr(env.unwrapped.task)]
        if step[2] or step[3]:
            break
    assert step[3] == (end in ("simulator", "sandbox", "ungradable"))
    output = capfd.readouterr()
    text = "".join(seen) + caplog.text + output.out + output.err
    assert CANARY.lower() not in text.lower()
    if end in ("simulator", "sandbox", "ungradable"):
        assert CANARY in str(env.get_wrapper_attr("world_error"))


def test_hidden_information_is_had_by_name_only(make_env, sandbox, canary_task):
    env = make_env(tasks=[canary_task])
    env.reset(seed=0)
    assert env.get_wrapper_attr("hidden_information") == CODE
    for arguments in ({}, {"vectorization_mode": "sync"}):
        envs = gym.make_vec("ColBench-Backend-v0", num_envs=2, tasks=[canary_task], sandbox=sandbox, **arguments)
        envs.reset(seed=0)
        assert envs.call("hidden_information") == (CODE, CODE)
        assert CANARY not in repr(envs)
        envs.close()


def test_a_row_keeps_its_own_hidden_information(make_env):
    task = Task("row/0", "A total.", "def f()", HiddenTask("def f(): ...", ("f()",), row={"hidden_information": "in words"}))
    env = make_env(tasks=[task])
    env.reset(seed=0)
    assert env.get_wrapper_attr("hidden_information") == "in words"


def test_the_public_half_has_no_hidden_one(canary_task):
    assert CANARY not in repr(canary_task) + repr(canary_task.public())
    assert not hasattr(canary_task.public(), "hidden")
