"""What an environment returns is checked where it returns it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from sweetrl_agent import train
from sweetrl_agent.core import dialogues
from sweetrl_agent.core.contract import ContractError
from sweetrl_agent.core.dialogues import TextDialogue

STEP = {"observation": "Go on.", "reward": 0.5, "terminated": False, "truncated": False, "info": {}}


class Wrong(gym.Env):
    """Goes on for ever, and returns what it is told to."""

    observation_space = action_space = gym.spaces.Text(1000)
    started, stepped, hidden = ("Hello.", {}), STEP, "a word"

    @property
    def hidden_information(self):
        return self.hidden

    def reset(self, *, seed=None, options=None):
        return self.started

    def step(self, action):
        return tuple(self.stepped.values())


gym.register("Wrong-v0", Wrong, disable_env_checker=True, order_enforce=False)


def dialogue(metric="return", max_turns=0, **returned):
    env = Wrong()
    vars(env).update(returned)
    return TextDialogue(env, {"a": 0}, metric, max_turns)


def step_of(**changed):
    one = dialogue(stepped={**STEP, **changed})
    one.reset(options={"task_id": "a"})
    return one.step("x")


@pytest.mark.parametrize("reward", [1, 0.5, True, np.float32(0.5), np.int64(2), np.bool_(True)])
def test_every_finite_number_is_a_reward(reward):
    assert step_of(reward=reward)[1] == float(reward)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("reward", np.array([1.0]), r"the reward of `step` must be a finite number, got array\(\[1\.\]\) \(ndarray\)\."),
        ("reward", None, r"the reward .* got None \(NoneType\)"),
        ("reward", "0.0", r"the reward .* got '0.0' \(str\)"),
        ("reward", float("nan"), r"the reward .* got nan"),
        ("reward", float("inf"), r"the reward .* got inf"),
        ("observation", {"text": "x"}, r"the observation of `step` must be a text \(str\), got {'text': 'x'} \(dict\)"),
        ("observation", None, "the observation .* got None"),
        ("observation", b"x", "the observation .* got b'x'"),
        ("terminated", None, "`terminated` of `step` must be true or false, got None"),
        ("truncated", 0.0, "`truncated` of `step` must be true or false"),
        ("info", None, "the info of `step` must be a mapping, got None"),
        ("info", {"messages": "x"}, r'`info\["messages"\]` of `step` must be a list of messages'),
        ("info", {"messages": [{"content": "x"}]}, 'a message in .* must have "role" and "content"'),
        ("info", {"messages": [{"role": "user", "content": 3}]}, '"content" of a message in .* must be a text'),
    ],
)
def test_a_step_with_something_else_is_refused_in_a_sentence(name, value, says):
    with pytest.raises(ContractError, match=says):
        step_of(**{name: value})


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ({"started": "Hello."}, r"`reset` must return \(observation, info\), got 'Hello.' \(str\)"),
        ({"started": (None, {})}, "the observation of `reset` must be a text"),
        ({"started": ("Hello.", None)}, "the info of `reset` must be a mapping"),
        ({"hidden": None}, "`hidden_information` must be a text"),
        ({"hidden": {"word": 1}}, "`hidden_information` must be a text"),
    ],
)
def test_a_reset_with_something_else_is_refused_before_the_agent_speaks(returned, says):
    with pytest.raises(ContractError, match=says):
        dialogue(**returned).reset(options={"task_id": "a"})


def test_a_step_of_another_length_is_refused():
    one = dialogue(stepped={"observation": "x", "reward": 0.0, "done": True, "info": {}})
    one.reset(options={"task_id": "a"})
    with pytest.raises(ContractError, match=r"`step` must return \(observation, reward, terminated, truncated, info\), got"):
        one.step("x")


@pytest.mark.parametrize(
    ("metric", "info"), [("return", {"success": None}), ("return", {"success": "no"}), ("return", {"is_success": []}), ("grade", {"grade": "A"})]
)  # fmt: skip
def test_a_success_or_metric_that_is_no_number_is_refused(metric, info):
    one = dialogue(metric, 1, stepped={**STEP, "info": info})
    one.reset(options={"task_id": "a"})
    with pytest.raises(ContractError, match=f"{next(iter(info))}.* must be a finite number"):
        one.step("x")


def test_a_dry_run_says_what_is_wrong_without_a_file_of_ours(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(Wrong, "stepped", {**STEP, "reward": None})
    words = ["--env", "Wrong-v0", "--model", "hub/name", "--algorithm", "grpo", "--dry_run", "--output", str(tmp_path / "run")]
    assert train.main(words) == 2
    assert capsys.readouterr().err == (
        "error: `env` 'Wrong-v0' does not keep the contract of environments: the reward of `step` must be a finite number, got None (NoneType).\n"
    )


def test_an_environment_without_spaces_is_refused(capsys, tmp_path):
    gym.register("NoSpace-v0", type("NoSpace", (gym.Env,), {}), disable_env_checker=True)
    words = [
        "--env",
        "NoSpace-v0",
        "--model",
        "hub/name",
        "--algorithm",
        "grpo",
        "--dry_run",
        "--output",
        str(tmp_path / "run"),
    ]
    assert train.main(words) == 2
    assert "`env` 'NoSpace-v0' must have text observations (`gymnasium.spaces.Text`), got None" in capsys.readouterr().err


def test_an_episode_that_may_never_end_is_reported_once(monkeypatch, caplog):
    monkeypatch.setattr(dialogues, "MANY_TURNS", 3)
    one = dialogue()
    one.reset(options={"task_id": "a"})
    for _ in range(5):
        one.step("x")
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("An episode has had 3 turns and goes on")
