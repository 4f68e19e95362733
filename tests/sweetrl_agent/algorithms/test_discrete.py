"""PPO and DQN over actions, in a run folder and in the comparison."""

from __future__ import annotations

import json
import re

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

from stable_baselines3.common.env_checker import check_env

from colbench_gym.files import read_rows
from examples import own_environment
from sweetrl_agent import run_train
from sweetrl_agent.algorithms.settings import make_config
from sweetrl_agent.compare import main
from sweetrl_agent.envs.registry import find_record

SMALL = [
    "--tasks", "embedded:train/figures?preset=easy[10:]", "--test_tasks", "embedded:train/figures?preset=easy[:10]", "--unseen_tasks", "", "--credit_tasks", "0",
    "--num_tasks", "0", "--ppo.steps", "3072", "--dqn.steps", "400", "--threads", "1",
]  # fmt: skip


@pytest.mark.bubblewrap
def test_agents_discrete_stand_in_the_comparison_and_learn(tmp_path, capsys):
    arguments = ["--algorithms", "random_actions", "dqn", "ppo", "--seeds", "1", "--output", str(tmp_path), *SMALL]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "not language models" in said
    results = json.loads((tmp_path / "results.json").read_text())
    success = {name: split["test"]["success"] for name, split in results["algorithms"].items()}
    assert list(success) == ["random_actions", "dqn", "ppo"]
    assert success["ppo"] > success["random_actions"] + 0.3
    rows = [json.loads(line) for line in (tmp_path / "seed_0" / "metrics.jsonl").read_text().splitlines()]
    curve = [row["reward"] for row in rows if row["stage"] == "ppo"]
    assert len(curve) in (3, 4) and curve[2] > curve[0] + 0.1
    assert results["ledger"]["0"]["ppo"]["environment_turns"] >= 3072
    before = (tmp_path / "seed_0" / "ppo" / "agent.zip").stat().st_mtime_ns
    assert main(arguments) == 0
    assert (tmp_path / "seed_0" / "ppo" / "agent.zip").stat().st_mtime_ns == before
    assert "not language models" in (tmp_path / "report.md").read_text()


@pytest.mark.bubblewrap
@pytest.mark.parametrize("name", ["random_actions", "dqn"])
def test_a_run_evaluates_random_actions_as_its_initial_policy(name, tmp_path):
    sizes = {"num_tasks": 6, "eval_tasks": 4, "sandbox": "embedded", "threads": 1, "dqn": {"steps": 200}}
    results = run_train(algorithm=name, output=tmp_path / "run", unseen_tasks="", **sizes)
    agents = [row["agent"] for row in read_rows(tmp_path / "run" / "evaluation.jsonl")]
    assert agents == ["initial"] * 4 + ["trained"] * 4 and {"initial", "trained"} <= {*results}
    assert not (tmp_path / "run" / "initial").exists() and (tmp_path / "run" / "report.html").exists()
    initial, trained = (
        [row["dialogue_history"] for row in read_rows(tmp_path / "run" / "evaluation.jsonl") if row["agent"] == agent]
        for agent in ("initial", "trained")
    )
    assert (initial == trained) == (name == "random_actions")


def test_discrete_actions_are_refused_on_tasks_that_they_are_not_made_for(tmp_path, capsys):
    (tmp_path / "rows.jsonl").write_text("{}")
    settings = {
        "seeds": 1,
        "output": tmp_path / "run",
        "tasks": tmp_path / "rows.jsonl",
        "credit_tasks": 0,
        "model": "org/model",
    }
    assert main(["--algorithms", "ppo", *(word for name, value in settings.items() for word in (f"--{name}", str(value)))]) == 2
    assert "Discrete actions are made for the embedded tasks of ColBench-Backend-v0, got " in capsys.readouterr().err


class Guesses:
    """A menu of the numbers from 1 to 15; it sees the range that is left."""

    count, observation_size, discount = 15, 2, 0.99

    def _range(self, messages):
        low, high = 1, 15
        for said, reply in zip(messages[1::2], messages[2::2], strict=False):
            guess = int(re.search(r"\d+", said["content"])[0])
            low, high = (max(low, guess + 1), high) if reply["content"] == "Higher." else (low, min(high, guess - 1))
        return low, high

    def observe(self, messages):
        return np.array(self._range(messages), np.float32) / 15

    def say(self, action, messages):
        return f"Is it {action + 1}?"

    def allowed(self, messages):
        low, high = self._range(messages)
        return np.array([low <= number <= high for number in range(1, 16)])


class Menu(own_environment.Guess):
    discrete_actions = Guesses()


gym.register("GuessMenu-v0", entry_point=Menu, disable_env_checker=True)


def test_any_environment_with_discrete_actions_takes_part_beside_language_agents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talks.jsonl").write_text("\n".join(map(json.dumps, own_environment.demonstrations(200))))
    given = {"env": "GuessMenu-v0", "demonstrations": "talks.jsonl", "sft_dialogues": 200, "sft_epochs": 1, "tiny_hidden_size": 32, "tiny_layers": 1,
             "tiny_vocab_size": 400, "max_new_tokens": 12, "eval_tasks": 40, "threads": 1, "ppo.steps": 8192, "seeds": 1, "output": "run"}  # fmt: skip
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    assert main(["--algorithms", "random_actions", "initial", "ppo", *words]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    scores = {name: split["test"]["success"] for name, split in results["algorithms"].items()}
    assert list(scores) == ["random_actions", "initial", "ppo"] and scores["ppo"] > scores["random_actions"] + 0.1


def test_a_dialogue_of_discrete_actions_is_an_environment_with_masks():
    record = find_record("GuessMenu-v0")
    config = make_config(
        {"env": "GuessMenu-v0", "tasks": "seeds:0-9", "test_tasks": "seeds:10-12", "unseen_tasks": "", "model": "hub/name"}
    )
    with record.action_environments(config, record.load_tasks("seeds:0-9", config.task), 2) as (env, _):
        check_env(env, warn=True)
        observation, _ = env.reset(seed=0)
        assert observation.tolist() == pytest.approx([1 / 15, 1.0]) and env.action_masks().all()
        env.step(np.int64(0))
        assert env.action_masks().tolist() == [False, *[True] * 14]


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_equal_trainings_write_equal_files(name, tmp_path):
    """So a file that was lost is written again as it was, and what was made with it stays."""
    files = []
    for folder in ("one", "other"):
        sizes = {"num_tasks": 6, "eval_tasks": 1, "sandbox": "embedded", "threads": 1, name: {"steps": 100}}
        run_train(algorithm=name, output=tmp_path / folder, unseen_tasks="", **sizes)
        files.append((tmp_path / folder / name / "agent.zip").read_bytes())
    assert files[0] == files[1]
