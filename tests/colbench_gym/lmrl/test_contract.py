"""What holds for every game: Gymnasium's checker, seeds, snapshots, the expert, the behaviour policies, and that nothing hidden is said."""

from __future__ import annotations

import importlib.util
import json
import random
import warnings

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

import colbench_gym

GAMES = [pytest.param(f"LMRL-{name}-v0", id=name) for name in colbench_gym.LMRL_GAMES]


@pytest.fixture(params=GAMES)
def env(request):
    """A game."""
    if ("Chess" in request.param or "Endgames" in request.param) and importlib.util.find_spec("chess") is None:
        pytest.skip("needs python-chess: `pip install .[chess]`")
    made = gym.make(request.param)
    yield made
    made.close()


def _episode(env, seed, turns=12):
    """An episode of the behaviour policy: everything that `step` returned."""
    observation, info = env.reset(seed=seed)
    act, seen = env.unwrapped.behaviour(random.Random(seed)), [(observation, info)]
    for _ in range(turns):
        seen.append(env.step(act()))
        if seen[-1][2] or seen[-1][3]:
            break
    return seen


def test_gymnasiums_checker_has_nothing_to_say(env):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)


def test_a_seed_gives_one_episode_whatever_ran_before(env):
    first = _episode(env, 5)
    _episode(env, 6, 3)
    assert _episode(env, 5) == first
    assert any(_episode(env, seed) != first for seed in range(6, 12))


def test_a_snapshot_replays_the_future_and_survives_json(env):
    _episode(env, 3, 2)
    env.reset(seed=3)
    act = env.unwrapped.behaviour(random.Random(1))
    env.step(act())
    state = json.loads(json.dumps(env.unwrapped.get_state()))
    key, history = env.unwrapped.state_key, list(env.unwrapped.history)
    hash(key)
    action = act()
    expected = env.step(action)
    _episode(env, 4, 3)
    env.unwrapped.set_state(state)
    assert env.unwrapped.state_key == key and list(env.unwrapped.history) == history
    assert env.unwrapped.step(action) == expected


def test_episodes_end_with_their_figures_and_not_before(env):
    for seed in range(3):
        env.reset(seed=seed)
        total, is_over, turns = 0.0, False, 0
        while not is_over:
            turns += 1
            observation, reward, terminated, truncated, info = env.step(env.unwrapped.expert_action())
            total, is_over = total + reward, terminated or truncated
            assert env.observation_space.contains(observation)
            assert ("metrics" in info) == is_over
        metrics = info["metrics"]
        assert metrics["return"] == pytest.approx(total) and metrics["turns"] == turns <= env.unwrapped.max_turns
        assert metrics["outcome"] == ("ended" if terminated else "cut") and info["success"] == bool(metrics["success"])
        with pytest.raises(gym.error.ResetNeeded):
            env.unwrapped.step("x")


def test_any_text_is_answered(env):
    for action in ("", "\n", "move", "x" * 1000, "é✓", "I WANT TO ANSWER: 1"):
        env.reset(seed=0)
        observation = env.unwrapped.step(action)[0]
        assert env.observation_space.contains(observation)


def test_many_at_once(env):
    envs = gym.make_vec(env.spec.id, num_envs=2)
    first, _ = envs.reset(seed=[1, 2])
    actions = []
    for seed in (1, 2):
        env.reset(seed=seed)
        actions.append(env.unwrapped.expert_action())
    assert len(first) == 2 and len(envs.step(actions)[0]) == 2
    envs.close()


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="`max_turns` must be positive, got 0"):
        gym.make("LMRL-Wordle-v0", max_turns=0)
    with pytest.raises(TypeError, match="must be a text, got int"):
        made = gym.make("LMRL-Wordle-v0").unwrapped
        made.reset(seed=0)
        made.step(3)


def test_an_unknown_option_of_reset_is_refused(env):
    with pytest.raises(ValueError, match=r"^`options` of \w+ may have \(.*\), got 'word'\.$"):
        env.reset(seed=0, options={"word": "x"})
