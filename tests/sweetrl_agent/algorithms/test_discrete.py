"""PPO and DQN over actions, in a run folder and in the comparison."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("stable_baselines3")

from sweetrl_agent.compare import main

SMALL = [
    "--tasks", "embedded:train/billing?preset=easy[10:]", "--test_tasks", "embedded:train/billing?preset=easy[:10]", "--unseen_tasks", "", "--credit_tasks", "0",
    "--num_tasks", "0", "--ppo_steps", "3072", "--dqn_steps", "400",
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
