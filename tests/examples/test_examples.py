"""The examples run, in a shorter form than a reader would."""

from __future__ import annotations

import json

import pytest

from examples import frozen_lake, own_algorithm, own_environment, own_tasks, train_sweet

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
METRICS = {own_tasks: "tests_passed"}


@pytest.mark.parametrize("example", [own_environment, frozen_lake, own_tasks])
def test_an_example_trains(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert example.main([*SHORT, "--output", "run"]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["algorithm"] == "grpo" and list(results["seconds"]) == ["sft", "grpo", "evaluate"]
    assert results["trained"]["test"]["void"] == 0 and results["metric"] == METRICS.get(example, "return")
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


def test_an_algorithm_of_ones_own_trains_with_its_own_setting(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = ["--mine_iterations", "2", "--mine_tasks", "4", "--mine_group", "4", "--mine_clip", "0.1"]
    assert own_algorithm.main([*SHORT, *sizes, "--output", "run"]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["algorithm"] == "mine" and list(results["seconds"]) == ["sft", "mine", "evaluate"]
    assert "mine_clip: 0.1" in (tmp_path / "run" / "config.yaml").read_text()


def test_returns_are_standardized_as_grpo_does():
    scaled = own_algorithm.standardized([0.0, 1.0, 1.0, 0.0])
    assert scaled == pytest.approx([-(0.75**0.5), 0.75**0.5, 0.75**0.5, -(0.75**0.5)], abs=1e-4)
    assert own_algorithm.standardized([1.0, 1.0]) == [0.0, 0.0]


def test_sweet_from_python_reads_its_results(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sizes = {
        "sft_dialogues": 200,
        "sft_epochs": 2,
        "num_tasks": 10,
        "num_states": 4,
        "num_candidates": 4,
        "min_best": -1,
        "eval_tasks": 4,
        "threads": 1,
    }
    words = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    assert train_sweet.main([*words, "--output", "run"]) == 0
    said = capsys.readouterr().out
    assert "of 4 test tasks" in said and "--- initial\nuser: " in said and "--- trained\nuser: " in said


def test_the_references_of_own_tasks_pass_their_tests_and_differ(tmp_path):
    import gymnasium as gym

    from sweetrl_agent.data.files import write_rows

    rows = own_tasks.rows(5)
    write_rows(tmp_path / "tasks.jsonl", rows)
    assert len({row["ground_truth"] for row in rows}) == 5
    env = gym.make("ColBench-Backend-v0", tasks=str(tmp_path / "tasks.jsonl"), sandbox="embedded")
    env.reset(options={"task_id": "tasks/0"})
    heard = {question: env.step(question)[4]["messages"][-1]["content"] for question in own_tasks.QUESTIONS}
    assert env.step(own_tasks.answer(heard))[1] == 1.0
    env.reset(options={"task_id": "tasks/1"})
    assert env.step(own_tasks.answer({}))[1] == 0.0
    env.close()
