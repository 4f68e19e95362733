"""Snapshot, restore and fork."""

from __future__ import annotations

import json

import pytest
from gymnasium.utils.env_checker import data_equivalence


def _future(env, answer):
    return [env.step("What then?"), env.step("And then?"), env.step(answer)]


def test_a_snapshot_is_json_and_replays_the_future_in_another_environment(make_env, humans, answer):
    one, two = make_env(simulator=humans.Slow(0)), make_env(simulator=humans.Slow(0))
    one.reset(seed=4)
    middle = one.step("How do you round?")
    state = json.loads(json.dumps(one.unwrapped.get_state()))
    first = _future(one, answer)
    two.reset(seed=11)
    observation, info = two.unwrapped.set_state(state)
    assert (observation, info) == (middle[0], middle[4])
    assert data_equivalence(_future(two, answer), first)
    one.unwrapped.set_state(state)
    assert data_equivalence(_future(one, answer), first)


def test_a_fork_keeps_the_past_and_draws_another_future(make_env, humans, answer):
    env = make_env(simulator=humans.Slow(0))
    env.reset(seed=4)
    env.step("How do you round?")
    state = env.unwrapped.get_state()

    def fork(reseed):
        observation, _ = env.unwrapped.set_state(state, reseed=reseed)
        return observation, _future(env, answer)

    assert fork(1)[0] == fork(2)[0] == fork(None)[0]
    assert not data_equivalence(fork(1)[1], fork(2)[1])
    assert not data_equivalence(fork(1)[1], fork(None)[1])
    assert data_equivalence(fork(1), fork(1))


def test_a_finished_episode_is_restored_as_finished(make_env, answer):
    env = make_env()
    env.reset(seed=0)
    last = env.step(answer)
    state = env.unwrapped.get_state()
    env.reset()
    assert env.unwrapped.set_state(state) == (last[0], last[4])
    with pytest.raises(RuntimeError, match="call `reset` before `step`"):
        env.step("more")


def test_a_snapshot_does_not_change_afterwards(make_env, answer):
    env = make_env()
    env.reset(seed=0)
    state = env.unwrapped.get_state()
    before = json.dumps(state)
    env.step("How do you round?")
    env.step(answer)
    assert json.dumps(state) == before


def test_a_snapshot_of_a_foreign_task_is_refused(make_env, total_task):
    env, other = make_env(), make_env(tasks=[total_task("other/0")])
    other.reset(seed=0)
    expected = r"^The snapshot is of task 'other/0', which is not among this environment's tasks\.$"
    with pytest.raises(ValueError, match=expected):
        env.unwrapped.set_state(other.unwrapped.get_state())
