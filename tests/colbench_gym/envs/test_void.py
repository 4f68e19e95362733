"""A failure of the world makes an episode void; it is never a score."""

from __future__ import annotations

import gymnasium as gym
import pytest

import sandboxes
from colbench_gym.errors import ColBenchError, SandboxError, ScoringError, SimulatorError, TaskError

REASON = "{}: the episode has no score; `env.unwrapped.world_error` says why."


def test_a_simulator_that_fails_voids_the_episode(make_env, humans):
    env = make_env(simulator=humans.Mute())
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step("How do you round?")
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["metrics"] == {"outcome": "void", "reason": REASON.format("SimulatorError"), "turns": 1}
    assert isinstance(env.get_wrapper_attr("world_error"), SimulatorError)
    assert env.reset()[1].keys() == {"task_id", "turn", "messages"}


def test_a_sandbox_that_fails_voids_the_episode(make_env, humans, answer):
    env = make_env(sandbox=humans.BrokenSandbox())
    env.reset(seed=0)
    _, _, terminated, truncated, info = env.step(answer)
    assert (terminated, truncated, info["metrics"]["outcome"]) == (False, True, "void")
    assert info["metrics"]["reason"] == REASON.format("SandboxError")
    assert "success" not in info["metrics"] and "tests_passed" not in info["metrics"]
    assert str(env.get_wrapper_attr("world_error")).startswith("The daemon died")


@pytest.mark.parametrize("kind", ["single", "vector"])
def test_a_sandbox_that_is_not_there_voids_the_episode(monkeypatch, total_task, answer, kind):
    def make(name, workers):
        raise sandboxes.SandboxError("Expected a daemon, found none; start it.")

    monkeypatch.setattr(sandboxes, "make", make)
    if kind == "single":
        env = gym.make("ColBench-Backend-v0", tasks=[total_task()], sandbox="docker")
        env.reset(seed=0)
        assert env.step(answer)[4]["metrics"]["reason"] == REASON.format("SandboxError")
        assert str(env.get_wrapper_attr("world_error")) == "Expected a daemon, found none; start it."
        return
    envs = gym.make_vec("ColBench-Backend-v0", num_envs=2, tasks=[total_task()], sandbox="docker")
    envs.reset(seed=0)
    with pytest.raises(SandboxError, match=r"^Expected a daemon, found none; start it\.$"):
        envs.step(["hello", "hello"])
    envs.close()


def test_a_reference_that_cannot_be_graded_voids_the_episode(make_env, total_task, answer):
    env = make_env(tasks=[total_task(reference="def total(prices):\n    return prices[100]")])
    env.reset(seed=0)
    assert env.step(answer)[4]["metrics"]["reason"] == REASON.format("ScoringError")
    error = env.get_wrapper_attr("world_error")
    assert isinstance(error, ScoringError)
    assert str(error) == "Task 'total/0' cannot be graded: 'total([0, 0.125])' gives no value (IndexError)."


def test_raise_leaves_the_episode_as_it_was_so_that_the_step_can_be_repeated(make_env, humans, sandbox):
    env, calm = (make_env(simulator=humans.Mute(always=False), on_world_error="raise") for _ in range(2))
    env.reset(seed=0)
    calm.reset(seed=0)
    with pytest.raises(SimulatorError, match="^The server echoed its prompt"):
        env.step("boom")
    assert env.unwrapped.get_state() == calm.unwrapped.get_state()
    assert env.step("hello") == calm.step("hello")


def test_the_errors_of_the_world_have_one_base():
    assert all(issubclass(kind, ColBenchError) for kind in (TaskError, SimulatorError, SandboxError, ScoringError))
