"""Wrappers: the last message alone, and the recorder."""

from __future__ import annotations

import json
import warnings

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from colbench_gym.errors import SimulatorError
from colbench_gym.grade import grade_file
from colbench_gym.scoring.unit_tests import UnitTests
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.rows import row_from_task
from colbench_gym.wrappers import LastMessage, TrajectoryRecorder


def _rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_last_message_alone(make_env, answer):
    env = LastMessage(make_env())
    assert env.reset(seed=0)[0] == "I need the total of my prices."
    observation, _, _, _, info = env.step("How do you round?")
    assert observation == "Round the total to two decimals." and len(info["messages"]) == 3
    observation, reward, terminated, _, _ = env.step(answer)
    assert (observation, reward, terminated) == (answer, 1.0, True)


def test_wrapped_environments_pass_the_check_and_have_a_json_spec(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")
        env = TrajectoryRecorder(LastMessage(gym.make("ColBench-Backend-v0")), str(tmp_path / "t.jsonl"))
        check_env(env, skip_render_check=True)
    spec = EnvSpec.from_json(env.spec.to_json())
    again = gym.make(spec)
    assert again.reset(seed=1)[0] == env.reset(seed=1)[0]
    assert [wrapper.name for wrapper in spec.additional_wrappers] == ["LastMessage", "TrajectoryRecorder"]


def test_an_episode_becomes_a_trajectory_row(make_env, total_task, answer, sandbox, tmp_path):
    path = tmp_path / "new" / "t.jsonl"
    env = TrajectoryRecorder(make_env(tasks=[total_task()]), str(path))
    env.reset(seed=0)
    env.step("abandoned")
    env.reset(seed=0)
    env.step("They did not say how.\nOUTPUT: How do you round? „ok“")
    env.step(answer)
    env.reset()
    env.step("I WANT TO ANSWER: def total(p): return None")
    first, second = _rows(path)
    assert first["task"] == row_from_task(total_task()) and first["task_id"] == "total/0"
    assert first["dialogue_history"][1] == {
        "role": "assistant",
        "content": "How do you round? „ok“",
        "output": "They did not say how.\nOUTPUT: How do you round? „ok“",
    }
    assert first["dialogue_history"][2] == {"role": "user", "content": "Round the total to two decimals."}
    assert first["answer"] == answer.removeprefix("I WANT TO ANSWER:").strip() and first["reward"] == 1.0
    assert (second["answer"], second["reward"]) == ("def total(p): return None", 0.1)
    grade_file(path, tmp_path / "scores.jsonl", UnitTests(sandbox), "raise")
    assert [score["tests_passed"] for score in _rows(tmp_path / "scores.jsonl")] == [1.0, 0.1]
    assert [task.hidden.calls for task in load_tasks(str(path))] == [total_task().hidden.calls] * 2


def test_the_row_of_a_real_task_is_kept_without_loss(make_env, total_task, answer, tmp_path):
    source = tmp_path / "rows.jsonl"
    source.write_text(json.dumps({**row_from_task(total_task()), "extra": [1, None]}) + "\n")
    env = TrajectoryRecorder(make_env(tasks=str(source), max_turns=1), str(tmp_path / "t.jsonl"))
    env.reset(seed=0)
    env.step("my thought OUTPUT: OUTPUT: is printed")
    (row,) = _rows(tmp_path / "t.jsonl")
    assert row["task"] == json.loads(source.read_text())
    assert row["answer"] == "OUTPUT: is printed"


def test_void_episodes_are_counted_and_not_recorded(make_env, humans, tmp_path):
    env = TrajectoryRecorder(make_env(simulator=humans.Mute()), str(tmp_path / "t.jsonl"))
    env.reset(seed=0)
    env.step("hello")
    assert env.num_void == 1 and not (tmp_path / "t.jsonl").read_text()
    env = TrajectoryRecorder(make_env(simulator=humans.Mute(), on_world_error="raise"), str(tmp_path / "t.jsonl"))
    env.reset(seed=0)
    with pytest.raises(SimulatorError):
        env.step("hello")


def test_a_restored_past_is_recorded_without_its_thoughts(make_env, answer, tmp_path):
    env = TrajectoryRecorder(make_env(), str(tmp_path / "t.jsonl"))
    env.reset(seed=0)
    env.step("thought OUTPUT: How do you round?")
    state = env.unwrapped.get_state()
    env.reset(seed=0)
    env.step("thought OUTPUT: Something else?")
    env.unwrapped.set_state(state)
    env.step(answer)
    (row,) = _rows(tmp_path / "t.jsonl")
    assert row["dialogue_history"][1] == {"role": "assistant", "content": "How do you round?"}
    assert row["dialogue_history"][3]["output"] == answer


def test_a_line_torn_by_a_crash_is_cut_off(make_env, answer, tmp_path):
    path = tmp_path / "t.jsonl"
    for start, expected in (('{"a": 1}\n{"b": ', 2), ('{"torn', 1), ("", 1)):
        path.write_text(start)
        env = TrajectoryRecorder(make_env(), str(path))
        env.reset(seed=0)
        env.step(answer)
        assert len(_rows(path)) == expected


def test_only_colbench_environments_are_recorded(tmp_path):
    with pytest.raises(TypeError, match=r"^`env` must be a ColBench environment, got CartPoleEnv\.$"):
        TrajectoryRecorder(gym.make("CartPole-v1"), str(tmp_path / "t.jsonl"))
