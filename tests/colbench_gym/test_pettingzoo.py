"""The adapter to PettingZoo, by PettingZoo's own tests."""

from __future__ import annotations

import warnings
from functools import partial

import gymnasium as gym
import pytest

pytest.importorskip("pettingzoo", reason="needs PettingZoo: pip install pettingzoo")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its tests import what it deprecates
    from pettingzoo.test import api_test, seed_test

import colbench_gym  # noqa: F401  (registers the environments)
from colbench_gym.errors import ColBenchError
from colbench_gym.pettingzoo import to_aec

ENVIRONMENTS = [
    ("ColBench-Team-v0", {"roles": "interviewer,coder", "tasks": "embedded:test[:20]"}),
    ("ColBench-Team-v0", {"roles": "generator,verifier,refiner", "tasks": "embedded:test[:20]", "max_turns": 2}),
    ("ColBench-Team-v0", {"roles": "debaters:2x2", "tasks": "embedded:test[:20]", "max_turns": 2}),
    ("ColBench-Split-v0", {"tasks": "embedded:test[:40]"}),
    ("ColBench-AnyTeam-v0", {"env": "LMRL-Wordle-v0"}),
]


def _make(sandbox, name, arguments):
    return to_aec(gym.make(name, **arguments, **({} if "Any" in name else {"sandbox": sandbox})))


@pytest.mark.parametrize(("name", "arguments"), ENVIRONMENTS)
def test_pettingzoos_own_tests_pass(sandbox, name, arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # texts are neither arrays nor boxes, and agents have names without numbers
        env = _make(sandbox, name, arguments)
        api_test(env, num_cycles=15)
        env.close()
        seed_test(partial(_make, sandbox, name, arguments), num_cycles=15)


def test_an_environment_that_names_no_agents_is_refused():
    with pytest.raises(ValueError, match="names no agents: give it an attribute `agents`"):
        to_aec(gym.make("LMRL-Maze-v0"))


def test_an_episode_agent_by_agent(sandbox, total_task, answer):
    env = to_aec(gym.make("ColBench-Team-v0", tasks=[total_task()], sandbox=sandbox, render_mode="ansi"))
    env.reset(seed=0)
    says = {"interviewer": iter(["How do you round?", "HAND OVER: two decimals"]), "coder": iter([answer])}
    total = dict.fromkeys(env.possible_agents, 0.0)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        total[agent] += reward
        is_over = terminated or truncated
        assert is_over or env.observe("coder")["text"] == ("" if agent == "interviewer" else observation["text"])
        assert is_over or info["agent"] == agent
        env.step(None if is_over else next(says[agent]))
    assert total == {"interviewer": 1.0, "coder": 1.0} and "two decimals" in env.render()
    env.close()


@pytest.mark.parametrize("named", [{}, {"agent": "b"}])
def test_an_environment_that_does_not_name_the_next_speaker_is_refused(named):
    class Forgets(gym.Env):
        observation_space = action_space = gym.spaces.Text(9)
        agents = ("a",)

        def reset(self, *, seed=None, options=None):
            return "", {"agent": "a"}

        def step(self, action):
            return "", 0.0, True, False, named

    env = to_aec(Forgets())
    env.reset(seed=0)
    with pytest.raises(
        ColBenchError, match=r"""^Forgets must name in `info\["agent"\]`, .* one of its agents a, got (None|'b').$"""
    ):
        env.step("x")
