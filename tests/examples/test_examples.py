"""The examples run: an environment of one's own and one that somebody else wrote, in a shorter form than a reader would."""

from __future__ import annotations

import json

import pytest

from examples import frozen_lake, own_environment

SHORT = [
    "--sft_dialogues",
    "100",
    "--sft_epochs",
    "1",
    "--grpo_iterations",
    "2",
    "--grpo_group",
    "4",
    "--eval_tasks",
    "5",
    "--threads",
    "1",
]


@pytest.mark.parametrize("example", [own_environment, frozen_lake])
def test_an_example_trains(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert example.main([*SHORT, "--output", "run"]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["algorithm"] == "grpo" and list(results["seconds"]) == ["sft", "grpo", "evaluate"]
    assert results["trained"]["test"]["void"] == 0 and results["metric"] == "return"
    assert (tmp_path / "run" / "report.html").exists()


def test_sweet_takes_the_hidden_number_where_dialogues_differ(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = [
        "--algorithm",
        "sweet",
        "--sft_dialogues",
        "600",
        "--sft_epochs",
        "2",
        "--num_tasks",
        "20",
        "--num_states",
        "10",
        "--num_candidates",
        "4",
        "--output",
        "run",
    ]
    assert own_environment.main([*SHORT, *given]) == 0
    rows = [json.loads(line) for line in (tmp_path / "run" / "outcome_pairs.jsonl").read_text().splitlines()]
    assert rows and all(row["hidden"].startswith("The number is ") for row in rows)
    assert not any("The number is" in json.dumps(row["chosen"]) for row in rows)


def test_halving_the_range_always_finds_the_number():
    env = own_environment.Guess()
    for seed in range(100):
        env.reset(seed=seed)
        low, high, is_right = 1, env.most, False
        for _ in range(env.turns):
            guess = (low + high) // 2
            reply, reward, is_right, _, _ = env.step(f"Is it {guess}?")
            low, high = (guess + 1, high) if reply == "Higher." else (low, guess - 1)
            if is_right:
                break
        assert is_right and reward == 1.0
